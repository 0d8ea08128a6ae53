"""Renders the tables of compare.py: Markdown from the lines of results files."""

import re
import statistics

from pages import replace_between_markers, split_at_markers

MARKERS = START, END = "<!-- gpu:start -->", "<!-- gpu:end -->"

# Minimum bandwidth as a fraction of that of a device-to-device copy measured in the same run.
MIN_BANDWIDTH_FRACTION = 0.85
# Group of cases -> prefixes of the names of its cases.
BANDWIDTH_GROUPS = {
    "elementwise": ("elementwise/",),
    "sum": ("reduce/sum_all/", "reduce/sum_last/", "reduce/sum_first/"),
    "softmax, forward and backward": ("softmax/",),
    "layer_norm, forward and backward": ("layernorm/",),
    "transpose": ("layout/transpose/",),
    "cross_entropy, forward and backward": ("cross_entropy/",),
    "AdamW": ("adamw/",),
}
# Groups that torch_cases.py measures in only one dtype.
GROUP_DTYPES = {"cross_entropy, forward and backward": ("bf16",), "AdamW": ("f32",)}

# Cases that baselines do not have -> the case of the baselines that they are compared with.
BASELINE_CASES = {case: "train/gpt2_124m/bf16" for case in ("train/gpt2_124m_chunked/bf16", "train/gpt2_124m_logits/bf16")}

TITLES = {
    "start": "From process start to first result",
    "host": "Host time of an eager op",
    "train": "Training steps",
    "gemm": "Matrix products",
    "attention": "Attention",
    "conv": "Convolutions",
    "elementwise": "Elementwise",
    "reduce": "Reductions",
    "softmax": "Softmax",
    "layernorm": "Layer normalization",
    "layout": "Transposes",
    "cross_entropy": "Cross-entropy",
    "embedding": "Gradient of an embedding",
    "adamw": "AdamW",
}


class Measurements:
    """Medians of a results file by family, case and impl. `own_impl` is compared with all other
    impls; `copy_impl` names copies that move as many bytes as the case.
    """

    def __init__(self, lines, own_impl="ternion", copy_impl="copy"):
        self.own_impl, self.copy_impl = own_impl, copy_impl
        lines_by_key = {}
        for line in lines:
            if "ms" in line:
                lines_by_key.setdefault((line["family"], line["case"], line["impl"]), []).append(line)
        self.results = {
            key: dict(ms=statistics.median(line["ms"] for line in group), value=statistics.median(line["value"] for line in group), unit=group[-1]["unit"])
            for key, group in lines_by_key.items()
        }
        # Peak memory of training steps, over all rounds.
        self.peaks = {}
        for key, group in lines_by_key.items():
            if peaks := [line["peak_mib"] for line in group if "peak_mib" in line]:
                self.peaks[key] = max(peaks)
        # Numbers of kernels that cold starts compiled.
        self.compiled = {
            case: min(line["compiled"] for line in group if "compiled" in line)
            for (_, case, _), group in lines_by_key.items()
            if any("compiled" in line for line in group)
        }
        # Cold starts with CUDA's own kernel cache disabled.
        self.without_cuda_cache = {case for (_, case, _), group in lines_by_key.items() if all(line.get("cuda_cache") is False for line in group)}
        # Errors of cases without any measurement.
        self.errors = {
            (line["family"], line["case"], line["impl"]): line["error"]
            for line in lines
            if "error" in line and "family" in line and (line["family"], line["case"], line["impl"]) not in self.results
        }
        self.checks = {}
        for line in lines:
            if "check" in line:
                self.checks.setdefault(line["check"], []).append(line)
        self.header = next((line["run"] for line in reversed(lines) if "run" in line), {})
        self.versions = next((line["versions"] for line in reversed(lines) if "versions" in line), {})

    def families(self):
        present = {family for family, _, _ in [*self.results, *self.errors]}
        return [family for family in TITLES if family in present] + sorted(present - set(TITLES))

    def get(self, case, impl, family=None):
        """Returns the result of a case, in the given family or in any; None if it was not measured.
        """
        matches = (
            result
            for (key_family, key_case, key_impl), result in self.results.items()
            if (key_case, key_impl) == (case, impl) and family in (None, key_family)
        )
        return next(matches, None)

    def was_attempted(self, case):
        """Returns whether any variant of Ternion measured the case or failed."""
        return any(key_case == case and self.is_ours(impl) for _, key_case, impl in [*self.results, *self.errors])

    def is_ours(self, impl):
        return impl.split("/")[0] == self.own_impl

    def large_copy(self, family):
        return self.get("copy/d2d", self.own_impl, family)

    def copy_fraction(self, family, result):
        """Returns the bandwidth relative to that of the large copy measured with the family."""
        copy = self.large_copy(family)
        return result["value"] / copy["value"] if copy and result["unit"] == "GB/s" else None

    def equal_copy_fraction(self, family, case, result):
        """Returns the bandwidth relative to that of a copy of as many bytes as the case, measured
        directly after it.
        """
        copy = self.get(case, self.copy_impl, family)
        return result["value"] / copy["value"] if copy else None


