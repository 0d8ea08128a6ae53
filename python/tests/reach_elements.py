"""Elementwise functions for test_reach: of a tensor, of two tensors, and of a tensor and a
number."""

import math

import numpy as np

import ternion
from ternion.nn import functional as F

erf = np.vectorize(math.erf)

X = np.array([[0.3, -1.2, 2.0], [0.7, 0.5, -0.4]])
POSITIVE = np.abs(X) + 0.1
STEPS = np.array([[1.7, -2.2, 0.4], [-0.9, 3.1, 1.2]])

# The method, its formula in NumPy, and valid inputs.
UNARY = {
    "neg": (ternion.neg, np.negative, X), "abs": (ternion.abs, np.abs, X), "sign": (ternion.sign, np.sign, X), "exp": (ternion.exp, np.exp, X),
    "log": (ternion.log, np.log, POSITIVE), "log1p": (ternion.log1p, np.log1p, POSITIVE), "expm1": (ternion.expm1, np.expm1, X),
    "sqrt": (ternion.sqrt, np.sqrt, POSITIVE), "rsqrt": (ternion.rsqrt, lambda x: 1 / np.sqrt(x), POSITIVE), "sin": (ternion.sin, np.sin, X),
    "cos": (ternion.cos, np.cos, X), "tanh": (ternion.tanh, np.tanh, X), "sigmoid": (ternion.sigmoid, lambda x: 1 / (1 + np.exp(-x)), X),
    "relu": (F.relu, lambda x: np.maximum(x, 0), X), "erf": (ternion.erf, erf, X), "square": (ternion.square, np.square, X),
    "recip": (ternion.reciprocal, np.reciprocal, POSITIVE), "floor": (ternion.floor, np.floor, STEPS), "ceil": (ternion.ceil, np.ceil, STEPS),
    "round": (ternion.round, np.round, STEPS), "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), lambda x: np.where(x > 0, x, 0.1 * x), X),
    "elu": (lambda x: F.elu(x, 0.5), lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)), X),
    "gelu_erf": (F.gelu, lambda x: x / 2 * (1 + erf(x / math.sqrt(2))), X),
    "gelu_tanh": (lambda x: F.gelu(x, "tanh"), lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), X),
    "silu": (F.silu, lambda x: x / (1 + np.exp(-x)), X), "softplus": (F.softplus, lambda x: np.log1p(np.exp(x)), X),
    "hardtanh": (lambda x: F.hardtanh(x, -0.5, 1.0), lambda x: np.clip(x, -0.5, 1.0), X),
}  # fmt: skip

BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum, "minimum": np.minimum, "atan2": np.arctan2,
    "remainder": np.mod, "pow": np.power,
}  # fmt: skip

# Functions of a tensor and a number. Some have other names: maximum and minimum are clamps, and
# atan2 with 1 is the arctangent.
SCALAR = {
    "add_scalar": (lambda x: x + 1.5, lambda x: x + 1.5), "sub_scalar": (lambda x: x - 1.5, lambda x: x - 1.5),
    "mul_scalar": (lambda x: x * 1.5, lambda x: x * 1.5), "div_scalar": (lambda x: x / 1.5, lambda x: x / 1.5),
    "maximum_scalar": (lambda x: x.clamp(min=0.4), lambda x: np.maximum(x, 0.4)), "minimum_scalar": (lambda x: x.clamp(max=0.4), lambda x: np.minimum(x, 0.4)),
    "atan2_scalar": (ternion.atan, np.arctan), "remainder_scalar": (lambda x: x % 0.4, lambda x: np.mod(x, 0.4)),
    "pow_scalar": (lambda x: x**3, lambda x: x**3),
}  # fmt: skip

COMPARED = {name: getattr(np, full) for name, full in dict(
    eq="equal", ne="not_equal", lt="less", le="less_equal", gt="greater", ge="greater_equal").items()}  # fmt: skip
