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
PRETENDED = """#!/usr/bin/env python3
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
    with open(pathlib.Path(sys.argv[0]).with_name("asked.txt"), "a") as file:
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
    def shown(self, *lines):
        return [text for text in wgpu_tables.body([{"adapter": "Some GPU, Vulkan (driver 1)", "clock": "timestamps"}, *lines]).splitlines()]

    def verdict(self, what, *lines):
        return next(text for text in self.shown(*lines) if text.startswith(f"| {what}"))

    def test_each_case_stands_beside_its_copies_cuda_and_pytorch(self):
        text = self.shown(
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

    def test_products_are_judged_by_their_rates(self):
        def of(case, rate):
            return self.verdict(case, line(case, "ternion-wgpu", 1.0, rate, "TFLOP/s"), line(case, "ternion", 0.1, 450, "TFLOP/s"))

        self.assertEqual(of("gemm/f32/nn/4096", 42.0), "| gemm/f32/nn/4096 | 42.0 TFLOP/s | at least 42 TFLOP/s | yes |")
        self.assertTrue(of("gemm/f32/nn/4096", 41.9).endswith("| **no** |"))
        self.assertTrue(of("gemm/f16/nn/4096", 149.0).endswith("| at least 150 TFLOP/s | **no** |"))
        self.assertTrue(self.verdict("gemm/f16/nn/4096").endswith("| not measured |"))

    def test_attention_must_take_less_time_than_its_composition_everywhere(self):
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

    def test_the_launches_of_a_step_stand_beside_those_of_cuda(self):
        case = "launches/train/mnist_mlp/f32/b64"
        text = self.shown(line(case, "ternion-wgpu/eager", 0.0, 23, "launches", "train"), line(case, "ternion/eager", 0.0, 20, "launches", "train"))
        self.assertIn(f"| {case} |  | 23 launches | 20 launches |", text)

    def test_checks_are_told(self):
        table = dict(checks.of_tests(WGPU_TABLE, "wgpu:0"), check="table")
        self.assertEqual((table["cases"], table["beside_the_point"]), (68997, 1250))
        shown = self.shown(table)
        self.assertTrue(any("| 68,997 cases, 0 tests failed, 413 left out, as WGSL has no f64 (commit unknown) | all pass | yes |" in text for text in shown), shown)
        lacking = dict(checks.of_tests(WGPU_TABLE.replace("WGSL has no 64-bit floats", "no kernel").replace("f64:", "f32:"), "wgpu:0"), check="table")
        for other in (dict(table, failed=1), dict(table, cases=0), dict(table, cases=None), dict(table, error="exit status 1"), lacking):
            self.assertTrue(any("op table" in text and "**no**" in text for text in self.shown(other)), other)
        ours, theirs = (dict(check=name, test_accuracy=0.9727, final_loss=0.05) for name in ("mnist", "mnist_cpu"))
        for lines, holds in (((ours, theirs), "yes"), ((ours, dict(theirs, test_accuracy=0.9801)), "**no**"), ((ours,), "not measured"), ((), "not measured")):
            self.assertTrue(any("MNIST" in text and text.endswith(f"| {holds} |") for text in self.shown(*lines)), holds)

    def test_only_the_part_of_wgpu_changes(self):
        lines = [{"run": {"backend": "wgpu"}}, line("elementwise/add/f32", "ternion-wgpu", 0.1, 1)]
        self.assertTrue(wgpu_tables.is_of_wgpu(lines))
        self.assertFalse(wgpu_tables.is_of_wgpu([{"run": {"device": "one"}}, lines[1]]))
        page = wgpu_tables.page(WGPU_PAGE, lines)
        self.assertTrue(page.startswith(PAGE + wgpu_tables.MARKERS[0]) and page.endswith(wgpu_tables.MARKERS[1] + "\n\nthe end\n"))
        self.assertNotIn("No run yet", page)
        with self.assertRaises(SystemExit):
            wgpu_tables.page(PAGE, lines)


class Write(unittest.TestCase):
    def test_a_results_file_that_is_not_there_is_an_error(self):
        for script in ("compare", "ladder", "attention_ladder", "curves", "overhead", "programs"):
            with self.subTest(script), tempfile.TemporaryDirectory() as folder:
                page, good = pathlib.Path(folder, "page.md"), pathlib.Path(folder, "good.jsonl")
                page.write_text(PAGE)
                good.write_text(json.dumps(line("elementwise/add/f32", "ternion", 0.1, 1)) + "\n")
                command = [sys.executable, str(HERE / f"{script}.py"), "write", str(good), f"{folder}/typo.jsonl", str(page)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (1, f"error: {folder}/typo.jsonl: expected a results file, found none\n"))
                self.assertEqual(page.read_text(), PAGE)
                self.assertEqual(sorted(path.name for path in pathlib.Path(folder).iterdir()), ["good.jsonl", "page.md"])


class Order(unittest.TestCase):
    def test_rounds_of_the_host_are_spread_over_the_run(self):
        steps = compare.order(["start", "host", "gemm", "softmax"], 1)
        self.assertEqual(steps, [("start", 0), ("host", 0), ("host", 1), ("gemm", 0), ("softmax", 0), ("host", 2)])
        self.assertEqual(compare.order(["gemm"], 2), [("gemm", 0), ("gemm", 1)])
        self.assertEqual(len(compare.order(["host"], 5)), 5)


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

    def run_compare(self, *more, error=""):
        command = [sys.executable, str(HERE / "compare.py"), "run", "--bundle", str(self.root), "--python", str(self.root / "python")]
        command += ["--out", str(self.root / "results.jsonl"), "--starts", "3", *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr[:60]), (1, error[:60]) if error else (0, ""), done.stderr)
        return done.stdout, [json.loads(text) for text in (self.root / "results.jsonl").read_text().splitlines()]

    def test_every_program_is_run_and_what_fails_is_told(self):
        error = "error: not measured whole, --resume tries again: softmax 0 (ternion, torch)\n"
        printed, lines = self.run_compare("--families", "start", "host", "elementwise", "softmax", error=error)
        found = {(one["family"], one["case"], one["impl"]): one for one in lines if "case" in one}
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

    def test_cold_starts_do_without_the_cache_of_cuda(self):
        with unittest.mock.patch.dict(os.environ):
            for name in ("CUDA_CACHE_DISABLE", "TERNION_CACHE"):
                os.environ.pop(name, None)
            _, lines = self.run_compare("--families", "start")
        begun = {tuple(text.split()) for text in (self.root / "starts.txt").read_text().splitlines()}
        cold = {(f"{cache}{at}", "1") for cache in ("cold", "cold_gpt2_") for at in range(3)}
        self.assertEqual(begun, cold | {("warm", "None"), ("none", "None")})
        found = {one["case"]: one["cuda_cache"] for one in lines if "cuda_cache" in one}
        self.assertEqual(found, {"start/cold": False, "start/cold_gpt2": False})

    def refused(self, command, *more):
        """Returns the error of a command that must fail, with a results file that must not change,
        and without one.
        """
        kept, none = self.root / "keep.jsonl", self.root / "none.jsonl"
        kept.write_text(json.dumps({"run": {"commit": "abc0000"}}) + "\nof a run that was cut o")
        before = kept.read_text()
        for out in (kept, none):
            done = subprocess.run([sys.executable, str(HERE / "compare.py"), command, "--out", str(out), *more], capture_output=True, text=True, check=False)
            self.assertNotEqual(done.returncode, 0, more)
            self.assertNotIn("Traceback", done.stderr)
        self.assertEqual((kept.read_text(), none.exists()), (before, False), more)
        return done.stderr

    def test_what_is_wrong_with_the_arguments_leaves_the_results_file_alone(self):
        here, nowhere = ("--bundle", str(self.root)), ("--bundle", str(self.root / "nowhere"))
        self.assertEqual(self.refused("run", *nowhere), f"error: {self.root}/nowhere: holds no ternion-bench\n")
        self.assertEqual(self.refused("run", *nowhere, "--resume"), f"error: {self.root}/nowhere: holds no ternion-bench\n")
        self.assertEqual(self.refused("check", *nowhere), f"error: {self.root}/nowhere: holds no run.sh\n")
        self.assertIn("invalid choice: 'gems'", self.refused("run", *here, "--families", "gems"))
        self.assertIn("families of cuda only", self.refused("run", *here, "--device", "wgpu", "--families", "start"))
        self.assertIn("--rep: invalid duration value: '-1'", self.refused("run", *here, "--rep", "-1"))
        (self.root / "run.sh").touch()
        self.assertIn("invalid choice: 'memchek'", self.refused("check", *here, "--only", "memchek"))
        self.assertEqual(self.refused("check", *here, "--data", "/nowhere"), "error: /nowhere: expected the folder of MNIST, found none\n")
        self.assertIn("--time-limit: invalid duration value: '0'", self.refused("check", *here, "--time-limit", "0"))

    def test_a_file_of_another_run_is_left_as_it_was(self):
        results = self.root / "results.jsonl"
        self.run_compare("--families", "host")
        with open(results, "a") as file:
            file.write(json.dumps(line("elementwise/gelu/f32", "ternion", 0.1, 1)) + "\n")
        before = results.read_text()
        (self.root / "bundle.json").write_text('{"commit": "def5678"}')
        self.run_compare("--resume", "--families", "elementwise", error="error: results of different runs: commit abc1234 and def5678\n")
        self.assertEqual(results.read_text(), before)

    def test_a_resumed_run_may_be_the_first(self):
        _, lines = self.run_compare("--resume", "--families", "host")
        self.assertEqual(lines[0]["run"]["commit"], "abc1234")

    def test_wgpu_is_measured_beside_cuda_and_pytorch(self):
        _, lines = self.run_compare("--device", "wgpu:1", "--families", "host", "elementwise")
        self.assertEqual((lines[0]["run"]["backend"], lines[0]["run"]["cuda"]), ("wgpu", "present"))
        impls = [one["impl"] for one in lines if one.get("case") == "elementwise/add/f32"]
        three = ["ternion-wgpu", "ternion", "torch"]
        self.assertEqual(impls, [*three, *three[1:], three[0], three[2], *three[:2]], "another begins each turn")
        page = self.root / "page.md"
        page.write_text(WGPU_PAGE)
        subprocess.run([sys.executable, str(HERE / "compare.py"), "write", str(self.root / "results.jsonl"), str(page)], check=True)
        self.assertIn("| elementwise/add/f32 | 0.100 ms | 1,000 GB/s | 1.00 | 0.100 ms (1.00) | 0.200 ms (0.50) |", page.read_text())
        self.assertIn("stale", page.read_text(), "the tables of CUDA are left alone")
        error = "error: results of different runs: backend wgpu and None\n"
        self.run_compare("--resume", "--families", "host", error=error)

    def test_wgpu_is_measured_alone_where_there_is_no_cuda(self):
        bench = self.root / "ternion-bench"
        bench.write_text(bench.read_text().replace('if "start" in given', 'if "start" in given: sys.exit("error: no CUDA driver")\nif "start" in given'))
        printed, lines = self.run_compare("--device", "wgpu", "--families", "elementwise")
        self.assertIn("without the CUDA backend and PyTorch: error: no CUDA driver", printed)
        self.assertEqual({one["impl"] for one in lines if "case" in one}, {"ternion-wgpu"})
        self.assertIn("no CUDA driver", lines[0]["run"]["cuda"])

    def test_a_run_goes_on_where_it_was_cut_off(self):
        self.run_compare("--families", "host")
        with open(self.root / "results.jsonl", "a") as file:
            file.write(json.dumps(line("elementwise/gelu/f32", "ternion", 0.1, 1)) + '\n{"case": "elementwise/add')
        printed, lines = self.run_compare("--resume", "--families", "host", "elementwise")
        self.assertNotIn("host: ", printed)
        self.assertIn("elementwise: ", printed)
        cases = [(one["case"], one["impl"]) for one in lines if "case" in one]
        self.assertEqual(cases.count(("host/add", "ternion")), 3, "as often as before")
        self.assertNotIn(("elementwise/gelu/f32", "ternion"), cases, "of a family that was cut off")

    def asked(self):
        """Returns which program measured what, in order."""
        return [tuple(text.split()) for text in (self.root / "asked.txt").read_text().splitlines()]

    def replace_in(self, name, old, new):
        path = self.root / name
        self.assertIn(old, path.read_text())
        path.write_text(path.read_text().replace(old, new))

    def test_programs_measure_each_case_in_turn(self):
        self.replace_in("ternion-bench", '"gemm/bf16/nn/2048"', '"gemm/bf16/nn/ours"')
        _, lines = self.run_compare("--families", "gemm")
        short, long = "gemm/bf16/nn/1000", "gemm/bf16/nn/1000x1000x1000"
        in_turn = ["ternion", "torch", "torch", "ternion", "ternion", "torch"]
        both = [(impl, case) for case in (short, long) for impl in in_turn]
        self.assertEqual(self.asked(), [*both, *[("ternion", "gemm/bf16/nn/ours")] * 3, *[("torch", "gemm/bf16/nn/2048")] * 3])
        measured = [(one["case"], one["impl"], one["turn"], one["round"]) for one in lines if one.get("case") == short]
        self.assertEqual(measured, [(short, impl, at // 2, 0) for at, impl in enumerate(in_turn)])
        ratios = [one["ratios"] for one in lines if "ratios" in one]
        self.assertEqual(ratios, [dict(case=case, impl="ternion", over="torch", ratio=0.5, least=0.5, most=0.5) for case in (short, long)])
        _, lines = self.run_compare("--families", "gemm", "--turns", "1", "--rounds", "2")
        begun = [impl for impl, case in self.asked()[18:] if case == short]
        self.assertEqual(begun, ["ternion", "torch", "torch", "ternion"], "a further round is begun by the other")

    def test_medians_are_of_all_turns(self):
        # For the copy, then for the case.
        factors = "factors = iter((1, 1, 1, 1, 5, 2))\ndef measure(name):\n    factor = next(factors)"
        self.replace_in("ternion-bench", "def measure(name):", factors)
        _, lines = self.run_compare("--families", "elementwise")
        self.assertEqual(tables.Figures(lines).get("elementwise/add/f32", "ternion")["ms"], 0.2)
        ratios = next(one["ratios"] for one in lines if one.get("asked") == "elementwise/add/f32" and "ratios" in one)
        self.assertEqual((ratios["ratio"], ratios["least"], ratios["most"]), (1.0, 0.5, 2.5))

    def test_a_case_that_a_program_does_not_know_is_an_error(self):
        self.replace_in("python", '"done": name', '"done": name, **({"unknown": True} if name.endswith("2048") else {})')
        self.replace_in("python", "        measure(name)\n        print", "        name.endswith('2048') or measure(name)\n        print")
        _, lines = self.run_compare("--families", "gemm")
        errors = {(one["case"], one["impl"], one["error"]) for one in lines if "error" in one}
        self.assertEqual(errors, {("gemm/bf16/nn/2048", "torch", "the program lists the case, but does not know it")})
        self.assertNotIn("gemm/bf16/nn/2048", [one["asked"] for one in lines if "measured" in one])
        self.assertEqual(sum(one.get("case") == "gemm/bf16/nn/2048" and one["impl"] == "ternion" for one in lines), 3)

    def test_others_go_on_where_a_program_ends_and_the_run_resumes_with_what_is_not_measured(self):
        death = 'if name.endswith("x1000"): sys.exit("no memory")\n    with open('
        self.replace_in("python", "with open(", death)
        error = "error: not measured whole, --resume tries again: gemm 0 (torch)\n"
        printed, lines = self.run_compare("--families", "gemm", "elementwise", error=error)
        self.assertIn("torch: exit status 1: no memory", printed)
        errors = [(one["case"], one["impl"], one["error"]) for one in lines if "error" in one]
        self.assertEqual(errors, [("gemm/", "torch", "exit status 1: no memory")])
        counts = [sum(one.get("case") == f"gemm/bf16/nn/{case}" and one["impl"] == impl for one in lines) for case in ("1000", "1000x1000x1000", "2048") for impl in ("ternion", "torch")]
        self.assertEqual(counts, [3, 3, 3, 0, 3, 0])
        self.assertIn("elementwise 0", [one.get("finished") for one in lines])
        self.replace_in("python", death, "with open(")
        (self.root / "asked.txt").unlink()
        _, lines = self.run_compare("--families", "gemm", "elementwise", "--resume")
        self.assertEqual({case for _, case in self.asked()}, {"gemm/bf16/nn/1000x1000x1000", "gemm/bf16/nn/2048"}, "what was measured is not measured again")
        for case in ("1000", "1000x1000x1000", "2048"):
            for impl in ("ternion", "torch"):
                self.assertEqual(sum(one.get("case") == f"gemm/bf16/nn/{case}" and one["impl"] == impl for one in lines), 3, (case, impl))
        self.assertFalse([one for one in lines if "error" in one])

    def test_a_case_that_failed_is_measured_again(self):
        self.replace_in("ternion-bench", '"done": name', '"done": name, **({"failed": True} if name.endswith("2048") else {})')
        self.replace_in("ternion-bench", 'if "--serve" in given:', 'import atexit, os\natexit.register(lambda: "--serve" in given and os._exit(1))\nif "--serve" in given:')
        _, lines = self.run_compare("--families", "gemm", error="error: not measured whole, --resume tries again: gemm 0 (ternion)")
        self.assertEqual([one["asked"] for one in lines if "measured" in one], ["gemm/bf16/nn/1000", "gemm/bf16/nn/1000x1000x1000"])

    def test_a_limit_of_time_ends_between_cases(self):
        self.replace_in("ternion-bench", "def measure(name):", "def measure(name):\n    import time; time.sleep(1)")
        printed, lines = self.run_compare("--families", "gemm", "elementwise", "--turns", "1", "--time-limit", "0.9")
        self.assertIn("stopped before gemm/bf16/nn/1000x1000x1000: --time-limit", printed)
        self.assertNotIn("elementwise", printed)
        self.assertFalse([one for one in lines if "finished" in one])
        _, lines = self.run_compare("--families", "gemm", "elementwise", "--turns", "1", "--resume")
        self.assertEqual([one["finished"] for one in lines if "finished" in one], ["gemm 0", "elementwise 0"])
        self.assertEqual(self.asked().count(("ternion", "gemm/bf16/nn/1000")), 1)

    def test_a_program_that_hangs_is_ended_and_the_other_goes_on(self):
        self.replace_in("python", "def measure(name):", "def measure(name):\n    import time; time.sleep(600)")
        error = "error: not measured whole, --resume tries again: gemm 0 (torch)\n"
        printed, lines = self.run_compare("--families", "gemm", "--turns", "1", "--case-limit", "2", error=error)
        self.assertIn("torch: printed nothing for 2 s", printed)
        self.assertEqual(sum(one.get("impl") == "ternion" for one in lines), 3)

    def test_figures_of_two_commits_are_not_mixed(self):
        self.run_compare("--families", "host")
        (self.root / "bundle.json").write_text('{"commit": "def5678"}')
        self.run_compare("--resume", "--families", "elementwise", error="error: results of different runs: commit abc1234 and def5678\n")
        _, lines = self.run_compare("--families", "elementwise")
        with open(self.root / "results.jsonl", "a") as file:
            file.write(json.dumps({"run": {**lines[0]["run"], "driver": "1.2"}}) + "\n")
        page = self.root / "page.md"
        page.write_text(PAGE)
        command = [sys.executable, str(HERE / "compare.py"), "write", str(self.root / "results.jsonl"), str(page)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, page.read_text()), (1, PAGE))
        self.assertIn("results of different runs: driver", done.stderr)

    def test_a_program_that_a_signal_ends_is_told(self):
        killed = self.root / "ternion-bench"
        killed.write_text(killed.read_text() + "\nimport os\nos.kill(os.getpid(), 9)\n")
        printed, lines = self.run_compare("--families", "host", error="error: not measured whole, --resume tries again: host 0 (ternion), host 1 (ternion)")
        self.assertIn("ternion: exit status -9", printed)
        self.assertFalse([line for line in lines if "finished" in line])

    def test_damage_inside_a_results_file_is_told(self):
        results = self.root / "results.jsonl"
        results.write_text('{"case": "cut\n' + json.dumps(line("host/add", "ternion", 0.1, 1)) + "\n")
        page = self.root / "page.md"
        page.write_text(PAGE)
        done = subprocess.run([sys.executable, str(HERE / "compare.py"), "write", str(results), str(page)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("results.jsonl:1: expected a JSON object", done.stderr)
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


class TheChecks(unittest.TestCase):
    def test_what_the_op_table_prints_is_read(self):
        found = checks.of_tests(TABLE)
        self.assertEqual(found, dict(passed=882, failed=0, cases=88286, dtypes={}, skipped=[], beside_the_point=1220, fingerprint="dc87991c5b0290d1"))
        self.assertEqual(checks.of_tests(TABLE.replace("nothing is fused", "no kernel"))["skipped"], ["1220 bf16: no kernel: the device runs primitives only"])
        self.assertEqual(checks.of_tests("it fell over")["cases"], None)

    def test_what_the_sanitizer_prints_is_read(self):
        mark = "========= "
        begin = f"{mark}COMPUTE-SANITIZER\n"

        def errors(*parts):
            return checks.of_sanitizer("".join(begin + TABLE + part for part in parts))["errors"]

        clean = f"{mark}ERROR SUMMARY: 0 errors\n"
        self.assertEqual(errors(clean), 0)
        more = f"{mark}ERROR SUMMARY: 134 errors\n{mark}ERROR SUMMARY: 114 errors were not printed. Use --print-limit\n"
        self.assertEqual(errors(more), 134)
        self.assertEqual(errors(clean, more, f"{mark}ERROR SUMMARY: 1 error\n"), 135)
        self.assertEqual(errors(f"{mark}RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)\n"), 2)
        self.assertEqual(errors(clean, "it fell over\n"), None)
        both = checks.of_sanitizer(2 * (begin + TABLE + clean))
        self.assertEqual((both["passed"], both["failed"], both["cases"], both["parts"]), (1764, 0, 2 * 88286, 2))
        self.assertIn("error", checks.of_sanitizer(f"{begin}{mark}Internal Sanitizer Error: lost\n{mark}RACECHECK SUMMARY: 0 hazards displayed\n"))
        self.assertEqual(checks.of_sanitizer("not found")["errors"], None)

    def shown(self, *lines):
        page = tables.page(PAGE, [line("host/add", "ternion", 0.1, 1, "us/op"), *lines])
        return [text for text in page.splitlines() if "sanitizer memcheck" in text or "op table on cuda" in text or "MNIST" in text or "memory of" in text]

    def test_checks_are_told_and_what_fails_is_not_hidden(self):
        table = dict(checks.of_tests(TABLE), check="table", of=dict(commit="abc"))
        self.assertTrue(self.shown(table, table)[0].endswith("| all pass, bit-equal | yes |"))
        self.assertIn("88,286 cases in 882 tests, 0 failed, none skipped but 1,220 that have nothing fused to compare, or too many elements for second differences; "
            "fingerprint dc87991c5b0290d1 in 2 runs (commit abc)", self.shown(table, table)[0])
        for other in ([table], [table, dict(table, fingerprint="00")], [table, dict(table, failed=1)], [dict(table, error="exit status 1")] * 2):
            self.assertIn("**no**", self.shown(*other)[0])
        self.assertTrue(self.shown()[0].endswith("| not measured |"))
        clean = dict(checks.of_tests(TABLE), check="memcheck", errors=0)
        self.assertTrue(self.shown(clean)[1].endswith("| no error | yes |"))
        for broken in (dict(clean, errors=3), dict(clean, errors=None), dict(clean, failed=1), dict(clean, cases=None), dict(clean, passed=None)):
            self.assertIn("**no**", self.shown(broken)[1])
        trained = dict(check="mnist", captured=False, epochs=3, first_step_seconds=0.11, train_seconds=0.42, test_accuracy=0.9721)
        self.assertIn("97.2% after a first step of 0.11 s and 0.42 s (commit unknown) |", self.shown(trained)[2])
        self.assertIn("**no**", self.shown(trained, dict(trained, check="mnist_captured", train_seconds=1.95))[2])
        steps = dict(check="memory", passed=1, failed=0, eager=100_000, replayed=1_000_000)
        self.assertIn("no growth in 100,000 eager and 1,000,000 replayed", self.shown(steps)[3])
        self.assertIn("**no**", self.shown(dict(steps, passed=0))[3])

    def test_a_check_that_fails_or_does_not_end_is_told(self):
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
            self.assertEqual(lines[1]["error"], "not ended after 0 s: begun")

    def test_checks_run_what_the_bundle_holds(self):
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
            self.assertEqual([one["check"] for one in lines], ["table", "table", "memcheck", "memory"])
            self.assertEqual([one.get("errors") for one in lines[:3]], [None, None, 0])
            self.assertIn("No such file", lines[3]["error"])
            self.assertEqual({path.name for path in (root / "checks.logs").iterdir()}, {"table.log", "table_again.log", "memcheck.log", "memory.log"})
            self.assertTrue((root / "checks.logs" / "memcheck.log").read_text().endswith("ERROR SUMMARY: 0 errors\n"))


if __name__ == "__main__":
    unittest.main()