def format_duration(milliseconds):
    if milliseconds < 0.1:
        return f"{milliseconds * 1e3:.2f} us"
    return f"{milliseconds:.3f} ms" if milliseconds < 100 else f"{milliseconds:.0f} ms"


def format_rate(result):
    if result["unit"] in ("us/op", "ms"):
        return ""
    digits = 1 if result["unit"] == "TFLOP/s" else 0
    return f"{result['value']:,.{digits}f} {result['unit']}"


def format_row(cells):
    return "| " + " | ".join(cells) + " |"


def format_comparison(ours, baseline):
    """Returns the baseline's time and the ratio of ours to it, bold if ours is longer."""
    if baseline is None:
        return ""
    if not baseline["ms"]:
        return format_rate(baseline)
    if ours is None:
        return format_duration(baseline["ms"])
    ratio = ours["ms"] / baseline["ms"]
    text = f"{ratio:.2f}"
    return f"{format_duration(baseline['ms'])} ({f'**{text}**' if float(text) > 1 else text})"


def family_table(measurements, family, name="Ternion", column_title=lambda impl: impl):
    """Returns a table with a row for each case and each variant of Ternion, whose column is titled
    `name`, and a column for each baseline for which `column_title` returns a title.
    """
    keys = [(case, impl) for key_family, case, impl in measurements.results if key_family == family]
    baselines = [impl for impl in dict.fromkeys(impl for _, impl in keys if not measurements.is_ours(impl)) if column_title(impl)]
    has_copy = measurements.large_copy(family) is not None
    columns = ["case", name, "rate", *(["of copy"] if has_copy else []), *map(column_title, baselines)]
    lines = [f"### {TITLES.get(family, family)}", "", format_row(columns), format_row(["---", *["---:"] * (len(columns) - 1)])]
    for case in dict.fromkeys(case for case, _ in keys):
        own_impls = [impl for key_case, impl in keys if key_case == case and measurements.is_ours(impl)] or [None]
        for impl in own_impls:
            lines.append(case_row(measurements, family, case, impl, baselines, has_copy, len(own_impls) > 1))
    errors = [f"- {case} {impl}: {error}".replace("\n", " ") for (key_family, case, impl), error in measurements.errors.items() if key_family == family]
    return [*lines, *([""] + errors if errors else []), "", *memory_table(measurements, family)]


def memory_table(measurements, family):
    """Returns a table of peak memory by case and impl; empty if none was measured."""
    peaks_by_key = {(case, impl): peak for (key_family, case, impl), peak in measurements.peaks.items() if key_family == family}
    if not peaks_by_key:
        return []
    impls = sorted(dict.fromkeys(impl for _, impl in peaks_by_key), key=lambda impl: not measurements.is_ours(impl))
    lines = [format_row(["most memory, MiB", *impls]), format_row(["---", *["---:"] * len(impls)])]
    for case in dict.fromkeys(case for case, _ in peaks_by_key):
        peaks = [peaks_by_key.get((case if measurements.is_ours(impl) else BASELINE_CASES.get(case, case), impl)) for impl in impls]
        lines.append(format_row([case, *("" if peak is None else f"{peak:,}" for peak in peaks)]))
    return [*lines, ""]


