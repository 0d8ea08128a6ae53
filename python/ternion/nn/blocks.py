"""Building blocks of transformers and residual networks."""

from __future__ import annotations

from typing import Any

from .. import _ternion
from .._ternion import Parameter, Tensor
from . import functional as F
from .attention import KeyValueCache, MultiheadAttention
from .containers import Sequential
from .images import Conv2d
from .layers import Dropout, Linear
from .module import Module
from .norms import BatchNorm2d, LayerNorm, RMSNorm

_ACTIVATIONS: dict[str, Any] = {
    "relu": Tensor.relu,
    "gelu": Tensor.gelu,
    "gelu_tanh": lambda x: x.gelu(approximate="tanh"),
}


class FeedForward(Module):
    """Two linear layers with an activation between them, applied to each token separately:
    [.., width] -> same.

    Args:
        hidden: the hidden width. By default four times `width`, or 8/3 of it rounded up to a
            multiple of 8 for "swiglu".
        kind: "relu", "gelu", "gelu_tanh" (as in GPT-2) or "swiglu":
            `linear2(silu(linear_gate(x)) * linear1(x))` (Shazeer 2020).
        dropout: the dropout probability of hidden activations in training.

    Raises:
        ValueError: If `kind` is unknown; when called, if the input has another width.
    """

    def __init__(
        self, width: int, hidden: int | None = None, kind: str = "gelu", bias: bool = True, dropout: float = 0.0, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        if kind not in (*_ACTIVATIONS, "swiglu"):
            raise ValueError(f"FeedForward: kind {kind!r}, expected one of {', '.join(_ACTIVATIONS)}, swiglu")
        is_gated, factory_kwargs = kind == "swiglu", dict(bias=bias, device=device, dtype=dtype)
        default_hidden = (-(-width * 8 // 3) + 7) // 8 * 8 if is_gated else 4 * width
        hidden = default_hidden if hidden is None else hidden
        self.kind = kind
        self.linear1 = Linear(width, hidden, **factory_kwargs)
        self.linear_gate = Linear(width, hidden, **factory_kwargs) if is_gated else None
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(hidden, width, **factory_kwargs)

    def forward(self, input: Tensor) -> Tensor:
        return _feed_forward(self, input)

    def extra_repr(self) -> str:
        return f"kind={self.kind!r}"


def _feed_forward(layer: Any, input: Tensor) -> Tensor:
    """Computes the output of a layer that has the members of `FeedForward`."""
    hidden = layer.linear1(input)
    if layer.linear_gate is not None:
        hidden = layer.linear_gate(input).silu() * hidden
    else:
        hidden = _ACTIVATIONS[layer.kind](hidden)
    return layer.linear2(layer.dropout(hidden))


def _norm(kind, width, bias, eps, factory_kwargs):
    if kind == "layer_norm":
        return LayerNorm(width, eps=eps, bias=bias, **factory_kwargs)
    if kind == "rms_norm":
        return RMSNorm(width, eps=eps, **factory_kwargs)
    raise ValueError(f"norm {kind!r}, expected \"layer_norm\" or \"rms_norm\"")


class TransformerBlock(Module):
    """Pre-norm transformer block: `x + attention(norm1(x))`, then `x + feed_forward(norm2(x))`;
    [batch, length, width] -> same.

    The state dict keys are those of PyTorch's `nn.TransformerEncoderLayer`. The block is equal to
    that layer with `norm_first` and `batch_first`.

    Args:
        width: the number of columns of a token.
        heads: the number of query heads; `kv_heads` is the number of key and value heads, the same
            by default.
        hidden, feed_forward: the hidden width and the kind of the `FeedForward`.
        norm: "layer_norm" or "rms_norm"; `eps` is added to the variance or to the mean square.
        bias: whether linear layers and norms have a bias.
        dropout: the dropout probability in training, for the attention weights, the hidden
            activations and both outputs.
        rotary: rotary embedding that is applied to queries and keys.

    Raises:
        ValueError: If the heads do not divide the width, `feed_forward` or `norm` is unknown, or
            `dropout` is not at least 0 and below 1; when called, if the input has another width.
    """

    def __init__(
        self, width: int, heads: int, kv_heads: int | None = None, hidden: int | None = None, feed_forward: str = "gelu",
        norm: str = "layer_norm", eps: float = 1e-5, bias: bool = True, dropout: float = 0.0, rotary: Any = None, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        factory_kwargs = dict(device=device, dtype=dtype)
        self.self_attn = MultiheadAttention(
            width, heads, dropout, bias, batch_first=True, num_kv_heads=kv_heads, rotary=rotary, **factory_kwargs
        )
        # The block owns the members directly, as the state dict keys require.
        layer = FeedForward(width, hidden, feed_forward, bias, dropout, **factory_kwargs)
        self.kind = layer.kind
        self.linear1, self.linear_gate = layer.linear1, layer.linear_gate
        self.dropout, self.linear2 = layer.dropout, layer.linear2
        self.norm1, self.norm2 = (_norm(norm, width, bias, eps, factory_kwargs) for _ in range(2))
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    def forward(
        self, input: Tensor, mask: Tensor | None = None, is_causal: bool = False, window: int | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:  # fmt: skip
        """Computes the output. Each token attends to all unmasked tokens of its sequence; see
        `MultiheadAttention.attend_self`.

        Shapes: [batch, length, width] -> the same
        """
        attended = self.self_attn.attend_self(self.norm1(input), is_causal=is_causal, mask=mask, window=window, cache=cache)
        x = input + self.dropout1(attended)
        return x + self.dropout2(_feed_forward(self, self.norm2(x)))

    def forward_varlen(
        self, x: Tensor, cu_seqlens: Tensor, max_seqlen: int | None = None, *, is_causal: bool = False, window: int | None = None,
    ) -> Tensor:  # fmt: skip
        """Computes the output for packed sequences of different lengths, without padding; see
        `MultiheadAttention.forward_varlen`.

        Shapes: x [rows, width], cu_seqlens int32 [sequences + 1] -> [rows, width]; the rows are
        those of all sequences
        """
        attended = self.self_attn.forward_varlen(self.norm1(x), cu_seqlens, max_seqlen, is_causal=is_causal, window=window)
        x = x + self.dropout1(attended)
        return x + self.dropout2(_feed_forward(self, self.norm2(x)))

    def extra_repr(self) -> str:
        return f"feed_forward={self.kind!r}"


def _convolution(inputs, outputs, kernel, stride, factory_kwargs):
    """Returns a convolution without bias, with the initialization of torchvision's networks."""
    # Does not call Conv2d(..), which would draw different initial values first.
    layer = Conv2d.__new__(Conv2d)
    layer._set_options((inputs, outputs), ((kernel,) * 2, (stride,) * 2, (kernel // 2,) * 2, (1, 1), 1))
    shape = (outputs, inputs, kernel, kernel)
    layer.weight = Parameter(_ternion._initial(shape, "kaiming_normal", [0.0], fan="fan_out", nonlinearity="relu", **factory_kwargs))
    layer.bias = None
    return layer


class ResidualBlock(Module):
    """Computes `relu(bn2(conv2(relu(bn1(conv1(x))))) + x)`, with a convolution of `x` where its
    shape changes: the basic block of He et al. 2016 (figure 2).

    Shapes: [batch, inputs, height, width] -> [batch, outputs, height / stride, width / stride],
    rounded up. The state dict keys are those of torchvision's `BasicBlock`.

    Raises:
        ValueError: If the stride is below 1; when called, if the number of axes or channels is
            invalid.
    """

    def __init__(self, inputs: int, outputs: int, stride: int = 1, device: Any = None, dtype: Any = None):
        if stride < 1:
            raise ValueError(f"ResidualBlock: stride {stride}, expected at least 1")
        factory_kwargs = dict(device=device, dtype=dtype)
        self.conv1 = _convolution(inputs, outputs, 3, stride, factory_kwargs)
        self.bn1 = BatchNorm2d(outputs, **factory_kwargs)
        self.conv2 = _convolution(outputs, outputs, 3, 1, factory_kwargs)
        self.bn2 = BatchNorm2d(outputs, **factory_kwargs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = Sequential(_convolution(inputs, outputs, 1, stride, factory_kwargs), BatchNorm2d(outputs, **factory_kwargs))

    def forward(self, input: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(self.bn1(self.conv1(input)).relu()))
        return F.add_relu(inner, input if self.downsample is None else self.downsample(input))
