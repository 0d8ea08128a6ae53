#!/usr/bin/env python3
"""Fits the tile costs with which the CUDA backend predicts the time of a matrix product to the
measurements of `ternion-bench tiles`.

    ternion-bench tiles > tiles.jsonl
        on the GPU machine: measures products of random sizes with all tiles
    fit_tiles.py fit tiles.jsonl..
        on any machine: reports the loss of the tile choices before and after the fit, the worst
        choices, and the gain of extensions
    fit_tiles.py rust tiles.jsonl..
        prints the costs as literals for crates/backend-cuda/src/variant/gemm
    fit_tiles.py write tiles.jsonl.. docs/kernels/matmul.md
        writes a table between the page's markers

The cost model is that of crates/backend-cuda/src/ops/matmul/prediction.rs. --extend NAME.. adds
these extensions to the fit:

    pad       round k of a split up to the k of a tile's block
    parts     also fit the additional times of split-K and of bf16x6 beyond their traffic
    traffic   also fit the bandwidths, and the factor of cache traffic of unaligned lines

Needs only Python's standard library.
"""

import argparse
import functools
import math
import pathlib
import statistics

from compare import positive, write_atomically
from pages import replace_between_markers
from tile_times import CONSTANTS, EXTENSIONS, Model, predict_time, read_measurements, time_terms

MARKERS = START, END = "<!-- tiles:start -->", "<!-- tiles:end -->"

# Costs in the order in which ternion-bench prints them.
COST_NAMES = ["nanoseconds_per_k", "start_microseconds", "lone_block_factor", "wave_microseconds"]
MIN_COSTS = [1e-3, 0.0, 1.0, 0.0]

# m, n and k of the products that ternion-bench measures with every seed (FIXED in
# benches/gpu/src/tiles.rs), and their weight relative to a random product.
FIXED = {(n, n, n) for n in (512, 1000, 1024, 2048, 4096)} | {
    (16, 4096, 4096), (16384, 768, 3072), (16384, 3072, 768), (16384, 2304, 768), (3072, 768, 16384), (16384, 50304, 768),
}
FIXED_WEIGHT = 20

# The loss is linear beyond this log ratio, so that single outliers do not dominate the fit.
CLIP = 0.1
# Regularization that keeps costs unchanged if no measurement depends on them.
RIDGE = 1e-5
# The costs of a tile with fewer measurements are not fitted.
MIN_MEASUREMENTS = 12
# A fitted constant is between its current value divided and multiplied by this factor.
CONSTANT_RANGE = 4.0
# Number of rounds in which constants and costs are fitted alternately, because they depend on each
# other.
ROUNDS = 6
WORST_COUNT = 10

# A measurement is inconsistent if the ratio of its time to the prediction by costs that were fitted
# without its product exceeds this multiple of the median ratio of the product.
INCONSISTENT_RATIO = 1.6


# ---------------------------------------------------------------- the fit


def nelder_mead(loss, start, steps, rounds):
    """Minimizes `loss` near `start` with an initial simplex of size `steps`. Returns (loss, point).
    """
    points = [list(start)] + [[x + (step if index == axis else 0) for index, x in enumerate(start)] for axis, step in enumerate(steps)]
    simplex = sorted((loss(point), point) for point in points)
    for _ in range(rounds):
        (best_loss, _), (worst_loss, point) = simplex[0], simplex[-1]
        if worst_loss - best_loss < 1e-9 * (1 + best_loss):
            break
        centroid = [sum(axis) / len(steps) for axis in zip(*(other for _, other in simplex[:-1]))]

        def evaluate(factor):
            moved = [x + factor * (x - y) for x, y in zip(centroid, point)]
            return loss(moved), moved

        candidate = evaluate(1.0)
        if candidate[0] < best_loss:
            candidate = min(candidate, evaluate(2.0))
        elif candidate[0] >= simplex[-2][0]:
            candidate = min(candidate, evaluate(-0.5))
        if candidate[0] < worst_loss:
            simplex[-1] = candidate
        else:
            center = simplex[0][1]
            shrunk = [[(x + y) / 2 for x, y in zip(center, other)] for _, other in simplex[1:]]
            simplex = [simplex[0], *((loss(other), other) for other in shrunk)]
        simplex.sort()
    return simplex[0]


def clamp_costs(costs):
    return [max(cost, minimum) for cost, minimum in zip(costs, MIN_COSTS)]


def weight_of(product, measurement):
    """Returns the weight of a measurement. It is low for slow tiles, which are never chosen, and
    high for the products in FIXED, which are frequent in programs.
    """
    is_fixed = (measurement.m, measurement.n, measurement.k) in FIXED and measurement.matrices == 1
    return (product.best / measurement.us) ** 8 * (FIXED_WEIGHT if is_fixed else 1)


