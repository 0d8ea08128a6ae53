"""Linear algebra functions that PyTorch has in `torch` itself. `ternion.linalg` has the functions
of `torch.linalg`.
"""

from __future__ import annotations

from typing import Any

from .. import _results, _ternion
from .._ternion import Tensor
from .shapes import _axis

_linalg = _ternion._linalg


def det(input: Tensor) -> Tensor:
    """Returns the determinants of square matrices.

    Shapes: [.., n, n] -> [..]

    Raises:
        ValueError: If the matrices are not square.
        TypeError: If the dtype is not float32 or float64.
    """
    return _linalg.det(input)


def logdet(input: Tensor) -> Tensor:
    """Returns the logarithms of the determinants of square matrices: -inf where they are 0, NaN
    where they are negative.

    Shapes: [.., n, n] -> [..]

    Raises:
        ValueError: If the matrices are not square.
        TypeError: If the dtype is not float32 or float64.
    """
    return _linalg.logdet(input)


def slogdet(input: Tensor) -> Any:
    """Returns the signs and the logarithms of the magnitudes of determinants: a tuple of sign and
    logabsdet.

    Shapes: [.., n, n] -> two tensors of shape [..]

    Raises:
        ValueError: If the matrices are not square.
        TypeError: If the dtype is not float32 or float64.
    """
    return _results.slogdet(*_linalg.slogdet(input))


def inverse(input: Tensor) -> Tensor:
    """Returns the inverses of square matrices.

    Shapes: [.., n, n] -> the same shape

    Raises:
        LinAlgError: If a matrix is singular.
        ValueError: If the matrices are not square.
        TypeError: If the dtype is not float32 or float64.
    """
    return _linalg.inv(input)


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Returns the Moore-Penrose inverses. Singular values that are not above `rcond` times the
    largest one are treated as 0.

    Shapes: [.., m, n] -> [.., n, m]

    Raises:
        LinAlgError: If the input contains NaN or infinity.
        ValueError: If there are fewer than 2 axes.
        TypeError: If the dtype is not float32 or float64.
    """
    return _linalg.pinv(input, None, rcond, False)


def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """Returns the Cholesky factors of symmetric positive definite matrices: the lower triangular
    `L` with `input = L @ L.mT`, or the upper triangular `U` with `input = U.mT @ U`.

    Shapes: [.., n, n] -> the same shape

    Raises:
        LinAlgError: If a matrix is not positive definite.
        ValueError: If the matrices are not square.
        TypeError: If the dtype is not float32 or float64.
    """
    return _linalg.cholesky(input, upper)


def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """Returns the inverses of matrices whose Cholesky factors are given.

    Shapes: [.., n, n] -> the same shape

    Raises:
        ValueError: If the matrices are not square.
        TypeError: If the dtype is not float32 or float64.
    """
    return _linalg.cholesky_inverse(input, upper)


def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """Returns the `X` with `A @ X = input`, where `input2` is the Cholesky factor of `A`.

    Shapes: [.., n, k] and [.., n, n] -> [.., n, k]

    Raises:
        ValueError: If the sizes do not match.
        TypeError: If a dtype is not float32 or float64, or if the dtypes differ.
    """
    return _linalg.cholesky_solve(input, input2, upper)


def triangular_solve(input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
    """Returns the `X` with `A @ X = input` (or with `A.mT`), where one triangle of `A` is used: a
    tuple of solution and cloned_coefficient, a copy of `A`.

    Shapes: [.., n, k] and [.., n, n] -> [.., n, k] and [.., n, n]

    Raises:
        ValueError: If the sizes do not match.
        TypeError: If a dtype is not float32 or float64, or if the dtypes differ.
    """
    triangle = A.mT if transpose else A
    return _results.triangular_solve(_linalg.solve_triangular(triangle, input, upper != transpose, True, unitriangular), A.clone())


def qr(input: Tensor, some: bool = True) -> Any:
    """Returns the QR decomposition `input = Q @ R`, with orthonormal columns of Q, all of them if
    `some` is false, and an upper triangular R: a tuple of Q and R.

    Shapes: [.., m, n] -> [.., m, k] and [.., k, n] with k = min(m, n), or k = m with `some=False`

    Raises:
        ValueError: If there are fewer than 2 axes.
        TypeError: If the dtype is not float32 or float64.
    """
    return _results.qr(*_linalg.qr(input, "reduced" if some else "complete"))


def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """Returns the singular value decomposition `input = U @ diag(S) @ V.mT`: a tuple of U, S and V.
    The columns of U and V are orthonormal, and are complete if `some` is false. The singular values
    S are in descending order.

    If `compute_uv` is false, U and V are square matrices of zeros.

    Shapes: [.., m, n] -> [.., m, k], [.., k] and [.., n, k] with k = min(m, n); with `some=False`
    [.., m, m], [.., k] and [.., n, n]

    Raises:
        LinAlgError: If the input contains NaN or infinity.
        ValueError: If there are fewer than 2 axes.
        TypeError: If the dtype is not float32 or float64.
    """
    if not compute_uv:
        rows, columns = input.shape[-2:]
        zeros = [_ternion.zeros(*input.shape[:-2], size, size, dtype=input.dtype, device=input.device) for size in (rows, columns)]
        return _results.svd(zeros[0], _linalg.svdvals(input), zeros[1])
    u, s, vh = _linalg.svd(input, not some)
    return _results.svd(u, s, vh.mT)


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """Returns LU decompositions with partial pivoting: both factors in one matrix, and the row
    exchanges, counted from 1 (int32). With `get_infos`, also returns the index of the first pivot
    that is 0 (int32, 0 for none).

    `lu_unpack` returns the separate matrices.

    Shapes: [.., m, n] -> [.., m, n] and [.., min(m, n)], and [..]

    Raises:
        ValueError: If there are fewer than 2 axes, or `pivot` is False.
        TypeError: If the dtype is not float32 or float64.
    """
    if not pivot:
        raise ValueError("lu: pivot=False: decompositions are made with pivoting")
    result = _linalg.lu_factor_ex(A)
    return _results.lu(*result) if get_infos else tuple(result[:2])


def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """Returns the `X` with `A @ X = input`, from the LU decomposition of `A` that `lu` returns.

    Shapes: [.., n, k], [.., n, n] and [.., n] -> [.., n, k]

    Raises:
        ValueError: If the sizes do not match, or if a pivot is out of range.
        TypeError: If a dtype is not float32 or float64, if the dtypes differ, or if the pivots are
            not int32.
    """
    return _linalg.lu_solve(LU_data, LU_pivots, input, True, False)


def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """Returns the matrices of `A = P @ L @ U` from the LU decomposition of `A` that `lu` returns: a
    tuple of P, L and U. Parts that are not requested are empty.

    Shapes: [.., m, n] and [.., k] -> [.., m, m], [.., m, k] and [.., k, n] with k = min(m, n)

    Raises:
        ValueError: If the sizes do not match, or if a pivot is out of range.
        TypeError: If the dtype is not float32 or float64, or if the pivots are not int32.
    """
    p, lower, upper = _linalg.lu_unpack(LU_data, LU_pivots)
    empty = _ternion.empty(0, dtype=LU_data.dtype, device=LU_data.device)
    return _results.lu_unpack(p if unpack_pivots else empty, *((lower, upper) if unpack_data else (empty, empty)))


def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """Returns the first columns of the product of Householder reflections `1 - tau v v.mT`, whose
    vectors v are below the diagonal of `input`, and whose tau are `input2`.

    Shapes: [.., m, n] and [.., k] -> [.., m, n]

    Raises:
        ValueError: If the sizes do not match.
        TypeError: If a dtype is not float32 or float64, or if the dtypes differ.
    """
    return _linalg.householder_product(input, input2)


def matrix_power(input: Tensor, n: int) -> Tensor:
    """Returns the `n`-th power of square matrices; of the inverse if `n` is negative.

    Shapes: [.., n, n] -> the same shape

    Raises:
        LinAlgError: If `n` is negative and a matrix is singular.
        ValueError: If the matrices are not square.
        TypeError: If `n` is negative and the dtype is not float32 or float64.
    """
    return _linalg.matrix_power(input, n)


def matrix_exp(input: Tensor) -> Tensor:
    """Returns the matrix exponential `1 + A + A @ A / 2 + ..` of square matrices.

    Shapes: [.., n, n] -> the same shape

    Raises:
        ValueError: If the matrices are not square.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _linalg.matrix_exp(input)


