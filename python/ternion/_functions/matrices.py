"""Products of vectors and matrices, made of others."""

from __future__ import annotations

from typing import Any

from .._ternion import Tensor
from .shapes import _axis


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor:
    """The distances of all rows of one from all rows of the other: [.., m, k] and [.., n, k] -> [.., m, n].

    Raises:
        ValueError: rows of other lengths.
        IndexError: less than 2 axes.
    """
    return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(p, dim=-1)


def kron(input: Tensor, other: Tensor) -> Tensor:
    """Each element of one times all of the other, in blocks.

    Shapes: [m, n] and [p, q] -> [m * p, n * q]; with more axes alike
    """
    rank = max(input.ndim, other.ndim)
    sizes = [[1] * (rank - tensor.ndim) + list(tensor.shape) for tensor in (input, other)]
    left = input.reshape([size for own in sizes[0] for size in (own, 1)])
    right = other.reshape([size for own in sizes[1] for size in (1, own)])
    return (left * right).reshape([a * b for a, b in zip(*sizes)])


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
        IndexError: an axis that does not exist.
        ValueError: a `src` of another shape.
    """
    return slice_scatter(input, src.unsqueeze(dim), dim, index, index + 1 if index != -1 else None)


def slice_scatter(input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """This tensor with `src` in the place of a part of an axis.

    Shapes: [..], `src` of the part's shape -> the input's

    Raises:
        IndexError: an axis that does not exist.
        ValueError: a `src` of another shape.
    """
    axis = _axis("slice_scatter", input, dim)
    result = input.clone()
    place: list[Any] = [slice(None)] * axis + [slice(start, end, step)]
    result[tuple(place)] = src
    return result
