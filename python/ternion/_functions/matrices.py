"""Products of vectors and matrices, made of others."""

from __future__ import annotations

import operator
from typing import Any

from .._ternion import Tensor
from .kinds import result_type


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """The distances of all rows of one from all rows of the other, in blocks: [.., m, k] and [.., n, k] -> [.., m, n].

    Args:
        compute_mode: how Euclidean distances are computed: "use_mm_for_euclid_dist_if_necessary" by a matrix product if either side has more than 25 rows,
            "use_mm_for_euclid_dist" in any case, "donot_use_mm_for_euclid_dist" by differences, which are exact of near vectors, too.

    Raises:
        ValueError: rows of other lengths, less than 2 axes, a `p` below 0, another mode.
        TypeError: whole numbers.
    """
    dtype = result_type(x1, x2)
    if not dtype.is_floating_point:
        raise TypeError(f"cdist: vectors of {str(dtype).split('.')[-1]}, expected a floating dtype")
    return x1.to(dtype)._cdist(x2.to(dtype), p, compute_mode or "use_mm_for_euclid_dist_if_necessary")


def kron(input: Tensor, other: Tensor) -> Tensor:
    """Each element of one times all of the other, in blocks.

    Shapes: [m, n] and [p, q] -> [m * p, n * q]; with more axes alike

    Raises:
        ValueError: more than 4 axes.
    """
    return input._kron(other)


def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The sum of the products of the elements of two vectors.

    Shapes: [n] and [n] -> []

    Raises:
        ValueError: tensors that are no vectors, or of other sizes.
    """
    return input.dot(other)


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """This tensor with `src` in the place of one slice of an axis.

    Shapes: [..], `src` without the axis `dim` -> the input's

    Raises:
        IndexError: an axis or a slice that does not exist.
        ValueError: a `src` of another shape.
    """
    dtype = input.dtype
    return input._select_scatter(src.to(dtype), dim, index)


def slice_scatter(input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """This tensor with `src` in the place of a part of an axis.

    Shapes: [..], `src` of the part's shape -> the input's

    Raises:
        IndexError: an axis that does not exist.
        ValueError: a `src` of another shape.
    """
    if step < 1:
        raise ValueError(f"slice_scatter: a step of {step}, expected at least 1")
    return input._slice_scatter(src.to(input.dtype), dim, (start, end), step)


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """This tensor with `src` in the place of the diagonals of the matrices of two axes; above the main one if `offset` is above 0.

    Shapes: [..], `src` the other axes and last the length of the diagonal -> the input's

    Raises:
        IndexError: an axis that does not exist.
        ValueError: one axis twice, a `src` of another shape.
    """
    return input._diagonal_scatter(src.to(input.dtype), offset, (dim1, dim2))


def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """The elements of a tensor by their distances in its memory: at `[i, j]` that number `storage_offset + i * stride[0] + j * stride[1]`. A view; where an element
    is in several places it is not changed in place.

    Shapes: [..] -> size

    Args:
        storage_offset: counted from the start of the memory, as `x.storage_offset()`, which it is by default.

    Raises:
        ValueError: an element before the tensor's first or beyond its last, a size or a stride below 0; a tensor that is not contiguous.
    """
    return _in_order("as_strided", input)._as_strided(list(size), list(stride), _from_first("as_strided", input, storage_offset))


def as_strided_scatter(input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """This tensor with `src` in the place of the elements that `as_strided` gives.

    Shapes: [..], `src` of the size -> the input's

    Raises:
        ValueError: an element before the tensor's first or beyond its last, a size or a stride below 0; a tensor that is not contiguous; a `src` of another
            shape.
    """
    name = "as_strided_scatter"
    return _in_order(name, input)._as_strided_scatter(src.to(input.dtype), list(size), list(stride), _from_first(name, input, storage_offset))


def _from_first(function: str, input: Tensor, storage_offset: int | None) -> int:
    """How far behind the tensor's first element a place of its memory is."""
    own = input.storage_offset()
    if storage_offset is not None and operator.index(storage_offset) < own:
        raise ValueError(f"{function}: storage_offset {storage_offset}, expected at least {own}, where the tensor begins")
    return 0 if storage_offset is None else operator.index(storage_offset) - own


def _in_order(function: str, input: Tensor) -> Tensor:
    """The tensor, whose elements must lie in row-major order: those that others have between them are none of it."""
    if not input.is_contiguous():
        raise ValueError(f"{function}: a tensor that is not contiguous, whose elements do not lie in row-major order; call contiguous() first")
    return input