def total_weight(rows):
    return sum(row[-1] for row in rows)


def mean_error(rows, costs):
    """Returns the weighted mean squared log ratio of predicted to measured times, linear beyond
    CLIP.
    """
    rate, start, lone_block_factor, wave_cost = costs
    total, log, hypot = 0.0, math.log, math.hypot
    # `combine_terms` is inlined, because a fit spends most of its time here.
    for (length, full, last, waves, traffic, constant_time), logarithm, sample_weight in rows:
        if last:
            full += last if last > lone_block_factor else lone_block_factor
        error = abs(log(start + hypot(full * rate * length, traffic) + waves * wave_cost + constant_time) - logarithm)
        total += sample_weight * (error * error if error < CLIP else CLIP * (2 * error - CLIP))
    return total / total_weight(rows)


def fit_tile(rows, costs, known_costs):
    """Fits the costs of one tile, starting from `costs`. Costs that no measurement depends on stay
    at `known_costs`.
    """
    scales = [max(cost, 0.5) for cost in known_costs]

    def loss(point):
        clamped = clamp_costs(point)
        penalty = sum((x - y) ** 2 for x, y in zip(point, clamped))
        regularization = sum(((x - y) / scale) ** 2 for x, y, scale in zip(clamped, known_costs, scales))
        return mean_error(rows, clamped) + RIDGE * regularization + penalty

    best = loss(costs), list(costs)
    for size in (0.3, -0.2, 0.1, -0.03):
        steps = [size * max(cost, 0.25) for cost in best[1]]
        best = min(best, nelder_mead(loss, best[1], steps, 120))
    return clamp_costs(best[1])


def rows_by_tile(products, tiles, model):
    """Returns tile -> (terms, logarithm of the time, weight) of the measurements to fit."""
    rows = {}
    for product in products:
        for measurement in product.measurements.values():
            if measurement.copies == 0 and measurement.tile in tiles:
                terms = time_terms(measurement, tiles[measurement.tile], model)
                rows.setdefault(measurement.tile, []).append((terms, math.log(measurement.us), weight_of(product, measurement)))
    return {name: tile_rows for name, tile_rows in rows.items() if len(tile_rows) >= MIN_MEASUREMENTS}


def fit_costs(products, tiles, model, costs):
    """Fits the costs of each tile, starting from `costs`."""
    rows = rows_by_tile(products, tiles, model)
    return {name: fit_tile(rows[name], costs[name], tile.costs) if name in rows else tile.costs for name, tile in tiles.items()}


def total_error(products, tiles, model, costs):
    rows = rows_by_tile(products, tiles, model)
    return sum(mean_error(tile_rows, costs[name]) * total_weight(tile_rows) for name, tile_rows in rows.items()) / (sum(map(total_weight, rows.values())) or 1)


def golden_section_search(loss, low, high, rounds=12):
    """Returns the point between two values that minimizes `loss`, a function of one variable."""
    ratio = (math.sqrt(5) - 1) / 2
    inner, outer = high - ratio * (high - low), low + ratio * (high - low)
    first, second = loss(inner), loss(outer)
    for _ in range(rounds):
        if first < second:
            high, outer, second = outer, inner, first
            inner = high - ratio * (high - low)
            first = loss(inner)
        else:
            low, inner, first = inner, outer, second
            outer = low + ratio * (high - low)
            second = loss(outer)
    return (low + high) / 2


def fit_constant(name, products, tiles, model, costs):
    """Returns the model with the value of the constant that minimizes the error for these costs."""
    log_value, log_range = math.log(CONSTANTS[name]), math.log(CONSTANT_RANGE)

    def loss(value):
        return total_error(products, tiles, model.with_constant(name, math.exp(value)), costs)

    best = golden_section_search(loss, log_value - log_range, log_value + log_range)
    return model.with_constant(name, round_to_three_digits(math.exp(best)))


def fit(products, tiles, model):
    """Returns the model with fitted constants, and the costs of all tiles, rounded as in Rust."""
    costs = fit_costs(products, tiles, model, {name: tile.costs for name, tile in tiles.items()})
    for _ in range(ROUNDS if model.fitted_constants() else 0):
        for name in model.fitted_constants():
            model = fit_constant(name, products, tiles, model, costs)
        costs = fit_costs(products, tiles, model, costs)
    return model, {name: [round_to_three_digits(cost) for cost in tile_costs] for name, tile_costs in costs.items()}


