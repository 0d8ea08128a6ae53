"""Differentiable linear algebra with the names of `torch.linalg`.

Functions take a matrix [m, n] or a batch [.., m, n] in float32 or float64. Decompositions run on
the CPU in float64 and are rounded once, for tensors of any device: the input is copied to the host,
which waits for the device, and the results are copied back. There are no complex dtypes, and
therefore neither `eig` nor `eigvals`.
"""

from __future__ import annotations

import math as _math
from typing import TYPE_CHECKING, Any

from . import _linalg_results as _results, _ternion
from ._error_messages import name_all as _name_all
from ._functions.linalg import matrix_exp, matrix_power  # noqa: F401  The same there.
from ._functions.shapes import broadcast_shapes as _broadcast_shapes
from ._linalg_products import cross, diagonal, matmul, multi_dot, vander, vecdot  # noqa: F401  The same there.
from ._ternion import Tensor

__all__ = """
LinAlgError cholesky cholesky_ex cond cross det diagonal eigh eigvalsh householder_product inv inv_ex lstsq lu lu_factor lu_factor_ex lu_solve matmul
matrix_exp matrix_norm matrix_power matrix_rank multi_dot norm pinv qr slogdet solve solve_ex solve_triangular svd svdvals tensorinv tensorsolve vander
vecdot vector_norm
""".split()

_linalg = _ternion._linalg

if TYPE_CHECKING:

    class LinAlgError(RuntimeError):
        """A matrix for which a function has no result: it is singular, not positive definite, or
        contains NaN or infinity.
        """
else:
    LinAlgError = _linalg.LinAlgError


def __dir__() -> list[str]:
    return __all__


def _axes(dim: Any) -> Any:
    """Returns one axis or several axes as a list."""
    return [dim] if hasattr(dim, "__index__") else dim


# ---- Determinants, inverses, linear systems


def det(A: Tensor) -> Tensor:
    """Returns the determinants of square matrices.

    Shapes: [.., n, n] -> [..]

    Raises:
        ValueError: If the matrices are not square.
        TypeError: If the dtype is not float32 or float64.
    """
    return _linalg.det(A)


def slogdet(A: Tensor) -> _results.Slogdet:
    """Returns the signs and the logarithms of the magnitudes of determinants: a tuple of sign and
    logabsdet. The gradient of the sign is 0.

    Shapes: [.., n, n] -> two tensors of shape [..]

    Raises:
        ValueError: If the matrices are not square.
        TypeError: If the dtype is not float32 or float64.
    """
    return _results.Slogdet(*_linalg.slogdet(A))


def inv(A: Tensor) -> Tensor:
    """Returns the inverses of square matrices.

    Shapes: [.., n, n] -> the same shape

    Raises:
        LinAlgError: If a matrix is singular.
        ValueError: If the matrices are not square.
        TypeError: If the dtype is not float32 or float64.
    """
    return _linalg.inv(A)


def inv_ex(A: Tensor, *, check_errors: bool = False) -> _results.InvEx:
    """Returns the inverses of square matrices, and for each matrix the index of the first pivot
    that is 0, counted from 1, or 0 (int32): a tuple of inverse and info. The inverses of singular
    matrices are infinite or NaN.

    Shapes: [.., n, n] -> the same shape and [..]

    Raises:
        LinAlgError: With `check_errors`, if a matrix is singular.
        ValueError: If the matrices are not square.
        TypeError: If the dtype is not float32 or float64.
    """
    result = _results.InvEx(*_linalg.inv_ex(A))
    if check_errors and result.info.any():
        _linalg.inv(A)
    return result


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """Returns the `X` with `A @ X = B`, or with `X @ A = B` if `left` is false.

    Shapes: [.., n, n] and [.., n, k], or vectors [.., n] -> the shape of B, broadcast

    Raises:
        LinAlgError: If a matrix is singular.
        ValueError: If the sizes do not match.
        TypeError: If a dtype is not float32 or float64, or if the dtypes differ.
    """
    return _linalg.solve(A, B, left)


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> _results.SolveEx:
    """Like `solve`, and returns for each matrix of A the index of the first pivot that is 0,
    counted from 1, or 0 (int32): a tuple of result and info. The results of singular matrices are
    infinite or NaN.

    Shapes: [.., n, n] and [.., n, k], or vectors [.., n] -> the shape of B, broadcast, and the
    leading axes of A

    Raises:
        LinAlgError: With `check_errors`, if a matrix is singular.
        ValueError: If the sizes do not match.
        TypeError: If a dtype is not float32 or float64, or if the dtypes differ.
    """
    result = _results.SolveEx(*_linalg.solve_ex(A, B, left))
    if check_errors and result.info.any():
        _linalg.solve(A, B, left)
    return result


