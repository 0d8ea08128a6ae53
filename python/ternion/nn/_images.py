"""Functions of sequences, images and volumes: padding, convolutions, patches and resizing; a part
of `ternion.nn.functional`.

All of them accept batches, and also a single image or sequence without the batch axis.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from .._error_messages import name_all
from .._ternion import Tensor, _number, float32
from .._ternion import bool as boolean
from .._ternion import _functional as _native

__all__ = [
    "affine_grid", "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "fold", "grid_sample",
    "interpolate", "local_response_norm", "pad", "pixel_shuffle", "pixel_unshuffle", "unfold", "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip


def _batched_input(op: str, input: Any, axes: int) -> Tensor:
    """Returns the input with a batch axis."""
    if not isinstance(input, Tensor):
        raise TypeError(f"{op}: input of type {type(input).__name__}, expected a tensor: ternion.tensor() makes one of numbers and arrays")
    if input.ndim not in (axes - 1, axes):
        raise ValueError(f"{op}: an input of shape {tuple(input.shape)}, expected {axes} axes, or {axes - 1} without a batch")
    return input if input.ndim == axes else input.unsqueeze(0)


def _int_tuple(op: str, name: str, value: Any, count: int, minimum: int = 0) -> tuple[int, ...]:
    """Returns `count` integers, from one integer for all axes or from one per axis."""
    if value.__class__ is int and value >= minimum:
        return (value,) * count
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(values) not in (1, count):
        raise ValueError(f"{op}: {name} {value!r}, expected one number" + (f" or {count}" if count > 1 else ""))
    try:
        values = tuple(operator.index(number) for number in values)
    except TypeError:
        raise TypeError(f"{op}: {name} {value!r}, expected integers") from None
    if min(values) < minimum:
        raise ValueError(f"{op}: {name} {value!r}, expected at least {minimum}")
    return values * count if len(values) == 1 else values


# ---- Padding


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pads a tensor. `pad` lists pairs of amounts (before, after), for the last axis first, then
    for the one before it, and so on.

    Shapes: [.., size] -> [.., size + before + after]

    Args:
        mode: "constant" (filled with `value`, 0 by default), "reflect"
            (excluding the edge element), "replicate" (repeating the edge element) or "circular".
            Negative amounts crop. All modes except "constant" pad one to three axes that follow a
            channel axis and an optional batch axis.

    Raises:
        ValueError: If the number of amounts is odd or larger than two per axis, the mode is
            unknown, an amount is too large to reflect or wrap around, or `value` is given for
            another mode than "constant".
        TypeError: If the input of a mode that reflects or replicates is a bool tensor.
    """
    amounts = list(pad)
    if mode == "constant":
        return _native.pad(input, amounts, "constant", 0.0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise ValueError(f"pad: mode {mode!r}, expected \"constant\", \"reflect\", \"replicate\" or \"circular\"")
    if value is not None:
        raise ValueError(f"pad: value {value} for mode {mode!r}, expected None")
    if not isinstance(input, Tensor):
        raise TypeError(f"pad: input of type {type(input).__name__}, expected a tensor: ternion.tensor() makes one of numbers and arrays")
    axes = len(amounts) // 2
    if len(amounts) % 2 or input.ndim - axes not in (1, 2) or not 1 <= axes <= 3:
        raise ValueError(f"pad: {len(amounts)} amounts by {mode!r} for {input.ndim} axes, expected 2 for each axis behind channels, which may have a batch before them")
    if mode != "circular":
        if input.dtype == boolean:
            raise TypeError(f"pad: a bool input, expected numbers to {mode}")
        if 0 in input.shape[input.ndim - axes - 1 :]:
            raise ValueError(f"pad: an input of shape {tuple(input.shape)}, expected elements in all axes but the batch")
    sides = [[0, 0]] * (input.ndim - axes) + [_integers(amounts[2 * axis : 2 * axis + 2]) for axis in reversed(range(axes))]
    return _native._pad_around(input, sides, mode)


def _integers(sides):
    try:
        return [operator.index(side) for side in sides]
    except TypeError:
        raise TypeError(f"pad: amounts {sides}, expected integers") from None


def _same_padding(op, weight, stride, dilation):
    """Returns padding amounts (before, after) per axis, last axis first, for which the output has
    the size of the input.
    """
    if any(step != 1 for step in stride):
        raise ValueError(f"{op}: padding \"same\" with stride {stride}, expected a stride of 1")
    totals = [step * (size - 1) for step, size in zip(dilation, weight.shape[2:])]
    return [side for total in reversed(totals) for side in (total // 2, total - total // 2)]


def _padding(op, input, weight, stride, padding, dilation):
    """Resolves `padding` ("same", "valid" or numbers) to the input, padded if necessary, and the
    padding that is left to the convolution.
    """
    if not isinstance(padding, str):
        return input, _int_tuple(op, "padding", padding, len(stride))
    if padding == "valid":
        return input, (0,) * len(stride)
    if padding != "same":
        raise ValueError(f"{op}: padding {padding!r}, expected numbers, \"same\" or \"valid\"")
    sides = _same_padding(op, weight, stride, dilation)
    if sides[::2] == sides[1::2]:
        return input, tuple(reversed(sides[::2]))
    return _native.pad(input, sides), (0,) * len(stride)


# ---- Convolutions


def _convolve(op, native, axes, input, weight, bias, stride, padding, dilation, groups):
    batch = _batched_input(op, input, axes + 2)
    if not isinstance(weight, Tensor) or weight.ndim != axes + 2:
        actual = f"shape {tuple(weight.shape)}" if isinstance(weight, Tensor) else f"type {type(weight).__name__}"
        raise (ValueError if isinstance(weight, Tensor) else TypeError)(f"{op}: weight of {actual}, expected a tensor of {axes + 2} axes")
    stride, dilation = _int_tuple(op, "stride", stride, axes, 1), _int_tuple(op, "dilation", dilation, axes, 1)
    (groups,) = _int_tuple(op, "groups", groups, 1, 1)
    batch, padding = _padding(op, batch, weight, stride, padding, dilation)
    output = native(batch, weight, bias, stride, padding, dilation, groups)
    return output if input.ndim == axes + 2 else output.squeeze(0)


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Applies a 1D convolution to sequences.

    Shapes: [batch, channels, length], weight [out, channels / groups, kernel] ->
    [batch, out, windows]; the batch axis is optional

    Args:
        padding: zero padding on both sides, or "valid" (no padding) or "same" (an output of the
            input's length; requires stride 1).

    Raises:
        ValueError: If the number of axes, the channels or `padding` is invalid, a window is larger
            than the input, or a stride or dilation is below 1.
        TypeError: If an argument is not a tensor, the input has an integer dtype, or a setting is
            not an integer.
    """
    return _convolve("conv1d", _native.conv1d, 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Applies a 2D convolution to images.

    Shapes: [batch, channels, height, width], weight [out, channels / groups, kernel height, kernel
    width] -> [batch, out, rows, columns]; the batch axis is optional

    Args:
        padding: zero padding on all sides, or "valid" (no padding) or "same" (an output of the
            input's size; requires stride 1).

    Raises:
        ValueError: If the number of axes, the channels or `padding` is invalid, a window is larger
            than the input, or a stride or dilation is below 1.
        TypeError: If an argument is not a tensor, the input has an integer dtype, or a setting is
            not an integer.
    """
    return _convolve("conv2d", _native.conv2d, 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Applies a 3D convolution to volumes.

    Shapes: [batch, channels, depth, height, width], weight [out, channels / groups, *kernel] ->
    [batch, out, planes, rows, columns]; the batch axis is optional

    Args:
        padding: zero padding on all sides, or "valid" (no padding) or "same" (an output of the
            input's size; requires stride 1).

    Raises:
        ValueError: If the number of axes, the channels or `padding` is invalid, a window is larger
            than the input, or a stride or dilation is below 1.
        TypeError: If an argument is not a tensor, the input is a bool tensor, or a setting is not
            an integer.
    """
    return _convolve("conv3d", _native._conv3d, 3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1,
) -> Tensor:  # fmt: skip
    """Applies a 2D transposed convolution: the gradient of `conv2d` with respect to its input.

    Shapes: [batch, channels, height, width], weight [channels, out / groups, kernel height, kernel
    width] -> [batch, out, rows, columns]; the batch axis is optional

    Raises:
        ValueError: If the number of axes or the channels are invalid, or an output padding is below
            neither the stride nor the dilation.
        TypeError: If an argument is not a tensor, or the input has an integer dtype.
    """
    op = "conv_transpose2d"
    batch = _batched_input(op, input, 4)
    stride, dilation = _int_tuple(op, "stride", stride, 2, 1), _int_tuple(op, "dilation", dilation, 2, 1)
    padding, output_padding = _int_tuple(op, "padding", padding, 2), _int_tuple(op, "output_padding", output_padding, 2)
    output = _native.conv_transpose2d(batch, weight, bias, stride, padding, output_padding, groups, dilation)
    return output if input.ndim == 4 else output.squeeze(0)


def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1,
) -> Tensor:  # fmt: skip
    """Applies a 1D transposed convolution: the gradient of `conv1d` with respect to its input.

    Shapes: [batch, channels, length], weight [channels, out / groups, kernel] ->
    [batch, out, output length]; the batch axis is optional

    Raises:
        ValueError: If the number of axes or the channels are invalid, or an output padding is below
            neither the stride nor the dilation.
        TypeError: If an argument is not a tensor, or the input has an integer dtype.
    """
    return _convolve_transposed("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1,
) -> Tensor:  # fmt: skip
    """Applies a 3D transposed convolution: the gradient of `conv3d` with respect to its input.

    Shapes: [batch, channels, depth, height, width], weight [channels, out / groups, *kernel] ->
    [batch, out, planes, rows, columns]; the batch axis is optional

    Raises:
        ValueError: If the number of axes or the channels are invalid, or an output padding is below
            neither the stride nor the dilation.
        TypeError: If an argument is not a tensor, or the input is a bool tensor.
    """
    return _convolve_transposed("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _convolve_transposed(op, axes, input, weight, bias, stride, padding, output_padding, groups, dilation):
    batch = _batched_input(op, input, axes + 2)
    if not isinstance(weight, Tensor) or weight.ndim != axes + 2:
        actual = f"shape {tuple(weight.shape)}" if isinstance(weight, Tensor) else f"type {type(weight).__name__}"
        raise (ValueError if isinstance(weight, Tensor) else TypeError)(f"{op}: weight of {actual}, expected a tensor of {axes + 2} axes")
    stride, dilation = _int_tuple(op, "stride", stride, axes, 1), _int_tuple(op, "dilation", dilation, axes, 1)
    padding, extra = _int_tuple(op, "padding", padding, axes), _int_tuple(op, "output_padding", output_padding, axes)
    (groups,) = _int_tuple(op, "groups", groups, 1, 1)
    output = _native._conv_transpose(batch, weight, bias, stride, padding, extra, groups, dilation)
    return output if input.ndim == axes + 2 else output.squeeze(0)


def _with_batch_axis(native, input, axes):
    """Calls a native function of batches; adds and removes the batch axis for a single image."""
    output = native(input.unsqueeze(0) if input.ndim == axes - 1 else input)
    if input.ndim == axes:
        return output
    return tuple(part.squeeze(0) for part in output) if isinstance(output, tuple) else output.squeeze(0)


# ---- Patches, other sizes


def unfold(
    input: Tensor, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:  # fmt: skip
    """Extracts the patches of a sliding window as the columns of one matrix per image.

    Shapes: [batch, channels, height, width] -> [batch, channels * kernel height * kernel width,
    windows]; the batch axis is optional

    Raises:
        ValueError: If the number of axes is invalid, or a window is larger than the images.
        TypeError: If the input is not a tensor.
    """
    _batched_input("unfold", input, 4)
    return _with_batch_axis(lambda batch: _native.unfold(batch, kernel_size, dilation, padding, stride), input, 4)


def fold(
    input: Tensor, output_size: int | Sequence[int], kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0, stride: int | Sequence[int] = 1,
) -> Tensor:  # fmt: skip
    """Sums patches into images: the gradient of `unfold` with respect to its input.

    Shapes: [batch, channels * kernel height * kernel width, windows] ->
    [batch, channels, output height, output width]; the batch axis is optional

    Raises:
        ValueError: If the number of axes is invalid, the rows are not a multiple of the window
            size, or the number of windows differs from that of the output.
    """
    _batched_input("fold", input, 3)
    if input.dtype == boolean:
        # True where any patch is true: the sum of bools is their logical or.
        return fold(input.to(float32), output_size, kernel_size, dilation, padding, stride) != 0
    return _with_batch_axis(lambda batch: _native.fold(batch, output_size, kernel_size, dilation, padding, stride), input, 3)


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    """Resizes sequences, images or volumes.

    Shapes: [batch, channels, ..] -> the same with other sizes of the last one to three axes

    Args:
        size: the output size, one number for all axes or one per axis.
        scale_factor: the factor of the sizes, instead of `size`. Output sizes are rounded down.
        mode: "nearest", "nearest-exact" (uses element centers, as other programs do), "area",
            "linear" for sequences, "bilinear" or "bicubic" for images, "trilinear" for volumes.
        align_corners: for "linear", "bilinear", "bicubic" and "trilinear": whether the centers of
            the corner elements of input and output are aligned, rather than the outer corners of
            the images.
        recompute_scale_factor: whether `scale_factor` only determines the output size, from which
            the sampling positions are then computed.

    Raises:
        ValueError: If not exactly one of `size` and `scale_factor` is given, the mode or the number
            of axes is invalid, the input or the result is empty, or `antialias` is True.
        TypeError: If the input is not a tensor, a size is not an integer, or the input has an
            integer dtype in a mode that interpolates.
        MemoryError: If the result is larger than any memory.
    """
    op = "interpolate"
    if antialias:
        raise ValueError(f"{op}: antialias=True, expected False: only PyTorch has it")
    if not isinstance(input, Tensor):
        raise TypeError(f"{op}: input of type {type(input).__name__}, expected a tensor: ternion.tensor() makes one of numbers and arrays")
    if not isinstance(mode, str):
        raise TypeError(f"{op}: expected a str, got {type(mode).__name__}")
    if mode not in _MODES or input.ndim - 2 not in _MODES[mode]:
        known = ", ".join(f'"{name}"' for name, axes in _MODES.items() if input.ndim - 2 in axes) or "3 to 5 axes"
        raise ValueError(f"{op}: mode {mode!r} of an input of {input.ndim} axes, expected {known}")
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ValueError(f"{op}: align_corners {align_corners} of mode {mode!r}, expected None")
    if (size is None) == (scale_factor is None):
        raise ValueError(f"{op}: size {size}, scale_factor {scale_factor}, expected either of the two")
    if size is not None and recompute_scale_factor:
        raise ValueError(f"{op}: recompute_scale_factor of a size, expected a scale_factor")
    size, factors = _new_sizes(input, size, scale_factor, bool(recompute_scale_factor))
    _check_result(input, size, factors)
    return _native._interpolate(input, size, factors, mode, bool(align_corners))


# The numbers of spatial axes that each mode supports.
_MODES = {
    "nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "area": (1, 2, 3), "linear": (1,), "bilinear": (2,), "bicubic": (2,), "trilinear": (3,),
}  # fmt: skip


def _new_sizes(input, size, scale_factor, recompute):
    """Returns the new size of each axis, or None, and the scale factors, or None."""
    sizes = input.shape[2:]
    if size is not None:
        if isinstance(size, (list, tuple)) and len(size) != len(sizes):
            raise ValueError(f"interpolate: size {size}, expected one number or {len(sizes)}")
        return list(_int_tuple("interpolate", "size", size, len(sizes))), None
    factors = list(scale_factor) if isinstance(scale_factor, (list, tuple)) else [scale_factor] * len(sizes)
    if len(factors) != len(sizes):
        raise ValueError(f"interpolate: scale_factor {scale_factor}, expected one number or {len(sizes)}")
    if not all(isinstance(factor, (int, float)) for factor in factors):
        raise TypeError(f"interpolate: scale_factor {scale_factor}, expected numbers")
    factors = [_number(factor) for factor in factors]
    if not recompute:
        return None, factors
    if not all(math.isfinite(factor) and factor > 0 for factor in factors):
        raise ValueError(f"interpolate: scale_factor {scale_factor}, expected finite numbers above 0")
    return [int(length * factor) for length, factor in zip(sizes, factors)], None


# Elements of a float32 tensor that exceeds the memory of every device. Sizes below this limit fit
# in 64 bits.
_MAX_ELEMENTS = 2**44


def _check_result(input, size, factors):
    """Raises MemoryError if the result is larger than any device memory."""
    new = size if factors is None else [length * factor for length, factor in zip(input.shape[2:], factors)]
    if math.prod(input.shape[:2]) * math.prod(new) > _MAX_ELEMENTS:
        sizes = ", ".join(f"{each:.0f}" for each in (*input.shape[:2], *new))
        raise MemoryError(f"interpolate: a result of shape [{sizes}] of a tensor of shape {list(input.shape)}: more than memory holds")


def upsample(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None) -> Tensor:
    """Alias of `interpolate`.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Raises:
        ValueError: Same as `interpolate`.
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Resizes by nearest-neighbor interpolation; see `interpolate`.

    Shapes: [batch, channels, ..] -> the same with other sizes of the last axes

    Raises:
        ValueError: Same as `interpolate`.
    """
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Resizes images by bilinear interpolation with `align_corners=True`; see `interpolate`.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Raises:
        ValueError: Same as `interpolate`.
    """
    return interpolate(input, size, scale_factor, "bilinear", True)


def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None) -> Tensor:
    """Samples images at the positions of a grid. The last axis of `grid` is x, y
    (and z for volumes), from -1 to 1 across the image. Positions that are NaN read 0.

    Shapes: [batch, channels, height, width], grid [batch, rows, columns, 2] ->
    [batch, channels, rows, columns]; volumes have one more axis

    Args:
        mode: "bilinear" or "nearest", and "bicubic" for images.
        padding_mode: the values outside the image: "zeros", "border" (the edge element) or
            "reflection".
        align_corners: whether -1 and 1 refer to the centers of the corner elements, rather than to
            their outer edges.

    Raises:
        ValueError: If a mode, the number of axes or the batch size is invalid, an image is empty,
            or the dtypes differ.
        TypeError: If an argument is not a tensor or has an integer dtype.
    """
    op = "grid_sample"
    for name, value in (("input", input), ("grid", grid)):
        if not isinstance(value, Tensor):
            raise TypeError(f"{op}: {name} of type {type(value).__name__}, expected a tensor: ternion.tensor() makes one of numbers and arrays")
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(f"{op}: mode {mode!r}, expected \"bilinear\", \"nearest\" or \"bicubic\"")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"{op}: padding_mode {padding_mode!r}, expected \"zeros\", \"border\" or \"reflection\"")
    return _native._grid_sample(input, grid, mode, padding_mode, bool(align_corners))


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Generates a grid for `grid_sample` from affine maps: `theta (x, y, 1)` at each pixel of
    images of `size`, `theta (x, y, z, 1)` for volumes.

    Shapes: theta [batch, 2, 3], size (batch, channels, rows, columns) -> [batch, rows, columns, 2];
    for volumes theta is [batch, 3, 4] and the grid has one more axis

    Args:
        align_corners: whether -1 and 1 refer to the centers of the corner elements, rather than to
            their outer edges.

    Raises:
        ValueError: If the maps do not match the size, or a size is below 1.
        TypeError: If the argument is not a tensor or has an integer dtype.
    """
    op = "affine_grid"
    if not isinstance(theta, Tensor):
        raise TypeError(f"{op}: theta of type {type(theta).__name__}, expected a tensor: ternion.tensor() makes one of numbers and arrays")
    sizes = _int_tuple(op, "size", tuple(size), len(size), 1) if len(size) in (4, 5) else ()
    if not sizes or theta.ndim != 3 or theta.shape[0] != sizes[0]:
        raise ValueError(f"{op}: theta of shape {tuple(theta.shape)} for size {tuple(size)}, expected as many maps as images of 4 or 5 axes")
    return _native._affine_grid(theta, sizes[2:], bool(align_corners))


# ---- Channels


def _shuffle(op, input, name, by):
    if not isinstance(input, Tensor):
        raise TypeError(f"{op}: input of type {type(input).__name__}, expected a tensor: ternion.tensor() makes one of numbers and arrays")
    (by,) = _int_tuple(op, name, by, 1, 1)
    return _native._shuffle(input, op, by)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Rearranges channels into pixels (Shi et al. 2016): [.., channels * factor^2, height, width]
    -> [.., channels, height * factor, width * factor].

    Raises:
        ValueError: If the input has fewer than 3 axes, the factor is below 1, or the channels are
            not a multiple of its square.
        TypeError: If the input is not a tensor, or the factor is not an integer.
    """
    return _shuffle("pixel_shuffle", input, "upscale_factor", upscale_factor)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Rearranges pixels into channels, the inverse of `pixel_shuffle`:
    [.., channels, height, width] -> [.., channels * factor^2, height / factor, width / factor].

    Raises:
        ValueError: If the input has fewer than 3 axes, the factor is below 1, or the height or
            width is not a multiple of it.
        TypeError: If the input is not a tensor, or the factor is not an integer.
    """
    return _shuffle("pixel_unshuffle", input, "downscale_factor", downscale_factor)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleaves groups of channels: the first channel of each group, then the second of each, and
    so on (Zhang et al. 2018).

    Shapes: [batch, channels, ..] -> the same

    Raises:
        ValueError: If the input has fewer than 3 axes, the number of groups is below 1, or it does
            not divide the channels.
        TypeError: If the input is not a tensor, or the number of groups is not an integer.
    """
    return _shuffle("channel_shuffle", input, "groups", groups)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Computes `x / (k + alpha / size * sum of squares)^beta`, where the sum is over the `size`
    channels around each channel (Krizhevsky et al. 2012).

    Shapes: [batch, channels, ..] -> the same

    Raises:
        ValueError: If the input has fewer than 3 axes, or the size is below 1.
        TypeError: If the input is not a tensor or has an integer dtype.
    """
    op = "local_response_norm"
    if not isinstance(input, Tensor):
        raise TypeError(f"{op}: input of type {type(input).__name__}, expected a tensor: ternion.tensor() makes one of numbers and arrays")
    (size,) = _int_tuple(op, "size", size, 1, 1)
    return _native._local_response_norm(input, size, alpha, beta, k)


name_all(globals())