def round_to_three_digits(number):
    """Rounds to three digits."""
    return float(f"{number:.3g}")


# ---------------------------------------------------------------- evaluation


class Choice:
    """The measurement of a product with the least predicted time, and its loss relative to the
    fastest one. Measurements in `excluded` are ignored.
    """

    def __init__(self, product, tiles, model, costs, excluded=()):
        candidates = [measurement for key, measurement in product.measurements.items() if measurement.tile in tiles and key not in excluded]
        self.product = product

        def predicted_time(measurement):
            return predict_time(measurement, tiles[measurement.tile], model, costs[measurement.tile])

        self.measurement = min(candidates, key=predicted_time, default=None)
        best_time = min((measurement.us for key, measurement in product.measurements.items() if key not in excluded), default=None)
        self.loss = self.measurement.us / best_time - 1 if self.measurement else None


def choose_tiles(products, tiles, model, costs):
    """Returns the choices for all products that were measured with a known tile."""
    choices = (Choice(product, tiles, model, costs) for product in products)
    return [choice for choice in choices if choice.measurement]


def mean_loss(choices):
    return statistics.fmean(choice.loss for choice in choices) if choices else math.nan


def inconsistent_measurements(product, tiles, model, costs):
    """Returns the keys of the measurements of a product that are inconsistent with its others (see
    INCONSISTENT_RATIO).
    """
    measurements = {key: measurement for key, measurement in product.measurements.items() if measurement.tile in tiles}
    ratios = {
        key: measurement.us / predict_time(measurement, tiles[measurement.tile], model, costs[measurement.tile])
        for key, measurement in measurements.items()
    }
    median_ratio = statistics.median(ratios.values()) if ratios else 1
    return {key for key, ratio in ratios.items() if ratio > INCONSISTENT_RATIO * median_ratio}


class CrossValidation:
    """Evaluation of each half of the products with costs that were fitted to the other half. The
    constants of the model are not fitted again.
    """

    def __init__(self, products, tiles, model):
        self.choices, self.consistent_choices, self.chosen, self.dropped, errors = [], [], [], {}, []
        for fold in (0, 1):
            training_products, test_products = products[fold::2], products[1 - fold :: 2]
            costs = fit_costs(training_products, tiles, model, {name: tile.costs for name, tile in tiles.items()})
            self.choices += choose_tiles(test_products, tiles, model, costs)
            errors.append(total_error(test_products, tiles, model, costs))
            for product in test_products:
                self.evaluate(product, tiles, model, costs)
        self.error = statistics.fmean(errors)

    def evaluate(self, product, tiles, model, costs):
        """Records the choice among consistent measurements, and the loss of the program's choice
        relative to these.
        """
        excluded = inconsistent_measurements(product, tiles, model, costs)
        choice = Choice(product, tiles, model, costs, excluded)
        self.dropped[product.kind] = self.dropped.get(product.kind, 0) + len(excluded)
        if choice.measurement:
            self.consistent_choices.append(choice)
            best_time = min(measurement.us for key, measurement in product.measurements.items() if key not in excluded)
            if product.chosen and product.chosen not in excluded:
                self.chosen.append((product.kind, product.measurements[product.chosen].us / best_time - 1))

    def losses(self, kind):
        """Returns the mean losses of a kind: of choices among all measurements, among consistent
        ones, and of the program's choices among these.
        """
        choices, consistent = ([choice for choice in group if choice.product.kind == kind] for group in (self.choices, self.consistent_choices))
        chosen = [loss for chosen_kind, loss in self.chosen if chosen_kind == kind]
        return mean_loss(choices), mean_loss(consistent), statistics.fmean(chosen) if chosen else math.nan


class FitResult:
    """A fit of all kinds of operands, some of which share tiles."""

    def __init__(self, data, model):
        self.data, self.tiles, self.before = data, data.tiles, Model(model.multiprocessors)
        self.products = list(data.products.values())
        self.known_costs = {name: tile.costs for name, tile in data.tiles.items()}
        self.model, self.costs = fit(self.products, self.tiles, model)

    def choices(self, kind, is_after):
        products = self.data.products_of_kind(kind)
        if is_after:
            return choose_tiles(products, self.tiles, self.model, self.costs)
        # Costs of another version of the cost model are not comparable.
        return choose_tiles(products, self.tiles, self.before, self.known_costs) if all(tile.is_known for tile in self.tiles.values()) else []

    @functools.cached_property
    def cross_validation(self):
        return CrossValidation(self.products, self.tiles, self.model)

    def errors(self, name):
        """Returns the root mean square errors of a tile before and after the fit."""
        rows = [rows_by_tile(self.products, {name: self.tiles[name]}, model).get(name) for model in (self.before, self.model)]
        errors = [math.sqrt(mean_error(tile_rows, costs[name])) if tile_rows else math.nan for tile_rows, costs in zip(rows, (self.known_costs, self.costs))]
        return errors if self.tiles[name].is_known else [math.nan, errors[1]]

    def measurements(self, name):
        return sum(measurement.tile == name and measurement.copies == 0 for product in self.products for measurement in product.measurements.values())


