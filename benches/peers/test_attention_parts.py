"""Tests of attention_parts.py: sums whose errors are known, and the page: python3 -m unittest
discover -s benches/peers
"""

import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import attention_parts  # noqa: E402

PAGE = HERE.parents[1] / "docs" / "kernels" / "attention.md"
ERROR = r"\d\.\de-\d\d"


@unittest.skipUnless(importlib.util.find_spec("numpy"), "NumPy is not installed")
class Simulation(unittest.TestCase):
    def setUp(self):
        import numpy

        self.numpy, self.arithmetic = numpy, attention_parts.Arithmetic(numpy)

    def column(self, *values):
        return self.numpy.repeat(self.numpy.array(values, self.numpy.float32)[:, None], attention_parts.SAMPLES, 1)

    def test_three_terms_are_exact_and_two_nearly(self):
        random = self.numpy.random.default_rng(0)
        x = random.standard_normal((100, attention_parts.SAMPLES)).astype(self.numpy.float32)
        first, *rest = self.arithmetic.split(x, self.arithmetic.round_bf16, 3)
        self.numpy.testing.assert_array_equal(sum(part.astype(float) for part in (first, *rest)), x)
        self.assertLessEqual(float((abs(x - first) / abs(x)).max()), 2.0**-8)
        two = sum(part.astype(float) for part in self.arithmetic.split(x, self.arithmetic.round_tf32, 2))
        self.assertLessEqual(float((abs(x - two) / abs(x)).max()), 2.0**-22)

    def test_rounding_of_ties(self):
        halfway = self.column(1 + 2.0**-8, 1 + 3 * 2.0**-8)
        self.numpy.testing.assert_array_equal(self.arithmetic.round_bf16(halfway), self.column(1, 1 + 2.0**-6))
        self.numpy.testing.assert_array_equal(self.arithmetic.round_tf32(self.column(1 + 2.0**-11)), self.column(1 + 2.0**-10))

    def test_tensor_cores_truncate_small_addends(self):
        ones = self.column(1, 1)
        result = self.arithmetic.add_on_tensor_core(self.column(1)[0], self.column(2.0**-25, 2.0**-25), ones)
        self.numpy.testing.assert_array_equal(result, self.column(1)[0])
        result = self.arithmetic.add_on_tensor_core(self.column(1)[0], self.column(2.0**-24, 2.0**-24), ones)
        self.numpy.testing.assert_array_equal(result, self.column(1 + 2.0**-23)[0])

    def test_all_methods_add_integers_exactly(self):
        random = self.numpy.random.default_rng(0)
        left, right = (random.integers(-8, 9, (40, attention_parts.SAMPLES)).astype(self.numpy.float32) for _ in range(2))
        for method, result in zip(attention_parts.METHODS, self.arithmetic.sums(left, right), strict=True):
            self.numpy.testing.assert_array_equal(result, (left * right).sum(0), err_msg=method)

    def test_page_is_up_to_date(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "attention.md")
            page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
            subprocess.run([sys.executable, str(HERE / "attention_parts.py"), "write", str(page)], check=True)
            (written, errors), (committed, expected) = figures(page), figures(PAGE)
        self.assertEqual(written, committed)
        # Exponential functions differ in their last bit between machines.
        self.numpy.testing.assert_allclose(errors, expected, rtol=0.1)


def figures(page):
    """Returns a page without its errors, and the errors."""
    text = page.read_text(encoding="utf-8")
    return re.sub(ERROR, "", text), [float(error) for error in re.findall(ERROR, text)]


class Page(unittest.TestCase):
    def test_missing_page_is_reported_in_one_line(self):
        run = subprocess.run([sys.executable, str(HERE / "attention_parts.py"), "write", "nowhere.md"], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stderr), (1, "error: [Errno 2] No such file or directory: 'nowhere.md'\n"))


if __name__ == "__main__":
    unittest.main()
