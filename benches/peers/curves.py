#!/usr/bin/env python3
"""Loss curves of a GPT in bf16: fused compared with unfused, recorded with op by op, and the noise
of both.

    ternion-bench curves > curves.jsonl
        on the GPU machine: trains in every way, for each seed
    curves.py write curves.jsonl.. docs/profiles/gpt-curves.md
        anywhere: writes the table between the page's markers, and gpt-curves.svg next to the page

The losses of recorded steps must be bit-identical to those of steps op by op: otherwise nothing is
written. For each seed the script prints, and the page states, whether fused and unfused differ more
than bf16 and f32, and more than any two of these and of bf16 with dithered weights. Only Python's
standard library is needed.
"""

import html
import itertools
import math

from charts import step_of
from compare import read_results, replace
from pages import between_markers, provenance, row_of, write_of

MARKERS = START, END = "<!-- curves:start -->", "<!-- curves:end -->"

EAGER, RECORDED, UNFUSED, EXACT = "bf16/eager", "bf16/recorded", "bf16/unfused", "f32/unfused"
DITHERED = tuple(f"bf16/dithered_{number}" for number in (1, 2, 3))
# Unfused training runs, which differ only by rounding.
NOISE = (UNFUSED, EXACT, *DITHERED)
# Way -> its name on the page, its color and its stroke; in the order in which they are drawn.
WAYS = {
    **{way: (f"bf16, unfused, dithered {number}", "#999999", ' stroke-width="1"') for number, way in enumerate(DITHERED, 1)},
    EXACT: ("f32, unfused", "#2e8b57", ' stroke-width="3" opacity="0.5"'),
    UNFUSED: ("bf16, unfused", "#e07b00", ' stroke-width="1.6"'),
    EAGER: ("bf16, fused", "#1f5fa8", ' stroke-width="1.6" stroke-dasharray="6 4"'),
    RECORDED: ("bf16, fused, recorded", "#c0392b", ' stroke-width="1.6" stroke-dasharray="2 5"'),
}
# The number of steps whose mean is a point of a smoothed curve.
SPAN = 20


def curves_of(lines, source):
    """Returns the losses by seed and way. Every curve must exist, from the first step to the same
    last one.
    """
    found, models = {}, set()
    for line in lines:
        if "run" in line:
            continue
        try:
            seed, way, step, loss = line["seed"], line["way"], line["step"], float(line["loss"])
            models.add(line["model"])
        except (KeyError, TypeError, ValueError) as error:
            raise SystemExit(f"error: {source}: expected model, seed, way, step and a number as loss, got {str(line)[:120]}") from error
        steps = found.setdefault(seed, {}).setdefault(way, {})
        if step in steps:
            raise SystemExit(f"error: {source}: seed {seed}, {way}: step {step} occurs twice")
        steps[step] = loss
    if len(models) != 1:
        raise SystemExit(f"error: {source}: expected curves of one model, got {', '.join(sorted(models)) or 'none'}")
    longest = max(max(steps) for ways in found.values() for steps in ways.values())
    for seed, way in itertools.product(found, WAYS):
        steps = found[seed].get(way, {})
        if sorted(steps) != list(range(1, longest + 1)):
            raise SystemExit(f"error: {source}: seed {seed}, {way}: {len(steps)} of {longest} steps")
    if longest < SPAN:
        raise SystemExit(f"error: {source}: {longest} steps, expected at least {SPAN}")
    return {seed: {way: [ways[way][step] for step in range(1, longest + 1)] for way in WAYS} for seed, ways in sorted(found.items())}


def check_recorded(curves):
    """Checks that the recorded steps are bit-identical to those op by op. A NaN loss equals no
    other.
    """
    for seed, ways in curves.items():
        for step, (one, other) in enumerate(zip(ways[EAGER], ways[RECORDED]), 1):
            if one != other:
                raise SystemExit(f"error: seed {seed}, step {step}: loss {one!r} op by op and {other!r} recorded")


def smoothed(losses):
    """Returns the mean of every SPAN consecutive steps."""
    return [math.fsum(losses[at : at + SPAN]) / SPAN for at in range(len(losses) - SPAN + 1)]


class Distance:
    """The distance between smoothed curves."""

    def __init__(self, pairs):
        apart = [abs(one - other) for left, right in pairs for one, other in zip(smoothed(left), smoothed(right))]
        self.largest, self.mean = max(apart, default=math.nan), math.fsum(apart) / len(apart) if apart else math.nan

    def cells(self):
        return ["" if math.isnan(value) else f"{value:.5f}" for value in (self.largest, self.mean)]


class Noise(Distance):
    """The distance between the two unfused training runs that differ most, in the largest distance
    and in the mean.
    """

    def __init__(self, ways):
        apart = [Distance([(ways[one], ways[other])]) for one, other in itertools.combinations(NOISE, 2)]
        self.largest, self.mean = max(one.largest for one in apart), max(one.mean for one in apart)


