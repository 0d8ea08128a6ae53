#!/usr/bin/env python3
"""Draws docs/plots/*.svg from the tables in docs/benchmarks.md and the records of
docs/plots/records, and writes the generated lines of docs/results.md.

    plots.py write     draws all figures; names those that it cannot draw
    plots.py check     exits with 1 if a figure or the page is not up to date

The rate of another implementation is Ternion's rate times the ratio of the times of the case.
`cargo xtask plots [--check]` runs this script. Only Python's standard library is needed.
"""

import argparse
import itertools
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import loss_curves  # noqa: E402
import pages  # noqa: E402
import readme  # noqa: E402
from figures import Bar, BarPanel, Line, LinePanel, Row, Style, render  # noqa: E402
from plot_tables import Block, MissingRecord, PlotError, series  # noqa: E402

FOLDER, PAGE = readme.ROOT / "docs/plots", readme.ROOT / "docs/results.md"

TERNION = Style("Ternion", "blue", width=2.5)
IEEE_SERIES = Style("Ternion, IEEE f32", "teal", "", "diamond")
WGPU_SERIES = TERNION._replace(name="Ternion, wgpu")
CUDA_SERIES = Style("Ternion, CUDA", "teal", "", "diamond")
CUBLAS = Style("cuBLAS", "text", "7 4", "square")
CUDNN = Style("cuDNN", "text", "7 4", "square")
CUDNN_NHWC = Style("cuDNN, channels_last", "muted", "2 3", "square")
FLASH = Style("FlashAttention-2", "orange", "2 3", "triangle")
COMPOSITION = Style("product, softmax and product", "purple", "2 3", "triangle")
PYTORCH = Style("PyTorch", "orange", "", "triangle")
COMPILED = Style("torch.compile", "purple", "", "diamond")
LIBRARY = Style("CUB or cuDNN", "text", "", "square")
GOAL = Style("largest acceptable ratio", "text", "", "tick")
FASTER, SLOWER = Style("Ternion is at least as fast", "blue"), Style("Ternion is slower", "red")
# Bars of training steps: column of the table -> style. The case names Ternion's two.
STEPS = {
    "graph": Style("Ternion, recorded", "blue"),
    "eager": Style("Ternion, op by op", "teal"),
    "torch/graph": Style("PyTorch, CUDA graph", "text"),
    "torch/graph-nhwc": Style("PyTorch, CUDA graph, channels_last", "green"),
    "torch/compile": Style("torch.compile", "purple"),
    "torch/eager": Style("PyTorch, op by op", "orange"),
    "torch/eager-nhwc": Style("PyTorch, op by op, channels_last", "muted"),
}
DTYPE_NAMES = {"ieee": "IEEE f32", "tf32": "TF32"}
MODEL_NAMES = {
    "mnist_mlp": "MNIST MLP",
    "mnist_cnn": "MNIST CNN",
    "tiny_gpt": "tiny GPT",
    "char_gpt": "char GPT",
    "gpt2_124m": "GPT-2 124M",
    "gpt2_124m_logits": "GPT-2 124M, all logits kept",
    "gpt2_124m_chunked": "GPT-2 124M, logits in two parts",
    "gpt2_50257": "GPT-2 124M, vocabulary 50257",
    "cifar_alexnet": "CIFAR AlexNet",
}
# Below this, two digits after the point show that Ternion is slower.
NOT_SLOWER = 0.995


def page_caption(block):
    return [block.provenance(), f"Drawn by benches/peers/plots.py from docs/{readme.PAGE.name}."]


def lines(cases, pattern, styles):
    """Returns a line for each column of `styles`."""
    return [Line(style, series(cases, pattern, column)) for column, style in styles.items()]


def measured(cases, styles):
    """Returns the styles whose column the table has: the machine of wgpu need not have CUDA."""
    return {column: style for column, style in styles.items() if any(column in case.cells for case in cases.values())}


# ---------------------------------------------------------------- matrix products

# Sizes of the lines; other sizes and shapes are in the second figure.
POWER_OF_TWO = r"(512|1024|2048|4096|8192|16384)"


