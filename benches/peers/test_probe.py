"""Tests of probe.py and probe_kernels.py: the parts that need neither a GPU nor NVRTC."""

import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest

import probe
import probe_kernels


class Probe(unittest.TestCase):
    def test_divisions_tiles_and_parameters(self):
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            probe.self_test([])
        self.assertEqual(shown.getvalue(), "self-test passed\n")

    def test_trace_patches_match_kernels(self):
        files = probe_kernels.read_kernels(probe_kernels.KROOT)
        for patches in (probe_kernels.TRACE, probe_kernels.TRACE_SPLIT_K):
            changed, left_out = probe_kernels.patched(files, patches)
            self.assertEqual(left_out, [])
            self.assertNotEqual(changed, files)

    def test_folder_without_variants_is_reported_in_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "variants.json")
            for text, found in ((None, "no file; --cubins names its folder"), ("[{", "Expecting")):
                if text:
                    path.write_text(text)
                for more in ([], ["--self-test"]):
                    command = [sys.executable, probe.__file__, "--cubins", folder, *more]
                    done = subprocess.run(command, capture_output=True, text=True, check=False)
                    self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
                    self.assertTrue(done.stderr.startswith(f"error: {path}: expected what probe_kernels.py writes, found {found}"), done.stderr)

    def test_patch_must_match_exactly_once(self):
        with self.assertRaisesRegex(ValueError, "patch of a: 2 times, not once: 'x'"):
            probe_kernels.patched({"a": "x x"}, [("a", "x", "y")])
        with self.assertRaisesRegex(ValueError, "patch of b, which is not a file"):
            probe_kernels.patched({"a": "x"}, [("b", "x", "y")])

    def test_variants_match_backend(self):
        names = [variant["name"] for variant in probe_kernels.VARIANTS]
        self.assertEqual(len(names), len(set(names)))
        folder = pathlib.Path(probe_kernels.REPOSITORY) / "crates/backend-cuda/src/variant/gemm"
        text = "".join((folder / file).read_text(encoding="utf-8") for file in ("warpgroup_tiles.rs", "split_k_tiles.rs"))
        self.assertEqual([name for name in names if f'name: "{name}"' not in text], [])


if __name__ == "__main__":
    unittest.main()
