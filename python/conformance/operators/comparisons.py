"""Comparisons, logic, and selection by conditions."""

import ternion

from .table import operator


@operator("Equal")
def equal(node, a, b):
    return a == b


@operator("Greater")
def greater(node, a, b):
    return a > b


@operator("GreaterOrEqual")
def greater_or_equal(node, a, b):
    return a >= b


@operator("Less")
def less(node, a, b):
    return a < b


@operator("LessOrEqual")
def less_or_equal(node, a, b):
    return a <= b


@operator("And")
def logical_and(node, a, b):
    return a.logical_and(b)


@operator("Or")
def logical_or(node, a, b):
    return a.logical_or(b)


@operator("Xor")
def logical_xor(node, a, b):
    return a.logical_xor(b)


@operator("Not")
def logical_not(node, x):
    return x.logical_not()


@operator("ai.onnx.ml.Binarizer")
def binarizer(node, x):
    return (x > node.attribute("threshold", 0.0)).to(x.dtype)


@operator("Where")
def where(node, condition, a, b):
    return ternion.where(condition, a, b)


@operator("IsNaN")
def is_nan(node, x):
    return x.isnan()


@operator("IsInf")
def is_inf(node, x):
    """Detects infinities of only one sign, if an attribute says so."""
    result = x.isinf()
    if not node.attribute("detect_negative", 1):
        result = result & (x > 0)
    if not node.attribute("detect_positive", 1):
        result = result & (x < 0)
    return result
