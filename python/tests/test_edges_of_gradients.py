"""Gradients at ties, NaN and infinities, and at sampling positions that are NaN or infinite,
compared with PyTorch in float64."""

import itertools
import math

import numpy as np
import pytest
import torch

import ternion

inf, nan = math.inf, math.nan
VECTORS = [[nan, 1.0, 2.0], [1.0, nan, nan], [2.0, 1.0, 2.0], [inf, 2.0, inf], [-inf, -inf, nan]]


def results(library, function, inputs):
    """Returns the values of a function of the library and tensors, and the gradients of its
    inputs."""
    leaves = [library.tensor(values, dtype=library.float64, requires_grad=True) for values in inputs]
    result = function(library, *leaves)
    result = result if isinstance(result, tuple) else (result,)
    sum(value.sum() for value in result).backward()
    return [value.detach().numpy() for value in result], [np.zeros_like(leaf.detach().numpy()) if leaf.grad is None else leaf.grad.numpy() for leaf in leaves]


def same(function, *inputs):
    ours, theirs = results(ternion, function, inputs), results(torch, function, inputs)
    for actual, expected in zip(itertools.chain(*ours), itertools.chain(*theirs), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)


EXTREMES = {
    "max": lambda T, x: x.max(), "min": lambda T, x: x.min(), "amax": lambda T, x: x.amax(), "amin": lambda T, x: x.amin(), "amax of an axis": lambda T, x: x.amax(0),
    "amin of an axis that stays": lambda T, x: x.amin((0,), keepdim=True), "max along an axis": lambda T, x: x.max(0).values,
    "min along an axis": lambda T, x: x.min(0).values, "largest size": lambda T, x: T.linalg.vector_norm(x, inf),
    "smallest size": lambda T, x: T.linalg.vector_norm(x, -inf), "norm of order infinity": lambda T, x: T.norm(x, inf), "median": lambda T, x: x.median(),
    "several rows": lambda T, x: T.stack([x, x.flip(0), T.ones_like(x)]).amax(1), "all of several rows": lambda T, x: T.stack([x, x.flip(0), T.ones_like(x)]).max(),
}  # fmt: skip


@pytest.mark.parametrize("vector", VECTORS, ids=str)
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes(name, vector):
    same(EXTREMES[name], vector)


@pytest.mark.parametrize("vector", VECTORS[:2], ids=str)
def test_aminmax_is_amin_and_amax(vector):
    # PyTorch has no gradient of aminmax.
    own = results(ternion, lambda T, x: tuple(x.aminmax()), [vector])
    both = results(torch, lambda T, x: (x.amin(), x.amax()), [vector])
    for actual, expected in zip(itertools.chain(*own), itertools.chain(*both), strict=True):
        np.testing.assert_array_equal(actual, expected)


REDUCED = [([inf, 1.0], [2.0, 3.0, 4.0]), ([inf, 1.0], [2.0, 3.0, nan]), ([nan, 1.0], [2.0, 3.0, 4.0]), ([0.0, 2.0], [2.0, 0.0, 3.0]), ([0.0, inf], [0.0, 5.0, inf]),
           ([2.0, inf], [2.0, 5.0, 0.0]), ([1.0, 0.0], [inf, 0.0, 0.0]), ([1.0, nan], [1.0, 3.0, nan])]  # fmt: skip


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("values", REDUCED, ids=str)
@pytest.mark.parametrize("reduce, include_self", [("prod", True), ("prod", False), ("amax", True), ("amin", True), ("mean", True), ("mean", False)])
@pytest.mark.parametrize("name", ["scatter_reduce", "index_reduce"])
def test_reductions_into_indices(name, reduce, include_self, values):
    same(lambda T, x, source: getattr(x, name)(0, T.tensor([0, 0, 1]), source, reduce, include_self=include_self), *values)


@pytest.mark.parametrize("values", [[inf, 2.0, 3.0], [inf, 0.0, 3.0], [inf, inf, 2.0], [0.0, 0.0, 2.0], [0.0, nan, 2.0], [nan, 1.0, 2.0], [-inf, 1.0, 0.0]], ids=str)
def test_products(values):
    same(lambda T, x: x.prod(), values)
    same(lambda T, x: x.prod(0, keepdim=True), values)


BAGS = [([[1.0, 5.0], [1.0, 5.0], [0.0, 5.0]], [[0, 1, 2]]), ([[1.0, 5.0], [1.0, 5.0], [0.0, 5.0]], [[2, 1, 0], [1, 0, 1]]), ([[nan], [1.0], [2.0]], [[0, 1, 2]])]


@pytest.mark.parametrize("table, indices", BAGS, ids=str)
def test_the_first_of_tied_rows_of_a_bag_has_the_gradient(table, indices):
    same(lambda T, x: T.nn.functional.embedding_bag(T.tensor(indices), x, mode="max"), table)
    same(lambda T, x: T.nn.functional.embedding_bag(T.tensor(indices).reshape(-1), x, T.tensor([0, 2, 2]), mode="max"), table)


IMAGE = [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]]
VOLUME = [[[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]]]
POSITIONS = [(nan, 0.2), (0.2, nan), (inf, 0.2), (-inf, 0.2), (0.2, inf), (inf, -inf), (nan, inf), (1e30, 0.2), (3e9, -0.3)]


def sampled(mode, padding, align_corners):
    return lambda T, x, grid: T.nn.functional.grid_sample(x, grid, mode, padding, align_corners)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_positions_that_are_no_numbers(mode, padding, align_corners):
    function = sampled(mode, padding, align_corners)
    # 1e30 has no digits left that determine where a reflection ends.
    for position in POSITIONS if padding != "reflection" else [position for position in POSITIONS if 1e30 not in position]:
        grid = [[[list(position)]]]
        # For this gradient, PyTorch reads memory outside the image and crashes.
        crashes = mode == "bilinear" and (padding != "zeros" and nan in position or padding == "reflection" and math.isinf(max(map(abs, position))))
        if not crashes:
            same(function, IMAGE, grid)
            continue
        (actual,), gradients = results(ternion, function, [IMAGE, grid])
        expected = function(torch, torch.tensor(IMAGE, dtype=torch.float64), torch.tensor(grid, dtype=torch.float64))
        np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-12)
        # The weights of the elements that are read sum to 1.
        assert gradients[0].sum() == pytest.approx(1.0) and np.isfinite(gradients[1]).all()


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_positions_in_volumes_that_are_no_numbers(mode, padding):
    for position in [(nan, 0.2, 0.1), (0.2, inf, 0.1), (0.2, 0.1, -inf), (0.1, nan, inf)]:
        grid = [[[[list(position)]]]]
        function = sampled(mode, padding, False)
        if padding == "zeros" or padding == "border" and nan not in position:
            same(function, VOLUME, grid)
        (actual,), gradients = results(ternion, function, [VOLUME, grid])
        expected = function(torch, torch.tensor(VOLUME, dtype=torch.float64), torch.tensor(grid, dtype=torch.float64))
        np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-12)
        assert np.isfinite(gradients[0]).all() and np.isfinite(gradients[1]).all()
