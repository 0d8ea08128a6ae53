"""Reductions by index, ranks, running minima and maxima, sequences and bits: compared with values
of PyTorch 2.11, and with PyTorch itself if it is installed."""

import math
import re

import numpy as np
import pytest

import ternion

NAN = math.nan


def values(result):
    parts = result if isinstance(result, tuple) else (result,)
    return [part.tolist() for part in parts]


REDUCED = [
    # reduce, include_self, result, gradient of the tensor, gradient of the source
    ("sum", True, [7, 0, 5, 9], [1, 2, 3, 4], [1, 1, 3, 4, 4]),
    ("sum", False, [5, 0, 2, 6], [0, 2, 0, 0], [1, 1, 3, 4, 4]),
    ("prod", True, [0, 0, 6, 27], [0, 2, 6, 36], [10, 0, 9, 36, 36]),
    ("prod", False, [0, 0, 2, 9], [0, 2, 0, 0], [5, 0, 3, 12, 12]),
    ("mean", True, [7 / 3, 0, 2.5, 3], [1 / 3, 2, 1.5, 4 / 3], [1 / 3, 1 / 3, 1.5, 4 / 3, 4 / 3]),
    ("mean", False, [2.5, 0, 2, 3], [0, 2, 0, 0], [0.5, 0.5, 3, 2, 2]),
    ("amax", True, [5, 0, 3, 3], [0, 2, 3, 4 / 3], [0, 1, 0, 4 / 3, 4 / 3]),
    # PyTorch counts the element of the tensor, which is excluded here, and loses a third of the
    # gradient.
    ("amax", False, [5, 0, 2, 3], [0, 2, 0, 0], [0, 1, 3, 2, 2]),
    ("amin", True, [0, 0, 2, 3], [0, 2, 0, 4 / 3], [1, 0, 3, 4 / 3, 4 / 3]),
    ("amin", False, [0, 0, 2, 3], [0, 2, 0, 0], [1, 0, 3, 2, 2]),
]


@pytest.mark.parametrize("reduce, include_self, want, of_self, of_source", REDUCED)
@pytest.mark.parametrize("name", ["scatter_reduce", "index_reduce"])
def test_reduced_into_indices(name, reduce, include_self, want, of_self, of_source):
    if (name, reduce) == ("index_reduce", "sum"):
        with pytest.raises(ValueError, match='expected "prod", "mean", "amax" or "amin"'):
            ternion.ones(2).index_reduce(0, ternion.tensor([0]), ternion.ones(1), "sum")
        return
    x = ternion.tensor([2.0, 0, 3, 3], requires_grad=True)
    source = ternion.tensor([0.0, 5, 2, 3, 3], requires_grad=True)
    index = ternion.tensor([0, 0, 2, 3, 3])
    y = getattr(x, name)(0, index, source, reduce, include_self=include_self)
    y.backward(ternion.tensor([1.0, 2, 3, 4]))
    for got, expected in ((y, want), (x.grad, of_self), (source.grad, of_source)):
        np.testing.assert_allclose(got.tolist(), expected, rtol=1e-6)
    changed = x.detach().clone()
    assert getattr(changed, f"{name}_")(0, index, source.detach(), reduce, include_self=include_self).tolist() == y.tolist()


def test_reduced_of_other_dtypes():
    index = ternion.tensor([0, 1])
    assert ternion.tensor([7, -8]).scatter_reduce(0, index, ternion.tensor([1, 1]), "mean").tolist() == [4, -4]
    flags = ternion.tensor([True, False])
    assert flags.scatter_reduce(0, index, ternion.tensor([True, True]), "sum").tolist() == [True, True]
    assert flags.scatter_reduce(0, index, ternion.tensor([False, True]), "prod").tolist() == [False, False]
    assert ternion.tensor(7.0).scatter_reduce(0, ternion.tensor(0), ternion.tensor(3.0), "prod").item() == 21


