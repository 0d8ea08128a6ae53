"""compare.py with programs that only pretend: python3 -m unittest discover -s benches/peers"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import tables  # noqa: E402

PAGE = f"# Benchmarks\n\n## CPU\n\nkept\n\n## GPU\n\n{tables.START}\nstale\n{tables.END}\n\nkept too\n"

# Prints a line for each prefix after --only; `start` prints what compare.py waits for.
PRETENDED = """#!/usr/bin/env python3
import json, sys
impl, factor = {impl!r}, {factor}
given = sys.argv[1:]
if "start" in given or "--start" in given:
    print(json.dumps({{"first": 1.0}}))
    sys.exit()
if "-c" in given:
    sys.exit(1)
only = given[given.index("--only") + 1:]
only = only[: next((at for at, text in enumerate(only) if text.startswith("--")), len(only))]
if impl == "torch":
    print(json.dumps({{"versions": {{"torch": "2.0", "cuda": "13.0", "cudnn": 91900}}}}))
for prefix in only:
    name = {{"copy/": "copy/d2d", "elementwise/": "elementwise/add/f32", "host/": "host/add"}}.get(prefix)
    if name:
        unit = "us/op" if name.startswith("host") else "GB/s"
        print(json.dumps({{"case": name, "impl": impl, "ms": 0.1 * factor, "value": 1000 / factor, "unit": unit}}))
    if prefix == "softmax/":
        print("something fell over", file=sys.stderr)
        sys.exit(3)
