#!/usr/bin/env python3
"""Compares a training step kernel by kernel: Ternion's, as traced by `ternion-bench timeline CASE`,
and PyTorch's.

    timeline.py torch train/gpt2_124m/bf16 --mode compile --out torch.tsv
        on the GPU machine: traces PyTorch's step with torch.profiler
    timeline.py convert trace.json --mode torch/compile --out torch.tsv
        on any machine: converts a Chrome trace of torch.profiler
    timeline.py write CASE.tsv.. docs/profiles/gpt2-step.md
        on any machine: writes the table between the page's markers, and gpt2-step.svg
    timeline.py commits BEFORE.tsv NOW.tsv docs/profiles/gpt2-step.md
        on any machine: writes a table that compares two commits

A .tsv file has a row for each kernel, copy and fill. A missing page is created. `ternion-bench
timeline` also writes CASE.json with the device, driver, commit and date, which are written to the
page if the file exists. `write` needs only Python's standard library.
"""

import argparse
import collections
import html
import json
import pathlib
import re

from pages import provenance_lines, replace_between_markers

COLUMNS = ["mode", "index", "start_us", "us", "gap_us", "group", "op", "kernel", "variant", "grid", "block", "shared", "registers", "bytes"]
MARKERS = START, END = "<!-- timeline:start -->", "<!-- timeline:end -->"
COMMITS_MARKERS = "<!-- timeline-commits:start -->", "<!-- timeline-commits:end -->"
MEMORY, GAPS, OTHER = "memset and memcpy", "gaps", "other"
RECORDED = "ternion/graph"

# Group -> color, in the order of the stacked bar.
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

# Groups of PyTorch's kernels and patterns of their names; the first match is used. A fused kernel
# of torch.compile belongs to the group of its most expensive part.
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


def parse_trace(trace, mode):
    """Returns a row for each device activity in a Chrome trace of torch.profiler."""
    kinds = ("kernel", "gpu_memcpy", "gpu_memset")
    events = sorted((event for event in trace["traceEvents"] if event.get("cat") in kinds), key=lambda event: event["ts"])
    rows, previous_end = [], None
    for event in events:
        arguments, start, time = event.get("args", {}), float(event["ts"]), float(event["dur"])
        first_start = rows and rows[0]["first_start"] or start
        gap = max(0.0, start - previous_end) if previous_end is not None else 0.0
        previous_end = max(start + time, previous_end or start)
        size = {key: "x".join(str(part) for part in arguments.get(key, [0, 0, 0])) for key in ("grid", "block")}
        row = dict(mode=mode, index=len(rows), start_us=start - first_start, us=time, gap_us=gap, group=torch_group(event["name"]), op="", kernel=event["name"])
        row.update(variant="", **size, shared=arguments.get("shared memory", 0))
        row.update(registers=arguments.get("registers per thread", 0), bytes=arguments.get("bytes", 0))
        rows.append(dict(row, first_start=first_start))
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


