"""The type stubs: they are what the signatures say, mypy accepts the package by them, and finds the mistakes of a program."""

import subprocess
import sys
from pathlib import Path

import pytest

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
assert_type(nn.functional.cross_entropy(x, ternion.tensor([0, 1])), ternion.Tensor)
optim.AdamW(nn.Linear(3, 2).parameters(), lr=1e-3).step()

x.reshape("2")  # wrong
x.sum(keepdim="yes")  # wrong
ternion.zeros(2).no_such_method()  # wrong
nn.functional.cross_entropy(x, "target")  # wrong
x.quantile(q=0.5, interpolation=3)  # wrong
x.lerp("end", 0.5)  # wrong
"""


def test_stubs_are_up_to_date():
    check = subprocess.run([sys.executable, PYTHON / "stubs.py", "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr


def mypy(*arguments):
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--no-incremental", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=PYTHON)


def test_the_package_is_typed():
    found = mypy("ternion")
    assert found.returncode == 0, found.stdout


def test_a_program_is_checked(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = mypy("--python-version", "3.11", program)
    lines = {int(line.split(":")[1]) for line in found.stdout.splitlines() if ": error:" in line}
    wrong = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}
    assert lines == wrong, found.stdout
