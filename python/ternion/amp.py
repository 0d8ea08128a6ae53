"""Mixed precision: `autocast`, in which products are computed in half precision, and `GradScaler`,
which float16 needs. Parameters stay float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ._error_messages import reject_gradients as _reject_gradients
from ._names import full_names
from ._scales import enable_tracking, record_scaled, unscaled_among
from ._scopes import no_grad
from ._ternion import Tensor, _number, _trust, bfloat16, dtype as _dtype, float16, float32, stack, tensor
from ._warnings import warn_caller

__all__ = ["GradScaler", "autocast", "is_autocast_enabled"]


def __dir__() -> list[str]:
    return __all__


Function = TypeVar("Function", bound=Callable[..., Any])

_PRECISIONS = {float32: "f32", float16: "f16", bfloat16: "bf16"}
_DEFAULTS = {"cpu": bfloat16, "cuda": float16, "wgpu": float16}
# The minimum scale, below which the model must be at fault, and the smallest number by which
# float32 can multiply and divide.
_MIN_SCALE = 2.0**-16
_MIN_FLOAT32 = 2.0**-126


def _precision(dtype: Any) -> str:
    for known, name in _PRECISIONS.items():
        if dtype is known or str(dtype) in (str(known), str(known).split(".")[-1]):
            return name
    if dtype in ("ieee", "tf32"):
        return str(dtype)
    if not isinstance(dtype, (str, _dtype)):
        raise TypeError(f"autocast: dtype {dtype!r}, expected a ternion.dtype or its name")
    raise ValueError(f'autocast: dtype {dtype}, expected float16, bfloat16, float32, "ieee" or "tf32"')


class autocast:
    """A scope in which products, convolutions and attention are computed in `dtype`, and sums,
    norms, softmax and losses in float32, as with PyTorch's autocast.

        with ternion.autocast("cuda", dtype=ternion.bfloat16):
            loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()

    Parameters and their gradients stay float32. Backward uses the dtypes of the forward pass.
    Scopes can be nested. A scope applies to the thread that enters it, and to every device (PyTorch
    has one for each device type). It can also be used as a decorator.

    Args:
        device_type: "cpu", "cuda" or "wgpu". It determines the default of `dtype`: bfloat16 for the
            CPU, float16 otherwise.
        dtype: float16, bfloat16, float32 (an exception within another scope), "tf32" (float32 whose
            products, convolutions and attention may use TF32) or "ieee" (float32 whose matrix
            products and attention are sums of fused multiply-adds, as PyTorch's
            `fp32_precision = "ieee"`). With float32, the device may use another algorithm of the
            same accuracy.
        cache_enabled: Accepted for compatibility with PyTorch; no effect, as casts are not cached.
        enabled: If False, ops use the dtypes of their inputs, also within another scope.

    Raises:
        ValueError: If the device type or the dtype is not supported.
    """

    def __init__(self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None):
        # Casts of parameters are not cached: each op casts its own inputs.
        del cache_enabled
        if not isinstance(device_type, str):
            raise TypeError(f"autocast: device_type {device_type!r}, expected a name such as \"cuda\"")
        kind = device_type.split(":")[0]
        if kind not in _DEFAULTS:
            raise ValueError(f"autocast: device_type {device_type!r}, expected one of {', '.join(_DEFAULTS)}")
        self._arguments = (device_type, dtype, enabled)
        self._precision = _precision(_DEFAULTS[kind] if dtype is None else dtype) if enabled else None

    def __enter__(self) -> autocast:
        _trust.open_precision(self._precision)
        return self

    def __exit__(self, *_: Any) -> None:
        _trust.close_precision()

    def __repr__(self) -> str:
        names = {name: str(dtype).split(".")[-1] for dtype, name in _PRECISIONS.items()}
        setting = "enabled=False" if self._precision is None else f"dtype={names.get(self._precision, self._precision)}"
        return f"ternion.autocast({self._arguments[0]!r}, {setting})"

    def __call__(self, function: Function) -> Function:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with autocast(*self._arguments):
                return function(*args, **kwargs)

        return cast(Function, wrapper)


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether an `autocast` scope is open on this thread."""
    return _trust.current_precision() is not None


class _Optimizer:
    """The state of an optimizer since the last `update()`."""

    def __init__(self):
        self.is_finite: bool | None = None
        self.has_stepped = False


