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
ANSWERS = f"""
import json, os, sys, time
sys.path.insert(0, {str(HERE)!r})
import turns
def measure(name):
    print(json.dumps(dict(case=name, impl="pretended", ms=1.0)), flush=True)
    {{then}}
turns.answer([{LONG!r}, {SHORT!r}], measure, sys.stdin, sys.stdout)
"""


def program(then="pass", limit=60.0):
    return turns.Program("pretended", [sys.executable, "-c", ANSWERS.format(then=then)], limit)


class Answers(unittest.TestCase):
    def answered(self, *requests):
        """Returns what was measured, and the lines that were printed."""
        measured, answers = [], io.StringIO()
        turns.answer([LONG, SHORT], measured.append, [f"{request}\n" for request in requests], answers)
        return measured, [json.loads(text) for text in answers.getvalue().splitlines()]

    def test_a_name_is_that_of_a_whole_case(self):
        measured, lines = self.answered(SHORT, "gemm/bf16/nn/", "", f" {LONG} ", SHORT)
        self.assertEqual(measured, [SHORT, LONG, SHORT], "again whenever it is requested")
        self.assertEqual(lines[0], dict(cases=[LONG, SHORT]))
        self.assertEqual(lines[1:3], [dict(done=SHORT), dict(done="gemm/bf16/nn/", unknown=True)])
        self.assertEqual(lines[3:], [dict(done=LONG), dict(done=SHORT)])


class Programs(unittest.TestCase):
    def test_a_program_answers_until_its_input_ends(self):
        with program() as asked:
            self.assertEqual((list(asked.begin()), asked.cases), ([], [LONG, SHORT]))
            self.assertEqual(list(asked.measure(SHORT)), [dict(case=SHORT, impl="pretended", ms=1.0), dict(done=SHORT)])
            self.assertEqual(list(asked.measure("gemm/")), [dict(done="gemm/", unknown=True)])
            self.assertEqual(len(list(asked.measure(LONG))), 2)
            self.assertEqual(list(asked.end()), [])
            self.assertEqual((asked.process.returncode, asked.error, asked.new_error()), (0, None, None))

    def test_a_program_that_ends_in_a_case_tells_why_once(self):
        with program("print('no memory', file=sys.stderr); sys.exit(3)") as asked:
            list(asked.begin())
            self.assertEqual(list(asked.measure(SHORT)), [dict(case=SHORT, impl="pretended", ms=1.0)])
            self.assertEqual(asked.new_error(), "exit status 3: no memory")
            self.assertEqual((list(asked.measure(LONG)), list(asked.end()), asked.new_error()), ([], [], None))
        with program("os.kill(os.getpid(), 9)") as asked:
            list(asked.begin())
            self.assertEqual((len(list(asked.measure(SHORT))), asked.error), (1, "exit status -9: "))

    def test_a_program_that_ends_between_requests_is_noticed(self):
        with program() as asked:
            list(asked.begin())
            asked.process.kill()
            asked.process.wait()
            self.assertEqual((list(asked.measure(SHORT)), asked.error), ([], "exit status -9: "))

    def test_a_program_that_hangs_is_ended(self):
        with program("time.sleep(600)", 2.0) as asked:
            list(asked.begin())
            self.assertEqual(len(list(asked.measure(SHORT))), 1)
            self.assertTrue(asked.error.startswith("printed nothing for 2 s"), asked.error)
            self.assertEqual(asked.process.returncode, -9)

    def test_output_that_another_process_holds_open_hides_no_end(self):
        with program("import subprocess; subprocess.Popen(['sleep', '30']); os._exit(4)") as asked:
            list(asked.begin())
            self.assertEqual((len(list(asked.measure(SHORT))), asked.error), (1, "exit status 4: "))

    def test_a_failure_at_the_end_counts(self):
        with turns.Program("one", ["/bin/sh", "-c", 'echo \'{"cases": []}\'; cat; echo \'{"case": "a"}\'; echo 1 of 2 failed; exit 1'], 60.0) as asked:
            self.assertEqual(list(asked.begin()), [])
            self.assertEqual((list(asked.end()), asked.error), ([dict(case="a")], "exit status 1: 1 of 2 failed"))

    def test_a_program_that_cannot_be_started_says_so(self):
        with turns.Program("none", [str(HERE / "no such program")], 60.0) as asked:
            self.assertEqual((list(asked.begin()), list(asked.measure(SHORT)), list(asked.end()), asked.cases), ([], [], [], []))
            self.assertIn("No such file", asked.new_error())


class Turns(unittest.TestCase):
    def test_another_program_begins_each_turn(self):
        self.assertEqual(list(turns.in_turn(["a", "b"], 3)), [(0, ["a", "b"]), (1, ["b", "a"]), (2, ["a", "b"])])
        self.assertEqual(list(turns.in_turn(["a", "b"], 2, 3)), [(0, ["b", "a"]), (1, ["a", "b"])], "a further round continues with it")
        self.assertEqual([ordered[0] for _, ordered in turns.in_turn(["a", "b", "c"], 4)], ["a", "b", "c", "a"])
        self.assertEqual(list(turns.in_turn(["a"], 2)), [(0, ["a"]), (1, ["a"])])

    def test_cases_are_in_the_order_of_the_first_program(self):
        class Listing:
            def __init__(self, *cases):
                self.cases = list(cases)

        self.assertEqual(turns.union([Listing("c", "a"), Listing("a", "b", "c", "d")]), ["c", "a", "b", "d"])
        self.assertEqual(turns.union([Listing(), Listing("a")]), ["a"])

    def test_ratios_are_of_medians_beside_the_extremes_of_a_turn(self):
        times = turns.Times("ternion")

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
            [dict(eager, over="torch/graph", ratio=1.0, least=0.5, most=2.0), dict(eager, over="torch/eager", ratio=0.3333, least=0.25, most=0.25)],
        )


class Torch(unittest.TestCase):
    def test_the_script_of_pytorch_answers_by_this_module(self):
        # Without PyTorch, only its text can be checked.
        text = (HERE / "torch_cases.py").read_text()
        self.assertIn("turns.answer(wanted, ", text)
        done = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False)
        if done.returncode == 0:
            listed = subprocess.run([sys.executable, str(HERE / "torch_cases.py"), "--list", "--only", SHORT], capture_output=True, text=True, check=True)
            self.assertEqual(listed.stdout.split(), [LONG])


if __name__ == "__main__":
    unittest.main()
