"""Renders the tables of compare.py for the wgpu backend: Markdown from the lines of results files.
"""

import tables
from pages import replace_between_markers

MARKERS = "<!-- wgpu:start -->", "<!-- wgpu:end -->"
OWN_IMPL, COMPOSED_IMPL, MANUAL_IMPL, COPY_IMPL = "ternion-wgpu", "ternion-wgpu-composed", "ternion-wgpu-by-hand", "copy-wgpu"

# Minimum bandwidth as a fraction of that of the faster of two device-to-device copies measured in
# the same run.
MIN_BANDWIDTH_FRACTION = 0.75
# Group of cases -> prefixes of the names of its cases.
BANDWIDTH_GROUPS = {
    "elementwise": ("elementwise/",),
    "softmax, forward and backward": ("softmax/",),
    "layer_norm, forward and backward": ("layernorm/",),
    "cross_entropy, forward and backward": ("cross_entropy/",),
    "AdamW": ("adamw/",),
}
# Maximum difference of the test accuracies of two devices with the same seed. The order of sums
# differs, and the difference grows with the number of steps.
MAX_ACCURACY_DIFFERENCE = 0.002
# Matrix product case -> minimum TFLOP/s.
MIN_MATMUL_TFLOPS = {"gemm/f32/nn/4096": 42, "gemm/f16/nn/4096": 150}


def has_wgpu_results(lines):
    """Returns whether a results file was measured for the wgpu backend."""
    return any(line["run"].get("backend") == "wgpu" for line in lines if "run" in line)


def column_title(impl):
    """Returns the title of an impl's column; None for impls that wgpu is not compared with."""
    backend, _, variant = impl.partition("/")
    if backend == "ternion":
        return f"CUDA/{variant}" if variant else "CUDA"
    return {COPY_IMPL: "copy", COMPOSED_IMPL: "composed", MANUAL_IMPL: "by hand", "copy": None}.get(impl, impl)


def matmul_verdict(measurements, case, min_tflops):
    result = measurements.get(case, OWN_IMPL)
    measured = tables.format_rate(result) if result else ""
    return tables.verdict_row(case, measured, f"at least {min_tflops} TFLOP/s", result["value"] >= min_tflops if result else None)


def attention_verdict(measurements, label, baseline_impls):
    """Returns the verdict on whether attention is faster than its baseline in all cases. The
    baseline of a case is the first of `baseline_impls` that was measured.
    """
    cases = {
        case
        for _, case, impl in [*measurements.results, *measurements.errors]
        if case.startswith("attention/") and impl in (OWN_IMPL, *baseline_impls) and not case.endswith("attention/")
    }
    baselines = {case: next(filter(None, (measurements.get(case, impl) for impl in baseline_impls)), None) for case in cases}
    ratios = {case: measurements.get(case, OWN_IMPL)["ms"] / baselines[case]["ms"] for case in cases if measurements.get(case, OWN_IMPL) and baselines[case]}
    label, expected = f"attention: time over that of {label}, the largest", "below 1 at every size"
    if not ratios:
        return tables.verdict_row(label, "", expected, None)
    worst = max(ratios, key=ratios.get)
    below_count = sum(ratio < 1 for ratio in ratios.values())
    missing_count = len(cases) - len(ratios)
    measured = f"{ratios[worst]:.2f} ({worst}; {below_count} of {len(ratios)} are below 1{f', {missing_count} not measured' if missing_count else ''})"
    return tables.verdict_row(label, measured, expected, False if below_count < len(ratios) else None if missing_count else True)


def summarize_op_table(lines):
    last = lines[-1]
    if None in (last["cases"], last["passed"]):
        return "no summary", False
    other_reasons = [reason for reason in last["skipped"] if "64-bit floats" not in reason and " f64: " not in reason]
    f64_count = sum(int(reason.split()[0]) for reason in last["skipped"] if reason not in other_reasons)
    left_out = f"{f64_count:,} left out, as WGSL has no f64{''.join(f'; {reason}' for reason in other_reasons)}"
    return f"{last['cases']:,} cases, {last['failed']} tests failed, {left_out}", last["failed"] == 0 and last["cases"] > 0 and not other_reasons


def summarize_training(lines):
    lines_by_check = {line["check"]: line for line in lines}
    texts = [
        f"{line['test_accuracy']:.2%}, last loss {line['final_loss']:.4f} ({'CPU' if name == 'mnist_cpu' else 'wgpu'})"
        for name, line in lines_by_check.items()
    ]
    if len(lines_by_check) < 2:
        return ", ".join(texts), None
    difference = abs(lines_by_check["mnist"]["test_accuracy"] - lines_by_check["mnist_cpu"]["test_accuracy"])
    return ", ".join(texts), difference <= MAX_ACCURACY_DIFFERENCE and lines_by_check["mnist"]["test_accuracy"] > 0.9


def check_verdicts(measurements):
    yield tables.check_verdict(measurements, ["table"], "op table on wgpu:0", "all pass", summarize_op_table)
    label = "what the op table is too small for: windows, many tiles, many elements, long rows, the end of a process"
    yield tables.check_verdict(measurements, ["device"], label, "all pass", tables.summarize_device_tests)
    label, expected = "MNIST mlp, 3 epochs of one seed: test accuracy", f"the CPU's, within {MAX_ACCURACY_DIFFERENCE:.1%}"
    yield tables.check_verdict(measurements, ["mnist", "mnist_cpu"], label, expected, summarize_training)


def verdict_table(measurements):
    lines = ["### What must hold on wgpu", "", tables.format_row(["what", "measured", "expected", "holds"]), "|---|---:|---:|---|"]
    rates = [matmul_verdict(measurements, case, min_tflops) for case, min_tflops in MIN_MATMUL_TFLOPS.items()]
    bandwidths = tables.bandwidth_verdicts(measurements, BANDWIDTH_GROUPS, MIN_BANDWIDTH_FRACTION)
    attention = [
        attention_verdict(measurements, "its composition (where that was not measured: one by hand)", (COMPOSED_IMPL, MANUAL_IMPL)),
        attention_verdict(measurements, "one by hand, whose gradient keeps the weights of all heads", (MANUAL_IMPL,)),
    ]
    return [*lines, *rates, *bandwidths, *attention, *check_verdicts(measurements), ""]


def provenance(measurements, adapter):
    """Returns a sentence about the adapter, clock, versions and commit of the measurements."""
    header, versions = measurements.header, measurements.versions
    parts = [
        adapter.get("adapter", "unknown adapter"),
        f"times by {adapter.get('clock', 'an unknown clock')}",
        tables.format_torch_versions(versions) if versions else "no PyTorch",
        f"commit {header.get('commit', 'unknown')}",
        header.get("date", "unknown date"),
    ]
    return ", ".join(parts) + "."


def render(lines):
    """Renders all tables of a results file."""
    measurements = tables.Measurements(lines, OWN_IMPL, COPY_IMPL)
    adapter = next((line for line in reversed(lines) if "adapter" in line), {})
    adapter_name = adapter.get("adapter", "an unknown adapter").split(",")[0]
    text = [f"### wgpu on {adapter_name}", "", provenance(measurements, adapter), "", *verdict_table(measurements)]
    for family in measurements.families():
        text += ["#" + line if line.startswith("### ") else line for line in tables.family_table(measurements, family, "Ternion wgpu", column_title)]
    return "\n".join(text)


def update_page(text, lines):
    """Returns the page with the wgpu tables between their markers."""
    return replace_between_markers(text, MARKERS, render(lines))
