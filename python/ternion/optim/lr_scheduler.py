"""Learning-rate schedules. Names, arguments and defaults are PyTorch's.

`step()` is called after each step of the optimizer, or after each epoch. All schedules except
`ReduceLROnPlateau` are functions of the number of calls only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .._warnings import warn_caller
from ._schedule_settings import check_at_least_1, check_float64, check_fraction, describe, lambda_list

if TYPE_CHECKING:
    from .optimizers import Optimizer

__all__ = [
    "LRScheduler", "LambdaLR", "MultiplicativeLR", "StepLR", "MultiStepLR", "ConstantLR", "ExponentialLR", "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts", "LinearLR", "PolynomialLR", "OneCycleLR", "SequentialLR", "ChainedScheduler", "ReduceLROnPlateau",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


class LRScheduler:
    """Base class of the schedules. As in PyTorch, a subclass defines `get_lr`, which returns the
    learning rates of the groups, computed from `base_lrs`, `last_epoch` or the current learning
    rates.

    Raises:
        NotImplementedError: If a subclass defines none of `get_lr`, `factor` and `rates_at`.
    """

    # Schedules that were written for PyTorch read this attribute before they warn.
    _get_lr_called_within_step = True

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        self.optimizer, self.last_epoch, self._step_count = optimizer, last_epoch, 0
        for group in optimizer.param_groups:
            # A schedule that is created after another one starts from the same initial learning
            # rates.
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.step()

    def factor(self, epoch: int) -> float:
        """Returns the factor of the initial learning rates.

        Raises:
            NotImplementedError: If the subclass does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no get_lr(), which a custom schedule defines")

    def rates_at(self, epoch: int) -> list[float]:
        """Returns the learning rates after `epoch` calls of `step()`."""
        if not self._overrides_get_lr():
            return [lr * self.factor(epoch) for lr in self.base_lrs]
        previous, self.last_epoch = self.last_epoch, epoch
        try:
            return list(self.get_lr())
        finally:
            self.last_epoch = previous

    def get_lr(self) -> list[float]:
        """Returns the learning rates at `last_epoch`; `get_last_lr` returns those that are in
        effect.
        """
        return self.rates_at(self.last_epoch)

    def _overrides_get_lr(self) -> bool:
        return type(self).get_lr is not LRScheduler.get_lr

    def step(self, epoch: int | None = None) -> None:
        """Advances by one epoch, or to `epoch`.

        Raises:
            ValueError: If the epoch is negative.
        """
        if epoch is not None and epoch < 0:
            raise ValueError(f"{type(self).__name__}: epoch {epoch}, expected at least 0")
        if epoch is None and self._step_count == 1 and not getattr(self.optimizer, "_has_stepped", True):
            schedule, optimizer = type(self).__name__, type(self.optimizer).__name__
            warn_caller(f"{schedule}: its step() was called before that of {optimizer}, which skips the first learning rate: call optimizer.step() before it")
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set_rates(self.rates_at(self.last_epoch))

    def _set_rates(self, rates):
        for group, lr in zip(self.optimizer.param_groups, rates):
            group["lr"] = lr

    def get_last_lr(self) -> list[float]:
        """Returns the learning rates of the groups."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def __repr__(self) -> str:
        return describe(self)

    def state_dict(self) -> dict:
        """Returns the progress of the schedule. For a subclass with its own `get_lr`, returns all
        attributes except the optimizer and those whose names begin with _.
        """
        if self._overrides_get_lr():
            return {name: value for name, value in vars(self).items() if name != "optimizer" and not name.startswith("_")}
        return {"last_epoch": self.last_epoch, "base_lrs": self.base_lrs}

    def load_state_dict(self, state_dict: dict) -> None:
        """Restores the state that `state_dict` returned.

        Raises:
            KeyError: If a key is missing in the state.
        """
        self.last_epoch, self.base_lrs = state_dict["last_epoch"], list(state_dict["base_lrs"])
        if self._overrides_get_lr():
            # Its learning rates may depend on the previous ones, which are part of the optimizer's
            # state.
            vars(self).update(state_dict)
            self._step_count = self.last_epoch + 1
        else:
            self._set_rates(self.rates_at(self.last_epoch))


class LambdaLR(LRScheduler):
    """Multiplies the initial learning rates by a function of the epoch, or by one function for each
    group.

    Raises:
        ValueError: If the number of functions differs from the number of parameter groups.
        TypeError: If `lr_lambda` is not callable.
    """

    def __init__(self, optimizer: Any, lr_lambda: Any, last_epoch: int = -1):
        self.lr_lambdas = lambda_list("LambdaLR", lr_lambda, len(optimizer.param_groups))
        super().__init__(optimizer, last_epoch)

    def rates_at(self, epoch: int) -> list[float]:
        return [lr * function(epoch) for lr, function in zip(self.base_lrs, self.lr_lambdas)]


class MultiplicativeLR(LRScheduler):
    """Multiplies the learning rates at each step by a function of the epoch, or by one function for
    each group.

    Raises:
        ValueError: If the number of functions differs from the number of parameter groups.
        TypeError: If `lr_lambda` is not callable.
    """

    def __init__(self, optimizer: Any, lr_lambda: Any, last_epoch: int = -1):
        self.lr_lambdas = lambda_list("MultiplicativeLR", lr_lambda, len(optimizer.param_groups))
        # For each epoch so far, the products of all groups.
        self._products = [[1.0] * len(self.lr_lambdas)]
        super().__init__(optimizer, last_epoch)

    def rates_at(self, epoch: int) -> list[float]:
        for later in range(len(self._products), epoch + 1):
            self._products.append([product * function(later) for product, function in zip(self._products[-1], self.lr_lambdas)])
        return [lr * product for lr, product in zip(self.base_lrs, self._products[epoch])]


class StepLR(LRScheduler):
    """Multiplies the learning rates by `gamma` every `step_size` epochs.

    Raises:
        ValueError: If `step_size` is below 1.
    """

    def __init__(self, optimizer: Any, step_size: int, gamma: float = 0.1, last_epoch: int = -1):
        check_at_least_1("StepLR", "step_size", step_size)
        check_float64("StepLR", "gamma", gamma)
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        return self.gamma ** (epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """Multiplies the learning rates by `gamma` at each of the `milestones`.

    Raises:
        TypeError: If `milestones` is not a list.
    """

    def __init__(self, optimizer: Any, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1):
        check_float64("MultiStepLR", "gamma", gamma)
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        return self.gamma ** sum(epoch >= milestone for milestone in self.milestones)


class ConstantLR(LRScheduler):
    """Multiplies the learning rates by `factor` in the first `total_iters` epochs. A factor of 1
    keeps them constant.

    Raises:
        ValueError: If the factor is outside 0 to 1.
    """

    def __init__(self, optimizer: Any, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1):
        check_fraction("ConstantLR", "factor", factor)
        self._factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        return self._factor if epoch < self.total_iters else 1.0


class ExponentialLR(LRScheduler):
    """Multiplies the learning rates by `gamma` at each epoch.

    Raises:
        TypeError: If `gamma` is not a number.
        ValueError: If `gamma` is out of the range of float64.
    """

    def __init__(self, optimizer: Any, gamma: float, last_epoch: int = -1):
        check_float64("ExponentialLR", "gamma", gamma)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        return self.gamma**epoch


class CosineAnnealingLR(LRScheduler):
    """Decreases the learning rates to `eta_min` along half a cosine in `T_max` epochs (Loshchilov
    and Hutter 2017). After that, as in PyTorch, they increase again.

    Raises:
        ValueError: If `T_max` is below 1.
    """

    def __init__(self, optimizer: Any, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        check_at_least_1("CosineAnnealingLR", "T_max", T_max)
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def rates_at(self, epoch: int) -> list[float]:
        fraction = (1 + math.cos(math.pi * epoch / self.T_max)) / 2
        return [self.eta_min + (lr - self.eta_min) * fraction for lr in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Decreases the learning rates to `eta_min` along half a cosine in `T_0` epochs, then restarts,
    each time `T_mult` times as long (Loshchilov and Hutter 2017).

    Raises:
        ValueError: If `T_0` or `T_mult` is not a positive integer.
    """

    def __init__(self, optimizer: Any, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1):
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"CosineAnnealingWarmRestarts: {name} {value!r}, expected an integer, at least 1")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def step(self, epoch: float | None = None) -> None:
        """Advances by one epoch, or to `epoch`, which may be fractional.

        Raises:
            ValueError: If the epoch is negative.
        """
        if epoch is None:
            return super().step()
        if epoch < 0:
            raise ValueError(f"CosineAnnealingWarmRestarts: epoch {epoch}, expected at least 0")
        self.last_epoch = math.floor(epoch)
        self._set_rates(self.rates_at(epoch))

    def rates_at(self, epoch: float) -> list[float]:
        length, since = self.T_0, epoch
        if self.T_mult == 1:
            since = epoch % length
        while since >= length:
            since, length = since - length, length * self.T_mult
        fraction = (1 + math.cos(math.pi * since / length)) / 2
        return [self.eta_min + (lr - self.eta_min) * fraction for lr in self.base_lrs]