def case_row(measurements, family, case, impl, baselines, has_copy, show_impl):
    result = measurements.get(case, impl, family) if impl else None
    name = f"{case} ({impl.split('/')[1]})" if show_impl and "/" in impl else case
    time = "" if result is None or not result["ms"] else format_duration(result["ms"])
    fraction = measurements.copy_fraction(family, result) if result else None
    fraction_cells = [f"{fraction:.2f}" if fraction is not None else ""] if has_copy else []
    baseline_cells = [format_comparison(result, measurements.get(BASELINE_CASES.get(case, case), baseline, family)) for baseline in baselines]
    return format_row([name, time, format_rate(result) if result else "", *fraction_cells, *baseline_cells])


def verdict_row(label, measured, expected, holds):
    return format_row([label, measured, expected, {True: "yes", False: "**no**", None: "not measured"}[holds]])


def bandwidth_verdicts(measurements, groups=None, min_fraction=MIN_BANDWIDTH_FRACTION):
    for group, prefixes in (groups or BANDWIDTH_GROUPS).items():
        for dtype in GROUP_DTYPES.get(group, ("f32", "bf16")):
            own_results = [
                (family, case, result)
                for (family, case, impl), result in measurements.results.items()
                if impl == measurements.own_impl and case.startswith(prefixes) and dtype in case.split("/")
            ]
            large_fractions = {case: measurements.copy_fraction(family, result) for family, case, result in own_results}
            equal_fractions = {case: measurements.equal_copy_fraction(family, case, result) for family, case, result in own_results}
            for copy_label, fractions in (("a copy of 128 MiB", large_fractions), ("a copy of as many bytes", equal_fractions)):
                fractions = {case: fraction for case, fraction in fractions.items() if fraction is not None}
                label, expected = f"{group}, {dtype}: smallest fraction of the bandwidth of {copy_label}", f"at least {min_fraction}"
                if not fractions:
                    yield verdict_row(label, "", expected, None)
                    continue
                lowest = min(fractions, key=fractions.get)
                below_count = sum(fraction < min_fraction for fraction in fractions.values())
                measured = f"{fractions[lowest]:.3f} ({lowest}; {len(fractions) - below_count} of {len(fractions)} reach it)"
                yield verdict_row(label, measured, expected, below_count == 0)


# Thresholds for the rates of matrix products relative to cuBLAS: description -> dtypes and sizes in
# the names of the cases (no sizes: all), minimum rate, and minimum geometric mean of all rates
# except those of the layouts below.
MATMUL_THRESHOLDS = {
    "f16 and bf16 products": (("bf16", "f16"), (), 0.93, 1.02),
    "TF32 products of 2048 to 8192": (("tf32",), ("2048", "4096", "8192"), 0.97, None),
    "f32 products of 4096 and 8192": (("f32",), ("4096", "8192"), 1.9, None),
}
# The threshold for the mean was set before this layout was added. The layout is included in the
# minimum rate and in the verdict on layouts; in the mean it would give 4096 a double weight.
LAYOUTS_EXCLUDED_FROM_MEAN = ("tt",)
# Layouts that must be equally fast, and the maximum ratio of the slowest time to the fastest.
LAYOUTS, MAX_LAYOUT_RATIO = ("nn", "nt", "tn", "tt"), 1.05


def matmul_rates(measurements, dtypes, sizes):
    """Returns the rate relative to cuBLAS of each matrix product that both measured."""
    rates = {}
    for (_, case, impl), own in measurements.results.items():
        parts = case.split("/")
        if impl == "ternion" and parts[0] == "gemm" and parts[1] in dtypes and (not sizes or parts[-1] in sizes):
            baseline = measurements.get(case, "torch/cublas")
            if baseline:
                rates[case] = own["value"] / baseline["value"]
    return rates