CALLS = {
    "m.cummax(m.tensor([1.0, 1, NAN, 3, NAN, 2]), 0)": [[1, 1, NAN, NAN, NAN, NAN], [0, 1, 2, 2, 4, 4]],
    "m.cummin(m.tensor([True, False, False]), 0)": [[True, False, False], [0, 1, 2]],
    "m.cummax(m.tensor(3.0), 0)": [3.0, 0],
    "m.mode(m.tensor([1.0, 3, 3, 1, NAN, NAN, NAN]), 0)": [1.0, 3],
    "m.mode(m.tensor([True, False, True]))": [True, 2],
    "m.mode(m.tensor([[2, 1, 2], [3, 3, 1]]), 1, keepdim=True)": [[[2], [3]], [[2], [1]]],
    "m.nanmedian(m.tensor([NAN, 1, 2, NAN, 3, 4]), 0)": [2.0, 2],
    "m.nanmedian(m.tensor([NAN, NAN]), 0)": [NAN, 0],
    "m.nanmedian(m.tensor([NAN, 1, 2]))": [1.0],
    "m.nanmedian(m.tensor([1, 2, 3, 4]), 0)": [2, 1],
    "m.median(m.zeros(0))": [NAN],
    "m.median(m.tensor([1.0, NAN, 3]), 0)": [NAN, 1],
    "m.kthvalue(m.tensor([3.0, 1, 2]), 2)": [2.0, 2],
    "m.searchsorted(m.tensor([1, 3, 5]), 2.5)": [1],
    "m.searchsorted(m.tensor([1, 3, 5]), m.tensor([2.5, 3]))": [[1, 1]],
    "m.searchsorted(m.tensor([1.0, 3, 5]), m.tensor([3.0, NAN]), side='right')": [[2, 3]],
    "m.searchsorted(m.tensor([[1, 3, 5], [2, 4, 6]]), m.tensor([[3, 6], [3, 6]]), right=True)": [[[2, 3], [1, 3]]],
    "m.searchsorted(m.tensor([5, 1, 3]), m.tensor([2, 4]), sorter=m.tensor([1, 2, 0]))": [[1, 2]],
    "m.bucketize(m.tensor([[0, 3], [4, 9]]), m.tensor([1, 3, 5]))": [[[0, 1], [2, 3]]],
    "m.bucketize(2, m.tensor([1.0, 3]))": [1],
    "m.unique(m.tensor([NAN, 1, NAN, 1]), return_inverse=True, return_counts=True)": [[1.0, NAN, NAN], [1, 0, 2, 0], [2, 1, 1]],
    "m.unique(m.tensor([[2, 1], [0, 5], [2, 1]]), return_inverse=True, return_counts=True, dim=0)": [[[0, 5], [2, 1]], [1, 0, 1], [1, 2]],
    "m.unique_consecutive(m.tensor([[1, 1], [2, 2.0]]), return_inverse=True, return_counts=True, dim=1)": [[[1.0], [2.0]], [0, 0], [2]],
    "m.unique(m.zeros(0, 3), dim=0).shape": None,
    "m.gcd(m.tensor([-4, 6, 0]), m.tensor([6, -9, 0]))": [[2, 3, 0]],
    "m.lcm(m.tensor([-4, 6, 0]), m.tensor([6, -9, 0]))": [[12, 18, 0]],
    "m.bitwise_and(m.tensor([True]), m.tensor([3]))": [[1]],
    "m.bitwise_and(3, m.tensor([5]))": [[1]],
    "3 & m.tensor([5, -1])": [[1, 3]],
    "m.tensor([5, -1]) | 8": [[13, -1]],
    "m.tensor([5, -1]) ^ m.tensor([1, 1])": [[4, -2]],
    "~m.tensor([5, -1])": [[-6, 0]],
    "m.tensor([True, False]) & True": [[True, False]],
    "m.bitwise_left_shift(m.tensor([1, -3]), m.tensor([-1, 70]))": [[0, 0]],
    "m.bitwise_right_shift(m.tensor([1, -3]), m.tensor([-1, 70]))": [[0, -1]],
    "m.tensor([1, -3]) << 62": [[2**62, 2**62]],
    "m.tensor([-(2**63), 7]) >> 1": [[-(2**62), 3]],
    "m.tensor([200], dtype=m.uint8) << 1": [[144]],
    "m.renorm(m.tensor([[1.0, 2], [0.3, 0.4]]), 2, 0, 1.0)": None,
    "m.renorm(m.tensor([[1.0, 2]]), math.inf, 0, 1.0)": [[[0.5, 1.0]]],
    "m.diff(m.tensor([[1, 4]]), 0, 0, m.tensor([[3, 5]]))": [[[1, 4]]],
    "m.ones(1, 1).squeeze(()).shape": None,
    "m.tensor([[1, 2], [3, 4]]).flip(dims=(0, 1))": [[[4, 3], [2, 1]]],
}


