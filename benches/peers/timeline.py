#!/usr/bin/env python3
"""A training step kernel by kernel: Ternion's, as traced by `ternion-bench timeline CASE`, compared
with PyTorch's.

    timeline.py torch train/gpt2_124m/bf16 --mode compile --out torch.tsv
        on the GPU machine: traces PyTorch's step with torch.profiler
    timeline.py convert trace.json --mode torch/compile --out torch.tsv
        the same from a Chrome trace that torch.profiler wrote
    timeline.py write CASE.tsv.. docs/profiles/gpt2-step.md
        anywhere: writes the table between the page's markers, and gpt2-step.svg next to the page

A .tsv has a row for each kernel, copy and fill; a missing page is created. `ternion-bench timeline`
also writes CASE.json, with the device, driver, commit and date: if it exists, they are written to
the page. `write` needs only Python's standard library.
"""

import argparse
import collections
import html
import json
import pathlib
import re

from pages import between_markers, provenance

COLUMNS = ["mode", "index", "start_us", "us", "gap_us", "group", "op", "kernel", "variant", "grid", "block", "shared", "registers", "bytes"]
MARKERS = START, END = "<!-- timeline:start -->", "<!-- timeline:end -->"
MEMORY, GAPS, OTHER = "memset and memcpy", "gaps", "other"

# Group -> its color; in the order of the bar.
COLORS = {
    "products": "#1f5fa8",
    "attention": "#e07b00",
    "convolution and pooling": "#6b4fa0",
    "norm": "#2e8b57",
    "elementwise": "#7ab648",
    "reductions": "#c9a400",
    "casts and copies": "#c0392b",
    "loss": "#a0522d",
    "embedding": "#d87093",
    "optimizer": "#008b8b",
    MEMORY: "#888888",
    OTHER: "#444444",
    GAPS: "#dddddd",
}

# The groups of PyTorch's kernels by what their names contain; the first match counts. A fused
# kernel of torch.compile belongs to the group of its most expensive part.
GROUPS = [
    (MEMORY, r"^Memcpy|^Memset"),
    ("attention", r"flash|fmha|sdpa|attention"),
    ("convolution and pooling", r"conv|wgrad|dgrad|max_pool|avg_pool|implicit"),
    ("products", r"gemm|nvjet|cutlass|xmma|splitk|cublas|_mm_kernel|triton_tem_|triton_mm"),
    ("optimizer", r"adam|multi_tensor|foreach"),
    ("loss", r"nll_loss|log_softmax|cross_entropy|softmax"),
    ("norm", r"layer_norm|LayerNorm|rms_norm|batch_norm|GammaBeta"),
    ("embedding", r"embedding|index_put|indexSelect|gather|scatter"),
    ("elementwise", r"gelu|relu|tanh|dropout"),
    ("reductions", r"reduce|triton_red_|triton_per_|_sum"),
    ("casts and copies", r"copy|_to_copy|CatArray|cat_|transpose|clone"),
    ("elementwise", r"elementwise|triton_poi_|vectorized|FillFunctor"),
]


def torch_group(name):
    return next((group for group, pattern in GROUPS if re.search(pattern, name)), OTHER)


def of_trace(trace, mode):
    """Returns rows of the device's activities in a Chrome trace of torch.profiler."""
    kinds = ("kernel", "gpu_memcpy", "gpu_memset")
    events = sorted((event for event in trace["traceEvents"] if event.get("cat") in kinds), key=lambda event: event["ts"])
    rows, ended = [], None
    for event in events:
        arguments, start, time = event.get("args", {}), float(event["ts"]), float(event["dur"])
        begun = rows and rows[0]["begun"] or start
        gap = max(0.0, start - ended) if ended is not None else 0.0
        ended = max(start + time, ended or start)
        size = {key: "x".join(str(part) for part in arguments.get(key, [0, 0, 0])) for key in ("grid", "block")}
        row = dict(mode=mode, index=len(rows), start_us=start - begun, us=time, gap_us=gap, group=torch_group(event["name"]), op="", kernel=event["name"])
        row.update(variant="", **size, shared=arguments.get("shared memory", 0), registers=arguments.get("registers per thread", 0), bytes=arguments.get("bytes", 0))
        rows.append(dict(row, begun=begun))
    return rows


