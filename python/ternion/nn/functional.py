"""Functions of layers and losses, without parameters. Names, arguments and defaults are PyTorch's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._functions.methods import function_of as _function_of
from .._functions.shapes import broadcast_shapes as _broadcast_shapes
from .._refusals import name_all as _name_all
from .._scopes import no_grad as _no_grad
from .._ternion import Tensor, _number, _sinusoidal
from .._ternion import _functional as _native

# Native functions that are elsewhere: in `nn.attention` and `nn.attention.varlen`.
_ELSEWHERE = ("scaled_dot_product_attention_with_lse", "varlen_attn")
globals().update({name: function for name, function in vars(_native).items() if not name.startswith("_") and name not in _ELSEWHERE})

from ._activations import *  # noqa: E402,F401,F403  In place of native functions of the same names.
from ._activations import _axis_of, _placed  # noqa: E402
from ._images import *  # noqa: E402,F401,F403
from ._losses import *  # noqa: E402,F401,F403
from ._pools import *  # noqa: E402,F401,F403

gelu, sigmoid, tanh = _function_of("gelu"), _function_of("sigmoid"), _function_of("tanh")
logsigmoid = _function_of("logsigmoid", __name__)

linear = _native.linear


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None, *, axis: int | None = None) -> Tensor:
    """`e^x / sum(e^x)` along `dim`; axis is another name of it."""
    return Tensor.softmax(input, _axis_of("softmax", input, dim, axis), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None, *, axis: int | None = None) -> Tensor:
    """The logarithm of `softmax` along `dim`, without loss."""
    return Tensor.log_softmax(input, _axis_of("log_softmax", input, dim, axis), dtype)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`input1 @ weight[o] @ input2 + bias[o]` for each output o.

    Shapes: [.., in1], [.., in2], weight [out, in1, in2], bias [out] -> [.., out]

    Raises:
        ValueError: last axes of other sizes than the weight's.
    """
    return _native._bilinear(input1, input2, weight, bias)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements become 0 with probability `p`, the others are divided by `1 - p`; nothing changes if `training` is False.

    Shapes: [..] -> the same

    Raises:
        ValueError: a probability outside 0 to 1.
    """
    result = _native.dropout(input, p, training)
    if not inplace:
        return result
    return _placed("dropout", input, result, True) if training else input


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of sequences become 0 with probability `p`, the others are divided by `1 - p`: [batch, channels, length] or [channels, length].

    Raises:
        ValueError: a probability outside 0 to 1, another number of axes.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout1d: probability {p}, expected 0 to 1")
    # Without training the shape alone is checked.
    result = _native._dropout1d(input, p if training else 0.0)
    return _placed("dropout1d", input, result, inplace) if training else input


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of images become 0 with probability `p`, the others are divided by `1 - p`: [batch, channels, ..].

    Raises:
        ValueError: a probability outside 0 to 1, another number of axes.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout2d: probability {p}, expected 0 to 1")
    # Without training the shape alone is checked.
    result = _native._dropout2d(input, p if training else 0.0)
    return _placed("dropout2d", input, result, inplace) if training else input


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of volumes become 0 with probability `p`, the others are divided by `1 - p`: [batch, channels, depth, height, width] or without the batch.

    Raises:
        ValueError: a probability outside 0 to 1, another number of axes.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout3d: probability {p}, expected 0 to 1")
    if input.ndim not in (4, 5):
        raise ValueError(f"dropout3d: an input of shape {tuple(input.shape)}, expected 5 axes, or 4 without a batch")
    if not training or p == 0:
        return input
    # To a channel it is one whether its elements lie along one axis or three.
    volumes = input.reshape(-1, *input.shape[-4:-2], input.shape[-2] * input.shape[-1])
    return _placed("dropout3d", input, _native._dropout2d(volumes, p).reshape(input.shape), inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps a mean of 0 and a variance of 1, for networks of `selu`: elements become what it gives of -infinity with probability `p`.

    Shapes: [..] -> the same

    Raises:
        ValueError: a probability outside 0 to 1.
        TypeError: whole numbers.
    """
    return _alpha_dropped("alpha_dropout", input, p, training, inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels: [batch, channels, ..].

    Raises:
        ValueError: a probability outside 0 to 1, less than two axes.
        TypeError: whole numbers.
    """
    return _alpha_dropped("feature_alpha_dropout", input, p, training, inplace)


def _alpha_dropped(op: str, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    p = _number(p)
    if not 0 <= p <= 1:
        raise ValueError(f"{op}: probability {p}, expected 0 to 1")
    if not training:
        return input
    return _placed(op, input, _native._alpha_dropout(input, p, op == "feature_alpha_dropout"), inplace)


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Rows of `weight` by their numbers, reduced by bags; of a bag without rows 0.

    Shapes: input [bags, size] (int32 or int64), or [count] with offsets [bags]; weight [rows, width] -> [bags, width]

    Args:
        offsets: where each bag begins: 0 first, then in order.
        mode: "sum", "mean" or "max".
        per_sample_weights: what each row counts in a sum, of the input's shape.
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: the number of a row that counts nothing and gets no gradient.
        max_norm: rows that are used and longer are shortened to it before, in `weight` itself.
        norm_type: of which norm their length is.

    Raises:
        IndexError: a number that is none of a row.
        ValueError: other shapes, offsets that are not in order, weights of another mode than the sum, another mode, a `padding_idx` that is none;
            `scale_grad_by_freq` or `sparse`, which PyTorch alone has.
        TypeError: numbers of a floating dtype.
    """
    settings = (include_last_offset, _bags_padding(weight, padding_idx, scale_grad_by_freq, sparse))
    if max_norm is not None:
        _native._embedding_renorm(input, weight, max_norm, norm_type)
    return _native._embedding_bag(input, weight, offsets, mode, per_sample_weights, settings)


def _bags_padding(weight: Tensor, padding_idx: int | None, scale_grad_by_freq: bool, sparse: bool) -> int | None:
    """The row that counts nothing, counted from the start; other arguments of `embedding_bag` that PyTorch alone has are refused."""
    _only_pytorchs("embedding_bag", scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
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
    """Rows of `weight` by their numbers.

    Shapes: input [..] (int32 or int64), weight [rows, width] -> [.., width]

    Args:
        padding_idx: the number of a row that gets no gradient.
        max_norm: rows that are used and longer are shortened to it before, in `weight` itself.
        norm_type: of which norm their length is.
        scale_grad_by_freq: divides the gradient of each row by how often it is used.

    Raises:
        IndexError: a number that is none of a row.
        ValueError: a `padding_idx` that is none; `sparse`, which PyTorch alone has.
    """
    _only_pytorchs("embedding", sparse=sparse)
    if max_norm is not None:
        _native._embedding_renorm(input, weight, max_norm, norm_type)
    return _native.embedding(input, weight, padding_idx, bool(scale_grad_by_freq))


def _only_pytorchs(op: str, **settings: Any) -> None:
    for name, value in settings.items():
        if value:
            raise ValueError(f"{op}: {name}={value}, expected False: PyTorch alone has it")


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Each channel of each example shifted to mean 0 and scaled to variance 1, then `* weight + bias`.

    Running statistics, if there are any, follow the means over the batch of each example's mean and unbiased variance, in place; without `use_input_stats`
    they take the place of the examples' own.

    Shapes: [batch, channels, ..], the others [channels] -> the input's

    Raises:
        ValueError: less than 2 values a channel; no running statistics, unless with `use_input_stats`; one of both alone, or of another size than the channels.
    """
    _check_running("instance_norm", running_mean, running_var)
    if not use_input_stats and running_mean is None:
        raise ValueError("instance_norm: use_input_stats=False without running_mean and running_var, expected both")
    return _native._instance_norm(input, running_mean, running_var, weight, bias, bool(use_input_stats), momentum, eps)


def _check_running(op: str, mean: Any, var: Any) -> None:
    if (mean is None) != (var is None):
        raise ValueError(f"{op}: expected both or neither of running_mean and running_var, got {'running_var' if mean is None else 'running_mean'} alone")


def batch_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Each channel shifted to mean 0 and scaled to variance 1: of the batch in training, else of the running statistics, which follow the batch in training.

    Shapes: [batch, channels, ..], the others [channels] -> the input's; of an empty batch nothing follows

    Raises:
        ValueError: training on a single value for each channel; no running statistics, unless in training; one of both alone, or of another size than the
            channels; an `eps` that is not above 0.
    """
    if not eps > 0:
        raise ValueError(f"batch_norm: eps {eps}, expected above 0")
    for name, running in (("running_mean", running_mean), ("running_var", running_var)):
        if running is None and not training:
            raise ValueError(f"batch_norm: {name} is None, expected a tensor, or training=True")
    _check_running("batch_norm", running_mean, running_var)
    return _native.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False, *, window: int | None = None,
) -> Tensor:  # fmt: skip
    """Means of `value`, weighted by `softmax(scale * query @ key.T + mask)`.

    Shapes: query [.., heads, queries, head_dim], key [.., kv_heads, keys, head_dim], value [.., kv_heads, keys, value_dim] -> [.., heads, queries,
    value_dim]; axes before the last two may be left out

    Args:
        attn_mask: bool, true where a key is seen, or numbers that are added to the scores; broadcast.
        dropout_p: the probability with which a weight becomes 0.
        is_causal: whether a query sees only keys up to its own place; the first query stands at the first key, as in PyTorch, but under a `window`,
            where the last stands at the last.
        scale: of the scores; 1 / sqrt(head_dim) by default.
        enable_gqa: whether heads of keys and values may be shared by several heads of queries; a single one is shared by all without it, too.
        window: how many places back, and ahead unless causal, a query sees, its own counted.

    Raises:
        ValueError: shapes that do not fit, a probability outside 0 to 1.
    """
    if not enable_gqa:
        _check_heads(query, key, value)
    query, key, value = _of_one_rank(query, key, value)
    return _native.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, window=window)


