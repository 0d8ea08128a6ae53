"""Tools beside layers and optimisers: `ternion.utils.checkpoint` and `ternion.utils.data`."""

from . import checkpoint, data  # noqa: F401
