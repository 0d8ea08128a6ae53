"""Optimizers, which update parameters by their gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .._capture import record_step
from .._scopes import enable_grad
from .._ternion import Parameter, Tensor, _number as _real, _Steps, zeros
from .._warnings import warn_caller
from .optimizer import Optimizer, Params, _parameter_indices

_BOOL_SETTINGS = frozenset(("nesterov", "amsgrad", "centered", "maximize"))
# Settings that are passed to each step. The others belong to the native steps.
_PER_STEP_SETTINGS = frozenset(("lr", "maximize"))


_EXPECTED = {"betas": "two numbers", "ns_coefficients": "three numbers", "ns_steps": "an integer", "adjust_lr_fn": "None or a name"}


def _number(value: Any) -> float:
    if isinstance(value, (str, bytes, bool)):
        raise TypeError
    return _real(value)


def _format_int(value: Any) -> str:
    """Formats an integer that may have too many digits for a message, or for Python to convert."""
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(_format_int, value))})"
    if not isinstance(value, int) or value.bit_length() < 64:
        return repr(value)
    return f"of about {'-' if value < 0 else ''}10**{int(value.bit_length() * math.log10(2))}"


def _check(optimizer: str, settings: Mapping[str, Any]) -> None:
    """Checks that settings have the required types."""
    for name, value in settings.items():
        expected = _EXPECTED.get(name, "True or False" if name in _BOOL_SETTINGS else "a number")
        try:
            if name in _BOOL_SETTINGS and not isinstance(value, bool):
                raise TypeError
            if name == "betas":
                first, second = value
                _number(first), _number(second)
            elif name == "ns_coefficients":
                a, b, c = value
                _number(a), _number(b), _number(c)
            elif name == "ns_steps":
                if isinstance(value, bool) or not isinstance(value, int):
                    raise TypeError
            elif name == "adjust_lr_fn":
                if value is not None and not isinstance(value, str):
                    raise TypeError
            elif name not in _BOOL_SETTINGS:
                _number(value)
        except OverflowError:
            raise ValueError(f"{optimizer}: {name} {_format_int(value)}, expected {expected} that float64 holds") from None
        except (TypeError, ValueError):
            raise TypeError(f"{optimizer}: {name} {value!r}, expected {expected}") from None


def _steps_of(kind: str, parameters: list[Tensor], names: list[str], labels: list[str], settings: Mapping[str, Any]) -> Any:
    """Returns the native steps of the parameters that can have gradients. Integer and bool tensors
    are never changed.
    """
    trainable = [entry for entry in zip(parameters, names, labels) if entry[0].is_floating_point()]
    if parameters and not trainable:
        # Native steps need at least one parameter: use one that is frozen.
        trainable = [(Parameter(zeros(1, 1), requires_grad=False), "none", "none")]
    return _Steps(kind, *(list(column) for column in zip(*trainable)) if trainable else ([], [], []), settings)


def _rate_of(optimizer: Any, group: dict[str, Any]) -> float:
    """Returns the current learning rate of a group."""
    try:
        return _number(group["lr"])
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{type(optimizer).__name__}: lr {_format_int(group['lr'])} in param_groups, expected a number") from None


class _UnreadAttribute:
    """An attribute that programs set on an optimizer, but that nothing reads."""

    def __set_name__(self, owner: Any, name: str) -> None:
        self._name = name

    def __get__(self, optimizer: Any, owner: Any = None) -> Any:
        if optimizer is None:
            return self
        attributes = optimizer.__dict__
        if self._name not in attributes:
            raise AttributeError(f"{owner.__name__} has no attribute {self._name!r}: it is in param_groups")
        return attributes[self._name]

    def __set__(self, optimizer: Any, value: Any) -> None:
        optimizer.__dict__[self._name] = value
        kind = type(optimizer)
        # A subclass may use such an attribute itself.
        if kind.__module__.startswith("ternion."):
            message = f"{kind.__name__}.{self._name} = {value!r} sets an attribute that nothing reads"
            warn_caller(f"{message}: group[{self._name!r}] counts, for each group of param_groups")

    def __delete__(self, optimizer: Any) -> None:
        optimizer.__dict__.pop(self._name, None)


class _NativeOptimizer(Optimizer):
    """An optimizer whose steps are native."""

    lr, momentum, weight_decay, betas, eps = _UnreadAttribute(), _UnreadAttribute(), _UnreadAttribute(), _UnreadAttribute(), _UnreadAttribute()

    _is_native = True
    _kind = ""

    def __init__(self, params: Params, defaults: Any, strict: bool = False):
        _check(type(self).__name__, defaults)
        self.strict = strict
        super().__init__(params, defaults)

    def _init_state(self) -> None:
        self._steps: list[Any] = []
        self._warned = False
        # For each group: the names of its parameters in messages and in the state, and the settings
        # with which its steps were created.
        self._names: list[tuple[list[str], list[str]]] = []
        self._applied_settings: list[dict[str, Any]] = []
        self._labels: set[str] = set()

    def _prepare_group(self, named, group):
        optimizer, settings = type(self).__name__, {name: value for name, value in group.items() if name != "params"}
        unknown = [name for name in settings if name not in self.defaults]
        if unknown:
            raise TypeError(f"{optimizer} has no setting {', '.join(unknown)}; it has {', '.join(self.defaults)}")
        _check(optimizer, settings)
        names, labels = [name for name, _, _ in named], [self._label(label) for _, label, _ in named]
        try:
            self._steps.append(_steps_of(self._kind, group["params"], names, labels, settings))
        except Exception:
            self._labels.difference_update(labels)
            raise
        self._names.append((names, labels))
        self._applied_settings.append(self._step_settings(settings))

    def _label(self, name):
        """Returns the name of a parameter in the state. It is made unique, as two models may use
        the same names.
        """
        label, number = name, 1
        while label in self._labels:
            number += 1
            label = f"{name}#{number}"
        self._labels.add(label)
        return label

    def _step_settings(self, group):
        return {name: group[name] for name in self.defaults if name not in _PER_STEP_SETTINGS}

    def _new_steps(self, number, settings):
        _check(type(self).__name__, settings)
        names, labels = self._names[number]
        return _steps_of(self._kind, self.param_groups[number]["params"], names, labels, {**self.param_groups[number], **settings})

    def _apply_settings(self):
        """Applies the settings of `param_groups`."""
        for number, group in enumerate(self.param_groups):
            # Compares dict views, so that no dict is created.
            if not self._applied_settings[number].items() <= group.items():
                settings = self._step_settings(group)
                if self._try_set_momentum(number, settings):
                    continue
                steps = self._new_steps(number, settings)
                steps.load(self._converted_state(self._steps[number].state(), self._applied_settings[number], settings))
                self._steps[number], self._applied_settings[number] = steps, settings

    def _try_set_momentum(self, number, settings):
        """Returns whether only the momentum, or the first beta, has changed, and applies it: a
        schedule changes it before each step.
        """
        _check(type(self).__name__, settings)
        previous = self._applied_settings[number]
        changed = [name for name in settings if settings[name] != previous[name]]
        is_beta = changed == ["betas"] and settings["betas"][1] == previous["betas"][1] and 0.0 <= settings["betas"][0] < 1.0
        if not is_beta and changed != ["momentum"]:
            return False
        is_applied = self._steps[number].set_momentum(settings["betas"][0] if is_beta else settings["momentum"])
        if is_applied:
            self._applied_settings[number] = settings
        return is_applied

    def _converted_state(self, state, previous, settings):
        """Returns the state for steps with other settings."""
        return state

    def step(self, closure: Any = None) -> Any:
        """Updates the parameters by their gradients.

        Args:
            closure: A function that recomputes the loss and its gradients. Its result is returned.

        Raises:
            RuntimeError: With `strict=True`, if a parameter has no gradient, if a parameter with a
                gradient belongs to no optimizer, if the loss is still scaled, if gradients were
                added to those of the previous step, or if a list or a Sequential contains a layer
                several times.
            TypeError: If the closure is not callable.
        """
        if not self._hooks_before and not self._hooks_after:
            return self._step(closure)
        return self._step_with_hooks(type(self)._step, () if closure is None else (closure,), {})

    def _step(self, closure=None):
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        record_step(self)
        self._check_first_steps(self.strict)
        self._apply_settings()
        for group, steps in zip(self.param_groups, self._steps):
            self._warned |= steps.step(_rate_of(self, group), group["maximize"], self.strict, self._warned)
        self._record_used()
        return loss

    def _replaced_warning(self) -> str:
        message = super()._replaced_warning()
        # The reason is reported here: the steps need not report that there are no gradients.
        self._warned |= bool(message)
        return message

    def _apply_rates(self) -> None:
        """Applies the learning rates of `param_groups` to a step that is replayed.

        Raises:
            ValueError: If other settings have changed since the capture, which a replay would
                ignore.
        """
        for applied, group in zip(self._applied_settings, self.param_groups):
            if not applied.items() <= group.items():
                changed = [name for name in applied if applied[name] != group[name]]
                message = f"{type(self).__name__}: {', '.join(changed)} changed since the step was captured, which no replay follows"
                raise ValueError(f"{message}: capture it again, or leave the setting (OneCycleLR with cycle_momentum=False)")
        for group, steps in zip(self.param_groups, self._steps):
            steps.set_lr(_rate_of(self, group))

    @property
    def state(self) -> dict[Tensor, dict[str, Tensor]]:
        """Copies of the current step counts and moments of each parameter that has made a step."""
        states: dict[Tensor, dict[str, Tensor]] = {}
        for group, steps, (_, labels) in zip(self.param_groups, self._steps, self._names):
            by_label = dict(zip(labels, group["params"]))
            for key, value in steps.state().items():
                label, _, name = key.rpartition(".")
                if label in by_label:
                    states.setdefault(by_label[label], {})[name] = value
        return states

    def state_dict(self) -> dict:
        """Returns step counts and moments of each group, and its settings."""
        indices = _parameter_indices(self.param_groups)
        settings = [{**group, "params": [indices[id(parameter)] for parameter in group["params"]]} for group in self.param_groups]
        return {"state": [steps.state() for steps in self._steps], "param_groups": settings}

    def load_state_dict(self, state_dict: dict) -> None:
        """Restores the state and the settings that `state_dict` returned.

        Raises:
            ValueError: If the number of groups differs, or if the state does not match.
            TypeError: If the argument is not a dict.
        """
        states, settings = self._states_and_settings(state_dict)
        for number, (state, saved) in enumerate(zip(states, settings)):
            group, saved = self.param_groups[number], {name: value for name, value in saved.items() if name != "params"}
            new_settings = self._step_settings({**group, **saved})
            if new_settings != self._applied_settings[number]:
                steps = self._new_steps(number, new_settings)
                steps.load(state)
                self._steps[number], self._applied_settings[number] = steps, new_settings
            else:
                self._steps[number].load(state)
            group.update(saved)

    def _states_and_settings(self, state_dict):
        """Returns the states and settings of all groups."""
        name, (states, settings) = type(self).__name__, self._split_state(state_dict)
        if not isinstance(states, (list, tuple)):
            raise ValueError(f"{name}: a state whose moments are a {type(states).__name__}, expected a list for the groups: states of PyTorch do not fit")
        if len(states) != len(self._steps) or len(settings) != len(self._steps):
            raise ValueError(f"{name}: a state of {len(states)} groups for {len(self._steps)}")
        # States of older versions do not contain the indices of parameters.
        sizes = [len(saved["params"]) if "params" in saved else len(group["params"]) for saved, group in zip(settings, self.param_groups)]
        own_sizes = [len(group["params"]) for group in self.param_groups]
        if sizes != own_sizes:
            raise ValueError(f"{name}: a state of groups of {sizes} parameters, expected {own_sizes}")
        return states, settings

    def __getstate__(self):
        attributes = {name: value for name, value in super().__getstate__().items() if name != "_steps"}
        return {**attributes, "states": [steps.state() for steps in self._steps]}

    def __setstate__(self, attributes: Any):
        states = attributes["states"]
        self.__dict__.update({name: value for name, value in attributes.items() if name != "states"})
        self._steps = [self._new_steps(number, settings) for number, settings in enumerate(self._applied_settings)]
        for steps, state in zip(self._steps, states):
            steps.load(state)


def _reject_differentiable(optimizer: str, differentiable: bool) -> None:
    """Rejects `differentiable`. `foreach`, `fused` and `capturable` select between implementations
    in PyTorch; there is only one here, and `differentiable` would need another.
    """
    if differentiable:
        raise ValueError(f"{optimizer}: differentiable=True, expected False: no gradient flows through a step")


class SGD(_NativeOptimizer):
    """Stochastic gradient descent, optionally with momentum.

    Args:
        maximize: Maximizes the objective instead of minimizing it.
        foreach, fused: Accepted for compatibility with PyTorch. There is only one implementation.
        momentum, dampening: The fraction of the old velocity that is retained, and the fraction of
            the gradient that is not added to it.
        nesterov: Uses Nesterov momentum.
        strict: Raises an error, instead of a warning, if a parameter has no gradient, or if a
            parameter with a gradient belongs to no optimizer.

    Raises:
        ValueError: If a setting is negative, if `nesterov` is used without momentum or with
            dampening, if `differentiable` is true, or if there are no parameters or one is given
            twice.
        TypeError: If a setting is not a number, or if a parameter is not a tensor.
    """

    _kind = "SGD"

    def __init__(
        self, params: Params, lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0,
        nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None, strict: bool = False,
    ):  # fmt: skip
        _reject_differentiable("SGD", differentiable)
        settings = dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov, maximize=maximize)
        super().__init__(params, settings, strict)

    def _converted_state(self, state, previous, settings):
        if not settings["momentum"]:
            return {key: value for key, value in state.items() if not key.endswith(".momentum_buffer")}
        # A velocity that did not exist starts as the gradient, as in a first step.
        return state if previous["momentum"] else {"lr": state["lr"]}


class Adam(_NativeOptimizer):
    """Adam (Kingma and Ba 2015).

    Args:
        amsgrad: Divides by the square root of the maximum of all second moments so far (Reddi et
            al. 2018).
        maximize: Maximizes the objective instead of minimizing it.
        foreach, capturable, fused: Accepted for compatibility with PyTorch. There is only one
            implementation.
        decoupled_weight_decay: Decouples the weight decay from the gradient, as `AdamW` does.
        betas: The decay rates of the first and second moments, each below 1.
        eps: Added to the square root of the second moment.
        strict: Raises an error, instead of a warning, if a parameter has no gradient, or if a
            parameter with a gradient belongs to no optimizer.

    Raises:
        ValueError: If a setting is negative, if `betas` are not in [0, 1), if `differentiable` is
            true, or if there are no parameters or one is given twice.
        TypeError: If a setting is not a number, or if a parameter is not a tensor.
    """

    _kind = "Adam"

    def __init__(
        self, params: Params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
        amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None, decoupled_weight_decay: bool = False, strict: bool = False,
    ):  # fmt: skip
        _reject_differentiable("Adam", differentiable)
        if decoupled_weight_decay:
            self._kind = "AdamW"
        settings = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize)
        super().__init__(params, settings, strict)


class AdamW(_NativeOptimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019). Its arguments are those of
    `Adam`.

    Raises:
        ValueError: If a setting is negative, if `betas` are not in [0, 1), if `differentiable` is
            true, or if there are no parameters or one is given twice.
        TypeError: If a setting is not a number, or if a parameter is not a tensor.
    """

    _kind = "AdamW"

    def __init__(
        self, params: Params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
        amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None, strict: bool = False,
    ):  # fmt: skip
        _reject_differentiable("AdamW", differentiable)
        settings = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize)
        super().__init__(params, settings, strict)


