"""Attention that tells the log-sum-exp of its scores."""

from __future__ import annotations

from ..._refusals import name_all as _name_all
from ..._ternion import Tensor, _functional as _native
from ..functional import _check_heads, _of_one_rank


def scaled_dot_product_attention_with_lse(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`functional.scaled_dot_product_attention`, and the log-sum-exp of each query's scores, by which attention to several parts of the keys is put together.

    The log-sum-exp is of the scores with the mask, before dropout: -inf where a query sees no key. Gradients flow through both results.

    Shapes: query [.., heads, queries, head_dim], key [.., kv_heads, keys, head_dim], value [.., kv_heads, keys, value_dim] -> [.., heads, queries,
    value_dim] and [.., heads, queries], float32 (float64 of float64); axes before the last two may be left out

    Args:
        attn_mask: bool, true where a key is seen, or numbers that are added to the scores; broadcast.
        dropout_p: the probability with which a weight becomes 0.
        is_causal: whether a query sees only keys up to its own place; the first query stands at the first key.
        scale: of the scores; 1 / sqrt(head_dim) by default.
        enable_gqa: whether heads of keys and values may be shared by several heads of queries; a single one is shared by all without it, too.

    Raises:
        ValueError: shapes that do not fit, a probability outside 0 to 1.
        TypeError: dtypes that differ, a mask of another dtype.
    """
    if not enable_gqa:
        _check_heads(query, key, value, "scaled_dot_product_attention_with_lse")
    query, key, value = _of_one_rank(query, key, value)
    return _native.scaled_dot_product_attention_with_lse(query, key, value, attn_mask, dropout_p, is_causal, scale)


_name_all(globals())
