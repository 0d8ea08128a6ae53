#!/usr/bin/env python3
"""Tables of experiments that no script repeats: committed records, which are written to the pages.
Most compare forms of a kernel of which only one was kept, so the others are not in the sources.

    experiments.py write           writes every table to its page in docs/
    experiments.py write PAGE ..   only the tables of these pages

A line of experiments.jsonl is a JSON object:

    name      the name of the table, unique; its markers in the page are
              <!-- experiment-NAME:start --> and <!-- experiment-NAME:end -->
    page      the path of the page in the repository
    device    the device of the measurement, as it was recorded
    measured  the commit that was measured; or
    written   the commit that first stated the figures, where the measured commit is not known
    columns   the titles of the columns
    align     for each column "left" or "right"
    rows      lists of cells, as words; figures have their units or take those of their column

Only Python's standard library is needed.
"""

import argparse
import json
import pathlib
import re

from compare import write_atomically
from pages import format_row, replace_between_markers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RECORDS = HERE / "experiments.jsonl"
FIELDS = {"name", "page", "device", "columns", "align", "rows"}
ALIGNMENTS = {"left": "---", "right": "---:"}


def is_words(value):
    return type(value) is str and bool(value.strip()) and "\n" not in value


def validation_error(record):
    """Returns why a line is not a record; None if it is one."""
    if type(record) is not dict:
        return "expected an object"
    commits = record.keys() & {"measured", "written"}
    if len(commits) != 1:
        return f"expected either measured or written, found {len(commits)} of them"
    if missing := sorted(FIELDS - record.keys()):
        return f"expected the field {missing[0]}, found none"
    if unknown := sorted(record.keys() - FIELDS - commits):
        return f"unknown field {unknown[0]}"
    for field in ("name", "page", "device"):
        if not is_words(record[field]):
            return f"{field}: expected words, found {record[field]!r}"
    commit = record[commits.pop()]
    if not (type(commit) is str and re.fullmatch(r"[0-9a-f]{7,40}", commit)):
        return f"expected a commit, found {commit!r}"
    return table_error(record)


def table_error(record):
    """Returns why the table of a record is wrong; None if it is not."""
    columns, align, rows = record["columns"], record["align"], record["rows"]
    if not (type(columns) is list and columns and all(type(title) is str for title in columns)):
        return f"columns: expected titles, found {columns!r}"
    if not (type(align) is list and len(align) == len(columns) and all(each in ALIGNMENTS for each in align)):
        return f"align: expected left or right for each of {len(columns)} columns, found {align!r}"
    if not (type(rows) is list and rows):
        return "rows: expected at least one"
    for number, row in enumerate(rows, 1):
        if not (type(row) is list and len(row) == len(columns) and all(type(cell) is str for cell in row)):
            return f"row {number}: expected {len(columns)} cells, found {row!r}"
        if any("\n" in cell or re.search(r"(?<!\\)\|", cell) for cell in row):
            return f"row {number}: a cell has a line break or a |"
    return None


def read_records(path):
    """Returns the records of a file; an invalid line ends the program, with its line number."""
    records, names = [], set()
    for line_number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            raise SystemExit(f"error: {path}:{line_number}: {error}") from error
        error_text = validation_error(record)
        if not error_text and record["name"] in names:
            error_text = f"a second table {record['name']}"
        if error_text:
            raise SystemExit(f"error: {path}:{line_number}: {error_text}")
        names.add(record["name"])
        records.append(record)
    return records


def markers(record):
    return f"<!-- experiment-{record['name']}:start -->", f"<!-- experiment-{record['name']}:end -->"


def caption(record):
    """Returns a sentence with the device and the commit."""
    if "measured" in record:
        return f"Experiment: {record['device']}, commit {record['measured']}."
    return f"Experiment: {record['device']}, first stated in commit {record['written']}."


def render(record):
    """Returns the text between the markers: the caption and the table."""
    alignment = [ALIGNMENTS[each] for each in record["align"]]
    rows = [record["columns"], alignment, *record["rows"]]
    return "\n".join([caption(record), "", *map(format_row, rows), ""])


def update_page(text, records):
    """Returns a page with the tables of its records between their markers."""
    for record in records:
        text = replace_between_markers(text, markers(record), render(record))
    return text


def write_pages(records, root, pages):
    """Writes the tables of some pages, or of all if `pages` is empty. All texts are generated
    before any is written: an error leaves every page unchanged.
    """
    by_page = {}
    for record in records:
        by_page.setdefault(record["page"], []).append(record)
    if unknown := sorted(set(pages) - by_page.keys()):
        raise SystemExit(f"error: {unknown[0]}: no experiment has this page, expected one of {', '.join(sorted(by_page))}")
    texts = {page: update_page((root / page).read_text(encoding="utf-8"), by_page[page]) for page in (pages or by_page)}
    for page, text in texts.items():
        write_atomically(root / page, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    write_parser = parser.add_subparsers(dest="command", required=True).add_parser("write", help="the tables of the pages")
    write_parser.add_argument("pages", nargs="*", metavar="PAGE", help="docs/kernels/matmul.md, for example")
    arguments = parser.parse_args()
    try:
        write_pages(read_records(RECORDS), ROOT, arguments.pages)
    except OSError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
