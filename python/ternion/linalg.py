"""Linear algebra with gradients under the names that it has in `torch.linalg`.

Functions take a matrix [m, n] or a batch of them [.., m, n] in float32 or float64. Decompositions run on the processor in float64 and are rounded once,
wherever the tensors are: those of other devices are read, which waits for the device, and what comes out is written back. There are no complex numbers,
and so neither `eig` nor `eigvals`.
"""

from __future__ import annotations

import math as _math
from typing import TYPE_CHECKING, Any

from . import _linalg_results as _results, _ternion
from ._functions.linalg import matrix_exp, matrix_power  # noqa: F401  The same there.
from ._functions.shapes import broadcast_shapes as _broadcast_shapes
from ._refusals import name_all as _name_all
from ._ternion import Tensor

__all__ = """
LinAlgError cholesky cholesky_ex cond cross det diagonal eigh eigvalsh householder_product inv inv_ex lstsq lu lu_factor lu_factor_ex lu_solve matmul
matrix_exp matrix_norm matrix_power matrix_rank multi_dot norm pinv qr slogdet solve solve_ex solve_triangular svd svdvals tensorinv tensorsolve vander
vecdot vector_norm
""".split()

_linalg = _ternion._linalg

if TYPE_CHECKING:

    class LinAlgError(RuntimeError):
        """A matrix for which a function has no result: singular, not positive definite, with a NaN or an infinity."""
else:
    LinAlgError = _linalg.LinAlgError


def __dir__() -> list[str]:
    return __all__


def _axes(dim: Any) -> Any:
    """One axis or several as several."""
    return [dim] if hasattr(dim, "__index__") else dim


# ---- Determinants, inverses, systems


def det(A: Tensor) -> Tensor:
    """The determinants of square matrices.

    Shapes: [.., n, n] -> [..]

    Raises:
        ValueError: matrices that are not square.
        TypeError: a dtype other than float32 and float64.
    """
    return _linalg.det(A)


def slogdet(A: Tensor) -> _results.Slogdet:
    """Signs and logarithms of the magnitudes of determinants: a tuple of sign and logabsdet. The gradient of the sign is 0.

    Shapes: [.., n, n] -> two of [..]

    Raises:
        ValueError: matrices that are not square.
        TypeError: a dtype other than float32 and float64.
    """
    return _results.Slogdet(*_linalg.slogdet(A))


def inv(A: Tensor) -> Tensor:
    """The inverses of square matrices.

    Shapes: [.., n, n] -> the same

    Raises:
        LinAlgError: a singular matrix.
        ValueError: matrices that are not square.
        TypeError: a dtype other than float32 and float64.
    """
    return _linalg.inv(A)


def inv_ex(A: Tensor, *, check_errors: bool = False) -> _results.InvEx:
    """The inverses of square matrices, and for each the number of the first pivot that is 0, from 1 on, or 0 (int32): a tuple of inverse and info. The
    inverses of singular matrices are infinite or NaN.

    Shapes: [.., n, n] -> the same and [..]

    Raises:
        LinAlgError: a singular matrix, with `check_errors`.
        ValueError: matrices that are not square.
        TypeError: a dtype other than float32 and float64.
    """
    found = _results.InvEx(*_linalg.inv_ex(A))
    if check_errors and found.info.any():
        _linalg.inv(A)
    return found


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """`X` with `A @ X = B`, or with `X @ A = B` unless `left`.

    Shapes: [.., n, n] and [.., n, k], or vectors [.., n] -> those of B, broadcast

    Raises:
        LinAlgError: a singular matrix.
        ValueError: sizes that do not fit.
        TypeError: dtypes other than float32 and float64, or that differ.
    """
    return _linalg.solve(A, B, left)


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> _results.SolveEx:
    """`solve`, and for each matrix of A the number of the first pivot that is 0, from 1 on, or 0 (int32): a tuple of result and info. The results of
    singular matrices are infinite or NaN.

    Shapes: [.., n, n] and [.., n, k], or vectors [.., n] -> those of B, broadcast, and the axes of A before the last two

    Raises:
        LinAlgError: a singular matrix, with `check_errors`.
        ValueError: sizes that do not fit.
        TypeError: dtypes other than float32 and float64, or that differ.
    """
    found = _results.SolveEx(*_linalg.solve_ex(A, B, left))
    if check_errors and found.info.any():
        _linalg.solve(A, B, left)
    return found


