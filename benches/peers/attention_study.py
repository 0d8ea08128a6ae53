#!/usr/bin/env python3
"""Forms of attention's kernels beside each other and PyTorch: forward's tiles for few and for many keys, what the fixed order of sums costs the gradient, and
products of f32 by fused multiply-adds, by parts of bf16 and in TF32.

    compare.py run --bundle DIR --families attention_study --out study.jsonl     on the GPU machine: measures the forms and PyTorch in turn
    attention_study.py write study.jsonl.. docs/kernels/attention.md               anywhere: the tables between the page's markers

A table whose cases are not among the results stays as it is. Milliseconds are medians of all rounds and turns in the files. `write` needs only Python's
standard library.
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
    """Case, without the prefix -> implementation -> milliseconds under each name that ends in `ms`."""
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
    """How much longer something takes, in per cent."""
    return f"{100 * (times / than - 1):+.1f} %"


def of_order(of_case):
    """A row of the price of the order: of any order the faster one of its two ways, to add dq of a tile at once and a tile later."""
    fixed, unordered = of_case.get(OWN), of_case.get(ANY)
    price = longer(fixed["ms"], unordered["ms"]) if fixed and unordered else "-"
    return [milliseconds(fixed), milliseconds(unordered), price, milliseconds(unordered, "at_once_ms"), milliseconds(unordered, "lagging_ms")]


def of_tiles(of_case):
    """A row of forward's tiles: both, what tensors get, and how much longer that takes than the faster one."""
    own = of_case.get(OWN)
    loss = longer(own["ms"], min(own["few_ms"], own["many_ms"])) if own else "-"
    return [milliseconds(own, "few_ms"), milliseconds(own, "many_ms"), milliseconds(own), loss]


def of_products(of_case):
    """A row of the products of f32: each way, how many times as fast parts are as fused multiply-adds, and what tensors get."""
    own = of_case.get(OWN)
    ways = [milliseconds(own, f"{way}_ms") for way in ("fused", "parts", "tf32")]
    return [*ways, f"{own['fused_ms'] / own['parts_ms']:.2f}" if own else "-", milliseconds(own)]


@dataclasses.dataclass
class Table:
    prefix: str  # of its cases
    name: str  # of its markers
    heads: list[str]
    cells: Callable  # of a case's medians
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
    """The page with the tables that were measured instead of what is between their markers."""
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
