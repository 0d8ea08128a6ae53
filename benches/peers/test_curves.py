"""Tests of curves.py with made-up training runs: python3 -m unittest discover -s benches/peers"""

import pathlib
import sys
import unittest
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import curves  # noqa: E402
from page_tests import PageCase  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
RUN = dict(run=dict(device="Some GPU", model="char_gpt", batch=64, context=256, layers=6, width=384, vocabulary=256, lr=0.0003, text_bytes=1000))
STEPS = 40
# The difference of each way's losses from those of bf16, unfused: powers of two, with which sums
# are exact.
OFF = {curves.EAGER: 2**-8, curves.RECORDED: 2**-8, curves.UNFUSED: 0.0, curves.F32: 2**-7}
OFF |= dict(zip(curves.DITHERED, (2**-9, 2**-10, -(2**-7))))


def loss(seed, way, step):
    """Returns a falling loss; later steps differ by the difference of the way, those of another
    seed by 1/4.
    """
    return 4.0 - step / 16 + seed / 4 + (OFF[way] if step > 20 else 0.0)


def lines_of_runs(seeds=(1, 2, 3), steps=STEPS):
    keys = [(seed, way, step) for seed in seeds for way in curves.VARIANTS for step in range(1, steps + 1)]
    return [RUN, *(dict(model="char_gpt", seed=seed, way=way, step=step, loss=loss(seed, way, step)) for seed, way, step in keys)]


