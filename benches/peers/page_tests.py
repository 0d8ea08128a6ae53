"""Shared code of the tests of scripts that write a page."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent


class PageCase(unittest.TestCase):
    """A folder with a page whose part between the markers is stale. Subclasses set SCRIPT, a
    module, and RESULTS, the name of its results file.
    """

    SCRIPT = None
    RESULTS = "results.jsonl"

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.page = self.path / "page.md"
        self.page.write_text(f"before\n\n{self.SCRIPT.START}\nstale\n{self.SCRIPT.END}\nafter\n")

    def write(self, lines, error=""):
        """Returns the page after `write` of these results, which fails with this error."""
        (self.path / self.RESULTS).write_text("".join(json.dumps(line) + "\n" for line in lines))
        command = [sys.executable, str(HERE / f"{self.SCRIPT.__name__}.py"), "write", self.RESULTS, "page.md"]
        completed = subprocess.run(command, capture_output=True, text=True, cwd=self.path, check=False)
        self.assertEqual(bool(completed.returncode), bool(error), completed.stderr)
        self.assertIn(error, completed.stderr)
        self.printed = completed.stdout
        return self.page.read_text()
