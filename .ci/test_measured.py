"""measured.py with small pages and a small repository, and that its tables fit the repository.

python3 -m unittest discover -s .ci
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import build_site  # noqa: E402
import measured  # noqa: E402
from measured import BY_HEADING, BY_LABEL, Change, Parts  # noqa: E402

COMMIT = "0123456789"
NOTE = "*Measured before the latest change of `code` (commit abcdef01, 2026-01-02).*"


class Known:
    """A history in which some paths have changed since each commit."""

    def __init__(self, *changed):
        self.changed, self.asked = changed, []

    def latest_change(self, commit, paths):
        self.asked.append(commit)
        changed = [path for path in paths if path in self.changed]
        return Change("abcdef01", "2026-01-02", changed) if changed else None


def noted(block, paths, *changed):
    """A block with its notes, if these paths have changed."""
    text = f"# Page\n\n<!-- t:start -->\n{block}\n<!-- t:end -->\n"
    page = measured.with_notes(text, "p.md", Known(*changed), {("p.md", "t"): paths}, {})
    return page.removeprefix("# Page\n\n<!-- t:start -->\n").removesuffix("\n<!-- t:end -->\n")


class NoteTest(unittest.TestCase):
    LINE = f"A GPU, commit {COMMIT}, 2026-01-01."

    def test_a_change_is_stated_after_the_commit(self):
        self.assertEqual(noted(f"{self.LINE}\n\n| a |", ("code",), "code"), f"{self.LINE} {NOTE}\n\n| a |")
        self.assertEqual(noted(f"{self.LINE}\n\n| a |", ("code",)), f"{self.LINE}\n\n| a |")
        self.assertEqual(noted(f"{self.LINE}\n\n| a |", ("other",), "code"), f"{self.LINE}\n\n| a |")

    def test_every_form_of_marker_is_a_block(self):
        for form, end in [("table:t", "end:t"), ("written by x/t.py", "end"), ("t:start (a script)", "t:end")]:
            name = "x/t.py" if "written" in form else "t"
            text = f"<!-- {form} -->\n{self.LINE}\n<!-- {end} -->\n"
            page = measured.with_notes(text, "p.md", Known("code"), {("p.md", name): ("code",)}, {})
            self.assertIn(NOTE, page, form)

    def test_of_lines_with_a_commit_the_last_is_followed_by_the_note(self):
        self.assertEqual(noted(f"{self.LINE}\n{self.LINE}", ("code",), "code"), f"{self.LINE}\n{self.LINE} {NOTE}")

    def test_a_table_row_is_no_provenance(self):
        row = f"| tests | passed (commit {COMMIT}) |"
        self.assertEqual(noted(f"{self.LINE}\n{row}", ("code",), "code"), f"{self.LINE} {NOTE}\n{row}")

    def test_of_two_commits_on_a_line_the_second_counts(self):
        history = Known()
        text = f"<!-- t:start -->\ncommit {COMMIT} and commit fedcba9876 in turn\n<!-- t:end -->\n"
        measured.with_notes(text, "p.md", history, {("p.md", "t"): ("code",)}, {})
        self.assertEqual(history.asked, ["fedcba9876"])

    def test_lines_with_labels_have_code_of_their_label(self):
        block = f"- cpu: CPU, commit {COMMIT}\n- cuda: GPU, commit {COMMIT}"
        parts = Parts(BY_LABEL, {"cpu": ("cpu",), "cuda": ("code",)})
        self.assertEqual(noted(block, parts, "code"), f"- cpu: CPU, commit {COMMIT}\n- cuda: GPU, commit {COMMIT}. {NOTE}")
        with self.assertRaisesRegex(SystemExit, "'wgpu' has no entry"):
            noted(f"- wgpu: GPU, commit {COMMIT}", parts)

    def test_sections_have_a_note_each(self):
        block = f"{self.LINE}\n\n### First\n\n| a |\n\n### Second\n\n| b |"
        parts = Parts(BY_HEADING, {"First": ("code",), "Second": ("other",)})
        summary = "*The code of these sections has changed since: First.*"
        self.assertEqual(noted(block, parts, "code"), f"{self.LINE} {summary}\n\n### First\n\n{NOTE}\n\n| a |\n\n### Second\n\n| b |")
        self.assertEqual(noted(block, parts), block)
        with self.assertRaisesRegex(SystemExit, "'Third' has no entry"):
            noted(f"{block}\n\n### Third", parts)

    def test_a_block_must_be_listed_state_a_commit_and_end(self):
        for text, error in [
            (f"<!-- u:start -->\n{self.LINE}\n<!-- u:end -->\n", "block u: has no entry"),
            ("<!-- t:start -->\nA GPU.\n<!-- t:end -->\n", "block t: states no commit"),
            (f"<!-- t:start -->\n{self.LINE}\n", "block t does not end"),
        ]:
            with self.assertRaisesRegex(SystemExit, error):
                measured.with_notes(text, "p.md", Known(), {("p.md", "t"): ("code",)}, {})

    def test_a_block_that_is_not_measured_stays(self):
        text = f"<!-- t:start -->\n{self.LINE}\n<!-- t:end -->\n"
        self.assertEqual(measured.with_notes(text, "p.md", Known("code"), {}, {("p.md", "t"): "why"}), text)

    def test_long_lists_are_shortened(self):
        self.assertEqual(measured.named(["a", "a.rs"]), "`a`")
        self.assertEqual(measured.named(["a", "b.rs"]), "`a` and `b.rs`")
        self.assertEqual(measured.named(["a", "b", "c", "d"]), "`a`, `b`, `c` and others")


class HistoryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.git("init", "-q")
        self.warnings = []

    def git(self, *arguments):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        command = ["git", "-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false", *arguments]
        return subprocess.run(command, cwd=self.root, env=environment, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, **files):
        for name, text in files.items():
            path = self.root / name.replace("__", "/").replace("_rs", ".rs")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        return self.git("rev-parse", "--short=8", "HEAD")

    def change(self, commit, *paths):
        return measured.History(self.root, self.warnings.append).latest_change(commit, paths)

    def test_the_latest_change_of_the_paths_is_found(self):
        first = self.commit(code__a_rs="a\n", other_rs="b\n")
        self.assertIsNone(self.change(first, "code"))
        second = self.commit(code__a_rs="c\n")
        self.commit(other_rs="d\n")
        found = self.change(first, "code", "absent")
        self.assertEqual((found.commit[:7], found.paths), (second[:7], ["code"]))
        self.assertRegex(found.date, r"^\d{4}-\d\d-\d\d$")
        self.assertIsNone(self.change(second, "code"))
        self.assertIsNone(self.change(first))

    def test_comments_and_tests_do_not_count(self):
        first = self.commit(code__a_rs="// old\na\n", code__tests_rs="a\n")
        self.commit(code__a_rs="// new\n    // more\na\n")
        self.commit(code__tests_rs="b\n")
        self.assertIsNone(self.change(first, "code"))
        self.commit(code__a_rs="// new\nb // changed\n")
        self.assertEqual(self.change(first, "code").paths, ["code"])

    def test_a_new_name_of_a_file_does_not_count(self):
        first = self.commit(code__a_rs="a\nb\nc\nd\ne\nf\n")
        self.git("mv", "code/a.rs", "code/b.rs")
        self.commit()
        self.assertIsNone(self.change(first, "code"))
        self.git("mv", "code/b.rs", "code/c.rs")
        self.commit(code__c_rs="a\nb\nc\nd\ne\ng\n")
        self.assertEqual(self.change(first, "code").paths, ["code"])
        self.assertEqual(measured.latest("commit a1 2026-01-02\n\n1\t1\tx/{a.rs => b.rs}\n", ["x/b.rs"]).paths, ["x/b.rs"])

    def test_an_unknown_commit_is_a_warning(self):
        self.commit(code__a_rs="a\n")
        self.assertIsNone(self.change("0123456789", "code"))
        self.assertEqual(len(self.warnings), 1)
        self.assertIn("commit 0123456789 is not in the history", self.warnings[0])

    def test_a_commit_of_another_branch_is_unknown(self):
        self.commit(code__a_rs="a\n")
        self.git("checkout", "-q", "-b", "side")
        side = self.commit(code__a_rs="b\n")
        self.git("checkout", "-q", "-")
        self.assertIsNone(self.change(side, "code"))
        self.assertEqual(len(self.warnings), 1)


class TableTest(unittest.TestCase):
    ROOT = build_site.ROOT

    def test_the_tables_have_exactly_the_blocks_of_the_pages(self):
        pages = build_site.pages((self.ROOT / "docs/SUMMARY.md").read_text(), "docs")
        found = {(page, name) for page in pages for name, _, _ in measured.blocks((self.ROOT / page).read_text(), page)}
        self.assertEqual(set(measured.MEASURED) & set(measured.NOT_MEASURED), set())
        self.assertEqual(set(measured.MEASURED) | set(measured.NOT_MEASURED), {block for block in found if not block[1].startswith(measured.EXPERIMENT)})

    def test_the_pages_can_be_noted(self):
        for page in {page for page, _ in measured.MEASURED}:
            text = (self.ROOT / page).read_text()
            every = {path for entry in measured.MEASURED.values() for path in self.flat(entry)}
            self.assertNotEqual(measured.with_notes(text, page, Known(*every)), text, page)
            self.assertEqual(measured.with_notes(text, page, Known()), text, page)

    @staticmethod
    def flat(entry):
        return [path for paths in entry.paths.values() for path in paths] if isinstance(entry, Parts) else entry

    def test_the_paths_exist(self):
        paths = {path for entry in measured.MEASURED.values() for path in self.flat(entry)}
        self.assertEqual([path for path in sorted(paths) if not (self.ROOT / path).exists()], [])

    def test_the_sections_are_those_of_the_pages(self):
        for (page, name), entry in measured.MEASURED.items():
            if isinstance(entry, Parts):
                text = (self.ROOT / page).read_text()
                start, end = next((start, end) for other, start, end in measured.blocks(text, page) if other == name)
                pattern = measured.HEADING if entry.by == BY_HEADING else measured.LABEL
                found = {match[1] for line in text.splitlines()[start:end] if (match := pattern.match(line))}
                self.assertEqual(set(entry.paths) - found, set(), page)


if __name__ == "__main__":
    unittest.main()
