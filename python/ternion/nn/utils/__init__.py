"""Gradients of several parameters together, and what watches a training."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from . import fusion as fusion, rnn as rnn
from ..._places import repeats
from ..._refusals import name_all
from ..._scales import kept, scale_in
from ..._scopes import no_grad
from ..._ternion import Tensor, _clip_grad_norm, _clip_grad_value, _number, _total_norm, _trust, cat, float32, float64, stack, zeros
from ..._warnings import warn_caller
from .fusion import (
    fuse_conv_bn_eval as fuse_conv_bn_eval, fuse_conv_bn_weights as fuse_conv_bn_weights, fuse_linear_bn_eval as fuse_linear_bn_eval,
    fuse_linear_bn_weights as fuse_linear_bn_weights, skip_init as skip_init,
)  # fmt: skip

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "StatsMonitor", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "fuse_conv_bn_eval", "fuse_conv_bn_weights",
    "fuse_linear_bn_eval", "fuse_linear_bn_weights", "fusion", "get_total_norm", "parameters_to_vector", "rnn", "skip_init", "vector_to_parameters",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def _listed(parameters: Any, op: str) -> list[Any]:
    """The tensors; a warning where an iterator has none left."""
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if not listed and hasattr(parameters, "__next__"):
        warn_caller(f"{op}: an iterator without tensors: a parameters() that was gone through before has none left; call it again")
    return listed


# A limit of at least this share of the scale was multiplied by it.
_SCALED_LIMIT = 0.05


def _tell_of_scale(op: str, parameters: list[Any], limit: float) -> None:
    """A warning where the gradients to be clipped are those of a loss that is still scaled: they are some thousand times too large, and all is clipped."""
    scale = scale_in(parameters)
    if scale and not (scale > 100.0 and limit >= _SCALED_LIMIT * scale):
        told = f"the gradients are those of a loss times {scale:g}, by a GradScaler"
        warn_caller(f"{op}: {told}: call its unscale_(optimizer) before, or the limit is {scale:g} times too small")


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Scales the gradients of `parameters` so that their common norm is at most `max_norm`; the norm that they had, a tensor: 0 if there is no gradient.

    Args:
        norm_type: the power of the norm; inf for the largest element.
        error_if_nonfinite: whether a norm that is NaN or infinite is an error; nothing is changed then. The norm is read, which waits for the device.
        foreach: taken as in PyTorch; there is one way to compute here.

    Raises:
        RuntimeError: a norm that is not finite, if that is an error.
    """
    parameters = [parameter for parameter in _listed(parameters, "clip_grad_norm_") if parameter.grad is not None]
    max_norm, norm_type = _number(max_norm), _number(norm_type)
    if not parameters:
        return zeros(())
    _tell_of_scale("clip_grad_norm_", parameters, max_norm)
    with kept(parameters):
        return _clipped(parameters, max_norm, norm_type, error_if_nonfinite)


def _clipped(parameters, max_norm, norm_type, error_if_nonfinite):
    if error_if_nonfinite or norm_type != 2.0:
        norm = get_total_norm([parameter.grad for parameter in parameters], norm_type)
        if error_if_nonfinite and not math.isfinite(norm.item()):
            raise RuntimeError(f"clip_grad_norm_: the norm of the gradients is {norm.item()}, expected a finite number")
        if norm_type != 2.0:
            return _scaled(parameters, max_norm, norm)
    return _clip_grad_norm(parameters, max_norm)


