"""Every op of the op table can be called from Python: each name is called once, with the correct
result.

The list is that of docs/coverage.md. An op without a Python name is reached through the function
that uses it, such as a gradient through `backward()`.
"""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import ternion
from ternion import nn, optim
from ternion.nn import functional as F

from linalg_cases import REACHED as LINEAR_ALGEBRA
from reach_elements import BINARY, COMPARED, POSITIVE, SCALAR, STEPS, UNARY, X, erf
from reach_forms import forms
from unbound import UNBOUND, bound_by_now

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
OPS = re.findall(r"^\| ([a-z][\w.]*) \| [FB\-fb?]", PAGE.read_text(encoding="utf-8"), re.M)

Y = np.array([[1.5, 0.4, -0.6], [-2.0, 0.9, 1.1]])
PLACES = np.array([[2, 0, 1], [1, 1, 0]])
IMAGE = np.arange(16.0).reshape(1, 1, 4, 4)
KERNEL = np.array([[[[1.0, -1.0], [0.5, 2.0]]]])


def t(values, dtype=None):
    return ternion.tensor(values, dtype=dtype)


def gradient(function, *inputs):
    """Returns the gradients of the sum of squares of a function's result."""
    leaves = [t(values).requires_grad_() for values in inputs]
    function(*leaves).square().sum().backward()
    return leaves[0].grad if len(leaves) == 1 else [leaf.grad for leaf in leaves]


def slope(function, *inputs, at=0):
    """Returns the same gradient with respect to one input, by central differences."""
    h, result = 1e-6, np.zeros_like(inputs[at])
    for index in np.ndindex(inputs[at].shape):
        ends = []
        for sign in (1, -1):
            perturbed = [values.copy() for values in inputs]
            perturbed[at][index] += sign * h
            ends.append((function(*map(t, perturbed)).detach().numpy() ** 2).sum())
        result[index] = (ends[0] - ends[1]) / (2 * h)
    return result


