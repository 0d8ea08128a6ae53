"""`ternion.check`: every op of a scope compared with another device, and `ternion.stats`."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import TYPE_CHECKING

from ._ternion import Tensor, _trust
from ._ternion import device as _device

if TYPE_CHECKING:
    from ._ternion import DeviceLike

    class Stats:
        """Mean, spread, extremes and counts of special values of a tensor; moments and extremes are of the finite elements."""

        elements: int
        mean: float
        std: float
        min: float
        max: float
        nan: int
        infinite: int
        zeros: int
        nan_share: float
        infinite_share: float
        zero_share: float
        rms: float
        norm: float
        is_broken: bool
else:
    Stats = _trust.Stats


def stats(input: Tensor) -> Stats:
    """Mean, standard deviation, smallest and largest element, and counts of NaN, infinity and 0.

    On the processor they are formed of all elements in float64. Elsewhere the device forms them, and one row of numbers is read.

    Raises:
        TypeError: no tensor.
        RuntimeError: an earlier op failed on the device.
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"stats: expected a tensor, got {type(input).__module__}.{type(input).__qualname__}: ternion.as_tensor(x) makes one of it")
    found: Stats = _trust.stats(input)
    return found


class check:
    """Runs every op of this thread inside on `device` too, forward and backward, and compares what comes out.

        with ternion.check("cpu"):
            loss = model(x).sum()   # x and the model on "cuda"
            loss.backward()

    The first op that differs raises an error that names it, the shapes of its inputs, where the first element lies that differs, and both numbers. With
    `raise_exception=False` the ops go on, and `differences` has the sentences. Slow, as all that an op reads and writes is copied to the host: for finding out
    where numbers go wrong. A step that is being captured cannot be compared.

    Args:
        device: the reference. Ops of tensors that are on it already are not compared.
        raise_exception: whether a difference is an error.
        factor: what the differences that are allowed for rounding are multiplied by; 0 allows none.

    Raises:
        RuntimeError: an op differs.
        ValueError: a factor below 0; at once, as the next.
        RuntimeError: the device is not there.

    Attributes:
        compared: how many ops were compared, once the scope has ended. If it is none, a warning says so.
        differences: a sentence for each op that differed.
    """

    def __init__(self, device: DeviceLike = "cpu", raise_exception: bool = True, factor: float = 1.0):
        if not isinstance(factor, (int, float)):
            raise TypeError(f"check: factor of type {type(factor).__name__}, expected a number")
        # Written so that NaN fails.
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
            told = f"check: no op was compared: none ran inside, or all ran on {self._device} itself"
            warnings.warn(told, stacklevel=2)
