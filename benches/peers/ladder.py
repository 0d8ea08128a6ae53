#!/usr/bin/env python3
"""The ladder of matrix products: TFLOP/s of every form by size, beside cuBLAS, as tables and as a picture.

    compare.py run --bundle DIR --families ladder --out ladder.jsonl     on the GPU machine: measures the forms, Ternion's product and PyTorch's
    ladder.py write ladder.jsonl.. docs/kernels/gemm-ladder.md           anywhere: the tables between the page's markers, and gemm-ladder.svg beside it

Both are of the same records: medians of all rounds in the files. `write` needs only Python's standard library.
"""

import html
import math
import statistics

from compare import read_results, refuse_mixed, replace
from pages import between_markers, write_of

MARKERS = START, END = "<!-- ladder:start -->", "<!-- ladder:end -->"
# What is not a form: the peer, and the product that tensors get.
CUBLAS, TERNION = "cublas", "ternion"
APART = (TERNION, CUBLAS)
# Where a name's words are not its title.
TITLES = {
    CUBLAS: "cuBLAS",
    TERNION: "Ternion's product",
    "block_tile_1d": "1D block tile",
    "block_tile_2d": "2D block tile",
    "mma_sync": "mma.sync",
    "wgmma_tma": "wgmma and TMA",
}