class Seed:
    """The distances of a seed: between fused and unfused, and the noise."""

    def __init__(self, curves, seed):
        ways = curves[seed]
        others = [curves[other][UNFUSED] for other in curves if other != seed]
        self.seed, self.last = seed, {way: smoothed(losses)[-1] for way, losses in ways.items()}
        self.fused = Distance([(ways[EAGER], ways[UNFUSED])])
        self.exact = Distance([(ways[UNFUSED], ways[EXACT])])
        self.noise = Noise(ways)
        self.seeds = Distance([(ways[UNFUSED], other) for other in others])

    def share(self):
        """Returns the mean distance of fused from unfused divided by that of bf16 from f32."""
        return f"{self.fused.mean / self.exact.mean:.2f}" if self.exact.mean else ""

    def beyond(self, bound):
        """Returns where fused and unfused differ more than a bound: which distance, its value and
        that of the bound. A NaN distance counts as more.
        """
        figures = (("largest", self.fused.largest, bound.largest), ("mean", self.fused.mean, bound.mean))
        return [(figure, fused, other) for figure, fused, other in figures if not fused <= other]

    def sentences(self):
        """Yields the verdicts, with their figures if they exceed the bound."""
        for name, _, bound_of in BOUNDS:
            shortfall = self.shortfall(bound_of(self))
            yield f"seed {self.seed}: fused and unfused are {f'further apart than {name}: {shortfall}' if shortfall else f'no further apart than {name}'}"

    def verdict(self, bound):
        """Returns whether they are within a bound, for a cell of the table."""
        beyond = self.beyond(bound)
        return f"**no**: {', '.join(figure for figure, _, _ in beyond)}" if beyond else "yes"

    def shortfall(self, bound):
        """Returns what exceeds the bound, with its figures and the bound's."""
        return " and ".join(f"{figure} {fused:.5f}, compared with {other:.5f}" for figure, fused, other in self.beyond(bound))


# The bounds for fused and unfused: the name in a sentence, the head of a column, and the distance
# of a seed.
BOUNDS = [
    ("bf16 and f32", "bf16 from f32", lambda seed: seed.exact),
    ("dithered training runs", "dithered", lambda seed: seed.noise),
]


def about(lines):
    """Returns a sentence for each training run in the files, and the device, driver, commit and
    date of each run.
    """
    found, runs = [], []
    for line in lines:
        if run := line.get("run"):
            sizes = f"{run.get('layers')} layers of width {run.get('width')}, context {run.get('context')}, {run.get('vocabulary')} tokens"
            text = f"`{run.get('model')}` ({sizes}) on {run.get('device')}: batches of {run.get('batch')} windows from {run.get('text_bytes')} bytes of text, AdamW at {run.get('lr')}."
            found += [text] if text not in found else []
            runs += [text for text in provenance(run) if text not in runs]
    return found + runs


def table(curves):
    """Returns the distances of smoothed curves: a row for each seed, the largest and the mean of
    each.
    """
    heads = [f"{name}, {figure}" for name in ("fused from unfused", *(head for _, head, _ in BOUNDS), "seed from seed") for figure in ("largest", "mean")]
    within = [f"within {head}" for _, head, _ in BOUNDS]
    lines = [row_of(["seed", *heads, "fused / bf16, mean", *within]), row_of(["---", *["---:"] * (len(heads) + 1), *["---"] * len(within)])]
    for seed in (Seed(curves, seed) for seed in curves):
        bounds = [bound_of(seed) for _, _, bound_of in BOUNDS]
        distances = [seed.fused, *bounds, seed.seeds]
        lines.append(row_of([str(seed.seed), *(cell for one in distances for cell in one.cells()), seed.share(), *map(seed.verdict, bounds)]))
    return lines


def statement(curves, name, bound_of):
    """Returns for which seeds fused and unfused do not differ more than a bound."""
    seeds = [Seed(curves, seed) for seed in curves]
    shortfalls = {seed.seed: seed.shortfall(bound_of(seed)) for seed in seeds}
    within = [str(seed) for seed, shortfall in shortfalls.items() if not shortfall]
    beyond = [f"{seed} ({shortfall})" for seed, shortfall in shortfalls.items() if shortfall]
    text = f"Fused and unfused are no further apart than {name}, in the largest distance and in the mean, for {len(within)} of {len(seeds)} seeds"
    text += f": {', '.join(within)}." if within else "."
    return text + (f" They are further apart for {'; '.join(beyond)}." if beyond else "")


def losses_table(curves):
    """Returns a table of the losses at the end."""
    ways = [*(way for way in WAYS if way not in DITHERED), *DITHERED]
    lines = [row_of([f"seed, mean loss of the last {SPAN} steps", *(WAYS[way][0] for way in ways)]), row_of(["---", *["---:"] * len(ways)])]
    for seed in (Seed(curves, seed) for seed in curves):
        lines.append(row_of([str(seed.seed), *(f"{seed.last[way]:.5f}" for way in ways)]))
    return lines


