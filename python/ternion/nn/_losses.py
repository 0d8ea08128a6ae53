"""Losses and distances made of other functions: a part of `ternion.nn.functional`."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from .._refusals import name_all
from .._ternion import Tensor, tensor, uint8
from .._ternion import bool as truth_values
from .._ternion import _functional as _native
from .._warnings import warn_caller
from ._misuse import refuse_one_hot, tell_of_activation, tell_of_log_probabilities, tell_of_signs, tell_of_targets

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "ctc_loss", "gaussian_nll_loss",
    "hinge_embedding_loss", "kl_div", "linear_cross_entropy", "margin_ranking_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "normalize", "pairwise_distance", "pdist", "poisson_nll_loss",
    "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


def _tensors(op: str, **arguments: Any) -> None:
    for name, value in arguments.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{op}: {name} of type {type(value).__name__}, expected a tensor: ternion.tensor() makes one of numbers and arrays")


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Cross-entropy of logits and class indices, or probabilities.

    Shapes: [batch, classes, ..] and [batch, ..] (int32, int64 or uint8) or probabilities of the logits' shape -> []

    Args:
        weight: how much each class counts, [classes].
        ignore_index: an index that counts nothing.
        label_smoothing: the share of a label that is spread over all classes.

    Raises:
        IndexError: an index that is none of a class.
        ValueError: shapes that do not fit, another name as `reduction`.
    """
    tell_of_activation("cross_entropy", input)
    try:
        return _native.cross_entropy(input, _classes(target), weight, ignore_index, reduction, label_smoothing)
    except (TypeError, ValueError) as error:
        refuse_one_hot("cross_entropy", input, target, error)
        raise


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None, ignore_index: int = -100,
    reduction: str = "mean", label_smoothing: float = 0.0, chunk_rows: int | None = None,
) -> Tensor:  # fmt: skip
    """`cross_entropy(linear(input, linear_weight, linear_bias), target)` without the scores of all rows at once, which of a large vocabulary are the largest tensor of a model.

    The gradients are formed in the forward pass, chunk by chunk. Losses of each row, weights of classes and targets that are probabilities are computed with all scores.

    Shapes: [.., in_features], linear_weight [classes, in_features], linear_bias [classes], class indices [..] (int32, int64 or uint8) or probabilities [.., classes] -> [],
    of reduction "none" [..]

    Args:
        weight: how much each class counts, [classes].
        ignore_index: an index that counts nothing.
        label_smoothing: the share of a label that is spread over all classes.
        chunk_rows: rows whose scores are there at a time; by default as many as have 2^29 scores.

    Raises:
        IndexError: an index that is none of a class.
        ValueError: shapes that do not fit, another name as `reduction`, chunks of 0 rows.
    """
    return _native.linear_cross_entropy(
        input, linear_weight, _classes(target), linear_bias=linear_bias, weight=weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing,
        chunk_rows=chunk_rows,
    )  # fmt: skip


def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """Minus the log-probability of each class index.

    Shapes: log-probabilities [batch, classes, ..] and [batch, ..] (int32, int64 or uint8) -> []

    Raises:
        IndexError: an index that is none of a class.
        ValueError: shapes that do not fit.
        TypeError: indices of another dtype.
    """
    tell_of_log_probabilities(input)
    try:
        return _native.nll_loss(input, _classes(target), weight, ignore_index, reduction)
    except (TypeError, ValueError) as error:
        refuse_one_hot("nll_loss", input, target, error)
        raise


def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """The Kullback-Leibler divergence of log-probabilities from a target: probabilities, or with `log_target` their logarithms.

    Shapes: two of one shape -> [], of reduction "none" that shape

    Raises:
        TypeError: no floating dtype.
        ValueError: another name as `reduction`.
    """
    tell_of_activation("kl_div", input)
    return _native.kl_div(input, target, reduction, log_target)


def _classes(target: Any) -> Any:
    """Class indices in a dtype of indices: bytes are taken as well, as in PyTorch."""
    return target.long() if isinstance(target, Tensor) and target.dtype == uint8 else target


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Each vector along `dim` divided by its norm, which counts as `eps` if it is less.

    Shapes: [..] -> the same

    Raises:
        IndexError: an axis that is not there.
    """
    return _native._normalize(input, p, dim, eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`, broadcast; a norm counts as `eps` if it is less.

    Shapes: [.., n, ..] and the same -> [.., ..], without `dim`

    Raises:
        ValueError: shapes that do not broadcast.
        IndexError: an axis that is not there.
    """
    return _native._cosine_similarity(x1, x2, dim, eps)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The norm of the differences along the last axis, to which `eps` is added.

    Shapes: [.., n] and the same -> [..], with `keepdim` [.., 1]

    Raises:
        ValueError: shapes that do not broadcast.
    """
    return _native._pairwise_distance(x1, x2, (p, eps, keepdim))


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The distances of all pairs of rows, each pair once: of the first row to the others, of the second to those behind it, and so on.

    Shapes: [rows, width] -> [rows * (rows - 1) / 2]

    Raises:
        ValueError: another number of axes than 2, `p` below 0.
    """
    return _native._pdist(input, p)


