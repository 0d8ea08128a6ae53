"""Tests of attention_ladder.py with made-up records: python3 -m unittest discover -s benches/peers
"""

import pathlib
import re
import sys
import unittest
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import attention_ladder  # noqa: E402
import compare  # noqa: E402
from page_tests import PageCase  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
RUN = dict(run=dict(device="Some GPU", driver="1.2", commit="abc1234", date="2000-01-01"))
VERSIONS = dict(versions=dict(torch="9.9", cuda="99.0"))
MIB = 2**20


def record(case, value, number=0, **more):
    """Returns a line of results as compare.py stores it."""
    peer = next((peer for peer in ("cudnn", "math") if f"/{peer}/" in case), None)
    impl = f"torch/{peer}" if peer else "ternion"
    return dict(case=f"attention_ladder/{case}", impl=impl, ms=1.0, value=value, unit="TFLOP/s", family="attention_ladder", round=number, **more)


RECORDS = [
    RUN,
    VERSIONS,
    record("f32/d128/full/naive/1024", 0.25, memory_bytes=100 * MIB, moved_bytes=4e9, tokens_per_second=2e6),
    record("f32/d128/full/naive/4096", 0.5, calls=1, memory_bytes=1600 * MIB, moved_bytes=64e9, tokens_per_second=1e6),
    record("f32/d128/full/online_softmax/1024", 4, memory_bytes=10 * MIB, moved_bytes=1e9, tokens_per_second=20e6),
    record("f32/d128/full/math/1024", 5, memory_bytes=200 * MIB),
    record("bf16/d128/full/mma/1024", 200, memory_bytes=5 * MIB),
    record("bf16/d128/full/mma/4096", 250, memory_bytes=20 * MIB),
    record("bf16/d128/full/ping_pong/1024", 400, memory_bytes=5 * MIB),
    record("bf16/d128/full/ping_pong/4096", 600, memory_bytes=20 * MIB),
    record("bf16/d128/full/ternion/1024", 410),
    record("bf16/d128/full/cudnn/1024", 450, memory_bytes=6 * MIB),
    record("bf16/d128/full/cudnn/4096", 640, memory_bytes=24 * MIB),
    record("bf16/d64/causal/mma/1024", 100, memory_bytes=5 * MIB),
    dict(case="attention_ladder/bf16/d64/causal/wgmma/1024", impl="ternion", error="the device lacks\nthe form's instructions", family="attention_ladder", round=0),
    dict(case="ladder/f32/naive/256", impl="ternion", ms=1.0, value=77.0, unit="TFLOP/s", family="ladder", round=0),
]


