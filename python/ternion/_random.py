"""The state of the random number generators of devices."""

from __future__ import annotations

from typing import Any

from . import _ternion
from ._error_messages import named


def get_rng_state(device: Any = None) -> tuple[int, int]:
    """Returns the state of a device's random number generator: its seed, and the count of drawn
    numbers.
    """
    return _ternion._random_position(device)


@named
def set_rng_state(new_state: tuple[int, int], device: Any = None) -> None:
    """Sets the state of a device's random number generator to one that `get_rng_state` returned."""
    seed, drawn = new_state
    _ternion._set_random_position((seed, drawn), device)
