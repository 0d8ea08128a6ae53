"""Batches of sequences of different lengths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ... import _ternion
from ..._error_messages import name_all
from ..._ternion import Tensor, as_tensor, cat, full, stack, tensor
from .. import functional as F

__all__ = ["PackedSequence", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence"]


def __dir__() -> list[str]:
    return __all__


def pad_sequence(sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right") -> Tensor:
    """Pads sequences [length, ..] of different lengths to the longest: [longest, batch, ..], with
    `batch_first` [batch, longest, ..].

    Raises:
        ValueError: If there are no sequences, their axes after the first differ, or `padding_side`
            is neither "left" nor "right".
    """
    if padding_side not in ("left", "right"):
        raise ValueError(f"pad_sequence: padding_side {padding_side!r}, expected \"left\" or \"right\"")
    return _ternion._pad_sequence(list(sequences), batch_first, padding_side == "left", padding_value)


def unpad_sequence(padded_sequences: Tensor, lengths: Iterable[int], batch_first: bool = False) -> list[Tensor]:
    """Splits a right-padded result of `pad_sequence` into sequences of the given lengths.

    Shapes: [longest, batch, ..], with `batch_first` [batch, longest, ..] -> [length, ..] each

    Raises:
        IndexError: If the tensor has fewer than 2 axes.
    """
    batch = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [sequence[: int(length)] for sequence, length in zip(batch.unbind(0), lengths)]


class PackedSequence(NamedTuple):
    """Sequences of different lengths without padding: the first elements of all sequences, then the
    second elements of those that have one, and so on, with the longest sequence first.

    Shapes: data [elements of all, ..], batch_sizes [longest], sorted_indices and unsorted_indices
    [batch]

    Args:
        data: the elements.
        batch_sizes: the number of sequences that have an element at each time step; on the CPU.
        sorted_indices: the original index of each sequence, from the longest to the shortest; None
            if they were given in this order.
        unsorted_indices: the current index of each original sequence.
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are on a CUDA device."""
        return self.data.is_cuda

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Moves the elements to another device, converts them to another dtype, or both.

        Raises:
            RuntimeError: If the device does not exist.
        """
        data = self.data.to(*args, **kwargs)
        moved = (index if index is None else index.to(data.device) for index in self[2:])
        return PackedSequence(data, self.batch_sizes, *moved)

    def cpu(self) -> PackedSequence:
        """Calls `to("cpu")`."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> PackedSequence:
        """Calls `to("cuda")`.

        Raises:
            RuntimeError: If the device does not exist.
        """
        return self.to(f"cuda:{device or 0}")


# Packed data is ordered by time step, and within a time step by sequence, the longest first: the
# rows of a [longest, batch] table.


def _has_element(lengths: np.ndarray) -> np.ndarray:
    """Returns whether each sequence, the longest first, has an element at each time step:
    [longest, batch].
    """
    return np.asarray(np.arange(lengths.max())[:, None] < lengths)


def _packed_has_element(sequence: PackedSequence) -> np.ndarray:
    sizes = np.asarray(sequence.batch_sizes.tolist())
    return np.asarray(np.arange(sizes[0]) < sizes[:, None])


def _select_rows(input: Tensor, indices: np.ndarray) -> Tensor:
    return input.index_select(0, as_tensor(np.ascontiguousarray(indices, np.int64).reshape(-1)).to(input.device))


def _pad_packed(data: Tensor, has_element: np.ndarray, length: int, value: float, order: Any) -> Tensor:
    """Unpacks data to [batch, longest, ..], with the sequences in the given order."""
    rows = np.full((length, has_element.shape[1]), len(data))
    rows[: len(has_element)][has_element] = np.arange(len(data))
    padding = full((1, *data.shape[1:]), value, dtype=data.dtype, device=data.device)
    return _select_rows(cat([data, padding]), rows[:, order].T).reshape(rows.shape[1], length, *data.shape[1:])


def _unpack(sequence: PackedSequence) -> tuple[Tensor, np.ndarray]:
    """Returns [batch, longest, ..], with the longest sequence first, and a mask of the elements:
    [longest, batch].
    """
    has_element = _packed_has_element(sequence)
    return _pad_packed(sequence.data, has_element, len(has_element), 0.0, slice(None)), has_element


def _repack(sequence: PackedSequence, batches: Tensor, has_element: np.ndarray) -> PackedSequence:
    """Packs [batch, longest, ..] in the same way as `sequence`, from which it was unpacked."""
    time_steps, sequences = np.nonzero(has_element)
    data = _select_rows(batches.reshape(-1, *batches.shape[2:]), sequences * len(has_element) + time_steps)
    return PackedSequence(data, *sequence[1:])


def pack_padded_sequence(input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> PackedSequence:
    """Packs padded sequences, for `nn.LSTM` and other recurrent layers.

    Shapes: [longest, batch, ..], with `batch_first` [batch, longest, ..], lengths [batch] -> data
    [elements of all, ..]

    Args:
        lengths: the length of each sequence, as a list or a tensor.
        enforce_sorted: whether lengths that are not in descending order are an error. Otherwise the
            sequences are sorted, and `pad_packed_sequence` restores their original order.

    Raises:
        ValueError: If a length is below 1 or above the padded length, the number of lengths is not
            that of the sequences, or lengths are not in descending order with `enforce_sorted`.
    """
    sizes = np.asarray(lengths.tolist() if isinstance(lengths, Tensor) else [int(length) for length in lengths])
    batch, longest = input.shape[:2] if batch_first else (input.shape[1], input.shape[0])
    if sizes.shape != (batch,):
        raise ValueError(f"pack_padded_sequence: lengths of shape {sizes.shape} for {batch} sequences")
    if batch == 0 or sizes.min() < 1 or sizes.max() > longest:
        raise ValueError(f"pack_padded_sequence: lengths {sizes.tolist()}, expected 1 to {longest}")
    order = np.arange(batch) if enforce_sorted else np.argsort(-sizes, kind="stable")
    if (np.diff(sizes[order]) > 0).any():
        raise ValueError(f"pack_padded_sequence: lengths {sizes.tolist()}, expected the longest first: enforce_sorted=False sorts them")
    has_element = _has_element(sizes[order])
    time_steps, sequences = np.nonzero(has_element)
    steps = (longest, 1) if batch_first else (1, batch)
    data = _select_rows(input.reshape(-1, *input.shape[2:]), order[sequences] * steps[0] + time_steps * steps[1])
    indices = () if enforce_sorted else (tensor(order.tolist(), device=input.device), tensor(np.argsort(order).tolist(), device=input.device))
    return PackedSequence(data, tensor(has_element.sum(1).tolist(), device="cpu"), *indices)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Pads packed sequences. Returns them in their original order, and their lengths.

    Shapes: data [elements of all, ..] -> [longest, batch, ..], with `batch_first`
    [batch, longest, ..], and [batch]

    Args:
        total_length: the length with padding; that of the longest sequence by default.

    Raises:
        ValueError: If `total_length` is below the length of the longest sequence.
    """
    has_element = _packed_has_element(sequence)
    longest = len(has_element) if total_length is None else total_length
    if longest < len(has_element):
        raise ValueError(f"pad_packed_sequence: total_length {longest}, expected at least {len(has_element)}, the length of the longest sequence")
    order = slice(None) if sequence.unsorted_indices is None else np.asarray(sequence.unsorted_indices.tolist())
    batches = _pad_packed(sequence.data, has_element, longest, padding_value, order)
    lengths = tensor(has_element.sum(0)[order].tolist(), device="cpu")
    return batches if batch_first else batches.transpose(0, 1), lengths


def pack_sequence(sequences: Iterable[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences [length, ..] of different lengths.

    Raises:
        ValueError: If there are no sequences, a sequence is empty, their axes after the first
            differ, or lengths are not in descending order with `enforce_sorted`.
    """
    sequence_list = list(sequences)
    return pack_padded_sequence(pad_sequence(sequence_list), [len(sequence) for sequence in sequence_list], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Returns the sequences [length, ..] in their original order.

    Raises:
        AttributeError: If the argument is not a `PackedSequence`.
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths.tolist(), batch_first=True)


name_all(globals())
