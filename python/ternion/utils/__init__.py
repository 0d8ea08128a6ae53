"""Tools beside layers and optimisers: `ternion.utils.checkpoint`."""

from . import checkpoint as checkpoint
