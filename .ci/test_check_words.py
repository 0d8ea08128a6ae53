"""Tests of check_words.py, with planted and with allowed words: python3 -m unittest discover -s .ci"""

import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import check_words  # noqa: E402

LIST = check_words.entries("# a comment\n\nblorp\tbuffer\nof its zork\tits zork\tdocs/old.md kernels\n(?-i:Zap)s?\tclear\n")
REAL = check_words.entries((HERE / "words.txt").read_text())


def found(path, text, word_list=LIST):
    """The hits in a text as pairs of line and word."""
    return [(hit.line, hit.text) for hit in check_words.hits(path, text, check_words.compiled(word_list))]


class Lists(unittest.TestCase):
    def test_an_entry_has_a_pattern_a_term_and_perhaps_globs(self):
        self.assertEqual([entry.pattern for entry in LIST], ["blorp", "of its zork", "(?-i:Zap)s?"])
        self.assertEqual(LIST[0].allowed, [])
        self.assertEqual(LIST[1].allowed, ["docs/old.md", "kernels"])

    def test_every_entry_of_the_real_list_is_complete(self):
        for entry in REAL:
            self.assertTrue(entry.term.strip(), entry)
            for path in entry.allowed:
                self.assertTrue(any((check_words.ROOT / path).exists() for path in [path.split("*")[0]]), path)
        self.assertEqual(len({entry.pattern for entry in REAL}), len(REAL))


class Patterns(unittest.TestCase):
    def test_whole_words_in_any_case(self):
        self.assertEqual(found("a.md", "A Blorp, blorps, my_blorp.\n\nblorp"), [(1, "Blorp"), (3, "blorp")])

    def test_a_marked_part_has_its_case(self):
        self.assertEqual(found("a.md", "Zap zap ZAP Zaps"), [(1, "Zap"), (1, "Zaps")])

    def test_words_are_found_across_lines_of_one_paragraph_only(self):
        self.assertEqual(found("a.rs", "/// Part of\n    /// its zork.\n"), [(1, "of its zork")])
        self.assertEqual(found("a.md", "Part of\n\nits zork."), [])
        self.assertEqual(found("a.rs", "// part of\nlet x = 1; // its zork\n"), [])

    def test_allowed_files_and_folders(self):
        for path, count in [("docs/old.md", 0), ("kernels/a.md", 0), ("docs/new.md", 1), ("kernels2/a.md", 1)]:
            self.assertEqual(len(found(path, "of its zork")), count, path)


class Prose(unittest.TestCase):
    def test_rust(self):
        text = 'fn blorp<\'a>(c: char) {} // blorp\n/* blorp\n */ let blorp = \'"\'; let b = "a \\"blorp\\" {blorp} \\\n  blorp";\nr#"blorp " "#;\n'
        self.assertEqual([line for line, _ in found("a.rs", text)], [1, 2, 3, 4, 5])

    def test_c_and_wgsl(self):
        for path in ("a.cu", "a.cuh", "a.h", "a.wgsl"):
            self.assertEqual(found(path, "int blorp; // blorp\n/* blorp */\n#define blorp 'b'\n"), [(1, "blorp"), (2, "blorp")])

    def test_python(self):
        text = '"""Blorp.\n\n>>> blorp\n"""\nblorp = f"{blorp} blorp"  # blorp\nx = \'blorp\'\n'
        self.assertEqual([line for line, _ in found("a.py", text)], [1, 5, 5, 6])

    def test_shell_and_toml(self):
        self.assertEqual(found("a.sh", "blorp $# # blorp\necho 'blorp' ${x#blorp}\n"), [(1, "blorp"), (2, "blorp")])
        self.assertEqual(found("a.toml", 'blorp = "blorp"\n# blorp\n'), [(1, "blorp"), (2, "blorp")])

    def test_markdown(self):
        text = "blorp `blorp` [text](blorp) <!-- blorp --> https://blorp.org/blorp docs/blorp.md blorp.rs\n```\nblorp\n```\n| blorp |\n"
        self.assertEqual(found("a.md", text), [(1, "blorp"), (5, "blorp")])

    def test_a_fence_ends_with_its_comment(self):
        self.assertEqual(found("a.rs", "/// ```\n/// blorp\nfn a() {}\n/// blorp\n"), [(4, "blorp")])

    def test_lines_and_columns_are_kept(self):
        text = (HERE / "check_words.py").read_text()
        prose = check_words.prose("check_words.py", text)
        self.assertEqual([len(line) for line in prose.split("\n")], [len(line) for line in text.split("\n")])


