"""Tools beside layers and optimisers: `ternion.utils.checkpoint` and `ternion.utils.data`."""

from . import checkpoint as checkpoint, data as data

__all__ = ["checkpoint", "data"]


def __dir__() -> list[str]:
    return __all__
