"""PyTorch's operator database with Ternion: every sample that passes according to
docs/conformance.md passes, and faults are detected."""

import sys

import pytest

torch = pytest.importorskip("torch")

import ternion  # noqa: E402
from torch_database import checks, conversion, derivatives, failures, journal, names, page, pool  # noqa: E402
from torch_database import reasons, rejection_checks, rejections, results, run, samples  # noqa: E402


@pytest.fixture(scope="module")
def entries():
    return {names.name_of(entry): entry for entry in run.database()}


@pytest.fixture(scope="module")
def known():
    """Returns the results from which the page was written."""
    result = run.of_device("cpu")
    if torch.__version__.partition("+")[0] != result["torch"]:
        pytest.skip(f"the page was written with torch {result['torch']}, whose samples differ from those of {torch.__version__}")
    return result


@pytest.fixture(scope="module")
def outcomes(entries, known):
    """Returns the outcomes of the reduced run."""
    return run.run(run.split(entries.values())[0])


def test_each_sample_that_passes_by_the_page_passes(outcomes, known, entries):
    assert run.vanished(run.split(entries.values())[0], known) == []
    assert [f"{o.entry} {o.case}: {o.failures} ({o.description})" for o in run.regressions(outcomes, known)] == []


def test_the_page_has_the_numbers_of_this_run(outcomes, known, entries):
    text = run.PAGE.read_text()
    present, absent, purpose = run.split(entries.values())
    entries_of_run = results.of_outcomes(_renumbered(outcomes), present)
    result = {name: tuple(entry["reduced"]) for name, entry in entries_of_run.items() if results.has_samples(entry)}
    assert result == page.reduced_counts(text)
    assert page.written(text, results.read(run.DOCS), present, absent, purpose) == text


def _renumbered(outcomes):
    """Returns the outcomes unchanged. Checks that the reduced run would select all of them
    again."""
    assert all(len([o for o in listed if o.case.split()[0] == short]) <= count for listed in _by_entry(outcomes) for short, count in samples.CHOSEN.items())
    return outcomes


def _by_entry(outcomes):
    result = {}
    for outcome in outcomes:
        result.setdefault(outcome.entry, []).append(outcome)
    return result.values()


@pytest.mark.parametrize("device", ["cpu", "cuda", "wgpu"])
def test_at_most_ten_results_are_wrong_and_each_has_a_reason(device):
    entries = run.of_device(device)["entries"]
    groups = [group for entry in entries.values() for group in entry["failures"] if group["kind"] in failures.WRONG]
    assert sum(len(results.unpacked(group["cases"])) for group in groups) <= 10
    assert page.unexplained_wrong([run.of_device(device)]) == []


def test_what_is_rejected_is_rejected_on_purpose():
    assert page.unexplained([run.of_device("cpu")]) == []


def test_a_reason_is_of_its_device_and_dtype():
    """A reason for bfloat16 does not apply to float32, and a reason for one device does not apply
    to another."""
    attention = "nn.functional.scaled_dot_product_attention"
    assert reasons.reason_of(attention, "wrong gradient", "cpu", "bf16")
    assert reasons.reason_of(attention, "wrong gradient", "wgpu", "f32") and reasons.reason_of(attention, "wrong gradient", "cuda", "f32") is None
    group = {"kind": "wrong gradient", "form": "gradient", "cases": "f32 4, bf16 1", "example": "", "detail": "a new one"}
    device = {"device": "cuda", "entries": {attention: {"failures": [group]}}}
    assert page.unexplained_wrong([device]) == [f"{attention} (cuda): f32 4, bf16 1: a new one"]
    group["cases"] = "bf16 1"
    assert page.unexplained_wrong([device]) == []


def test_a_failure_of_another_device_is_listed_unless_the_first_fails_in_the_same_way(known):
    group = {"kind": "rejected", "form": "function", "cases": "f32 0", "example": "", "detail": "x"}
    kinds = {"cpu": "rejected", "cuda": "wrong value"}
    devices = [{"device": device, "entries": {"add": {"failures": [{**group, "kind": kind}]}}} for device, kind in kinds.items()]
    assert [name for name, _, _ in page._failures(devices, failures.KINDS)] == ["cpu", "cuda"]
    devices[1]["entries"]["add"]["failures"][0]["kind"] = "rejected"
    assert [name for name, _, _ in page._failures(devices, failures.KINDS)] == ["cpu"]


REJECTION, WRONG_VALUE = ("function", "rejected", "TypeError: add: .."), ("method", "wrong value", "result[0]: 1")


