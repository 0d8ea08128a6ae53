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

    def _take(self, reduction: Any, **settings: Any) -> None:
        known = ("none", "mean", "sum", "batchmean") if isinstance(self, KLDivLoss) else ("none", "mean", "sum")
        if reduction not in known:
            kind = ValueError if isinstance(reduction, str) else TypeError
            raise kind(f"{type(self).__name__}: reduction {reduction!r}, expected one of {', '.join(known)}")
        self.reduction = reduction
        for name, value in settings.items():
            setattr(self, name, value)

    def _weigh(self, name: str, weight: Tensor | None) -> None:
        if weight is not None and not isinstance(weight, Tensor):
            raise TypeError(f"{type(self).__name__}: {name} of type {type(weight).__name__}, expected a tensor or None")
        self.register_buffer(name, weight)


class CrossEntropyLoss(_Loss):
    """Cross-entropy of logits and class indices, or probabilities.

    Shapes: [batch, classes, ..] and [batch, ..] (int32 or int64) or probabilities of the logits' shape -> [], of reduction "none" [batch, ..]

    Args:
        weight: how much each class counts, [classes].
        ignore_index: an index that counts nothing.
        label_smoothing: the share of a label that is spread over all classes, 0 to 1.

    Raises:
        ValueError: another reduction; when called, shapes that do not fit, or a label smoothing outside 0 to 1.
        TypeError: a `weight` or, when called, a target that is no tensor.
        IndexError: when called, an index that is none of a class.
    """

    weight: Tensor | None
    ignore_index: int
    label_smoothing: float

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0):
        self._weigh("weight", weight)
        self._take(reduction, ignore_index=ignore_index, label_smoothing=label_smoothing)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction, label_smoothing=self.label_smoothing)


