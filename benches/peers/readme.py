#!/usr/bin/env python3
"""The README's table of results and its plot, from the tables in docs/benchmarks.md, so that both state the same figures.

    readme.py write     writes README.md (between its markers) and docs/results.svg
    readme.py check     ends with 1 if they are not what would be written

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

# What a row is called, its case on the page, and whether the page's rate is shown. The cases that lose are chosen as those that win:
# one for each kind of work.
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
PEERS = {
    "torch": "PyTorch", "torch/eager": "PyTorch eager", "torch/graph": "PyTorch CUDA graph", "torch/compile": "torch.compile", "torch/cublas": "cuBLAS",
    "torch/cudnn": "cuDNN", "torch/flash": "FlashAttention-2", "torch/efficient": "PyTorch efficient", "torch/eager-nhwc": "PyTorch channels_last",
    "torch/graph-nhwc": "PyTorch CUDA graph, channels_last", "torch/nhwc": "cuDNN channels_last",
}
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}

Result = collections.namedtuple("Result", "title time rate peer speedup")


def seconds(cell):
    """The seconds of a cell such as `1.095 ms` or `2.676 ms (0.41)`, or None."""
    match = re.match(r"([\d.,]+) (us|ms|s)\b", cell)
    return float(match[1].replace(",", "")) * UNITS[match[2]] if match else None


def tables(text):
    """Each case of the page with its cells by column; of a case in several tables the first."""
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


def result(title, case, cases):
    """The row of a case: Ternion's time, the fastest peer, and how many times as fast Ternion is."""
    if case not in cases:
        raise SystemExit(f"error: {PAGE.name} has no case {case}")
    cells = cases[case]
    times = {name: seconds(cell) for name, cell in cells.items() if name not in ("case", "Ternion", "rate", "driver", "copy")}
    peers = {name: time for name, time in times.items() if time}
    if not peers or not seconds(cells["Ternion"]):
        raise SystemExit(f"error: {case} has no time of Ternion or of a peer")
    name = min(peers, key=peers.get)
    return Result(title, cells["Ternion"], cells["rate"], PEERS.get(name, name), peers[name] / seconds(cells["Ternion"]))


def run_of(text):
    """Device, versions, commit and date: the first line of the GPU tables."""
    _, body, _ = pages.parts_between(text, ("<!-- gpu:start -->", "<!-- gpu:end -->"))
    return body.strip().splitlines()[0]


def table(results, run):
    """The lines between the markers."""
    rows = [pages.row_of(["", "Ternion", "fastest other", "speed"]), "|---|---:|---|---:|"]
    for found in results:
        speed = f"{found.speedup:.2f}x"
        figure = f"{found.time} ({found.rate})" if found.rate else found.time
        rows.append(pages.row_of([found.title, figure, found.peer, speed if found.speedup >= 0.995 else f"**{speed}**"]))
    return [*rows, "", run, "Bold: Ternion is slower. [All cases](docs/benchmarks.md)."]


def plot(results, run):
    """Bars of the speed relative to the fastest other implementation, whose speed is the line at 1. Colors follow the reader's light or dark mode."""
    width, left, row, top = 800, 400, 26, 30
    height = top + row * len(results) + 58
    most = max(found.speedup for found in results)
    scale = (width - left - 70) / min(most, 3.0)
    style = (
        "text{font:13px system-ui,sans-serif;fill:#24292f}.small{font-size:11px;fill:#57606a}.win{fill:#1a7f37}.lose{fill:#bc4c00}.axis{stroke:#57606a;stroke-dasharray:3 3}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.win{fill:#3fb950}.lose{fill:#f0883e}.axis{stroke:#9198a1}}"
    )
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="Speed of Ternion relative to the fastest other implementation">', f"<style>{style}</style>"]
    one = left + scale
    parts.append(f'<line class="axis" x1="{one:.1f}" y1="{top - 8}" x2="{one:.1f}" y2="{top + row * len(results)}"/>')
    parts.append(f'<text class="small" x="{one:.1f}" y="{top - 14}" text-anchor="middle">fastest other = 1</text>')
    for index, found in enumerate(results):
        y = top + index * row
        length = scale * min(found.speedup, 3.0)
        kind = "win" if found.speedup >= 0.995 else "lose"
        label = f"{found.speedup:.2f}x" + (" (bar cut at 3)" if found.speedup > 3.0 else "")
        inside = found.speedup > 3.0
        parts.append(f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{html.escape(found.title)}</text>')
        parts.append(f'<rect class="{kind}" x="{left}" y="{y + 3}" width="{length:.1f}" height="{row - 10}" rx="2"/>')
        x, anchor, color = (left + length - 6, "end", ' style="fill:#fff"') if inside else (left + length + 6, "start", "")
        parts.append(f'<text class="small" x="{x:.1f}" y="{y + 15}" text-anchor="{anchor}"{color}>{label}</text>')
    machine, _, commit = run.partition(", commit ")
    notes = ["Speed relative to the fastest other implementation measured in the same run.", machine, f"Commit {commit}" if commit else ""]
    for index, note in enumerate(notes):
        parts.append(f'<text class="small" x="8" y="{height - 36 + 14 * index}">{html.escape(note)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def made():
    """The README and the plot as they should be."""
    text = PAGE.read_text()
    cases, run = tables(text), run_of(text)
    results = [result(title, case, cases) for title, case in ROWS]
    return pages.between_markers(README.read_text(), MARKERS, "\n".join([*table(results, run), ""])), plot(results, run)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["write", "check"])
    readme, picture = made()
    if parser.parse_args().command == "write":
        README.write_text(readme)
        PLOT.write_text(picture)
    elif README.read_text() != readme or PLOT.read_text() != picture:
        sys.exit("error: README.md or docs/results.svg is not what docs/benchmarks.md states: benches/peers/readme.py write")


if __name__ == "__main__":
    main()
