"""Errors name the function that was called, not the functions it is composed of. Every function is
called with wrong shapes, dtypes and types for each argument."""

import importlib
import inspect
import re
import warnings

import pytest

import ternion
from number_arguments import ARGUMENTS, NAMED, function_of, x
from ternion._functions import ALIASES

HOMES = ["ternion", "ternion.Tensor", "ternion.nn.functional", "ternion.linalg", "ternion.special"]
#: Functions with side effects, or that call their arguments.
SKIPPED = set("load save manual_seed seed set_default_dtype checkpoint capture from_dlpack register_hook backward set_printoptions".split())
PREFIX = re.compile(r"^(?:linalg\.)?([\w.]+)(?:: |\(\))")
#: Functions with two names, whose errors use the name on the right, as PyTorch's do.
KNOWN = {**ALIASES, "clip": "clamp", "concat": "cat", "concatenate": "cat", "row_stack": "vstack", "trapz": "trapezoid", "as_tensor": "tensor"}
#: Other prefixes that errors of these functions may have, and why.
ALLOWED = {
    "cuda": "device cuda", "set_default_device": "device( a)?: ",  # The device is invalid.
}

WRONG = {
    "seven": lambda: ternion.rand(7), "three axes": lambda: ternion.rand(2, 5, 7), "wide": lambda: ternion.rand(3, 4), "high": lambda: ternion.rand(4, 3), "none": lambda: ternion.zeros(0, 4),
    "one": lambda: ternion.rand(()), "eight axes": lambda: ternion.rand(1, 1, 1, 1, 1, 1, 1, 1), "indices": lambda: ternion.tensor([[5, 7, 1], [2, 3, 4], [1, 1, 99]]),
    "truths": lambda: x() > 0.5, "float64": lambda: x().double(), "float16": lambda: x().half(), "uint16": lambda: ternion.ones(3, 3).to(ternion.uint16),
    "recorded": lambda: ternion.rand(5, 4, requires_grad=True) * 1.0, "a text": lambda: "a", "nothing": lambda: None,
}  # fmt: skip


def functions(home):
    names = dir(ternion.Tensor) if home.endswith(".Tensor") else dir(importlib.import_module(home))
    result = {name: function_of(home, name) for name in names if not name.startswith("_") and name not in SKIPPED}
    return {name: each for name, each in result.items() if callable(each) and not isinstance(each, type) and not inspect.ismodule(each)}


def arguments(function, name):
    """Returns the parameters, and for each required argument a function that creates it."""
    own = ARGUMENTS.get(name, ARGUMENTS.get(name.rstrip("_"), {}))
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None, {}
    needed = [each for each in parameters.values() if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) and (each.name in own or each.default is each.empty)]
    return parameters, {each.name: own.get(each.name, NAMED.get(each.name, x)) for each in needed}


def called(function, parameters, makers):
    arguments = {name: make() for name, make in makers.items()}
    positional = [arguments.pop(each.name) for each in parameters.values() if each.kind is each.POSITIONAL_ONLY and each.name in arguments]
    return function(*positional, **arguments)


def errors(function, name):
    """Yields the error messages, each with the wrong argument."""
    parameters, makers = arguments(function, name)
    own = next((argument for argument in makers if argument in ("self", "input")), None)
    for argument in makers:
        for what, wrong in WRONG.items():
            if argument == "self" and what in ("a text", "nothing"):
                continue  # Python itself rejects a method call on another class.
            for recorded in (False, True):
                before = {own: lambda: x().requires_grad_() * 1.0} if recorded and own is not None and own != argument and makers[own] is x else {}
                try:
                    called(function, parameters, {**makers, **before, argument: wrong})
                except (ValueError, TypeError, IndexError, RuntimeError, AttributeError, OverflowError) as error:
                    yield str(error), f"{argument} of {what}"


def is_named(name, message):
    result, stem = PREFIX.match(message), name.rstrip("_")
    if result is not None and result[1].split(".")[-1].rstrip("_") in (stem, KNOWN.get(stem, stem)):
        return True
    return name in ALLOWED and re.match(ALLOWED[name], message) is not None


@pytest.mark.parametrize("home", HOMES)
def test_errors_name_the_function(home):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strangers = {
            f"{name} with {where}: {message[:150]}"
            for name, function in functions(home).items()
            for message, where in errors(function, name)
            if not is_named(name, message)
        }
    assert sorted(strangers) == []


def test_other_names_are_seen():
    assert is_named("addmm_", "addmm: [2]") and is_named("subtract", "sub: [2]") and is_named("cuda", "device cuda:0: not there")
    assert not is_named("addmm_", "matmul: [2]") and not is_named("mm", "'str' object is not an instance of 'Tensor'") and not is_named("abs", "device cuda:0")