class Ladder:
    """The records of one dtype: TFLOP/s by form and size."""

    def __init__(self, dtype):
        self.dtype, self.rates, self.tiles, self.single = dtype, {}, {}, set()

    def add(self, form, size, ones):
        self.rates.setdefault(form, {})[size] = statistics.median(one["value"] for one in ones)
        if any(one.get("calls") == 1 for one in ones):
            self.single.add((form, size))
        # Several tiles were measured: that of the median round stands for them.
        if "tiles" in ones[0]:
            middle = sorted(ones, key=lambda one: one["value"])[len(ones) // 2]
            self.tiles.setdefault(form, {})[size] = middle["tile"]

    def sizes(self):
        return sorted({size for rates in self.rates.values() for size in rates})

    def forms(self):
        """As they were measured; Ternion's product and cuBLAS at the end."""
        return sorted(self.rates, key=lambda form: APART.index(form) if form in APART else -1)


def ladders(lines):
    """Those of the records, and what could not be measured."""
    found, errors = {}, {}
    for line in lines:
        parts = str(line.get("case", "")).split("/")
        if parts[0] != "ladder":
            continue
        if len(parts) == 4 and "value" in line:
            found.setdefault(tuple(parts[1:]), []).append(line)
        else:
            errors[tuple(parts[1:])] = f"{line['case']} {line.get('impl', '')}: {line.get('error', 'no figure')}"
    made = {}
    for (dtype, form, size), ones in found.items():
        made.setdefault(dtype, Ladder(dtype)).add(form, int(size), ones)
    # An error stays one only where nothing was measured.
    return list(made.values()), [error for case, error in errors.items() if case not in found]


def title(form):
    return TITLES.get(form, form.replace("_", " "))


def row_of(cells):
    return "| " + " | ".join(cells) + " |"


def digits(value):
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def table(ladder):
    """A row for each form, a column for each size, and what the largest size reaches of cuBLAS."""
    sizes = ladder.sizes()
    largest = ladder.rates.get(CUBLAS, {}).get(sizes[-1])
    lines = [row_of([f"{ladder.dtype}, TFLOP/s", *map(str, sizes), f"of cuBLAS at {sizes[-1]}"]), row_of(["---", *["---:"] * (len(sizes) + 1)])]
    for form in ladder.forms():
        rates = ladder.rates[form]
        cells = [digits(rates[size]) + ("*" if (form, size) in ladder.single else "") if size in rates else "" for size in sizes]
        share = f"{100 * rates[sizes[-1]] / largest:.1f} %" if largest and sizes[-1] in rates else ""
        lines.append(row_of([title(form), *cells, share]))
    return [*lines, ""]


def tiles_table(ladder):
    """Which tile of those that were tried was the fastest at each size."""
    lines = []
    for form, tiles in ladder.tiles.items():
        lines += [f"Fastest tile of the {title(form)}:", "", row_of(["size", "tile", "TFLOP/s"]), row_of(["---:", "---", "---:"])]
        lines += [row_of([str(size), tiles[size], digits(ladder.rates[form][size])]) for size in sorted(tiles)]
        lines.append("")
    return lines


def about(lines):
    """The machine, in a sentence."""
    run = next((line["run"] for line in reversed(lines) if "run" in line), {})
    versions = next((line["versions"] for line in reversed(lines) if "versions" in line), {})
    parts = [run.get("device", "unknown device"), f"driver {run.get('driver', 'unknown')}", f"commit {run.get('commit', 'unknown')}"]
    parts += [f"PyTorch {versions['torch']} with CUDA {versions.get('cuda')}"] if "torch" in versions else []
    return ", ".join([*parts, run.get("date", "unknown date")]) + "."


def body(lines, picture):
    made, errors = ladders(lines)
    text = [about(lines), "", f"![TFLOP/s of every form by size]({picture})", ""]
    for ladder in made:
        text += table(ladder)
    if any(ladder.single for ladder in made):
        text += ["\\* one call, which took longer than 100 ms; all others are medians.", ""]
    for ladder in made:
        text += tiles_table(ladder)
    return [*text, *[f"- {error}".replace("\n", " ") for error in errors], *([""] if errors else [])]


def page(text, lines, picture):
    """The page with the tables instead of what is between its markers."""
    return between_markers(text, MARKERS, "\n".join(body(lines, picture)))


# ---------------------------------------------------------------- the picture

WIDTH, HEIGHT = 900, 460
LEFT, RIGHT, TOP, BOTTOM = 60, 190, 40, 50
# Between labels at the ends of lines.
SPACING = 15
# From the first form to the last one: dark blue, green, orange, red.
SCALE = [(49, 54, 149), (33, 130, 141), (84, 160, 60), (224, 140, 20), (190, 30, 45)]


def color(at, count):
    """Of form number `at` of `count`."""
    if count < 2:
        return "rgb({},{},{})".format(*SCALE[0])
    position = at / (count - 1) * (len(SCALE) - 1)
    index = min(int(position), len(SCALE) - 2)
    part = position - index
    mixed = [round(one + (other - one) * part) for one, other in zip(SCALE[index], SCALE[index + 1])]
    return "rgb({},{},{})".format(*mixed)


def spread(wanted, least, most):
    """Heights of labels that want to be at `wanted`, SPACING apart at least, in the same order."""
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    heights = [0.0] * len(wanted)
    before = least - SPACING
    for at in order:
        before = heights[at] = max(wanted[at], before + SPACING)
    # What ran over the bottom is pushed back up.
    after = most + SPACING
    for at in reversed(order):
        after = heights[at] = min(heights[at], after - SPACING)
    return heights


def step_of(most):
    """Between marks of an axis that ends at `most`: 1, 2 or 5 times a power of ten, four to ten of them."""
    power = 10 ** math.floor(math.log10(most / 4))
    return max(step for step in (power, 2 * power, 5 * power) if step * 4 <= most * 1.0001)


class Panel:
    """The picture of one dtype: sizes along x by their logarithm, TFLOP/s along y, a line for each form with its name at its end."""

    def __init__(self, ladder, top):
        self.ladder, self.top, self.parts = ladder, top, []
        self.sizes = ladder.sizes()
        self.most = max(value for rates in ladder.rates.values() for value in rates.values()) * 1.05

    def x(self, size):
        first, last = math.log2(self.sizes[0]), math.log2(self.sizes[-1])
        share = (math.log2(size) - first) / (last - first) if last > first else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, rate):
        return self.top + HEIGHT - BOTTOM - rate / self.most * (HEIGHT - TOP - BOTTOM)

    def text(self, x, y, words, anchor="start", more=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{html.escape(words)}</text>')

    def line(self, x1, y1, x2, y2, stroke):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"/>')

    def axes(self):
        self.text(LEFT, self.top + 22, f"{self.ladder.dtype}, TFLOP/s of products of n x n x n", more=' font-size="14" font-weight="bold"')
        step = step_of(self.most)
        for number in range(int(self.most / step) + 1):
            y = self.y(number * step)
            self.line(LEFT, y, WIDTH - RIGHT, y, "#dddddd" if number else "#444444")
            self.text(LEFT - 8, y + 4, f"{number * step:g}", "end")
        for size in self.sizes:
            self.line(self.x(size), self.y(0), self.x(size), self.y(0) + 5, "#444444")
            self.text(self.x(size), self.y(0) + 20, str(size), "middle")
        self.text((LEFT + WIDTH - RIGHT) / 2, self.y(0) + 38, "n", "middle")

    def style(self, form, number, count):
        """Stroke and further attributes of a form's line."""
        if form == CUBLAS:
            return "#000000", ' stroke-width="2" stroke-dasharray="7 4"'
        if form == TERNION:
            return "#777777", ' stroke-width="2" stroke-dasharray="2 3"'
        return color(number, count), ' stroke-width="2"'

    def lines(self):
        forms = self.ladder.forms()
        count = sum(form not in APART for form in forms)
        ends, styles = [], []
        for number, form in enumerate(forms):
            rates = sorted(self.ladder.rates[form].items())
            points = [(self.x(size), self.y(rate)) for size, rate in rates]
            stroke, more = self.style(form, number, count)
            values = f"{title(form)}: " + ", ".join(f"{digits(rate)} at {size}" for size, rate in rates)
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            self.parts.append(f'<polyline points="{path}" fill="none" stroke="{stroke}"{more}><title>{html.escape(values)}</title></polyline>')
            self.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{stroke}"/>' for x, y in points]
            ends.append(points[-1])
            styles.append(stroke)
        self.labels(forms, ends, styles)

    def labels(self, forms, ends, styles):
        """The forms' names beside the ends of their lines, drawn apart where those meet."""
        heights = spread([y for _, y in ends], self.top + TOP, self.y(0))
        for form, (x, y), height, stroke in zip(forms, ends, heights, styles):
            self.line(x + 4, y, WIDTH - RIGHT + 18, height, stroke)
            self.text(WIDTH - RIGHT + 22, height + 4, title(form), more=f' fill="{stroke}"')

    def drawn(self):
        self.axes()
        self.lines()
        return self.parts


def drawing(made):
    parts = [part for number, ladder in enumerate(made) for part in Panel(ladder, number * HEIGHT).drawn()]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT * len(made)}" font-family="sans-serif" font-size="12">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def write(given):
    lines = [line for path in given.results for line in read_results(path)]
    headers = [line["run"] for line in lines if "run" in line]
    for header in headers[1:]:
        refuse_mixed(headers[0], header)
    made, _ = ladders(lines)
    if not made:
        raise SystemExit(f"error: {', '.join(map(str, given.results))}: no measured case of the ladder")
    picture = given.page.with_suffix(".svg")
    text = page(given.page.read_text(encoding="utf-8"), lines, picture.name)
    replace(picture, drawing(made))
    replace(given.page, text)


def main():
    write_of(__doc__, "what compare.py run measured", write)


if __name__ == "__main__":
    main()
