"""Tests of checks.py with fake programs: python3 -m unittest discover -s benches/peers"""

import os
import pathlib
import shutil
import sys
import tarfile
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import checks  # noqa: E402

PREFIX = "========= "
TABLE = """
test result: ok. 882 passed; 0 failed; 0 ignored; 0 measured; 931 filtered out; finished in 122.63s

cuda:0: 88286 cases, 15356562 elements compared, 713298 ops watched; fingerprint of the results dc87991c5b0290d1
"""
KERNELS = "\ntest result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 73 filtered out; finished in 104.83s\n"
REPEATS = """
running 2 tests
test kernels::repeats::attention ... ok
test kernels::repeats::products_by_every_tile ... ok

successes:

---- kernels::repeats::attention stdout ----
attention, BF16 of width 64, causal: false: fingerprint 00000000000000aa

---- kernels::repeats::products_by_every_tile stdout ----
16 x 1032 x 1032 [Rows, Columns] by wgmma_64x64x64_ping_pong in 1: fingerprint 00000000000000bb

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 78 filtered out; finished in 40.83s
"""
# Prints the output of repeats; the bits of one case differ if kernels have delays and the file
# `raced` exists.
FAKE_REPEATS = f"""#!/bin/sh
[ "$TERNION_REPEATS $*" = "1000 kernels::repeats:: --show-output" ] || exit 3
bits=bb
[ "$TERNION_CUDA_DELAYS" = 1 ] && [ -e "$(dirname "$0")/raced" ] && bits=cc
sed "s/bb$/$bits/" <<'END'
{REPEATS}END
"""


# Passes unless the file `broken` exists, in which case only its part 2 fails; creates a file per
# run.
FAKE_OPS = """#!/bin/sh
here="$(dirname "$0")"
touch "$here/ran-$(echo "$TERNION_PART" | tr / -)-$$"
[ "$TERNION_PART $*" = "2/3 cuda" ] && [ -e "$here/broken" ] && { echo "test result: FAILED. 1 passed; 1 failed"; exit 101; }
cat <<'END'

test result: ok. 10 passed; 0 failed; 0 ignored; 0 measured; 931 filtered out; finished in 122.63s

cuda:0: 1000 cases, 15356562 elements compared, 713298 ops watched; fingerprint of the results dc87991c5b0290d1
  of them 600 in bf16, 400 in f32
  skipped     10 cases: nothing is fused
  skipped      2 cases: no room for it

END
"""


def write_program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


# Runs the given program and prints a summary: an error for what the file `broken` names, if it
# exists.
FAKE_SANITIZER = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift 2; done
echo "========= COMPUTE-SANITIZER"
"$@"
[ "$(cat "$(dirname "$1")/broken" 2> /dev/null)" != "$2" ] || { echo "========= ERROR SUMMARY: 1 error"; exit 9; }
echo "========= ERROR SUMMARY: 0 errors"
"""


class Parts(unittest.TestCase):
    """The op table in parts and the sanitizer's parts, run by the bundle's own script."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copy(HERE.parent / "gpu" / "run.sh", self.root / "run.sh")
        tarfile.open(self.root / "programs.tar.xz", "w:xz").close()
        write_program(self.root / "ternion-bench", "#!/bin/sh\n")
        write_program(self.root / "tests" / "ops", FAKE_OPS)
        write_program(self.root / "tests" / "cuda", f'#!/bin/sh\ntouch "$(dirname "$0")/ran-$1-$$"\ncat <<END\n{KERNELS}END\n')
        write_program(self.root / "bin" / "compute-sanitizer", FAKE_SANITIZER)
        self.lines = []
        self.checks = checks.Checks(self.root, None, self.root / "logs", lambda **line: self.lines.append(line), resume=True)

    def run_table(self):
        with mock.patch.dict(os.environ, PARTS="3", SIDE="2"):
            self.checks.run("table")

    def runs(self):
        return sorted(path.name.rsplit("-", 1)[0] for path in (self.root / "tests").glob("ran-*"))

    def test_parts_are_summed(self):
        self.run_table()
        self.assertEqual(self.runs(), [f"ran-{part}-3" for part in (1, 1, 2, 2, 3, 3)], "twice, each part once")
        self.assertEqual(self.checks.failed, [])
        for line in self.lines:
            self.assertEqual((line["passed"], line["failed"], line["cases"], line["not_applicable"]), (30, 0, 3000, 30))
            self.assertEqual((line["dtypes"], line["skipped"]), ({"bf16": 1800, "f32": 1200}, ["6 no room for it"]))
            self.assertEqual(line["fingerprint"], f"{3 * 0xDC87991C5B0290D1 % 2**64:016x}")

    def test_resume_skips_passed_parts(self):
        broken = self.root / "tests" / "broken"
        broken.touch()
        self.run_table()
        self.assertEqual(self.checks.failed, ["table", "table_again"])
        self.assertEqual((self.lines[0]["failed"], self.lines[0]["cases"], self.lines[0]["fingerprint"]), (1, None, None))
        broken.unlink()
        before = self.runs()
        self.run_table()
        self.assertEqual(sorted(self.runs()), sorted(before + ["ran-2-3"] * 2))
        self.assertEqual((self.lines[2]["cases"], self.lines[3]["cases"]), (3000, 3000))

    def test_without_resume_all_parts_run_again(self):
        self.run_table()
        self.checks.resume = False
        self.run_table()
        self.assertEqual(len(self.runs()), 12)

    def sanitize(self):
        with mock.patch.dict(os.environ, PATH=f"{self.root / 'bin'}:{os.environ['PATH']}", PARTS="2"):
            self.checks.run("memcheck")
        return self.lines[-1]

    def test_sanitizer_resumes_at_failed_part(self):
        broken = self.root / "tests" / "broken"
        broken.write_text("kernels::split_k::")
        result = self.sanitize()
        self.assertEqual((result["errors"], result["parts"], result["cases"], result["passed"]), (1, 10, 2000, 8 * 7 + 2 * 10))
        self.assertEqual(self.checks.failed, ["memcheck"])
        before = self.runs()
        self.assertEqual(len(before), 10)
        broken.unlink()
        result = self.sanitize()
        self.assertEqual((result["errors"], result["parts"], result["failed"]), (0, 10, 0))
        self.assertEqual(self.runs(), sorted(before + ["ran-kernels::split_k::"]))

    def test_changed_program_runs_all_parts_again(self):
        self.run_table()
        write_program(self.root / "tests" / "ops", FAKE_OPS + "# Rebuilt.\n")
        self.run_table()
        self.assertEqual(len(self.runs()), 12)