def test_a_sample_counts_by_what_is_wrong_also_behind_a_rejection():
    outcome = pool.Outcome("add", "f32 0", "x", [REJECTION, WRONG_VALUE], "")
    entry = results.of_outcomes([outcome], {"add": "add"})["add"]
    assert [(group["kind"], group["form"], group["detail"]) for group in entry["failures"]] == [("wrong value", "method", "result[0]: 1")]


def test_a_wrong_result_is_worse_than_a_rejection():
    known = {"entries": {"add": {"failures": [{"kind": "rejected", "cases": "f32 0"}]}}}
    outcomes = [pool.Outcome("add", "f32 0", "x", listed, "") for listed in ([REJECTION], [REJECTION, WRONG_VALUE])]
    assert run.regressions(outcomes, known) == outcomes[1:]


def test_groups_of_wrong_results_have_one_dtype():
    outcomes = [pool.Outcome("add", f"{short} 0", "x", [WRONG_VALUE], "") for short in ("f32", "bf16")]
    assert [group["cases"] for group in results.of_outcomes(outcomes, {"add": "add"})["add"]["failures"]] == ["f32 0", "bf16 0"]


def test_the_other_forms_of_a_function_that_rejects_are_run(entries, monkeypatch):
    monkeypatch.setattr(ternion.Tensor, "sin", lambda self: self.cos())
    result = [(failure.form, failure.kind) for failure in failures_of(entries, "sin", _rejecting)]
    assert ("function", "rejected") in result and ("method", "wrong value") in result
    assert failures.gravest(failures_of(entries, "sin", _rejecting)).kind == "wrong value"


def test_entries_without_a_sample_are_counted_apart(known):
    """Entries whose samples cannot be created are listed with the error."""
    assert [name for name, entry in known["entries"].items() if not results.has_samples(entry)] == [
        "nn.functional.batch_norm.without_cudnn",
        "nn.functional.silu.complex",
    ]
    outcomes = [pool.Outcome("add", f"f32 {pool.NO_SAMPLES}", "", None, "RuntimeError: no LAPACK"), pool.Outcome("add", "f64 0", "x", [], "")]
    entry = results.of_outcomes(outcomes, {"add": "add"})["add"]
    assert (entry["samples"], entry["left_out"], entry["no_samples"]) == (1, 0, {"f32": "RuntimeError: no LAPACK"})
    assert page._without_table([{"device": "cpu", "entries": {"add": entry}}])[2:] == ["| `add` | cpu | f32 | RuntimeError: no LAPACK |"]


def test_samples_that_cannot_be_made_are_an_error(entries, monkeypatch):
    def without_lapack(*args, **kwargs):
        raise RuntimeError("no LAPACK")

    monkeypatch.setattr(entries["sin"], "sample_inputs_func", without_lapack)
    with pytest.raises(samples.NoSamples, match="RuntimeError: no LAPACK"):
        samples.samples_of(entries["sin"], "f32")


@pytest.mark.parametrize("call", [call for call, _ in rejections.CALLS])
def test_calls_that_are_listed_as_rejected_are_errors(call):
    assert rejections.error_of(call)


def test_a_failure_without_a_reason_is_found(known):
    entry = {**known["entries"]["add"], "failures": [{"kind": "rejected", "form": "function", "cases": "f32 0", "example": "", "detail": "TypeError: a new one"}]}
    assert page.unexplained([{**known, "entries": {"add": entry}}]) == ["add (cpu): TypeError: a new one"]


def test_no_sample_crashes_or_hangs(known):
    assert [name for name, entry in known["entries"].items() for kind in results.kinds(entry) if kind in ("crash", "hang")] == []


def test_entries_that_stay_out_are_entries(entries):
    for name in names.ON_PURPOSE:
        assert any(name in (full, entry.name) or (name[-1] in "._" and full.startswith(name)) or entry.name == name for full, entry in entries.items()), name


def failures_of(entries, name, function, short="f32", number=0):
    """Returns the failures of one sample with `function` instead of Ternion's."""
    entry = entries[name]
    subject = checks.Subject(entry, names.function_of(entry), "cpu")
    subject.function = function
    return checks.run_sample(subject, samples.samples_of(entry, short)[number])


def _gradient_doubled(x):
    return x.sin() * 2 - x.sin().detach()


def _of_dense_memory(x):
    return x.sin() if x.is_contiguous() else x.cos()


def _gradient_of_dense_memory(x):
    return x.sin() if x.is_contiguous() else _gradient_doubled(x)


def _without_a_key(x):
    return {}[x.shape]


def _rejecting(x):
    raise ValueError("sin: not today")


