#!/usr/bin/env python3
"""Variants of attention's kernels compared with each other and with PyTorch: forward's tiles for
few and for many keys, the cost of a fixed order of sums in the gradient, and f32 products by fused
multiply-adds, as bf16x6 and in TF32.

    compare.py run --bundle DIR --families attention_study --out study.jsonl
        on the GPU machine: measures the variants and PyTorch alternately
    attention_study.py write study.jsonl.. docs/kernels/attention.md
        anywhere: writes the tables between the page's markers

A table whose cases are not among the results is not changed. Milliseconds are medians of all rounds
and turns in the files. `write` needs only Python's standard library.
"""

import dataclasses
import statistics
from collections.abc import Callable

from compare import read_one_run, replace
from pages import about, between_markers, row_of, write_of

OWN = "ternion"
ANY = "ternion/unordered"
PEERS = {"torch/cudnn": "cuDNN", "torch/flash": "flash"}


def medians(lines, prefix):
    """Returns case, without the prefix -> implementation -> milliseconds for each name that ends in
    `ms`.
    """
    found = {}
    for line in lines:
        case = str(line.get("case", ""))
        if case.startswith(prefix) and "ms" in line:
            found.setdefault(case.removeprefix(prefix), {}).setdefault(line["impl"], []).append(line)
    return {
        case: {impl: {key: statistics.median(one[key] for one in ones) for key in ones[0] if key.endswith("ms")} for impl, ones in of_case.items()}
        for case, of_case in found.items()
    }


def milliseconds(times, key="ms"):
    return f"{times[key]:.3f}" if times else "-"


def longer(times, than):
    """Returns how much longer something takes, in percent."""
    return f"{100 * (times / than - 1):+.1f} %"


def of_order(of_case):
    """Returns a row about the cost of the order. Of any order it shows the faster of two variants,
    which add dq of a tile immediately or one tile later.
    """
    fixed, unordered = of_case.get(OWN), of_case.get(ANY)
    price = longer(fixed["ms"], unordered["ms"]) if fixed and unordered else "-"
    return [milliseconds(fixed), milliseconds(unordered), price, milliseconds(unordered, "at_once_ms"), milliseconds(unordered, "lagging_ms")]


def of_tiles(of_case):
    """Returns a row of forward's tiles: both kinds, the op, and how much longer it takes than the
    faster one.
    """
    own = of_case.get(OWN)
    loss = longer(own["ms"], min(own["few_ms"], own["many_ms"])) if own else "-"
    return [milliseconds(own, "few_ms"), milliseconds(own, "many_ms"), milliseconds(own), loss]


def of_products(of_case):
    """Returns a row of the f32 products: each way, the speedup of bf16x6 over fused multiply-adds,
    and the op.
    """
    own = of_case.get(OWN)
    ways = [milliseconds(own, f"{way}_ms") for way in ("fused", "parts", "tf32")]
    return [*ways, f"{own['fused_ms'] / own['parts_ms']:.2f}" if own else "-", milliseconds(own)]


@dataclasses.dataclass
class Table:
    prefix: str  # the prefix of its cases
    name: str  # the name of its markers
    heads: list[str]
    cells: Callable  # the cells for a case's medians
    peers: dict = dataclasses.field(default_factory=lambda: PEERS)

    def rows(self, found):
        heads = ["case", *self.heads, *(f"{name}, ms" for name in self.peers.values())]
        lines = [row_of(heads), row_of(["---", *["---:"] * (len(heads) - 1)])]
        for case, of_case in found.items():
            peers = [milliseconds(of_case.get(peer)) for peer in self.peers]
            lines.append(row_of([f"`{case}`", *self.cells(of_case), *peers]))
        return lines

    def body(self, lines, found):
        errors = {}
        for line in lines:
            case = str(line.get("case", ""))
            if case.startswith(self.prefix) and "error" in line:
                errors[case, line.get("impl")] = line["error"]
        was_measured = {(self.prefix + case, impl) for case, of_case in found.items() for impl in of_case}
        missing = [f"- {case} {impl}: {error}".replace("\n", " ") for (case, impl), error in errors.items() if (case, impl) not in was_measured]
        return "\n".join([about(lines), "", *self.rows(found), "", *missing, *([""] if missing else [])])


TABLES = [
    Table("order/", "order", ["fixed order, ms", "any order, ms", "price", "any, at once", "any, a tile later"], of_order),
    Table("forward_tiles/", "tiles", ["tiles for few, ms", "tiles for many, ms", "tensors, ms", "over the faster"], of_tiles),
    Table("f32_products/", "products", ["fused multiply-adds, ms", "parts, ms", "TF32, ms", "fused over parts", "tensors, ms"], of_products, {}),
]


def page(text, lines):
    """Returns the page with the measured tables between their markers."""
    for table in TABLES:
        found = medians(lines, table.prefix)
        if found:
            text = between_markers(text, (f"<!-- {table.name}:start -->", f"<!-- {table.name}:end -->"), table.body(lines, found))
    return text


def write(given):
    lines = read_one_run(given.results)
    if not any(medians(lines, table.prefix) for table in TABLES):
        raise SystemExit(f"error: {', '.join(map(str, given.results))}: no measured case of the study")
    replace(given.page, page(given.page.read_text(encoding="utf-8"), lines))


def main():
    write_of(__doc__, "what compare.py run measured", write)


if __name__ == "__main__":
    main()
