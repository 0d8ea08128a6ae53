"""Checks of an optimizer's setup at its first step: settings without effect, and parameters that
are frozen, shared with another optimizer, or recreated at each call.
"""

from __future__ import annotations

from typing import Any

from .._names import full_names
from .._ternion import _trust

# A weight decay that removes this fraction of a weight per step halves the weight in seven steps.
# 0.00001 is usual.
_MAX_DECAY = 0.1
# Names of group settings that nothing reads, and the correct names.
_SETTING_ALIASES = {"learning_rate": "lr", "learn_rate": "lr", "lrate": "lr", "rate": "lr", "wd": "weight_decay", "decay": "weight_decay", "beta": "betas"}


def _parameters(optimizer: Any) -> list[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def settings_warning(optimizer: Any) -> str:
    """Reports settings that PyTorch accepts and that have no effect or cannot work. Settings of
    user-defined optimizers are not checked.
    """
    if not optimizer._is_native:
        return ""
    name = type(optimizer).__name__
    for number, group in enumerate(optimizer.param_groups):
        try:
            message = _unread_warning(number, group, optimizer.defaults) or _momentum_warning(group) or _decay_warning(optimizer._kind, group)
        except TypeError:
            # Settings of wrong types are rejected by the step.
            return ""
        if message:
            return f"{name}: {message}"
    return ""


def _unread_warning(number: int, group: dict[str, Any], defaults: Any) -> str:
    for name in group:
        alias = _SETTING_ALIASES.get(name) if isinstance(name, str) and name not in defaults else None
        if alias in defaults:
            return f"param_groups[{number}][{name!r}] is a setting that nothing reads: it is called {alias!r}"
    return ""


def _momentum_warning(group: dict[str, Any]) -> str:
    momentum = group.get("momentum", 0.0)
    if momentum >= 1.0:
        return f"momentum {momentum:g}: the steps of all gradients so far add up and never fade, expected below 1: 0.9 is usual"
    first, second = group.get("betas", (0.0, 1.0))
    if first > second:
        return f"betas ({first:g}, {second:g}): the first, of the mean, is larger than the second, of the square: are they swapped? (0.9, 0.999) is usual"
    return ""


def _decay_warning(kind: str, group: dict[str, Any]) -> str:
    decay, rate = group.get("weight_decay", 0.0), group["lr"]
    if kind in ("Adam", "RMSprop", "Adagrad"):
        # The decay is added to gradients, which are normalized by their magnitude. If it is far
        # larger than the gradients, nothing of the loss remains.
        return f"weight_decay {decay:g} is added to gradients as that many times the weights, and covers them: 0.01 and less is usual" if decay >= 1.0 else ""
    fraction = rate * decay
    return f"weight_decay {decay:g} with lr {rate:g} takes {fraction:.0%} off each weight in a step: divide it by about {fraction / 1e-4:.0f}" if fraction > _MAX_DECAY else ""


def frozen_warning(optimizer: Any) -> str:
    """Reports an optimizer that has nothing to do, because all of its parameters are frozen."""
    parameters = _parameters(optimizer)
    if any(parameter.requires_grad for parameter in parameters) or not any(parameter.is_floating_point() for parameter in parameters):
        return ""
    message = "none of its parameters requires a gradient, so that a step changes nothing: requires_grad_(True) makes them train"
    return f"{type(optimizer).__name__}: {message}"


def lost_warning(optimizer: Any, pass_number: int) -> str:
    """Reports gradients of the last backward pass whose parameters no longer exist, because they
    were created in forward.
    """
    number, names = _trust.lost_gradients()
    if not pass_number or number != pass_number:
        return ""
    message = "gradients came to parameters that are gone by now, so that no optimizer trains them: create layers and parameters once, in __init__, not at each call of forward"
    return f"{type(optimizer).__name__}: {', '.join(names[:5])}: {message}"


def memory_warning(optimizer: Any) -> str:
    """Reports parameters that are different objects on the same memory, which each of their steps
    changes: `d.weight = nn.Parameter(e.weight)`.
    """
    by_location: dict[Any, Any] = {}
    parameters = [parameter for parameter in _parameters(optimizer) if parameter.requires_grad]
    for parameter, location in zip(parameters, _trust.addresses_of(parameters)):
        other = by_location.setdefault((location, tuple(parameter.shape)), parameter)
        if other is not parameter and parameter.numel():
            one, two = [name or f"a parameter of shape {tuple(parameter.shape)}" for name in full_names([other, parameter])]
            message = f"{one} and {two} are two parameters on one memory, which a step moves once for each, each time by another gradient"
            return f"{type(optimizer).__name__}: {message}: to share it, make them one parameter (decoder.weight = encoder.weight, without nn.Parameter), else clone it"
    return ""


def record_gradients(optimizer: Any) -> None:
    """Records which gradients a step used, by the numbers of the backward passes that computed
    them.
    """
    optimizer._used_passes = {id(parameter): _trust.backward_index(parameter) for parameter in _parameters(optimizer) if parameter.grad is not None}


def shared_warning(optimizer: Any, others: list[Any], describe: Any) -> str:
    """Reports parameters that another optimizer has updated by the same gradients."""
    for other in others:
        used = getattr(other, "_used_passes", None) if other is not optimizer else None
        shared = [parameter for parameter in _parameters(optimizer) if used and used.get(id(parameter)) == _trust.backward_index(parameter) != 0 and parameter.grad is not None]
        if shared:
            listed = ", ".join(describe(parameter, "a parameter") for parameter in shared[:5])
            message = f"a step of another optimizer, {type(other).__name__}, has moved them by the same gradients: give each parameter to one of them"
            return f"{type(optimizer).__name__}: {listed}: {message}"
    return ""
