"""check_packages.py with planted gaps: python3 -m unittest discover -s .ci"""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import check_packages  # noqa: E402

PACKAGE = {
    "name": "ternion-sound", "description": "d", "license": "MIT", "repository": "https://example.org", "rust_version": "1.95", "readme": "README.md",
    "keywords": ["tensor"], "categories": ["science"], "metadata": {"docs": {"rs": {"targets": ["x"]}}},
    "dependencies": [{"kind": None, "path": "/core", "req": "^0.1.0"}, {"kind": "dev", "path": "/testing", "req": "^0.1.0"}],
}  # fmt: skip
LISTED = check_packages.EXPECTED | {"src/lib.rs", "src/page.md", "kernels/a.cu"}
SOURCE = """#![doc = include_str!("page.md")]
macro_rules! file { ($path:literal) => { ($path, include_str!(concat!("../kernels/", $path))) }; }
#[cfg(test)]
#[path = "../tests/unit.rs"]
mod tests;
"""


class PackagesTest(unittest.TestCase):
    def faults_of_files(self, listed, kernels=("a.cu",)):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in {"src/lib.rs": SOURCE, "tests/unit.rs": ""}.items():
                (root / path).parent.mkdir()
                (root / path).write_text(text)
            return check_packages.file_faults(root, set(listed), lambda _: list(kernels))

    def test_complete_metadata_has_no_faults(self):
        self.assertEqual(check_packages.metadata_faults(PACKAGE), [])

    def test_each_gap_in_the_metadata_is_found(self):
        for change, expected in [
            ({"description": None}, "no description"),
            ({"rust_version": None}, "no rust_version"),
            ({"keywords": []}, "0 keywords"),
            ({"keywords": ["a"] * 6}, "6 keywords"),
            ({"keywords": ["deep learning"]}, "'deep learning'"),
            ({"keywords": ["a" * 21]}, "too long"),
            ({"categories": ["machine-learning"]}, "'machine-learning'"),
            ({"readme": None}, "the readme is None"),
            ({"metadata": None}, "docs.rs"),
        ]:
            faults = check_packages.metadata_faults({**PACKAGE, **change})
            self.assertEqual(len(faults), 1, faults)
            self.assertIn(expected, faults[0])

    def test_included_files_are_in_the_package(self):
        complete = LISTED | {"tests/unit.rs"}
        self.assertEqual(self.faults_of_files(complete), [])
        self.assertEqual(self.faults_of_files(complete - {"LICENSE-MIT"}), ["the package has no LICENSE-MIT"])
        for missing in ("tests/unit.rs", "src/page.md", "kernels/a.cu"):
            faults = self.faults_of_files(complete - {missing})
            self.assertEqual(faults, [f"src/lib.rs includes {missing}, which the package lacks"])
        faults = self.faults_of_files(complete, ["a.cu", "new.cu"])
        self.assertEqual(faults, ["src/lib.rs includes kernels/new.cu, which the package lacks"])
        # A folder without files: the link is broken.
        self.assertEqual(self.faults_of_files(complete, []), ["src/lib.rs includes kernels/*, which the package lacks"])

    def test_tests_whose_dependencies_are_removed_are_not_in_the_package(self):
        listed = LISTED | {"tests/a.rs"}
        self.assertEqual(check_packages.test_faults(PACKAGE, listed), [])
        unpublished = {**PACKAGE, "dependencies": [{"kind": "dev", "path": "/testing", "req": "*"}]}
        self.assertEqual(len(check_packages.test_faults(unpublished, listed)), 1)
        self.assertEqual(check_packages.test_faults(unpublished, LISTED), [])

    def test_links_to_folders_are_followed(self):
        kernels = check_packages.tracked_files(check_packages.ROOT / "crates/backend-cuda/kernels")
        self.assertIn("gemm/gemm.cuh", kernels)


if __name__ == "__main__":
    unittest.main()
