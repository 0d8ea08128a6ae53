"""Functions of layers whose arguments or results at the top level are not those of `nn.functional`, as in PyTorch."""

from __future__ import annotations

from typing import Any

from .._refusals import name_all
from .._ternion import Tensor
from . import functional as F

__all__ = ["adaptive_max_pool1d", "alpha_dropout", "dropout", "feature_alpha_dropout"]


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


name_all(globals())
