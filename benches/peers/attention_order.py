#!/usr/bin/env python3
"""What the fixed order of sums costs the gradient of attention: the form that tensors get, beside one that adds in any order, and PyTorch.

    compare.py run --bundle DIR --families order --out order.jsonl     on the GPU machine: measures the forms and PyTorch in turn
    attention_order.py write order.jsonl.. docs/kernels/attention.md     anywhere: the table between the page's markers

Milliseconds are medians of all rounds and turns in the files. `write` needs only Python's standard library.
"""

import statistics

from compare import read_results, refuse_mixed, replace
from ladder import about, row_of
from pages import between_markers, write_of

MARKERS = START, END = "<!-- order:start -->", "<!-- order:end -->"
FIXED, ANY = "ternion", "ternion/unordered"
PEERS = {"torch/cudnn": "cuDNN", "torch/flash": "flash"}


def medians(lines):
    """Case -> implementation -> milliseconds; and of any order those of its two ways, to add dq of a tile at once and a tile later."""
    found = {}
    for line in lines:
        if str(line.get("case", "")).startswith("order/") and "ms" in line:
            found.setdefault(line["case"], {}).setdefault(line["impl"], []).append(line)
    return {
        case: {impl: {key: statistics.median(one[key] for one in ones) for key in ones[0] if key.endswith("ms")} for impl, ones in of_case.items()}
        for case, of_case in found.items()
    }


def milliseconds(times):
    return f"{times['ms']:.3f}" if times else "-"


def price(of_case):
    """How much longer the fixed order takes than any, in per cent."""
    if not {FIXED, ANY} <= set(of_case):
        return "-"
    return f"{100 * (of_case[FIXED]['ms'] / of_case[ANY]['ms'] - 1):+.1f} %"


def table(found):
    heads = ["case", "fixed order, ms", "any order, ms", "price", "any, at once", "any, a tile later", *(f"{name}, ms" for name in PEERS.values())]
    lines = [row_of(heads), row_of(["---", *["---:"] * (len(heads) - 1)])]
    for case, of_case in found.items():
        ways = [f"{of_case[ANY][key]:.3f}" if ANY in of_case else "-" for key in ("at_once_ms", "lagging_ms")]
        peers = [milliseconds(of_case.get(peer)) for peer in PEERS]
        cells = [milliseconds(of_case.get(FIXED)), milliseconds(of_case.get(ANY)), price(of_case), *ways, *peers]
        lines.append(row_of([f"`{case.removeprefix('order/')}`", *cells]))
    return lines


def body(lines):
    found = medians(lines)
    errors = {(line["case"], line.get("impl")): line["error"] for line in lines if "error" in line and str(line.get("case", "")).startswith("order/")}
    missing = [f"- {case} {impl}: {error}".replace("\n", " ") for (case, impl), error in errors.items() if impl not in found.get(case, {})]
    return "\n".join([about(lines), "", *table(found), "", *missing, *([""] if missing else [])])


def page(text, lines):
    """The page with the table instead of what is between its markers."""
    return between_markers(text, MARKERS, body(lines))


def write(given):
    lines = [line for path in given.results for line in read_results(path)]
    headers = [line["run"] for line in lines if "run" in line]
    for header in headers[1:]:
        refuse_mixed(headers[0], header)
    if not medians(lines):
        raise SystemExit(f"error: {', '.join(map(str, given.results))}: no measured case of the order")
    replace(given.page, page(given.page.read_text(encoding="utf-8"), lines))


def main():
    write_of(__doc__, "what compare.py run measured", write)


if __name__ == "__main__":
    main()