PLANTED = """The error is told once. | It tells the size. | The tensor lies in memory. | Rows lie dense. | a thread of its own | a model of one's own
what is there | NVRTC is there | packs of halves | read in fours | computed anew | the places of elements | the place of an element, its place
beside each other | whoever waits | nobody reads it | in f32 alone | all but for the last | a whole number | truth values | the processor
x is no tensor | bytes under way | on their way | is given back | the interpreter is let go | goes on from there | it stands at the end | it stands in the log
a is turned | one work after the other | 4096 cubed | sums are formed | healthy trainings | It asks for a gradient. | damaged file
colour | behaviour | optimiser | normalised | neighbouring | centre | labelled | grey | towards | maths | work group | the slope of the function"""

CORRECT = """in place | in-place ops | in place of the mask | takes place | unit in the last place | decimal places | It places the tile. | There is no tensor.
It is no longer used. | 16-bit halves | the halves of the word | it halves the rate | left alone | multiprocessor | turned off | it works
workgroup | Hand it in. | It stands for one. | It stands in for NVRTC. | a training step | an underlying buffer | besides | the best | Notes | promise
analysis | analyses | exercise | precise | otherwise | four | ourselves | counter | contour | hour | noise | raised | advised | size
its own stream | Is there an error? | the mask hides nothing | kernel form"""


class RealList(unittest.TestCase):
    def test_planted_words_are_found(self):
        for text in PLANTED.replace("\n", " | ").split(" | "):
            self.assertTrue(found("a.md", text, REAL), text)

    def test_correct_words_are_not(self):
        for text in CORRECT.replace("\n", " | ").split(" | "):
            self.assertEqual(found("a.md", text, REAL), [], text)

    def test_negative_slope_is_allowed_where_activations_are(self):
        self.assertEqual(found("crates/nn/src/layers/activation.rs", "/// Slope for negative x.", REAL), [])


class Program(unittest.TestCase):
    def run_it(self, *arguments):
        command = [sys.executable, str(HERE / "check_words.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    def test_the_clean_files_are_clean(self):
        result = self.run_it()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_a_planted_word_fails_with_its_line(self):
        out = self.printed()
        root = "b.md:1: 'blorp'; use: buffer\n" * 2
        self.assertEqual(out, (True, f"{root}docs/a.md:2: 'Blorp'; use: buffer\n2 files checked, 3 words to replace\n"))
        out = self.printed("docs")
        self.assertEqual(out, (True, "docs/a.md:2: 'Blorp'; use: buffer\n1 files checked, 1 words to replace\n"))

    def test_a_count_is_of_all_files(self):
        code, out = self.printed("--count")
        self.assertIsNone(code)
        self.assertEqual(out, "     2  (root)\n     1  docs\n     3  total\n     3  blorp -> buffer ((root) 2, docs 1)\n")

    def printed(self, *arguments):
        """Exit code and output of the program in a folder with two files."""
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            texts = {".ci/words.txt": "blorp\tbuffer\n", "docs/a.md": "a\nBlorp", "b.md": "blorp blorp"}
            for path, text in texts.items():
                (pathlib.Path(folder) / path).parent.mkdir(exist_ok=True)
                (pathlib.Path(folder) / path).write_text(text)
            patches = {"ROOT": pathlib.Path(folder), "files": lambda: ["b.md", "docs/a.md"]}
            with unittest.mock.patch.multiple(check_words, **patches), unittest.mock.patch("sys.argv", ["check_words.py", *arguments]):
                try:
                    return check_words.main(), out.getvalue()
                except SystemExit as end:
                    return end.code, out.getvalue()

    def test_a_path_that_matches_nothing_fails(self):
        result = self.run_it("no/such/file.md")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("no/such/file.md", result.stderr)

    def test_words_of_a_language(self):
        self.assertTrue(check_words.is_checked(".ci/run"))
        self.assertFalse(check_words.is_checked(".ci/words.txt"))
        self.assertFalse(check_words.is_checked("LICENSE-MIT"))


if __name__ == "__main__":
    unittest.main()
