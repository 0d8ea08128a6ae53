#!/usr/bin/env python3
"""Fits the costs of tiles, with which the CUDA backend predicts the time of a matrix product, to
the measurements of `ternion-bench tiles`.

    ternion-bench tiles > tiles.jsonl
        on the GPU machine: products of random sizes with every tile
    fit_tiles.py fit tiles.jsonl..
        anywhere: how well tiles are chosen before and after a fit, the worst choices, and the gain
        of extensions
    fit_tiles.py rust tiles.jsonl..
        the costs as literals for crates/backend-cuda/src/variant/gemm
    fit_tiles.py write tiles.jsonl.. docs/kernels/matmul.md
        writes a small table between the page's markers

The prediction is that of crates/backend-cuda/src/ops/matmul/prediction.rs. Its extensions, which
--extend NAME.. includes in the fit:

    pad       k is as long as its stages: splits are rounded up to the k of a tile's block
    parts     the additional times of split-K and of bf16x6 beyond their traffic are fitted, too
    traffic   so are the bandwidths, and the factor of cache traffic of unaligned lines

Needs only Python's standard library.
"""

import argparse
import functools
import math
import pathlib
import statistics

from compare import positive, replace
from pages import between_markers
from tile_times import CONSTANTS, EXTENSIONS, Model, predicted, read, terms

MARKERS = START, END = "<!-- tiles:start -->", "<!-- tiles:end -->"

# In the order of the lines of ternion-bench.
COSTS = ["nanoseconds_per_k", "start_microseconds", "lone_block_factor", "wave_microseconds"]
LEAST_COSTS = [1e-3, 0.0, 1.0, 0.0]

# m, n and k of the products that ternion-bench measures for every seed (FIXED in
# benches/gpu/src/tiles.rs), and the weight of each compared with a random one.
FIXED = {(n, n, n) for n in (512, 1000, 1024, 2048, 4096)} | {
    (16, 4096, 4096), (16384, 768, 3072), (16384, 3072, 768), (16384, 2304, 768), (3072, 768, 16384), (16384, 50304, 768),
}
FIXED_WEIGHT = 20

# An error beyond this log ratio counts linearly, so that single outliers do not dominate the fit.
CLIP = 0.1
# Keeps costs at their values if no measurement depends on them.
RIDGE = 1e-5
# A tile with fewer measurements keeps its costs.
LEAST_MEASUREMENTS = 12
# The range of a fitted constant: this many times less or more than its current value.
CONSTANT_RANGE = 4.0
# Constants and costs are fitted alternately in this many rounds, because they can compensate for
# each other.
ROUNDS = 6
WORST = 10

# A measurement is inconsistent if it takes this many times as long as predicted by costs that were
# fitted without its product, times the median of that ratio over the product's measurements.
INCONSISTENT = 1.6


# ---------------------------------------------------------------- the fit


def nelder_mead(loss, start, steps, rounds):
    """Minimizes `loss` near `start` with a simplex of the size `steps`: (value, point)."""
    points = [list(start)] + [[x + (step if at == axis else 0) for at, x in enumerate(start)] for axis, step in enumerate(steps)]
    simplex = sorted((loss(point), point) for point in points)
    for _ in range(rounds):
        (best, _), (worst, point) = simplex[0], simplex[-1]
        if worst - best < 1e-9 * (1 + best):
            break
        middle = [sum(axis) / len(steps) for axis in zip(*(other for _, other in simplex[:-1]))]

        def along(factor):
            moved = [x + factor * (x - y) for x, y in zip(middle, point)]
            return loss(moved), moved

        new = along(1.0)
        if new[0] < best:
            new = min(new, along(2.0))
        elif new[0] >= simplex[-2][0]:
            new = min(new, along(-0.5))
        if new[0] < worst:
            simplex[-1] = new
        else:
            center = simplex[0][1]
            shrunk = [[(x + y) / 2 for x, y in zip(center, other)] for _, other in simplex[1:]]
            simplex = [simplex[0], *((loss(other), other) for other in shrunk)]
        simplex.sort()
    return simplex[0]


def bounded(costs):
    return [max(cost, least) for cost, least in zip(costs, LEAST_COSTS)]


