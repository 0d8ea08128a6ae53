"""No gradient is lost silently: a tensor that requires a gradient, given instead of a number, is
rejected or receives its gradient."""

import re
import warnings
from pathlib import Path

import pytest

import ternion
from number_arguments import call_of, number_parameters

#: Numbers for these arguments, for which the default of 0.5 is not valid.
VALUES = {
    "mvlgamma.p": 2.0, "norm_type": 2.0, "ord": 2.0, "scale_factor": 2.0, "growth_factor": 2.0, "b": 0.9, "high": 0.9, "max": 0.9, "max_val": 0.9, "upper": 0.9, "posinf": 9.0, "histc.min": -1.0, "lower": 0.1, "cond.p": 2.0,
    "size": 2.0, "random_split.lengths": 1, "max_momentum": 0.9,
}  # fmt: skip

#: Arguments that take a number in another form than a single number.
FORMS = {
    "histogram.range": lambda number: (0.1, number), "general_cosine.a": lambda number: [number], "fractional_max_pool2d.output_ratio": lambda number: (number, 0.5),
    "betas": lambda number: (number, 0.9),
}  # fmt: skip

#: Arguments through which no gradient flows, and why.
SILENT = {
    "bernoulli_.p": "what is drawn has no gradient: PyTorch gives zeros", "normal.mean": "what is drawn has no gradient: PyTorch gives zeros", "normal.std": "what is drawn has no gradient: PyTorch gives zeros",
    "gumbel_softmax.eps": "without effect, as in PyTorch",
    "embedding.norm_type": "no effect without a max_norm", "embedding_bag.norm_type": "no effect without a max_norm",
}  # fmt: skip

#: Arguments that never accept a single number, and why.
WITHOUT = {
    "scatter.src": "a source has the axes of the index, as in PyTorch", "scatter_.src": "a source has the axes of the index, as in PyTorch",
    "mvlgamma.p": "an integer", "arctan2.other": "a tensor",
    "OneCycleLR.base_momentum": "momenta are not cycled", "OneCycleLR.max_momentum": "momenta are not cycled",
}  # fmt: skip

#: The messages of rejected calls.
REJECTED = re.compile("gradient|expected (a|one) number|expected numbers")
ALIASES = {"subtract": "sub", "subtract_": "sub_", "trapz": "trapezoid"}


def tensors(value):
    if isinstance(value, ternion.Tensor):
        return [value]
    return [one for item in value for one in tensors(item)] if isinstance(value, (list, tuple)) else []


def called(home, name, argument, number):
    function, positional, arguments = call_of(home, name, argument)
    form = FORMS.get(f"{name}.{argument}", lambda number: number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*positional, **arguments, **{argument: form(number)})


def value_of(name, argument):
    return VALUES.get(f"{name}.{argument}", VALUES.get(argument, 0.5))


def gradient_flow(home, name, argument):
    """Returns what happens to the gradient: it "flows"; "none" if the results have none; "lost"; or
    the error."""
    number = ternion.tensor(float(value_of(name, argument)), requires_grad=True)
    try:
        results = tensors(called(home, name, argument, number))
    except (TypeError, ValueError) as error:
        return str(error)
    floats = [result for result in results if result.is_floating_point()]
    if results and not floats:
        return "none"
    recorded = [result.sum() for result in floats if result.requires_grad]
    if recorded:
        ternion.stack(recorded).sum().backward()
    return "lost" if number.grad is None else "flows"


@pytest.mark.parametrize("home, name, argument", number_parameters(), ids=lambda part: part)
def test_a_gradient_is_rejected_or_flows(home, name, argument):
    result = gradient_flow(home, name, argument)
    if f"{name}.{argument}" in SILENT:
        assert result == "lost"
    elif f"{name}.{argument}" not in WITHOUT and not name.startswith("bitwise"):
        assert result in ("flows", "none") or REJECTED.search(result) and ALIASES.get(name, name) in result


@pytest.mark.parametrize("home, name, argument", number_parameters(), ids=lambda part: part)
def test_a_number_is_taken(home, name, argument):
    if f"{name}.{argument}" not in WITHOUT and not name.startswith("bitwise"):
        called(home, name, argument, value_of(name, argument))


SOURCES = Path(__file__).parents[2] / "crates" / "python" / "src"
SIGNATURE = re.compile(r"\bfn (\w+)(?:<[^(]*>)?\(([^{;]*?)\) -> (?:Outcome|PyResult)", re.S)


def unchecked(source):
    """Yields the functions with an argument that PyO3 itself converts to a number, even from a
    tensor that requires a gradient."""
    for name, arguments in SIGNATURE.findall(source):
        if re.search(r"Python<|Bound<|&self|PyTensor", arguments):
            numbers = re.findall(r"((?:#\[[^\]]*\]\s*)?)\b(\w+): ((?:\([^)]*\)|[^,])*)", arguments)
            yield from (f"{name}.{argument}" for attribute, argument, kind in numbers if "f64" in kind and "from_py_with" not in attribute)


@pytest.mark.skipif(not SOURCES.is_dir(), reason="the package without its sources")
def test_numbers_of_rust_are_checked():
    """Arguments have the type `Real`, or are converted by `of::name`. Data sets and diagnostic
    tools take numbers that are settings."""
    files = [file for file in SOURCES.rglob("*.rs") if file.name not in ("data.rs", "train.rs", "stats.rs", "monitor.rs", "check.rs", "promote.rs")]
    # Functions that are called from Rust, and the sampling of a generating model.
    inner = ["_choose.chances", "fused_scale_add.sign", "parse_variance_args.correction"]
    assert len(files) > 40 and sorted(result for file in files for result in unchecked(file.read_text(encoding="utf-8"))) == inner


def test_unchecked_numbers_are_seen():
    head = "fn f(py: Python<'_>, x: &PyTensor, "
    for argument in ("p: f64", "p: Option<f64>", "p: Vec<f64>", "p: (bool, f64)"):
        assert list(unchecked(head + argument + ") -> Outcome<PyTensor> {")) == ["f.p"]
    assert list(unchecked(head + "#[pyo3(from_py_with = of::f)] p: f64, q: Real) -> Outcome<PyTensor> {")) == []
