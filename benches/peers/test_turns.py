"""Tests of turns.py with fake programs: python3 -m unittest discover -s benches/peers"""

import io
import json
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import turns  # noqa: E402

LONG, SHORT = "gemm/bf16/nn/1000x1000x1000", "gemm/bf16/nn/1000"

# Answers like torch_cases.py; what else the program does follows.
SERVER = f"""
import json, os, sys, time
sys.path.insert(0, {str(HERE)!r})
import turns
def measure(name):
    print(json.dumps(dict(case=name, impl="pretended", ms=1.0)), flush=True)
    {{then}}
turns.serve([{LONG!r}, {SHORT!r}], measure, sys.stdin, sys.stdout)
"""


def program(then="pass", limit=60.0):
    return turns.Program("pretended", [sys.executable, "-c", SERVER.format(then=then)], limit)


class Serve(unittest.TestCase):
    def serve(self, *requests):
        """Returns what was measured, and the lines that were printed."""
        measured, answers = [], io.StringIO()
        turns.serve([LONG, SHORT], measured.append, [f"{request}\n" for request in requests], answers)
        return measured, [json.loads(text) for text in answers.getvalue().splitlines()]

    def test_only_exact_case_names_are_known(self):
        measured, lines = self.serve(SHORT, "gemm/bf16/nn/", "", f" {LONG} ", SHORT)
        self.assertEqual(measured, [SHORT, LONG, SHORT], "again whenever it is requested")
        self.assertEqual(lines[0], dict(cases=[LONG, SHORT]))
        self.assertEqual(lines[1:3], [dict(done=SHORT), dict(done="gemm/bf16/nn/", unknown=True)])
        self.assertEqual(lines[3:], [dict(done=LONG), dict(done=SHORT)])


class Programs(unittest.TestCase):
    def test_program_serves_until_input_ends(self):
        with program() as fake:
            self.assertEqual((list(fake.wait_until_ready()), fake.cases), ([], [LONG, SHORT]))
            self.assertEqual(list(fake.measure(SHORT)), [dict(case=SHORT, impl="pretended", ms=1.0), dict(done=SHORT)])
            self.assertEqual(list(fake.measure("gemm/")), [dict(done="gemm/", unknown=True)])
            self.assertEqual(len(list(fake.measure(LONG))), 2)
            self.assertEqual(list(fake.finish()), [])
            self.assertEqual((fake.process.returncode, fake.error, fake.take_error()), (0, None, None))

    def test_program_exit_during_case_is_reported_once(self):
        with program("print('no memory', file=sys.stderr); sys.exit(3)") as fake:
            list(fake.wait_until_ready())
            self.assertEqual(list(fake.measure(SHORT)), [dict(case=SHORT, impl="pretended", ms=1.0)])
            self.assertEqual(fake.take_error(), "exit status 3: no memory")
            self.assertEqual((list(fake.measure(LONG)), list(fake.finish()), fake.take_error()), ([], [], None))
        with program("os.kill(os.getpid(), 9)") as fake:
            list(fake.wait_until_ready())
            self.assertEqual((len(list(fake.measure(SHORT))), fake.error), (1, "exit status -9: "))

    def test_program_exit_between_requests_is_detected(self):
        with program() as fake:
            list(fake.wait_until_ready())
            fake.process.kill()
            fake.process.wait()
            self.assertEqual((list(fake.measure(SHORT)), fake.error), ([], "exit status -9: "))

    def test_hanging_program_is_killed(self):
        with program("time.sleep(600)", 2.0) as fake:
            list(fake.wait_until_ready())
            self.assertEqual(len(list(fake.measure(SHORT))), 1)
            self.assertTrue(fake.error.startswith("printed nothing for 2 s"), fake.error)
            self.assertEqual(fake.process.returncode, -9)

    def test_exit_is_detected_while_child_holds_output_open(self):
        with program("import subprocess; subprocess.Popen(['sleep', '30']); os._exit(4)") as fake:
            list(fake.wait_until_ready())
            self.assertEqual((len(list(fake.measure(SHORT))), fake.error), (1, "exit status 4: "))

    def test_failure_at_end_is_reported(self):
        with turns.Program("one", ["/bin/sh", "-c", 'echo \'{"cases": []}\'; cat; echo \'{"case": "a"}\'; echo 1 of 2 failed; exit 1'], 60.0) as fake:
            self.assertEqual(list(fake.wait_until_ready()), [])
            self.assertEqual((list(fake.finish()), fake.error), ([dict(case="a")], "exit status 1: 1 of 2 failed"))

    def test_program_that_cannot_start_reports_error(self):
        with turns.Program("none", [str(HERE / "no such program")], 60.0) as fake:
            self.assertEqual((list(fake.wait_until_ready()), list(fake.measure(SHORT)), list(fake.finish()), fake.cases), ([], [], [], []))
            self.assertIn("No such file", fake.take_error())


