"""Writes the tables of compare.py: reads lines of results, returns Markdown."""

import re
import statistics

from pages import between_markers, parts_between

MARKERS = START, END = "<!-- gpu:start -->", "<!-- gpu:end -->"

# Ternion's bandwidth bar: the minimum fraction of a device-to-device copy measured in the same run.
LEAST_SHARE = 0.85
# Group -> the prefixes of its cases' names.
SHARES = {
    "elementwise": ("elementwise/",),
    "sum": ("reduce/sum_all/", "reduce/sum_last/", "reduce/sum_first/"),
    "softmax, forward and backward": ("softmax/",),
    "layer_norm, forward and backward": ("layernorm/",),
    "transpose": ("layout/transpose/",),
    "cross_entropy, forward and backward": ("cross_entropy/",),
    "AdamW": ("adamw/",),
}
# Cases that torch_cases.py has in only one dtype.
DTYPES_OF = {"cross_entropy, forward and backward": ("bf16",), "AdamW": ("f32",)}

# Cases for which peers have only another case: theirs are shown next to ours.
PEER_CASES = {case: "train/gpt2_124m/bf16" for case in ("train/gpt2_124m_chunked/bf16", "train/gpt2_124m_logits/bf16")}

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


class Figures:
    """Medians of a results file by family, case and impl. `ours` is what is compared with the
    others, `copies` its copies of as many bytes.
    """

    def __init__(self, lines, ours="ternion", copies="copy"):
        self.ours, self.copies = ours, copies
        found = {}
        for line in lines:
            if "ms" in line:
                found.setdefault((line["family"], line["case"], line["impl"]), []).append(line)
        self.found = {
            key: dict(ms=statistics.median(one["ms"] for one in ones), value=statistics.median(one["value"] for one in ones), unit=ones[-1]["unit"])
            for key, ones in found.items()
        }
        # The peak memory of a training step, over all rounds.
        self.peaks = {}
        for key, ones in found.items():
            if peaks := [one["peak_mib"] for one in ones if "peak_mib" in one]:
                self.peaks[key] = max(peaks)
        # Kernels that a cold start compiled.
        self.compiled = {case: min(line["compiled"] for line in ones if "compiled" in line) for (_, case, _), ones in found.items() if any("compiled" in line for line in ones)}
        # Cold starts that also went without CUDA's own cache of kernels.
        self.without_cuda_cache = {case for (_, case, _), ones in found.items() if all(line.get("cuda_cache") is False for line in ones)}
        # An error is reported only if nothing was measured later.
        self.errors = {
            (line["family"], line["case"], line["impl"]): line["error"]
            for line in lines
            if "error" in line and "family" in line and (line["family"], line["case"], line["impl"]) not in self.found
        }
        self.checks = {}
        for line in lines:
            if "check" in line:
                self.checks.setdefault(line["check"], []).append(line)
        self.header = next((line["run"] for line in reversed(lines) if "run" in line), {})
        self.versions = next((line["versions"] for line in reversed(lines) if "versions" in line), {})

    def families(self):
        shown = {family for family, _, _ in [*self.found, *self.errors]}
        return [family for family in TITLES if family in shown] + sorted(shown - set(TITLES))

    def get(self, case, impl, family=None):
        """Returns the figures of a case, from any family or from one; None if it was not measured.
        """
        return next((figure for (where, what, how), figure in self.found.items() if (what, how) == (case, impl) and family in (None, where)), None)

    def was_asked(self, case):
        """Returns whether a case of ours was measured in some way, or failed."""
        return any(what == case and self.is_ours(impl) for _, what, impl in [*self.found, *self.errors])

    def is_ours(self, impl):
        return impl.split("/")[0] == self.ours

    def copy(self, family):
        return self.get("copy/d2d", self.ours, family)

    def share(self, family, figure):
        """Returns the fraction of the bandwidth of a copy that was measured with that family."""
        copy = self.copy(family)
        return figure["value"] / copy["value"] if copy and figure["unit"] == "GB/s" else None

    def share_of_equal(self, family, case, figure):
        """Returns the fraction of the bandwidth of a copy that moves as many bytes as the case,
        measured directly after it.
        """
        copy = self.get(case, self.copies, family)
        return figure["value"] / copy["value"] if copy else None


