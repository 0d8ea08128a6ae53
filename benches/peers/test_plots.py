"""plots.py, and that the figures are current: python3 -m unittest discover -s benches/peers"""

import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import figures  # noqa: E402
import loss_curves  # noqa: E402
import plot_tables  # noqa: E402
import plots  # noqa: E402
import readme  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
PAGE = """# Benchmarks

<!-- gpu:start -->
A GPU, driver 1, commit 0123456789, 2026-01-02 03:04 UTC.

### Matrix products

| case | Ternion | rate | torch/cublas |
| --- | ---: | ---: | ---: |
| gemm/f32/nn/512 | 2.000 us | 1,000.0 TFLOP/s | 4.00 us (0.50) |
| gemm/f32/nn/1024 | 1.000 ms | 30.0 TFLOP/s | 0.500 ms (**2.00**) |
| gemm/f32/nt/1024 | 1.000 ms | 30.0 TFLOP/s |  |

### Convolutions

Nothing was measured.
<!-- gpu:end -->
"""


def texts(svg):
    """Returns the boxes (left, top, right, bottom) of all texts of a figure, with their texts."""
    boxes = []
    for element in xml.etree.ElementTree.fromstring(svg).iter(f"{SVG}text"):
        kind, x, y = element.get("class").split()[0], float(element.get("x")), float(element.get("y"))
        width, size = figures.text_width(element.text, kind), figures.SIZES[kind]
        left = x - {"start": 0, "middle": width / 2, "end": width}[element.get("text-anchor")]
        box = (left, y - 0.75 * size, left + width, y + 0.2 * size)
        if element.get("transform"):
            box = (x - 0.75 * size, y - width / 2, x + 0.2 * size, y + width / 2)
        boxes.append((box, element.text))
    return boxes


def overlap(first, second):
    return first[0] < second[2] and second[0] < first[2] and first[1] < second[3] and second[1] < first[3]


