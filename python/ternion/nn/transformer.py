"""PyTorch's transformer, with compatible weights: encoder, decoder, and both."""

from __future__ import annotations

import copy
import math
from typing import Any

from .. import _ternion
from .._ternion import Tensor
from . import functional as F
from . import init
from .attention import MultiheadAttention
from .containers import ModuleList
from .layers import Dropout, Linear
from .module import Module
from .norms import LayerNorm

_ACTIVATIONS: dict[str, Any] = {"relu": F.relu, "gelu": F.gelu}


def _activation(layer, activation):
    if activation in _ACTIVATIONS:
        return _ACTIVATIONS[activation]
    if not callable(activation):
        raise ValueError(f"{layer}: activation {activation!r}, expected \"relu\", \"gelu\" or a function")
    return activation


def _copies(name, layer, count):
    if not isinstance(layer, Module):
        raise TypeError(f"{name}: a layer of type {type(layer).__name__}, expected a nn.Module")
    if count < 1:
        raise ValueError(f"{name}: num_layers {count}, expected at least 1")
    return ModuleList(copy.deepcopy(layer) for _ in range(count))


class TransformerEncoderLayer(Module):
    """Transformer encoder layer: self-attention, then two linear layers per token, each part with a
    residual connection and a norm (Vaswani et al. 2017).

    Shapes: [length, batch, d_model] -> the same; with `batch_first` the batch axis is first

    Args:
        d_model: the number of columns of a token.
        nhead: the number of attention heads.
        dim_feedforward: the hidden width between the two linear layers.
        dropout: the dropout probability in training.
        activation: "relu", "gelu" or a function.
        batch_first: whether inputs are [batch, length, d_model] rather than
            [length, batch, d_model].
        norm_first: whether norms are applied before attention and linear layers rather than after
            the residual additions.

    Raises:
        ValueError: If the heads do not divide `d_model`, the activation is unknown, or `dropout` is
            not at least 0 and below 1; when called, if the width or the shape of a mask is invalid.
        TypeError: When called, if the input is not a tensor.
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation: Any = "relu",
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        factory_kwargs = dict(device=device, dtype=dtype)
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **factory_kwargs)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **factory_kwargs)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **factory_kwargs)
        self.norm_first = norm_first
        self.norm1, self.norm2 = (LayerNorm(d_model, layer_norm_eps, bias=bias, **factory_kwargs) for _ in range(2))
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.activation: Any = _activation("TransformerEncoderLayer", activation)

    def forward(self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """Computes the output: [length, batch, d_model], with `batch_first`
        [batch, length, d_model], or [length, d_model] -> same.

        Args:
            src_mask: [length, length] or [batch * heads, length, length]; bool, where True masks a
                token, or a floating mask that is added to the scores.
            src_key_padding_mask: [batch, length]; bool, where True masks padding, or a floating
                mask that is added to the scores.
            is_causal: whether a token attends only to tokens up to its own position. No mask is
                needed in addition.
        """
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(self, x, mask, padding, is_causal):
        return self.dropout1(self.self_attn(x, x, x, padding, False, mask, is_causal=is_causal)[0])

    def _ff_block(self, x):
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoder(Module):
    """A stack of encoder layers, followed by an optional norm.

    Shapes: [length, batch, d_model], or the layout of the layers -> the same

    Args:
        encoder_layer: the layer that is copied `num_layers` times.
        norm: the module after the last layer, or None.
        enable_nested_tensor, mask_check: PyTorch's choices between implementations; without effect,
            because Ternion has one.

    Raises:
        TypeError: If the layer is not a module.
        ValueError: If there is less than 1 layer.
    """

    def __init__(self, encoder_layer: Any, num_layers: int, norm: Any = None, enable_nested_tensor: bool = True, mask_check: bool = True):
        self.layers = _copies("TransformerEncoder", encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, is_causal: bool | None = None) -> Tensor:
        """Computes the output: [length, batch, d_model], or the layout of the layers -> same. The
        masks are those of the layers.
        """
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoderLayer(Module):
    """Transformer decoder layer: self-attention, cross-attention to a memory, then two linear
    layers per token, each part with a residual connection and a norm (Vaswani et al. 2017).

    The arguments are those of `TransformerEncoderLayer`.

    Shapes: [length, batch, d_model] and [others, batch, d_model] -> as the first; with
    `batch_first` the batch axis is first

    Raises:
        ValueError: If the heads do not divide `d_model`, or the activation is unknown; when called,
            if the shapes do not match.
        TypeError: When called, if an argument is not a tensor.
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation: Any = "relu",
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        factory_kwargs = dict(device=device, dtype=dtype)
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **factory_kwargs)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **factory_kwargs)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **factory_kwargs)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **factory_kwargs)
        self.norm_first = norm_first
        self.norm1, self.norm2, self.norm3 = (LayerNorm(d_model, layer_norm_eps, bias=bias, **factory_kwargs) for _ in range(3))
        self.dropout1, self.dropout2, self.dropout3 = (Dropout(dropout) for _ in range(3))
        self.activation: Any = _activation("TransformerDecoderLayer", activation)

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Computes the output: [length, batch, d_model] and memory [others, batch, d_model] -> as
        the first; with `batch_first` the batch axis is first.

        Args:
            tgt_mask, tgt_key_padding_mask, tgt_is_causal: for the self-attention, as in
                `TransformerEncoderLayer`.
            memory_mask, memory_key_padding_mask, memory_is_causal: for the cross-attention to the
                memory.
        """
        self_masks, memory_masks = (tgt_mask, tgt_key_padding_mask, tgt_is_causal), (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            inner = self.norm1(x)
            x = x + self.dropout1(_attend(self.self_attn, inner, inner, self_masks))
            x = x + self.dropout2(_attend(self.multihead_attn, self.norm2(x), memory, memory_masks))
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self.dropout1(_attend(self.self_attn, x, x, self_masks)))
        x = self.norm2(x + self.dropout2(_attend(self.multihead_attn, x, memory, memory_masks)))
        return self.norm3(x + self._ff_block(x))

    def _ff_block(self, x):
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


def _attend(attention, x, memory, masks):
    mask, padding, is_causal = masks
    return attention(x, memory, memory, padding, False, mask, is_causal=bool(is_causal))[0]


class TransformerDecoder(Module):
    """A stack of decoder layers, followed by an optional norm.

    Shapes: [length, batch, d_model] and [others, batch, d_model], or the layout of the layers -> as
    the first

    Args:
        decoder_layer: the layer that is copied `num_layers` times.
        norm: the module after the last layer, or None.

    Raises:
        TypeError: If the layer is not a module.
        ValueError: If there is less than 1 layer.
    """

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Any = None):
        self.layers = _copies("TransformerDecoder", decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Computes the output. Shapes and masks are those of the layers.

        Shapes: [length, batch, d_model] and [others, batch, d_model] -> as the first
        """
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, bool(tgt_is_causal), memory_is_causal)
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """A transformer: an encoder, and a decoder that attends to the encoder's output
    (Vaswani et al. 2017).

    Shapes: [others, batch, d_model] and [length, batch, d_model] -> as the second; with
    `batch_first` the batch axis is first

    Args:
        num_encoder_layers, num_decoder_layers: the numbers of layers.
        custom_encoder, custom_decoder: modules that replace them.
        The other arguments are those of `TransformerEncoderLayer`.

    Raises:
        ValueError: If the heads do not divide `d_model`, the activation is unknown, or there is
            less than 1 layer; when called, if the shapes do not match.
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6, dim_feedforward: int = 2048,
        dropout: float = 0.1, activation: Any = "relu", custom_encoder: Any = None, custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        factory_kwargs = dict(device=device, dtype=dtype)
        settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def stack(stack_class, layer, count):
            return stack_class(layer(*settings, **factory_kwargs), count, LayerNorm(d_model, layer_norm_eps, bias=bias, **factory_kwargs))

        self.encoder = custom_encoder or stack(TransformerEncoder, TransformerEncoderLayer, num_encoder_layers)
        self.decoder = custom_decoder or stack(TransformerDecoder, TransformerDecoderLayer, num_decoder_layers)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Reinitializes all matrices."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, src_is_causal: bool | None = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool | None = False,
    ) -> Tensor:  # fmt: skip
        """Computes the output: [length, batch, d_model] and [others, batch, d_model] -> as the
        second; with `batch_first` the batch axis is first.
        """
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal, memory_is_causal)
        return self.decoder(tgt, memory, *masks)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Returns an additive causal mask, which masks the tokens after each token: [sz, sz]."""
        return _ternion.full((sz, sz), -math.inf, dtype=dtype, device=device).triu(1)
