"""Renders the tables of attention_errors.py: Markdown from the lines of results files. Needs only
Python's standard library.
"""

import math

MARKERS = "<!-- errors:start -->", "<!-- errors:end -->"
OWN_IMPL = "ternion"
BASELINES = {
    "torch/cudnn": "cuDNN",
    "torch/flash": "flash",
    "torch/varlen": "varlen_attn",
    "torch/efficient": "memory-efficient",
    "torch/ops": "op by op",
}
RESULTS = ("y", "dq", "dk", "dv")
ROWS_KIND = "rows"
# Kinds of the benchmark's cases other than `shapes`, and what they are.
OTHER_KINDS = {
    "varlen": "Sequences of different lengths",
    "decode": "Few queries of many keys, forward",
    "bias": "An additive mask that needs a gradient",
    "forward": "Other lengths of [the ladder](attention-ladder.md) and of [the forward tiles](#by-tma), forward",
}
MEASURES = ("max", "rms")
# Maximum ratio of Ternion's error to the baseline's: the rule of FlashAttention's tests.
MAX_RATIO = 2.0
# Number of rows of the op table that are listed, of hundreds.
SHOWN_ROWS = 10


def format_row(cells):
    return "| " + " | ".join(cells) + " |"


def error_ratio(own_error, baseline_error):
    """Returns the ratio of two errors; 1 if both are 0."""
    if baseline_error == 0:
        return 1.0 if own_error == 0 else math.inf
    return own_error / baseline_error


class Errors:
    """The errors of all cases: case -> impl -> result -> {"max", "rms", "scale"}, from the last
    measurement of each.
    """

    def __init__(self, lines):
        self.errors, self.failures = {}, {}
        for line in lines:
            if "errors" in line:
                self.errors.setdefault(line["case"], {})[line["impl"]] = line["errors"]
            elif "error" in line and "case" in line:
                self.failures[line["case"], line["impl"]] = line["error"]
        self.failures = {key: error for key, error in self.failures.items() if key[1] not in self.errors.get(key[0], {})}

    def cases_with_errors(self, kind):
        """Returns the cases of a kind, the start of their names, for which Ternion has errors."""
        return [case for case, errors_by_impl in self.errors.items() if case.startswith(f"{kind}/") and OWN_IMPL in errors_by_impl]

    def ratios(self, cases):
        """Returns (ratio, case, result, measure, baseline) for all pairs of errors."""
        return [
            (error_ratio(errors_by_impl[OWN_IMPL][result][measure], baseline_errors[result][measure]), case, result, measure, baseline)
            for case in cases
            for errors_by_impl in [self.errors[case]]
            for baseline, baseline_errors in errors_by_impl.items()
            if baseline != OWN_IMPL
            for result in baseline_errors
            for measure in MEASURES
        ]


def format_error(value):
    return f"{value:.2e}"


def format_ratio(value):
    """Formats a ratio, in bold if it exceeds MAX_RATIO."""
    text = "no error of PyTorch's" if value == math.inf else f"{value:.2f}"
    return f"**{text}**" if value > MAX_RATIO else text


def verdict_lines(errors, kind, noun):
    """Returns lines about the number of cases that meet MAX_RATIO, and the case with the largest
    ratio.
    """
    cases = errors.cases_with_errors(kind)
    ratios = errors.ratios(cases)
    if not ratios:
        return []
    compared = {case for _, case, *_ in ratios}
    violations = {case for ratio, case, *_ in ratios if ratio > MAX_RATIO}
    max_ratio, case, result, measure, baseline = max(ratios)
    statement = f"in all of {len(compared)} {noun}" if not violations else f"in {len(compared) - len(violations)} of {len(compared)} {noun}"
    uncompared = len(cases) - len(compared)
    note = f" {uncompared} more have no peer." if uncompared else ""
    error_kind = "largest error" if measure == "max" else "root mean square"
    largest = f"the most is {format_ratio(max_ratio)}: the {error_kind} of {result} in `{case}`, compared with {BASELINES[baseline]}"
    return [f"At most {MAX_RATIO:g} times the error of PyTorch {statement}; {largest}.{note}", ""]


def ratio_table(errors):
    """Returns a table of the largest ratio of each result over lengths, masks and baselines, by
    dtype and width.
    """
    groups = {}
    for case in errors.cases_with_errors("shapes"):
        _, dtype, width, _, mask = case.split("/")
        groups.setdefault((dtype, width, mask.endswith("dropout")), []).append(case)
    lines = [format_row(["dtype", "width", "dropout", *RESULTS]), format_row(["---", "---", "---", *["---:"] * len(RESULTS)])]
    for (dtype, width, has_dropout), cases in groups.items():
        ratios = errors.ratios(cases)
        cells = [largest_ratios(ratios, name) for name in RESULTS]
        lines.append(format_row([dtype, width.removeprefix("d"), "yes" if has_dropout else "", *cells]))
    return [*lines, ""]


def largest_ratios(ratios, name):
    """Returns a cell: the largest ratio of a result's largest errors, and that of their root mean
    squares.
    """
    ratios_by_measure = {measure: [ratio for ratio, _, result, result_measure, _ in ratios if (result, result_measure) == (name, measure)] for measure in MEASURES}
    return " / ".join(format_ratio(max(ratios_by_measure[measure])) if ratios_by_measure[measure] else "-" for measure in MEASURES)