def luminance(color):
    parts = [int(color[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


class Records(unittest.TestCase):
    """A folder with two records of the same run."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for device in ("cuda", "wgpu"):
            self.write(device)

    def write(self, device, **changes):
        losses = [[2.0, 1.0, 0.5], [2.0, 1.001, 0.5]]
        record = {"devices": ["cpu", device], "model": "gpt", "seed": 1, "steps": 3, "losses": losses, **changes}
        (self.folder / f"compare-{device}.json").write_text(json.dumps(record))

    def error(self):
        with self.assertRaises(plot_tables.PlotError) as raised:
            loss_curves.draw(self.folder)
        return str(raised.exception)


class CommittedTest(Records):
    def test_figures_and_page_are_up_to_date(self):
        # In another process, because the order of sets differs from process to process.
        completed = subprocess.run([sys.executable, str(HERE / "plots.py"), "check"], capture_output=True, text=True, check=False)
        self.assertEqual((completed.returncode, completed.stdout), (0, ""), completed.stderr)

    def test_texts_do_not_overlap_and_are_inside(self):
        pictures, errors = plots.draw_figures(readme.PAGE.read_text())
        self.assertLessEqual(set(errors), {"loss-curves"})
        for name, svg in {**pictures, "loss-curves": loss_curves.draw(self.folder)}.items():
            _, _, width, height = map(float, xml.etree.ElementTree.fromstring(svg).get("viewBox").split())
            for box, text in texts(svg):
                self.assertTrue(0 <= box[0] and 0 <= box[1] and box[2] <= width and box[3] <= height, f"{name}: {text} at {box}")
            for (first, one), (second, other) in itertools.combinations(texts(svg), 2):
                self.assertFalse(overlap(first, second), f"{name}: {one!r} and {other!r}")

    def test_captions_state_device_commit_and_date(self):
        text = readme.PAGE.read_text()
        pictures, _ = plots.draw_figures(text)
        for name, svg in pictures.items():
            caption = " ".join(text for _, text in texts(svg))
            block = {"cuda": "gpu"}.get(name.split("-")[0], name.split("-")[0])
            if block in plot_tables.BLOCKS:
                self.assertIn(plot_tables.Block(block, text).provenance(), caption, name)

    def test_page_shows_every_figure(self):
        shown = set(re.findall(r"\(plots/([\w-]+)\.svg\)", plots.PAGE.read_text()))
        self.assertEqual(shown | {"loss-curves"}, set(plots.FIGURES))


class TablesTest(unittest.TestCase):
    def test_rate_of_others_follows_from_ratio_of_times(self):
        cases = plot_tables.Block("gpu", PAGE).cases("Matrix products")
        pattern = r"gemm/f32/nn/(\d+)"
        self.assertEqual(plot_tables.series(cases, pattern, "Ternion"), {512: 1000.0, 1024: 30.0})
        others = plot_tables.series(cases, pattern, "torch/cublas")
        self.assertEqual({size: round(rate, 6) for size, rate in others.items()}, {512: 500.0, 1024: 60.0})
        self.assertEqual(cases["gemm/f32/nn/1024"].speed("torch/cublas"), 0.5)
        self.assertIsNone(cases["gemm/f32/nt/1024"].speed("torch/cublas"))

    def test_provenance_is_the_line_with_the_commit(self):
        self.assertEqual(plot_tables.Block("gpu", PAGE).provenance(), "A GPU, driver 1, commit 0123456789, 2026-01-02 03:04 UTC.")
        with self.assertRaisesRegex(plot_tables.PlotError, "block gpu: no line states device and commit"):
            plot_tables.Block("gpu", PAGE.replace("commit", "version")).provenance()

    def test_missing_tables_cases_and_columns_are_named(self):
        block = plot_tables.Block("gpu", PAGE)
        cases = block.cases("Matrix products")
        for expected, get in {
            "benchmarks.md: expected <!-- wgpu:start --> and <!-- wgpu:end --> once each": lambda: plot_tables.Block("wgpu", PAGE),
            "block gpu: no section Attention": lambda: block.cases("Attention"),
            "block gpu: Convolutions has no table of cases": lambda: block.cases("Convolutions"),
            r"gemm/f16/nn/(\d+): no such case": lambda: plot_tables.series(cases, r"gemm/f16/nn/(\d+)", "Ternion"),
            r"gemm/f32/nt/(\d+): no rate in the column torch/cublas": lambda: plot_tables.series(cases, r"gemm/f32/nt/(\d+)", "torch/cublas"),
        }.items():
            with self.subTest(expected), self.assertRaises(plot_tables.PlotError) as raised:
                get()
            self.assertIn(expected, str(raised.exception))


class FiguresTest(unittest.TestCase):
    def setUp(self):
        self.text = readme.PAGE.read_text()

    def errors(self, text):
        pictures, errors = plots.draw_figures(text)
        self.assertEqual(set(pictures) | set(errors), set(plots.FIGURES))
        return {name: str(error) for name, error in errors.items() if not isinstance(error, plots.MissingRecord)}

    def test_figure_without_its_table_does_not_prevent_the_others(self):
        gpu = plot_tables.BLOCKS["gpu"][0]
        before, after = self.text.split(gpu)
        errors = self.errors(before + gpu + after.replace("### Convolutions", "### Others", 1))
        self.assertEqual(errors, {"cuda-convolutions": "benchmarks.md: block gpu: no section Convolutions"})

    def test_figure_without_its_cases_does_not_prevent_the_others(self):
        errors = self.errors(re.sub(r"^\| gemm/tf32/nn/\d+ .*\n", "", self.text, flags=re.M))
        self.assertEqual(set(errors), {"cuda-gemm"})
        self.assertIn("gemm/tf32/nn/", errors["cuda-gemm"])

    def test_wgpu_without_cuda_has_no_line_of_cuda(self):
        before, after = self.text.split(plot_tables.BLOCKS["wgpu"][0])
        after = after.replace("| CUDA |", "| another |")
        text = before + plot_tables.BLOCKS["wgpu"][0] + after
        for draw in (plots.wgpu_products, plots.wgpu_attention, plots.wgpu_bandwidth):
            names = [name for _, name in texts(draw(text))]
            self.assertIn("Ternion, wgpu", names)
            self.assertNotIn("Ternion, CUDA", names)

    def test_cases_in_which_ternion_is_slower_are_red(self):
        drawn = self.text.replace("| gemm/bf16/tt/4096 |", "| gemm/bf16/tt/4096 | 2.000 ms | 1.0 TFLOP/s | 1.000 ms (**2.00**) |\n| x |")
        root = xml.etree.ElementTree.fromstring(plots.product_shapes(drawn))
        titles = {color: [title.text for title in root.findall(f"{SVG}rect[@class='{color}']/{SVG}title")] for color in ("f-red", "f-blue")}
        self.assertIn("bf16, tt, 4096, Ternion is slower: 0.50", titles["f-red"])
        self.assertTrue(all(float(title.split(": ")[1]) < 1 for title in titles["f-red"]))
        self.assertTrue(all(float(title.split(": ")[1]) >= 1 for title in titles["f-blue"]))

    def test_new_numbers_move_the_bars(self):
        before = plots.cpu(self.text)
        after = plots.cpu(re.sub(r"(\| relu f32 8192 x 1024, .*? \| .*? \| .*? \|) [\d.]+ \|", r"\1 1.25 |", self.text))
        self.assertNotIn("relu f32 8192 x 1024, goal reached: 1.25", before)
        self.assertIn("relu f32 8192 x 1024, goal reached: 1.25", after)

    def test_training_bars_are_relative_to_the_fastest(self):
        cases = {
            "train/char_gpt/bf16 (graph)": {"Ternion": "2.000 ms", "rate": "1,000 tokens/s", "torch/graph": "1.000 ms (**2.00**)", "torch/compile": ""},
            "train/char_gpt/bf16 (eager)": {"Ternion": "4.000 ms", "rate": "500 tokens/s", "torch/graph": "1.000 ms (**4.00**)", "torch/compile": ""},
        }
        row = plots.step_row("train/char_gpt/bf16", {name: plot_tables.Case(name, cells, "Ternion") for name, cells in cases.items()})
        bars = [(bar.style.name, bar.value, bar.text, bar.is_slower) for bar in row.bars]
        expected = [
            ("Ternion, recorded", 0.5, "1,000 tokens/s", True),
            ("Ternion, op by op", 0.25, "500 tokens/s", False),
            ("PyTorch, CUDA graph", 1.0, "2,000 tokens/s", False),
        ]
        self.assertEqual((row.label, bars), ("char GPT, bf16", expected))

    def test_names_of_bandwidth_cases(self):
        names = {
            "elementwise/add_relu/f32": ("f32", "add_relu"),
            "softmax/bwd/bf16": ("bf16", "softmax backward"),
            "cross_entropy/fwd_bwd/bf16/8192x50257": ("bf16", "cross_entropy with gradient"),
            "adamw/f32/124x1M": ("f32", "adamw"),
            "copy/d2d": (None, "copy d2d"),
        }
        self.assertEqual({name: plots.bandwidth_name(name) for name in names}, names)


class ColorsTest(unittest.TestCase):
    def test_both_modes_have_every_color_with_enough_contrast(self):
        light, dark = figures.style_sheet().split("@media(prefers-color-scheme:dark)")
        for name, values in figures.COLORS.items():
            for mode, sheet in enumerate((light, dark)):
                self.assertIn(f".f-{name}{{fill:{values[mode]}}}.s-{name}{{stroke:{values[mode]}}}", sheet)
                least = {"page": 1, "grid": 1.2, "pale": 1.8}.get(name, 4.5)
                self.assertGreaterEqual(contrast(values[mode], figures.COLORS["page"][mode]), least, f"{name}, mode {mode}")

    def test_background_is_part_of_the_figure(self):
        root = xml.etree.ElementTree.fromstring(figures.render("a <title>", "b & c", [], ["caption"]))
        background = root.find(f"{SVG}rect")
        self.assertEqual((background.get("class"), background.get("width"), background.get("height")), ("f-page", "100%", "100%"))


class LossCurvesTest(Records):
    def test_three_curves_and_their_differences(self):
        root = xml.etree.ElementTree.fromstring(loss_curves.draw(self.folder))
        titles = [element.find(f"{SVG}title").text for element in root.iter(f"{SVG}polyline")]
        expected = [f"{name}: 2 at 1, {second} at 2, 0.5 at 3" for name, second in (("CPU", 1), ("CUDA", 1.001), ("wgpu", 1.001))]
        # The lines of the legend have the name as their title.
        self.assertEqual([title for title in titles if ":" in title], expected)
        circles = [element for element in root.iter(f"{SVG}circle") if element.find(f"{SVG}title") is not None]
        dots = [(element.find(f"{SVG}title").text, float(element.get("cy"))) for element in circles]
        expected = [f"{name}, {step}: {value}" for name in ("wgpu", "CUDA") for step, value in ((1, 0), (2, 0.001), (3, 0))]
        self.assertEqual([title for title, _ in dots], expected)
        # No difference is below every difference.
        self.assertTrue(dots[0][1] == dots[2][1] > dots[1][1])

    def test_program_lines_state_machine_and_commit(self):
        for device in ("cuda", "wgpu"):
            path = self.folder / f"compare-{device}.json"
            line = {"machine": f"the {device} machine", "commit": "0123456789", "time": "2026-01-02", "results": json.loads(path.read_text())}
            path.write_text(json.dumps({"results": {}}) + "\n" + json.dumps(line) + "\n")
        self.assertIn("cuda: the cuda machine, commit 0123456789, 2026-01-02.", loss_curves.draw(self.folder))

    def test_missing_record_is_named(self):
        (self.folder / "compare-wgpu.json").unlink()
        with self.assertRaisesRegex(plots.MissingRecord, "docs/plots/records has no compare-wgpu.json"):
            loss_curves.draw(self.folder)

    def test_records_of_different_runs_are_an_error(self):
        other_losses = [[2.0, 1.0000001, 0.5], [2.0, 1.0, 0.5]]
        for changes, expected in [
            ({"seed": 2}, "compare-cuda.json and compare-wgpu.json: seed 1 and 2"),
            ({"model": "mlp"}, "compare-cuda.json and compare-wgpu.json: model gpt and mlp"),
            ({"steps": 2, "losses": [[2.0, 1.0], [2.0, 1.0]]}, "compare-cuda.json and compare-wgpu.json: steps 3 and 2"),
            ({"losses": other_losses}, "compare-cuda.json and compare-wgpu.json: step 2: the CPU's losses are 1.0 and 1.0000001"),
        ]:
            with self.subTest(expected):
                self.write("wgpu", **changes)
                self.assertEqual(self.error(), expected)

    def test_invalid_records_are_an_error(self):
        for changes, expected in [
            ({"devices": ["cpu", "cuda"]}, "compare-wgpu.json: devices cpu, cuda, expected cpu, wgpu"),
            ({"steps": 4}, "compare-wgpu.json: 3 and 3 losses, expected 4 of each device"),
            ({"losses": [[2.0, None, 0.5], [2.0, None, 0.5]]}, "compare-wgpu.json: expected finite losses that are not 0"),
        ]:
            with self.subTest(expected):
                self.write("wgpu", **changes)
                self.assertEqual(self.error(), expected)
        (self.folder / "compare-wgpu.json").write_text("[]\n")
        self.assertEqual(self.error(), "compare-wgpu.json: expected a JSON object, or one on the last line")
        (self.folder / "compare-wgpu.json").write_text("{}\n")
        self.assertIn("expected the results of compare, without devices, model", self.error())


class FilesTest(Records):
    def setUp(self):
        super().setUp()
        for name, value in {"FOLDER": self.folder, "PAGE": self.folder / "results.md"}.items():
            patch = unittest.mock.patch.object(plots, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        patch = unittest.mock.patch.object(readme, "ROOT", self.folder)
        patch.start()
        self.addCleanup(patch.stop)
        names = ("cuda", "wgpu", "cpu", "losses")
        plots.PAGE.write_text("".join(f"<!-- {name}:start -->\nstale\n<!-- {name}:end -->\n" for name in names))

    def main(self, command):
        with unittest.mock.patch.object(sys, "argv", ["plots.py", command]), unittest.mock.patch.object(sys, "stderr") as errors:
            with self.assertRaises(SystemExit) as raised:
                plots.main()
        return raised.exception.code, "".join(call.args[0] for call in errors.write.call_args_list)

    def test_written_files_are_up_to_date_until_one_changes(self):
        skipped = "loss-curves is skipped: docs/plots/records has no compare-cuda.json and no compare-wgpu.json\n"
        self.assertEqual(self.main("write"), (0, skipped))
        self.assertEqual(self.main("check"), (0, skipped))
        self.assertIn("Not drawn yet: docs/plots/records has no compare-cuda.json", plots.PAGE.read_text())
        (self.folder / "cpu.svg").write_text("<svg/>")
        (self.folder / "cuda-gemm.svg").unlink()
        (self.folder / "other.svg").write_text("<svg/>")
        code, errors = self.main("check")
        self.assertEqual(code, 1)
        for text in ("cuda-gemm.svg is not up to date", "cpu.svg is not up to date", "other.svg is of no figure that can be drawn"):
            self.assertIn(f"error: {text}: run benches/peers/plots.py write\n", errors)

    def test_page_shows_the_curves_if_there_are_records(self):
        records = self.folder / "records"
        records.mkdir()
        for path in self.folder.glob("compare-*.json"):
            path.rename(records / path.name)
        self.assertEqual(self.main("write"), (0, ""))
        self.assertIn("(plots/loss-curves.svg)", plots.PAGE.read_text())
        self.assertIn("compare --model gpt --seed 1 --steps 3", (self.folder / "loss-curves.svg").read_text())

    def test_a_figure_that_cannot_be_drawn_is_an_error(self):
        self.write("wgpu", seed=2)
        (self.folder / "records").mkdir()
        for path in self.folder.glob("compare-*.json"):
            path.rename(self.folder / "records" / path.name)
        code, errors = self.main("write")
        self.assertEqual(code, 1)
        self.assertEqual(errors, "error: loss-curves cannot be drawn: compare-cuda.json and compare-wgpu.json: seed 1 and 2\n")
        self.assertTrue((self.folder / "cuda-gemm.svg").is_file())


if __name__ == "__main__":
    unittest.main()
