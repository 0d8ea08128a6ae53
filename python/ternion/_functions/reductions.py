"""Functions that reduce or run along axes, made of others."""

from __future__ import annotations

from typing import Any

from .. import _results, _ternion
from .._ternion import Tensor
from .arithmetic import _float
from .kinds import promote_types, result_type
from .shapes import _axis, _axis_or_only

_NORM = Tensor.norm


def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum over axes, NaN counted as 0.

    Shapes: [..] -> [], or without the axes `dim`

    Raises:
        IndexError: an axis that does not exist.
    """
    return input._nansum(dim, keepdim, dtype)


def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean over axes of what is not NaN.

    Shapes: [..] -> [], or without the axes `dim`

    Raises:
        IndexError: an axis that does not exist.
    """
    return _float(input if dtype is None else input.to(dtype))._nanmean(dim, keepdim)


def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many elements over axes are not 0, int64.

    Shapes: [..] -> [], or without the axes `dim`

    Raises:
        IndexError: an axis that does not exist.
    """
    return input._count_nonzero(dim)


def norm(
    input: Tensor, p: float | str | None = None, dim: Any = None, keepdim: bool = False, dtype: Any = None, *, axis: Any = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """The norm over axes: of order 2 by default, or any other number: of 0 how many are not 0, of infinity the largest size, of minus infinity the smallest;
    "fro" is 2, and "nuc" the sum of the singular values of matrices, which lie in two axes.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Args:
        dtype: what the elements are cast to first.

    Raises:
        IndexError: an axis that does not exist.
        ValueError: "nuc" over other axes than two, a `dtype` that does not hold the numbers of the input.
        TypeError: a `dtype` that is no floating one.
    """
    if dtype is not None:
        input = _held("norm", input, dtype)
    return _NORM(input, p, dim, keepdim, axis=axis, keepdims=keepdims)


def _held(function: str, input: Tensor, dtype: Any) -> Tensor:
    """The input in a floating dtype that holds its numbers."""
    wanted, kind = str(dtype).split(".")[-1], str(input.dtype).split(".")[-1]
    if not dtype.is_floating_point:
        raise TypeError(f"{function}: expected a floating dtype, got {wanted}")
    if promote_types(input.dtype, dtype) != dtype:
        raise ValueError(f"{function}: expected a dtype that holds the numbers of {kind}, got {wanted}")
    return input.to(dtype)


def _correction(function: str, dim: Any, unbiased: bool | None, correction: float | None) -> tuple[Any, float]:
    """`dim` and the correction, 1 unless told: PyTorch's older form has `unbiased`, also in the place of `dim`."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"{function}: expected unbiased or correction, got both")
    if unbiased is not None:
        return dim, int(unbiased)
    return dim, 1 if correction is None else correction


def _of_numpy(function: str, dim: Any, keepdim: bool, axis: Any, keepdims: bool | None) -> tuple[Any, bool]:
    """`dim` and `keepdim`, which may be given by NumPy's names."""
    if dim is not None and axis is not None:
        raise TypeError(f"{function}: both dim and axis, which are one")
    return axis if dim is None else dim, keepdim if keepdims is None else keepdims


def var_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None, axis: Any = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The variance over axes, and the mean.

    Shapes: [..] -> two of [], or without the axes `dim`

    Raises:
        IndexError: an axis that does not exist.
        TypeError: whole numbers; both `unbiased` and `correction`.
    """
    dim, keepdim = _of_numpy("var_mean", dim, keepdim, axis, keepdims)
    dim, correction = _correction("var_mean", dim, unbiased, correction)
    return input._var_mean(dim, correction, keepdim, False)


def std_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None, axis: Any = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The standard deviation over axes, and the mean.

    Shapes: [..] -> two of [], or without the axes `dim`

    Raises:
        IndexError: an axis that does not exist.
        TypeError: whole numbers; both `unbiased` and `correction`.
    """
    dim, keepdim = _of_numpy("std_mean", dim, keepdim, axis, keepdims)
    dim, correction = _correction("std_mean", dim, unbiased, correction)
    return input._var_mean(dim, correction, keepdim, True)


