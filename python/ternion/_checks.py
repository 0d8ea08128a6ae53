"""`ternion.check`: every op of a scope compared with another device, and `ternion.stats`."""

from __future__ import annotations

import warnings
from typing import Any

from ._ternion import _trust

Stats = _trust.Stats
stats = _trust.stats


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
        ValueError: a factor below 0.

    Attributes:
        compared: how many ops were compared, once the scope has ended. If it is none, a warning says so.
        differences: a sentence for each op that differed.
    """

    def __init__(self, device: Any = "cpu", raise_exception: bool = True, factor: float = 1.0):
        self._device, self._raise, self._factor = device, raise_exception, float(factor)
        self.compared = 0
        self.differences: list[str] = []

    def __repr__(self) -> str:
        return f"ternion.check({str(self._device)!r}, raise_exception={self._raise}, factor={self._factor})"

    def __enter__(self) -> check:
        _trust.open_check(self._device, self._factor, not self._raise)
        return self

    def __exit__(self, kind, *_) -> None:
        compared, differences = _trust.close_check()
        self.compared += compared
        self.differences += differences
        if kind is None and self.compared == 0:
            told = f"check: no op was compared: none ran inside, or all ran on {self._device} itself"
            warnings.warn(told, stacklevel=2)
