"""Writes the tables of attention_errors.py: reads lines of results, returns Markdown. Needs only
Python's standard library.
"""

import math

MARKERS = "<!-- errors:start -->", "<!-- errors:end -->"
OURS = "ternion"
PEERS = {"torch/cudnn": "cuDNN", "torch/flash": "flash", "torch/ops": "op by op"}
RESULTS = ("y", "dq", "dk", "dv")
MEASURES = ("max", "rms")
# FlashAttention's rule.
MOST = 2.0
# The number of rows of the op table that are shown; there are hundreds.
SHOWN_ROWS = 10


def row_of(cells):
    return "| " + " | ".join(cells) + " |"


def ratio(ours, theirs):
    """Returns our error divided by theirs; 1 if both are 0."""
    if theirs == 0:
        return 1.0 if ours == 0 else math.inf
    return ours / theirs


class Errors:
    """The errors of all cases: case -> implementation -> result -> {"max", "rms", "scale"}. The
    last measurement counts.
    """

    def __init__(self, lines):
        self.found, self.failures = {}, {}
        for line in lines:
            if "errors" in line:
                self.found.setdefault(line["case"], {})[line["impl"]] = line["errors"]
            elif "error" in line and "case" in line:
                self.failures[line["case"], line["impl"]] = line["error"]
        self.failures = {key: error for key, error in self.failures.items() if key[1] not in self.found.get(key[0], {})}

    def of(self, kind):
        """Returns the cases of a kind, `shapes` or `rows`, for which Ternion has errors."""
        return [case for case, of_case in self.found.items() if case.startswith(f"{kind}/") and OURS in of_case]

    def ratios(self, cases):
        """Returns (ratio, case, result, measure, peer) of everything that can be compared."""
        return [
            (ratio(of_case[OURS][result][measure], theirs[result][measure]), case, result, measure, peer)
            for case in cases
            for of_case in [self.found[case]]
            for peer, theirs in of_case.items()
            if peer != OURS
            for result in theirs
            for measure in MEASURES
        ]


def number(value):
    return f"{value:.2e}"


def times(value):
    """Returns a ratio, in bold if it violates the rule."""
    text = "no error of PyTorch's" if value == math.inf else f"{value:.2f}"
    return f"**{text}**" if value > MOST else text


def verdict(errors, kind, what):
    """Returns in how many cases the rule holds, and where it is closest to its bound or violates it
    most.
    """
    cases = errors.of(kind)
    ratios = errors.ratios(cases)
    if not ratios:
        return []
    compared = {case for _, case, *_ in ratios}
    broken = {case for found, case, *_ in ratios if found > MOST}
    most, case, result, measure, peer = max(ratios)
    holds = f"in all of {len(compared)} {what}" if not broken else f"in {len(compared) - len(broken)} of {len(compared)} {what}"
    alone = len(cases) - len(compared)
    more = f" {alone} more have no peer." if alone else ""
    kinds = "largest error" if measure == "max" else "root mean square"
    return [f"At most {MOST:g} times the error of PyTorch {holds}; the most is {times(most)}: the {kinds} of {result} in `{case}`, compared with {PEERS[peer]}.{more}", ""]


def summary(errors):
    """Returns the largest ratio of each result over lengths, masks and peers, by dtype and width.
    """
    groups = {}
    for case in errors.of("shapes"):
        _, dtype, width, _, mask = case.split("/")
        groups.setdefault((dtype, width, mask.endswith("dropout")), []).append(case)
    lines = [row_of(["dtype", "width", "dropout", *RESULTS]), row_of(["---", "---", "---", *["---:"] * len(RESULTS)])]
    for (dtype, width, drops), cases in groups.items():
        ratios = errors.ratios(cases)
        cells = []
        for name in RESULTS:
            of = {measure: [one for one, _, result, how, _ in ratios if (result, how) == (name, measure)] for measure in MEASURES}
            cells.append(" / ".join(times(max(of[measure])) if of[measure] else "-" for measure in MEASURES))
        lines.append(row_of([dtype, width.removeprefix("d"), "yes" if drops else "", *cells]))
    return [*lines, ""]


def details(errors):
    """Returns every error of the benchmark's shapes."""
    peers = [peer for peer in PEERS if any(peer in errors.found[case] for case in errors.of("shapes"))]
    heads = ["case", "result", "exact, rms", "Ternion, max", "rms", *[head for peer in peers for head in (f"{PEERS[peer]}, max", "rms")], "ratio, max", "rms"]
    lines = [row_of(heads), row_of(["---", "---", *["---:"] * (len(heads) - 2)])]
    for case in errors.of("shapes"):
        of_case = errors.found[case]
        for name in of_case[OURS]:
            ours = of_case[OURS][name]
            cells = [f"`{case.removeprefix('shapes/')}`", name, number(ours["scale"]), *(number(ours[measure]) for measure in MEASURES)]
            for peer in peers:
                cells += [number(of_case[peer][name][measure]) if peer in of_case else "-" for measure in MEASURES]
            for measure in MEASURES:
                of_peers = [ratio(ours[measure], of_case[peer][name][measure]) for peer in peers if peer in of_case]
                cells.append(times(max(of_peers)) if of_peers else "-")
            lines.append(row_of(cells))
    return ["<details><summary>Every error</summary>", "", *lines, "", "</details>", ""]


def rows_table(errors):
    """Returns the rows of the op table whose errors are largest relative to PyTorch's."""
    ratios = sorted(errors.ratios(errors.of("rows")), reverse=True)
    if not ratios:
        return []
    lines = [row_of(["row, instance", "result", "error", "ratio"]), row_of(["---", "---", "---", "---:"])]
    # Only the largest one of each row.
    shown = {}
    for found, case, result, measure, _ in ratios:
        shown.setdefault(case, (found, result, measure))
    broken = sum(found > MOST for found, *_ in shown.values())
    for case, (found, result, measure) in list(shown.items())[: max(SHOWN_ROWS, broken)]:
        lines.append(row_of([f"`{case.removeprefix('rows/')}`", result, measure, times(found)]))
    return [*lines, ""]


def about(lines):
    """Returns the machine, in a sentence."""
    run = next((line["run"] for line in reversed(lines) if "run" in line), {})
    versions = next((line["versions"] for line in reversed(lines) if "versions" in line), {})
    parts = [run.get("device", "unknown device"), f"driver {run.get('driver', 'unknown')}", f"commit {run.get('commit', 'unknown')}"]
    if "torch" in versions:
        parts.append(f"PyTorch {versions['torch']} with CUDA {versions.get('cuda')} and cuDNN {versions.get('cudnn')}")
    return ", ".join([*parts, run.get("date", "unknown date")]) + "."


def body(lines):
    errors = Errors(lines)
    text = [about(lines), ""]
    if errors.of("shapes"):
        text += [*verdict(errors, "shapes", "shapes"), "The largest ratio over lengths, masks and both peers, of the largest errors / of their root mean squares:", ""]
        text += summary(errors)
    if errors.of("rows"):
        text += ["Rows of the op table, compared with PyTorch op by op:", "", *verdict(errors, "rows", "instances of rows"), *rows_table(errors)]
    missing = {}
    for (case, impl), error in errors.failures.items():
        missing.setdefault((impl, error.splitlines()[0].replace("|", "/")[:200]), []).append(case)
    text += [f"- {PEERS.get(impl, 'Ternion')} lacks {len(cases)} cases such as `{cases[0]}`: {error}" for (impl, error), cases in missing.items()]
    text += [""] if missing else []
    return "\n".join([*text, *(details(errors) if errors.of("shapes") else [])])
