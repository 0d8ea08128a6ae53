"""The programs in the documentation run unmodified, and docstrings describe shapes and errors."""

import functools
import inspect
import re
from pathlib import Path

import pytest

import ternion
import ternion.nn.functional

ROOT = Path(__file__).parents[2]
PROGRAMS = [
    (page, number, text)
    for page in ["docs/python.md", "README.md"]
    for number, text in enumerate(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S))
]


def test_there_are_programs():
    assert PROGRAMS


@pytest.mark.parametrize("page, number, text", PROGRAMS)
def test_programs(page, number, text, capsys):
    exec(compile(text, page, "exec"), {"__name__": page})
    if (page, number) == ("docs/python.md", 0):
        assert float(capsys.readouterr().out) < 0.1


OWNERS = [ternion, ternion.Tensor, ternion.nn.functional]

#: Why the docstrings of these functions may have one line.
REASONS = {
    "broadcasts as `eq` does, whose docstring says so": "ge greater greater_equal gt le less less_equal lt ne not_equal",
    "of two tensors that broadcast as those of `maximum` do": "allclose isclose logical_and logical_or logical_xor",
    "its one line says the shape in words": "masked_select nonzero",
    "the method of this name describes it": "softmax log_softmax",
    "answers for tensors of any shape": "equal is_same_size is_tensor typename",
    "in place what `masked_fill` is, which describes it": "masked_fill_",
    "takes no tensor, and has no shapes": "can_cast get_rng_state set_rng_state seed is_autocast_enabled",
    "its only argument is a hint": "is_contiguous",
}
SPEAK_FOR_THEMSELVES = {name for names in REASONS.values() for name in names.split()}


def takes_arguments(function):
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return False
    return any(name not in ("self", "input") for name in parameters)


def describes_shapes_or_errors(text):
    """Returns whether a docstring describes shapes or errors, or names a function with the same
    ones."""
    return bool(re.search(r"Shapes|->|\[\w|broadcast|Raises:|errors are those of|in place: the tensor itself", text))


@pytest.mark.parametrize("owner", OWNERS, ids=lambda owner: owner.__name__)
def test_docstrings_tell_shapes_or_errors(owner):
    functions = {
        name: thing
        for name, thing in inspect.getmembers(owner, callable)
        if not name.startswith("_") and not inspect.isclass(thing) and takes_arguments(thing)
    }
    assert len(functions) > 50
    silent = {name for name, thing in functions.items() if not describes_shapes_or_errors(inspect.getdoc(thing) or "")}
    assert silent - SPEAK_FOR_THEMSELVES == set()


def test_what_tells_nothing_is_seen():
    assert not describes_shapes_or_errors("The elements along `dim` that `index` names.")
    assert describes_shapes_or_errors("Two axes exchanged.\n\nShapes: [m, n] -> [n, m]")


# ---- What is missing

ABSENT = re.findall(r"^\| (\w.*?) \| (.*) \|$", (ROOT / "docs/python.md").read_text(encoding="utf-8").partition("### What is missing\n")[2].split("\n## ")[0], re.M)
MODULES = [
    ternion, ternion.Tensor, ternion.nn, ternion.nn.functional, ternion.nn.init, ternion.nn.utils, ternion.nn.Module, ternion.optim, ternion.optim.lr_scheduler,
    ternion.autograd, ternion.linalg, ternion.special, ternion.utils.data, ternion.testing,
]  # fmt: skip

#: The modules that lack the names of a row, if not all modules; None for a row of arguments.
ROWS = {"names of layers at the top level": [ternion], "arguments of functions and layers": None}

#: Names that rows mention in addition to what is missing.
MENTIONED = set("autograd capture i0 i1 memoryview nn.functional numpy.asarray array.array set_default_device special special.zeta tensor".split())


def exists(name, modules):
    """Returns whether a name, which may contain dots, exists in one of these modules or classes."""
    parts = name.split(".")
    return any(functools.reduce(lambda holder, part: getattr(holder, part, None), parts, module) is not None for module in modules)


@pytest.mark.parametrize("row, text", ABSENT, ids=[row for row, _ in ABSENT])
def test_what_is_said_not_to_be_there_is_not(row, text):
    # Calls, arguments and statements are not names.
    names = {name for name in re.findall(r"`([^`]+)`", text) if re.fullmatch(r"[\w.]+", name)} - MENTIONED
    modules = ROWS.get(row, MODULES)
    assert modules is None or sorted(name for name in names if exists(name, modules)) == []


def test_names_that_are_there_are_seen():
    assert len(ABSENT) > 15 and ROWS.keys() <= {row for row, _ in ABSENT}
    assert exists("gcd", MODULES) and exists("LPPool1d", MODULES) and exists("linalg.det", MODULES) and exists("amp.autocast", MODULES)
    assert not exists("linalg.eig", MODULES) and not exists("lstm", [ternion]) and exists("kl_div", [ternion])
