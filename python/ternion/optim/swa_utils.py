"""Averages of parameters, which often perform better than the parameters themselves."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Iterator
from typing import Any

from .._error_messages import name_all
from .._names import full_names
from .._scopes import no_grad
from .._ternion import Parameter, Tensor, _number, bfloat16, float16, float32, int64, tensor
from ..nn.module import Module
from .lr_scheduler import LRScheduler

__all__ = ["AveragedModel", "Ema", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "update_bn"]


def __dir__() -> list[str]:
    return __all__


def _named_tensors(parameters):
    """Returns pairs of names and tensors from a module, from tensors or from such pairs."""
    if isinstance(parameters, Module):
        return list(parameters.named_parameters())
    items = list(parameters)
    return [item if isinstance(item, tuple) else (f"parameter {number}", item) for number, item in enumerate(items)]


class Ema:
    """An exponential moving average of parameters: `average += (1 - decay) (parameter - average)`.

    The averages start with the values that the parameters have when the object is created. Averages
    of half-precision parameters are stored in float32.

        ema = optim.Ema(model)
        for ...:
            adam.step()
            ema.update()
        with ema.averaged():  # the model uses the averages, afterward its own weights again
            test(model)

    Args:
        parameters: A module, or parameters, or pairs of names and parameters.
        decay: The fraction of the old average that is retained.
        warmup: Uses `min(decay, (1 + n) / (10 + n))` at update number n, so that the first averages
            follow the parameters quickly.
        buffers: Pairs of names and buffers that are averaged, too, such as a module's
            `named_buffers()`. Buffers of non-floating-point dtypes are not averaged.

    Raises:
        ValueError: If the decay is outside 0 to 1, or if there are no parameters or one is given
            twice.
    """

    def __init__(self, parameters: Any, decay: float = 0.999, warmup: bool = False, buffers: Any = ()):
        if not 0 <= decay <= 1:
            raise ValueError(f"Ema: decay {decay}, expected 0 to 1")
        named = _named_tensors(parameters)
        if not named:
            raise ValueError("Ema: no parameters to average")
        named += [(name, buffer) for name, buffer in buffers if buffer.is_floating_point()]
        known_names: dict[Any, str] = {}
        for name, source in named:
            if id(source) in known_names:
                raise ValueError(f"Ema: {name} is given twice: it is {full_names([source])[0] or known_names[id(source)]} already")
            if name in known_names:
                raise ValueError(f"Ema: the name {name!r} is given twice")
            known_names[id(source)] = known_names[name] = name
        self.decay, self.warmup, self.updates = decay, warmup, 0
        self._sources = dict(named)
        self._averages = {name: _wide(source.detach().clone()) for name, source in named}
        self._saved: dict[str, Tensor] | None = None

    def update(self) -> None:
        """Moves the averages toward the parameters. Call it after each step of the optimizer.

        Raises:
            RuntimeError: If the averages are swapped into the model.
            ValueError: If the shape, dtype or device of a parameter no longer matches its average.
        """
        self._require_swapped_out("update")
        self._check()
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates)) if self.warmup else self.decay
        with no_grad():
            for name, average in self._averages.items():
                average.copy_(average.add(_wide(self._sources[name].detach()) - average, alpha=1.0 - decay))

    def swap_in(self) -> None:
        """Replaces the model's values by the averages. The values are saved until `swap_out`.

        Raises:
            RuntimeError: If the averages are already swapped into the model.
        """
        self._require_swapped_out("swap_in")
        self._check()
        with no_grad():
            self._saved = {name: source.detach().clone() for name, source in self._sources.items()}
            for name, source in self._sources.items():
                source.copy_(self._averages[name].to(source.dtype))

    def swap_out(self) -> None:
        """Restores the values that the model had before `swap_in`, bit by bit.

        Raises:
            RuntimeError: If the averages are not swapped into the model.
        """
        if self._saved is None:
            raise RuntimeError("Ema: swap_out, but the averages are not in the model: swap_in first")
        self._check()
        with no_grad():
            for name, source in self._sources.items():
                source.copy_(self._saved[name])
        self._saved = None

    @contextlib.contextmanager
    def averaged(self) -> Iterator[Any]:
        """A context manager in which the model has the averages.

        Raises:
            RuntimeError: If the averages are already swapped into the model.
        """
        self.swap_in()
        try:
            yield self
        finally:
            self.swap_out()

    def state_dict(self) -> dict[str, Tensor]:
        """Returns `average.NAME` of each parameter and buffer, and the number of updates,
        `n_averaged`.
        """
        averages = {f"average.{name}": average.clone() for name, average in self._averages.items()}
        return {**averages, "n_averaged": tensor(self.updates, dtype=int64)}

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Restores the state that `state_dict` returned. Nothing is changed unless the whole state
        matches.

        Raises:
            ValueError: If averages are missing, unexpected or of the wrong shape.
        """
        targets = {f"average.{name}": average for name, average in self._averages.items()}
        keys = {*targets, "n_averaged"}
        problems = [f"missing: {key}" for key in sorted(keys - set(state_dict))] + [f"extra: {key}" for key in sorted(set(state_dict) - keys)]
        problems += [
            f"{key} of shape {tuple(state_dict[key].shape)}, expected {tuple(average.shape)}"
            for key, average in targets.items()
            if key in state_dict and state_dict[key].shape != average.shape
        ]
        if problems:
            raise ValueError(f"Ema: the state does not fit; {'; '.join(problems)}")
        updates = int(state_dict["n_averaged"].item())
        if updates < 0:
            raise ValueError(f"Ema: n_averaged {updates}, expected at least 0")
        with no_grad():
            for key, average in targets.items():
                average.copy_(state_dict[key].to(average.dtype).to(average.device))
        self.updates = updates

    def _require_swapped_out(self, method):
        if self._saved is not None:
            raise RuntimeError(f"Ema: {method} while the averages are in the model: swap_out first")

    def _check(self):
        for name, average in self._averages.items():
            source = self._sources[name]
            if source.shape != average.shape or _wide_dtype(source) != average.dtype or source.device != average.device:
                raise ValueError(
                    f"Ema: {name} is {tuple(source.shape)} {source.dtype} on {source.device} now, but its average {tuple(average.shape)} "
                    f"{average.dtype} on {average.device}: make the averages after moving or casting the model"
                )


