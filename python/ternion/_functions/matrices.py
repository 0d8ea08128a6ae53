"""Products of vectors and matrices, made of others."""

from __future__ import annotations

import functools
from typing import Any

from .. import _ternion
from .._ternion import Tensor
from .shapes import _axis


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor:
    """The distances of all rows of one from all rows of the other: [.., m, k] and [.., n, k] -> [.., m, n].

    Raises:
        ValueError: rows of other lengths.
        IndexError: less than 2 axes.
    """
    return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(p, dim=-1)


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of several matrices, from left to right.

    Shapes: [m, k], [k, l], .. -> [m, last]

    Raises:
        ValueError: inner sizes that differ.
        TypeError: no matrices.
    """
    return functools.reduce(lambda product, matrix: product @ matrix, matrices)


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The products of vectors in space, along an axis of 3: by default the first one.

    Shapes: [.., 3, ..] and the same -> the same

    Raises:
        ValueError: an axis of another size.
        IndexError: an axis that does not exist.
    """
    if dim is None:
        dim = next((at for at, size in enumerate(input.shape) if size == 3), 0)
    axis = _axis("cross", input, dim)
    if input.shape[axis] != 3 or other.shape[axis] != 3:
        raise ValueError(f"cross: shapes {list(input.shape)} and {list(other.shape)}, expected 3 along axis {dim}")
    (a, b, c), (d, e, f) = (tensor.unbind(axis) for tensor in (input, other))
    return _ternion.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis)


def kron(input: Tensor, other: Tensor) -> Tensor:
    """Each element of one times all of the other, in blocks.

    Shapes: [m, n] and [p, q] -> [m * p, n * q]; with more axes alike
    """
    rank = max(input.ndim, other.ndim)
    sizes = [[1] * (rank - tensor.ndim) + list(tensor.shape) for tensor in (input, other)]
    left = input.reshape([size for own in sizes[0] for size in (own, 1)])
    right = other.reshape([size for own in sizes[1] for size in (1, own)])
    return (left * right).reshape([a * b for a, b in zip(*sizes)])


def matrix_power(input: Tensor, n: int) -> Tensor:
    """A square matrix, or each of several, times itself `n` times.

    Shapes: [.., n, n] -> the same

    Raises:
        ValueError: a power below 0: there are no inverses; a matrix that is not square.
    """
    if n < 0 or input.ndim < 2 or input.shape[-1] != input.shape[-2]:
        raise ValueError(f"matrix_power: shape {list(input.shape)} to the power of {n}, expected square matrices and at least 0")
    found = _ternion.eye(input.shape[-1], dtype=input.dtype, device=input.device).expand(input.shape)
    while n:
        found = found @ input if n % 2 else found
        n //= 2
        input = input @ input if n else input
    return found


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of the elements of a vector, from the highest to 0 or, if `increasing`, from 0 on; as many as there are elements by default.

    Shapes: [n] -> [n, N]

    Raises:
        ValueError: a tensor that is no vector, `N` below 0.
    """
    count = x.shape[0] if N is None and x.ndim == 1 else N
    if x.ndim != 1 or count is None or count < 0:
        raise ValueError(f"vander: {count} powers of shape {list(x.shape)}, expected one axis and at least 0")
    column = x.long() if x.dtype == _ternion.bool else x
    exponents = _ternion.arange(count, device=x.device)
    powers = column.unsqueeze(-1) ** exponents.to(column.dtype if column.is_floating_point() else _ternion.int64)
    return powers if increasing else powers.flip(1)


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
