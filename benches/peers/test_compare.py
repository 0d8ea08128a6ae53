"""Tests of compare.py with fake programs: python3 -m unittest discover -s benches/peers"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import checks  # noqa: E402
import compare  # noqa: E402
import tables  # noqa: E402
import wgpu_tables  # noqa: E402
from test_tables import PAGE, line  # noqa: E402

WGPU_PAGE = PAGE + "{}\nNo run yet.\n{}\n\nthe end\n".format(*wgpu_tables.MARKERS)

# Prints a line for each prefix after --only, or with --serve for each requested case; `start`
# prints what compare.py waits for.
FAKE_PROGRAM = """#!/usr/bin/env python3
import json, os, pathlib, sys
impl, factor = {impl!r}, {factor}
given = sys.argv[1:]
if {{"start", "--start", "--once"}} & set(given):
    with open(pathlib.Path(sys.argv[0]).with_name("starts.txt"), "a") as file:
        print(pathlib.Path(os.environ.get("TERNION_CACHE", "none")).name, os.environ.get("CUDA_CACHE_DISABLE"), file=file)
if "start" in given or "--start" in given:
    print(json.dumps({{"first": 1.0}}))
    sys.exit()
if "-c" in given:
    sys.exit(1)
if "--once" in given:
    # Fails if the cache exists.
    os.mkdir(os.environ["TERNION_CACHE"])
    pathlib.Path(os.environ["TERNION_CACHE"], "kernel.cubin").touch()
    case = given[given.index("--case") + 1]
    print(json.dumps({{"case": case, "impl": impl + "/eager", "ms": 0.1, "value": 1, "unit": "tokens/s"}}))
    sys.exit()
if "--device" in given:
    impl = "ternion-" + given[given.index("--device") + 1].split(":")[0]
    print(json.dumps({{"adapter": "Some GPU, Vulkan (driver 1)", "clock": "timestamps"}}))
only = given[given.index("--only") + 1:]
only = only[: next((at for at, text in enumerate(only) if text.startswith("--")), len(only))]
if impl == "torch":
    print(json.dumps({{"versions": {{"torch": "2.0", "cuda": "13.0", "cudnn": 91900}}}}))
names = {{
    "copy/": ["copy/d2d"],
    "elementwise/": ["elementwise/add/f32"],
    "host/": ["host/add"],
    "softmax/": ["softmax/fwd/f32"],
    "gemm/": ["gemm/bf16/nn/1000", "gemm/bf16/nn/1000x1000x1000", "gemm/bf16/nn/2048"],
}}
cases = [name for prefix in only for name in names.get(prefix, [])]

def measure(name):
    if name.startswith("softmax/"):
        print("something fell over", file=sys.stderr)
        sys.exit(3)
    with open(pathlib.Path(sys.argv[0]).with_name("requests.txt"), "a") as file:
        file.write(f"{{impl}} {{name}}\\n")
    unit = "us/op" if name.startswith("host") else "GB/s"
    print(json.dumps({{"case": name, "impl": impl, "ms": 0.1 * factor, "value": 1000 / factor, "unit": unit}}))

if "--serve" in given:
    print(json.dumps({{"cases": cases}}), flush=True)
    for request in sys.stdin:
        name = request.strip()
        measure(name)
        print(json.dumps({{"done": name}}), flush=True)
else:
    for name in cases:
        measure(name)