def solve_triangular(input: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """Returns the `X` with `A @ X = B`, or with `X @ A = B` if `left` is false, where A is one
    triangle of the input. Its diagonal is taken as 1 if `unitriangular`.

    Shapes: [.., n, n] and [.., n, k] ([.., k, n] with `left=False`) -> the shape of B, broadcast

    Raises:
        ValueError: If the sizes do not match.
        TypeError: If a dtype is not float32 or float64, or if the dtypes differ.
    """
    return _linalg.solve_triangular(input, B, upper, left, unitriangular)


def tensorinv(input: Tensor, ind: int = 2) -> Tensor:
    """Returns the inverse with respect to the contraction over the first `ind` axes.

    Shapes: [a.., b..] -> [b.., a..], where both parts have the same number of elements

    Raises:
        LinAlgError: If a matrix is singular.
        ValueError: If `ind` is below 1, or if the sizes do not match.
        TypeError: If the dtype is not float32 or float64.
    """
    if ind < 1:
        raise ValueError(f"linalg.tensorinv: ind {ind}, expected 1 or more")
    return _linalg.tensorinv(input, ind)


def tensorsolve(input: Tensor, other: Tensor, dims: Any = None) -> Tensor:
    """Returns the `X` with `tensordot(input, X, X.ndim) = other`. The axes `dims` of the input are
    moved to the end first.

    Shapes: [b.., x..] and [b..] -> [x..]

    Raises:
        LinAlgError: If a matrix is singular.
        ValueError: If the sizes do not match.
        IndexError: If an axis is out of range.
        TypeError: If a dtype is not float32 or float64, or if the dtypes differ.
    """
    return _linalg.tensorsolve(input, other, _axes(dims))


# ---- Decompositions


def cholesky(input: Tensor, *, upper: bool = False) -> Tensor:
    """Returns the Cholesky factors of symmetric positive definite matrices: the lower triangular
    `L` with `input = L @ L.mT`, or the upper triangular `U` with `input = U.mT @ U`.

    Shapes: [.., n, n] -> the same shape

    Raises:
        LinAlgError: If a matrix is not positive definite.
        ValueError: If the matrices are not square.
        TypeError: If the dtype is not float32 or float64.
    """
    return _linalg.cholesky(input, upper)


def cholesky_ex(input: Tensor, *, upper: bool = False, check_errors: bool = False) -> _results.CholeskyEx:
    """Like `cholesky`, and returns for each matrix the order of the first leading minor that is not
    positive definite, or 0 (int32): a tuple of L and info. Where info is not 0, L is NaN.

    Shapes: [.., n, n] -> the same shape and [..]

    Raises:
        LinAlgError: With `check_errors`, if a matrix is not positive definite.
        ValueError: If the matrices are not square.
        TypeError: If the dtype is not float32 or float64.
    """
    result = _results.CholeskyEx(*_linalg.cholesky_ex(input, upper))
    if check_errors and result.info.any():
        _linalg.cholesky(input, upper)
    return result


def lu(A: Tensor, *, pivot: bool = True) -> _results.Lu:
    """Returns the LU decomposition `A = P @ L @ U` with partial pivoting: a permutation, a lower
    triangular matrix with ones on its diagonal, and an upper triangular matrix.

    Shapes: [.., m, n] -> [.., m, m], [.., m, k] and [.., k, n] with k = min(m, n)

    Raises:
        ValueError: If there are fewer than 2 axes, or `pivot` is False.
        TypeError: If the dtype is not float32 or float64.
    """
    _pivoted("lu", pivot)
    return _results.Lu(*_linalg.lu(A))


def lu_factor(A: Tensor, *, pivot: bool = True) -> _results.LuFactor:
    """Returns both factors of `lu` in one matrix, without the diagonal of ones, and the row
    exchanges, counted from 1 (int32): a tuple of LU and pivots.

    Shapes: [.., m, n] -> [.., m, n] and [.., min(m, n)]

    Raises:
        LinAlgError: If a pivot is 0.
        ValueError: If there are fewer than 2 axes, or `pivot` is False.
        TypeError: If the dtype is not float32 or float64.
    """
    _pivoted("lu_factor", pivot)
    return _results.LuFactor(*_linalg.lu_factor(A))


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> _results.LuFactorEx:
    """Like `lu_factor`, and returns for each matrix the index of the first pivot that is 0, counted
    from 1, or 0 (int32): a tuple of LU, pivots and info.

    Shapes: [.., m, n] -> [.., m, n], [.., min(m, n)] and [..]

    Raises:
        LinAlgError: With `check_errors`, if a pivot is 0.
        ValueError: If there are fewer than 2 axes, or `pivot` is False.
        TypeError: If the dtype is not float32 or float64.
    """
    _pivoted("lu_factor_ex", pivot)
    result = _results.LuFactorEx(*_linalg.lu_factor_ex(A))
    if check_errors and result.info.any():
        _linalg.lu_factor(A)
    return result


def _pivoted(name: str, pivot: bool) -> None:
    if not pivot:
        raise ValueError(f"linalg.{name}: pivot=False: decompositions are made with pivoting")


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """Returns the `X` with `A @ X = B`, from the result of `lu_factor` for A; with `X @ A = B` if
    `left` is false, and with `A.mT` if `adjoint`.

    Shapes: [.., n, n], [.., n] and [.., n, k] ([.., k, n] with `left=False`) -> the shape of B,
    broadcast

    Raises:
        ValueError: If the sizes do not match, or if a pivot is out of range.
        TypeError: If a dtype is not float32 or float64, if the dtypes differ, or if the pivots are
            not int32.
    """
    return _linalg.lu_solve(LU, pivots, B, left, adjoint)


def qr(A: Tensor, mode: str = "reduced") -> _results.Qr:
    """Returns the QR decomposition `A = Q @ R` with orthonormal columns of Q and an upper
    triangular R: a tuple of both. With the mode "complete", Q is square; with "r", Q is empty.

    "r" has no gradient, and neither has "complete" for a matrix with more rows than columns.

    Shapes: [.., m, n] -> [.., m, k] and [.., k, n] with k = min(m, n), or k = m for "complete"

    Raises:
        ValueError: If there are fewer than 2 axes, or if the mode is unknown.
        TypeError: If the dtype is not float32 or float64.
    """
    return _results.Qr(*_linalg.qr(A, mode))


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> _results.Svd:
    """Returns the singular value decomposition `A = U @ diag(S) @ Vh`: a tuple of U, S and Vh. The
    columns of U and the rows of Vh are orthonormal, and the singular values S are in descending
    order.

    The gradients of U and Vh are not finite if singular values are equal. The gradient of S by
    itself always is.

    Shapes: [.., m, n] -> [.., m, m], [.., k] and [.., n, n] with k = min(m, n); with
    `full_matrices=False` [.., m, k], [.., k] and [.., k, n]

    Args:
        driver: "gesvd", "gesvdj" or "gesvda". It has no effect: there is only one implementation.

    Raises:
        LinAlgError: If the input contains NaN or infinity.
        ValueError: If there are fewer than 2 axes, or if the driver is unknown.
        TypeError: If the dtype is not float32 or float64.
    """
    _check_driver("svd", driver)
    return _results.Svd(*_linalg.svd(A, full_matrices))


def _check_driver(function: str, driver: str | None) -> None:
    known = ("gesvd", "gesvdj", "gesvda")
    if driver is not None and driver not in known:
        raise ValueError(f"linalg.{function}: driver {driver!r}, expected one of {', '.join(known)}")


def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Returns singular values in descending order.

    Shapes: [.., m, n] -> [.., min(m, n)]

    Args:
        driver: "gesvd", "gesvdj" or "gesvda". It has no effect: there is only one implementation.

    Raises:
        LinAlgError: If the input contains NaN or infinity.
        ValueError: If there are fewer than 2 axes, or if the driver is unknown.
        TypeError: If the dtype is not float32 or float64.
    """
    _check_driver("svdvals", driver)
    return _linalg.svdvals(A)


def eigh(input: Tensor, UPLO: str = "L") -> _results.Eigh:
    """Returns the eigenvalues in ascending order and the eigenvectors, as columns, of symmetric
    matrices, of which only one triangle is read: a tuple of both.

    The gradient of the eigenvectors is not finite if eigenvalues are equal. The gradient of the
    eigenvalues by themselves always is.

    Shapes: [.., n, n] -> [.., n] and [.., n, n]

    Raises:
        LinAlgError: If the input contains NaN or infinity.
        ValueError: If the matrices are not square, or if `UPLO` is not "L" or "U".
        TypeError: If the dtype is not float32 or float64.
    """
    return _results.Eigh(*_linalg.eigh(input, UPLO))


def eigvalsh(input: Tensor, UPLO: str = "L") -> Tensor:
    """Returns the eigenvalues of symmetric matrices in ascending order.

    Shapes: [.., n, n] -> [.., n]

    Raises:
        LinAlgError: If the input contains NaN or infinity.
        ValueError: If the matrices are not square, or if `UPLO` is not "L" or "U".
        TypeError: If the dtype is not float32 or float64.
    """
    return _linalg.eigvalsh(input, UPLO)


def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """Returns the first columns of the product of Householder reflections `1 - tau v v.mT`, whose
    vectors v are below the diagonal of the input.

    Shapes: [.., m, n] and [.., k] with m >= n >= k -> [.., m, n]

    Raises:
        ValueError: If the sizes do not match.
        TypeError: If a dtype is not float32 or float64, or if the dtypes differ.
    """
    return _linalg.householder_product(input, tau)


# ---- Least squares, pseudo-inverses, ranks


def lstsq(input: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> _results.Lstsq:
    """Returns the `X` with the smallest `norm(A @ X - B)`, and among several the one with the
    smallest `norm(X)`: a tuple of solution, residuals, rank and singular_values.

    All drivers use singular values, of which those not above `rcond` times the largest one are
    treated as 0. As in PyTorch, residuals are returned only for "gels", "gelsd" and "gelss", if all
    matrices have full rank and more rows than columns; the rank is not returned for "gels"; and
    singular values are returned only for "gelsd" and "gelss". Other results are empty. The default
    driver is "gelsy" on the CPU and "gels" elsewhere.

    Shapes: [.., m, n] and [.., m, k], or vectors [.., m] -> [.., n, k] or [.., n], [.., k], [..]
    (int64) and [.., min(m, n)]

    Raises:
        LinAlgError: If the input contains NaN or infinity.
        ValueError: If the sizes do not match, or if the driver is unknown.
        TypeError: If a dtype is not float32 or float64, or if the dtypes differ.
    """
    known = ("gelsy", "gels", "gelsd", "gelss")
    if driver is None:
        driver = "gelsy" if input.is_cpu else "gels"
    if driver not in known:
        raise ValueError(f"linalg.lstsq: driver {driver!r}, expected one of {', '.join(known)}")
    solution, residuals, rank, singular_values = _linalg.lstsq(input, b, rcond)
    empty = singular_values.new_empty(0)
    # Part of the graph, as residuals always are.
    none = solution.flatten()[:0]
    return _results.Lstsq(
        solution,
        none if driver == "gelsy" else residuals,
        rank.new_empty(0) if driver == "gels" else rank,
        singular_values if driver in ("gelsd", "gelss") else empty,
    )


def _by_tolerances(function: Any, input: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    """Applies a function of matrices with tolerances, which may be tensors with one value for each
    matrix.
    """
    shapes = [each.shape for each in (atol, rtol) if isinstance(each, Tensor)]
    if not any(shapes) or input.ndim < 2:
        return function(input, atol, rtol, hermitian)
    outer = _broadcast_shapes(input.shape[:-2], *shapes)
    batch = input.expand(*outer, *input.shape[-2:])
    if not batch.numel():
        return function(batch, None, None, hermitian)
    of_each = [each.expand(outer).flatten().tolist() if isinstance(each, Tensor) else [each] * _math.prod(outer) for each in (atol, rtol)]
    result = [function(matrix, *limits, hermitian) for matrix, *limits in zip(batch.flatten(end_dim=-3), *of_each)]
    return _ternion.stack(result).reshape(*outer, *result[0].shape)


def pinv(
    input: Tensor, rcond: float | Tensor | None = None, hermitian: bool = False, *,
    atol: float | Tensor | None = None, rtol: float | Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Returns the Moore-Penrose inverses: by eigenvalues if `hermitian`, in which case only the
    lower triangle is read.

    Shapes: [.., m, n] -> [.., n, m]

    Args:
        rcond: Another name of rtol.
        atol, rtol: Singular values that are not above max(atol, rtol * largest singular value) are
            treated as 0. The default of rtol is the eps of the dtype times max(m, n), or 0 if atol
            is positive. A tensor has one tolerance for each matrix, and is broadcast.

    Raises:
        LinAlgError: If the input contains NaN or infinity.
        ValueError: If there are fewer than 2 axes, if `hermitian` matrices are not square, or if
            the shape of a tolerance does not broadcast.
        TypeError: If the dtype is not float32 or float64.
    """
    if rcond is not None:
        if rtol is not None:
            raise TypeError("linalg.pinv: both rcond and rtol, which are one")
        rtol = rcond
    return _by_tolerances(_linalg.pinv, input, atol, rtol, hermitian)


def matrix_rank(
    input: Tensor, tol: float | Tensor | None = None, hermitian: bool = False, *,
    atol: float | Tensor | None = None, rtol: float | Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Returns the number of singular values (or magnitudes of eigenvalues, if `hermitian`) above
    the tolerance; int64.

    Shapes: [.., m, n] -> [..]

    Args:
        tol: The value of atol, with an rtol of 0.
        atol, rtol: Values above max(atol, rtol * largest value) are counted. The default of rtol is
            the eps of the dtype times max(m, n), or 0 if atol is positive. A tensor has one
            tolerance for each matrix, and is broadcast.

    Raises:
        LinAlgError: If the input contains NaN or infinity.
        ValueError: If there are fewer than 2 axes, if `hermitian` matrices are not square, or if
            the shape of a tolerance does not broadcast.
        TypeError: If the dtype is not float32 or float64.
    """
    if tol is not None:
        if atol is not None or rtol is not None:
            raise TypeError("linalg.matrix_rank: tol together with atol or rtol, which it stands for")
        atol, rtol = tol, 0.0
    return _by_tolerances(_linalg.matrix_rank, input, atol, rtol, hermitian)


# ---- Norms


def vector_norm(input: Tensor | None = None, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, x: Tensor | None = None) -> Tensor:
    """Returns `sum(abs(x)**ord)**(1 / ord)` over axes, or over all elements: the largest magnitude
    for inf, the smallest for -inf, the number of nonzero elements for 0.

    Shapes: [..] -> [], or without the axes `dim`

    Args:
        x: PyTorch's documented name of `input`.

    Raises:
        IndexError: If an axis is out of range.
        ValueError: If there are no elements for a maximum or minimum, or if `dtype` cannot
            represent the values of the input's dtype.
        TypeError: If the dtype is not a floating-point dtype.
    """
    if (input is None) == (x is None):
        raise TypeError(f"linalg.vector_norm: {'neither' if x is None else 'both'} of input and x, expected one")
    return _linalg.vector_norm(x if input is None else input, ord, _axes(dim), keepdim, dtype)


def matrix_norm(input: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Returns norms of matrices.

    "fro" is the 2-norm of all elements; "nuc" the sum of the singular values; 2 and -2 the largest
    and the smallest one; 1 and -1 the largest and the smallest sum of magnitudes of a column; inf
    and -inf that of a row.

    Shapes: [.., m, n] -> [..]

    Raises:
        LinAlgError: If singular values are needed and the input contains NaN or infinity.
        IndexError: If an axis is out of range.
        ValueError: If the order is unknown, if there are no values for a minimum, or if `dtype`
            cannot represent the values of the input's dtype.
        TypeError: If the dtype is not a floating-point dtype, or if singular values are needed in
            half precision.
    """
    return _linalg.matrix_norm(input, ord, _axes(dim), keepdim, dtype)


def norm(input: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Returns the `vector_norm` over one axis, or the `matrix_norm` over two. Without `dim`, the
    input must be a vector or a matrix; without `ord`, the result is the 2-norm of all elements.

    Shapes: [..] -> [], or without the axes `dim`

    Raises:
        LinAlgError: If singular values are needed and the input contains NaN or infinity.
        IndexError: If an axis is out of range.
        ValueError: If the order is unknown, or if the number of axes is wrong.
        TypeError: If the dtype is not a floating-point dtype, or if singular values are needed in
            half precision.
    """
    return _linalg.norm(input, ord, _axes(dim), keepdim, dtype)


def cond(input: Tensor, p: Any = None) -> Tensor:
    """Returns the condition numbers `norm(A) * norm(inv(A))` in a norm of `matrix_norm`. The
    default is the 2-norm: the ratio of the largest and the smallest singular value, also for
    matrices that are not square.

    The result is infinite for singular matrices, and 0 for matrices without elements.

    Shapes: [.., m, n] -> [..]

    Raises:
        LinAlgError: If the input contains NaN or infinity, in the 2-norm.
        ValueError: If the norm is unknown, or if the matrices are not square in a norm other than
            the 2-norm.
        TypeError: If the dtype is not float32 or float64.
    """
    return _linalg.cond(input, p)


_name_all(globals())
