"""Tests of check_width.py: each kind of comment is measured, and nothing else."""

import unittest

from check_width import LIMIT, wide

LONG = "x" * LIMIT


class Width(unittest.TestCase):
    def test_comments_that_are_too_long_are_found(self):
        for path, text in [
            ("a.rs", f"// {LONG}"),
            ("a.rs", f"/// {LONG}"),
            ("a.rs", f"let a = 1; /* {LONG}\n*/"),
            ("a.cu", f"int a = 1;  // {LONG}"),
            ("a.wgsl", f"// {LONG}"),
            ("a.py", f"# {LONG}"),
            ("a.py", f'"""{LONG}"""'),
            ("a.py", f'def f():\n    """One.\n\n    {LONG}\n    """'),
            ("a.toml", f"# {LONG}"),
            ("a.rs", f"/// ```\n/// ```\n/// {LONG}"),
            ("a.pyi", f'def f():\n    """{LONG}"""'),
        ]:
            self.assertEqual(len(wide(path, text)), 1, msg=text[:20])

    def test_line_and_columns_are_reported(self):
        self.assertEqual(wide("a.rs", f"fn f() {{}}\n// {LONG}\n"), [(2, LIMIT + 3)])

    def test_code_strings_and_urls_may_be_longer(self):
        for path, text in [
            ("a.rs", f'let a = "// {LONG}";'),
            ("a.rs", f"let {LONG} = 1;"),
            ("a.rs", f"// https://example.com/{LONG}"),
            ("a.rs", "// " + "x" * (LIMIT - 3)),
            ("a.rs", f"#[doc(alias = {LONG})]"),
            ("a.py", f'a = """{LONG}"""'),
            ("a.py", f"a = {LONG}  # noqa: E731"),
            ("a.rs", f"/// ```\n/// let {LONG} = 1;\n/// ```"),
            ("a.pyi", 'def f():\n    """' + "x" * (LIMIT - 6) + '"""'),
        ]:
            self.assertEqual(wide(path, text), [], msg=text[:20])


if __name__ == "__main__":
    unittest.main()