class LinearLR(LRScheduler):
    """Changes the factor of the learning rates linearly from `start_factor` to `end_factor` in
    `total_iters` epochs: a warmup.

    Raises:
        ValueError: If `start_factor` is 0, if a factor is outside 0 to 1, or if `total_iters` is
            below 1.
    """

    def __init__(self, optimizer: Any, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5, last_epoch: int = -1):
        if not 0 < start_factor <= 1:
            raise ValueError(f"LinearLR: start_factor {start_factor}, expected above 0 and at most 1")
        check_fraction("LinearLR", "end_factor", end_factor)
        check_at_least_1("LinearLR", "total_iters", total_iters)
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        fraction = min(epoch, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * fraction


class PolynomialLR(LRScheduler):
    """Decreases the learning rates to 0 in `total_iters` epochs, along a power of the remaining
    fraction.

    Raises:
        ValueError: If `total_iters` is below 1.
    """

    def __init__(self, optimizer: Any, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1):
        check_at_least_1("PolynomialLR", "total_iters", total_iters)
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        return (1 - min(epoch, self.total_iters) / self.total_iters) ** self.power


class OneCycleLR(LRScheduler):
    """The 1cycle policy: increases the learning rate to `max_lr`, then decreases it to nearly 0
    (Smith and Topin 2018).

    Args:
        max_lr: The maximum learning rate, or one for each group.
        total_steps: The number of steps. Default: `epochs * steps_per_epoch`.
        pct_start: The fraction of the steps in which the learning rate increases.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: Whether the momentum (for Adam and its variants the first beta) is cycled
            inversely: from `max_momentum` to `base_momentum` while the learning rate increases.
        base_momentum, max_momentum: The bounds of the momentum, or a list with one for each group.
        div_factor: The initial learning rate is `max_lr / div_factor`; the last one is the initial
            one divided by `final_div_factor`.
        three_phase: Uses three phases: up, down to the initial learning rate in the same number of
            steps, then down to the last one.

    Raises:
        ValueError: If the number of steps is not given, if `pct_start` is outside 0 to 1, if the
            strategy is unknown, if the number of learning rates or momenta differs from that of the
            groups, if `cycle_momentum` is used with an optimizer without momentum, or if there are
            more steps than `total_steps`.
    """

    def __init__(
        self, optimizer: Any, max_lr: Any, total_steps: int | None = None, epochs: int | None = None, steps_per_epoch: int | None = None,
        pct_start: float = 0.3, anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: Any = 0.85,
        max_momentum: Any = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4, three_phase: bool = False,
        last_epoch: int = -1,
    ):  # fmt: skip
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: expected total_steps, or both epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        check_at_least_1("OneCycleLR", "total_steps", total_steps)
        check_fraction("OneCycleLR", "pct_start", pct_start)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy {anneal_strategy!r}, expected \"cos\" or \"linear\"")
        if div_factor <= 0 or final_div_factor <= 0:
            raise ValueError(f"OneCycleLR: div_factor {div_factor} and final_div_factor {final_div_factor}, expected numbers above 0")
        groups = len(optimizer.param_groups)
        self.max_lrs = list(max_lr) if isinstance(max_lr, (list, tuple)) else [max_lr] * groups
        if len(self.max_lrs) != groups:
            raise ValueError(f"OneCycleLR: {len(self.max_lrs)} rates for {groups} groups of parameters")
        self.total_steps, self.anneal_strategy = total_steps, anneal_strategy
        self.div_factor, self.final_div_factor, self._phase_ends = div_factor, final_div_factor, _phases(total_steps, pct_start, three_phase)
        for group, largest in zip(optimizer.param_groups, self.max_lrs):
            group["initial_lr"] = largest / div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._set_momenta(optimizer, base_momentum, max_momentum)
        super().__init__(optimizer, last_epoch)

    def _set_momenta(self, optimizer, base, largest):
        self._momentum = next((name for name in ("betas", "momentum") if name in optimizer.defaults), None)
        if self._momentum is None:
            raise ValueError(f"OneCycleLR: cycle_momentum of {type(optimizer).__name__}, which has no momentum: expected cycle_momentum=False")
        groups = len(optimizer.param_groups)
        ends = [list(end) if isinstance(end, (list, tuple)) else [end] * groups for end in (base, largest)]
        if any(len(end) != groups for end in ends):
            raise ValueError(f"OneCycleLR: {' and '.join(str(len(end)) for end in ends)} momenta for {groups} groups of parameters")
        self._momenta = list(zip(*ends))

    def _set_rates(self, rates):
        super()._set_rates(rates)
        if not self.cycle_momentum:
            return
        for group, (base, largest) in zip(self.optimizer.param_groups, self._momenta):
            points = [largest, base, largest] if len(self._phase_ends) == 2 else [largest, base, largest, largest]
            momentum = self._interpolate(self.last_epoch, points)
            group[self._momentum] = momentum if self._momentum == "momentum" else (momentum, *group["betas"][1:])

    def rates_at(self, epoch: int) -> list[float]:
        # One call beyond the last step is allowed, as in PyTorch: a loop calls `step()` after the
        # optimizer's last step, too.
        if epoch > self.total_steps:
            raise ValueError(f"OneCycleLR: step {epoch}, but total_steps is {self.total_steps}")
        return [self._rate(epoch, first, largest) for first, largest in zip(self.base_lrs, self.max_lrs)]

    def _rate(self, epoch, first, largest):
        last = first / self.final_div_factor
        return self._interpolate(epoch, [first, largest, last] if len(self._phase_ends) == 2 else [first, largest, first, last])

    def _interpolate(self, epoch, points):
        """Interpolates between these values, each of which is reached at the end of a phase."""
        start = 0.0
        for phase, (end, first, last) in enumerate(zip(self._phase_ends, points, points[1:]), 1):
            if epoch <= end or phase == len(self._phase_ends):
                # A phase of length 0 is at its end.
                fraction = (epoch - start) / (end - start) if end != start else 1.0
                return self._anneal(first, last, fraction)
            start = end
        raise AssertionError("the last phase takes every step")

    def _anneal(self, start, end, fraction):
        if self.anneal_strategy == "linear":
            return start + (end - start) * fraction
        return end + (start - end) / 2 * (1 + math.cos(math.pi * fraction))


