"""Linear algebra in Ternion and in JAX: a part of `jax_cases`. If a decomposition is not unique,
its elements are squared."""

import jax
import jax.numpy as jnp
import numpy as np

import ternion
from ternion import linalg


def uniform(low, high):
    return lambda rng, shape: rng.uniform(low, high, shape)


def spread(rng, shape):
    """Matrices whose singular values are well separated and far from 0."""
    rows, columns = shape[-2:]
    return rng.uniform(-1, 1, shape) + np.eye(rows, columns) * (2 * np.arange(columns) + 4)


def tensor_spread(rng, shape):
    return spread(rng, (6, 6)).reshape(shape)


def squares(factors):
    return [factor * factor for factor in factors]


def symmetric(x):
    return x + (x.mT if isinstance(x, ternion.Tensor) else jnp.swapaxes(x, -1, -2))


def positive(x):
    one = ternion.eye(x.shape[-1], dtype=x.dtype) if isinstance(x, ternion.Tensor) else jnp.eye(x.shape[-1])
    return x @ (x.mT if isinstance(x, ternion.Tensor) else jnp.swapaxes(x, -1, -2)) + one


def pinv(x):
    transposed = jnp.swapaxes(x, -1, -2)
    return jnp.linalg.solve(transposed @ x, transposed)


def reflected(a, tau):
    result = jnp.eye(a.shape[0])
    for k in range(tau.shape[0]):
        v = jnp.where(jnp.arange(a.shape[0]) > k, a[:, k], 0.0).at[k].set(1.0)
        result = result @ (jnp.eye(a.shape[0]) - tau[k] * jnp.outer(v, v))
    return result[:, : a.shape[1]]


def lu_of_jax(x):
    p, lower, upper = jax.scipy.linalg.lu(x)
    return [lower, upper]


SQUARE, BATCH, TALL = ((4, 4), spread), ((2, 3, 3), spread), ((5, 3), spread)
RIGHT, RIGHTS = ((4, 2), uniform(-1, 1)), ((2, 3, 2), uniform(-1, 1))
TENSOR = ((2, 3, 6), tensor_spread)
VECTOR = ((2, 3), uniform(-2, 2))