def duration(milliseconds):
    if milliseconds < 0.1:
        return f"{milliseconds * 1e3:.2f} us"
    return f"{milliseconds:.3f} ms" if milliseconds < 100 else f"{milliseconds:.0f} ms"


def rate(figure):
    if figure["unit"] in ("us/op", "ms"):
        return ""
    digits = 1 if figure["unit"] == "TFLOP/s" else 0
    return f"{figure['value']:,.{digits}f} {figure['unit']}"


def row(cells):
    return "| " + " | ".join(cells) + " |"


def beside(ours, other):
    """Returns the other's time, and ours divided by it; bold if ours is longer."""
    if other is None:
        return ""
    if not other["ms"]:
        return rate(other)
    if ours is None:
        return duration(other["ms"])
    ratio = ours["ms"] / other["ms"]
    text = f"{ratio:.2f}"
    return f"{duration(other['ms'])} ({f'**{text}**' if float(text) > 1 else text})"


def family_table(figures, family, name="Ternion", heads=lambda impl: impl):
    """Returns a row for each case and each way in which Ternion, called `name`, ran it, and a
    column for each peer for which `heads` returns a head.
    """
    here = [(case, impl) for where, case, impl in figures.found if where == family]
    peers = [impl for impl in dict.fromkeys(impl for _, impl in here if not figures.is_ours(impl)) if heads(impl)]
    with_share = figures.copy(family) is not None
    head = ["case", name, "rate", *(["of copy"] if with_share else []), *map(heads, peers)]
    lines = [f"### {TITLES.get(family, family)}", "", row(head), row(["---", *["---:"] * (len(head) - 1)])]
    for case in dict.fromkeys(case for case, _ in here):
        ours = [impl for what, impl in here if what == case and figures.is_ours(impl)] or [None]
        for impl in ours:
            lines.append(case_row(figures, family, case, impl, peers, with_share, len(ours) > 1))
    errors = [f"- {case} {impl}: {error}".replace("\n", " ") for (where, case, impl), error in figures.errors.items() if where == family]
    return [*lines, *([""] + errors if errors else []), "", *memory_table(figures, family)]


def memory_table(figures, family):
    """Returns the peak memory of each case in each way, if it was measured."""
    here = {(case, impl): peak for (where, case, impl), peak in figures.peaks.items() if where == family}
    if not here:
        return []
    impls = sorted(dict.fromkeys(impl for _, impl in here), key=lambda impl: not figures.is_ours(impl))
    lines = [row(["most memory, MiB", *impls]), row(["---", *["---:"] * len(impls)])]
    for case in dict.fromkeys(case for case, _ in here):
        peaks = [here.get((case if figures.is_ours(impl) else PEER_CASES.get(case, case), impl)) for impl in impls]
        lines.append(row([case, *("" if peak is None else f"{peak:,}" for peak in peaks)]))
    return [*lines, ""]


def case_row(figures, family, case, impl, peers, with_share, tell_impl):
    figure = figures.get(case, impl, family) if impl else None
    name = f"{case} ({impl.split('/')[1]})" if tell_impl and "/" in impl else case
    time = "" if figure is None or not figure["ms"] else duration(figure["ms"])
    share = figures.share(family, figure) if figure else None
    shares = [f"{share:.2f}" if share is not None else ""] if with_share else []
    others = [beside(figure, figures.get(PEER_CASES.get(case, case), peer, family)) for peer in peers]
    return row([name, time, rate(figure) if figure else "", *shares, *others])


def verdict(what, measured, expected, holds):
    return row([what, measured, expected, {True: "yes", False: "**no**", None: "not measured"}[holds]])