def describe_runs(tables):
    """Returns sentences about the provenance of the tables for which `ternion-bench timeline` wrote
    a JSON file, without duplicates.
    """
    sentences = []
    for path in tables:
        run_path = path.with_suffix(".json")
        if not run_path.exists():
            continue
        try:
            run = json.loads(run_path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise SystemExit(f"error: {run_path}: {error}") from error
        # A trace of PyTorch may have this name, too, but has no key `modes`.
        if isinstance(run, dict) and "modes" in run:
            sentences += [text for text in provenance_lines(run) if text not in sentences]
    return sentences


class Mode:
    """The kernels of a step in one mode, such as ternion/graph."""

    def __init__(self, name, rows):
        self.name, self.rows = name, rows
        self.counts, self.times = collections.Counter(), collections.Counter()
        previous_end = 0.0
        for row in rows:
            start, end = row["start_us"], row["start_us"] + row["us"]
            # Time during which several kernels run is counted once, so that all times add up to
            # the span.
            row["own_us"] = max(0.0, end - max(start, previous_end))
            previous_end = max(previous_end, end)
            self.times[row["group"]] += row["own_us"]
            self.counts[row["group"]] += 1
            if row["gap_us"] > 0:
                self.times[GAPS] += row["gap_us"]
                self.counts[GAPS] += 1
        self.span = previous_end

    def kernels(self):
        """Returns (group, op, kernel, variant) -> (time, count, grids), sorted by descending time.
        """
        totals = {}
        for row in self.rows:
            key = tuple(row[name] for name in ("group", "op", "kernel", "variant"))
            time, count, grids = totals.get(key, (0.0, 0, set()))
            totals[key] = (time + row["own_us"], count + 1, grids | {row["grid"]})
        return sorted(totals.items(), key=lambda item: -item[1][0])


def group_by_mode(rows):
    rows_by_mode = {}
    for row in rows:
        rows_by_mode.setdefault(row["mode"], []).append(row)
    return [Mode(name, rows) for name, rows in rows_by_mode.items()]


def format_row(cells):
    return "| " + " | ".join(cells) + " |"


def groups_table(modes):
    """Returns a table of the milliseconds of each group in each mode, sorted by the last mode of
    Ternion.
    """
    own_modes = [mode for mode in modes if mode.name.startswith("ternion")] or modes
    names = sorted({group for mode in modes for group in mode.times}, key=lambda group: (-own_modes[-1].times[group], group))
    lines = [format_row(["group", *(f"{mode.name}, ms" for mode in modes), f"fraction of {own_modes[-1].name}", "kernels"])]
    lines.append(format_row(["---", *["---:"] * (len(modes) + 2)]))

    def format_counts(group):
        return " / ".join(str(mode.counts[group]) for mode in modes)

    for group in names:
        times = [f"{mode.times[group] / 1e3:.3f}" if group in mode.times else "" for mode in modes]
        lines.append(format_row([group, *times, f"{100 * own_modes[-1].times[group] / (own_modes[-1].span or 1):.1f} %", format_counts(group)]))
    total = [f"**{mode.span / 1e3:.3f}**" for mode in modes]
    return [*lines, format_row(["**all**", *total, "100 %", " / ".join(str(len(mode.rows)) for mode in modes)])]


def kernels_table(mode):
    titles = ["group", "op", "kernel", "variant", "launches", "grids", "ms", "share"]
    lines = [f"### {mode.name}, by kernel", "", format_row(titles), "|---|---|---|---|---:|---|---:|---:|"]
    for (group, op, kernel, variant), (time, count, grids) in mode.kernels():
        sorted_grids = sorted(grids)
        details = ", ".join(sorted_grids[:2]) + (f", {len(sorted_grids) - 2} more" if len(sorted_grids) > 2 else "")
        name = kernel if len(kernel) <= 80 else kernel[:77] + "..."
        fraction = f"{100 * time / (mode.span or 1):.2f} %"
        cells = [group, op, f"`{name}`", variant, str(count), details, f"{time / 1e3:.3f}", fraction]
        lines.append(format_row([cell.replace("|", "/") for cell in cells]))
    gaps = mode.times[GAPS]
    lines.append(format_row([GAPS, "", "", "", str(mode.counts[GAPS]), "", f"{gaps / 1e3:.3f}", f"{100 * gaps / (mode.span or 1):.2f} %"]))
    return [*lines, ""]


def render(modes, picture, sentences=()):
    lines = [*(line for sentence in sentences for line in (sentence, "")), f"![Where the time goes]({picture})", "", *groups_table(modes), ""]
    return "\n".join([*lines, *(line for mode in modes for line in kernels_table(mode))])


def update_page(text, modes, picture, sentences=()):
    """Returns the page with the sentences about runs and the tables between its markers."""
    return replace_between_markers(text, MARKERS, render(modes, picture, sentences))


WIDTH, LEFT, BAR_HEIGHT, LANE_HEIGHT = 1200, 130, 26, 13


def render_picture(modes):
    """Returns an SVG with a stacked bar of the groups for each mode, and below it a lane over time
    for each group, on the same scale.
    """
    max_span = max((mode.span for mode in modes), default=0) or 1
    groups = [group for group in COLORS if any(mode.times[group] for mode in modes)]
    groups += sorted({group for mode in modes for group in mode.times} - set(COLORS))
    scale, parts, top = (WIDTH - LEFT - 90) / max_span, [], 12

    def draw_rectangle(x, y, width, height, group, title):
        color = COLORS.get(group, COLORS[OTHER])
        parts.append(
            f'<rect x="{LEFT + x * scale:.2f}" y="{y:.1f}" width="{max(width * scale, 0.15):.2f}" height="{height}" fill="{color}">'
            f"<title>{html.escape(title)}</title></rect>"
        )

    def draw_text(x, y, content, anchor="start"):
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(content)}</text>')

    for mode in modes:
        draw_text(LEFT - 6, top + 17, mode.name, "end")
        x = 0.0
        for group in groups:
            if time := mode.times[group]:
                draw_rectangle(x, top, time, BAR_HEIGHT, group, f"{group}: {time / 1e3:.3f} ms")
                x += time
        draw_text(LEFT + x * scale + 6, top + 17, f"{mode.span / 1e3:.2f} ms")
        top += BAR_HEIGHT + 8
    top += 10
    for mode in modes:
        draw_text(LEFT, top, f"{mode.name}, over time")
        top += 4
        lanes = [group for group in groups if mode.times[group] and group != GAPS]
        for index, group in enumerate(lanes):
            draw_text(LEFT - 6, top + index * LANE_HEIGHT + 10, group, "end")
        for row in mode.rows:
            details = " ".join(part for part in (row["op"], row["kernel"], row["variant"], f"{row['us']:.1f} us") if part)
            if row["group"] in lanes:
                y = top + lanes.index(row["group"]) * LANE_HEIGHT
                draw_rectangle(row["start_us"], y, row["us"], LANE_HEIGHT - 1, row["group"], details)
        top += len(lanes) * LANE_HEIGHT + 22
    for index, group in enumerate(groups):
        x, y = LEFT + index % 6 * 170, top + index // 6 * 16
        parts.append(f'<rect x="{x}" y="{y}" width="10" height="10" fill="{COLORS.get(group, COLORS[OTHER])}"/>')
        draw_text(x + 15, y + 9, group)
    height = top + (len(groups) + 5) // 6 * 16 + 8
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" font-family="sans-serif" font-size="11">'
    return "\n".join([opening, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def write_page(args):
    *tables, target = args.files
    if not tables:
        raise SystemExit("error: expected tables, followed by the page")
    modes = group_by_mode([row for path in tables for row in read_tsv(path)])
    if not modes:
        raise SystemExit(f"error: {', '.join(map(str, tables))}: no kernel")
    picture = target.with_suffix(".svg")
    text = target.read_text(encoding="utf-8") if target.exists() else f"# {args.title}\n\n{START}\n{END}\n"
    text = update_page(text, modes, picture.name, describe_runs(tables))
    picture.write_text(render_picture(modes), encoding="utf-8")
    target.write_text(text, encoding="utf-8")


def read_recorded_step(path):
    """Returns the provenance of a table of `ternion-bench timeline`, and its recorded step."""
    sentences = describe_runs([path])
    if not sentences:
        raise SystemExit(f"error: {path}: expected {path.with_suffix('.json').name} next to it, which names the commit")
    modes = {mode.name: mode for mode in group_by_mode(read_tsv(path))}
    if RECORDED not in modes:
        raise SystemExit(f"error: {path}: expected the mode {RECORDED}, got {', '.join(modes) or 'none'}")
    return sentences[0], modes[RECORDED]


def commits_table(before, now):
    """Returns a table of the times of each group in the recorded steps of two commits."""
    names = sorted(before.times | now.times, key=lambda group: (-now.times[group], group))

    def cells(group):
        times = [f"{mode.times[group] / 1e3:.3f} ({mode.counts[group]})" for mode in (before, now)]
        return [group, *times, f"{(now.times[group] - before.times[group]) / 1e3:+.3f}"]

    total = ["**all**", *(f"**{mode.span / 1e3:.3f}**" for mode in (before, now)), f"{(now.span - before.span) / 1e3:+.3f}"]
    head = ["group", "before, ms (kernels)", "now, ms (kernels)", "difference, ms"]
    return [format_row(head), format_row(["---", *["---:"] * 3]), *(format_row(cells(group)) for group in names), format_row(total)]


def write_commits(args):
    (old, before), (new, now) = read_recorded_step(args.before), read_recorded_step(args.now)
    lines = [f"Before: {old} Now: {new}", "", *commits_table(before, now), ""]
    text = replace_between_markers(args.page.read_text(encoding="utf-8"), COMMITS_MARKERS, "\n".join(lines))
    args.page.write_text(text, encoding="utf-8")


def trace_torch(args):
    """Traces a step of PyTorch after warm-up steps without the profiler and one with it."""
    import torch

    import torch_training

    training = next((training for training in torch_training.training_cases() if training.name == args.case), None)
    if training is None:
        raise SystemExit(f"error: no training case is called {args.case}")
    step = training.step(args.mode)
    for _ in range(8):
        step()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, schedule=torch.profiler.schedule(wait=0, warmup=1, active=1)) as profiler:
        for _ in range(2):
            step()
            torch.cuda.synchronize()
            profiler.step()
    path = args.out.with_suffix(".trace.json")
    profiler.export_chrome_trace(str(path))
    args.trace, args.mode = path, f"torch/{args.mode}"
    convert(args)


def convert(args):
    trace = json.loads(args.trace.read_text(encoding="utf-8"))
    rows = parse_trace(trace, args.mode)
    if not rows:
        raise SystemExit(f"error: {args.trace}: no kernel; is it a trace of torch.profiler with ProfilerActivity.CUDA?")
    write_tsv(args.out, rows)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    torch_parser = commands.add_parser("torch", help="trace a step of PyTorch")
    torch_parser.add_argument("case")
    torch_parser.add_argument("--mode", default="compile", help="eager, graph or compile")
    convert_parser = commands.add_parser("convert", help="convert a trace of torch.profiler to a table")
    convert_parser.add_argument("trace", type=pathlib.Path)
    convert_parser.add_argument("--mode", default="torch/compile", help="name of the mode in the table")
    for command in (torch_parser, convert_parser):
        command.add_argument("--out", type=pathlib.Path, default=pathlib.Path("torch.tsv"))
    write_parser = commands.add_parser("write", help="write the tables and the plot")
    write_parser.add_argument("files", type=pathlib.Path, nargs="+", metavar="FILE", help="tables, followed by the page")
    write_parser.add_argument("--title", default="A training step, kernel by kernel", help="title of a page that is created")
    commits_parser = commands.add_parser("commits", help="write the table that compares two commits")
    for name in ("before", "now", "page"):
        commits_parser.add_argument(name, type=pathlib.Path)
    return parser.parse_args()


def main():
    args = parse_arguments()
    try:
        {"torch": trace_torch, "convert": convert, "write": write_page, "commits": write_commits}[args.command](args)
    except OSError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
