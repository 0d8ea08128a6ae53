"""Tests of attention_probes.py: the text of records, rejected records, and the pages: python3 -m
unittest discover -s benches/peers
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import attention_probes  # noqa: E402

DOCS = HERE.parents[1] / "docs" / "kernels"
RECORDS = HERE / "attention_probes.jsonl"
PAGE = f"before\n\n{attention_probes.START}\nstale\n{attention_probes.END}\nafter\n"


def record(**changed):
    return dict(probe="tiles", what="a form", device="Some GPU", written="abc1234", case="width 64", as_is=4, tried=5, unit="us", kept="no") | changed


def ratio(least, most):
    result = record(unit="ratio", tried=[least, most])
    del result["as_is"]
    return result


class Cells(unittest.TestCase):
    def test_times_have_ratio(self):
        self.assertEqual(attention_probes.format_ratio(record()), "1.25 (5 us over 4)")
        self.assertEqual(attention_probes.format_ratio(record(tried=3.4, as_is=2.8, unit="ms")), "1.21 (3.4 ms over 2.8)")

    def test_ratio_ranges_may_be_open(self):
        result = [attention_probes.format_ratio(ratio(*pair)) for pair in ((0.94, 1.02), (1.08, 1.08), (None, 1.01), (0.98, None))]
        self.assertEqual(result, ["0.94 to 1.02", "1.08", "up to 1.01", "from 0.98"])

    def test_repeated_experiments_are_shown_once(self):
        rows = attention_probes.render_table([record(), record(case="width 128"), record(device="Other GPU")]).splitlines()[2:]
        self.assertEqual(rows[0], "| a form | Some GPU, abc1234 | width 64 | 1.25 (5 us over 4) | no |")
        self.assertEqual(rows[1], "|  |  | width 128 | 1.25 (5 us over 4) | no |")
        self.assertEqual(rows[2], "| a form | Other GPU, abc1234 | width 64 | 1.25 (5 us over 4) | no |")


class Faults(unittest.TestCase):
    def test_invalid_records_are_rejected(self):
        for changed, why in (
            (dict(tried=0), "expected times above 0"),
            (dict(unit="ratio"), "unknown field as_is"),
            (dict(unit="s"), "unit: expected us, ms, ratio or words"),
            (dict(kept="perhaps"), "kept: expected"),
            (dict(device=""), "device: expected words"),
            (dict(speed=1), "unknown field speed"),
        ):
            self.assertIn(why, attention_probes.validation_error(record(**changed)))
        self.assertIn("[least, most]", attention_probes.validation_error(ratio(1.1, 1.0)))
        self.assertIn("[least, most]", attention_probes.validation_error(ratio(None, None)))
        self.assertIsNone(attention_probes.validation_error(record()))

    def test_all_fields_are_required(self):
        for field in record():
            result = record()
            del result[field]
            self.assertIn(f"expected the field {field}, found none", attention_probes.validation_error(result))


class Page(unittest.TestCase):
    def run_write(self, lines, names=("attention.md", "matmul.md")):
        """Returns the pages after `write` of these lines, and the script's output."""
        with tempfile.TemporaryDirectory() as folder:
            paths, results = [pathlib.Path(folder, name) for name in names], pathlib.Path(folder, "probes.jsonl")
            for path in paths:
                path.write_text(PAGE)
            results.write_text("".join(json.dumps(line) + "\n" for line in lines))
            command = [sys.executable, str(HERE / "attention_probes.py"), "write", str(results), *map(str, paths)]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            return [path.read_text() for path in paths], run

    def test_each_page_has_its_own_probes(self):
        (attention, products), run = self.run_write([record(what="of attention"), record(what="of products", probe="gemm_tiles")])
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(["of attention" in attention, "of products" in attention], [True, False])
        self.assertEqual(["of attention" in products, "of products" in products], [False, True])
        self.assertTrue(attention.startswith("before\n") and attention.endswith(attention_probes.END + "\nafter\n"))

    def test_missing_field_is_reported_with_line_number(self):
        lacking = record()
        del lacking["device"]
        texts, run = self.run_write([record(), lacking])
        self.assertEqual((texts, run.returncode), ([PAGE, PAGE], 1))
        self.assertIn("probes.jsonl:2: expected the field device, found none", run.stderr)

    def test_other_pages_and_pages_without_probes_are_rejected(self):
        texts, run = self.run_write([record()], ("attention.md", "other.md"))
        self.assertEqual((texts, run.returncode), ([PAGE, PAGE], 1))
        self.assertIn("other.md: expected a page named attention.md or matmul.md", run.stderr)
        texts, run = self.run_write([record()])
        self.assertEqual((texts, run.returncode), ([PAGE, PAGE], 1))
        self.assertIn("no probe of matmul.md", run.stderr)

    def test_pages_are_up_to_date(self):
        result = attention_probes.read_records(RECORDS)
        for name in attention_probes.IS_MATMUL_PAGE:
            text = (DOCS / name).read_text(encoding="utf-8")
            self.assertEqual(attention_probes.update_page(text, name, result), text, name)


if __name__ == "__main__":
    unittest.main()
