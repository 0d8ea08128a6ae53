"""Warnings about loss inputs that are accepted but probably wrong. They are warnings, not errors,
because PyTorch programs run with such inputs.
"""

from __future__ import annotations

from typing import Any

from .._scopes import no_grad
from .._ternion import Tensor, _trust, float16, float32, float64
from .._warnings import warn_caller

# Rounding in half precision and clipped or smoothed probabilities stay below these limits.
_NORMALIZATION_TOLERANCE = 0.1
_ROUNDING_TOLERANCE = 1e-3
# The number of rows that are checked.
_MAX_ROWS = 64
# Losses that apply a function to their input themselves, with the input that they expect.
_APPLIED_TWICE = {
    ("cross_entropy", "softmax"): "applies softmax itself: give it the logits",
    ("cross_entropy", "sigmoid"): "applies softmax to logits: give it the numbers before sigmoid",
    ("binary_cross_entropy_with_logits", "sigmoid"): "applies sigmoid itself: give it the logits, or take binary_cross_entropy",
    ("binary_cross_entropy_with_logits", "softmax"): "applies sigmoid to logits: give it the numbers before softmax",
    ("nll_loss", "softmax"): "takes log-probabilities: give it the output of log_softmax",
    ("kl_div", "softmax"): "takes log-probabilities as input: give it the output of log_softmax",
}


def _is_computed(tensor: Any) -> bool:
    """Returns whether a tensor was computed by a model in training: it requires a gradient and is
    not a leaf.
    """
    return isinstance(tensor, Tensor) and tensor.requires_grad and not tensor.is_leaf


def _is_readable(tensor: Any) -> bool:
    """Returns whether the values of a tensor may be read. Reading from another device would have to
    wait for it, and a recorded step has no values.
    """
    return isinstance(tensor, Tensor) and tensor.device.type == "cpu" and tensor.numel() > 0 and not _trust.is_recording_step()


def warn_activation(op: str, input: Any) -> bool:
    """Warns if a loss is given the output of a function that it applies itself. Returns whether it
    warned.
    """
    if not _is_computed(input):
        return False
    activation = input.grad_fn
    advice = _APPLIED_TWICE.get((op, activation))
    if advice is not None:
        warn_caller(f"{op}: its input is the output of {activation}; {op} {advice}")
    return advice is not None


def warn_log_probabilities(input: Any) -> None:
    """Warns if nll_loss is given rows that are not log-probabilities of classes."""
    if warn_activation("nll_loss", input) or not _is_computed(input) or not _is_readable(input):
        return
    if input.ndim < 2 or input.shape[1] < 2:
        return
    with no_grad():
        sums = input.detach()[:_MAX_ROWS].float().logsumexp(1)
        worst = sums.abs().max().item()
    if worst > _NORMALIZATION_TOLERANCE:
        message = "rows of its input are not log-probabilities, whose exponentials sum to 1"
        warn_caller(f"nll_loss: {message}: give it the output of log_softmax over the classes, dim=1, or the logits to cross_entropy")


def warn_targets(op: str, input: Any, target: Any) -> None:
    """Warns if target probabilities are outside 0 to 1."""
    if _is_computed(input) and _is_readable(target) and target.is_floating_point():
        with no_grad():
            low, high = target.detach().min().item(), target.detach().max().item()
        # Mixed and smoothed labels have rounding errors.
        if low < -_ROUNDING_TOLERANCE or high > 1.0 + _ROUNDING_TOLERANCE:
            warn_caller(f"{op}: target has numbers from {low:g} to {high:g}, expected 0 to 1: labels of two classes are 0 and 1")


def warn_signs(op: str, input: Any, target: Any) -> None:
    """Warns if targets are 0 and 1 where the loss expects -1 and 1."""
    if _is_computed(input) and _is_readable(target):
        with no_grad():
            target = target.detach().float()
            is_zero, is_one = target == 0, target == 1
            are_labels = bool(is_zero.any()) and bool((is_zero | is_one).all())
        if are_labels:
            warn_caller(f"{op}: target has 0 where the loss takes -1 and 1: 2 * target - 1 makes them of 0 and 1")


def explain_one_hot_error(op: str, input: Any, target: Any, error: Exception) -> None:
    """Reraises the error of a loss that takes class indices with a clearer message if its target is
    one-hot: of the input's shape, with a 1 at the class index.

    Raises:
        TypeError, ValueError: The same type as `error`.
    """
    if not isinstance(input, Tensor) or not isinstance(target, Tensor) or target.ndim == 0 or target.shape != input.shape:
        return
    if op == "cross_entropy" and target.is_floating_point():
        return
    axis = min(1, target.ndim - 1)
    # On other devices only the shape is checked: reading the values would have to wait for the
    # device.
    if _is_readable(target):
        with no_grad():
            ones = target.detach() == 1
            if not bool((ones.long().sum(axis) == 1).all()) or not bool((ones | (target.detach() == 0)).all()):
                return
    message = f"{op}: target is {target.dtype} of the input's shape {tuple(input.shape)}, as one-hot labels are: target.argmax({axis}) makes class indices of it"
    if op == "cross_entropy":
        kinds = {float16: "half()", float32: "float()", float64: "double()"}
        message += f", target.{kinds.get(input.dtype, 'to(input.dtype)')} probabilities"
    raise type(error)(message) from None
