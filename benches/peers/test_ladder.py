"""Tests of ladder.py with made-up records: python3 -m unittest discover -s benches/peers"""

import json
import pathlib
import subprocess
import sys
import unittest
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import charts  # noqa: E402
import compare  # noqa: E402
import ladder  # noqa: E402
from page_tests import PageCase  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
RUN = dict(run=dict(device="Some GPU", driver="1.2", commit="abc1234", date="2000-01-01"))
VERSIONS = dict(versions=dict(torch="9.9", cuda="99.0"))


def line(case, value, number=0, **more):
    """Returns a line of results as compare.py stores it."""
    impl = "torch/cublas" if "cublas" in case else "ternion"
    return dict(case=f"ladder/{case}", impl=impl, ms=1.0, value=value, unit="TFLOP/s", family="ladder", round=number, **more)


RECORDS = [
    RUN,
    VERSIONS,
    line("f32/naive/256", 0.25, tile="32x32x32"),
    line("f32/naive/1024", 0.5, calls=1),
    line("f32/autotuned_tile/256", 4, tile="small", tiles=dict(small=1.0, large=2.0)),
    line("f32/autotuned_tile/1024", 30, tile="large", tiles=dict(small=2.0, large=1.0)),
    line("f32/ternion/256", 5),
    line("f32/ternion/1024", 39.5),
    line("bf16/mma_sync/256", 20),
    line("bf16/mma_sync/1024", 400),
    line("f32/cublas/256", 6),
    line("f32/cublas/1024", 40),
    line("bf16/cublas/1024", 500),
    dict(case="ladder/bf16/multicast/256", impl="ternion", error="the device lacks\nthe form's instructions", family="ladder", round=0),
    dict(case="gemm/f32/nn/4096", impl="ternion", ms=1.0, value=1.0, unit="TFLOP/s", family="gemm", round=0),
]


