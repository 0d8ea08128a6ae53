"""build_site.py with a small repository, and that docs/SUMMARY.md lists every page.

python3 -m unittest discover -s .ci
"""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import build_site  # noqa: E402

FILES = {
    "README.md": "# Top\n\n![plot](docs/plot.svg) [guide](docs/guide/first.md#part) [code](src/lib.rs) [site](https://example.org)\n\n"
    "```sh\n[kept](none)\n```\n",
    "docs/SUMMARY.md": "# Summary\n\n[Top](../README.md)\n\n- [Guide](guide/first.md)\n- [Apps](../apps/README.md)\n",
    "docs/guide/first.md": "# Part\n\n[top](../../README.md) [apps](../../apps/README.md) [itself](#part)\n",
    "docs/plot.svg": "<svg/>",
    "apps/README.md": "# Apps\n\n[guide](../docs/guide/first.md)\n",
    "src/lib.rs": "",
}

# A package with a documented function, which a page may link to.
PACKAGE = {
    "docs/SUMMARY.md": FILES["docs/SUMMARY.md"] + "\n# API\n\n<!-- python-api -->\n",
    "python/ternion/__init__.py": '"""All."""\nfrom . import nn as nn\n__all__ = ["nn"]\n',
    "python/ternion/nn/__init__.py": '"""Layers."""\n__all__ = ["relu"]\ndef relu(x):\n    """Is at least 0."""\n',
    "python/ternion/nn/attention.py": '"""Attention."""\n',
    "docs/guide/first.md": "[nn](../../python/ternion/nn/__init__.py) [relu](../../python/ternion/__init__.py#ternion.nn.relu)\n",
}


class SiteTest(unittest.TestCase):
    def built(self, **more):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in {**FILES, **more}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            listed = build_site.write_sources(root / "out", root)
            source = root / "out/source"
            texts = {str(file.relative_to(source)): file.read_text() for file in source.rglob("*") if file.is_file()}
            return listed, texts, build_site.missing_pages(listed, root)

    def test_pages_have_their_place_and_links_lead_there(self):
        listed, source, missing = self.built()
        self.assertEqual((listed, missing), (["README.md", "docs/guide/first.md", "apps/README.md"], []))
        self.assertEqual(set(source), {"SUMMARY.md", "index.md", "guide/first.md", "apps.md", "plot.svg"})
        self.assertIn("![plot](plot.svg) [guide](guide/first.md#part)", source["index.md"])
        self.assertIn(f"[code]({build_site.REPOSITORY}src/lib.rs) [site](https://example.org)", source["index.md"])
        self.assertIn("[kept](none)", source["index.md"])
        self.assertIn("[top](../index.md) [apps](../apps.md) [itself](#part)", source["guide/first.md"])
        self.assertIn("- [Apps](apps.md)", source["SUMMARY.md"])

    def test_a_link_that_leads_nowhere_is_an_error(self):
        with self.assertRaises(SystemExit) as error:
            self.built(**{"apps/README.md": "[gone](gone.md)\n"})
        self.assertEqual(str(error.exception), "error: apps/README.md: gone.md: there is no such file")

    def test_links_to_python_lead_to_generated_pages(self):
        _, source, _ = self.built(**PACKAGE)
        self.assertIn("[nn](../python/ternion.nn.md) [relu](../python/ternion.nn.md#ternion.nn.relu)", source["guide/first.md"])
        self.assertIn('<a id="ternion.nn.relu"></a>', source["python/ternion.nn.md"])
        self.assertIn("# API\n\n- [ternion](python/ternion.md)\n- [ternion.nn](python/ternion.nn.md)\n", source["SUMMARY.md"])

    def test_a_python_name_that_does_not_exist_is_an_error(self):
        page = "[gone](../../python/ternion/nn/__init__.py#ternion.nn.gone)\n"
        with self.assertRaisesRegex(SystemExit, "#ternion.nn.gone: the Python API has no such name"):
            self.built(**{**PACKAGE, "docs/guide/first.md": page})

    def test_a_name_without_docstring_is_an_error(self):
        source = PACKAGE["python/ternion/nn/__init__.py"].replace('"""Is at least 0."""', "pass")
        with self.assertRaisesRegex(SystemExit, "error: ternion.nn.relu has no docstring"):
            self.built(**{**PACKAGE, "python/ternion/nn/__init__.py": source})

    def test_a_summary_without_the_generated_pages_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "has no line <!-- python-api -->"):
            self.built(**{**PACKAGE, "docs/SUMMARY.md": FILES["docs/SUMMARY.md"]})

    def test_a_measured_block_without_an_entry_is_an_error(self):
        page = "<!-- new:start -->\nA GPU, commit 0123456789.\n<!-- new:end -->\n"
        with self.assertRaisesRegex(SystemExit, "docs/guide/first.md: block new: has no entry"):
            self.built(**{"docs/guide/first.md": page})

    def test_a_page_that_is_not_listed_is_named(self):
        self.assertEqual(self.built(**{"docs/more.md": "# More\n"})[2], ["docs/more.md"])

    def test_every_page_of_the_repository_is_listed(self):
        listed = build_site.pages((build_site.ROOT / "docs/SUMMARY.md").read_text(), "docs")
        self.assertEqual(build_site.missing_pages(listed), [])
        self.assertEqual([path for path in listed if not (build_site.ROOT / path).is_file()], [])


if __name__ == "__main__":
    unittest.main()