def matmul_verdicts(measurements):
    for label, (dtypes, sizes, min_rate, min_mean) in MATMUL_THRESHOLDS.items():
        rates = matmul_rates(measurements, dtypes, sizes)
        lowest = min(rates, key=rates.get, default=None)
        measured = f"{rates[lowest]:.2f} ({lowest}; {len(rates)} cases)" if rates else ""
        yield verdict_row(f"{label}: least rate over cuBLAS", measured, f"at least {min_rate}", rates[lowest] >= min_rate if rates else None)
        if min_mean:
            rates_in_mean = [rate for case, rate in rates.items() if case.split("/")[2] not in LAYOUTS_EXCLUDED_FROM_MEAN]
            mean = statistics.geometric_mean(rates_in_mean) if rates_in_mean else None
            measured = f"{mean:.3f} ({len(rates_in_mean)} cases)" if rates_in_mean else ""
            yield verdict_row(f"{label}: geometric mean of rates over cuBLAS", measured, f"at least {min_mean}", mean >= min_mean if rates_in_mean else None)


def layout_verdict(measurements):
    """Returns the verdict on whether Ternion's matrix products are equally fast with each operand
    transposed or not.
    """
    times = {layout: result["ms"] for layout in LAYOUTS if (result := measurements.get(f"gemm/bf16/{layout}/4096", "ternion"))}
    label, expected = "bf16 products of 4096: time of the slowest of four layouts over that of the fastest", f"at most {MAX_LAYOUT_RATIO}"
    if len(times) < len(LAYOUTS):
        return verdict_row(label, "", expected, None)
    slowest, fastest = max(times, key=times.get), min(times, key=times.get)
    ratio = times[slowest] / times[fastest]
    return verdict_row(label, f"{ratio:.3f} ({slowest} over {fastest})", expected, ratio <= MAX_LAYOUT_RATIO)


# Thresholds for the rates of bf16 attention relative to cuDNN: direction -> its name, minimum rate
# and minimum geometric mean over ATTENTION_SHAPES.
ATTENTION_THRESHOLDS = {"fwd": ("forward", 0.93, 1.0), "bwd": ("backward", 0.92, 1.0)}
ATTENTION_SHAPES = [
    f"{head_dim}/{length}/{mask}" for head_dim in ("d64", "d128") for length in ("t512", "t1024", "t4096", "t16384") for mask in ("full", "causal")
]
WIDE_ATTENTION_CASE, MIN_WIDE_ATTENTION_RATE = "attention/fwd/bf16/d256/t4096/causal", 0.9


def attention_rate(measurements, case):
    """Returns the rate relative to cuDNN, if both were measured."""
    own, baseline = measurements.get(case, "ternion"), measurements.get(case, "torch/cudnn")
    return baseline["ms"] / own["ms"] if own and baseline else None


def attention_verdicts(measurements):
    for direction, (name, min_rate, min_mean) in ATTENTION_THRESHOLDS.items():
        cases = [f"attention/{direction}/bf16/{shape}" for shape in ATTENTION_SHAPES]
        rates = {case: rate for case in cases if (rate := attention_rate(measurements, case)) is not None}
        lowest = min(rates, key=rates.get, default=None)
        label = f"attention of bf16, {name}, heads of 64 and 128: "
        measured = f"{rates[lowest]:.3f} ({lowest}; {len(rates)} cases)" if rates else ""
        yield verdict_row(f"{label}least rate over cuDNN's", measured, f"at least {min_rate}", rates[lowest] >= min_rate if rates else None)
        mean = statistics.geometric_mean(rates.values()) if rates else None
        measured = f"{mean:.3f} ({len(rates)} cases)" if rates else ""
        yield verdict_row(f"{label}geometric mean of rates over cuDNN's", measured, f"at least {min_mean:.1f}", mean >= min_mean if rates else None)
    wide = attention_rate(measurements, WIDE_ATTENTION_CASE)
    measured = f"{wide:.2f}" if wide else ""
    holds = wide >= MIN_WIDE_ATTENTION_RATE if wide else None
    yield verdict_row(f"{WIDE_ATTENTION_CASE}: rate over cuDNN's", measured, f"at least {MIN_WIDE_ATTENTION_RATE}", holds)


