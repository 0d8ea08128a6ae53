"""Activations without parameters; a part of `ternion.nn.functional`.

`inplace=True` and the functions whose names end in `_` change the input itself and return it. As in
PyTorch, its gradient flows through the function. A tensor that requires a gradient itself (a leaf)
cannot be changed in place while operations are recorded.
"""

from __future__ import annotations

import warnings
from typing import Any

from .._error_messages import name_all
from .._functions import _write_in_place
from .._ternion import Tensor, _functional, empty_like

__all__ = [
    "celu", "celu_", "elu", "elu_", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_", "leaky_relu", "leaky_relu_",
    "mish", "prelu", "relu", "relu6", "relu_", "rrelu", "rrelu_", "selu", "selu_", "silu", "softmin", "softplus", "softshrink", "softsign", "tanhshrink",
    "threshold", "threshold_",
]  # fmt: skip


def _maybe_in_place(op: str, input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    """Returns `result`, written into `input` itself if `inplace` is True."""
    return _write_in_place(op, input, result) if inplace else result


def _axis_of(op: str, input: Tensor, dim: int | None, axis: int | None = None, stacklevel: int = 4) -> int:
    """Returns the axis of a softmax. Without an explicit axis it is axis 0 for tensors of 0, 1 or 3
    axes and axis 1 otherwise, with a warning, as in PyTorch.
    """
    if dim is not None and axis is not None:
        raise TypeError(f"{op}: both dim and axis")
    explicit = axis if dim is None else dim
    if explicit is not None:
        return explicit
    chosen = 0 if input.ndim in (0, 1, 3) else 1
    warnings.warn(f"{op}: without dim it is along axis {chosen} of shape {list(input.shape)}; name it", UserWarning, stacklevel=stacklevel)
    return chosen


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Applies `max(x, 0)` elementwise. NaN is preserved.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
    return input.relu_() if inplace else Tensor.relu(input)


def relu_(input: Tensor) -> Tensor:
    """Applies `relu` in place: changes the input tensor and returns it.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If a leaf that requires a gradient is changed in place while operations are
            recorded.
    """
    return relu(input, True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Applies `elu` in place: changes the input tensor and returns it.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If a leaf that requires a gradient is changed in place while operations are
            recorded.
    """
    return elu(input, alpha, True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Applies `leaky_relu` in place: changes the input tensor and returns it.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If a leaf that requires a gradient is changed in place while operations are
            recorded.
    """
    return leaky_relu(input, negative_slope, True)


def selu_(input: Tensor) -> Tensor:
    """Applies `selu` in place: changes the input tensor and returns it.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If a leaf that requires a gradient is changed in place while operations are
            recorded.
    """
    return selu(input, True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Applies `celu` in place: changes the input tensor and returns it.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If a leaf that requires a gradient is changed in place while operations are
            recorded.
    """
    return celu(input, alpha, True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Applies `hardtanh` in place: changes the input tensor and returns it.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If a leaf that requires a gradient is changed in place while operations are
            recorded.
    """
    return hardtanh(input, min_val, max_val, True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """Applies `threshold` in place: changes the input tensor and returns it.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If a leaf that requires a gradient is changed in place while operations are
            recorded.
    """
    return _maybe_in_place("threshold_", input, _functional._threshold(input, threshold, value), True)


def rrelu_(input: Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False) -> Tensor:
    """Applies `rrelu` in place: changes the input tensor and returns it.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If a leaf that requires a gradient is changed in place while operations are
            recorded.
    """
    return rrelu(input, lower, upper, training, True)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Applies `min(max(x, 0), 6)` elementwise. The gradient is 0 at both bounds.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
    return _maybe_in_place("relu6", input, _functional.hardtanh(input, 0.0, 6.0), inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Applies `x * sigmoid(x)` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
    return _maybe_in_place("silu", input, Tensor.silu(input), inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Applies `x * tanh(softplus(x))` elementwise (Misra 2019).

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
    return _maybe_in_place("mish", input, _functional._mish(input), inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Applies `x` if `x > 0`, else `alpha * (e^x - 1)`, elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
    return _maybe_in_place("elu", input, Tensor.elu(input, alpha), inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Applies `x` if `x > 0`, else `alpha * (e^(x / alpha) - 1)`, elementwise (Barron 2017).

    Shapes: [..] -> the same

    Raises:
        ValueError: If `alpha` is 0.
    """
    return _maybe_in_place("celu", input, _functional._celu(input, alpha), inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Applies ELU with the two constants that preserve mean 0 and variance 1
    (Klambauer et al. 2017).

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
    return _maybe_in_place("selu", input, _functional._selu(input), inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Applies `x` if `x > 0`, else `negative_slope * x`, elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
    return _maybe_in_place("leaky_relu", input, Tensor.leaky_relu(input, negative_slope), inplace)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Applies `x` if `x > 0`, else `weight * x`, elementwise.

    Shapes: [batch, channels, ..], weight [] or [1] or [channels] -> the input's

    Raises:
        ValueError: If the number of slopes is neither 1 nor the number of channels.
    """
    if weight.numel() == 1:
        return input._prelu(weight.reshape(()))
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim != 1 or weight.numel() != channels:
        raise ValueError(f"prelu: weight of shape {tuple(weight.shape)}, expected 1 slope or {channels}")
    return input._prelu(weight)


def rrelu(input: Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, inplace: bool = False) -> Tensor:
    """Applies `x` if `x > 0`, else `slope * x`, elementwise. In training, `slope` is drawn per
    element from the uniform distribution between `lower` and `upper`; otherwise it is their mean.

    Shapes: [..] -> the same

    Raises:
        ValueError: If `lower` is above `upper`.
    """
    return _maybe_in_place("rrelu", input, _functional._rrelu(input, lower, upper, training), inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Clamps each element to the range from `min_val` to `max_val`. The gradient is 0 at both
    bounds.

    Shapes: [..] -> the same

    Raises:
        ValueError: If `min_val` is above `max_val`.
    """
    if min_val > max_val:
        raise ValueError(f"hardtanh: from {min_val} to {max_val}, expected the lower one first")
    return _maybe_in_place("hardtanh", input, _functional.hardtanh(input, min_val, max_val), inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Applies `min(max(x + 3, 0), 6) / 6` elementwise. The gradient is 0 at -3 and 3.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
    return _maybe_in_place("hardsigmoid", input, _functional._hardsigmoid(input), inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Applies `x * hardsigmoid(x)` elementwise (Howard et al. 2019).

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
    return _maybe_in_place("hardswish", input, _functional._hardswish(input), inplace)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Applies `log(1 + e^(beta * x)) / beta` elementwise. Where `beta * x` is above `threshold`,
    the result is `x`.

    Shapes: [..] -> the same

    Raises:
        ValueError: If `beta` is 0 or less.
    """
    return Tensor.softplus(input, beta, threshold)


def softsign(input: Tensor) -> Tensor:
    """Applies `x / (1 + |x|)` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
    return _functional._softsign(input)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Computes `softmax(-x)` along `dim`, in `dtype` if it is given. Without `dim` the axis is 0
    for inputs of 0, 1 or 3 axes and 1 otherwise, with a warning, as in PyTorch.

    Shapes: [..] -> the same

    Raises:
        IndexError: If the axis does not exist.
    """
    del _stacklevel
    wide = input if dtype is None else input.to(dtype)
    return _functional._softmin(wide, _axis_of("softmin", input, dim))


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Moves each element toward 0 by `lambd`. Elements within `lambd` of 0 become 0.

    Shapes: [..] -> the same

    Raises:
        ValueError: If `lambd` is below 0.
    """
    return _functional._softshrink(input, lambd)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Replaces elements within `lambd` of 0 by 0 and keeps the others.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
    return _functional._hardshrink(input, lambd)


def tanhshrink(input: Tensor) -> Tensor:
    """Applies `x - tanh(x)` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
    return _functional._tanhshrink(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Keeps elements above `threshold` and replaces the others by `value`. NaN is preserved.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
    return _maybe_in_place("threshold", input, _functional._threshold(input, threshold, value), inplace)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Multiplies the first half of the input along `dim` by the sigmoid of the second half
    (Dauphin et al. 2017).

    Shapes: [.., 2 n, ..] -> [.., n, ..]

    Raises:
        ValueError: If the size along `dim` is odd.
        IndexError: If the axis does not exist.
    """
    return _functional._glu(input, dim)


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Draws a random one-hot choice along `dim` through which gradients flow (Jang et al. 2017).

    Shapes: [..] -> the same

    Args:
        tau: the temperature. The lower it is, the closer the result is to one-hot.
        hard: if True, returns an exact one-hot tensor with the gradients of the soft choice.
        eps: accepted for compatibility; PyTorch ignores it, too.

    Raises:
        IndexError: If the axis does not exist.
    """
    if isinstance(tau, Tensor) and tau.requires_grad:
        return _gumbel_softmax_of(logits, tau, hard, dim)
    return _functional._gumbel_softmax(logits, tau, hard, dim)


def _gumbel_softmax_of(logits: Tensor, tau: Tensor, hard: bool, dim: int) -> Tensor:
    """Computes `gumbel_softmax` with a temperature that receives a gradient."""
    noise = -empty_like(logits, requires_grad=False).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    chosen = soft.detach()
    return (chosen == chosen.amax(dim, keepdim=True)).to(soft.dtype) - chosen + soft


name_all(globals())