def share_verdicts(figures, groups=None, least_share=LEAST_SHARE):
    for group, prefixes in (groups or SHARES).items():
        for dtype in DTYPES_OF.get(group, ("f32", "bf16")):
            ours = [
                (family, case, figure)
                for (family, case, impl), figure in figures.found.items()
                if impl == figures.ours and case.startswith(prefixes) and dtype in case.split("/")
            ]
            of_large = {case: figures.share(family, figure) for family, case, figure in ours}
            of_equal = {case: figures.share_of_equal(family, case, figure) for family, case, figure in ours}
            for what, shares in (("a copy of 128 MiB", of_large), ("a copy of as many bytes", of_equal)):
                shares = {case: share for case, share in shares.items() if share is not None}
                name, expected = f"{group}, {dtype}: smallest fraction of the bandwidth of {what}", f"at least {least_share}"
                if not shares:
                    yield verdict(name, "", expected, None)
                    continue
                least = min(shares, key=shares.get)
                below = sum(share < least_share for share in shares.values())
                yield verdict(name, f"{shares[least]:.3f} ({least}; {len(shares) - below} of {len(shares)} reach it)", expected, below == 0)


# Bars for the rates of products relative to cuBLAS: the description -> parts of the names of such
# cases (the dtype, and sizes if not all), the minimum rate, and the minimum geometric mean of all
# rates except those of the layouts below.
PRODUCT_BARS = {
    "f16 and bf16 products": (("bf16", "f16"), (), 0.93, 1.02),
    "TF32 products of 2048 to 8192": (("tf32",), ("2048", "4096", "8192"), 0.97, None),
    "f32 products of 4096 and 8192": (("f32",), ("4096", "8192"), 1.9, None),
}
# The bar of the mean was set for the cases that existed before this layout. The layout counts for
# the minimum rate and for the verdict on layouts; in the mean it would only count 4096 a second
# time.
LAYOUTS_OUT_OF_MEANS = ("tt",)
# Layouts that must take equally long: the slowest at most this many times as long as the fastest.
LAYOUTS, LAYOUTS_APART = ("nn", "nt", "tn", "tt"), 1.05


def product_rates(figures, dtypes, sizes):
    """Returns the rate relative to cuBLAS of each product case that both have."""
    rates = {}
    for (_, case, impl), ours in figures.found.items():
        parts = case.split("/")
        if impl == "ternion" and parts[0] == "gemm" and parts[1] in dtypes and (not sizes or parts[-1] in sizes):
            theirs = figures.get(case, "torch/cublas")
            if theirs:
                rates[case] = ours["value"] / theirs["value"]
    return rates


def product_verdicts(figures):
    for what, (dtypes, sizes, least, mean) in PRODUCT_BARS.items():
        rates = product_rates(figures, dtypes, sizes)
        lowest = min(rates, key=rates.get, default=None)
        measured = f"{rates[lowest]:.2f} ({lowest}; {len(rates)} cases)" if rates else ""
        yield verdict(f"{what}: least rate over cuBLAS", measured, f"at least {least}", rates[lowest] >= least if rates else None)
        if mean:
            of_mean = [rate for case, rate in rates.items() if case.split("/")[2] not in LAYOUTS_OUT_OF_MEANS]
            found = statistics.geometric_mean(of_mean) if of_mean else None
            shown = f"{found:.3f} ({len(of_mean)} cases)" if of_mean else ""
            yield verdict(f"{what}: geometric mean of rates over cuBLAS", shown, f"at least {mean}", found >= mean if of_mean else None)


def layout_verdict(figures):
    """Returns whether a product takes equally long whichever of its operands is transposed, in
    Ternion's own times.
    """
    times = {layout: figure["ms"] for layout in LAYOUTS if (figure := figures.get(f"gemm/bf16/{layout}/4096", "ternion"))}
    what, expected = "bf16 products of 4096: time of the slowest of four layouts over that of the fastest", f"at most {LAYOUTS_APART}"
    if len(times) < len(LAYOUTS):
        return verdict(what, "", expected, None)
    slowest, fastest = max(times, key=times.get), min(times, key=times.get)
    ratio = times[slowest] / times[fastest]
    return verdict(what, f"{ratio:.3f} ({slowest} over {fastest})", expected, ratio <= LAYOUTS_APART)


