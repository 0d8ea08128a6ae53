"""Elementwise functions and products written in terms of other functions. All of them are
differentiable.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

from .. import _results, _ternion
from .._ternion import Tensor
from .kinds import result_type

_FLOOR_ROUND = Tensor.round


def _float(input: Tensor) -> Tensor:
    return input if input.is_floating_point() else input.to(_ternion.get_default_dtype())


def _promoted(input: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Casts both to the floating-point dtype to which they are promoted."""
    dtype = input.dtype if input.dtype == other.dtype else result_type(input, other)
    dtype = dtype if dtype.is_floating_point else _ternion.get_default_dtype()
    return input.to(dtype), other.to(dtype)


def _as_tensors(function: str, input: Any, other: Any, dtype: Any = None) -> tuple[Tensor, Tensor]:
    """Returns both as tensors. One of them may be a number, which becomes a tensor of `dtype`."""
    tensors = [value for value in (input, other) if isinstance(value, Tensor)]
    for value in (input, other):
        if not isinstance(value, (Tensor, int, float)):
            raise TypeError(f"{function}: expected tensors or a number and a tensor, got {type(value).__name__}")
    if not tensors:
        raise TypeError(f"{function}: expected a tensor and a number, got two numbers")
    first, second = (value if isinstance(value, Tensor) else _ternion.tensor(value, dtype=dtype, device=tensors[0].device) for value in (input, other))
    return first, second


def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """Computes `input + weight * (end - input)`: `input` where the weight is 0, `end` where it is
    1. `weight` is a number or a tensor.

    Shapes: [..] and [..], which broadcast -> the broadcast shape

    Raises:
        ValueError: If the shapes do not broadcast.
        TypeError: If an argument is neither a tensor nor a number.
    """
    if isinstance(weight, Tensor):
        return input._lerp_tensor(end, weight)
    if not isinstance(weight, numbers.Real):
        raise TypeError("lerp: expected numbers or tensors")
    return input._lerp(end, weight)


def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1.0) -> Tensor:
    """Computes `input + value * tensor1 / tensor2`, broadcast.

    Shapes: [..] and [..], which broadcast -> the broadcast shape

    Raises:
        ValueError: If the shapes do not broadcast.
        TypeError: If an argument is neither a tensor nor a number, or if both `tensor1` and
            `tensor2` are integer tensors, as in PyTorch.
    """
    if isinstance(tensor1, Tensor) and isinstance(tensor2, Tensor) and not (tensor1.is_floating_point() or tensor2.is_floating_point()):
        raise TypeError("addcdiv: integers divided by integers, expected a floating dtype: tensor1.float() has one")
    return input._addcdiv(tensor1, tensor2, value)


def frac(input: Tensor) -> Tensor:
    """Returns the fractional part of each element, with its sign.

    Shapes: [..] -> the same shape

    Raises:
        TypeError: If the input has no floating-point dtype.
    """
    return input._frac()


def hypot(input: Tensor, other: Tensor) -> Tensor:
    """Returns the length of the vectors (input, other) without overflow, broadcast.

    Shapes: [..] and [..], which broadcast -> the broadcast shape

    Raises:
        ValueError: If the shapes do not broadcast.
    """
    return input._hypot(other)


def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """Computes `log(e^input + e^other)` elementwise without overflow, broadcast.

    Shapes: [..] and [..], which broadcast -> the broadcast shape

    Raises:
        ValueError: If the shapes do not broadcast.
    """
    input, other = _promoted(input, other)
    return input._logaddexp(other)


def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """Computes `input * 2^other`, broadcast.

    Shapes: [..] and [..], which broadcast -> the broadcast shape

    Raises:
        ValueError: If the shapes do not broadcast.
    """
    dtype = result_type(input, other)
    dtype = dtype if dtype.is_floating_point else _ternion.get_default_dtype()
    return input.to(dtype)._ldexp(other.to(dtype))


