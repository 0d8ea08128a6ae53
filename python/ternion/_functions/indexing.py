"""Indexing, gather and scatter functions, written in terms of other functions."""

from __future__ import annotations

import math
from typing import Any

from .. import _ternion
from .._ternion import Tensor
from .kinds import _dtype_name, can_cast, result_type
from .shapes import _check_size

# A Python list of more elements than this would take all memory, and minutes.
_MAX_ELEMENTS = 2**27


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Returns the elements at `indices` along `dim`. The other axes of both tensors are broadcast.
    Without `dim`, the flattened tensor is indexed.

    Shapes: [..] and indices of the same rank -> the shape of `indices`

    Raises:
        IndexError: If the axis or an index is out of range.
        ValueError: If `indices` has a different rank.
    """
    return input._take_along_dim(indices, dim)


def take(input: Tensor, index: Tensor) -> Tensor:
    """Returns the elements of the flattened tensor at `index`, in the shape of `index`.

    Shapes: [..], index [*shape] -> [*shape]

    Raises:
        IndexError: If an index is out of range.
        TypeError: If the index has a floating-point dtype.
    """
    return input._take(index)


def argwhere(input: Tensor) -> Tensor:
    """Returns the indices of all nonzero elements, one row for each element, int64.

    Shapes: [..] -> [number of nonzero elements, rank]
    """
    return input.nonzero()


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Returns whether each element is one of `test_elements`, or is not if `invert` is true. Each
    argument is a tensor or a number.

    Shapes: [..] and any shape -> the first shape, bool

    Args:
        assume_unique: Whether no element occurs more than once in either argument. It has no effect
            on the result.

    Raises:
        TypeError: If an argument is neither a tensor nor a number.
    """
    elements, test_elements = (value if isinstance(value, Tensor) else _ternion.tensor(value) for value in (elements, test_elements))
    dtype = result_type(elements, test_elements)
    return elements.to(dtype)._isin(test_elements.to(dtype).to(elements.device), invert)


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Returns a copy of this tensor in which the slices along `dim` at `index` are replaced by
    those of `source`.

    Shapes: [..], index [n], source of size n along `dim` -> the shape of `input`

    Raises:
        IndexError: If the axis or an index is out of range.
        ValueError: If the shape of `source` does not match.
    """
    if input.ndim == 0 and dim in (0, -1):
        return input.reshape(1)._index_copy(0, index.reshape(-1), source.reshape(-1)).reshape(())
    return input._index_copy(dim, index.reshape(-1), source)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Returns a copy of this tensor in which the slices along `dim` at `index` are filled with
    `value`. A gradient flows to `value` if it is a tensor.

    Shapes: [..], index [n] -> the shape of `input`

    Raises:
        IndexError: If the axis or an index is out of range.
    """
    if not isinstance(value, Tensor):
        value = _ternion.full((), value, dtype=input.dtype, device=input.device)
    value = value.to(input.device).to(input.dtype).reshape(())
    if input.ndim == 0 and dim in (0, -1):
        return input.reshape(1)._index_fill(0, index.reshape(-1), value).reshape(())
    return input._index_fill(dim, index.reshape(-1), value)


def _check_dtype(function: str, name: str, value: Any, input: Tensor) -> None:
    """Checks that a tensor can be written to the input without a cast to a different kind of dtype.
    """
    if isinstance(value, Tensor) and not can_cast(value.dtype, input.dtype):
        raise TypeError(f"{function}: {name} of {_dtype_name(value.dtype)}, expected {_dtype_name(input.dtype)}")


