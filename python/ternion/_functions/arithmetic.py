"""Functions of elements that are made of others: gradients flow through all of them."""

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


def _together(input: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the floating dtype that they meet in."""
    dtype = input.dtype if input.dtype == other.dtype else result_type(input, other)
    dtype = dtype if dtype.is_floating_point else _ternion.get_default_dtype()
    return input.to(dtype), other.to(dtype)


def _beside(function: str, input: Any, other: Any, dtype: Any = None) -> tuple[Tensor, Tensor]:
    """Both as tensors, of which one may be a number, which is of a dtype."""
    tensors = [value for value in (input, other) if isinstance(value, Tensor)]
    for value in (input, other):
        if not isinstance(value, (Tensor, int, float)):
            raise TypeError(f"{function}: expected tensors or a number beside one, got {type(value).__name__}")
    if not tensors:
        raise TypeError(f"{function}: expected a tensor and a number, got two numbers")
    first, second = (value if isinstance(value, Tensor) else _ternion.tensor(value, dtype=dtype, device=tensors[0].device) for value in (input, other))
    return first, second


def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """From `input`, where the weight is 0, to `end`, where it is 1: `input + weight * (end - input)`; weight is a number or a tensor.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
        TypeError: something that is neither a tensor nor a number.
    """
    if isinstance(weight, Tensor):
        return input._lerp_tensor(end, weight)
    if not isinstance(weight, numbers.Real):
        raise TypeError("lerp: expected numbers or tensors")
    return input._lerp(end, weight)


def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1.0) -> Tensor:
    """`input + value * tensor1 / tensor2`, broadcast.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
        TypeError: something that is neither a tensor nor a number; whole numbers divided by whole numbers, as in PyTorch.
    """
    if isinstance(tensor1, Tensor) and isinstance(tensor2, Tensor) and not (tensor1.is_floating_point() or tensor2.is_floating_point()):
        raise TypeError("addcdiv: whole numbers divided by whole numbers, expected a floating dtype: tensor1.float() has one")
    return input._addcdiv(tensor1, tensor2, value)


def frac(input: Tensor) -> Tensor:
    """What is behind the point of each element, with its sign.

    Shapes: [..] -> the same

    Raises:
        TypeError: whole numbers.
    """
    return input._frac()


def hypot(input: Tensor, other: Tensor) -> Tensor:
    """The length of the vectors (input, other), without overflow; broadcast.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
    """
    return input._hypot(other)


def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """`log(e^input + e^other)` of each pair of elements, without overflow; broadcast.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
    """
    input, other = _together(input, other)
    return input._logaddexp(other)


def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """`input * 2^other`, broadcast.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
    """
    dtype = result_type(input, other)
    dtype = dtype if dtype.is_floating_point else _ternion.get_default_dtype()
    return input.to(dtype)._ldexp(other.to(dtype))


def frexp(input: Tensor) -> Any:
    """The parts of each element as `mantissa * 2^exponent`, with mantissas from 0.5 to below 1 (0 of 0) and exponents in int32: a
    tuple of mantissa and exponent.

    Shapes: [..] -> two of the same

    Raises:
        TypeError: whole numbers.
    """
    return _results.frexp(*input._frexp())


def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians.

    Shapes: [..] -> the same
    """
    return _float(input)._deg2rad()


def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees.

    Shapes: [..] -> the same
    """
    return _float(input)._rad2deg()


def nan_to_num(input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """The elements, with numbers in place of NaN and of the infinities: by default 0 and the largest numbers of the dtype.

    Shapes: [..] -> the same
    """
    return input._nan_to_num(nan, posinf, neginf)


def clamp_min(input: Tensor, min: Any) -> Tensor:
    """Each element, but at least `min`.

    Shapes: [..] -> the same

    Raises:
        TypeError: a limit that is neither a number nor a tensor.
    """
    return input.clamp(min=min)


def clamp_max(input: Tensor, max: Any) -> Tensor:
    """Each element, but at most `max`.

    Shapes: [..] -> the same

    Raises:
        TypeError: a limit that is neither a number nor a tensor.
    """
    return input.clamp(max=max)


def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest whole number of each element, halves to even; with `decimals` that many digits behind the point.

    Shapes: [..] -> the same

    Raises:
        TypeError: no tensor, `decimals` that are no number.
    """
    return _FLOOR_ROUND(input) if decimals == 0 else _float(input)._round(decimals)


def isposinf(input: Tensor) -> Tensor:
    """Where the elements are infinite and positive.

    Shapes: [..] -> the same, bool
    """
    return input._isposinf()


def isneginf(input: Tensor) -> Tensor:
    """Where the elements are infinite and negative.

    Shapes: [..] -> the same, bool
    """
    return input._isneginf()


def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 below 0, 1 above, `values` at 0.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
        TypeError: numbers in the place of tensors, dtypes that differ.
    """
    return input._heaviside(values)


def copysign(input: Tensor, other: Any) -> Tensor:
    """The size of each element of `input` with the sign of `other`; broadcast. The sign of zero counts.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
    """
    if not isinstance(other, Tensor):
        other = _ternion.tensor(math.copysign(1.0, other), device=input.device)
    return input._copysign(other)


def positive(input: Tensor) -> Tensor:
    """The tensor itself.

    Shapes: [..] -> the same
    """
    return +input


def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """`other - alpha * input`.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
        TypeError: truth values, an `alpha` with a point for whole numbers, or a truth value.
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"rsub: input of type {type(input).__name__}, expected a tensor")
    return input._rsub(other, alpha)


