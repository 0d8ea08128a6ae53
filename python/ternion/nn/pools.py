"""Layers of windows: pools over one, two and three axes, and what takes them back. A single sequence, image or volume may come without a batch."""

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
    """The largest element of each window of sequences; with `return_indices` also where it is.

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch may be left out

    Raises:
        ValueError: when called, another number of axes, a window larger than the input, or a padding of more than half a window.
        TypeError: when called, no tensor, or truth values.
    """

    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """The largest element of each window of images; with `return_indices` also where it is.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch may be left out

    Raises:
        ValueError: when called, another number of axes, a window larger than the input, or a padding of more than half a window.
        TypeError: when called, no tensor, or truth values.
    """

    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """The largest element of each window of volumes; with `return_indices` also where it is.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the batch may be left out

    Raises:
        ValueError: when called, another number of axes, a window larger than the input, or a padding of more than half a window.
        TypeError: when called, no tensor, or truth values.
    """

    _function = staticmethod(F.max_pool3d)


class AvgPool1d(_Pool):
    """The mean of each window of sequences.

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch may be left out

    Raises:
        ValueError: when called, another number of axes, a window larger than the input, or a padding of more than half a window.
        TypeError: when called, no tensor, or an input of another dtype than floats and int64.
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
    """The mean of each window of images.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch may be left out

    Args:
        count_include_pad: whether padding counts in the means.
        divisor_override: what sums are divided by in place of the size of the window.

    Raises:
        ValueError: when called, another number of axes, a window larger than the input, a padding of more than half a window, or a divisor of 0.
        TypeError: when called, no tensor, or an input of another dtype than floats and int64.
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
    """The mean of each window of volumes.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the batch may be left out

    Args are those of `AvgPool2d`.

    Raises:
        ValueError: when called, another number of axes, a window larger than the input, a padding of more than half a window, or a divisor of 0.
        TypeError: when called, no tensor, or an input of another dtype than floats and int64.
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
    """`(sum of x^p)^(1 / p)` of each window of sequences, with p = `norm_type`.

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch may be left out

    Raises:
        ValueError: when called, another number of axes, a window larger than the input, or a `norm_type` of 0.
        TypeError: when called, no tensor.
    """

    _function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    """`(sum of x^p)^(1 / p)` of each window of images, with p = `norm_type`.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch may be left out

    Raises:
        ValueError: when called, another number of axes, a window larger than the input, or a `norm_type` of 0.
        TypeError: when called, no tensor.
    """

    _function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    """`(sum of x^p)^(1 / p)` of each window of volumes, with p = `norm_type`.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the batch may be left out

    Raises:
        ValueError: when called, another number of axes, a window larger than the input, or a `norm_type` of 0.
        TypeError: when called, no tensor.
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
    """Means of windows that divide sequences into `output_size` parts.

    Shapes: [batch, channels, length] -> [batch, channels, output_size]; the batch may be left out

    Raises:
        ValueError: when called, another number of axes, an empty sequence, or a size below 0.
        TypeError: when called, no tensor, or a size that is no whole number.
    """

    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_Adaptive):
    """Means of windows that divide images into `output_size` rows and columns.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch may be left out

    Raises:
        ValueError: when called, another number of axes, an empty image, or a size below 0.
        TypeError: when called, no tensor, or a size that is no whole number.
    """

    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_Adaptive):
    """Means of windows that divide volumes into `output_size` planes, rows and columns.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the batch may be left out

    Raises:
        ValueError: when called, another number of axes, an empty volume, or a size below 0.
        TypeError: when called, no tensor, or a size that is no whole number.
    """

    _function = staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(_AdaptiveMax):
    """Largest elements of windows that divide sequences into `output_size` parts; with `return_indices` also where they are.

    Shapes: [batch, channels, length] -> [batch, channels, output_size]; the batch may be left out

    Raises:
        ValueError: when called, another number of axes, an empty sequence, or a size below 0.
        TypeError: when called, no tensor, or a size that is no whole number.
    """

    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMax):
    """Largest elements of windows that divide images into `output_size` rows and columns; with `return_indices` also where they are.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch may be left out

    Raises:
        ValueError: when called, another number of axes, an empty image, or a size below 0.
        TypeError: when called, no tensor, or a size that is no whole number.
    """

    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMax):
    """Largest elements of windows that divide volumes into `output_size` planes, rows and columns; with `return_indices` also where they are.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the batch may be left out

    Raises:
        ValueError: when called, another number of axes, an empty volume, or a size below 0.
        TypeError: when called, no tensor, or a size that is no whole number.
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
        told = f"output_size={self.output_size}" if self.output_ratio is None else f"output_ratio={self.output_ratio}"
        return f"kernel_size={self.kernel_size}, {told}"


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest element of each window of images at random distances (Graham 2014); with `return_indices` also where it is.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch may be left out

    Raises:
        ValueError: both a size and a ratio or neither, a ratio that is not between 0 and 1; when called, another number of axes, or sizes that do not fit.
        TypeError: when called, no tensor, or whole numbers.
    """

    _function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest element of each window of volumes at random distances (Graham 2014); with `return_indices` also where it is.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the batch may be left out

    Raises:
        ValueError: both a size and a ratio or neither, a ratio that is not between 0 and 1; when called, another number of axes, or sizes that do not fit.
        TypeError: when called, no tensor, or whole numbers.
    """

    _function = staticmethod(F.fractional_max_pool3d)


class _Unpool(_Pool):
    _function: Any = None

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return self._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_Unpool):
    """Zeros with elements at the indices that `MaxPool1d` found.

    Shapes: [batch, channels, windows], indices likewise -> [batch, channels, length]; the batch may be left out

    Raises:
        ValueError: when called, another number of axes, indices of another shape, or a size that cannot be.
        IndexError: when called, an index that is none of the result.
        TypeError: when called, no tensors, or whole numbers as input.
    """

    _function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_Unpool):
    """Zeros with elements at the indices that `MaxPool2d` found.

    Shapes: [batch, channels, rows, columns], indices likewise -> [batch, channels, height, width]; the batch may be left out

    Raises:
        ValueError: when called, another number of axes, indices of another shape, or a size that cannot be.
        IndexError: when called, an index that is none of the result.
        TypeError: when called, no tensors, or whole numbers as input.
    """

    _function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_Unpool):
    """Zeros with elements at the indices that `MaxPool3d` found.

    Shapes: [batch, channels, planes, rows, columns], indices likewise -> [batch, channels, depth, height, width]; the batch may be left out

    Raises:
        ValueError: when called, another number of axes, indices of another shape, or a size that cannot be.
        IndexError: when called, an index that is none of the result.
        TypeError: when called, no tensors, or whole numbers as input.
    """

    _function = staticmethod(F.max_unpool3d)