def chain_matmul(*matrices: Tensor) -> Tensor:
    """Returns the product of several matrices, in the order that takes the fewest multiplications.

    Shapes: [m, k], [k, l], .. -> [m, last]

    Raises:
        ValueError: If inner sizes differ, or if a matrix does not have 2 axes.
        TypeError: If no matrices are given.
    """
    operands = matrices[0] if len(matrices) == 1 and not isinstance(matrices[0], Tensor) else matrices
    for index, matrix in enumerate(operands):
        if isinstance(matrix, Tensor) and matrix.ndim != 2:
            raise ValueError(f"chain_matmul: matrix {index} has shape {list(matrix.shape)}, expected 2 axes")
    return operands[0] if len(operands) == 1 else _linalg.multi_dot(operands)


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Returns the cross products of three-dimensional vectors along an axis of size 3, by default
    the first such axis.

    Shapes: [.., 3, ..] and [.., 3, ..], which broadcast -> the broadcast shape

    Raises:
        ValueError: If the axis does not have size 3, or if the ranks differ.
        IndexError: If an axis is out of range.
    """
    if dim is None:
        dim = next((axis for axis, size in enumerate(input.shape) if size == 3), None)
        if dim is None:
            raise ValueError(f"cross: shape {list(input.shape)}, expected an axis of size 3")
    return _linalg.cross(input, other, _axis("cross", input, dim))


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Returns the powers of the elements of a vector, from the highest to 0, or from 0 on if
    `increasing`. By default there are as many powers as elements.

    Shapes: [n] -> [n, N]

    Raises:
        ValueError: If `x` is not a vector, or `N` is negative.
    """
    count = x.shape[0] if N is None and x.ndim == 1 else N
    if x.ndim != 1 or count is None or count < 0:
        raise ValueError(f"vander: {count} powers of shape {list(x.shape)}, expected one axis and at least 0")
    column = x.long() if x.dtype == _ternion.bool else x
    powers = _linalg.vander(column, max(count, 1))[:, :count]
    return powers if increasing else powers.flip(1)