def product_panel(cases, heading, drawn):
    """Returns a panel of n x n x n products. `drawn` has (dtype, column, style) of each line."""
    found = [Line(style, series(cases, f"gemm/{dtype}/nn/{POWER_OF_TWO}", column)) for dtype, column, style in drawn]
    return LinePanel(heading, "n (log scale)", "TFLOP/s", found)


def products(text):
    block = Block("gpu", text)
    cases = block.cases("Matrix products")
    f32 = [("f32", "Ternion", TERNION), ("ieee", "Ternion", IEEE_SERIES), ("ieee", "torch/cublas", CUBLAS)]
    panels = [product_panel(cases, "f32", f32)]
    for dtype in ("tf32", "bf16", "f16"):
        panels.append(product_panel(cases, DTYPE_NAMES.get(dtype, dtype), [(dtype, "Ternion", TERNION), (dtype, "torch/cublas", CUBLAS)]))
    subtitle = "TFLOP/s of n x n x n products; more is better. Ternion's f32 product is bf16x6, unless IEEE is requested."
    return render("Matrix products and cuBLAS", subtitle, panels, page_caption(block))


def wgpu_products(text):
    block = Block("wgpu", text)
    cases = block.cases("Matrix products", "Ternion wgpu")
    styles = measured(cases, {"Ternion wgpu": WGPU_SERIES, "CUDA": CUDA_SERIES, "torch/cublas": CUBLAS})
    panels = [product_panel(cases, dtype, [(dtype, column, style) for column, style in styles.items()]) for dtype in ("f32", "f16", "bf16")]
    subtitle = "TFLOP/s of n x n x n products; more is better. All lines are of the same GPU."
    return render("Matrix products of the wgpu backend", subtitle, panels, page_caption(block), columns=3)


def speed_bar(speed):
    """Returns a bar of Ternion's relative speed, in the color of the faster side."""
    is_slower = speed < NOT_SLOWER
    return Bar(SLOWER if is_slower else FASTER, speed, f"{speed:.2f}", is_slower)


def product_shapes(text):
    block = Block("gpu", text)
    layouts, shapes = [], []
    for name, case in block.cases("Matrix products").items():
        match, speed = re.fullmatch(r"gemm/(\w+)/(nn|nt|tn|tt)/([\dx]+)", name), case.speed("torch/cublas")
        if not match or not speed:
            continue
        dtype, layout, shape = match.groups()
        row = Row(f"{DTYPE_NAMES.get(dtype, dtype)}, {layout}, {shape.replace('x', ' x ')}", [speed_bar(speed)])
        if not re.fullmatch(POWER_OF_TWO, shape):
            shapes.append(row)
        elif layout != "nn":
            layouts.append(row)
    if not layouts or not shapes:
        raise PlotError(f"{readme.PAGE.name}: no products of other layouts or shapes")
    label = "speed, cuBLAS = 1"
    panels = [BarPanel("Transposed operands", label, layouts, reference=1), BarPanel("Other shapes, m x n x k", label, shapes, reference=1)]
    subtitle = "Speed of Ternion relative to cuBLAS; more is better. nt: the left operand is not transposed, the right one is."
    return render("Matrix products of other layouts and shapes", subtitle, panels, page_caption(block))


# ---------------------------------------------------------------- attention


def attention_panels(cases, direction, styles):
    title, panels = {"fwd": "Forward", "bwd": "Backward"}[direction], []
    for mask, width in itertools.product(("full", "causal"), (64, 128)):
        found = lines(cases, rf"attention/{direction}/bf16/d{width}/t(\d+)/{mask}", styles)
        panels.append(LinePanel(f"{title}, {mask}, head dimension {width}", "tokens (log scale)", "TFLOP/s", found, height=250))
    return panels


def attention(direction, title, text):
    block = Block("gpu", text)
    styles = {"Ternion": TERNION, "torch/cudnn": CUDNN, "torch/flash": FLASH}
    panels = attention_panels(block.cases("Attention"), direction, styles)
    subtitle = "bf16, TFLOP/s by sequence length; more is better. Operations above the diagonal of a causal mask are not counted."
    return render(title, subtitle, panels, page_caption(block))