def weight_of(product, one):
    """Returns the weight of a measurement. Tiles slower than the fastest one need not be predicted
    well, because they are not chosen. Products that are measured by name, which many programs have,
    count more.
    """
    is_fixed = (one.m, one.n, one.k) in FIXED and one.matrices == 1
    return (product.best / one.us) ** 8 * (FIXED_WEIGHT if is_fixed else 1)


def weight(rows):
    return sum(row[-1] for row in rows)


def mean_error(rows, costs):
    """Returns the weighted mean squared log ratio of predicted to measured times; beyond CLIP it
    grows linearly.
    """
    rate, start, lone, wave = costs
    total, log, hypot = 0.0, math.log, math.hypot
    # time_of, inlined, because a fit spends most of its time here.
    for (length, full, last, waves, traffic, added), logarithm, share in rows:
        if last:
            full += last if last > lone else lone
        error = abs(log(start + hypot(full * rate * length, traffic) + waves * wave + added) - logarithm)
        total += share * (error * error if error < CLIP else CLIP * (2 * error - CLIP))
    return total / weight(rows)


def fit_tile(rows, costs, known):
    """Fits the costs of one tile, beginning with `costs`; costs that nothing depends on stay at
    those in `known`.
    """
    scales = [max(cost, 0.5) for cost in known]

    def loss(point):
        inside = bounded(point)
        outside = sum((x - y) ** 2 for x, y in zip(point, inside))
        held = sum(((x - y) / scale) ** 2 for x, y, scale in zip(inside, known, scales))
        return mean_error(rows, inside) + RIDGE * held + outside

    best = loss(costs), list(costs)
    for size in (0.3, -0.2, 0.1, -0.03):
        steps = [size * max(cost, 0.25) for cost in best[1]]
        best = min(best, nelder_mead(loss, best[1], steps, 120))
    return bounded(best[1])


def rows_by_tile(products, tiles, model):
    """Returns what the costs of each tile are fitted to: terms and logarithms of times."""
    rows = {}
    for product in products:
        for one in product.ones.values():
            if one.copies == 0 and one.tile in tiles:
                rows.setdefault(one.tile, []).append((terms(one, tiles[one.tile], model), math.log(one.us), weight_of(product, one)))
    return {name: some for name, some in rows.items() if len(some) >= LEAST_MEASUREMENTS}


def fit_costs(products, tiles, model, costs):
    """Fits the costs of each tile, beginning with `costs`."""
    rows = rows_by_tile(products, tiles, model)
    return {name: fit_tile(rows[name], costs[name], tile.costs) if name in rows else tile.costs for name, tile in tiles.items()}


def total_error(products, tiles, model, costs):
    rows = rows_by_tile(products, tiles, model)
    return sum(mean_error(some, costs[name]) * weight(some) for name, some in rows.items()) / (sum(map(weight, rows.values())) or 1)


def golden(loss, least, most, rounds=12):
    """Returns the minimum of `loss`, a function of one variable, between two values."""
    share = (math.sqrt(5) - 1) / 2
    inner, outer = most - share * (most - least), least + share * (most - least)
    first, second = loss(inner), loss(outer)
    for _ in range(rounds):
        if first < second:
            most, outer, second = outer, inner, first
            inner = most - share * (most - least)
            first = loss(inner)
        else:
            least, inner, first = inner, outer, second
            outer = least + share * (most - least)
            second = loss(outer)
    return (least + most) / 2


def fit_constant(name, products, tiles, model, costs):
    """Returns the model with the constant that fits these costs best."""
    now, reach = math.log(CONSTANTS[name]), math.log(CONSTANT_RANGE)
    found = golden(lambda value: total_error(products, tiles, model.with_constant(name, math.exp(value)), costs), now - reach, now + reach)
    return model.with_constant(name, significant(math.exp(found)))


def fit(products, tiles, model):
    """Returns the model with its constants, and the costs of every tile, as they are written to the
    source.
    """
    costs = fit_costs(products, tiles, model, {name: tile.costs for name, tile in tiles.items()})
    for _ in range(ROUNDS if model.fitted() else 0):
        for name in model.fitted():
            model = fit_constant(name, products, tiles, model, costs)
        costs = fit_costs(products, tiles, model, costs)
    return model, {name: [significant(cost) for cost in some] for name, some in costs.items()}


