"""Which losses are scaled: scalers tell it, and optimisers ask."""

from __future__ import annotations

import weakref
from typing import Any

# Scalers that have scaled a loss since their last `update()`.
_pending: weakref.WeakSet[Any] = weakref.WeakSet()


def note_scaled(scaler: Any) -> None:
    """A loss was scaled."""
    _pending.add(scaler)


def note_updated(scaler: Any) -> None:
    """The step of the losses that were scaled is over."""
    _pending.discard(scaler)


def has_scaled(scaler: Any) -> bool:
    """Whether a scaler has scaled a loss since its last `update()`."""
    return scaler in _pending


def pending_scale(optimizer: Any) -> float:
    """The scale of a loss whose gradients were not unscaled for this optimiser; 0 if there is none."""
    return next((scaler.get_scale() for scaler in list(_pending) if not scaler._knows(optimizer) and scaler.get_scale() != 1.0), 0.0)


def pending_scale_of(optimizers: list[Any]) -> float:
    """The scale of a loss whose gradients were unscaled for none of these optimizers; 0 if there is none."""
    scales = [pending_scale(optimizer) for optimizer in optimizers]
    return min(scales, default=0.0)


def is_any_pending() -> bool:
    """Whether a scaler has scaled a loss since its last `update()`."""
    return len(_pending) > 0