def _phases(total_steps, pct_start, three_phase):
    """Returns the steps, not necessarily integers, at which phases end."""
    rise = pct_start * total_steps
    return [rise - 1, 2 * rise - 2, total_steps - 1] if three_phase else [rise - 1, total_steps - 1]


class SequentialLR(LRScheduler):
    """Runs schedules one after another. `milestones` are the steps at which the next one begins.

    Raises:
        ValueError: If the number of milestones is not one less than that of the schedules, or if a
            schedule belongs to another optimizer.
        TypeError: If a schedule is not a function of the step only, such as `ReduceLROnPlateau`.
    """

    def __init__(self, optimizer: Any, schedulers: Any, milestones: Sequence[int], last_epoch: int = -1):
        if len(schedulers) != len(milestones) + 1:
            raise ValueError(f"SequentialLR: {len(schedulers)} schedules and {len(milestones)} milestones, expected one less")
        for schedule in schedulers:
            if schedule.optimizer is not optimizer:
                raise ValueError("SequentialLR: a schedule of another optimizer")
            if not isinstance(schedule, LRScheduler):
                raise TypeError(f"SequentialLR: {type(schedule).__name__} is not a function of only the step")
        self._schedules, self._milestones = list(schedulers), list(milestones)
        super().__init__(optimizer, last_epoch)

    def rates_at(self, epoch: int) -> list[float]:
        number = sum(epoch >= milestone for milestone in self._milestones)
        return self._schedules[number].rates_at(epoch - (self._milestones[number - 1] if number else 0))


