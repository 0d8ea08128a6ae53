"""Functions of layers whose arguments or results at the top level differ from those in
`nn.functional`, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

from .._error_messages import name_all
from .._ternion import Tensor
from .._ternion import _functional as _native
from . import functional as F

__all__ = [
    "adaptive_max_pool1d", "alpha_dropout", "batch_norm", "binary_cross_entropy_with_logits", "celu", "cosine_embedding_loss", "ctc_loss", "dropout", "embedding",
    "embedding_bag", "feature_alpha_dropout", "group_norm", "hinge_embedding_loss", "instance_norm", "kl_div", "layer_norm", "margin_ranking_loss", "max_pool1d", "max_pool2d",
    "max_pool3d", "poisson_nll_loss", "rrelu", "selu", "threshold", "triplet_margin_loss",
]  # fmt: skip


def _reduction(op: str, reduction: Any) -> str:
    """Returns the name of a reduction from its number: 0 is none, 1 is mean, 2 is sum. PyTorch's
    functions at the top level default to 0.
    """
    if isinstance(reduction, bool) or not isinstance(reduction, int):
        raise TypeError(f"{op}: reduction {reduction!r}, expected 0 (none), 1 (mean) or 2 (sum): nn.functional.{op} takes names")
    if reduction not in (0, 1, 2):
        raise ValueError(f"{op}: reduction {reduction}, expected 0 (none), 1 (mean) or 2 (sum)")
    return ("none", "mean", "sum")[reduction]


def dropout(input: Tensor, p: float = 0.5, train: bool = True) -> Tensor:
    """Sets elements to 0 with probability `p` and divides the others by `1 - p`. Does nothing if
    `train` is False.

    Shapes: [..] -> the same

    Raises:
        ValueError: If the probability is outside 0 to 1.
    """
    return F.dropout(input, p, train)


def alpha_dropout(input: Tensor, p: float = 0.5, train: bool = False) -> Tensor:
    """Applies dropout that preserves mean 0 and variance 1, for networks with `selu`. Does nothing
    if `train` is False.

    Shapes: [..] -> the same

    Raises:
        ValueError: If the probability is outside 0 to 1.
        TypeError: If the input has an integer dtype.
    """
    return F.alpha_dropout(input, p, train)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, train: bool = False) -> Tensor:
    """Applies `alpha_dropout` to entire channels: [batch, channels, ..].

    Raises:
        ValueError: If the probability is outside 0 to 1, or the input has fewer than two axes.
        TypeError: If the input has an integer dtype.
    """
    return F.feature_alpha_dropout(input, p, train)


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """Computes the maxima of windows that divide sequences into `output_size` parts, and their
    indices (int64). The batch axis is optional.

    Shapes: [batch, channels, length] -> two of [batch, channels, output_size]

    Raises:
        ValueError: If the number of axes is invalid, a size is below 0, or the input is empty.
        TypeError: If the input is not a tensor.
    """
    return F.adaptive_max_pool1d(input, output_size, True)


def embedding(weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """Calls `nn.functional.embedding` with the weight first. A `padding_idx` of -1 means none.

    Shapes: weight [rows, width], indices [..] (int32 or int64) -> [.., width]

    Raises:
        IndexError: If an index is out of range.
        ValueError: Same as `nn.functional.embedding`.
    """
    return F.embedding(indices, weight, None if padding_idx == -1 else padding_idx, None, 2.0, scale_grad_by_freq, sparse)


def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Calls `nn.functional.embedding_bag` with the weight first and an integer mode
    (0 sum, 1 mean, 2 max). Also returns the bag of each index, the number of indices that each bag
    reduces, and the row of each maximum (for other modes, the numbers of indices again).

    As in PyTorch, sum mode returns zeros instead of the numbers of indices, and an empty tensor
    instead of the bag of each index unless the weight is float64 or there is a `padding_idx`.

    Shapes: weight [rows, width], indices [count] and offsets [bags] -> [bags, width], [count],
    [bags], and [bags, width] or [bags]

    Raises:
        IndexError: If an index is out of range.
        ValueError: If the mode is unknown; otherwise same as `nn.functional.embedding_bag`.
    """
    if mode not in (0, 1, 2):
        raise ValueError(f"embedding_bag: mode {mode!r}, expected 0, 1 or 2")
    settings = (include_last_offset, F._bag_padding_idx(weight, padding_idx, scale_grad_by_freq, sparse))
    return _native._embedding_bag_parts(indices, weight, offsets, ("sum", "mean", "max")[mode], per_sample_weights, settings)


def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: bool, momentum: float,
    eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """Calls `nn.functional.batch_norm` with the weights before the running statistics and all
    arguments required. `cudnn_enabled` has no effect.

    Shapes: [batch, channels, ..], the others [channels] -> the input's

    Raises:
        ValueError: Same as `nn.functional.batch_norm`.
    """
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, use_input_stats: bool, momentum: float,
    eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """Calls `nn.functional.instance_norm` with the weights before the running statistics and all
    arguments required. `cudnn_enabled` has no effect.

    Shapes: [batch, channels, ..], the others [channels] -> the input's

    Raises:
        ValueError: Same as `nn.functional.instance_norm`.
    """
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def layer_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, cudnn_enable: bool = True) -> Tensor:
    """Calls `nn.functional.layer_norm`. `cudnn_enable` has no effect.

    Shapes: [.., *normalized_shape], weight and bias [*normalized_shape] -> the shape of the input

    Raises:
        ValueError: If the last axes have other sizes.
        TypeError: If the dtype is not floating.
    """
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, cudnn_enabled: bool = True) -> Tensor:
    """Calls `nn.functional.group_norm`. `cudnn_enabled` has no effect.

    Shapes: [batch, channels, ..], weight and bias [channels] -> the input's

    Raises:
        ValueError: If the number of groups does not divide the channels.
        TypeError: If the dtype is not floating.
    """
    return F.group_norm(input, num_groups, weight, bias, eps)


