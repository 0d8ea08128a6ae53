"""Conversions of element types, and quantization."""

from onnx import TensorProto

import ternion
from ternion import formats

from arrays import Coded, dtype_of_type, target_of_type

from .table import operator, positive


def _numbers(value):
    """Returns a tensor, also for bits with their format."""
    return value.numbers() if isinstance(value, Coded) else value


def _target_of(value):
    """Returns the dtype of a value, or the name of its format."""
    return value.format if isinstance(value, Coded) else value.dtype


def _converted(node, value, target):
    """Converts a value to another dtype or format, by the rules of Cast."""
    x = _numbers(value)
    if not isinstance(target, str):
        return x.to(target)
    if not target.startswith("float"):
        # Fractions are truncated, and numbers that are out of range lose their high bits.
        return Coded(formats.encode(x, target, saturate=False, rounding="down"), target)
    rounding = node.attribute("round_mode", "up") if target == "float8_e8m0fnu" else "nearest"
    x = x if x.is_floating_point() else x.double()
    return Coded(formats.encode(x, target, saturate=bool(node.attribute("saturate", 1)), rounding=rounding), target)


@operator("Cast", takes_coded=True)
def cast(node, x):
    return _converted(node, x, target_of_type(node.attribute("to")))


@operator("CastLike", takes_coded=True)
def cast_like(node, x, like):
    return _converted(node, x, _target_of(like))


def _broadcastable(node, value, shape):
    """Reshapes a scale or zero point so that it broadcasts to a tensor of this shape: one number,
    one per index of an axis, or one per block.

    Shapes: [], [1], [shape[axis]], or the shape with the number of blocks on the axis -> a shape
    that broadcasts to `shape`
    """
    if value.numel() == 1:
        return value.reshape(())
    axis, block = positive(node.attribute("axis", 1), len(shape)), node.attribute("block_size", 0)
    if block:  # The last block may be smaller.
        return value.repeat_interleave(block, dim=axis).narrow(axis, 0, shape[axis])
    return value.reshape([-1 if index == axis else 1 for index in range(len(shape))])


@operator("QuantizeLinear", takes_coded=True)
def quantize_linear(node, x, scale, zero_point=None):
    """Computes `x / scale + zero_point`, limited to the dtype or format of the zero point, or
    `output_dtype`, or uint8. For integer targets, the quotient is rounded before the addition."""
    target = target_of_type(node.attribute("output_dtype", 0) or TensorProto.UINT8) if zero_point is None else _target_of(zero_point)
    scale = _numbers(scale)
    precision = dtype_of_type(node.attribute("precision")) if node.attribute("precision", 0) else scale.dtype
    steps = x.to(precision) / _broadcastable(node, scale.to(precision), x.shape)
    is_float = isinstance(target, str) and target.startswith("float")
    # In float32, because half precision cannot represent every sum.
    steps = steps if is_float else steps.round().float()
    if zero_point is not None:
        steps = steps + _broadcastable(node, _numbers(zero_point), x.shape).to(steps.dtype)
    if isinstance(target, str):
        return Coded(formats.encode(steps, target, saturate=not is_float or bool(node.attribute("saturate", 1))), target)
    # Converting floats to integers saturates at the limits of the dtype.
    return steps.to(target)


@operator("DequantizeLinear", takes_coded=True)
def dequantize_linear(node, x, scale, zero_point=None):
    """Computes `(x - zero_point) * scale`, in the dtype of the scale or in `output_dtype`."""
    scale, x = _numbers(scale), _numbers(x).float()
    dtype = dtype_of_type(node.attribute("output_dtype")) if node.attribute("output_dtype", 0) else scale.dtype
    if zero_point is not None:
        x = x - _broadcastable(node, _numbers(zero_point), x.shape).float()
    return x.to(dtype) * _broadcastable(node, scale, x.shape).to(dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(node, x):
    """Quantizes to uint8, by the range of the elements and 0."""
    low, high = x.min().clamp(max=0), x.max().clamp(min=0)
    scale = (high - low) / 255
    zero_point = (-low / scale).round().clamp(0, 255).to(ternion.uint8)
    return quantize_linear(node, x, scale, zero_point), scale, zero_point
