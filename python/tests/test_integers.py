"""Arithmetic of integers and bools of different dtypes: values and dtypes are PyTorch's."""

import itertools

import numpy as np
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
    for actual in (a / b, a.div(b), ternion.div(a, b)):
        assert str(actual.dtype) == str(expected.dtype).replace("torch", "ternion")
        assert actual.tolist() == expected.tolist()


@pytest.mark.parametrize("other", ["a / 2", "2 / a", "a / -2", "-2 / a", "a / True", "a / 0", "a / 0.5"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_quotients_with_numbers_are_pytorchs(dtype, other):
    ours, theirs = both(dtype, 1)
    assert eval(other, {"a": ours}).tolist() == eval(other, {"a": theirs}).tolist()


def test_the_default_dtype_is_that_of_quotients():
    ternion.set_default_dtype("float64")
    try:
        result = ternion.tensor(-5, dtype="int8") / ternion.tensor([3], dtype="uint8")
    finally:
        ternion.set_default_dtype("float32")
    assert result.dtype is ternion.float64 and result.tolist() == [-5 / 3]


@pytest.mark.parametrize("division", ["n // z", "n % z", "n // 0", "n % 0", "z // n", "z % n", "n.floor_divide(z)", "n.remainder(0)", "w // z", "0 // n", "5 % n", "n // m.tensor(0)"])
def test_nothing_is_divided_by_zero(division):
    shapes = {}
    for module in (ternion, torch):
        names = {"m": module, "n": module.zeros(0, dtype=module.int32), "z": module.zeros(1, dtype=module.int32), "w": module.zeros((2, 0), dtype=module.int32)}
        result = eval(division, names)
        shapes[module] = tuple(result.shape), str(result.dtype).split(".")[-1]
    assert shapes[ternion] == shapes[torch]


def test_nothing_is_divided_in_place():
    n = ternion.zeros(0, dtype="int64")
    n //= ternion.zeros(1, dtype="int64")
    n %= 0
    assert n.shape == (0,) and n.dtype is ternion.int64
    with pytest.raises(ValueError, match="do not broadcast"):
        n // ternion.zeros(2, dtype="int64")


@pytest.mark.parametrize("call", """x.clamp(max=b) | x.clip(max=b) | x.clamp_max(b) | x.clamp(b, b) | x.clone().clamp_(max=b) | x.clamp(min=b + 7) | x.clamp(min=-b, max=b - 1) | x.clamp(b + 1, b - 1) | x.clamp(max=True)""".split(" | "))
def test_bounds_of_64_bits_are_exact(call):
    b = 2**53 + 1
    ternion_result, torch_result = (eval(call, {"x": module.tensor([b, b + 2, -b, 2**62, 3]), "b": b}) for module in (ternion, torch))
    assert ternion_result.tolist() == torch_result.tolist() and ternion_result.dtype is ternion.int64


def test_near_integers():
    a, b = (ternion.tensor([value]) for value in (2**53 + 1, 2**53))
    assert not a.isclose(b, rtol=0, atol=0).item() and not a.allclose(b, rtol=0, atol=0.5) and a.allclose(b, rtol=0, atol=1)
    assert a.isclose(b).item() and a.isclose(a, rtol=0, atol=0).item()
    lowest, highest = ternion.tensor([-(2**63)]), ternion.tensor([2**63 - 1])
    assert not lowest.isclose(highest).item() and lowest.isclose(highest, rtol=3).item()
    assert ternion.tensor([True, False]).isclose(ternion.tensor([True, True])).tolist() == [True, False]
    assert ternion.tensor([5], dtype="uint8").isclose(ternion.tensor([3], dtype="uint8"), rtol=0, atol=2).item()


@pytest.mark.parametrize("call", """b ** True | b ** False | b ** 2 | b.sign() | m.square(b) | m.outer(b, b) | m.outer(i, f) | b.max(0).values | b.max(0).indices | (~b).min(0).values | b.view(2, 2).max(1, True).indices
    f6(i) | f6(i.to(m.uint8)) | ht(i) | ht(i, -1.5, 2.5) | ht(i.to(m.int8), -1.0, 2.0) | m.cov(i.view(2, 2)) | m.cov(f.view(1, 4)) | m.corrcoef(i.view(2, 2)) | m.corrcoef(f.view(1, 4))""".replace("\n   ", "|").split("|"))
def test_dtypes_of_integers_and_bools(call):
    results = []
    for module in (ternion, torch):
        F = module.nn.functional
        names = {"b": module.tensor([True, False, True, True]), "i": module.tensor([-3, 9, 4, 200]), "f": module.tensor([1.5, 0.0, -2.0, 3.0]), "f6": F.relu6, "ht": F.hardtanh}
        result = eval(call.strip(), {**names, "m": module})
        results.append((str(result.dtype).split(".")[-1], tuple(result.shape), result.tolist()))
    assert results[0][:2] == results[1][:2]
    assert np.allclose(results[0][2], results[1][2], rtol=1e-6)


def test_what_pytorch_has_for_floats_alone():
    assert ternion.nn.functional.hardshrink(ternion.tensor([-128, 0, 1, 5], dtype="int8"), 2.0).tolist() == [-128.0, 0.0, 0.0, 5.0]
    for shape in ((1, 3), (2, 3)):
        result = ternion.ones(*shape, dtype="int64").logcumsumexp(0)
        assert result.dtype is ternion.float32 and result[0].tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(RuntimeError, match="can't be cast|bool"):
        b = ternion.tensor([True])
        b **= 2


@pytest.mark.parametrize("name", ["relu6", "hardtanh", "hardswish", "hardsigmoid"])
def test_slopes_at_kinks_are_pytorchs(name):
    grads = []
    for module in (ternion, torch):
        x = module.tensor([-4.0, -3.0, -1.0, 0.0, 0.5, 1.0, 3.0, 6.0, 7.0, float("nan")], requires_grad=True)
        result = getattr(module.nn.functional, name)(x)
        result[:-1].sum().backward()
        grads.append((result.tolist(), x.grad.tolist()[:-1]))
    assert grads[0][0] == pytest.approx(grads[1][0], nan_ok=True) and grads[0][1] == pytest.approx(grads[1][1])


def test_pythons_types_as_dtypes():
    for result in (ternion.tensor([0.1], dtype=float), ternion.ones(2, dtype=float), ternion.ones(2).to(float), ternion.ones(2).sum(dtype=float), ternion.full((1,), 1, dtype=float)):
        assert result.dtype is ternion.float64
    assert ternion.tensor([0.1], dtype=float).item() == 0.1
    assert ternion.ones(1, dtype=int).dtype is ternion.int64 and ternion.ones(1, dtype=bool).dtype is ternion.bool