# Name, label of the case, Ternion's function, JAX's function, and the inputs to draw.
CASES = [
    ("linalg.det", "", linalg.det, jnp.linalg.det, ((2, 3, 3), uniform(-1, 1))),
    ("linalg.slogdet", "", lambda x: linalg.slogdet(x).logabsdet, lambda x: jnp.linalg.slogdet(x)[1], BATCH),
    ("logdet", "", ternion.logdet, lambda x: jnp.linalg.slogdet(x)[1], SQUARE),
    ("linalg.inv", "", linalg.inv, jnp.linalg.inv, BATCH),
    ("linalg.inv_ex", "", lambda x: linalg.inv_ex(x).inverse, jnp.linalg.inv, SQUARE),
    ("linalg.solve", "", linalg.solve, jnp.linalg.solve, BATCH, RIGHTS),
    ("linalg.solve_ex", "", lambda a, b: linalg.solve_ex(a, b).result, jnp.linalg.solve, SQUARE, RIGHT),
    (
        "linalg.solve_triangular", "lower", lambda a, b: linalg.solve_triangular(a, b, upper=False),
        lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True), SQUARE, RIGHT,
    ),
    ("linalg.solve_triangular", "upper", lambda a, b: linalg.solve_triangular(a, b, upper=True), jax.scipy.linalg.solve_triangular, SQUARE, RIGHT),
    ("linalg.tensorinv", "", linalg.tensorinv, jnp.linalg.tensorinv, TENSOR),
    ("linalg.tensorsolve", "", linalg.tensorsolve, jnp.linalg.tensorsolve, TENSOR, VECTOR),
    ("linalg.cholesky", "", lambda x: linalg.cholesky(positive(x)), lambda x: jnp.linalg.cholesky(positive(x)), ((2, 3, 3), uniform(-1, 1))),
    ("cholesky_solve", "", lambda b, l: b.cholesky_solve(l), lambda b, l: jax.scipy.linalg.cho_solve((l, True), b), RIGHT, SQUARE),
    ("cholesky_inverse", "", lambda l: l.cholesky_inverse(), lambda l: jax.scipy.linalg.cho_solve((l, True), jnp.eye(4)), SQUARE),
    ("linalg.lu", "", lambda x: linalg.lu(x)[1:], lu_of_jax, SQUARE),
    ("linalg.lu_factor", "", lambda x: linalg.lu_factor(x).LU, lambda x: jax.scipy.linalg.lu_factor(x)[0], SQUARE),
    ("lu_unpack", "", lambda x: ternion.lu_unpack(*ternion.lu(x))[1:], lu_of_jax, SQUARE),
    ("linalg.lu_solve", "", lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b), jnp.linalg.solve, SQUARE, RIGHT),
    ("linalg.qr", "", lambda x: squares(linalg.qr(x)), lambda x: squares(jnp.linalg.qr(x)), TALL),
    ("linalg.householder_product", "", linalg.householder_product, reflected, ((4, 3), uniform(-1, 1)), ((2,), uniform(0.5, 1.5))),
    ("linalg.svd", "", lambda x: squares(linalg.svd(x, full_matrices=False)), lambda x: squares(jnp.linalg.svd(x, full_matrices=False)), SQUARE),
    ("linalg.svdvals", "", linalg.svdvals, lambda x: jnp.linalg.svd(x, compute_uv=False), TALL),
    ("linalg.eigh", "", lambda x: squares(linalg.eigh(symmetric(x))), lambda x: squares(jnp.linalg.eigh(symmetric(x))), SQUARE),
    ("linalg.eigvalsh", "", lambda x: linalg.eigvalsh(symmetric(x)), lambda x: jnp.linalg.eigvalsh(symmetric(x)), BATCH),
    ("linalg.lstsq", "", lambda a, b: linalg.lstsq(a, b).solution, lambda a, b: pinv(a) @ b, TALL, ((5, 2), uniform(-1, 1))),
    ("linalg.pinv", "", linalg.pinv, pinv, TALL),
    ("linalg.matrix_power", "3", lambda x: linalg.matrix_power(x, 3), lambda x: jnp.linalg.matrix_power(x, 3), ((2, 3, 3), uniform(-1, 1))),
    ("linalg.matrix_power", "-2", lambda x: linalg.matrix_power(x, -2), lambda x: jnp.linalg.matrix_power(jnp.linalg.inv(x), 2), SQUARE),
    ("linalg.matrix_exp", "", linalg.matrix_exp, jax.scipy.linalg.expm, ((3, 3), uniform(-1, 1))),
    (
        "linalg.multi_dot", "", lambda *x: linalg.multi_dot(x), lambda a, b, c: a @ b @ c,
        ((2, 5), uniform(-1, 1)), ((5, 3), uniform(-1, 1)), ((3, 4), uniform(-1, 1)),
    ),
    ("linalg.cross", "", linalg.cross, jnp.cross, VECTOR, VECTOR),
    ("linalg.vecdot", "", linalg.vecdot, lambda x, y: (x * y).sum(-1), VECTOR, VECTOR),
    ("linalg.vander", "", linalg.vander, lambda x: jnp.stack([jnp.ones_like(x), x, x * x], -1), VECTOR),
    ("linalg.vector_norm", "2", lambda x: linalg.vector_norm(x, dim=1), lambda x: jnp.sqrt((x * x).sum(1)), VECTOR),
    ("linalg.vector_norm", "3", lambda x: linalg.vector_norm(x, 3), lambda x: (jnp.abs(x) ** 3).sum() ** (1 / 3), VECTOR),
    (
        "linalg.matrix_norm", "", lambda x: [linalg.matrix_norm(x), linalg.matrix_norm(x, "nuc"), linalg.matrix_norm(x, -2)],
        lambda x: [jnp.sqrt((x * x).sum()), *(pick(jnp.linalg.svd(x, compute_uv=False)) for pick in (jnp.sum, jnp.min))], TALL,
    ),
    ("linalg.norm", "", linalg.norm, lambda x: jnp.sqrt((x * x).sum()), SQUARE),
    (
        "linalg.cond", "", lambda x: [linalg.cond(x), linalg.cond(x, 1)],
        lambda x: [jnp.linalg.cond(x), jnp.abs(x).sum(0).max() * jnp.abs(jnp.linalg.inv(x)).sum(0).max()], SQUARE,
    ),
]  # fmt: skip
