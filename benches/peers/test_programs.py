"""Tests of programs.py with fake programs: python3 -m unittest discover -s benches/peers"""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import programs  # noqa: E402

PAGE = f"before\n{programs.START}\nstale\n{programs.END}\nafter\n"

# Writes the file that --json names; fails for the device "cuda:7".
PRETENDED = """#!/usr/bin/env python3
import json, sys
given = sys.argv[1:]
if given[given.index("--device") + 1] == "cuda:7":
    print("no such device", file=sys.stderr)
    sys.exit(1)
assert pathlib.Path(given[given.index("--text") + 1]).is_file() if "--text" in given and (pathlib := __import__("pathlib")) else True
json.dump({"validation_loss": 1.5, "train_seconds": 180.0, "tokens_per_second": 12345.6, "peak_memory_bytes": 2**21}, open(given[given.index("--json") + 1], "w"))
"""


def line(program, device, results=None, **more):
    return {"program": program, "device": device, "machine": "M", "commit": "c", "time": "2026-01-01 00:00 UTC", **({"results": results} if results else {}), **more}


class Write(unittest.TestCase):
    def test_figures_are_held_to_their_limits(self):
        page = programs.page(PAGE, [line("housing", "cpu", {"test_r2": 0.779, "test_rmse": 0.5, "train_seconds": 3}), line("housing", "cuda", {"test_r2": 0.78})])
        self.assertIn("| cpu | test r2 | 0.779 | at least 0.78 | **no** |", page)
        self.assertIn("| cuda | test r2 | 0.78 | at least 0.78 | yes |", page)
        self.assertTrue(page.startswith("before\n") and page.endswith("\nafter\n"))
        self.assertNotIn("stale", page)

    def test_the_newest_run_counts_and_a_missing_figure_holds_nothing(self):
        page = programs.page(PAGE, [line("housing", "cpu", {"test_r2": 0.9}), line("housing", "cpu", {"test_r2": None})])
        self.assertIn("| cpu | test r2 | - | at least 0.78 | **no** |", page)
        self.assertNotIn("0.9", page)

    def test_a_peer_sets_the_limit_and_without_it_nothing_holds(self):
        beside = lambda peer: programs.page(PAGE, [line("image_encoder", "cpu", {"psnr": 19.5}, **peer)])
        self.assertIn("| psnr | 19.5 | at least 19.5 | yes |", beside({"peer": {"psnr": 19.7}}))
        self.assertIn("| psnr | 19.5 | at least 19.6 | **no** |", beside({"peer": {"psnr": 19.8}}))
        self.assertIn("| psnr | 19.5 | compared with PyTorch, which was not run | **no** |", beside({"peer_error": "no torch"}))

    def test_what_pytorch_takes_is_told_beside(self):
        page = programs.page(PAGE, [line("shakespeare_char", "cuda", {"validation_loss": 1.45, "train_seconds": 40.0}, peer={"validation_loss": 1.46, "train_seconds": 50.0})])
        self.assertIn("| cuda | train seconds | 40.0 s | below 90.0 s | yes | tokens per second -, peak memory -; PyTorch (torch.compile): validation loss 1.46, train seconds 50.0 s |", page)

    def test_rows_of_what_was_not_measured_stay(self):
        page = programs.page(PAGE, [line("housing", "cuda", {"test_r2": 0.81}), line("housing", "cpu", {"test_r2": 0.82}), line("mnist_mlp", "cpu", {"test_accuracy": 0.98})])
        page = programs.page(page, [line("housing", "cpu", {"test_r2": 0.83}, commit="d")])
        self.assertIn("| cuda | test r2 | 0.81 |", page)
        self.assertIn("| cpu | test r2 | 0.83 |", page)
        self.assertIn("| cpu | test accuracy | 98.00 % |", page)
        self.assertNotIn("0.82", page)
        for told in ["- cuda: M, commit c,", "- cpu: M, commit c,", "- cpu: M, commit d,"]:
            self.assertIn(told, page)
        page = programs.page(page, [line("housing", "cuda", {"test_r2": 0.84}, commit="e")])
        self.assertNotIn("- cuda: M, commit c,", page)
        self.assertEqual(page, programs.page(page, [line("housing", "cuda", {"test_r2": 0.84}, commit="e")]))

    def test_figures_of_devices_are_compared(self):
        beside = lambda device, psnr: line("image_encoder", device, {"psnr": psnr}, peer={"psnr": 19.7})
        page = programs.page(PAGE, [beside("cpu", 19.76), beside("cuda", 19.70)])
        self.assertIn("| cpu, cuda | psnr, apart | 0.06 | at most 0.1 | yes |", page)
        page = programs.page(page, [beside("wgpu", 19.87)])
        self.assertIn("| cpu, cuda, wgpu | psnr, apart | 0.17 | at most 0.1 | **no** |", page)
        self.assertNotIn("0.06", page)

    def test_an_error_is_a_row(self):
        self.assertIn("| cpu | | | | no | out of memory |", programs.page(PAGE, [line("housing", "cpu", error="first\nout of memory")]))

    def test_a_page_without_markers_is_refused(self):
        with self.assertRaises(SystemExit):
            programs.page("nothing", [line("housing", "cpu", {"test_r2": 0.9})])


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        program = self.path / "tiny_gpt"
        program.write_text(PRETENDED)
        program.chmod(0o755)
        (self.path / "data" / "text").mkdir(parents=True)
        (self.path / "data" / programs.SHAKESPEARE).write_text("words")

    def run_script(self, *arguments):
        command = [sys.executable, str(HERE / "programs.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.path, check=False)

    def test_what_a_program_reaches_gets_into_the_page(self):
        done = self.run_script("run", "--programs", str(self.path), "--data", "data", "--only", "shakespeare", "housing")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("housing: left out: data lacks california-housing", done.stdout)
        (self.path / "page.md").write_text(PAGE)
        done = self.run_script("write", "programs.jsonl", "page.md")
        self.assertEqual(done.returncode, 0, done.stderr)
        page = (self.path / "page.md").read_text()
        self.assertIn("| cpu | validation loss | 1.5 | at most 1.9 | yes | train seconds 3.0 min, tokens per second 12346, peak memory 2 MiB; nanoGPT's README: 1.88 in about 3 minutes |", page)

    def test_figures_of_one_thing_among_several_count(self):
        program = self.path / "gpt2"
        program.write_text("#!/usr/bin/env python3\nimport json, sys\n"
                           "json.dump({'training': {'validation_loss': 6.25}}, open(sys.argv[sys.argv.index('--json') + 1], 'w'))\n")
        program.chmod(0o755)
        for file in programs.CLAIMS["gpt2_124m"].needs:
            (self.path / "data" / file).parent.mkdir(exist_ok=True)
            (self.path / "data" / file).write_text("")
        done = self.run_script("run", "--programs", str(self.path), "--data", "data", "--only", "gpt2_124m", "--device", "cuda")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads((self.path / "programs.jsonl").read_text())
        self.assertEqual(found["results"]["validation_loss"], 6.25)

    def test_a_program_that_fails_is_noted_and_told(self):
        done = self.run_script("run", "--programs", str(self.path), "--data", "data", "--only", "shakespeare", "--device", "cuda:7")
        self.assertNotEqual(done.returncode, 0)
        found = json.loads((self.path / "programs.jsonl").read_text())
        self.assertEqual((found["device"], found["error"]), ("cuda", "no such device"))

    def test_a_claim_of_another_device_is_left_out(self):
        with contextlib.redirect_stdout(io.StringIO()):
            done = self.run_script("run", "--programs", str(self.path), "--data", "data", "--only", "shakespeare_char")
        self.assertEqual(done.returncode, 0)
        self.assertFalse((self.path / "programs.jsonl").exists())


if __name__ == "__main__":
    unittest.main()