def significant(number):
    """Rounds to three digits."""
    return float(f"{number:.3g}")


# ---------------------------------------------------------------- how good the choice is


class Picked:
    """The choice of a prediction among the measurements of a product, except those that are
    excluded.
    """

    def __init__(self, product, tiles, model, costs, out=()):
        ones = [one for key, one in product.ones.items() if one.tile in tiles and key not in out]
        self.product = product
        self.one = min(ones, key=lambda one: predicted(one, tiles[one.tile], model, costs[one.tile]), default=None)
        best = min((one.us for key, one in product.ones.items() if key not in out), default=None)
        self.loss = self.one.us / best - 1 if self.one else None


def picks(products, tiles, model, costs):
    """Returns the choices for all products that have a tile with known costs."""
    made = (Picked(product, tiles, model, costs) for product in products)
    return [picked for picked in made if picked.one]


def mean_loss(made):
    return statistics.fmean(picked.loss for picked in made) if made else math.nan


def inconsistent(product, tiles, model, costs):
    """Returns the keys of the measurements that take INCONSISTENT times as long as predicted by
    `costs`, times the median of that ratio in the product.
    """
    known = {key: one for key, one in product.ones.items() if one.tile in tiles}
    ratios = {key: one.us / predicted(one, tiles[one.tile], model, costs[one.tile]) for key, one in known.items()}
    usual = statistics.median(ratios.values()) if ratios else 1
    return {key for key, ratio in ratios.items() if ratio > INCONSISTENT * usual}


class HeldOut:
    """Products with costs that were fitted to the other half of them; the model's constants are the
    same.
    """

    def __init__(self, products, tiles, model):
        self.made, self.consistent, self.chosen, self.dropped, errors = [], [], [], {}, []
        for fold in (0, 1):
            fitted, others = products[fold::2], products[1 - fold :: 2]
            costs = fit_costs(fitted, tiles, model, {name: tile.costs for name, tile in tiles.items()})
            self.made += picks(others, tiles, model, costs)
            errors.append(total_error(others, tiles, model, costs))
            for product in others:
                self.judge(product, tiles, model, costs)
        self.error = statistics.fmean(errors)

    def judge(self, product, tiles, model, costs):
        """Records the choices among consistent measurements, and the losses of what the program
        chose relative to these.
        """
        out = inconsistent(product, tiles, model, costs)
        picked = Picked(product, tiles, model, costs, out)
        self.dropped[product.kind] = self.dropped.get(product.kind, 0) + len(out)
        if picked.one:
            self.consistent.append(picked)
            best = min(one.us for key, one in product.ones.items() if key not in out)
            if product.chosen and product.chosen not in out:
                self.chosen.append((product.kind, product.ones[product.chosen].us / best - 1))

    def losses(self, kind):
        """Returns the mean losses of a kind: for all measurements, for consistent ones, and for
        what the program chose among these.
        """
        made, consistent = ([picked for picked in some if picked.product.kind == kind] for some in (self.made, self.consistent))
        chosen = [loss for of, loss in self.chosen if of == kind]
        return mean_loss(made), mean_loss(consistent), statistics.fmean(chosen) if chosen else math.nan


class Fitted:
    """A fit of all kinds together, because some share tiles."""

    def __init__(self, data, model):
        self.data, self.tiles, self.before = data, data.tiles, Model(model.multiprocessors)
        self.products = list(data.products.values())
        self.known = {name: tile.costs for name, tile in data.tiles.items()}
        self.model, self.costs = fit(self.products, self.tiles, model)

    def picks(self, kind, is_after):
        products = self.data.of_kind(kind)
        if is_after:
            return picks(products, self.tiles, self.model, self.costs)
        # Costs of another form of the prediction are not comparable.
        return picks(products, self.tiles, self.before, self.known) if all(tile.is_known for tile in self.tiles.values()) else []

    @functools.cached_property
    def held_out(self):
        return HeldOut(self.products, self.tiles, self.model)

    def errors(self, name):
        """Returns the root mean square errors of a tile, before and after."""
        rows = [rows_by_tile(self.products, {name: self.tiles[name]}, model).get(name) for model in (self.before, self.model)]
        errors = [math.sqrt(mean_error(some, costs[name])) if some else math.nan for some, costs in zip(rows, (self.known, self.costs))]
        return errors if self.tiles[name].is_known else [math.nan, errors[1]]

    def measurements(self, name):
        return sum(one.tile == name and one.copies == 0 for product in self.products for one in product.ones.values())


