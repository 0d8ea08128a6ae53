"""Products, powers and views of `ternion.linalg`."""

from __future__ import annotations

from typing import Any

from . import _ternion
from ._error_messages import name_all as _name_all
from ._ternion import Tensor

_linalg = _ternion._linalg


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Returns the matrix products `input @ other`.

    Shapes: [.., m, k] and [.., k, n] -> [.., m, n]

    Raises:
        ValueError: If the inner sizes differ.
    """
    return input.matmul(other)


def multi_dot(tensors: Any) -> Tensor:
    """Returns the product of two or more matrices, in the order that takes the fewest
    multiplications. The first and the last one may be vectors.

    Shapes: [m, k], [k, l], .. -> [m, last]

    Raises:
        ValueError: If there are fewer than two operands, if one is not a matrix, or if inner sizes
            differ.
        TypeError: If the dtypes differ.
    """
    return _linalg.multi_dot(tensors)


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Returns the cross products of three-dimensional vectors along an axis of size 3.

    Shapes: [.., 3, ..] and [.., 3, ..], which broadcast -> the broadcast shape

    Raises:
        ValueError: If the axis does not have size 3, or if the ranks differ.
        IndexError: If an axis is out of range.
    """
    return _linalg.cross(input, other, dim)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Returns the dot products of vectors.

    Shapes: [.., n] and [.., n], which broadcast -> [..]

    Raises:
        ValueError: If the shapes do not broadcast.
        IndexError: If an axis is out of range.
        TypeError: If a dtype is not a floating-point dtype, or if the dtypes differ.
    """
    return _linalg.vecdot(x, y, dim)


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Returns the powers 0 to N - 1 of each element. By default N is the size of the last axis.

    Shapes: [.., n] -> [.., n, N]

    Raises:
        ValueError: If the input has no axes, or if N is below 1.
        TypeError: If the input is a bool tensor.
    """
    return _linalg.vander(x, N)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Returns the diagonals of matrices, as `ternion.diagonal`, by default of the last two axes.

    Shapes: [.., m, n] -> [.., k]

    Raises:
        IndexError: If an axis is out of range.
        ValueError: If both axes are the same.
    """
    return A.diagonal(offset, dim1, dim2)


_name_all(globals())