class RMSprop(_NativeOptimizer):
    """RMSprop: divides gradients by a running root mean square (Hinton 2012).

    Args:
        alpha: The decay rate of the mean square.
        centered: Subtracts the square of the mean from it.

    Raises:
        ValueError: If a setting is negative, if `alpha` is outside 0 to 1, if `differentiable` is
            true, or if there are no parameters or one is given twice.
        TypeError: If a setting is not a number, or if a parameter is not a tensor.
    """

    _kind = "RMSprop"

    def __init__(
        self, params: Params, lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0.0, momentum: float = 0.0,
        centered: bool = False, capturable: bool = False, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
        *, strict: bool = False,
    ):  # fmt: skip
        _reject_differentiable("RMSprop", differentiable)
        settings = dict(lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum, centered=centered, maximize=maximize)
        super().__init__(params, settings, strict)


class Adagrad(_NativeOptimizer):
    """Adagrad: divides gradients by the square root of the sum of all their squares (Duchi et al.
    2011).

    Args:
        lr_decay: Divides the learning rate by `1 + lr_decay * steps`.
        initial_accumulator_value: The initial value of the sums.

    Raises:
        ValueError: If a setting is negative, if `differentiable` is true, or if there are no
            parameters or one is given twice.
        TypeError: If a setting is not a number, or if a parameter is not a tensor.
    """

    _kind = "Adagrad"

    def __init__(
        self, params: Params, lr: float = 1e-2, lr_decay: float = 0.0, weight_decay: float = 0.0, initial_accumulator_value: float = 0.0,
        eps: float = 1e-10, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
        strict: bool = False,
    ):  # fmt: skip
        _reject_differentiable("Adagrad", differentiable)
        settings = dict(
            lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value, eps=eps, maximize=maximize
        )
        super().__init__(params, settings, strict)


