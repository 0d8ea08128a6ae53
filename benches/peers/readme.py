#!/usr/bin/env python3
"""Generates the README's table of results and its plot from the tables in docs/benchmarks.md.

    readme.py write     writes README.md (between its markers) and docs/results.svg
    readme.py check     exits with 1 if these files are not up to date

A row compares Ternion with the fastest other implementation that was measured in the same run.
"""

import argparse
import collections
import html
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import pages  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, README, PLOT = ROOT / "docs/benchmarks.md", ROOT / "README.md", ROOT / "docs/results.svg"
MARKERS = "<!-- results:start (benches/peers/readme.py write) -->", "<!-- results:end -->"

# Title of a row, and its case in docs/benchmarks.md. Cases are selected by kind of work, one each,
# not by whether Ternion is faster.
ROWS = [
    ("GPT-2 124M, training step, bf16", "train/gpt2_124m/bf16 (graph)"),
    ("char GPT, training step, bf16", "train/char_gpt/bf16 (graph)"),
    ("MNIST MLP, training step, f32", "train/mnist_mlp/f32/b64 (graph)"),
    ("CIFAR AlexNet, training step, bf16", "train/cifar_alexnet/bf16/b256 (graph)"),
    ("matmul 4096, bf16", "gemm/bf16/nn/4096"),
    ("matmul 4096, f32", "gemm/f32/nn/4096"),
    ("attention forward, d128, 4096 tokens, causal, bf16", "attention/fwd/bf16/d128/t4096/causal"),
    ("attention backward, d128, 4096 tokens, causal, bf16", "attention/bwd/bf16/d128/t4096/causal"),
    ("conv2d 3x3 forward, 128 channels, bf16", "conv/fwd/bf16/n64c128hw28k128r3s1"),
    ("host time of an eager matmul", "host/matmul"),
]
BASELINE_NAMES = {
    "torch": "PyTorch", "torch/eager": "PyTorch eager", "torch/graph": "PyTorch CUDA graph", "torch/compile": "torch.compile", "torch/cublas": "cuBLAS",
    "torch/cudnn": "cuDNN", "torch/flash": "FlashAttention-2", "torch/efficient": "PyTorch efficient", "torch/eager-nhwc": "PyTorch channels_last",
    "torch/graph-nhwc": "PyTorch CUDA graph, channels_last", "torch/nhwc": "cuDNN channels_last",
}
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}

Result = collections.namedtuple("Result", "title time rate baseline speedup")


def parse_seconds(cell):
    """Returns the seconds of a cell such as `1.095 ms` or `2.676 ms (0.41)`, or None."""
    match = re.match(r"([\d.,]+) (us|ms|s)\b", cell)
    return float(match[1].replace(",", "")) * UNITS[match[2]] if match else None


def parse_tables(text):
    """Returns case -> column -> cell. The first table with a case is used."""
    cases, header = {}, None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            header = None
        elif header is None:
            header = cells
        elif header[0] == "case":
            cases.setdefault(cells[0], dict(zip(header, cells, strict=False)))
    return cases


def compare_case(title, case, cases):
    """Returns a case's time, the fastest baseline, and Ternion's speedup relative to it."""
    if case not in cases:
        raise SystemExit(f"error: {PAGE.name} has no case {case}")
    cells = cases[case]
    times = {name: parse_seconds(cell) for name, cell in cells.items() if name not in ("case", "Ternion", "rate", "driver", "copy")}
    baseline_times = {name: time for name, time in times.items() if time}
    if not baseline_times or not parse_seconds(cells["Ternion"]):
        raise SystemExit(f"error: {case} has no time of Ternion or of a baseline")
    fastest = min(baseline_times, key=baseline_times.get)
    return Result(title, cells["Ternion"], cells["rate"], BASELINE_NAMES.get(fastest, fastest), baseline_times[fastest] / parse_seconds(cells["Ternion"]))


