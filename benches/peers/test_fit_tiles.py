"""Tests of fit_tiles.py with made-up times: python3 -m unittest discover -s benches/peers"""

import itertools
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BACKEND = HERE.parents[1] / "crates" / "backend-cuda" / "src"
sys.path.insert(0, str(HERE))

import fit_tiles  # noqa: E402
import tile_times  # noqa: E402
from tile_times import Measurement, Model, Tile, predict_time  # noqa: E402

LARGE = Tile("large", [128, 256, 64], 1, 1, [10.0, 5.0, 1.0, 2.0])
MIDDLE = Tile("middle", [64, 128, 64], 2, 1, [5.9, 2.0, 1.25, 3.0])
SMALL = Tile("small", [64, 64, 64], 3, 1, [3.5, 2.0, 1.5, 2.0])
TILES = [LARGE, MIDDLE, SMALL]
# The true costs of the tiles.
TRUTH = {"large": [15.0, 6.0, 1.1, 1.2], "middle": [5.1, 3.0, 1.5, 2.2], "small": [2.2, 2.5, 1.3, 1.6]}
SPLIT, SUMMED, PARTS = tile_times.SPLIT_MICROSECONDS, tile_times.SUMMED_BYTES_PER_MICROSECOND, tile_times.PARTS_MICROSECONDS
ARRIVAL, ARRIVAL_OF_PART = tile_times.ARRIVAL_MICROSECONDS, tile_times.ARRIVAL_MICROSECONDS_OF_PART
MAPPED, LOADED, CACHED = tile_times.MAPPED_BYTES_PER_MICROSECOND, tile_times.LOADED_BYTES_PER_MICROSECOND, tile_times.CACHED_BYTES_PER_MICROSECOND
# Kinds, tiles and numbers of splits whose times depend on all constants.
EVERY_CONSTANT = [("bf16", LARGE, 2), *((kind, Tile(f"{name}_64x64x64", [64, 64, 64], 1, 1, SMALL.costs), 2) for kind, name in (("bf16", "wgmma"), ("bf16", "wgmmasplitk"), ("bf16x6", "wgmmabf16x6")))]
RUN = dict(run=dict(device="Some GPU", commit="abc1234", multiprocessors=132))
PAGE = f"before\n\n{fit_tiles.START}\nstale\n{fit_tiles.END}\n\nafter\n"


def line_of(tile, sizes, splits=1, kind="bf16", transposed=(False, True), copies=0, us=1.0, chosen=False):
    """Returns a measurement as ternion-bench prints it."""
    m, n, k, matrices = [*sizes, 1][:4]
    return dict(kind=kind, m=m, n=n, k=k, matrices=matrices, transposed=list(transposed), tile=tile.name, splits=splits, copies=copies, chosen=chosen, us=us)


def described(tile, kind="bf16"):
    return dict(kind=kind, tile=tile.name, block=list(tile.block), resident=tile.resident, cluster=tile.cluster, costs=tile.costs)


def synthetic(seed, count, model, noise=0.03):
    """Returns lines of products with every tile, whose times are predicted from the true costs,
    with noise.
    """
    numbers = random.Random(seed)
    lines = [RUN, *map(described, TILES)]

    def size(least, most):
        return tile_times.round_up(int(least * (most / least) ** numbers.random()), numbers.choice([8, 64]))

    for _ in range(count):
        sizes, ones = [size(64, 8192), size(64, 8192), size(64, 8192), numbers.choice([1, 1, 1, 6])], []
        for tile, splits in itertools.product(TILES, (1, 2, 4)):
            if splits == 1 or sizes[2] >= 128 * splits:
                one = line_of(tile, sizes, splits)
                one["us"] = predict_time(Measurement(one), tile, model, TRUTH[tile.name]) * numbers.lognormvariate(0, noise)
                ones.append(one)
        by_name = {tile.name: tile for tile in TILES}
        min(ones, key=lambda one: predict_time(Measurement(one), by_name[one["tile"]], Model(132)))["chosen"] = True
        lines += ones
    return lines