@pytest.mark.parametrize(
    "function, form, kind",
    [
        (lambda x: x.cos(), "function", "wrong value"),
        (lambda x: x.sin() * 1.00002, "function", "wrong value"),
        (lambda x: x.sin().detach(), "gradient", "wrong gradient"),
        (_gradient_doubled, "gradient", "wrong gradient"),
        (lambda x: x.sin().unsqueeze(0), "function", "wrong shape"),
        (lambda x: (x.sin(), x), "function", "wrong shape"),
        (lambda x: x.sin().double(), "function", "wrong dtype"),
        (_of_dense_memory, "not contiguous", "wrong value"),
        (_gradient_of_dense_memory, "not contiguous", "wrong gradient"),
        (_without_a_key, "function", "internal error"),
        (_rejecting, "function", "rejected"),
    ],
)
def test_a_planted_fault_is_found(entries, function, form, kind):
    assert failures_of(entries, "sin", ternion.sin) == []
    gravest = failures.gravest(failures_of(entries, "sin", function))
    assert (gravest.form, gravest.kind) == (form, kind)


def test_a_wrong_half_precision_is_found(entries):
    assert failures_of(entries, "sin", lambda x: x.sin() * 1.03, "bf16")[0].kind == "wrong value"


def test_wrong_integers_and_positions_are_found(entries):
    number = next(number for number, sample in samples.samples_of(entries["sort"], "i64").items() if sample.input.numel() > 20)
    assert failures_of(entries, "sort", ternion.sort, "i64", number) == []
    for function in (
        lambda x, *args, **kwargs: _Pair(x.sort(*args, **kwargs)[0] + 1, x.sort(*args, **kwargs)[1]),
        lambda x, *args, **kwargs: _Pair(x.sort(*args, **kwargs)[0], x.sort(*args, **kwargs)[1] * 0),
    ):
        assert failures_of(entries, "sort", function, "i64", number)[0].kind == "wrong value"


class _Pair(tuple):
    """A result with PyTorch's field names."""

    def __new__(cls, values, indices):
        pair = super().__new__(cls, (values, indices))
        pair.values, pair.indices = values, indices
        return pair


def test_results_without_their_names_are_found(entries):
    failure = failures_of(entries, "sort", lambda *args, **kwargs: tuple(ternion.sort(*args, **kwargs)))[0]
    assert failure.kind == "wrong shape" and "values, indices" in failure.detail


def test_a_wrong_method_is_found(entries, monkeypatch):
    monkeypatch.setattr(ternion.Tensor, "sin", lambda self: self.cos())
    assert [(failure.form, failure.kind) for failure in failures_of(entries, "sin", ternion.sin)][-1] == ("method", "wrong value")
    monkeypatch.delattr(ternion.Tensor, "sin")
    assert [(failure.form, failure.kind) for failure in failures_of(entries, "sin", ternion.sin)] == [("method", "form absent")]


def test_an_in_place_form_that_changes_nothing_is_found(entries, monkeypatch):
    monkeypatch.setattr(ternion.Tensor, "sin_", lambda self: self.sin())
    result = [(failure.form, failure.kind) for failure in failures_of(entries, "sin", ternion.sin)]
    assert result == [("in place", "wrong value"), ("gradient in place", "wrong gradient")]


def test_an_in_place_form_without_its_gradient_is_found(entries, monkeypatch):
    def without(self):
        result = self.detach().sin()
        return self.copy_(result) if self.requires_grad else self.sub_(self).add_(result)

    assert failures_of(entries, "sin", ternion.sin) == []
    monkeypatch.setattr(ternion.Tensor, "sin_", without)
    assert [(failure.form, failure.kind) for failure in failures_of(entries, "sin", ternion.sin)] == [("gradient in place", "wrong gradient")]


def test_a_changed_argument_is_found(entries):
    def sin(x):
        result = x.sin()
        x.detach().add_(1)
        return result

    found = failures_of(entries, "sin", sin)[0]
    assert (found.form, found.kind) == ("function", "wrong value") and "argument 0 after the call" in found.detail


def test_float64_by_way_of_float32_is_found(entries):
    assert failures_of(entries, "sin", ternion.sin, "f64") == []
    result = failures_of(entries, "sin", lambda x: x.float().sin().double(), "f64")
    assert (result[0].form, result[0].kind) == ("function", "wrong value")


def test_an_in_place_form_that_pytorch_rejects_is_found(entries, monkeypatch):
    """sin_ of integers cannot store its result."""
    assert failures_of(entries, "sin", ternion.sin, "i64") == []
    monkeypatch.setattr(ternion.Tensor, "sin_", lambda self: self)
    assert [(failure.form, failure.kind) for failure in failures_of(entries, "sin", ternion.sin, "i64")] == [("in place", "accepted")]


