"""Elements that are chosen or written by indices."""

import math

import ternion
from ternion import Tensor

from .table import numbers, operator, positive, whole, wrapped


@operator("Slice")
def slices(node, x, starts=None, ends=None, axes=None, steps=None):
    """Steps may be negative, which slices of Ternion (as PyTorch's) may not: then by indices."""
    if starts is None:
        starts, ends, axes = node.attribute("starts"), node.attribute("ends"), node.attribute("axes")
    else:
        starts, ends, axes, steps = numbers(starts), numbers(ends), numbers(axes), numbers(steps)
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for start, end, axis, step in zip(starts, ends, axes, steps):
        axis = positive(axis, x.dim())
        places = range(*slice(start, end, step).indices(x.shape[axis]))
        if step == 1:
            x = x.narrow(axis, places.start if places else 0, len(places))
        elif step > 1:
            x = x[(slice(None),) * axis + (slice(places.start, places.stop, step),)]
        else:
            x = x.index_select(axis, whole(places))
    return x


@operator("Gather")
def gather(node, x, index):
    """Slices along an axis, whose place the axes of the indices take."""
    axis = positive(node.attribute("axis", 0), x.dim())
    index = wrapped(index, x.shape[axis])
    chosen = x.index_select(axis, index.reshape(-1))
    return chosen.reshape(list(x.shape[:axis]) + list(index.shape) + list(x.shape[axis + 1 :]))


@operator("GatherElements")
def gather_elements(node, x, index):
    axis = positive(node.attribute("axis", 0), x.dim())
    return x.gather(axis, wrapped(index, x.shape[axis]))


def _rows(index, sizes):
    """Tuples of indices, along the last axis, as places in row-major order: the sum of index * stride."""
    places = ternion.zeros(index.shape[:-1], dtype=ternion.int64)
    for position, size in enumerate(sizes):
        places = places * size + wrapped(index.select(-1, position), size)
    return places


@operator("GatherND")
def gather_nd(node, x, index):
    """Slices by tuples of indices, within each batch."""
    batch = node.attribute("batch_dims", 0)
    depth = index.shape[-1]
    batches = math.prod(x.shape[:batch])
    sizes, rest = x.shape[batch : batch + depth], list(x.shape[batch + depth :])
    places = _rows(index.reshape([batches, -1, depth]), sizes)
    places = places + ternion.arange(batches).reshape(batches, 1) * math.prod(sizes)
    chosen = x.reshape([batches * math.prod(sizes)] + rest).index_select(0, places.reshape(-1))
    return chosen.reshape(list(index.shape[:-1]) + rest)


_MERGED = {"mul": Tensor.mul, "max": Tensor.maximum, "min": Tensor.minimum}


def _scattered(node, x, axis, index, updates):
    """The elements with updates in their places, added to them, or merged with them by another function.

    The last is composed: Ternion's scatter_reduce has sums and means alone. Of the updates one along the axis is taken at a time: no two of these go to one place.
    """
    reduction = node.attribute("reduction", "none")
    if reduction == "none":
        return x.scatter(axis, index, updates)
    if reduction == "add":
        return x.scatter_add(axis, index, updates)
    for step in range(index.shape[axis]):
        place, update = index.narrow(axis, step, 1), updates.narrow(axis, step, 1)
        x = x.scatter(axis, place, _MERGED[reduction](x.gather(axis, place), update))
    return x


@operator("Scatter", "ScatterElements")
def scatter_elements(node, x, index, updates):
    axis = positive(node.attribute("axis", 0), x.dim())
    return _scattered(node, x, axis, wrapped(index, x.shape[axis]), updates)


@operator("ScatterND")
def scatter_nd(node, x, index, updates):
    """Slices written by tuples of indices."""
    depth = index.shape[-1]
    width = math.prod(x.shape[depth:])
    places = _rows(index, x.shape[:depth]).reshape(-1, 1).expand(-1, width)
    rows = x.reshape(math.prod(x.shape[:depth]), width)
    return _scattered(node, rows, 0, places.contiguous(), updates.reshape(-1, width)).reshape(x.shape)


