"""Sequences of several lengths as one batch."""

from __future__ import annotations

from collections.abc import Iterable

from ..._ternion import Tensor, stack
from .. import functional as F

__all__ = ["pad_sequence", "unpad_sequence"]


def __dir__() -> list[str]:
    return __all__


def pad_sequence(sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right") -> Tensor:
    """Sequences [length, ..] of several lengths, padded to the longest: [longest, batch, ..], with `batch_first` [batch, longest, ..].

    Raises:
        ValueError: no sequences, axes behind the first that differ, another side than "left" or "right".
    """
    listed = list(sequences)
    if padding_side not in ("left", "right"):
        raise ValueError(f"pad_sequence: padding_side {padding_side!r}, expected \"left\" or \"right\"")
    if not listed or any(sequence.ndim == 0 or sequence.shape[1:] != listed[0].shape[1:] for sequence in listed):
        raise ValueError(f"pad_sequence: sequences of shapes {[tuple(sequence.shape) for sequence in listed]}, expected some that differ in the first axis alone")
    longest = max(len(sequence) for sequence in listed)
    padded = []
    for sequence in listed:
        more = longest - len(sequence)
        amounts = [0, 0] * (sequence.ndim - 1) + ([more, 0] if padding_side == "left" else [0, more])
        padded.append(F.pad(sequence, amounts, value=padding_value))
    return stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Iterable[int], batch_first: bool = False) -> list[Tensor]:
    """What `pad_sequence` padded on the right, as sequences of these lengths.

    Shapes: [longest, batch, ..], with `batch_first` [batch, longest, ..] -> [length, ..] each

    Raises:
        IndexError: less than 2 axes.
    """
    batch = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [sequence[: int(length)] for sequence, length in zip(batch.unbind(0), lengths)]
