"""The node tests of ONNX with Ternion: every case that passes according to docs/conformance.md
passes."""

import pytest

pytest.importorskip("onnx")

import page  # noqa: E402
import run  # noqa: E402


@pytest.fixture(scope="module")
def groups():
    """Returns the outcomes by operator: those of listed operators, and those not covered."""
    return run.grouped(run.run_all())


@pytest.fixture(scope="module")
def listed(groups):
    return groups[0]


@pytest.fixture(scope="module")
def text():
    written = run.PAGE.read_text()
    if f"{run.VERSIONS}:" not in written:
        pytest.skip(f"the page was written with other versions than {run.VERSIONS}, whose expected outputs differ")
    return written


def test_each_case_that_passes_by_the_page_passes(listed, text):
    assert [f"{o.case}: {o.kind}: {o.detail}" for o in run.regressions(listed, text)] == []


def test_the_page_has_the_numbers_of_this_run(listed, text):
    result = {operator: (len(outcomes), sum(o.passed for o in outcomes)) for operator, outcomes in listed.items()}
    assert result == page.operators(text)


def test_the_bar_holds(listed):
    """At least 1750 cases, of which at least 95 % pass. An operator is listed whatever the dtypes
    of its cases."""
    outcomes = [outcome for group in listed.values() for outcome in group]
    assert len(outcomes) >= 1750
    assert {"Add", "Cast", "CastLike", "DequantizeLinear", "Equal", "Greater", "Less", "Mul", "QuantizeLinear", "Sub"} < set(listed)
    assert sum(outcome.passed for outcome in outcomes) >= 0.95 * len(outcomes)


def test_a_wrong_result_fails(monkeypatch):
    """The comparison detects a function that computes wrong numbers, a wrong shape or a wrong
    dtype."""
    case = next(pair for pair in run.collect() if pair[1].name == "test_abs")
    for function, kind in (
        (lambda node, x: x, "numbers differ"),
        (lambda node, x: x.abs().unsqueeze(0), "shape differs"),
        (lambda node, x: x.abs().double(), "dtype differs"),
    ):
        monkeypatch.setitem(run.TABLE, "Abs", function)
        outcome = run.run(*case)
        assert not outcome.passed and outcome.kind == kind


def test_a_wrong_conversion_fails(monkeypatch):
    """Bits are compared as the numbers that they represent."""
    case = next(pair for pair in run.collect() if pair[1].name == "test_cast_FLOAT_to_FLOAT8E4M3FN")
    right = run.TABLE["Cast"]

    def another_bit(node, x):
        coded = right(node, x)
        coded.bits = coded.bits + 1
        return coded

    another_bit.takes_coded = True
    monkeypatch.setitem(run.TABLE, "Cast", another_bit)
    assert run.run(*case).kind == "numbers differ"


def test_other_operators_reject_bits(monkeypatch):
    """A function that does not support formats does not receive the bits of a number instead of the
    number."""
    case = next(pair for pair in run.collect() if pair[1].name == "test_cast_FLOAT8E4M3FN_to_FLOAT")
    monkeypatch.setitem(run.TABLE, "Cast", lambda node, x: x.bits.float())
    outcome = run.run(*case)
    assert outcome.kind == "missing dtype" and outcome.detail == "dtype float8_e4m3fn"
