"""Losses as layers."""

from __future__ import annotations

from typing import Any

from .._ternion import Tensor
from . import functional as F
from .layers import PairwiseDistance
from .module import Module

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss",
    "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "PoissonNLLLoss", "SmoothL1Loss",
    "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _Loss(Module):
    reduction: str

    def _set_options(self, reduction: Any, **settings: Any) -> None:
        allowed = ("none", "mean", "sum", "batchmean") if isinstance(self, KLDivLoss) else ("none", "mean", "sum")
        if reduction not in allowed:
            kind = ValueError if isinstance(reduction, str) else TypeError
            raise kind(f"{type(self).__name__}: reduction {reduction!r}, expected one of {', '.join(allowed)}")
        self.reduction = reduction
        for name, value in settings.items():
            setattr(self, name, value)

    def _register_weight(self, name: str, weight: Tensor | None) -> None:
        if weight is not None and not isinstance(weight, Tensor):
            raise TypeError(f"{type(self).__name__}: {name} of type {type(weight).__name__}, expected a tensor or None")
        self.register_buffer(name, weight)


class CrossEntropyLoss(_Loss):
    """Computes the cross-entropy of logits with class indices or class probabilities.

    Shapes: [batch, classes, ..] and [batch, ..] (int32 or int64) or probabilities of the logits'
    shape -> [], or [batch, ..] if `reduction` is "none"

    Args:
        weight: the weight of each class, [classes].
        ignore_index: a target index that is ignored.
        label_smoothing: the fraction of a label that is distributed over all classes, 0 to 1.

    Raises:
        ValueError: If `reduction` is unknown; when called, if the shapes do not match or
            `label_smoothing` is outside 0 to 1.
        TypeError: If `weight` is not a tensor; when called, if the target is not a tensor.
        IndexError: When called, if a class index is out of range.
    """

    weight: Tensor | None
    ignore_index: int
    label_smoothing: float

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0):
        self._register_weight("weight", weight)
        self._set_options(reduction, ignore_index=ignore_index, label_smoothing=label_smoothing)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction, label_smoothing=self.label_smoothing)


