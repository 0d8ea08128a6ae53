"""Where the random numbers of devices stand."""

from __future__ import annotations

from typing import Any

from . import _ternion
from ._refusals import named


def get_rng_state(device: Any = None) -> tuple[int, int]:
    """Where the random numbers of a device stand: their seed, and how many were drawn."""
    return _ternion._random_position(device)


@named
def set_rng_state(new_state: tuple[int, int], device: Any = None) -> None:
    """Goes on with the random numbers of a device where `get_rng_state` told."""
    seed, drawn = new_state
    _ternion._set_random_position((seed, drawn), device)
