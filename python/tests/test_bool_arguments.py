"""As in PyTorch, every public function rejects a bool instead of an integer. Python itself treats
bools as 0 and 1."""

import ast
import re
import warnings

import pytest

import ternion
from number_arguments import PACKAGE, call_of, in_stubs

#: Seeds, which may be a bool, as in PyTorch.
SEEDS = ["seed.number", "manual_seed.seed"]
FILES = (("ternion", "__init__.pyi"), ("ternion", "_ternion.pyi"), ("ternion.nn.functional", "nn/functional.pyi"))


def is_int(annotation):
    return bool(re.search(r"\b_?int\b", annotation)) and not re.search("bool|_float|Number|dict|Callable|DeviceLike", annotation)


def int_arguments():
    result = {}
    for module, file in FILES:
        for owner, function in in_stubs(PACKAGE / file):
            arguments = function.args
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                is_public = not function.name.startswith("_") and not argument.arg.startswith("_")
                if is_public and argument.annotation is not None and is_int(ast.unparse(argument.annotation)):
                    result[f"{module}.Tensor" if owner else module, function.name, argument.arg] = True
    return [each for each in result if f"{each[1]}.{each[2]}" not in SEEDS]


@pytest.mark.parametrize("home, name, argument", int_arguments(), ids=lambda part: part)
def test_a_bool_is_no_integer(home, name, argument):
    function, positional, arguments = call_of(home, name, argument)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((TypeError, ValueError, IndexError)) as raised:
            function(*positional, **arguments, **{argument: True})
    # Other arguments that do not fit may be rejected first.
    assert re.search(r"bool|expected|axes", str(raised.value))


@pytest.mark.parametrize(
    "name, call",
    [
        ("split", lambda x: x.split(True)),
        ("movedim", lambda x: x.movedim(True, 0)),
        ("movedim", lambda x: x.movedim(0, True)),
        ("diagonal", lambda x: x.diagonal(True)),
        ("repeat_interleave", lambda x: x.repeat_interleave(True)),
        ("tensor_split", lambda x: x.tensor_split(True)),
        ("hsplit", lambda x: x.hsplit(True)),
        ("diff", lambda x: ternion.diff(x, True)),
        ("cummax", lambda x: x.cummax(True)),
        ("kthvalue", lambda x: x.kthvalue(True)),
        ("rot90", lambda x: x.rot90(True)),
        ("round", lambda x: x.round(decimals=True)),
        ("median", lambda x: x.median(True)),
        ("normalize", lambda x: ternion.nn.functional.normalize(x, dim=True)),
        ("avg_pool1d", lambda x: ternion.nn.functional.avg_pool1d(x, True)),
        ("max_pool2d", lambda x: ternion.nn.functional.max_pool2d(x[None], True)),
    ],
)
def test_the_error_names_the_bool(name, call):
    with pytest.raises(TypeError, match=f"^{name}: .*bool"):
        call(ternion.ones(2, 3))


def test_most_arguments_are_tried():
    assert len(int_arguments()) > 250