class Prediction(unittest.TestCase):
    def assert_predicts(self, expected, tile, *sizes_and_more, model=Model(132), **more):
        self.assertAlmostEqual(predict_time(Measurement(line_of(tile, *sizes_and_more, **more)), tile, model), expected, places=9)

    def test_times_match_hand_computed_values(self):
        # 4 x 32 blocks: a part of a wave.
        self.assert_predicts(5 + 10 * 2.056 + 2, LARGE, [512, 8192, 2056], kind="f32")
        # Twice as many: a wave and a part, k of 1028, and three times the results in f32 for the
        # second kernel.
        self.assert_predicts(5 + 2 * (10 * 1.028 + 2) + SPLIT + 512 * 8192 * 3 * 4 / SUMMED, LARGE, [512, 8192, 2056], 2, kind="f32")
        # 256 blocks, two on the busiest multiprocessor; 128, which have one each; 6 x 128, a full
        # wave of 396 and 372 more, three on the busiest one.
        self.assert_predicts(2 + 2 * 3.5 * 0.264 + 2, SMALL, [1024, 1024, 264], kind="f32")
        self.assert_predicts(2 + 1.5 * 3.5 * 0.264 + 2, SMALL, [512, 1024, 264], kind="f32")
        self.assert_predicts(2 + 2 * (3 * 3.5 * 0.264 + 2), SMALL, [512, 1024, 264, 6], kind="f32")
        # Only full waves: there is no remainder.
        self.assert_predicts(2 + 3 * 3.5 * 0.264 + 2, SMALL, [64 * 396, 64, 264], kind="f32")
        # A device with 64 multiprocessors.
        self.assert_predicts(5 + 2 * (10 * 2.056 + 2), LARGE, [512, 8192, 2056], kind="f32", model=Model(64))

    def test_copies_and_bf16_splits_add_time(self):
        traffic = math.hypot((256 + 1024) * 512 * 4 / LOADED + 256 * 1024 * 4 / LOADED, (256 * 4 + 1024 * 2) * 512 * 4 / CACHED)
        product = 5 + math.hypot(10 * 0.512, traffic) + 2
        both, a, b = [(256 * 512 + 512 * 1024), 256 * 512, 512 * 1024]
        for transposed, copies, elements in [((True, False), 2, both), ((True, False), 1, a), ((True, True), 1, a), ((False, False), 1, b)]:
            expected = product + 4 * copies + elements * 8 / 2e6
            self.assert_predicts(expected, LARGE, [256, 1024, 512], kind="tf32", transposed=transposed, copies=copies)
        tile = Tile("wgmmabf16x6_128x128x32", [128, 128, 64], 1, 1, [38.0, 5.0, 1.0, 0.9])
        split = PARTS + 2 * 4 + (1024 * 1000 + 1000 * 2048) * 10 / 2e6
        # k is rounded up to a stage.
        self.assert_predicts(split + 5 + 38 * 1.024 + 0.9, tile, [1024, 2048, 1000], kind="bf16x6")

    def test_tf32_tiles_are_transposed_if_b_is_read_from_registers(self):
        tile = Tile("wgmmatf32_128x256x32", [128, 256, 32], 1, 1, [20.0, 5.0, 1.0, 2.0])
        wide, high = [128, 132 * 256, 512], [132 * 256, 128, 512]
        memory = (128 + 132 * 256) * 512 * 4 / MAPPED + 128 * 132 * 256 * 4 / MAPPED
        # One row of 132 tiles; or 264 tiles in a column, which read the short operand again.
        one = 5 + math.hypot(20 * 0.512, memory, (128 * 132 + 132 * 256) * 512 * 4 / CACHED) + 2
        two = 5 + math.hypot(2 * 20 * 0.512, memory, (132 * 256 + 128 * 264) * 512 * 4 / CACHED) + 2 * 2
        copy_of_a = 4 + 128 * 512 * 8 / 2e6
        copy_of_b = 4 + 132 * 256 * 512 * 8 / 2e6
        for transposed, copies, expected in [((False, True), 0, one), ((True, True), 0, one), ((False, False), 0, two), ((False, False), 1, one + copy_of_b), ((True, False), 1, two + copy_of_a)]:
            self.assert_predicts(expected, tile, wide, kind="tf32", transposed=transposed, copies=copies)
        # The smaller operand of a high product is b, whose copy is k-major.
        self.assert_predicts(two + copy_of_a, tile, high, kind="tf32", transposed=(True, False), copies=1)

    def test_extensions_add_constants(self):
        self.assert_predicts(5 + 10 * 2.056 + 2, LARGE, [512, 8192, 2056], kind="f32")
        self.assert_predicts(5 + 10 * 2.112 + 2, LARGE, [512, 8192, 2056], kind="f32", model=Model(132, ["pad"]))
        names = [name for names in tile_times.EXTENSIONS.values() for name in names]
        self.assertEqual(Model(132, ["pad", "parts", "traffic"]).fitted_constants(), names)
        for name in names:
            ones = [(line_of(tile, [64, 16384, 1032], splits, kind), tile) for kind, tile, splits in EVERY_CONSTANT]
            changed = [predict_time(Measurement(one), tile, Model(132, (), {name: 3 * tile_times.CONSTANTS[name]})) != predict_time(Measurement(one), tile, Model(132)) for one, tile in ones]
            self.assertIn(True, changed, name)

    def test_unaligned_lines_and_partial_clusters_cost_more(self):
        tile = Tile("clustered", [64, 64, 64], 3, 2, [3.5, 2.0, 1.5, 2.0])
        factor = tile_times.STRADDLING_FACTOR
        for kind, k, transposed, a, b in [("bf16", 2048, (False, True), 1, 1), ("bf16", 2056, (False, True), factor, factor), ("tf32", 2016, (False, True), 1, 1), ("bf16", 2048, (True, True), factor, 1), ("bf16", 2056, (False, False), factor, 1)]:
            one = Measurement(line_of(tile, [200, 128, k], kind=kind, transposed=transposed))
            # Four rows of tiles are two clusters, each of which reads columns of b once.
            expected = (200 * 2 * a + 128 * 2 * b) * k * tile_times.BYTES[kind][0]
            self.assertAlmostEqual(tile_times.cached_bytes(one, tile, Model(132)), expected, msg=f"{kind} {k} {transposed}")
        # The operand in registers is b: if it straddles cache lines, rows of the swapped product
        # do.
        transposed = Tile("wgmmatf32_64x64x32", [64, 64, 32], 1, 1, tile.costs)
        one = Measurement(line_of(transposed, [200, 136, 2048], kind="tf32", transposed=(False, False)))
        self.assertAlmostEqual(tile_times.cached_bytes(one, transposed, Model(132)), (136 * 4 * factor + 200 * 3) * 2048 * 4)
        # Three rows of tiles are two clusters: 268 blocks are one more than what is resident with
        # two per multiprocessor.
        one = Measurement(line_of(tile, [192, 64 * 67, 2048]))
        self.assertEqual(tile_times.time_terms(one, tile, Model(132))[1:4], (0, 3, 1))
        # Three rows of tiles are two rows of clusters of two by two: with 30 columns there are 120
        # blocks, as many as are resident at once; with 31 columns as many as with 32.
        four = Tile("four", [64, 64, 64], 1, 4, tile.costs)
        for columns, waves in (30, (1, 0)), (31, (1, 1)), (32, (1, 1)):
            one = Measurement(line_of(four, [192, 64 * columns, 2048]))
            self.assertEqual(tile_times.time_terms(one, four, Model(132))[1:3], waves, columns)
        self.assertEqual([tile_times.cluster_shape(blocks) for blocks in (1, 2, 4, 8)], [(1, 1), (2, 1), (2, 2), (4, 2)])

    def test_compute_and_memory_times_are_combined(self):
        mapped = Tile("wgmma_64x64x64", [64, 64, 64], 1, 1, [2.0, 5.0, 1.0, 0.5])
        read, written, cached = (16 + 4096) * 4096 * 2, 16 * 4096, (16 * 64 + 4096) * 4096 * 2 / CACHED
        inside = ARRIVAL + 2 * ARRIVAL_OF_PART
        for tile, bandwidth, parts in ((mapped, MAPPED, inside), (Tile("mma_64x64x64", mapped.block, 1, 1, mapped.costs), LOADED, SPLIT)):
            self.assert_predicts(5 + math.hypot(2 * 4.096, (read + written * 2) / bandwidth, cached) + 0.5, tile, [16, 4096, 4096])
            expected = 5 + math.hypot(2 * 2.048, (read + written * 8) / bandwidth, cached) + 0.5 + parts + written * 3 * 4 / SUMMED
            self.assert_predicts(expected, tile, [16, 4096, 4096], 2)
            self.assert_predicts(5 + 2 * 4.096 + 0.5, tile, [16, 4096, 4096], kind="f32")

    def test_reduction_is_in_kernel_if_counters_suffice(self):
        for name, tiles, is_inside in [("wgmma_64x64x64_ping_pong", 4096, True), ("wgmma_64x64x64_ping_pong", 4097, False), ("wgmma_64x64x64", 2048, True), ("wgmma_64x64x64", 2049, False), ("mma_64x64x64", 1, False)]:
            tile = Tile(name, [64, 64, 64], 1, 1, LARGE.costs)
            self.assertEqual(tile_times.reduces_in_kernel(Measurement(line_of(tile, [64, 64 * tiles, 512], 2)), tile), is_inside, f"{name} {tiles}")

    def test_cluster_reduction_needs_no_second_kernel(self):
        read, written, cached = (16 + 1024) * 4096 * 2, 16 * 1024 * 2, (16 * 16 + 1024) * 4096 * 2 / CACHED
        tile = Tile("wgmmasplitk_16x64x64", [16, 64, 64], 2, 1, [5.0, 4.0, 1.0, 0.5])
        # 64 blocks with a k of 1024 each.
        parts = tile_times.CLUSTER_SPLIT_MICROSECONDS + 4 * tile_times.CLUSTER_SPLIT_MICROSECONDS_OF_PART
        self.assert_predicts(4 + math.hypot(5 * 1.024, (read + written) / MAPPED, cached) + 0.5 + parts, tile, [16, 1024, 4096], 4)

    def test_constants_match_backend(self):
        source = "".join((BACKEND / "ops" / "matmul" / f"{name}.rs").read_text() for name in ("choice", "prediction"))
        for name in ("COPY_MICROSECONDS", "PADDED_COPY_MICROSECONDS", "SPLIT_BYTES", "BYTES_PER_MICROSECOND", *tile_times.CONSTANTS):
            value = re.search(rf"const {name}: \w+ = ([^;]+);", source)[1]
            total = sum(math.prod(float(factor) for factor in term.split("*")) for term in value.split("+"))
            self.assertEqual(getattr(tile_times, name), total, name)
        self.assertIn(f"const ARRIVAL_COUNTERS: usize = {tile_times.ARRIVAL_COUNTERS};", (BACKEND / "gpu.rs").read_text())

    def test_choices_match_backend_tests(self):
        tiles = tiles_of_source()
        tests = (BACKEND / "ops" / "matmul" / "tests.rs").read_text().split("static BY_TILE")[1].split("];\n")[0]
        inputs = {"F32": ("f32", "simt_"), "BF16": ("bf16", "(wgmmasplitk|w?g?mma)_"), "MmaInput::Tf32": ("tf32", "(wgmma)?tf32_")}
        seen = 0
        for expected, given, *sizes in re.findall(r"\(&(\w+), ([\w:]+), \[(\d+), (\d+), (\d+)\], false\)", tests):
            if given not in inputs:
                continue
            kind, pattern = inputs[given]
            some = [tile for tile in tiles if re.match(pattern, tile.name) and not tile.name.startswith(("simt_64x128x8", "simt_64x64x16"))]
            some = [tile for tile in some if expected.startswith("WGMMA") or not tile.name.startswith("wgmma")]
            sizes = [int(size) for size in sizes]
            ones = [line_of(tile, sizes, splits, kind) for tile in some for splits in splits_of(tile, sizes)]
            by_name = {tile.name: tile for tile in some}
            picked = min(ones, key=lambda one: predict_time(Measurement(one), by_name[one["tile"]], Model(132)))
            self.assertEqual(picked["tile"].upper(), expected, sizes)
            seen += 1
        self.assertGreaterEqual(seen, 20)