def index_put(input: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """Returns a copy of this tensor in which `values` are written to the elements at `indices`, a
    tuple of tensors, or added to them.

    Shapes: [..], values that broadcast to the indexed elements -> the shape of `input`

    Raises:
        IndexError: If an index is out of range.
        ValueError: If the values do not broadcast to the indexed elements.
        TypeError: If the dtype of the values cannot be cast to that of the input, such as float to
            integer.
    """
    result = input.clone()
    return index_put_(result, indices, values, accumulate)


def index_put_(input: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """Writes `values` to the elements at `indices`, a tuple of tensors, or adds them, in place: the
    tensor itself is changed and returned.

    Shapes: [..], values that broadcast to the indexed elements -> the shape of `input`

    Raises:
        IndexError: If an index is out of range.
        ValueError: If the values do not broadcast to the indexed elements.
        TypeError: If the dtype of the values cannot be cast to that of the input, such as float to
            integer.
    """
    _check_dtype("index_put", "values", values, input)
    if accumulate:
        return input.copy_(input._index_put(tuple(indices), values, True))
    input[tuple(indices)] = values
    return input


def scatter_reduce(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """Returns a copy of this tensor into which the elements of `src` are reduced at `index` along
    `dim`.

    Shapes: [..], index of the same rank, src at least as large as index along each axis -> the
    shape of `input`

    Args:
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: Whether the elements of `input` are included in the reduction.

    Raises:
        IndexError: If the axis or an index is out of range.
        ValueError: If `reduce` is unknown, or if the shapes do not match.
        TypeError: If the source has a different dtype, or for the mean of a bool tensor.
    """
    return input._scatter_reduce(dim, index, src, reduce, include_self)


def index_reduce(input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """Returns a copy of this tensor into which the slices of `source` are reduced at `index` along
    `dim`.

    Shapes: [..], index [n], source of size n along `dim` -> the shape of `input`

    Args:
        reduce: "prod", "mean", "amax" or "amin".
        include_self: Whether the slices of `input` are included in the reduction.

    Raises:
        IndexError: If the axis or an index is out of range.
        ValueError: If `reduce` is unknown, or if the shapes do not match.
        TypeError: If the source has a different dtype, or for the mean of a bool tensor.
    """
    return input._index_reduce(dim, index, source, reduce, include_self)


def masked_scatter_(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Copies the elements of `source`, in order, to the elements where the mask is true, in place:
    the tensor itself is changed and returned.

    Shapes: [..], mask that broadcasts to it, source of any shape -> the shape of `input`

    Raises:
        ValueError: If the source has fewer elements than the mask has true values.
        TypeError: If the mask is not a bool tensor.
    """
    return input.copy_(input.masked_scatter(mask, source))


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Returns a copy of this tensor in which the elements of `source` are written to the elements
    at `index` of the flattened tensor, or added to them.

    Shapes: [..], index and source with the same number of elements -> the shape of `input`

    Raises:
        IndexError: If an index is out of range.
        ValueError: If `index` and `source` have different numbers of elements.
        TypeError: If the dtype of the source cannot be cast to that of the input, such as float to
            integer.
    """
    _check_dtype("put", "source", source, input)
    return input._put(index, source.to(input.dtype), accumulate)


def put_(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Writes the elements of `source` to the elements at `index` of the flattened tensor, or adds
    them, in place: the tensor itself is changed and returned.

    Shapes: [..], index and source with the same number of elements -> the shape of `input`

    Raises:
        IndexError: If an index is out of range.
        ValueError: If `index` and `source` have different numbers of elements.
        TypeError: If the dtype of the source cannot be cast to that of the input, such as float to
            integer.
    """
    return input.copy_(put(input, index, source, accumulate))


def fill_diagonal_(input: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Fills the diagonal with `fill_value` in place: the tensor itself is changed and returned.

    Shapes: [rows, columns] or [n, n, n, ..], unchanged

    Args:
        wrap: Whether the diagonal of a matrix with more rows than columns starts again one row
            after its end.

    Raises:
        ValueError: If there are fewer than two axes, or more than two axes of different sizes.
    """
    return input._fill_diagonal_(fill_value, wrap)


def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Returns the index at which each element would be inserted into a sorted sequence (its last
    axis) to keep it sorted: int64, in the shape of `input`.

    Shapes: [n] and [..], or [.., n] and [.., m] -> the second shape

    Args:
        out_int32: Returns int32 instead of int64.
        right, side: If `right` is true or `side` is "right", the index is after equal elements,
            otherwise before them.
        sorter: Indices that sort the sequence, in the shape of the sequence.

    Raises:
        ValueError: If there are several sequences and the leading axes of the values differ from
            theirs; if `side` is not "left" or "right", or contradicts `right`; or if `sorter` has a
            different shape.
        TypeError: If an argument is neither a tensor nor a number.
        IndexError: If an index in `sorter` is out of range.
    """
    if side not in (None, "left", "right"):
        raise ValueError(f'searchsorted: side {side!r}, expected "left" or "right"')
    if side == "left" and right:
        raise ValueError('searchsorted: side "left" and right at odds')
    values = input if isinstance(input, Tensor) else _ternion.tensor(input, device=sorted_sequence.device)
    dtype = result_type(sorted_sequence, values)
    indices = sorted_sequence.to(dtype)._searchsorted(values.to(dtype), right or side == "right", sorter)
    return indices.int() if out_int32 else indices


def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Returns the index of the interval between sorted boundaries to which each element belongs;
    see `searchsorted`.

    Shapes: [..] and [boundaries] -> the shape of `input`, int64, or int32 with `out_int32`

    Raises:
        ValueError: If `boundaries` does not have one axis.
        TypeError: If an argument is neither a tensor nor a number.
    """
    if boundaries.ndim != 1:
        raise ValueError(f"bucketize: boundaries of shape {list(boundaries.shape)}, expected one axis")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Converts row-major indices of elements to indices in a tensor of this shape, one int64 tensor
    for each axis.

    Shapes: [..] -> one tensor of the same shape for each axis of `shape`

    Raises:
        TypeError: If the indices have no integer dtype.
        ValueError: If the shape has no elements.
    """
    return indices._unravel_index([shape] if isinstance(shape, int) else shape)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Returns all combinations of `r` elements of a vector as rows, in the order of the vector.

    Shapes: [n] -> [combinations, r]

    Raises:
        ValueError: If the tensor is not a vector, or `r` is negative.
        MemoryError: If there are too many combinations.
    """
    if input.ndim != 1 or r < 0:
        raise ValueError(f"combinations: {r} elements of a tensor of shape {list(input.shape)}, expected one axis and at least 0")
    count = input.numel()
    _check_size("combinations", r * (math.comb(count + r - 1, r) if with_replacement and count else math.comb(count, r)), _MAX_ELEMENTS)
    return input._combinations(r, with_replacement)
