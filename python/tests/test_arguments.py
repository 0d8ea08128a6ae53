"""Arguments and small functions under PyTorch's names: results are compared with PyTorch's."""

import math

import numpy as np
import pytest

import ternion

torch = pytest.importorskip("torch")

CALLS = """
m.zeros(size=(2, 3)) | m.ones(size=[2]) | m.empty(size=(1, 2)).shape | m.randn(size=(2, 3)).shape | m.rand(size=(4,)).shape | m.randint(0, 5, (3,), dtype=m.float32).dtype
x.reshape(shape=(3, 2)) | m.reshape(x, shape=(3, 2)) | x.permute(dims=(1, 0)) | x.view(size=(6,)) | x.view(m.int32) | x.view(dtype=m.int32) | i.view(m.float64)
x.split(split_size=2, dim=1) | m.split(x, 2, 1) | m.bincount(i, weights=w) | m.bincount(i, w, 7) | i.bincount(minlength=9) | m.bincount(i, i) | m.diff(v, prepend=v[:1], append=v[1:]) | m.diff(x, dim=0, append=x)
v.scatter(0, i[:2], v[:2], reduce="add") | v.clone().scatter_(0, i[:2], 2.0, reduce="add") | m.cov(x, fweights=i[:3]) | m.cov(x, aweights=w[:3]) | m.cov(x, correction=0, fweights=i[:3], aweights=v[:3].abs()) | m.cov(i)
v.bernoulli(1.0) | m.bernoulli(v, p=0.0) | v.xlogy(2.0) | m.xlogy(2.0, v.abs()) | v.clone().put_(i[:2], v[:2]) | v.clone().put_(m.tensor([-1, 0, 0]), v[:3], True) | m.ger(v, v)
m.ldexp(v, i) | m.ldexp(m.tensor([1.0]), m.tensor([-140])) | m.frexp(e)[0] | m.frexp(e)[1] | m.vander(v) | m.vander(v, 3) | m.vander(i, 3, True) | m.vander(v, increasing=True)
m.gradient(v)[0] | m.gradient(x, spacing=2.0)[1] | m.gradient(x, dim=1)[0] | m.gradient(v, spacing=(w.cumsum(0),))[0] | m.gradient(x, spacing=[0.5, 2.0])[0]
m.cumulative_trapezoid(x) | m.cumulative_trapezoid(x, dx=2.0, dim=0) | m.cumulative_trapezoid(v, v.cumsum(0)) | m.trapezoid(v, v.cumsum(0)) | m.trapezoid(x, dim=0)
m.hann_window(7) | m.hann_window(8, False) | m.hamming_window(9) | m.hamming_window(5, True, 0.6, 0.4) | m.blackman_window(8) | m.bartlett_window(6) | m.bartlett_window(7, periodic=False)
m.kaiser_window(9, dtype=m.float64) | m.kaiser_window(12, False, 5.0) | m.hann_window(1) | m.hann_window(0) | m.hann_window(2, False, dtype=m.float64)
v.real | v.is_shared() | v.is_sparse | v.is_quantized | v.is_meta | m.e | m.get_float32_matmul_precision() | m.zeros(0, 3).chunk(2) | m.zeros(2, 0).chunk(3, 1)
""".strip().replace("\n", " | ").split(" | ")


def shown(value):
    if isinstance(value, (tuple, list)):
        return [shown(part) for part in value]
    if hasattr(value, "tolist"):
        return str(value.dtype).split(".")[-1], tuple(value.shape), np.asarray(value.tolist(), np.float64)
    return str(value).split(".")[-1] if "float" in str(value) else value


def same(here, there):
    if isinstance(here, np.ndarray):
        np.testing.assert_allclose(here, there, rtol=2e-6, atol=1e-7)
    elif isinstance(here, (tuple, list)):
        assert len(here) == len(there)
        for one, other in zip(here, there):
            same(one, other)
    else:
        assert here == there


@pytest.mark.parametrize("call", CALLS)
def test_calls_are_those_of_pytorch(call):
    results = []
    for m in (ternion, torch):
        names = {
            "x": m.tensor([[1.0, -2.0, 4.0], [0.5, 3.0, -1.0]]), "v": m.tensor([1.0, 2.5, -3.0, 0.5]), "w": m.tensor([0.5, 1.0, 2.0, 4.0]), "i": m.tensor([1, 3, 1, 2]),
            "e": m.tensor([0.0, 1.0, -0.75, 3.0, 1e-40, 3e38, 0.99999994, math.inf]),
        }  # fmt: skip
        results.append(shown(eval(call, {"m": m, **names})))
    same(*results)


def test_what_is_named_twice_or_wrongly_is_an_error():
    for call, message in [
        ("m.zeros(2, size=3)", "zeros: size by its place and by its name"), ("m.ones(2, sise=3)", "ones: got an unexpected keyword argument 'sise'"),
        ("x.view(m.int64)", "view: float32 as int64, expected a dtype of numbers of 4 bytes"), ("x.byte().view(m.bool)", "view: uint8 as bool"), ("x.split()", "split: expected split_size"),
    ]:  # fmt: skip
        with pytest.raises(TypeError, match=message):
            eval(call, {"m": ternion, "x": ternion.ones(2)})
    for call, message in [
        ("m.device('cuda', -1)", "device: .*-1, expected 0 or more"), ("m.bincount(i, m.ones(3))", "bincount: weights of shape \\[3\\], expected \\[2\\]"),
        ("x.scatter(0, i, 1.0, reduce='multiply')", "scatter: reduce \"multiply\""), ("m.set_float32_matmul_precision('high')", "expected \"highest\""),
        ("m.cov(x, aweights=-x)", "cov: aweights below 0"), ("m.gradient(x, edge_order=2)", "gradient: edge_order 2, expected 1"), ("m.bucketize(x, m.ones(2, 2))", "bucketize: boundaries of shape \\[2, 2\\]"),
        ("m.zeros(0, dtype=m.bool).amax()", "amax: of shape \\[0\\], expected elements"), ("m.zeros(0, dtype=m.bool).aminmax()", "aminmax: of shape \\[0\\]"),
        ("m.nn.functional.one_hot(i[:0])", "one_hot: of shape \\[0\\], expected elements or num_classes"), ("x.__iadd__(m.zeros(3, 2))", "\\+=: in place: a result of shape \\[3, 2\\]"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            eval(call, {"m": ternion, "x": ternion.ones(2), "i": ternion.tensor([0, 1])})


def test_seeds_that_nobody_knows():
    first = ternion.seed()
    drawn = ternion.rand(3)
    assert ternion.seed() != first and ternion.seed(first) == first and ternion.rand(3).equal(drawn)


@pytest.mark.parametrize("right", [False, True])
def test_places_in_sequences(right):
    rng = np.random.default_rng(1)
    for shape, wanted in [((50,), (4, 7)), ((3, 50), (3, 7)), ((1,), (5,)), ((0,), (3,)), ((2, 3, 8), (2, 3, 4))]:
        sequence, values = np.sort(rng.integers(0, 20, shape)), rng.integers(-3, 25, wanted)
        found, expected = (m.searchsorted(m.tensor(sequence), m.tensor(values), right=right) for m in (ternion, torch))
        assert found.tolist() == expected.tolist() and found.dtype is ternion.int64
    assert ternion.searchsorted(ternion.tensor([1.0, 2.0]), ternion.tensor([math.nan, 1.5])).tolist() == [2, 1]


def test_versions_count_changes():
    x = ternion.ones(2)
    before = x._version
    x.add_(1)
    assert x._version > before
