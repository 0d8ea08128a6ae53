"""Losses as layers."""

from __future__ import annotations

from typing import Any

from .._ternion import Tensor
from . import functional as F
from .module import Module

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss",
    "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss", "MultiLabelSoftMarginLoss", "NLLLoss", "PoissonNLLLoss", "SmoothL1Loss",
    "SoftMarginLoss", "TripletMarginLoss",
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
    """Cross-entropy of logits and class indices, or probabilities."""

    weight: Tensor | None
    ignore_index: int
    label_smoothing: float

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0):
        self._weigh("weight", weight)
        self._take(reduction, ignore_index=ignore_index, label_smoothing=label_smoothing)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)


class NLLLoss(_Loss):
    """Minus the log-probability of each class index."""

    weight: Tensor | None
    ignore_index: int

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"):
        self._weigh("weight", weight)
        self._take(reduction, ignore_index=ignore_index)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class MSELoss(_Loss):
    """`(input - target)^2`."""

    def __init__(self, reduction: str = "mean"):
        self._take(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, self.reduction)


class L1Loss(_Loss):
    """`|input - target|`."""

    def __init__(self, reduction: str = "mean"):
        self._take(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, self.reduction)


class SmoothL1Loss(_Loss):
    """Quadratic up to a distance of `beta`, linear beyond, with slope 1 there."""

    beta: float

    def __init__(self, reduction: str = "mean", beta: float = 1.0):
        self._take(reduction, beta=beta)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, self.reduction, self.beta)


class HuberLoss(_Loss):
    """Quadratic up to a distance of `delta`, linear beyond."""

    delta: float

    def __init__(self, reduction: str = "mean", delta: float = 1.0):
        self._take(reduction, delta=delta)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, self.reduction, self.delta)


class BCELoss(_Loss):
    """Binary cross-entropy of probabilities."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean"):
        self._weigh("weight", weight)
        self._take(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, self.weight, self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross-entropy of logits and probabilities."""

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None):
        self._weigh("weight", weight)
        self._weigh("pos_weight", pos_weight)
        self._take(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence of log-probabilities from a target."""

    log_target: bool

    def __init__(self, reduction: str = "mean", log_target: bool = False):
        self._take(reduction, log_target=log_target)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, self.reduction, self.log_target)


class MarginRankingLoss(_Loss):
    """`max(0, -target * (input1 - input2) + margin)`."""

    margin: float

    def __init__(self, margin: float = 0.0, reduction: str = "mean"):
        self._take(reduction, margin=margin)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class HingeEmbeddingLoss(_Loss):
    """The input where the target is 1, `max(0, margin - input)` where it is -1."""

    margin: float

    def __init__(self, margin: float = 1.0, reduction: str = "mean"):
        self._take(reduction, margin=margin)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, self.margin, self.reduction)


class CosineEmbeddingLoss(_Loss):
    """`1 - cos` where the target is 1, `max(0, cos - margin)` where it is -1."""

    margin: float

    def __init__(self, margin: float = 0.0, reduction: str = "mean"):
        self._take(reduction, margin=margin)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)


class SoftMarginLoss(_Loss):
    """`log(1 + e^(-target * input))`, of targets 1 and -1."""

    def __init__(self, reduction: str = "mean"):
        self._take(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, self.reduction)


class MultiLabelSoftMarginLoss(_Loss):
    """The mean of the binary cross-entropies of all classes."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean"):
        self._weigh("weight", weight)
        self._take(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, self.weight, self.reduction)


class TripletMarginLoss(_Loss):
    """`max(0, d(anchor, positive) - d(anchor, negative) + margin)`."""

    margin: float
    p: float
    eps: float
    swap: bool

    def __init__(self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: str = "mean"):
        self._take(reduction, margin=margin, p=p, eps=eps, swap=swap)

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(anchor, positive, negative, self.margin, self.p, self.eps, self.swap, self.reduction)


class PoissonNLLLoss(_Loss):
    """Minus the log-probability of counts."""

    log_input: bool
    full: bool
    eps: float

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"):
        self._take(reduction, log_input=log_input, full=full, eps=eps)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(input, target, self.log_input, self.full, self.eps, self.reduction)


class GaussianNLLLoss(_Loss):
    """Minus the log-probability of normal distributions."""

    full: bool
    eps: float

    def __init__(self, full: bool = False, eps: float = 1e-6, reduction: str = "mean"):
        self._take(reduction, full=full, eps=eps)

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)
