"""Tests of commits.py: two alternating programs, and the table of their times."""

import json
import os
import pathlib
import stat
import tempfile
import unittest
from unittest import mock

import commits

PROGRAM = """#!/bin/sh
case "$1 $2" in
    "--only host/") echo '{"case": "host/launch", "impl": "driver", "ms": 0.004}'; echo '{"case": "host/add", "impl": "ternion", "ms": %s}' ;;
    "start context") echo '{"case": "start"}' ;;
    "start result")
        # A cold start has an empty kernel cache, and none of the driver's.
        if [ "$CUDA_CACHE_DISABLE" = 1 ] && [ -n "$(ls -A "$TERNION_CACHE")" ]; then exit 3; fi
        mkdir -p "$TERNION_CACHE" && touch "$TERNION_CACHE/kernel"
        sleep 0.02; echo '{"case": "start"}' ;;
    *) exit 2 ;;
esac
"""


class Commits(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def bundle(self, name, milliseconds):
        """Creates a folder with a program that answers like ternion-bench."""
        folder = self.folder / name
        folder.mkdir()
        program = folder / "ternion-bench"
        program.write_text(PROGRAM % milliseconds, encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        (folder / "bundle.json").write_text(json.dumps(dict(commit=f"{name}1234")), encoding="utf-8")
        return folder

    def run_both(self, turns="3"):
        out = self.folder / "commits.jsonl"
        before, now = self.bundle("before", 0.0005), self.bundle("now", 0.0006)
        command = ["commits.py", "run", "--before", str(before), "--bundle", str(now), "--out", str(out), "--turns", turns]
        with mock.patch("sys.argv", command):
            commits.main()
        return out

    def test_both_commits_are_measured_alternately(self):
        out = self.run_both()
        lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        self.assertEqual((lines[0]["run"]["commit"], lines[0]["run"]["before"]), ("now1234", "before1234"))
        asked = [(line["turn"], line["commit"]) for line in lines[1:] if line["case"] == "host/add"]
        self.assertEqual(asked, [(0, "before"), (0, "now"), (1, "now"), (1, "before"), (2, "before"), (2, "now")])
        self.assertTrue({"start/context", "start/result", "start/cold"} <= {line["case"] for line in lines[1:]})
        self.assertNotIn("host/launch", {line.get("case") for line in lines}, "the driver's is of no commit")
        page = self.folder / "page.md"
        page.write_text("a\n" + "\n".join(commits.MARKERS) + "\nb\n", encoding="utf-8")
        with mock.patch("sys.argv", ["commits.py", "write", str(out), str(page)]):
            commits.main()
        text = page.read_text(encoding="utf-8")
        self.assertIn("| host/add | 0.50 us (0.50 to 0.50) | 0.60 us (0.60 to 0.60) | 1.20 |", text)
        self.assertIn("| start/result above start/context |", text)
        self.assertIn("commit before1234 and commit now1234 in turn", text)
        self.assertIn("of a single op 1.20 in the mean and 1.20 at most (host/add). A single op may take 1.05 times as long: **does not hold**.", text)
        slower = {"host/add": {"before": [1.0], "now": [1.3]}, "host/add_sustained": {"before": [2.0], "now": [1.0]}}
        self.assertIn("20,000 in a row 0.50 in the mean and 0.50 at most (host/add_sustained). A single op may take 1.05 times as long: **does not hold**.", commits.host_ratio_sentence(slower))
        same = {"host/add": {"before": [1.0], "now": [1.04]}}
        self.assertIn("A single op may take 1.05 times as long: holds.", commits.host_ratio_sentence(same))

    def test_cases_of_only_one_commit_are_omitted(self):
        lines = [dict(case="host/new", commit="now", us=1.0), dict(case="host/add", commit="now", us=1.0), dict(case="host/add", commit="before", us=2.0)]
        self.assertEqual(commits.times_by_case(lines), {"host/add": {"now": [1.0], "before": [2.0]}})
        with self.assertRaisesRegex(SystemExit, "no case that both commits have"):
            commits.render([dict(run=dict(device="", driver="", cores=1, date="", before="", commit="")), lines[0]])

    def test_zero_turns_are_rejected(self):
        with self.assertRaises(SystemExit), mock.patch("sys.stderr"):
            self.run_both(turns="0")

    def test_failed_program_ends_run(self):
        before, now = self.bundle("before", 0.0005), self.folder / "now"
        now.mkdir()
        os.symlink("/bin/false", now / "ternion-bench")
        out = self.folder / "commits.jsonl"
        with mock.patch("sys.argv", ["commits.py", "run", "--before", str(before), "--bundle", str(now), "--out", str(out)]):
            with self.assertRaisesRegex(SystemExit, "error: .*ternion-bench"):
                commits.main()
        self.assertFalse(out.exists(), "nothing half done")


if __name__ == "__main__":
    unittest.main()
