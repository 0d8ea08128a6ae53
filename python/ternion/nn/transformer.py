"""PyTorch's transformer encoder, whose weights it takes over."""

from __future__ import annotations

import copy
from typing import Any

from .._ternion import Tensor
from . import functional as F
from .attention import MultiheadAttention
from .containers import ModuleList
from .layers import Dropout, Linear
from .module import Module
from .norms import LayerNorm

_ACTIVATIONS: dict[str, Any] = {"relu": F.relu, "gelu": F.gelu}


class TransformerEncoderLayer(Module):
    """Attention of a sequence to itself, then two layers for each token, each with a residual and a norm (Vaswani et al. 2017).

    Args:
        d_model: columns of a token.
        nhead: heads of the attention.
        dim_feedforward: the width between the two layers.
        dropout: in training, the probability that a number becomes 0.
        activation: "relu", "gelu" or a function.
        batch_first: whether inputs are [batch, length, d_model] rather than [length, batch, d_model].
        norm_first: whether norms are before attention and layers rather than behind the residuals.
    """

    def __init__(
        self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation: Any = "relu", layer_norm_eps=1e-5, batch_first=False, norm_first=False,
        bias=True, device=None, dtype=None,
    ):  # fmt: skip
        if activation not in _ACTIVATIONS and not callable(activation):
            raise ValueError(f"TransformerEncoderLayer: activation {activation!r}, expected \"relu\", \"gelu\" or a function")
        made = dict(device=device, dtype=dtype)
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **made)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **made)
        self.norm_first = norm_first
        self.norm1, self.norm2 = (LayerNorm(d_model, layer_norm_eps, bias=bias, **made) for _ in range(2))
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.activation: Any = _ACTIVATIONS[activation] if isinstance(activation, str) else activation

    def forward(self, src: Tensor, src_mask=None, src_key_padding_mask=None, is_causal: bool = False) -> Tensor:
        """[length, batch, d_model], with `batch_first` [batch, length, d_model], or [length, d_model] -> same.

        Args:
            src_mask: [length, length] or [batch * heads, length, length], bool: true where a token is not seen; or numbers that are added to the scores.
            src_key_padding_mask: [batch, length], bool: true at padding, which is not seen; or numbers that are added to the scores.
            is_causal: whether a token sees only those up to its own place; needs no mask beside it.
        """
        x = src
        if self.norm_first:
            x = x + self._attended(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._fed(self.norm2(x))
        x = self.norm1(x + self._attended(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._fed(x))

    def _attended(self, x, mask, padding, is_causal):
        return self.dropout1(self.self_attn(x, x, x, padding, False, mask, is_causal=is_causal)[0])

    def _fed(self, x):
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoder(Module):
    """Encoder layers one behind the other, and a norm behind them.

    Args:
        encoder_layer: the layer that is copied `num_layers` times.
        norm: what is behind the last one, if anything.
        enable_nested_tensor, mask_check: PyTorch's choices between ways to compute; here there is one.
    """

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        if not isinstance(encoder_layer, Module):
            raise TypeError(f"TransformerEncoder: encoder_layer of type {type(encoder_layer).__name__}, expected a nn.Module")
        if num_layers < 1:
            raise ValueError(f"TransformerEncoder: num_layers {num_layers}, expected at least 1")
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(self, src: Tensor, mask=None, src_key_padding_mask=None, is_causal: bool | None = None) -> Tensor:
        """[length, batch, d_model], or as the layers have it -> same; masks are those of the layers."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)
