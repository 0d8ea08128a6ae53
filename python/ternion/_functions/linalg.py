"""Linear algebra under the names that it has in `torch` itself; `ternion.linalg` has the functions of `torch.linalg`."""

from __future__ import annotations

from typing import Any

from .. import _results, _ternion
from .._ternion import Tensor
from .shapes import _axis

_linalg = _ternion._linalg


def det(input: Tensor) -> Tensor:
    """The determinants of square matrices.

    Shapes: [.., n, n] -> [..]

    Raises:
        ValueError: matrices that are not square.
        TypeError: a dtype other than float32 and float64.
    """
    return _linalg.det(input)


def logdet(input: Tensor) -> Tensor:
    """The logarithms of the determinants of square matrices: -inf where they are 0, NaN where they are negative.

    Shapes: [.., n, n] -> [..]

    Raises:
        ValueError: matrices that are not square.
        TypeError: a dtype other than float32 and float64.
    """
    return _linalg.logdet(input)


def slogdet(input: Tensor) -> Any:
    """Signs and logarithms of the magnitudes of determinants: a tuple of sign and logabsdet.

    Shapes: [.., n, n] -> two of [..]

    Raises:
        ValueError: matrices that are not square.
        TypeError: a dtype other than float32 and float64.
    """
    return _results.slogdet(*_linalg.slogdet(input))


def inverse(input: Tensor) -> Tensor:
    """The inverses of square matrices.

    Shapes: [.., n, n] -> the same

    Raises:
        LinAlgError: a singular matrix.
        ValueError: matrices that are not square.
        TypeError: a dtype other than float32 and float64.
    """
    return _linalg.inv(input)


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The Moore-Penrose inverses; singular values not above `rcond` times the largest count as 0.

    Shapes: [.., m, n] -> [.., n, m]

    Raises:
        LinAlgError: a NaN or an infinity.
        ValueError: less than 2 axes.
        TypeError: a dtype other than float32 and float64.
    """
    return _linalg.pinv(input, None, rcond, False)


def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The lower triangular `L` with `input = L @ L.mT`, or the upper triangular `U` with `input = U.mT @ U`, of symmetric positive definite matrices.

    Shapes: [.., n, n] -> the same

    Raises:
        LinAlgError: a matrix that is not positive definite.
        ValueError: matrices that are not square.
        TypeError: a dtype other than float32 and float64.
    """
    return _linalg.cholesky(input, upper)


def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """The inverses of matrices, of the triangles that `cholesky` makes of them.

    Shapes: [.., n, n] -> the same

    Raises:
        ValueError: matrices that are not square.
        TypeError: a dtype other than float32 and float64.
    """
    return _linalg.cholesky_inverse(input, upper)


def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """`X` with `A @ X = input`, of the triangles `input2` that `cholesky` makes of `A`.

    Shapes: [.., n, k] and [.., n, n] -> [.., n, k]

    Raises:
        ValueError: sizes that do not fit.
        TypeError: dtypes other than float32 and float64, or that differ.
    """
    return _linalg.cholesky_solve(input, input2, upper)