def get_total_norm(tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """The common norm of several tensors, a tensor; 0 of none.

    Raises:
        RuntimeError: a norm that is not finite, if `error_if_nonfinite`.
    """
    tensors = _listed(tensors, "get_total_norm")
    if not tensors:
        return zeros(())
    first = tensors[0]
    if isinstance(norm_type, (int, float)) and norm_type == 2 and first.is_floating_point() and all(tensor.dtype == first.dtype and tensor.device == first.device for tensor in tensors):
        with no_grad():
            norm = _total_norm(tensors)
    else:
        # Of halves the powers would not fit; of float64 nothing is rounded to less.
        dtype = float64 if any(tensor.dtype == float64 for tensor in tensors) else float32
        norms = [tensor.detach().to(dtype).norm(norm_type) for tensor in tensors]
        norm = stack([norm.to(norms[0].device) for norm in norms]).norm(norm_type)
    if error_if_nonfinite and not math.isfinite(norm.item()):
        raise RuntimeError(f"get_total_norm: the norm is {norm.item()}, expected a finite number")
    return norm


def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scales the gradients of `parameters`, whose common norm is `total_norm`, so that it is at most `max_norm`.

    Raises:
        ValueError: a text in place of `max_norm`.
    """
    parameters, max_norm = _listed(parameters, "clip_grads_with_norm_"), _number(max_norm)
    _tell_of_scale("clip_grads_with_norm_", parameters, max_norm)
    with kept(parameters):
        _scaled(parameters, max_norm, total_norm)


def _scaled(parameters, max_norm, norm):
    """As PyTorch does: by `max_norm / (norm + 1e-6)` where that is less than 1."""
    with no_grad():
        factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for parameter in parameters:
            if parameter.grad is not None:
                # In the factor's dtype: one that is small would vanish in half precision.
                parameter.grad.copy_(parameter.grad.to(factor.dtype) * factor.to(parameter.grad.device))
    return norm


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Cuts every element of the gradients of `parameters` to -clip_value..clip_value.

    Raises:
        ValueError: a text in place of `clip_value`, or one below 0.
    """
    clip_value, parameters = _number(clip_value), _listed(parameters, "clip_grad_value_")
    _tell_of_scale("clip_grad_value_", parameters, clip_value)
    with kept(parameters):
        _clip_grad_value([parameter for parameter in parameters if parameter.grad is not None], clip_value)


def parameters_to_vector(parameters: Any) -> Tensor:
    """All elements of several tensors as one axis.

    Shapes: [..], [..], .. -> [elements of all]

    Raises:
        ValueError: no tensors.
    """
    return cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Any) -> None:
    """Overwrites parameters with the elements of one axis.

    Shapes: [elements of all] -> the parameters' own

    Raises:
        ValueError: more elements, or less.
    """
    parameters = list(parameters)
    count = sum(parameter.numel() for parameter in parameters)
    if vec.ndim != 1 or vec.numel() != count:
        raise ValueError(f"vector_to_parameters: a vector of shape {tuple(vec.shape)}, expected ({count},)")
    with no_grad():
        for part, parameter in zip(vec.split([parameter.numel() for parameter in parameters]), parameters):
            parameter.copy_(part.reshape(parameter.shape))


# From here on a larger rate counts as a rise: schedules that warm up begin lower, but go on in small steps.
_RISE = 100.0


