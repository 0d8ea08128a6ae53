"""The type stubs: they agree with the signatures, mypy accepts the package with them, and they
reveal the mistakes of a program."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import ternion

PYTHON = Path(__file__).parents[1]

PROGRAM = """
from typing import assert_type

import ternion
from ternion import nn, optim

x = ternion.randn(2, 3, requires_grad=True)
assert_type(x @ x.T + 1, ternion.Tensor)
assert_type(x.sum(dim=(0, 1), keepdim=True), ternion.Tensor)
assert_type(x.max(1).indices, ternion.Tensor)
assert_type(ternion.max(x), ternion.Tensor)
assert_type(x.shape, ternion.Size)
assert_type(x.shape[0] + x.shape.numel() + sum(x.shape[1:]), int)
assert_type(ternion.lerp(x, x, 0.5).repeat_interleave(2, dim=0), ternion.Tensor)
assert_type(ternion.where(x > 0, x, 0.0), ternion.Tensor)
assert_type(ternion.where(x > 0), tuple[ternion.Tensor, ...])
assert_type(x.max(axis=1).values, ternion.Tensor)
assert_type(ternion.rand(2, generator=ternion.Generator().manual_seed(1)), ternion.Tensor)
assert_type(ternion.cuda.is_available(), bool)
assert_type(x.allclose(x), bool)
assert_type(x.grad, ternion.Tensor | None)
assert_type(x.sum().item(), float)
assert_type(nn.Linear(3, 2)(x), ternion.Tensor)
assert_type(nn.functional.cross_entropy(x, ternion.tensor([0, 1])), ternion.Tensor)
optim.AdamW(nn.Linear(3, 2).parameters(), lr=1e-3).step()
optim.Adam(nn.Linear(3, 2).named_parameters())
optim.Adam([{"params": nn.Linear(3, 2).parameters(), "lr": 0.1}, {"params": [x]}], betas=(0.9, 0.99))
optim.SGD([x, nn.Linear(3, 2).weight], momentum=0.9)
groups = [{"params": [x], "lr": 0.1}]
optim.Adam(groups)
nn.Conv2d(1, 2, 3, padding="same", stride=(1, 1))
nn.Conv1d(1, 2, (3,), padding="valid")
packed = nn.utils.rnn.pack_sequence([x])
assert_type(nn.LSTM(3, 2)(packed)[0], nn.utils.rnn.PackedSequence)
assert_type(nn.GRU(3, 2)(x, None), tuple[ternion.Tensor, ternion.Tensor])
assert_type(nn.LSTMCell(3, 2)(x), tuple[ternion.Tensor, ternion.Tensor])
assert_type(divmod(x, 2), tuple[ternion.Tensor, ternion.Tensor])
assert_type(round(x, 2), ternion.Tensor)
assert_type(ternion.cosine_similarity(x, x), ternion.Tensor)
assert_type(nn.modules.Linear(3, 2)(x), ternion.Tensor)

x.reshape("2")  # wrong
x.sum(keepdim="yes")  # wrong
ternion.zeros(2).no_such_method()  # wrong
nn.functional.cross_entropy(x, "target")  # wrong
x.quantile(q=0.5, interpolation=3)  # wrong
x.lerp("end", 0.5)  # wrong
nn.Linear("3", 2)  # wrong
nn.Linear(3, 2)("x")  # wrong
nn.Linear(3, 2)(x, x)  # wrong
nn.NoSuchLayer()  # wrong
nn.GRU(3, 2)("x")  # wrong
nn.Conv2d(1, 2, 3, stride="same")  # wrong
optim.Adam(3)  # wrong
optim.AdamW(nn.Linear(3, 2).parameters(), betas=0.9)  # wrong
"""


def test_stubs_are_up_to_date():
    check = subprocess.run([sys.executable, PYTHON / "stubs.py", "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr


def mypy(*arguments):
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--no-incremental", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=PYTHON)


def test_the_package_is_typed():
    result = mypy("ternion")
    assert result.returncode == 0, result.stdout


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """Returns the errors of two programs under the strictest settings: files and lines. mypy runs
    once, because it spends most of its time on the package."""
    program = tmp_path_factory.mktemp("types") / "program.py"
    program.write_text(PROGRAM)
    result = mypy("--strict", "--python-version", "3.11", program, "tests/typed_program.py")
    errors = [line.split(":") for line in result.stdout.splitlines() if ": error:" in line]
    assert errors, result.stderr
    return result.stdout, {(Path(file).name, int(line)) for file, line, *_ in errors}


def test_mistakes_are_found_and_nothing_else(checked):
    printed, errors = checked
    wrong = {("program.py", number) for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}
    assert {error for error in errors if error[0] == "program.py"} == wrong, printed


def test_a_program_of_a_user_is_accepted(checked):
    """Its `assert_type` calls ensure that result types are not Any."""
    printed, errors = checked
    assert not {error for error in errors if error[0] != "program.py"}, printed


MODULES = [
    ternion.amp, ternion.data, ternion.formats, ternion.models, ternion.nn, ternion.nn.init, ternion.nn.utils, ternion.optim,
    ternion.optim.lr_scheduler, ternion.optim.swa_utils, ternion.signal, ternion.signal.windows, ternion.special, ternion.testing, ternion.train,
]  # fmt: skip


def public_functions(module):
    """Yields the functions of a module, and the methods of its public classes, that are written in
    Python, with their names."""
    for name in getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]:
        member = getattr(module, name)
        if inspect.isfunction(member):
            yield f"{module.__name__}.{name}", member
        elif inspect.isclass(member):
            own = {**vars(member), "__init__": member.__init__}
            for method, function in own.items():
                function = getattr(function, "__func__", function)
                if inspect.isfunction(function) and (method == "__init__" or not method.startswith("_")):
                    yield f"{module.__name__}.{name}.{method}", function


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_public_functions_are_annotated(module):
    """Calling a function without annotations would be an error for users who check their program
    strictly."""
    bare = []
    for name, function in public_functions(module):
        # This module has a stub file.
        if not function.__module__.startswith("ternion") or function.__module__ == "ternion._scopes":
            continue
        arguments = list(inspect.signature(function).parameters.values())
        of_object = len(name.split(".")) > len(module.__name__.split(".")) + 1
        bare += [f"{name}({one.name})" for one in arguments[of_object:] if one.annotation is one.empty]
        if len(arguments) == of_object and "return" not in function.__annotations__:
            bare.append(name)
    assert not bare