def read_provenance(text):
    """Returns device, versions, commit and date: the first line of the GPU tables."""
    _, body, _ = pages.split_at_markers(text, ("<!-- gpu:start -->", "<!-- gpu:end -->"))
    return body.strip().splitlines()[0]


def render_table(results, provenance):
    """Renders the lines between the markers of the README."""
    rows = [pages.format_row(["", "Ternion", "fastest other", "speed"]), "|---|---:|---|---:|"]
    for result in results:
        speed = f"{result.speedup:.2f}x"
        time_and_rate = f"{result.time} ({result.rate})" if result.rate else result.time
        rows.append(pages.format_row([result.title, time_and_rate, result.baseline, speed if result.speedup >= 0.995 else f"**{speed}**"]))
    return [*rows, "", provenance, "Bold: Ternion is slower. [All cases](docs/benchmarks.md)."]


def render_plot(results, provenance):
    """Renders the plot: bars of Ternion's speedup, and a line at 1 for the fastest baseline. Colors
    follow the reader's light or dark mode.
    """
    width, left, row_height, top = 800, 400, 26, 30
    height = top + row_height * len(results) + 58
    max_speedup = max(result.speedup for result in results)
    scale = (width - left - 70) / min(max_speedup, 3.0)
    style = (
        "text{font:13px system-ui,sans-serif;fill:#24292f}.small{font-size:11px;fill:#57606a}.win{fill:#1a7f37}.lose{fill:#bc4c00}"
        ".axis{stroke:#57606a;stroke-dasharray:3 3}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.win{fill:#3fb950}.lose{fill:#f0883e}.axis{stroke:#9198a1}}"
    )
    label = "Speed of Ternion relative to the fastest other implementation"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">',
        f"<style>{style}</style>",
    ]
    unit_x = left + scale
    parts.append(f'<line class="axis" x1="{unit_x:.1f}" y1="{top - 8}" x2="{unit_x:.1f}" y2="{top + row_height * len(results)}"/>')
    parts.append(f'<text class="small" x="{unit_x:.1f}" y="{top - 14}" text-anchor="middle">fastest other = 1</text>')
    for index, result in enumerate(results):
        y = top + index * row_height
        length = scale * min(result.speedup, 3.0)
        kind = "win" if result.speedup >= 0.995 else "lose"
        label = f"{result.speedup:.2f}x" + (" (bar cut at 3)" if result.speedup > 3.0 else "")
        is_cut = result.speedup > 3.0
        parts.append(f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{html.escape(result.title)}</text>')
        parts.append(f'<rect class="{kind}" x="{left}" y="{y + 3}" width="{length:.1f}" height="{row_height - 10}" rx="2"/>')
        x, anchor, color = (left + length - 6, "end", ' style="fill:#fff"') if is_cut else (left + length + 6, "start", "")
        parts.append(f'<text class="small" x="{x:.1f}" y="{y + 15}" text-anchor="{anchor}"{color}>{label}</text>')
    machine, _, commit = provenance.partition(", commit ")
    footer = ["Speed relative to the fastest other implementation measured in the same run.", machine, f"Commit {commit}" if commit else ""]
    for index, text in enumerate(footer):
        parts.append(f'<text class="small" x="8" y="{height - 36 + 14 * index}">{html.escape(text)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def generate():
    """Returns the up-to-date contents of the README and of the plot."""
    text = PAGE.read_text()
    cases, provenance = parse_tables(text), read_provenance(text)
    results = [compare_case(title, case, cases) for title, case in ROWS]
    return pages.replace_between_markers(README.read_text(), MARKERS, "\n".join([*render_table(results, provenance), ""])), render_plot(results, provenance)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["write", "check"])
    readme, plot = generate()
    if parser.parse_args().command == "write":
        README.write_text(readme)
        PLOT.write_text(plot)
    elif README.read_text() != readme or PLOT.read_text() != plot:
        sys.exit("error: README.md or docs/results.svg differs from docs/benchmarks.md: run benches/peers/readme.py write")


if __name__ == "__main__":
    main()