# Bars for the rates of bf16 attention relative to cuDNN: the direction, for head_dim 64 and 128 and
# these lengths, full and causal -> the minimum rate, and the minimum geometric mean.
ATTENTION_BARS = {"fwd": ("forward", 0.93, 1.0), "bwd": ("backward", 0.92, 1.0)}
ATTENTION_SHAPES = [f"{width}/{length}/{seen}" for width in ("d64", "d128") for length in ("t512", "t1024", "t4096", "t16384") for seen in ("full", "causal")]
WIDE_ATTENTION, WIDE_LEAST = "attention/fwd/bf16/d256/t4096/causal", 0.9


def attention_rate(figures, case):
    """Returns the rate relative to cuDNN, if both were measured."""
    ours, theirs = figures.get(case, "ternion"), figures.get(case, "torch/cudnn")
    return theirs["ms"] / ours["ms"] if ours and theirs else None


def attention_verdicts(figures):
    for direction, (name, least, mean) in ATTENTION_BARS.items():
        cases = [f"attention/{direction}/bf16/{shape}" for shape in ATTENTION_SHAPES]
        rates = {case: rate for case in cases if (rate := attention_rate(figures, case)) is not None}
        lowest = min(rates, key=rates.get, default=None)
        what = f"attention of bf16, {name}, heads of 64 and 128: "
        shown = f"{rates[lowest]:.3f} ({lowest}; {len(rates)} cases)" if rates else ""
        yield verdict(f"{what}least rate over cuDNN's", shown, f"at least {least}", rates[lowest] >= least if rates else None)
        found = statistics.geometric_mean(rates.values()) if rates else None
        shown = f"{found:.3f} ({len(rates)} cases)" if rates else ""
        yield verdict(f"{what}geometric mean of rates over cuDNN's", shown, f"at least {mean:.1f}", found >= mean if rates else None)
    wide = attention_rate(figures, WIDE_ATTENTION)
    yield verdict(f"{WIDE_ATTENTION}: rate over cuDNN's", f"{wide:.2f}" if wide else "", f"at least {WIDE_LEAST}", wide >= WIDE_LEAST if wide else None)


def host_verdicts(figures):
    """Returns how long a program waits when it queues an op; and the time per op of a very long
    sequence until the last has run, including the device's own time.
    """
    ops = {case: figure["value"] for (family, case, impl), figure in figures.found.items() if family == "host" and impl == "ternion"}
    what = "20,000 eager ops in a row until the last has run: the worst time over PyTorch's"
    ratios = {}
    for case in sorted(case for case in ops if case.endswith("_sustained")):
        if theirs := figures.get(case, "torch"):
            ratios[case] = ops[case] / theirs["value"]
    if not ratios:
        yield verdict(what, "", "below 1", None)
        return
    worst, longest = max(ratios, key=ratios.get), max(ratios, key=ops.get)
    yield verdict(what, f"{ratios[worst]:.2f} ({worst}); the longest takes {ops[longest]:.2f} us ({longest})", "below 1", ratios[worst] < 1)


def train_verdict(figures):
    case = "train/mnist_mlp/f32/b64"
    ours, theirs = figures.get(case, "ternion/graph"), figures.get(case, "torch/graph")
    ratio = ours["ms"] / theirs["ms"] if ours and theirs else None
    measured = f"{ratio:.2f}" if ratio is not None else ""
    return verdict(f"{case} recorded: time over PyTorch's recorded", measured, "below 1", ratio < 1 if ratio is not None else None)


def rate_of_training(figures, case, ours="ternion/graph"):
    """Returns a recorded step's rate, and its ratio to PyTorch's best."""
    figure = figures.get(case, ours)
    theirs = PEER_CASES.get(case, case)
    peers = [other["value"] for (_, what, impl), other in figures.found.items() if what == theirs and impl.startswith("torch/")]
    return figure, figure["value"] / max(peers) if figure and peers else None


def training_verdicts(figures):
    for case, least in (("train/tiny_gpt/bf16", 1.6), ("train/char_gpt/bf16", 1.25)):
        _, ratio = rate_of_training(figures, case)
        shown = f"{ratio:.2f}" if ratio is not None else ""
        yield verdict(f"{case} recorded: rate over PyTorch's best", shown, f"at least {least}", ratio >= least if ratio is not None else None)
    for case, label in GPT2_FORMS:
        if case in GPT2_ALWAYS or figures.was_asked(case):
            yield from gpt2_verdicts(figures, case, label)


