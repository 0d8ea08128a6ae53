"""The part of docs/conformance.md about PyTorch's operator database."""

import re
from collections import Counter, defaultdict

from . import rejections, results
from .failures import KINDS, WRONG
from .reasons import reason_of

BEGIN, END = "<!-- written by python/conformance/torch_database/run.py -->", "<!-- end -->"

TITLE = "# Conformance with PyTorch"

INTRODUCTION = f"""
{TITLE}

PyTorch tests its functions by its own database (`torch.testing._internal.common_methods_invocations.op_db`): sample inputs of each function in each
dtype, and calls that must fail. They run here through both libraries. A sample is one input in one of float32, float64, bfloat16, int64 and bool. It passes
if all of its forms do: the function, which leaves its arguments as PyTorch's does, its gradients for the same cotangents, the method, the operator, the in-place
form and its gradients, and the function and its gradients of inputs that are not contiguous. A call that must fail is a sample as well: it passes if Ternion
raises its own error that is not about an argument that it lacks. Numbers are right if they are within PyTorch's own tolerance for the dtype of its result,
in float64 within 1e-9, or about as near to the exact result as PyTorch's are (`torch_database/comparison.py` has the rule); exact is what PyTorch computes in float64.

An argument or a dtype that is rejected has failed ("rejected"), and so has a method or an in-place form that is missing ("form absent") and a call that
PyTorch rejects and Ternion does not ("accepted"). A KeyError, an AttributeError or a RuntimeError that names no function is an "internal error". A sample of
which several things fail counts by what is wrong, not by what is rejected. A gradient that differs from PyTorch's is right if differences of PyTorch's own
function in float64 agree with it at every element in which both differ (512 of them at most), and not with PyTorch's at the 8 that differ most (`torch_database/derivatives.py`); such samples are listed.

Random numbers are drawn a hundred times and more with a fixed seed. Each draw must be possible (`torch_database/random_numbers.py`), and all together must
have the distribution of PyTorch's, element by element, by a two-sample Kolmogorov-Smirnov test at 1e-8 and by means within six standard errors
(`torch_database/draws.py`). Their gradients must be the differences of the function with the same seed. Samples of complex numbers and sparse tensors do not
count.

```sh
python python/conformance/torch_database/run.py --all                # runs all and writes docs/torch-database-cpu.json and this part of the page
python python/conformance/torch_database/run.py --check              # a fixed choice of samples: fails if one fails that passes by the page
python python/conformance/torch_database/run.py --only cumsum -v     # shows what fails of an entry
python python/conformance/torch_database/run.py --all --device cuda  # the same on another device: cuda, wgpu
python python/conformance/torch_database/run.py --page               # writes this part anew of the existing results
pytest python/conformance/test_torch_database.py                     # the check as a test
```
"""

WITHOUT = "These do not count among the entries that were run. Where samples of a dtype could not be made, the error says why."

REJECTED_CALLS = "Arguments that no sample has, with `x = ones(2, 3)` and `i = zeros(2, 3, dtype=int64)`; each call was run when this page was written:"


def written(page, devices, present, absent, purpose):
    """Returns a page with these results between its markers. `devices` are the results of each
    device; `present` and `absent`, names of entries; `purpose`, name -> reason."""
    parts = [
        _totals(devices, present, absent, purpose),
        ["## Wrong results", "", *_wrong_table(devices)],
        ["## Where PyTorch's gradient is not the derivative", "", *_derivative_table(devices)],
        ["## Entries", "", *_entry_table(devices[0])],
        ["## What is rejected", "", *_rejected_table(devices), "", REJECTED_CALLS, "", *_call_table()],
        ["## Entries without a sample", "", WITHOUT, "", *_without_table(devices)],
        ["## Entries without a function", "", ", ".join(f"`{name}`" for name in absent) or "None."],
        ["## Entries that stay out on purpose", "", *_purpose_table(purpose)],
    ]
    text = "\n\n".join("\n".join(part) for part in parts)
    before, _, rest = page.partition(BEGIN)
    before = before.partition(f"\n{TITLE}\n")[0].rstrip()
    return f"{before}\n{INTRODUCTION}\n{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2] or chr(10)}"


def _row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _cell(text):
    text = re.sub(r"\s+", " ", text).replace("|", "\\|")
    return text if len(text) <= 200 else text[:197] + "..."


def _totals(devices, present, absent, purpose):
    count = devices[0]["database"]
    without = sum(not results.has_samples(entry) for entry in devices[0]["entries"].values())
    of_present = f"{len(present) - without} have a function here and were run, {without} have a function and no sample (listed below)"
    of_all = f"{of_present}, {len(absent)} have no function, and {len(purpose)} stay out on purpose"
    rows = [
        f"torch {devices[0]['torch']}: {count} entries, of which {of_all}.",
        "",
        _row("device", "dtype", "samples", "passed", "", *KINDS),
        "|---|---|" + "---:|" * (3 + len(KINDS)),
    ]
    for device in devices:
        rows.append(_row(device["device"], "all", *_counts(device["entries"].values(), None)))
        dtypes = dict.fromkeys(short for entry in device["entries"].values() for short in entry["by_dtype"])
        rows += [_row("", short, *_counts(device["entries"].values(), short)) for short in sorted(dtypes, key=list(results.CHOSEN).index)]
    return rows