def _of_one_rank(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Operands of several numbers of axes with the same ones before the last two: those of one are spread over those of the others."""
    operands = (query, key, value)
    if any(operand.ndim < 2 for operand in operands) or query.ndim == key.ndim == value.ndim:
        return operands
    outer = _broadcast_shapes(*(operand.shape[:-2] for operand in operands))
    return tuple(operand.expand(*outer, *operand.shape[-2:]) for operand in operands)


def _check_heads(query: Any, key: Any, value: Any, function: str = "scaled_dot_product_attention") -> None:
    """That as many heads are of keys and values as of queries, or one. What is no tensor is refused later."""
    if not all(isinstance(operand, Tensor) and operand.ndim > 2 for operand in (query, key, value)):
        return
    heads = query.shape[-3]
    for name, operand in (("key", key), ("value", value)):
        if operand.shape[-3] not in (heads, 1):
            told = f"{name} of {operand.shape[-3]} heads for {heads} of queries, expected as many, or enable_gqa=True"
            raise ValueError(f"{function}: {told}")


def sinusoidal(positions: int, width: int, device: Any = None) -> Tensor:
    """Sines and cosines of positions (Vaswani et al. 2017, section 3.5): float32, [positions, width].

    Column `2 i` is `sin(position / 10000^(2 i / width))`, column `2 i + 1` its cosine.

    Raises:
        ValueError: an odd width.
    """
    return _sinusoidal(positions, width, device)


_name_all(globals())

_NEEDED = ("Any", "Sequence", "Tensor", "annotations")
__all__ = [name for name in globals() if not name.startswith("_") and name not in _NEEDED]


def __dir__() -> list[str]:
    return __all__