def test_a_swallowed_error_is_found(entries):
    entry = entries["gather"]
    subject = checks.Subject(entry, names.function_of(entry), "cpu")
    case = samples.errors_of(entry)[0]
    assert rejection_checks.run_error(subject, case) == []
    subject.function = lambda x, *args, **kwargs: x
    assert [failure.kind for failure in rejection_checks.run_error(subject, case)] == ["accepted"]


def _raising(error):
    def function(*args, **kwargs):
        raise error

    return function


class _Panic(BaseException):
    """Like a panic of the native part, which is not an Exception."""


@pytest.mark.parametrize(
    "function, kind",
    [
        (_raising(ValueError("gather: index of shape [2] on shape [2, 2]")), None),
        (_raising(RuntimeError("gather: no memory")), None),
        (_raising(RuntimeError("borrowed already")), "internal error"),
        (_raising(KeyError("dim")), "internal error"),
        (_raising(AttributeError("'NoneType' object has no attribute 'shape'")), "internal error"),
        (_raising(RecursionError("gather: too deep")), "internal error"),
        (_raising(TypeError("gather() got an unexpected keyword argument 'dim'")), "rejected"),
        (lambda x: x, "rejected"),  # It takes fewer arguments.
        (_raising(_Panic("index out of bounds")), "crash"),
    ],
)
def test_only_an_error_about_the_call_is_a_right_rejection(entries, function, kind):
    subject = checks.Subject(entries["gather"], names.function_of(entries["gather"]), "cpu")
    subject.function = function
    result = [failure.kind for failure in rejection_checks.run_error(subject, samples.errors_of(entries["gather"])[0])]
    assert result == ([kind] if kind else [])


def test_calls_that_fail_for_lack_of_an_argument_have_failed(entries):
    for name in ("aminmax", "gather", "multinomial", "cat", "amax", "amin", "take", "kthvalue", "masked_select"):
        subject = checks.Subject(entries[name], names.function_of(entries[name]), "cpu")
        cases = [case for case in samples.errors_of(entries[name]).values() if "out" in case.sample_input.kwargs]
        result = [failure for case in cases for failure in _failures_of_call(subject, case)]
        assert result and {(failure.kind, "'out'" in failure.detail) for failure in result} == {("rejected", True)}


def _failures_of_call(subject, case):
    try:
        return rejection_checks.run_error(subject, case)
    except conversion.LeftOut:  # PyTorch only warns.
        return []


def test_numbers_that_are_not_random_are_found(entries):
    assert failures_of(entries, "rand_like", lambda x, **kwargs: x * 0 + 2)[0].kind == "wrong value"
    assert failures_of(entries, "randn", lambda *size, **kwargs: ternion.zeros(*size) + 9, number=1)[0].kind == "wrong value"


def test_a_missing_function_is_found(entries, monkeypatch, known):
    assert names.function_of(entries["nn.functional.softsign"]).path == "nn.functional.softsign"
    monkeypatch.delattr(ternion.nn.functional, "softsign")
    present, absent, _ = run.split(entries.values())
    assert "nn.functional.softsign" in absent
    assert run.vanished(present, known) == ["nn.functional.softsign"]


FAKE = """
import json, os, sys, time
for line in sys.stdin:
    task = json.loads(line)
    for number in range(task["after"], 3):
        print(json.dumps({"start": f"f32 {number}", "description": "x"}), flush=True)
        if number == 1 and task["entry"] == "dies":
            os.abort()
        if number == 1 and task["entry"] == "hangs":
            time.sleep(60)
        print(json.dumps({"failures": []}), flush=True)
    print(json.dumps({"end": True}), flush=True)
"""


def test_a_crash_and_a_hang_are_found_and_the_others_run():
    fake = pool.Pool("cpu", True, limit=5, command=(sys.executable, "-c", FAKE))
    actual = {(outcome.entry, outcome.case): [kind for _, kind, _ in outcome.failures] for outcome in fake.run(["dies", "runs", "hangs"])}
    expected = {(entry, f"f32 {number}"): [] for entry in ("dies", "runs", "hangs") for number in range(3)}
    assert actual == {**expected, ("dies", "f32 1"): ["crash"], ("hangs", "f32 1"): ["hang"]}


