"""Extracts the tensors from nested tuples, lists and dicts, and rebuilds these with other tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._ternion import Tensor


def flatten(value: Any) -> tuple[list[Tensor], Callable[[list[Tensor]], Any]]:
    """Returns the tensors in `value`, and a function that rebuilds the same structure from other
    tensors.
    """
    if isinstance(value, Tensor):
        return [value], lambda tensors: tensors[0]
    if isinstance(value, (tuple, list)):
        return _sequence(value)
    if isinstance(value, dict):
        tensors, rebuild = _sequence(list(value.values()))
        keys = list(value)
        return tensors, lambda others: dict(zip(keys, rebuild(others)))
    return [], lambda tensors: value


def _sequence(values: Any) -> tuple[list[Tensor], Callable[[list[Tensor]], Any]]:
    parts = [flatten(item) for item in values]
    ends, tensors = [], []
    for part, _ in parts:
        tensors += part
        ends.append(len(tensors))

    def rebuild(others):
        starts = [0] + ends[:-1]
        items = [make(others[start:end]) for (_, make), start, end in zip(parts, starts, ends)]
        if isinstance(values, tuple):
            # A namedtuple takes its fields as separate arguments.
            return type(values)(*items) if hasattr(values, "_fields") else tuple(items)
        return items

    return tensors, rebuild