def _counts(entries, short):
    """Returns the table cells for samples of a dtype, or for all: the count, how many pass, and
    failures by kind."""
    total, passed, kinds = 0, 0, Counter()
    for entry in entries:
        rows = [row for name, row in entry["by_dtype"].items() if short in (None, name)]
        total, passed = total + sum(row[0] for row in rows), passed + sum(row[1] for row in rows)
        for group in entry["failures"]:
            kinds[group["kind"]] += sum(short is None or case.split()[0] == short for case in results.unpacked(group["cases"]))
    return total, passed, f"{100 * passed / max(total, 1):.1f} %", *(kinds[kind] or "" for kind in KINDS)


def _entry_table(device):
    rows = ["| entry | function | samples | passed | failed | reduced run | passed |", "|---|---|---:|---:|---|---:|---:|"]
    for name, entry in device["entries"].items():
        if not results.has_samples(entry):
            continue
        failed = ", ".join(f"{kind} ({count})" for kind, count in sorted(results.kinds(entry).items()))
        rows.append(_row(f"`{name}`", f"`{entry['function']}`", entry["samples"], entry["passed"], failed, *entry["reduced"]))
    return rows


def _wrong_table(devices):
    rows = ["| entry | device | samples | what | example | why |", "|---|---|---|---|---|---|"]
    for device, name, group in _failures(devices, WRONG):
        reasons = set(_reasons(device, name, group))
        # If a group has several dtypes, the reason must apply to all of them.
        rows.append(_row(f"`{name}`", device, group["cases"], *_described(group), (reasons.pop() if len(reasons) == 1 else None) or ""))
    return rows if len(rows) > 2 else ["None."]


def _reasons(device, name, group):
    """Returns why the samples of a group are wrong, for each of their dtypes."""
    return [reason_of(name, group["kind"], device, short) for short in dict.fromkeys(case.split()[0] for case in results.unpacked(group["cases"]))]


def unexplained_wrong(devices):
    """Returns the wrong results without a reason for the device and the dtype."""
    groups = ((device["device"], name, group) for device in devices for name, entry in device["entries"].items() for group in entry["failures"])
    wrong = ((device, name, group) for device, name, group in groups if group["kind"] in WRONG)
    return [f"{name} ({device}): {group['cases']}: {group['detail']}" for device, name, group in wrong if None in _reasons(device, name, group)]


def _derivative_table(devices):
    rows = ["| entry | device | samples | example |", "|---|---|---|---|"]
    for device in devices:
        for name, entry in device["entries"].items():
            if recorded := entry.get("derivatives"):
                rows.append(_row(f"`{name}`", device["device"], recorded["cases"], f"`{_cell(recorded['example'])}`: {_cell(recorded['detail'])}"))
    return rows if len(rows) > 2 else ["None."]


def _described(group):
    return f"{group['kind']}, {group['form']}", f"`{_cell(group['example'])}`: {_cell(group['detail'])}"


def _rejected_table(devices):
    rows = ["| entry | device | samples | what | example | why |", "|---|---|---:|---|---|---|"]
    for device, name, group in _failures(devices, [kind for kind in KINDS if kind not in WRONG]):
        count = len(results.unpacked(group["cases"]))
        rows.append(_row(f"`{name}`", device, count, *_described(group), rejections.reason_of(name, group["detail"]) or ""))
    return rows if len(rows) > 2 else ["None."]


def unexplained(devices):
    """Returns the entries with failures for which no reason is listed."""
    failures = _failures(devices, [kind for kind in KINDS if kind not in WRONG])
    return [f"{name} ({device}): {group['detail']}" for device, name, group in failures if not rejections.reason_of(name, group["detail"])]


def _call_table():
    rows = ["| call | error | why |", "|---|---|---|"]
    return rows + [_row(f"`{_cell(call)}`", _cell(rejections.error_of(call) or "none"), _cell(why)) for call, why in rejections.CALLS]


def _failures(devices, kinds):
    """Yields groups of failures of these kinds: those of the first device, and those of other
    devices that do not fail on the first one in the same way."""
    known = {name: results.failing(entry) for name, entry in devices[0]["entries"].items()}
    for device in devices:
        for name, entry in device["entries"].items():
            for group in entry["failures"]:
                if group["kind"] in kinds and (device is devices[0] or not _fails_in(known.get(name, {}), group)):
                    yield device["device"], name, group


def _fails_in(known, group):
    """Returns whether all samples of a group fail in the same way in `known`, the kind of each
    failing sample."""
    return all(known.get(case) == group["kind"] for case in results.unpacked(group["cases"]))


def _without_table(devices):
    rows = ["| entry | device | dtypes | why |", "|---|---|---|---|"]
    for device in devices:
        for name, entry in device["entries"].items():
            if not results.has_samples(entry) and "no_samples" not in entry:
                rows.append(_row(f"`{name}`", device["device"], "all", "the database has none for the CPU in these dtypes"))
            rows += [_row(f"`{name}`", device["device"], short, _cell(error)) for short, error in entry.get("no_samples", {}).items()]
    return rows if len(rows) > 2 else ["None."]


def _purpose_table(purpose):
    by_reason = defaultdict(list)
    for name, reason in purpose.items():
        by_reason[reason].append(f"`{name}`")
    return ["| why | entries |", "|---|---|"] + [_row(reason, ", ".join(names)) for reason, names in by_reason.items()]


def part(text):
    """Returns the text between the markers of a page."""
    return text.partition(BEGIN)[2].partition(END)[0]


def reduced_counts(text):
    """Returns the counts of the reduced run for the entries of a page: name -> (samples,
    passed)."""
    rows = re.findall(r"^\| `([^`]+)` \| `[^`]+` \| \d+ \| \d+ \| [^|]*\| (\d+) \| (\d+) \|$", part(text), re.MULTILINE)
    return {name: (int(samples), int(passed)) for name, samples, passed in rows}