def test_a_run_goes_on_behind_the_entries_of_its_journal(tmp_path):
    path = tmp_path / "journal"
    first = journal.Journal(path)
    command = (sys.executable, "-c", FAKE)
    outcomes = pool.Pool("cpu", True, limit=5, command=command).run(["dies", "runs"], first.seen, first.ended)
    # The process ended during this write.
    path.write_text(path.read_text() + '["hangs", [["hangs", "f32')
    second = journal.Journal(path)
    assert second.entries == {"dies", "runs"} and sorted(second.outcomes) == sorted(outcomes) and len(outcomes) == 6


# PyTorch instead of Ternion.
ITSELF = f"""
import sys
sys.path.insert(0, {str(run.DOCS.parent / "python" / "conformance")!r})
import torch
sys.modules["ternion"] = torch
from torch_database import worker
worker.main()
"""


def test_nothing_is_wrong_with_pytorch_itself():
    """The suite accepts PyTorch's own results, including those that are not unique."""
    chosen = ["argsort", "cumsum", "linalg.eigh", "linalg.qr", "linalg.solve", "linalg.svd", "mode", "nn.functional.conv2d", "nn.functional.dropout"]
    chosen += ["nn.functional.max_pool2d", "normal", "remainder", "sort", "topk", "__getitem__", "bernoulli", "multinomial", "randn", "uniform"]
    chosen += ["nn.functional.alpha_dropout", "nn.functional.dropout2d", "nn.functional.fractional_max_pool2d", "nn.functional.scaled_dot_product_attention"]
    result = pool.Pool("cpu", True, command=(sys.executable, "-c", ITSELF)).run(chosen)
    counted = [outcome for outcome in result if outcome.failures is not None]
    assert len(counted) > 250
    assert [outcome for outcome in counted if outcome.failures and not outcome.case.startswith("error")] == []
    # It also accepts PyTorch's errors, except that many are a RuntimeError that names no function.
    kinds = {kind for outcome in counted if outcome.case.startswith("error") for _, kind, _ in outcome.failures}
    assert kinds <= {failures.INTERNAL}


def test_cases_are_packed_into_text():
    cases = ["f32 0", "f32 1", "f32 2", "f32 7", "bf16 3"]
    assert results.packed(cases) == "f32 0-2 7, bf16 3"
    assert results.unpacked("f32 0-2 7, bf16 3") == cases
    assert results.unpacked("") == []


@pytest.mark.parametrize(
    ("function", "actual", "theirs", "is_right"),
    [
        (lambda x: (x * x).sum(), [2.0, -4.0], [2.0, 4.0], True),  # Theirs is wrong.
        (lambda x: (x * x).sum(), [2.0, 4.0], [2.0, -4.0], False),  # Ours is wrong.
        (lambda x: (x * x).sum(), [2.0, 4.0], [2.0, 3.0], False),  # Both are wrong.
        (lambda x: (x + 2).abs().sum(), [1.0, 0.0], [1.0, 1.0], False),  # A kink.
        (lambda x: (x * x).sum(), [2.0, float("nan")], [2.0, 4.0], False),
    ],
)
def test_differences_decide_between_two_gradients(function, actual, theirs, is_right):
    leaf = torch.tensor([1.0, -2.0], dtype=torch.float64)
    actual, theirs = (torch.tensor(gradient, dtype=torch.float64) for gradient in (actual, theirs))
    assert derivatives.decides(lambda: function(leaf).item(), leaf, actual != theirs, actual, theirs) is is_right
    assert leaf.tolist() == [1.0, -2.0]


def test_an_element_behind_those_that_differ_most_is_looked_at():
    leaf = torch.linspace(1.0, 2.0, 12, dtype=torch.float64)
    right, theirs = 2 * leaf.detach(), torch.zeros(12, dtype=torch.float64)
    square = lambda: (leaf * leaf).sum().item()  # noqa: E731
    assert derivatives.decides(square, leaf, right != theirs, right, theirs)
    wrong = right.clone()
    wrong[0] *= 1.02
    assert derivatives.MOST < 12 and not derivatives.decides(square, leaf, wrong != theirs, wrong, theirs)


def test_pairs_of_a_symmetric_matrix_are_changed_together():
    leaf = torch.tensor([[1.0, 5.0], [2.0, 3.0]], dtype=torch.float64)
    lower = lambda: (leaf.tril() + leaf.tril(-1).mT).square().sum().item()  # noqa: E731
    ours, theirs = (torch.tensor(rows, dtype=torch.float64) for rows in ([[2.0, 4.0], [4.0, 6.0]], [[2.0, 5.0], [5.0, 6.0]]))
    assert derivatives.decides(lower, leaf, ours != theirs, ours, theirs, is_symmetric=True)
    assert not derivatives.decides(lower, leaf, ours != theirs, theirs, ours, is_symmetric=True)