def host_verdicts(measurements):
    """Yields the verdict on the time per op of a very long sequence of eager ops, from the first
    call until the last op has run, including device time.
    """
    ops = {case: result["value"] for (family, case, impl), result in measurements.results.items() if family == "host" and impl == "ternion"}
    label = "20,000 eager ops in a row until the last has run: the worst time over PyTorch's"
    ratios = {}
    for case in sorted(case for case in ops if case.endswith("_sustained")):
        if baseline := measurements.get(case, "torch"):
            ratios[case] = ops[case] / baseline["value"]
    if not ratios:
        yield verdict_row(label, "", "below 1", None)
        return
    worst, longest = max(ratios, key=ratios.get), max(ratios, key=ops.get)
    yield verdict_row(label, f"{ratios[worst]:.2f} ({worst}); the longest takes {ops[longest]:.2f} us ({longest})", "below 1", ratios[worst] < 1)


def mnist_training_verdict(measurements):
    case = "train/mnist_mlp/f32/b64"
    own, baseline = measurements.get(case, "ternion/graph"), measurements.get(case, "torch/graph")
    ratio = own["ms"] / baseline["ms"] if own and baseline else None
    measured = f"{ratio:.2f}" if ratio is not None else ""
    return verdict_row(f"{case} recorded: time over PyTorch's recorded", measured, "below 1", ratio < 1 if ratio is not None else None)


def training_rate(measurements, case, impl="ternion/graph"):
    """Returns the result of a training step, and the ratio of its rate to PyTorch's best."""
    result = measurements.get(case, impl)
    baseline_case = BASELINE_CASES.get(case, case)
    baseline_rates = [
        baseline["value"]
        for (_, key_case, key_impl), baseline in measurements.results.items()
        if key_case == baseline_case and key_impl.startswith("torch/")
    ]
    return result, result["value"] / max(baseline_rates) if result and baseline_rates else None


def training_verdicts(measurements):
    for case, min_ratio in (("train/tiny_gpt/bf16", 1.6), ("train/char_gpt/bf16", 1.25)):
        _, ratio = training_rate(measurements, case)
        measured = f"{ratio:.2f}" if ratio is not None else ""
        yield verdict_row(f"{case} recorded: rate over PyTorch's best", measured, f"at least {min_ratio}", ratio >= min_ratio if ratio is not None else None)
    for case, label in GPT2_VARIANTS:
        if case in GPT2_REQUIRED_CASES or measurements.was_attempted(case):
            yield from gpt2_verdicts(measurements, case, label)


# Variants of the GPT-2 training step: the case, and how it differs from the first one, whose loss
# is GPT::loss, with a gradient that overwrites the logits.
GPT2_VARIANTS = [
    ("train/gpt2_124m/bf16", ""),
    ("train/gpt2_124m_chunked/bf16", "logits of half of the tokens at a time"),
    ("train/gpt2_124m_logits/bf16", "all logits kept"),
    ("train/gpt2_50257/bf16", "vocabulary of 50,257"),
]
# Variants that are listed even if they were not measured.
GPT2_REQUIRED_CASES = ("train/gpt2_124m/bf16", "train/gpt2_124m_chunked/bf16")
MIN_GPT2_TOKENS_PER_SECOND, MAX_GPT2_GIB = 600_000, 8.5


