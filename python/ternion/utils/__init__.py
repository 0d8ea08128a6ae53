"""Tools beside layers and optimisers: `ternion.utils.checkpoint` and `ternion.utils.data`."""

from . import checkpoint as checkpoint, data as data