class Pages(PageCase):
    SCRIPT = ladder

    def test_table_has_row_per_rung_and_column_per_size(self):
        page = self.write(RECORDS)
        self.assertIn("Some GPU, driver 1.2, commit abc1234, PyTorch 9.9 with CUDA 99.0, 2000-01-01.", page)
        table = page[page.index("| f32, TFLOP/s") :].splitlines()
        self.assertEqual(
            table[:6],
            [
                "| f32, TFLOP/s | 256 | 1024 | of cuBLAS at 1024 |",
                "| --- | ---: | ---: | ---: |",
                "| naive | 0.25 | 0.50* | 1.2 % |",
                "| autotuned tile | 4.00 | 30.0 | 75.0 % |",
                "| Ternion's product | 5.00 | 39.5 | 98.8 % |",
                "| cuBLAS | 6.00 | 40.0 | 100.0 % |",
            ],
        )
        self.assertIn("| mma.sync | 20.0 | 400 | 80.0 % |\n| cuBLAS |  | 500 | 100.0 % |", page)
        self.assertIn("one call, which took longer than 100 ms", page)
        self.assertIn("| 256 | small | 4.00 |\n| 1024 | large | 30.0 |", page)
        self.assertIn("- ladder/bf16/multicast/256 ternion: the device lacks the form's instructions", page)
        self.assertNotIn("gemm/", page)

    def test_only_text_between_markers_changes(self):
        page = self.write(RECORDS)
        self.assertTrue(page.startswith(f"before\n\n{ladder.START}\nSome GPU") and page.endswith(f"{ladder.END}\nafter\n"))
        self.assertNotIn("stale", page)
        self.assertEqual(self.write(RECORDS), page)

    def test_rounds_give_medians_and_earlier_errors_are_dropped(self):
        rounds = [line("f32/naive/256", value, number, tiles={}, tile=str(value)) for number, value in enumerate((1.0, 9.0, 3.0))]
        failed = dict(case="ladder/f32/naive/256", impl="ternion", error="was interrupted", family="ladder", round=3)
        page = self.write([RUN, failed, *rounds])
        self.assertIn("| naive | 3.00 |  |", page)
        self.assertIn("| 256 | 3.0 | 3.00 |", page)
        self.assertNotIn("interrupted", page)

    def test_picture_has_labeled_line_per_rung(self):
        self.write(RECORDS)
        drawn = xml.etree.ElementTree.parse(self.path / "page.svg").getroot()
        lines = {line.find(f"{SVG}title").text.split(":")[0]: line for line in drawn.iter(f"{SVG}polyline")}
        self.assertEqual(len(list(drawn.iter(f"{SVG}polyline"))), 6, "three and cuBLAS of f32, one and cuBLAS of bf16")
        self.assertIn("autotuned tile: 4.00 at 256, 30.0 at 1024", [line.find(f"{SVG}title").text for line in lines.values()])
        self.assertEqual(lines["cuBLAS"].get("stroke-dasharray"), "7 4")
        self.assertIsNone(lines["naive"].get("stroke-dasharray"))
        texts = [text.text for text in drawn.iter(f"{SVG}text")]
        self.assertEqual(texts.count("cuBLAS"), 2)
        self.assertTrue({"naive", "autotuned tile", "mma.sync", "Ternion's product", "256", "1024"} <= set(texts))
        # The middle between 256 and 1024 is 512, because the axis is logarithmic.
        panel = ladder.render_panel(ladder.build_ladders(RECORDS)[0][0], 0)
        self.assertAlmostEqual(panel.x(512), (panel.x(256) + panel.x(1024)) / 2)
        self.assertLess(panel.y(2), panel.y(1), "more is higher up")

    def test_labels_do_not_overlap(self):
        wanted = [100.0, 101.0, 99.0, 395.0, 399.0, 0.0]
        heights = charts.spread_labels(wanted, 40, 400)
        ordered = sorted(heights)
        self.assertTrue(all(after - before >= charts.SPACING - 1e-9 for before, after in zip(ordered, ordered[1:])), ordered)
        self.assertTrue(40 <= ordered[0] and ordered[-1] <= 400, ordered)
        order = sorted(range(len(wanted)), key=lambda at: wanted[at])
        self.assertEqual(sorted(range(len(wanted)), key=lambda at: heights[at]), order)
        self.assertEqual(charts.spread_labels([50.0, 90.0], 40, 400), [50.0, 90.0])

    def test_axes_have_round_marks(self):
        for most, step in ((40, 10), (63, 10), (85, 20), (525, 100), (0.5, 0.1), (4, 1)):
            self.assertAlmostEqual(charts.axis_step(most), step, msg=str(most))

    def test_pages_without_markers_and_files_without_results_are_rejected(self):
        self.write([RUN, RECORDS[-1]], "no measured case of the ladder")
        self.write([*RECORDS, dict(run=dict(RUN["run"], device="Another"))], "results of different runs: device Some GPU and Another")
        self.assertFalse((self.path / "page.svg").exists())
        self.page.write_text("no markers")
        self.write(RECORDS, f"expected {ladder.START} and, after it, {ladder.END} once each")
        self.assertFalse((self.path / "page.svg").exists())
        self.page.unlink()
        command = [sys.executable, str(HERE / "ladder.py"), "write", "results.jsonl", "page.md"]
        completed = subprocess.run(command, capture_output=True, text=True, cwd=self.path, check=False)
        self.assertTrue(completed.stderr.startswith("error: ") and "page.md" in completed.stderr, completed.stderr)


    def test_missing_results_file_is_an_error(self):
        before = self.write(RECORDS)
        drawn = (self.path / "page.svg").read_text()
        (self.path / "results.jsonl").write_text(json.dumps(line("f32/naive/256", 9.0)) + "\n")
        command = [sys.executable, str(HERE / "ladder.py"), "write", "results.jsonl", "typo.jsonl", "page.md"]
        completed = subprocess.run(command, capture_output=True, text=True, cwd=self.path, check=False)
        self.assertEqual((completed.returncode, completed.stderr), (1, "error: typo.jsonl: expected a results file, found none\n"))
        self.assertEqual((self.page.read_text(), (self.path / "page.svg").read_text()), (before, drawn))


class Families(unittest.TestCase):
    def test_both_programs_measure_same_sizes(self):
        sizes = "256, 512, 1024, 2048, 4096, 8192"
        ours = HERE.parent / "gpu/src/ladder.rs"
        if not ours.exists():
            self.skipTest("not in a bundle, which has no sources")
        self.assertIn(f"= [{sizes}];", ours.read_text())
        self.assertIn(f"({sizes}):\n            product_case", (HERE / "torch_cases.py").read_text())

    def test_ladder_is_measured_only_if_selected(self):
        def families(*arguments):
            command = ["compare.py", "run", "--bundle", ".", *arguments]
            before, sys.argv = sys.argv, command
            try:
                return compare.parse_arguments().families
            finally:
                sys.argv = before

        self.assertNotIn("ladder", families())
        self.assertIn("gemm", families())
        self.assertEqual(families("--families", "ladder"), ["ladder"])
        with self.assertRaises(SystemExit):
            families("--device", "wgpu", "--families", "ladder")


if __name__ == "__main__":
    unittest.main()