# Variants of GPT-2's step: the case, and its difference. The loss of the first one is GPT::loss,
# whose gradient overwrites the logits.
GPT2_FORMS = [
    ("train/gpt2_124m/bf16", ""),
    ("train/gpt2_124m_chunked/bf16", "logits of half of the tokens at a time"),
    ("train/gpt2_124m_logits/bf16", "all logits kept"),
    ("train/gpt2_50257/bf16", "vocabulary of 50,257"),
]
# Variants that have rows even if they were not measured.
GPT2_ALWAYS = ("train/gpt2_124m/bf16", "train/gpt2_124m_chunked/bf16")
GPT2_TOKENS_PER_SECOND, GPT2_GIB = 600_000, 8.5


def gpt2_verdicts(figures, case, label):
    """Returns the rate and the memory of one variant: both bars must hold for the same step."""
    what = f"{case} recorded{f', {label}' if label else ''}"
    figure, ratio = rate_of_training(figures, case)
    shown = rate(figure) + (f", {ratio:.2f} of PyTorch's best" if ratio is not None else "") if figure else ""
    expected = f"at least {GPT2_TOKENS_PER_SECOND:,} tokens/s"
    yield verdict(what, shown, expected, figure["value"] >= GPT2_TOKENS_PER_SECOND if figure else None)
    peak = figures.peaks.get(("train", case, "ternion/graph"))
    shown = f"{peak / 1024:.2f} GiB" if peak is not None else ""
    yield verdict(f"{what}: most memory", shown, f"at most {GPT2_GIB} GiB", peak <= GPT2_GIB * 1024 if peak is not None else None)


# The maximum time of the first steps of a GPT-2 if every kernel must be compiled, on a machine with
# 16 cores.
COLD_GPT2_SECONDS = 15


def start_verdicts(figures):
    result, context = figures.get("start/warm", "ternion"), figures.get("start/context", "driver")
    more = result["ms"] - context["ms"] if result and context else None
    measured = f"{more:.0f} ms" if more is not None else ""
    yield verdict("process start to first result, above a bare context, kernels on disk", measured, "at most 250 ms", more <= 250 if more is not None else None)
    cold = figures.get("start/cold_gpt2", "ternion")
    cores = figures.header.get("cores")
    compiled = figures.compiled.get("start/cold_gpt2")
    measured = f"{cold['ms'] / 1e3:.1f} s{f' on {cores} cores' if cores else ''}" if cold else ""
    measured += f", {compiled} kernels compiled" if compiled is not None else ""
    is_cold = "start/cold_gpt2" in figures.without_cuda_cache
    measured += "; not cold: CUDA's own cache was not off" if cold and not is_cold else ""
    # If nothing was compiled, the start was not cold.
    holds = cold["ms"] <= COLD_GPT2_SECONDS * 1e3 and compiled != 0 if is_cold else None
    yield verdict("process start to GPT-2 124M's first steps, no kernel on disk", measured, f"at most {COLD_GPT2_SECONDS} s on 16 cores", holds)


def where_checked(figures, line):
    """Returns the commit of a check, if it differs from that of the figures."""
    commit = line.get("of", {}).get("commit", "unknown")
    return "" if commit == figures.header.get("commit") else f" (commit {commit})"


def check_verdict(figures, names, what, expected, tell):
    """Returns a row of a check: `tell` returns the text for its lines, and whether they pass."""
    lines = [line for name in names for line in figures.checks.get(name, [])]
    if not lines:
        return verdict(what, "", expected, None)
    errors = [line["error"] for line in lines if "error" in line]
    if errors:
        return verdict(what, errors[0].replace("|", "/")[:200], expected, False)
    measured, holds = tell(lines)
    return verdict(what, measured + where_checked(figures, lines[-1]), expected, holds)


