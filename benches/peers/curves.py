#!/usr/bin/env python3
"""Compares loss curves of a GPT in bf16: fused with unfused ops, recorded with eager steps, and
both with rounding noise.

    ternion-bench curves > curves.jsonl
        on the GPU machine: trains all variants for each seed
    curves.py write curves.jsonl.. docs/profiles/gpt-curves.md
        on any machine: writes the table between the page's markers, and gpt-curves.svg

The losses of recorded steps must be bit-identical to those of eager steps; otherwise nothing is
written. For each seed the script reports whether fused and unfused differ more than bf16 and f32,
and more than any two unfused runs, including bf16 with dithered weights. Only Python's standard
library is needed.
"""

import html
import itertools
import math

from charts import axis_step
from compare import read_results, write_atomically
from pages import format_row, provenance_lines, replace_between_markers, run_write_command

MARKERS = START, END = "<!-- curves:start -->", "<!-- curves:end -->"

EAGER, RECORDED, UNFUSED, F32 = "bf16/eager", "bf16/recorded", "bf16/unfused", "f32/unfused"
DITHERED = tuple(f"bf16/dithered_{number}" for number in (1, 2, 3))
# Unfused training runs, which differ only by rounding.
NOISE = (UNFUSED, F32, *DITHERED)
# Variant -> name, color and line style, in drawing order.
VARIANTS = {
    **{variant: (f"bf16, unfused, dithered {number}", "#999999", ' stroke-width="1"') for number, variant in enumerate(DITHERED, 1)},
    F32: ("f32, unfused", "#2e8b57", ' stroke-width="3" opacity="0.5"'),
    UNFUSED: ("bf16, unfused", "#e07b00", ' stroke-width="1.6"'),
    EAGER: ("bf16, fused", "#1f5fa8", ' stroke-width="1.6" stroke-dasharray="6 4"'),
    RECORDED: ("bf16, fused, recorded", "#c0392b", ' stroke-width="1.6" stroke-dasharray="2 5"'),
}
# Number of steps over which a smoothed curve is averaged.
SMOOTHING_STEPS = 20


def read_curves(lines, source):
    """Returns the losses by seed and variant. All curves must exist and have the same steps."""
    losses, models = {}, set()
    for line in lines:
        if "run" in line:
            continue
        try:
            seed, variant, step, loss = line["seed"], line["way"], line["step"], float(line["loss"])
            models.add(line["model"])
        except (KeyError, TypeError, ValueError) as error:
            raise SystemExit(f"error: {source}: expected model, seed, way, step and a number as loss, got {str(line)[:120]}") from error
        steps = losses.setdefault(seed, {}).setdefault(variant, {})
        if step in steps:
            raise SystemExit(f"error: {source}: seed {seed}, {variant}: step {step} occurs twice")
        steps[step] = loss
    if len(models) != 1:
        raise SystemExit(f"error: {source}: expected curves of one model, got {', '.join(sorted(models)) or 'none'}")
    step_count = max(max(steps) for curves_by_variant in losses.values() for steps in curves_by_variant.values())
    for seed, variant in itertools.product(losses, VARIANTS):
        steps = losses[seed].get(variant, {})
        if sorted(steps) != list(range(1, step_count + 1)):
            raise SystemExit(f"error: {source}: seed {seed}, {variant}: {len(steps)} of {step_count} steps")
    if step_count < SMOOTHING_STEPS:
        raise SystemExit(f"error: {source}: {step_count} steps, expected at least {SMOOTHING_STEPS}")
    steps = range(1, step_count + 1)
    return {
        seed: {variant: [curves_by_variant[variant][step] for step in steps] for variant in VARIANTS}
        for seed, curves_by_variant in sorted(losses.items())
    }


def check_recorded(curves):
    """Raises an error unless the losses of recorded steps equal those of eager steps in every bit.
    NaN is not equal.
    """
    for seed, curves_by_variant in curves.items():
        for step, (eager, recorded) in enumerate(zip(curves_by_variant[EAGER], curves_by_variant[RECORDED]), 1):
            if eager != recorded:
                raise SystemExit(f"error: seed {seed}, step {step}: loss {eager!r} op by op and {recorded!r} recorded")