# ---------------------------------------------------------------- what is printed and written


def percent(share):
    return f"{100 * share:.2f} %" if math.isfinite(share) else ""


def row_of(cells):
    return "| " + " | ".join(cells) + " |"


def kinds_table(fitted):
    """Returns a row for each kind: how much longer its products take than with the fastest tile."""
    lines = [row_of(["operands", "products", "measurements", "as chosen by the program", "by its costs, of what was measured", "by fitted costs", "left out of the fit"]), "|---|---:|---:|---:|---:|---:|---:|"]
    for kind in fitted.data.kinds():
        products = fitted.data.of_kind(kind)
        chosen = [product.loss(product.ones[product.chosen]) for product in products if product.chosen]
        losses = [statistics.fmean(chosen) if chosen else math.nan, *(mean_loss(fitted.picks(kind, is_after)) for is_after in (False, True)), fitted.held_out.losses(kind)[0]]
        lines.append(row_of([kind, str(len(products)), str(sum(len(product.ones) for product in products)), *map(percent, losses)]))
    return lines


def consistent_table(fitted):
    """Returns the same for measurements that are consistent with others of their product."""
    lines = [
        f"Single measurements are far off where the device's clock fell. So the same without those that took over {INCONSISTENT:g} times as long as costs fitted without their product say, times the "
        "median ratio of the product's measurements to what they say: such are neither picked nor the fastest. That also drops what the prediction itself is wrong about; the table above drops nothing.",
        "",
        row_of(["operands", "dropped", "as chosen by the program, unless dropped", "left out of the fit"]),
        "|---|---:|---:|---:|",
    ]
    for kind in fitted.data.kinds():
        _, consistent, chosen = fitted.held_out.losses(kind)
        lines.append(row_of([kind, str(fitted.held_out.dropped[kind]), percent(chosen), percent(consistent)]))
    return lines


def worst(title, made):
    lines = [f"{title}, the worst:"]
    for picked in sorted(made, key=lambda picked: -picked.loss)[:WORST]:
        fastest = min(picked.product.ones.values(), key=lambda one: one.us)
        described = [f"{one.tile} / {one.splits} {one.us:.1f} us" for one in (picked.one, fastest)]
        lines.append(f"  {percent(picked.loss):>9}  {str(picked.one):<28} {described[0]}, fastest {described[1]}")
    return lines


def tiles_report(fitted):
    lines = [f"{'tile':<32} measured  error before, after   costs before -> after ({', '.join(COSTS)})"]
    for name, tile in fitted.tiles.items():
        before, after = map(percent, fitted.errors(name))
        costs = [" ".join(f"{cost:g}" for cost in some) for some in (tile.costs, fitted.costs[name])]
        lines.append(f"{name:<32} {fitted.measurements(name):>8}  {before:>9} {after:>9}   {costs[0]} -> {costs[1]}")
    return lines


def constants_report(model):
    return [f"{name}: {CONSTANTS[name]:g} -> {model.constants[name]:g}" for name in model.fitted()]


def extensions_report(data, model):
    """Returns the loss and the error with each extension, added to the earlier ones that lower
    both, for products that the costs were not fitted to.
    """
    lines, kept, least = ["Extensions, of products left out of the fit:  mean loss, error"], [], (math.inf, math.inf)
    for name in (None, *EXTENSIONS):
        names = [*kept, *([name] if name else [])]
        fitted = Fitted(data, Model(model.multiprocessors, names))
        loss, error = mean_loss(fitted.held_out.made), fitted.held_out.error
        more = "".join(f", {text}" for text in constants_report(fitted.model))
        lines.append(f"  {' + '.join(names) or 'none':<22} {percent(loss):>9} {percent(math.sqrt(error)):>9}{more}")
        if loss < least[0] and error < least[1]:
            kept, least = names, (loss, error)
    return [*lines, f"Lower both: {', '.join(kept) or 'none'}."]


