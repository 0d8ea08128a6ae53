"""The node tests of ONNX through Ternion: what docs/conformance.md says passes, passes."""

import pytest

pytest.importorskip("onnx")

import onnx  # noqa: E402

import page  # noqa: E402
import run  # noqa: E402


@pytest.fixture(scope="module")
def groups():
    """The outcomes by operator: of the listed ones, of the conversions to other formats, of those not covered."""
    return run.grouped(run.run_all())


@pytest.fixture(scope="module")
def listed(groups):
    return groups[0]


@pytest.fixture(scope="module")
def text():
    written = run.PAGE.read_text()
    if f"onnx {onnx.__version__}:" not in written:
        pytest.skip(f"the page was written with another version than onnx {onnx.__version__}, whose cases differ")
    return written


def test_each_case_that_passes_by_the_page_passes(groups, text):
    listed, lacking, _ = groups
    assert [f"{o.case}: {o.kind}: {o.detail}" for o in run.regressions(listed, lacking, text)] == []


def test_the_page_has_the_numbers_of_this_run(listed, text):
    found = {operator: (len(outcomes), sum(o.passed for o in outcomes)) for operator, outcomes in listed.items()}
    assert found == page.operators(text)


def test_the_bar_holds(groups, listed):
    """At least 1500 cases, of which at least 95 % pass. An operator is listed whatever dtypes its cases have, but for the four that are about other formats."""
    outcomes = [outcome for group in listed.values() for outcome in group]
    assert len(outcomes) >= 1500 and {"Add", "Sub", "Mul", "Equal", "Less", "Greater"} < set(listed)
    assert set(groups[1]) == {"Cast", "CastLike", "DequantizeLinear", "QuantizeLinear"}
    assert sum(outcome.passed for outcome in outcomes) >= 0.95 * len(outcomes)


def test_a_wrong_result_fails(monkeypatch):
    """The comparison finds a function that computes something else, in numbers, shape or dtype."""
    case = next(pair for pair in run.collect() if pair[1].name == "test_abs")
    for function, kind in (
        (lambda node, x: x, "numbers differ"),
        (lambda node, x: x.abs().unsqueeze(0), "shape differs"),
        (lambda node, x: x.abs().double(), "dtype differs"),
    ):
        monkeypatch.setitem(run.TABLE, "Abs", function)
        outcome = run.run(*case)
        assert not outcome.passed and outcome.kind == kind
