"""check_site.py with planted dead links: python3 -m unittest discover -s .ci"""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import check_site  # noqa: E402

FILES = {
    "index.html": """<link href="style.css"><a href="guide/first.html#part">sound</a> <a href="#top" id="top">itself</a>
<a href="guide/none.html">a</a> <a href="guide/first.html#none">b</a> <img src="none.svg"> <a href="https://example.org/none">other</a>
<a href="guide/">folder</a> <a href="guide/first.html#a%20b">escaped</a> <a href="">itself</a> <a href="#none">c</a>""",
    "guide/first.html": '<h1 id="part">Part</h1> <a name="a b"></a> <a href="/index.html">root</a> <a href="../index.html#top">up</a>',
    "guide/index.html": "",
    "style.css": "",
}


class SiteLinksTest(unittest.TestCase):
    def test_dead_links_are_named_with_their_line(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in FILES.items():
                (root / path).parent.mkdir(exist_ok=True)
                (root / path).write_text(text)
            found = list(check_site.faults(root))
        expected = [
            "index.html:2: guide/none.html: there is no such file",
            "index.html:2: guide/first.html#none: first.html has no element with this id",
            "index.html:2: none.svg: there is no such file",
            "index.html:3: #none: index.html has no element with this id",
        ]
        self.assertEqual(found, expected)

    def test_a_folder_without_pages_is_a_fault(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(len(list(check_site.faults(pathlib.Path(folder)))), 1)


if __name__ == "__main__":
    unittest.main()
