"""Gradients of several parameters together."""

import math

from .._scopes import no_grad
from .._ternion import Tensor, _clip_grad_norm, float32, stack, zeros


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    """Scales the gradients of `parameters` so that their common norm is at most `max_norm`; the norm that they had, a tensor.

    Args:
        norm_type: the power of the norm; inf for the largest element.
        error_if_nonfinite: whether a norm that is NaN or infinite is an error; nothing is changed then. The norm is read, which waits for the device.

    Raises:
        RuntimeError: a norm that is not finite, if that is an error.
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if error_if_nonfinite or norm_type != 2.0:
        norm = get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None], norm_type)
        if error_if_nonfinite and not math.isfinite(norm.item()):
            raise RuntimeError(f"clip_grad_norm_: the norm of the gradients is {norm.item()}, expected a finite number")
        if norm_type != 2.0:
            return _scaled(parameters, max_norm, norm)
    return _clip_grad_norm(parameters, max_norm)


def get_total_norm(tensors, norm_type=2.0):
    """The common norm of several tensors, a tensor; 0 of none."""
    norms = [tensor.norm(norm_type).to(float32) for tensor in tensors]
    if not norms:
        return zeros(())
    return stack([norm.to(norms[0].device) for norm in norms]).norm(norm_type)


def _scaled(parameters, max_norm, norm):
    """As PyTorch does: by `max_norm / (norm + 1e-6)` where that is less than 1."""
    with no_grad():
        factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(factor.to(parameter.grad.device).to(parameter.grad.dtype))
    return norm


def clip_grad_value_(parameters, clip_value):
    """Cuts every element of the gradients of `parameters` to -clip_value..clip_value."""
    with no_grad():
        for parameter in [parameters] if isinstance(parameters, Tensor) else parameters:
            if parameter.grad is not None:
                parameter.grad.clamp_(-clip_value, clip_value)
