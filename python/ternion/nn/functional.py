"""Functions of layers and losses, without parameters. Names, arguments and defaults are PyTorch's."""

from __future__ import annotations

import warnings as _warnings
from collections.abc import Sequence
from typing import Any

from .._functions.methods import function_of as _function_of
from .._refusals import name_all as _name_all
from .._ternion import Tensor, _sinusoidal, einsum as _einsum, ones as _ones, where as _where
from .._ternion import _functional as _native

globals().update({name: function for name, function in vars(_native).items() if not name.startswith("_")})

from ._activations import *  # noqa: E402,F401,F403  In place of native functions of the same names.
from ._activations import _placed  # noqa: E402
from ._images import *  # noqa: E402,F401,F403
from ._losses import *  # noqa: E402,F401,F403

gelu, sigmoid, tanh = _function_of("gelu"), _function_of("sigmoid"), _function_of("tanh")
logsigmoid = _function_of("logsigmoid", __name__)

linear = _native.linear


def _axis_of(op: str, input: Tensor, dim: int | None, axis: int | None) -> int:
    """The axis of a softmax; where none is named the first of 0, 1 or 3 axes, else the second, with a warning, as in PyTorch."""
    if dim is not None and axis is not None:
        raise TypeError(f"{op}: both dim and axis")
    named = axis if dim is None else dim
    if named is not None:
        return named
    chosen = 0 if input.ndim in (0, 1, 3) else 1
    _warnings.warn(f"{op}: without dim it is along axis {chosen} of shape {list(input.shape)}; name it", UserWarning, stacklevel=4)
    return chosen


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
    outer = input1.shape[:-1]
    rows, others = input1.reshape(-1, input1.shape[-1]), input2.reshape(-1, input2.shape[-1])
    output = _einsum("bi,oij,bj->bo", rows, weight, others).reshape(*outer, weight.shape[0])
    return output if bias is None else output + bias


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements become 0 with probability `p`, the others are divided by `1 - p`; nothing changes if `training` is False.

    Shapes: [..] -> the same

    Raises:
        ValueError: a probability outside 0 to 1.
    """
    result = _native.dropout(input, p, training)
    return _placed(input, result, inplace) if inplace and training else result


def _of_channels(op: str, input: Tensor, p: float, training: bool, inplace: bool, axes: tuple[int, ...]) -> Tensor:
    if not 0 <= p <= 1:
        raise ValueError(f"{op}: probability {p}, expected 0 to 1")
    if input.ndim not in axes:
        raise ValueError(f"{op}: an input of shape {tuple(input.shape)}, expected {' or '.join(map(str, axes))} axes")
    if not training:
        return input
    # Of [channels, length] each row is a channel, of everything else the second axis.
    kept = input.shape[: 1 if op == "dropout1d" and input.ndim == 2 else 2]
    mask = _ones(*kept, *(1,) * (input.ndim - len(kept)), dtype=input.dtype, device=input.device)
    return _placed(input, input * _native.dropout(mask, p, True), inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of sequences become 0 with probability `p`, the others are divided by `1 - p`: [batch, channels, length] or [channels, length].

    Raises:
        ValueError: a probability outside 0 to 1, another number of axes.
    """
    return _of_channels("dropout1d", input, p, training, inplace, (2, 3))


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of images become 0 with probability `p`, the others are divided by `1 - p`: [batch, channels, ..].

    Raises:
        ValueError: a probability outside 0 to 1, another number of axes.
    """
    return _of_channels("dropout2d", input, p, training, inplace, (3, 4))


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Rows of `weight` by their numbers.

    Shapes: input [..] (int32 or int64), weight [rows, width] -> [.., width]

    Args:
        padding_idx: the number of a row that gets no gradient.

    Raises:
        IndexError: a number that is none of a row.
        ValueError: a `padding_idx` that is none; `max_norm`, `scale_grad_by_freq` or `sparse`, which PyTorch alone has.
    """
    _only_pytorchs("embedding", max_norm=max_norm, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
    rows = _native.embedding(input, weight)
    if padding_idx is None:
        return rows
    count = weight.shape[0]
    if not -count <= padding_idx < count:
        raise ValueError(f"embedding: padding_idx {padding_idx} is none of {count} rows")
    return _where((input == padding_idx % count).unsqueeze(-1), rows.detach(), rows) if rows.requires_grad else rows


def _only_pytorchs(op: str, **settings: Any) -> None:
    for name, value in settings.items():
        if value:
            raise ValueError(f"{op}: {name}={value}, expected {None if name == 'max_norm' else False}: PyTorch alone has it")


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Each channel of each example shifted to mean 0 and scaled to variance 1, then `* weight + bias`.

    Shapes: [batch, channels, ..], weight and bias [channels] -> the input's

    Raises:
        ValueError: running statistics, which PyTorch alone has; less than 2 values a channel.
    """
    if running_mean is not None or running_var is not None or not use_input_stats:
        raise ValueError("instance_norm: running statistics, expected none: PyTorch alone has them")
    if input.ndim < 3 or input[0, 0].numel() < 2:
        raise ValueError(f"instance_norm: an input of shape {tuple(input.shape)}, expected more than 1 value a channel")
    return _native.group_norm(input, input.shape[1], weight, bias, eps)


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