# ---------------------------------------------------------------- output


def format_percent(fraction):
    return f"{100 * fraction:.2f} %" if math.isfinite(fraction) else ""


def format_row(cells):
    return "| " + " | ".join(cells) + " |"


def kinds_table(fitted):
    """Returns a table of the mean losses of tile choices for each kind of operands."""
    titles = ["operands", "products", "measurements", "as chosen by the program"]
    titles += ["by its costs, of what was measured", "by fitted costs", "left out of the fit"]
    lines = [format_row(titles), "|---|---:|---:|---:|---:|---:|---:|"]
    for kind in fitted.data.kinds():
        products = fitted.data.products_of_kind(kind)
        chosen = [product.loss(product.measurements[product.chosen]) for product in products if product.chosen]
        losses = [statistics.fmean(chosen) if chosen else math.nan]
        losses += [mean_loss(fitted.choices(kind, is_after)) for is_after in (False, True)]
        losses.append(fitted.cross_validation.losses(kind)[0])
        lines.append(format_row([kind, str(len(products)), str(sum(len(product.measurements) for product in products)), *map(format_percent, losses)]))
    return lines


def consistent_table(fitted):
    """Returns a table of the mean losses among consistent measurements."""
    lines = [
        "Single measurements are far off where the device's clock fell. "
        f"So the same without those that took over {INCONSISTENT_RATIO:g} times as long as costs fitted without their product say, times the "
        "median ratio of the product's measurements to what they say: such are neither picked nor the fastest. "
        "That also drops what the prediction itself is wrong about; the table above drops nothing.",
        "",
        format_row(["operands", "dropped", "as chosen by the program, unless dropped", "left out of the fit"]),
        "|---|---:|---:|---:|",
    ]
    for kind in fitted.data.kinds():
        _, consistent, chosen = fitted.cross_validation.losses(kind)
        lines.append(format_row([kind, str(fitted.cross_validation.dropped[kind]), format_percent(chosen), format_percent(consistent)]))
    return lines


def worst_choices(title, choices):
    lines = [f"{title}, the worst:"]
    for choice in sorted(choices, key=lambda choice: -choice.loss)[:WORST_COUNT]:
        fastest = min(choice.product.measurements.values(), key=lambda measurement: measurement.us)
        descriptions = [f"{measurement.tile} / {measurement.splits} {measurement.us:.1f} us" for measurement in (choice.measurement, fastest)]
        lines.append(f"  {format_percent(choice.loss):>9}  {str(choice.measurement):<28} {descriptions[0]}, fastest {descriptions[1]}")
    return lines


def tiles_report(fitted):
    lines = [f"{'tile':<32} measured  error before, after   costs before -> after ({', '.join(COST_NAMES)})"]
    for name, tile in fitted.tiles.items():
        before, after = map(format_percent, fitted.errors(name))
        costs = [" ".join(f"{cost:g}" for cost in values) for values in (tile.costs, fitted.costs[name])]
        lines.append(f"{name:<32} {fitted.measurements(name):>8}  {before:>9} {after:>9}   {costs[0]} -> {costs[1]}")
    return lines


def constants_report(model):
    return [f"{name}: {CONSTANTS[name]:g} -> {model.constants[name]:g}" for name in model.fitted_constants()]


def extensions_report(data, model):
    """Returns lines with the cross-validated loss and error of each extension, in addition to the
    accepted ones. An extension that lowers both is accepted.
    """
    lines, accepted, lowest = ["Extensions, of products left out of the fit:  mean loss, error"], [], (math.inf, math.inf)
    for name in (None, *EXTENSIONS):
        names = [*accepted, *([name] if name else [])]
        fitted = FitResult(data, Model(model.multiprocessors, names))
        loss, error = mean_loss(fitted.cross_validation.choices), fitted.cross_validation.error
        constants = "".join(f", {text}" for text in constants_report(fitted.model))
        lines.append(f"  {' + '.join(names) or 'none':<22} {format_percent(loss):>9} {format_percent(math.sqrt(error)):>9}{constants}")
        if loss < lowest[0] and error < lowest[1]:
            accepted, lowest = names, (loss, error)
    return [*lines, f"Lower both: {', '.join(accepted) or 'none'}."]


