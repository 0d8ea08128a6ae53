"""Layers of sequences, images and volumes: convolutions and resizing, and the layers of `padding`
and `pools`. The batch axis is optional.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._ternion import Tensor
from . import functional as F
from ._images import _int_tuple
from ._initialization import reset_linear, weight_and_bias
from .module import Module
from .padding import *  # noqa: F401,F403
from .padding import __all__ as _pads
from .pools import *  # noqa: F401,F403
from .pools import __all__ as _pools

__all__ = [
    "ChannelShuffle", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Fold", "LocalResponseNorm", "PixelShuffle",
    "PixelUnshuffle", "Unfold", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d",
]  # fmt: skip
__all__ += _pads
__all__ += _pools


class _Conv(Module):
    _axes = 0
    _is_transposed = False

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int],
        padding: int | Sequence[int] | str, dilation: int | Sequence[int], groups: int, bias: bool, padding_mode: str, device: Any, dtype: Any,
    ):  # fmt: skip
        name = type(self).__name__
        (in_channels,), (out_channels,) = _int_tuple(name, "in_channels", in_channels, 1, 1), _int_tuple(name, "out_channels", out_channels, 1)
        kernel = _int_tuple(name, "kernel_size", kernel_size, self._axes, 1)
        if not isinstance(padding, str):
            padding = _int_tuple(name, "padding", padding, self._axes)
        settings = (_int_tuple(name, "stride", stride, self._axes, 1), padding, _int_tuple(name, "dilation", dilation, self._axes, 1), groups)
        self._set_options((in_channels, out_channels), (kernel, *settings))
        self._set_padding_mode(padding_mode)
        outer, inner = (in_channels, out_channels) if self._is_transposed else (out_channels, in_channels)
        inner //= groups
        fan_in = inner * math.prod(kernel)
        self.weight, self.bias = weight_and_bias((outer, inner, *kernel), fan_in, out_channels, bias, device, dtype)

    def reset_parameters(self) -> None:
        """Reinitializes the parameters."""
        reset_linear(self)

    def _set_options(self, channels, options):
        self.in_channels, self.out_channels = channels
        self.kernel_size, self.stride, self.padding, self.dilation, self.groups = options
        self.padding_mode = "zeros"
        name = type(self).__name__
        if not isinstance(self.groups, int) or self.groups < 1 or self.in_channels % self.groups or self.out_channels % self.groups:
            raise ValueError(f"{name}: groups {self.groups} do not divide {self.in_channels} and {self.out_channels} channels")
        if isinstance(self.padding, str):
            if self._is_transposed or self.padding not in ("same", "valid"):
                expected = "numbers" if self._is_transposed else "numbers, \"same\" or \"valid\""
                raise ValueError(f"{name}: padding {self.padding!r}, expected {expected}")
            if self.padding == "same" and any(step != 1 for step in self.stride):
                raise ValueError(f"{name}: padding \"same\" with stride {self.stride}, expected a stride of 1")

    def _set_padding_mode(self, padding_mode):
        allowed = ("zeros",) if self._is_transposed else ("zeros", "reflect", "replicate", "circular")
        if padding_mode not in allowed:
            raise ValueError(f"{type(self).__name__}: padding_mode {padding_mode!r}, expected {' or '.join(allowed)}")
        self.padding_mode = padding_mode

    def _pad_input(self, input):
        """Pads the input, for padding modes other than "zeros"."""
        if self.padding == "valid":
            return input
        sides = []
        for axis in reversed(range(self._axes)):
            if self.padding == "same":
                total = self.dilation[axis] * (self.kernel_size[axis] - 1)
                sides += [total // 2, total - total // 2]
            else:
                sides += [self.padding[axis]] * 2
        return F.pad(input, sides, self.padding_mode)

    def _convolve(self, function: Any, input: Tensor) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = self._pad_input(input), 0
        return function(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        defaults = [("padding", 0), ("dilation", 1), *([("output_padding", 0)] if self._is_transposed else [])]
        settings = [(name, getattr(self, name)) for name, default in defaults if getattr(self, name) != (default,) * self._axes]
        settings += [("groups", self.groups)] * (self.groups != 1) + [("bias", False)] * (self.bias is None)
        settings += [("padding_mode", self.padding_mode)] * (self.padding_mode != "zeros")
        return text + "".join(f", {name}={value}" for name, value in settings)


class Conv1d(_Conv):
    """Applies a 1D convolution to sequences: [batch, in_channels, length] ->
    [batch, out_channels, windows].

    Args:
        padding: the amount of padding on both sides, or "valid" (none) or "same" (an output of the
            input's length; requires stride 1).
        padding_mode: "zeros", "reflect", "replicate" or "circular".

    Raises:
        ValueError: If the groups do not divide the channels, `in_channels` is below 1, or `padding`
            or `padding_mode` is invalid; when called, if the number of axes or channels is invalid,
            or a window is larger than the input.
        TypeError: If a setting is not an integer; when called, if the input is not a tensor or has
            an integer dtype.
    """

    _axes = 1

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return self._convolve(F.conv1d, input)


class Conv2d(_Conv):
    """Applies a 2D convolution to images: [batch, in_channels, height, width] ->
    [batch, out_channels, rows, columns].

    Args:
        padding: the amount of padding on all sides, or "valid" (none) or "same" (an output of the
            input's size; requires stride 1).
        padding_mode: "zeros", "reflect", "replicate" or "circular".

    Raises:
        ValueError: If the groups do not divide the channels, `in_channels` is below 1, or `padding`
            or `padding_mode` is invalid; when called, if the number of axes or channels is invalid,
            or a window is larger than the input.
        TypeError: If a setting is not an integer; when called, if the input is not a tensor or has
            an integer dtype.
    """

    _axes = 2

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return self._convolve(F.conv2d, input)


class Conv3d(_Conv):
    """Applies a 3D convolution to volumes: [batch, in_channels, depth, height, width] ->
    [batch, out_channels, planes, rows, columns].

    Args:
        padding: the amount of padding on all sides, or "valid" (none) or "same" (an output of the
            input's size; requires stride 1).
        padding_mode: "zeros", "reflect", "replicate" or "circular".

    Raises:
        ValueError: If the groups do not divide the channels, `in_channels` is below 1, or `padding`
            or `padding_mode` is invalid; when called, if the number of axes or channels is invalid,
            or a window is larger than the input.
        TypeError: If a setting is not an integer; when called, if the input is not a tensor, or is
            a bool tensor.
    """

    _axes = 3

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return self._convolve(F.conv3d, input)


class _ConvTranspose(_Conv):
    _is_transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, bias: bool = True,
        dilation: int | Sequence[int] = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        self.output_padding = _int_tuple(type(self).__name__, "output_padding", output_padding, self._axes)
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype)

    def _convolve_transposed(self, function: Any, input: Tensor, output_size: Any) -> Tensor:
        output_padding = self.output_padding if output_size is None else self._output_padding(input, output_size)
        return function(input, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups, self.dilation)

    def _output_padding(self, input, output_size):
        """Returns the output padding that leads to the given output size."""
        sizes = tuple(output_size)[-self._axes :]
        smallest_sizes = [
            (size - 1) * step - 2 * side + dilation * (kernel - 1) + 1
            for size, step, side, dilation, kernel in zip(input.shape[-self._axes :], self.stride, self.padding, self.dilation, self.kernel_size)
        ]
        output_padding = [size - smallest for size, smallest in zip(sizes, smallest_sizes)]
        if len(sizes) != self._axes or any(not 0 <= number < step for number, step in zip(output_padding, self.stride)):
            expected = ", ".join(f"{low} to {low + step - 1}" for low, step in zip(smallest_sizes, self.stride))
            raise ValueError(f"{type(self).__name__}: output_size {tuple(output_size)}, expected {expected}")
        return output_padding


class ConvTranspose1d(_ConvTranspose):
    """Applies a 1D transposed convolution: [batch, in_channels, length] ->
    [batch, out_channels, output length].

    Args:
        output_padding: the number of additional output elements at the end of each axis.

    Raises:
        ValueError: If the groups do not divide the channels, or `padding` or `padding_mode` is
            invalid; when called, if the number of axes or channels is invalid, or `output_size` is
            impossible.
        TypeError: If a setting is not an integer; when called, if the input is not a tensor or has
            an integer dtype.
    """

    _axes = 1

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        return self._convolve_transposed(F.conv_transpose1d, input, output_size)


class ConvTranspose2d(_ConvTranspose):
    """Applies a 2D transposed convolution: [batch, in_channels, height, width] ->
    [batch, out_channels, rows, columns].

    Args:
        output_padding: the number of additional output elements at the end of each axis.

    Raises:
        ValueError: If the groups do not divide the channels, or `padding` or `padding_mode` is
            invalid; when called, if the number of axes or channels is invalid, or `output_size` is
            impossible.
        TypeError: If a setting is not an integer; when called, if the input is not a tensor or has
            an integer dtype.
    """

    _axes = 2

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        return self._convolve_transposed(F.conv_transpose2d, input, output_size)


class ConvTranspose3d(_ConvTranspose):
    """Applies a 3D transposed convolution: [batch, in_channels, depth, height, width] ->
    [batch, out_channels, planes, rows, columns].

    Args:
        output_padding: the number of additional output elements at the end of each axis.

    Raises:
        ValueError: If the groups do not divide the channels, or `padding` or `padding_mode` is
            invalid; when called, if the number of axes or channels is invalid, or `output_size` is
            impossible.
        TypeError: If a setting is not an integer; when called, if the input is not a tensor, or is
            a bool tensor.
    """

    _axes = 3

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        return self._convolve_transposed(F.conv_transpose3d, input, output_size)


class Upsample(Module):
    """Resizes sequences, images or volumes: [batch, channels, ..] -> the same with other sizes of
    the last axes.

    The arguments are those of `functional.interpolate`.

    Raises:
        ValueError: When called, if not exactly one of `size` and `scale_factor` is given, or the
            mode or the number of axes is invalid.
    """

    def __init__(
        self, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ):  # fmt: skip
        self.size, self.scale_factor, self.mode = size, scale_factor, mode
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)

    def extra_repr(self) -> str:
        text = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{text}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resizes images by nearest-neighbor interpolation.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Raises:
        ValueError: When called, if not exactly one of `size` and `scale_factor` is given.
    """

    def __init__(self, size: Any = None, scale_factor: Any = None):
        super().__init__(size, scale_factor)


class UpsamplingBilinear2d(Upsample):
    """Resizes images by bilinear interpolation with `align_corners=True`.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Raises:
        ValueError: When called, if not exactly one of `size` and `scale_factor` is given.
    """

    def __init__(self, size: Any = None, scale_factor: Any = None):
        super().__init__(size, scale_factor, "bilinear", True)


class PixelShuffle(Module):
    """Rearranges channels into pixels: [.., channels * factor^2, height, width] ->
    [.., channels, height * factor, width * factor].

    Raises:
        ValueError: When called, if the channels are not a multiple of the square of the factor.
    """

    def __init__(self, upscale_factor: int):
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Rearranges pixels into channels: the inverse of `PixelShuffle`.

    Shapes: [.., channels, height * factor, width * factor] ->
    [.., channels * factor^2, height, width]

    Raises:
        ValueError: When called, if the height or width is not a multiple of the factor.
    """

    def __init__(self, downscale_factor: int):
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class Unfold(Module):
    """Extracts the patches of a sliding window as the columns of one matrix per image.

    Shapes: [batch, channels, height, width] -> [batch, channels * kernel height * kernel width,
    windows]; the batch axis is optional

    Raises:
        ValueError: When called, if the number of axes is invalid, or a window is larger than the
            images.
        TypeError: When called, if the input is not a tensor.
    """

    def __init__(
        self, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] = 1,
    ):  # fmt: skip
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """Sums patches into images: the gradient of `Unfold` with respect to its input.

    Shapes: [batch, channels * kernel height * kernel width, windows] ->
    [batch, channels, output height, output width]; the batch axis is optional

    Raises:
        ValueError: When called, if the rows are not a multiple of the window size, or the number of
            windows differs from that of the output.
    """

    def __init__(
        self, output_size: int | Sequence[int], kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0, stride: int | Sequence[int] = 1,
    ):  # fmt: skip
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        text = f"output_size={self.output_size}, kernel_size={self.kernel_size}"
        return f"{text}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class ChannelShuffle(Module):
    """Interleaves groups of channels: [batch, channels, ..] -> the same.

    Raises:
        ValueError: When called, if the input has fewer than 3 axes, or the groups do not divide the
            channels.
    """

    def __init__(self, groups: int):
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class LocalResponseNorm(Module):
    """Normalizes elements by the activity of `size` neighboring channels: [batch, channels, ..] ->
    the same.

    Raises:
        ValueError: When called, if the input has fewer than 3 axes, or the size is below 1.
        TypeError: When called, if the input is not a tensor or has an integer dtype.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