"""


class WgpuTables(unittest.TestCase):
    def render_lines(self, *lines):
        return [text for text in wgpu_tables.render([{"adapter": "Some GPU, Vulkan (driver 1)", "clock": "timestamps"}, *lines]).splitlines()]

    def verdict(self, what, *lines):
        return next(text for text in self.render_lines(*lines) if text.startswith(f"| {what}"))

    def test_case_is_compared_with_copies_cuda_and_pytorch(self):
        text = self.render_lines(
            line("copy/d2d", "ternion-wgpu", 0.1, 2000, family="elementwise"),
            line("copy/d2d", "ternion-wgpu/command", 0.2, 1000, family="elementwise"),
            line("copy/d2d", "ternion-wgpu/shader", 0.1, 2000, family="elementwise"),
            line("copy/d2d", "ternion", 0.05, 4000, family="elementwise"),
            line("elementwise/add/f32", "ternion-wgpu", 0.2, 1400),
            line("elementwise/add/f32", "copy-wgpu", 0.16, 1750),
            line("elementwise/add/f32", "ternion", 0.1, 2800),
            line("elementwise/add/f32", "copy", 0.1, 2800),
            line("elementwise/add/f32", "torch", 0.4, 700),
        )
        self.assertEqual(text[0], "### wgpu on Some GPU")
        self.assertIn("| case | Ternion wgpu | rate | of copy | CUDA | copy | torch |", text)
        self.assertIn("| elementwise/add/f32 | 0.200 ms | 1,400 GB/s | 0.70 | 0.100 ms (**2.00**) | 0.160 ms (**1.25**) | 0.400 ms (0.50) |", text)
        self.assertIn("| copy/d2d (command) | 0.200 ms | 1,000 GB/s | 0.50 | 50.00 us (**4.00**) |  |  |", text)
        self.assertIn("| elementwise, f32: smallest fraction of the bandwidth of a copy of 128 MiB | 0.700 (elementwise/add/f32; 0 of 1 reach it) | at least 0.75 | **no** |", text)
        self.assertIn("| elementwise, f32: smallest fraction of the bandwidth of a copy of as many bytes | 0.800 (elementwise/add/f32; 1 of 1 reach it) | at least 0.75 | yes |", text)
        self.assertIn("| AdamW, f32: smallest fraction of the bandwidth of a copy of 128 MiB |  | at least 0.75 | not measured |", text)

    def test_matmul_verdicts_use_rates(self):
        def of(case, rate):
            return self.verdict(case, line(case, "ternion-wgpu", 1.0, rate, "TFLOP/s"), line(case, "ternion", 0.1, 450, "TFLOP/s"))

        self.assertEqual(of("gemm/f32/nn/4096", 42.0), "| gemm/f32/nn/4096 | 42.0 TFLOP/s | at least 42 TFLOP/s | yes |")
        self.assertTrue(of("gemm/f32/nn/4096", 41.9).endswith("| **no** |"))
        self.assertTrue(of("gemm/f16/nn/4096", 149.0).endswith("| at least 150 TFLOP/s | **no** |"))
        self.assertTrue(self.verdict("gemm/f16/nn/4096").endswith("| not measured |"))

    def test_attention_must_be_faster_than_composition_in_all_cases(self):
        def of(case, ours, composed, by_hand=None):
            times = {"ternion-wgpu": ours, "ternion-wgpu-composed": composed, "ternion-wgpu-by-hand": by_hand}
            return [line(f"attention/{case}", impl, ms, 1, "TFLOP/s") for impl, ms in times.items() if ms]

        faster, slower = of("fwd/a", 1.0, 2.0), of("fwd/b", 3.0, 2.0)
        what, stricter = "attention: time over that of its composition", "attention: time over that of one by hand"
        self.assertTrue(self.verdict(what, *faster).endswith("| 0.50 (attention/fwd/a; 1 of 1 are below 1) | below 1 at every size | yes |"))
        self.assertTrue(self.verdict(what, *faster, *slower).endswith("| 1.50 (attention/fwd/b; 1 of 2 are below 1) | below 1 at every size | **no** |"))
        failed = dict(case="attention/fwd/b", impl="ternion-wgpu-composed", error="no memory", family="attention", round=0)
        self.assertIn("1 of 1 are below 1, 1 not measured) | below 1 at every size | not measured |", self.verdict(what, *faster, slower[0], failed))
        self.assertTrue(self.verdict(what).endswith("| not measured |"))
        # If core's composition was not measured, the other one is used instead, which also has a
        # separate line.
        both, alone = of("bwd/c", 1.0, 4.0, 0.8), of("bwd/d", 1.0, None, 1.25)
        self.assertTrue(self.verdict(what, *both, *alone).endswith("| 0.80 (attention/bwd/d; 2 of 2 are below 1) | below 1 at every size | yes |"))
        self.assertTrue(self.verdict(stricter, *both, *alone).endswith("| 1.25 (attention/bwd/c; 1 of 2 are below 1) | below 1 at every size | **no** |"))

    def test_launches_are_compared_with_cuda(self):
        case = "launches/train/mnist_mlp/f32/b64"
        text = self.render_lines(line(case, "ternion-wgpu/eager", 0.0, 23, "launches", "train"), line(case, "ternion/eager", 0.0, 20, "launches", "train"))
        self.assertIn(f"| {case} |  | 23 launches | 20 launches |", text)

    def test_checks_are_reported(self):
        table = dict(checks.parse_tests(WGPU_TABLE, "wgpu:0"), check="table")
        self.assertEqual((table["cases"], table["not_applicable"]), (68997, 1250))
        render_lines = self.render_lines(table)
        self.assertTrue(any("| 68,997 cases, 0 tests failed, 413 left out, as WGSL has no f64 (commit unknown) | all pass | yes |" in text for text in render_lines), render_lines)
        lacking = dict(checks.parse_tests(WGPU_TABLE.replace("WGSL has no 64-bit floats", "no kernel").replace("f64:", "f32:"), "wgpu:0"), check="table")
        for other in (dict(table, failed=1), dict(table, cases=0), dict(table, cases=None), dict(table, error="exit status 1"), lacking):
            self.assertTrue(any("op table" in text and "**no**" in text for text in self.render_lines(other)), other)
        ours, theirs = (dict(check=name, test_accuracy=0.9727, final_loss=0.05) for name in ("mnist", "mnist_cpu"))
        for lines, holds in (((ours, theirs), "yes"), ((ours, dict(theirs, test_accuracy=0.9801)), "**no**"), ((ours,), "not measured"), ((), "not measured")):
            self.assertTrue(any("MNIST" in text and text.endswith(f"| {holds} |") for text in self.render_lines(*lines)), holds)

    def test_only_wgpu_section_changes(self):
        lines = [{"run": {"backend": "wgpu"}}, line("elementwise/add/f32", "ternion-wgpu", 0.1, 1)]
        self.assertTrue(wgpu_tables.has_wgpu_results(lines))
        self.assertFalse(wgpu_tables.has_wgpu_results([{"run": {"device": "one"}}, lines[1]]))
        page = wgpu_tables.update_page(WGPU_PAGE, lines)
        self.assertTrue(page.startswith(PAGE + wgpu_tables.MARKERS[0]) and page.endswith(wgpu_tables.MARKERS[1] + "\n\nthe end\n"))
        self.assertNotIn("No run yet", page)
        with self.assertRaises(SystemExit):
            wgpu_tables.update_page(PAGE, lines)


class Write(unittest.TestCase):
    def test_missing_results_file_is_an_error(self):
        for script in ("compare", "ladder", "attention_ladder", "curves", "overhead", "programs"):
            with self.subTest(script), tempfile.TemporaryDirectory() as folder:
                page, good = pathlib.Path(folder, "page.md"), pathlib.Path(folder, "good.jsonl")
                page.write_text(PAGE)
                good.write_text(json.dumps(line("elementwise/add/f32", "ternion", 0.1, 1)) + "\n")
                command = [sys.executable, str(HERE / f"{script}.py"), "write", str(good), f"{folder}/typo.jsonl", str(page)]
                completed = subprocess.run(command, capture_output=True, text=True, check=False)
                self.assertEqual((completed.returncode, completed.stderr), (1, f"error: {folder}/typo.jsonl: expected a results file, found none\n"))
                self.assertEqual(page.read_text(), PAGE)
                self.assertEqual(sorted(path.name for path in pathlib.Path(folder).iterdir()), ["good.jsonl", "page.md"])


class Order(unittest.TestCase):
    def test_host_rounds_are_spread_over_run(self):
        steps = compare.schedule(["start", "host", "gemm", "softmax"], 1)
        self.assertEqual(steps, [("start", 0), ("host", 0), ("host", 1), ("gemm", 0), ("softmax", 0), ("host", 2)])
        self.assertEqual(compare.schedule(["gemm"], 2), [("gemm", 0), ("gemm", 1)])
        self.assertEqual(len(compare.schedule(["host"], 5)), 5)


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for name, impl, factor in (("ternion-bench", "ternion", 1), ("python", "torch", 2)):
            path = self.root / name
            path.write_text(FAKE_PROGRAM.format(impl=impl, factor=factor))
            path.chmod(0o755)
        (self.root / "bundle.json").write_text('{"commit": "abc1234"}')

    def tearDown(self):
        self.folder.cleanup()

    def run_compare(self, *more, error=""):
        command = [sys.executable, str(HERE / "compare.py"), "run", "--bundle", str(self.root), "--python", str(self.root / "python")]
        command += ["--out", str(self.root / "results.jsonl"), "--starts", "3", *more]
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((completed.returncode, completed.stderr[:60]), (1, error[:60]) if error else (0, ""), completed.stderr)
        return completed.stdout, [json.loads(text) for text in (self.root / "results.jsonl").read_text().splitlines()]

    def test_all_programs_run_and_failures_are_reported(self):
        error = "error: incomplete, --resume measures again: softmax 0 (ternion, torch)\n"
        printed, lines = self.run_compare("--families", "start", "host", "elementwise", "softmax", error=error)
        found = {(record["family"], record["case"], record["impl"]): record for record in lines if "case" in record}
        for impl in ("ternion", "torch"):
            self.assertIn(("elementwise", "elementwise/add/f32", impl), found)
            self.assertIn(("softmax", "copy/d2d", impl), found)
            self.assertIn("exit status 3: something fell over", found["softmax", "softmax/", impl]["error"])
        self.assertIn("error", found["softmax", "softmax/", "cudnn_softmax"])
        for key in (("start/cold", "ternion"), ("start/cold_gpt2", "ternion"), ("start/warm", "ternion"), ("start/context", "driver"), ("start/warm", "torch")):
            self.assertGreater(found["start", *key]["ms"], 0)
        self.assertEqual(found["start", "start/cold_gpt2", "ternion"]["times"], 3)
        # The fake program stores one kernel in the cache that it is given.
        self.assertEqual(found["start", "start/cold_gpt2", "ternion"]["compiled"], 1)
        self.assertNotIn("compiled", found["start", "start/warm", "ternion"])
        self.assertEqual(lines[0]["run"]["commit"], "abc1234")
        self.assertGreater(lines[0]["run"]["cores"], 0)
        self.assertIn("softmax: ", printed)
        page = self.root / "page.md"
        page.write_text(PAGE)
        subprocess.run([sys.executable, str(HERE / "compare.py"), "write", str(self.root / "results.jsonl"), str(page)], check=True)
        self.assertIn("| elementwise/add/f32 | 0.100 ms | 1,000 GB/s | 1.00 | 0.200 ms (0.50) |", page.read_text())

    def test_cold_starts_disable_cuda_cache(self):
        with unittest.mock.patch.dict(os.environ):
            for name in ("CUDA_CACHE_DISABLE", "TERNION_CACHE"):
                os.environ.pop(name, None)
            _, lines = self.run_compare("--families", "start")
        started = {tuple(text.split()) for text in (self.root / "starts.txt").read_text().splitlines()}
        cold = {(f"{cache}{at}", "1") for cache in ("cold", "cold_gpt2_") for at in range(3)}
        self.assertEqual(started, cold | {("warm", "None"), ("none", "None")})
        found = {record["case"]: record["cuda_cache"] for record in lines if "cuda_cache" in record}
        self.assertEqual(found, {"start/cold": False, "start/cold_gpt2": False})

    def rejected_error(self, command, *more):
        """Returns the error of a command that must fail, with a results file that must not change,
        and without one.
        """
        existing, none = self.root / "keep.jsonl", self.root / "none.jsonl"
        existing.write_text(json.dumps({"run": {"commit": "abc0000"}}) + "\nof a run that was cut o")
        before = existing.read_text()
        for out in (existing, none):
            completed = subprocess.run([sys.executable, str(HERE / "compare.py"), command, "--out", str(out), *more], capture_output=True, text=True, check=False)
            self.assertNotEqual(completed.returncode, 0, more)
            self.assertNotIn("Traceback", completed.stderr)
        self.assertEqual((existing.read_text(), none.exists()), (before, False), more)
        return completed.stderr

    def test_argument_errors_leave_results_file_unchanged(self):
        bundle, missing_bundle = ("--bundle", str(self.root)), ("--bundle", str(self.root / "nowhere"))
        self.assertEqual(self.rejected_error("run", *missing_bundle), f"error: {self.root}/nowhere: expected a folder with ternion-bench\n")
        self.assertEqual(self.rejected_error("run", *missing_bundle, "--resume"), f"error: {self.root}/nowhere: expected a folder with ternion-bench\n")
        self.assertEqual(self.rejected_error("check", *missing_bundle), f"error: {self.root}/nowhere: expected a folder with run.sh\n")
        self.assertIn("invalid choice: 'gems'", self.rejected_error("run", *bundle, "--families", "gems"))
        self.assertIn("these families need cuda", self.rejected_error("run", *bundle, "--device", "wgpu", "--families", "start"))
        self.assertIn("--rep: invalid duration value: '-1'", self.rejected_error("run", *bundle, "--rep", "-1"))
        (self.root / "run.sh").touch()
        self.assertIn("invalid choice: 'memchek'", self.rejected_error("check", *bundle, "--only", "memchek"))
        self.assertEqual(self.rejected_error("check", *bundle, "--data", "/nowhere"), "error: /nowhere: expected the folder of MNIST, found none\n")
        self.assertIn("--time-limit: invalid duration value: '0'", self.rejected_error("check", *bundle, "--time-limit", "0"))

    def test_results_of_other_run_are_unchanged(self):
        results = self.root / "results.jsonl"
        self.run_compare("--families", "host")
        with open(results, "a") as file:
            file.write(json.dumps(line("elementwise/gelu/f32", "ternion", 0.1, 1)) + "\n")
        before = results.read_text()
        (self.root / "bundle.json").write_text('{"commit": "def5678"}')
        self.run_compare("--resume", "--families", "elementwise", error="error: results of different runs: commit abc1234 and def5678\n")
        self.assertEqual(results.read_text(), before)

    def test_resume_without_results_file(self):
        _, lines = self.run_compare("--resume", "--families", "host")
        self.assertEqual(lines[0]["run"]["commit"], "abc1234")

    def test_wgpu_is_measured_with_cuda_and_pytorch(self):
        _, lines = self.run_compare("--device", "wgpu:1", "--families", "host", "elementwise")
        self.assertEqual((lines[0]["run"]["backend"], lines[0]["run"]["cuda"]), ("wgpu", "present"))
        impls = [record["impl"] for record in lines if record.get("case") == "elementwise/add/f32"]
        three = ["ternion-wgpu", "ternion", "torch"]
        self.assertEqual(impls, [*three, *three[1:], three[0], three[2], *three[:2]], "another begins each turn")
        page = self.root / "page.md"
        page.write_text(WGPU_PAGE)
        subprocess.run([sys.executable, str(HERE / "compare.py"), "write", str(self.root / "results.jsonl"), str(page)], check=True)
        self.assertIn("| elementwise/add/f32 | 0.100 ms | 1,000 GB/s | 1.00 | 0.100 ms (1.00) | 0.200 ms (0.50) |", page.read_text())
        self.assertIn("stale", page.read_text(), "the tables of CUDA are left alone")
        error = "error: results of different runs: backend wgpu and None\n"
        self.run_compare("--resume", "--families", "host", error=error)

    def test_only_wgpu_is_measured_without_cuda(self):
        bench = self.root / "ternion-bench"
        bench.write_text(bench.read_text().replace('if "start" in given', 'if "start" in given: sys.exit("error: no CUDA driver")\nif "start" in given'))
        printed, lines = self.run_compare("--device", "wgpu", "--families", "elementwise")
        self.assertIn("without the CUDA backend and PyTorch: error: no CUDA driver", printed)
        self.assertEqual({record["impl"] for record in lines if "case" in record}, {"ternion-wgpu"})
        self.assertIn("no CUDA driver", lines[0]["run"]["cuda"])

    def test_interrupted_run_resumes(self):
        self.run_compare("--families", "host")
        with open(self.root / "results.jsonl", "a") as file:
            file.write(json.dumps(line("elementwise/gelu/f32", "ternion", 0.1, 1)) + '\n{"case": "elementwise/add')
        printed, lines = self.run_compare("--resume", "--families", "host", "elementwise")
        self.assertNotIn("host: ", printed)
        self.assertIn("elementwise: ", printed)
        cases = [(record["case"], record["impl"]) for record in lines if "case" in record]
        self.assertEqual(cases.count(("host/add", "ternion")), 3, "as often as before")
        self.assertNotIn(("elementwise/gelu/f32", "ternion"), cases, "of a family that was cut off")

    def requests(self):
        """Returns which program measured what, in order."""
        return [tuple(text.split()) for text in (self.root / "requests.txt").read_text().splitlines()]

    def replace_in(self, name, old, new):
        path = self.root / name
        self.assertIn(old, path.read_text())
        path.write_text(path.read_text().replace(old, new))

    def test_programs_alternate_for_each_case(self):
        self.replace_in("ternion-bench", '"gemm/bf16/nn/2048"', '"gemm/bf16/nn/ours"')
        _, lines = self.run_compare("--families", "gemm")
        short, long = "gemm/bf16/nn/1000", "gemm/bf16/nn/1000x1000x1000"
        in_turn = ["ternion", "torch", "torch", "ternion", "ternion", "torch"]
        both = [(impl, case) for case in (short, long) for impl in in_turn]
        self.assertEqual(self.requests(), [*both, *[("ternion", "gemm/bf16/nn/ours")] * 3, *[("torch", "gemm/bf16/nn/2048")] * 3])
        measured = [(record["case"], record["impl"], record["turn"], record["round"]) for record in lines if record.get("case") == short]
        self.assertEqual(measured, [(short, impl, at // 2, 0) for at, impl in enumerate(in_turn)])
        ratios = [record["ratios"] for record in lines if "ratios" in record]
        self.assertEqual(ratios, [dict(case=case, impl="ternion", baseline="torch", ratio=0.5, min=0.5, max=0.5) for case in (short, long)])
        _, lines = self.run_compare("--families", "gemm", "--turns", "1", "--rounds", "2")
        started = [impl for impl, case in self.requests()[18:] if case == short]
        self.assertEqual(started, ["ternion", "torch", "torch", "ternion"], "a further round is begun by the other")

    def test_medians_are_over_all_turns(self):
        # For the copy, then for the case.
        factors = "factors = iter((1, 1, 1, 1, 5, 2))\ndef measure(name):\n    factor = next(factors)"
        self.replace_in("ternion-bench", "def measure(name):", factors)
        _, lines = self.run_compare("--families", "elementwise")
        self.assertEqual(tables.Measurements(lines).get("elementwise/add/f32", "ternion")["ms"], 0.2)
        ratios = next(record["ratios"] for record in lines if record.get("requested") == "elementwise/add/f32" and "ratios" in record)
        self.assertEqual((ratios["ratio"], ratios["min"], ratios["max"]), (1.0, 0.5, 2.5))

    def test_unknown_case_is_an_error(self):
        self.replace_in("python", '"done": name', '"done": name, **({"unknown": True} if name.endswith("2048") else {})')
        self.replace_in("python", "        measure(name)\n        print", "        name.endswith('2048') or measure(name)\n        print")
        _, lines = self.run_compare("--families", "gemm")
        errors = {(record["case"], record["impl"], record["error"]) for record in lines if "error" in record}
        self.assertEqual(errors, {("gemm/bf16/nn/2048", "torch", "the program lists this case but rejects it as unknown")})
        self.assertNotIn("gemm/bf16/nn/2048", [record["requested"] for record in lines if "measured" in record])
        self.assertEqual(sum(record.get("case") == "gemm/bf16/nn/2048" and record["impl"] == "ternion" for record in lines), 3)

    def test_other_programs_continue_and_resume_measures_missing_cases(self):
        death = 'if name.endswith("x1000"): sys.exit("no memory")\n    with open('
        self.replace_in("python", "with open(", death)
        error = "error: incomplete, --resume measures again: gemm 0 (torch)\n"
        printed, lines = self.run_compare("--families", "gemm", "elementwise", error=error)
        self.assertIn("torch: exit status 1: no memory", printed)
        errors = [(record["case"], record["impl"], record["error"]) for record in lines if "error" in record]
        self.assertEqual(errors, [("gemm/", "torch", "exit status 1: no memory")])
        counts = [sum(record.get("case") == f"gemm/bf16/nn/{case}" and record["impl"] == impl for record in lines) for case in ("1000", "1000x1000x1000", "2048") for impl in ("ternion", "torch")]
        self.assertEqual(counts, [3, 3, 3, 0, 3, 0])
        self.assertIn("elementwise 0", [record.get("finished") for record in lines])
        self.replace_in("python", death, "with open(")
        (self.root / "requests.txt").unlink()
        _, lines = self.run_compare("--families", "gemm", "elementwise", "--resume")
        self.assertEqual({case for _, case in self.requests()}, {"gemm/bf16/nn/1000x1000x1000", "gemm/bf16/nn/2048"}, "what was measured is not measured again")
        for case in ("1000", "1000x1000x1000", "2048"):
            for impl in ("ternion", "torch"):
                self.assertEqual(sum(record.get("case") == f"gemm/bf16/nn/{case}" and record["impl"] == impl for record in lines), 3, (case, impl))
        self.assertFalse([record for record in lines if "error" in record])

    def test_failed_case_is_measured_again(self):
        self.replace_in("ternion-bench", '"done": name', '"done": name, **({"failed": True} if name.endswith("2048") else {})')
        self.replace_in("ternion-bench", 'if "--serve" in given:', 'import atexit, os\natexit.register(lambda: "--serve" in given and os._exit(1))\nif "--serve" in given:')
        _, lines = self.run_compare("--families", "gemm", error="error: incomplete, --resume measures again: gemm 0 (ternion)")
        self.assertEqual([record["requested"] for record in lines if "measured" in record], ["gemm/bf16/nn/1000", "gemm/bf16/nn/1000x1000x1000"])

    def test_time_limit_stops_between_cases(self):
        self.replace_in("ternion-bench", "def measure(name):", "def measure(name):\n    import time; time.sleep(1)")
        printed, lines = self.run_compare("--families", "gemm", "elementwise", "--turns", "1", "--time-limit", "0.9")
        self.assertIn("stopped before gemm/bf16/nn/1000x1000x1000: --time-limit", printed)
        self.assertNotIn("elementwise", printed)
        self.assertFalse([record for record in lines if "finished" in record])
        _, lines = self.run_compare("--families", "gemm", "elementwise", "--turns", "1", "--resume")
        self.assertEqual([record["finished"] for record in lines if "finished" in record], ["gemm 0", "elementwise 0"])
        self.assertEqual(self.requests().count(("ternion", "gemm/bf16/nn/1000")), 1)

    def test_hanging_program_is_killed_and_others_continue(self):
        self.replace_in("python", "def measure(name):", "def measure(name):\n    import time; time.sleep(600)")
        error = "error: incomplete, --resume measures again: gemm 0 (torch)\n"
        printed, lines = self.run_compare("--families", "gemm", "--turns", "1", "--case-limit", "2", error=error)
        self.assertIn("torch: printed nothing for 2 s", printed)
        self.assertEqual(sum(record.get("impl") == "ternion" for record in lines), 3)

    def test_results_of_two_commits_are_not_mixed(self):
        self.run_compare("--families", "host")
        (self.root / "bundle.json").write_text('{"commit": "def5678"}')
        self.run_compare("--resume", "--families", "elementwise", error="error: results of different runs: commit abc1234 and def5678\n")
        _, lines = self.run_compare("--families", "elementwise")
        with open(self.root / "results.jsonl", "a") as file:
            file.write(json.dumps({"run": {**lines[0]["run"], "driver": "1.2"}}) + "\n")
        page = self.root / "page.md"
        page.write_text(PAGE)
        command = [sys.executable, str(HERE / "compare.py"), "write", str(self.root / "results.jsonl"), str(page)]
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((completed.returncode, page.read_text()), (1, PAGE))
        self.assertIn("results of different runs: driver", completed.stderr)

    def test_program_killed_by_signal_is_reported(self):
        killed = self.root / "ternion-bench"
        killed.write_text(killed.read_text() + "\nimport os\nos.kill(os.getpid(), 9)\n")
        printed, lines = self.run_compare("--families", "host", error="error: incomplete, --resume measures again: host 0 (ternion), host 1 (ternion)")
        self.assertIn("ternion: exit status -9", printed)
        self.assertFalse([line for line in lines if "finished" in line])

    def test_corrupt_results_line_is_reported(self):
        results = self.root / "results.jsonl"
        results.write_text('{"case": "cut\n' + json.dumps(line("host/add", "ternion", 0.1, 1)) + "\n")
        page = self.root / "page.md"
        page.write_text(PAGE)
        completed = subprocess.run([sys.executable, str(HERE / "compare.py"), "write", str(results), str(page)], capture_output=True, text=True)
        self.assertEqual(completed.returncode, 1)
        self.assertIn("results.jsonl:1: expected a JSON object", completed.stderr)
        self.assertEqual(page.read_text(), PAGE)


TABLE = """
test relu::forward::cuda:0 ... ok