def write_tsv(path, rows):
    def cell(value):
        return f"{value:.3f}" if isinstance(value, float) else re.sub(r"[\t\n]", " ", str(value))

    lines = ["\t".join(COLUMNS), *("\t".join(cell(row[column]) for column in COLUMNS) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_tsv(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines or lines[0].split("\t") != COLUMNS:
        raise SystemExit(f"error: {path}: expected a first line of the columns {' '.join(COLUMNS)}")
    rows = []
    for number, line in enumerate(lines[1:], 2):
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            raise SystemExit(f"error: {path}:{number}: expected {len(COLUMNS)} cells, got {len(cells)}")
        row = dict(zip(COLUMNS, cells))
        row.update({name: float(row[name]) for name in ("start_us", "us", "gap_us")})
        rows.append(row)
    return rows


def about(tables):
    """Returns the sentences about the runs of those tables that have a JSON file of
    `ternion-bench timeline`, without duplicates.
    """
    found = []
    for path in tables:
        beside = path.with_suffix(".json")
        if not beside.exists():
            continue
        try:
            run = json.loads(beside.read_text(encoding="utf-8"))
        except ValueError as error:
            raise SystemExit(f"error: {beside}: {error}") from error
        # Not a trace of PyTorch's, which may have such a name.
        if isinstance(run, dict) and "modes" in run:
            found += [text for text in provenance(run) if text not in found]
    return found


class Mode:
    """A step in one way, such as ternion/graph."""

    def __init__(self, name, rows):
        self.name, self.rows = name, rows
        self.count, self.time = collections.Counter(), collections.Counter()
        ended = 0.0
        for row in rows:
            start, end = row["start_us"], row["start_us"] + row["us"]
            # Time in which another kernel runs as well counts once, so that the sum of all times is
            # the span.
            row["own_us"] = max(0.0, end - max(start, ended))
            ended = max(ended, end)
            self.time[row["group"]] += row["own_us"]
            self.count[row["group"]] += 1
            if row["gap_us"] > 0:
                self.time[GAPS] += row["gap_us"]
                self.count[GAPS] += 1
        self.span = ended

    def kernels(self):
        """Returns the kernels of the same group, op, name and variant: their time, their count and
        sizes, the longest first.
        """
        found = {}
        for row in self.rows:
            key = tuple(row[name] for name in ("group", "op", "kernel", "variant"))
            time, count, grids = found.get(key, (0.0, 0, set()))
            found[key] = (time + row["own_us"], count + 1, grids | {row["grid"]})
        return sorted(found.items(), key=lambda item: -item[1][0])


def modes_of(rows):
    by_mode = {}
    for row in rows:
        by_mode.setdefault(row["mode"], []).append(row)
    return [Mode(name, rows) for name, rows in by_mode.items()]


def row_of(cells):
    return "| " + " | ".join(cells) + " |"


def groups_table(modes):
    """Returns the milliseconds of each group in each way, sorted by those of the last of Ternion's
    ways.
    """
    ours = [mode for mode in modes if mode.name.startswith("ternion")] or modes
    names = sorted({group for mode in modes for group in mode.time}, key=lambda group: (-ours[-1].time[group], group))
    lines = [row_of(["group", *(f"{mode.name}, ms" for mode in modes), f"fraction of {ours[-1].name}", "kernels"])]
    lines.append(row_of(["---", *["---:"] * (len(modes) + 2)]))

    def counts(group):
        return " / ".join(str(mode.count[group]) for mode in modes)

    for group in names:
        times = [f"{mode.time[group] / 1e3:.3f}" if group in mode.time else "" for mode in modes]
        lines.append(row_of([group, *times, f"{100 * ours[-1].time[group] / (ours[-1].span or 1):.1f} %", counts(group)]))
    total = [f"**{mode.span / 1e3:.3f}**" for mode in modes]
    return [*lines, row_of(["**all**", *total, "100 %", " / ".join(str(len(mode.rows)) for mode in modes)])]


def kernels_table(mode):
    lines = [f"### {mode.name}, by kernel", "", row_of(["group", "op", "kernel", "variant", "launches", "grids", "ms", "share"]), "|---|---|---|---|---:|---|---:|---:|"]
    for (group, op, kernel, variant), (time, count, grids) in mode.kernels():
        several = sorted(grids)
        details = ", ".join(several[:2]) + (f", {len(several) - 2} more" if len(several) > 2 else "")
        name = kernel if len(kernel) <= 80 else kernel[:77] + "..."
        share = f"{100 * time / (mode.span or 1):.2f} %"
        cells = [group, op, f"`{name}`", variant, str(count), details, f"{time / 1e3:.3f}", share]
        lines.append(row_of([cell.replace("|", "/") for cell in cells]))
    gaps = mode.time[GAPS]
    lines.append(row_of([GAPS, "", "", "", str(mode.count[GAPS]), "", f"{gaps / 1e3:.3f}", f"{100 * gaps / (mode.span or 1):.2f} %"]))
    return [*lines, ""]


def body(modes, picture, runs=()):
    lines = [*(line for text in runs for line in (text, "")), f"![Where the time goes]({picture})", "", *groups_table(modes), ""]
    return "\n".join([*lines, *(line for mode in modes for line in kernels_table(mode))])


def page(text, modes, picture, runs=()):
    """Returns the page with the tables, below the sentences about runs, between its markers."""
    return between_markers(text, MARKERS, body(modes, picture, runs))


WIDTH, LEFT, BAR, LANE = 1200, 130, 26, 13


def drawing(modes):
    """Returns a stacked bar of the groups for each way, and below it lanes over time, one for each
    group; all on one scale.
    """
    longest = max((mode.span for mode in modes), default=0) or 1
    groups = [group for group in COLORS if any(mode.time[group] for mode in modes)]
    groups += sorted({group for mode in modes for group in mode.time} - set(COLORS))
    scale, parts, top = (WIDTH - LEFT - 90) / longest, [], 12

    def rectangle(x, y, width, height, group, title):
        color = COLORS.get(group, COLORS[OTHER])
        parts.append(
            f'<rect x="{LEFT + x * scale:.2f}" y="{y:.1f}" width="{max(width * scale, 0.15):.2f}" height="{height}" fill="{color}">'
            f"<title>{html.escape(title)}</title></rect>"
        )

    def text(x, y, words, anchor="start"):
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>')

    for mode in modes:
        text(LEFT - 6, top + 17, mode.name, "end")
        x = 0.0
        for group in groups:
            if time := mode.time[group]:
                rectangle(x, top, time, BAR, group, f"{group}: {time / 1e3:.3f} ms")
                x += time
        text(LEFT + x * scale + 6, top + 17, f"{mode.span / 1e3:.2f} ms")
        top += BAR + 8
    top += 10
    for mode in modes:
        text(LEFT, top, f"{mode.name}, over time")
        top += 4
        lanes = [group for group in groups if mode.time[group] and group != GAPS]
        for at, group in enumerate(lanes):
            text(LEFT - 6, top + at * LANE + 10, group, "end")
        for row in mode.rows:
            details = " ".join(part for part in (row["op"], row["kernel"], row["variant"], f"{row['us']:.1f} us") if part)
            rectangle(row["start_us"], top + lanes.index(row["group"]) * LANE, row["us"], LANE - 1, row["group"], details) if row["group"] in lanes else None
        top += len(lanes) * LANE + 22
    for at, group in enumerate(groups):
        x, y = LEFT + at % 6 * 170, top + at // 6 * 16
        parts.append(f'<rect x="{x}" y="{y}" width="10" height="10" fill="{COLORS.get(group, COLORS[OTHER])}"/>')
        text(x + 15, y + 9, group)
    height = top + (len(groups) + 5) // 6 * 16 + 8
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" font-family="sans-serif" font-size="11">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def write(given):
    *tables, target = given.files
    if not tables:
        raise SystemExit("error: expected tables, and after them the page")
    modes = modes_of([row for path in tables for row in read_tsv(path)])
    if not modes:
        raise SystemExit(f"error: {', '.join(map(str, tables))}: no kernel")
    picture = target.with_suffix(".svg")
    text = target.read_text(encoding="utf-8") if target.exists() else f"# {given.title}\n\n{START}\n{END}\n"
    text = page(text, modes, picture.name, about(tables))
    picture.write_text(drawing(modes), encoding="utf-8")
    target.write_text(text, encoding="utf-8")


def trace_torch(given):
    """Traces one step of PyTorch, after some steps without the profiler and one with it."""
    import torch

    import torch_training

    training = next((one for one in torch_training.trainings() if one.name == given.case), None)
    if training is None:
        raise SystemExit(f"error: no training case is called {given.case}")
    step = training.step(given.mode)
    for _ in range(8):
        step()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, schedule=torch.profiler.schedule(wait=0, warmup=1, active=1)) as profiler:
        for _ in range(2):
            step()
            torch.cuda.synchronize()
            profiler.step()
    path = given.out.with_suffix(".trace.json")
    profiler.export_chrome_trace(str(path))
    given.trace, given.mode = path, f"torch/{given.mode}"
    convert(given)


def convert(given):
    trace = json.loads(given.trace.read_text(encoding="utf-8"))
    rows = of_trace(trace, given.mode)
    if not rows:
        raise SystemExit(f"error: {given.trace}: no kernel; is it a trace of torch.profiler with ProfilerActivity.CUDA?")
    write_tsv(given.out, rows)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    of_torch = commands.add_parser("torch", help="traces PyTorch's step")
    of_torch.add_argument("case")
    of_torch.add_argument("--mode", default="compile", help="eager, graph or compile")
    of_trace_file = commands.add_parser("convert", help="a trace of torch.profiler as a table")
    of_trace_file.add_argument("trace", type=pathlib.Path)
    of_trace_file.add_argument("--mode", default="torch/compile", help="what the table calls it")
    for command in (of_torch, of_trace_file):
        command.add_argument("--out", type=pathlib.Path, default=pathlib.Path("torch.tsv"))
    written = commands.add_parser("write", help="tables and picture")
    written.add_argument("files", type=pathlib.Path, nargs="+", metavar="FILE", help="tables, and last the page")
    written.add_argument("--title", default="A training step, kernel by kernel", help="of a page that is made")
    return parser.parse_args()


def main():
    given = arguments()
    try:
        {"torch": trace_torch, "convert": convert, "write": write}[given.command](given)
    except OSError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
