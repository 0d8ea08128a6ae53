"""Products of vectors and matrices and scatter functions, written in terms of other functions."""

from __future__ import annotations

import operator
from typing import Any

from .._ternion import Tensor
from .kinds import result_type


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """Returns the distance of each row of `x1` from each row of `x2`, batched: [.., m, k] and
    [.., n, k] -> [.., m, n].

    Args:
        compute_mode: How Euclidean distances are computed. "use_mm_for_euclid_dist_if_necessary"
            uses a matrix product if either side has more than 25 rows, "use_mm_for_euclid_dist"
            always does. "donot_use_mm_for_euclid_dist" computes differences, which are accurate for
            close vectors, too.

    Raises:
        ValueError: If the lengths of the rows differ, if there are fewer than 2 axes, if `p` is
            negative, or if the mode is unknown.
        TypeError: If the input has no floating-point dtype.
    """
    dtype = result_type(x1, x2)
    if not dtype.is_floating_point:
        raise TypeError(f"cdist: vectors of {str(dtype).split('.')[-1]}, expected a floating dtype")
    return x1.to(dtype)._cdist(x2.to(dtype), p, compute_mode or "use_mm_for_euclid_dist_if_necessary")


def kron(input: Tensor, other: Tensor) -> Tensor:
    """Returns the Kronecker product: blocks, each of which is an element of `input` times all of
    `other`.

    Shapes: [m, n] and [p, q] -> [m * p, n * q]; further axes accordingly

    Raises:
        ValueError: If there are more than 4 axes.
    """
    return input._kron(other)


def vdot(input: Tensor, other: Tensor) -> Tensor:
    """Returns the dot product of two vectors.

    Shapes: [n] and [n] -> []

    Raises:
        ValueError: If an argument is not a vector, or if the sizes differ.
    """
    return input.dot(other)


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Returns a copy of this tensor in which one slice along an axis is replaced by `src`.

    Shapes: [..], `src` without the axis `dim` -> the shape of `input`

    Raises:
        IndexError: If the axis or the index is out of range.
        ValueError: If `src` has a different shape.
    """
    dtype = input.dtype
    return input._select_scatter(src.to(dtype), dim, index)


def slice_scatter(input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """Returns a copy of this tensor in which a range of an axis is replaced by `src`.

    Shapes: [..], `src` of the shape of the slice -> the shape of `input`

    Raises:
        IndexError: If an axis is out of range.
        ValueError: If `src` has a different shape.
    """
    if step < 1:
        raise ValueError(f"slice_scatter: a step of {step}, expected at least 1")
    return input._slice_scatter(src.to(input.dtype), dim, (start, end), step)


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Returns a copy of this tensor in which the diagonals of the matrices of two axes are replaced
    by `src`. A positive `offset` selects a diagonal above the main one.

    Shapes: [..], `src` with the other axes, followed by the length of the diagonal -> the shape of
    `input`

    Raises:
        IndexError: If an axis is out of range.
        ValueError: If both axes are the same, or if `src` has a different shape.
    """
    return input._diagonal_scatter(src.to(input.dtype), offset, (dim1, dim2))


def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """Returns a view of the tensor's memory with the given shape and strides: the element `[i, j]`
    is at offset `storage_offset + i * stride[0] + j * stride[1]`.

    If elements overlap, the view cannot be changed in place.

    Shapes: [..] -> `size`

    Args:
        storage_offset: Offset from the start of the buffer in elements, as `x.storage_offset()`,
            which is the default.

    Raises:
        ValueError: If an element would be before the first or after the last element of the tensor,
            if a size or a stride is negative, or if the tensor is not contiguous.
    """
    return _require_contiguous("as_strided", input)._as_strided(list(size), list(stride), _relative_offset("as_strided", input, storage_offset))


def as_strided_scatter(input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """Returns a copy of this tensor in which the elements that `as_strided` selects are replaced by
    `src`.

    Shapes: [..], `src` of shape `size` -> the shape of `input`

    Raises:
        ValueError: If an element would be before the first or after the last element of the tensor,
            if a size or a stride is negative, if the tensor is not contiguous, or if `src` has a
            different shape.
    """
    name = "as_strided_scatter"
    return _require_contiguous(name, input)._as_strided_scatter(src.to(input.dtype), list(size), list(stride), _relative_offset(name, input, storage_offset))


def _relative_offset(function: str, input: Tensor, storage_offset: int | None) -> int:
    """Returns the offset relative to the first element of the tensor."""
    base = input.storage_offset()
    if storage_offset is not None and operator.index(storage_offset) < base:
        raise ValueError(f"{function}: storage_offset {storage_offset}, expected at least {base}, where the tensor begins")
    return 0 if storage_offset is None else operator.index(storage_offset) - base


def _require_contiguous(function: str, input: Tensor) -> Tensor:
    """Returns the tensor, which must be contiguous: elements of other tensors between its own do
    not belong to it.
    """
    if not input.is_contiguous():
        raise ValueError(f"{function}: a tensor that is not contiguous, whose elements are not in row-major order; call contiguous() first")
    return input
