"""Pooling layers over one, two and three axes, and their inverses. The batch axis is optional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._ternion import Tensor
from . import functional as F
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d",
    "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d",
    "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


class _Pool(Module):
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0):
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _MaxPool(_Pool):
    _function: Any = None

    def __init__(
        self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1, return_indices: bool = False, ceil_mode: bool = False,
    ):  # fmt: skip
        super().__init__(kernel_size, stride, padding)
        self.dilation, self.return_indices, self.ceil_mode = dilation, return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        return self._function(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, dilation={self.dilation}, ceil_mode={self.ceil_mode}"


class MaxPool1d(_MaxPool):
    """Computes the maximum of each window of sequences. With `return_indices`, also returns its
    index.

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch axis is optional

    Raises:
        ValueError: When called, if the number of axes is invalid, a window is larger than the
            input, or the padding exceeds half a window.
        TypeError: When called, if the input is not a tensor, or is a bool tensor.
    """

    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """Computes the maximum of each window of images. With `return_indices`, also returns its index.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch axis is
    optional

    Raises:
        ValueError: When called, if the number of axes is invalid, a window is larger than the
            input, or the padding exceeds half a window.
        TypeError: When called, if the input is not a tensor, or is a bool tensor.
    """

    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """Computes the maximum of each window of volumes. With `return_indices`, also returns its
    index.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the
    batch axis is optional

    Raises:
        ValueError: When called, if the number of axes is invalid, a window is larger than the
            input, or the padding exceeds half a window.
        TypeError: When called, if the input is not a tensor, or is a bool tensor.
    """

    _function = staticmethod(F.max_pool3d)


class AvgPool1d(_Pool):
    """Computes the mean of each window of sequences.

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch axis is optional

    Raises:
        ValueError: When called, if the number of axes is invalid, a window is larger than the
            input, or the padding exceeds half a window.
        TypeError: When called, if the input is not a tensor, or its dtype is neither floating nor
            int64.
    """

    def __init__(
        self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
    ):  # fmt: skip
        super().__init__(kernel_size, stride, padding)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class AvgPool2d(_Pool):
    """Computes the mean of each window of images.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch axis is
    optional

    Args:
        count_include_pad: whether padding counts in the means.
        divisor_override: the divisor of the sums, instead of the window size.

    Raises:
        ValueError: When called, if the number of axes is invalid, a window is larger than the
            input, the padding exceeds half a window, or the divisor is 0.
        TypeError: When called, if the input is not a tensor, or its dtype is neither floating nor
            int64.
    """

    _function = staticmethod(F.avg_pool2d)

    def __init__(
        self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
        ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
    ):  # fmt: skip
        super().__init__(kernel_size, stride, padding)
        self.ceil_mode, self.count_include_pad, self.divisor_override = ceil_mode, count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return self._function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override
        )


class AvgPool3d(AvgPool2d):
    """Computes the mean of each window of volumes.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the
    batch axis is optional

    The arguments are those of `AvgPool2d`.

    Raises:
        ValueError: When called, if the number of axes is invalid, a window is larger than the
            input, the padding exceeds half a window, or the divisor is 0.
        TypeError: When called, if the input is not a tensor, or its dtype is neither floating nor
            int64.
    """

    _function = staticmethod(F.avg_pool3d)


class _LPPool(Module):
    _function: Any = None

    def __init__(
        self, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, ceil_mode: bool = False,
    ):  # fmt: skip
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, ceil_mode={self.ceil_mode}"


class LPPool1d(_LPPool):
    """Computes `(sum of x^p)^(1 / p)` of each window of sequences, with p = `norm_type`.

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch axis is optional

    Raises:
        ValueError: When called, if the number of axes is invalid, a window is larger than the
            input, or `norm_type` is 0.
        TypeError: When called, if the input is not a tensor.
    """

    _function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    """Computes `(sum of x^p)^(1 / p)` of each window of images, with p = `norm_type`.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch axis is
    optional

    Raises:
        ValueError: When called, if the number of axes is invalid, a window is larger than the
            input, or `norm_type` is 0.
        TypeError: When called, if the input is not a tensor.
    """

    _function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    """Computes `(sum of x^p)^(1 / p)` of each window of volumes, with p = `norm_type`.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the
    batch axis is optional

    Raises:
        ValueError: When called, if the number of axes is invalid, a window is larger than the
            input, or `norm_type` is 0.
        TypeError: When called, if the input is not a tensor.
    """

    _function = staticmethod(F.lp_pool3d)


class _Adaptive(Module):
    _function: Any = None

    def __init__(self, output_size: int | Sequence[int]):
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveMax(_Adaptive):
    def __init__(self, output_size: int | Sequence[int], return_indices: bool = False):
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return self._function(input, self.output_size, self.return_indices)


class AdaptiveAvgPool1d(_Adaptive):
    """Computes the means of windows that divide sequences into `output_size` parts.

    Shapes: [batch, channels, length] -> [batch, channels, output_size]; the batch axis is optional

    Raises:
        ValueError: When called, if the number of axes is invalid, a sequence is empty, or a size is
            below 0.
        TypeError: When called, if the input is not a tensor, or a size is not an integer.
    """

    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_Adaptive):
    """Computes the means of windows that divide images into `output_size` rows and columns.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch axis is
    optional

    Raises:
        ValueError: When called, if the number of axes is invalid, an image is empty, or a size is
            below 0.
        TypeError: When called, if the input is not a tensor, or a size is not an integer.
    """

    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_Adaptive):
    """Computes the means of windows that divide volumes into `output_size` planes, rows and
    columns.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the
    batch axis is optional

    Raises:
        ValueError: When called, if the number of axes is invalid, a volume is empty, or a size is
            below 0.
        TypeError: When called, if the input is not a tensor, or a size is not an integer.
    """

    _function = staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(_AdaptiveMax):
    """Computes the maxima of windows that divide sequences into `output_size` parts. With
    `return_indices`, also returns their indices.

    Shapes: [batch, channels, length] -> [batch, channels, output_size]; the batch axis is optional

    Raises:
        ValueError: When called, if the number of axes is invalid, a sequence is empty, or a size is
            below 0.
        TypeError: When called, if the input is not a tensor, or a size is not an integer.
    """

    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMax):
    """Computes the maxima of windows that divide images into `output_size` rows and columns. With
    `return_indices`, also returns their indices.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch axis is
    optional

    Raises:
        ValueError: When called, if the number of axes is invalid, an image is empty, or a size is
            below 0.
        TypeError: When called, if the input is not a tensor, or a size is not an integer.
    """

    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMax):
    """Computes the maxima of windows that divide volumes into `output_size` planes, rows and
    columns. With `return_indices`, also returns their indices.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the
    batch axis is optional

    Raises:
        ValueError: When called, if the number of axes is invalid, a volume is empty, or a size is
            below 0.
        TypeError: When called, if the input is not a tensor, or a size is not an integer.
    """

    _function = staticmethod(F.adaptive_max_pool3d)


class _FractionalMaxPool(Module):
    _function: Any = None
    _random_samples: Tensor | None

    def __init__(
        self, kernel_size: int | Sequence[int], output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ):  # fmt: skip
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{name}: output_size {output_size}, output_ratio {output_ratio}, expected either of the two")
        ratios = output_ratio if isinstance(output_ratio, (list, tuple)) else (0.5 if output_ratio is None else output_ratio,)
        if not all(isinstance(ratio, (int, float)) and 0 < ratio < 1 for ratio in ratios):
            raise ValueError(f"{name}: output_ratio {output_ratio}, expected numbers between 0 and 1")
        self.kernel_size, self.output_size, self.output_ratio = kernel_size, output_size, output_ratio
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Tensor) -> Any:
        return self._function(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples)

    def extra_repr(self) -> str:
        size = f"output_size={self.output_size}" if self.output_ratio is None else f"output_ratio={self.output_ratio}"
        return f"kernel_size={self.kernel_size}, {size}"


class FractionalMaxPool2d(_FractionalMaxPool):
    """Computes the maximum of each window of images, with windows at random steps (Graham 2014).
    With `return_indices`, also returns its index.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch axis is
    optional

    Raises:
        ValueError: If not exactly one of `output_size` and `output_ratio` is given, or a ratio is
            not between 0 and 1; when called, if the number of axes is invalid or the sizes do not
            fit.
        TypeError: When called, if the input is not a tensor or has an integer dtype.
    """

    _function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """Computes the maximum of each window of volumes, with windows at random steps (Graham 2014).
    With `return_indices`, also returns its index.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the
    batch axis is optional

    Raises:
        ValueError: If not exactly one of `output_size` and `output_ratio` is given, or a ratio is
            not between 0 and 1; when called, if the number of axes is invalid or the sizes do not
            fit.
        TypeError: When called, if the input is not a tensor or has an integer dtype.
    """

    _function = staticmethod(F.fractional_max_pool3d)


class _Unpool(_Pool):
    _function: Any = None

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return self._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_Unpool):
    """Writes elements to the indices that `MaxPool1d` returned, and 0 elsewhere.

    Shapes: [batch, channels, windows], indices likewise -> [batch, channels, length]; the batch
    axis is optional

    Raises:
        ValueError: When called, if the number of axes is invalid, the indices have another shape
            than the input, or the output size is impossible.
        IndexError: When called, if an index is outside the result.
        TypeError: When called, if an argument is not a tensor, or the input has an integer dtype.
    """

    _function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_Unpool):
    """Writes elements to the indices that `MaxPool2d` returned, and 0 elsewhere.

    Shapes: [batch, channels, rows, columns], indices likewise -> [batch, channels, height, width];
    the batch axis is optional

    Raises:
        ValueError: When called, if the number of axes is invalid, the indices have another shape
            than the input, or the output size is impossible.
        IndexError: When called, if an index is outside the result.
        TypeError: When called, if an argument is not a tensor, or the input has an integer dtype.
    """

    _function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_Unpool):
    """Writes elements to the indices that `MaxPool3d` returned, and 0 elsewhere.

    Shapes: [batch, channels, planes, rows, columns], indices likewise ->
    [batch, channels, depth, height, width]; the batch axis is optional

    Raises:
        ValueError: When called, if the number of axes is invalid, the indices have another shape
            than the input, or the output size is impossible.
        IndexError: When called, if an index is outside the result.
        TypeError: When called, if an argument is not a tensor, or the input has an integer dtype.
    """

    _function = staticmethod(F.max_unpool3d)