def _wide_dtype(source):
    return float32 if source.dtype in (float16, bfloat16) else source.dtype


def _wide(source):
    return source.to(_wide_dtype(source))


# ---- PyTorch's interface: a copy of the model that contains the averages


def get_ema_avg_fn(decay: float = 0.999) -> Any:
    """Returns an `avg_fn` of `AveragedModel`: an exponential moving average.

    Raises:
        ValueError: If the decay is outside 0 to 1.
    """
    decay = _number(decay)
    if not 0 <= decay <= 1:
        raise ValueError(f"decay {decay}, expected 0 to 1")
    return lambda average, current, count: average.add(current - average, alpha=1.0 - decay)


def get_swa_avg_fn() -> Any:
    """Returns an `avg_fn` of `AveragedModel`: the mean of all updates."""
    return lambda average, current, count: average + (current - average) / (count + 1)


def get_ema_multi_avg_fn(decay: float = 0.999) -> Any:
    """Returns a `multi_avg_fn` of `AveragedModel`: an exponential moving average of all tensors, in
    place.

    Raises:
        ValueError: If the decay is outside 0 to 1.
    """
    average_of = get_ema_avg_fn(decay)

    def averaged(averages, current, count):
        for average, value in zip(averages, current):
            average.copy_(average_of(average, value, count))

    return averaged


