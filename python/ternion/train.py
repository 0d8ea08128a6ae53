"""What a training needs beside the model: checkpoints to go on from, which Rust reads and writes as well.

    state = train.TrainingState().model("model", model).optimizer("adam", adam).part("schedule", schedule).value("epoch", run)
    state.save(step, "run.safetensors")
    step = state.resume("run.safetensors")  # in another process, on another day
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _ternion
from ._ternion import Tensor, float64, int64, tensor
from .nn.module import Module, walk
from .optim import Optimizer

if TYPE_CHECKING:
    from ._ternion import DeviceLike

__all__ = ["Checkpoint", "Checkpoints", "Resumed", "TrainingState"]


def __dir__() -> list[str]:
    return __all__


_native: Any = _ternion._train

if TYPE_CHECKING:

    class Checkpoint:
        """A file of a training, of which parts are read."""

        step: int

        def __init__(self, path: str | os.PathLike[str]) -> None: ...
        def value(self, name: str) -> Any: ...
        def state_dict(self, part: str, device: DeviceLike | None = None) -> dict[str, Tensor]: ...
else:
    Checkpoint = _native.Checkpoint


class TrainingState:
    """All that a training must remember to go on as if it had never stopped, each part under a name.

    The same list is saved and resumed, so that nothing can be saved and then forgotten: make it in one function. The random numbers of the device
    are always part of it.

    Args:
        device: that of the training; by default that on which tensors are made.

    Raises:
        RuntimeError: a device that there is not.
    """

    def __init__(self, device: Any = None):
        self.device = _ternion.get_default_device() if device is None else _ternion.device(device)
        self._parts: list[tuple[str, str, Any]] = []

    def model(self, name: str, model: Module) -> TrainingState:
        """Parameters and buffers of a model.

        Raises:
            TypeError: no module.
        """
        if not isinstance(model, Module):
            raise TypeError(f"model {name}: of type {type(model).__name__}, expected a Module")
        return self._with("model", name, model)

    def optimizer(self, name: str, optimizer: Optimizer) -> TrainingState:
        """Moments, step counts and learning rates of an optimiser. Its settings are not kept: make it as it was.

        Raises:
            TypeError: no optimiser, or one with a `step` of its own.
        """
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"optimizer {name}: of type {type(optimizer).__name__}, expected an Optimizer")
        if not optimizer._is_native:
            raise TypeError(f"optimizer {name}: {type(optimizer).__name__} has a step of its own, expected one of ternion.optim: ternion.save keeps its state_dict()")
        return self._with("optimizer", name, optimizer)

    def part(self, name: str, part: Any) -> TrainingState:
        """Something else with a `state_dict()` of tensors or numbers and a `load_state_dict()`: an `Ema`, a schedule; or a list of numbers.

        Raises:
            TypeError: something without a state, that is no list either.
        """
        if not isinstance(part, list) and not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
            raise TypeError(f"part {name}: of type {type(part).__name__}, expected state_dict() and load_state_dict(), or a list of numbers")
        return self._with("state", name, part)

    def value(self, name: str, owner: Any) -> TrainingState:
        """The attribute `name` of `owner`, or its item if it is a dict: anything that JSON can say, such as the epoch.

        Raises:
            ValueError: when saved, something that JSON cannot say.
            KeyError: when saved, a dict without such an item.
        """
        return self._with("value", name, owner)

    def setting(self, name: str, setting: Any) -> TrainingState:
        """What must be the same when the training goes on, such as the batch size: resuming with another is an error that names both.

        Raises:
            ValueError: when saved, something that JSON cannot say.
        """
        return self._with("setting", name, setting)

    def random(self, name: str, device: Any) -> TrainingState:
        """The random numbers of a further device.

        Raises:
            RuntimeError: a device that there is not.
        """
        return self._with("random", name, _ternion.device(device))

    def _with(self, kind, name, part):
        self._parts.append((kind, name, part))
        return self

    def save(self, step: int, path: str | os.PathLike[str]) -> None:
        """Writes everything to one file, which appears whole or not at all; `step` is the number of steps that were made.

        Raises:
            ValueError: two parts of one name, or a value that JSON cannot say; a `step` below 0.
            TypeError: a `step` that is no whole number.
            OSError: the file cannot be written.
        """
        _check_step("save", step)
        _native._save(path, step, self.device, self._listed())

    def resume(self, path: str | os.PathLike[str]) -> int:
        """Makes everything as it was when the file was written, and gives the number of steps. Nothing is changed unless all fits.

        Raises:
            FileNotFoundError: there is no such file.
            OSError: it is damaged, no checkpoint, or of a training of other parts or settings; in words.
        """
        return self._taken(_native._resume(path, self.device, self._listed()))

    # ---- What the native part is given, and gives

    def _listed(self):
        return [(kind, name, self._handed(kind, name, part)) for kind, name, part in self._parts]

    def _handed(self, kind, name, part):
        if kind == "model":
            return dict(walk(part, persistent=True))
        if kind == "optimizer":
            for group, steps in zip(part.param_groups, part._steps):
                steps.set_lr(group["lr"])
            return part._steps
        if kind == "state":
            return _Numbers(part)
        if kind in ("value", "setting"):
            said = (part[name] if isinstance(part, dict) else getattr(part, name)) if kind == "value" else part
            return _json(kind, name, said)
        return part

    def _taken(self, resumed):
        step, values = resumed
        told = {name: json.loads(text) for name, text in values}
        for kind, name, part in self._parts:
            if kind == "optimizer":
                for group, steps in zip(part.param_groups, part._steps):
                    group["lr"] = steps.lr
            elif kind == "value" and isinstance(part, dict):
                part[name] = told[name]
            elif kind == "value":
                setattr(part, name, told[name])
        return step


def _check_step(function, step):
    if isinstance(step, bool) or not hasattr(step, "__index__"):
        raise TypeError(f"{function}: step of type {type(step).__name__}, expected a whole number")
    if not 0 <= step < 2**64:
        raise ValueError(f"{function}: step {step}, expected 0 or more, below 2**64")


def _json(kind, name, said):
    try:
        return json.dumps(said, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{kind} {name}: JSON cannot say {said!r}: {error}") from None


class _Numbers:
    """A part whose state is told as tensors: numbers and lists of them become such, and are numbers again when they come back."""

    def __init__(self, part):
        self._part = part

    def state_dict(self):
        if isinstance(self._part, list):
            return {"values": tensor([float(number) for number in self._part], dtype=float64)}
        return {key: self._told(key, value) for key, value in self._part.state_dict().items()}

    def _told(self, key, value):
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
        now = self._part.state_dict()
        if set(now) != set(state):
            raise ValueError(f"the state does not fit; got {', '.join(sorted(state))}, expected {', '.join(sorted(now))}")
        self._part.load_state_dict({key: value if isinstance(now[key], Tensor) else value.tolist() for key, value in state.items()})


class Resumed(NamedTuple):
    """What `Checkpoints.resume` went on from: the number of steps, the file, and what was wrong with newer ones, which are named `.damaged` now."""

    step: int
    path: Any
    passed_over: list[str]


class Checkpoints:
    """A folder with the checkpoints of one training, of which the last few are kept.

    Args:
        folder: made by the first save.
        keep: how many of the newest stay; None for all.

    Raises:
        ValueError: a `keep` below 1.
        OSError: no folder, and none can be made.
    """

    def __init__(self, folder: str | os.PathLike[str], keep: int | None = 3):
        if keep is not None and keep < 1:
            raise ValueError(f"Checkpoints: keep {keep}, expected at least 1, or None")
        self._native = _native._Folder(folder, keep)

    def list(self) -> list[tuple[int, Any]]:
        """Steps and files, the oldest first."""
        return self._native.list()

    def save(self, step: int, state: TrainingState) -> Any:
        """Writes a checkpoint, and removes those that are too many; its file.

        Raises:
            OSError: the file cannot be written.
            ValueError: a value that JSON cannot say; a `step` below 0.
            TypeError: a `step` that is no whole number.
        """
        _check_step("save", step)
        return self._native.save(step, state.device, state._listed())

    def resume(self, state: TrainingState) -> Resumed | None:
        """Goes on from the newest checkpoint that is whole; None of a folder without one.

        Raises:
            OSError: a checkpoint of a training of other parts or settings.
        """
        found = self._native.resume(state.device, state._listed())
        if found is None:
            return None
        resumed, path, passed_over = found
        return Resumed(state._taken(resumed), path, passed_over)
