"""Activations without parameters: a part of `ternion.nn.functional`.

`inplace=True` and the forms with `_` change the input itself, which is returned. Its gradient flows through the function, as in PyTorch: a tensor that asks for
its gradient itself cannot be changed while operations are recorded.
"""

from __future__ import annotations

import warnings
from typing import Any

from .._functions import _written
from .._refusals import name_all
from .._ternion import Tensor, _functional, empty_like

__all__ = [
    "celu", "celu_", "elu", "elu_", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_", "leaky_relu", "leaky_relu_",
    "mish", "prelu", "relu", "relu6", "relu_", "rrelu", "rrelu_", "selu", "selu_", "silu", "softmin", "softplus", "softshrink", "softsign", "tanhshrink",
    "threshold", "threshold_",
]  # fmt: skip


def _placed(op: str, input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    """The result: the input itself, changed, if that is wanted."""
    return _written(op, input, result) if inplace else result


def _axis_of(op: str, input: Tensor, dim: int | None, axis: int | None = None, stacklevel: int = 4) -> int:
    """The axis of a softmax; where none is named the first of 0, 1 or 3 axes, else the second, with a warning, as in PyTorch."""
    if dim is not None and axis is not None:
        raise TypeError(f"{op}: both dim and axis")
    named = axis if dim is None else dim
    if named is not None:
        return named
    chosen = 0 if input.ndim in (0, 1, 3) else 1
    warnings.warn(f"{op}: without dim it is along axis {chosen} of shape {list(input.shape)}; name it", UserWarning, stacklevel=stacklevel)
    return chosen


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """`max(x, 0)` of each element; NaN stays.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
    return input.relu_() if inplace else Tensor.relu(input)


def relu_(input: Tensor) -> Tensor:
    """`relu`, in place: the tensor itself is changed and returned.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
        RuntimeError: a tensor that asks for its gradient is changed in place while operations are recorded.
    """
    return relu(input, True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu`, in place: the tensor itself is changed and returned.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
        RuntimeError: a tensor that asks for its gradient is changed in place while operations are recorded.
    """
    return elu(input, alpha, True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu`, in place: the tensor itself is changed and returned.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
        RuntimeError: a tensor that asks for its gradient is changed in place while operations are recorded.
    """
    return leaky_relu(input, negative_slope, True)


def selu_(input: Tensor) -> Tensor:
    """`selu`, in place: the tensor itself is changed and returned.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
        RuntimeError: a tensor that asks for its gradient is changed in place while operations are recorded.
    """
    return selu(input, True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu`, in place: the tensor itself is changed and returned.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
        RuntimeError: a tensor that asks for its gradient is changed in place while operations are recorded.
    """
    return celu(input, alpha, True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh`, in place: the tensor itself is changed and returned.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
        RuntimeError: a tensor that asks for its gradient is changed in place while operations are recorded.
    """
    return hardtanh(input, min_val, max_val, True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold`, in place: the tensor itself is changed and returned.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
        RuntimeError: a tensor that asks for its gradient is changed in place while operations are recorded.
    """
    return _placed("threshold_", input, _functional._threshold(input, threshold, value), True)


def rrelu_(input: Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False) -> Tensor:
    """`rrelu`, in place: the tensor itself is changed and returned.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
        RuntimeError: a tensor that asks for its gradient is changed in place while operations are recorded.
    """
    return rrelu(input, lower, upper, training, True)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """`min(max(x, 0), 6)` of each element; the gradient is 0 at both bounds.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
    return _placed("relu6", input, _functional.hardtanh(input, 0.0, 6.0), inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """`x * sigmoid(x)` of each element.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
    return _placed("silu", input, Tensor.silu(input), inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """`x * tanh(softplus(x))` of each element (Misra 2019).

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
    return _placed("mish", input, _functional._mish(input), inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`x` where it is positive, else `alpha * (e^x - 1)`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
    return _placed("elu", input, Tensor.elu(input, alpha), inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`x` where it is positive, else `alpha * (e^(x / alpha) - 1)` (Barron 2017).

    Shapes: [..] -> the same

    Raises:
        ValueError: an `alpha` of 0.
    """
    return _placed("celu", input, _functional._celu(input, alpha), inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """ELU with the two constants that keep mean 0 and variance 1 (Klambauer et al. 2017).

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
    return _placed("selu", input, _functional._selu(input), inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """`x` where it is positive, else `negative_slope * x`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
    return _placed("leaky_relu", input, Tensor.leaky_relu(input, negative_slope), inplace)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """`x` where it is positive, else `weight * x`.

    Shapes: [batch, channels, ..], weight [] or [1] or [channels] -> the input's

    Raises:
        ValueError: as many slopes as neither 1 nor the channels.
    """
    if weight.numel() == 1:
        return input._prelu(weight.reshape(()))
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim != 1 or weight.numel() != channels:
        raise ValueError(f"prelu: weight of shape {tuple(weight.shape)}, expected 1 slope or {channels}")
    return input._prelu(weight)


def rrelu(input: Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, inplace: bool = False) -> Tensor:
    """`x` where it is positive, else times a slope: in training a random one of each element from `lower` to `upper`, else their mean.

    Shapes: [..] -> the same

    Raises:
        ValueError: `lower` above `upper`.
    """
    return _placed("rrelu", input, _functional._rrelu(input, lower, upper, training), inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Each element, but at least `min_val` and at most `max_val`; the gradient is 0 at both bounds.

    Shapes: [..] -> the same

    Raises:
        ValueError: `min_val` above `max_val`.
    """
    if min_val > max_val:
        raise ValueError(f"hardtanh: from {min_val} to {max_val}, expected the lower one first")
    return _placed("hardtanh", input, _functional.hardtanh(input, min_val, max_val), inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """`min(max(x + 3, 0), 6) / 6` of each element; the gradient is 0 at -3 and 3.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
    return _placed("hardsigmoid", input, _functional._hardsigmoid(input), inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """`x * hardsigmoid(x)` of each element (Howard et al. 2019).

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
    return _placed("hardswish", input, _functional._hardswish(input), inplace)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """`log(1 + e^(beta * x)) / beta`; `x` itself where `beta * x` is above the threshold.

    Shapes: [..] -> the same

    Raises:
        ValueError: a `beta` of 0 or less.
    """
    return Tensor.softplus(input, beta, threshold)


def softsign(input: Tensor) -> Tensor:
    """`x / (1 + |x|)` of each element.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
    return _functional._softsign(input)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """`softmax(-x)` along `dim`; where none is named the first of 0, 1 or 3 axes, else the second, with a warning, as in PyTorch. In `dtype` if one is named.

    Shapes: [..] -> the same

    Raises:
        IndexError: an axis that is not there.
    """
    del _stacklevel
    wide = input if dtype is None else input.to(dtype)
    return _functional._softmin(wide, _axis_of("softmin", input, dim))


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Each element nearer to 0 by `lambd`; 0 where it is that near.

    Shapes: [..] -> the same

    Raises:
        ValueError: `lambd` below 0.
    """
    return _functional._softshrink(input, lambd)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """0 where an element is not further than `lambd` from it, else the element.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
    return _functional._hardshrink(input, lambd)


def tanhshrink(input: Tensor) -> Tensor:
    """`x - tanh(x)` of each element.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
    return _functional._tanhshrink(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Each element that is above `threshold`, else `value`; NaN stays.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
    return _placed("threshold", input, _functional._threshold(input, threshold, value), inplace)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim` times the sigmoid of the second (Dauphin et al. 2017).

    Shapes: [.., 2 n, ..] -> [.., n, ..]

    Raises:
        ValueError: an odd size.
        IndexError: an axis that is not there.
    """
    return _functional._glu(input, dim)


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A random choice of one place along `dim` that gradients flow through (Jang et al. 2017).

    Shapes: [..] -> the same

    Args:
        tau: the temperature: the less, the nearer to a choice of one.
        hard: 1 in one place and 0 elsewhere, with the gradients of the soft choice.
        eps: of PyTorch, without effect there, too.

    Raises:
        IndexError: an axis that is not there.
    """
    if isinstance(tau, Tensor) and tau.requires_grad:
        return _gumbel_softmax_of(logits, tau, hard, dim)
    return _functional._gumbel_softmax(logits, tau, hard, dim)


def _gumbel_softmax_of(logits: Tensor, tau: Tensor, hard: bool, dim: int) -> Tensor:
    """By a temperature to which a gradient flows."""
    noise = -empty_like(logits, requires_grad=False).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    chosen = soft.detach()
    return (chosen == chosen.amax(dim, keepdim=True)).to(soft.dtype) - chosen + soft


name_all(globals())
