"""Writes the tables of compare.py for the wgpu backend: reads lines of results, returns Markdown.
"""

import tables
from pages import between_markers

MARKERS = "<!-- wgpu:start -->", "<!-- wgpu:end -->"
OURS, COMPOSED, BY_HAND, COPIES = "ternion-wgpu", "ternion-wgpu-composed", "ternion-wgpu-by-hand", "copy-wgpu"

# The bandwidth bar of the wgpu backend: the minimum fraction of the faster of two device-to-device
# copies measured in the same run.
LEAST_SHARE = 0.75
# Group -> the prefixes of its cases' names.
SHARES = {
    "elementwise": ("elementwise/",),
    "softmax, forward and backward": ("softmax/",),
    "layer_norm, forward and backward": ("layernorm/",),
    "cross_entropy, forward and backward": ("cross_entropy/",),
    "AdamW": ("adamw/",),
}
# The maximum difference of the test accuracies of two devices with one seed: sums are added in
# another order, and the difference grows with the steps.
SAME_ACCURACY = 0.002
# Case -> the minimum TFLOP/s.
RATES = {"gemm/f32/nn/4096": 42, "gemm/f16/nn/4096": 150}


def is_of_wgpu(lines):
    """Returns whether a results file is about the wgpu backend."""
    return any(line["run"].get("backend") == "wgpu" for line in lines if "run" in line)


def head(impl):
    """Returns the name of a column; None for what wgpu is not compared with."""
    backend, _, way = impl.partition("/")
    if backend == "ternion":
        return f"CUDA/{way}" if way else "CUDA"
    return {COPIES: "copy", COMPOSED: "composed", BY_HAND: "by hand", "copy": None}.get(impl, impl)


def rate_verdict(figures, case, least):
    figure = figures.get(case, OURS)
    return tables.verdict(case, tables.rate(figure) if figure else "", f"at least {least} TFLOP/s", figure["value"] >= least if figure else None)


def attention_verdict(figures, what, others):
    """Returns whether attention takes less time than the first of these others that was measured in
    a case, in all cases in which any was.
    """
    told = {case for _, case, impl in [*figures.found, *figures.errors] if case.startswith("attention/") and impl in (OURS, *others) and not case.endswith("attention/")}
    other = {case: next(filter(None, (figures.get(case, impl) for impl in others)), None) for case in told}
    ratios = {case: figures.get(case, OURS)["ms"] / other[case]["ms"] for case in told if figures.get(case, OURS) and other[case]}
    what, expected = f"attention: time over that of {what}, the largest", "below 1 at every size"
    if not ratios:
        return tables.verdict(what, "", expected, None)
    most = max(ratios, key=ratios.get)
    below = sum(ratio < 1 for ratio in ratios.values())
    missing = len(told) - len(ratios)
    measured = f"{ratios[most]:.2f} ({most}; {below} of {len(ratios)} are below 1{f', {missing} not measured' if missing else ''})"
    return tables.verdict(what, measured, expected, False if below < len(ratios) else None if missing else True)


def table_told(lines):
    last = lines[-1]
    if None in (last["cases"], last["passed"]):
        return "no summary", False
    without = [why for why in last["skipped"] if "64-bit floats" not in why and " f64: " not in why]
    count = sum(int(why.split()[0]) for why in last["skipped"] if why not in without)
    left_out = f"{count:,} left out, as WGSL has no f64{''.join(f'; {why}' for why in without)}"
    return f"{last['cases']:,} cases, {last['failed']} tests failed, {left_out}", last["failed"] == 0 and last["cases"] > 0 and not without


def training_told(lines):
    found = {line["check"]: line for line in lines}
    texts = [f"{line['test_accuracy']:.2%}, last loss {line['final_loss']:.4f} ({'CPU' if name == 'mnist_cpu' else 'wgpu'})" for name, line in found.items()]
    if len(found) < 2:
        return ", ".join(texts), None
    apart = abs(found["mnist"]["test_accuracy"] - found["mnist_cpu"]["test_accuracy"])
    return ", ".join(texts), apart <= SAME_ACCURACY and found["mnist"]["test_accuracy"] > 0.9


def check_verdicts(figures):
    yield tables.check_verdict(figures, ["table"], "op table on wgpu:0", "all pass", table_told)
    yield tables.check_verdict(figures, ["device"], "what the op table is too small for: windows, many tiles, many elements, long rows, the end of a process", "all pass", tables.device_told)
    yield tables.check_verdict(figures, ["mnist", "mnist_cpu"], "MNIST mlp, 3 epochs of one seed: test accuracy", f"the CPU's, within {SAME_ACCURACY:.1%}", training_told)


def summary(figures):
    lines = ["### What must hold on wgpu", "", tables.row(["what", "measured", "expected", "holds"]), "|---|---:|---:|---|"]
    rates = [rate_verdict(figures, case, least) for case, least in RATES.items()]
    shares = tables.share_verdicts(figures, SHARES, LEAST_SHARE)
    attention = [
        attention_verdict(figures, "its composition (where that was not measured: one by hand)", (COMPOSED, BY_HAND)),
        attention_verdict(figures, "one by hand, whose gradient keeps the weights of all heads", (BY_HAND,)),
    ]
    return [*lines, *rates, *shares, *attention, *check_verdicts(figures), ""]


def provenance(figures, adapter):
    """Returns what the figures were measured on, as a sentence."""
    header, versions = figures.header, figures.versions
    parts = [
        adapter.get("adapter", "unknown adapter"),
        f"times by {adapter.get('clock', 'an unknown clock')}",
        tables.torch_versions(versions) if versions else "no PyTorch",
        f"commit {header.get('commit', 'unknown')}",
        header.get("date", "unknown date"),
    ]
    return ", ".join(parts) + "."


def body(lines):
    """Returns all tables of a results file."""
    figures = tables.Figures(lines, OURS, COPIES)
    adapter = next((line for line in reversed(lines) if "adapter" in line), {})
    name = adapter.get("adapter", "an unknown adapter").split(",")[0]
    text = [f"### wgpu on {name}", "", provenance(figures, adapter), "", *summary(figures)]
    for family in figures.families():
        text += ["#" + line if line.startswith("### ") else line for line in tables.family_table(figures, family, "Ternion wgpu", head)]
    return "\n".join(text)


def page(text, lines):
    """Returns the page with these tables between their markers."""
    return between_markers(text, MARKERS, body(lines))