def triangular_solve(input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
    """`X` with `A @ X = input` (or with `A.mT`) of one triangle of `A`: a tuple of solution and cloned_coefficient, a copy of `A`.

    Shapes: [.., n, k] and [.., n, n] -> [.., n, k] and [.., n, n]

    Raises:
        ValueError: sizes that do not fit.
        TypeError: dtypes other than float32 and float64, or that differ.
    """
    triangle = A.mT if transpose else A
    return _results.triangular_solve(_linalg.solve_triangular(triangle, input, upper != transpose, True, unitriangular), A.clone())


def qr(input: Tensor, some: bool = True) -> Any:
    """`input = Q @ R` with orthonormal columns of Q, all of them unless `some`, and an upper triangular R: a tuple of Q and R.

    Shapes: [.., m, n] -> [.., m, k] and [.., k, n] with k = min(m, n), or m unless `some`

    Raises:
        ValueError: less than 2 axes.
        TypeError: a dtype other than float32 and float64.
    """
    return _results.qr(*_linalg.qr(input, "reduced" if some else "complete"))


def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """`input = U @ diag(S) @ V.mT` with orthonormal columns of U and V, all of them unless `some`, and singular values S in descending order: a tuple of all.

    Without `compute_uv` U and V are zeros, and square.

    Shapes: [.., m, n] -> [.., m, k], [.., k] and [.., n, k] with k = min(m, n); unless `some` [.., m, m], [.., k] and [.., n, n]

    Raises:
        LinAlgError: a NaN or an infinity.
        ValueError: less than 2 axes.
        TypeError: a dtype other than float32 and float64.
    """
    if not compute_uv:
        rows, columns = input.shape[-2:]
        zeros = [_ternion.zeros(*input.shape[:-2], size, size, dtype=input.dtype, device=input.device) for size in (rows, columns)]
        return _results.svd(zeros[0], _linalg.svdvals(input), zeros[1])
    u, s, vh = _linalg.svd(input, not some)
    return _results.svd(u, s, vh.mT)


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """LU decompositions with partial pivoting: both factors in one matrix, and the exchanges of rows, from 1 on (int32); with `get_infos` the first pivots
    that are 0, too (int32, 0 for none). `lu_unpack` makes matrices of them.

    Shapes: [.., m, n] -> [.., m, n] and [.., min(m, n)], and [..]

    Raises:
        ValueError: less than 2 axes, no pivoting.
        TypeError: a dtype other than float32 and float64.
    """
    if not pivot:
        raise ValueError("lu: pivot=False: decompositions are made with pivoting")
    found = _linalg.lu_factor_ex(A)
    return _results.lu(*found) if get_infos else tuple(found[:2])


def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """`X` with `A @ X = input`, of what `lu` makes of `A`.

    Shapes: [.., n, k], [.., n, n] and [.., n] -> [.., n, k]

    Raises:
        ValueError: sizes that do not fit, pivots that are none.
        TypeError: dtypes other than float32 and float64, or that differ; pivots that are not int32.
    """
    return _linalg.lu_solve(LU_data, LU_pivots, input, True, False)


def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """The matrices of `A = P @ L @ U`, of what `lu` makes of `A`: a tuple of P, L and U. What is not asked for is empty.

    Shapes: [.., m, n] and [.., k] -> [.., m, m], [.., m, k] and [.., k, n] with k = min(m, n)

    Raises:
        ValueError: sizes that do not fit, pivots that are none.
        TypeError: a dtype other than float32 and float64, pivots that are not int32.
    """
    p, lower, upper = _linalg.lu_unpack(LU_data, LU_pivots)
    empty = _ternion.empty(0, dtype=LU_data.dtype, device=LU_data.device)
    return _results.lu_unpack(p if unpack_pivots else empty, *((lower, upper) if unpack_data else (empty, empty)))


def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """The first columns of products of reflections `1 - tau v v.mT`: their vectors v are below the diagonal of `input`, and tau is `input2`.

    Shapes: [.., m, n] and [.., k] -> [.., m, n]

    Raises:
        ValueError: sizes that do not fit.
        TypeError: dtypes other than float32 and float64, or that differ.
    """
    return _linalg.householder_product(input, input2)


def matrix_power(input: Tensor, n: int) -> Tensor:
    """A square matrix, or each of several, times itself `n` times; the inverse if `n` is negative.

    Shapes: [.., n, n] -> the same

    Raises:
        LinAlgError: a singular matrix, if `n` is negative.
        ValueError: matrices that are not square.
        TypeError: a dtype other than float32 and float64, if `n` is negative.
    """
    return _linalg.matrix_power(input, n)


def matrix_exp(input: Tensor) -> Tensor:
    """`1 + A + A @ A / 2 + ..` of square matrices.

    Shapes: [.., n, n] -> the same

    Raises:
        ValueError: matrices that are not square.
        TypeError: no floating dtype.
    """
    return _linalg.matrix_exp(input)


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of several matrices, in the order that takes fewest multiplications.

    Shapes: [m, k], [k, l], .. -> [m, last]

    Raises:
        ValueError: inner sizes that differ, other numbers of axes than 2.
        TypeError: no matrices.
    """
    given = matrices[0] if len(matrices) == 1 and not isinstance(matrices[0], Tensor) else matrices
    for number, matrix in enumerate(given):
        if isinstance(matrix, Tensor) and matrix.ndim != 2:
            raise ValueError(f"chain_matmul: matrix {number} has shape {list(matrix.shape)}, expected 2 axes")
    return given[0] if len(given) == 1 else _linalg.multi_dot(given)


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The products of vectors in space, along an axis of 3: by default the first one.

    Shapes: [.., 3, ..] and what broadcasts to it -> the shape that they have together

    Raises:
        ValueError: an axis of another size, other numbers of axes.
        IndexError: an axis that does not exist.
    """
    if dim is None:
        dim = next((at for at, size in enumerate(input.shape) if size == 3), None)
        if dim is None:
            raise ValueError(f"cross: shape {list(input.shape)}, expected an axis of size 3")
    return _linalg.cross(input, other, _axis("cross", input, dim))


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
    powers = _linalg.vander(column, max(count, 1))[:, :count]
    return powers if increasing else powers.flip(1)
