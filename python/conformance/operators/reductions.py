"""Reductions over axes, cumulative sums and products, and top-k."""

import math
from functools import partial

import ternion
from ternion import Tensor

from .table import numbers, operator, positive


def _axes(node, x, axes):
    """Returns the axes of a reduction: an input, or an attribute before opset 18 (13 for sums).

    If none is given, all axes; with `noop_with_empty_axes`, no axis.
    """
    chosen = node.attribute("axes") if axes is None else numbers(axes)
    if chosen:
        return list(chosen)
    return [] if node.attribute("noop_with_empty_axes", 0) else list(range(x.dim()))


def _reduce(method, node, x, axes):
    """Applies a tensor method that takes axes."""
    axes = _axes(node, x, axes)
    return method(x, axes, bool(node.attribute("keepdims", 1))) if axes else x


def _enter(name, before=None, method=Tensor.sum, after=None):
    """Adds a reduction to the table, with elementwise functions before and after it. These also run
    if there is no axis to reduce."""

    def reduction(node, x, axes=None):
        result = _reduce(method, node, x if before is None else before(x), axes)
        result = result if after is None else after(result)
        # Sums of integers are int64 in Ternion, and have the dtype of the input in ONNX.
        return result.to(x.dtype)

    operator(name)(reduction)


_enter("ReduceSum")
_enter("ReduceProd", method=Tensor.prod)
_enter("ReduceMean", method=Tensor.mean)
_enter("ReduceL1", before=Tensor.abs)
_enter("ReduceL2", before=Tensor.square, after=Tensor.sqrt)
_enter("ReduceSumSquare", before=Tensor.square)
_enter("ReduceLogSum", after=Tensor.log)
_enter("ReduceLogSumExp", method=Tensor.logsumexp)


def _extreme(method, nothing, node, x, axes=None):
    """Returns the largest or smallest element. ONNX defines the result for no elements; Ternion
    rejects this case, as PyTorch does."""
    chosen = [positive(axis, x.dim()) for axis in _axes(node, x, axes)]
    if math.prod(x.shape[axis] for axis in chosen) == 0:
        kept_sizes = [1 if axis in chosen else size for axis, size in enumerate(x.shape)]
        sizes = kept_sizes if node.attribute("keepdims", 1) else [size for axis, size in enumerate(x.shape) if axis not in chosen]
        return ternion.full(sizes, nothing > 0 if x.dtype == ternion.bool else nothing, dtype=x.dtype)
    return _reduce(method, node, x, axes)


operator("ReduceMax")(partial(_extreme, Tensor.amax, -math.inf))
operator("ReduceMin")(partial(_extreme, Tensor.amin, math.inf))


def _extreme_index(method, node, x):
    """Returns the index of the largest or smallest element: of the first one, or with
    `select_last_index` of the last one."""
    axis = positive(node.attribute("axis", 0), x.dim())
    keepdims = bool(node.attribute("keepdims", 1))
    if node.attribute("select_last_index", 0):
        return x.shape[axis] - 1 - method(x.flip(axis), axis, keepdims)
    return method(x, axis, keepdims)


operator("ArgMax")(partial(_extreme_index, Tensor.argmax))
operator("ArgMin")(partial(_extreme_index, Tensor.argmin))


def _cumulate(method, neutral, node, x, axis):
    """Accumulates along an axis, forward or in reverse, inclusively or exclusively."""
    axis = positive(int(axis.item()), x.dim())
    x = x.flip(axis) if node.attribute("reverse", 0) else x
    if node.attribute("exclusive", 0):
        first = ternion.full_like(x.narrow(axis, 0, 1), neutral)
        x = ternion.cat([first, x.narrow(axis, 0, x.shape[axis] - 1)], axis)
    result = method(x, axis).to(x.dtype)
    return result.flip(axis) if node.attribute("reverse", 0) else result


operator("CumSum")(partial(_cumulate, Tensor.cumsum, 0))
operator("CumProd")(partial(_cumulate, ternion.cumprod, 1))


@operator("TopK")
def topk(node, x, k):
    """The results are sorted even if `sorted` is 0, which allows any order."""
    result = x.topk(int(k.item()), node.attribute("axis", -1), bool(node.attribute("largest", 1)))
    return result.values, result.indices