def gpt2_verdicts(measurements, case, label):
    """Yields the verdicts on rate and memory of a variant; one step must meet both thresholds."""
    title = f"{case} recorded{f', {label}' if label else ''}"
    result, ratio = training_rate(measurements, case)
    measured = format_rate(result) + (f", {ratio:.2f} of PyTorch's best" if ratio is not None else "") if result else ""
    expected = f"at least {MIN_GPT2_TOKENS_PER_SECOND:,} tokens/s"
    yield verdict_row(title, measured, expected, result["value"] >= MIN_GPT2_TOKENS_PER_SECOND if result else None)
    peak = measurements.peaks.get(("train", case, "ternion/graph"))
    measured = f"{peak / 1024:.2f} GiB" if peak is not None else ""
    yield verdict_row(f"{title}: most memory", measured, f"at most {MAX_GPT2_GIB} GiB", peak <= MAX_GPT2_GIB * 1024 if peak is not None else None)


# Maximum time of the first GPT-2 steps if all kernels must be compiled, on a machine with 16 cores.
MAX_COLD_GPT2_SECONDS = 15
# Maximum time from process start to the first result with cached kernels, above that of a bare
# context.
MAX_WARM_START_MS = 250


def start_verdicts(measurements):
    warm, context = measurements.get("start/warm", "ternion"), measurements.get("start/context", "driver")
    overhead = warm["ms"] - context["ms"] if warm and context else None
    measured = f"{overhead:.0f} ms" if overhead is not None else ""
    holds = overhead <= MAX_WARM_START_MS if overhead is not None else None
    yield verdict_row("process start to first result, above a bare context, kernels on disk", measured, f"at most {MAX_WARM_START_MS} ms", holds)
    cold = measurements.get("start/cold_gpt2", "ternion")
    cores = measurements.header.get("cores")
    compiled = measurements.compiled.get("start/cold_gpt2")
    measured = f"{cold['ms'] / 1e3:.1f} s{f' on {cores} cores' if cores else ''}" if cold else ""
    measured += f", {compiled} kernels compiled" if compiled is not None else ""
    is_cold = "start/cold_gpt2" in measurements.without_cuda_cache
    measured += "; not cold: CUDA's own cache was not off" if cold and not is_cold else ""
    # A start that compiled nothing was not cold.
    holds = cold["ms"] <= MAX_COLD_GPT2_SECONDS * 1e3 and compiled != 0 if is_cold else None
    yield verdict_row("process start to GPT-2 124M's first steps, no kernel on disk", measured, f"at most {MAX_COLD_GPT2_SECONDS} s on 16 cores", holds)


def commit_note(measurements, line):
    """Returns a note with the commit of a check if it differs from that of the measurements."""
    commit = line.get("measured_on", {}).get("commit", "unknown")
    return "" if commit == measurements.header.get("commit") else f" (commit {commit})"


def check_verdict(measurements, names, label, expected, summarize):
    """Returns the row of a check. `summarize` returns a text for its lines, and whether they pass.
    """
    lines = [line for name in names for line in measurements.checks.get(name, [])]
    if not lines:
        return verdict_row(label, "", expected, None)
    errors = [line["error"] for line in lines if "error" in line]
    if errors:
        return verdict_row(label, errors[0].replace("|", "/")[:200], expected, False)
    measured, holds = summarize(lines)
    return verdict_row(label, measured + commit_note(measurements, lines[-1]), expected, holds)


def summarize_op_table(lines):
    last, fingerprints = lines[-1], {line["fingerprint"] for line in lines}
    if None in (last["cases"], last["passed"]):
        return "no summary", False
    is_reproducible = len(lines) >= 2 and len(fingerprints) == 1 and None not in fingerprints
    not_applicable = last.get("not_applicable", 0)
    if last["skipped"]:
        skipped = f"skipped {', '.join(last['skipped'])}"
    elif not_applicable:
        skipped = f"none skipped but {not_applicable:,} that have nothing fused to compare, or too many elements for second differences"
    else:
        skipped = "none skipped"
    by_dtype = ", ".join(f"{dtype} {count:,}" for dtype, count in last.get("dtypes", {}).items())
    cases = f"{last['cases']:,} cases{f' ({by_dtype})' if by_dtype else ''} in {last['passed']:,} tests"
    measured = f"{cases}, {last['failed']} failed, {skipped}; fingerprint {', '.join(map(str, sorted(fingerprints)))}"
    passes = is_reproducible and all(line["failed"] == 0 and line["cases"] and not line["skipped"] for line in lines)
    return f"{measured} in {len(lines)} runs", passes


