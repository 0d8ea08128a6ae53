"""`ternion.check`, which compares every op of a scope with another device, and `ternion.stats`."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import TYPE_CHECKING

from ._ternion import Tensor, _trust
from ._ternion import device as _device

if TYPE_CHECKING:
    from ._ternion import DeviceLike

    class Stats:
        """Mean, standard deviation, min, max and counts of special values of a tensor. Mean,
        standard deviation, min and max are those of the finite elements.
        """

        elements: int
        mean: float
        std: float
        min: float
        max: float
        nan: int
        infinite: int
        zeros: int
        nan_fraction: float
        infinite_fraction: float
        zero_fraction: float
        rms: float
        norm: float
        has_non_finite: bool
else:
    Stats = _trust.Stats


def stats(input: Tensor) -> Stats:
    """Returns mean, standard deviation, min, max, and the counts of NaN, infinity and 0.

    On the CPU they are computed from all elements in float64. Other devices compute them
    themselves, and one row of numbers is copied to the host.

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If an earlier op failed on the device.
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"stats: expected a tensor, got {type(input).__module__}.{type(input).__qualname__}: ternion.as_tensor(x) makes one of it")
    result: Stats = _trust.stats(input)
    return result


class check:
    """Runs every op of this thread in the scope on `device`, too, forward and backward, and
    compares the results.

        with ternion.check("cpu"):
            loss = model(x).sum()   # x and the model on "cuda"
            loss.backward()

    The first op that differs raises an error with its name, the shapes of its inputs, the index of
    the first element that differs, and both values. With `raise_exception=False` the program
    continues, and `differences` contains the messages.

    The check is slow, because all inputs and outputs of each op are copied to the host. It is meant
    for finding out where results become wrong. A step that is being captured cannot be compared.

    Args:
        device: The reference. Ops on tensors of this device are not compared.
        raise_exception: Whether a difference raises an error.
        factor: A factor on the rounding tolerances. 0 allows no difference.

    Raises:
        RuntimeError: If an op differs.
        ValueError: If the factor is negative; raised by the constructor, as is the next one.
        RuntimeError: If the device is not available.

    Attributes:
        compared: The number of compared ops, available after the scope. If it is 0, a warning is
            issued.
        differences: A message for each op that differed.
    """

    def __init__(self, device: DeviceLike = "cpu", raise_exception: bool = True, factor: float = 1.0):
        if not isinstance(factor, (int, float)):
            raise TypeError(f"check: factor of type {type(factor).__name__}, expected a number")
        # In this form, NaN is rejected, too.
        if not 0 <= factor < float("inf"):
            raise ValueError(f"check: factor {factor}, expected a finite number, at least 0")
        self._device, self._raise, self._factor = _device(device), raise_exception, float(factor)
        self.compared: int = 0
        self.differences: list[str] = []

    def __repr__(self) -> str:
        return f"ternion.check({str(self._device)!r}, raise_exception={self._raise}, factor={self._factor})"

    def __enter__(self) -> check:
        _trust.open_check(self._device, self._factor, not self._raise)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        compared, differences = _trust.close_check()
        self.compared += compared
        self.differences += differences
        if kind is None and self.compared == 0:
            message = f"check: no op was compared: none ran inside, or all ran on {self._device} itself"
            warnings.warn(message, stacklevel=2)
