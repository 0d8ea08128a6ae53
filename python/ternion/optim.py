"""Optimisers and schedules of the learning rate. Names, arguments and defaults are PyTorch's.

`step()` takes a parameter without a gradient for a mistake: it warns and names it, once; with `strict=True` it raises an error.
"""

from __future__ import annotations

import math

from ._capture import note_step
from ._ternion import Tensor, _Steps


class Optimizer:
    """What all optimisers have in common.

    `params` is a list of parameters, of pairs of names and parameters, or of dicts with `params` and settings of their own. The groups are in
    `param_groups`; a change of `lr` there counts from the next step on, other settings are those of the beginning.
    """

    _kind = ""

    def __init__(self, params, defaults, strict=False):
        self.defaults, self.strict = defaults, strict
        self.param_groups, self._steps, self._warned = [], [], False
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
        self._steps.append(_Steps(self._kind, parameters, [name for name, _ in pairs], settings))
        self.param_groups.append({"params": parameters, **settings})

    def step(self, closure=None):
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

    def __init__(self, params, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, strict=False):
        settings = dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov)
        super().__init__(params, settings, strict)


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015)."""

    _kind = "Adam"

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, strict=False):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay), strict)


class AdamW(Optimizer):
    """Adam with weights that decay apart from the gradient (Loshchilov and Hutter 2019)."""

    _kind = "AdamW"

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, strict=False):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay), strict)


class RMSprop(Optimizer):
    """Gradients divided by a running root of their mean square (Hinton 2012)."""

    _kind = "RMSprop"

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False, strict=False):
        settings = dict(lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum, centered=centered)
        super().__init__(params, settings, strict)


class Adagrad(Optimizer):
    """Gradients divided by the root of the sum of all their squares (Duchi et al. 2011)."""

    _kind = "Adagrad"

    def __init__(self, params, lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10, strict=False):
        settings = dict(
            lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value, eps=eps
        )
        super().__init__(params, settings, strict)


class Lion(Optimizer):
    """The sign of a momentum (Chen et al. 2023)."""

    _kind = "Lion"

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, strict=False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay), strict)


class Muon(Optimizer):
    """Momenta of matrices made orthogonal (Jordan et al. 2024); of matrices alone."""

    _kind = "Muon"

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, strict=False):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov), strict)


class LRScheduler:
    """A course of the learning rate: `step()` after each epoch, or after each step of the optimiser."""

    def __init__(self, optimizer, last_epoch=-1):
        self.optimizer, self.last_epoch = optimizer, last_epoch
        self.base_lrs = [group["lr"] for group in optimizer.param_groups]
        self.step()

    def factor(self, epoch: int) -> float:
        """What the first learning rates are multiplied by."""
        raise NotImplementedError

    def rates(self) -> list[float]:
        """The learning rates now."""
        return [lr * self.factor(self.last_epoch) for lr in self.base_lrs]

    def step(self) -> None:
        """Goes on by one."""
        self.last_epoch += 1
        for group, lr in zip(self.optimizer.param_groups, self.rates()):
            group["lr"] = lr

    def get_last_lr(self) -> list[float]:
        """The learning rates of the groups."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict:
        """How far it is."""
        return {"last_epoch": self.last_epoch, "base_lrs": self.base_lrs}

    def load_state_dict(self, state_dict: dict) -> None:
        """Goes on from what `state_dict` told."""
        self.last_epoch, self.base_lrs = state_dict["last_epoch"], state_dict["base_lrs"]
        for group, lr in zip(self.optimizer.param_groups, self.rates()):
            group["lr"] = lr


class LambdaLR(LRScheduler):
    """Times what a function says of the epoch."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self.lr_lambda = lr_lambda
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch):
        return self.lr_lambda(epoch)


class StepLR(LRScheduler):
    """Times `gamma` every `step_size`."""

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch):
        return self.gamma ** (epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """Times `gamma` at each of `milestones`."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch):
        return self.gamma ** sum(epoch >= milestone for milestone in self.milestones)


class ExponentialLR(LRScheduler):
    """Times `gamma` each time."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch):
        return self.gamma**epoch


class CosineAnnealingLR(LRScheduler):
    """Down to `eta_min` along half a cosine, in `T_max` (Loshchilov and Hutter 2017)."""

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def rates(self):
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (lr - self.eta_min) * share for lr in self.base_lrs]


class LinearLR(LRScheduler):
    """From `start_factor` to `end_factor` in `total_iters`: a warm-up."""

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch):
        share = min(epoch, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * share