def summarize_device_tests(lines):
    last = lines[-1]
    return f"{last['passed']} passed, {last['failed']} failed", bool(last["passed"]) and last["failed"] == 0


def summarize_repeats(lines):
    last = lines[-1]
    holds = bool(last["passed"]) and last["failed"] == 0 and last["cases"] > 0
    tests = f"{last['passed']} tests passed, {last['failed']} failed"
    return f"{last['cases']} cases, {last['repeats']:,} runs each: {tests}; fingerprint {last['fingerprint']}", holds


def summarize_sanitizer(lines):
    last = lines[-1]
    if None in (last.get("errors"), last.get("passed"), last.get("cases")):
        return "no summary", False
    holds = last["errors"] == 0 and last["failed"] == 0 and last["cases"] > 0
    return f"{last['errors']} errors in {last['cases']:,} cases of {last['passed']:,} tests", holds


def summarize_training(lines):
    texts = [
        f"{line['test_accuracy']:.1%} after a first step of {line['first_step_seconds']:.2f} s and {line['train_seconds']:.2f} s"
        f"{' recorded' if line['captured'] else ''}"
        for line in lines
    ]
    return ", ".join(texts), all(line["test_accuracy"] >= 0.97 and line["first_step_seconds"] + line["train_seconds"] < 2 for line in lines)


def summarize_memory(lines):
    last = lines[-1]
    has_grown = last["passed"] != 1 or last["failed"] != 0
    return f"{'growth' if has_grown else 'no growth'} in {last['eager']:,} eager and {last['replayed']:,} replayed", not has_grown


def check_verdicts(measurements):
    yield check_verdict(measurements, ["table"], "op table on cuda:0, twice", "all pass, bit-equal", summarize_op_table)
    label = "tests that only a CUDA device runs: recorded steps bit-equal to eager ones, faults, threads, every tile, rows of every length"
    yield check_verdict(measurements, ["device"], label, "all pass", summarize_device_tests)
    for name, delays in (("repeats", "without delays"), ("repeats_delayed", "with random delays where warps wait for each other")):
        label = f"1,000 runs of the kernels of products, attention, norms, loss, optimizer, sums by index and the ladders, {delays}"
        expected = "bit-equal, and to those without delays" if name == "repeats_delayed" else "bit-equal"
        yield check_verdict(measurements, [name], label, expected, summarize_repeats)
    for tool in ("memcheck", "initcheck", "synccheck", "racecheck"):
        kernels = "" if tool == "racecheck" else "; tests of products and attention with few sizes"
        label = f"compute-sanitizer {tool}, op table on its smallest shapes, forward and backward{kernels}"
        yield check_verdict(measurements, [tool], label, "no error", summarize_sanitizer)
    yield check_verdict(measurements, ["mnist", "mnist_captured"], "MNIST mlp: test accuracy, seconds of training", "97 % in less than 2 s", summarize_training)
    yield check_verdict(measurements, ["memory"], "training steps: memory of device, pool and host", "no growth", summarize_memory)


def verdict_table(measurements):
    lines = ["### What must hold", "", format_row(["what", "measured", "expected", "holds"]), "|---|---:|---:|---|"]
    return [
        *lines,
        *bandwidth_verdicts(measurements),
        *matmul_verdicts(measurements),
        layout_verdict(measurements),
        *attention_verdicts(measurements),
        *host_verdicts(measurements),
        mnist_training_verdict(measurements),
        *training_verdicts(measurements),
        *start_verdicts(measurements),
        *check_verdicts(measurements),
        "",
        "Cross-entropy is measured in bf16 and AdamW only in f32, as in the PyTorch script that these cases come from; "
        "compute-sanitizer's tools run the table without adversarial inputs, "
        "second-order gradients and comparisons with compositions, whose kernels are the same, and only memcheck runs what must be rejected. "
        "initcheck does not see what the tensor memory accelerator stores: "
        "under it the tests of products and attention, most of whose kernels store by it, run in memory filled with NaN, "
        "and what is read before it is written shows in their results.",
        "",
    ]


