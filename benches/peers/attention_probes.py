#!/usr/bin/env python3
"""Experiments with the kernels of attention and of matrix products, and their times: committed
records, which are written to the pages.

    attention_probes.py write attention_probes.jsonl ../../docs/kernels/attention.md
        ../../docs/kernels/matmul.md

A page gets the table of its probes between its markers; the names of those of matrix products
begin with `gemm_`. A line is a JSON object:

    probe     the group of related experiments
    what      the variant that was tried
    device    the device of the measurement, or "not stated"
    written   the commit that first stated the figures; the measured commit is not known
    case      width, mask and tokens, or the product
    tried     the time with the variant; of ratios the minimum and the maximum, null where it is not
              known; of words, what was said
    as_is     the time without it, only for times
    unit      "us" or "ms"; "ratio" of the time with the variant over that without it; "words"
    kept      whether the kernel has the variant: "yes", "no", or "no: " and why

A variant that was kept is compared with the previous kernel, any other with the current kernel. A
variant that is "5 % faster" has a ratio of 0.95, one that is "5 % slower" 1.05. Only Python's
standard library is needed.
"""

import argparse
import json
import pathlib

from compare import replace
from pages import between_markers, row_of

MARKERS = START, END = "<!-- probes:start -->", "<!-- probes:end -->"
FIELDS = ("probe", "what", "device", "written", "case", "tried", "unit", "kept")
TIMES = ("us", "ms")
HEADS = ["what was tried", "device, commit that states it", "case", "its time over that without it", "kept"]
# The probes of a page by the beginning of their names; attention has all others.
OF_PRODUCTS = "gemm_"
PAGES = {"attention.md": False, "matmul.md": True}


def is_time(value):
    return type(value) in (int, float) and value > 0


def is_range(value):
    """Returns whether a value is two ratios, one of which may be unknown."""
    if type(value) is not list or len(value) != 2:
        return False
    known = [one for one in value if one is not None]
    return bool(known) and all(map(is_time, known)) and known == sorted(known)


def fault(record):
    """Returns why a line is not a record; None if it is one."""
    if type(record) is not dict:
        return "expected an object"
    for field in FIELDS:
        if field not in record:
            return f"expected the field {field}, found none"
        if field != "tried" and not (type(record[field]) is str and record[field]):
            return f"{field}: expected words, found {record[field]!r}"
    unit, tried = record["unit"], record["tried"]
    if unit not in (*TIMES, "ratio", "words"):
        return f"unit: expected us, ms, ratio or words, found {unit!r}"
    needed = {*FIELDS, "as_is"} if unit in TIMES else {*FIELDS}
    if needed - record.keys():
        return "expected the field as_is, found none"
    for field in sorted(record.keys() - needed):
        return f"unknown field {field} of a record in {unit}"
    if unit in TIMES and not (is_time(tried) and is_time(record["as_is"])):
        return f"tried, as_is: expected times above 0, found {tried!r}, {record['as_is']!r}"
    if unit == "ratio" and not is_range(tried):
        return f"tried: expected [least, most], found {tried!r}"
    if unit == "words" and not (type(tried) is str and tried):
        return f"tried: expected words, found {tried!r}"
    if record["kept"] not in ("yes", "no") and not record["kept"].startswith("no: "):
        return f"kept: expected yes, no, or no: and why, found {record['kept']!r}"
    return None


def records(path):
    """Returns the records of a file; an invalid line ends the program, with its line number."""
    found = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            raise SystemExit(f"error: {path}:{number}: {error}") from error
        if why := fault(record):
            raise SystemExit(f"error: {path}:{number}: {why}")
        found.append(record)
    return found


def outcome(record):
    """Returns the cell for the time divided by that of the kernel without the variant."""
    unit, tried = record["unit"], record["tried"]
    if unit in TIMES:
        return f"{tried / record['as_is']:.2f} ({tried} {unit} over {record['as_is']})"
    if unit == "words":
        return tried
    least, most = (f"{one:.2f}" if one is not None else None for one in tried)
    return f"up to {most}" if least is None else f"from {least}" if most is None else least if least == most else f"{least} to {most}"


def table(found):
    """Returns rows of records; consecutive rows with the same experiment and device show them once.
    """
    lines, above = [row_of(HEADS), row_of(["---"] * len(HEADS))], (None, None)
    for record in found:
        what, where = record["what"], f"{record['device']}, {record['written']}"
        shown = [what if (what, where) != above else "", where if (what, where) != above else ""]
        lines.append(row_of([*shown, record["case"], outcome(record), record["kept"]]))
        above = what, where
    return "\n".join([*lines, ""])


def page(text, name, found):
    """Returns the page of that name with the table of its probes between the markers."""
    if name not in PAGES:
        raise SystemExit(f"error: {name}: expected a page named {' or '.join(PAGES)}")
    own = [record for record in found if record["probe"].startswith(OF_PRODUCTS) == PAGES[name]]
    if not own:
        raise SystemExit(f"error: no probe of {name} in the file")
    return between_markers(text, MARKERS, table(own))


def write(given):
    found = records(given.records)
    # All texts are generated before any is written: an error leaves every page unchanged.
    written = [(path, page(path.read_text(encoding="utf-8"), path.name, found)) for path in given.pages]
    for path, text in written:
        replace(path, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    written = parser.add_subparsers(dest="command", required=True).add_parser("write", help="the tables of the pages")
    written.add_argument("records", type=pathlib.Path, help="attention_probes.jsonl")
    written.add_argument("pages", type=pathlib.Path, nargs="+", help="attention.md, matmul.md")
    try:
        write(parser.parse_args())
    except OSError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
