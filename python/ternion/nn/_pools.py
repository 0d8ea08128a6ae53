"""Pooling functions over one, two and three axes, and their inverses; a part of
`ternion.nn.functional`.

All of them accept batches, and also a single sequence, image or volume without the batch axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._error_messages import name_all
from .._functions.arithmetic import _float
from .._ternion import Tensor, rand
from .._ternion import _functional as _native
from ._images import _batched_input, _int_tuple, _with_batch_axis

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "fractional_max_pool2d", "fractional_max_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d",
    "max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip


def _kernel_and_stride(op, axes, kernel_size, stride):
    """Returns the window size and the stride, which defaults to the window size."""
    kernel = _int_tuple(op, "kernel_size", kernel_size, axes, 1)
    return kernel, _int_tuple(op, "stride", stride, axes, 1) if stride not in (None, [], ()) else kernel


def _max_pool(op, axes, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
    _batched_input(op, input, axes + 2)
    kernel, strides = _kernel_and_stride(op, axes, kernel_size, stride)
    options = (kernel, strides, _int_tuple(op, "padding", padding, axes), _int_tuple(op, "dilation", dilation, axes, 1), bool(ceil_mode), True, None)
    values, indices = _with_batch_axis(lambda batch: _native._max_pool(batch, options), input, axes + 2)
    return (values, indices) if return_indices else values


def max_pool1d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Computes the maximum of each window of sequences. With `return_indices`, also returns its
    index (int64).

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch axis is optional

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, the padding exceeds half a window, or a size is below 1.
        TypeError: If the input is not a tensor, or is a bool tensor.
    """
    return _max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Computes the maximum of each window of images. With `return_indices`, also returns its index
    in the flattened plane (int64).

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch axis is
    optional

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, the padding exceeds half a window, or a size is below 1.
        TypeError: If the input is not a tensor, or is a bool tensor.
    """
    op = "max_pool2d"
    _batched_input(op, input, 4)
    kernel, strides = _kernel_and_stride(op, 2, kernel_size, stride)
    padding, dilation = _int_tuple(op, "padding", padding, 2), _int_tuple(op, "dilation", dilation, 2, 1)
    return _with_batch_axis(lambda batch: _native.max_pool2d(batch, kernel, strides, padding, dilation, ceil_mode, return_indices), input, 4)


def max_pool3d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Computes the maximum of each window of volumes. With `return_indices`, also returns its index
    in the flattened volume (int64).

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the
    batch axis is optional

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, the padding exceeds half a window, or a size is below 1.
        TypeError: If the input is not a tensor, or is a bool tensor.
    """
    return _max_pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _avg_pool(op, axes, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override=None, p=None):
    _batched_input(op, input, axes + 2)
    kernel, strides = _kernel_and_stride(op, axes, kernel_size, stride)
    divisor = divisor_override
    if divisor is not None and (divisor.__class__ is not int or divisor == 0 or not -(2**63) <= divisor < 2**63):
        raise ValueError(f"{op}: divisor_override {divisor!r}, expected an integer of 64 bits other than 0")
    options = (kernel, strides, _int_tuple(op, "padding", padding, axes), (1,) * axes, bool(ceil_mode), bool(count_include_pad), divisor)
    return _with_batch_axis(lambda batch: _native._avg_pool(batch, options, p), input, axes + 2)