def wgpu_attention(text):
    block = Block("wgpu", text)
    cases = block.cases("Attention", "Ternion wgpu")
    styles = measured(cases, {"Ternion wgpu": WGPU_SERIES, "by hand": COMPOSITION, "CUDA": CUDA_SERIES})
    panels = [panel for direction in ("fwd", "bwd") for panel in attention_panels(cases, direction, styles)]
    subtitle = "bf16, TFLOP/s by sequence length; more is better. The composition runs on wgpu, too; all lines are of the same GPU."
    return render("Attention of the wgpu backend", subtitle, panels, page_caption(block))


# ---------------------------------------------------------------- convolutions

CONVOLUTION = re.compile(r"conv/(fwd|bwd)/(\w+)/n(\d+)c(\d+)hw(\d+)k(\d+)r(\d+)s(\d+)")


def convolution_row(case, match):
    batch, channels, size, filters, window, stride = match.groups()[2:]
    styles = {"torch/nchw": CUDNN._replace(name="cuDNN, NCHW"), "torch/nhwc": CUDNN_NHWC}
    others = {column: rate for column in styles if (rate := case.rate(column))}
    best = max(others.values(), default=None)
    is_slower = best is not None and case.own_rate / best < NOT_SLOWER
    relative = f" ({case.own_rate / best:.2f}x)" if best else ""
    own = Bar(TERNION, case.own_rate, f"{case.own_rate:.1f}{relative}", is_slower)
    label = f"{channels} to {filters} channels, {size} x {size}, window {window} x {window}, stride {stride}, batch {batch}"
    return Row(label, [own, *(Bar(styles[column], rate, f"{rate:.1f}") for column, rate in others.items())])


def convolutions(text):
    block = Block("gpu", text)
    rows = {}
    for name, case in block.cases("Convolutions").items():
        if (match := CONVOLUTION.fullmatch(name)) and case.own_rate:
            rows.setdefault((match[2], match[1]), []).append(convolution_row(case, match))
    panels = []
    for dtype in ("f32", "bf16"):
        for direction, title in (("fwd", "forward"), ("bwd", "backward")):
            if not rows.get((dtype, direction)):
                raise PlotError(f"{readme.PAGE.name}: no case conv/{direction}/{dtype}")
            panels.append(BarPanel(f"{dtype}, {title}", "TFLOP/s", rows[dtype, direction], labels_above=True))
    subtitle = "TFLOP/s; more is better. In parentheses: relative to the faster layout of cuDNN, red if Ternion is slower."
    return render("Convolutions and cuDNN", subtitle, panels, page_caption(block))


# ---------------------------------------------------------------- bandwidth

BANDWIDTH_SECTIONS = (
    "Elementwise",
    "Reductions",
    "Softmax",
    "Layer normalization",
    "Transposes",
    "Cross-entropy",
    "Gradient of an embedding",
    "AdamW",
)


def bandwidth_name(case_name):
    """Returns dtype and name of a case of bandwidth: elementwise/add/f32 is ("f32", "add")."""
    parts = case_name.split("/")
    dtype = next((part for part in parts if part in ("f32", "bf16", "f16")), None)
    words = [part for part in parts if part not in (dtype, "elementwise", "reduce", "layout") and not re.match(r"\d", part)]
    names = {"fwd": "forward", "bwd": "backward", "fwd_bwd": "with gradient", "layernorm": "layer_norm"}
    return dtype, " ".join(names.get(word, word) for word in words)


def bandwidth_panels(block, sections, own_column, own_style, styles):
    """Returns a panel for each dtype: time of a copy of as many bytes over that of the case."""
    rows = {}
    for section in sections:
        for name, case in block.cases(section, own_column).items():
            dtype, title = bandwidth_name(name)
            copy = case.times.get("copy")
            if dtype and copy and case.own_time():
                fraction = copy / case.own_time()
                marks = [(style, copy / case.times[column]) for column, style in styles.items() if column in case.times]
                rows.setdefault(dtype, []).append(Row(title, [Bar(own_style, fraction, f"{fraction:.2f}")], marks))
    if not rows:
        raise PlotError(f"{readme.PAGE.name}: block {block.name}: no case has a copy of as many bytes")
    label = "bandwidth, copy of as many bytes = 1"
    return [BarPanel(dtype, label, dtype_rows, reference=1, texts_heading=own_style.name) for dtype, dtype_rows in rows.items()]