class NLLLoss(_Loss):
    """Computes the negative log-likelihood of class indices.

    Shapes: [batch, classes, ..] and [batch, ..] (int32 or int64) -> [], or [batch, ..] if
    `reduction` is "none"

    Args:
        weight: the weight of each class, [classes].
        ignore_index: a target index that is ignored.

    Raises:
        ValueError: If `reduction` is unknown; when called, if the shapes do not match.
        TypeError: If `weight` is not a tensor; when called, if the target has a floating dtype.
        IndexError: When called, if a class index is out of range.
    """

    weight: Tensor | None
    ignore_index: int

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"):
        self._register_weight("weight", weight)
        self._set_options(reduction, ignore_index=ignore_index)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class MSELoss(_Loss):
    """Computes `(input - target)^2`.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If `reduction` is not "none", "mean" or "sum"; when called, if the shapes do not
            broadcast.
        TypeError: When called, if an argument is not a tensor or has an integer dtype.
    """

    def __init__(self, reduction: str = "mean"):
        self._set_options(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """Computes `|input - target|`.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If `reduction` is not "none", "mean" or "sum"; when called, if the shapes do not
            broadcast.
        TypeError: When called, if an argument is not a tensor or has an integer dtype.
    """

    def __init__(self, reduction: str = "mean"):
        self._set_options(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Computes a loss that is quadratic up to a distance of `beta` and linear beyond, with a
    gradient of 1 in the linear part.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If `reduction` is unknown; when called, if the shapes do not broadcast or `beta`
            is below 0.
        TypeError: When called, if an argument is not a tensor or has an integer dtype.
    """

    beta: float

    def __init__(self, reduction: str = "mean", beta: float = 1.0):
        self._set_options(reduction, beta=beta)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Computes a loss that is quadratic up to a distance of `delta` and linear beyond.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If `reduction` is unknown; when called, if the shapes do not broadcast or
            `delta` is not above 0.
        TypeError: When called, if an argument is not a tensor or has an integer dtype.
    """

    delta: float

    def __init__(self, reduction: str = "mean", delta: float = 1.0):
        self._set_options(reduction, delta=delta)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, self.reduction, self.delta)


class BCELoss(_Loss):
    """Computes the binary cross-entropy of probabilities.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Args:
        weight: the weight of each element, broadcast.

    Raises:
        ValueError: If `reduction` is unknown; when called, if the shapes differ or the weights do
            not broadcast.
        TypeError: If `weight` is not a tensor.
    """

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean"):
        self._register_weight("weight", weight)
        self._set_options(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Computes the binary cross-entropy of logits with target probabilities.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Args:
        weight: the weight of each element, broadcast.
        pos_weight: the weight of positive targets relative to negative ones, broadcast.

    Raises:
        ValueError: If `reduction` is unknown; when called, if the shapes differ or the weights do
            not broadcast.
        TypeError: When called, if an argument is not a tensor or has an integer dtype.
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None):
        self._register_weight("weight", weight)
        self._register_weight("pos_weight", pos_weight)
        self._set_options(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight)


class KLDivLoss(_Loss):
    """Computes the Kullback-Leibler divergence of log-probabilities from a target.

    Shapes: [batch, ..] and the same -> [], or [batch, ..] if `reduction` is "none"

    Args:
        reduction: in addition to the usual ones, "batchmean": the sum divided by the batch size.
        log_target: whether the targets are log-probabilities as well.

    Raises:
        ValueError: If `reduction` is unknown; when called, if the shapes differ.
        TypeError: When called, if an argument is not a tensor or has an integer dtype.
    """

    log_target: bool

    def __init__(self, reduction: str = "mean", log_target: bool = False):
        self._set_options(reduction, log_target=log_target)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class MarginRankingLoss(_Loss):
    """Computes `max(0, -target * (input1 - input2) + margin)`.

    Shapes: [..], the same and the same (1 or -1) -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If `reduction` is unknown; when called, if the shapes do not broadcast.
    """

    margin: float

    def __init__(self, margin: float = 0.0, reduction: str = "mean"):
        self._set_options(reduction, margin=margin)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    """Computes `input` where the target is 1 and `max(0, margin - input)` where it is -1.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If `reduction` is unknown; when called, if the shapes do not broadcast.
    """

    margin: float

    def __init__(self, margin: float = 1.0, reduction: str = "mean"):
        self._set_options(reduction, margin=margin)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """Computes `1 - cos` where the target is 1 and `max(0, cos - margin)` where it is -1.

    Shapes: [batch, width], the same and [batch] (1 or -1) -> [], or [batch] if `reduction` is
    "none"

    Raises:
        ValueError: If `reduction` is unknown; when called, if the shapes do not broadcast.
    """

    margin: float

    def __init__(self, margin: float = 0.0, reduction: str = "mean"):
        self._set_options(reduction, margin=margin)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """Computes `log(1 + e^(-target * input))` for targets 1 and -1.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If `reduction` is unknown; when called, if the shapes do not broadcast.
    """

    def __init__(self, reduction: str = "mean"):
        self._set_options(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_Loss):
    """Computes the mean binary cross-entropy over all classes.

    Shapes: [.., classes] and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If `reduction` is unknown; when called, if the shapes differ.
        TypeError: When called, if an argument is not a tensor or has an integer dtype.
    """

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean"):
        self._register_weight("weight", weight)
        self._set_options(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """Computes `max(0, d(anchor, positive) - d(anchor, negative) + margin)`.

    Shapes: [.., width], the same and the same -> [], or [..] if `reduction` is "none"

    Args:
        p, eps: the p of the distance's norm, and the constant that is added to the differences.
        swap: uses the distance between positive and negative where it is smaller than that between
            anchor and negative.

    Raises:
        ValueError: If the margin is not above 0, or `reduction` is unknown; when called, if the
            shapes do not broadcast.
    """

    margin: float
    p: float
    eps: float
    swap: bool

    def __init__(self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: str = "mean"):
        if not margin > 0:
            raise ValueError(f"TripletMarginLoss: margin {margin}, expected above 0")
        self._set_options(reduction, margin=margin, p=p, eps=eps, swap=swap)

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(anchor, positive, negative, self.margin, self.p, self.eps, self.swap, reduction=self.reduction)


class PoissonNLLLoss(_Loss):
    """Computes the negative log-likelihood of counts under a Poisson distribution.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If `reduction` is unknown; when called, if the shapes do not broadcast.
    """

    log_input: bool
    full: bool
    eps: float

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"):
        self._set_options(reduction, log_input=log_input, full=full, eps=eps)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(input, target, self.log_input, self.full, eps=self.eps, reduction=self.reduction)


class GaussianNLLLoss(_Loss):
    """Computes the negative log-likelihood under normal distributions.

    Shapes: [..], the same and the same -> [], or [..] if `reduction` is "none"

    Args:
        full: adds the constant `log(2 pi) / 2`.
        eps: the smallest variance.

    Raises:
        ValueError: If `reduction` is unknown; when called, if the shapes do not broadcast.
    """

    full: bool
    eps: float

    def __init__(self, full: bool = False, eps: float = 1e-6, reduction: str = "mean"):
        self._set_options(reduction, full=full, eps=eps)

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


class TripletMarginWithDistanceLoss(_Loss):
    """Computes `TripletMarginLoss` with an arbitrary distance function.

    Shapes: [.., width], the same and the same -> [], or the distance's shape if `reduction` is
    "none"

    Args:
        distance_function: a function of two tensors; `PairwiseDistance()` by default.
        swap: uses the distance between positive and negative where it is smaller than that between
            anchor and negative.

    Raises:
        ValueError: If the margin is not above 0, or `reduction` is unknown; when called, if the
            shapes do not broadcast.
    """

    margin: float
    swap: bool

    def __init__(self, *, distance_function: Any = None, margin: float = 1.0, swap: bool = False, reduction: str = "mean"):
        if not margin > 0:
            raise ValueError(f"TripletMarginWithDistanceLoss: margin {margin}, expected above 0")
        self._set_options(reduction, margin=margin, swap=swap)
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        settings: Any = dict(distance_function=self.distance_function, margin=self.margin, swap=self.swap, reduction=self.reduction)
        return F.triplet_margin_with_distance_loss(anchor, positive, negative, **settings)


class MultiMarginLoss(_Loss):
    """Computes the margins of the other classes relative to the target class: see
    `functional.multi_margin_loss`.

    Shapes: [batch, classes] and class indices [batch] (int32 or int64) -> [], or [batch] if
    `reduction` is "none"

    Args:
        p: 1 or 2.
        weight: the weight of each class as a target, [classes].

    Raises:
        ValueError: If `p` is neither 1 nor 2, `weight` does not have one axis, or `reduction` is
            unknown; when called, if the shapes do not match.
        TypeError: If `weight` is not a tensor.
        IndexError: When called, if a class index is out of range.
    """

    p: int
    margin: float
    weight: Tensor | None

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, reduction: str = "mean"):
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: p {p}, expected 1 or 2")
        self._register_weight("weight", weight)
        if weight is not None and weight.ndim != 1:
            raise ValueError(f"MultiMarginLoss: weight of shape {tuple(weight.shape)}, expected one axis")
        self._set_options(reduction, p=p, margin=margin)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Computes the margins of the classes that are not targets relative to those that are: see
    `functional.multilabel_margin_loss`.

    Shapes: [batch, classes] and class indices of the same shape (int32 or int64) -> [], or [batch]
    if `reduction` is "none"

    Raises:
        ValueError: If `reduction` is unknown; when called, if the shapes differ.
        IndexError: When called, if a class index is out of range.
    """

    def __init__(self, reduction: str = "mean"):
        self._set_options(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class CTCLoss(_Loss):
    """Computes the connectionist temporal classification loss: see `functional.ctc_loss`.

    Shapes: log-probabilities [time, batch, classes] and targets [batch, length] or [sum of lengths]
    (int32 or int64) -> [], or [batch] if `reduction` is "none"

    Args:
        blank: the index of the blank class.
        zero_infinity: replaces infinite losses, of targets that do not fit into their input, by 0.

    Raises:
        ValueError: If `reduction` is unknown; when called, if the shapes or lengths do not match.
        IndexError: When called, if a target is out of range.
    """

    blank: int
    zero_infinity: bool

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False):
        self._set_options(reduction, blank=blank, zero_infinity=zero_infinity)

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity)