def solve_triangular(input: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """`X` with `A @ X = B`, or with `X @ A = B` unless `left`, of one triangle of A, the input; its diagonal counts as 1 if `unitriangular`.

    Shapes: [.., n, n] and [.., n, k] ([.., k, n] unless `left`) -> that of B, broadcast

    Raises:
        ValueError: sizes that do not fit.
        TypeError: dtypes other than float32 and float64, or that differ.
    """
    return _linalg.solve_triangular(input, B, upper, left, unitriangular)


def tensorinv(input: Tensor, ind: int = 2) -> Tensor:
    """The inverse with respect to the contraction over the first `ind` axes.

    Shapes: [a.., b..] -> [b.., a..] with as many elements in both

    Raises:
        LinAlgError: a singular matrix.
        ValueError: an `ind` below 1, sizes that do not fit.
        TypeError: a dtype other than float32 and float64.
    """
    if ind < 1:
        raise ValueError(f"linalg.tensorinv: ind {ind}, expected 1 or more")
    return _linalg.tensorinv(input, ind)


def tensorsolve(input: Tensor, other: Tensor, dims: Any = None) -> Tensor:
    """`X` with `tensordot(input, X, X.ndim) = other`; the axes `dims` of the input are moved to its end first.

    Shapes: [b.., x..] and [b..] -> [x..]

    Raises:
        LinAlgError: a singular matrix.
        ValueError: sizes that do not fit.
        IndexError: an axis that does not exist.
        TypeError: dtypes other than float32 and float64, or that differ.
    """
    return _linalg.tensorsolve(input, other, _axes(dims))


# ---- Decompositions


def cholesky(input: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular `L` with `input = L @ L.mT`, or the upper triangular `U` with `input = U.mT @ U`, of symmetric positive definite matrices.

    Shapes: [.., n, n] -> the same

    Raises:
        LinAlgError: a matrix that is not positive definite.
        ValueError: matrices that are not square.
        TypeError: a dtype other than float32 and float64.
    """
    return _linalg.cholesky(input, upper)


def cholesky_ex(input: Tensor, *, upper: bool = False, check_errors: bool = False) -> _results.CholeskyEx:
    """`cholesky`, and for each matrix the order of the first leading minor that is not positive definite, or 0 (int32): a tuple of L and info. Where it is
    not 0, L is NaN.

    Shapes: [.., n, n] -> the same and [..]

    Raises:
        LinAlgError: a matrix that is not positive definite, with `check_errors`.
        ValueError: matrices that are not square.
        TypeError: a dtype other than float32 and float64.
    """
    found = _results.CholeskyEx(*_linalg.cholesky_ex(input, upper))
    if check_errors and found.info.any():
        _linalg.cholesky(input, upper)
    return found


def lu(A: Tensor, *, pivot: bool = True) -> _results.Lu:
    """`A = P @ L @ U` with partial pivoting: a permutation, a lower triangular matrix with ones on its diagonal, and an upper triangular one.

    Shapes: [.., m, n] -> [.., m, m], [.., m, k] and [.., k, n] with k = min(m, n)

    Raises:
        ValueError: less than 2 axes, no pivoting.
        TypeError: a dtype other than float32 and float64.
    """
    _pivoted("lu", pivot)
    return _results.Lu(*_linalg.lu(A))


def lu_factor(A: Tensor, *, pivot: bool = True) -> _results.LuFactor:
    """Both factors of `lu` in one matrix, without the diagonal of ones, and the exchanges of rows, from 1 on (int32): a tuple of LU and pivots.

    Shapes: [.., m, n] -> [.., m, n] and [.., min(m, n)]

    Raises:
        LinAlgError: a pivot that is 0.
        ValueError: less than 2 axes, no pivoting.
        TypeError: a dtype other than float32 and float64.
    """
    _pivoted("lu_factor", pivot)
    return _results.LuFactor(*_linalg.lu_factor(A))


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> _results.LuFactorEx:
    """`lu_factor`, and for each matrix the number of the first pivot that is 0, from 1 on, or 0 (int32): a tuple of LU, pivots and info.

    Shapes: [.., m, n] -> [.., m, n], [.., min(m, n)] and [..]

    Raises:
        LinAlgError: a pivot that is 0, with `check_errors`.
        ValueError: less than 2 axes, no pivoting.
        TypeError: a dtype other than float32 and float64.
    """
    _pivoted("lu_factor_ex", pivot)
    found = _results.LuFactorEx(*_linalg.lu_factor_ex(A))
    if check_errors and found.info.any():
        _linalg.lu_factor(A)
    return found


def _pivoted(name: str, pivot: bool) -> None:
    if not pivot:
        raise ValueError(f"linalg.{name}: pivot=False: decompositions are made with pivoting")


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """`X` with `A @ X = B`, of what `lu_factor` makes of A; with `X @ A = B` unless `left`, with `A.mT` if `adjoint`.

    Shapes: [.., n, n], [.., n] and [.., n, k] ([.., k, n] unless `left`) -> that of B, broadcast

    Raises:
        ValueError: sizes that do not fit, pivots that are none.
        TypeError: dtypes other than float32 and float64, or that differ; pivots that are not int32.
    """
    return _linalg.lu_solve(LU, pivots, B, left, adjoint)


def qr(A: Tensor, mode: str = "reduced") -> _results.Qr:
    """`A = Q @ R` with orthonormal columns of Q and an upper triangular R: a tuple of both. The mode "complete" makes Q square; that of "r" is empty.

    "r" has no gradient, nor has "complete" of a matrix with more rows than columns.

    Shapes: [.., m, n] -> [.., m, k] and [.., k, n] with k = min(m, n), or m if "complete"

    Raises:
        ValueError: less than 2 axes, another mode.
        TypeError: a dtype other than float32 and float64.
    """
    return _results.Qr(*_linalg.qr(A, mode))


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> _results.Svd:
    """`A = U @ diag(S) @ Vh` with orthonormal columns of U and rows of Vh, and singular values S in descending order: a tuple of the three.

    Gradients of U and Vh are not finite where singular values are equal; that of S alone always is.

    Shapes: [.., m, n] -> [.., m, m], [.., k] and [.., n, n] with k = min(m, n); without `full_matrices` [.., m, k], [.., k] and [.., k, n]

    Args:
        driver: "gesvd", "gesvdj" or "gesvda", without effect: there is one.

    Raises:
        LinAlgError: a NaN or an infinity.
        ValueError: less than 2 axes, another driver.
        TypeError: a dtype other than float32 and float64.
    """
    _check_driver("svd", driver)
    return _results.Svd(*_linalg.svd(A, full_matrices))


def _check_driver(function: str, driver: str | None) -> None:
    known = ("gesvd", "gesvdj", "gesvda")
    if driver is not None and driver not in known:
        raise ValueError(f"linalg.{function}: driver {driver!r}, expected one of {', '.join(known)}")


def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Singular values in descending order.

    Shapes: [.., m, n] -> [.., min(m, n)]

    Args:
        driver: "gesvd", "gesvdj" or "gesvda", without effect: there is one.

    Raises:
        LinAlgError: a NaN or an infinity.
        ValueError: less than 2 axes, another driver.
        TypeError: a dtype other than float32 and float64.
    """
    _check_driver("svdvals", driver)
    return _linalg.svdvals(A)


def eigh(input: Tensor, UPLO: str = "L") -> _results.Eigh:
    """Eigenvalues in ascending order and eigenvectors, the columns, of symmetric matrices, of which one triangle is looked at: a tuple of both.

    The gradient of eigenvectors is not finite where eigenvalues are equal; that of eigenvalues alone always is.

    Shapes: [.., n, n] -> [.., n] and [.., n, n]

    Raises:
        LinAlgError: a NaN or an infinity.
        ValueError: matrices that are not square, another triangle than "L" and "U".
        TypeError: a dtype other than float32 and float64.
    """
    return _results.Eigh(*_linalg.eigh(input, UPLO))


def eigvalsh(input: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues of symmetric matrices in ascending order.

    Shapes: [.., n, n] -> [.., n]

    Raises:
        LinAlgError: a NaN or an infinity.
        ValueError: matrices that are not square, another triangle than "L" and "U".
        TypeError: a dtype other than float32 and float64.
    """
    return _linalg.eigvalsh(input, UPLO)


def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first columns of products of reflections `1 - tau v v.mT`, whose vectors v are below the diagonal of the input.

    Shapes: [.., m, n] and [.., k] with m >= n >= k -> [.., m, n]

    Raises:
        ValueError: sizes that do not fit.
        TypeError: dtypes other than float32 and float64, or that differ.
    """
    return _linalg.householder_product(input, tau)


# ---- Least squares, pseudo-inverses, ranks


def lstsq(input: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> _results.Lstsq:
    """`X` with the smallest `norm(A @ X - B)` and of those the smallest `norm(X)`: a tuple of solution, residuals, rank and singular_values.

    All drivers do the same, by singular values, of which those not above `rcond` times the largest count as 0. As in PyTorch, residuals are empty but for
    "gels", "gelsd" and "gelss", where all matrices have full rank and more rows than columns; the rank is empty for "gels"; and singular values are empty
    but for "gelsd" and "gelss". The driver is "gelsy" on the processor and "gels" elsewhere by default.

    Shapes: [.., m, n] and [.., m, k], or vectors [.., m] -> [.., n, k] or [.., n], [.., k], [..] (int64) and [.., min(m, n)]

    Raises:
        LinAlgError: a NaN or an infinity.
        ValueError: sizes that do not fit, another driver.
        TypeError: dtypes other than float32 and float64, or that differ.
    """
    known = ("gelsy", "gels", "gelsd", "gelss")
    if driver is None:
        driver = "gelsy" if input.is_cpu else "gels"
    if driver not in known:
        raise ValueError(f"linalg.lstsq: driver {driver!r}, expected one of {', '.join(known)}")
    solution, residuals, rank, singular_values = _linalg.lstsq(input, b, rcond)
    empty = singular_values.new_empty(0)
    # With a gradient, as all residuals have.
    none = solution.flatten()[:0]
    return _results.Lstsq(
        solution,
        none if driver == "gelsy" else residuals,
        rank.new_empty(0) if driver == "gels" else rank,
        singular_values if driver in ("gelsd", "gelss") else empty,
    )


def _by_tolerances(function: Any, input: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    """A function of matrices with tolerances, of which tensors have one for each matrix."""
    shapes = [each.shape for each in (atol, rtol) if isinstance(each, Tensor)]
    if not any(shapes) or input.ndim < 2:
        return function(input, atol, rtol, hermitian)
    outer = _broadcast_shapes(input.shape[:-2], *shapes)
    batch = input.expand(*outer, *input.shape[-2:])
    if not batch.numel():
        return function(batch, None, None, hermitian)
    of_each = [each.expand(outer).flatten().tolist() if isinstance(each, Tensor) else [each] * _math.prod(outer) for each in (atol, rtol)]
    found = [function(matrix, *limits, hermitian) for matrix, *limits in zip(batch.flatten(end_dim=-3), *of_each)]
    return _ternion.stack(found).reshape(*outer, *found[0].shape)


def pinv(
    input: Tensor, rcond: float | Tensor | None = None, hermitian: bool = False, *,
    atol: float | Tensor | None = None, rtol: float | Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The Moore-Penrose inverses: by eigenvalues if `hermitian`, of which the lower triangle is looked at.

    Shapes: [.., m, n] -> [.., n, m]

    Args:
        rcond: another name of rtol.
        atol, rtol: singular values not above the larger one of atol and rtol times the largest one count as 0. By default rtol is the eps of the dtype
            times max(m, n), or 0 beside an atol above 0. A tensor has one for each matrix, and broadcasts.

    Raises:
        LinAlgError: a NaN or an infinity.
        ValueError: less than 2 axes; matrices that are not square, if `hermitian`; tolerances whose shape does not broadcast.
        TypeError: a dtype other than float32 and float64.
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
    """How many singular values (or magnitudes of eigenvalues, if `hermitian`) count; int64.

    Shapes: [.., m, n] -> [..]

    Args:
        tol: atol, with an rtol of 0.
        atol, rtol: those above the larger one of atol and rtol times the largest one count. By default rtol is the eps of the dtype times max(m, n), or 0
            beside an atol above 0. A tensor has one for each matrix, and broadcasts.

    Raises:
        LinAlgError: a NaN or an infinity.
        ValueError: less than 2 axes; matrices that are not square, if `hermitian`; tolerances whose shape does not broadcast.
        TypeError: a dtype other than float32 and float64.
    """
    if tol is not None:
        if atol is not None or rtol is not None:
            raise TypeError("linalg.matrix_rank: tol beside atol or rtol, which it stands for")
        atol, rtol = tol, 0.0
    return _by_tolerances(_linalg.matrix_rank, input, atol, rtol, hermitian)


# ---- Norms


def vector_norm(input: Tensor | None = None, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, x: Tensor | None = None) -> Tensor:
    """`sum(abs(x)**ord)**(1 / ord)` over axes, or all elements: the largest magnitude for inf, the smallest for -inf, how many are not 0 for 0.

    Shapes: [..] -> [], or without the axes `dim`

    Args:
        x: what PyTorch's page calls the input.

    Raises:
        IndexError: an axis that does not exist.
        ValueError: no elements of which the largest or smallest one is taken, a dtype that does not hold the numbers of the input.
        TypeError: no floating dtype.
    """
    if (input is None) == (x is None):
        raise TypeError(f"linalg.vector_norm: {'neither' if x is None else 'both'} of input and x, expected one")
    return _linalg.vector_norm(x if input is None else input, ord, _axes(dim), keepdim, dtype)


def matrix_norm(input: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Norms of matrices: "fro", the 2-norm of all elements; "nuc", the sum of the singular values; 2 and -2, the largest and the smallest one; 1 and -1, the
    largest and smallest sum of magnitudes of a column; inf and -inf, of a row.

    Shapes: [.., m, n] -> [..]

    Raises:
        LinAlgError: a NaN or an infinity, where singular values are taken.
        IndexError: an axis that does not exist.
        ValueError: another order, nothing of which the smallest one is taken, a dtype that does not hold the numbers of the input.
        TypeError: no floating dtype, or a half one where singular values are taken.
    """
    return _linalg.matrix_norm(input, ord, _axes(dim), keepdim, dtype)


def norm(input: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """`vector_norm` over one axis, `matrix_norm` over two. Without `dim` that of a vector or a matrix, which the input must be; without `ord` the 2-norm of
    all elements.

    Shapes: [..] -> [], or without the axes `dim`

    Raises:
        LinAlgError: a NaN or an infinity, where singular values are taken.
        IndexError: an axis that does not exist.
        ValueError: another order, other numbers of axes.
        TypeError: no floating dtype, or a half one where singular values are taken.
    """
    return _linalg.norm(input, ord, _axes(dim), keepdim, dtype)


def cond(input: Tensor, p: Any = None) -> Tensor:
    """The condition numbers `norm(A) * norm(inv(A))` in a norm of `matrix_norm`; by default in the 2-norm, the ratio of the largest and the smallest
    singular value, also of matrices that are not square. Infinite for singular matrices, 0 for those without elements.

    Shapes: [.., m, n] -> [..]

    Raises:
        LinAlgError: a NaN or an infinity, in the 2-norm.
        ValueError: another norm; matrices that are not square, in other norms than the 2-norm.
        TypeError: a dtype other than float32 and float64.
    """
    return _linalg.cond(input, p)


# ---- Products, powers, views


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The products of matrices: `input @ other`.

    Shapes: [.., m, k] and [.., k, n] -> [.., m, n]

    Raises:
        ValueError: inner sizes that differ.
    """
    return input.matmul(other)


def multi_dot(tensors: Any) -> Tensor:
    """The product of two or more matrices, in the order that takes fewest multiplications. The first and the last one may be vectors.

    Shapes: [m, k], [k, l], .. -> [m, last]

    Raises:
        ValueError: less than two, others than matrices, inner sizes that differ.
        TypeError: dtypes that differ.
    """
    return _linalg.multi_dot(tensors)


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The products of vectors in space, along an axis of 3.

    Shapes: [.., 3, ..] and what broadcasts to it -> the shape that they have together

    Raises:
        ValueError: an axis of another size, other numbers of axes.
        IndexError: an axis that does not exist.
    """
    return _linalg.cross(input, other, dim)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sums of the products of the elements of vectors.

    Shapes: [.., n] and what broadcasts to it -> [..]

    Raises:
        ValueError: shapes that do not broadcast.
        IndexError: an axis that does not exist.
        TypeError: no floating dtype, dtypes that differ.
    """
    return _linalg.vecdot(x, y, dim)


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers 0 to N - 1 of each element, as many as the last axis has elements by default.

    Shapes: [.., n] -> [.., n, N]

    Raises:
        ValueError: an input without axes, an N below 1.
        TypeError: truth values.
    """
    return _linalg.vander(x, N)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices, as `ternion.diagonal`, of the last two axes by default.

    Shapes: [.., m, n] -> [.., k]

    Raises:
        IndexError: an axis that does not exist.
        ValueError: an axis that is named twice.
    """
    return A.diagonal(offset, dim1, dim2)


_name_all(globals())
