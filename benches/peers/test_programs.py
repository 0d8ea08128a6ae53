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
FAKE_PROGRAM = """#!/usr/bin/env python3
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
    def test_values_are_compared_with_limits(self):
        page = programs.update_page(PAGE, [line("housing", "cpu", {"test_r2": 0.779, "test_rmse": 0.5, "train_seconds": 3}), line("housing", "cuda", {"test_r2": 0.78})])
        self.assertIn("| cpu | test r2 | 0.779 | at least 0.78 | **no** |", page)
        self.assertIn("| cuda | test r2 | 0.78 | at least 0.78 | yes |", page)
        self.assertTrue(page.startswith("before\n") and page.endswith("\nafter\n"))
        self.assertNotIn("stale", page)

    def test_newest_run_is_used_and_missing_value_fails(self):
        page = programs.update_page(PAGE, [line("housing", "cpu", {"test_r2": 0.9}), line("housing", "cpu", {"test_r2": None})])
        self.assertIn("| cpu | test r2 | - | at least 0.78 | **no** |", page)
        self.assertNotIn("0.9", page)

    def test_baseline_sets_limit_and_missing_baseline_fails(self):
        image_encoder_page = lambda peer: programs.update_page(PAGE, [line("image_encoder", "cpu", {"psnr": 19.5}, **peer)])
        self.assertIn("| psnr | 19.5 | at least 19.5 | yes |", image_encoder_page({"peer": {"psnr": 19.7}}))
        self.assertIn("| psnr | 19.5 | at least 19.6 | **no** |", image_encoder_page({"peer": {"psnr": 19.8}}))
        self.assertIn("| psnr | 19.5 | compared with PyTorch, which was not run | **no** |", image_encoder_page({"peer_error": "no torch"}))

    def test_pytorch_results_are_in_notes(self):
        page = programs.update_page(PAGE, [line("shakespeare_char", "cuda", {"validation_loss": 1.45, "train_seconds": 40.0}, peer={"validation_loss": 1.46, "train_seconds": 50.0})])
        self.assertIn("| cuda | train seconds | 40.0 s | below 90.0 s | yes | tokens per second -, peak memory -; PyTorch (torch.compile): validation loss 1.46, train seconds 50.0 s |", page)

    def test_rows_without_new_results_are_kept(self):
        page = programs.update_page(PAGE, [line("housing", "cuda", {"test_r2": 0.81}), line("housing", "cpu", {"test_r2": 0.82}), line("mnist_mlp", "cpu", {"test_accuracy": 0.98})])
        page = programs.update_page(page, [line("housing", "cpu", {"test_r2": 0.83}, commit="d")])
        self.assertIn("| cuda | test r2 | 0.81 |", page)
        self.assertIn("| cpu | test r2 | 0.83 |", page)
        self.assertIn("| cpu | test accuracy | 98.00 % |", page)
        self.assertNotIn("0.82", page)
        self.assertRegex(page, r"- cpu: M, commit d, \S+: housing\n")
        for run_line in ["- cuda: M, commit c,", "- cpu: M, commit c,", "- cpu: M, commit d,"]:
            self.assertIn(run_line, page)
        page = programs.update_page(page, [line("housing", "cuda", {"test_r2": 0.84}, commit="e")])
        self.assertNotIn("- cuda: M, commit c,", page)
        self.assertEqual(page, programs.update_page(page, [line("housing", "cuda", {"test_r2": 0.84}, commit="e")]))

    def test_values_of_devices_are_compared(self):
        image_encoder_line = lambda device, psnr: line("image_encoder", device, {"psnr": psnr}, peer={"psnr": 19.7})
        page = programs.update_page(PAGE, [image_encoder_line("cpu", 19.76), image_encoder_line("cuda", 19.70)])
        self.assertIn("| cpu, cuda | psnr, apart | 0.06 | at most 0.1 | yes |", page)
        page = programs.update_page(page, [image_encoder_line("wgpu", 19.87)])
        self.assertIn("| cpu, cuda, wgpu | psnr, apart | 0.17 | at most 0.1 | **no** |", page)
        self.assertNotIn("0.06", page)

    def test_error_becomes_row(self):
        self.assertIn("| cpu | | | | no | out of memory |", programs.update_page(PAGE, [line("housing", "cpu", error="first\nout of memory")]))

    def test_page_without_markers_is_rejected(self):
        with self.assertRaises(SystemExit):
            programs.update_page("nothing", [line("housing", "cpu", {"test_r2": 0.9})])


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        program = self.path / "tiny_gpt"
        program.write_text(FAKE_PROGRAM)
        program.chmod(0o755)
        (self.path / "data" / "text").mkdir(parents=True)
        (self.path / "data" / programs.SHAKESPEARE).write_text("words")

    def run_script(self, *arguments):
        command = [sys.executable, str(HERE / "programs.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.path, check=False)

    def test_run_results_are_written_to_page(self):
        completed = self.run_script("run", "--programs", str(self.path), "--data", "data", "--only", "shakespeare", "housing")
        self.assertEqual(completed.returncode, 0, completed.stderr)
        self.assertIn("housing: skipped: data lacks california-housing", completed.stdout)
        (self.path / "page.md").write_text(PAGE)
        completed = self.run_script("write", "programs.jsonl", "page.md")
        self.assertEqual(completed.returncode, 0, completed.stderr)
        page = (self.path / "page.md").read_text()
        self.assertIn("| cpu | validation loss | 1.5 | at most 1.9 | yes | train seconds 3.0 min, tokens per second 12346, peak memory 2 MiB; nanoGPT's README: 1.88 in about 3 minutes |", page)

    def test_values_of_nested_training_results_are_used(self):
        program = self.path / "gpt2"
        program.write_text("#!/usr/bin/env python3\nimport json, sys\n"
                           "json.dump({'training': {'validation_loss': 6.25}}, open(sys.argv[sys.argv.index('--json') + 1], 'w'))\n")
        program.chmod(0o755)
        for file in programs.PROGRAMS["gpt2_124m"].required_files:
            (self.path / "data" / file).parent.mkdir(exist_ok=True)
            (self.path / "data" / file).write_text("")
        completed = self.run_script("run", "--programs", str(self.path), "--data", "data", "--only", "gpt2_124m", "--device", "cuda")
        self.assertEqual(completed.returncode, 0, completed.stderr)
        result = json.loads((self.path / "programs.jsonl").read_text())
        self.assertEqual(result["results"]["validation_loss"], 6.25)

    def test_failed_program_is_recorded_and_reported(self):
        completed = self.run_script("run", "--programs", str(self.path), "--data", "data", "--only", "shakespeare", "--device", "cuda:7")
        self.assertNotEqual(completed.returncode, 0)
        result = json.loads((self.path / "programs.jsonl").read_text())
        self.assertEqual((result["device"], result["error"]), ("cuda", "no such device"))

    def test_program_for_other_device_is_skipped(self):
        with contextlib.redirect_stdout(io.StringIO()):
            completed = self.run_script("run", "--programs", str(self.path), "--data", "data", "--only", "shakespeare_char")
        self.assertEqual(completed.returncode, 0)
        self.assertFalse((self.path / "programs.jsonl").exists())


if __name__ == "__main__":
    unittest.main()
