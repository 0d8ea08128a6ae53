"""Losses and distances made of other functions: a part of `ternion.nn.functional`."""

from __future__ import annotations

import math
from typing import Any

from .._functions.kinds import result_type
from .._functions.shapes import broadcast_tensors, triu_indices
from .._refusals import name_all
from .._ternion import Tensor, bfloat16, float16, float32, is_grad_enabled, tensor, where
from .._ternion import _functional as _native
from .._warnings import warn_caller

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cosine_similarity", "gaussian_nll_loss",
    "hinge_embedding_loss", "margin_ranking_loss", "multilabel_soft_margin_loss", "normalize", "pairwise_distance", "pdist", "poisson_nll_loss",
    "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


def _reduced(op: str, losses: Tensor, reduction: str) -> Tensor:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{op}: reduction {reduction!r}, expected \"none\", \"mean\" or \"sum\"")
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


def _tensors(op: str, **arguments: Any) -> None:
    for name, value in arguments.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{op}: {name} of type {type(value).__name__}, expected a tensor: ternion.tensor() makes one of numbers and arrays")


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Each vector along `dim` divided by its norm, which counts as `eps` if it is less.

    Shapes: [..] -> the same

    Raises:
        IndexError: an axis that is not there.
    """
    # Half precision in float32, rounded once: the norm of numbers that it holds may be beyond it.
    wide = input.float() if input.dtype in (float16, bfloat16) else input
    return (wide / wide.norm(p, dim, keepdim=True).clamp(min=eps)).to(input.dtype)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`, broadcast; a norm counts as `eps` if it is less.

    Shapes: [.., n, ..] and the same -> [.., ..], without `dim`

    Raises:
        ValueError: shapes that do not broadcast.
        IndexError: an axis that is not there.
    """
    dtype = x1.dtype if x1.dtype == x2.dtype else result_type(x1, x2)
    if not dtype.is_floating_point:
        raise TypeError(f"cosine_similarity: input is {str(dtype).split('.')[-1]}, expected a floating dtype")
    wide = float32 if dtype in (float16, bfloat16) else dtype
    pair = [x.to(dtype).to(wide) for x in broadcast_tensors(x1, x2)]
    lengths = [x.norm(2, dim, keepdim=True) for x in pair]
    # No gradient flows through what keeps a length from 0.
    lengths = [length + (length.detach().clamp(min=eps) - length.detach()) for length in lengths]
    return (pair[0] / lengths[0] * (pair[1] / lengths[1])).sum(dim).to(dtype)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The norm of the differences along the last axis, to which `eps` is added.

    Shapes: [.., n] and the same -> [..], with `keepdim` [.., 1]

    Raises:
        ValueError: shapes that do not broadcast.
    """
    return (x1 - x2 + eps).norm(p, -1, keepdim=keepdim)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The distances of all pairs of rows, each pair once: of the first row to the others, of the second to those behind it, and so on.

    Shapes: [rows, width] -> [rows * (rows - 1) / 2]

    Raises:
        ValueError: another number of axes than 2, `p` below 0.
    """
    if input.ndim != 2 or not p >= 0:
        raise ValueError(f"pdist: shape {list(input.shape)} and p {p}, expected 2 axes, and at least 0")
    first, second = triu_indices(input.shape[0], input.shape[0], 1, device=input.device)
    return (input[first] - input[second]).norm(p, -1)


def _same_shape(op: str, input: Any, target: Any) -> None:
    """A warning where input and target differ in shape: of `[n, 1]` and `[n]` every prediction would be compared with every target, and nothing be learned."""
    if not isinstance(input, Tensor) or not isinstance(target, Tensor) or input.shape == target.shape:
        return
    shapes = f"input has shape {list(input.shape)} and target {list(target.shape)}"
    warn_caller(f"{op}: {shapes}: they are broadcast, which is seldom meant; give both one shape")