def table_told(lines):
    last, prints = lines[-1], {line["fingerprint"] for line in lines}
    if None in (last["cases"], last["passed"]):
        return "no summary", False
    same = len(lines) >= 2 and len(prints) == 1 and None not in prints
    beside = last.get("beside_the_point", 0)
    none = f"none skipped but {beside:,} that have nothing fused to compare, or too many elements for second differences" if beside else "none skipped"
    skipped = f"skipped {', '.join(last['skipped'])}" if last["skipped"] else none
    by_dtype = ", ".join(f"{dtype} {count:,}" for dtype, count in last.get("dtypes", {}).items())
    measured = f"{last['cases']:,} cases{f' ({by_dtype})' if by_dtype else ''} in {last['passed']:,} tests, {last['failed']} failed, {skipped}; fingerprint {', '.join(map(str, sorted(prints)))}"
    return f"{measured} in {len(lines)} runs", same and all(line["failed"] == 0 and line["cases"] and not line["skipped"] for line in lines)


def device_told(lines):
    last = lines[-1]
    return f"{last['passed']} passed, {last['failed']} failed", bool(last["passed"]) and last["failed"] == 0


def repeats_told(lines):
    last = lines[-1]
    holds = bool(last["passed"]) and last["failed"] == 0 and last["cases"] > 0
    return f"{last['cases']} cases, {last['repeats']:,} runs each: {last['passed']} tests passed, {last['failed']} failed; fingerprint {last['fingerprint']}", holds


def sanitizer_told(lines):
    last = lines[-1]
    if None in (last.get("errors"), last.get("passed"), last.get("cases")):
        return "no summary", False
    holds = last["errors"] == 0 and last["failed"] == 0 and last["cases"] > 0
    return f"{last['errors']} errors in {last['cases']:,} cases of {last['passed']:,} tests", holds


def training_told(lines):
    texts = [
        f"{line['test_accuracy']:.1%} after a first step of {line['first_step_seconds']:.2f} s and {line['train_seconds']:.2f} s"
        f"{' recorded' if line['captured'] else ''}"
        for line in lines
    ]
    return ", ".join(texts), all(line["test_accuracy"] >= 0.97 and line["first_step_seconds"] + line["train_seconds"] < 2 for line in lines)


def memory_told(lines):
    last = lines[-1]
    grows = last["passed"] != 1 or last["failed"] != 0
    return f"{'growth' if grows else 'no growth'} in {last['eager']:,} eager and {last['replayed']:,} replayed", not grows


def check_verdicts(figures):
    yield check_verdict(figures, ["table"], "op table on cuda:0, twice", "all pass, bit-equal", table_told)
    what = "tests that only a CUDA device runs: recorded steps bit-equal to eager ones, faults, threads, every tile, rows of every length"
    yield check_verdict(figures, ["device"], what, "all pass", device_told)
    for name, delays in (("repeats", "without delays"), ("repeats_delayed", "with random delays where warps wait for each other")):
        what = f"1,000 runs of the kernels of products, attention, norms, loss, optimizer, sums by index and the ladders, {delays}"
        yield check_verdict(figures, [name], what, "bit-equal, and to those without delays" if name == "repeats_delayed" else "bit-equal", repeats_told)
    for tool in ("memcheck", "initcheck", "synccheck", "racecheck"):
        kernels = "" if tool == "racecheck" else "; tests of products and attention with few sizes"
        what = f"compute-sanitizer {tool}, op table on its smallest shapes, forward and backward{kernels}"
        yield check_verdict(figures, [tool], what, "no error", sanitizer_told)
    yield check_verdict(figures, ["mnist", "mnist_captured"], "MNIST mlp: test accuracy, seconds of training", "97 % in less than 2 s", training_told)
    yield check_verdict(figures, ["memory"], "training steps: memory of device, pool and host", "no growth", memory_told)


def summary(figures):
    lines = ["### What must hold", "", row(["what", "measured", "expected", "holds"]), "|---|---:|---:|---|"]
    return [
        *lines,
        *share_verdicts(figures),
        *product_verdicts(figures),
        layout_verdict(figures),
        *attention_verdicts(figures),
        *host_verdicts(figures),
        train_verdict(figures),
        *training_verdicts(figures),
        *start_verdicts(figures),
        *check_verdicts(figures),
        "",
        "Cross-entropy is measured in bf16 and AdamW only in f32, as in the PyTorch script that these cases come from; compute-sanitizer's tools run the table without hostile values, "
        "repeated runs and comparisons with compositions, whose kernels are the same, and only memcheck runs what must be rejected. initcheck does not see what the tensor memory accelerator stores: "
        "under it the tests of products and attention, most of whose kernels store by it, run in memory filled with NaN, and what is read before it is written shows in their results.",
        "",
    ]


