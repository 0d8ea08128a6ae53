"""Pooling: one number per window."""

import math

import ternion
from ternion.nn import functional

from .convolutions import padded, padding_of
from .table import operator


class Windows:
    """The windows of a pooling operator: sizes, strides, dilations, and padding for each spatial
    axis."""

    def __init__(self, node, x):
        rank = x.dim() - 2
        self.kernel = node.attribute("kernel_shape")
        self.strides = node.attribute("strides", [1] * rank)
        self.dilations = node.attribute("dilations", [1] * rank)
        self.pairs = padding_of(node, x.shape[2:], self.kernel, self.strides, self.dilations)
        self.spans = [(size - 1) * dilation + 1 for size, dilation in zip(self.kernel, self.dilations)]
        self.ceil_mode = bool(node.attribute("ceil_mode", 0))
        self.rest = [self._rest(axis, size) for axis, size in enumerate(x.shape[2:])]

    def _rest(self, axis, size):
        """Returns what `ceil_mode` adds after the padding: enough for a last window, if that starts
        before the end padding."""
        length, stride = size + sum(self.pairs[axis]), self.strides[axis]
        if not self.ceil_mode:
            return 0
        windows = -(-(length - self.spans[axis]) // stride) + 1
        if (windows - 1) * stride >= size + self.pairs[axis][0]:
            windows -= 1
        return max((windows - 1) * stride + self.spans[axis] - length, 0)

    def alike(self):
        """Returns whether these are images with padding that Ternion's pooling supports: equal at
        both ends, and at most half a window."""
        return len(self.kernel) == 2 and all(a == b <= size // 2 for (a, b), size in zip(self.pairs, self.kernel))

    def pads_before(self):
        """Returns the padding before the first elements."""
        return [before for before, _ in self.pairs]

    def all_pairs(self):
        """Returns the padding, including what `ceil_mode` adds."""
        return [(before, behind + rest) for (before, behind), rest in zip(self.pairs, self.rest)]

    def of(self, x):
        """Returns the elements of the windows of a padded tensor as additional axes at the end."""
        for axis, (span, stride) in enumerate(zip(self.spans, self.strides)):
            x = x.unfold(axis + 2, span, stride)
        return x[(Ellipsis,) + tuple(slice(None, None, dilation) for dilation in self.dilations)]

    def axes(self):
        """Returns the axes of the windows' elements."""
        return list(range(-len(self.kernel), 0))


def _sums(windows, x):
    return windows.of(x).sum(windows.axes())


@operator("AveragePool")
def average_pool(node, x):
    """Uses avg_pool2d if it supports what the node requires, otherwise sums of windows divided by
    the number of elements that count."""
    windows = Windows(node, x)
    includes = bool(node.attribute("count_include_pad", 0))
    if windows.alike() and windows.dilations == [1, 1]:
        return functional.avg_pool2d(x, windows.kernel, windows.strides, windows.pads_before(), windows.ceil_mode, includes)
    counted = ternion.ones([1, 1] + list(x.shape[2:]), dtype=x.dtype)
    counted = padded(padded(counted, windows.pairs, float(includes)), [(0, rest) for rest in windows.rest])
    return _sums(windows, padded(x, windows.all_pairs())) / _sums(windows, counted)


@operator("LpPool")
def lp_pool(node, x):
    """Computes `(sum |x|^p)^(1 / p)`, composed from sums of windows."""
    windows = Windows(node, x)
    p = node.attribute("p", 2)
    return _sums(windows, padded(x.abs().pow(p), windows.all_pairs())).pow(1 / p)


@operator("MaxPool")
def max_pool(node, x):
    """Uses max_pool2d for images, and for sequences as images. Integers and volumes use windows."""
    windows = Windows(node, x)
    if x.dim() == 5 or not x.is_floating_point():
        # The only integers that ONNX supports here are unsigned.
        least = -math.inf if x.is_floating_point() else 0
        return windows.of(padded(x, windows.all_pairs(), least)).amax(windows.axes())
    if windows.alike():
        arguments = windows.kernel, windows.strides, windows.pads_before(), windows.dilations, windows.ceil_mode
        values, indices = functional.max_pool2d(x, *arguments, return_indices=True)
        return values, _tensor_indices(node, x, x.shape[3], [0, 0], indices)
    full = padded(x, windows.all_pairs(), -math.inf)
    rows = full.unsqueeze(2) if x.dim() == 3 else full
    ones = [1] * (4 - x.dim())
    values, indices = functional.max_pool2d(rows, ones + windows.kernel, ones + windows.strides, 0, ones + windows.dilations, return_indices=True)
    if x.dim() == 3:
        values, indices = values.squeeze(2), indices.squeeze(2)
    return values, _tensor_indices(node, x, full.shape[-1], [0] * (4 - x.dim()) + windows.pads_before(), indices)


def _tensor_indices(node, x, padded_width, pads_before, indices):
    """Converts indices in a plane to indices in the whole tensor, which are row-major, or
    column-major in each plane with `storage_order`."""
    height, width = x.shape[2:] if x.dim() == 4 else (1, x.shape[2])
    row, column = indices // padded_width - pads_before[0], indices % padded_width - pads_before[1]
    in_plane = column * height + row if node.attribute("storage_order", 0) else row * width + column
    planes = ternion.arange(x.shape[0] * x.shape[1]).reshape(list(x.shape[:2]) + [1] * (x.dim() - 2))
    return in_plane + planes * (height * width)


@operator("GlobalAveragePool")
def global_average_pool(node, x):
    return x.mean(list(range(2, x.dim())), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(node, x):
    return x.amax(list(range(2, x.dim())), keepdim=True)