def tiles_of_source():
    """Returns the tiles in the sources that support aligned operands."""
    source = "".join((BACKEND / "variant" / "gemm" / f"{name}.rs").read_text() for name in ("tiles", "warpgroup_tiles", "split_k_tiles"))
    found = []
    for text in re.findall(r"Tile = Tile \{(.*?)\n\};", source, re.DOTALL):
        def number(name):
            return float(re.search(rf"\b{name}: ([\d.]+)", text)[1])

        if "UnalignedOperands" not in text and "Purpose::Measurement" not in text:
            block = [int(size) for size in re.search(r"block: BlockShape \{ m: (\d+), n: (\d+), k: (\d+) \}", text).groups()]
            tile = Tile(re.search(r'name: "(\w+)"', text)[1], block, int(number("resident")), int(number("cluster")), [number(cost) for cost in fit_tiles.COST_NAMES])
            tile.few_rows = "FewRows" in text
            found.append(tile)
    return found


def splits_of(tile, sizes):
    """As the backend's function of this name."""
    m, n, k = sizes
    if tile.few_rows and m > tile.block[0]:
        return []
    if tile.name.startswith(tile_times.CLUSTER_TILE):
        return [cut for cut in (1, 2, 4, 8) if cut == 1 or cut <= k // (2 * tile.block[2])]
    down, across = tile_times.cluster_shape(tile.cluster)
    blocks = tile_times.round_up(-(-m // tile.block[0]), down) * tile_times.round_up(-(-n // tile.block[1]), across)
    cuts = [min(aim // blocks, k // max(2 * tile.block[2], 64), 128) for aim in (66, 132, 264, 396, 528, 792)]
    return [1, *(cut for cut in cuts if cut > 1)]


class Scripts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        (self.path / "page.md").write_text(PAGE)

    def save(self, lines, name="tiles.jsonl"):
        (self.path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        return self.path / name

    def run_script(self, *given, error=""):
        command = [sys.executable, str(HERE / "fit_tiles.py"), *given]
        completed = subprocess.run(command, capture_output=True, text=True, cwd=self.path, check=False)
        self.assertEqual(bool(completed.returncode), bool(error), completed.stderr)
        self.assertIn(error, completed.stderr)
        self.assertNotIn("Traceback", completed.stderr)
        return completed.stdout


class Fits(Scripts):
    def test_weights_of_slow_and_fixed_products(self):
        def weight(sizes, us):
            one = Measurement({**line_of(LARGE, sizes), "us": us})
            product = tile_times.Product("bf16")
            product.best = 10.0
            return fit_tiles.weight_of(product, one)

        self.assertEqual(weight([1000, 1000, 1008], 10.0), 1)
        self.assertAlmostEqual(weight([1000, 1000, 1008], 20.0), 1 / 256)
        self.assertEqual(weight([1000, 1000, 1000], 10.0), fit_tiles.FIXED_WEIGHT)

    def test_fit_recovers_true_costs(self):
        data = tile_times.read_measurements([self.save(synthetic(1, 100, Model(132)))])
        fitted = fit_tiles.FitResult(data, Model(132))
        before, after = (fit_tiles.mean_loss(fitted.choices("bf16", is_after)) for is_after in (False, True))
        self.assertGreater(before, 0.03)
        self.assertLess(after, 0.01)
        for loss in fitted.cross_validation.losses("bf16")[:2]:
            self.assertLess(loss, 0.01)
        self.assertEqual(fitted.cross_validation.dropped, {"bf16": 0})
        for name, truth in TRUTH.items():
            for cost, found, expected in zip(fit_tiles.COST_NAMES, fitted.costs[name], truth):
                self.assertLess(abs(found / expected - 1), 0.03 if cost == "nanoseconds_per_k" else 0.3, f"{name} {cost}")
            error_before, error_after = fitted.errors(name)
            self.assertLess(error_after, 0.04)
            self.assertGreater(error_before, error_after)

    def test_extension_is_accepted_only_if_it_helps(self):
        truth = {"LOADED_BYTES_PER_MICROSECOND": 1.2e6}
        data = tile_times.read_measurements([self.save(synthetic(2, 60, Model(132, (), truth)))])
        report = fit_tiles.extensions_report(data, Model(132))
        self.assertRegex(report[-1], "^Lower both: .*traffic")
        fitted = fit_tiles.FitResult(data, Model(132, ["traffic"]))
        for name, value in truth.items():
            self.assertLess(abs(fitted.model.constants[name] / value - 1), 0.1, name)
        # Times that do not depend on stages gain nothing from rounding up to them.
        plain = tile_times.read_measurements([self.save(synthetic(3, 60, Model(132)))])
        self.assertNotIn("pad", fit_tiles.extensions_report(plain, Model(132))[-1])

    def test_outliers_do_not_distort_fit(self):
        lines = synthetic(4, 80, Model(132))
        for line in lines[10::25]:
            line["us"] *= 3
        fitted = fit_tiles.FitResult(tile_times.read_measurements([self.save(lines)]), Model(132))
        for name, truth in TRUTH.items():
            self.assertLess(abs(fitted.costs[name][0] / truth[0] - 1), 0.05, name)
        # These are the inconsistent measurements, and are counted.
        _, consistent, _ = fitted.cross_validation.losses("bf16")
        self.assertLess(consistent, 0.01)
        self.assertGreater(fit_tiles.mean_loss(fitted.cross_validation.choices), 2 * consistent)
        self.assertEqual(fitted.cross_validation.dropped["bf16"], len(lines[10::25]))

    def test_costs_without_measurements_are_unchanged(self):
        # Always two and a half waves: no block is the only one on its multiprocessor.
        lines = [described(SMALL)]
        for k in range(64, 64 * 30, 64):
            one = line_of(SMALL, [64 * 990, 64, k])
            lines.append({**one, "us": predict_time(Measurement(one), SMALL, Model(132), [5.0, 2.0, 1.5, 2.0]), "chosen": True})
        lines += [described(LARGE), {**line_of(LARGE, [512, 8192, 2056]), "us": 99.0}]
        fitted = fit_tiles.FitResult(tile_times.read_measurements([self.save(lines)]), Model(132))
        self.assertEqual(fitted.costs["small"][2], 1.5)
        self.assertLess(abs(fitted.costs["small"][0] / 5.0 - 1), 0.01)
        # One measurement is not enough.
        self.assertEqual(fitted.costs["large"], LARGE.costs)

    def test_losses_are_those_of_chosen_tiles(self):
        # By its costs the large tile takes 27.56 us and the small one more; the measurements of
        # both differ from that.
        lines = [described(LARGE), described(SMALL), {**line_of(LARGE, [512, 8192, 2056]), "us": 30.0, "chosen": True}, {**line_of(SMALL, [512, 8192, 2056]), "us": 20.0}]
        # A second file contains the product again: medians count. A tile without costs counts only
        # as the fastest time.
        again = [{**line_of(LARGE, [512, 8192, 2056]), "us": 36.0, "chosen": True}, {**line_of(MIDDLE, [512, 8192, 2056]), "us": 16.5}]
        data = tile_times.read_measurements([self.save(lines), self.save(again, "again.jsonl")])
        (product,) = data.products.values()
        (choice,) = fit_tiles.choose_tiles([product], data.tiles, Model(132), {name: tile.costs for name, tile in data.tiles.items()})
        self.assertEqual((choice.measurement.tile, choice.measurement.us, choice.loss), ("large", 33.0, 1.0))
        self.assertEqual(product.loss(product.measurements[product.chosen]), 1.0)
        self.assertEqual(fit_tiles.unpredicted_tiles(data), ["1 measurements of tiles without costs (middle) count only as fastest times."])


class Commands(Scripts):
    def test_printed_report(self):
        self.save([*synthetic(1, 40, Model(132)), dict(kind="fused", product="bias", m=1, n=1, k=1, tile="large", us=1.0)])
        text = self.run_script("fit", "tiles.jsonl")
        self.assertIn("Some GPU, commit abc1234: 40 products, ", text)
        for part in ("| bf16 | 40 | ", "bf16 before, the worst:", "bf16 after, the worst:", "10 5 1 2 -> ", "traffic", "dropped", "Lower both: "):
            self.assertIn(part, text)
        self.assertEqual(len(re.findall(r"^ .* us, fastest ", text, re.MULTILINE)), 2 * fit_tiles.WORST_COUNT)
        self.assertNotIn("Extensions", self.run_script("fit", "--quick", "tiles.jsonl"))

    def test_rust_output(self):
        self.save(synthetic(1, 40, Model(132)))
        text = self.run_script("rust", "tiles.jsonl")
        number = r"\d+(\.\d+|e-?\d+)"
        for name in TRUTH:
            fields = "".join(rf"        {cost}: {number},\n" for cost in fit_tiles.COST_NAMES)
            self.assertRegex(text, rf"// {name}: \d+ measurements, error [\d.]+ % before, [\d.]+ % after\n    cost: Cost {{\n{fields}    }},")
        self.assertNotIn("const", text)
        self.assertRegex(self.run_script("rust", "tiles.jsonl", "--extend", "traffic"), rf"^const SUMMED_BYTES_PER_MICROSECOND: f64 = {number}")
        self.assertEqual([fit_tiles.rust_literal(number) for number in (2.0, 0.35, 2.67e6)], ["2.0", "0.35", "2.67e+06"])

    def test_page(self):
        self.save(synthetic(1, 40, Model(132)))
        self.run_script("write", "tiles.jsonl", "page.md")
        page = (self.path / "page.md").read_text()
        self.assertTrue(page.startswith(f"before\n\n{fit_tiles.START}\nSome GPU, commit abc1234: 40 products, "))
        self.assertTrue(page.endswith(f"\n\n{fit_tiles.END}\n\nafter\n"))
        self.assertRegex(page, r"\| bf16 \| 40 \| \d+ \| [\d.]+ % \| [\d.]+ % \| [\d.]+ % \| [\d.]+ % \|\n")
        self.assertRegex(page, r"\| bf16 \| \d+ \| [\d.]+ % \| [\d.]+ % \|\n")
        self.assertNotIn("stale", page)
        self.run_script("write", "tiles.jsonl", "page.md", "--device", "Another GPU", "--commit", "def5678")
        self.assertIn("Another GPU, commit def5678: ", (self.path / "page.md").read_text())

    def test_invalid_measurements_are_rejected(self):
        good = line_of(LARGE, [512, 8192, 2056])
        for bad, error in [
            ({**good, "us": -1}, "expected us to be microseconds above 0, got -1"),
            ({**good, "kind": "f8"}, "expected kind to be one of bf16, f16, f32, tf32, bf16x6, got 'f8'"),
            ({**good, "m": 1.5}, "expected m to be an integer above 0, got 1.5"),
            ({**good, "transposed": [1, 2]}, "expected transposed to be two of true and false, got [1, 2]"),
            ({**good, "copies": 3}, "expected copies to be 0, 1 or 2, got 3"),
            ({key: good[key] for key in good if key != "splits"}, "expected splits to be an integer above 0, got None"),
            ({**described(LARGE), "costs": [1, 2, 3]}, "expected costs to be four numbers from 0 on, got [1, 2, 3]"),
            ({**described(LARGE), "resident": 2}, "expected large with block, resident and cluster ((128, 256, 64), 1, 1) as before, got ((128, 256, 64), 2, 1)"),
            ({"run": 3}, "expected run to be an object"),
            ([1], "expected a JSON object, got '[1]'"),
        ]:
            self.save([described(LARGE), bad, good])
            self.run_script("fit", "tiles.jsonl", error=f"error: tiles.jsonl:2: {error}")
        (self.path / "tiles.jsonl").write_text(f"{json.dumps(good)}\nnothing\n")
        self.run_script("fit", "tiles.jsonl", error="error: tiles.jsonl:2: expected a JSON object, got 'nothing'")
        (self.path / "tiles.jsonl").write_text("")
        self.run_script("fit", "tiles.jsonl", error="error: tiles.jsonl: no measurement")
        self.run_script("fit", "none.jsonl", error="error: ")

    def test_invalid_pages_are_rejected_and_incomplete_last_line_is_ignored(self):
        path = self.save(synthetic(1, 15, Model(132)))
        path.write_text(path.read_text() + '{"kind": "bf')
        self.run_script("fit", "--quick", "tiles.jsonl")
        (self.path / "page.md").write_text("no markers")
        self.run_script("write", "tiles.jsonl", "page.md", error="error: expected <!-- tiles:start -->")
        self.assertEqual((self.path / "page.md").read_text(), "no markers")
        self.run_script("write", "page.md", error="error: expected files of measurements")


if __name__ == "__main__":
    unittest.main()
