#!/usr/bin/env python3
"""The ladder of matrix products: tables and a plot of the TFLOP/s of each rung by size, compared
with cuBLAS.

    compare.py run --bundle DIR --families ladder --out ladder.jsonl
        on the GPU machine: measures the rungs, Ternion's product and PyTorch's
    ladder.py write ladder.jsonl.. docs/kernels/gemm-ladder.md
        on any machine: writes the tables between the page's markers, and gemm-ladder.svg

Values are medians over all rounds in the files. `write` needs only Python's standard library.
"""

import functools
import statistics

from charts import BASELINE_STYLE, SERIES_STYLE, Panel, Series, render_panels, series_style
from compare import read_single_run, write_atomically
from pages import format_digits, format_row, replace_between_markers, run_sentence, run_write_command

MARKERS = START, END = "<!-- ladder:start -->", "<!-- ladder:end -->"
# Implementations that are not rungs: the baseline, and Ternion's matmul op.
CUBLAS, TERNION = "cublas", "ternion"
REFERENCES = (TERNION, CUBLAS)
# Titles that are not the name with spaces.
TITLES = {
    CUBLAS: "cuBLAS",
    TERNION: "Ternion's product",
    "block_tile_1d": "1D block tile",
    "block_tile_2d": "2D block tile",
    "mma_sync": "mma.sync",
    "wgmma_tma": "wgmma and TMA",
}


class Ladder:
    """The results of one dtype: TFLOP/s by rung and size."""

    def __init__(self, dtype):
        self.dtype, self.rates, self.tiles, self.single_calls = dtype, {}, {}, set()

    def add(self, rung, size, lines):
        self.rates.setdefault(rung, {})[size] = statistics.median(line["value"] for line in lines)
        if any(line.get("calls") == 1 for line in lines):
            self.single_calls.add((rung, size))
        # If several tiles were measured, the fastest tile of the median round is reported.
        if "tiles" in lines[0]:
            median_line = sorted(lines, key=lambda line: line["value"])[len(lines) // 2]
            self.tiles.setdefault(rung, {})[size] = median_line["tile"]

    def sizes(self):
        return sorted({size for rates in self.rates.values() for size in rates})

    def rungs(self):
        """Returns the rungs in the order of measurement, followed by the references."""
        return sorted(self.rates, key=lambda rung: REFERENCES.index(rung) if rung in REFERENCES else -1)


def group_lines(lines, family, part_count):
    """Groups the lines of a family by the parts of the case's name after the family. Returns the
    groups of cases with `part_count` parts, and the errors of cases without any measurement.
    """
    lines_by_case, errors = {}, {}
    for line in lines:
        line_family, *parts = str(line.get("case", "")).split("/")
        if line_family != family:
            continue
        if len(parts) == part_count and "value" in line:
            lines_by_case.setdefault(tuple(parts), []).append(line)
        else:
            errors[tuple(parts)] = f"{line['case']} {line.get('impl', '')}: {line.get('error', 'no figure')}"
    return lines_by_case, [error for case, error in errors.items() if case not in lines_by_case]


def build_ladders(lines):
    """Returns the ladders of a results file, and the errors."""
    lines_by_case, errors = group_lines(lines, "ladder", 3)
    ladders = {}
    for (dtype, rung, size), group in lines_by_case.items():
        ladders.setdefault(dtype, Ladder(dtype)).add(rung, int(size), group)
    return list(ladders.values()), errors


def format_title(rung):
    return TITLES.get(rung, rung.replace("_", " "))


def rate_table(ladder):
    """Returns a table with a row for each rung, a column for each size, and the percentage of
    cuBLAS at the largest size.
    """
    sizes = ladder.sizes()
    cublas_rate = ladder.rates.get(CUBLAS, {}).get(sizes[-1])
    lines = [format_row([f"{ladder.dtype}, TFLOP/s", *map(str, sizes), f"of cuBLAS at {sizes[-1]}"]), format_row(["---", *["---:"] * (len(sizes) + 1)])]
    for rung in ladder.rungs():
        rates = ladder.rates[rung]
        cells = [format_digits(rates[size]) + ("*" if (rung, size) in ladder.single_calls else "") if size in rates else "" for size in sizes]
        fraction = f"{100 * rates[sizes[-1]] / cublas_rate:.1f} %" if cublas_rate and sizes[-1] in rates else ""
        lines.append(format_row([format_title(rung), *cells, fraction]))
    return [*lines, ""]


def tiles_table(ladder):
    """Returns tables of the fastest tile at each size."""
    lines = []
    for rung, tiles in ladder.tiles.items():
        lines += [f"Fastest tile of the {format_title(rung)}:", "", format_row(["size", "tile", "TFLOP/s"]), format_row(["---:", "---", "---:"])]
        lines += [format_row([str(size), tiles[size], format_digits(ladder.rates[rung][size])]) for size in sorted(tiles)]
        lines.append("")
    return lines


def render(lines, picture_name):
    ladders, errors = build_ladders(lines)
    text = [run_sentence(lines), "", f"![TFLOP/s of every form by size]({picture_name})", ""]
    for ladder in ladders:
        text += rate_table(ladder)
    if any(ladder.single_calls for ladder in ladders):
        text += ["\\* one call, which took longer than 100 ms; all others are medians.", ""]
    for ladder in ladders:
        text += tiles_table(ladder)
    return [*text, *[f"- {error}".replace("\n", " ") for error in errors], *([""] if errors else [])]


def update_page(text, lines, picture_name):
    """Returns the page with the tables between its markers."""
    return replace_between_markers(text, MARKERS, "\n".join(render(lines, picture_name)))


# ---------------------------------------------------------------- the plot


def rung_series(ladder):
    """Returns a series for each rung: TFLOP/s by size."""
    rungs = ladder.rungs()
    rung_count = sum(rung not in REFERENCES for rung in rungs)
    styles = {CUBLAS: BASELINE_STYLE, TERNION: SERIES_STYLE}
    series = []
    for index, rung in enumerate(rungs):
        rates = ladder.rates[rung]
        values = ", ".join(f"{format_digits(rate)} at {size}" for size, rate in sorted(rates.items()))
        series.append(Series(format_title(rung), rates, values, *styles.get(rung, series_style(index, rung_count))))
    return series


def render_panel(ladder, top):
    return Panel(f"{ladder.dtype}, TFLOP/s of products of n x n x n", "n", rung_series(ladder), top)


def write_page(args):
    lines = read_single_run(args.results)
    ladders, _ = build_ladders(lines)
    if not ladders:
        raise SystemExit(f"error: {', '.join(map(str, args.results))}: no measured case of the ladder")
    picture = args.page.with_suffix(".svg")
    text = update_page(args.page.read_text(encoding="utf-8"), lines, picture.name)
    write_atomically(picture, render_panels([functools.partial(render_panel, ladder) for ladder in ladders]))
    write_atomically(args.page, text)


def main():
    run_write_command(__doc__, "results of compare.py run", write_page)


if __name__ == "__main__":
    main()
