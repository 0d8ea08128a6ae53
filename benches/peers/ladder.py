#!/usr/bin/env python3
"""The ladder of matrix products: TFLOP/s of every rung by size, compared with cuBLAS, as tables and
as a picture.

    compare.py run --bundle DIR --families ladder --out ladder.jsonl
        on the GPU machine: measures the rungs, Ternion's product and PyTorch's
    ladder.py write ladder.jsonl.. docs/kernels/gemm-ladder.md
        anywhere: writes the tables between the page's markers, and gemm-ladder.svg next to the page

Both show the same records: medians of all rounds in the files. `write` needs only Python's standard
library.
"""

import functools
import statistics

from charts import OWN, PEER, Panel, Series, drawing, plain
from compare import read_one_run, replace
from pages import about, between_markers, digits, row_of, write_of

MARKERS = START, END = "<!-- ladder:start -->", "<!-- ladder:end -->"
# Implementations that are not rungs: the peer, and Ternion's matmul op.
CUBLAS, TERNION = "cublas", "ternion"
APART = (TERNION, CUBLAS)
# Titles of names whose words are not the title.
TITLES = {
    CUBLAS: "cuBLAS",
    TERNION: "Ternion's product",
    "block_tile_1d": "1D block tile",
    "block_tile_2d": "2D block tile",
    "mma_sync": "mma.sync",
    "wgmma_tma": "wgmma and TMA",
}


class Ladder:
    """The records of one dtype: TFLOP/s by rung and size."""

    def __init__(self, dtype):
        self.dtype, self.rates, self.tiles, self.single = dtype, {}, {}, set()

    def add(self, form, size, ones):
        self.rates.setdefault(form, {})[size] = statistics.median(one["value"] for one in ones)
        if any(one.get("calls") == 1 for one in ones):
            self.single.add((form, size))
        # Several tiles were measured: the tile of the median round is shown.
        if "tiles" in ones[0]:
            middle = sorted(ones, key=lambda one: one["value"])[len(ones) // 2]
            self.tiles.setdefault(form, {})[size] = middle["tile"]

    def sizes(self):
        return sorted({size for rates in self.rates.values() for size in rates})

    def forms(self):
        """Returns the rungs as they were measured, followed by Ternion's product and cuBLAS."""
        return sorted(self.rates, key=lambda form: APART.index(form) if form in APART else -1)


def measured(lines, family, parts):
    """Returns the measured lines of a family, by the `parts` parts of their names after the family;
    and errors of what could not be measured, by the same parts.
    """
    found, errors = {}, {}
    for line in lines:
        first, *rest = str(line.get("case", "")).split("/")
        if first != family:
            continue
        if len(rest) == parts and "value" in line:
            found.setdefault(tuple(rest), []).append(line)
        else:
            errors[tuple(rest)] = f"{line['case']} {line.get('impl', '')}: {line.get('error', 'no figure')}"
    # An error is reported only if nothing was measured.
    return found, [error for case, error in errors.items() if case not in found]


def ladders(lines):
    """Returns the ladders of the records, and what could not be measured."""
    found, errors = measured(lines, "ladder", 3)
    made = {}
    for (dtype, form, size), ones in found.items():
        made.setdefault(dtype, Ladder(dtype)).add(form, int(size), ones)
    return list(made.values()), errors


def title(form):
    return TITLES.get(form, form.replace("_", " "))


def table(ladder):
    """Returns a row for each rung, a column for each size, and the fraction of cuBLAS at the
    largest size.
    """
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
    """Returns which of the tried tiles was the fastest at each size."""
    lines = []
    for form, tiles in ladder.tiles.items():
        lines += [f"Fastest tile of the {title(form)}:", "", row_of(["size", "tile", "TFLOP/s"]), row_of(["---:", "---", "---:"])]
        lines += [row_of([str(size), tiles[size], digits(ladder.rates[form][size])]) for size in sorted(tiles)]
        lines.append("")
    return lines


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
    """Returns the page with the tables between its markers."""
    return between_markers(text, MARKERS, "\n".join(body(lines, picture)))


# ---------------------------------------------------------------- the picture


def series_of(ladder):
    """Returns a line for each rung: its TFLOP/s by size."""
    forms = ladder.forms()
    count = sum(form not in APART for form in forms)
    drawn = {CUBLAS: PEER, TERNION: OWN}
    found = []
    for number, form in enumerate(forms):
        rates = ladder.rates[form]
        values = ", ".join(f"{digits(rate)} at {size}" for size, rate in sorted(rates.items()))
        found.append(Series(title(form), rates, values, *drawn.get(form, plain(number, count))))
    return found


def panel(ladder, top):
    return Panel(f"{ladder.dtype}, TFLOP/s of products of n x n x n", "n", series_of(ladder), top)


def write(given):
    lines = read_one_run(given.results)
    made, _ = ladders(lines)
    if not made:
        raise SystemExit(f"error: {', '.join(map(str, given.results))}: no measured case of the ladder")
    picture = given.page.with_suffix(".svg")
    text = page(given.page.read_text(encoding="utf-8"), lines, picture.name)
    replace(picture, drawing([functools.partial(panel, ladder) for ladder in made]))
    replace(given.page, text)


def main():
    write_of(__doc__, "what compare.py run measured", write)


if __name__ == "__main__":
    main()