def float_power(input: Any, exponent: Any) -> Tensor:
    """Each element to a power, computed in float64; one of both may be a number.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
        TypeError: two numbers.
    """
    input, exponent = _beside("float_power", input, exponent, _ternion.float64)
    return input._float_power(exponent)


def inner(input: Tensor, other: Tensor) -> Tensor:
    """The sums of products along the last axis of both: [.., k] and [.., k].

    Shapes: [.., k] and [*others, k] -> [.., *others]

    Raises:
        ValueError: last sizes that differ.
    """
    return input._inner(other)


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """The sums of products over axes of both: over the last `dims` of a and the first of b, or over the axes in two lists.

    Raises:
        ValueError: more axes than there are, or sizes that differ.
    """
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ValueError(f"tensordot: {dims} axes of shapes {list(a.shape)} and {list(b.shape)}")
        return a._tensordot(b, list(range(a.ndim - dims, a.ndim)), list(range(dims)))
    of_a, of_b = dims
    return a._tensordot(b, list(of_a), list(of_b))


def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """`log2(2^input + 2^other)` of each pair of elements, without overflow; broadcast.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
    """
    input, other = _together(input, other)
    return input._logaddexp2(other)


def signbit(input: Tensor) -> Tensor:
    """Where the sign is negative: that of zero counts.

    Shapes: [..] -> the same, bool
    """
    return input._signbit()


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """`x` where it is positive, else `weight * x`, with one weight, or one for each channel (the second axis).

    Shapes: [batch, channels, ..], weight [1] or [channels] -> the input's

    Raises:
        ValueError: as many weights as neither 1 nor the channels.
    """
    return input._prelu(weight.reshape(()) if weight.numel() == 1 else weight)


def shifted_left(input: Tensor, other: Any) -> Tensor:
    """`x << n` of whole numbers: times 2 to the power of n; 0 by as many bits as there are or more, and by less than none, as in PyTorch.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        TypeError: floats.
    """
    input, other = _shift(input, other)
    return input.bitwise_left_shift(other)


def shifted_right(input: Tensor, other: Any) -> Tensor:
    """`x >> n` of whole numbers: divided by 2 to the power of n, rounded down; -1 or 0 by as many bits as there are or more, and by less than none, as in PyTorch.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        TypeError: floats.
    """
    input, other = _shift(input, other)
    return input.bitwise_right_shift(other)


def reflected(shift: Any) -> Any:
    """A shift of what is on the left: a number, which is one of the dtype of the tensor, or an array."""

    def shifted(self: Tensor, other: Any) -> Tensor:
        if isinstance(other, float) or self.is_floating_point():
            raise TypeError(f"a shift of {type(other).__name__} by {str(self.dtype).split('.')[-1]}, expected whole numbers")
        dtype = self.dtype if isinstance(other, int) and self.dtype != _ternion.bool else None
        return shift(_ternion.as_tensor(other, dtype=dtype, device=self.device), self)

    return shifted


def _shift(input: Tensor, other: Any) -> tuple[Tensor, Tensor]:
    """Both in the dtype that they meet in."""
    other = other if isinstance(other, Tensor) else _ternion.tensor(other, device=input.device)
    dtype = result_type(input, other)
    if dtype.is_floating_point or dtype == _ternion.bool:
        raise TypeError(f"a shift of {str(input.dtype).split('.')[-1]} by {str(other.dtype).split('.')[-1]}, expected whole numbers")
    return input.to(dtype), other.to(dtype)


def _divided(input: Tensor, other: Any) -> tuple[Tensor, Tensor]:
    return input // other, input % other


def _dividing(input: Tensor, other: Any) -> tuple[Tensor, Tensor]:
    return other // input, other % input


def _rounded(input: Tensor, ndigits: int | None = None) -> Tensor:
    return round(input, decimals=ndigits or 0)
