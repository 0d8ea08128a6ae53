"""Functions of layers whose arguments or results at the top level are not those of `nn.functional`, as in PyTorch."""

from __future__ import annotations

from typing import Any

from .._refusals import name_all
from .._ternion import Tensor
from .._ternion import _functional as _native
from . import functional as F

__all__ = [
    "adaptive_max_pool1d", "alpha_dropout", "batch_norm", "binary_cross_entropy_with_logits", "celu", "cosine_embedding_loss", "ctc_loss", "dropout", "embedding",
    "embedding_bag", "feature_alpha_dropout", "group_norm", "hinge_embedding_loss", "instance_norm", "kl_div", "layer_norm", "margin_ranking_loss", "max_pool1d", "max_pool2d",
    "max_pool3d", "poisson_nll_loss", "rrelu", "selu", "threshold", "triplet_margin_loss",
]  # fmt: skip


def _reduction(op: str, reduction: Any) -> str:
    """What a number says of how losses become one: 0 that they stay, 1 their mean, 2 their sum. PyTorch's functions at the top level take 0 if none is given."""
    if isinstance(reduction, bool) or not isinstance(reduction, int):
        raise TypeError(f"{op}: reduction {reduction!r}, expected 0 (none), 1 (mean) or 2 (sum): nn.functional.{op} takes names")
    if reduction not in (0, 1, 2):
        raise ValueError(f"{op}: reduction {reduction}, expected 0 (none), 1 (mean) or 2 (sum)")
    return ("none", "mean", "sum")[reduction]


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


def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: bool, momentum: float,
    eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """`nn.functional.batch_norm` with the weights before the running statistics, and no argument left out; there is one way to compute.

    Shapes: [batch, channels, ..], the others [channels] -> the input's

    Raises:
        ValueError: as `nn.functional.batch_norm`.
    """
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, use_input_stats: bool, momentum: float,
    eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """`nn.functional.instance_norm` with the weights before the running statistics, and no argument left out; there is one way to compute.

    Shapes: [batch, channels, ..], the others [channels] -> the input's

    Raises:
        ValueError: as `nn.functional.instance_norm`.
    """
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def layer_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, cudnn_enable: bool = True) -> Tensor:
    """`nn.functional.layer_norm`; there is one way to compute.

    Shapes: [.., *normalized_shape], weight and bias [*normalized_shape] -> the shape of the input

    Raises:
        ValueError: last axes of other sizes.
        TypeError: no floating dtype.
    """
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, cudnn_enabled: bool = True) -> Tensor:
    """`nn.functional.group_norm`; there is one way to compute.

    Shapes: [batch, channels, ..], weight and bias [channels] -> the input's

    Raises:
        ValueError: channels that do not divide into the groups.
        TypeError: no floating dtype.
    """
    return F.group_norm(input, num_groups, weight, bias, eps)


def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`nn.functional.celu`, never in place.

    Shapes: [..] -> the same

    Raises:
        ValueError: `alpha` 0.
    """
    return F.celu(input, alpha)


def selu(input: Tensor) -> Tensor:
    """`nn.functional.selu`, never in place.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
    return F.selu(input)


def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """`nn.functional.threshold`, never in place.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
    return F.threshold(input, threshold, value)


def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """`nn.functional.rrelu`, never in place.

    Shapes: [..] -> the same

    Raises:
        ValueError: ends in the wrong order.
    """
    return F.rrelu(input, lower, upper, training)


def max_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Tensor:
    """`nn.functional.max_pool1d`, without indices.

    Shapes: [batch, channels, length] -> [batch, channels, windows]

    Raises:
        ValueError: as `nn.functional.max_pool1d`.
    """
    return F.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Tensor:
    """`nn.functional.max_pool2d`, without indices.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Raises:
        ValueError: as `nn.functional.max_pool2d`.
    """
    return F.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Tensor:
    """`nn.functional.max_pool3d`, without indices.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, layers, rows, columns]

    Raises:
        ValueError: as `nn.functional.max_pool3d`.
    """
    return F.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode)


def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Tensor:
    """`nn.functional.kl_div` with a number for the reduction: 0 of none, 1 of the mean, 2 of the sum.

    Shapes: two of one shape -> that shape, of reduction 1 and 2 []

    Raises:
        ValueError: another reduction, shapes that differ.
        TypeError: the name of a reduction, no floating dtype.
    """
    return F.kl_div(input, target, reduction=_reduction("kl_div", reduction), log_target=log_target)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 0
) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits` with a number for the reduction, which comes last: 0 of none, 1 of the mean, 2 of the sum.

    Shapes: [..] and the same -> the same, of reduction 1 and 2 []

    Raises:
        ValueError: another reduction, shapes that differ.
        TypeError: the name of a reduction, no floating dtype.
    """
    name = "binary_cross_entropy_with_logits"
    return F.binary_cross_entropy_with_logits(input, target, weight, reduction=_reduction(name, reduction), pos_weight=pos_weight)


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """`nn.functional.poisson_nll_loss` with a number for the reduction and no argument left out: 0 of none, 1 of the mean, 2 of the sum.

    Shapes: [..] and the same -> the same, of reduction 1 and 2 []

    Raises:
        ValueError: another reduction, shapes that do not broadcast.
        TypeError: the name of a reduction.
    """
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_reduction("poisson_nll_loss", reduction))


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0) -> Tensor:
    """`nn.functional.cosine_embedding_loss` with a number for the reduction: 0 of none, 1 of the mean, 2 of the sum.

    Shapes: [batch, width], the same and [batch] -> [batch], of reduction 1 and 2 []

    Raises:
        ValueError: another reduction, other shapes.
        TypeError: the name of a reduction.
    """
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_reduction("cosine_embedding_loss", reduction))


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Tensor:
    """`nn.functional.hinge_embedding_loss` with a number for the reduction: 0 of none, 1 of the mean, 2 of the sum.

    Shapes: [..] and the same -> the same, of reduction 1 and 2 []

    Raises:
        ValueError: another reduction, shapes that do not broadcast.
        TypeError: the name of a reduction, whole numbers.
    """
    return F.hinge_embedding_loss(input, target, margin, reduction=_reduction("hinge_embedding_loss", reduction))


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0) -> Tensor:
    """`nn.functional.margin_ranking_loss` with a number for the reduction: 0 of none, 1 of the mean, 2 of the sum.

    Shapes: [..], the same and the same -> the same, of reduction 1 and 2 []

    Raises:
        ValueError: another reduction, shapes that do not broadcast.
        TypeError: the name of a reduction.
    """
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_reduction("margin_ranking_loss", reduction))


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: int = 0,
) -> Tensor:  # fmt: skip
    """`nn.functional.triplet_margin_loss` with a number for the reduction: 0 of none, 1 of the mean, 2 of the sum.

    Shapes: [.., width], the same and the same -> [..], of reduction 1 and 2 []

    Raises:
        ValueError: another reduction, a margin that is not above 0, shapes that do not broadcast.
        TypeError: the name of a reduction.
    """
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_reduction("triplet_margin_loss", reduction))


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 0, zero_infinity: bool = False
) -> Tensor:
    """`nn.functional.ctc_loss` with a number for the reduction: 0 of none, 1 of the mean, 2 of the sum.

    Shapes: log-probabilities [time, batch, classes] and targets [batch, length] -> [batch], of reduction 1 and 2 []

    Raises:
        IndexError: a target that is no class.
        ValueError: another reduction; as `nn.functional.ctc_loss`.
        TypeError: the name of a reduction.
    """
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _reduction("ctc_loss", reduction), zero_infinity)


name_all(globals())
