"""Linear algebra functions, each called once, with NumPy's result for the same numbers: the part of
test_reach.py about linear algebra."""

import numpy as np

import ternion
from ternion import linalg

RNG = np.random.default_rng(3)
A = RNG.uniform(-1, 1, (3, 3)) + np.diag([4.0, 6.0, 8.0])
B = RNG.uniform(-1, 1, (3, 2))
TALL = RNG.uniform(-1, 1, (5, 3)) + np.eye(5, 3) * [3.0, 5.0, 7.0]
X = RNG.uniform(-1, 1, (2, 3))
POSITIVE = A @ A.T
LOWER = np.linalg.cholesky(POSITIVE)
SYMMETRIC = A + A.T
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
LARGE = RNG.uniform(-1, 1, (2, 3, 6)) + np.eye(6).reshape(2, 3, 6) * 5
VECTORS, TAU = RNG.uniform(-1, 1, (3, 2)), np.array([0.5, 1.5])


def t(values):
    return ternion.tensor(values)


def product(*factors):
    """Returns the product of the factors of a decomposition that is not unique."""
    return np.linalg.multi_dot([factor.detach().numpy() for factor in factors])


def exponential(matrix):
    """Computes the matrix exponential: the power series of the scaled matrix, followed by repeated
    squaring."""
    term = total = np.eye(len(matrix))
    for k in range(1, 30):
        term = term @ matrix / 256 / k
        total = total + term
    return np.linalg.matrix_power(total, 256)


def reflections():
    result = np.eye(3)
    for k, tau in enumerate(TAU):
        v = np.where(np.arange(3) < k, 0.0, VECTORS[:, k])
        v[k] = 1.0
        result = result @ (np.eye(3) - tau * np.outer(v, v))
    return result[:, :2]


def reconstructed(singular):
    u, s, vh = singular
    return product(u[..., : s.shape[-1]] * s, vh[: s.shape[-1]])


REACHED = {
    "linalg.det": lambda: (ternion.det(t(A)), np.linalg.det(A)),
    "linalg.slogdet": lambda: (list(linalg.slogdet(t(A))), list(np.linalg.slogdet(A))),
    "logdet": lambda: (t(A).logdet(), np.log(np.linalg.det(A))),
    "linalg.inv": lambda: (ternion.inverse(t(A)), np.linalg.inv(A)),
    "linalg.inv_ex": lambda: (list(linalg.inv_ex(t(A))), [np.linalg.inv(A), 0]),
    "linalg.solve": lambda: (linalg.solve(t(A), t(B)), np.linalg.solve(A, B)),
    "linalg.solve_ex": lambda: (list(linalg.solve_ex(t(A), t(B))), [np.linalg.solve(A, B), 0]),
    "linalg.solve_triangular": lambda: (linalg.solve_triangular(t(A), t(B), upper=True), np.linalg.solve(np.triu(A), B)),
    "linalg.tensorinv": lambda: (linalg.tensorinv(t(LARGE)), np.linalg.tensorinv(LARGE)),
    "linalg.tensorsolve": lambda: (linalg.tensorsolve(t(LARGE), t(X)), np.linalg.tensorsolve(LARGE, X)),
    "linalg.cholesky": lambda: (ternion.cholesky(t(POSITIVE)), LOWER),
    "linalg.cholesky_ex": lambda: (list(linalg.cholesky_ex(t(POSITIVE), upper=True)), [LOWER.T, 0]),
    "cholesky_solve": lambda: (t(B).cholesky_solve(t(LOWER)), np.linalg.solve(POSITIVE, B)),
    "cholesky_inverse": lambda: (ternion.cholesky_inverse(t(LOWER)), np.linalg.inv(POSITIVE)),
    "linalg.lu": lambda: (product(*linalg.lu(t(TALL))), TALL),
    "linalg.lu_factor": lambda: (product(*ternion.lu_unpack(*linalg.lu_factor(t(A)))), A),
    "linalg.lu_factor_ex": lambda: (linalg.lu_factor_ex(t(SINGULAR)).info, 2),
    "linalg.lu_solve": lambda: (linalg.lu_solve(*linalg.lu_factor(t(A)), t(B)), np.linalg.solve(A, B)),
    "lu_unpack": lambda: (product(*ternion.lu_unpack(*ternion.lu(t(TALL)))), TALL),
    "linalg.qr": lambda: (product(*linalg.qr(t(TALL))), TALL),
    "linalg.householder_product": lambda: (linalg.householder_product(t(VECTORS), t(TAU)), reflections()),
    "linalg.svd": lambda: (reconstructed(linalg.svd(t(TALL))), TALL),
    "linalg.svdvals": lambda: (linalg.svdvals(t(TALL)), np.linalg.svd(TALL, compute_uv=False)),
    "linalg.eigh": lambda: (linalg.eigh(t(SYMMETRIC)).eigenvalues, np.linalg.eigh(SYMMETRIC)[0]),
    "linalg.eigvalsh": lambda: (linalg.eigvalsh(t(SYMMETRIC), UPLO="U"), np.linalg.eigvalsh(SYMMETRIC)),
    "linalg.lstsq": lambda: (linalg.lstsq(t(TALL), t(TALL[:, :2] + 1)).solution, np.linalg.lstsq(TALL, TALL[:, :2] + 1, rcond=None)[0]),
    "linalg.pinv": lambda: (ternion.pinverse(t(TALL)), np.linalg.pinv(TALL)),
    "linalg.matrix_rank": lambda: (linalg.matrix_rank(t(SINGULAR)), 1),
    "linalg.matrix_power": lambda: (ternion.matrix_power(t(A), -2), np.linalg.matrix_power(A, -2)),
    "linalg.matrix_exp": lambda: (t(A / 4).matrix_exp(), exponential(A / 4)),
    "linalg.multi_dot": lambda: (linalg.multi_dot([t(X), t(A), t(B)]), X @ A @ B),
    "linalg.cross": lambda: (linalg.cross(t(X), t(X[::-1].copy())), np.cross(X, X[::-1])),
    "linalg.vecdot": lambda: (linalg.vecdot(t(X), t(X)), (X * X).sum(-1)),
    "linalg.vander": lambda: (linalg.vander(t(X[0]), N=4), np.vander(X[0], 4, increasing=True)),
    "linalg.vector_norm": lambda: (linalg.vector_norm(t(X), 3, dim=1), np.linalg.norm(X, 3, axis=1)),
    "linalg.matrix_norm": lambda: (linalg.matrix_norm(t(A), "nuc"), np.linalg.norm(A, "nuc")),
    "linalg.norm": lambda: (linalg.norm(t(A), 1), np.linalg.norm(A, 1)),
    "linalg.cond": lambda: (linalg.cond(t(A)), np.linalg.cond(A)),
}  # fmt: skip
