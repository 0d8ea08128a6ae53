"""Multi-head attention, KV cache and rotary position embedding."""

from __future__ import annotations

import math
from typing import Any

from ... import _ternion
from ..._ternion import Parameter, Tensor, _functional as _native, is_grad_enabled
from .. import functional as F
from .._initialization import reset_parameter
from ..layers import Linear, _zero_bias
from ..module import Module
from . import varlen as varlen
from ._backends import SDPBackend as SDPBackend, sdpa_kernel as sdpa_kernel
from ._log_sum_exp import scaled_dot_product_attention_with_lse as scaled_dot_product_attention_with_lse
from .varlen import _check_max_length


class Rotary(Module):
    """Rotary position embedding: rotates pairs of columns of queries and keys by angles that grow
    with the position, so that their dot products depend only on the relative position
    (Su et al. 2021).

    Shapes: [.., length, head_dim] -> the same

    Args:
        positions: the number of positions.
        head_dim: the number of columns of a head; must be even.
        base: pair `i` is rotated by `position * base^(-2 i / head_dim)`.
        pairs: "half" (column `i` with `i + head_dim / 2`, as in Llama) or "interleaved" (`2 i`
            with `2 i + 1`, as in the paper).

    Raises:
        ValueError: If `head_dim` is odd, or `pairs` is unknown; when called, if the rows have
            another width or a position exceeds `positions`.
    """

    def __init__(self, positions: int, head_dim: int, base: float = 10_000.0, pairs: str = "half"):
        self.positions, self.head_dim, self.base, self.pairs = positions, head_dim, base, pairs
        self._native: Any = _ternion._Rotary(positions, head_dim, base, pairs)

    def forward(self, input: Tensor, first: int = 0) -> Tensor:
        """Rotates the rows of [.., length, head_dim]. The first row is at position `first`."""
        return self._native.forward(input, first)

    def forward_varlen(self, input: Tensor, cu_seqlens: Tensor) -> Tensor:
        """Rotates rows of concatenated sequences, each by its position in its own sequence.

        Shapes: [rows, heads, head_dim], cu_seqlens int32 [sequences + 1]: 0, then the end of each
        sequence -> [rows, heads, head_dim]

        Raises:
            ValueError: If the rows have another width, or a sequence has more rows than there are
                positions.
            TypeError: If the cumulative lengths are not int32.
        """
        return self._native.forward_varlen(input, cu_seqlens)

    def extra_repr(self) -> str:
        return f"{self.positions}, {self.head_dim}, base={self.base}, pairs={self.pairs!r}"


class KeyValueCache:
    """KV cache: keys and values of earlier tokens, so that a generation step computes only those of
    new tokens.

    Memory for `capacity` tokens is allocated once, by the first step. Later steps append to it.

    Raises:
        ValueError: See `append`.
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self._length = 0
        self._storage: list[Tensor] = []

    def __len__(self) -> int:
        return self._length

    def clear(self) -> None:
        """Removes all tokens and keeps the memory."""
        self._length = 0

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Appends keys and values ([batch, kv_heads, tokens, head_dim]) and returns those of all
        tokens.

        Raises:
            RuntimeError: If a gradient would have to flow through the cache.
            ValueError: If there are more tokens than `capacity`, or the tokens have another shape.
        """
        if is_grad_enabled() and (key.requires_grad or value.requires_grad):
            raise RuntimeError("no gradient flows through what a KeyValueCache keeps: generate under no_grad()")
        count = key.shape[2]
        if self._length + count > self.capacity:
            raise ValueError(f"{count} tokens behind {self._length}, expected at most {self.capacity} in all")
        shapes = [(*new.shape[:2], self.capacity, new.shape[3]) for new in (key, value)]
        if not self._storage:
            self._storage = [_ternion.zeros(shape, dtype=key.dtype, device=key.device) for shape in shapes]
        if [stored.shape for stored in self._storage] != shapes:
            raise ValueError(f"tokens of shape {key.shape} behind tokens kept in {self._storage[0].shape}")
        for stored, new in zip(self._storage, (key, value)):
            stored.narrow(2, self._length, count).copy_(new.detach())
        self._length += count
        keys, values = (stored.narrow(2, 0, self._length) for stored in self._storage)
        return keys, values


