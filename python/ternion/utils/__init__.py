"""Utilities: `ternion.utils.checkpoint`, `ternion.utils.data`, `ternion.utils.tensorboard`."""

from . import checkpoint as checkpoint, data as data, tensorboard as tensorboard

__all__ = ["checkpoint", "data", "tensorboard"]


def __dir__() -> list[str]:
    return __all__
