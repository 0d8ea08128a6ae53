"""Activations, and functions along an axis that convert numbers to weights."""

import math

import ternion
from ternion.nn import functional

from .table import operator, positive


@operator("Relu")
def relu(node, x):
    return x.relu()


@operator("Sigmoid")
def sigmoid(node, x):
    return x.sigmoid()


@operator("Tanh")
def tanh(node, x):
    return x.tanh()


@operator("LeakyRelu")
def leaky_relu(node, x):
    return x.leaky_relu(node.attribute("alpha", 0.01))


@operator("Elu")
def elu(node, x):
    return x.elu(node.attribute("alpha", 1.0))


@operator("Celu")
def celu(node, x):
    return functional.celu(x, node.attribute("alpha", 1.0))


@operator("Selu")
def selu(node, x):
    """Computes `gamma * elu(x, alpha)`. The defaults are ONNX's."""
    alpha = node.attribute("alpha", 1.67326319217681884765625)
    return node.attribute("gamma", 1.05070102214813232421875) * x.elu(alpha)


@operator("Gelu")
def gelu(node, x):
    return x.gelu(approximate=node.attribute("approximate", "none"))


@operator("Mish")
def mish(node, x):
    return functional.mish(x)


@operator("Swish")
def swish(node, x):
    alpha = node.attribute("alpha", 1.0)
    return x.silu() if alpha == 1.0 else x * (alpha * x).sigmoid()


@operator("SwiGLU")
def swiglu(node, gate, value):
    return swish(node, gate) * value


@operator("HardSigmoid")
def hard_sigmoid(node, x):
    """Composed, because Ternion's hardsigmoid has a fixed slope, 1 / 6."""
    return (node.attribute("alpha", 0.2) * x + node.attribute("beta", 0.5)).clamp(0, 1)


@operator("HardSwish")
def hard_swish(node, x):
    return functional.hardswish(x)


@operator("Softplus")
def softplus(node, x):
    return x.softplus()


@operator("Softsign")
def softsign(node, x):
    return functional.softsign(x)


@operator("ThresholdedRelu")
def thresholded_relu(node, x):
    return functional.threshold(x, node.attribute("alpha", 1.0), 0.0)


@operator("PRelu")
def prelu(node, x, slope):
    """Composed, because slopes broadcast in ONNX. Ternion's prelu takes one slope, or one per
    channel."""
    return ternion.where(x < 0, x * slope, x)


@operator("Shrink")
def shrink(node, x):
    """Composed, because the bias of softshrink is its limit, and that of hardshrink is 0."""
    limit, bias = node.attribute("lambd", 0.5), node.attribute("bias", 0.0)
    below = ternion.where(x < -limit, x + bias, ternion.zeros_like(x))
    return ternion.where(x > limit, x - bias, below)


def _flattened(function, node, x):
    """Before opset 13, all axes from `axis` on are treated as one."""
    axis = node.attribute("axis", 1)
    rows = math.prod(x.shape[: positive(axis, x.dim())])
    return function(x.reshape(rows, -1), 1).reshape(x.shape)


@operator("Softmax")
def softmax(node, x):
    if node.opset < 13:
        return _flattened(ternion.softmax, node, x)
    return x.softmax(node.attribute("axis", -1))


@operator("LogSoftmax")
def log_softmax(node, x):
    if node.opset < 13:
        return _flattened(ternion.log_softmax, node, x)
    return x.log_softmax(node.attribute("axis", -1))


@operator("Hardmax")
def hardmax(node, x):
    """Returns 1 at the first largest element along the axis, and 0 elsewhere."""
    axis = positive(node.attribute("axis", -1), x.dim())
    one_hot = functional.one_hot(x.argmax(axis), x.shape[axis])
    order = list(range(x.dim() - 1))
    order.insert(axis, x.dim() - 1)
    return one_hot.permute(*order).to(x.dtype)


@operator("Dropout")
def dropout(node, x, ratio=None, training=None):
    """Without training, or with a ratio of 0, nothing is dropped. Otherwise the test expects the
    elements that NumPy's random numbers drop."""
    trains = training is not None and bool(training.item())
    amount = 0.5 if ratio is None else ratio.item()
    if trains and amount != 0:
        raise node.unsupported("the random numbers of NumPy")
    return functional.dropout(x, amount, training=trains), ternion.ones_like(x, dtype=ternion.bool)
