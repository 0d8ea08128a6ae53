"""Normalization operators."""

import ternion
from ternion.nn import functional

from arrays import dtype_of_type

from .table import operator, positive


def _per_channel(values, x):
    """Reshapes one number per channel so that it broadcasts to x."""
    return values.reshape([1, -1] + [1] * (x.dim() - 2))


@operator("BatchNormalization")
def batch_normalization(node, x, weight, bias, mean, variance):
    """In training, the running statistics are updated with ONNX's momentum, which is the weight of
    the old value, and the biased variance."""
    eps = node.attribute("epsilon", 1e-5)
    if not node.attribute("training_mode", 0):
        return functional.batch_norm(x, mean, variance, weight, bias, eps=eps)
    momentum = node.attribute("momentum", 0.9)
    axes = [axis for axis in range(x.dim()) if axis != 1]
    batch_mean, batch_variance = x.mean(axes), x.var(axes, correction=0)
    result = functional.batch_norm(x, None, None, weight, bias, training=True, eps=eps)
    return result, mean * momentum + batch_mean * (1 - momentum), variance * momentum + batch_variance * (1 - momentum)


@operator("InstanceNormalization")
def instance_normalization(node, x, weight, bias):
    return functional.instance_norm(x, weight=weight, bias=bias, eps=node.attribute("epsilon", 1e-5))


@operator("GroupNormalization")
def group_normalization(node, x, weight, bias):
    return functional.group_norm(x, node.attribute("num_groups"), weight, bias, eps=node.attribute("epsilon", 1e-5))


@operator("LayerNormalization")
def layer_normalization(node, x, weight, bias=None):
    """Also returns the mean and the reciprocal standard deviation of the rows, if the model uses
    them."""
    axis = positive(node.attribute("axis", -1), x.dim())
    eps = node.attribute("epsilon", 1e-5)
    sizes = list(x.shape[axis:])
    weight = weight.expand(sizes)
    bias = None if bias is None else bias.expand(sizes)
    result = functional.layer_norm(x, sizes, weight, bias, eps=eps)
    if len(node.outputs) == 1:
        return result
    axes = list(range(axis, x.dim()))
    wide = x.to(dtype_of_type(node.attribute("stash_type", 1)))
    return result, wide.mean(axes, keepdim=True), (wide.var(axes, correction=0, keepdim=True) + eps).rsqrt()


@operator("RMSNormalization")
def rms_normalization(node, x, weight):
    axis = positive(node.attribute("axis", -1), x.dim())
    sizes = list(x.shape[axis:])
    return functional.rms_norm(x, sizes, weight.expand(sizes), eps=node.attribute("epsilon", 1e-5))


@operator("LRN")
def lrn(node, x):
    """Computes `x / (bias + alpha / size * sum of squares of near channels)^beta`, composed from
    other ops."""
    size = node.attribute("size")
    before = (size - 1) // 2
    pairs = [0, 0] * (x.dim() - 2) + [before, size - 1 - before]
    sums = functional.pad(x.square(), pairs).unfold(1, size, 1).sum(-1)
    base = node.attribute("bias", 1.0) + node.attribute("alpha", 1e-4) / size * sums
    return x / base.pow(node.attribute("beta", 0.75))


@operator("MeanVarianceNormalization")
def mean_variance_normalization(node, x):
    axes = node.attribute("axes", [0, 2, 3])
    centred = x - x.mean(axes, keepdim=True)
    return centred / (x.var(axes, correction=0, keepdim=True).sqrt() + 1e-9)


@operator("LpNormalization")
def lp_normalization(node, x):
    """Divides by the norm along an axis. Rows of zeros are unchanged."""
    return functional.normalize(x, node.attribute("p", 2), node.attribute("axis", -1))
