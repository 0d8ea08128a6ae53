"""The page docs/conformance.md: the operators that it lists, and its tables."""

import re
from collections import Counter

BEGIN, END = "<!-- written by python/conformance/run.py -->", "<!-- end -->"

INTRODUCTION = """# Conformance with ONNX

The package `onnx` has tests of its operators (`onnx.backend.test`, kind "node"): a small model, inputs and expected outputs each. They run here through
Ternion: `python/conformance/interpreter.py` walks a model's graph, and `python/conformance/operators` has a function for each operator that computes with
tensors of Ternion. Results are compared by the package's own rules and tolerances. A case whose name ends in `_expanded` has its operator taken apart into
simpler ones. Functions of PyTorch that Ternion lacks are composed of others; the functions say so. Floats of 8 and 4 bits and integers of 4 and 2 bits, which
Cast, CastLike, QuantizeLinear and DequantizeLinear have, are kept as bits and converted by `ternion.formats`. A listed operator counts with all of its cases:
one that needs a dtype or an attribute that Ternion lacks counts as failed.

```sh
python python/conformance/run.py                  # runs all of them and writes this page
python python/conformance/run.py --check          # fails if a case fails that passes here
python python/conformance/run.py --only Conv -v   # shows what fails, with the first difference
pytest python/conformance                         # the check as a test
```
"""

# Why operators are not covered.
REASONS = {
    "BitCast": "of dtypes of other item sizes, which no view here has",
    "DeformConv": "Ternion has no deformable convolution",
    "DFT": "Ternion has neither complex numbers nor Fourier transforms",
    "STFT": "Ternion has neither complex numbers nor Fourier transforms",
    "ImageDecoder": "reads image files",
    "NonMaxSuppression": "Ternion has no nms",
    "RoiAlign": "Ternion has no roi_align",
    "TfIdfVectorizer": "counts of words, outside the framework",
    "RegexFullMatch": "strings",
    "StringConcat": "strings",
    "StringNormalizer": "strings",
    "StringSplit": "strings",
    "ai.onnx.ml.LabelEncoder": "strings",
    "ai.onnx.ml.TreeEnsemble": "decision trees, outside the framework",
}

NOTES = {
    "test_attention_4d_causal_fp16_expanded": "off the exact result by 0.00040 at most, the expected output by 0.00049: float16 rounds each step",
}


def groups(by_operator, table):
    """Returns two groups of operators with their outcomes: listed ones, whatever the dtypes of
    their cases, and those not covered."""
    listed, others = {}, {}
    for operator, outcomes in by_operator.items():
        (others if _reason(operator, table) else listed)[operator] = outcomes
    return listed, others


def _reason(operator, table):
    """Returns why an operator is not covered; None if it is."""
    return REASONS.get(operator, None if operator in table else "not implemented")


def _cell(text):
    """Formats text for a table cell."""
    text = re.sub(r"\s+", " ", text).replace("|", "\\|")
    return text if len(text) <= 160 else text[:157] + "..."


def _classes(outcomes):
    """Returns a short summary of why cases fail: classes and counts."""
    counts = Counter(outcome.kind for outcome in outcomes if not outcome.passed)
    return ", ".join(f"{kind} ({count})" for kind, count in sorted(counts.items()))


def _row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _listed_table(listed):
    rows = ["| operator | cases | passed | failed |", "|---|---:|---:|---|"]
    for operator, outcomes in listed.items():
        passed = sum(outcome.passed for outcome in outcomes)
        rows.append(_row(operator, len(outcomes), passed, _classes(outcomes)))
    return rows


def _failure_table(cases):
    rows = ["| case | class | what |", "|---|---|---|"]
    for outcome in cases:
        note = f"; {NOTES[outcome.case]}" if outcome.case in NOTES else ""
        rows.append(_row(f"`{outcome.case}`", outcome.kind, _cell(outcome.detail) + note))
    return rows


def _other_table(others, table):
    rows = ["| operator | cases | why |", "|---|---:|---|"]
    return rows + [_row(operator, len(outcomes), _reason(operator, table)) for operator, outcomes in others.items()]


def _count(group):
    """Returns the number of operators, the number of cases, and how many of these pass."""
    cases = [outcome for outcomes in group.values() for outcome in outcomes]
    return len(group), len(cases), sum(outcome.passed for outcome in cases)


def _totals(listed, others, versions):
    rows = [f"{versions}:", "", "| | operators | cases | passed | |", "|---|---:|---:|---:|---:|"]
    for name, group in (("listed", listed), ("not covered", others)):
        operators, cases, passed = _count(group)
        # Cases of operators that are not covered pass only because they are expanded into others,
        # so their count is not shown.
        passing = (passed, f"{100 * passed / cases:.1f} %") if group is listed else ("", "")
        rows.append(_row(name, operators, cases, *passing))
    return rows


def written(page, listed, others, table, versions):
    """Returns a page with these results between its markers, or a new page if there is none."""
    failed = [outcome for outcomes in listed.values() for outcome in outcomes if not outcome.passed]
    parts = [
        [*_totals(listed, others, versions)],
        ["## Operators", "", *_listed_table(listed)],
        ["## Cases that fail", "", *_failure_table(failed)],
        ["## Operators that are not covered", "", *_other_table(others, table)],
    ]
    results = "\n\n".join("\n".join(part) for part in parts)
    before, _, rest = (page or f"{INTRODUCTION}\n{BEGIN}\n{END}\n").partition(BEGIN)
    return f"{before}{BEGIN}\n\n{results}\n\n{END}{rest.partition(END)[2]}"


def failures(text):
    """Returns the names of the cases that fail according to a page."""
    part = text.split("\n## Cases that fail\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE))


def operators(text):
    """Returns the listed operators of a page: name -> (cases, passed)."""
    part = text.split("\n## Operators\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([\w.]+) \| (\d+) \| (\d+) \|", part, re.MULTILINE)
    return {name: (int(cases), int(passed)) for name, cases, passed in rows}
