"""Checkpoints from which a training run resumes. Rust can read and write them, too.

    state = train.TrainingState().model("model", model).optimizer("adam", adam)
    state = state.part("schedule", schedule).value("epoch", run)
    state.save(step, "run.safetensors")
    step = state.resume("run.safetensors")  # in another process, on another day
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _ternion
from ._ternion import Tensor, float64, int64, tensor
from .nn._members import named_tensors
from .nn.module import Module
from .optim import Optimizer

if TYPE_CHECKING:
    from ._ternion import DeviceLike

__all__ = ["Checkpoint", "Checkpoints", "Resumed", "TrainingState"]


def __dir__() -> list[str]:
    return __all__


_native: Any = _ternion._train

if TYPE_CHECKING:

    class Checkpoint:
        """A checkpoint file of which parts can be read."""

        step: int

        def __init__(self, path: str | os.PathLike[str]) -> None: ...
        def value(self, name: str) -> Any:
            """Returns a value or a setting by name.

            Raises:
                OSError: If the file has neither of this name.
            """

        def state_dict(self, part: str, device: DeviceLike | None = None) -> dict[str, Tensor]:
            """Returns the tensors of one part by key, such as the weights of a model.

            Args:
                part: The name of the part in the `TrainingState`.
                device: The device of the tensors. Default: the default device.

            Raises:
                OSError: If the file has no such part.
                RuntimeError: If the device is not available.
            """

else:
    Checkpoint = _native.Checkpoint


class TrainingState:
    """All parts of the state that a training run needs to resume as if it had never stopped, each
    under a name.

    The same list is saved and resumed, so that no part can be saved and then not restored: create
    it in one function. It always contains the random number generator of the device.

    Args:
        device: The device of the training run. Default: the default device.

    Raises:
        RuntimeError: If the device is not available.
    """

    def __init__(self, device: Any = None):
        self.device = _ternion.get_default_device() if device is None else _ternion.device(device)
        self._parts: list[tuple[str, str, Any]] = []

    def model(self, name: str, model: Module) -> TrainingState:
        """Adds the parameters and buffers of a model.

        Raises:
            TypeError: If `model` is not a module.
        """
        if not isinstance(model, Module):
            raise TypeError(f"model {name}: of type {type(model).__name__}, expected a Module")
        return self._add("model", name, model)

    def optimizer(self, name: str, optimizer: Optimizer) -> TrainingState:
        """Adds moments, step counts and learning rates of an optimizer. Its settings are not saved:
        create it with the same ones.

        Raises:
            TypeError: If `optimizer` is not an optimizer, or defines its own `step`.
        """
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"optimizer {name}: of type {type(optimizer).__name__}, expected an Optimizer")
        if not optimizer._is_native:
            raise TypeError(f"optimizer {name}: {type(optimizer).__name__} has its own step, expected one of ternion.optim: ternion.save keeps its state_dict()")
        return self._add("optimizer", name, optimizer)

    def part(self, name: str, part: Any) -> TrainingState:
        """Adds another object with a `state_dict()` of tensors or numbers and a
        `load_state_dict()`, such as an `Ema` or a schedule; or a list of numbers.

        Raises:
            TypeError: If the part has no state and is not a list.
        """
        if not isinstance(part, list) and not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
            raise TypeError(f"part {name}: of type {type(part).__name__}, expected state_dict() and load_state_dict(), or a list of numbers")
        return self._add("state", name, part)

    def value(self, name: str, owner: Any) -> TrainingState:
        """Adds the attribute `name` of `owner`, or its item if it is a dict: any value that JSON
        can represent, such as the epoch.

        Raises:
            ValueError: When saved, if the value cannot be represented in JSON.
            KeyError: When saved, if a dict has no such item.
        """
        return self._add("value", name, owner)

    def setting(self, name: str, setting: Any) -> TrainingState:
        """Adds a setting that must not change when the training run resumes, such as the batch
        size. If it differs, resuming raises an error with both values.

        Raises:
            ValueError: When saved, if the value cannot be represented in JSON.
        """
        return self._add("setting", name, setting)

    def random(self, name: str, device: Any) -> TrainingState:
        """Adds the random number generator of another device.

        Raises:
            RuntimeError: If the device is not available.
        """
        return self._add("random", name, _ternion.device(device))

    def _add(self, kind, name, part):
        self._parts.append((kind, name, part))
        return self

    def save(self, step: int, path: str | os.PathLike[str]) -> None:
        """Writes the whole state to one file atomically. `step` is the number of completed steps.

        Raises:
            ValueError: If two parts have the same name, if a value cannot be represented in JSON,
                or if `step` is negative.
            TypeError: If `step` is not an integer.
            OSError: If the file cannot be written.
        """
        _check_step("save", step)
        _native._save(path, step, self.device, self._entries())

    def resume(self, path: str | os.PathLike[str]) -> int:
        """Restores the state from a file, and returns the number of steps. Nothing is changed
        unless the whole state matches.

        Raises:
            FileNotFoundError: If the file does not exist.
            OSError: If the file is corrupt, is not a checkpoint, or belongs to a training run with
                other parts or settings. The message gives the reason.
        """
        return self._apply_resumed(_native._resume(path, self.device, self._entries()))

    # ---- Arguments and results of the native part

    def _entries(self):
        return [(kind, name, self._exported(kind, name, part)) for kind, name, part in self._parts]

    def _exported(self, kind, name, part):
        if kind == "model":
            return dict(named_tensors(part, persistent=True))
        if kind == "optimizer":
            for group, steps in zip(part.param_groups, part._steps):
                steps.set_lr(group["lr"])
            return part._steps
        if kind == "state":
            return _NumericState(part)
        if kind in ("value", "setting"):
            value = (part[name] if isinstance(part, dict) else getattr(part, name)) if kind == "value" else part
            return _json(kind, name, value)
        return part

    def _apply_resumed(self, resumed):
        step, values = resumed
        loaded = {name: json.loads(text) for name, text in values}
        for kind, name, part in self._parts:
            if kind == "optimizer":
                for group, steps in zip(part.param_groups, part._steps):
                    group["lr"] = steps.lr
            elif kind == "value" and isinstance(part, dict):
                part[name] = loaded[name]
            elif kind == "value":
                setattr(part, name, loaded[name])
        return step


def _check_step(function, step):
    if isinstance(step, bool) or not hasattr(step, "__index__"):
        raise TypeError(f"{function}: step of type {type(step).__name__}, expected an integer")
    if not 0 <= step < 2**64:
        raise ValueError(f"{function}: step {step}, expected 0 or more, below 2**64")


def _json(kind, name, value):
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{kind} {name}: JSON cannot say {value!r}: {error}") from None


class _NumericState:
    """A part whose state is exported as tensors: numbers and lists of numbers are converted to
    tensors, and back when they are loaded.
    """

    def __init__(self, part):
        self._part = part

    def state_dict(self):
        if isinstance(self._part, list):
            return {"values": tensor([float(number) for number in self._part], dtype=float64)}
        return {key: self._as_tensor(key, value) for key, value in self._part.state_dict().items()}

    def _as_tensor(self, key, value):
        if isinstance(value, Tensor):
            return value
        numbers = value if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(number, (bool, int, float)) for number in numbers):
            raise ValueError(f"{type(self._part).__name__}: {key} is {value!r}, expected a tensor, a number or a list of numbers")
        dtype = float64 if any(isinstance(number, float) for number in numbers) else int64
        return tensor(list(value) if isinstance(value, (list, tuple)) else value, dtype=dtype)

    def load_state_dict(self, state):
        if isinstance(self._part, list):
            if list(state) != ["values"] or state["values"].ndim != 1:
                raise ValueError(f"the state does not fit; got {', '.join(state)}, expected values")
            self._part[:] = state["values"].tolist()
            return
        current = self._part.state_dict()
        if set(current) != set(state):
            raise ValueError(f"the state does not fit; got {', '.join(sorted(state))}, expected {', '.join(sorted(current))}")
        self._part.load_state_dict({key: value if isinstance(current[key], Tensor) else value.tolist() for key, value in state.items()})


class Resumed(NamedTuple):
    """The result of `Checkpoints.resume`: the number of steps, the file, and the errors of newer
    files, which were renamed to `.corrupt`.
    """

    step: int
    path: Any
    corrupt: list[str]


class Checkpoints:
    """A folder with the checkpoints of one training run, of which the last ones are kept.

    Args:
        folder: The folder. It is created by the first save.
        keep: The number of newest checkpoints to keep; None for all.

    Raises:
        ValueError: If `keep` is below 1.
        OSError: If the folder does not exist and cannot be created.
    """

    def __init__(self, folder: str | os.PathLike[str], keep: int | None = 3):
        if keep is not None and keep < 1:
            raise ValueError(f"Checkpoints: keep {keep}, expected at least 1, or None")
        self._native = _native._Folder(folder, keep)

    def list(self) -> list[tuple[int, Any]]:
        """Returns steps and files, the oldest first."""
        return self._native.list()

    def save(self, step: int, state: TrainingState) -> Any:
        """Writes a checkpoint, removes the oldest ones above the limit, and returns the file.

        Raises:
            OSError: If the file cannot be written.
            ValueError: If a value cannot be represented in JSON, or if `step` is negative.
            TypeError: If `step` is not an integer.
        """
        _check_step("save", step)
        return self._native.save(step, state.device, state._entries())

    def resume(self, state: TrainingState) -> Resumed | None:
        """Resumes from the newest checkpoint that is not corrupt. Returns None if the folder has
        none.

        Raises:
            OSError: If a checkpoint belongs to a training run with other parts or settings.
        """
        result = self._native.resume(state.device, state._entries())
        if result is None:
            return None
        resumed, path, corrupt = result
        return Resumed(state._apply_resumed(resumed), path, corrupt)
