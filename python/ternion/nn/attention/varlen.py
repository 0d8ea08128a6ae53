"""Attention within sequences of different lengths that are stored one after another. Names and arguments are PyTorch's."""

from __future__ import annotations

from typing import NamedTuple

from ..._ternion import Tensor, _functional as _native

__all__ = ["AuxRequest", "varlen_attn"]


def __dir__() -> list[str]:
    return __all__


class AuxRequest(NamedTuple):
    """Which results `varlen_attn` gives beside its output."""

    lse: bool = False


def varlen_attn(
    query: Tensor, key: Tensor, value: Tensor, cu_seq_q: Tensor, cu_seq_k: Tensor, max_q: int, max_k: int, *,
    return_aux: AuxRequest | None = None, scale: float | None = None, window_size: tuple[int, int] = (-1, -1), dropout_p: float = 0.0,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """`scaled_dot_product_attention` within each of several sequences, whose rows need no padding (Dao 2023).

    A query sees keys of its own sequence alone. Its position counts from the end of the sequence: the last query is at the position of the last key.

    Shapes: query [rows, heads, head_dim], key [key_rows, kv_heads, head_dim], value [key_rows, kv_heads, value_dim] -> [rows, heads, value_dim]; rows of all
    sequences together

    Args:
        cu_seq_q: int32 [sequences + 1]: 0, then where each sequence of queries ends.
        cu_seq_k: the same of keys and values.
        max_q, max_k: the longest sequences. Ternion does not need them; they are checked to be whole numbers from 0 on.
        return_aux: with `lse`, the log-sum-exp of each query's scores is a second result, [heads, rows].
        scale: of the scores; 1 / sqrt(head_dim) by default.
        window_size: how many keys to the left and to the right of its position a query sees; -1 is all. (-1, -1) is all keys, (-1, 0) causal, (W, 0) causal with
            a window, (W, W) a window on both sides.
        dropout_p: the probability with which a weight becomes 0; beyond PyTorch. The log-sum-exp is that of the scores before.

    Raises:
        ValueError: shapes that do not fit, another `window_size`, a negative length, a probability outside 0 to 1; on the CPU also lengths that fall or are
            more than there are rows.
        TypeError: lengths that are not int32, dtypes that differ.
    """
    for name, longest in (("max_q", max_q), ("max_k", max_k)):
        _check_longest("varlen_attn", name, longest)
    is_causal, window = _reach(window_size)
    output, lse = _native.varlen_attn(query, key, value, cu_seq_q, cu_seq_k, scale, is_causal, window, dropout_p)
    return (output, lse) if return_aux is not None and return_aux.lse else output


def _check_longest(function: str, name: str, longest: object) -> None:
    if isinstance(longest, bool) or not isinstance(longest, int) or longest < 0:
        raise ValueError(f"{function}: {name} is {longest!r}, expected a whole number from 0 on")


def _reach(window_size: tuple[int, int]) -> tuple[bool, int | None]:
    """Whether a query sees no key behind its position, and how many positions it sees back, its own counted."""
    left, right = window_size
    if right == 0 and left >= -1:
        return True, None if left == -1 else left + 1
    if left == right and left >= -1:
        return False, None if left == -1 else left + 1
    raise ValueError(f"varlen_attn: window_size {tuple(window_size)}, expected (-1, -1), (-1, 0), (W, 0) or (W, W)")