test result: ok. 882 passed; 0 failed; 0 ignored; 0 measured; 931 filtered out; finished in 122.63s

cpu: 12 cases, 34 elements compared, 5 ops watched; fingerprint of the results 00000000000000aa
  skipped     18 cases: f64: no such thing
cuda:0: 88286 cases, 15356562 elements compared, 713298 ops watched; fingerprint of the results dc87991c5b0290d1
  skipped   1220 cases: bf16: nothing is fused: the device runs primitives only
"""


WGPU_TABLE = """
test result: ok. 1647 passed; 0 failed; 151 ignored; 0 measured; 0 filtered out; finished in 268.96s

wgpu:0: 68997 cases, 12629020 elements compared, 507421 ops watched; fingerprint of the results 3d0bd6eb123ce3b0
  skipped   1250 cases: bf16: nothing is fused: the device runs primitives only
  skipped     13 cases: f32: the device has no f64; fill: WGSL has no 64-bit floats
  skipped    400 cases: f64: the device has no f64; abs: WGSL has no 64-bit floats
"""


class Checks(unittest.TestCase):
    def test_op_table_output_is_parsed(self):
        found = checks.parse_tests(TABLE)
        self.assertEqual(found, dict(passed=882, failed=0, cases=88286, dtypes={}, skipped=[], not_applicable=1220, fingerprint="dc87991c5b0290d1"))
        self.assertEqual(checks.parse_tests(TABLE.replace("nothing is fused", "no kernel"))["skipped"], ["1220 bf16: no kernel: the device runs primitives only"])
        self.assertEqual(checks.parse_tests("it fell over")["cases"], None)

    def test_sanitizer_output_is_parsed(self):
        mark = "========= "
        begin = f"{mark}COMPUTE-SANITIZER\n"

        def errors(*parts):
            return checks.parse_sanitizer("".join(begin + TABLE + part for part in parts))["errors"]

        clean = f"{mark}ERROR SUMMARY: 0 errors\n"
        self.assertEqual(errors(clean), 0)
        more = f"{mark}ERROR SUMMARY: 134 errors\n{mark}ERROR SUMMARY: 114 errors were not printed. Use --print-limit\n"
        self.assertEqual(errors(more), 134)
        self.assertEqual(errors(clean, more, f"{mark}ERROR SUMMARY: 1 error\n"), 135)
        self.assertEqual(errors(f"{mark}RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)\n"), 2)
        self.assertEqual(errors(clean, "it fell over\n"), None)
        both = checks.parse_sanitizer(2 * (begin + TABLE + clean))
        self.assertEqual((both["passed"], both["failed"], both["cases"], both["parts"]), (1764, 0, 2 * 88286, 2))
        self.assertIn("error", checks.parse_sanitizer(f"{begin}{mark}Internal Sanitizer Error: lost\n{mark}RACECHECK SUMMARY: 0 hazards displayed\n"))
        self.assertEqual(checks.parse_sanitizer("not found")["errors"], None)

    def render_lines(self, *lines):
        page = tables.update_page(PAGE, [line("host/add", "ternion", 0.1, 1, "us/op"), *lines])
        return [text for text in page.splitlines() if "sanitizer memcheck" in text or "op table on cuda" in text or "MNIST" in text or "memory of" in text]

    def test_check_rows_report_failures(self):
        table = dict(checks.parse_tests(TABLE), check="table", measured_on=dict(commit="abc"))
        self.assertTrue(self.render_lines(table, table)[0].endswith("| all pass, bit-equal | yes |"))
        self.assertIn("88,286 cases in 882 tests, 0 failed, none skipped but 1,220 that have nothing fused to compare, or too many elements for second differences; "
            "fingerprint dc87991c5b0290d1 in 2 runs (commit abc)", self.render_lines(table, table)[0])
        for other in ([table], [table, dict(table, fingerprint="00")], [table, dict(table, failed=1)], [dict(table, error="exit status 1")] * 2):
            self.assertIn("**no**", self.render_lines(*other)[0])
        self.assertTrue(self.render_lines()[0].endswith("| not measured |"))
        clean = dict(checks.parse_tests(TABLE), check="memcheck", errors=0)
        self.assertTrue(self.render_lines(clean)[1].endswith("| no error | yes |"))
        for broken in (dict(clean, errors=3), dict(clean, errors=None), dict(clean, failed=1), dict(clean, cases=None), dict(clean, passed=None)):
            self.assertIn("**no**", self.render_lines(broken)[1])
        trained = dict(check="mnist", captured=False, epochs=3, first_step_seconds=0.11, train_seconds=0.42, test_accuracy=0.9721)
        self.assertIn("97.2% after a first step of 0.11 s and 0.42 s (commit unknown) |", self.render_lines(trained)[2])
        self.assertIn("**no**", self.render_lines(trained, dict(trained, check="mnist_captured", train_seconds=1.95))[2])
        steps = dict(check="memory", passed=1, failed=0, eager=100_000, replayed=1_000_000)
        self.assertIn("no growth in 100,000 eager and 1,000,000 replayed", self.render_lines(steps)[3])
        self.assertIn("**no**", self.render_lines(dict(steps, passed=0))[3])

    def test_failed_and_hanging_checks_are_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "run.sh").write_text("#!/bin/sh\n[ $2 = memcheck ] && exit 3\necho begun; sleep 60 & wait\n")
            (root / "run.sh").chmod(0o755)
            lines = []
            tried = checks.Checks(root, None, root / "logs", lambda **line: lines.append(line), 0.5)
            for name in ("memcheck", "racecheck"):
                tried.run(name)
            self.assertEqual(tried.failed, ["memcheck", "racecheck"])
            self.assertTrue(lines[0]["error"].startswith("exit status 3"), lines[0])
            self.assertEqual(lines[1]["error"], "killed after 0 s: begun")

    def test_checks_run_programs_of_bundle(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "tests").mkdir()
            for name, text in (("tests/ops", TABLE), ("run.sh", f"== part 1 of 1\n========= COMPUTE-SANITIZER\n{TABLE}========= ERROR SUMMARY: 0 errors\n")):
                (root / name).write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\n")
                (root / name).chmod(0o755)
            command = [sys.executable, str(HERE / "compare.py"), "check", "--bundle", folder, "--out", str(root / "checks.jsonl"), "--only"]
            for names, status in ((["table", "memcheck"], 0), (["memcheck", "memory"], 1)):
                self.assertEqual(subprocess.run([*command, *names], capture_output=True, check=False).returncode, status)
            lines = [json.loads(text) for text in (root / "checks.jsonl").read_text().splitlines()]
            self.assertEqual([record["check"] for record in lines], ["table", "table", "memcheck", "memory"])
            self.assertEqual([record.get("errors") for record in lines[:3]], [None, None, 0])
            self.assertIn("No such file", lines[3]["error"])
            self.assertEqual({path.name for path in (root / "checks.logs").iterdir()}, {"table.log", "table_again.log", "memcheck.log", "memory.log"})
            self.assertTrue((root / "checks.logs" / "memcheck.log").read_text().endswith("ERROR SUMMARY: 0 errors\n"))


if __name__ == "__main__":
    unittest.main()