def smooth(losses):
    """Returns the means of all SMOOTHING_STEPS consecutive steps."""
    return [math.fsum(losses[start : start + SMOOTHING_STEPS]) / SMOOTHING_STEPS for start in range(len(losses) - SMOOTHING_STEPS + 1)]


class Distance:
    """The largest and the mean distance between smoothed curves."""

    def __init__(self, pairs):
        differences = [abs(first - second) for left, right in pairs for first, second in zip(smooth(left), smooth(right))]
        self.largest, self.mean = max(differences, default=math.nan), math.fsum(differences) / len(differences) if differences else math.nan

    def cells(self):
        return ["" if math.isnan(value) else f"{value:.5f}" for value in (self.largest, self.mean)]


class Noise(Distance):
    """The maximum over all pairs of unfused training runs of the largest and the mean distance."""

    def __init__(self, curves_by_variant):
        distances = [Distance([(curves_by_variant[first], curves_by_variant[second])]) for first, second in itertools.combinations(NOISE, 2)]
        self.largest, self.mean = max(distance.largest for distance in distances), max(distance.mean for distance in distances)


class SeedDistances:
    """The distances of one seed between fused and unfused runs, and the noise."""

    def __init__(self, curves, seed):
        curves_by_variant = curves[seed]
        other_curves = [curves[other][UNFUSED] for other in curves if other != seed]
        self.seed, self.final_losses = seed, {variant: smooth(losses)[-1] for variant, losses in curves_by_variant.items()}
        self.fused = Distance([(curves_by_variant[EAGER], curves_by_variant[UNFUSED])])
        self.f32 = Distance([(curves_by_variant[UNFUSED], curves_by_variant[F32])])
        self.noise = Noise(curves_by_variant)
        self.seeds = Distance([(curves_by_variant[UNFUSED], other) for other in other_curves])

    def ratio(self):
        """Returns the ratio of the mean distance of fused from unfused to that of bf16 from f32."""
        return f"{self.fused.mean / self.f32.mean:.2f}" if self.f32.mean else ""

    def exceeded(self, bound):
        """Returns (name, value, limit) of the distances between fused and unfused that exceed a
        bound. NaN exceeds every bound.
        """
        distances = (("largest", self.fused.largest, bound.largest), ("mean", self.fused.mean, bound.mean))
        return [(name, value, limit) for name, value, limit in distances if not value <= limit]

    def sentences(self):
        """Yields a sentence for each bound, with the values that exceed it."""
        for name, _, get_bound in BOUNDS:
            shortfall = self.shortfall(get_bound(self))
            yield f"seed {self.seed}: fused and unfused are {f'further apart than {name}: {shortfall}' if shortfall else f'no further apart than {name}'}"

    def verdict(self, bound):
        """Returns a table cell about whether the distances are within a bound."""
        exceeded = self.exceeded(bound)
        return f"**no**: {', '.join(name for name, _, _ in exceeded)}" if exceeded else "yes"

    def shortfall(self, bound):
        """Returns the values that exceed a bound, and the bound, as text."""
        return " and ".join(f"{name} {value:.5f}, compared with {limit:.5f}" for name, value, limit in self.exceeded(bound))


# Bounds of the distance between fused and unfused: name in sentences, title of the column, and a
# function that returns the bound of a seed.
BOUNDS = [
    ("bf16 and f32", "bf16 from f32", lambda seed: seed.f32),
    ("dithered training runs", "dithered", lambda seed: seed.noise),
]


def describe_runs(lines):
    """Returns sentences about the models and the provenance of the runs in the files."""
    models, provenance = [], []
    for line in lines:
        if run := line.get("run"):
            sizes = f"{run.get('layers')} layers of width {run.get('width')}, context {run.get('context')}, {run.get('vocabulary')} tokens"
            batches = f"batches of {run.get('batch')} windows from {run.get('text_bytes')} bytes of text"
            text = f"`{run.get('model')}` ({sizes}) on {run.get('device')}: {batches}, AdamW at {run.get('lr')}."
            models += [text] if text not in models else []
            provenance += [text for text in provenance_lines(run) if text not in provenance]
    return models + provenance


