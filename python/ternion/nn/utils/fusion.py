"""Preparation of layers for inference: fusion of a batch norm into the layer before it, and layers
without initialization.
"""

from __future__ import annotations

import copy
from typing import Any

from ..._error_messages import name_all
from ..._scopes import no_grad
from ..._ternion import Parameter, Tensor, _number, ones_like, zeros_like
from ..module import Module

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights", "skip_init"]


def __dir__() -> list[str]:
    return __all__


def _fuse(layer: Any, norm: Any, op: str, axis: int) -> Any:
    if layer.training or norm.training:
        raise ValueError(f"{op}: modules in training, expected them in use: eval()")
    if norm.running_mean is None or norm.running_var is None:
        raise ValueError(f"{op}: a batch norm without running statistics, expected one that has them")
    fused = copy.deepcopy(layer)
    norm_settings = (norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
    fused.weight, fused.bias = _fused_weights(fused.weight, fused.bias, *norm_settings, axis)
    return fused


def _fused_weights(weight: Any, bias: Any, mean: Tensor, var: Tensor, eps: float, scale: Any, shift: Any, axis: int) -> tuple[Parameter, Parameter]:
    """Fuses a norm: `norm(weight x + bias)` is `(weight s) x + (bias - mean) s + shift`, where
    `s = scale / sqrt(var + eps)`, along the output axis.
    """
    with no_grad():
        scales = (ones_like(mean) if scale is None else scale) * (var + _number(eps)).rsqrt()
        sizes = [-1 if dim == axis else 1 for dim in range(weight.ndim)]
        shifted_bias = ((zeros_like(mean) if bias is None else bias) - mean) * scales
        fused = (weight * scales.reshape(sizes)).to(weight.dtype)
        shifted = (shifted_bias if shift is None else shifted_bias + shift).to(weight.dtype if bias is None else bias.dtype)
    return Parameter(fused, weight.requires_grad), Parameter(shifted, True if bias is None else bias.requires_grad)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Returns a convolution that computes `conv` followed by `bn` in evaluation mode.

    Args:
        transpose: whether `conv` is a transposed convolution, with one group.

    Raises:
        ValueError: If a module is in training mode, or the batch norm has no running statistics.
    """
    return _fuse(conv, bn, "fuse_conv_bn_eval", 1 if transpose else 0)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Returns a linear layer that computes `linear` followed by `bn` in evaluation mode.

    Raises:
        ValueError: If a module is in training mode, or the batch norm has no running statistics.
    """
    return _fuse(linear, bn, "fuse_linear_bn_eval", 0)


def fuse_conv_bn_weights(
    conv_w: Any, conv_b: Any, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Any, bn_b: Any, transpose: bool = False
) -> tuple[Parameter, Parameter]:
    """Returns weight and bias of `fuse_conv_bn_eval`.

    Raises:
        ValueError: If the statistics have another number of channels.
    """
    return _fused_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """Returns weight and bias of `fuse_linear_bn_eval`.

    Raises:
        ValueError: If the statistics have another number of features.
    """
    return _fused_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Creates a layer whose values are unspecified, because a state dict will overwrite them. The
    random number generator is restored to its state before the call.

    Raises:
        TypeError: If `module_cls` is not a class of modules.
    """
    from ..._random import get_rng_state, set_rng_state

    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise TypeError(f"skip_init: {module_cls!r}, expected a class of modules")
    device = kwargs.get("device")
    rng_state = get_rng_state(device)
    try:
        return module_cls(*args, **kwargs)
    finally:
        set_rng_state(rng_state, device)


name_all(globals())