class AveragedModel(Module):
    """A copy of a model, in `module`, whose parameters are averages of the model's parameters: by
    default the mean of all updates.

    Args:
        avg_fn: Returns the new average, from (average, parameter, number of averaged models); see
            `get_ema_avg_fn`.
        multi_avg_fn: Updates all averages in place, from lists; see `get_ema_multi_avg_fn`.
        use_buffers: Whether floating-point buffers are averaged, too. Otherwise they are copied
            from the model.

    Raises:
        ValueError: If both `avg_fn` and `multi_avg_fn` are given.
    """

    n_averaged: Tensor

    def __init__(self, model: Any, device: Any = None, avg_fn: Any = None, multi_avg_fn: Any = None, use_buffers: bool = False):
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("AveragedModel: expected avg_fn or multi_avg_fn, got both")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self._avg_fn, self._multi_avg_fn, self._use_buffers = avg_fn or get_swa_avg_fn(), multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Any) -> None:
        """Updates the averages with the parameters of `model`, which must be in the order of those
        of the copy.

        Raises:
            ValueError: If the number or the shapes of the parameters differ.
        """
        pairs = list(zip(_state_of(self.module), _state_of(model)))
        if [target.shape for target, _ in pairs] != [tuple(source.shape) for source in _state_of(model)]:
            raise ValueError("AveragedModel: the model is not of the form of the one that it was made of")
        count = int(self.n_averaged.item())
        with no_grad():
            averaged: list[tuple[Tensor, Tensor]] = []
            copied: list[tuple[Tensor, Tensor]] = []
            for target, source in pairs:
                is_averaged = isinstance(target, Parameter) or (self._use_buffers and target.is_floating_point())
                (averaged if is_averaged and count > 0 else copied).append((target, source.detach().to(target.device)))
            for target, source in copied:
                target.copy_(source)
            self._average(averaged, count)
            self.n_averaged.add_(1)

    def _average(self, pairs, count):
        if self._multi_avg_fn is not None:
            self._multi_avg_fn([target.detach() for target, _ in pairs], [source for _, source in pairs], count)
            return
        for target, source in pairs:
            target.copy_(self._avg_fn(target.detach(), source, count))


def _state_of(model):
    return [*model.parameters(), *model.buffers()]


def update_bn(loader: Any, model: Any, device: Any = None) -> None:
    """Recomputes the running statistics of the batch norms of `model` as means over the batches of
    `loader` (inputs, or lists that begin with them).

    Raises:
        TypeError: If the loader is not iterable.
    """
    from ..nn.norms import _BatchNorm

    norms: list[Any] = [module for module in model.modules() if isinstance(module, _BatchNorm) and module.running_mean is not None]
    momenta = [norm.momentum for norm in norms]
    was_training = model.training
    for norm in norms:
        norm.running_mean.zero_()
        norm.running_var.fill_(1)
        norm.num_batches_tracked.zero_()
        # The mean over all batches instead of an exponential moving average.
        norm.momentum = None
    model.train()
    try:
        with no_grad():
            for batch in loader:
                input = batch[0] if isinstance(batch, (list, tuple)) else batch
                model(input if device is None else input.to(device))
    finally:
        for norm, momentum in zip(norms, momenta):
            norm.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """Anneals the current learning rates to `swa_lr` in `anneal_epochs`, after which they stay
    constant: for the part of a training run whose weights are averaged.

    Args:
        swa_lr: The final learning rate, or one for each group.
        anneal_strategy: "cos" or "linear".

    Raises:
        ValueError: If the number of learning rates differs from that of the groups, if the strategy
            is unknown, or if `anneal_epochs` is negative.
    """

    def __init__(self, optimizer: Any, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos", last_epoch: int = -1):
        groups = len(optimizer.param_groups)
        self.swa_lrs = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * groups
        if len(self.swa_lrs) != groups:
            raise ValueError(f"SWALR: {len(self.swa_lrs)} rates for {groups} groups of parameters")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"SWALR: anneal_strategy {anneal_strategy!r}, expected \"cos\" or \"linear\"")
        if isinstance(anneal_epochs, bool) or not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: anneal_epochs {anneal_epochs!r}, expected an integer of at least 0")
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _progress(self, epoch: float) -> float:
        done = max(0.0, min(1.0, epoch / max(1, self.anneal_epochs)))
        return done if self.anneal_strategy == "linear" else (1 - math.cos(math.pi * done)) / 2

    def get_lr(self) -> list[float]:
        """Returns the learning rates at `last_epoch`, computed from the optimizer's current ones:
        another schedule may have set them before.
        """
        epoch = self._step_count - 1 if self.anneal_epochs else max(1, self._step_count - 1)
        previous, progress = self._progress(epoch - 1), self._progress(epoch)
        rates = []
        for group, end in zip(self.optimizer.param_groups, self.swa_lrs):
            first = end if previous == 1 else (group["lr"] - previous * end) / (1 - previous)
            rates.append(end * progress + first * (1 - progress))
        return rates


name_all(globals())
