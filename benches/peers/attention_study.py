#!/usr/bin/env python3
"""Compares variants of the attention kernels with each other and with PyTorch: forward tiles for
few and for many keys, the cost of a fixed order of sums in the gradient, and f32 products by FMA,
as bf16x6 and in TF32.

    compare.py run --bundle DIR --families attention_study --out study.jsonl
        on the GPU machine: measures the variants and PyTorch alternately
    attention_study.py write study.jsonl.. docs/kernels/attention.md
        on any machine: writes the tables between the page's markers

A table without results in the files is not changed. Milliseconds are medians over all rounds and
turns in the files. `write` needs only Python's standard library.
"""

import dataclasses
import statistics
from collections.abc import Callable

from compare import read_single_run, write_atomically
from pages import format_row, replace_between_markers, run_sentence, run_write_command

TERNION = "ternion"
UNORDERED = "ternion/unordered"
BASELINES = {"torch/cudnn": "cuDNN", "torch/flash": "flash"}


def medians(lines, prefix):
    """Returns case without the prefix -> impl -> key that ends in `ms` -> median milliseconds."""
    lines_by_case = {}
    for line in lines:
        case = str(line.get("case", ""))
        if case.startswith(prefix) and "ms" in line:
            lines_by_case.setdefault(case.removeprefix(prefix), {}).setdefault(line["impl"], []).append(line)
    return {
        case: {impl: {key: statistics.median(line[key] for line in group) for key in group[0] if key.endswith("ms")} for impl, group in times_by_impl.items()}
        for case, times_by_impl in lines_by_case.items()
    }


def format_milliseconds(times, key="ms"):
    return f"{times[key]:.3f}" if times else "-"


def format_increase(time, reference):
    """Formats the increase of a time relative to a reference, in percent."""
    return f"{100 * (time / reference - 1):+.1f} %"


def order_cells(times_by_impl):
    """Returns the cells of a row about the cost of a fixed order. The time for any order is that of
    the faster of two variants, which add dq of a tile immediately or one tile later.
    """
    fixed, unordered = times_by_impl.get(TERNION), times_by_impl.get(UNORDERED)
    increase = format_increase(fixed["ms"], unordered["ms"]) if fixed and unordered else "-"
    return [format_milliseconds(fixed), format_milliseconds(unordered), increase, format_milliseconds(unordered, "at_once_ms"), format_milliseconds(unordered, "lagging_ms")]


def tile_cells(times_by_impl):
    """Returns the cells of a row about forward tiles: both kinds, the op, and the increase of its
    time over the faster kind.
    """
    own = times_by_impl.get(TERNION)
    increase = format_increase(own["ms"], min(own["few_ms"], own["many_ms"])) if own else "-"
    return [format_milliseconds(own, "few_ms"), format_milliseconds(own, "many_ms"), format_milliseconds(own), increase]


def matmul_cells(times_by_impl):
    """Returns the cells of a row about f32 products: each method, the speedup of bf16x6 over FMA,
    and the op.
    """
    own = times_by_impl.get(TERNION)
    methods = [format_milliseconds(own, f"{method}_ms") for method in ("fused", "parts", "tf32")]
    return [*methods, f"{own['fused_ms'] / own['parts_ms']:.2f}" if own else "-", format_milliseconds(own)]


@dataclasses.dataclass
class Table:
    prefix: str  # prefix of the names of its cases
    name: str  # name in its markers
    column_titles: list[str]
    cells: Callable  # returns the cells of a case from its medians by impl
    baselines: dict = dataclasses.field(default_factory=lambda: BASELINES)

    def rows(self, times_by_case):
        column_titles = ["case", *self.column_titles, *(f"{name}, ms" for name in self.baselines.values())]
        lines = [format_row(column_titles), format_row(["---", *["---:"] * (len(column_titles) - 1)])]
        for case, times_by_impl in times_by_case.items():
            baselines = [format_milliseconds(times_by_impl.get(impl)) for impl in self.baselines]
            lines.append(format_row([f"`{case}`", *self.cells(times_by_impl), *baselines]))
        return lines

    def render(self, lines, times_by_case):
        errors = {}
        for line in lines:
            case = str(line.get("case", ""))
            if case.startswith(self.prefix) and "error" in line:
                errors[case, line.get("impl")] = line["error"]
        measured = {(self.prefix + case, impl) for case, times_by_impl in times_by_case.items() for impl in times_by_impl}
        missing = [f"- {case} {impl}: {error}".replace("\n", " ") for (case, impl), error in errors.items() if (case, impl) not in measured]
        return "\n".join([run_sentence(lines), "", *self.rows(times_by_case), "", *missing, *([""] if missing else [])])


TABLES = [
    Table("order/", "order", ["fixed order, ms", "any order, ms", "price", "any, at once", "any, a tile later"], order_cells),
    Table("forward_tiles/", "tiles", ["few-key tiles, ms", "many-key tiles, ms", "Ternion, ms", "vs. faster tiles"], tile_cells),
    Table("f32_products/", "products", ["FMA, ms", "bf16x6, ms", "TF32, ms", "FMA / bf16x6", "Ternion, ms"], matmul_cells, {}),
]


def update_page(text, lines):
    """Returns the page with the tables that have results between their markers."""
    for table in TABLES:
        times_by_case = medians(lines, table.prefix)
        if times_by_case:
            text = replace_between_markers(text, (f"<!-- {table.name}:start -->", f"<!-- {table.name}:end -->"), table.render(lines, times_by_case))
    return text


def write_page(args):
    lines = read_single_run(args.results)
    if not any(medians(lines, table.prefix) for table in TABLES):
        raise SystemExit(f"error: {', '.join(map(str, args.results))}: no measured case of the study")
    write_atomically(args.page, update_page(args.page.read_text(encoding="utf-8"), lines))


def main():
    run_write_command(__doc__, "results of compare.py run", write_page)


if __name__ == "__main__":
    main()