def not_predicted(data):
    """Returns which tiles were measured but are not described by any line, in a sentence."""
    unknown = [one for product in data.products.values() for one in product.ones.values() if one.tile not in data.tiles]
    names = ", ".join(sorted({one.tile for one in unknown}))
    return [f"{len(unknown)} measurements of tiles without costs ({names}) count only as fastest times."] if unknown else []


def about(fitted, given):
    """Returns the machine and what was measured, in a sentence."""
    run = fitted.data.runs[-1] if fitted.data.runs else {}
    device, commit = given.device or run.get("device", "unknown device"), given.commit or run.get("commit", "unknown")
    count = sum(len(product.ones) for product in fitted.products)
    extended = f", prediction extended by {' and '.join(sorted(fitted.model.extensions))}" if fitted.model.extensions else ""
    return f"{device}, commit {commit}: {len(fitted.products)} products, {count} measurements{extended}."


def print_fit(given):
    fitted = fitted_of(given, given.files)
    print("\n".join([about(fitted, given), *not_predicted(fitted.data), "", "Mean loss against the fastest tile:", *kinds_table(fitted), "", *consistent_table(fitted), ""]))
    for kind in fitted.data.kinds():
        print("\n".join([*worst(f"{kind} before", fitted.picks(kind, False)), *worst(f"{kind} after", fitted.picks(kind, True)), ""]))
    print("\n".join([*tiles_report(fitted), *constants_report(fitted.model), ""]), flush=True)
    if not given.quick:
        print("\n".join(extensions_report(fitted.data, fitted.model)))


def print_rust(given):
    fitted = fitted_of(given, given.files)
    for name, value in ((name, fitted.model.constants[name]) for name in fitted.model.fitted()):
        print(f"const {name}: f64 = {literal(value)};")
    for name in fitted.tiles:
        before, after = map(percent, fitted.errors(name))
        count = fitted.measurements(name)
        known = f"error {f'{before} before, ' if before else ''}{after} after" if count >= LEAST_MEASUREMENTS else "costs stay"
        print(f"// {name}: {count} measurements, {known}\n    cost: Cost {{")
        print("".join(f"        {field}: {literal(cost)},\n" for field, cost in zip(COSTS, fitted.costs[name])) + "    },")


def literal(number):
    """Returns an f64 literal of Rust."""
    text = f"{number:g}"
    return text if any(mark in text for mark in ".e") else f"{text}.0"


def page(text, lines):
    """Returns the page with the table between its markers."""
    return between_markers(text, MARKERS, "\n".join([*lines, ""]))


def write(given):
    *files, target = given.files
    if not files:
        raise SystemExit("error: expected files of measurements, and after them the page")
    text = target.read_text(encoding="utf-8")
    fitted = fitted_of(given, files)
    sentence = "How much longer products take than by the fastest tile, in the mean."
    replace(target, page(text, [f"{about(fitted, given)} {sentence}", "", *kinds_table(fitted), "", *consistent_table(fitted), ""]))


def fitted_of(given, files):
    data = read(files)
    multiprocessors = given.multiprocessors or next((run["multiprocessors"] for run in data.runs if "multiprocessors" in run), 132)
    return Fitted(data, Model(multiprocessors, given.extend))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (("fit", "how well tiles are chosen, before and after"), ("rust", "fitted costs as Rust"), ("write", "a table into a page")):
        command = commands.add_parser(name, help=what)
        command.add_argument("files", type=pathlib.Path, nargs="+", metavar="FILE", help="what ternion-bench tiles printed" + (", and last the page" if name == "write" else ""))
        command.add_argument("--multiprocessors", type=positive, help="of the device; else what the files say in a line of the run, else 132")
        command.add_argument("--device", help="its name; else what the files say")
        command.add_argument("--commit", help="that was measured; else what the files say")
        command.add_argument("--extend", nargs="+", choices=EXTENSIONS, default=[], metavar="EXTENSION", help=f"of the prediction: {', '.join(EXTENSIONS)}")
        if name == "fit":
            command.add_argument("--quick", action="store_true", help="leaves out what each extension would gain")
    return parser.parse_args()


def main():
    given = arguments()
    try:
        {"fit": print_fit, "rust": print_rust, "write": write}[given.command](given)
    except OSError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