def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Quadratic up to a distance of `beta`, linear beyond, with slope 1 there.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: `beta` below 0.
    """
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: beta {beta}, expected at least 0")
    if isinstance(input, Tensor) and isinstance(target, Tensor) and input.shape != target.shape:
        _same_shape("smooth_l1_loss", input, target)
        input, target = broadcast_tensors(input, target)
    if beta == 0:
        return _native.l1_loss(input, target, reduction)
    return _native.huber_loss(input, target, reduction, beta) / beta


def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Cross-entropy of probabilities; logarithms below -100 count as that, and gradients are divided by 1e-12 at least, as in PyTorch.

    Whether they are from 0 to 1 is looked at on the processor: of a device that would mean to wait for it.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Args:
        weight: how much each element counts, broadcast.

    Raises:
        ValueError: shapes that differ, numbers outside 0 to 1.
    """
    _tensors("binary_cross_entropy", input=input, target=target)
    if input.shape != target.shape:
        raise ValueError(f"binary_cross_entropy: a target of shape {tuple(target.shape)}, expected {tuple(input.shape)}")
    if not target.is_floating_point():
        kind = str(target.dtype).split(".")[-1]
        raise TypeError(f"binary_cross_entropy: target is {kind}, expected a floating dtype: target.float() makes it one")
    _probabilities("binary_cross_entropy", input=input, target=target)
    x, own = (input.float() if input.dtype.itemsize < 4 else input), input.dtype
    losses = (_steep(x, target) if input.requires_grad and is_grad_enabled() else _entropies(x, target)).to(own)
    return _reduced("binary_cross_entropy", losses if weight is None else losses * weight, reduction)


def _probabilities(op: str, **arguments: Tensor) -> None:
    """Refuses numbers outside 0 to 1 on the processor."""
    for name, value in arguments.items():
        if value.device.type == "cpu" and not bool(((value >= 0) & (value <= 1)).all()):
            raise ValueError(f"{op}: {name} has numbers outside 0 to 1, or NaN; expected probabilities")


def _entropies(input: Tensor, target: Tensor) -> Tensor:
    return -(target * input.log().clamp(min=-100.0) + (1 - target) * (1 - input).log().clamp(min=-100.0))


def _steep(input: Tensor, target: Tensor) -> Tensor:
    """The losses with gradients `(input - target) / max(input * (1 - input), 1e-12)`, which are finite at 0 and 1."""
    known = input.detach()
    edge = known * (1 - known) < 1e-12
    inside = _entropies(where(edge, 0.5, input), target)
    slope = (known - target.detach()) * 1e12
    return where(edge, _entropies(known, target) + (input - known) * slope, inside)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None
) -> Tensor:
    """Binary cross-entropy of logits and probabilities.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Args:
        weight: how much each element counts, broadcast.
        pos_weight: how much more a positive answer counts than a negative one, broadcast.

    Raises:
        ValueError: shapes that differ, weights that do not broadcast, another reduction.
        TypeError: whole numbers, or no tensors.
    """
    if weight is None:
        return _native.binary_cross_entropy_with_logits(input, target, reduction, pos_weight)
    losses = _native.binary_cross_entropy_with_logits(input, target, "none", pos_weight)
    return _reduced("binary_cross_entropy_with_logits", losses * weight, reduction)


def _above_0(distances: Tensor) -> Tensor:
    """`max(0, x)`, whose gradient at 0 is 1, as PyTorch has it of margins."""
    return distances.clamp(min=0)


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """`max(0, -target * (input1 - input2) + margin)`, where a target of 1 wants the first larger, -1 the second.

    Shapes: [..], the same and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: shapes that do not broadcast, another reduction.
    """
    _same_shape("margin_ranking_loss", input1, target)
    return _reduced("margin_ranking_loss", _above_0(margin - target * (input1 - input2)), reduction)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """The input where the target is 1, `max(0, margin - input)` where it is -1, and their sum where it is neither, as in PyTorch.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: shapes that do not broadcast, another reduction.
    """
    _same_shape("hinge_embedding_loss", input, target)
    near, far = where(target == -1, 0.0, input), where(target == 1, 0.0, _above_0(margin - input))
    return _reduced("hinge_embedding_loss", near + far, reduction)


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """`1 - cos` where the target is 1, `max(0, cos - margin)` where it is -1, 0 where it is neither; of vectors along the last axis.

    Shapes: [batch, width], the same and [batch] -> [], of reduction "none" [batch]

    Raises:
        ValueError: shapes that do not broadcast, another reduction.
    """
    cosine = cosine_similarity(input1, input2, -1)
    return _reduced("cosine_embedding_loss", where(target == 1, 1 - cosine, where(target == -1, _above_0(cosine - margin), 0.0)), reduction)