class Sanitizer(unittest.TestCase):
    def parse(self, *parts):
        return checks.parse_sanitizer("".join(f"{PREFIX}COMPUTE-SANITIZER\n{part}" for part in parts))

    def test_kernel_parts_are_added_to_op_table_parts(self):
        clean = f"{PREFIX}ERROR SUMMARY: 0 errors\n"
        result = self.parse(KERNELS + clean, TABLE + clean, TABLE + f"{PREFIX}ERROR SUMMARY: 3 errors\n")
        self.assertEqual((result["passed"], result["failed"], result["cases"], result["errors"], result["parts"]), (1771, 0, 2 * 88286, 3, 3))
        result = self.parse(TABLE + clean, KERNELS.replace("0 failed", "2 failed") + clean)
        self.assertEqual((result["failed"], result["cases"]), (2, 88286))

    def test_part_without_summary_is_reported(self):
        clean = f"{PREFIX}ERROR SUMMARY: 0 errors\n"
        for broken in ("it fell over\n" + clean, KERNELS):
            result = self.parse(broken, TABLE + clean)
            self.assertIn(None, (result["passed"], result["cases"], result["errors"]))
        self.assertEqual(self.parse(KERNELS + clean)["cases"], None, "of the table nothing was run")


class Repeats(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        (self.root / "tests").mkdir()
        program = self.root / "tests" / "cuda"
        program.write_text(FAKE_REPEATS)
        program.chmod(0o755)
        self.lines = []
        self.checks = checks.Checks(self.root, None, self.root / "logs", lambda **line: self.lines.append(line))

    def tearDown(self):
        self.folder.cleanup()

    def test_repeats_output_is_parsed(self):
        self.assertEqual(
            checks.parse_fingerprints(REPEATS),
            {
                "attention, BF16 of width 64, causal: false": "00000000000000aa",
                "16 x 1032 x 1032 [Rows, Columns] by wgmma_64x64x64_ping_pong in 1": "00000000000000bb",
            },
        )
        result = checks.parse_repeats(REPEATS)
        self.assertEqual((result["passed"], result["failed"], result["repeats"], result["cases"]), (2, 0, 1000, 2))
        self.assertNotEqual(result["fingerprint"], checks.parse_repeats(REPEATS.replace("aa\n", "ab\n"))["fingerprint"])
        self.assertNotIn("error", result)
        self.assertIn("no case", checks.parse_repeats(KERNELS)["error"])

    def test_equal_fingerprints_with_delays_pass(self):
        for name in ("repeats", "repeats_delayed"):
            self.checks.run(name)
        self.assertEqual((self.checks.failed, [line["check"] for line in self.lines]), ([], ["repeats", "repeats_delayed"]))
        self.assertEqual(self.lines[0]["fingerprint"], self.lines[1]["fingerprint"])

    def test_different_fingerprints_with_delays_fail(self):
        self.checks.run("repeats")
        (self.root / "tests" / "raced").touch()
        self.checks.run("repeats_delayed")
        self.assertEqual(self.checks.failed, ["repeats_delayed"])
        self.assertEqual(
            self.lines[1]["error"],
            "1 of 2 cases differ from the run without delays, for example: 16 x 1032 x 1032 [Rows, Columns] by wgmma_64x64x64_ping_pong in 1",
        )

    def test_missing_case_fails(self):
        expected = dict(checks.parse_fingerprints(REPEATS), other="00000000000000cc")
        self.assertIn("1 of 3 cases", checks.parse_repeats(REPEATS, expected)["error"])

    def test_delayed_run_requires_run_without_delays(self):
        self.checks.run("repeats_delayed")
        self.assertEqual(self.checks.failed, ["repeats_delayed"])
        self.assertIn("run the check `repeats` first", self.lines[0]["error"])


if __name__ == "__main__":
    unittest.main()