class Pages(PageCase):
    SCRIPT, RESULTS = curves, "curves.jsonl"

    def write(self, lines, error=""):
        text = super().write(lines, error)
        # An error leaves everything unchanged.
        self.assertEqual((self.path / "page.svg").exists(), not error)
        self.assertEqual("stale" in text, bool(error))
        return text

    def test_distances_are_between_smoothed_curves(self):
        self.assertEqual(curves.smooth([float(at) for at in range(22)]), [9.5, 10.5, 11.5])
        distance = curves.Distance([([0.0] * 21, [1.0] * 20 + [21.0])])
        self.assertEqual((distance.largest, distance.mean), (2.0, 1.5))
        seed = curves.SeedDistances(curves.read_curves(lines_of_runs(), "here"), 1)
        # The first of 21 means contains none of the steps that differ, and the last one contains
        # only those.
        self.assertEqual((seed.fused.largest, seed.fused.mean), (2**-8, 2**-9))
        self.assertEqual((seed.f32.largest, seed.f32.mean), (2**-7, 2**-8))
        # The lowest dithered training run, and f32, which is the highest.
        self.assertEqual((seed.noise.largest, seed.noise.mean), (2**-6, 2**-7))
        # From seed 1 to 2 and to 3.
        self.assertEqual((seed.seeds.largest, seed.seeds.mean), (0.5, 0.375))
        self.assertEqual(seed.ratio(), "0.50")

    def test_page_has_row_per_seed(self):
        page = self.write(lines_of_runs())
        self.assertTrue(page.startswith(f"before\n\n{curves.START}\n`char_gpt` (6 layers of width 384, context 256, 256 tokens) on Some GPU: "))
        self.assertTrue(page.endswith(f"\n{curves.END}\nafter\n"))
        self.assertIn("![Losses of every way by step](page.svg)", page)
        self.assertIn("Of 3 x 40 steps the losses of the recorded ones equal those op by op in every bit.", page)
        self.assertIn("| 1 | 0.00391 | 0.00195 | 0.00781 | 0.00391 | 0.01562 | 0.00781 | 0.50000 | 0.37500 | 0.50 | yes | yes |", page)
        self.assertIn("| 2 | 0.00391 | 0.00195 | 0.00781 | 0.00391 | 0.01562 | 0.00781 | 0.25000 | 0.25000 | 0.50 | yes | yes |", page)
        self.assertIn("\nFused and unfused are no further apart than bf16 and f32, in the largest distance and in the mean, for 3 of 3 seeds: 1, 2, 3.\n", page)
        self.assertIn("\nFused and unfused are no further apart than dithered training runs, in the largest distance and in the mean, for 3 of 3 seeds: 1, 2, 3.\n", page)
        # f32, bf16, and fused bf16.
        self.assertIn("| 1 | 2.35156 | 2.34375 | 2.34766 | 2.34766 |", page)
        # Written again, it is the same.
        (self.path / "page.svg").unlink()
        self.page.write_text(page.replace("`char_gpt`", "stale"))
        self.assertEqual(self.write(lines_of_runs()), page)

    def test_page_states_provenance(self):
        provenance = dict(driver="580.1", commit="abc1234", date="2026-01-01 00:00 UTC")
        whole = lines_of_runs()
        sentence = "on Some GPU: batches of 64 windows from 1000 bytes of text, AdamW at 0.0003.\n"
        page = self.write([dict(run=RUN["run"] | provenance), *whole[1:]])
        self.assertIn(sentence + "Some GPU, driver 580.1, commit abc1234, 2026-01-01 00:00 UTC.\n\n![", page)
        # Two files: one training run, two measurements, of which the second was without a bundle
        # and a known driver.
        other = dict(run=RUN["run"] | provenance | dict(driver=None, commit=None))
        page = self.write([dict(run=RUN["run"] | provenance), *whole[1:], other])
        self.assertIn("UTC.\nSome GPU, driver unknown, commit unknown, 2026-01-01 00:00 UTC.\n\n![", page)
        self.assertEqual(page.count(sentence), 1)
        # For files without these fields nothing more is stated.
        self.assertIn(sentence + "\n![", self.write(whole))

    def test_single_seed_has_no_seed_distance(self):
        self.assertIn("| 1 | 0.00391 | 0.00195 | 0.00781 | 0.00391 | 0.01562 | 0.00781 |  |  | 0.50 | yes | yes |", self.write(lines_of_runs(seeds=[1])))

    def test_seeds_beyond_bound_are_named(self):
        lines = lines_of_runs()
        # The last step of seed 2, which one of the 21 means contains: the largest distance grows,
        # and the mean stays below that of bf16.
        for line in lines:
            if line.get("way") in (curves.EAGER, curves.RECORDED) and line["seed"] == 2 and line["step"] == STEPS:
                line["loss"] += 1 / 8
        page = self.write(lines)
        self.assertIn("for 2 of 3 seeds: 1, 3. They are further apart for 2 (largest 0.01016, compared with 0.00781).\n", page)
        self.assertIn("| 2 | 0.01016 | 0.00225 | 0.00781 | 0.00391 | 0.01562 | 0.00781 | 0.25000 | 0.25000 | 0.58 | **no**: largest | yes |", page)
        self.assertIn("| 3 | 0.00391 |", page)
        self.assertEqual(
            self.printed.splitlines(),
            [
                "seed 1: fused and unfused are no further apart than bf16 and f32",
                "seed 1: fused and unfused are no further apart than dithered training runs",
                "seed 2: fused and unfused are further apart than bf16 and f32: largest 0.01016, compared with 0.00781",
                "seed 2: fused and unfused are no further apart than dithered training runs",
                "seed 3: fused and unfused are no further apart than bf16 and f32",
                "seed 3: fused and unfused are no further apart than dithered training runs",
            ],
        )

    def test_nan_distance_exceeds_bounds(self):
        of = curves.read_curves(lines_of_runs(), "here")
        of[1][curves.EAGER] = [float("nan")] * STEPS
        seed = curves.SeedDistances(of, 1)
        for _, _, bound_of in curves.BOUNDS:
            self.assertEqual(seed.verdict(bound_of(seed)), "**no**: largest, mean")
        for seed in of:
            of[seed][curves.EAGER] = [value + 1 for value in of[seed][curves.UNFUSED]]
        for (name, _, bound_of), bound in zip(curves.BOUNDS, ("0.00781", "0.01562")):
            self.assertIn(f"for 0 of 3 seeds. They are further apart for 1 (largest 1.00000, compared with {bound} and mean ", curves.bound_sentence(of, name, bound_of))

    def test_picture_has_panel_per_seed(self):
        self.write(lines_of_runs())
        drawn = xml.etree.ElementTree.parse(self.path / "page.svg").getroot()
        texts = [text.text for text in drawn.iter(SVG + "text")]
        for seed in (1, 2, 3):
            self.assertIn(f"seed {seed}: loss, mean of 20 steps", texts)
        # Seven losses and six distances each.
        lines = list(drawn.iter(SVG + "polyline"))
        self.assertEqual(len(lines), 3 * 13)
        titles = [line.find(SVG + "title").text for line in lines]
        self.assertEqual(titles.count("bf16, unfused: 2.34375 at step 40"), 1)
        self.assertEqual(titles.count("bf16, fused: 0.00391 at step 40"), 3)
        self.assertEqual(sum("dithered" in text for text in texts), 1)
        _, _, width, height = map(float, drawn.get("viewBox").split())
        for line in lines:
            points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
            # Every fifth of 21 means; the last point is the last mean.
            self.assertEqual(len(points), 5)
            self.assertTrue(all(0 < x < width and 0 < y < height for x, y in points), points)
            self.assertEqual(sorted(points), points)

    def test_recorded_steps_must_be_bit_identical(self):
        lines = lines_of_runs()
        wrong = next(line for line in lines if line.get("way") == curves.RECORDED and line["seed"] == 2 and line["step"] == 30)
        wrong["loss"] += 2**-40
        self.write(lines, f"error: seed 2, step 30: loss {loss(2, curves.EAGER, 30)!r} op by op and {wrong['loss']!r} recorded")

    def test_incomplete_curves_are_rejected(self):
        whole = lines_of_runs()
        self.write(whole[:-1], "seed 3, bf16/recorded: 39 of 40 steps")
        self.write([line for line in whole if line.get("way") != curves.UNFUSED], "seed 1, bf16/unfused: 0 of 40 steps")
        self.write([*whole, whole[5]], "step 5 occurs twice")
        self.write([*whole, dict(whole[5], model="gpt2_124m", seed=9)], "expected curves of one model, got char_gpt, gpt2_124m")
        self.write([], "expected curves of one model, got none")
        self.write(lines_of_runs(steps=19), "19 steps, expected at least 20")
        self.write([*whole, dict(whole[5], loss=None)], "a number as loss")
        self.page.write_text("no markers, stale")
        self.write(whole, "expected <!-- curves:start -->")

    def test_committed_page_has_markers(self):
        text = (HERE.parents[1] / "docs/profiles/gpt-curves.md").read_text(encoding="utf-8")
        self.assertEqual((text.count(curves.START), text.count(curves.END)), (1, 1))
        self.assertLess(text.index(curves.START), text.index(curves.END))

    def test_variants_match_program(self):
        program = (HERE.parent / "gpu/src/curves.rs").read_text(encoding="utf-8")
        for way in curves.VARIANTS:
            self.assertIn(f'name: "{way}"', program)


if __name__ == "__main__":
    unittest.main()
