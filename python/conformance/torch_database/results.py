"""Results of a run: counts by entry, and groups of failing samples, stored as a JSON file per
device."""

import json
import re
from collections import Counter, defaultdict

from .failures import REJECTED, WRONG, gravest
from .pool import NO_SAMPLES
from .samples import CHOSEN, chosen

FILES = "torch-database-{}.json"


def of_outcomes(outcomes, functions):
    """Returns results by entry: {"function", "samples", "passed", "left_out", "reduced": [samples,
    passed], "failures": groups, "no_samples": dtype -> error}."""
    by_entry = defaultdict(list)
    for outcome in outcomes:
        by_entry[outcome.entry].append(outcome)
    return {entry: _of_entry(by_entry[entry], path) for entry, path in sorted(functions.items(), key=lambda item: item[0].lower())}


def _of_entry(outcomes, path):
    without = {outcome.case.split()[0]: outcome.detail for outcome in outcomes if outcome.case.endswith(NO_SAMPLES)}
    outcomes = [outcome for outcome in outcomes if not outcome.case.endswith(NO_SAMPLES)]
    counted = [outcome for outcome in outcomes if outcome.failures is not None]
    short = in_reduced([outcome.case for outcome in outcomes])
    reduced = [outcome for outcome in counted if outcome.case in short]
    return {
        "function": path,
        "samples": len(counted),
        "passed": sum(not outcome.failures for outcome in counted),
        "left_out": len(outcomes) - len(counted),
        "by_dtype": _by_dtype(counted),
        "reduced": [len(reduced), sum(not outcome.failures for outcome in reduced)],
        "failures": _groups(counted),
        **_derivatives(counted),
        **({"no_samples": without} if without else {}),
    }


def _derivatives(counted):
    """Returns the samples for which PyTorch's gradient is not the derivative:
    `{"derivatives": {"cases", "example", "detail"}}`, or an empty dict if there are none."""
    listed = [outcome for outcome in counted if outcome.detail]
    if not listed:
        return {}
    first = listed[0]
    return {"derivatives": {"cases": packed([outcome.case for outcome in listed]), "example": f"{first.case}: {first.description}", "detail": first.detail}}


def _by_dtype(counted):
    """Returns [samples, passed] for each dtype, and for calls that must fail."""
    counts = {}
    for outcome in counted:
        row = counts.setdefault(outcome.case.split()[0], [0, 0])
        row[0] += 1
        row[1] += not outcome.failures
    return counts


def in_reduced(cases):
    """Returns those of all cases of an entry that the reduced run selects."""
    by_dtype = defaultdict(list)
    for case in cases:
        by_dtype[case.split()[0]].append(case)
    return {listed[index] for short, listed in by_dtype.items() for index in chosen(len(listed), CHOSEN[short])}


def _groups(counted):
    """Groups failing samples by their gravest failure: {"kind", "form", "cases", "example",
    "detail"}, largest group first. Groups of wrong results have only one dtype."""
    groups = defaultdict(list)
    for outcome in counted:
        if outcome.failures:
            form, kind, detail = gravest(outcome.failures)
            # Numbers and shapes depend on the sample; the words identify the error.
            words = re.sub(r"\[[^]]*\]|[-\d.]+", "", detail) if kind == REJECTED else ""
            groups[kind, form, words, outcome.case.split()[0] if kind in WRONG else ""].append(outcome)
    result = [
        {
            "kind": kind,
            "form": form,
            "cases": packed([outcome.case for outcome in listed]),
            "example": f"{listed[0].case}: {listed[0].description}",
            "detail": gravest(listed[0].failures)[2],
        }
        for (kind, form, *_), listed in groups.items()
    ]
    return sorted(result, key=lambda group: -len(unpacked(group["cases"])))


def packed(cases):
    """Returns cases as text: "f32 0-3 7, bf16 1"."""
    by_dtype = defaultdict(list)
    for case in cases:
        short, number = case.split()
        by_dtype[short].append(int(number))
    return ", ".join(f"{short} {_ranges(sorted(numbers))}" for short, numbers in by_dtype.items())


def _ranges(numbers):
    parts = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def unpacked(text):
    """Returns the cases that `packed` wrote."""
    cases = []
    for part in text.split(", ") if text else []:
        short, *ranges = part.split()
        for each in ranges:
            first, _, last = each.partition("-")
            cases += [f"{short} {number}" for number in range(int(first), int(last or first) + 1)]
    return cases


def failing(entry):
    """Returns the failing cases of an entry's results, each with its kind."""
    return {case: group["kind"] for group in entry["failures"] for case in unpacked(group["cases"])}


def has_samples(entry):
    """Returns whether a sample of an entry was run, counted or not."""
    return entry["samples"] + entry["left_out"] > 0


def kinds(entry):
    """Returns the number of failing samples by kind."""
    counts = Counter()
    for group in entry["failures"]:
        counts[group["kind"]] += len(unpacked(group["cases"]))
    return counts


def written(device, torch_version, entries, database_size):
    """Returns the text of a file: one line per entry, so that diffs show which entries changed.
    `whole` is the number of entries in the database."""
    lines = [f"    {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items()]
    head = f'"device": {json.dumps(device)},\n  "torch": {json.dumps(torch_version)},\n  "database": {database_size},'
    return f'{{\n  {head}\n  "entries": {{\n' + ",\n".join(lines) + "\n  }\n}\n"


def read(folder):
    """Returns the results of all devices, the CPU first."""
    result = [json.loads(path.read_text()) for path in sorted(folder.glob(FILES.format("*")))]
    return sorted(result, key=lambda results: results["device"] != "cpu")