def kind_table(errors, kind):
    """Returns a table of the largest ratio of each result over baselines, by case."""
    cases = errors.cases_with_errors(kind)
    results = list(dict.fromkeys(result for case in cases for result in errors.errors[case][OWN_IMPL]))
    lines = [format_row(["case", *results]), format_row(["---", *["---:"] * len(results)])]
    for case in cases:
        ratios = errors.ratios([case])
        lines.append(format_row([f"`{case}`", *(largest_ratios(ratios, name) for name in results)]))
    return [*lines, ""]


def other_kinds(errors):
    """Returns the statements and tables of the kinds of OTHER_KINDS that were measured."""
    text = []
    for kind, title in OTHER_KINDS.items():
        if errors.ratios(errors.cases_with_errors(kind)):
            text += [f"{title}:", "", *verdict_lines(errors, kind, "cases"), *kind_table(errors, kind)]
    return text


def details(errors):
    """Returns a folded table of all errors for each kind of the benchmark's cases."""
    kinds = [kind for kind in ("shapes", *OTHER_KINDS) if errors.cases_with_errors(kind)]
    tables = [line for kind in kinds for line in [*details_table(errors, kind), ""]]
    return ["<details><summary>Every error</summary>", "", *tables, "</details>", ""] if kinds else []


def details_table(errors, kind):
    """Returns a table of all errors of a kind of the benchmark's cases."""
    cases = errors.cases_with_errors(kind)
    baselines = [baseline for baseline in BASELINES if any(baseline in errors.errors[case] for case in cases)]
    baseline_titles = [title for baseline in baselines for title in (f"{BASELINES[baseline]}, max", "rms")]
    column_titles = ["case", "result", "exact, rms", "Ternion, max", "rms", *baseline_titles, "ratio, max", "rms"]
    lines = [format_row(column_titles), format_row(["---", "---", *["---:"] * (len(column_titles) - 2)])]
    for case in cases:
        for name in errors.errors[case][OWN_IMPL]:
            lines.append(format_row(details_cells(case.removeprefix("shapes/"), name, errors.errors[case], baselines)))
    return lines


def details_cells(title, name, errors_by_impl, baselines):
    """Returns the cells of a row with all errors of a result."""
    own_errors = errors_by_impl[OWN_IMPL][name]
    cells = [f"`{title}`", name, format_error(own_errors["scale"]), *(format_error(own_errors[measure]) for measure in MEASURES)]
    for baseline in baselines:
        cells += [format_error(errors_by_impl[baseline][name][measure]) if baseline in errors_by_impl else "-" for measure in MEASURES]
    for measure in MEASURES:
        ratios = [error_ratio(own_errors[measure], errors_by_impl[baseline][name][measure]) for baseline in baselines if baseline in errors_by_impl]
        cells.append(format_ratio(max(ratios)) if ratios else "-")
    return cells


def rows_table(errors):
    """Returns a table of the op table rows whose errors are largest relative to PyTorch's."""
    ratios = sorted(errors.ratios(errors.cases_with_errors("rows")), reverse=True)
    if not ratios:
        return []
    lines = [format_row(["row, instance", "result", "error", "ratio"]), format_row(["---", "---", "---", "---:"])]
    # Only the largest ratio of each row.
    largest = {}
    for ratio, case, result, measure, _ in ratios:
        largest.setdefault(case, (ratio, result, measure))
    violations = sum(ratio > MAX_RATIO for ratio, *_ in largest.values())
    for case, (ratio, result, measure) in list(largest.items())[: max(SHOWN_ROWS, violations)]:
        lines.append(format_row([f"`{case.removeprefix('rows/')}`", result, measure, format_ratio(ratio)]))
    return [*lines, ""]


def run_sentence(lines):
    """Returns a sentence about the machine and versions of a results file."""
    run = next((line["run"] for line in reversed(lines) if "run" in line), {})
    versions = next((line["versions"] for line in reversed(lines) if "versions" in line), {})
    parts = [run.get("device", "unknown device"), f"driver {run.get('driver', 'unknown')}", f"commit {run.get('commit', 'unknown')}"]
    if "torch" in versions:
        parts.append(f"PyTorch {versions['torch']} with CUDA {versions.get('cuda')} and cuDNN {versions.get('cudnn')}")
    return ", ".join([*parts, run.get("date", "unknown date")]) + "."


def render(lines):
    errors = Errors(lines)
    text = [run_sentence(lines), ""]
    if errors.cases_with_errors("shapes"):
        heading = "The largest ratio over lengths, masks and both peers, of the largest errors / of their root mean squares:"
        text += [*verdict_lines(errors, "shapes", "shapes"), heading, ""]
        text += ratio_table(errors)
    text += other_kinds(errors)
    if errors.cases_with_errors("rows"):
        text += ["Rows of the op table, compared with PyTorch op by op:", "", *verdict_lines(errors, "rows", "instances of rows"), *rows_table(errors)]
    missing = {}
    for (case, impl), error in errors.failures.items():
        missing.setdefault((impl, error.splitlines()[0].replace("|", "/")[:200]), []).append(case)
    text += [f"- {BASELINES.get(impl, 'Ternion')} lacks {len(cases)} cases such as `{cases[0]}`: {error}" for (impl, error), cases in missing.items()]
    text += [""] if missing else []
    return "\n".join([*text, *details(errors)])
