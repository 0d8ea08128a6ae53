"""Number formats of at most 8 bits that are not dtypes: they are stored as bits in uint8, one
number per byte. For checkpoints and quantization.

    from ternion import formats

    bits = formats.encode(weights / scale, "float8_e4m3fn")  # uint8, on the device of the weights
    weights = formats.decode(bits, "float8_e4m3fn") * scale

The names contain the numbers of exponent and mantissa bits (e4m3). The suffixes name what a format
lacks: "fn" infinities, "uz" negative zero, "u" the sign.

| format | numbers | |
|---|---|---|
| float8_e4m3fn | -448 to 448 | NaN (Micikevicius et al. 2022, arXiv 2209.05433) |
| float8_e5m2 | -57344 to 57344 | infinities, NaN (the same) |
| float8_e4m3fnuz | -240 to 240 | one NaN (Noune et al. 2022, arXiv 2206.02915) |
| float8_e5m2fnuz | -57344 to 57344 | one NaN (the same) |
| float8_e8m0fnu | 2^-127 to 2^127 | powers of two, for scales; NaN (OCP Microscaling Formats 1.0) |
| float4_e2m1fn | -6 to 6 | (OCP Microscaling Formats 1.0) |
| int4, uint4, int2, uint2 | -8 to 7, 0 to 15, -2 to 1, 0 to 3 | two's complement in the low bits |

Conversions are those of ONNX's operator Cast and of the package `ml_dtypes`, whose arrays use the
same bytes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ._ternion import Tensor, dtype as _dtype, float32, float64, int32, int64, tensor, uint8, where, zeros_like

__all__ = ["FORMATS", "decode", "encode"]


def __dir__() -> list[str]:
    return __all__


class _Float(NamedTuple):
    """Numbers of exponent and fraction bits, the exponent that represents 2^0, and the codes of the
    largest number and of NaN.
    """

    exponent: int
    fraction: int
    bias: int
    largest: int
    nan: int | None
    signed: bool = True

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.exponent + self.fraction)

    @property
    def codes(self) -> int:
        """The number of codes."""
        return 2 * self.sign if self.signed else self.sign

    def magnitude(self, code: int) -> float:
        """Returns the value of a code without sign. The code after the largest one has the value
        that would come next, from which the rounding boundary is computed.
        """
        exponent, fraction = divmod(code, 1 << self.fraction)
        # Subnormal numbers. Unsigned formats have neither these nor zero.
        if exponent == 0 and self.signed:
            return math.ldexp(fraction, 1 - self.bias - self.fraction)
        return math.ldexp(1 + fraction / (1 << self.fraction), exponent - self.bias)

    def number(self, code: int) -> float:
        """Returns the value of a code."""
        magnitude = code % self.sign
        if code == self.nan:
            return math.nan
        if magnitude > self.largest:
            is_infinite = magnitude == self.largest + 1 != self.nan
            return math.copysign(math.inf if is_infinite else math.nan, -1 if code >= self.sign else 1)
        return math.copysign(self.magnitude(magnitude), -1 if code >= self.sign else 1)


class _Integer(NamedTuple):
    """The smallest and the largest number."""

    low: int
    high: int

    @property
    def codes(self) -> int:
        """The number of codes."""
        return self.high - self.low + 1

    def number(self, code: int) -> int:
        """Returns the value of a code."""
        return code - self.codes if code > self.high else code


_LAYOUTS: dict[str, _Float | _Integer] = {
    "float8_e4m3fn": _Float(4, 3, 7, largest=0x7E, nan=0x7F),
    "float8_e4m3fnuz": _Float(4, 3, 8, largest=0x7F, nan=0x80),
    "float8_e5m2": _Float(5, 2, 15, largest=0x7B, nan=0x7E),
    "float8_e5m2fnuz": _Float(5, 2, 16, largest=0x7F, nan=0x80),
    "float8_e8m0fnu": _Float(8, 0, 127, largest=0xFE, nan=0xFF, signed=False),
    "float4_e2m1fn": _Float(2, 1, 1, largest=0x7, nan=None),
    "int4": _Integer(-8, 7),
    "uint4": _Integer(0, 15),
    "int2": _Integer(-2, 1),
    "uint2": _Integer(0, 3),
}

#: The names of the formats.
FORMATS = tuple(_LAYOUTS)

_ROUNDINGS = ("nearest", "up", "down")


def _layout(function: str, format: Any) -> _Float | _Integer:
    if format not in FORMATS:
        raise ValueError(f"{function}: format {format!r}, expected one of {', '.join(FORMATS)}")
    return _LAYOUTS[format]


def _check_tensor(function: str, name: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{function}: {name} is a {type(value).__name__}, expected a tensor")


# ---- Bits to numbers


def decode(bits: Tensor, format: str, dtype: _dtype = float32) -> Tensor:
    """Returns the numbers that the bits represent: exact in float32 and float64, rounded in a
    narrower `dtype`.

    For formats with fewer than 8 bits, only the low bits are used. The result has no gradient.

    Shapes: [..] -> the same shape

    Args:
        bits: uint8, with one number in each element.
        format: One of `FORMATS`.
        dtype: The dtype of the result: a floating-point dtype, or for integer formats any dtype
            except bool.

    Raises:
        ValueError: If the format is unknown.
        TypeError: If `bits` is not uint8, or if `dtype` is not a dtype, is bool, or is an integer
            dtype for a floating-point format.
    """
    layout = _layout("decode", format)
    _check_tensor("decode", "bits", bits)
    if bits.dtype != uint8:
        raise TypeError(f"decode: bits of {bits.dtype}, expected uint8")
    if not isinstance(dtype, _dtype) or not (dtype.is_floating_point or (isinstance(layout, _Integer) and _is_integer(dtype))):
        raise TypeError(f"decode: dtype {dtype}, expected {'floats' if isinstance(layout, _Float) else 'floats or integers'}")
    return _table(layout, bits.device)[bits.int()].to(dtype)


def _is_integer(dtype: _dtype) -> bool:
    return not dtype.is_floating_point and str(dtype).split(".")[-1] != "bool"


def _table(layout: _Float | _Integer, device: Any) -> Tensor:
    """Returns the value of each of the 256 bytes, [256]."""
    numbers = [layout.number(byte % layout.codes) for byte in range(256)]
    return tensor(numbers, dtype=int32 if isinstance(layout, _Integer) else float32, device=device)


# ---- Numbers to bits


def encode(input: Tensor, format: str, saturate: bool = True, rounding: str = "nearest") -> Tensor:
    """Returns the bits of numbers in a format. Each number is rounded once from its own dtype.

    A number that is too large after rounding becomes the largest number (infinities, too). With
    `saturate=False` it becomes NaN, infinity in float8_e5m2, and the low bits in integer formats.
    NaN becomes the NaN of the format, without regard to its sign; in float4_e2m1fn, which has no
    NaN and always saturates, and in integer formats it becomes 0.

    float8_e8m0fnu has no negative numbers, which become NaN, and no zero: 0 and numbers below
    2^-127 become 2^-127, or NaN with `saturate=False`. In float32, 2^-127 is subnormal, and some
    GPUs treat it as 0. The result has no gradient.

    Shapes: [..] -> the same shape, uint8

    Args:
        input: A floating-point tensor; for integer formats any numbers.
        format: One of `FORMATS`.
        saturate: Whether numbers outside the range of the format are clamped to it.
        rounding: "nearest" (ties to even; in float8_e8m0fnu to the greater one), "up" (away from 0)
            or "down" (toward 0).

    Raises:
        ValueError: If the format or the rounding is unknown.
        TypeError: If the input is not a tensor, or is an integer tensor for a floating-point
            format.
    """
    layout = _layout("encode", format)
    _check_tensor("encode", "input", input)
    if rounding not in _ROUNDINGS:
        raise ValueError(f"encode: rounding {rounding!r}, expected one of {', '.join(_ROUNDINGS)}")
    numbers = input.detach()
    if isinstance(layout, _Integer):
        return _encode_integer(numbers, layout, saturate, rounding)
    if not numbers.is_floating_point():
        raise TypeError(f"encode: input of {input.dtype}, expected floats for the format {format}")
    numbers = numbers if numbers.dtype == float64 else numbers.float()
    return _encode_float(numbers, layout, saturate, rounding)


def _encode_float(numbers: Tensor, layout: _Float, saturate: bool, rounding: str) -> Tensor:
    codes = _reached_count(numbers.abs(), _boundaries(layout, rounding, numbers.dtype))
    if saturate or layout.nan is None:
        codes = codes.clamp(max=layout.largest)
    is_nan = numbers.isnan()
    if layout.signed:
        negative = numbers.signbit()
        # The code of a negative zero is that of NaN, which has no sign.
        if layout.nan == layout.sign:
            negative = negative & (codes > 0) & (codes < layout.sign)
        codes = where(negative, codes + layout.sign, codes)
    else:
        is_nan = is_nan | (numbers < (0.0 if saturate else layout.magnitude(0)))
    return where(is_nan, layout.nan or 0, codes).to(uint8)


def _reached_count(numbers: Tensor, boundaries: list[float]) -> Tensor:
    """Returns how many of the boundaries each number has reached, by bisection: exact, and without
    a copy for each boundary.

    Shapes: [..] -> the same shape, int32
    """
    step = 1 << (len(boundaries).bit_length() - 1)
    padding = [math.inf] * (2 * step - 1 - len(boundaries))
    bounds = tensor(boundaries + padding, dtype=numbers.dtype, device=numbers.device)
    counts = zeros_like(numbers, dtype=int32)
    while step:
        counts = where(numbers >= bounds[counts + (step - 1)], counts + step, counts)
        step //= 2
    # Infinity reaches the padding, too.
    return counts.clamp(max=len(boundaries))


def _boundaries(layout: _Float, rounding: str, dtype: _dtype) -> list[float]:
    """Returns the smallest number of a dtype that is rounded to each code except the first, and the
    smallest one that is rounded beyond the largest code.
    """
    bounds = []
    for code in range(layout.largest + 1):
        low, high = layout.magnitude(code), layout.magnitude(code + 1)
        if rounding == "down":
            bounds.append(high)
        elif rounding == "up":
            bounds.append(_next(low, dtype))
        else:
            middle = (low + high) / 2
            # A tie is rounded to the even code, which may be above or below; in unsigned formats to
            # the greater power of two.
            bounds.append(middle if code % 2 or not layout.signed else _next(middle, dtype))
    return bounds if dtype == float64 else [bound if bound < 2.0**128 else math.inf for bound in bounds]


def _next(number: float, dtype: _dtype) -> float:
    """Returns the next greater number in float64 or float32."""
    if dtype == float64:
        return math.nextafter(number, math.inf)
    spacing = 2.0**-149 if number < 2.0**-126 else math.ldexp(1.0, math.frexp(number)[1] - 24)
    return number + spacing


def _encode_integer(numbers: Tensor, layout: _Integer, saturate: bool, rounding: str) -> Tensor:
    if not numbers.is_floating_point():
        numbers = numbers if numbers.dtype == int64 else numbers.int()
        numbers = numbers.clamp(layout.low, layout.high) if saturate else numbers
        return numbers.remainder(layout.codes).to(uint8)
    numbers = _rounded(numbers if numbers.dtype == float64 else numbers.float(), rounding)
    numbers = numbers.clamp(layout.low, layout.high) if saturate else numbers
    numbers = where(numbers.isfinite(), numbers, 0.0)
    # Multiplication by the reciprocal of a power of two is exact, also on devices whose division is
    # not.
    return (numbers - (numbers * (1 / layout.codes)).floor() * layout.codes).to(uint8)


def _rounded(numbers: Tensor, rounding: str) -> Tensor:
    if rounding == "nearest":
        return numbers.round()
    return numbers.trunc() if rounding == "down" else where(numbers < 0, numbers.floor(), numbers.ceil())
