"""Layers, and what models are made of. Names, arguments, defaults and keys of the state dict are PyTorch's."""

from .._ternion import Parameter  # noqa: F401
from . import functional, init, utils  # noqa: F401
from .attention import KeyValueCache, MultiheadAttention, Rotary  # noqa: F401
from .blocks import FeedForward, ResidualBlock, TransformerBlock  # noqa: F401
from .layers import *  # noqa: F401,F403
from .module import Module  # noqa: F401
from .recurrent import GRU, LSTM  # noqa: F401
from .summaries import LayerSummary, Summary, Timeline, summary, trace  # noqa: F401