def distance_table(curves):
    """Returns a table with a row for each seed: the largest and the mean distances between smoothed
    curves, and the verdicts.
    """
    names = ("fused from unfused", *(title for _, title, _ in BOUNDS), "seed from seed")
    column_titles = [f"{name}, {statistic}" for name in names for statistic in ("largest", "mean")]
    bound_titles = [f"within {title}" for _, title, _ in BOUNDS]
    lines = [
        format_row(["seed", *column_titles, "fused / bf16, mean", *bound_titles]),
        format_row(["---", *["---:"] * (len(column_titles) + 1), *["---"] * len(bound_titles)]),
    ]
    for seed in (SeedDistances(curves, seed) for seed in curves):
        bounds = [get_bound(seed) for _, _, get_bound in BOUNDS]
        distances = [seed.fused, *bounds, seed.seeds]
        lines.append(format_row([str(seed.seed), *(cell for distance in distances for cell in distance.cells()), seed.ratio(), *map(seed.verdict, bounds)]))
    return lines


def bound_sentence(curves, name, get_bound):
    """Returns a sentence about the seeds for which fused and unfused are within a bound."""
    seeds = [SeedDistances(curves, seed) for seed in curves]
    shortfalls = {seed.seed: seed.shortfall(get_bound(seed)) for seed in seeds}
    within = [str(seed) for seed, shortfall in shortfalls.items() if not shortfall]
    exceeding = [f"{seed} ({shortfall})" for seed, shortfall in shortfalls.items() if shortfall]
    text = f"Fused and unfused are no further apart than {name}, in the largest distance and in the mean, for {len(within)} of {len(seeds)} seeds"
    text += f": {', '.join(within)}." if within else "."
    return text + (f" They are further apart for {'; '.join(exceeding)}." if exceeding else "")


def losses_table(curves):
    """Returns a table of the final losses."""
    variants = [*(variant for variant in VARIANTS if variant not in DITHERED), *DITHERED]
    names = [VARIANTS[variant][0] for variant in variants]
    lines = [format_row([f"seed, mean loss of the last {SMOOTHING_STEPS} steps", *names]), format_row(["---", *["---:"] * len(variants)])]
    for seed in (SeedDistances(curves, seed) for seed in curves):
        lines.append(format_row([str(seed.seed), *(f"{seed.final_losses[variant]:.5f}" for variant in variants)]))
    return lines


def render(lines, curves, picture):
    steps = len(next(iter(curves.values()))[EAGER])
    sentence = f"Of {len(curves)} x {steps} steps the losses of the recorded ones equal those op by op in every bit."
    sentences = [sentence, *(bound_sentence(curves, name, get_bound) for name, _, get_bound in BOUNDS)]
    heading = [*describe_runs(lines), "", f"![Losses of every way by step]({picture})", ""]
    return [*heading, *sentences, "", *distance_table(curves), "", *losses_table(curves), ""]


def update_page(text, lines, curves, picture):
    """Returns the page with the tables between its markers."""
    return replace_between_markers(text, MARKERS, "\n".join(render(lines, curves, picture)))


# ---------------------------------------------------------------- the plot

WIDTH, LEFT, RIGHT, TOP = 1200, 46, 14, 46
LOSS_HEIGHT, GAP, DISTANCE_HEIGHT, BOTTOM = 250, 34, 110, 44
# Every POINT_INTERVAL-th point of a smoothed curve is drawn.
POINT_INTERVAL = 5


