"""Elements by their places, made of other functions."""

from __future__ import annotations

from typing import Any

from .. import _ternion
from .._ternion import Tensor
from .kinds import _name, can_cast, result_type


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """The elements whose places along `dim` are in `indices`, both broadcast against each other elsewhere; of all elements in a row by default.

    Shapes: [..] and indices of as many axes -> the indices' shape

    Raises:
        IndexError: an axis or a place that does not exist.
        ValueError: indices of another number of axes.
    """
    return input._take_along_dim(indices, dim)


def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at these places of all elements in a row, in the shape of `index`.

    Shapes: [..], index [*places] -> [*places]

    Raises:
        IndexError: a place that does not exist.
        TypeError: an index of a floating dtype.
    """
    return input._take(index)


def argwhere(input: Tensor) -> Tensor:
    """Where elements are not 0: a row of indices for each, int64.

    Shapes: [..] -> [elements that are not 0, axes]
    """
    return input.nonzero()


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Which elements are among `test_elements`, or are not if `invert`; each is a tensor or a number.

    Shapes: [..] and any -> the first, bool

    Args:
        assume_unique: whether neither has an element twice; without effect on the result.

    Raises:
        TypeError: something that is neither a tensor nor a number.
    """
    elements, test_elements = (value if isinstance(value, Tensor) else _ternion.tensor(value) for value in (elements, test_elements))
    dtype = result_type(elements, test_elements)
    return elements.to(dtype)._isin(test_elements.to(dtype).to(elements.device), invert)


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """This tensor with the slices of `source` in place of those along `dim` that `index` names.

    Shapes: [..], index [n], source with n along `dim` -> the input's

    Raises:
        IndexError: an axis or a place that does not exist.
        ValueError: a source of another shape.
    """
    if input.ndim == 0 and dim in (0, -1):
        return input.reshape(1)._index_copy(0, index.reshape(-1), source.reshape(-1)).reshape(())
    return input._index_copy(dim, index.reshape(-1), source)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """This tensor with `value` in the slices along `dim` that `index` names. A gradient flows to a `value` that is a tensor.

    Shapes: [..], index [n] -> the input's

    Raises:
        IndexError: an axis or a place that does not exist.
    """
    if not isinstance(value, Tensor):
        value = _ternion.full((), value, dtype=input.dtype, device=input.device)
    value = value.to(input.device).to(input.dtype).reshape(())
    if input.ndim == 0 and dim in (0, -1):
        return input.reshape(1)._index_fill(0, index.reshape(-1), value).reshape(())
    return input._index_fill(dim, index.reshape(-1), value)


def _of_dtype(function: str, name: str, given: Any, input: Tensor) -> None:
    """That a tensor may be written into the input without becoming one of another kind."""
    if isinstance(given, Tensor) and not can_cast(given.dtype, input.dtype):
        raise TypeError(f"{function}: {name} of {_name(given.dtype)}, expected {_name(input.dtype)}")


