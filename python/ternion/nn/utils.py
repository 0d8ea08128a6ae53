"""Gradients of several parameters together."""

from .._scopes import no_grad
from .._ternion import Tensor, _clip_grad_norm


def clip_grad_norm_(parameters, max_norm):
    """Scales the gradients of `parameters` so that their common norm is at most `max_norm`; the norm that they had, a tensor."""
    return _clip_grad_norm([parameters] if isinstance(parameters, Tensor) else list(parameters), max_norm)


def clip_grad_value_(parameters, clip_value):
    """Cuts every element of the gradients of `parameters` to -clip_value..clip_value."""
    with no_grad():
        for parameter in [parameters] if isinstance(parameters, Tensor) else parameters:
            if parameter.grad is not None:
                parameter.grad.clamp_(-clip_value, clip_value)