def _same_shape(op: str, input: Any, target: Any) -> None:
    """A warning where input and target differ in shape: of `[n, 1]` and `[n]` every prediction would be compared with every target, and nothing be learned."""
    if not isinstance(input, Tensor) or not isinstance(target, Tensor) or input.shape == target.shape:
        return
    shapes = f"input has shape {list(input.shape)} and target {list(target.shape)}"
    warn_caller(f"{op}: {shapes}: they are broadcast, which is seldom meant; give both one shape")


def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Quadratic up to a distance of `beta`, linear beyond, with gradient 1 there.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: `beta` below 0.
    """
    _same_shape("smooth_l1_loss", input, target)
    return _native._smooth_l1_loss(input, target, reduction, beta)


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
    return _native._binary_cross_entropy(input, target, weight, reduction)


def _probabilities(op: str, **arguments: Tensor) -> None:
    """Refuses numbers outside 0 to 1 on the processor."""
    for name, value in arguments.items():
        if value.device.type == "cpu" and not bool(((value >= 0) & (value <= 1)).all()):
            raise ValueError(f"{op}: {name} has numbers outside 0 to 1, or NaN; expected probabilities")


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
    tell_of_activation("binary_cross_entropy_with_logits", input)
    tell_of_targets("binary_cross_entropy_with_logits", input, target)
    return _native.binary_cross_entropy_with_logits(input, target, weight, reduction, pos_weight)


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """`max(0, -target * (input1 - input2) + margin)`, where a target of 1 wants the first larger, -1 the second.

    Shapes: [..], the same and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: other numbers of axes, shapes that do not broadcast, another reduction.
    """
    if not input1.ndim == input2.ndim == target.ndim:
        shapes = ", ".join(str(list(x.shape)) for x in (input1, input2, target))
        raise ValueError(f"margin_ranking_loss: input1, input2 and target have shapes {shapes}, expected as many axes of each")
    _same_shape("margin_ranking_loss", input1, target)
    return _native._margin_ranking_loss((input1, input2, target), margin, reduction)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """The input where the target is 1, `max(0, margin - input)` where it is -1, and their sum where it is neither, as in PyTorch.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: shapes that do not broadcast, another reduction.
    """
    _same_shape("hinge_embedding_loss", input, target)
    tell_of_signs("hinge_embedding_loss", input, target)
    return _native._hinge_embedding_loss(input, target, margin, reduction)


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """`1 - cos` where the target is 1, `max(0, cos - margin)` where it is -1, 0 where it is neither; of vectors along the last axis.

    Shapes: [batch, width], the same and [batch] -> [], of reduction "none" [batch]

    Raises:
        ValueError: vectors without a batch, or another number of axes, for targets; shapes that do not broadcast, another reduction.
    """
    if not input1.ndim == input2.ndim == target.ndim + 1:
        shapes = ", ".join(str(list(x.shape)) for x in (input1, input2, target))
        raise ValueError(f"cosine_embedding_loss: input1, input2 and target have shapes {shapes}, expected [batch, width] twice and [batch], or [width] and []")
    tell_of_signs("cosine_embedding_loss", input1, target)
    return _native._cosine_embedding_loss((input1, input2, target), margin, reduction)


def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """`log(1 + e^(-target * input))`, of targets 1 and -1.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: shapes that do not broadcast, another reduction.
    """
    _same_shape("soft_margin_loss", input, target)
    tell_of_signs("soft_margin_loss", input, target)
    return _native._soft_margin_loss(input, target, reduction)


def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """The mean of the binary cross-entropies of all classes, along the last axis.

    Shapes: [.., classes] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: shapes that differ, another reduction.
        TypeError: whole numbers, or no tensors.
    """
    if isinstance(target, Tensor) and target.dtype == truth_values:
        # As in PyTorch, which has no `1 - target` of them.
        raise TypeError("multilabel_soft_margin_loss: target is bool, expected a floating dtype: target.float() makes it one")
    tell_of_targets("multilabel_soft_margin_loss", input, target)
    return _native._multilabel_soft_margin_loss(input, target, weight, reduction)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`max(0, d(anchor, positive) - d(anchor, negative) + margin)`.

    Shapes: [.., width], the same and the same -> [], of reduction "none" [..]

    Args:
        swap: takes the distance of positive and negative where that is the smaller one (Balntas et al. 2016).

    Raises:
        ValueError: a margin that is not above 0, shapes that do not broadcast, another reduction.
    """
    return _native._triplet_margin_loss((anchor, positive, negative), (margin, p, eps), swap, reduction)


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
    if distance_function is None:
        return _native._triplet_margin_loss((anchor, positive, negative), (margin, 2.0, 1e-6), swap, reduction)
    return _native._triplet_margin_with_distance_loss((anchor, positive, negative), distance_function, (margin, swap), reduction)


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
    return _native._poisson_nll_loss(input, target, (log_input, full, eps), reduction)


