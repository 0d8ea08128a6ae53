"""Layers and other building blocks of models. Names, arguments, defaults and state dict keys are
PyTorch's.
"""

from .._error_messages import name_classes as _name_classes
from .._ternion import Parameter as Parameter
from . import activations, functional as functional, images, init as init, layers, losses, modules as modules, norms, parameter as parameter, utils as utils
from .activations import *  # noqa: F401,F403
from .attention import KeyValueCache as KeyValueCache, MultiheadAttention as MultiheadAttention, Rotary as Rotary
from .blocks import FeedForward as FeedForward, ResidualBlock as ResidualBlock, TransformerBlock as TransformerBlock
from .containers import ModuleDict as ModuleDict, ModuleList as ModuleList, ParameterDict as ParameterDict, ParameterList as ParameterList, Sequential as Sequential
from .images import *  # noqa: F401,F403
from .layers import *  # noqa: F401,F403
from .losses import *  # noqa: F401,F403
from .module import Module as Module
from .norms import *  # noqa: F401,F403
from .parameter import Buffer as Buffer
from .recurrent import GRU as GRU, GRUCell as GRUCell, LSTM as LSTM, LSTMCell as LSTMCell, RNN as RNN, RNNBase as RNNBase, RNNCell as RNNCell, RNNCellBase as RNNCellBase
from .summaries import LayerSummary as LayerSummary, Summary as Summary, Timeline as Timeline, summary as summary, trace as trace
from .transformer import (
    Transformer as Transformer, TransformerDecoder as TransformerDecoder, TransformerDecoderLayer as TransformerDecoderLayer,
    TransformerEncoder as TransformerEncoder, TransformerEncoderLayer as TransformerEncoderLayer,
)  # fmt: skip

# Excludes the modules in which the layers are defined.
__all__ = [
    "Buffer", "FeedForward", "GRU", "GRUCell", "KeyValueCache", "LSTM", "LSTMCell", "LayerSummary", "Module", "ModuleDict", "ModuleList",
    "MultiheadAttention", "Parameter", "ParameterDict", "ParameterList", "RNN", "RNNBase", "RNNCell", "RNNCellBase", "ResidualBlock", "Rotary", "Sequential", "Summary",
    "Timeline", "Transformer", "TransformerBlock", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer", "functional", "init", "modules", "parameter", "summary", "trace", "utils",
]  # fmt: skip
__all__ += activations.__all__
__all__ += images.__all__
__all__ += layers.__all__
__all__ += losses.__all__
__all__ += norms.__all__

_name_classes(Module)


def __dir__() -> list[str]:
    return __all__
