"""Functions of layers and losses, without parameters. Names, arguments and defaults are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._error_messages import name_all as _name_all
from .._functions.methods import function_of as _function_of
from .._functions.shapes import broadcast_shapes as _broadcast_shapes
from .._scopes import no_grad as _no_grad
from .._ternion import Tensor, _number, _sinusoidal
from .._ternion import _functional as _native

# Native functions that are exported elsewhere: in `nn.attention` and `nn.attention.varlen`.
_EXCLUDED = ("scaled_dot_product_attention_with_lse", "varlen_attn")
globals().update({name: function for name, function in vars(_native).items() if not name.startswith("_") and name not in _EXCLUDED})

from ._activations import *  # noqa: E402,F401,F403  Replaces native functions of the same names.
from ._activations import _axis_of, _maybe_in_place  # noqa: E402
from ._images import *  # noqa: E402,F401,F403
from ._losses import *  # noqa: E402,F401,F403
from ._pools import *  # noqa: E402,F401,F403

gelu, sigmoid, tanh = _function_of("gelu"), _function_of("sigmoid"), _function_of("tanh")
logsigmoid = _function_of("logsigmoid", __name__)

linear = _native.linear


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None, *, axis: int | None = None) -> Tensor:
    """Computes `e^x / sum(e^x)` along `dim`. `axis` is an alias of `dim`."""
    return Tensor.softmax(input, _axis_of("softmax", input, dim, axis), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None, *, axis: int | None = None) -> Tensor:
    """Computes the logarithm of `softmax` along `dim` without loss of precision."""
    return Tensor.log_softmax(input, _axis_of("log_softmax", input, dim, axis), dtype)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes `input1 @ weight[o] @ input2 + bias[o]` for each output o.

    Shapes: [.., in1], [.., in2], weight [out, in1, in2], bias [out] -> [.., out]

    Raises:
        ValueError: If the last axes do not have the sizes of the weight.
    """
    return _native._bilinear(input1, input2, weight, bias)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Sets elements to 0 with probability `p` and divides the others by `1 - p`. Does nothing if
    `training` is False.

    Shapes: [..] -> the same

    Raises:
        ValueError: If the probability is outside 0 to 1.
    """
    result = _native.dropout(input, p, training)
    if not inplace:
        return result
    return _maybe_in_place("dropout", input, result, True) if training else input


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Sets entire channels of sequences to 0 with probability `p` and divides the others by
    `1 - p`: [batch, channels, length] or [channels, length].

    Raises:
        ValueError: If the probability is outside 0 to 1, or the number of axes is invalid.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout1d: probability {p}, expected 0 to 1")
    # Outside training only the shape is checked.
    result = _native._dropout1d(input, p if training else 0.0)
    return _maybe_in_place("dropout1d", input, result, inplace) if training else input


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Sets entire channels of images to 0 with probability `p` and divides the others by `1 - p`:
    [batch, channels, ..].

    Raises:
        ValueError: If the probability is outside 0 to 1, or the number of axes is invalid.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout2d: probability {p}, expected 0 to 1")
    # Outside training only the shape is checked.
    result = _native._dropout2d(input, p if training else 0.0)
    return _maybe_in_place("dropout2d", input, result, inplace) if training else input


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Sets entire channels of volumes to 0 with probability `p` and divides the others by `1 - p`:
    [batch, channels, depth, height, width], where the batch axis is optional.

    Raises:
        ValueError: If the probability is outside 0 to 1, or the number of axes is invalid.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout3d: probability {p}, expected 0 to 1")
    if input.ndim not in (4, 5):
        raise ValueError(f"dropout3d: an input of shape {tuple(input.shape)}, expected 5 axes, or 4 without a batch")
    if not training or p == 0:
        return input
    # A channel is dropped as a whole, so its three axes can be merged into one.
    volumes = input.reshape(-1, *input.shape[-4:-2], input.shape[-2] * input.shape[-1])
    return _maybe_in_place("dropout3d", input, _native._dropout2d(volumes, p).reshape(input.shape), inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Applies dropout that preserves mean 0 and variance 1, for networks with `selu`: with
    probability `p` an element is set to the value of `selu` at -infinity.

    Shapes: [..] -> the same

    Raises:
        ValueError: If the probability is outside 0 to 1.
        TypeError: If the input has an integer dtype.
    """
    return _alpha_dropout("alpha_dropout", input, p, training, inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Applies `alpha_dropout` to entire channels: [batch, channels, ..].

    Raises:
        ValueError: If the probability is outside 0 to 1, or the input has fewer than two axes.
        TypeError: If the input has an integer dtype.
    """
    return _alpha_dropout("feature_alpha_dropout", input, p, training, inplace)


def _alpha_dropout(op: str, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    p = _number(p)
    if not 0 <= p <= 1:
        raise ValueError(f"{op}: probability {p}, expected 0 to 1")
    if not training:
        return input
    return _maybe_in_place(op, input, _native._alpha_dropout(input, p, op == "feature_alpha_dropout"), inplace)


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Looks up rows of `weight` by index and reduces them by bag. An empty bag gives 0.

    Shapes: input [bags, size] (int32 or int64), or [count] with offsets [bags]; weight
    [rows, width] -> [bags, width]

    Args:
        offsets: the start of each bag, in ascending order; the first is 0.
        mode: "sum", "mean" or "max".
        per_sample_weights: the weight of each row in a sum, of the input's shape.
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: the index of a row that is ignored and receives no gradient.
        max_norm: rows that are looked up and whose norm is larger are first scaled to this norm, in
            `weight` itself.
        norm_type: the p of the norm for `max_norm`.

    Raises:
        IndexError: If an index is out of range.
        ValueError: If the shapes do not match, the offsets are not in ascending order,
            `per_sample_weights` is given for another mode than "sum", the mode is unknown,
            `padding_idx` is out of range, or `scale_grad_by_freq` or `sparse` is True, which only
            PyTorch supports.
        TypeError: If the indices have a floating dtype.
    """
    settings = (include_last_offset, _bag_padding_idx(weight, padding_idx, scale_grad_by_freq, sparse))
    if max_norm is not None:
        _native._embedding_renorm(input, weight, max_norm, norm_type)
    return _native._embedding_bag(input, weight, offsets, mode, per_sample_weights, settings)


def _bag_padding_idx(weight: Tensor, padding_idx: int | None, scale_grad_by_freq: bool, sparse: bool) -> int | None:
    """Returns `padding_idx` counted from the start. Raises ValueError for arguments of
    `embedding_bag` that only PyTorch supports.
    """
    _reject_unsupported("embedding_bag", scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
    if padding_idx is None:
        return None
    count = weight.shape[0]
    if not -count <= padding_idx < count:
        raise ValueError(f"embedding_bag: padding_idx {padding_idx} is none of {count} rows")
    return padding_idx % count


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Looks up rows of `weight` by index.

    Shapes: input [..] (int32 or int64), weight [rows, width] -> [.., width]

    Args:
        padding_idx: the index of a row that receives no gradient.
        max_norm: rows that are looked up and whose norm is larger are first scaled to this norm, in
            `weight` itself.
        norm_type: the p of the norm for `max_norm`.
        scale_grad_by_freq: divides the gradient of each row by the number of its occurrences in the
            input.

    Raises:
        IndexError: If an index is out of range.
        ValueError: If `padding_idx` is out of range, or `sparse` is True, which only PyTorch
            supports.
    """
    _reject_unsupported("embedding", sparse=sparse)
    if max_norm is not None:
        _native._embedding_renorm(input, weight, max_norm, norm_type)
    return _native.embedding(input, weight, padding_idx, bool(scale_grad_by_freq))


def _reject_unsupported(op: str, **settings: Any) -> None:
    for name, value in settings.items():
        if value:
            raise ValueError(f"{op}: {name}={value}, expected False: only PyTorch has it")


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Shifts each channel of each example to mean 0 and scales it to variance 1, then applies
    `* weight + bias`.

    The running statistics, if given, are updated in place with the batch averages of each example's
    mean and unbiased variance. Without `use_input_stats` they are used instead of the examples' own
    statistics.

    Shapes: [batch, channels, ..], the others [channels] -> the input's

    Raises:
        ValueError: If there are fewer than 2 values per channel, the running statistics are missing
            without `use_input_stats`, only one of them is given, or their size is not the number of
            channels.
    """
    _check_running_stats("instance_norm", running_mean, running_var)
    if not use_input_stats and running_mean is None:
        raise ValueError("instance_norm: use_input_stats=False without running_mean and running_var, expected both")
    return _native._instance_norm(input, running_mean, running_var, weight, bias, bool(use_input_stats), momentum, eps)


def _check_running_stats(op: str, mean: Any, var: Any) -> None:
    if (mean is None) != (var is None):
        raise ValueError(f"{op}: expected both or neither of running_mean and running_var, got only {'running_var' if mean is None else 'running_mean'}")


def batch_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Shifts each channel to mean 0 and scales it to variance 1. In training it uses the statistics
    of the batch and updates the running statistics with them; otherwise it uses the running
    statistics.

    Shapes: [batch, channels, ..], the others [channels] -> the input's; an empty batch does not
    update the running statistics

    Raises:
        ValueError: If training has a single value per channel, the running statistics are missing
            outside training, only one of them is given, their size is not the number of channels,
            or `eps` is not above 0.
    """
    if not eps > 0:
        raise ValueError(f"batch_norm: eps {eps}, expected above 0")
    for name, running in (("running_mean", running_mean), ("running_var", running_var)):
        if running is None and not training:
            raise ValueError(f"batch_norm: {name} is None, expected a tensor, or training=True")
    _check_running_stats("batch_norm", running_mean, running_var)
    return _native.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False, *, window: int | None = None,
) -> Tensor:  # fmt: skip
    """Computes the mean of `value`, weighted by `softmax(scale * query @ key.T + mask)`.

    Shapes: query [.., heads, queries, head_dim], key [.., kv_heads, keys, head_dim], value
    [.., kv_heads, keys, value_dim] -> [.., heads, queries, value_dim]; axes before the last two are
    optional

    Args:
        attn_mask: bool, where True keeps a key, or a floating mask that is added to the scores;
            broadcast.
        dropout_p: the dropout probability of attention weights.
        is_causal: whether a query attends only to keys up to its own position. The first query is
            aligned with the first key, as in PyTorch; with a `window`, the last query is aligned
            with the last key.
        scale: the factor of the scores; 1 / sqrt(head_dim) by default.
        enable_gqa: whether several query heads may share a key and value head. A single key and
            value head is shared by all query heads in any case.
        window: the number of positions that a query attends to, including its own: backward, and
            forward unless causal.

    Raises:
        ValueError: If the shapes do not match, or the probability is outside 0 to 1.
    """
    if not enable_gqa:
        _check_heads(query, key, value)
    query, key, value = _broadcast_ranks(query, key, value)
    return _native.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, window=window)


def _broadcast_ranks(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Expands operands of different rank to the same axes before the last two."""
    operands = (query, key, value)
    if any(operand.ndim < 2 for operand in operands) or query.ndim == key.ndim == value.ndim:
        return operands
    outer = _broadcast_shapes(*(operand.shape[:-2] for operand in operands))
    return tuple(operand.expand(*outer, *operand.shape[-2:]) for operand in operands)


def _check_heads(query: Any, key: Any, value: Any, function: str = "scaled_dot_product_attention") -> None:
    """Checks that keys and values have as many heads as queries, or one head. Operands that are not
    tensors are rejected later.
    """
    if not all(isinstance(operand, Tensor) and operand.ndim > 2 for operand in (query, key, value)):
        return
    heads = query.shape[-3]
    for name, operand in (("key", key), ("value", value)):
        if operand.shape[-3] not in (heads, 1):
            message = f"{name} of {operand.shape[-3]} heads for {heads} of queries, expected as many, or enable_gqa=True"
            raise ValueError(f"{function}: {message}")


def sinusoidal(positions: int, width: int, device: Any = None) -> Tensor:
    """Returns the sinusoidal position encoding (Vaswani et al. 2017, section 3.5): float32,
    [positions, width].

    Column `2 i` is `sin(position / 10000^(2 i / width))`, column `2 i + 1` is the cosine of the
    same angle.

    Raises:
        ValueError: If the width is odd.
    """
    return _sinusoidal(positions, width, device)


_name_all(globals())

_HELPER_NAMES = ("Any", "Sequence", "Tensor", "annotations")
__all__ = [name for name in globals() if not name.startswith("_") and name not in _HELPER_NAMES]


def __dir__() -> list[str]:
    return __all__