class Panel:
    """The panel of a seed: losses by step, and below them, on another scale, their differences from
    bf16, unfused.
    """

    def __init__(self, seed, curves_by_variant, left, width):
        self.seed, self.left, self.right, self.parts = seed, left + LEFT, left + width - RIGHT, []
        self.curves = {variant: smooth(losses) for variant, losses in curves_by_variant.items()}
        self.steps = len(curves_by_variant[EAGER])
        self.distances = {
            variant: [value - reference for value, reference in zip(curve, self.curves[UNFUSED])]
            for variant, curve in self.curves.items()
            if variant != UNFUSED
        }

    def draw_text(self, x, y, content, anchor="start", attributes=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{attributes}>{html.escape(content)}</text>')

    def draw_line(self, x1, y1, x2, y2, stroke):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"/>')

    def x(self, step):
        return self.left + (step - 1) / max(self.steps - 1, 1) * (self.right - self.left)

    def point_indices(self, count):
        """Returns the indices of the points that are drawn; the last one always is."""
        return sorted({*range(0, count, POINT_INTERVAL), count - 1})

    def draw_curves(self, curves, y):
        for variant, curve in curves.items():
            name, color, attributes = VARIANTS[variant]
            # A mean is drawn at the last step of its range.
            points = " ".join(f"{self.x(index + SMOOTHING_STEPS):.1f},{y(curve[index]):.1f}" for index in self.point_indices(len(curve)))
            title = f"{name}: {curve[-1]:.5f} at step {self.steps}"
            self.parts.append(f'<polyline points="{points}" fill="none" stroke="{color}"{attributes}><title>{html.escape(title)}</title></polyline>')

    def draw_grid(self, marks, y):
        for mark in marks:
            self.draw_line(self.left, y(mark), self.right, y(mark), "#dddddd")
            self.draw_text(self.left - 5, y(mark) + 4, f"{mark:g}", "end")

    def draw_losses(self):
        max_loss = max(max(curve) for curve in self.curves.values()) * 1.02
        step = axis_step(max_loss)

        def y(loss):
            return TOP + LOSS_HEIGHT * (1 - loss / max_loss)

        self.draw_text(self.left, TOP - 10, f"seed {self.seed}: loss, mean of {SMOOTHING_STEPS} steps", attributes=' font-weight="bold"')
        self.draw_grid([index * step for index in range(int(max_loss / step) + 1)], y)
        self.draw_curves({variant: self.curves[variant] for variant in VARIANTS}, y)

    def draw_distances(self):
        top = TOP + LOSS_HEIGHT + GAP
        max_distance = max(abs(value) for curve in self.distances.values() for value in curve) * 1.05 or 1
        step_size = axis_step(2 * max_distance)

        def y(value):
            return top + DISTANCE_HEIGHT * (1 - value / max_distance) / 2

        self.draw_text(self.left, top - 8, "less that of bf16, unfused")
        count = int(max_distance / step_size)
        self.draw_grid([index * step_size for index in range(-count, count + 1)], y)
        self.draw_curves({variant: self.distances[variant] for variant in VARIANTS if variant in self.distances}, y)
        for step in sorted({1, self.steps // 2, self.steps}):
            self.draw_text(self.x(step), top + DISTANCE_HEIGHT + 18, str(step), "middle")
        self.draw_text((self.left + self.right) / 2, top + DISTANCE_HEIGHT + 34, "step", "middle")

    def render(self):
        self.draw_losses()
        self.draw_distances()
        return self.parts


def render_panels(curves):
    width = WIDTH / len(curves)
    parts = [part for index, (seed, curves_by_variant) in enumerate(curves.items()) for part in Panel(seed, curves_by_variant, index * width, width).render()]
    # The dithered curves have the same style and one entry in the legend.
    legend = [line for variant, line in VARIANTS.items() if variant not in DITHERED[1:]]
    for index, (name, color, attributes) in enumerate(legend):
        x = LEFT + index * 200
        parts.append(f'<line x1="{x}" y1="14" x2="{x + 28}" y2="14" stroke="{color}"{attributes}/>')
        parts.append(f'<text x="{x + 34}" y="18">{html.escape(name.removesuffix(" 1"))}</text>')
    height = TOP + LOSS_HEIGHT + GAP + DISTANCE_HEIGHT + BOTTOM
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">'
    return "\n".join([opening, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def write_page(args):
    lines = [line for path in args.results for line in read_results(path)]
    curves = read_curves(lines, ", ".join(map(str, args.results)))
    check_recorded(curves)
    for seed in (SeedDistances(curves, seed) for seed in curves):
        print(*seed.sentences(), sep="\n")
    picture = args.page.with_suffix(".svg")
    text = update_page(args.page.read_text(encoding="utf-8"), lines, curves, picture.name)
    write_atomically(picture, render_panels(curves))
    write_atomically(args.page, text)


def main():
    run_write_command(__doc__, "output of ternion-bench curves", write_page)


if __name__ == "__main__":
    main()