def bandwidth(text):
    block = Block("gpu", text)
    styles = {"torch": PYTORCH, "torch/compile": COMPILED, "cub": LIBRARY, "cudnn": LIBRARY}
    panels = bandwidth_panels(block, (*BANDWIDTH_SECTIONS, "total_norm"), "Ternion", TERNION, styles)
    subtitle = "Bandwidth as a fraction of that of a device-to-device copy that moves as many bytes; more is better."
    return render("Ops limited by memory bandwidth", subtitle, panels, page_caption(block))


def wgpu_bandwidth(text):
    block = Block("wgpu", text)
    styles = {"CUDA": CUDA_SERIES._replace(color="text"), "torch": PYTORCH}
    panels = bandwidth_panels(block, BANDWIDTH_SECTIONS, "Ternion wgpu", WGPU_SERIES, styles)
    subtitle = "Bandwidth as a fraction of that of the faster copy of wgpu that moves as many bytes; more is better."
    return render("Ops of the wgpu backend limited by memory bandwidth", subtitle, panels, page_caption(block))


# ---------------------------------------------------------------- training steps


def model_name(name):
    """Returns the title of train/mnist_mlp/f32/b64."""
    _, model, dtype, *batch = name.split("/")
    return ", ".join([MODEL_NAMES.get(model, model), dtype, *(f"batch {size.removeprefix('b')}" for size in batch)])


def step_row(name, cases):
    """Returns the bars of a model, relative to its fastest."""
    rates = {mode: case.own_rate for mode in ("graph", "eager") if (case := cases.get(f"{name} ({mode})")) and case.own_rate}
    if not rates:
        raise PlotError(f"{readme.PAGE.name}: {name}: no rate of Ternion")
    case = cases.get(f"{name} (graph)") or cases[f"{name} (eager)"]
    others = {column: rate for column in STEPS if column.startswith("torch/") and (rate := case.rate(column))}
    fastest, best = max([*rates.values(), *others.values()]), max(others.values(), default=None)
    bars = []
    for column, rate in {**rates, **others}.items():
        is_slower = column == "graph" and best is not None and rate / best < NOT_SLOWER
        bars.append(Bar(STEPS[column], rate / fastest, f"{rate:,.0f} {case.unit}", is_slower))
    return Row(model_name(name), bars)


def training(text):
    block = Block("gpu", text)
    cases = block.cases("Training steps")
    names = dict.fromkeys(match[1] for name in cases if (match := re.fullmatch(r"(train/.*) \((?:graph|eager)\)", name)))
    if not names:
        raise PlotError(f"{readme.PAGE.name}: no case train/..")
    rows = [step_row(name, cases) for name in names]
    # The models of text have fewer bars each than those of images, and are in one column.
    columns = [[row for row in rows if row.bars[0].text.endswith(unit)] for unit in ("tokens/s", "images/s")]
    headings = ("Text", "Images")
    panels = [BarPanel(heading, "rate, fastest = 1", column, labels_above=True) for heading, column in zip(headings, columns) if column]
    subtitle = "Tokens or images per second of one training step; more is better. Red: Ternion's recorded step is slower than the fastest other."
    return render("Training steps and PyTorch", subtitle, panels, page_caption(block))


# ---------------------------------------------------------------- CPU

COPY = ", over a copy of the same bytes"


def cpu_row(case, label):
    """Returns the row of a ratio of times with its goal."""
    try:
        ratio, goal = float(case.cells["ratio"]), float(case.cells["goal"].split()[0])
    except (KeyError, ValueError, IndexError) as error:
        raise PlotError(f"{readme.PAGE.name}: {case.name}: expected numbers as ratio and goal") from error
    style = Style("goal missed", "red") if "missed" in case.cells["goal"] else Style("goal reached", "blue")
    return Row(label, [Bar(style, ratio, f"{ratio:.2f}", "missed" in case.cells["goal"])], [(GOAL, goal)])


