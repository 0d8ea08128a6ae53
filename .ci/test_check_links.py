"""check_links.py with planted dead links: python3 -m unittest discover -s .ci"""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import check_links  # noqa: E402

PAGE = """# A page

See [itself](#a-page), [`code` in it](other.md), [twice](other.md#twice-1), [elsewhere](https://example.org/none.md),
![a picture](docs/none.svg) and [no heading](other.md#three-times).

```md
[not a link](none.md)
```

`[neither](none.md)`, but [this one](none.md) is, and [out](../../../etc/passwd).

[reference]: gone.md
"""
OTHER = "# Twice\n\n## Twice\n\n## `f(x)`: [linked](x) *words* & more\n\n```sh\n# three times\n```\n"


class LinksTest(unittest.TestCase):
    def test_dead_links_are_named_with_their_line(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            (root / "page.md").write_text(PAGE)
            (root / "other.md").write_text(OTHER)
            found = list(check_links.faults(root, [root / "page.md", root / "other.md"]))
        expected = [
            "page.md:4: docs/none.svg: there is no such file",
            "page.md:4: other.md#three-times: other.md has no heading #three-times",
            "page.md:10: none.md: there is no such file",
            "page.md:10: ../../../etc/passwd: leads out of the repository",
            "page.md:12: gone.md: there is no such file",
            "other.md:5: x: there is no such file",
        ]
        self.assertEqual(found, expected)

    def test_anchors_are_those_of_github(self):
        self.assertEqual(check_links.anchors(OTHER), {"twice", "twice-1", "fx-linked-words--more"})


if __name__ == "__main__":
    unittest.main()