def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Calls `nn.functional.celu`, never in place.

    Shapes: [..] -> the same

    Raises:
        ValueError: If `alpha` is 0.
    """
    return F.celu(input, alpha)


def selu(input: Tensor) -> Tensor:
    """Calls `nn.functional.selu`, never in place.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
    return F.selu(input)


def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """Calls `nn.functional.threshold`, never in place.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
    return F.threshold(input, threshold, value)


def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """Calls `nn.functional.rrelu`, never in place.

    Shapes: [..] -> the same

    Raises:
        ValueError: If `lower` is above `upper`.
    """
    return F.rrelu(input, lower, upper, training)


def max_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Tensor:
    """Calls `nn.functional.max_pool1d` and returns no indices.

    Shapes: [batch, channels, length] -> [batch, channels, windows]

    Raises:
        ValueError: Same as `nn.functional.max_pool1d`.
    """
    return F.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Tensor:
    """Calls `nn.functional.max_pool2d` and returns no indices.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Raises:
        ValueError: Same as `nn.functional.max_pool2d`.
    """
    return F.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Tensor:
    """Calls `nn.functional.max_pool3d` and returns no indices.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, layers, rows, columns]

    Raises:
        ValueError: Same as `nn.functional.max_pool3d`.
    """
    return F.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode)


def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Tensor:
    """Calls `nn.functional.kl_div` with an integer reduction: 0 none, 1 mean, 2 sum.

    Shapes: two tensors of the same shape -> that shape, or [] for reduction 1 and 2

    Raises:
        ValueError: If `reduction` is unknown, or the shapes differ.
        TypeError: If `reduction` is a name, or the dtype is not floating.
    """
    return F.kl_div(input, target, reduction=_reduction("kl_div", reduction), log_target=log_target)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 0
) -> Tensor:
    """Calls `nn.functional.binary_cross_entropy_with_logits` with an integer reduction, which is
    the last argument: 0 none, 1 mean, 2 sum.

    Shapes: [..] and the same -> the same, or [] for reduction 1 and 2

    Raises:
        ValueError: If `reduction` is unknown, or the shapes differ.
        TypeError: If `reduction` is a name, or the dtype is not floating.
    """
    name = "binary_cross_entropy_with_logits"
    return F.binary_cross_entropy_with_logits(input, target, weight, reduction=_reduction(name, reduction), pos_weight=pos_weight)


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """Calls `nn.functional.poisson_nll_loss` with an integer reduction (0 none, 1 mean, 2 sum) and
    all arguments required.

    Shapes: [..] and the same -> the same, or [] for reduction 1 and 2

    Raises:
        ValueError: If `reduction` is unknown, or the shapes do not broadcast.
        TypeError: If `reduction` is a name.
    """
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_reduction("poisson_nll_loss", reduction))


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0) -> Tensor:
    """Calls `nn.functional.cosine_embedding_loss` with an integer reduction: 0 none, 1 mean, 2 sum.

    Shapes: [batch, width], the same and [batch] -> [batch], or [] for reduction 1 and 2

    Raises:
        ValueError: If `reduction` is unknown, or the shapes do not match.
        TypeError: If `reduction` is a name.
    """
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_reduction("cosine_embedding_loss", reduction))


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Tensor:
    """Calls `nn.functional.hinge_embedding_loss` with an integer reduction: 0 none, 1 mean, 2 sum.

    Shapes: [..] and the same -> the same, or [] for reduction 1 and 2

    Raises:
        ValueError: If `reduction` is unknown, or the shapes do not broadcast.
        TypeError: If `reduction` is a name, or a tensor has an integer dtype.
    """
    return F.hinge_embedding_loss(input, target, margin, reduction=_reduction("hinge_embedding_loss", reduction))


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0) -> Tensor:
    """Calls `nn.functional.margin_ranking_loss` with an integer reduction: 0 none, 1 mean, 2 sum.

    Shapes: [..], the same and the same -> the same, or [] for reduction 1 and 2

    Raises:
        ValueError: If `reduction` is unknown, or the shapes do not broadcast.
        TypeError: If `reduction` is a name.
    """
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_reduction("margin_ranking_loss", reduction))


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: int = 0,
) -> Tensor:  # fmt: skip
    """Calls `nn.functional.triplet_margin_loss` with an integer reduction: 0 none, 1 mean, 2 sum.

    Shapes: [.., width], the same and the same -> [..], or [] for reduction 1 and 2

    Raises:
        ValueError: If `reduction` is unknown, the margin is not above 0, or the shapes do not
            broadcast.
        TypeError: If `reduction` is a name.
    """
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_reduction("triplet_margin_loss", reduction))


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 0, zero_infinity: bool = False
) -> Tensor:
    """Calls `nn.functional.ctc_loss` with an integer reduction: 0 none, 1 mean, 2 sum.

    Shapes: log-probabilities [time, batch, classes] and targets [batch, length] -> [batch], or []
    for reduction 1 and 2

    Raises:
        IndexError: If a target is out of range.
        ValueError: If `reduction` is unknown; otherwise same as `nn.functional.ctc_loss`.
        TypeError: If `reduction` is a name.
    """
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _reduction("ctc_loss", reduction), zero_infinity)


name_all(globals())