def cpu(text):
    block = Block("cpu", text)
    copies, others = [], []
    for name, case in block.cases().items():
        (copies if name.endswith(COPY) else others).append(cpu_row(case, name.removesuffix(COPY)))
    if not copies or not others:
        raise PlotError(f"{readme.PAGE.name}: block cpu: no ratios to a copy, or none to other implementations")
    label = "time of Ternion / time of the other"
    panels = [
        BarPanel("Other libraries, and compositions of ops", label, others, labels_above=True, reference=1, texts_heading="ratio"),
        BarPanel("A copy of the same bytes", label, copies, labels_above=True, reference=1, texts_heading="ratio"),
    ]
    subtitle = "Ratio of times; less is better. Below 1 Ternion takes less time."
    return render("The CPU backend", subtitle, panels, page_caption(block))


# ---------------------------------------------------------------- the files

# Figure -> the function that draws it from the text of docs/benchmarks.md.
FIGURES = {
    "cuda-gemm": products,
    "cuda-gemm-shapes": product_shapes,
    "cuda-attention-forward": lambda text: attention("fwd", "Attention, forward", text),
    "cuda-attention-backward": lambda text: attention("bwd", "Attention, backward", text),
    "cuda-convolutions": convolutions,
    "cuda-bandwidth": bandwidth,
    "cuda-training": training,
    "wgpu-gemm": wgpu_products,
    "wgpu-attention": wgpu_attention,
    "wgpu-bandwidth": wgpu_bandwidth,
    "cpu": cpu,
    "loss-curves": lambda _text: loss_curves.draw(FOLDER / "records"),
}
# Block of docs/results.md -> the block of docs/benchmarks.md whose device and commit it states.
PROVENANCE = {"cuda": "gpu", "wgpu": "wgpu", "cpu": "cpu"}


def draw_figures(text):
    """Returns the SVGs by name of figure, and the errors of those that cannot be drawn."""
    pictures, errors = {}, {}
    for name, draw in FIGURES.items():
        try:
            pictures[name] = draw(text)
        except PlotError as error:
            errors[name] = error
    return pictures, errors


def page_text(page, text, pictures, errors):
    """Returns docs/results.md with its generated lines."""
    for name, block in PROVENANCE.items():
        page = pages.replace_between_markers(page, (f"<!-- {name}:start -->", f"<!-- {name}:end -->"), Block(block, text).provenance() + "\n")
    shown = "![Losses of one model on three backends, by step](plots/loss-curves.svg)\n"
    missing = f"Not drawn yet: {errors.get('loss-curves')}.\n"
    content = shown if "loss-curves" in pictures else missing
    return pages.replace_between_markers(page, ("<!-- losses:start -->", "<!-- losses:end -->"), content)


def generate():
    """Returns the contents of the files, and the errors of figures without a file."""
    text = readme.PAGE.read_text(encoding="utf-8")
    pictures, errors = draw_figures(text)
    files = {FOLDER / f"{name}.svg": picture for name, picture in pictures.items()}
    try:
        files[PAGE] = page_text(PAGE.read_text(encoding="utf-8"), text, pictures, errors)
    except PlotError as error:
        errors[PAGE.name] = error
    return files, errors


def stale(files):
    """Returns what is wrong with the committed files: those that differ, and unknown figures."""
    differing = [path for path, content in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != content]
    unknown = [path for path in sorted(FOLDER.glob("*.svg")) if path not in files]
    found = [f"{path.relative_to(readme.ROOT)} is not up to date" for path in differing]
    return found + [f"{path.relative_to(readme.ROOT)} is of no figure that can be drawn" for path in unknown]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["write", "check"])
    command = parser.parse_args().command
    files, errors = generate()
    problems = [f"error: {name} cannot be drawn: {error}" for name, error in errors.items() if not isinstance(error, MissingRecord)]
    skipped = [f"{name} is skipped: {error}" for name, error in errors.items() if isinstance(error, MissingRecord)]
    if command == "write":
        FOLDER.mkdir(exist_ok=True)
        for path, content in files.items():
            path.write_text(content, encoding="utf-8")
    problems += [f"error: {text}: run benches/peers/plots.py write" for text in stale(files)]
    print(*skipped, *problems, sep="\n", end="\n" if skipped or problems else "", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
