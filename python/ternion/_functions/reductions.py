"""Reductions and scans along axes, written in terms of other functions."""

from __future__ import annotations

from typing import Any

from .. import _results, _ternion
from .._ternion import Tensor
from .arithmetic import _float
from .kinds import promote_types, result_type
from .shapes import _axis, _axis_or_only

_NORM = Tensor.norm


def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Returns the sum over axes, with NaN treated as 0.

    Shapes: [..] -> [], or without the axes `dim`

    Raises:
        IndexError: If an axis is out of range.
    """
    return input._nansum(dim, keepdim, dtype)


def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Returns the mean over axes of the elements that are not NaN.

    Shapes: [..] -> [], or without the axes `dim`

    Raises:
        IndexError: If an axis is out of range.
    """
    return _float(input if dtype is None else input.to(dtype))._nanmean(dim, keepdim)


def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """Returns the number of nonzero elements over axes, int64.

    Shapes: [..] -> [], or without the axes `dim`

    Raises:
        IndexError: If an axis is out of range.
    """
    return input._count_nonzero(dim)


def norm(
    input: Tensor, p: float | str | None = None, dim: Any = None, keepdim: bool = False, dtype: Any = None, *, axis: Any = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Returns the norm over axes, by default of order 2.

    Any number is an order: 0 counts the nonzero elements, infinity gives the largest magnitude and
    minus infinity the smallest. "fro" is the order 2, and "nuc" is the sum of the singular values
    of matrices, which are in two axes.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Args:
        dtype: The dtype to which the elements are cast first.

    Raises:
        IndexError: If an axis is out of range.
        ValueError: If "nuc" is used over a number of axes other than two, or if `dtype` cannot
            represent the values of the input's dtype.
        TypeError: If `dtype` is not a floating-point dtype.
    """
    if dtype is not None:
        input = _cast_checked("norm", input, dtype)
    return _NORM(input, p, dim, keepdim, axis=axis, keepdims=keepdims)


def _cast_checked(function: str, input: Tensor, dtype: Any) -> Tensor:
    """Casts the input to a floating-point dtype that can represent its values."""
    target, source = str(dtype).split(".")[-1], str(input.dtype).split(".")[-1]
    if not dtype.is_floating_point:
        raise TypeError(f"{function}: expected a floating dtype, got {target}")
    if promote_types(input.dtype, dtype) != dtype:
        raise ValueError(f"{function}: expected a dtype that holds the numbers of {source}, got {target}")
    return input.to(dtype)


def _correction(function: str, dim: Any, unbiased: bool | None, correction: float | None) -> tuple[Any, float]:
    """Returns `dim` and the correction, 1 by default. PyTorch's older signature has `unbiased`,
    also in the position of `dim`.
    """
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"{function}: expected unbiased or correction, got both")
    if unbiased is not None:
        return dim, int(unbiased)
    return dim, 1 if correction is None else correction


def _merge_numpy_names(function: str, dim: Any, keepdim: bool, axis: Any, keepdims: bool | None) -> tuple[Any, bool]:
    """Returns `dim` and `keepdim`, which may be given by NumPy's names."""
    if dim is not None and axis is not None:
        raise TypeError(f"{function}: both dim and axis, which are one")
    return axis if dim is None else dim, keepdim if keepdims is None else keepdims


def var_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None, axis: Any = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Returns the variance and the mean over axes.

    Shapes: [..] -> two tensors of shape [], or without the axes `dim`

    Raises:
        IndexError: If an axis is out of range.
        TypeError: If the input has no floating-point dtype, or if both `unbiased` and `correction`
            are given.
    """
    dim, keepdim = _merge_numpy_names("var_mean", dim, keepdim, axis, keepdims)
    dim, correction = _correction("var_mean", dim, unbiased, correction)
    return input._var_mean(dim, correction, keepdim, False)


def std_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None, axis: Any = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Returns the standard deviation and the mean over axes.

    Shapes: [..] -> two tensors of shape [], or without the axes `dim`

    Raises:
        IndexError: If an axis is out of range.
        TypeError: If the input has no floating-point dtype, or if both `unbiased` and `correction`
            are given.
    """
    dim, keepdim = _merge_numpy_names("std_mean", dim, keepdim, axis, keepdims)
    dim, correction = _correction("std_mean", dim, unbiased, correction)
    return input._var_mean(dim, correction, keepdim, True)


def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """Returns the smallest and the largest element, over an axis or all axes: a tuple of min and
    max.

    Shapes: [..] -> two tensors of shape [], or without the axis `dim`

    Raises:
        IndexError: If an axis is out of range.
        ValueError: If there are no elements.
    """
    return _results.aminmax(*input._aminmax(dim, keepdim))


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Returns the norm of the difference.

    Shapes: [..] and [..], which broadcast -> []

    Raises:
        ValueError: If the shapes do not broadcast.
    """
    return input._dist(other, p)


def _ordered(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Returns the elements sorted along an axis, NaN last, and their indices."""
    indices = input.argsort(dim)
    return input.gather(dim, indices), indices


def _values_and_indices(name: str, input: Tensor, pair: tuple[Tensor, Tensor], dim: int, keepdim: bool) -> Any:
    """Returns a tuple of values and indices. The axis `dim` is removed, or has size 1 with
    `keepdim`.
    """
    if keepdim and input.ndim:
        pair = pair[0].unsqueeze(dim), pair[1].unsqueeze(dim)
    return getattr(_results, name)(*pair)


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Returns the k-th smallest element along an axis, with k counted from 1, and its index
    (int64): a tuple of values and indices.

    Shapes: [..] -> two tensors without the axis `dim`

    Raises:
        ValueError: If `k` is not between 1 and the size of the axis.
    """
    axis = _axis_or_only("kthvalue", input, dim)
    size = input.shape[axis] if input.ndim else 1
    if not 1 <= k <= size:
        raise ValueError(f"kthvalue: k of {k}, expected 1 to {size}")
    return _values_and_indices("kthvalue", input, input._kthvalue(k, axis), axis, keepdim)


def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Returns the median; the smaller of two middle elements; NaN if an element is NaN. With `dim`,
    returns a tuple of values and indices.

    Shapes: [..] -> [], or two tensors without the axis `dim`

    Raises:
        ValueError: If there are no elements along `dim`, or if `dim` is not given and an integer
            tensor has no elements.
        IndexError: If an axis is out of range.
    """
    if dim is None:
        return input._median_all()
    return _values_and_indices("median", input, input._median(_nonempty_axis("median", input, dim)), dim, keepdim)


def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Returns the median of the elements that are not NaN; the smaller of two middle elements; NaN
    if all are NaN. With `dim`, returns a tuple of values and indices.

    Shapes: [..] -> [], or two tensors without the axis `dim`

    Raises:
        ValueError: If there are no elements along `dim`, or if `dim` is not given and an integer
            tensor has no elements.
        IndexError: If an axis is out of range.
    """
    if dim is None:
        return input._nanmedian_all()
    return _values_and_indices("nanmedian", input, input._nanmedian(_nonempty_axis("nanmedian", input, dim)), dim, keepdim)


def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """Returns the most frequent element along an axis, the smallest of several, and the last index
    at which it occurs (int64): a tuple of values and indices.

    Shapes: [..] -> two tensors without the axis `dim`

    Raises:
        ValueError: If there are no elements along `dim`.
        IndexError: If an axis is out of range.
    """
    return _values_and_indices("mode", input, input._mode(_nonempty_axis("mode", input, dim)), dim, keepdim)


def _nonempty_axis(name: str, input: Tensor, dim: int) -> int:
    """Returns an axis along which there are elements."""
    axis = _axis_or_only(name, input, dim)
    if input.ndim and input.shape[axis] == 0:
        raise ValueError(f"{name}: of shape {list(input.shape)}, expected elements along axis {dim}")
    return axis


def cummax(input: Tensor, dim: int) -> Any:
    """Returns the largest of the elements up to each one along an axis, and the last index at which
    it occurs (int64): a tuple of values and indices. NaN is treated as the largest value.

    Shapes: [..] -> two tensors of the same shape

    Raises:
        IndexError: If an axis is out of range.
    """
    return _results.cummax(*input._cummax(_axis_or_only("cummax", input, dim)))


def cummin(input: Tensor, dim: int) -> Any:
    """Returns the smallest of the elements up to each one along an axis, and the last index at
    which it occurs (int64): a tuple of values and indices. NaN is treated as the smallest value.

    Shapes: [..] -> two tensors of the same shape

    Raises:
        IndexError: If an axis is out of range.
    """
    return _results.cummin(*input._cummin(_axis_or_only("cummin", input, dim)))


def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Scales the slices along an axis whose `p`-norm is above `maxnorm` to that norm.

    Shapes: [..], at least two axes -> the same shape

    Raises:
        ValueError: If there are fewer than two axes, if `p` is not positive, or if `maxnorm` is
            negative.
        TypeError: If the input has no floating-point dtype.
        IndexError: If an axis is out of range.
    """
    return input._renorm(p, dim, maxnorm)


def quantile(input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
    """Returns the quantiles at the probabilities `q`; NaN if an element is NaN. Gradients flow to
    the selected elements and to `q`.

    Args:
        q: A probability from 0 to 1, or a tensor of several, which become the first axis of the
            result.
        interpolation: How to interpolate between two elements: "linear", "lower", "higher",
            "midpoint" or "nearest".

    Raises:
        TypeError: If the input has no floating-point dtype, or if `q` has a different dtype.
        ValueError: If there are no elements, if `q` is outside 0 to 1, or if the interpolation is
            unknown.
        IndexError: If an axis is out of range.
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


def nanquantile(input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
    """Returns the `quantile` of the elements that are not NaN; NaN if all are NaN.

    Raises:
        TypeError: If the input has no floating-point dtype, or if `q` has a different dtype.
        ValueError: If there are no elements, if `q` is outside 0 to 1, or if the interpolation is
            unknown.
        IndexError: If an axis is out of range.
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


def _quantile(function: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignores_nan: bool) -> Tensor:
    if not input.is_floating_point():
        raise TypeError(f"{function}: input is {str(input.dtype).split('.')[-1]}, expected a floating dtype")
    probabilities = q if isinstance(q, Tensor) else _ternion.tensor(float(q), dtype=input.dtype, device=input.device)
    if probabilities.dtype != input.dtype:
        raise TypeError(f"{function}: q is {str(probabilities.dtype).split('.')[-1]}, expected {str(input.dtype).split('.')[-1]} as the input")
    return input._quantile(probabilities.to(input.device), (dim, keepdim), interpolation, ignores_nan)


def histogram(input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False) -> Any:
    """Returns the number of elements, or the sum of their weights, in each bin, and the bin edges:
    a tuple of hist and bin_edges.

    The last bin is closed, the others are half open. Elements outside and NaN are ignored. The
    result has no gradient.

    Shapes: [..] -> [bins] and [bins + 1]

    Args:
        bins: The number of bins of equal width, or a tensor of bin edges in ascending order.
        range: The smallest and the largest edge. Default: the min and max of the elements.
        weight: The weight of each element, in the shape of `input`.
        density: Divides the counts by their sum and by the widths of the bins.

    Raises:
        TypeError: If the input has no floating-point dtype, or if edges or weights have a different
            dtype.
        ValueError: If there are no bins, if edges are not finite or not in ascending order, if the
            weights have a different shape, or if `range` is given in addition to edges.
    """
    if isinstance(bins, Tensor):
        if range is not None:
            raise ValueError("histogram: a range and the ends of intervals, expected one of them")
        return _results.histogram(*input._histogram((0, None), bins, weight, density))
    ends = None if range is None else (range[0], range[1])
    return _results.histogram(*input._histogram((bins, ends), None, weight, density))


def cumprod(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Returns the cumulative products along `dim`; int64 for integers.

    Shapes: [..] -> the same shape

    Raises:
        IndexError: If an axis is out of range.
    """
    return input._cumprod(_axis_or_only("cumprod", input, dim), dtype)


def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Returns the differences of neighbors along `dim`, applied `n` times, with `prepend` before
    the elements and `append` after them.

    Shapes: [.., size, ..] -> [.., size - n, ..], where size includes `prepend` and `append`

    Raises:
        IndexError: If an axis is out of range.
        ValueError: If `n` is negative.
    """
    axis = _axis("diff", input, dim)
    if n < 0:
        raise ValueError(f"diff: n of {n}, expected 0 or more")
    return input._diff(n, axis, prepend, append)


def cov(input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """Returns the covariance matrix of the rows, whose columns are observations:
    [variables, observations] -> [variables, variables], or [] for one variable.

    Args:
        fweights: The number of times that each observation occurred, integers [observations].
        aweights: The weight of each observation, [observations].

    Raises:
        ValueError: If weights have a different shape or are negative, or if there are more than two
            axes.
        TypeError: If `fweights` has no integer dtype.
    """
    _reject_bool("cov", input)
    if aweights is not None and aweights.is_floating_point():
        dtype = result_type(input, aweights)
        input, aweights = input.to(dtype), aweights.to(dtype)
    elif aweights is not None:
        dtype = _float(input).dtype
        input, aweights = input.to(dtype), aweights.to(dtype)
    return _float(input)._cov(correction, fweights, aweights)


def corrcoef(input: Tensor) -> Tensor:
    """Returns the correlation matrix of the rows, whose columns are observations.

    Shapes: [variables, observations] -> [variables, variables], or [] for one variable
    """
    _reject_bool("corrcoef", input)
    return _float(input)._corrcoef()


def _reject_bool(op: str, x: Tensor) -> None:
    if x.dtype == _ternion.bool:
        raise TypeError(f"{op}: input is bool, expected numbers: x.float() makes them")


def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """Returns the unique elements in ascending order, optionally with inverse indices and counts.

    Args:
        sorted: Accepted for compatibility with PyTorch. The result is always sorted.
        return_inverse: Also returns the index of each element of the input in the result, in the
            shape of `input`, int64.
        return_counts: Also returns the number of occurrences of each unique element, int64.
        dim: An axis whose slices are compared as a whole, element by element. `inverse` and
            `counts` then have one value for each slice.

    Raises:
        IndexError: If the axis is out of range.
        ValueError: If the slices have no elements.
    """
    del sorted
    return _unique_results(input._unique(None if dim is None else _axis("unique", input, dim), False), return_inverse, return_counts)


def unique_consecutive(input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """Returns the elements without those that are equal to the previous one, optionally with
    inverse indices and counts; see `unique`.

    Shapes: [..] -> [groups], and optionally the shape of `input` (inverse) and [groups] (counts).
    With `dim`, slices are compared as a whole.

    Raises:
        IndexError: If the axis is out of range.
        ValueError: If the slices have no elements.
    """
    return _unique_results(input._unique(None if dim is None else _axis("unique_consecutive", input, dim), True), return_inverse, return_counts)


def _unique_results(results: tuple[Tensor, Tensor, Tensor], return_inverse: bool, return_counts: bool) -> Any:
    values, inverse, counts = results
    parts = [values, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
    return tuple(parts) if len(parts) > 1 else values


def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """Returns the logarithms of the cumulative sums of `e^x` along `dim`, without overflow.

    Shapes: [..] -> the same shape; integers become float32

    Raises:
        IndexError: If an axis is out of range.
    """
    return _float(input)._logcumsumexp(_axis_or_only("logcumsumexp", input, dim))


def msort(input: Tensor) -> Tensor:
    """Sorts the elements along the first axis in ascending order.

    Shapes: [..] -> the same shape
    """
    return input._msort()


def _trapezoid(function: str, y: Tensor, x: Any, dx: float | None, dim: int, cumulative: bool) -> Tensor:
    if x is not None and dx is not None:
        raise TypeError(f"{function}: both x and dx, expected one of the two")
    axis = _axis(function, y, dim)
    _reject_bool(function, y)
    return y._trapezoid(axis, (1.0 if dx is None else dx, x if x is None or isinstance(x, Tensor) else _float(x)), cumulative)


def cumulative_trapezoid(y: Tensor, x: Any = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """Returns the area below `y` up to each element except the first; see `trapezoid`.

    Shapes: [.., n, ..] -> [.., n - 1, ..]

    Raises:
        IndexError: If an axis is out of range.
        ValueError: If the number of positions `x` differs from that of the elements, or if there
            are no elements.
    """
    return _trapezoid("cumulative_trapezoid", y, x, dx, dim, True)


def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Returns the derivatives along axes: one tensor for each axis. The differences are exact for
    parabolas (with edge order 1 at the ends for lines).

    Args:
        spacing: The distance between elements, for all axes or as a list with one entry for each
            axis. A tensor contains the coordinates along its axis. Default: 1.
        dim: The axis or axes. Default: all.
        edge_order: 1 or 2, the order of accuracy of the derivatives at both ends.

    Raises:
        IndexError: If an axis is out of range.
        ValueError: If an axis is given twice or has no more elements than the order, if the number
            of spacings is neither 1 nor that of the axes, or if `edge_order` is not 1 or 2.
    """
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [_axis("gradient", input, each) for each in dims]
    if len(set(axes)) < len(axes):
        raise ValueError(f"gradient: axes {list(dims)}, expected each once")
    spacing = 1 if spacing is None else spacing
    spacings = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(axes)
    if len(spacings) != len(axes):
        raise ValueError(f"gradient: {len(spacings)} spacings for {len(axes)} axes")
    steps = [(0.0, _float(step)) if isinstance(step, Tensor) and step.ndim else (step, None) for step in spacings]
    return tuple(_float(input)._gradient(axis, step, edge_order) for axis, step in zip(axes, steps))


def trapezoid(y: Tensor, x: Any = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """Returns the area below `y` by the trapezoidal rule. The elements along `dim` are `dx` apart
    (1 by default), or at the positions `x`.

    Shapes: [..] -> without the axis `dim`

    Raises:
        IndexError: If an axis is out of range.
        ValueError: If the number of positions `x` differs from that of the elements.
    """
    return _trapezoid("trapezoid", y, x, dx, dim, False)