def frexp(input: Tensor) -> Any:
    """Decomposes each element into `mantissa * 2^exponent`, with mantissas in [0.5, 1) in magnitude
    (0 for 0) and int32 exponents. Returns a tuple of mantissa and exponent.

    Shapes: [..] -> two tensors of the same shape

    Raises:
        TypeError: If the input has no floating-point dtype.
    """
    return _results.frexp(*input._frexp())


def deg2rad(input: Tensor) -> Tensor:
    """Converts degrees to radians.

    Shapes: [..] -> the same shape
    """
    return _float(input)._deg2rad()


def rad2deg(input: Tensor) -> Tensor:
    """Converts radians to degrees.

    Shapes: [..] -> the same shape
    """
    return _float(input)._rad2deg()


def nan_to_num(input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Replaces NaN and infinities: by default NaN by 0, and infinities by the largest finite value
    of the dtype with their sign.

    Shapes: [..] -> the same shape
    """
    return input._nan_to_num(nan, posinf, neginf)


def clamp_min(input: Tensor, min: Any) -> Tensor:
    """Returns the maximum of each element and `min`.

    Shapes: [..] -> the same shape

    Raises:
        TypeError: If the limit is neither a number nor a tensor.
    """
    return input.clamp(min=min)


def clamp_max(input: Tensor, max: Any) -> Tensor:
    """Returns the minimum of each element and `max`.

    Shapes: [..] -> the same shape

    Raises:
        TypeError: If the limit is neither a number nor a tensor.
    """
    return input.clamp(max=max)


def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Rounds each element to the nearest integer, ties to even; with `decimals`, to that number of
    decimal places.

    Shapes: [..] -> the same shape

    Raises:
        TypeError: If `input` is not a tensor, or `decimals` is not a number.
    """
    return _FLOOR_ROUND(input) if decimals == 0 else _float(input)._round(decimals)


def isposinf(input: Tensor) -> Tensor:
    """Whether each element is positive infinity.

    Shapes: [..] -> the same shape, bool
    """
    return input._isposinf()


def isneginf(input: Tensor) -> Tensor:
    """Whether each element is negative infinity.

    Shapes: [..] -> the same shape, bool
    """
    return input._isneginf()


def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """Returns 0 where the input is negative, 1 where it is positive, and `values` where it is 0.

    Shapes: [..] and [..], which broadcast -> the broadcast shape

    Raises:
        ValueError: If the shapes do not broadcast.
        TypeError: If an argument is a number instead of a tensor, or if the dtypes differ.
    """
    return input._heaviside(values)


def copysign(input: Tensor, other: Any) -> Tensor:
    """Returns the magnitude of `input` with the sign of `other`, elementwise and broadcast. The
    sign of zero is significant.

    Shapes: [..] and [..], which broadcast -> the broadcast shape

    Raises:
        ValueError: If the shapes do not broadcast.
    """
    if not isinstance(other, Tensor):
        other = _ternion.tensor(math.copysign(1.0, other), device=input.device)
    return input._copysign(other)


def positive(input: Tensor) -> Tensor:
    """Returns the tensor itself.

    Shapes: [..] -> the same shape
    """
    return +input


def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """Computes `other - alpha * input`.

    Shapes: [..] and [..], which broadcast -> the broadcast shape

    Raises:
        ValueError: If the shapes do not broadcast.
        TypeError: If a tensor is bool, or if `alpha` is a bool, or a float for integer tensors.
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"rsub: input of type {type(input).__name__}, expected a tensor")
    return input._rsub(other, alpha)


def float_power(input: Any, exponent: Any) -> Tensor:
    """Raises each element to a power in float64. One of the arguments may be a number.

    Shapes: [..] and [..], which broadcast -> the broadcast shape

    Raises:
        ValueError: If the shapes do not broadcast.
        TypeError: If both arguments are numbers.
    """
    input, exponent = _as_tensors("float_power", input, exponent, _ternion.float64)
    return input._float_power(exponent)


def inner(input: Tensor, other: Tensor) -> Tensor:
    """Returns the sums of products along the last axes of both: [.., k] and [.., k].

    Shapes: [.., k] and [*others, k] -> [.., *others]

    Raises:
        ValueError: If the sizes of the last axes differ.
    """
    return input._inner(other)


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Returns the sums of products over axes of both: over the last `dims` axes of a and the first
    of b, or over the axes in two lists.

    Raises:
        ValueError: If `dims` is larger than the rank of an operand, or if the sizes of contracted
            axes differ.
    """
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ValueError(f"tensordot: {dims} axes of shapes {list(a.shape)} and {list(b.shape)}")
        return a._tensordot(b, list(range(a.ndim - dims, a.ndim)), list(range(dims)))
    of_a, of_b = dims
    return a._tensordot(b, list(of_a), list(of_b))


def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """Computes `log2(2^input + 2^other)` elementwise without overflow, broadcast.

    Shapes: [..] and [..], which broadcast -> the broadcast shape

    Raises:
        ValueError: If the shapes do not broadcast.
    """
    input, other = _promoted(input, other)
    return input._logaddexp2(other)


def signbit(input: Tensor) -> Tensor:
    """Whether the sign bit of each element is set, also for negative zero.

    Shapes: [..] -> the same shape, bool
    """
    return input._signbit()


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Returns `x` where it is positive, and `weight * x` elsewhere, with one weight, or one for
    each channel (the second axis).

    Shapes: [batch, channels, ..], weight [1] or [channels] -> the shape of `input`

    Raises:
        ValueError: If the number of weights is neither 1 nor the number of channels.
    """
    return input._prelu(weight.reshape(()) if weight.numel() == 1 else weight)


def shifted_left(input: Tensor, other: Any) -> Tensor:
    """Computes `x << n` of integers: x times 2 to the power of n. The result is 0 if n is negative
    or at least the number of bits, as in PyTorch.

    Shapes: [..] and [..], which broadcast -> the broadcast shape

    Raises:
        TypeError: If an operand is a floating-point number or tensor.
    """
    input, other = _shift(input, other)
    return input.bitwise_left_shift(other)


def shifted_right(input: Tensor, other: Any) -> Tensor:
    """Computes `x >> n` of integers: x divided by 2 to the power of n, rounded down. The result is
    -1 or 0 if n is negative or at least the number of bits, as in PyTorch.

    Shapes: [..] and [..], which broadcast -> the broadcast shape

    Raises:
        TypeError: If an operand is a floating-point number or tensor.
    """
    input, other = _shift(input, other)
    return input.bitwise_right_shift(other)


def reflected(shift: Any) -> Any:
    """Returns the reflected shift: the left operand is an array, or a number, which gets the dtype
    of the tensor.
    """

    def shifted(self: Tensor, other: Any) -> Tensor:
        if isinstance(other, float) or self.is_floating_point():
            raise TypeError(f"a shift of {type(other).__name__} by {str(self.dtype).split('.')[-1]}, expected integers")
        dtype = self.dtype if isinstance(other, int) and self.dtype != _ternion.bool else None
        return shift(_ternion.as_tensor(other, dtype=dtype, device=self.device), self)

    return shifted


def _shift(input: Tensor, other: Any) -> tuple[Tensor, Tensor]:
    """Casts both to the dtype to which they are promoted."""
    other = other if isinstance(other, Tensor) else _ternion.tensor(other, device=input.device)
    dtype = result_type(input, other)
    if dtype.is_floating_point or dtype == _ternion.bool:
        raise TypeError(f"a shift of {str(input.dtype).split('.')[-1]} by {str(other.dtype).split('.')[-1]}, expected integers")
    return input.to(dtype), other.to(dtype)


def _divmod(input: Tensor, other: Any) -> tuple[Tensor, Tensor]:
    return input // other, input % other


def _rdivmod(input: Tensor, other: Any) -> tuple[Tensor, Tensor]:
    return other // input, other % input


def _round_to_digits(input: Tensor, ndigits: int | None = None) -> Tensor:
    return round(input, decimals=ndigits or 0)
