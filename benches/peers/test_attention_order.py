"""attention_order.py with records that were never measured: python3 -m unittest discover -s benches/peers"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import attention_order  # noqa: E402
import compare  # noqa: E402

RUN = dict(run=dict(device="Some GPU", driver="1.2", commit="abc1234", date="2000-01-01"))


def record(case, impl, milliseconds, **more):
    return dict(case=f"order/{case}", impl=impl, ms=milliseconds, value=1.0, unit="TFLOP/s", family="order", round=0, **more)


RECORDS = [
    RUN,
    record("bf16/d64/t512/full", "ternion", 1.2),
    record("bf16/d64/t512/full", "ternion", 1.0),
    record("bf16/d64/t512/full", "ternion", 1.1),
    record("bf16/d64/t512/full", "ternion/unordered", 1.0, at_once_ms=1.0, lagging_ms=1.05),
    record("bf16/d64/t512/full", "torch/cudnn", 1.3),
    record("bf16/d64/t512/causal", "ternion", 2.0),
    dict(case="order/bf16/d64/t512/full", impl="torch/flash", error="RuntimeError: none\nat all", family="order", round=0),
    record("bf16/d64/t512/causal", "torch/flash", 0.5),
]


class Table(unittest.TestCase):
    def test_medians_are_of_all_turns(self):
        found = attention_order.medians(RECORDS)
        self.assertEqual(found["order/bf16/d64/t512/full"]["ternion"], dict(ms=1.1))
        self.assertEqual(found["order/bf16/d64/t512/full"]["ternion/unordered"], dict(ms=1.0, at_once_ms=1.0, lagging_ms=1.05))

    def test_a_row_tells_the_price_and_what_lacks_is_empty(self):
        _, _, full, causal = attention_order.table(attention_order.medians(RECORDS))
        self.assertEqual(full, "| `bf16/d64/t512/full` | 1.100 | 1.000 | +10.0 % | 1.000 | 1.050 | 1.300 | - |")
        self.assertEqual(causal, "| `bf16/d64/t512/causal` | 2.000 | - | - | - | - | - | 0.500 |")

    def test_the_page_has_the_table_and_what_failed(self):
        with tempfile.TemporaryDirectory() as folder:
            page, results = pathlib.Path(folder, "page.md"), pathlib.Path(folder, "order.jsonl")
            page.write_text(f"before\n{attention_order.START}\nold\n{attention_order.END}\nafter\n")
            results.write_text("".join(json.dumps(line) + "\n" for line in RECORDS))
            script = [sys.executable, str(HERE / "attention_order.py"), "write"]
            subprocess.run([*script, str(results), str(page)], check=True)
            text = page.read_text()
            results.write_text(json.dumps(RUN) + "\n")
            refused = subprocess.run([*script, str(results), str(page)], capture_output=True, text=True)
        self.assertIn("Some GPU, driver 1.2, commit abc1234, 2000-01-01.", text)
        self.assertIn("- order/bf16/d64/t512/full torch/flash: RuntimeError: none at all\n", text)
        self.assertNotIn("old", text)
        self.assertTrue(text.endswith(f"{attention_order.END}\nafter\n"))
        self.assertIn("no measured case of the order", refused.stderr)

    def test_it_is_a_family_that_is_measured_where_it_is_named(self):
        self.assertEqual(compare.FAMILIES["order"], ["order/"])
        self.assertIn("order", compare.APART)
        self.assertIn("order", compare.OF_CUDA)


if __name__ == "__main__":
    unittest.main()
