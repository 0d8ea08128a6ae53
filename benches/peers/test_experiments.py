"""Tests of experiments.py: rejected records, the pages, and that no figure is outside of markers:
python3 -m unittest discover -s benches/peers
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / ".ci")]

import experiments  # noqa: E402
import measured  # noqa: E402

# A figure with a unit, and a column title that names one.
FIGURE = re.compile(r"\d (?:ns|us|ms|TFLOP/s|GB/s|tokens/s|images/s)\b")
TITLE = re.compile(r"\b(?:ns|us|ms|microseconds|milliseconds|TFLOP/s|GB/s|tokens/s|images/s)\b")


def record(**changed):
    values = dict(name="tiles", page="page.md", device="Some GPU", written="abc1234", columns=["case", "us"], align=["left", "right"], rows=[["512^3", "4.0"]])
    return {field: value for field, value in {**values, **changed}.items() if value is not None}


def figures_outside_of_blocks(text, page="page.md"):
    """Returns the line numbers of table rows with figures that are in no generated block."""
    generated = {number for _, start, end in measured.blocks(text, page) for number in range(start, end)}
    lines, found, has_unit = text.splitlines(), [], False
    for number, line in enumerate(lines):
        if not line.startswith("|"):
            has_unit = False
        elif number not in generated:
            is_title = number + 1 < len(lines) and re.match(r"\|[ :|-]+\|$", lines[number + 1])
            has_unit |= bool(is_title and TITLE.search(line))
            if FIGURE.search(line) or has_unit and not is_title and re.search(r"\|\s*\d", line):
                found.append(number + 1)
    return found


class Faults(unittest.TestCase):
    def test_invalid_records_are_rejected(self):
        for changed, why in (
            (dict(written=None), "either measured or written, found 0"),
            (dict(measured="abc1234"), "either measured or written, found 2"),
            (dict(written="today"), "expected a commit, found 'today'"),
            (dict(device=" "), "device: expected words"),
            (dict(rows=None), "expected the field rows"),
            (dict(rows=[]), "expected at least one"),
            (dict(rows=[["512^3"]]), "row 1: expected 2 cells"),
            (dict(rows=[["512^3", 4.0]]), "row 1: expected 2 cells"),
            (dict(rows=[["a | b", "4"]]), "row 1: a cell has a line break or a |"),
            (dict(align=["left"]), "align: expected left or right for each of 2 columns"),
            (dict(columns=[]), "columns: expected titles"),
            (dict(speed=1), "unknown field speed"),
        ):
            self.assertIn(why, experiments.validation_error(record(**changed)))
        self.assertIsNone(experiments.validation_error(record()))
        self.assertEqual(experiments.validation_error([]), "expected an object")

    def test_a_wrong_line_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "records.jsonl"
            for second, why in ((json.dumps(record()), "a second table tiles"), ("{", "Expecting property name")):
                path.write_text(json.dumps(record()) + "\n" + second + "\n")
                with self.assertRaisesRegex(SystemExit, f":2: {why}"):
                    experiments.read_records(path)


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.page = self.root / "page.md"
        start, end = experiments.markers(record())
        self.page.write_text(f"before\n{start}\nstale\n{end}\nafter\n")

    def test_table_is_written(self):
        experiments.write_pages([record()], self.root, [])
        expected = "Experiment: Some GPU, first stated in commit abc1234.\n\n| case | us |\n| --- | ---: |\n| 512^3 | 4.0 |\n"
        self.assertIn(expected, self.page.read_text())
        self.assertNotIn("stale", self.page.read_text())

    def test_measured_commit(self):
        self.assertEqual(experiments.caption(record(written=None, measured="abc1234")), "Experiment: Some GPU, commit abc1234.")

    def test_a_page_without_markers_changes_nothing(self):
        before = self.page.read_text()
        with self.assertRaisesRegex(SystemExit, "experiment-other:start"):
            experiments.write_pages([record(), record(name="other")], self.root, [])
        self.assertEqual(self.page.read_text(), before)

    def test_unknown_page(self):
        with self.assertRaisesRegex(SystemExit, "no experiment has this page, expected one of page.md"):
            experiments.write_pages([record()], self.root, ["docs/other.md"])

    def test_committed_pages_are_current(self):
        for entry in experiments.read_records(experiments.RECORDS):
            text = (ROOT / entry["page"]).read_text(encoding="utf-8")
            self.assertEqual(experiments.update_page(text, [entry]), text, f"{entry['page']}: run experiments.py write")

    def test_every_block_has_a_record(self):
        names = {(entry["page"], entry["name"]) for entry in experiments.read_records(experiments.RECORDS)}
        for page, text in documents():
            for name, _, _ in measured.blocks(text, page):
                if name.startswith(measured.EXPERIMENT):
                    self.assertIn((page, name.removeprefix(measured.EXPERIMENT)), names)


class Figures(unittest.TestCase):
    def test_no_table_has_figures_outside_of_generated_blocks(self):
        found = [f"{page}:{line}" for page, text in documents() for line in figures_outside_of_blocks(text, page)]
        self.assertEqual(found, [], "figures come from records: add them to experiments.jsonl")

    def test_a_typed_figure_is_found(self):
        table = "| case | time |\n|---|---|\n| 512 | 4.0 us |\n"
        self.assertEqual(figures_outside_of_blocks(table), [3])
        self.assertEqual(figures_outside_of_blocks("| case | time, us |\n|---|---|\n| 512 | 4.0 |\n"), [3])
        self.assertEqual(figures_outside_of_blocks(f"<!-- a:start -->\n{table}<!-- a:end -->\n"), [])
        self.assertEqual(figures_outside_of_blocks("| file | 16 bytes |\n|---|---|\n| a | 4 |\n"), [])


def documents():
    """Returns the path and the text of each committed document."""
    names = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [(name, (ROOT / name).read_text(encoding="utf-8")) for name in names]


if __name__ == "__main__":
    unittest.main()