class Lion(_NativeOptimizer):
    """Lion: steps by the sign of a momentum (Chen et al. 2023).

    Args:
        betas: The fractions of the old momentum in the step, and in the new momentum.

    Raises:
        ValueError: If a setting is negative, if `betas` are not in [0, 1), or if there are no
            parameters or one is given twice.
        TypeError: If a setting is not a number, or if a parameter is not a tensor.
    """

    _kind = "Lion"

    def __init__(
        self, params: Params, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0, maximize: bool = False, *,
        strict: bool = False,
    ):  # fmt: skip
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize), strict)


class Muon(_NativeOptimizer):
    """Muon: orthogonalizes the momenta of matrices (Jordan et al. 2024). All parameters must be
    matrices.

    Args:
        ns_coefficients: The coefficients a, b and c of the Newton-Schulz iteration
            `x = a x + (b x x^T + c (x x^T)^2) x`.
        eps: The minimum of the norm by which the momentum is divided before the iterations.
        ns_steps: The number of iterations, at most 99.
        adjust_lr_fn: How the step of a matrix is scaled by its shape: "original" (or None) by
            `sqrt(max(1, rows / columns))`, "match_rms_adamw" by `0.2 sqrt(max(rows, columns))`, so
            that the learning rate and weight decay of AdamW can be used.

    Raises:
        ValueError: If a parameter is not a matrix, if `momentum` is outside 0 to 1, if another
            setting is negative, or if there are no parameters or one is given twice.
        TypeError: If a setting is not a number, or if a parameter is not a tensor.
    """

    _kind = "Muon"

    def __init__(
        self, params: Params, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315), eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None,
        *, maximize: bool = False, strict: bool = False,
    ):  # fmt: skip
        steps = dict(ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps, adjust_lr_fn=adjust_lr_fn)
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov, maximize=maximize, **steps), strict)