class ChainedScheduler(LRScheduler):
    """Combines several schedules: the initial learning rates are multiplied by the factor of each
    schedule. Only `step()` of this schedule is called.

    Raises:
        ValueError: If there are no schedules, or if one belongs to another optimizer or is not a
            function of the step only.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Any = None):
        if not schedulers:
            raise ValueError("ChainedScheduler: no schedules")
        optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        for schedule in schedulers:
            if not isinstance(schedule, LRScheduler):
                raise ValueError(f"ChainedScheduler: {type(schedule).__name__} is not a function of only the step")
            if schedule.optimizer is not optimizer:
                raise ValueError("ChainedScheduler: a schedule of another optimizer")
        self._schedules = list(schedulers)
        super().__init__(optimizer)

    def rates_at(self, epoch: int) -> list[float]:
        rates = list(self.base_lrs)
        for schedule in self._schedules:
            triples = zip(rates, schedule.rates_at(epoch), schedule.base_lrs)
            rates = [rate * (current / first if first else 1.0) for rate, current, first in triples]
        return rates


class ReduceLROnPlateau:
    """Multiplies the learning rates by `factor` if a metric has not improved in more than
    `patience` calls.

    Args:
        mode: "min" (lower is better) or "max".
        factor: The factor of a reduction, below 1.
        threshold: The minimum improvement over the best metric; relative to the best metric if
            `threshold_mode` is "rel", absolute if it is "abs".
        cooldown: The number of calls after a reduction that are not counted as calls without
            improvement.
        min_lr: The minimum learning rate, or one for each group.
        eps: Reductions by at most this amount are skipped.

    Raises:
        ValueError: If the factor is not in [0, 1), if a mode is unknown, or if the number of
            minimum learning rates differs from that of the groups.
    """

    def __init__(
        self, optimizer: Any, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
        threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0.0, eps: float = 1e-8,
    ):  # fmt: skip
        if not 0 <= factor < 1:
            raise ValueError(f"ReduceLROnPlateau: factor {factor}, expected at least 0 and below 1")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(f"ReduceLROnPlateau: mode {mode!r} and threshold_mode {threshold_mode!r}, expected min or max, rel or abs")
        groups = len(optimizer.param_groups)
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * groups
        if len(self.min_lrs) != groups:
            raise ValueError(f"ReduceLROnPlateau: {len(self.min_lrs)} least rates for {groups} groups of parameters")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0

    def step(self, metrics: Any) -> None:
        """Updates the schedule with a metric: a number, or a tensor with one element.

        Raises:
            ValueError: If the metric has several elements, or is a string that is not a number.
        """
        measure = float(metrics)
        self.last_epoch += 1
        if self._is_better(measure):
            self.best, self.num_bad_epochs = measure, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _is_better(self, measure):
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            bound = self.best * (1 + sign * self.threshold)
        else:
            bound = self.best + sign * self.threshold
        return sign * measure > sign * bound

    def _reduce(self):
        for group, min_lr in zip(self.optimizer.param_groups, self.min_lrs):
            reduced = max(group["lr"] * self.factor, min_lr)
            if group["lr"] - reduced > self.eps:
                group["lr"] = reduced

    def get_last_lr(self) -> list[float]:
        """Returns the learning rates of the groups."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def __repr__(self) -> str:
        return describe(self)

    def state_dict(self) -> dict:
        """Returns the best metric and the counters."""
        return {name: getattr(self, name) for name in ("best", "num_bad_epochs", "cooldown_counter", "last_epoch")}

    def load_state_dict(self, state_dict: dict) -> None:
        """Restores the state that `state_dict` returned. The learning rates are part of the
        optimizer's state.

        Raises:
            KeyError: If a key is missing in the state.
        """
        for name in ("best", "num_bad_epochs", "cooldown_counter", "last_epoch"):
            setattr(self, name, state_dict[name])
