"""Attention that returns the log-sum-exp of its scores."""

from __future__ import annotations

from ..._error_messages import name_all as _name_all
from ..._ternion import Tensor, _functional as _native
from ..functional import _broadcast_ranks, _check_heads


def scaled_dot_product_attention_with_lse(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Computes `functional.scaled_dot_product_attention` and the log-sum-exp of each query's
    scores, with which attention over several parts of the keys can be merged.

    The log-sum-exp includes the mask and is taken before dropout. It is -inf for a query that
    attends to no key. Gradients flow through both results.

    Shapes: query [.., heads, queries, head_dim], key [.., kv_heads, keys, head_dim], value
    [.., kv_heads, keys, value_dim] -> [.., heads, queries, value_dim] and [.., heads, queries],
    float32 (float64 for float64 inputs); axes before the last two are optional

    Args:
        attn_mask: bool, where True keeps a key, or a floating mask that is added to the scores;
            broadcast.
        dropout_p: the dropout probability of attention weights.
        is_causal: whether a query attends only to keys up to its own position; the first query is
            aligned with the first key.
        scale: the factor of the scores; 1 / sqrt(head_dim) by default.
        enable_gqa: whether several query heads may share a key and value head. A single key and
            value head is shared by all query heads in any case.

    Raises:
        ValueError: If the shapes do not match, or the probability is outside 0 to 1.
        TypeError: If the dtypes differ, or the mask has another dtype.
    """
    if not enable_gqa:
        _check_heads(query, key, value, "scaled_dot_product_attention_with_lse")
    query, key, value = _broadcast_ranks(query, key, value)
    return _native.scaled_dot_product_attention_with_lse(query, key, value, attn_mask, dropout_p, is_causal, scale)


_name_all(globals())
