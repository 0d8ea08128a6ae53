"""build_site.py with a small repository, and that docs/SUMMARY.md lists every page: python3 -m unittest discover -s .ci"""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import build_site  # noqa: E402

FILES = {
    "README.md": "# Top\n\n![plot](docs/plot.svg) [guide](docs/guide/first.md#part) [code](src/lib.rs) [site](https://example.org)\n\n```sh\n[kept](none)\n```\n",
    "docs/SUMMARY.md": "# Summary\n\n[Top](../README.md)\n\n- [Guide](guide/first.md)\n- [Apps](../apps/README.md)\n",
    "docs/guide/first.md": "# Part\n\n[top](../../README.md) [apps](../../apps/README.md) [itself](#part)\n",
    "docs/plot.svg": "<svg/>",
    "apps/README.md": "# Apps\n\n[guide](../docs/guide/first.md)\n",
    "src/lib.rs": "",
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
            return listed, {str(file.relative_to(source)): file.read_text() for file in source.rglob("*") if file.is_file()}, build_site.missing_pages(listed, root)

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

    def test_a_page_that_is_not_listed_is_named(self):
        self.assertEqual(self.built(**{"docs/more.md": "# More\n"})[2], ["docs/more.md"])

    def test_every_page_of_the_repository_is_listed(self):
        listed = build_site.pages((build_site.ROOT / "docs/SUMMARY.md").read_text(), "docs")
        self.assertEqual(build_site.missing_pages(listed), [])
        self.assertEqual([path for path in listed if not (build_site.ROOT / path).is_file()], [])


if __name__ == "__main__":
    unittest.main()
