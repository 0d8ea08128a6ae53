"""Functions of the gradients of several parameters, and a training monitor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from . import fusion as fusion, rnn as rnn
from ..._parameter_keys import repeated_modules
from ..._error_messages import name_all
from ..._scales import preserve_scales, scale_in
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


def _as_list(parameters: Any, op: str) -> list[Any]:
    """Returns the tensors as a list. Warns if an iterator is exhausted."""
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if not listed and hasattr(parameters, "__next__"):
        warn_caller(f"{op}: an iterator without tensors: a parameters() that was gone through before has none left; call it again")
    return listed


# A limit of at least this fraction of the scale is taken to be multiplied by the scale already.
_SCALED_LIMIT = 0.05


def _warn_scaled(op: str, parameters: list[Any], limit: float) -> None:
    """Warns if the gradients to be clipped are still scaled by a GradScaler: they are thousands of
    times too large, so that everything would be clipped.
    """
    scale = scale_in(parameters)
    if scale and not (scale > 100.0 and limit >= _SCALED_LIMIT * scale):
        message = f"the gradients are those of a loss times {scale:g}, by a GradScaler"
        warn_caller(f"{op}: {message}: call its unscale_(optimizer) before, or the limit is {scale:g} times too small")


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Scales the gradients of `parameters` so that their total norm is at most `max_norm`. Returns
    the norm before clipping as a tensor; 0 if there are no gradients.

    Args:
        norm_type: the p of the norm; inf for the largest element.
        error_if_nonfinite: whether a norm that is NaN or infinite is an error, which leaves the
            gradients unchanged. Reading the norm waits for the device.
        foreach: accepted for compatibility with PyTorch; without effect.

    Raises:
        RuntimeError: If the norm is not finite and `error_if_nonfinite` is True.
    """
    parameters = [parameter for parameter in _as_list(parameters, "clip_grad_norm_") if parameter.grad is not None]
    max_norm, norm_type = _number(max_norm), _number(norm_type)
    if not parameters:
        return zeros(())
    _warn_scaled("clip_grad_norm_", parameters, max_norm)
    with preserve_scales(parameters):
        return _clip(parameters, max_norm, norm_type, error_if_nonfinite)


def _clip(parameters, max_norm, norm_type, error_if_nonfinite):
    if error_if_nonfinite or norm_type != 2.0:
        norm = get_total_norm([parameter.grad for parameter in parameters], norm_type)
        if error_if_nonfinite and not math.isfinite(norm.item()):
            raise RuntimeError(f"clip_grad_norm_: the norm of the gradients is {norm.item()}, expected a finite number")
        if norm_type != 2.0:
            return _scale_gradients(parameters, max_norm, norm)
    return _clip_grad_norm(parameters, max_norm)


def get_total_norm(tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """Returns the total norm of several tensors as a tensor; 0 without tensors.

    Raises:
        RuntimeError: If the norm is not finite and `error_if_nonfinite` is True.
    """
    tensors = _as_list(tensors, "get_total_norm")
    if not tensors:
        return zeros(())
    first = tensors[0]
    if isinstance(norm_type, (int, float)) and norm_type == 2 and first.is_floating_point() and all(tensor.dtype == first.dtype and tensor.device == first.device for tensor in tensors):
        with no_grad():
            norm = _total_norm(tensors)
    else:
        # The powers of half-precision values would overflow; float64 keeps its precision.
        dtype = float64 if any(tensor.dtype == float64 for tensor in tensors) else float32
        norms = [tensor.detach().to(dtype).norm(norm_type) for tensor in tensors]
        norm = stack([norm.to(norms[0].device) for norm in norms]).norm(norm_type)
    if error_if_nonfinite and not math.isfinite(norm.item()):
        raise RuntimeError(f"get_total_norm: the norm is {norm.item()}, expected a finite number")
    return norm


def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scales the gradients of `parameters`, whose total norm is `total_norm`, so that it is at most
    `max_norm`.

    Raises:
        TypeError: If `max_norm` is not a number.
    """
    parameters, max_norm = _as_list(parameters, "clip_grads_with_norm_"), _number(max_norm)
    _warn_scaled("clip_grads_with_norm_", parameters, max_norm)
    with preserve_scales(parameters):
        _scale_gradients(parameters, max_norm, total_norm)


def _scale_gradients(parameters, max_norm, norm):
    """Scales by `max_norm / (norm + 1e-6)` where that is less than 1, as PyTorch does."""
    with no_grad():
        factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for parameter in parameters:
            if parameter.grad is not None:
                # Multiplies in the factor's dtype: a small factor would underflow in half
                # precision.
                parameter.grad.copy_(parameter.grad.to(factor.dtype) * factor.to(parameter.grad.device))
    return norm


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Clamps every element of the gradients of `parameters` to the range from -clip_value to
    clip_value.

    Raises:
        TypeError: If `clip_value` is not a number.
        ValueError: If `clip_value` is below 0.
    """
    clip_value, parameters = _number(clip_value), _as_list(parameters, "clip_grad_value_")
    _warn_scaled("clip_grad_value_", parameters, clip_value)
    with preserve_scales(parameters):
        _clip_grad_value([parameter for parameter in parameters if parameter.grad is not None], clip_value)


def parameters_to_vector(parameters: Any) -> Tensor:
    """Concatenates all elements of several tensors along one axis.

    Shapes: [..], [..], .. -> [elements of all]

    Raises:
        ValueError: If there are no tensors.
    """
    return cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Any) -> None:
    """Overwrites parameters with the elements of a vector.

    Shapes: [elements of all] -> the parameters' shapes

    Raises:
        ValueError: If the number of elements differs.
    """
    parameters = list(parameters)
    count = sum(parameter.numel() for parameter in parameters)
    if vec.ndim != 1 or vec.numel() != count:
        raise ValueError(f"vector_to_parameters: a vector of shape {tuple(vec.shape)}, expected ({count},)")
    with no_grad():
        for part, parameter in zip(vec.split([parameter.numel() for parameter in parameters]), parameters):
            parameter.copy_(part.reshape(parameter.shape))


