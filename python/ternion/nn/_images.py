"""Functions of images and sequences: padding, convolutions, pools; a part of `ternion.nn.functional`.

All take batches, and a single image or sequence without the axis of the batch.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from .._refusals import name_all
from .._ternion import Tensor, cat, int64, tensor
from .._ternion import _functional as _native

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d", "avg_pool1d", "avg_pool2d", "conv1d", "conv2d",
    "conv_transpose1d", "conv_transpose2d", "fold", "interpolate", "max_pool1d", "max_pool2d", "pad", "pixel_shuffle", "pixel_unshuffle",
    "unfold", "upsample",
]  # fmt: skip

_Whole = "int | Sequence[int]"


def _input(op: str, input: Any, axes: int) -> Tensor:
    """The input with the axis of the batch."""
    if not isinstance(input, Tensor):
        raise TypeError(f"{op}: input of type {type(input).__name__}, expected a tensor: ternion.tensor() makes one of numbers and arrays")
    if input.ndim not in (axes - 1, axes):
        raise ValueError(f"{op}: an input of shape {tuple(input.shape)}, expected {axes} axes, or {axes - 1} without a batch")
    return input if input.ndim == axes else input.unsqueeze(0)


def _numbers(op: str, name: str, value: Any, count: int, least: int = 0) -> tuple[int, ...]:
    """A whole number for all of `count` axes, or one for each."""
    if value.__class__ is int and value >= least:
        return (value,) * count
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(values) not in (1, count):
        raise ValueError(f"{op}: {name} {value!r}, expected one number" + (f" or {count}" if count > 1 else ""))
    try:
        values = tuple(operator.index(number) for number in values)
    except TypeError:
        raise TypeError(f"{op}: {name} {value!r}, expected whole numbers") from None
    if min(values) < least:
        raise ValueError(f"{op}: {name} {value!r}, expected at least {least}")
    return values * count if len(values) == 1 else values


# ---- Padding


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Elements around those that are there: pairs of amounts (before, behind) for the last axis, the one before it, and so on.

    Shapes: [.., size] -> [.., size + before + behind]

    Args:
        mode: "constant" (of `value`, 0 by default; negative amounts cut off), "reflect" (without the outermost element), "replicate" (the outermost element) or "circular".

    Raises:
        ValueError: an odd number of amounts, more than axes, another mode, or more than there is to reflect or to go around.
    """
    amounts = list(pad)
    if mode == "constant":
        return _native.pad(input, amounts, "constant", 0.0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise ValueError(f"pad: mode {mode!r}, expected \"constant\", \"reflect\", \"replicate\" or \"circular\"")
    if len(amounts) % 2 or len(amounts) // 2 > input.ndim:
        raise ValueError(f"pad: {len(amounts)} amounts for {input.ndim} axes")
    for number in range(len(amounts) // 2):
        before, behind = amounts[2 * number : 2 * number + 2]
        if before or behind:
            input = _around(input, input.ndim - 1 - number, before, behind, mode)
    return input if any(amounts) else input.clone()


def _around(input, axis, before, behind, mode):
    size = input.shape[axis]
    most = {"reflect": size - 1, "circular": size}.get(mode)
    if min(before, behind) < 0 or (most is not None and max(before, behind) > most) or size == 0:
        limit = "" if most is None else f" to {most}"
        raise ValueError(f"pad: ({before}, {behind}) by {mode!r} around axis {axis} of {size}, expected 0{limit or ' or more'}")
    places = range(-before, size + behind)
    if mode == "replicate":
        chosen = [min(max(place, 0), size - 1) for place in places]
    elif mode == "circular":
        chosen = [place % size for place in places]
    else:
        chosen = [size - 1 - abs(size - 1 - abs(place)) for place in places]
    return input.index_select(axis, tensor(chosen, dtype=int64, device=input.device))


def _same(op, weight, stride, dilation):
    """Amounts (before, behind) of each axis, the last first, so that there are as many windows as places."""
    if any(step != 1 for step in stride):
        raise ValueError(f"{op}: padding \"same\" with stride {stride}, expected a stride of 1")
    totals = [step * (size - 1) for step, size in zip(dilation, weight.shape[2:])]
    return [side for total in reversed(totals) for side in (total // 2, total - total // 2)]


def _padding(op, input, weight, stride, padding, dilation):
    """The input and the padding that is left for the convolution, of "same", "valid" or numbers."""
    if not isinstance(padding, str):
        return input, _numbers(op, "padding", padding, len(stride))
    if padding == "valid":
        return input, (0,) * len(stride)
    if padding != "same":
        raise ValueError(f"{op}: padding {padding!r}, expected numbers, \"same\" or \"valid\"")
    sides = _same(op, weight, stride, dilation)
    if sides[::2] == sides[1::2]:
        return input, tuple(reversed(sides[::2]))
    return _native.pad(input, sides), (0,) * len(stride)


# ---- Convolutions


def _convolved(op, native, axes, input, weight, bias, stride, padding, dilation, groups):
    batch = _input(op, input, axes + 2)
    if not isinstance(weight, Tensor) or weight.ndim != axes + 2:
        told = f"shape {tuple(weight.shape)}" if isinstance(weight, Tensor) else f"type {type(weight).__name__}"
        raise (ValueError if isinstance(weight, Tensor) else TypeError)(f"{op}: weight of {told}, expected a tensor of {axes + 2} axes")
    stride, dilation = _numbers(op, "stride", stride, axes, 1), _numbers(op, "dilation", dilation, axes, 1)
    (groups,) = _numbers(op, "groups", groups, 1, 1)
    batch, padding = _padding(op, batch, weight, stride, padding, dilation)
    output = native(batch, weight, bias, stride, padding, dilation, groups)
    return output if input.ndim == axes + 2 else output.squeeze(0)


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Each window of sequences, weighted.

    Shapes: [batch, channels, length], weight [out, channels / groups, kernel] -> [batch, out, windows]; the batch may be left out

    Args:
        padding: zeros on both sides; or "valid" (none) or "same" (as many windows as places, of stride 1).

    Raises:
        ValueError: another number of axes, channels that do not fit, a window larger than the input, a stride or dilation below 1, another padding.
        TypeError: no tensors, whole numbers as input, or settings that are none.
    """
    return _convolved("conv1d", _native.conv1d, 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Each window of images, weighted.

    Shapes: [batch, channels, height, width], weight [out, channels / groups, kernel height, kernel width] -> [batch, out, rows, columns]; the batch may be
    left out

    Args:
        padding: zeros on all sides; or "valid" (none) or "same" (as many windows as places, of stride 1).

    Raises:
        ValueError: another number of axes, channels that do not fit, a window larger than the input, a stride or dilation below 1, another padding.
        TypeError: no tensors, whole numbers as input, or settings that are none.
    """
    return _convolved("conv2d", _native.conv2d, 2, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1,
) -> Tensor:  # fmt: skip
    """What a convolution with the same numbers makes of its gradient.

    Shapes: [batch, channels, height, width], weight [channels, out / groups, kernel height, kernel width] -> [batch, out, rows, columns]; the batch may be
    left out

    Raises:
        ValueError: another number of axes, channels that do not fit, an output padding that is neither below the stride nor the dilation.
        TypeError: no tensors, or whole numbers as input.
    """
    op = "conv_transpose2d"
    batch = _input(op, input, 4)
    stride, dilation = _numbers(op, "stride", stride, 2, 1), _numbers(op, "dilation", dilation, 2, 1)
    padding, output_padding = _numbers(op, "padding", padding, 2), _numbers(op, "output_padding", output_padding, 2)
    output = _native.conv_transpose2d(batch, weight, bias, stride, padding, output_padding, groups, dilation)
    return output if input.ndim == 4 else output.squeeze(0)


def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1,
) -> Tensor:  # fmt: skip
    """What a convolution of sequences with the same numbers makes of its gradient.

    Shapes: [batch, channels, length], weight [channels, out / groups, kernel] -> [batch, out, places]; the batch may be left out

    Raises:
        ValueError: another number of axes, channels that do not fit, an output padding that is neither below the stride nor the dilation.
        TypeError: no tensors, or whole numbers as input.
    """
    op = "conv_transpose1d"
    batch = _input(op, input, 3).unsqueeze(2)
    (step,), (spread,) = _numbers(op, "stride", stride, 1, 1), _numbers(op, "dilation", dilation, 1, 1)
    (less,), (more,) = _numbers(op, "padding", padding, 1), _numbers(op, "output_padding", output_padding, 1)
    output = _native.conv_transpose2d(batch, weight.unsqueeze(2), bias, (1, step), (0, less), (0, more), groups, (1, spread)).squeeze(2)
    return output if input.ndim == 3 else output.squeeze(0)


# ---- Pools


def _of_batch(native, input, axes):
    """A native function of batches, for a single image, too."""
    output = native(input.unsqueeze(0) if input.ndim == axes - 1 else input)
    if input.ndim == axes:
        return output
    return tuple(part.squeeze(0) for part in output) if isinstance(output, tuple) else output.squeeze(0)


def max_pool2d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window of images; with `return_indices` also where it is in its plane (int64).

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch may be left out

    Raises:
        ValueError: another number of axes, a window larger than the input, a padding of more than half a window, a size below 1.
        TypeError: no tensor, or whole numbers as input.
    """
    op = "max_pool2d"
    _input(op, input, 4)
    kernel, padding = _numbers(op, "kernel_size", kernel_size, 2, 1), _numbers(op, "padding", padding, 2)
    steps = _numbers(op, "stride", stride, 2, 1) if stride not in (None, [], ()) else kernel
    dilation = _numbers(op, "dilation", dilation, 2, 1)
    return _of_batch(lambda batch: _native.max_pool2d(batch, kernel, steps, padding, dilation, ceil_mode, return_indices), input, 4)


def max_pool1d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window of sequences; with `return_indices` also where it is (int64).

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch may be left out

    Raises:
        ValueError: another number of axes, a window larger than the input, a padding of more than half a window, a size below 1.
        TypeError: no tensor, or whole numbers as input.
    """
    op = "max_pool1d"
    _input(op, input, 3)
    (kernel,), (sides,) = _numbers(op, "kernel_size", kernel_size, 1, 1), _numbers(op, "padding", padding, 1)
    (step,) = _numbers(op, "stride", stride, 1, 1) if stride not in (None, [], ()) else (kernel,)
    (spread,) = _numbers(op, "dilation", dilation, 1, 1)
    output = max_pool2d(input.unsqueeze(-2), (1, kernel), (1, step), (0, sides), (1, spread), ceil_mode, return_indices)
    return tuple(part.squeeze(-2) for part in output) if return_indices else output.squeeze(-2)


def avg_pool2d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window of images.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch may be left out

    Raises:
        ValueError: a `divisor_override`, which PyTorch alone has.
        TypeError: no tensor, or whole numbers as input.
    """
    op = "avg_pool2d"
    if divisor_override is not None:
        raise ValueError(f"{op}: divisor_override {divisor_override}, expected None: PyTorch alone has it")
    _input(op, input, 4)
    kernel, padding = _numbers(op, "kernel_size", kernel_size, 2, 1), _numbers(op, "padding", padding, 2)
    steps = _numbers(op, "stride", stride, 2, 1) if stride not in (None, [], ()) else kernel
    return _of_batch(lambda batch: _native.avg_pool2d(batch, kernel, steps, padding, ceil_mode, count_include_pad), input, 4)


def avg_pool1d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of each window of sequences.

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch may be left out

    Raises:
        ValueError: another number of axes, a window larger than the input, a padding of more than half a window, a size below 1.
        TypeError: no tensor, or whole numbers as input.
    """
    op = "avg_pool1d"
    _input(op, input, 3)
    (kernel,), (sides,) = _numbers(op, "kernel_size", kernel_size, 1, 1), _numbers(op, "padding", padding, 1)
    (step,) = _numbers(op, "stride", stride, 1, 1) if stride not in (None, [], ()) else (kernel,)
    return avg_pool2d(input.unsqueeze(-2), (1, kernel), (1, step), (0, sides), ceil_mode, count_include_pad).squeeze(-2)


def _sizes(op, output_size, sizes):
    """The sizes of an adaptive pool: None leaves one as it is."""
    wanted = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * len(sizes)
    if len(wanted) != len(sizes):
        raise ValueError(f"{op}: output_size {output_size!r}, expected one number or {len(sizes)}")
    found = [size if want is None else _numbers(op, "output_size", want, 1, 1)[0] for want, size in zip(wanted, sizes)]
    if max(found) > _MOST_WINDOWS or math.prod(found) > _MOST_WINDOWS**2 >> 14:
        raise MemoryError(f"{op}: output_size {output_size!r}, expected at most {_MOST_WINDOWS} along an axis, {_MOST_WINDOWS**2 >> 14} in all")
    return found


_MOST_WINDOWS = 2**20


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that divide images into `output_size` rows and columns; None leaves a size as it is. The batch may be left out.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Raises:
        ValueError: another number of axes, a size below 1, more than 2 sizes.
        TypeError: no tensor, or a size that is no whole number.
    """
    _input("adaptive_avg_pool2d", input, 4)
    sizes = _sizes("adaptive_avg_pool2d", output_size, input.shape[-2:])
    return _of_batch(lambda batch: _native.adaptive_avg_pool2d(batch, sizes), input, 4)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that divide sequences into `output_size` parts. The batch may be left out.

    Shapes: [batch, channels, length] -> [batch, channels, output_size]

    Raises:
        ValueError: another number of axes, a size below 1.
        TypeError: no tensor, or a size that is no whole number.
    """
    _input("adaptive_avg_pool1d", input, 3)
    (size,) = _sizes("adaptive_avg_pool1d", output_size, input.shape[-1:])
    return adaptive_avg_pool2d(input.unsqueeze(-2), (1, size)).squeeze(-2)


def adaptive_max_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Largest elements of windows that divide images into `output_size` rows and columns; None leaves a size as it is. The batch may be left out.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Raises:
        ValueError: another number of axes, a size below 1, more than 2 sizes.
        TypeError: no tensor, or a size that is no whole number.
    """
    _input("adaptive_max_pool2d", input, 4)
    for axis, size in zip((-2, -1), _sizes("adaptive_max_pool2d", output_size, input.shape[-2:])):
        input = _largest(input, axis, size)
    return input


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Largest elements of windows that divide sequences into `output_size` parts. The batch may be left out.

    Shapes: [batch, channels, length] -> [batch, channels, output_size]

    Raises:
        ValueError: another number of axes, a size below 1.
        TypeError: no tensor, or a size that is no whole number.
    """
    _input("adaptive_max_pool1d", input, 3)
    (size,) = _sizes("adaptive_max_pool1d", output_size, input.shape[-1:])
    return _largest(input, -1, size)


def _largest(input, axis, parts):
    """The largest element of each window along an axis: window i is from floor(i size / parts) to ceil((i + 1) size / parts)."""
    size = input.shape[axis]
    windows = [(place * size // parts, -(-(place + 1) * size // parts)) for place in range(parts)]
    return cat([input.narrow(axis, start, end - start).max(axis, keepdim=True).values for start, end in windows], axis)


# ---- Patches, other sizes


def unfold(
    input: Tensor, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:  # fmt: skip
    """The patches that a window shows, as the columns of a matrix for each image.

    Shapes: [batch, channels, height, width] -> [batch, channels * kernel height * kernel width, windows]; the batch may be left out

    Raises:
        ValueError: another number of axes, a window larger than the images.
        TypeError: no tensor.
    """
    _input("unfold", input, 4)
    return _of_batch(lambda batch: _native.unfold(batch, kernel_size, dilation, padding, stride), input, 4)


def fold(
    input: Tensor, output_size: int | Sequence[int], kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0, stride: int | Sequence[int] = 1,
) -> Tensor:  # fmt: skip
    """Patches added up to images: what `unfold` makes of its gradient.

    Shapes: [batch, channels * kernel height * kernel width, windows] -> [batch, channels, output height, output width]; the batch may be left out

    Raises:
        ValueError: another number of axes, rows that the window does not divide, or other windows than the output has.
    """
    _input("fold", input, 3)
    return _of_batch(lambda batch: _native.fold(batch, output_size, kernel_size, dilation, padding, stride), input, 3)


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    """Images or sequences of another size.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; [batch, channels, length] -> [batch, channels, places]

    Args:
        size: rows and columns, or one number for both.
        scale_factor: instead of a size, what rows and columns are multiplied by, rounded down.
        mode: "nearest", "nearest-exact" (by the centres of the elements, as other programs do), "bilinear" (of images), "linear" (of sequences) or "area".
        align_corners: of "bilinear" and "linear": whether the elements in the corners stay where they are, rather than the corners of the images.
        recompute_scale_factor: whether factors only tell the size, and places follow from that.

    Raises:
        ValueError: both a size and a factor or neither, another mode, another number of axes, `antialias`.
    """
    if antialias:
        raise ValueError("interpolate: antialias=True, expected False: PyTorch alone has it")
    _check_result(input, size, scale_factor)
    if mode == "area":
        return _of_area(input, size, scale_factor)
    if mode == "nearest-exact":
        return _of_centres(input, size, scale_factor, recompute_scale_factor)
    if input.ndim != 3:
        return _native.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor)
    if mode not in ("nearest", "linear"):
        raise ValueError(f"interpolate: mode {mode!r} of sequences, expected \"nearest\", \"nearest-exact\", \"linear\" or \"area\"")
    (length,), (factor,) = (tuple(value) if isinstance(value, (list, tuple)) else (value,) for value in (size, scale_factor))
    options = (None if length is None else (1, length), None if factor is None else (1.0, factor))
    native = "bilinear" if mode == "linear" else mode
    return _native.interpolate(input.unsqueeze(2), *options, native, align_corners, recompute_scale_factor).squeeze(2)


# As much as a tensor of float32 that no device has the memory for, and less than sizes that do not fit 64 bits.
_MOST_ELEMENTS = 2**44


def _check_result(input, size, scale_factor):
    """That the result is no larger than any memory: axes are made one after the other, each of which may be possible."""
    if not isinstance(input, Tensor) or input.ndim not in (3, 4):
        return
    told = scale_factor if size is None else size
    several = told if isinstance(told, (list, tuple)) else (told,) * (input.ndim - 2)
    if len(several) != input.ndim - 2 or not all(isinstance(each, (int, float)) for each in several):
        return
    new = several if size is not None else [length * factor for length, factor in zip(input.shape[2:], several)]
    if math.prod(input.shape[:2]) * math.prod(new) > _MOST_ELEMENTS:
        sizes = ", ".join(f"{each:.0f}" for each in (*input.shape[:2], *new))
        raise MemoryError(f"interpolate: a result of shape [{sizes}] of a tensor of shape {list(input.shape)}: more than memory holds")


def _new_sizes(input, size, scale_factor):
    """The new size of each axis, and the factors if they were given."""
    sizes = input.shape[2:]
    if (size is None) == (scale_factor is None) or len(sizes) not in (1, 2):
        raise ValueError(f"interpolate: size {size}, scale_factor {scale_factor}, shape {tuple(input.shape)}, expected either of the two, and 3 or 4 axes")
    if size is not None:
        return list(size) if isinstance(size, (list, tuple)) else [size] * len(sizes), None
    factors = list(scale_factor) if isinstance(scale_factor, (list, tuple)) else [scale_factor] * len(sizes)
    return [int(length * factor) for length, factor in zip(sizes, factors)], factors


def _of_centres(input, size, scale_factor, recompute_scale_factor):
    """Of each element the one that lies over its centre."""
    size, factors = _new_sizes(input, size, scale_factor)
    for axis, wanted in enumerate(size):
        length = input.shape[2 + axis]
        scale = length / wanted if factors is None or recompute_scale_factor else 1 / factors[axis]
        places = [min(int((place + 0.5) * scale), length - 1) for place in range(wanted)]
        input = input.index_select(2 + axis, tensor(places, dtype=int64, device=input.device))
    return input


def _of_area(input, size, scale_factor):
    sizes = input.shape[2:]
    size, _ = _new_sizes(input, size, scale_factor)
    return adaptive_avg_pool1d(input, size) if len(sizes) == 1 else adaptive_avg_pool2d(input, size)


def upsample(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None) -> Tensor:
    """`interpolate`.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Raises:
        ValueError: as `interpolate`.
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels as pixels (Shi et al. 2016): [.., channels * factor^2, height, width] -> [.., channels, height * factor, width * factor].

    Raises:
        ValueError: channels that the square of the factor does not divide.
    """
    *outer, channels, height, width = input.shape
    square = upscale_factor * upscale_factor
    if upscale_factor < 1 or channels % square:
        raise ValueError(f"pixel_shuffle: {channels} channels by a factor of {upscale_factor}, expected a multiple of its square")
    parts = input.reshape(math.prod(outer), channels // square, upscale_factor, upscale_factor, height, width).permute(0, 1, 4, 2, 5, 3)
    return parts.clone().reshape(*outer, channels // square, height * upscale_factor, width * upscale_factor)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Pixels as channels, what `pixel_shuffle` takes back: [.., channels, height, width] -> [.., channels * factor^2, height / factor, width / factor].

    Raises:
        ValueError: a height or width that the factor does not divide.
    """
    *outer, channels, height, width = input.shape
    by = downscale_factor
    if by < 1 or height % by or width % by:
        raise ValueError(f"pixel_unshuffle: images of {height} x {width} by a factor of {by}, expected multiples of it")
    parts = input.reshape(math.prod(outer), channels, height // by, by, width // by, by).permute(0, 1, 3, 5, 2, 4)
    return parts.clone().reshape(*outer, channels * by * by, height // by, width // by)


name_all(globals())