class NLLLoss(_Loss):
    """Minus the log-probability of each class index.

    Shapes: [batch, classes, ..] and [batch, ..] (int32 or int64) -> [], of reduction "none" [batch, ..]

    Args:
        weight: how much each class counts, [classes].
        ignore_index: an index that counts nothing.

    Raises:
        ValueError: another reduction; when called, shapes that do not fit.
        TypeError: a `weight` that is no tensor; when called, a target of a floating dtype.
        IndexError: when called, an index that is none of a class.
    """

    weight: Tensor | None
    ignore_index: int

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"):
        self._weigh("weight", weight)
        self._take(reduction, ignore_index=ignore_index)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class MSELoss(_Loss):
    """`(input - target)^2`.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: another reduction than "none", "mean" and "sum"; when called, shapes that differ.
        TypeError: when called, whole numbers, or no tensors.
    """

    def __init__(self, reduction: str = "mean"):
        self._take(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """`|input - target|`.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: another reduction than "none", "mean" and "sum"; when called, shapes that differ.
        TypeError: when called, whole numbers, or no tensors.
    """

    def __init__(self, reduction: str = "mean"):
        self._take(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Quadratic up to a distance of `beta`, linear beyond, with gradient 1 there.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: another reduction; when called, shapes that differ, or `beta` below 0.
        TypeError: when called, whole numbers, or no tensors.
    """

    beta: float

    def __init__(self, reduction: str = "mean", beta: float = 1.0):
        self._take(reduction, beta=beta)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Quadratic up to a distance of `delta`, linear beyond.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: another reduction; when called, shapes that differ, or a `delta` that is not above 0.
        TypeError: when called, whole numbers, or no tensors.
    """

    delta: float

    def __init__(self, reduction: str = "mean", delta: float = 1.0):
        self._take(reduction, delta=delta)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, self.reduction, self.delta)


class BCELoss(_Loss):
    """Binary cross-entropy of probabilities.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Args:
        weight: how much each element counts, broadcast.

    Raises:
        ValueError: another reduction; when called, shapes that differ, or weights that do not broadcast.
        TypeError: a `weight` that is no tensor.
    """

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean"):
        self._weigh("weight", weight)
        self._take(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross-entropy of logits and probabilities.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Args:
        weight: how much each element counts, broadcast.
        pos_weight: how much more a positive answer counts than a negative one, broadcast.

    Raises:
        ValueError: another reduction; when called, shapes that differ, or weights that do not broadcast.
        TypeError: when called, whole numbers, or no tensors.
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None):
        self._weigh("weight", weight)
        self._weigh("pos_weight", pos_weight)
        self._take(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight)


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence of log-probabilities from a target.

    Shapes: [batch, ..] and the same -> [], of reduction "none" [batch, ..]

    Args:
        reduction: besides the usual ones "batchmean": the sum divided by the batch.
        log_target: whether targets are logarithms, too.

    Raises:
        ValueError: another reduction; when called, shapes that differ.
        TypeError: when called, whole numbers, or no tensors.
    """

    log_target: bool

    def __init__(self, reduction: str = "mean", log_target: bool = False):
        self._take(reduction, log_target=log_target)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class MarginRankingLoss(_Loss):
    """`max(0, -target * (input1 - input2) + margin)`.

    Shapes: [..], the same and the same (1 or -1) -> [], of reduction "none" [..]

    Raises:
        ValueError: another reduction; when called, shapes that do not broadcast.
    """

    margin: float

    def __init__(self, margin: float = 0.0, reduction: str = "mean"):
        self._take(reduction, margin=margin)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    """The input where the target is 1, `max(0, margin - input)` where it is -1.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: another reduction; when called, shapes that do not broadcast.
    """

    margin: float

    def __init__(self, margin: float = 1.0, reduction: str = "mean"):
        self._take(reduction, margin=margin)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """`1 - cos` where the target is 1, `max(0, cos - margin)` where it is -1.

    Shapes: [batch, width], the same and [batch] (1 or -1) -> [], of reduction "none" [batch]

    Raises:
        ValueError: another reduction; when called, shapes that do not broadcast.
    """

    margin: float

    def __init__(self, margin: float = 0.0, reduction: str = "mean"):
        self._take(reduction, margin=margin)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """`log(1 + e^(-target * input))`, of targets 1 and -1.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: another reduction; when called, shapes that do not broadcast.
    """

    def __init__(self, reduction: str = "mean"):
        self._take(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_Loss):
    """The mean of the binary cross-entropies of all classes.

    Shapes: [.., classes] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: another reduction; when called, shapes that differ.
        TypeError: when called, whole numbers, or no tensors.
    """

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean"):
        self._weigh("weight", weight)
        self._take(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """`max(0, d(anchor, positive) - d(anchor, negative) + margin)`.

    Shapes: [.., width], the same and the same -> [], of reduction "none" [..]

    Args:
        p, eps: the power of the distance's norm, and what is added to differences.
        swap: takes the distance of positive and negative where that is the smaller one.

    Raises:
        ValueError: a margin that is not above 0, another reduction; when called, shapes that do not broadcast.
    """

    margin: float
    p: float
    eps: float
    swap: bool

    def __init__(self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: str = "mean"):
        if not margin > 0:
            raise ValueError(f"TripletMarginLoss: margin {margin}, expected above 0")
        self._take(reduction, margin=margin, p=p, eps=eps, swap=swap)

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(anchor, positive, negative, self.margin, self.p, self.eps, self.swap, reduction=self.reduction)


class PoissonNLLLoss(_Loss):
    """Minus the log-probability of counts.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: another reduction; when called, shapes that do not broadcast.
    """

    log_input: bool
    full: bool
    eps: float

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"):
        self._take(reduction, log_input=log_input, full=full, eps=eps)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(input, target, self.log_input, self.full, eps=self.eps, reduction=self.reduction)


class GaussianNLLLoss(_Loss):
    """Minus the log-probability of normal distributions.

    Shapes: [..], the same and the same -> [], of reduction "none" [..]

    Args:
        full: adds the constant `log(2 pi) / 2`.
        eps: the least variance.

    Raises:
        ValueError: another reduction; when called, shapes that do not broadcast.
    """

    full: bool
    eps: float

    def __init__(self, full: bool = False, eps: float = 1e-6, reduction: str = "mean"):
        self._take(reduction, full=full, eps=eps)

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


class TripletMarginWithDistanceLoss(_Loss):
    """As `TripletMarginLoss`, of any distance.

    Shapes: [.., width], the same and the same -> [], of reduction "none" what the distance gives

    Args:
        distance_function: of two tensors; `PairwiseDistance()` by default.
        swap: takes the distance of positive and negative where that is the smaller one.

    Raises:
        ValueError: a margin that is not above 0, another reduction; when called, shapes that do not broadcast.
    """

    margin: float
    swap: bool

    def __init__(self, *, distance_function: Any = None, margin: float = 1.0, swap: bool = False, reduction: str = "mean"):
        if not margin > 0:
            raise ValueError(f"TripletMarginWithDistanceLoss: margin {margin}, expected above 0")
        self._take(reduction, margin=margin, swap=swap)
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        settings: Any = dict(distance_function=self.distance_function, margin=self.margin, swap=self.swap, reduction=self.reduction)
        return F.triplet_margin_with_distance_loss(anchor, positive, negative, **settings)


class MultiMarginLoss(_Loss):
    """The margins of classes beside the target's: see `functional.multi_margin_loss`.

    Shapes: [batch, classes] and class indices [batch] (int32 or int64) -> [], of reduction "none" [batch]

    Args:
        p: 1 or 2.
        weight: how much each class counts as a target, [classes].

    Raises:
        ValueError: another `p`, a `weight` of other than one axis, another reduction; when called, shapes that do not fit.
        TypeError: a `weight` that is no tensor.
        IndexError: when called, an index that is none of a class.
    """

    p: int
    margin: float
    weight: Tensor | None

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, reduction: str = "mean"):
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: p {p}, expected 1 or 2")
        self._weigh("weight", weight)
        if weight is not None and weight.ndim != 1:
            raise ValueError(f"MultiMarginLoss: weight of shape {tuple(weight.shape)}, expected one axis")
        self._take(reduction, p=p, margin=margin)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """The margins of classes that are no targets beside those that are: see `functional.multilabel_margin_loss`.

    Shapes: [batch, classes] and class indices of the same shape (int32 or int64) -> [], of reduction "none" [batch]

    Raises:
        ValueError: another reduction; when called, shapes that differ.
        IndexError: when called, an index that is none of a class.
    """

    def __init__(self, reduction: str = "mean"):
        self._take(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class CTCLoss(_Loss):
    """Connectionist temporal classification: see `functional.ctc_loss`.

    Shapes: log-probabilities [time, batch, classes] and targets [batch, length] or [sum of lengths] (int32 or int64) -> [], of reduction "none" [batch]

    Args:
        blank: the class of the blank.
        zero_infinity: counts infinite losses, of targets that do not fit into their input, as 0.

    Raises:
        ValueError: another reduction; when called, shapes or lengths that do not fit.
        IndexError: when called, a target that is no class.
    """

    blank: int
    zero_infinity: bool

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False):
        self._take(reduction, blank=blank, zero_infinity=zero_infinity)

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity)
