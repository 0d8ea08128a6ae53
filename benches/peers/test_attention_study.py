"""Tests of attention_study.py with made-up records: python3 -m unittest discover -s benches/peers
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import attention_study  # noqa: E402
import compare  # noqa: E402

RUN = dict(run=dict(device="Some GPU", driver="1.2", commit="abc1234", date="2000-01-01"))


def line(case, impl, milliseconds, **more):
    return dict(case=case, impl=impl, ms=milliseconds, value=1.0, unit="TFLOP/s", family="attention_study", round=0, **more)


ORDER = [
    RUN,
    line("order/bf16/d64/t512/full", "ternion", 1.2),
    line("order/bf16/d64/t512/full", "ternion", 1.0),
    line("order/bf16/d64/t512/full", "ternion", 1.1),
    line("order/bf16/d64/t512/full", "ternion/unordered", 1.0, at_once_ms=1.0, lagging_ms=1.05),
    line("order/bf16/d64/t512/full", "torch/cudnn", 1.3),
    line("order/bf16/d64/t512/causal", "ternion", 2.0),
    dict(case="order/bf16/d64/t512/full", impl="torch/flash", error="RuntimeError: none\nat all", family="attention_study", round=0),
    line("order/bf16/d64/t512/causal", "torch/flash", 0.5),
]
TILES = [
    RUN,
    line("forward_tiles/bf16/d64/t512/full", "ternion", 1.02, few_ms=1.2, many_ms=1.0),
    line("forward_tiles/bf16/d64/t512/full", "torch/cudnn", 1.1),
    line("forward_tiles/bf16/d192/t512/causal", "torch/flash", 0.5),
]
PAGE = "before\n<!-- tiles:start -->\nold tiles\n<!-- tiles:end -->\nbetween\n<!-- order:start -->\nold order\n<!-- order:end -->\nafter\n"


class Tables(unittest.TestCase):
    def test_medians_are_over_all_turns(self):
        times = attention_study.medians(ORDER + TILES, "order/")
        self.assertEqual(times["bf16/d64/t512/full"]["ternion"], dict(ms=1.1))
        self.assertEqual(times["bf16/d64/t512/full"]["ternion/unordered"], dict(ms=1.0, at_once_ms=1.0, lagging_ms=1.05))
        self.assertEqual(list(times), ["bf16/d64/t512/full", "bf16/d64/t512/causal"])

    def test_order_row_has_increase_and_dashes_if_unmeasured(self):
        order, _, _ = attention_study.TABLES
        _, _, full, causal = order.rows(attention_study.medians(ORDER, order.prefix))
        self.assertEqual(full, "| `bf16/d64/t512/full` | 1.100 | 1.000 | +10.0 % | 1.000 | 1.050 | 1.300 | - |")
        self.assertEqual(causal, "| `bf16/d64/t512/causal` | 2.000 | - | - | - | - | - | 0.500 |")

    def test_tile_row_has_both_tiles_and_increase(self):
        _, tiles, _ = attention_study.TABLES
        header, _, full, causal = tiles.rows(attention_study.medians(TILES, tiles.prefix))
        self.assertEqual(header, "| case | few-key tiles, ms | many-key tiles, ms | Ternion, ms | vs. faster tiles | cuDNN, ms | flash, ms |")
        self.assertEqual(full, "| `bf16/d64/t512/full` | 1.200 | 1.000 | 1.020 | +2.0 % | 1.100 | - |")
        self.assertEqual(causal, "| `bf16/d192/t512/causal` | - | - | - | - | - | 0.500 |")

    def test_matmul_row_has_each_method(self):
        *_, products = attention_study.TABLES
        lines = [line("f32_products/bwd/d64/t512/full", "ternion", 1.0, fused_ms=1.5, parts_ms=1.0, tf32_ms=0.5)]
        header, _, row = products.rows(attention_study.medians(lines, products.prefix))
        self.assertEqual(header, "| case | FMA, ms | bf16x6, ms | TF32, ms | FMA / bf16x6 | Ternion, ms |")
        self.assertEqual(row, "| `bwd/d64/t512/full` | 1.500 | 1.000 | 0.500 | 1.50 | 1.000 |")


class Page(unittest.TestCase):
    def write_results(self, lines):
        """Returns the page's text and the completed process."""
        with tempfile.TemporaryDirectory() as folder:
            page, results = pathlib.Path(folder, "page.md"), pathlib.Path(folder, "study.jsonl")
            page.write_text(PAGE)
            results.write_text("".join(json.dumps(line) + "\n" for line in lines))
            script = [sys.executable, str(HERE / "attention_study.py"), "write", str(results), str(page)]
            run = subprocess.run(script, capture_output=True, text=True)
            return page.read_text(), run

    def test_page_has_table_and_errors(self):
        text, run = self.write_results(ORDER)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("Some GPU, driver 1.2, commit abc1234, 2000-01-01.", text)
        self.assertIn("- order/bf16/d64/t512/full torch/flash: RuntimeError: none at all\n", text)
        self.assertNotIn("old order", text)
        self.assertIn("old tiles", text)
        self.assertTrue(text.endswith("<!-- order:end -->\nafter\n"))

    def test_both_tables_come_from_one_file(self):
        text, run = self.write_results(ORDER + TILES[1:])
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("old", text)
        self.assertEqual(text.count("Some GPU"), 2)

    def test_results_without_cases_leave_page_unchanged(self):
        text, run = self.write_results([RUN])
        self.assertEqual((text, run.returncode), (PAGE, 1))
        self.assertIn("no measured case of the study", run.stderr)

    def test_family_is_measured_only_if_selected(self):
        self.assertEqual(compare.FAMILIES["attention_study"], ["order/", "forward_tiles/", "f32_products/"])
        self.assertIn("attention_study", compare.OPT_IN_FAMILIES)
        self.assertIn("attention_study", compare.CUDA_ONLY_FAMILIES)


if __name__ == "__main__":
    unittest.main()