class Pages(PageCase):
    SCRIPT = attention_ladder

    def table(self, page, first):
        lines = page[page.index(first) :].splitlines()
        return lines[: lines.index("")]

    def test_table_has_row_per_rung_and_column_per_token_count(self):
        page = self.write(RECORDS)
        self.assertIn("Some GPU, driver 1.2, commit abc1234, PyTorch 9.9 with CUDA 99.0, 2000-01-01.", page)
        self.assertEqual(
            self.table(page, "| bf16, width 128, full, TFLOP/s"),
            [
                "| bf16, width 128, full, TFLOP/s | 1024 | 4096 | of PyTorch, cuDNN at 4096 |",
                "| --- | ---: | ---: | ---: |",
                "| mma.sync | 200 | 250 | 39.1 % |",
                "| ping-pong | 400 | 600 | 93.8 % |",
                "| Ternion's attention | 410 |  |  |",
                "| PyTorch, cuDNN | 450 | 640 | 100.0 % |",
            ],
        )
        # The composition has fewer sizes than the rungs: they are compared at its largest one.
        self.assertIn("of PyTorch, math at 1024 |\n| --- | ---: | ---: | ---: |\n| naive | 0.25 | 0.50* | 5.0 % |", page)
        self.assertIn("one call, which took longer than 100 ms", page)
        self.assertIn("- attention_ladder/bf16/d64/causal/wgmma/1024 ternion: the device lacks the form's instructions", page)
        self.assertNotIn("77.0", page)

    def test_quantities_are_of_wide_heads_without_mask(self):
        page = self.write(RECORDS)
        memory = self.table(page, "| width 128, full: memory, MiB |")
        self.assertIn("| f32, naive | 100 | 1600 |", memory)
        self.assertIn("| bf16, PyTorch, cuDNN | 6.00 | 24.0 |", memory)
        self.assertFalse([row for row in memory if "Ternion" in row], "its memory was not recorded")
        self.assertIn("| f32, naive | 4.00 | 64.0 |", self.table(page, "| width 128, full: global memory traffic by the model, GB |"))
        self.assertIn("| f32, online softmax | 20.0 |  |", self.table(page, "| width 128, full: million tokens/s |"))

    def test_missing_quantities_have_no_table(self):
        page = self.write([RUN, record("bf16/d64/causal/mma/1024", 100)])
        self.assertNotIn("MiB", page)
        self.assertNotIn("page-memory.svg", page)
        self.assertFalse((self.path / "page-memory.svg").exists())
        self.assertIn("| mma.sync | 100 |\n", page)
        self.assertIn("No peer was measured in this run: bf16, width 64, causal.", page)
        having = [record("f32/d128/full/naive/1024", 1), record("f32/d128/full/math/1024", 5)]
        self.assertNotIn("No peer", self.write([RUN, *having]))

    def test_only_text_between_markers_changes(self):
        page = self.write(RECORDS)
        self.assertTrue(page.startswith(f"before\n\n{attention_ladder.START}\nSome GPU") and page.endswith(f"{attention_ladder.END}\nafter\n"))
        self.assertNotIn("stale", page)
        self.assertEqual(self.write(RECORDS), page)

    def test_rounds_give_medians_and_earlier_errors_are_dropped(self):
        rounds = [record("f32/d64/full/naive/128", value, number, memory_bytes=MIB) for number, value in enumerate((1.0, 9.0, 3.0))]
        failed = dict(case="attention_ladder/f32/d64/full/naive/128", impl="ternion", error="was interrupted", family="attention_ladder", round=3)
        page = self.write([RUN, failed, *rounds])
        self.assertIn("| naive | 3.00 |", page)
        self.assertNotIn("interrupted", page)

    def names(self, picture):
        drawn = xml.etree.ElementTree.parse(self.path / picture).getroot()
        return [line.find(f"{SVG}title").text for line in drawn.iter(f"{SVG}polyline")]

    def test_rate_picture_has_line_per_rung_of_wide_heads(self):
        self.write(RECORDS)
        names = self.names("page.svg")
        self.assertEqual(len(names), 3 + 4, "f32 and bf16 of width 128")
        self.assertIn("ping-pong: 400 at 1024, 600 at 4096", names)
        self.assertIn("PyTorch, math: 5.00 at 1024", names)

    def test_rungs_of_equal_memory_share_a_line(self):
        self.write(RECORDS)
        names = self.names("page-memory.svg")
        self.assertIn("f32, naive: 100 at 1024, 1600 at 4096", names)
        self.assertIn("bf16, mma.sync and ping-pong: 5.00 at 1024, 20.0 at 4096", names)
        self.assertEqual(len(names), 5)

    def test_memory_axis_is_logarithmic(self):
        panel = attention_ladder.memory_panel(attention_ladder.group_results(RECORDS)[0], 0)
        self.assertAlmostEqual(panel.y(10) - panel.y(100), panel.y(100) - panel.y(1000))
        self.assertEqual(panel.axis_marks(), [1, 10, 100, 1000, 10000])
        self.assertAlmostEqual(panel.y(1), panel.bottom())
        self.assertAlmostEqual(panel.x(2048), (panel.x(1024) + panel.x(4096)) / 2)

    def test_files_without_results_or_of_two_runs_are_rejected(self):
        self.write([RUN, RECORDS[-1]], "no measured case of the ladder of attention")
        self.write([*RECORDS, dict(run=dict(RUN["run"], device="Another"))], "results of different runs: device Some GPU and Another")
        self.page.write_text("no markers")
        self.write(RECORDS, f"expected {attention_ladder.START} and, after it, {attention_ladder.END} once each")
        self.assertEqual(list(self.path.glob("*.svg")), [])


class Families(unittest.TestCase):
    def test_both_programs_measure_same_sizes(self):
        ours = HERE.parent / "gpu/src/attention_ladder.rs"
        if not ours.exists():
            self.skipTest("not in a bundle, which has no sources")
        numbers = r"TOKENS(?:: \[usize; \d+\])? = [\[(]([\d, ]+)[\])]"
        matches = [re.search(numbers, path.read_text()) for path in (ours, HERE / "torch_attention_ladder.py")]
        self.assertTrue(all(matches))
        self.assertEqual(matches[0][1], matches[1][1])
        for path in (ours, HERE / "torch_attention_ladder.py"):
            self.assertIn("= 16 << 30", path.read_text(), "scores that are stored at most")

    def test_page_has_markers(self):
        page = HERE.parent.parent / "docs/kernels/attention-ladder.md"
        if not page.exists():
            self.skipTest("not in a bundle, which has no pages")
        text = page.read_text()
        self.assertEqual((text.count(attention_ladder.START), text.count(attention_ladder.END)), (1, 1))

    def test_ladder_is_measured_only_if_selected(self):
        def families(*arguments):
            before, sys.argv = sys.argv, ["compare.py", "run", "--bundle", ".", *arguments]
            try:
                return compare.parse_arguments().families
            finally:
                sys.argv = before

        self.assertNotIn("attention_ladder", families())
        self.assertEqual(families("--families", "attention_ladder"), ["attention_ladder"])
        with self.assertRaises(SystemExit):
            families("--device", "wgpu", "--families", "attention_ladder")

    def test_family_prefixes_match_no_other_cases(self):
        for family, begins in compare.FAMILIES.items():
            taken = [begin for begin in begins if "attention_ladder/f32/d64/full/naive/128".startswith(begin)]
            self.assertEqual(bool(taken), family == "attention_ladder", family)


if __name__ == "__main__":
    unittest.main()
