"""readme.py, and that the README is current: python3 -m unittest discover -s benches/peers"""

import pathlib
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import readme  # noqa: E402

PAGE = """
| case | Ternion | rate | torch/eager | torch/compile |
| --- | ---: | ---: | ---: | ---: |
| train/a | 2.000 ms | 1,000 tokens/s | 8.000 ms (0.25) | 4.000 ms (0.50) |
| train/b | 80.00 us | | 60.00 us (**1.33**) |  |

| case | Ternion | rate | torch/eager |
| --- | ---: | ---: | ---: |
| train/a | 9.000 ms | 1 tokens/s | 1.000 ms (**9.00**) |
| train/c | 1.000 ms | |  |
"""


class ReadmeTest(unittest.TestCase):
    def test_readme_and_plot_are_up_to_date(self):
        text, picture = readme.generate()
        self.assertEqual(readme.README.read_text(), text)
        self.assertEqual(readme.PLOT.read_text(), picture)

    def test_row_names_fastest_baseline(self):
        cases = readme.parse_tables(PAGE)
        self.assertEqual(readme.compare_case("A", "train/a", cases), readme.Result("A", "2.000 ms", "1,000 tokens/s", "torch.compile", 2.0))
        slower = readme.compare_case("B", "train/b", cases)
        self.assertEqual((slower.baseline, round(slower.speedup, 2)), ("PyTorch eager", 0.75))

    def test_slower_cases_are_bold_and_have_another_color(self):
        cases = readme.parse_tables(PAGE)
        results = [readme.compare_case("A", "train/a", cases), readme.compare_case("B <x>", "train/b", cases)]
        lines = readme.render_table(results, "a machine")
        self.assertIn("| A | 2.000 ms (1,000 tokens/s) | torch.compile | 2.00x |", lines)
        self.assertIn("| B <x> | 80.00 us | PyTorch eager | **0.75x** |", lines)
        picture = xml.etree.ElementTree.fromstring(readme.render_plot(results, "a machine & more"))
        bars = picture.findall("{http://www.w3.org/2000/svg}rect")
        self.assertEqual([bar.get("class") for bar in bars], ["win", "lose"])
        self.assertAlmostEqual(float(bars[0].get("width")) / float(bars[1].get("width")), 2 / 0.75, places=2)

    def test_unmeasured_case_is_an_error(self):
        for case in ("train/none", "train/c"):
            with self.assertRaises(SystemExit):
                readme.compare_case("C", case, readme.parse_tables(PAGE))


if __name__ == "__main__":
    unittest.main()
