"""Shapes, and operators that only move elements."""

import math

import ternion
from ternion.nn import functional

from .table import int_tensor, numbers, operator, positive


@operator("Shape")
def shape(node, x):
    return int_tensor(x.shape[node.attribute("start", 0) : node.attribute("end", x.dim())])


@operator("Size")
def size(node, x):
    return ternion.tensor(x.numel())


@operator("Reshape")
def reshape(node, x, sizes):
    """A size of 0 is replaced by that of the input, unless `allowzero` is set."""
    sizes = numbers(sizes)
    if not node.attribute("allowzero", 0):
        sizes = [x.shape[axis] if size == 0 else size for axis, size in enumerate(sizes)]
    return x.reshape(sizes)


@operator("Flatten")
def flatten(node, x):
    """Flattens to a matrix: the axes before `axis`, and the others."""
    axis = positive(node.attribute("axis", 1), x.dim())
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@operator("Squeeze")
def squeeze(node, x, axes=None):
    axes = node.attribute("axes") if axes is None else numbers(axes)
    return x.squeeze(axes)


@operator("Unsqueeze")
def unsqueeze(node, x, axes=None):
    """The axes are those of the result."""
    axes = node.attribute("axes") if axes is None else numbers(axes)
    for axis in sorted(positive(axis, x.dim() + len(axes)) for axis in axes):
        x = x.unsqueeze(axis)
    return x


@operator("Transpose")
def transpose(node, x):
    return x.permute(node.attribute("perm", list(reversed(range(x.dim())))))


@operator("Expand")
def expand(node, x, sizes):
    """Expands to the shape that both broadcast to: the requested shape may have ones where x is
    larger."""
    sizes = numbers(sizes)
    rank = max(x.dim(), len(sizes))
    own = [1] * (rank - x.dim()) + list(x.shape)
    requested = [1] * (rank - len(sizes)) + sizes
    return x.expand([b if a == 1 else a for a, b in zip(own, requested)])


@operator("Tile")
def tile(node, x, repeats):
    return x.repeat(numbers(repeats))


@operator("Concat")
def concat(node, *values):
    return ternion.cat(values, node.attribute("axis"))


@operator("Split")
def split(node, x, sizes=None):
    """Splits into parts of these sizes, or into as many equal parts as there are outputs, of which
    the last may be smaller."""
    axis = node.attribute("axis", 0)
    sizes = node.attribute("split") if sizes is None else numbers(sizes)
    if sizes is None:
        parts = node.attribute("num_outputs", len(node.outputs))
        length = -(-x.shape[axis] // parts)
        sizes = [max(0, min(length, x.shape[axis] - part * length)) for part in range(parts)]
    return tuple(x.split(sizes, axis))


@operator("DepthToSpace")
def depth_to_space(node, x):
    """Rearranges channels into blocks of pixels. Shapes: [n, c * b * b, h, w] -> [n, c, h * b, w *
    b]."""
    block = node.attribute("blocksize")
    n, c, h, w = x.shape
    if node.attribute("mode", "DCR") == "DCR":
        x = x.reshape(n, block, block, c // block**2, h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(n, c // block**2, block, block, h, w).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(n, c // block**2, h * block, w * block)


@operator("SpaceToDepth")
def space_to_depth(node, x):
    """Rearranges blocks of pixels into channels. Shapes: [n, c, h * b, w * b] -> [n, c * b * b, h,
    w]."""
    block = node.attribute("blocksize")
    n, c, h, w = x.shape
    order = (0, 3, 5, 1, 2, 4) if node.attribute("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    x = x.reshape(n, c, h // block, block, w // block, block).permute(*order)
    return x.reshape(n, c * block**2, h // block, w // block)


@operator("Pad")
def pad(node, x, pads, value=None, axes=None):
    """Ternion pads with constants. Padding with elements of the input (reflect, edge, wrap) uses
    indices."""
    pads = numbers(pads)
    axes = list(range(x.dim())) if axes is None else [positive(axis, x.dim()) for axis in numbers(axes)]
    amounts = {axis: (pads[number], pads[number + len(axes)]) for number, axis in enumerate(axes)}
    mode = node.attribute("mode", "constant")
    if mode != "constant":
        return _pad_by_indices(x, amounts, mode)
    pairs = [amount for axis in reversed(range(x.dim())) for amount in amounts.get(axis, (0, 0))]
    return functional.pad(x, pairs, value=0 if value is None else value.item())


def _pad_by_indices(x, amounts, mode):
    """Selects, for each element of the result, the element that the mode specifies."""
    for axis, (before, behind) in amounts.items():
        size = x.shape[axis]
        positions = range(-before, size + behind)
        if mode == "edge":
            index = [min(max(position, 0), size - 1) for position in positions]
        elif mode == "wrap":
            index = [position % size for position in positions]
        else:
            period = max(2 * (size - 1), 1)
            index = [min(position % period, period - position % period) for position in positions]
        x = x.index_select(axis, int_tensor(index))
    return x


@operator("CenterCropPad")
def center_crop_pad(node, x, sizes):
    """Crops, or pads with zeros, equally on both sides."""
    axes = node.attribute("axes", list(range(x.dim())))
    for axis, size in zip(axes, numbers(sizes)):
        axis = positive(axis, x.dim())
        if size < x.shape[axis]:
            x = x.narrow(axis, (x.shape[axis] - size) // 2, size)
        elif size > x.shape[axis]:
            missing = size - x.shape[axis]
            pairs = [0] * (2 * (x.dim() - 1 - axis)) + [missing // 2, missing - missing // 2]
            x = functional.pad(x, pairs)
    return x


@operator("Trilu")
def trilu(node, x, diagonal=None):
    diagonal = 0 if diagonal is None else int(diagonal.item())
    return x.triu(diagonal) if node.attribute("upper", 1) else x.tril(diagonal)