def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Tensor:
    """Minus the log-probability of normal distributions with these variances, which count as `eps` if they are less.

    Shapes: [..], the same and the same -> [], of reduction "none" [..]; a variance of each row may be without the last axis

    Args:
        full: adds the constant `log(2 pi) / 2`.

    Raises:
        ValueError: shapes that do not broadcast, another reduction, variances below 0 on the processor (elsewhere that would mean to wait for the device: the loss is NaN).
    """
    is_number = not isinstance(var, Tensor)
    if is_number:
        var = tensor(float(var), dtype=input.dtype, device=input.device)
    if is_number and var.ndim == 0:
        pass
    elif var.shape != input.shape and var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    elif var.shape != input.shape and (var.ndim != input.ndim or sum(own for own, other in zip(var.shape, input.shape) if own != other) != 1):
        raise ValueError(f"gaussian_nll_loss: var of shape {tuple(var.shape)} for an input of shape {tuple(input.shape)}, expected the same, without the last axis, or 1 along one axis")
    if var.device.type == "cpu" and bool((var.detach() < 0).any()):
        raise ValueError("gaussian_nll_loss: a variance below 0, expected none")
    _same_shape("gaussian_nll_loss", input, target)
    return _native._gaussian_nll_loss((input, target, var), (full, eps), reduction)


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """The sum of `max(0, margin - input[y] + input[c])^p` over all classes c but the target y, divided by their number.

    Shapes: [batch, classes] and class indices [batch] (int32 or int64) -> [], of reduction "none" [batch]; or without the batch

    Args:
        p: 1 or 2.
        weight: how much each class counts as a target, [classes].

    Raises:
        IndexError: an index that is none of a class.
        ValueError: another `p`, shapes that do not fit, another reduction.
        TypeError: logits of whole numbers, indices of floats.
    """
    try:
        return _native._multi_margin_loss(input, target, (p, margin), weight, reduction)
    except (TypeError, ValueError) as error:
        refuse_one_hot("multi_margin_loss", input, target, error)
        raise


def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The sum of `max(0, 1 - input[y] + input[c])` over all targets y and all classes c that are none, divided by the number of classes.

    Shapes: [batch, classes] and class indices of the same shape (int32 or int64), of which a row's first ones up to -1 count -> [], of reduction "none" [batch];
    or without the batch

    Raises:
        IndexError: an index that is none of a class.
        ValueError: shapes that differ, another reduction.
        TypeError: logits of whole numbers, indices of floats.
    """
    return _native._multilabel_margin_loss(input, target, reduction)


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
) -> Tensor:
    """Connectionist temporal classification: minus the logarithm of the probability of each target, over all its alignments with the input.

    The gradient is that of the log-probabilities as they are: PyTorch's is right behind a `log_softmax` only, where both are the same.

    Shapes: log-probabilities [time, batch, classes] and targets [batch, length] (int32 or int64), or one after the other in [sum of target_lengths] -> [], of
    reduction "none" [batch]; or [time, classes] and [length]

    Args:
        input_lengths, target_lengths: how much of each row counts: tensors or lists of whole numbers.
        blank: the class of the blank.
        reduction: the mean is of the losses divided by the lengths of their targets.
        zero_infinity: counts infinite losses, of targets that do not fit into their input, as 0.

    Raises:
        IndexError: a target that is no class.
        ValueError: other shapes, lengths of more than there is, another reduction.
        TypeError: log-probabilities of whole numbers, lengths that are none.
    """
    lengths = [_lengths("ctc_loss", name, given) for name, given in (("input_lengths", input_lengths), ("target_lengths", target_lengths))]
    return _native._ctc_loss(log_probs, targets, lengths, (blank, zero_infinity), reduction)


def _lengths(op: str, name: str, given: Any) -> list[int]:
    if isinstance(given, Tensor):
        if given.is_floating_point():
            raise TypeError(f"{op}: {name} of {str(given.dtype).split('.')[-1]}, expected whole numbers")
        given = given.reshape(-1).tolist()
    lengths = [given] if isinstance(given, int) else [int(length) for length in given]
    if any(length < 0 for length in lengths):
        raise ValueError(f"{op}: {name} below 0")
    return lengths


name_all(globals())