def format_torch_versions(versions):
    # cuDNN reports 9.19.0 as 91900.
    number = versions["cudnn"]
    cudnn = f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number else "none"
    return f"PyTorch {versions['torch']} with CUDA {versions['cuda']} and cuDNN {cudnn}"


def provenance(measurements):
    """Returns a sentence about the hardware, versions and commit of the measurements."""
    header, versions = measurements.header, measurements.versions
    parts = [
        header.get("device", "unknown device"),
        f"driver {header.get('driver', 'unknown')}",
        f"nvcc {header['nvcc']}" if header.get("nvcc") else "no nvcc",
        format_torch_versions(versions) if versions else "no PyTorch",
        f"commit {header.get('commit', 'unknown')}",
        header.get("date", "unknown date"),
    ]
    return ", ".join(parts) + "."


def render(lines):
    """Renders all tables of a results file."""
    measurements = Measurements(lines)
    tables = [line for family in measurements.families() for line in family_table(measurements, family)]
    return "\n".join([provenance(measurements), "", *verdict_table(measurements), *tables])


NOT_MEASURED = "| not measured |"


def parse_provenance(content):
    """Returns the device, driver and commit stated in a page's tables; None if there are none."""
    source = re.match(r"\n?(.+?), driver (\S+), .*commit (\w+)", content)
    return source and source.groups()


def keep_earlier_checks(new, old):
    """Returns the new tables, with the old rows of checks that were not run again, if device and
    driver are the same. Each such row states its commit.
    """
    new_source, old_source = parse_provenance(new), parse_provenance(old)
    if not new_source or not old_source or new_source[:2] != old_source[:2]:
        return new
    first_cell = lambda row: row[: row.index(" | ")]
    missing = {first_cell(row) for row in check_verdicts(Measurements([]))}
    earlier_rows = {first_cell(row): row for row in old.split("\n") if " | " in row and not row.endswith(NOT_MEASURED) and first_cell(row) in missing}
    rows = []
    for row in new.split("\n"):
        if row.endswith(NOT_MEASURED) and (earlier_row := earlier_rows.get(first_cell(row))):
            label, measured, *rest = earlier_row.split(" | ")
            row = " | ".join([label, measured if "(commit " in measured else f"{measured} (commit {old_source[2]})", *rest])
        rows.append(row)
    return "\n".join(rows)


def update_page(text, lines):
    """Returns the page with the tables between its markers. Rows of checks without results are
    kept.
    """
    _, old, _ = split_at_markers(text, MARKERS)
    return replace_between_markers(text, MARKERS, keep_earlier_checks(render(lines), old))


def update_check_rows(text, lines):
    """Returns the page with the rows of these checks replaced and everything else unchanged."""
    before, content, after = split_at_markers(text, MARKERS)
    source = parse_provenance(content)
    if not source:
        raise SystemExit("error: the page does not state the device, driver and commit of its tables: measured cases come first")
    device, driver, commit = source
    for run in (line["measured_on"] for line in lines if "measured_on" in line):
        matches = f"{run.get('device')}, driver {run.get('driver')}, backend {run.get('backend')}"
        if matches != (expected_source := f"{device}, driver {driver}, backend cuda"):
            raise SystemExit(f"error: checks of {matches}; expected {expected_source}, as in the page")
    measurements = Measurements(lines)
    measurements.header = {"commit": commit}
    rows = content.split("\n")
    for check_row in filter(lambda row: not row.endswith(NOT_MEASURED), check_verdicts(measurements)):
        label = check_row[: check_row.index(" | ") + 3]
        matches = [index for index, row in enumerate(rows) if row.startswith(label)]
        if len(matches) != 1:
            raise SystemExit(f"error: expected one row of {label.strip(' |')} in the page, found {len(matches)}")
        rows[matches[0]] = check_row
    return before + "\n".join(rows) + after