class Alternation(unittest.TestCase):
    def test_order_of_programs_rotates(self):
        self.assertEqual(list(turns.alternate(["a", "b"], 3)), [(0, ["a", "b"]), (1, ["b", "a"]), (2, ["a", "b"])])
        self.assertEqual(list(turns.alternate(["a", "b"], 2, 3)), [(0, ["b", "a"]), (1, ["a", "b"])], "a further round continues with it")
        self.assertEqual([ordered[0] for _, ordered in turns.alternate(["a", "b", "c"], 4)], ["a", "b", "c", "a"])
        self.assertEqual(list(turns.alternate(["a"], 2)), [(0, ["a"]), (1, ["a"])])

    def test_cases_follow_order_of_first_program(self):
        class Listing:
            def __init__(self, *cases):
                self.cases = list(cases)

        self.assertEqual(turns.all_cases([Listing("c", "a"), Listing("a", "b", "c", "d")]), ["c", "a", "b", "d"])
        self.assertEqual(turns.all_cases([Listing(), Listing("a")]), ["a"])

    def test_ratios_of_medians_with_minimum_and_maximum_turn(self):
        times = turns.TurnTimes("ternion")

        def add(program, impl, *milliseconds, case="train/a"):
            for turn, ms in enumerate(milliseconds):
                times.add(program, turn, dict(case=case, impl=impl, ms=ms))

        add("ternion", "ternion/eager", 1.0, 2.0, 4.0)
        add("ternion", "ternion/eager", 0.0, case="launches/train/a")
        add("ternion", "copy", 1.0, case="other")
        times.add("ternion", 0, dict(case="train/a", impl="ternion/graph", error="none"))
        times.add("ternion", 0, dict(done="train/a"))
        self.assertEqual(list(times.ratios()), [])
        add("torch", "torch/graph", 2.0, 2.0, 2.0)
        add("torch", "torch/eager", 4.0, 8.0)
        add("torch", "torch", 4.0, case="launches/train/a")
        eager = dict(case="train/a", impl="ternion/eager")
        self.assertEqual(
            list(times.ratios()),
            [dict(eager, baseline="torch/graph", ratio=1.0, min=0.5, max=2.0), dict(eager, baseline="torch/eager", ratio=0.3333, min=0.25, max=0.25)],
        )


class TorchScript(unittest.TestCase):
    def test_pytorch_script_serves_with_this_module(self):
        # Without PyTorch, only its text can be checked.
        text = (HERE / "torch_cases.py").read_text()
        self.assertIn("turns.serve(wanted, ", text)
        has_torch = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False)
        if has_torch.returncode == 0:
            completed = subprocess.run([sys.executable, str(HERE / "torch_cases.py"), "--list", "--only", SHORT], capture_output=True, text=True, check=True)
            self.assertEqual(completed.stdout.split(), [LONG])


if __name__ == "__main__":
    unittest.main()