"""


def line(case, impl, milliseconds, value, unit="GB/s", family=None):
    return dict(case=case, impl=impl, ms=milliseconds, value=value, unit=unit, family=family or case.split("/")[0], round=0)


class Tables(unittest.TestCase):
    def test_only_what_is_between_the_markers_changes(self):
        page = tables.page(PAGE, [line("elementwise/add/f32", "ternion", 0.1, 1000)])
        self.assertTrue(page.startswith("# Benchmarks\n\n## CPU\n\nkept\n\n## GPU\n\n" + tables.START))
        self.assertTrue(page.endswith(tables.END + "\n\nkept too\n"))
        self.assertNotIn("stale", page)
        again = tables.page(page, [line("elementwise/add/f32", "ternion", 0.1, 1000)])
        self.assertEqual(page, again)

    def test_a_page_without_markers_is_refused(self):
        for text in ("", tables.START, tables.END + tables.START, PAGE + PAGE):
            with self.assertRaises(SystemExit):
                tables.page(text, [line("elementwise/add/f32", "ternion", 0.1, 1000)])

    def test_ratios_shares_and_losses(self):
        text = tables.body(
            [
                line("copy/d2d", "ternion", 0.1, 2000, family="elementwise"),
                line("elementwise/add/f32", "ternion", 0.2, 1500),
                line("elementwise/add/f32", "torch", 0.1, 3000),
                line("elementwise/add/f32", "torch/compile", 0.4, 750),
            ]
        )
        self.assertIn("| case | Ternion | rate | of copy | torch | torch/compile |", text)
        self.assertIn("| elementwise/add/f32 | 0.200 ms | 1,500 GB/s | 0.75 | 0.100 ms (**2.00**) | 0.400 ms (0.50) |", text)
        self.assertIn("128 MiB | 0.750 (elementwise/add/f32; 0 of 1 reach it) | at least 0.85 | **no** |", text)
        self.assertIn("| gemm/f32/nn/4096: rate over cuBLAS |  | at least 0.85 | not measured |", text)

    def test_a_share_is_also_told_of_a_copy_of_as_many_bytes(self):
        text = tables.body([line("reduce/sum_all/bf16", "ternion", 0.1, 900), line("reduce/sum_all/bf16", "copy", 0.09, 1000)])
        self.assertIn("| sum, bf16: least share of the bandwidth of a copy of as many bytes | 0.900 (reduce/sum_all/bf16; 1 of 1 reach it) | at least 0.85 | yes |", text)
        self.assertIn("| reduce/sum_all/bf16 | 0.100 ms | 900 GB/s | 90.00 us (**1.11**) |", text)

    def test_a_share_is_of_the_copy_beside_it(self):
        figures = tables.Figures(
            [
                line("copy/d2d", "ternion", 0.1, 2000, family="reduce"),
                line("copy/d2d", "ternion", 0.1, 1000, family="softmax"),
                line("softmax/fwd/f32", "ternion", 0.1, 900),
            ]
        )
        self.assertEqual(figures.share("softmax", figures.get("softmax/fwd/f32", "ternion")), 0.9)

    def test_rounds_give_medians_and_errors_stay_unless_measured(self):
        lines = [line("elementwise/add/f32", "ternion", ms, 1 / ms) for ms in (0.3, 0.1, 0.2)]
        lines.append(dict(case="softmax/", impl="cudnn_softmax", error="no cudnn.h", family="softmax", round=0))
        lines.append(dict(case="elementwise/add/f32", impl="ternion", error="once", family="elementwise", round=0))
        figures = tables.Figures(lines)
        self.assertEqual(figures.get("elementwise/add/f32", "ternion")["ms"], 0.2)
        self.assertEqual(figures.errors, {("softmax", "softmax/", "cudnn_softmax"): "no cudnn.h"})
        self.assertIn("- softmax/ cudnn_softmax: no cudnn.h", tables.body(lines))

    def test_training_is_told_in_both_ways_and_judged(self):
        case = "train/mnist_mlp/f32/b64"
        text = tables.body(
            [
                line(case, "ternion/eager", 0.2, 1, "images/s"),
                line(case, "ternion/graph", 0.02, 1, "images/s"),
                line(case, "torch/graph", 0.04, 1, "images/s"),
                line("launches/" + case, "ternion/eager", 0.0, 17.0, "launches", "train"),
            ]
        )
        self.assertIn(f"| {case} (graph) | 20.00 us | 1 images/s | 40.00 us (0.50) |", text)
        self.assertIn(f"| launches/{case} |  | 17 launches |  |", text)
        self.assertIn(f"| {case} recorded: time over PyTorch's recorded | 0.50 | below 1 | yes |", text)


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for name, impl, factor in (("ternion-bench", "ternion", 1), ("python", "torch", 2)):
            path = self.root / name
            path.write_text(PRETENDED.format(impl=impl, factor=factor))
            path.chmod(0o755)
        (self.root / "bundle.json").write_text('{"commit": "abc1234"}')

    def tearDown(self):
        self.folder.cleanup()

    def run_compare(self, *more):
        command = [sys.executable, str(HERE / "compare.py"), "run", "--bundle", str(self.root), "--python", str(self.root / "python")]
        command += ["--out", str(self.root / "results.jsonl"), "--starts", "3", *more]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout, [json.loads(text) for text in (self.root / "results.jsonl").read_text().splitlines()]

    def test_every_program_is_run_and_what_fails_is_told(self):
        printed, lines = self.run_compare("--families", "start", "host", "elementwise", "softmax")
        found = {(one["family"], one["case"], one["impl"]): one for one in lines if "case" in one}
        for impl in ("ternion", "torch"):
            self.assertIn(("elementwise", "elementwise/add/f32", impl), found)
            self.assertIn(("softmax", "copy/d2d", impl), found)
            self.assertIn("exit status 3: something fell over", found["softmax", "softmax/", impl]["error"])
        self.assertIn("error", found["softmax", "softmax/", "cudnn_softmax"])
        for key in (("start/cold", "ternion"), ("start/warm", "ternion"), ("start/context", "driver"), ("start/warm", "torch")):
            self.assertGreater(found["start", *key]["ms"], 0)
        self.assertEqual(lines[0]["run"]["commit"], "abc1234")
        self.assertIn("softmax: ", printed)
        page = self.root / "page.md"
        page.write_text(PAGE)
        subprocess.run([sys.executable, str(HERE / "compare.py"), "write", str(self.root / "results.jsonl"), str(page)], check=True)
        self.assertIn("| elementwise/add/f32 | 0.100 ms | 1,000 GB/s | 1.00 | 0.200 ms (0.50) |", page.read_text())

    def test_a_run_goes_on_where_it_was_cut_off(self):
        self.run_compare("--families", "host")
        with open(self.root / "results.jsonl", "a") as file:
            file.write(json.dumps(line("elementwise/gelu/f32", "ternion", 0.1, 1)) + '\n{"case": "elementwise/add')
        printed, lines = self.run_compare("--resume", "--families", "host", "elementwise")
        self.assertNotIn("host: ", printed)
        self.assertIn("elementwise: ", printed)
        cases = [(one["case"], one["impl"]) for one in lines if "case" in one]
        self.assertEqual(cases.count(("host/add", "ternion")), 1)
        self.assertNotIn(("elementwise/gelu/f32", "ternion"), cases, "of a family that was cut off")

    def test_damage_inside_a_results_file_is_told(self):
        results = self.root / "results.jsonl"
        results.write_text('{"case": "cut\n' + json.dumps(line("host/add", "ternion", 0.1, 1)) + "\n")
        page = self.root / "page.md"
        page.write_text(PAGE)
        done = subprocess.run([sys.executable, str(HERE / "compare.py"), "write", str(results), str(page)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("results.jsonl:1: expected a JSON object", done.stderr)
        self.assertEqual(page.read_text(), PAGE)


if __name__ == "__main__":
    unittest.main()
