"""Optimisers: they change parameters by the gradients that were gathered."""

from __future__ import annotations

import math
from typing import Any

from .._capture import note_step
from .._ternion import Tensor, _Steps


class Optimizer:
    """What all optimisers have in common.

    `params` is a list of parameters, of pairs of names and parameters, or of dicts with `params` and settings of their own. The groups are in
    `param_groups`; a change of `lr` there counts from the next step on, other settings are those of the beginning.
    """

    _kind = ""

    def __init__(self, params: Any, defaults: Any, strict: bool = False):
        self.defaults, self.strict = defaults, strict
        self.param_groups: list[dict[str, Any]] = []
        self._steps: list[Any] = []
        self._warned = False
        self._labels: set[str] = set()
        params = list(params)
        if not params:
            raise ValueError(f"{type(self).__name__}: no parameters")
        if not isinstance(params[0], dict):
            params = [{"params": params}]
        for group in params:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict) -> None:
        """Adds parameters with settings of their own."""
        unknown = [name for name in param_group if name != "params" and name not in self.defaults]
        if unknown:
            raise TypeError(f"{type(self).__name__} has no setting {', '.join(unknown)}; it has {', '.join(self.defaults)}")
        named = param_group["params"]
        named = [named] if isinstance(named, Tensor) else list(named)
        first = sum(len(group["params"]) for group in self.param_groups)
        pairs = [
            item if isinstance(item, tuple) else (f"parameter {first + number} of shape {tuple(item.shape)}", item)
            for number, item in enumerate(named)
        ]
        held = {id(parameter) for group in self.param_groups for parameter in group["params"]}
        if any(id(parameter) in held for _, parameter in pairs) or len({id(parameter) for _, parameter in pairs}) < len(pairs):
            raise ValueError(f"{type(self).__name__}: a parameter is given twice")
        settings = {**self.defaults, **{name: value for name, value in param_group.items() if name != "params"}}
        parameters = [parameter for _, parameter in pairs]
        labels = [
            self._label(item[0] if isinstance(item, tuple) else f"parameter {first + number}") for number, item in enumerate(named)
        ]
        self._steps.append(_Steps(self._kind, parameters, [name for name, _ in pairs], labels, settings))
        self.param_groups.append({"params": parameters, **settings})

    def _label(self, name):
        """What the state calls a parameter: two models may use the same names."""
        label, number = name, 1
        while label in self._labels:
            number += 1
            label = f"{name}#{number}"
        self._labels.add(label)
        return label

    def step(self, closure: Any = None) -> Any:
        """Changes the parameters by the gradients that were gathered.

        Args:
            closure: computes the loss and its gradients anew; what it returns is returned.
        """
        loss = None if closure is None else closure()
        note_step(self)
        for group, steps in zip(self.param_groups, self._steps):
            self._warned |= steps.step(float(group["lr"]), self.strict, self._warned)
        return loss

    def _take_rates(self) -> None:
        """Has the learning rates of `param_groups` count for a step that is replayed."""
        for group, steps in zip(self.param_groups, self._steps):
            steps.set_lr(float(group["lr"]))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters, or makes them 0."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    parameter.grad.zero_()

    def state_dict(self) -> dict:
        """Step counts and moments of each group, and its settings."""
        settings = [{name: value for name, value in group.items() if name != "params"} for group in self.param_groups]
        return {"state": [steps.state() for steps in self._steps], "param_groups": settings}

    def load_state_dict(self, state_dict: dict) -> None:
        """Goes on from what `state_dict` told.

        Raises:
            ValueError: another number of groups, or a state that does not fit.
        """
        if len(state_dict["state"]) != len(self._steps):
            raise ValueError(f"a state of {len(state_dict['state'])} groups for {len(self._steps)}")
        for steps, group, state, settings in zip(self._steps, self.param_groups, state_dict["state"], state_dict["param_groups"]):
            steps.load(state)
            group.update(settings)


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if wanted."""

    _kind = "SGD"

    def __init__(
        self, params: Any, lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0,
        nesterov: bool = False, strict: bool = False,
    ):  # fmt: skip
        settings = dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov)
        super().__init__(params, settings, strict)


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015)."""

    _kind = "Adam"

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
        strict: bool = False,
    ):  # fmt: skip
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay), strict)


class AdamW(Optimizer):
    """Adam with weights that decay apart from the gradient (Loshchilov and Hutter 2019)."""

    _kind = "AdamW"

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
        strict: bool = False,
    ):  # fmt: skip
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay), strict)


class RMSprop(Optimizer):
    """Gradients divided by a running root of their mean square (Hinton 2012)."""

    _kind = "RMSprop"

    def __init__(
        self, params: Any, lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0.0, momentum: float = 0.0,
        centered: bool = False, strict: bool = False,
    ):  # fmt: skip
        settings = dict(lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum, centered=centered)
        super().__init__(params, settings, strict)


class Adagrad(Optimizer):
    """Gradients divided by the root of the sum of all their squares (Duchi et al. 2011)."""

    _kind = "Adagrad"

    def __init__(
        self, params: Any, lr: float = 1e-2, lr_decay: float = 0.0, weight_decay: float = 0.0, initial_accumulator_value: float = 0.0,
        eps: float = 1e-10, strict: bool = False,
    ):  # fmt: skip
        settings = dict(
            lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value, eps=eps
        )
        super().__init__(params, settings, strict)


class Lion(Optimizer):
    """The sign of a momentum (Chen et al. 2023)."""

    _kind = "Lion"

    def __init__(self, params: Any, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0, strict: bool = False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay), strict)


class Muon(Optimizer):
    """Momenta of matrices made orthogonal (Jordan et al. 2024); of matrices alone."""

    _kind = "Muon"

    def __init__(self, params: Any, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True, strict: bool = False):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov), strict)