def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """`log(1 + e^(-target * input))`, of targets 1 and -1.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: shapes that do not broadcast, another reduction.
    """
    _same_shape("soft_margin_loss", input, target)
    return _reduced("soft_margin_loss", (-target * input).softplus(), reduction)


def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """The mean of the binary cross-entropies of all classes, along the last axis.

    Shapes: [.., classes] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: shapes that differ, another reduction.
        TypeError: whole numbers, or no tensors.
    """
    losses = _native.binary_cross_entropy_with_logits(input, target, "none")
    losses = losses if weight is None else losses * weight
    return _reduced("multilabel_soft_margin_loss", losses.mean(-1), reduction)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`max(0, d(anchor, positive) - d(anchor, negative) + margin)`.

    Shapes: [.., width], the same and the same -> [], of reduction "none" [..]

    Args:
        swap: takes the distance of positive and negative where that is the smaller one (Balntas et al. 2016).

    Raises:
        ValueError: shapes that do not broadcast, another reduction.
    """
    return _of_triplets("triplet_margin_loss", lambda one, other: pairwise_distance(one, other, p, eps), (anchor, positive, negative), margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any = None, margin: float = 1.0, swap: bool = False,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """As `triplet_margin_loss`, of any distance.

    Shapes: [.., width], the same and the same -> [], of reduction "none" what the distance gives

    Args:
        distance_function: of two tensors; `pairwise_distance` by default.
        swap: takes the distance of positive and negative where that is the smaller one.

    Raises:
        ValueError: a margin that is not above 0, shapes that do not broadcast, another reduction.
    """
    if not margin > 0:
        raise ValueError(f"triplet_margin_with_distance_loss: margin {margin}, expected above 0")
    distance = pairwise_distance if distance_function is None else distance_function
    return _of_triplets("triplet_margin_with_distance_loss", distance, (anchor, positive, negative), margin, swap, reduction)


def _of_triplets(op: str, distance: Any, triplet: tuple[Tensor, Tensor, Tensor], margin: float, swap: bool, reduction: str) -> Tensor:
    anchor, positive, negative = triplet
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return _reduced(op, _above_0(near - far + margin), reduction)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Tensor:
    """Minus the log-probability of counts, without what does not depend on the input.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Args:
        log_input: whether the input is the logarithm of the rate.
        full: adds Stirling's approximation of the logarithm of the factorial, of targets above 1.

    Raises:
        ValueError: shapes that do not broadcast, another reduction.
    """
    _same_shape("poisson_nll_loss", input, target)
    losses = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        losses = losses + where(target > 1, stirling, 0.0)
    return _reduced("poisson_nll_loss", losses, reduction)


def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Tensor:
    """Minus the log-probability of normal distributions with these variances, which count as `eps` if they are less.

    Shapes: [..], the same and the same -> [], of reduction "none" [..]; a variance of each row may be without the last axis

    Args:
        full: adds the constant `log(2 pi) / 2`.

    Raises:
        ValueError: shapes that do not broadcast, another reduction, variances below 0 (on the processor: of a device that would mean to wait for it).
    """
    if not isinstance(var, Tensor):
        var = tensor(float(var), dtype=input.dtype, device=input.device)
    if var.ndim and var.shape != input.shape and var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    if var.ndim not in (0, input.ndim):
        raise ValueError(f"gaussian_nll_loss: var of shape {tuple(var.shape)} for an input of shape {tuple(input.shape)}, expected the same, or without the last axis")
    if var.device.type == "cpu" and bool((var.detach() < 0).any()):
        raise ValueError("gaussian_nll_loss: a variance below 0, expected none")
    _same_shape("gaussian_nll_loss", input, target)
    # No gradient flows through what keeps the variance from 0.
    var = var + (var.detach().clamp(min=eps) - var.detach())
    losses = 0.5 * (var.log() + (input - target).square() / var)
    return _reduced("gaussian_nll_loss", losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


name_all(globals())