@operator("TensorScatter")
def tensor_scatter(node, cache, update, starts=None):
    """Writes a sequence into each batch's cache from its start on, around the end if `mode` is circular."""
    axis = positive(node.attribute("axis", -2), cache.dim())
    starts = ternion.zeros(cache.shape[0], dtype=ternion.int64) if starts is None else starts
    places = starts.reshape(-1, 1) + ternion.arange(update.shape[axis]).reshape(1, -1)
    if node.attribute("mode", "linear") == "circular":
        places = places % cache.shape[axis]
    sizes = [1] * cache.dim()
    sizes[0], sizes[axis] = places.shape
    return cache.scatter(axis, places.reshape(sizes).expand(update.shape).contiguous(), update)


@operator("OneHot")
def one_hot(node, index, depth, values):
    """`values` holds what is elsewhere, and what is at the index."""
    depth = int(depth.item())
    axis = positive(node.attribute("axis", -1), index.dim() + 1)
    sizes = [1] * (index.dim() + 1)
    sizes[axis] = depth
    hot = wrapped(index, depth).unsqueeze(axis) == ternion.arange(depth).reshape(sizes)
    return ternion.where(hot, values[1], values[0])


@operator("NonZero")
def nonzero(node, x):
    """Indices as columns; a tensor without axes has none, but one column if it is not 0."""
    return x.nonzero().T


@operator("Compress")
def compress(node, x, condition):
    """The slices where a condition is true, which may be shorter than the axis."""
    if node.attribute("axis") is None:
        x = x.reshape(-1)
    return x.index_select(node.attribute("axis", 0), condition.nonzero().reshape(-1))


@operator("ReverseSequence")
def reverse_sequence(node, x, lengths):
    """The first elements of each batch in reverse order, as many as its length says."""
    time, batch = node.attribute("time_axis", 0), node.attribute("batch_axis", 1)
    steps = ternion.arange(x.shape[time]).reshape(-1, 1)
    lengths = lengths.reshape(1, -1)
    places = ternion.where(steps < lengths, lengths - 1 - steps, steps)
    places = places if time < batch else places.T
    places = places.reshape(list(places.shape) + [1] * (x.dim() - 2)).expand(x.shape)
    return x.gather(time, places.contiguous())


@operator("MaxUnpool")
def max_unpool(node, x, index, sizes=None):
    """Writes elements to where a pooling found them; the indices count through the whole unpooled tensor."""
    kernel = node.attribute("kernel_shape")
    strides = node.attribute("strides", [1] * len(kernel))
    pads = node.attribute("pads", [0] * 2 * len(kernel))
    spatial = [
        (length - 1) * stride + size - before - behind
        for length, stride, size, before, behind in zip(x.shape[2:], strides, kernel, pads, pads[len(kernel) :])
    ]
    inferred = list(x.shape[:2]) + spatial
    wanted = inferred if sizes is None else numbers(sizes)
    flat = ternion.zeros(math.prod(inferred), dtype=x.dtype).scatter(0, index.reshape(-1), x.reshape(-1))
    result = ternion.zeros(wanted, dtype=x.dtype)
    # The indices are those of the smallest size that fits; a larger one only adds zeros.
    result[tuple(slice(0, size) for size in inferred)] = flat.reshape(inferred)
    return result


@operator("Unique")
def unique(node, x):
    """The different elements, or slices along an axis: sorted, or as they come first; beside them where they come first, which one each is, and how often they occur."""
    axis = node.attribute("axis")
    x, axis = (x.flatten(), 0) if axis is None else (x, positive(axis, x.dim()))
    found, inverse, counts = ternion.unique(x, return_inverse=True, return_counts=True, dim=axis)
    # Sorting keeps the order of equal numbers: the first of each group comes first.
    firsts = inverse.argsort().index_select(0, counts.cumsum(0) - counts)
    if not node.attribute("sorted", 1):
        order = firsts.argsort()
        found, firsts, counts = found.index_select(axis, order), firsts.index_select(0, order), counts.index_select(0, order)
        inverse = order.argsort().index_select(0, inverse)
    return found, firsts, inverse, counts


@operator("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(node, x, index):
    """Columns by their numbers; of a tensor with one axis the row that it is."""
    rows = x.reshape(1, -1) if x.dim() == 1 else x
    return rows.index_select(-1, index.reshape(-1))