def avg_pool1d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """Computes the mean of each window of sequences. For int64 it is rounded toward zero.

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch axis is optional

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, the padding exceeds half a window, or a size is below 1.
        TypeError: If the input is not a tensor, or its dtype is neither floating nor int64.
    """
    return _avg_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """Computes the mean of each window of images. For int64 it is rounded toward zero.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch axis is
    optional

    Args:
        divisor_override: the divisor of the sums, instead of the window size.

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, the padding exceeds half a window, a size is below 1, or the divisor is 0.
        TypeError: If the input is not a tensor, or its dtype is neither floating nor int64.
    """
    return _avg_pool("avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """Computes the mean of each window of volumes. For int64 it is rounded toward zero.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the
    batch axis is optional

    Args:
        divisor_override: the divisor of the sums, instead of the window size.

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, the padding exceeds half a window, a size is below 1, or the divisor is 0.
        TypeError: If the input is not a tensor, or its dtype is neither floating nor int64.
    """
    return _avg_pool("avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _lp_pool(op, axes, input, kernel_size, stride, ceil_mode, norm_type):
    _batched_input(op, input, axes + 2)
    return _avg_pool(op, axes, _float(input), kernel_size, stride, 0, ceil_mode, True, p=norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """Computes `(sum of x^p)^(1 / p)` of each window of sequences, with p = `norm_type`. Integers
    are converted to float32. The gradient is 0 where the sum is 0.

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch axis is optional

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, a size is below 1, or `norm_type` is 0.
        TypeError: If the input is not a tensor.
    """
    return _lp_pool("lp_pool1d", 1, input, kernel_size, stride, ceil_mode, norm_type)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """Computes `(sum of x^p)^(1 / p)` of each window of images, with p = `norm_type`. Integers are
    converted to float32. The gradient is 0 where the sum is 0.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch axis is
    optional

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, a size is below 1, or `norm_type` is 0.
        TypeError: If the input is not a tensor.
    """
    return _lp_pool("lp_pool2d", 2, input, kernel_size, stride, ceil_mode, norm_type)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """Computes `(sum of x^p)^(1 / p)` of each window of volumes, with p = `norm_type`. Integers are
    converted to float32. The gradient is 0 where the sum is 0.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the
    batch axis is optional

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, a size is below 1, or `norm_type` is 0.
        TypeError: If the input is not a tensor.
    """
    return _lp_pool("lp_pool3d", 3, input, kernel_size, stride, ceil_mode, norm_type)


# ---- Adaptive pools


def _adaptive_sizes(op, output_size, sizes):
    """Returns the output sizes of an adaptive pool. None keeps the input size of an axis."""
    requested = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * len(sizes)
    if len(requested) != len(sizes):
        raise ValueError(f"{op}: output_size {output_size!r}, expected one number or {len(sizes)}")
    result = [size if request is None else _int_tuple(op, "output_size", request, 1)[0] for request, size in zip(requested, sizes)]
    if max(result) > _MAX_WINDOWS or math.prod(result) > _MAX_WINDOWS**2 >> 14:
        raise MemoryError(f"{op}: output_size {output_size!r}, expected at most {_MAX_WINDOWS} along an axis, {_MAX_WINDOWS**2 >> 14} in all")
    return result


_MAX_WINDOWS = 2**20


def _adaptive_pool(op, native, axes, input, output_size):
    _batched_input(op, input, axes + 2)
    sizes = _adaptive_sizes(op, output_size, input.shape[-axes:])
    if op in ("adaptive_avg_pool1d", "adaptive_avg_pool2d") and input.ndim > axes and not input.shape[-axes - 1] and 0 not in input.shape[-axes:]:
        # As in PyTorch, an input without channels is accepted and gives an empty result.
        return input.sum() + input.new_zeros((*input.shape[:-axes], *sizes))
    return _with_batch_axis(lambda batch: native(batch, sizes), input, axes + 2)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Computes the means of windows that divide sequences into `output_size` parts. The batch axis
    is optional.

    Shapes: [batch, channels, length] -> [batch, channels, output_size]

    Raises:
        ValueError: If the number of axes is invalid, a sequence is empty, or a size is below 0.
        TypeError: If the input is not a tensor, or a size is not an integer.
    """
    return _adaptive_pool("adaptive_avg_pool1d", _native._adaptive_avg_pool, 1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Computes the means of windows that divide images into `output_size` rows and columns. None
    keeps a size unchanged. The batch axis is optional.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Raises:
        ValueError: If the number of axes is invalid, an image is empty, a size is below 0, or more
            than 2 sizes are given.
        TypeError: If the input is not a tensor, or a size is not an integer.
    """
    return _adaptive_pool("adaptive_avg_pool2d", _native._adaptive_avg_pool, 2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Computes the means of windows that divide volumes into `output_size` planes, rows and
    columns. None keeps a size unchanged. The batch axis is optional.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]

    Raises:
        ValueError: If the number of axes is invalid, a volume is empty, a size is below 0, or more
            than 3 sizes are given.
        TypeError: If the input is not a tensor, or a size is not an integer.
    """
    return _adaptive_pool("adaptive_avg_pool3d", _native._adaptive_avg_pool, 3, input, output_size)


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Computes the maxima of windows that divide sequences into `output_size` parts. With
    `return_indices`, also returns their indices (int64).

    Shapes: [batch, channels, length] -> [batch, channels, output_size]; the batch axis is optional

    Raises:
        ValueError: If the number of axes is invalid, a sequence is empty, or a size is below 0.
        TypeError: If the input is not a tensor, or a size is not an integer.
    """
    values, indices = _adaptive_pool("adaptive_max_pool1d", _native._adaptive_max_pool, 1, input, output_size)
    return (values, indices) if return_indices else values


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Computes the maxima of windows that divide images into `output_size` rows and columns. With
    `return_indices`, also returns their indices in the flattened planes (int64).

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch axis is
    optional; None keeps a size unchanged

    Raises:
        ValueError: If the number of axes is invalid, an image is empty, a size is below 0, or more
            than 2 sizes are given.
        TypeError: If the input is not a tensor, or a size is not an integer.
    """
    values, indices = _adaptive_pool("adaptive_max_pool2d", _native._adaptive_max_pool, 2, input, output_size)
    return (values, indices) if return_indices else values


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Computes the maxima of windows that divide volumes into `output_size` planes, rows and
    columns. With `return_indices`, also returns their indices (int64).

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the
    batch axis is optional; None keeps a size unchanged

    Raises:
        ValueError: If the number of axes is invalid, a volume is empty, a size is below 0, or more
            than 3 sizes are given.
        TypeError: If the input is not a tensor, or a size is not an integer.
    """
    values, indices = _adaptive_pool("adaptive_max_pool3d", _native._adaptive_max_pool, 3, input, output_size)
    return (values, indices) if return_indices else values


# ---- Windows at random steps


def _fractional_max_pool(op, axes, input, kernel_size, output_size, output_ratio, return_indices, samples):
    batch = _batched_input(op, input, axes + 2)
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{op}: output_size {output_size}, output_ratio {output_ratio}, expected either of the two")
    if output_size is None:
        ratios = tuple(output_ratio) if isinstance(output_ratio, (list, tuple)) else (output_ratio,) * axes
        if len(ratios) != axes or not all(isinstance(ratio, (int, float)) and 0 < ratio < 1 for ratio in ratios):
            raise ValueError(f"{op}: output_ratio {output_ratio}, expected one number between 0 and 1, or {axes}")
        output_size = [int(size * ratio) for size, ratio in zip(input.shape[-axes:], ratios)]
    kernel, size = _int_tuple(op, "kernel_size", kernel_size, axes, 1), _int_tuple(op, "output_size", output_size, axes, 1)
    if samples is None:
        samples = rand(*batch.shape[:2], axes, dtype=input.dtype, device=input.device)
    values, indices = _with_batch_axis(lambda batch: _native._fractional_max_pool(batch, kernel, size, samples), input, axes + 2)
    return (values, indices) if return_indices else values


def fractional_max_pool2d(
    input: Tensor, kernel_size: int | Sequence[int], output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """Computes the maximum of each window of images, with windows at random steps (Graham 2014).
    With `return_indices`, also returns its index in the flattened plane (int64).

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch axis is
    optional

    Args:
        output_ratio: the ratio of output to input rows and columns, between 0 and 1, instead of
            `output_size`.

    Raises:
        ValueError: If the number of axes is invalid, not exactly one of `output_size` and
            `output_ratio` is given, or the sizes and windows do not fit.
        TypeError: If the input is not a tensor or has an integer dtype.
    """
    return _fractional_max_pool("fractional_max_pool2d", 2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(
    input: Tensor, kernel_size: int | Sequence[int], output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """Computes the maximum of each window of volumes, with windows at random steps (Graham 2014).
    With `return_indices`, also returns its index (int64).

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the
    batch axis is optional

    Args:
        output_ratio: the ratio of output to input planes, rows and columns, between 0 and 1,
            instead of `output_size`.

    Raises:
        ValueError: If the number of axes is invalid, not exactly one of `output_size` and
            `output_ratio` is given, or the sizes and windows do not fit.
        TypeError: If the input is not a tensor or has an integer dtype.
    """
    return _fractional_max_pool("fractional_max_pool3d", 3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


# ---- Inverses of pools


def _max_unpool(op, axes, input, indices, kernel_size, stride, padding, output_size):
    batch = _batched_input(op, input, axes + 2)
    if not isinstance(indices, Tensor) or indices.shape != input.shape:
        actual = f"shape {tuple(indices.shape)}" if isinstance(indices, Tensor) else f"type {type(indices).__name__}"
        raise (ValueError if isinstance(indices, Tensor) else TypeError)(f"{op}: indices of {actual}, expected a tensor of shape {tuple(input.shape)}")
    kernel, strides = _kernel_and_stride(op, axes, kernel_size, stride)
    padding = _int_tuple(op, "padding", padding, axes)
    sizes = [(size - 1) * step + window - 2 * side for size, step, window, side in zip(input.shape[-axes:], strides, kernel, padding)]
    if output_size is not None:
        requested = list(output_size)[-axes:] if len(output_size) in (axes, axes + 1, axes + 2) else []
        if len(requested) != axes or not all(size - step < request < size + step for request, size, step in zip(requested, sizes, strides)):
            expected = ", ".join(f"{size - step + 1} to {size + step - 1}" for size, step in zip(sizes, strides))
            raise ValueError(f"{op}: output_size {tuple(output_size)}, expected {expected}")
        sizes = requested
    if min(sizes) < 1:
        raise ValueError(f"{op}: an output of size {sizes}, expected at least 1 along each axis")
    batch_indices = indices if batch is input else indices.unsqueeze(0)
    return _with_batch_axis(lambda batch: _native._max_unpool(batch, batch_indices, sizes), input, axes + 2)


def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
    output_size: Any = None,
) -> Tensor:  # fmt: skip
    """Writes elements to the `indices` that `max_pool1d` returned, and 0 elsewhere. If indices
    repeat, the last element is kept.

    Shapes: [batch, channels, windows], indices likewise -> [batch, channels, length]; the batch
    axis is optional

    Args:
        output_size: the output size. It must differ by less than the stride from the size that the
            window implies.

    Raises:
        ValueError: If the number of axes is invalid, the indices have another shape than the input,
            or the output size is impossible.
        IndexError: If an index is outside the result.
        TypeError: If an argument is not a tensor, the input has an integer dtype, or the indices do
            not.
    """
    return _max_unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
    output_size: Any = None,
) -> Tensor:  # fmt: skip
    """Writes elements to the `indices` that `max_pool2d` returned, and 0 elsewhere. If indices
    repeat, the last element is kept.

    Shapes: [batch, channels, rows, columns], indices likewise -> [batch, channels, height, width];
    the batch axis is optional

    Args:
        output_size: the output size. It must differ by less than the stride from the size that the
            window implies.

    Raises:
        ValueError: If the number of axes is invalid, the indices have another shape than the input,
            or the output size is impossible.
        IndexError: If an index is outside the result.
        TypeError: If an argument is not a tensor, the input has an integer dtype, or the indices do
            not.
    """
    return _max_unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
    output_size: Any = None,
) -> Tensor:  # fmt: skip
    """Writes elements to the `indices` that `max_pool3d` returned, and 0 elsewhere. If indices
    repeat, the last element is kept.

    Shapes: [batch, channels, planes, rows, columns], indices likewise ->
    [batch, channels, depth, height, width]; the batch axis is optional

    Args:
        output_size: the output size. It must differ by less than the stride from the size that the
            window implies.

    Raises:
        ValueError: If the number of axes is invalid, the indices have another shape than the input,
            or the output size is impossible.
        IndexError: If an index is outside the result.
        TypeError: If an argument is not a tensor, the input has an integer dtype, or the indices do
            not.
    """
    return _max_unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)


name_all(globals())
