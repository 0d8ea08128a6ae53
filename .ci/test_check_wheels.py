"""check_wheels.py with planted faults: python3 -m unittest discover -s .ci"""

import pathlib
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import check_wheels  # noqa: E402

INFO = "ternion_ml-0.1.0.dist-info"
FILES = {
    "ternion/__init__.py": "",
    check_wheels.LIBRARY: "\x7fELF" + "\0" * 14 + "\x3e\0 src/lib.rs",
    f"{INFO}/METADATA": "\n".join(check_wheels.METADATA),
    f"{INFO}/licenses/LICENSE-MIT": "",
    f"{INFO}/licenses/LICENSE-APACHE": "",
}


class WheelsTest(unittest.TestCase):
    def faults(self, architecture="x86_64", without=None, **changes):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.whl"
            with zipfile.ZipFile(path, "w") as archive:
                for name, text in {**FILES, **changes}.items():
                    if name != without:
                        archive.writestr(name, text)
            return check_wheels.faults(path, architecture, {"ternion/__init__.py"}, ["/home/builder"])

    def test_a_complete_wheel_has_no_faults(self):
        self.assertEqual(self.faults(), [])

    def test_each_missing_file_is_found(self):
        for name in ("ternion/__init__.py", f"{INFO}/licenses/LICENSE-MIT"):
            self.assertEqual(len(self.faults(without=name)), 1)
        self.assertEqual(self.faults(without=check_wheels.LIBRARY), [f"it has no {check_wheels.LIBRARY}", "its library is not for x86_64"])

    def test_other_faults_are_found(self):
        self.assertEqual(self.faults("aarch64"), ["its library is not for aarch64"])
        self.assertEqual(len(self.faults(**{"ternion/notes.txt": ""})), 1)
        library = FILES[check_wheels.LIBRARY] + "/home/builder/src/lib.rs"
        self.assertEqual(self.faults(**{check_wheels.LIBRARY: library}), ["its library names /home/builder"])
        metadata = {f"{INFO}/METADATA": "\n".join(check_wheels.METADATA[1:])}
        self.assertEqual(self.faults(**metadata), [f"its metadata has no line {check_wheels.METADATA[0]}"])


if __name__ == "__main__":
    unittest.main()
