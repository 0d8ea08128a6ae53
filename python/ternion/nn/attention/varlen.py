"""Attention within concatenated sequences of different lengths. Names and arguments are PyTorch's.
"""

from __future__ import annotations

from typing import NamedTuple

from ..._ternion import Tensor, _functional as _native

__all__ = ["AuxRequest", "varlen_attn"]


def __dir__() -> list[str]:
    return __all__


class AuxRequest(NamedTuple):
    """The results that `varlen_attn` returns in addition to its output."""

    lse: bool = False


def varlen_attn(
    query: Tensor, key: Tensor, value: Tensor, cu_seq_q: Tensor, cu_seq_k: Tensor, max_q: int, max_k: int, *,
    return_aux: AuxRequest | None = None, scale: float | None = None, window_size: tuple[int, int] = (-1, -1), dropout_p: float = 0.0,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Computes `scaled_dot_product_attention` within each of several sequences, which are
    concatenated without padding (Dao 2023).

    A query attends only to the keys of the same sequence. Positions are aligned at the end of the
    sequence: the last query is at the position of the last key.

    Shapes: query [rows, heads, head_dim], key [key_rows, kv_heads, head_dim], value
    [key_rows, kv_heads, value_dim] -> [rows, heads, value_dim]; the rows are those of all sequences

    Args:
        cu_seq_q: int32 [sequences + 1]: 0, then the end of each sequence of queries.
        cu_seq_k: the same for keys and values.
        max_q, max_k: the lengths of the longest sequences. Ternion does not need them; they must be
            integers that are at least 0.
        return_aux: with `lse`, the log-sum-exp of each query's scores is returned as a second
            result, [heads, rows].
        scale: the factor of the scores; 1 / sqrt(head_dim) by default.
        window_size: the number of keys to the left and to the right of its position that a query
            attends to; -1 means unlimited. (-1, -1) is all keys, (-1, 0) is causal, (W, 0) is
            causal with a window, (W, W) is a window on both sides.
        dropout_p: the dropout probability of attention weights; an extension of PyTorch's function.
            The log-sum-exp is taken before dropout.

    Raises:
        ValueError: If the shapes do not match, `window_size` is unsupported, a length is negative,
            or the probability is outside 0 to 1; on the CPU also if the cumulative lengths decrease
            or exceed the number of rows.
        TypeError: If the cumulative lengths are not int32, or the dtypes differ.
    """
    for name, length in (("max_q", max_q), ("max_k", max_k)):
        _check_max_length("varlen_attn", name, length)
    is_causal, window = _causal_and_window(window_size)
    output, lse = _native.varlen_attn(query, key, value, cu_seq_q, cu_seq_k, scale, is_causal, window, dropout_p)
    return (output, lse) if return_aux is not None and return_aux.lse else output


def _check_max_length(function: str, name: str, length: object) -> None:
    if isinstance(length, bool) or not isinstance(length, int) or length < 0:
        raise ValueError(f"{function}: {name} is {length!r}, expected an integer from 0 on")


def _causal_and_window(window_size: tuple[int, int]) -> tuple[bool, int | None]:
    """Returns whether attention is causal, and the window: the number of positions that a query
    attends to backward, including its own, or None.
    """
    left, right = window_size
    if right == 0 and left >= -1:
        return True, None if left == -1 else left + 1
    if left == right and left >= -1:
        return False, None if left == -1 else left + 1
    raise ValueError(f"varlen_attn: window_size {tuple(window_size)}, expected (-1, -1), (-1, 0), (W, 0) or (W, W)")
