"""Elementwise arithmetic and functions."""

from functools import reduce

import ternion
from ternion import Tensor

from .table import TABLE, operator

UNARY = {
    "Abs": Tensor.abs,
    "Acos": Tensor.acos,
    "Acosh": Tensor.acosh,
    "Asin": Tensor.asin,
    "Asinh": Tensor.asinh,
    "Atan": Tensor.atan,
    "Atanh": Tensor.atanh,
    "Ceil": Tensor.ceil,
    "Cos": Tensor.cos,
    "Cosh": Tensor.cosh,
    "Erf": Tensor.erf,
    "Exp": Tensor.exp,
    "Floor": Tensor.floor,
    "Log": Tensor.log,
    "Neg": Tensor.neg,
    "Reciprocal": Tensor.reciprocal,
    "Round": Tensor.round,
    "Sign": Tensor.sign,
    "Sin": Tensor.sin,
    "Sinh": Tensor.sinh,
    "Sqrt": Tensor.sqrt,
    "Tan": Tensor.tan,
}


def _enter_unary(name, method):
    operator(name)(lambda node, x: method(x))


for _name, _method in UNARY.items():
    _enter_unary(_name, _method)


@operator("Add")
def add(node, a, b):
    return a + b


@operator("Sub")
def sub(node, a, b):
    return a - b


@operator("Mul")
def mul(node, a, b):
    return a * b


@operator("Div")
def div(node, a, b):
    """Rounds integer quotients toward zero. Ternion rounds down, so 1 is added if the quotient is
    negative and not exact."""
    if a.is_floating_point():
        return a / b
    return a // b + _rounded_down(a, b).to(a.dtype)


def _rounded_down(a, b):
    """Returns where integer quotients that are rounded down differ from those rounded toward
    zero."""
    return (a % b != 0) & ((a < 0) != (b < 0))


@operator("Mod")
def mod(node, a, b):
    """The result has the sign of the divisor, or with `fmod` that of the dividend."""
    if not node.attribute("fmod", 0):
        return a % b
    if a.is_floating_point():
        return a.abs() % b.abs() * a.sign()
    return a % b - b * _rounded_down(a, b).to(b.dtype)


@operator("Pow")
def power(node, a, b):
    """The result has the dtype of the base, whatever that of the exponent."""
    return a.pow(b).to(a.dtype)


@operator("Max")
def maximum(node, *values):
    return reduce(Tensor.maximum, values)


@operator("Min")
def minimum(node, *values):
    return reduce(Tensor.minimum, values)


@operator("Sum")
def add_all(node, *values):
    return reduce(Tensor.add, values)


@operator("Mean")
def mean(node, *values):
    return reduce(Tensor.add, values) / len(values)


@operator("Clip")
def clip(node, x, low=None, high=None):
    if low is None and high is None:
        return x
    return x.clamp(low, high)


@operator("BitwiseNot")
def bitwise_not(node, x):
    return ~x


def _bitwise(combine, a, b):
    """Composed: combines the bits one by one as bool tensors."""
    result = ternion.zeros(ternion.broadcast_shapes(a.shape, b.shape), dtype=a.dtype)
    for bit in range(8 * a.dtype.itemsize):
        bits = combine((a >> bit) % 2 == 1, (b >> bit) % 2 == 1)
        result = result + (bits.to(a.dtype) << bit)
    return result


@operator("BitwiseAnd")
def bitwise_and(node, a, b):
    return _bitwise(Tensor.logical_and, a, b)


@operator("BitwiseOr")
def bitwise_or(node, a, b):
    return _bitwise(Tensor.logical_or, a, b)


@operator("BitwiseXor")
def bitwise_xor(node, a, b):
    return _bitwise(Tensor.logical_xor, a, b)


assert set(UNARY) <= set(TABLE)


@operator("BitShift")
def bit_shift(node, a, b):
    return a << b if node.attribute("direction") == "LEFT" else a >> b