def body(lines, curves, picture):
    steps = len(next(iter(curves.values()))[EAGER])
    equal = f"Of {len(curves)} x {steps} steps the losses of the recorded ones equal those op by op in every bit."
    return [*about(lines), "", f"![Losses of every way by step]({picture})", "", equal, *(statement(curves, name, bound_of) for name, _, bound_of in BOUNDS), "", *table(curves), "", *losses_table(curves), ""]


def page(text, lines, curves, picture):
    """Returns the page with the tables between its markers."""
    return between_markers(text, MARKERS, "\n".join(body(lines, curves, picture)))


# ---------------------------------------------------------------- the picture

WIDTH, LEFT, RIGHT, TOP = 1200, 46, 14, 46
LOSSES, GAP, APART, BOTTOM = 250, 34, 110, 44
# One of this many points of a smoothed curve is drawn.
EVERY = 5


class Panel:
    """A seed: losses by step, and below them their distances from bf16, unfused, on a separate
    scale.
    """

    def __init__(self, seed, ways, left, width):
        self.seed, self.left, self.right, self.parts = seed, left + LEFT, left + width - RIGHT, []
        self.curves = {way: smoothed(losses) for way, losses in ways.items()}
        self.steps = len(ways[EAGER])
        self.apart = {way: [one - other for one, other in zip(curve, self.curves[UNFUSED])] for way, curve in self.curves.items() if way != UNFUSED}

    def text(self, x, y, words, anchor="start", more=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{html.escape(words)}</text>')

    def line(self, x1, y1, x2, y2, stroke):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"/>')

    def x(self, step):
        return self.left + (step - 1) / max(self.steps - 1, 1) * (self.right - self.left)

    def drawn_at(self, count):
        """Returns the indices of the drawn points, including the last one."""
        return sorted({*range(0, count, EVERY), count - 1})

    def plot(self, curves, y):
        for way, curve in curves.items():
            name, color, more = WAYS[way]
            # A mean is drawn at the last of its steps.
            points = " ".join(f"{self.x(at + SPAN):.1f},{y(curve[at]):.1f}" for at in self.drawn_at(len(curve)))
            title = f"{name}: {curve[-1]:.5f} at step {self.steps}"
            self.parts.append(f'<polyline points="{points}" fill="none" stroke="{color}"{more}><title>{html.escape(title)}</title></polyline>')

    def grid(self, marks, y):
        for mark in marks:
            self.line(self.left, y(mark), self.right, y(mark), "#dddddd")
            self.text(self.left - 5, y(mark) + 4, f"{mark:g}", "end")

    def losses(self):
        most = max(max(curve) for curve in self.curves.values()) * 1.02
        step = step_of(most)

        def y(loss):
            return TOP + LOSSES * (1 - loss / most)

        self.text(self.left, TOP - 10, f"seed {self.seed}: loss, mean of {SPAN} steps", more=' font-weight="bold"')
        self.grid([number * step for number in range(int(most / step) + 1)], y)
        self.plot({way: self.curves[way] for way in WAYS}, y)

    def distances(self):
        top = TOP + LOSSES + GAP
        most = max(abs(value) for curve in self.apart.values() for value in curve) * 1.05 or 1
        mark = step_of(2 * most)

        def y(value):
            return top + APART * (1 - value / most) / 2

        self.text(self.left, top - 8, "less that of bf16, unfused")
        count = int(most / mark)
        self.grid([number * mark for number in range(-count, count + 1)], y)
        self.plot({way: self.apart[way] for way in WAYS if way in self.apart}, y)
        for step in sorted({1, self.steps // 2, self.steps}):
            self.text(self.x(step), top + APART + 18, str(step), "middle")
        self.text((self.left + self.right) / 2, top + APART + 34, "step", "middle")

    def drawn(self):
        self.losses()
        self.distances()
        return self.parts


def drawing(curves):
    width = WIDTH / len(curves)
    parts = [part for at, (seed, ways) in enumerate(curves.items()) for part in Panel(seed, ways, at * width, width).drawn()]
    # The dithered curves have the same style, and are named once.
    names = [line for way, line in WAYS.items() if way not in DITHERED[1:]]
    for at, (name, color, more) in enumerate(names):
        x = LEFT + at * 200
        parts.append(f'<line x1="{x}" y1="14" x2="{x + 28}" y2="14" stroke="{color}"{more}/>')
        parts.append(f'<text x="{x + 34}" y="18">{html.escape(name.removesuffix(" 1"))}</text>')
    height = TOP + LOSSES + GAP + APART + BOTTOM
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def write(given):
    lines = [line for path in given.results for line in read_results(path)]
    curves = curves_of(lines, ", ".join(map(str, given.results)))
    check_recorded(curves)
    for seed in (Seed(curves, seed) for seed in curves):
        print(*seed.sentences(), sep="\n")
    picture = given.page.with_suffix(".svg")
    text = page(given.page.read_text(encoding="utf-8"), lines, curves, picture.name)
    replace(picture, drawing(curves))
    replace(given.page, text)


def main():
    write_of(__doc__, "what ternion-bench curves printed", write)


if __name__ == "__main__":
    main()
