"""Training steps that a device records once and replays without Python overhead for each op."""

from __future__ import annotations

import threading
from typing import Any

from ._ternion import _trust

# The optimizers that step during a capture of this thread, and their learning rates at the first
# step.
_stepping = threading.local()


def record_step(optimizer: Any) -> None:
    """Registers a step of `optimizer` with a capture of this thread.

    Raises:
        ValueError: If the learning rates differ from the first step: the captured function changes
            them itself, which a replay would not do.
    """
    recorded = getattr(_stepping, "optimizers", None)
    if recorded is None:
        return
    rates = [group["lr"] for group in optimizer.param_groups if isinstance(group["lr"], (int, float))]
    first_rates = next((rates for known, rates in recorded if known is optimizer), None)
    if first_rates is None:
        recorded.append((optimizer, rates))
    elif first_rates != rates:
        message = f"capture: the step changes the rates of {type(optimizer).__name__} from {first_rates} to {rates}, which no replay would"
        raise ValueError(f"{message}: change them between replays")


class CapturedStep:
    """A captured step, created by `capture`. `replay()`, or a call, runs it again.

    Attributes:
        output: The result of the last run or replay of the step. Each replay overwrites the memory
            of the same tensors.
        is_recorded: Whether the device recorded the step. Otherwise each replay calls the function.
    """

    def __init__(self, step: Any, device: Any):
        self._step = step
        steps: list[Any] = []
        previous = getattr(_stepping, "optimizers", None)
        _stepping.optimizers = steps
        try:
            recorded = _trust.record(step, device)
        finally:
            _stepping.optimizers = previous
        self._optimizers = [optimizer for optimizer, _ in steps]
        self.is_recorded = recorded is not None
        self._recorded: Any
        self.output: Any
        self._recorded, self.output = recorded if recorded is not None else (None, step())

    def replay(self) -> Any:
        """Runs the step again, on the same tensors, and returns the result of the function.

        Raises:
            RuntimeError, ValueError: If an op raises an error, or if the tensor of a parameter was
                replaced after the capture, for example by `data` or a cast of the model.
        """
        if self._recorded is None:
            self.output = self._step()
            return self.output
        for optimizer in self._optimizers:
            optimizer._apply_rates()
        self.output = self._recorded.replay()
        return self.output

    __call__ = replay

    def __repr__(self) -> str:
        name = getattr(self._step, "__qualname__", None) or repr(self._step)
        return f"CapturedStep({name}, is_recorded={self.is_recorded})"


def capture(step: Any, device: Any = None) -> CapturedStep:
    """Runs `step` once, and records it if the device supports that: `replay()` repeats it without
    Python overhead for each op.

        captured = ternion.capture(step, x.device)    # step() works on tensors x and y
        for images, labels in batches:
            x.copy_(images), y.copy_(labels)
            loss = captured.replay()

    On CUDA the recorded step is a CUDA graph, on the CPU a list of ops. wgpu records nothing, and
    the function itself runs each time.

    If the step is recorded, the function is called twice: the first call is a normal step, in the
    second one the ops are recorded and nothing is computed. Other side effects, such as counting or
    fetching a batch, happen twice, and are not replayed. A recorded step uses the same memory each
    time: write new inputs to its input tensors in place. Learning rates, the step counts of
    optimizers and random numbers advance from replay to replay. The precision, the parameters and
    all other settings of optimizers stay those of the capture.

    Args:
        step: A function without arguments. Its result becomes `output`.
        device: The device of the step. Default: the default device.

    Raises:
        ValueError: If the step cannot be recorded, because it reads from the device (`item()`),
            writes to it from the host, uses another device as well, changes learning rates, or does
            not call the same ops on the same shapes, with the same scalars and on the same parts of
            the same tensors each time.
        TypeError: If the argument is not callable.
    """
    if not callable(step):
        raise TypeError(f"capture: expected a function without arguments, got {type(step).__name__}")
    return CapturedStep(step, device)