class StatsMonitor:
    """Looks at a training every some steps: the outputs of each layer and the gradients that come to them, weights and their gradients, and how far a step moves them.

        monitor = nn.utils.StatsMonitor(model, every=100)
        for step, (x, target) in enumerate(batches):
            with monitor.watch(step):
                loss = nn.functional.cross_entropy(model(x), target)
            optimizer.zero_grad()
            loss.backward()
            report = monitor.step(optimizer)
            if report:
                for warning in report.warnings:
                    print(warning)

    What is wrong is told in sentences that name the layer: outputs or gradients that explode or vanish, dead ReLUs, NaN and where it begins, gradients
    that are missing or 0, weights that the optimizer does not have, steps that are too large or too small; sigmoids that are saturated, a softmax in front of a
    cross-entropy, a training in evaluation mode, an input that is not scaled, weights that are all the same. Of parameters that no optimizer has, while one has
    others of the model, no gradient is expected. A layer that stands at several places of a
    list is told at once, by a warning.
    `print(report)` shows a table of all layers. A fault that stays is told again at ever larger distances. A step that is not looked at
    costs what it costs without; one that is captured for its replay cannot be.

    Args:
        model: a module.
        every: steps from one reading to the next.
        patience: readings in a row after which something is a fault that a single batch may show by chance.
        growth: how many times larger or smaller outputs of one layer, or gradients that come to it, may be than those of another.
        dead_share: the share of units of a ReLU that give 0 for each example, from which on it is called dead.
        largest_update, smallest_update: between them is the change of a weight in a step, by its own size, that is no fault.
        largest_input, smallest_input: between them is the root mean square of an input that goes into a layer's product as it is; numbers of 0 do not count against the smallest.

    Raises:
        ValueError: numbers of 0, limits that are none.
        TypeError: no module.
    """

    def __init__(
        self, model: Any, every: int = 100, patience: int = 5, growth: float = 1e3, dead_share: float = 0.9, largest_update: float = 0.5,
        smallest_update: float = 1e-6, largest_input: float = 30.0, smallest_input: float = 1e-3,
    ):  # fmt: skip
        if not hasattr(model, "named_modules"):
            raise TypeError(f"StatsMonitor: {type(model).__name__}, expected a module")
        self._model = model
        _tell_of_repeats(model)
        self._largest_rate = 0.0
        self._monitor = _trust.Monitor(every, patience, growth, dead_share, largest_update, smallest_update, (largest_input, smallest_input))

    def watch(self, step: int) -> _Watch:
        """A scope for the forward of step `step`, in which the model is watched if the step is one of those that are looked at."""
        return _Watch(self._monitor, self._model, step)

    def report(self) -> Any:
        """What was seen of the step that was watched last, with the gradients that the parameters have; None if it was not looked at, or has been reported."""
        return self._monitor.report(_parameters_of(self._model), _held())

    def step(self, optimizer: Any) -> Any:
        """`optimizer.step()`, and what `report` tells, with the changes of the weights. `optimizer` may be a function that makes the step.

        Of a loss that a GradScaler has scaled, the gradients are those unless `unscale_` was called before.

        Raises:
            TypeError: neither an optimiser nor a function.
        """
        step = optimizer.step if hasattr(optimizer, "step") else optimizer
        return self._monitor.step(_parameters_of(self._model), _held(), step, self._rate_of(optimizer))

    def _rate_of(self, optimizer: Any) -> float | None:
        """The largest learning rate of a step, where it has one. One that is far above all before is told at once: the next reading may find nothing but NaN."""
        rates = [group.get("lr") for group in getattr(optimizer, "param_groups", [])]
        known = [float(rate) for rate in rates if isinstance(rate, (int, float)) and math.isfinite(rate)]
        if not known or len(known) < len(rates):
            return None
        rate, before = max(known), self._largest_rate
        if rate > max(1.0, _RISE * before) and before > 0.0:
            warn_caller(f"StatsMonitor: the learning rate of {type(optimizer).__name__} is {rate:g} in param_groups[{known.index(rate)}], where {before:g} was the largest before")
        self._largest_rate = max(rate, before)
        return rate


def _held() -> list[Any]:
    """What optimizers have."""
    from ...optim.optimizer import held

    return held()


def _parameters_of(model: Any) -> list[Any]:
    """All parameters of a model, also those that a `parameters()` of its own leaves out."""
    return [parameter for _, parameter in model.named_parameters()]


def _tell_of_repeats(model: Any) -> None:
    """A warning where a list or a Sequential has one layer several times: `[layer] * 3` is one layer, and so are its parameters."""
    for named, kind in repeats(model):
        told = f"{', '.join(named[:4])}{', ..' if len(named) > 4 else ''} are one {kind}: its parameters are used {len(named)} times"
        warn_caller(f"StatsMonitor: {told}; make a layer for each place ([layer] * n repeats one), unless that is meant")


class _Watch:
    def __init__(self, monitor: Any, model: Any, step: int):
        self._monitor, self._model, self._step, self._is_open = monitor, model, step, False

    def __enter__(self) -> Self:
        self._is_open = self._monitor.open(self._model, self._step)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._is_open:
            self._monitor.close()
        self._is_open = False


name_all(globals())
