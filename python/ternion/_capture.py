"""Training steps that a device records once and repeats without work of Python for each op."""

from __future__ import annotations

import threading
from typing import Any

from ._ternion import _trust

# The optimisers that step while this thread records, and their rates at the first step.
_stepping = threading.local()


def note_step(optimizer: Any) -> None:
    """Tells a recording of this thread that `optimizer` steps in it.

    Raises:
        ValueError: at other rates than the first time: the step changes them itself, which no replay would.
    """
    noted = getattr(_stepping, "optimizers", None)
    if noted is None:
        return
    rates = [group["lr"] for group in optimizer.param_groups if isinstance(group["lr"], (int, float))]
    before = next((rates for known, rates in noted if known is optimizer), None)
    if before is None:
        noted.append((optimizer, rates))
    elif before != rates:
        told = f"capture: the step changes the rates of {type(optimizer).__name__} from {before} to {rates}, which no replay would"
        raise ValueError(f"{told}: change them between replays")


class CapturedStep:
    """A step that `replay()`, or a call, runs again. Made by `capture`.

    Attributes:
        output: what the step returned when it ran or was replayed last. Each replay fills the memory of the same tensors anew.
        is_recorded: whether the device recorded it; else each replay calls the function.
    """

    def __init__(self, step: Any, device: Any):
        self._step = step
        noted: list[Any] = []
        before = getattr(_stepping, "optimizers", None)
        _stepping.optimizers = noted
        try:
            recorded = _trust.record(step, device)
        finally:
            _stepping.optimizers = before
        self._optimizers = [optimizer for optimizer, _ in noted]
        self.is_recorded = recorded is not None
        self._recorded: Any
        self.output: Any
        self._recorded, self.output = recorded if recorded is not None else (None, step())

    def replay(self) -> Any:
        """Runs the step again, on the same tensors; what the function returned.

        Raises:
            RuntimeError, ValueError: what an op says; parameters whose tensors were replaced since, as by `data` or a cast of the model.
        """
        if self._recorded is None:
            self.output = self._step()
            return self.output
        for optimizer in self._optimizers:
            optimizer._take_rates()
        self.output = self._recorded.replay()
        return self.output

    __call__ = replay

    def __repr__(self) -> str:
        name = getattr(self._step, "__qualname__", None) or repr(self._step)
        return f"CapturedStep({name}, is_recorded={self.is_recorded})"


def capture(step: Any, device: Any = None) -> CapturedStep:
    """Runs `step` once, and records it where the device can: `replay()` repeats it without work of Python for each op.

        captured = ternion.capture(step, x.device)    # step() works on tensors x and y
        for images, labels in batches:
            x.copy_(images), y.copy_(labels)
            loss = captured.replay()

    On CUDA a recording is a graph, on the processor a list of ops; wgpu records nothing, and the function itself runs each time. Where it is recorded the function is called
    twice: the first call is a step like any other, at the second its ops are noted and nothing is computed. What else it does, such as counting or fetching a batch, is done
    twice, and not repeated. A recorded step works in the same memory each time: feed it by writing into its inputs in place. Learning rates, the counts of optimisers and
    random numbers go on from replay to replay; the precision, the parameters and all other settings of optimisers stay those of the recording.

    Args:
        step: a function without arguments; what it returns is `output`.
        device: where it runs; by default where tensors are made.

    Raises:
        ValueError: the step reads from the device (`item()`), writes to it from the host, works on another device too, changes learning rates, or does not call the same ops
            on the same shapes, with the same numbers and on the same parts of the same tensors each time: such a step cannot be recorded.
        TypeError: no function.
    """
    if not callable(step):
        raise TypeError(f"capture: expected a function without arguments, got {type(step).__name__}")
    return CapturedStep(step, device)
