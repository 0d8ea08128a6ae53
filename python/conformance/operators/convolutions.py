"""Convolutions, and operators that they are decomposed into."""

import math

import ternion
from ternion.nn import functional

from .table import operator


def padding_of(node, sizes, kernel, strides, dilations):
    """Returns the padding, (before, after) for each spatial axis: as given, or such that there are
    size / stride windows."""
    auto = node.attribute("auto_pad", "NOTSET")
    rank = len(kernel)
    if auto in ("NOTSET", "VALID"):
        pads = node.attribute("pads", [0] * 2 * rank) if auto == "NOTSET" else [0] * 2 * rank
        return list(zip(pads[:rank], pads[rank:]))
    pairs = []
    for size, span, stride, dilation in zip(sizes, kernel, strides, dilations):
        windows = -(-size // stride)
        total = max((windows - 1) * stride + (span - 1) * dilation + 1 - size, 0)
        less = total // 2
        pairs.append((less, total - less) if auto == "SAME_UPPER" else (total - less, less))
    return pairs


def padded(x, pairs, value=0.0):
    """Pads the spatial axes with a constant. The argument of Ternion's pad starts with the last
    axis."""
    amounts = [amount for pair in reversed(pairs) for amount in pair]
    return functional.pad(x, amounts, value=value) if any(amounts) else x


@operator("Conv")
def conv(node, x, weight, bias=None):
    rank = x.dim() - 2
    if rank > 3:
        raise node.unsupported("four spatial axes")
    strides = node.attribute("strides", [1] * rank)
    dilations = node.attribute("dilations", [1] * rank)
    pairs = padding_of(node, x.shape[2:], weight.shape[2:], strides, dilations)
    groups = node.attribute("group", 1)
    if rank == 1:
        return functional.conv1d(padded(x, pairs), weight, bias, stride=strides[0], dilation=dilations[0], groups=groups)
    padding = [before for before, _ in pairs]
    if any(before != behind for before, behind in pairs):
        x, padding = padded(x, pairs), 0
    function = functional.conv2d if rank == 2 else functional.conv3d
    return function(x, weight, bias, stride=strides, padding=padding, dilation=dilations, groups=groups)


@operator("ConvTranspose")
def conv_transpose(node, x, weight, bias=None):
    """Uses conv_transpose2d, or 3d. If that cannot pad as ONNX does (by different amounts at both
    ends), the padding is cropped from its full result."""
    rank = x.dim() - 2
    if rank > 3:
        raise node.unsupported("four spatial axes")
    strides = node.attribute("strides", [1] * rank)
    dilations = node.attribute("dilations", [1] * rank)
    extra = node.attribute("output_padding", [0] * rank)
    groups = node.attribute("group", 1)
    pads = _alike_pads(node, rank)
    function = functional.conv_transpose3d if rank == 3 else functional.conv_transpose2d
    if pads is not None:
        return function(x, weight, bias, strides, pads, extra, groups, dilations)
    sizes = x.shape[2:]
    if rank == 1:  # A sequence is treated as a row of an image, so that both use the same code.
        x, weight = x.unsqueeze(2), weight.unsqueeze(2)
    ones = [1] * (2 - rank)
    full = function(x, weight, bias, stride=ones + strides, groups=groups, dilation=ones + dilations)
    full = full.squeeze(2) if rank == 1 else full
    spans = [(weight.shape[axis - rank] - 1) * dilations[axis] + 1 for axis in range(rank)]
    lengths = [(size - 1) * stride + span + more for size, stride, span, more in zip(sizes, strides, spans, extra)]
    output_sizes = node.attribute("output_shape")
    if output_sizes is None and node.attribute("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER"):
        output_sizes = [size * stride for size, stride in zip(sizes, strides)]
    # A size larger than the full result has the effect of `output_padding`.
    if output_sizes is not None:
        lengths = [max(length, size) for length, size in zip(lengths, output_sizes[-rank:])]
    return _cut(full, lengths, _cut_amounts(node, lengths, output_sizes), bias)


def _alike_pads(node, rank):
    """Returns the padding of images and volumes if it is given and equal at both ends, else
    None."""
    pads = node.attribute("pads", [0] * 2 * rank)
    is_explicit = node.attribute("output_shape") is None and node.attribute("auto_pad", "NOTSET") in ("NOTSET", "VALID")
    return pads[:rank] if rank >= 2 and is_explicit and pads[:rank] == pads[rank:] else None


def _cut_amounts(node, lengths, output_sizes):
    """Returns how much of the full result is cropped, (before, after) for each spatial axis."""
    rank = len(lengths)
    if output_sizes is None:
        pads = node.attribute("pads", [0] * 2 * rank)
        return list(zip(pads[:rank], pads[rank:]))
    totals = [length - size for length, size in zip(lengths, output_sizes[-rank:])]
    upper = node.attribute("auto_pad", "NOTSET") == "SAME_UPPER"
    return [(total // 2, total - total // 2) if upper else (total - total // 2, total // 2) for total in totals]


def _cut(full, lengths, pairs, bias):
    """Crops the padding. Elements that no window reaches (`output_padding`) have the value of the
    bias."""
    missing = [length - size for length, size in zip(lengths, full.shape[2:])]
    if any(missing):
        sizes = list(full.shape[:2]) + lengths
        background = ternion.zeros(sizes, dtype=full.dtype)
        if bias is not None:
            background = background + bias.reshape([1, -1] + [1] * len(lengths))
        background[tuple(slice(0, size) for size in full.shape)] = full
        full = background
    for axis, (length, (before, behind)) in enumerate(zip(lengths, pairs)):
        full = full.narrow(axis + 2, before, length - before - behind)
    return full


@operator("Col2Im")
def col2im(node, x, image, block):
    """Adds blocks into an image at their positions. Composed, because Ternion's fold supports only
    images with equal padding at both ends.

    Shapes: [n, c * block, windows] -> [n, c, image..].
    """
    image, block = image.tolist(), block.tolist()
    rank = len(image)
    strides = node.attribute("strides", [1] * rank)
    dilations = node.attribute("dilations", [1] * rank)
    pads = node.attribute("pads", [0] * 2 * rank)
    sizes = [size + before + behind for size, before, behind in zip(image, pads, pads[rank:])]
    indices = ternion.zeros(1, dtype=ternion.int64)
    windows = []
    for size, span, stride, dilation in zip(sizes, block, strides, dilations):
        windows.append((size - (span - 1) * dilation - 1) // stride + 1)
    axes = [ternion.arange(span) * dilation for span, dilation in zip(block, dilations)]
    axes += [ternion.arange(count) * stride for count, stride in zip(windows, strides)]
    for position, offsets in enumerate(axes):
        shape = [1] * len(axes)
        shape[position] = -1
        indices = indices + offsets.reshape(shape) * math.prod(sizes[position % rank + 1 :])
    n, channels = x.shape[0], x.shape[1] // math.prod(block)
    flat = ternion.zeros(n * channels, math.prod(sizes), dtype=x.dtype)
    index = indices.reshape(1, -1).expand(n * channels, -1).contiguous()
    result = flat.scatter_add(1, index, x.reshape(n * channels, -1)).reshape([n, channels] + sizes)
    for axis in range(rank):
        result = result.narrow(axis + 2, pads[axis], image[axis])
    return result


@operator("ConvInteger")
def conv_integer(node, x, weight, x_zero=None, weight_zero=None):
    """Subtracts the zero points, one number or one per output channel, and convolves in float64,
    which represents these sums exactly."""
    x, weight = (x.double() if x_zero is None else x.double() - x_zero.double()), weight.double()
    if weight_zero is not None:
        weight = weight - weight_zero.double().reshape([-1] + [1] * (weight.dim() - 1))
    return conv(node, x, weight).int()


@operator("QLinearConv")
def quantized_conv(node, x, x_scale, x_zero, weight, weight_scale, weight_zero, y_scale, y_zero, bias=None):
    """Convolves integers that represent `(x - zero) * scale`, and returns such integers in the
    dtype of `y_zero`."""
    sums = conv_integer(node, x, weight, x_zero, weight_zero)
    per_channel = [1, -1] + [1] * (x.dim() - 2)
    if bias is not None:
        sums = sums + bias.reshape(per_channel)
    scale = (x_scale * weight_scale / y_scale).reshape(per_channel)
    steps = (sums.float() * scale).round() + y_zero.float()
    # Converting floats to integers saturates at the limits of the dtype.
    return steps.to(y_zero.dtype)


@operator("CausalConvWithState")
def causal_conv_with_state(node, x, weight, bias=None, past=None):
    """Convolves each channel with its own weights, over the input and the elements before it. The
    last elements are the past of the next call."""
    width = weight.shape[2] - 1
    if past is None:
        past = ternion.zeros(x.shape[0], x.shape[1], width, dtype=x.dtype)
    sequence = ternion.cat([past, x], 2)
    result = functional.conv1d(sequence, weight, bias, groups=x.shape[1])
    if node.attribute("activation", "none") != "none":
        result = result.silu()
    return result, sequence.narrow(2, sequence.shape[2] - width, width)