def torch_versions(versions):
    # cuDNN reports 9.19.0 as 91900.
    number = versions["cudnn"]
    cudnn = f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number else "none"
    return f"PyTorch {versions['torch']} with CUDA {versions['cuda']} and cuDNN {cudnn}"


def provenance(figures):
    """Returns what the figures were measured on, as a sentence."""
    header, versions = figures.header, figures.versions
    parts = [
        header.get("device", "unknown device"),
        f"driver {header.get('driver', 'unknown')}",
        f"nvcc {header['nvcc']}" if header.get("nvcc") else "no nvcc",
        torch_versions(versions) if versions else "no PyTorch",
        f"commit {header.get('commit', 'unknown')}",
        header.get("date", "unknown date"),
    ]
    return ", ".join(parts) + "."


def body(lines):
    """Returns all tables of a results file."""
    figures = Figures(lines)
    tables = [line for family in figures.families() for line in family_table(figures, family)]
    return "\n".join([provenance(figures), "", *summary(figures), *tables])


NOT_MEASURED = "| not measured |"


def source_of(body_of_page):
    """Returns device, driver and commit that a page's tables state; None if they state none."""
    source = re.match(r"\n?(.+?), driver (\S+), .*commit (\w+)", body_of_page)
    return source and source.groups()


def with_earlier_checks(new, old):
    """Returns the new body, with the rows of the old one for checks that are not among its results:
    of the same device and driver, each with its commit.
    """
    of_new, of_old = source_of(new), source_of(old)
    if not of_new or not of_old or of_new[:2] != of_old[:2]:
        return new
    first_cell = lambda one: one[: one.index(" | ")]
    missing = {first_cell(one) for one in check_verdicts(Figures([]))}
    earlier = {first_cell(one): one for one in old.split("\n") if " | " in one and not one.endswith(NOT_MEASURED) and first_cell(one) in missing}
    rows = []
    for one in new.split("\n"):
        if one.endswith(NOT_MEASURED) and (kept := earlier.get(first_cell(one))):
            what, measured, *rest = kept.split(" | ")
            one = " | ".join([what, measured if "(commit " in measured else f"{measured} (commit {of_old[2]})", *rest])
        rows.append(one)
    return "\n".join(rows)


def page(text, lines):
    """Returns the page with the tables between its markers. Rows of checks that are not among the
    results are kept.
    """
    _, old, _ = parts_between(text, MARKERS)
    return between_markers(text, MARKERS, with_earlier_checks(body(lines), old))


def page_of_checks(text, lines):
    """Returns the page with the rows of these checks replaced; measurements are not changed."""
    before, body_of_page, after = parts_between(text, MARKERS)
    source = source_of(body_of_page)
    if not source:
        raise SystemExit("error: the page does not state the device, driver and commit of its tables: measured cases come first")
    device, driver, commit = source
    for run in (line["of"] for line in lines if "of" in line):
        found = f"{run.get('device')}, driver {run.get('driver')}, backend {run.get('backend')}"
        if found != (expected := f"{device}, driver {driver}, backend cuda"):
            raise SystemExit(f"error: checks of {found}; expected {expected}, as in the page")
    figures = Figures(lines)
    figures.header = {"commit": commit}
    rows = body_of_page.split("\n")
    for checked in filter(lambda one: not one.endswith(NOT_MEASURED), check_verdicts(figures)):
        what = checked[: checked.index(" | ") + 3]
        found = [index for index, one in enumerate(rows) if one.startswith(what)]
        if len(found) != 1:
            raise SystemExit(f"error: expected one row of {what.strip(' |')} in the page, found {len(found)}")
        rows[found[0]] = checked
    return before + "\n".join(rows) + after