# A learning rate larger by this factor counts as a jump. Warmup schedules start lower, but increase
# in small steps.
_LR_JUMP = 100.0


class StatsMonitor:
    """Monitors a training run every `every` steps: the outputs of each layer and the gradients that
    it receives, weights and their gradients, and the size of updates.

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

    Problems are reported in sentences that name the layer: outputs or gradients that explode or
    vanish, dead ReLUs, NaN and its origin, missing or zero gradients, weights that the optimizer
    does not have, updates that are too large or too small, saturated sigmoids, a softmax before a
    cross-entropy, training in evaluation mode, an unscaled input, weights that are all equal.
    Parameters that no optimizer has are not expected to have a gradient if an optimizer has other
    parameters of the model. A layer that occurs several times in a list is reported immediately, by
    a warning. `print(report)` shows a table of all layers. A persistent problem is reported again
    at increasing intervals. A step that is not read has no additional cost. A step that is captured
    for replay cannot be monitored.

    Args:
        model: a module.
        every: the number of steps between readings.
        patience: the number of consecutive readings after which a condition that a single batch may
            show by chance is reported.
        growth: the largest accepted ratio between the outputs of two layers, or between the
            gradients that they receive.
        dead_fraction: a ReLU is reported as dead if at least this fraction of its units is 0 for
            every example.
        largest_update, smallest_update: the accepted range of a weight's change in a step, relative
            to its size.
        largest_input, smallest_input: the accepted range of the root mean square of an input that
            enters a layer's product unchanged. Elements that are 0 are excluded for the lower
            bound.

    Raises:
        ValueError: If a number is 0, or a limit is invalid.
        TypeError: If `model` is not a module.
    """

    def __init__(
        self, model: Any, every: int = 100, patience: int = 5, growth: float = 1e3, dead_fraction: float = 0.9, largest_update: float = 0.5,
        smallest_update: float = 1e-6, largest_input: float = 30.0, smallest_input: float = 1e-3,
    ):  # fmt: skip
        if not hasattr(model, "named_modules"):
            raise TypeError(f"StatsMonitor: {type(model).__name__}, expected a module")
        self._model = model
        _warn_repeated(model)
        self._largest_rate = 0.0
        self._monitor = _trust.Monitor(every, patience, growth, dead_fraction, largest_update, smallest_update, (largest_input, smallest_input))

    def watch(self, step: int) -> _WatchContext:
        """Returns a context for the forward pass of step `step`. The model is monitored in it if
        the step is to be read.
        """
        return _WatchContext(self._monitor, self._model, step)

    def report(self) -> Any:
        """Returns the report of the last monitored step, with the current gradients of the
        parameters; None if the step was not read or has already been reported.
        """
        return self._monitor.report(_parameters_of(self._model), _optimizer_parameters())

    def step(self, optimizer: Any) -> Any:
        """Calls `optimizer.step()` and returns a report that includes the changes of the weights.
        `optimizer` may also be a function that performs the step.

        If a GradScaler scaled the loss, the reported gradients are scaled as well unless `unscale_`
        was called before.

        Raises:
            TypeError: If `optimizer` is neither an optimizer nor a function.
        """
        step = optimizer.step if hasattr(optimizer, "step") else optimizer
        return self._monitor.step(_parameters_of(self._model), _optimizer_parameters(), step, self._rate_of(optimizer))

    def _rate_of(self, optimizer: Any) -> float | None:
        """Returns the largest learning rate of a step, if it has one. A rate far above all earlier
        ones is reported immediately, because the next reading may find only NaN.
        """
        rates = [group.get("lr") for group in getattr(optimizer, "param_groups", [])]
        finite = [float(rate) for rate in rates if isinstance(rate, (int, float)) and math.isfinite(rate)]
        if not finite or len(finite) < len(rates):
            return None
        rate, previous = max(finite), self._largest_rate
        if rate > max(1.0, _LR_JUMP * previous) and previous > 0.0:
            warn_caller(f"StatsMonitor: the learning rate of {type(optimizer).__name__} is {rate:g} in param_groups[{finite.index(rate)}], where {previous:g} was the largest before")
        self._largest_rate = max(rate, previous)
        return rate


def _optimizer_parameters() -> list[Any]:
    """Returns the parameters that optimizers have."""
    from ...optim.optimizer import optimized_parameters

    return optimized_parameters()


def _parameters_of(model: Any) -> list[Any]:
    """Returns all parameters of a model, including those that an overridden `parameters()` omits.
    """
    return [parameter for _, parameter in model.named_parameters()]


def _warn_repeated(model: Any) -> None:
    """Warns if a list or a Sequential contains the same layer several times: `[layer] * 3` is one
    layer with one set of parameters.
    """
    for keys, kind in repeated_modules(model):
        message = f"{', '.join(keys[:4])}{', ..' if len(keys) > 4 else ''} are one {kind}: its parameters are used {len(keys)} times"
        warn_caller(f"StatsMonitor: {message}; make a layer for each use ([layer] * n repeats one), unless that is meant")


class _WatchContext:
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