def index_put(input: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """A copy of this tensor with `values` in the places that a tuple of tensors names, or added to them.

    Shapes: [..], values that broadcast to the places -> the input's

    Raises:
        IndexError: a place that does not exist.
        ValueError: values that do not broadcast to the places.
        TypeError: values of a dtype that the input's does not hold, floats of integers.
    """
    result = input.clone()
    return index_put_(result, indices, values, accumulate)


def index_put_(input: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """`values` in the places that a tuple of tensors names, or added to them, in place: the tensor itself is changed and returned.

    Shapes: [..], values that broadcast to the places -> the input's

    Raises:
        IndexError: a place that does not exist.
        ValueError: values that do not broadcast to the places.
        TypeError: values of a dtype that the input's does not hold, floats of integers.
    """
    _of_dtype("index_put", "values", values, input)
    if accumulate:
        return input.copy_(input._index_put(tuple(indices), values, True))
    input[tuple(indices)] = values
    return input


def scatter_reduce(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """This tensor with the elements of `src` reduced into the places along `dim` that `index` names.

    Shapes: [..], index of as many axes, src at least as long along each -> the input's

    Args:
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: whether the elements of this tensor count, too.

    Raises:
        IndexError: an axis or a place that does not exist.
        ValueError: another `reduce`, shapes that do not fit.
        TypeError: a source of another dtype, the mean of truth values.
    """
    return input._scatter_reduce(dim, index, src, reduce, include_self)


def index_reduce(input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """This tensor with the slices of `source` reduced into those along `dim` that `index` names.

    Shapes: [..], index [n], source with n along `dim` -> the input's

    Args:
        reduce: "prod", "mean", "amax" or "amin".
        include_self: whether the slices of this tensor count, too.

    Raises:
        IndexError: an axis or a place that does not exist.
        ValueError: another `reduce`, shapes that do not fit.
        TypeError: a source of another dtype, the mean of truth values.
    """
    return input._index_reduce(dim, index, source, reduce, include_self)


def masked_scatter_(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The elements of `source`, in turn, where the mask is true, in place: the tensor itself is changed and returned.

    Shapes: [..], mask that broadcasts to it, source of any shape -> the input's

    Raises:
        ValueError: a source with less elements than there are places.
        TypeError: a mask that is not bool.
    """
    return input.copy_(input.masked_scatter(mask, source))


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """This tensor with the elements of `source` in these places of all elements in a row, or added to them.

    Shapes: [..], index and source of as many elements -> the input's

    Raises:
        IndexError: a place that does not exist.
        ValueError: as many elements as there are no places.
        TypeError: a source of a dtype that the input's does not hold, floats of integers.
    """
    _of_dtype("put", "source", source, input)
    return input._put(index, source.to(input.dtype), accumulate)


def put_(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """The elements of `source` in these places of all elements in a row, or added to them, in place: the tensor itself is changed and returned.

    Shapes: [..], index and source of as many elements -> the input's

    Raises:
        IndexError: a place that does not exist.
        ValueError: as many elements as there are no places.
        TypeError: a source of a dtype that the input's does not hold, floats of integers.
    """
    return input.copy_(put(input, index, source, accumulate))


def fill_diagonal_(input: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """`fill_value` on the diagonal of a matrix, in place: the tensor itself is changed and returned.

    Shapes: [rows, columns] or [n, n, n, ..], unchanged

    Args:
        wrap: whether the diagonal of a matrix with more rows than columns begins anew one row after it has ended.

    Raises:
        ValueError: less than two axes, more than two of different sizes.
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
    """Where each element would be put into a sequence in order (its last axis), so that it stays so: int64, in the shape of `input`.

    Shapes: [n] and [..], or [.., n] and [.., m] -> that of the second

    Args:
        out_int32: int32 in place of int64.
        right, side: behind equal elements rather than before them, if `right` or side is "right".
        sorter: the places that put the sequence in order, in its shape.

    Raises:
        ValueError: several sequences, and elements that are not beside them; another side than "left" or "right", or that and `right` at odds; a sorter
            of another shape.
        TypeError: something that is neither a tensor nor a number.
        IndexError: a place in `sorter` that does not exist.
    """
    if side not in (None, "left", "right"):
        raise ValueError(f'searchsorted: side {side!r}, expected "left" or "right"')
    if side == "left" and right:
        raise ValueError('searchsorted: side "left" and right at odds')
    values = input if isinstance(input, Tensor) else _ternion.tensor(input, device=sorted_sequence.device)
    dtype = result_type(sorted_sequence, values)
    found = sorted_sequence.to(dtype)._searchsorted(values.to(dtype), right or side == "right", sorter)
    return found.int() if out_int32 else found


def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """In which part of the line between boundaries in order each element lies: see `searchsorted`.

    Shapes: [..] and [boundaries] -> the input's, int64, or int32 by `out_int32`

    Raises:
        ValueError: boundaries of another number of axes.
        TypeError: something that is neither a tensor nor a number.
    """
    if boundaries.ndim != 1:
        raise ValueError(f"bucketize: boundaries of shape {list(boundaries.shape)}, expected one axis")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)
