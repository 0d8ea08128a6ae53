"""Functions of layers whose arguments or results at the top level are not those of `nn.functional`, as in PyTorch."""

from __future__ import annotations

from typing import Any

from .._ternion import _functional as _native
from .._refusals import name_all
from .._ternion import Tensor
from . import functional as F

__all__ = ["adaptive_max_pool1d", "alpha_dropout", "dropout", "embedding", "embedding_bag", "feature_alpha_dropout"]


def dropout(input: Tensor, p: float = 0.5, train: bool = True) -> Tensor:
    """Elements become 0 with probability `p`, the others are divided by `1 - p`; nothing changes if `train` is False.

    Shapes: [..] -> the same

    Raises:
        ValueError: a probability outside 0 to 1.
    """
    return F.dropout(input, p, train)


def alpha_dropout(input: Tensor, p: float = 0.5, train: bool = False) -> Tensor:
    """Dropout that keeps a mean of 0 and a variance of 1, for networks of `selu`; nothing changes if `train` is False.

    Shapes: [..] -> the same

    Raises:
        ValueError: a probability outside 0 to 1.
        TypeError: whole numbers.
    """
    return F.alpha_dropout(input, p, train)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, train: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels: [batch, channels, ..].

    Raises:
        ValueError: a probability outside 0 to 1, less than two axes.
        TypeError: whole numbers.
    """
    return F.feature_alpha_dropout(input, p, train)


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """The largest elements of windows that divide sequences into `output_size` parts, and where they are (int64). The batch may be left out.

    Shapes: [batch, channels, length] -> two of [batch, channels, output_size]

    Raises:
        ValueError: another number of axes, a size below 0, no elements.
        TypeError: no tensor.
    """
    return F.adaptive_max_pool1d(input, output_size, True)


def embedding(weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """`nn.functional.embedding` with the weight first, and -1 in place of no `padding_idx`.

    Shapes: weight [rows, width], indices [..] (int32 or int64) -> [.., width]

    Raises:
        IndexError: a number that is none of a row.
        ValueError: as `nn.functional.embedding`.
    """
    return F.embedding(indices, weight, None if padding_idx == -1 else padding_idx, None, 2.0, scale_grad_by_freq, sparse)


def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """`nn.functional.embedding_bag` with the weight first and a number for the mode, 0 of the sum, 1 of the mean, 2 of the largest, and what belongs to it:
    the bag of each index, how many count in each bag, and of the largest elements the rows that they are from, else the numbers that count.

    As in PyTorch a sum has zeros in place of the numbers that count, and the bag of each index only if it is in float64 or has a `padding_idx`.

    Shapes: weight [rows, width], indices [count] and offsets [bags] -> [bags, width], [count], [bags], and [bags, width] or [bags]

    Raises:
        IndexError: a number that is none of a row.
        ValueError: another mode; as `nn.functional.embedding_bag`.
    """
    if mode not in (0, 1, 2):
        raise ValueError(f"embedding_bag: mode {mode!r}, expected 0, 1 or 2")
    settings = (include_last_offset, F._bags_padding(weight, padding_idx, scale_grad_by_freq, sparse))
    return _native._embedding_bag_parts(indices, weight, offsets, ("sum", "mean", "max")[mode], per_sample_weights, settings)


name_all(globals())