def both(function, *inputs):
    """Returns the gradient from `backward` for each input, and the same by central differences."""
    result = gradient(function, *inputs)
    result = result if isinstance(result, list) else [result]
    return result, [slope(function, *inputs, at=at) for at in range(len(inputs))]


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def normed(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def windows(image, rows, columns):
    return np.array([[image[0, 0, r : r + 2, c : c + 2] for c in columns] for r in rows])


def mixed(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    return np.exp(log_softmax(scores)) @ v


HEADS = np.random.default_rng(1).normal(size=(3, 1, 2, 3, 4))
WIDE = np.random.default_rng(2).normal(size=(2, 150_000))


def stepped(kind):
    weight = nn.Parameter(t([0.5]))
    weight.grad = t([2.0])
    kind([weight], lr=0.1).step()
    return weight.detach()


def clipped(clip):
    weight = nn.Parameter(t([0.0, 0.0]))
    weight.grad = t([3.0, -4.0])
    clip([weight])
    return weight.grad


def changed(x, change):
    change(x)
    return x


def batch_normed():
    return F.batch_norm(t(X), None, None, training=True)


def used_normed():
    return F.batch_norm(t(X), t([0.1, 0.2, 0.3]), t([1.0, 2.0, 4.0]))


def counted(x):
    """Returns whether the range and the mean of random numbers are correct."""
    return [float(x.min()) >= 0, float(x.max()) <= 1, abs(float(x.double().mean()) - 0.5) < 0.05]


def rows_of_embedding(row):
    return F.embedding(t([row]), t(X))


OTHERS = {
    "fill": lambda: (ternion.full((2,), 7.0), [7, 7]),
    "iota": lambda: (ternion.arange(1, 9, 3), [1, 4, 7]),
    "copy": lambda: (t(X).T.clone(), X.T),
    "new": lambda: (ternion.empty(2, 3), np.zeros((2, 3))),
    "where": lambda: (ternion.where(t(X) > 0, t(X), t(Y)), np.where(X > 0, X, Y)),
    "scatter_set": lambda: (ternion.scatter(t([0.0, 0, 0]), 0, t([2, 0]), t([5.0, 6.0])), [6, 0, 5]),
    "logical_not": lambda: (ternion.logical_not(t(X) > 0), X <= 0),
    "logical_and": lambda: ((t(X) > 0) & (t(Y) > 0), (X > 0) & (Y > 0)),
    "logical_or": lambda: ((t(X) > 0) | (t(Y) > 0), (X > 0) | (Y > 0)),
    "logical_xor": lambda: ((t(X) > 0) ^ (t(Y) > 0), (X > 0) ^ (Y > 0)),
    "and_scalar": lambda: ((t(X) > 0) & True, X > 0),
    "multiply_add": lambda: (ternion.addcmul(t(X), t(Y), t(Y)), X + Y * Y),
    "scale_add": lambda: (ternion.add(t(X), t(Y), alpha=2.5), X + 2.5 * Y),
    "add_relu": lambda: (F.add_relu(t(X), t(Y)), np.maximum(X + Y, 0)),
    "bias_activation": lambda: (F.bias_activation(t(X), t(Y[0]), "tanh"), np.tanh(X + Y[0])),
    # ---- Reductions
    "sum": lambda: (ternion.sum(t(X), 1), X.sum(1)),
    "prod": lambda: (ternion.prod(t(X), 1), X.prod(1)),
    "mean": lambda: (ternion.mean(t(X), 0), X.mean(0)),
    "max": lambda: (ternion.max(t(X)), X.max()),
    "min": lambda: (ternion.min(t(X)), X.min()),
    "sum_squares": lambda: (ternion.norm(t(X)) ** 2, (X * X).sum()),
    "max_abs": lambda: (ternion.norm(t(X), math.inf), np.abs(X).max()),
    "norm": lambda: (ternion.norm(t(X), dim=1), np.linalg.norm(X, axis=1)),
    "logsumexp": lambda: (ternion.logsumexp(t(X), 1), np.log(np.exp(X).sum(1))),
    "var": lambda: (ternion.var(t(X), 1), X.var(1, ddof=1)),
    "argmax": lambda: (ternion.argmax(t(X), 1), X.argmax(1)),
    "argmin": lambda: (ternion.argmin(t(X), 1), X.argmin(1)),
    "cumsum": lambda: (ternion.cumsum(t(X), 1), X.cumsum(1)),
    # ---- Products
    "matmul": lambda: (ternion.matmul(t(X), t(Y).T), X @ Y.T),
    "addmm_": lambda: (changed(t(np.eye(2)), lambda x: x.addmm_(t(X), t(Y).T, beta=2.0)), 2 * np.eye(2) + X @ Y.T),
    "addmm": lambda: (ternion.addmm(t(np.eye(2)), t(X), t(Y).T), np.eye(2) + X @ Y.T),
    "linear": lambda: (F.linear(t(X), t(Y), t(np.array([1.0, 2.0]))), X @ Y.T + [1, 2]),
    "outer": lambda: (ternion.outer(t(X[0]), t(Y[0])), np.outer(X[0], Y[0])),
    "dot": lambda: (ternion.dot(t(X[0]), t(Y[0])), X[0] @ Y[0]),
    "einsum": lambda: (ternion.einsum("ij,kj->ik", t(X), t(Y)), X @ Y.T),
    # ---- Softmax and losses
    "softmax": lambda: (F.softmax(t(X), -1), np.exp(log_softmax(X))),
    "log_softmax": lambda: (F.log_softmax(t(X), -1), log_softmax(X)),
    "softmax_grad": lambda: both(lambda x: F.softmax(x, -1), X),
    "log_softmax_grad": lambda: both(lambda x: F.log_softmax(x, -1), X),
    "cross_entropy": lambda: (F.cross_entropy(t(X), t([2, 0])), -(log_softmax(X)[0, 2] + log_softmax(X)[1, 0]) / 2),
    "cross_entropy_grad": lambda: both(lambda x: F.cross_entropy(x, t([2, 0])), X),
    "nll_loss": lambda: (F.nll_loss(t(X), t([2, 0])), -(X[0, 2] + X[1, 0]) / 2),
    "accuracy": lambda: (F.accuracy(t(X), t([2, 1])), 0.5),
    "mse_loss": lambda: (F.mse_loss(t(X), t(Y)), ((X - Y) ** 2).mean()),
    "l1_loss": lambda: (F.l1_loss(t(X), t(Y)), np.abs(X - Y).mean()),
    "huber_loss": lambda: (F.huber_loss(t([0.0, 0.0]), t([0.5, 3.0])), (0.125 + 2.5) / 2),
    "bce_with_logits": lambda: (F.binary_cross_entropy_with_logits(t([0.3]), t([1.0])), -math.log(1 / (1 + math.exp(-0.3)))),
    "kl_div": lambda: (F.kl_div(t(np.log([0.2, 0.8])), t(np.array([0.5, 0.5])), reduction="sum"), 0.5 * math.log(0.5 / 0.2) + 0.5 * math.log(0.5 / 0.8)),
    # ---- Norms
    "layer_norm": lambda: (F.layer_norm(t(X), (3,)), normed(X, 1)),
    "rms_norm": lambda: (F.rms_norm(t(X), (3,), eps=1e-5), X / np.sqrt((X * X).mean(1, keepdims=True) + 1e-5)),
    "batch_norm": lambda: (batch_normed(), normed(X, 0)),
    "batch_norm_eval": lambda: (used_normed(), (X - [0.1, 0.2, 0.3]) / np.sqrt(np.array([1.0, 2, 4]) + 1e-5)),
    "group_norm": lambda: (F.group_norm(t(X.reshape(1, 6)), 2), normed(X.reshape(1, 2, 3), 2).reshape(1, 6)),
    "layer_norm_grad": lambda: both(lambda x: F.layer_norm(x, (3,)) * t(Y), X),
    "rms_norm_grad": lambda: both(lambda x: F.rms_norm(x, (3,), eps=1e-5) * t(Y), X),
    "batch_norm_grad": lambda: both(lambda x: F.batch_norm(x, training=True) * t(Y), X),
    "attention": lambda: (F.scaled_dot_product_attention(*map(t, HEADS)), mixed(*HEADS)),
    "attention_grad": lambda: both(F.scaled_dot_product_attention, *HEADS),
    "attention_grad_mask": lambda: both(lambda bias: F.scaled_dot_product_attention(*map(t, HEADS), attn_mask=bias), HEADS[0, 0, :, :, :3]),
    # ---- Random numbers
    "random_bits": lambda: (counted(ternion.randint(0, 2, (4000,))), [True] * 3),
    "uniform": lambda: (counted(ternion.zeros(4000).uniform_()), [True] * 3),
    "normal": lambda: (abs(ternion.zeros(4000).normal_(3.0, 2.0).std().item() - 2) < 0.2, True),
    "rand": lambda: (counted(ternion.rand(4000)), [True] * 3),
    "randn": lambda: (abs(ternion.randn(4000).std().item() - 1) < 0.1, True),
    "bernoulli": lambda: (ternion.bernoulli(t([0.0, 1.0, 1.0])), [0, 1, 1]),
    "bernoulli_scalar": lambda: (counted(ternion.zeros(4000).bernoulli_(0.5)), [True] * 3),
    "randint": lambda: (sorted(set(ternion.randint(4, 6, (400,)).tolist())), [4, 5]),
    "permutation": lambda: (ternion.sort(ternion.randperm(9)).values, np.arange(9)),
    "dropout": lambda: (sorted(set(F.dropout(ternion.ones(400), 0.2).tolist())), [0, 1.25]),
    # ---- Optimizer steps
    "sgd_step": lambda: (stepped(optim.SGD), [0.3]),
    "adam_step": lambda: (stepped(optim.Adam), [0.4]),
    "clip_grad_norm": lambda: (clipped(lambda weights: nn.utils.clip_grad_norm_(weights, 1.0)), [0.6, -0.8]),
    "multi_tensor_norm": lambda: (nn.utils.get_total_norm([t(X), t(Y)]), np.sqrt((X * X).sum() + (Y * Y).sum())),
    "total_norm": lambda: (nn.utils.get_total_norm([t(X), t([3.0, 4.0]).half()]), np.sqrt((X * X).sum() + 25)),
    "clip_grad_value": lambda: (clipped(lambda weights: nn.utils.clip_grad_value_(weights, 3.5)), [3, -3.5]),
    # ---- Indexing
    "gather": lambda: (ternion.gather(t(X), 1, t(PLACES)), np.take_along_axis(X, PLACES, 1)),
    "scatter_add": lambda: (ternion.scatter_add(t([1.0, 1, 1]), 0, t([2, 2]), t([5.0, 6.0])), [1, 1, 12]),
    "index_add": lambda: (ternion.index_add(t([1.0, 1, 1]), 0, t([2, 2]), t([5.0, 6.0])), [1, 1, 12]),
    "index_select": lambda: (ternion.index_select(t(X), 1, t([2, 0])), X[:, [2, 0]]),
    "embedding": lambda: (rows_of_embedding(1), X[[1]]),
    "sort": lambda: (ternion.sort(t(X), 1).values, np.sort(X, 1)),
    "argsort": lambda: (ternion.argsort(t(X), 1), np.argsort(X, 1)),
    "topk": lambda: (ternion.topk(t(X), 2, 1).values, -np.sort(-X, 1)[:, :2]),
    "bincount": lambda: (ternion.bincount(t([0, 2, 2])), [1, 0, 2]),
    "histogram": lambda: (ternion.histc(t([0.1, 0.2, 0.9]), 2, 0.0, 1.0), [2, 1]),
    "index": lambda: (t(X)[1, 1:], X[1, 1:]),
    "masked_select": lambda: (ternion.masked_select(t(X), t(X) > 0), X[X > 0]),
    "masked_scatter": lambda: (ternion.masked_scatter(t([1.0, 2, 3]), t([True, False, True]), t([8.0, 9.0])), [8, 2, 9]),
    "nonzero": lambda: (ternion.nonzero(t([0, 3, 0, 1])), [[1], [3]]),
    "slice_assign": lambda: (changed(t([1.0, 2, 3]), lambda x: x.__setitem__(slice(1, 3), t([8.0, 9.0]))), [1, 8, 9]),
    "slice_assign_": lambda: (changed(t([1.0, 2, 3]), lambda x: x.__setitem__(0, 7.0)), [7, 2, 3]),
    # ---- Images
    "im2col": lambda: (F.unfold(t(IMAGE), 2, stride=2), windows(IMAGE, (0, 2), (0, 2)).reshape(1, 4, 4).swapaxes(1, 2)),
    "col2im": lambda: (F.fold(F.unfold(t(IMAGE), 2, stride=2), (4, 4), 2, stride=2), IMAGE),
    "conv2d": lambda: (F.conv2d(t(IMAGE), t(KERNEL)), (windows(IMAGE, range(3), range(3)) * KERNEL[0, 0]).sum((2, 3))[None, None]),
    "conv2d_grad_input": lambda: both(lambda x: F.conv2d(x, t(KERNEL)), IMAGE),
    "conv2d_grad_weight": lambda: both(lambda weight: F.conv2d(t(IMAGE) / 8, weight), KERNEL),
    "conv1d": lambda: (F.conv1d(t([[[1.0, 2, 4]]]), t([[[1.0, -1.0]]])), [[[-1, -2]]]),
    "conv_transpose2d": lambda: (F.conv_transpose2d(t(np.array([[[[2.0]]]])), t(KERNEL)), 2 * KERNEL),
    "max_pool2d": lambda: (F.max_pool2d(t(IMAGE), 2), [[[[5, 7], [13, 15]]]]),
    "max_pool2d_grad": lambda: both(lambda x: F.max_pool2d(x, 2), IMAGE),
    "avg_pool2d": lambda: (F.avg_pool2d(t(IMAGE), 2), [[[[2.5, 4.5], [10.5, 12.5]]]]),
    "avg_pool2d_grad": lambda: both(lambda x: F.avg_pool2d(x, 2), IMAGE),
    "adaptive_avg_pool2d": lambda: (F.adaptive_avg_pool2d(t(IMAGE), 1), [[[[7.5]]]]),
    # ---- Shapes
    "pad": lambda: (F.pad(t(X), (1, 2)), np.pad(X, ((0, 0), (1, 2)))),
    "concat": lambda: (ternion.cat([t(X), t(Y)], 1), np.concatenate([X, Y], 1)),
    "stack": lambda: (ternion.stack([t(X), t(Y)]), np.stack([X, Y])),
    "split": lambda: (ternion.split(t(X), 2, 1)[1], X[:, 2:]),
    "split_sizes": lambda: (ternion.split(t(X), [1, 2], 1)[1], X[:, 1:]),
    "chunk": lambda: (ternion.chunk(t(X), 2, 0)[1], X[1:]),
    "roll": lambda: (ternion.roll(t(X), 1, 1), np.roll(X, 1, 1)),
    "repeat": lambda: (t(X).repeat(2, 1), np.tile(X, (2, 1))),
    "reshape": lambda: (ternion.reshape(t(X), 3, 2), X.reshape(3, 2)),
    "flatten": lambda: (ternion.flatten(t(X)), X.reshape(-1)),
    "squeeze": lambda: (ternion.squeeze(t(X[None])), X),
    "unsqueeze": lambda: (ternion.unsqueeze(t(X), 0), X[None]),
    "permute": lambda: (ternion.permute(t(X), 1, 0), X.T),
    "transpose": lambda: (ternion.transpose(t(X), 0, 1), X.T),
    "t": lambda: (ternion.t(t(X)), X.T),
    "flip": lambda: (ternion.flip(t(X), 1), X[:, ::-1]),
    "slice": lambda: (t(X)[:, ::2], X[:, ::2]),
    "narrow": lambda: (ternion.narrow(t(X), 1, 1, 2), X[:, 1:]),
    "select": lambda: (ternion.select(t(X), 1, 2), X[:, 2]),
    "expand": lambda: (t(X[:, :1]).expand(2, 3), np.repeat(X[:, :1], 3, 1)),
    "unfold": lambda: (t(X).unfold(1, 2, 1), np.stack([X[:, :2], X[:, 1:]], 1)),
}  # fmt: skip

VOLUME = np.arange(16.0).reshape(1, 1, 2, 2, 4)
ROW = np.array([[[3.0, 1.0, 2.0, 5.0]]])
OTHERS |= {
    "max_pool1d": lambda: (F.max_pool1d(t(ROW), 2), [[[3, 5]]]),
    "max_pool3d": lambda: (F.max_pool3d(t(VOLUME), 2), [[[[[13, 15]]]]]),
    "avg_pool1d": lambda: (F.avg_pool1d(t(ROW), 2), [[[2, 3.5]]]),
    "avg_pool3d": lambda: (F.avg_pool3d(t(VOLUME), 2), [[[[[6.5, 8.5]]]]]),
    "lp_pool1d": lambda: (F.lp_pool1d(t(ROW), 2, 2), np.sqrt([[[10, 29]]])),
    "lp_pool2d": lambda: (F.lp_pool2d(t(IMAGE), 1, 2), [[[[10, 18], [42, 50]]]]),
    "lp_pool3d": lambda: (F.lp_pool3d(t(VOLUME), 1, 2), [[[[[52, 68]]]]]),
    "adaptive_avg_pool1d": lambda: (F.adaptive_avg_pool1d(t(ROW), 3), [[[2, 1.5, 3.5]]]),
    "adaptive_avg_pool3d": lambda: (F.adaptive_avg_pool3d(t(VOLUME), 1), [[[[[7.5]]]]]),
    "adaptive_max_pool1d": lambda: (F.adaptive_max_pool1d(t(ROW), 3), [[[3, 2, 5]]]),
    "adaptive_max_pool2d": lambda: (F.adaptive_max_pool2d(t(IMAGE), 1), [[[[15]]]]),
    "adaptive_max_pool3d": lambda: (F.adaptive_max_pool3d(t(VOLUME), 1), [[[[[15]]]]]),
    "fractional_max_pool2d": lambda: (F.fractional_max_pool2d(t(IMAGE), 2, 1), [[[[15]]]]),
    "fractional_max_pool3d": lambda: (F.fractional_max_pool3d(t(VOLUME), 2, 1), [[[[[15]]]]]),
    "max_unpool1d": lambda: (F.max_unpool1d(t(ROW[..., :2]), t(np.array([[[0, 3]]])), 2), [[[3, 0, 0, 1]]]),
    "max_unpool2d": lambda: (F.max_unpool2d(t([[[[7.0]]]]), t([[[[2]]]]), 2), [[[[0, 0], [7, 0]]]]),
    "max_unpool3d": lambda: (F.max_unpool3d(t([[[[[7.0]]]]]), t([[[[[2]]]]]), 2), [[[[[0, 0], [7, 0]], [[0, 0], [0, 0]]]]]),
    "conv3d": lambda: (F.conv3d(t(VOLUME), t(KERNEL[None] * np.array([1.0, 2.0])[None, None, :, None, None]), padding=0), volume_convolved()),
    "conv_transpose1d": lambda: (F.conv_transpose1d(t([[[1.0, 2.0]]]), t([[[1.0, 3.0]]]), stride=2), [[[1, 3, 2, 6]]]),
    "conv_transpose3d": lambda: (F.conv_transpose3d(t(np.array([[[[[2.0]]]]])), t(VOLUME)), 2 * VOLUME),
    "interpolate": lambda: (F.interpolate(t(ROW), size=2, mode="linear"), [[[2, 3.5]]]),
    "reflection_pad": lambda: (F.pad(t(ROW), (1, 1), "reflect"), [[[1, 3, 1, 2, 5, 2]]]),
    "replication_pad": lambda: (F.pad(t(ROW), (1, 1), "replicate"), [[[3, 3, 1, 2, 5, 5]]]),
    "circular_pad": lambda: (F.pad(t(ROW), (1, 1), "circular"), [[[5, 3, 1, 2, 5, 3]]]),
    "pixel_shuffle": lambda: (F.pixel_shuffle(t(ROW.reshape(1, 4, 1, 1)), 2), [[[[3, 1], [2, 5]]]]),
    "pixel_unshuffle": lambda: (F.pixel_unshuffle(t([[[[3.0, 1.0], [2.0, 5.0]]]]), 2), ROW.reshape(1, 4, 1, 1)),
    "channel_shuffle": lambda: (F.channel_shuffle(t(ROW.reshape(1, 4, 1)), 2), [[[3], [2], [1], [5]]]),
    "local_response_norm": lambda: (F.local_response_norm(t(ROW.reshape(1, 4, 1)), 1, 1.0, 1.0, 1.0), (ROW / (1 + ROW**2)).reshape(1, 4, 1)),
    "grid_sample": lambda: (F.grid_sample(t(IMAGE), t(np.zeros((1, 1, 1, 2)))), [[[[7.5]]]]),
    "affine_grid": lambda: (F.affine_grid(t([[[1.0, 0, 5], [0, 2, 6]]]), (1, 1, 1, 2)), [[[[4.5, 6], [5.5, 6]]]]),
}


def volume_convolved():
    """Returns the convolution over both planes of VOLUME, of which the second has weight 2."""
    plane = VOLUME[:, :, 0] + 2 * VOLUME[:, :, 1]
    return np.stack([(plane[0, 0, :, c : c + 2] * KERNEL[0, 0]).sum() for c in range(3)]).reshape(1, 1, 1, 1, 3)


def wide_gradient(target, second):
    """Returns the gradient of logits, found and expected. There are so many logits that their
    gradient is computed together with the loss, and updated if the incoming gradient is another
    one."""
    logits = t(WIDE).requires_grad_()
    loss = F.cross_entropy(logits, target)
    (loss * second).backward()
    expected = np.exp(log_softmax(WIDE))
    expected[np.arange(2), target.numpy()] -= 1
    return logits.grad, second * expected / 2


LGAMMA = np.vectorize(math.lgamma)
# Numbers at which the gamma function is smooth.
SMOOTH = POSITIVE + 1


def first_difference(f, x, h=1e-5):
    return (f(x + h) - f(x - h)) / (2 * h)


def second_difference(f, x, h=3e-4):
    return (f(x + h) - 2 * f(x) + f(x - h)) / (h * h)


def ndtr(x):
    return (1 + erf(x / math.sqrt(2))) / 2


OTHERS |= {
    "addmv": lambda: (ternion.addmv(t(X[:, 0]), t(X), t(Y[0]), beta=0.5), 0.5 * X[:, 0] + X @ Y[0]),
    "addbmm": lambda: (ternion.addbmm(t(np.eye(2)), t(X[None]), t(Y.T[None])), np.eye(2) + X @ Y.T),
    "baddbmm": lambda: (ternion.baddbmm(t(np.eye(2)), t(X[None]), t(Y.T[None]), alpha=2), (np.eye(2) + 2 * X @ Y.T)[None]),
    "addr": lambda: (ternion.addr(t(X[:2, :2]), t(X[0, :2]), t(Y[0, :2])), X[:2, :2] + np.outer(X[0, :2], Y[0, :2])),
    "clamp_tensor": lambda: (t(X).clamp(t(Y - 0.5), t(Y + 0.5)), np.clip(X, Y - 0.5, Y + 0.5)),
    "fmax": lambda: (ternion.fmax(t(X), t(Y)), np.fmax(X, Y)),
    "fmin": lambda: (ternion.fmin(t(X), t(Y)), np.fmin(X, Y)),
    "lgamma": lambda: (t(POSITIVE).lgamma(), LGAMMA(POSITIVE)),
    "digamma": lambda: (t(SMOOTH).digamma(), first_difference(LGAMMA, SMOOTH)),
    "polygamma": lambda: (ternion.polygamma(1, t(SMOOTH)), second_difference(LGAMMA, SMOOTH)),
    "mvlgamma": lambda: (t(SMOOTH).mvlgamma(2), math.log(math.pi) / 2 + LGAMMA(SMOOTH) + LGAMMA(SMOOTH - 0.5)),
    "zeta": lambda: (ternion.special.zeta(4.0, t(POSITIVE)), sum((POSITIVE + k) ** -4 for k in range(1000))),
    "i0": lambda: (t(X).i0(), np.i0(X)),
    "i0e": lambda: (t(X).i0e(), np.i0(X) * np.exp(-np.abs(X))),
    "i1": lambda: (t(X).i1(), first_difference(np.i0, X)),
    "i1e": lambda: (t(X).i1e(), first_difference(np.i0, X) * np.exp(-np.abs(X))),
    "erfcx": lambda: (t(X).erfcx(), np.exp(X * X) * np.vectorize(math.erfc)(X)),
    "erfinv": lambda: (t(X / 4).erfinv().erf(), X / 4),
    "ndtr": lambda: (t(X).ndtr(), ndtr(X)),
    "ndtri": lambda: (t(POSITIVE / 4).ndtri().ndtr(), POSITIVE / 4),
    "log_ndtr": lambda: (t(X).log_ndtr(), np.log(ndtr(X))),
    "entr": lambda: (t(POSITIVE).entr(), -POSITIVE * np.log(POSITIVE)),
    "xlog1py": lambda: (ternion.special.xlog1py(t(X), t(POSITIVE)), X * np.log1p(POSITIVE)),
    "index_reduce": lambda: (t([1.0, 2, 3]).index_reduce(0, t([2, 0, 2]), t([5.0, 6, 7]), "prod"), [6, 2, 105]),
    "cummax": lambda: (t([1, 3, 2, 4]).cummax(0)[0], [1, 3, 3, 4]),
    "cummin": lambda: (t([4, 2, 3, 1]).cummin(0)[0], [4, 2, 2, 1]),
    "mode": lambda: (t([1, 3, 2, 3]).mode(0)[0], 3),
    "nanmedian": lambda: (t([1.0, math.nan, 3, 2]).nanmedian(), 2),
    "renorm": lambda: (t([[3.0, 4], [0.6, 0.8]]).renorm(2, 0, 2.0), [[1.2, 1.6], [0.6, 0.8]]),
    "gcd": lambda: (ternion.gcd(t([12, -18, 0]), t([18, 12, 5])), [6, 6, 5]),
    "lcm": lambda: (ternion.lcm(t([4, 6]), t([6, 15])), [12, 30]),
    "bitwise_and": lambda: (t([12, -1]) & t([10, 7]), [8, 7]),
    "bitwise_or": lambda: (t([12, 1]) | t([10, 6]), [14, 7]),
    "bitwise_xor": lambda: (t([12, 1]) ^ t([10, 7]), [6, 6]),
    "bitwise_not": lambda: (~t([0, 5, -1]), [-1, -6, 0]),
    "xlogy": lambda: (ternion.xlogy(t(X), t(POSITIVE)), X * np.log(POSITIVE)),
    "scatter_reduce": lambda: (t([1.0, 2, 3]).scatter_reduce(0, t([2, 0, 2]), t([5.0, 6, 7]), "sum"), [7, 2, 15]),
    "searchsorted": lambda: (ternion.searchsorted(t([1.0, 3, 5]), t([3.0, 4])), [1, 2]),
    "bucketize": lambda: (ternion.bucketize(t([3.0, 4]), t([1.0, 3, 5])), [1, 2]),
    "bitwise_left_shift": lambda: (t([1, 5]) << 2, [4, 20]),
    "bitwise_right_shift": lambda: (t([8, -5]) >> 1, [4, -3]),
    "kthvalue": lambda: (t(X).kthvalue(2)[0], np.sort(X, -1)[:, 1]),
    "median": lambda: (t(X).median(-1)[0], np.median(X, -1)),
    "unique": lambda: (t([3, 1, 3, 2]).unique(), [1, 2, 3]),
    "unique_consecutive": lambda: (t([3, 3, 1, 3]).unique_consecutive(), [3, 1, 3]),
}
OTHERS |= LINEAR_ALGEBRA
SIGNS = np.sign(X)
NEAR = np.linalg.norm(X - Y + 1e-6, axis=1)


def windowed(name, formula, **settings):
    window = getattr(ternion.signal.windows, name)(5, dtype=ternion.float64, **settings)
    return window, formula(np.arange(5.0) / 4)


def cosines(*coefficients):
    return lambda x: sum((-1) ** k * a * np.cos(2 * np.pi * k * x) for k, a in enumerate(coefficients))


def drawn(draw):
    """Returns the median of many random numbers."""
    ternion.manual_seed(5)
    return round(draw(ternion.zeros(9999)).median().item(), 1)


OTHERS |= {
    "soft_margin_loss": lambda: (F.soft_margin_loss(t(X), t(SIGNS)), np.log1p(np.exp(-np.abs(X))).mean()),
    "hinge_embedding_loss": lambda: (F.hinge_embedding_loss(t(X), t(SIGNS)), np.where(SIGNS > 0, X, np.maximum(0, 1 - X)).mean()),
    "margin_ranking_loss": lambda: (F.margin_ranking_loss(t(X), t(Y), t(SIGNS)), np.maximum(0, -SIGNS * (X - Y)).mean()),
    "smooth_l1_loss": lambda: (F.smooth_l1_loss(t([0.0, 0.0]), t([0.5, 3.0])), (0.125 + 2.5) / 2),
    "binary_cross_entropy": lambda: (F.binary_cross_entropy(t([0.2]), t([0.0])), -math.log(0.8)),
    "poisson_nll_loss": lambda: (F.poisson_nll_loss(t(X), t(POSITIVE)), (np.exp(X) - POSITIVE * X).mean()),
    "gaussian_nll_loss": lambda: (F.gaussian_nll_loss(t(X), t(Y), t(POSITIVE)), ((X - Y) ** 2 / POSITIVE + np.log(POSITIVE)).mean() / 2),
    "cosine_similarity": lambda: (F.cosine_similarity(t([[3.0, 4.0]]), t([[4.0, 3.0]])), [0.96]),
    "pairwise_distance": lambda: (F.pairwise_distance(t(X), t(Y)), NEAR),
    "cosine_embedding_loss": lambda: (F.cosine_embedding_loss(t([3.0, 4.0]), t([4.0, 3.0]), t(1)), 0.04),
    "triplet_margin_loss": lambda: (F.triplet_margin_loss(t(X), t(Y), t(X)), (NEAR - math.sqrt(3e-12) + 1).mean()),
    "triplet_margin_with_distance_loss": lambda: (F.triplet_margin_with_distance_loss(t(X), t(Y), t(X)), (NEAR - math.sqrt(3e-12) + 1).mean()),
    "multi_margin_loss": lambda: (F.multi_margin_loss(t([[0.5, 0.0]]), t([1])), 0.75),
    "multilabel_margin_loss": lambda: (F.multilabel_margin_loss(t([[0.5, 0.0]]), t([[1, -1]])), 0.75),
    "multilabel_soft_margin_loss": lambda: (F.multilabel_soft_margin_loss(t([[0.0, 0.0]]), t([[1.0, 0.0]])), math.log(2)),
    "ctc_loss": lambda: (F.ctc_loss(t(np.log([[[0.3, 0.7]], [[0.6, 0.4]]])), t([[1]]), [2], [1]), -math.log(1 - 0.3 * 0.6)),
    "embedding_bag": lambda: (F.embedding_bag(t([[0, 1]]), t(X)), X.mean(0)[None]),
    "cdist": lambda: (ternion.cdist(t(X), t(Y)), np.linalg.norm(X[:, None] - Y[None], axis=2)),
    "pdist": lambda: (F.pdist(t(X)), [np.linalg.norm(X[0] - X[1])]),
    "quantile": lambda: (ternion.quantile(t(X), 0.3, 1), np.quantile(X, 0.3, 1)),
    "nanquantile": lambda: (ternion.nanquantile(t([1.0, math.nan, 2.0]), 0.3), 1.3),
    "as_strided": lambda: (ternion.as_strided(t(X), (2, 2), (3, 1)), X[:, :2]),
    "as_strided_scatter": lambda: (ternion.as_strided_scatter(t([1.0, 2, 3]), t([7.0, 8.0]), (2,), (2,)), [7, 2, 8]),
    "select_scatter": lambda: (ternion.select_scatter(t([1.0, 2, 3]), t(7.0), 0, 1), [1, 7, 3]),
    "slice_scatter": lambda: (ternion.slice_scatter(t([1.0, 2, 3]), t([7.0, 8.0]), 0, 1), [1, 7, 8]),
    "diagonal_scatter": lambda: (ternion.diagonal_scatter(t(np.zeros((2, 2))), t([7.0, 8.0])), [[7, 0], [0, 8]]),
    "gradient": lambda: (ternion.gradient(t(X[0]))[0], np.gradient(X[0])),
    "trapezoid": lambda: (ternion.trapezoid(t(X[0])), X[0].sum() - (X[0, 0] + X[0, 2]) / 2),
    "cumulative_trapezoid": lambda: (ternion.cumulative_trapezoid(t([1.0, 3, 5])), [2, 6]),
    "isin": lambda: (ternion.isin(t([1, 2]), t([2, 3])), [False, True]),
    "combinations": lambda: (ternion.combinations(t([1, 2, 3])), [[1, 2], [1, 3], [2, 3]]),
    "logaddexp": lambda: (ternion.logaddexp(t(X), t(Y)), np.logaddexp(X, Y)),
    "logaddexp2": lambda: (ternion.logaddexp2(t(X), t(Y)), np.logaddexp2(X, Y)),
    "logcumsumexp": lambda: (ternion.logcumsumexp(t(X), 1), np.logaddexp.accumulate(X, 1)),
    "logspace": lambda: (ternion.logspace(0, 2, 3), [1, 10, 100]),
    "bartlett_window": lambda: windowed("bartlett", lambda x: 1 - abs(2 * x - 1)),
    "blackman_window": lambda: windowed("blackman", cosines(0.42, 0.5, 0.08)),
    "cosine_window": lambda: windowed("cosine", lambda x: np.sin(np.pi * (4 * x + 0.5) / 5)),
    "exponential_window": lambda: windowed("exponential", lambda x: np.exp(-abs(4 * x - 2) / 3), tau=3.0),
    "gaussian_window": lambda: windowed("gaussian", lambda x: np.exp(-(((4 * x - 2) / 3) ** 2) / 2), std=3.0),
    "general_cosine_window": lambda: windowed("general_cosine", cosines(0.5, 0.3, 0.2), a=[0.5, 0.3, 0.2]),
    "general_hamming_window": lambda: windowed("general_hamming", cosines(0.6, 0.4), alpha=0.6),
    "hamming_window": lambda: windowed("hamming", cosines(0.54, 0.46)),
    "hann_window": lambda: windowed("hann", cosines(0.5, 0.5)),
    "kaiser_window": lambda: windowed("kaiser", lambda x: np.i0(6 * np.sqrt(1 - (2 * x - 1) ** 2)) / np.i0(6), beta=6.0),
    "nuttall_window": lambda: windowed("nuttall", cosines(0.3635819, 0.4891775, 0.1365995, 0.0106411)),
    "exponential": lambda: (round(drawn(lambda x: x.exponential_(0.1))), 7),
    "cauchy": lambda: (drawn(lambda x: x.cauchy_(3.0)), 3.0),
    "log_normal": lambda: (drawn(lambda x: x.log_normal_(0.0, 1.0)), 1.0),
    "geometric": lambda: (drawn(lambda x: x.geometric_(0.25)), 3.0),
    "poisson": lambda: (drawn(lambda x: ternion.poisson(x + 5)), 5.0),
    "binomial": lambda: (drawn(lambda x: ternion.binomial(x + 10, x + 0.5)), 5.0),
    "alpha_dropout": lambda: (F.alpha_dropout(t(X), 1.0, True), np.zeros_like(X)),
    "feature_alpha_dropout": lambda: (F.feature_alpha_dropout(t(X), 1.0, True), np.zeros_like(X)),
}
SPECIALS = np.array([1.0, math.inf, -math.inf, math.nan])
OTHERS |= {
    "isnan": lambda: (ternion.isnan(t(SPECIALS)), np.isnan(SPECIALS)),
    "isinf": lambda: (ternion.isinf(t(SPECIALS)), np.isinf(SPECIALS)),
    "isfinite": lambda: (ternion.isfinite(t(SPECIALS)), np.isfinite(SPECIALS)),
    "isclose": lambda: (ternion.isclose(t(SPECIALS), t(SPECIALS + 1e-9)), np.isclose(SPECIALS, SPECIALS + 1e-9)),
    "allclose": lambda: (ternion.allclose(t(X), t(X + 1e-9)), True),
    "equal": lambda: (ternion.equal(t(X), t(X + 1e-9)), False),
    "floor_divide": lambda: (ternion.floor_divide(t(X), t(Y)), np.floor_divide(X, Y)),
    "trunc_divide": lambda: (ternion.div(t(X), t(Y), rounding_mode="trunc"), np.trunc(X / Y)),
    "fmod": lambda: (ternion.fmod(t(X), t(Y)), np.fmod(X, Y)),
    "trunc": lambda: (ternion.trunc(t(STEPS)), np.trunc(STEPS)),
    "frac": lambda: (ternion.frac(t(STEPS)), STEPS - np.trunc(STEPS)),
    "round_decimals": lambda: (ternion.round(t(X * 1.2345), decimals=2), np.round(X * 1.2345, 2)),
    "copysign": lambda: (ternion.copysign(t(X), t(Y)), np.copysign(X, Y)),
    "signbit": lambda: (ternion.signbit(t([-0.0, 0.0, -1.0])), [True, False, True]),
    "heaviside": lambda: (ternion.heaviside(t([-1.0, 0.0, 2.0]), t([0.5])), [0, 0.5, 1]),
    "isposinf": lambda: (ternion.isposinf(t([math.inf, -math.inf])), [True, False]),
    "isneginf": lambda: (ternion.isneginf(t([math.inf, -math.inf])), [False, True]),
    "nan_to_num": lambda: (ternion.nan_to_num(t([math.nan, math.inf, 1.0]), 3.0, 7.0), [3, 7, 1]),
    "ldexp": lambda: (ternion.ldexp(t(X), t(PLACES)), np.ldexp(X, PLACES)),
    "frexp": lambda: (list(ternion.frexp(t(X))), list(np.frexp(X))),
    "deg2rad": lambda: (ternion.deg2rad(t(X)), np.deg2rad(X)),
    "rad2deg": lambda: (ternion.rad2deg(t(X)), np.rad2deg(X)),
    "float_power": lambda: (ternion.float_power(t(POSITIVE), t(Y)), np.float_power(POSITIVE, Y)),
    "hypot": lambda: (ternion.hypot(t(X), t(Y)), np.hypot(X, Y)),
    "lerp": lambda: (ternion.lerp(t(X), t(Y), 0.3), X + 0.3 * (Y - X)),
    "lerp_tensor": lambda: (ternion.lerp(t(X), t(Y), t(POSITIVE)), X + POSITIVE * (Y - X)),
    "addcmul": lambda: (ternion.addcmul(t(X), t(Y), t(POSITIVE), value=0.5), X + 0.5 * Y * POSITIVE),
    "addcdiv": lambda: (ternion.addcdiv(t(X), t(Y), t(POSITIVE), value=0.5), X + 0.5 * Y / POSITIVE),
    "inner": lambda: (ternion.inner(t(X), t(Y)), np.inner(X, Y)),
    "tensordot": lambda: (ternion.tensordot(t(X), t(Y), ([0, 1], [0, 1])), np.tensordot(X, Y)),
    "prelu": lambda: (F.prelu(t(X), t([0.1, 0.2, 0.3])), np.where(X > 0, X, X * [0.1, 0.2, 0.3])),
    "nansum": lambda: (ternion.nansum(t([1.0, math.nan, 2.0])), 3),
    "nanmean": lambda: (ternion.nanmean(t([1.0, math.nan, 2.0])), 1.5),
    "count_nonzero": lambda: (ternion.count_nonzero(t(PLACES), 0), np.count_nonzero(PLACES, 0)),
    "var_mean": lambda: (list(ternion.var_mean(t(X), 1)), [X.var(1, ddof=1), X.mean(1)]),
    "std_mean": lambda: (list(ternion.std_mean(t(X), 1)), [X.std(1, ddof=1), X.mean(1)]),
    "aminmax": lambda: (list(ternion.aminmax(t(X), dim=1)), [X.min(1), X.max(1)]),
    "cumprod": lambda: (ternion.cumprod(t(X), 1), X.cumprod(1)),
    "diff": lambda: (ternion.diff(t(X), 2), np.diff(X, 2)),
    "msort": lambda: (ternion.msort(t(X)), np.sort(X, 0)),
    "cov": lambda: (ternion.cov(t(X)), np.cov(X)),
    "corrcoef": lambda: (ternion.corrcoef(t(X)), np.corrcoef(X)),
    "dist": lambda: (ternion.dist(t(X), t(Y), 3), np.linalg.norm((X - Y).ravel(), 3)),
}
OTHERS["cross_entropy_with_grad"] = lambda: wide_gradient(t([7, 9]), 1.0)
OTHERS["cross_entropy_grad_update"] = lambda: wide_gradient(t([7, 9]), 3.0)


def case(op):
    """Returns the found and the expected result, or None for an op without a case."""
    base = op.removesuffix("_grad")
    if op in UNARY:
        function, formula, values = UNARY[op]
        return function(t(values)), formula(values)
    if op in OTHERS:
        return OTHERS[op]()
    if base in UNARY:
        return both(UNARY[base][0], UNARY[base][2])
    if op in BINARY:
        left = POSITIVE if op == "pow" else X
        return getattr(ternion, op)(t(left), t(Y)), BINARY[op](left, Y)
    if op in SCALAR:
        return SCALAR[op][0](t(X)), SCALAR[op][1](X)
    if op in COMPARED:
        return getattr(ternion, op)(t(X), t(Y)), COMPARED[op](X, Y)
    if op.removesuffix("_scalar") in COMPARED:
        name = op.removesuffix("_scalar")
        return getattr(ternion, name)(t(X), 0.7), COMPARED[name](X, 0.7)
    return beside_jax(op)


def beside_jax(op):
    """Returns the first JAX case of an op whose inputs have several elements, for ops without an
    entry above. Elementwise functions therefore need no entry here."""
    jax_cases = pytest.importorskip("jax_cases")
    for result in jax_cases.cases():
        if op in result.covers and all(math.prod(shape) > 1 for shape, _ in result.inputs):
            rng = np.random.default_rng(0)
            inputs = [np.asarray(drawing(rng, shape), np.float64) for shape, drawing in result.inputs]
            if op.endswith("_grad"):
                return both(result.ours, *inputs)
            return result.ours(*map(t, inputs)), np.asarray(result.theirs(*inputs))
    return None


# Shape changes, concatenation, and indexing.
CUBE = np.arange(24.0).reshape(2, 3, 4)
ENDS = np.array([1.0, 2, 3])


def parts(actual, expected):
    """Returns whether two lists of arrays are equal, together with the expected True."""
    return [part.tolist() for part in actual] == [np.asarray(part).tolist() for part in expected], True


OTHERS |= forms(t, parts, X, Y, CUBE, ENDS, PLACES)


def test_the_page_lists_the_ops():
    assert len(OPS) > 190 and len(set(OPS)) == len(OPS)


def test_functions_that_python_does_not_have():
    assert bound_by_now() == [], "take it off the list, and give it a case"


@pytest.mark.parametrize("op", [op for op in OPS if op not in UNBOUND])
def test_every_op_is_reached(op):
    found_and_right = case(op)
    assert found_and_right is not None, f"{op} has no name in Python: give it one, and a case here or in jax_cases"
    actual, right = found_and_right
    pairs = zip(actual, right) if isinstance(actual, list) and actual and isinstance(actual[0], ternion.Tensor) else [(actual, right)]
    for own, expected in pairs:
        own, expected = own.detach().numpy() if isinstance(own, ternion.Tensor) else np.array(own), np.array(expected)
        assert own.shape == expected.shape
        np.testing.assert_allclose(own, expected, rtol=1e-6, atol=1e-6)
