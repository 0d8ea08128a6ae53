"""Tests of overhead.py with made-up figures: python3 -m unittest discover -s benches/peers"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import overhead  # noqa: E402

PAGE = f"before\n{overhead.START}\nstale\n{overhead.END}\nafter\n"


def line(case, device="cpu", **more):
    return {"case": case, "device": device, "machine": "M", "commit": "c", "time": "2026-01-01 00:00 UTC", "python": "3.11", "versions": {"torch": "2.11"}, **more}


def call(case, ours, theirs, device="cpu"):
    return line(case, device, nanoseconds={"ternion": ours, "torch": theirs})


class Write(unittest.TestCase):
    def test_calls_are_compared_with_pytorch(self):
        page = overhead.update_page(PAGE, [call("add", 30, 100), call("chain", 30.4, 100), call("add", 30.4, 100, "cuda"), call("chain_backward", 41, 100, "cuda")])
        self.assertIn("| `a + b`, 1 element | cpu | 30 ns | 100 ns | 0.30 | at most 0.3 | yes |", page)
        self.assertIn("recorded for gradients | cpu | 30 ns | 100 ns | 0.30 | at most 0.4 | yes |", page)
        self.assertIn("| `a + b`, 1 element | cuda | 30 ns | 100 ns | 0.30 | at most 0.4 | yes |", page)
        self.assertIn("| cuda | 41 ns | 100 ns | 0.41 | at most 0.4 | **no** |", page)
        self.assertTrue(page.startswith("before\n") and page.endswith("\nafter\n") and "stale" not in page)

    def test_ratio_is_compared_before_rounding(self):
        page = overhead.update_page(PAGE, [call("add", 30.4, 100)])
        self.assertIn("| 0.30 | at most 0.3 | **no** |", page)

    def test_newest_run_is_used(self):
        page = overhead.update_page(PAGE, [call("add", 10, 100), call("add", 20, 100)])
        self.assertIn("| 0.20 |", page)
        self.assertNotIn("| 0.10 |", page)

    def test_python_mnist_is_compared_with_rust(self):
        def row(share, accuracy):
            programs = {"rust": {"test_accuracy": 0.97, "images_per_second": 1000.0}, "python": {"test_accuracy": accuracy, "images_per_second": 1000.0 * share}}
            return overhead.mnist_row(line("mnist_eager", programs=programs, shares=[share, 0.5, 2.0]))

        self.assertIn("| `mnist --eager` | cpu | 97.00 % | 97.00 % | 1000 | 950 | 0.950 | at least 0.95, as accurate | yes |", row(0.95, 0.97))
        self.assertIn("**no**", row(0.949, 0.97))
        self.assertIn("**no**", row(1.0, 0.9699))

    def test_page_without_markers_is_rejected(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "results.jsonl").write_text(json.dumps(call("add", 1, 2)) + "\n")
            (path / "page.md").write_text("no markers\n")
            completed = subprocess.run([sys.executable, str(HERE / "overhead.py"), "write", str(path / "results.jsonl"), str(path / "page.md")], capture_output=True, text=True, check=False)
            self.assertNotEqual(completed.returncode, 0)
            self.assertIn("expected the markers", completed.stderr)


if __name__ == "__main__":
    unittest.main()
