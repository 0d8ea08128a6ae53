"""Operators that read or write elements by index."""

import math

import ternion
from ternion import Tensor

from .table import int_tensor, numbers, operator, positive, wrapped


@operator("Slice")
def slices(node, x, starts=None, ends=None, axes=None, steps=None):
    """Steps may be negative, which Ternion's slices, like PyTorch's, do not support. These use
    indices."""
    if starts is None:
        starts, ends, axes = node.attribute("starts"), node.attribute("ends"), node.attribute("axes")
    else:
        starts, ends, axes, steps = numbers(starts), numbers(ends), numbers(axes), numbers(steps)
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for start, end, axis, step in zip(starts, ends, axes, steps):
        axis = positive(axis, x.dim())
        indices = range(*slice(start, end, step).indices(x.shape[axis]))
        if step == 1:
            x = x.narrow(axis, indices.start if indices else 0, len(indices))
        elif step > 1:
            x = x[(slice(None),) * axis + (slice(indices.start, indices.stop, step),)]
        else:
            x = x.index_select(axis, int_tensor(indices))
    return x


@operator("Gather")
def gather(node, x, index):
    """Gathers slices along an axis, which is replaced by the axes of the indices."""
    axis = positive(node.attribute("axis", 0), x.dim())
    index = wrapped(index, x.shape[axis])
    chosen = x.index_select(axis, index.reshape(-1))
    return chosen.reshape(list(x.shape[:axis]) + list(index.shape) + list(x.shape[axis + 1 :]))


@operator("GatherElements")
def gather_elements(node, x, index):
    axis = positive(node.attribute("axis", 0), x.dim())
    return x.gather(axis, wrapped(index, x.shape[axis]))


def _rows(index, sizes):
    """Converts tuples of indices along the last axis to row-major offsets: the sum of index *
    stride."""
    offsets = ternion.zeros(index.shape[:-1], dtype=ternion.int64)
    for position, size in enumerate(sizes):
        offsets = offsets * size + wrapped(index.select(-1, position), size)
    return offsets


@operator("GatherND")
def gather_nd(node, x, index):
    """Gathers slices by tuples of indices, within each batch."""
    batch = node.attribute("batch_dims", 0)
    depth = index.shape[-1]
    batches = math.prod(x.shape[:batch])
    sizes, rest = x.shape[batch : batch + depth], list(x.shape[batch + depth :])
    offsets = _rows(index.reshape([batches, -1, depth]), sizes)
    offsets = offsets + ternion.arange(batches).reshape(batches, 1) * math.prod(sizes)
    chosen = x.reshape([batches * math.prod(sizes)] + rest).index_select(0, offsets.reshape(-1))
    return chosen.reshape(list(index.shape[:-1]) + rest)


_MERGED = {"mul": Tensor.mul, "max": Tensor.maximum, "min": Tensor.minimum}


def _scatter(node, x, axis, index, updates):
    """Replaces elements by updates, adds updates to them, or combines them by another function.

    The last case is composed: it takes one slice of the updates along the axis at a time, in which
    no index occurs twice.
    """
    reduction = node.attribute("reduction", "none")
    if reduction == "none":
        return x.scatter(axis, index, updates)
    if reduction == "add":
        return x.scatter_add(axis, index, updates)
    for step in range(index.shape[axis]):
        position, update = index.narrow(axis, step, 1), updates.narrow(axis, step, 1)
        x = x.scatter(axis, position, _MERGED[reduction](x.gather(axis, position), update))
    return x


@operator("Scatter", "ScatterElements")
def scatter_elements(node, x, index, updates):
    axis = positive(node.attribute("axis", 0), x.dim())
    return _scatter(node, x, axis, wrapped(index, x.shape[axis]), updates)


@operator("ScatterND")
def scatter_nd(node, x, index, updates):
    """Writes slices by tuples of indices."""
    depth = index.shape[-1]
    width = math.prod(x.shape[depth:])
    offsets = _rows(index, x.shape[:depth]).reshape(-1, 1).expand(-1, width)
    rows = x.reshape(math.prod(x.shape[:depth]), width)
    return _scatter(node, rows, 0, offsets.contiguous(), updates.reshape(-1, width)).reshape(x.shape)


