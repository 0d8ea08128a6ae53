"""Shape changes, concatenation, and indexing in Ternion and in JAX: a part of `jax_cases`."""

import itertools

import jax.numpy as jnp
import numpy as np

import ternion
from jax_cases import Case, uniform

MATRIX = ((3, 5), uniform())
ROW = ((5,), uniform())


def constant(values):
    return ternion.tensor(values)


def put_together():
    for name, of_jax in (("atleast_1d", jnp.atleast_1d), ("atleast_2d", jnp.atleast_2d)):
        for shape in ((), (3,), (2, 3)):
            yield Case(name, f"{shape}", getattr(ternion, name), of_jax, (shape, uniform()))
    for shape in ((), (3,), (2, 3)):
        yield Case("atleast_3d", f"{shape}", ternion.atleast_3d, jnp.atleast_3d, (shape, uniform()))
    for name in ("hstack", "vstack", "dstack", "column_stack"):
        stacked = lambda *x, name=name: getattr(ternion, name)(x)  # noqa: E731
        for shape in ((3,), (2, 3)):
            yield Case(name, f"{shape}", stacked, lambda *x, name=name: getattr(jnp, name)(x), (shape, uniform()), (shape, uniform()))
    pair = (((2, 1), uniform()), ((1, 3), uniform()))
    yield Case("broadcast_tensors", "", ternion.broadcast_tensors, lambda x, y: jnp.broadcast_arrays(x, y), *pair)
    for indexing in ("ij", "xy"):
        grid = lambda x, y, i=indexing: ternion.meshgrid(x, y, indexing=i)  # noqa: E731
        yield Case("meshgrid", indexing, grid, lambda x, y, i=indexing: jnp.meshgrid(x, y, indexing=i), ((3,), uniform()), ROW)
    pairs = np.array(list(itertools.product(range(3), range(5))))
    tuples = lambda x, y: jnp.stack([x[pairs[:, 0]], y[pairs[:, 1]]], 1)  # noqa: E731
    yield Case("cartesian_prod", "", ternion.cartesian_prod, tuples, ((3,), uniform()), ROW)
    blocks = lambda x, y: jnp.zeros((4, 7)).at[:3, :5].set(x).at[3:, 5:].set(y)  # noqa: E731
    yield Case("block_diag", "", ternion.block_diag, blocks, MATRIX, ((1, 2), uniform()))
    for shapes in (((2, 3), (4, 5)), ((3,), (2, 2))):
        yield Case("kron", f"{shapes}", ternion.kron, jnp.kron, *((shape, uniform()) for shape in shapes))


def diagonals():
    for offset, first, second in ((0, 0, 1), (1, 2, 0), (-1, 0, 2)):
        expected = lambda x, a=(offset, first, second): jnp.diagonal(x, *a)  # noqa: E731
        yield Case("diagonal", f"{offset}{first}{second}", lambda x, a=(offset, first, second): x.diagonal(*a), expected, ((3, 4, 5), uniform()))
    indices = np.arange(5)
    yield Case("diag_embed", "", lambda x: x.diag_embed(1), lambda x: jnp.zeros((3, 6, 6)).at[:, indices, indices + 1].set(x), MATRIX)
    for shape in ((5,), (3, 5)):
        yield Case("diag", f"{shape}", lambda x: x.diag(1), lambda x: jnp.diag(x, 1), (shape, uniform()))
    yield Case("diagflat", "", lambda x: x.diagflat(-1), lambda x: jnp.diag(x.reshape(-1), -1), ((2, 3), uniform()))
    yield Case("trace", "", ternion.trace, jnp.trace, MATRIX)
    filled = lambda x: x.at[np.arange(3), np.arange(3)].set(2.0)  # noqa: E731
    yield Case("fill_diagonal", "", lambda x: x.clone().fill_diagonal_(2.0), filled, MATRIX)


def splits():
    for at in (3, (1, 4)):
        yield Case("tensor_split", f"{at}", lambda x, at=at: x.tensor_split(at, 1), lambda x, at=at: jnp.array_split(x, at, 1), MATRIX)
    for name, of_jax in (("hsplit", jnp.hsplit), ("vsplit", jnp.vsplit), ("dsplit", jnp.dsplit)):
        yield Case(name, "", lambda x, name=name: getattr(x, name)(2), lambda x, f=of_jax: f(x, 2), ((2, 4, 6), uniform()))


def orders():
    cube = ((2, 3, 4), uniform())
    yield Case("movedim", "", lambda x: x.movedim((0, 1), (-1, 0)), lambda x: jnp.moveaxis(x, (0, 1), (-1, 0)), cube)
    yield Case("tile", "", lambda x: x.tile(2, 3), lambda x: jnp.tile(x, (2, 3)), cube)
    yield Case("repeat_interleave", "all", lambda x: x.repeat_interleave(3, 1), lambda x: jnp.repeat(x, 3, 1), cube)
    counts = np.array([2, 0, 1])
    yield Case("repeat_interleave", "each", lambda x: x.repeat_interleave(constant(counts), 1), lambda x: jnp.repeat(x, counts, 1), cube)
    yield Case("fliplr", "", ternion.fliplr, jnp.fliplr, cube)
    yield Case("flipud", "", ternion.flipud, jnp.flipud, cube)
    for turns in (1, 2, 3):
        yield Case("rot90", f"{turns}", lambda x, k=turns: ternion.rot90(x, k, (0, 2)), lambda x, k=turns: jnp.rot90(x, k, (0, 2)), cube)
    yield Case("sum_to_size", "", lambda x: x.sum_to_size(3, 1), lambda x: x.sum((0, 2)).reshape(3, 1), cube)


def index_cases():
    along = np.array([[2, 0], [1, 1], [4, 3]])
    expected = lambda x: jnp.take_along_axis(x, jnp.asarray(along), 1)  # noqa: E731
    yield Case("take_along_dim", "", lambda x: x.take_along_dim(constant(along), 1), expected, MATRIX)
    flat = np.array([[3, -1], [0, 3]])
    yield Case("take", "", lambda x: x.take(constant(flat)), lambda x: jnp.take(x.reshape(-1), flat), MATRIX)
    once = np.array([1, 14, 7])
    source = ((3,), uniform())
    for added in (False, True):
        def putting(x, s, added=added):
            row = x.reshape(-1).at[once]
            return (row.add(s) if added else row.set(s)).reshape(x.shape)

        yield Case("put", f"{added}", lambda x, s, a=added: x.clone().put_(constant(once), s, a), putting, MATRIX, source)
    rows = np.array([2, 0])
    yield Case("index_put", "", lambda x, s: x.index_put((constant(rows),), s), lambda x, s: x.at[rows].set(s), MATRIX, ROW)
    added = lambda x, s: x.index_put((constant(np.array([1, 1])),), s, True)  # noqa: E731
    yield Case("index_put", "added", added, lambda x, s: x.at[np.array([1, 1])].add(s), MATRIX, ROW)
    copied = lambda x, s: x.index_copy(0, constant(rows), s)  # noqa: E731
    yield Case("index_copy", "", copied, lambda x, s: x.at[rows].set(s), MATRIX, ((2, 5), uniform()))
    yield Case("index_fill", "", lambda x, v: x.index_fill(1, constant(rows), v), lambda x, v: x.at[:, rows].set(v), MATRIX, ((), uniform()))


def cases():
    return [*put_together(), *diagonals(), *splits(), *orders(), *index_cases()]
