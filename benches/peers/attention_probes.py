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

from compare import write_atomically
from pages import format_row, replace_between_markers

MARKERS = START, END = "<!-- probes:start -->", "<!-- probes:end -->"
FIELDS = ("probe", "what", "device", "written", "case", "tried", "unit", "kept")
TIMES = ("us", "ms")
COLUMN_TITLES = ["what was tried", "device, commit that states it", "case", "its time over that without it", "kept"]
# The probes of a page by the beginning of their names; attention has all others.
MATMUL_PREFIX = "gemm_"
IS_MATMUL_PAGE = {"attention.md": False, "matmul.md": True}


def is_time(value):
    return type(value) in (int, float) and value > 0


def is_range(value):
    """Returns whether a value is two ratios, one of which may be unknown."""
    if type(value) is not list or len(value) != 2:
        return False
    known = [bound for bound in value if bound is not None]
    return bool(known) and all(map(is_time, known)) and known == sorted(known)


def validation_error(record):
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


def read_records(path):
    """Returns the records of a file; an invalid line ends the program, with its line number."""
    records = []
    for line_number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            raise SystemExit(f"error: {path}:{line_number}: {error}") from error
        if error_text := validation_error(record):
            raise SystemExit(f"error: {path}:{line_number}: {error_text}")
        records.append(record)
    return records


def format_ratio(record):
    """Returns the cell for the time divided by that of the kernel without the variant."""
    unit, tried = record["unit"], record["tried"]
    if unit in TIMES:
        return f"{tried / record['as_is']:.2f} ({tried} {unit} over {record['as_is']})"
    if unit == "words":
        return tried
    low, high = (f"{bound:.2f}" if bound is not None else None for bound in tried)
    return f"up to {high}" if low is None else f"from {low}" if high is None else low if low == high else f"{low} to {high}"


def render_table(records):
    """Returns rows of records; consecutive rows with the same experiment and device show them once.
    """
    lines, previous = [format_row(COLUMN_TITLES), format_row(["---"] * len(COLUMN_TITLES))], (None, None)
    for record in records:
        experiment, source = record["what"], f"{record['device']}, {record['written']}"
        cells = [experiment if (experiment, source) != previous else "", source if (experiment, source) != previous else ""]
        lines.append(format_row([*cells, record["case"], format_ratio(record), record["kept"]]))
        previous = experiment, source
    return "\n".join([*lines, ""])


def update_page(text, name, records):
    """Returns the page of that name with the table of its probes between the markers."""
    if name not in IS_MATMUL_PAGE:
        raise SystemExit(f"error: {name}: expected a page named {' or '.join(IS_MATMUL_PAGE)}")
    page_records = [record for record in records if record["probe"].startswith(MATMUL_PREFIX) == IS_MATMUL_PAGE[name]]
    if not page_records:
        raise SystemExit(f"error: no probe of {name} in the file")
    return replace_between_markers(text, MARKERS, render_table(page_records))


def write_pages(args):
    records = read_records(args.records)
    # All texts are generated before any is written: an error leaves every page unchanged.
    pages = [(path, update_page(path.read_text(encoding="utf-8"), path.name, records)) for path in args.pages]
    for path, text in pages:
        write_atomically(path, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    write_parser = parser.add_subparsers(dest="command", required=True).add_parser("write", help="the tables of the pages")
    write_parser.add_argument("records", type=pathlib.Path, help="attention_probes.jsonl")
    write_parser.add_argument("pages", type=pathlib.Path, nargs="+", help="attention.md, matmul.md")
    try:
        write_pages(parser.parse_args())
    except OSError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
