"""Arithmetic of integers and truth values of different dtypes: values and dtypes are PyTorch's."""

import itertools

import pytest

import ternion

torch = pytest.importorskip("torch")

DTYPES = ["uint8", "int8", "int16", "int32", "int64", "bool"]
VALUES = {"uint8": [200, 3, 255], "bool": [True, True, True]}


def both(dtype, axes):
    values = VALUES.get(dtype, [-5, 7, 100])
    values = values if axes else values[0]
    return ternion.tensor(values, dtype=dtype), torch.tensor(values, dtype=getattr(torch, dtype))


@pytest.mark.parametrize("left, right", list(itertools.product(DTYPES, DTYPES)))
@pytest.mark.parametrize("axes", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_quotients_are_pytorchs(left, right, axes):
    (a, expected_a), (b, expected_b) = both(left, axes[0]), both(right, axes[1])
    expected = expected_a / expected_b
    for found in (a / b, a.div(b), ternion.div(a, b)):
        assert str(found.dtype) == str(expected.dtype).replace("torch", "ternion")
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("other", ["a / 2", "2 / a", "a / -2", "-2 / a", "a / True", "a / 0", "a / 0.5"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_quotients_with_numbers_are_pytorchs(dtype, other):
    ours, theirs = both(dtype, 1)
    assert eval(other, {"a": ours}).tolist() == eval(other, {"a": theirs}).tolist()


def test_the_default_dtype_is_that_of_quotients():
    ternion.set_default_dtype("float64")
    try:
        found = ternion.tensor(-5, dtype="int8") / ternion.tensor([3], dtype="uint8")
    finally:
        ternion.set_default_dtype("float32")
    assert found.dtype is ternion.float64 and found.tolist() == [-5 / 3]


@pytest.mark.parametrize("division", ["n // z", "n % z", "n // 0", "n % 0", "z // n", "z % n", "n.floor_divide(z)", "n.remainder(0)", "w // z", "0 // n", "5 % n", "n // m.tensor(0)"])
def test_nothing_is_divided_by_zero(division):
    shapes = {}
    for module in (ternion, torch):
        names = {"m": module, "n": module.zeros(0, dtype=module.int32), "z": module.zeros(1, dtype=module.int32), "w": module.zeros((2, 0), dtype=module.int32)}
        found = eval(division, names)
        shapes[module] = tuple(found.shape), str(found.dtype).split(".")[-1]
    assert shapes[ternion] == shapes[torch]


def test_nothing_is_divided_in_place():
    n = ternion.zeros(0, dtype="int64")
    n //= ternion.zeros(1, dtype="int64")
    n %= 0
    assert n.shape == (0,) and n.dtype is ternion.int64
    with pytest.raises(ValueError, match="do not broadcast"):
        n // ternion.zeros(2, dtype="int64")