def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest and the largest element, over an axis or all: a tuple of min and max.

    Shapes: [..] -> two of [], or without the axis `dim`

    Raises:
        IndexError: an axis that does not exist.
        ValueError: no elements.
    """
    return _results.aminmax(*input._aminmax(dim, keepdim))


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The norm of the difference.

    Shapes: [..] and what broadcasts to it -> []

    Raises:
        ValueError: shapes that do not broadcast.
    """
    return input._dist(other, p)


def _ordered(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The elements in order along an axis and their places, NaN first, so that they are found wherever one looks for the middle."""
    places = input.argsort(dim)
    return input.gather(dim, places), places


def _found(name: str, input: Tensor, found: tuple[Tensor, Tensor], dim: int, keepdim: bool) -> Any:
    """A tuple of values and indices, whose axis `dim` is gone or stays with size 1."""
    if keepdim and input.ndim:
        found = found[0].unsqueeze(dim), found[1].unsqueeze(dim)
    return getattr(_results, name)(*found)


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest element along an axis, counted from 1, and its index (int64): a tuple of values and indices.

    Shapes: [..] -> two without the axis `dim`

    Raises:
        ValueError: a k that is not from 1 to the size of the axis.
    """
    axis = _axis_or_only("kthvalue", input, dim)
    size = input.shape[axis] if input.ndim else 1
    if not 1 <= k <= size:
        raise ValueError(f"kthvalue: k of {k}, expected 1 to {size}")
    return _found("kthvalue", input, input._kthvalue(k, axis), axis, keepdim)


def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element in order, of two the smaller; NaN if there is one. Along `dim` a tuple of values and indices.

    Shapes: [..] -> [], or two without the axis `dim`

    Raises:
        ValueError: no elements along `dim`; no whole numbers at all.
        IndexError: an axis that does not exist.
    """
    if dim is None:
        return input._median_all()
    return _found("median", input, input._median(_filled("median", input, dim)), dim, keepdim)


def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element in order among those that are not NaN, of two the smaller; NaN where there is none. Along `dim` a tuple of values and indices.

    Shapes: [..] -> [], or two without the axis `dim`

    Raises:
        ValueError: no elements along `dim`; no whole numbers at all.
        IndexError: an axis that does not exist.
    """
    if dim is None:
        return input._nanmedian_all()
    return _found("nanmedian", input, input._nanmedian(_filled("nanmedian", input, dim)), dim, keepdim)


def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent element along an axis, of several the smallest, and the last index where it is (int64): a tuple of values and indices.

    Shapes: [..] -> two without the axis `dim`

    Raises:
        ValueError: no elements along `dim`.
        IndexError: an axis that does not exist.
    """
    return _found("mode", input, input._mode(_filled("mode", input, dim)), dim, keepdim)


def _filled(name: str, input: Tensor, dim: int) -> int:
    """An axis along which there are elements."""
    axis = _axis_or_only(name, input, dim)
    if input.ndim and input.shape[axis] == 0:
        raise ValueError(f"{name}: of shape {list(input.shape)}, expected elements along axis {dim}")
    return axis


def cummax(input: Tensor, dim: int) -> Any:
    """The largest of the elements up to each along an axis, and the last index where it is (int64): a tuple of values and indices. NaN is larger than all.

    Shapes: [..] -> two of the same

    Raises:
        IndexError: an axis that does not exist.
    """
    return _results.cummax(*input._cummax(_axis_or_only("cummax", input, dim)))


def cummin(input: Tensor, dim: int) -> Any:
    """The smallest of the elements up to each along an axis, and the last index where it is (int64): a tuple of values and indices. NaN is smaller than all.

    Shapes: [..] -> two of the same

    Raises:
        IndexError: an axis that does not exist.
    """
    return _results.cummin(*input._cummin(_axis_or_only("cummin", input, dim)))


def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The slices along an axis, those whose `p`-norm is above `maxnorm` scaled to that.

    Shapes: [..], at least two axes -> the same

    Raises:
        ValueError: less than two axes, a `p` that is not above 0, a `maxnorm` below 0.
        TypeError: whole numbers.
        IndexError: an axis that does not exist.
    """
    return input._renorm(p, dim, maxnorm)


def quantile(input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
    """The numbers below which these shares of the elements are; NaN where there is one. Gradients go to the elements that were found, and to `q`.

    Args:
        q: a share from 0 to 1, or a tensor of several, which are a first axis of the result.
        interpolation: what is between two elements: "linear", "lower", "higher", "midpoint" or "nearest".

    Raises:
        TypeError: no floats, a `q` of another dtype.
        ValueError: no elements, a share outside 0 to 1, another interpolation.
        IndexError: an axis that does not exist.
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


def nanquantile(input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
    """`quantile` of the elements that are not NaN; NaN where all are.

    Raises:
        TypeError: no floats, a `q` of another dtype.
        ValueError: no elements, a share outside 0 to 1, another interpolation.
        IndexError: an axis that does not exist.
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


def _quantile(function: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, is_nan_left_out: bool) -> Tensor:
    if not input.is_floating_point():
        raise TypeError(f"{function}: input is {str(input.dtype).split('.')[-1]}, expected a floating dtype")
    shares = q if isinstance(q, Tensor) else _ternion.tensor(float(q), dtype=input.dtype, device=input.device)
    if shares.dtype != input.dtype:
        raise TypeError(f"{function}: q is {str(shares.dtype).split('.')[-1]}, expected {str(input.dtype).split('.')[-1]} as the input")
    return input._quantile(shares.to(input.device), (dim, keepdim), interpolation, is_nan_left_out)


def histogram(input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False) -> Any:
    """How many elements, or the sum of the weights of those that, fall into each interval, and the ends of the intervals: a tuple of hist and bin_edges.

    The last interval is closed, the others are half open; elements outside, and NaN, do not count. No gradient flows.

    Shapes: [..] -> [bins] and [bins + 1]

    Args:
        bins: how many intervals of equal width, or a tensor of their ends, in order.
        range: the smallest and the largest end; by default those of the elements.
        weight: how much each element counts, of the input's shape.
        density: divides by the sum and by the widths.

    Raises:
        TypeError: no floats, ends or weights of another dtype.
        ValueError: no intervals, ends that are not finite or not in order, weights of another shape, a `range` beside ends.
    """
    if isinstance(bins, Tensor):
        if range is not None:
            raise ValueError("histogram: a range beside the ends of intervals, expected one of them")
        return _results.histogram(*input._histogram((0, None), bins, weight, density))
    ends = None if range is None else (range[0], range[1])
    return _results.histogram(*input._histogram((bins, ends), None, weight, density))


def cumprod(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The products of the elements up to each, along `dim`; of integers in int64.

    Shapes: [..] -> the same

    Raises:
        IndexError: an axis that does not exist.
    """
    return input._cumprod(_axis_or_only("cumprod", input, dim), dtype)


def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """The differences of neighbours along `dim`, `n` times, with `prepend` before the elements and `append` behind them.

    Shapes: [.., size, ..] -> [.., size - n, ..], of the size with what is put to it

    Raises:
        IndexError: an axis that does not exist.
        ValueError: an `n` below 0.
    """
    axis = _axis("diff", input, dim)
    if n < 0:
        raise ValueError(f"diff: n of {n}, expected 0 or more")
    return input._diff(n, axis, prepend, append)


def cov(input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """The covariances of rows, whose columns are observations: [variables, observations] -> [variables, variables], of one variable [].

    Args:
        fweights: how often each observation was made, whole numbers: [observations].
        aweights: how much each counts: [observations].

    Raises:
        ValueError: weights of another shape or below 0, more than two axes.
        TypeError: `fweights` that are no whole numbers.
    """
    _numbers("cov", input)
    if aweights is not None and aweights.is_floating_point():
        dtype = result_type(input, aweights)
        input, aweights = input.to(dtype), aweights.to(dtype)
    elif aweights is not None:
        dtype = _float(input).dtype
        input, aweights = input.to(dtype), aweights.to(dtype)
    return _float(input)._cov(correction, fweights, aweights)


def corrcoef(input: Tensor) -> Tensor:
    """The correlations of rows, whose columns are observations.

    Shapes: [variables, observations] -> [variables, variables], of one variable []
    """
    _numbers("corrcoef", input)
    return _float(input)._corrcoef()


def _numbers(op: str, x: Tensor) -> None:
    if x.dtype == _ternion.bool:
        raise TypeError(f"{op}: input is bool, expected numbers: x.float() makes them")


def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """The different elements in order, and what is asked for beside them.

    Args:
        sorted: taken as in PyTorch; they are in order in any case.
        return_inverse: where each element of the input is among them, in the input's shape, int64.
        return_counts: how often each of them occurs, int64.
        dim: an axis whose slices are compared as a whole, number by number; `inverse` and `counts` have one number for each slice then.

    Raises:
        IndexError: an axis that is none.
        ValueError: slices without elements.
    """
    del sorted
    return _asked_for(input._unique(None if dim is None else _axis("unique", input, dim), False), return_inverse, return_counts)


def unique_consecutive(input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """The elements without those that are as the one before, and what is asked for beside them: see `unique`.

    Shapes: [..] -> [groups], and beside it the input's shape (inverse) and [groups] (counts); along `dim` of slices, which are compared as a whole

    Raises:
        IndexError: an axis that is none.
        ValueError: slices without elements.
    """
    return _asked_for(input._unique(None if dim is None else _axis("unique_consecutive", input, dim), True), return_inverse, return_counts)


def _asked_for(found: tuple[Tensor, Tensor, Tensor], return_inverse: bool, return_counts: bool) -> Any:
    values, inverse, counts = found
    parts = [values, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
    return tuple(parts) if len(parts) > 1 else values


def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """The logarithms of the sums of `e^x` up to each element, along `dim`, without overflow.

    Shapes: [..] -> the same; integers become float32

    Raises:
        IndexError: an axis that does not exist.
    """
    return _float(input)._logcumsumexp(_axis_or_only("logcumsumexp", input, dim))


def msort(input: Tensor) -> Tensor:
    """The elements in order along the first axis.

    Shapes: [..] -> the same
    """
    return input._msort()


def _areas(function: str, y: Tensor, x: Any, dx: float | None, dim: int, cumulative: bool) -> Tensor:
    if x is not None and dx is not None:
        raise TypeError(f"{function}: both x and dx, expected one of the two")
    axis = _axis(function, y, dim)
    _numbers(function, y)
    return y._trapezoid(axis, (1.0 if dx is None else dx, x if x is None or isinstance(x, Tensor) else _float(x)), cumulative)


def cumulative_trapezoid(y: Tensor, x: Any = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """The areas below `y` up to each element but the first: see `trapezoid`.

    Shapes: [.., n, ..] -> [.., n - 1, ..]

    Raises:
        IndexError: an axis that does not exist.
        ValueError: another number of places `x` than of elements, no elements.
    """
    return _areas("cumulative_trapezoid", y, x, dx, dim, True)


def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """The slopes along axes, by differences that are exact of parabolas (at the ends of order 1 of lines): a tensor for each axis.

    Args:
        spacing: how far apart elements are, 1 by default, for all axes or a list with one for each; a tensor tells the places along its axis.
        dim: the axis or axes; all of them by default.
        edge_order: 1 or 2, how exact the slopes at both ends are.

    Raises:
        IndexError: an axis that does not exist.
        ValueError: an axis twice, or with no more elements than the order; as many spacings as neither 1 nor the axes, another `edge_order`.
    """
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [_axis("gradient", input, one) for one in dims]
    if len(set(axes)) < len(axes):
        raise ValueError(f"gradient: axes {list(dims)}, expected each once")
    spacing = 1 if spacing is None else spacing
    spacings = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(axes)
    if len(spacings) != len(axes):
        raise ValueError(f"gradient: {len(spacings)} spacings for {len(axes)} axes")
    steps = [(0.0, _float(step)) if isinstance(step, Tensor) and step.ndim else (step, None) for step in spacings]
    return tuple(_float(input)._gradient(axis, step, edge_order) for axis, step in zip(axes, steps))


def trapezoid(y: Tensor, x: Any = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """The area below `y`, whose elements along `dim` are `dx` apart (1 by default) or at the places `x`, by straight lines between them.

    Shapes: [..] -> without the axis `dim`

    Raises:
        IndexError: an axis that does not exist.
        ValueError: another number of places `x` than of elements.
    """
    return _areas("trapezoid", y, x, dx, dim, False)
