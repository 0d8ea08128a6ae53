"""Factors, thresholds and settings of functions that are implemented in Rust, compared with
PyTorch."""

import numpy as np
import pytest
import torch

import ternion

GENERATOR = np.random.default_rng(30)


def same(function, *arrays, rtol=1e-12):
    """Compares values and gradients of a function of the library and tensors."""
    both = []
    for library in (ternion, torch):
        leaves = [library.tensor(array).requires_grad_(array.dtype.kind == "f") for array in arrays]
        actual = function(library, *leaves)
        if actual.requires_grad:
            (actual * actual.detach()).sum().backward()
        both.append([actual.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves if leaf.grad is not None)])
    assert len(both[0]) == len(both[1])
    for actual, expected in zip(*both):
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=rtol)


@pytest.mark.parametrize("dtype, alpha", [("float64", 0.75), ("float64", -2), ("float32", 1), ("int64", 3), ("int32", -1)])
@pytest.mark.parametrize("name", ["index_add", "index_add_"])
def test_index_add(name, dtype, alpha):
    x, source = (GENERATOR.integers(-4, 5, size=shape).astype(dtype) for shape in ((3, 5), (3, 4)))
    same(lambda T, x, source: getattr(x + 0, name)(1, T.tensor([4, 0, 4, 1]), source, alpha=alpha), x, source)


def test_index_add_of_half_precision_is_rounded_once():
    x = ternion.tensor([1.0], dtype=ternion.float16)
    source = ternion.tensor([0.3330078125], dtype=ternion.float16)
    exact = 1.0 + 0.7 * 0.3330078125
    assert x.index_add(0, ternion.tensor([0]), source, alpha=0.7).item() == float(np.float16(exact))
    assert x.clone().index_add_(0, ternion.tensor([0]), source, alpha=0.7).item() == float(np.float16(exact))


@pytest.mark.parametrize("x, alpha", [([1, 2], 0.5), ([1.0, 2.0], True), ([1, 2], "2")])
@pytest.mark.parametrize("name", ["index_add", "index_add_", "rsub"])
def test_factors_that_are_rejected(name, x, alpha):
    x = ternion.tensor(x)
    arguments = (x,) if name == "rsub" else (0, ternion.tensor([0, 1]), x)
    function = ternion.rsub if name == "rsub" else getattr(ternion.Tensor, name)
    with pytest.raises(TypeError, match=f"^{name}: alpha"):
        function(x, *arguments, alpha=alpha)


@pytest.mark.parametrize("alpha", [1, 2, -0.5])
@pytest.mark.parametrize("other", [np.array([[1.5], [2.5]]), 3, 2.5], ids=str)
def test_rsub(other, alpha):
    x = GENERATOR.normal(size=(2, 3))
    if isinstance(other, np.ndarray):
        same(lambda T, x, other: T.rsub(x, other, alpha=alpha), x, other)
    same(lambda T, x: T.rsub(x, other if not isinstance(other, np.ndarray) else 1, alpha=alpha), x)
    if alpha != -0.5 and isinstance(other, int):
        same(lambda T, x: T.rsub(x, 3, alpha=alpha), np.array([1, -2, 7]))
        same(lambda T, x: T.rsub(x, 2.5, alpha=alpha), np.array([1, -2, 7]), rtol=1e-6)


@pytest.mark.parametrize("beta, threshold", [(1.0, 20.0), (1.0, 0.0), (2.5, 1.0), (0.5, 20.0), (3.0, -2.0), (1.0, 40.0)])
def test_softplus(beta, threshold):
    x = np.array([-800.0, -3.0, -0.5, 0.0, 0.3, 0.45, 1.0, 5.0, 19.9, 20.1, 25.0, 39.0, 41.0, 800.0])
    same(lambda T, x: T.nn.functional.softplus(x, beta, threshold), x, rtol=1e-13)
    same(lambda T, x: T.nn.functional.softplus(x, beta, threshold), x.astype(np.float32), rtol=5e-7)


@pytest.mark.parametrize("padding_idx, scale", [(None, True), (1, False), (-2, True), (3, True)])
def test_embedding(padding_idx, scale):
    indices = [[1, 3, 1], [0, 1, 3]]
    same(lambda T, x: T.nn.functional.embedding(T.tensor(indices), x, padding_idx, scale_grad_by_freq=scale), GENERATOR.normal(size=(5, 3)))


@pytest.mark.parametrize("norm_type", [2.0, 1.0, np.inf, 3.0])
def test_rows_are_shortened(norm_type):
    table = GENERATOR.normal(size=(5, 3)) * 3
    for name in ("embedding", "embedding_bag"):
        actual = []
        for library in (ternion, torch):
            weight = library.tensor(table)
            rows = getattr(library.nn.functional, name)(library.tensor([[1, 3], [1, 0]]), weight, max_norm=1.5, norm_type=norm_type)
            actual.append((rows.numpy(), weight.numpy()))
        for own, expected in zip(*actual):
            np.testing.assert_allclose(own, expected, rtol=1e-7)
        assert (actual[0][1][[2, 4]] == table[[2, 4]]).all()


@pytest.mark.parametrize("swap", [False, True])
def test_triplets_of_any_distance(swap):
    triplet = [GENERATOR.normal(size=(4, 3)) for _ in range(3)]

    def of(T, anchor, positive, negative):
        distance = lambda a, b: 1 - T.nn.functional.cosine_similarity(a, b)  # noqa: E731
        return T.nn.functional.triplet_margin_with_distance_loss(anchor, positive, negative, distance_function=distance, swap=swap, margin=0.7)

    same(of, *triplet, rtol=1e-9)
    same(lambda T, *x: T.nn.functional.triplet_margin_with_distance_loss(*x, swap=swap), *triplet, rtol=1e-9)


def test_what_a_distance_raises_is_raised():
    x = ternion.ones(2, 3)

    def distance(a, b):
        raise KeyError("no such distance")

    with pytest.raises(KeyError, match="no such distance"):
        ternion.nn.functional.triplet_margin_with_distance_loss(x, x, x, distance_function=distance)
    with pytest.raises(TypeError, match="a distance of float, expected a tensor"):
        ternion.nn.functional.triplet_margin_with_distance_loss(x, x, x, distance_function=lambda a, b: 1.0)
    with pytest.raises(ValueError, match="margin 0, expected above 0"):
        ternion.nn.functional.triplet_margin_with_distance_loss(x, x, x, margin=0)


def test_a_distance_sees_the_tensors_themselves():
    anchor, positive, negative = ternion.ones(1, 2), ternion.zeros(1, 2), -ternion.ones(1, 2)
    received = []

    def distance(a, b):
        received.append((a, b))
        return (a - b).norm(2, 1)

    ternion.nn.functional.triplet_margin_with_distance_loss(anchor, positive, negative, distance_function=distance, swap=True)
    expected = [(anchor, positive), (anchor, negative), (positive, negative)]
    assert all(own is a and other is b for (own, other), (a, b) in zip(received, expected, strict=True))