@pytest.mark.parametrize("call", CALLS)
def test_values(call):
    result = eval(call, {"m": ternion, "NAN": NAN, "math": math})
    want = CALLS[call]
    if want is not None:
        assert str(values(result)) == str(want) or all(
            np.allclose(got, expected, rtol=1e-6, equal_nan=True) for got, expected in zip(values(result), want, strict=True)
        )
    torch = pytest.importorskip("torch")
    theirs = eval(call, {"m": torch, "NAN": NAN, "math": math})
    if isinstance(result, tuple) and not isinstance(result[0], ternion.Tensor) or call.endswith("shape"):
        assert tuple(result) == tuple(theirs)
        return
    for got, expected in zip(result if isinstance(result, tuple) else (result,), theirs if isinstance(theirs, tuple) else (theirs,), strict=True):
        assert str(got.dtype).split(".")[-1] == str(expected.dtype).split(".")[-1]
        np.testing.assert_allclose(got.tolist(), expected.tolist(), rtol=1e-6)


GRADIENTS = {
    "x.median()": [0, 0.5, 0.5, 0],
    "x.nanmedian()": [0, 0.5, 0.5, 0],
    "x.median(0).values": [0, 1, 0, 0],
    "x.mode(0).values": [0, 0, 1, 0],
    "x.cummax(0).values.sum()": [1, 1, 1, 1],
}


@pytest.mark.parametrize("call", GRADIENTS)
def test_gradients(call):
    x = ternion.tensor([1.0, 2, 2, 5], requires_grad=True)
    eval(call, {"x": x}).backward()
    assert x.grad.tolist() == GRADIENTS[call]


def test_in_place():
    x = ternion.tensor([6, 10])
    assert x.gcd_(ternion.tensor([4, 4])) is x and x.tolist() == [2, 2]
    assert x.bitwise_or_(ternion.tensor([1, 8])).tolist() == [3, 10]
    assert x.bitwise_not_().tolist() == [-4, -11]
    x &= 6
    assert x.tolist() == [4, 4]


def test_shifts_in_place_change_the_tensor():
    x = ternion.ones(4, dtype=ternion.int64)
    front = x[:2]
    front <<= 3
    assert x.tolist() == [8, 8, 1, 1]
    front >>= ternion.tensor([1, 2])
    assert x.tolist() == [4, 2, 1, 1] and front.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("sign", ["&=", "|=", "^=", "<<=", ">>="])
def test_operators_in_place_keep_the_dtype(sign):
    x, small = ternion.tensor([True, False]), ternion.tensor([1, 2], dtype=ternion.uint8)
    with pytest.raises(RuntimeError, match=f"{re.escape(sign)}: result type int64 can't be cast to the desired output type bool"):
        exec(f"x {sign} 1", {"x": x})
    exec(f"small {sign} 0; small {sign} other", {"small": small, "other": ternion.zeros(2, dtype=ternion.int64)})
    assert x.tolist() == [True, False] and small.dtype == ternion.uint8 and small.tolist() == ([0, 0] if sign == "&=" else [1, 2])


REJECTED = [
    ("m.searchsorted(m.tensor([1.0]), m.tensor([1.0]), side='x')", ValueError, "side 'x'"),
    ("m.searchsorted(m.tensor([1.0]), m.tensor([1.0]), side='left', right=True)", ValueError, "at odds"),
    ("m.searchsorted(m.tensor(1.0), m.tensor([1.0]))", ValueError, "a sequence without axes"),
    ("m.searchsorted(m.ones(2, 3), 1.0)", ValueError, "for a sequence"),
    ("m.searchsorted(m.ones(2), m.ones(2), sorter=m.tensor([0, 2]))", IndexError, "searchsorted: index 2"),
    ("m.searchsorted(m.ones(2), m.ones(2), sorter=m.tensor([0]))", ValueError, "sorter has shape"),
    ("m.ones(3).bitwise_and(1)", TypeError, "bitwise_and: operand is float32, expected an integer dtype"),
    ("m.ones(3) & 1", TypeError, "bitwise_and: operand is float32, expected an integer dtype"),
    ("m.ones(3).gcd(m.ones(3))", TypeError, "gcd: operand is float32, expected an integer dtype"),
    ("m.ones(3).bitwise_not()", TypeError, "bitwise_not: input is float32"),
    ("m.ones(3).renorm(2, 0, 1.0)", ValueError, "renorm: expected at least 2 axes"),
    ("m.ones(3, 0).unique(dim=0)", ValueError, "unique: slices along axis 0"),
    ("m.zeros(2, 0).mode(1)", ValueError, "mode: of shape"),
    ("m.ones(3).diff(-1)", ValueError, "diff: n of -1"),
    ("m.ones(2).scatter_reduce(0, m.tensor([0]), m.ones(1), 'x')", ValueError, 'expected "sum", "prod", "mean", "amax" or "amin"'),
]


@pytest.mark.parametrize("call, kind, message", REJECTED)
def test_rejections(call, kind, message):
    with pytest.raises(kind, match=message.replace("(", r"\(")):
        eval(call, {"m": ternion})