class GradScaler:
    """Scales the loss so that small gradients do not become 0 in float16 (Micikevicius et al.
    2018), as PyTorch's GradScaler.

        scaler = ternion.amp.GradScaler()
        with ternion.autocast("cuda", dtype=ternion.float16):
            loss = nn.functional.mse_loss(model(x), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)   # skipped if a gradient is not finite
        scaler.update()

    To clip gradients, call `unscale_(optimizer)` first.

    Args:
        device: As in PyTorch. The scale is always copied to the device of the loss.
        init_scale: The initial scale.
        growth_factor: The factor of the scale after `growth_interval` consecutive steps that were
            not skipped.
        backoff_factor: The factor of the scale after a skipped step.
        enabled: If False, the scaler has no effect.

    Raises:
        ValueError: If a factor or the scale is out of range.

    Attributes:
        steps: The number of calls of `update()`.
        skipped: The number of these steps that were skipped.
    """

    def __init__(
        self, device: Any = "cuda", init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ):  # fmt: skip
        _check_scale("init_scale", init_scale)
        if not growth_factor > 1.0 or not math.isfinite(growth_factor):
            raise ValueError(f"GradScaler: growth_factor {growth_factor}, expected more than 1")
        if not 0.0 < backoff_factor < 1.0:
            raise ValueError(f"GradScaler: backoff_factor {backoff_factor}, expected between 0 and 1")
        if growth_interval < 1:
            raise ValueError(f"GradScaler: growth_interval {growth_interval}, expected at least 1")
        self._scale, self._growth_factor, self._backoff_factor = _number(init_scale), growth_factor, backoff_factor
        self._growth_interval, self._enabled, self._growth_tracker = growth_interval, enabled, 0
        self.steps = self.skipped = 0
        self._tensors: list[Tensor] = []
        self._optimizers: dict[int, _Optimizer] = {}
        self._has_warned = False
        if enabled:
            enable_tracking()

    # Whether a loss was scaled since the last `update()`, or the program read the scale, with which
    # it may have scaled a loss itself.
    _is_scale_used = False

    def __repr__(self) -> str:
        return f"GradScaler(scale {self._scale:g}, {self.skipped} of {self.steps} steps skipped)"

    # ---- A step

    def scale(self, outputs: Any) -> Any:
        """Returns the loss, or losses, times the scale; in float32 for those in half precision.

        Shapes: [..] -> the same shape

        Raises:
            TypeError: If an argument is not a tensor, or has no floating-point dtype.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(output) for output in outputs)
        if not isinstance(outputs, Tensor):
            raise TypeError(f"GradScaler.scale: expected a tensor or several, got {type(outputs).__name__}")
        if not outputs.is_floating_point():
            raise TypeError(f"GradScaler.scale: a loss of {outputs.dtype}, expected a floating dtype")
        self._is_scale_used = True
        # Replays of a captured step scale its loss without calling this method, so that nothing can
        # be checked.
        self._has_warned |= _trust.is_recording_step()
        loss = outputs.float() if outputs.dtype in (float16, bfloat16) else outputs
        scaled = loss * self._factor(loss)
        record_scaled(scaled, self._scale)
        return scaled

    def _factor(self, loss):
        """Returns the scale on the loss's device, always in the same memory, from which a captured
        step reads it.
        """
        for factor in self._tensors:
            if factor.device == loss.device and factor.dtype == loss.dtype:
                return factor
        self._tensors.append(tensor(self._scale, dtype=loss.dtype, device=loss.device))
        return self._tensors[-1]

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters by the scale, once before its step.

        Raises:
            RuntimeError: If it was already called for this step, or is called after the step.
            ValueError: If gradients are float16, in which small values would become 0. Parameters
                must be float32.
        """
        if not self._enabled:
            return
        state = self._optimizers.setdefault(id(optimizer), _Optimizer())
        if state.has_stepped:
            raise RuntimeError("GradScaler: unscale_() is called after step()")
        if state.is_finite is not None:
            raise RuntimeError("GradScaler: unscale_() was called for this optimizer since the last update()")
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"] if parameter.grad is not None]
        grads = [parameter.grad for parameter in parameters]
        if any(grad.dtype == float16 for grad in grads):
            raise ValueError("GradScaler: gradients in float16: keep the parameters in float32 and compute within autocast")
        self._warn_unscaled(optimizer, parameters)
        with no_grad(), autocast("cpu", enabled=False):
            state.is_finite = _are_finite(grads)
            for grad in grads:
                grad.mul_(1.0 / self._scale)

    def _warn_unscaled(self, optimizer, parameters):
        """Warns once if gradients are about to be divided by a scale that was not applied to their
        loss.
        """
        if self._has_warned or not parameters or self._scale == 1.0:
            return
        kind, unscaled = type(optimizer).__name__, unscaled_among(parameters, self._scale)
        if not self._is_scale_used:
            message = f"no loss was scaled since the last update(), but the gradients of {kind} are divided by {self._scale:g}"
        elif unscaled:
            names = [name or f"a parameter of shape {tuple(parameter.shape)}" for parameter, name in zip(unscaled, full_names(unscaled))]
            listed = ", ".join(names[:5]) + (f" and {len(names) - 5} others" if len(names) > 5 else "")
            message = f"{kind}: {listed}: in the gradients is that of a loss that was not scaled, and they are divided by {self._scale:g}"
        else:
            return
        self._has_warned = True
        warn_caller(f"GradScaler: {message}: call scaler.scale(loss).backward()")

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls `optimizer.step()`, after `unscale_` if that was not called. The step is skipped if
        a gradient is not finite.

        Raises:
            RuntimeError: If it was already called since the last `update()`.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        state = self._optimizers.setdefault(id(optimizer), _Optimizer())
        if state.has_stepped:
            raise RuntimeError("GradScaler: step() was called for this optimizer since the last update()")
        if state.is_finite is None:
            self.unscale_(optimizer)
        result = optimizer.step(*args, **kwargs) if state.is_finite else None
        state.has_stepped = True
        # For schedules, a skipped step counts as a step.
        optimizer._has_stepped = True
        return result

    def update(self, new_scale: Any = None) -> None:
        """Decreases the scale if a step was skipped, and increases it after enough steps that were
        not; or sets it to `new_scale`.

        Raises:
            RuntimeError: If no gradients were checked since the last call, or if they are not
                finite at the smallest scale.
        """
        if not self._enabled:
            return
        if new_scale is not None:
            self._set_scale(float(new_scale))
            self._optimizers.clear()
            self._is_scale_used = False
            return
        finite_flags = [state.is_finite for state in self._optimizers.values() if state.is_finite is not None]
        if not finite_flags:
            raise RuntimeError("GradScaler: update() before step() or unscale_()")
        self._optimizers.clear()
        self._is_scale_used = False
        self.steps += 1
        if all(finite_flags):
            self._advance()
        else:
            self._back_off()

    def _advance(self):
        self._growth_tracker += 1
        if self._growth_tracker >= self._growth_interval:
            self._growth_tracker = 0
            grown = self._scale * self._growth_factor
            if grown <= 1.0 / _MIN_FLOAT32:
                self._set_scale(grown)

    def _back_off(self):
        self.skipped += 1
        self._growth_tracker = 0
        if self._scale <= _MIN_SCALE:
            message = f"GradScaler: gradients are not finite at scale {self._scale}, the smallest: the loss itself, or the model, gives infinity or NaN"
            raise RuntimeError(message)
        self._set_scale(max(self._scale * self._backoff_factor, _MIN_SCALE))

    def _set_scale(self, scale):
        _check_scale("scale", scale)
        with no_grad():
            for factor in self._tensors:
                # An upload, and not an op that contains the value as a constant: a captured step
                # continues to read it.
                factor.copy_(tensor(scale, dtype=factor.dtype, device=factor.device))
        self._scale = scale

    # ---- State

    def get_scale(self) -> float:
        """Returns the scale; 1 if the scaler is not enabled."""
        self._is_scale_used = True
        return self._scale if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether the scaler has an effect."""
        return self._enabled

    def get_growth_factor(self) -> float:
        """Returns the factor by which the scale increases."""
        return self._growth_factor

    def get_backoff_factor(self) -> float:
        """Returns the factor by which the scale decreases."""
        return self._backoff_factor

    def get_growth_interval(self) -> int:
        """Returns the number of consecutive steps after which the scale increases."""
        return self._growth_interval

    def state_dict(self) -> dict[str, Any]:
        """Returns the scale, its settings and the counters; empty if the scaler is not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale, "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker, "steps": self.steps, "skipped": self.skipped,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the state that `state_dict` returned, also PyTorch's, which has no step
        counters.

        Raises:
            RuntimeError: If the state is empty because it was saved by a scaler that was not
                enabled.
            ValueError: If a value is out of range, or if a key is missing.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("GradScaler: the state is empty: it was saved by a scaler that was not enabled")
        missing = [key for key in ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker") if key not in state_dict]
        if missing:
            raise ValueError(f"GradScaler: the state lacks {', '.join(missing)}")
        fresh = GradScaler("cpu", state_dict["scale"], *(state_dict[key] for key in ("growth_factor", "backoff_factor", "growth_interval")))
        steps, skipped = state_dict.get("steps", 0), state_dict.get("skipped", 0)
        if skipped > steps or min(skipped, state_dict["_growth_tracker"]) < 0:
            raise ValueError(f"GradScaler: {skipped} of {steps} steps skipped, {state_dict['_growth_tracker']} in a row that were not")
        self._set_scale(fresh._scale)
        self._growth_factor, self._backoff_factor = fresh._growth_factor, fresh._backoff_factor
        self._growth_interval, self._growth_tracker = fresh._growth_interval, int(state_dict["_growth_tracker"])
        self.steps, self.skipped = int(steps), int(skipped)


def _check_scale(name, scale):
    if not _MIN_FLOAT32 <= scale <= 1.0 / _MIN_FLOAT32:
        raise ValueError(f"GradScaler: {name} {scale}, expected a number that float32 holds, above 0")


def _are_finite(grads):
    """Whether all elements are finite. One bool is copied from each device."""
    by_device: dict[str, list[Tensor]] = {}
    for grad in grads:
        by_device.setdefault(str(grad.device), []).append(grad.isfinite().all())
    return all(bool(stack(flags).all()) for flags in by_device.values())


_reject_gradients(GradScaler)
