"""Shape changes and indexing of tensors, for test_reach."""

import numpy as np

import ternion
from ternion import nn
from ternion.nn import functional as F


def tracked(t, X):
    """Returns the updated running mean, found and expected."""
    mean, var = t([0.5, 1.0]), t([1.0, 1.0])
    F.instance_norm(t(X[None]), mean, var, momentum=0.5)
    return mean, (np.array([0.5, 1.0]) + X.mean(1)) / 2


def forms(t, parts, X, Y, CUBE, ENDS, PLACES):
    """Returns found and expected values by op name. `t` creates tensors; `parts` compares lists of
    results."""
    return {
        "atleast_1d": lambda: (ternion.atleast_1d(t(2.0)), [2.0]),
        "atleast_2d": lambda: (ternion.atleast_2d(t(ENDS)), ENDS[None]),
        "atleast_3d": lambda: (ternion.atleast_3d(t(X)), X[..., None]),
        "hstack": lambda: (ternion.hstack([t(X), t(Y)]), np.hstack([X, Y])),
        "vstack": lambda: (ternion.vstack([t(X), t(ENDS)]), np.vstack([X, ENDS])),
        "dstack": lambda: (ternion.dstack([t(X), t(Y)]), np.dstack([X, Y])),
        "column_stack": lambda: (ternion.column_stack([t(X.T), t(ENDS)]), np.column_stack([X.T, ENDS])),
        "broadcast_shapes": lambda: (list(ternion.broadcast_shapes((3, 1), (2,))), [3, 2]),
        "broadcast_tensors": lambda: parts(ternion.broadcast_tensors(t(X[:, :1]), t(ENDS)), np.broadcast_arrays(X[:, :1], ENDS)),
        "meshgrid": lambda: parts(ternion.meshgrid(t(ENDS), t(X[0]), indexing="xy"), np.meshgrid(ENDS, X[0])),
        "cartesian_prod": lambda: (ternion.cartesian_prod(t([1, 2]), t([3, 4])), [[1, 3], [1, 4], [2, 3], [2, 4]]),
        "block_diag": lambda: (ternion.block_diag(t([[1, 2]]), t([3])), [[1, 2, 0], [0, 0, 3]]),
        "kron": lambda: (ternion.kron(t(X), t(Y)), np.kron(X, Y)),
        "diagonal": lambda: (t(CUBE).diagonal(1, 0, 2), np.diagonal(CUBE, 1, 0, 2)),
        "diag_embed": lambda: (t(X).diag_embed(), np.stack([np.diag(row) for row in X])),
        "diag": lambda: (ternion.diag(t(ENDS), -1), np.diag(ENDS, -1)),
        "diagflat": lambda: (ternion.diagflat(t(X)), np.diagflat(X)),
        "trace": lambda: (t(X).trace(), np.trace(X)),
        "fill_diagonal": lambda: (t(np.zeros((3, 2))).fill_diagonal_(4.0), [[4, 0], [0, 4], [0, 0]]),
        "tril_indices": lambda: (ternion.tril_indices(3, 4, 1), np.stack(np.tril_indices(3, 1, 4))),
        "triu_indices": lambda: (ternion.triu_indices(3, 4, -1), np.stack(np.triu_indices(3, -1, 4))),
        "tensor_split": lambda: parts(t(CUBE).tensor_split(3, 2), np.array_split(CUBE, 3, 2)),
        "hsplit": lambda: parts(t(X).hsplit([1]), np.hsplit(X, [1])),
        "vsplit": lambda: parts(t(X).vsplit(2), np.vsplit(X, 2)),
        "dsplit": lambda: parts(t(CUBE).dsplit(2), np.dsplit(CUBE, 2)),
        "movedim": lambda: (t(CUBE).movedim(0, -1), np.moveaxis(CUBE, 0, -1)),
        "tile": lambda: (t(X).tile(2, 2), np.tile(X, (2, 2))),
        "repeat_interleave": lambda: (t(X).repeat_interleave(t([2, 0, 1]), 1), np.repeat(X, [2, 0, 1], 1)),
        "fliplr": lambda: (t(X).fliplr(), np.fliplr(X)),
        "flipud": lambda: (t(X).flipud(), np.flipud(X)),
        "rot90": lambda: (t(X).rot90(), np.rot90(X)),
        "sum_to_size": lambda: (t(X).sum_to_size(2, 1), X.sum(1, keepdims=True)),
        "unravel_index": lambda: parts(ternion.unravel_index(t([5, 3]), (2, 3)), np.unravel_index([5, 3], (2, 3))),
        "take_along_dim": lambda: (t(X).take_along_dim(t(PLACES), 1), np.take_along_axis(X, PLACES, 1)),
        "take": lambda: (t(X).take(t([[4, -1]])), X.take([[4, -1]])),
        "put": lambda: (t(ENDS).put_(t([2, 0]), t([7.0, 8.0])), [8, 2, 7]),
        "index_put": lambda: (t(ENDS).index_put((t([0, 0]),), t(2.0), accumulate=True), [5, 2, 3]),
        "index_copy": lambda: (t(ENDS).index_copy(0, t([2]), t([7.0]).to(t(ENDS).dtype)), [1, 2, 7]),
        "index_fill": lambda: (t(ENDS).index_fill(0, t([0, -1]), 5.0), [5, 2, 5]),
        "randint_like": lambda: (ternion.randint_like(t(X), 3, 4), np.full(X.shape, 3.0)),
        "embedding_renorm_": lambda: (F.embedding(t([0]), t([[3.0, 4.0], [6.0, 8.0]]), max_norm=1.0), [[0.6, 0.8]]),
        "instance_norm_tracked": lambda: tracked(t, X),
        "pad_sequence": lambda: (nn.utils.rnn.pad_sequence([t([1.0, 2.0]), t([3.0])], padding_value=7.0), [[1, 3], [2, 7]]),
        "multinomial": lambda: (ternion.multinomial(t([0.0, 2.0]), 3, replacement=True), [1, 1, 1]),
    }
