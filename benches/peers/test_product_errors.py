"""Tests of the table of product errors, and of parsing the test's output."""

import pathlib
import unittest

import product_errors

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RUN = dict(run=dict(device="NVIDIA H200", driver="580", commit="0123456789", date="2026-01-01 00:00 UTC"))


def line(numbers, parts, f32):
    return dict(numbers=numbers, size="10 x 20 x 30", parts_rms=parts, f32_rms=f32, parts_max=2 * parts, f32_max=3 * f32)


class ProductErrors(unittest.TestCase):
    def test_errors_are_parsed_from_test_output(self):
        printed = 'running 1 test\nproduct errors: {"numbers": "random", "size": "1 x 2 x 3", "parts_rms": 1e-8}\ntest result: ok\n'
        self.assertEqual(product_errors.parse_errors(printed), [dict(numbers="random", size="1 x 2 x 3", parts_rms=1e-8)])

    def test_table_has_errors_and_ratios(self):
        table = product_errors.render([RUN, line("random", 1e-8, 2e-8), line("canceling", 3e-9, 4e-9)])
        self.assertIn("NVIDIA H200, driver 580, commit 0123456789, 2026-01-01 00:00 UTC.", table)
        self.assertIn("| random | 10 x 20 x 30 | 1.0e-08 | 2.0e-08 | 2.0e-08 | 6.0e-08 |", table)
        self.assertIn("is 0.50 to 0.75 times that of f32.", table)

    def test_file_without_errors_is_rejected(self):
        with self.assertRaises(SystemExit):
            product_errors.render([RUN])

    def test_page_has_markers(self):
        page = (ROOT / "docs/kernels/matmul.md").read_text(encoding="utf-8")
        self.assertEqual([page.count(marker) for marker in product_errors.MARKERS], [1, 1])


if __name__ == "__main__":
    unittest.main()
