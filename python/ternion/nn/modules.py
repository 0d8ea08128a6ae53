"""All layers, which `ternion.nn` exports as well: PyTorch has them under both names."""

from .activations import *  # noqa: F401,F403
from .attention import MultiheadAttention as MultiheadAttention, Rotary as Rotary
from .blocks import FeedForward as FeedForward, ResidualBlock as ResidualBlock, TransformerBlock as TransformerBlock
from .containers import ModuleDict as ModuleDict, ModuleList as ModuleList, ParameterDict as ParameterDict, ParameterList as ParameterList, Sequential as Sequential
from .images import *  # noqa: F401,F403
from .layers import *  # noqa: F401,F403
from .losses import *  # noqa: F401,F403
from .module import Module as Module
from .norms import *  # noqa: F401,F403
from .recurrent import GRU as GRU, GRUCell as GRUCell, LSTM as LSTM, LSTMCell as LSTMCell, RNN as RNN, RNNBase as RNNBase, RNNCell as RNNCell, RNNCellBase as RNNCellBase
from .transformer import (
    Transformer as Transformer, TransformerDecoder as TransformerDecoder, TransformerDecoderLayer as TransformerDecoderLayer,
    TransformerEncoder as TransformerEncoder, TransformerEncoderLayer as TransformerEncoderLayer,
)  # fmt: skip

__all__ = [name for name, thing in globals().items() if isinstance(thing, type) and issubclass(thing, Module)]


def __dir__() -> list[str]:
    return __all__