def unpredicted_tiles(data):
    """Returns a sentence about measured tiles without costs, if there are any."""
    unpredicted = [measurement for product in data.products.values() for measurement in product.measurements.values() if measurement.tile not in data.tiles]
    names = ", ".join(sorted({measurement.tile for measurement in unpredicted}))
    return [f"{len(unpredicted)} measurements of tiles without costs ({names}) count only as fastest times."] if unpredicted else []


def describe_data(fitted, args):
    """Returns a sentence about the machine and the number of measurements."""
    run = fitted.data.runs[-1] if fitted.data.runs else {}
    device, commit = args.device or run.get("device", "unknown device"), args.commit or run.get("commit", "unknown")
    count = sum(len(product.measurements) for product in fitted.products)
    extensions = f", prediction extended by {' and '.join(sorted(fitted.model.extensions))}" if fitted.model.extensions else ""
    return f"{device}, commit {commit}: {len(fitted.products)} products, {count} measurements{extensions}."


def print_fit(args):
    fitted = fit_files(args, args.files)
    heading = [describe_data(fitted, args), *unpredicted_tiles(fitted.data), "", "Mean loss against the fastest tile:"]
    print("\n".join([*heading, *kinds_table(fitted), "", *consistent_table(fitted), ""]))
    for kind in fitted.data.kinds():
        print("\n".join([*worst_choices(f"{kind} before", fitted.choices(kind, False)), *worst_choices(f"{kind} after", fitted.choices(kind, True)), ""]))
    print("\n".join([*tiles_report(fitted), *constants_report(fitted.model), ""]), flush=True)
    if not args.quick:
        print("\n".join(extensions_report(fitted.data, fitted.model)))


def print_rust(args):
    fitted = fit_files(args, args.files)
    for name, value in ((name, fitted.model.constants[name]) for name in fitted.model.fitted_constants()):
        print(f"const {name}: f64 = {rust_literal(value)};")
    for name in fitted.tiles:
        before, after = map(format_percent, fitted.errors(name))
        count = fitted.measurements(name)
        comment = f"error {f'{before} before, ' if before else ''}{after} after" if count >= MIN_MEASUREMENTS else "costs stay"
        print(f"// {name}: {count} measurements, {comment}\n    cost: Cost {{")
        print("".join(f"        {field}: {rust_literal(cost)},\n" for field, cost in zip(COST_NAMES, fitted.costs[name])) + "    },")


def rust_literal(number):
    """Formats an f64 literal for Rust."""
    text = f"{number:g}"
    return text if any(mark in text for mark in ".e") else f"{text}.0"


def update_page(text, lines):
    """Returns the page with the table between its markers."""
    return replace_between_markers(text, MARKERS, "\n".join([*lines, ""]))


def write_page(args):
    *files, target = args.files
    if not files:
        raise SystemExit("error: expected files of measurements, followed by the page")
    text = target.read_text(encoding="utf-8")
    fitted = fit_files(args, files)
    sentence = "How much longer products take than by the fastest tile, in the mean."
    write_atomically(target, update_page(text, [f"{describe_data(fitted, args)} {sentence}", "", *kinds_table(fitted), "", *consistent_table(fitted), ""]))


def fit_files(args, files):
    data = read_measurements(files)
    multiprocessors = args.multiprocessors or next((run["multiprocessors"] for run in data.runs if "multiprocessors" in run), 132)
    return FitResult(data, Model(multiprocessors, args.extend))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, description in (("fit", "report the losses before and after a fit"), ("rust", "print fitted costs as Rust"), ("write", "write a table to a page")):
        command = commands.add_parser(name, help=description)
        files = "output of ternion-bench tiles" + (", followed by the page" if name == "write" else "")
        command.add_argument("files", type=pathlib.Path, nargs="+", metavar="FILE", help=files)
        command.add_argument("--multiprocessors", type=positive, help="multiprocessors of the device (default: from the files, or 132)")
        command.add_argument("--device", help="name of the device (default: from the files)")
        command.add_argument("--commit", help="commit that was measured (default: from the files)")
        command.add_argument("--extend", nargs="+", choices=EXTENSIONS, default=[], metavar="EXTENSION", help=f"extensions of the cost model: {', '.join(EXTENSIONS)}")
        if name == "fit":
            command.add_argument("--quick", action="store_true", help="do not report the gain of each extension")
    return parser.parse_args()


def main():
    args = parse_arguments()
    try:
        {"fit": print_fit, "rust": print_rust, "write": write_page}[args.command](args)
    except OSError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