@operator("TensorScatter")
def tensor_scatter(node, cache, update, starts=None):
    """Writes a sequence to the cache of each batch element from its start on, wrapping around if
    `mode` is circular."""
    axis = positive(node.attribute("axis", -2), cache.dim())
    starts = ternion.zeros(cache.shape[0], dtype=ternion.int64) if starts is None else starts
    positions = starts.reshape(-1, 1) + ternion.arange(update.shape[axis]).reshape(1, -1)
    if node.attribute("mode", "linear") == "circular":
        positions = positions % cache.shape[axis]
    sizes = [1] * cache.dim()
    sizes[0], sizes[axis] = positions.shape
    return cache.scatter(axis, positions.reshape(sizes).expand(update.shape).contiguous(), update)


@operator("OneHot")
def one_hot(node, index, depth, values):
    """`values` has the value for all other elements, and the value at the index."""
    depth = int(depth.item())
    axis = positive(node.attribute("axis", -1), index.dim() + 1)
    sizes = [1] * (index.dim() + 1)
    sizes[axis] = depth
    hot = wrapped(index, depth).unsqueeze(axis) == ternion.arange(depth).reshape(sizes)
    return ternion.where(hot, values[1], values[0])


@operator("NonZero")
def nonzero(node, x):
    """Returns the indices as columns. A tensor without axes has no indices, but one column if it is
    not 0."""
    return x.nonzero().T


@operator("Compress")
def compress(node, x, condition):
    """Selects the slices where the condition is true. It may be shorter than the axis."""
    if node.attribute("axis") is None:
        x = x.reshape(-1)
    return x.index_select(node.attribute("axis", 0), condition.nonzero().reshape(-1))


@operator("ReverseSequence")
def reverse_sequence(node, x, lengths):
    """Reverses the first elements of each batch, as many as its length says."""
    time, batch = node.attribute("time_axis", 0), node.attribute("batch_axis", 1)
    steps = ternion.arange(x.shape[time]).reshape(-1, 1)
    lengths = lengths.reshape(1, -1)
    positions = ternion.where(steps < lengths, lengths - 1 - steps, steps)
    positions = positions if time < batch else positions.T
    positions = positions.reshape(list(positions.shape) + [1] * (x.dim() - 2)).expand(x.shape)
    return x.gather(time, positions.contiguous())


@operator("MaxUnpool")
def max_unpool(node, x, index, sizes=None):
    """Writes elements to the positions where pooling found them. The indices count through the
    whole unpooled tensor."""
    kernel = node.attribute("kernel_shape")
    strides = node.attribute("strides", [1] * len(kernel))
    pads = node.attribute("pads", [0] * 2 * len(kernel))
    spatial = [
        (length - 1) * stride + size - before - behind
        for length, stride, size, before, behind in zip(x.shape[2:], strides, kernel, pads, pads[len(kernel) :])
    ]
    inferred = list(x.shape[:2]) + spatial
    output_sizes = inferred if sizes is None else numbers(sizes)
    flat = ternion.zeros(math.prod(inferred), dtype=x.dtype).scatter(0, index.reshape(-1), x.reshape(-1))
    result = ternion.zeros(output_sizes, dtype=x.dtype)
    # The indices are those of the smallest size that fits. A larger size only adds zeros.
    result[tuple(slice(0, size) for size in inferred)] = flat.reshape(inferred)
    return result


@operator("Unique")
def unique(node, x):
    """Returns the unique elements, or slices along an axis, sorted or in order of first occurrence;
    with the index of the first occurrence, the index of each element in the result, and the
    counts."""
    axis = node.attribute("axis")
    x, axis = (x.flatten(), 0) if axis is None else (x, positive(axis, x.dim()))
    result, inverse, counts = ternion.unique(x, return_inverse=True, return_counts=True, dim=axis)
    # Sorting is stable: the first element of each group comes first.
    firsts = inverse.argsort().index_select(0, counts.cumsum(0) - counts)
    if not node.attribute("sorted", 1):
        order = firsts.argsort()
        result, firsts, counts = result.index_select(axis, order), firsts.index_select(0, order), counts.index_select(0, order)
        inverse = order.argsort().index_select(0, inverse)
    return result, firsts, inverse, counts


@operator("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(node, x, index):
    """Selects columns by index. A tensor with one axis is treated as one row."""
    rows = x.reshape(1, -1) if x.dim() == 1 else x
    return rows.index_select(-1, index.reshape(-1))