class MultiheadAttention(Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2).

    Shapes: query [queries, batch, embed_dim], key and value [keys, batch, kdim and vdim] ->
    [queries, batch, embed_dim], and the attention weights; see `forward`

    Args:
        embed_dim: the number of columns of the queries and of the output.
        num_heads: the number of heads; must divide `embed_dim`.
        dropout: the dropout probability of attention weights in training.
        bias: whether the projections have a bias.
        add_bias_kv: whether to append one learned key and value, `bias_k` and `bias_v`, to each
            sequence.
        add_zero_attn: whether to append a key and a value of zeros after all others.
        kdim, vdim: the number of columns of keys and values, if it differs from `embed_dim`.
        batch_first: whether inputs are [batch, length, columns] rather than
            [length, batch, columns].
        num_kv_heads: the number of key and value heads, each shared by a group of query heads
            (Ainslie et al. 2023); `num_heads` by default.
        rotary: rotary embedding that is applied to queries and keys.

    Raises:
        ValueError: If the heads do not divide `embed_dim`, or `dropout` is not at least 0 and below
            1; when called, if the shapes do not match.
        TypeError: When called, if an argument is not a tensor.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False, device: Any = None,
        dtype: Any = None, *, num_kv_heads: int | None = None, rotary: Any = None,
    ):  # fmt: skip
        kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        _check_heads(embed_dim, num_heads, kv_heads, dropout)
        self.embed_dim, self.num_heads, self.num_kv_heads, self.dropout = embed_dim, num_heads, kv_heads, dropout
        self.kdim, self.vdim, self.batch_first = kdim or embed_dim, vdim or embed_dim, batch_first
        self.head_dim = embed_dim // num_heads
        self._rotary: Any = rotary
        self.add_zero_attn = add_zero_attn
        self._create_projections(bias, dict(device=device, dtype=dtype))
        self.bias_k = self.bias_v = None
        if add_bias_kv:
            biases = [_ternion._initial((1, 1, self._projection_sizes[1]), "xavier_normal", [1.0], device=device, dtype=dtype) for _ in range(2)]
            self.bias_k, self.bias_v = map(Parameter, biases)

    def _create_projections(self, bias, factory_kwargs):
        sizes = [heads * self.head_dim for heads in (self.num_heads, self.num_kv_heads, self.num_kv_heads)]
        self._projection_sizes = sizes

        def weight(shape):
            return Parameter(_ternion._initial(shape, "xavier_uniform", [1.0], **factory_kwargs))

        self.in_proj_weight = self.q_proj_weight = self.k_proj_weight = self.v_proj_weight = None
        if self.kdim == self.vdim == self.embed_dim:
            self.in_proj_weight = weight((sum(sizes), self.embed_dim))
        else:
            self.q_proj_weight = weight((sizes[0], self.embed_dim))
            self.k_proj_weight = weight((sizes[1], self.kdim))
            self.v_proj_weight = weight((sizes[2], self.vdim))
        self.in_proj_bias = Parameter(_ternion.zeros(sum(sizes), **factory_kwargs)) if bias else None
        self.out_proj = _zero_bias(Linear(self.embed_dim, self.embed_dim, bias=False, **factory_kwargs), bias)

    def _reset_parameters(self) -> None:
        """Reinitializes the input projections and sets all biases to 0."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            reset_parameter(weight, "xavier_uniform", [1.0])
        for bias in (self.in_proj_bias, self.out_proj.bias):
            reset_parameter(bias, "constant", [0.0])
        for bias in (self.bias_k, self.bias_v):
            reset_parameter(bias, "xavier_normal", [1.0])

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None, need_weights: bool = True,
        attn_mask: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Returns the output, and the attention weights or None.

        Shapes: query [batch, queries, embed_dim], key and value [batch, keys, kdim and vdim] ->
        [batch, queries, embed_dim], and [batch, queries, keys] (per head:
        [batch, heads, queries, keys]); with `batch_first=False` the first two axes are swapped; the
        batch axis is optional

        Args:
            key_padding_mask: [batch, keys]; bool, where True masks a padding key, or a floating
                mask that is added to the scores.
            need_weights: whether to return the attention weights as well. Without them attention is
                faster.
            attn_mask: [queries, keys] or [batch * heads, queries, keys]; bool, where True masks a
                key, or a floating mask that is added to the scores.
            average_attn_weights: whether the returned weights are averaged over the heads.
            is_causal: whether a query attends only to keys up to its own position, with the first
                query aligned with the first key. Unlike in PyTorch, no mask is needed in addition.
        """
        for name, tensor in (("query", query), ("key", key), ("value", value)):
            if not isinstance(tensor, Tensor):
                raise TypeError(f"MultiheadAttention: {name} of type {type(tensor).__name__}, expected a tensor")
        is_single = query.ndim == 2
        if is_single:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        q, k, v = self._project(query, key, value)
        mask = _mask(attn_mask, key_padding_mask, (*q.shape[:3], k.shape[2]), q.dtype)
        if self.bias_k is not None or self.add_zero_attn:
            mask, is_causal = _with_causal(mask, q, k) if is_causal else mask, False
            k, v, mask = self._append_bias_kv(k, v, mask)
        output, weights = self._attend(q, k, v, mask, is_causal, need_weights)
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if is_single:
            return output.squeeze(0), None if weights is None else weights.squeeze(0)
        return output if self.batch_first else output.transpose(0, 1), weights

    def attend_self(
        self, input: Tensor, *, is_causal: bool = False, mask: Tensor | None = None, window: int | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:  # fmt: skip
        """Computes self-attention: each token attends to the tokens of its sequence and, with a
        cache, to the earlier tokens in it. The new tokens are appended to the cache.

        Shapes: [batch, length, embed_dim] -> same, regardless of `batch_first`

        Args:
            mask: as `attn_mask` of `functional.scaled_dot_product_attention`: True where a key is
                attended to.
            window: the number of positions that a token attends to, including its own: backward,
                and forward unless causal.

        Raises:
            ValueError: If keys or values have other columns than queries, `add_bias_kv` or
                `add_zero_attn` is set, or the tokens exceed the capacity of the cache.
        """
        parts = self._packed_projection("attend_self", input)
        first = 0 if cache is None else len(cache)
        q, k, v = (self._split_heads(part) for part in parts)
        if self._rotary is not None:
            q, k = self._rotary(q, first), self._rotary(k, first)
        if cache is not None:
            k, v = cache.append(k, v)
        # The number of heads was checked when the module was created.
        heads = _native.scaled_dot_product_attention(q, k, v, mask, self.dropout if self.training else 0.0, is_causal, window=window, lower_right=True)
        return self._merge_heads(heads)

    def forward_varlen(
        self, x: Tensor, cu_seqlens: Tensor, max_seqlen: int | None = None, *, is_causal: bool = False, window: int | None = None,
    ) -> Tensor:  # fmt: skip
        """Computes self-attention within each of several sequences of different lengths that are
        concatenated without padding.

        Rotary positions count from the start of each sequence.

        Shapes: x [rows, embed_dim], cu_seqlens int32 [sequences + 1] -> [rows, embed_dim]; the rows
        are those of all sequences

        Args:
            cu_seqlens: 0, then the end of each sequence.
            max_seqlen: the length of the longest sequence. Ternion does not need it; if given, it
                must be an integer that is at least 0.
            is_causal: whether a token attends only to tokens up to its own position.
            window: the number of positions that a token attends to, including its own: backward,
                and forward unless causal.

        Raises:
            ValueError: If the shapes do not match, a length is negative, keys or values have other
                columns than queries, or `add_bias_kv` or `add_zero_attn` is set; on the CPU also if
                the cumulative lengths decrease or exceed the number of rows.
            TypeError: If an argument is not a tensor, or the cumulative lengths are not int32.
        """
        for name, tensor in (("x", x), ("cu_seqlens", cu_seqlens)):
            if not isinstance(tensor, Tensor):
                raise TypeError(f"forward_varlen: {name} of type {type(tensor).__name__}, expected a tensor")
        if max_seqlen is not None:
            _check_max_length("forward_varlen", "max_seqlen", max_seqlen)
        if cu_seqlens.dtype != _ternion.int32:
            raise TypeError(f"forward_varlen: cu_seqlens is {str(cu_seqlens.dtype).rpartition('.')[2]}, expected int32")
        if x.ndim != 2:
            raise ValueError(f"forward_varlen: expected 2 axes, got shape {list(x.shape)}")
        q, k, v = (part.reshape(x.shape[0], -1, self.head_dim) for part in self._packed_projection("forward_varlen", x))
        if self._rotary is not None:
            q, k = (self._rotary.forward_varlen(rows, cu_seqlens) for rows in (q, k))
        dropout = self.dropout if self.training else 0.0
        heads, _ = _native.varlen_attn(q, k, v, cu_seqlens, cu_seqlens, None, is_causal, window, dropout)
        return self.out_proj(heads.reshape(x.shape[0], self.embed_dim))

    def _packed_projection(self, function, input):
        """Returns queries, keys and values from one projection of the same input:
        [.., heads * head_dim] each.
        """
        if self.bias_k is not None or self.add_zero_attn:
            raise ValueError(f"{function}: add_bias_kv or add_zero_attn, expected neither: call the module")
        if self.in_proj_weight is None:
            raise ValueError(f"{function}: keys of {self.kdim} and values of {self.vdim} columns, expected {self.embed_dim}")
        return F.linear(input, self.in_proj_weight, self.in_proj_bias).split(self._projection_sizes, -1)

    def _project(self, query, key, value):
        weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        if self.in_proj_weight is not None:
            weights = list(self.in_proj_weight.split(self._projection_sizes))
        biases = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.split(self._projection_sizes)
        q, k, v = (self._split_heads(F.linear(x, weight, bias)) for x, weight, bias in zip((query, key, value), weights, biases))
        if self._rotary is not None:
            q, k = self._rotary(q), self._rotary(k)
        return q, k, v

    def _append_bias_kv(self, k, v, mask):
        """Appends the keys and values that belong to no token (`add_bias_kv`, `add_zero_attn`),
        which all queries attend to.
        """
        batch, count = k.shape[0], k.shape[2]
        extra = [] if self.bias_k is None else [[self._split_heads(bias).expand(batch, -1, -1, -1) for bias in (self.bias_k, self.bias_v)]]
        if self.add_zero_attn:
            extra.append([_ternion.zeros(batch, self.num_kv_heads, 1, self.head_dim, dtype=k.dtype, device=k.device)] * 2)
        k, v = (_ternion.cat([original, *(part.to(original.dtype) for part in appended)], 2) for original, appended in zip((k, v), zip(*extra)))
        if mask is not None:
            shape = (*mask.shape[:-1], k.shape[2] - count)
            visible = (_ternion.ones if mask.dtype == _ternion.bool else _ternion.zeros)(shape, dtype=mask.dtype, device=mask.device)
            mask = _ternion.cat([mask, visible], -1)
        return k, v, mask

    def _split_heads(self, x):
        """[batch, length, heads * head_dim] -> [batch, heads, length, head_dim]."""
        batch, length, width = x.shape
        return x.reshape(batch, length, width // self.head_dim, self.head_dim).transpose(1, 2)

    def _merge_heads(self, heads):
        batch, _, length, _ = heads.shape
        return self.out_proj(heads.transpose(1, 2).reshape(batch, length, self.embed_dim))

    def _attend(self, q, k, v, mask, is_causal, need_weights):
        dropout = self.dropout if self.training else 0.0
        if not need_weights:
            return self._merge_heads(_native.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal)), None
        if is_causal:
            mask = _with_causal(mask, q, k)
        groups = self.num_heads // self.num_kv_heads
        k, v = _repeat_heads(k, groups), _repeat_heads(v, groups)
        scores = (q / math.sqrt(self.head_dim)) @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == _ternion.bool else scores + mask
        weights = scores.softmax(-1) if mask is None else _masked_softmax(scores)
        weights = F.dropout(weights, dropout, self.training)
        return self._merge_heads(weights @ v), weights

    def extra_repr(self) -> str:
        return f"num_kv_heads={self.num_kv_heads}" if self.num_kv_heads != self.num_heads else ""


def _check_heads(width, heads, kv_heads, dropout):
    if heads < 1 or width % heads:
        raise ValueError(f"MultiheadAttention: width {width} does not divide into {heads} heads")
    if kv_heads < 1 or heads % kv_heads:
        raise ValueError(f"MultiheadAttention: {heads} heads of queries cannot share {kv_heads} heads of keys")
    if not 0 <= dropout < 1:
        raise ValueError(f"MultiheadAttention: dropout {dropout}, expected at least 0 and below 1")


def _mask(attn_mask, padding, shape, dtype):
    """Merges PyTorch's two masks, in which True masks a key, into one mask of
    [batch, heads, queries, keys], in which True keeps it, or into an additive mask.
    """
    batch, heads, queries, keys = shape
    masks = []
    for name, mask in (("attn_mask", attn_mask), ("key_padding_mask", padding)):
        # An integer mask is ambiguous: it could mask keys or be added.
        if mask is not None and not (mask.dtype == _ternion.bool or mask.is_floating_point()):
            kind = str(mask.dtype).rpartition(".")[2]
            raise TypeError(f"MultiheadAttention: {name} is {kind}, expected bool (true where a key is not seen) or a floating dtype")
    if attn_mask is not None:
        if tuple(attn_mask.shape) not in ((queries, keys), (batch * heads, queries, keys)):
            expected = f"({queries}, {keys}) or ({batch * heads}, {queries}, {keys})"
            raise ValueError(f"MultiheadAttention: attn_mask of shape {tuple(attn_mask.shape)}, expected {expected}")
        masks.append(attn_mask if attn_mask.ndim == 2 else attn_mask.reshape(batch, heads, queries, keys))
    if padding is not None:
        if tuple(padding.shape) != (batch, keys):
            raise ValueError(f"MultiheadAttention: key_padding_mask of shape {tuple(padding.shape)}, expected ({batch}, {keys})")
        masks.append(padding.reshape(batch, 1, 1, keys))
    if not masks:
        return None
    if all(mask.dtype == _ternion.bool for mask in masks):
        return ~(masks[0] if len(masks) == 1 else masks[0] | masks[1])
    additive = [_additive_mask(mask, dtype) for mask in masks]
    return additive[0] if len(additive) == 1 else additive[0] + additive[1]


def _additive_mask(mask, dtype):
    """Converts a mask to an additive mask."""
    if mask.dtype != _ternion.bool:
        return mask.to(dtype)
    return _ternion.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, -math.inf)


def _masked_softmax(scores):
    """Returns the attention weights. A query whose keys are all masked gets zeros, as in the fused
    attention. (Its softmax would be 0 / 0 and make every gradient NaN.)
    """
    is_fully_masked = (scores == -math.inf).all(-1, True)
    return scores.masked_fill(is_fully_masked, 0.0).softmax(-1).masked_fill(is_fully_masked, 0.0)


def _with_causal(mask, q, k):
    """Combines a causal mask, under which query i attends to keys 0 to i as in PyTorch, with
    another mask.
    """
    hidden = _ternion.ones(q.shape[2], k.shape[2], dtype=_ternion.bool, device=q.device).triu(1)
    if mask is None:
        return ~hidden
    return mask & ~hidden if mask.dtype == _ternion.bool else mask.masked_fill(hidden, -math.inf)


def _repeat_heads(x, times):
    """Repeats each head `times` times, consecutively."""
    if times == 1:
        return x
    batch, heads, length, width = x.shape
    return x.unsqueeze(2).expand(batch, heads, times, length, width).reshape(batch, heads * times, length, width)
