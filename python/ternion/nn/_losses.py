"""Losses and distances that are composed of other functions; a part of `ternion.nn.functional`."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from .._error_messages import name_all
from .._ternion import Tensor, tensor, uint8
from .._ternion import bool as bool_dtype
from .._ternion import _functional as _native
from .._warnings import warn_caller
from ._input_warnings import explain_one_hot_error, warn_activation, warn_log_probabilities, warn_signs, warn_targets

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "ctc_loss", "gaussian_nll_loss",
    "hinge_embedding_loss", "kl_div", "linear_cross_entropy", "margin_ranking_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "normalize", "pairwise_distance", "pdist", "poisson_nll_loss",
    "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


def _require_tensors(op: str, **arguments: Any) -> None:
    for name, value in arguments.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{op}: {name} of type {type(value).__name__}, expected a tensor: ternion.tensor() makes one of numbers and arrays")


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Computes the cross-entropy of logits with class indices or class probabilities.

    Shapes: [batch, classes, ..] and [batch, ..] (int32, int64 or uint8) or probabilities of the
    logits' shape -> []

    Args:
        weight: the weight of each class, [classes].
        ignore_index: a target index that is ignored.
        label_smoothing: the fraction of a label that is distributed over all classes.

    Raises:
        IndexError: If a class index is out of range.
        ValueError: If the shapes do not match, or `reduction` is unknown.
    """
    warn_activation("cross_entropy", input)
    try:
        return _native.cross_entropy(input, _class_indices(target), weight, ignore_index, reduction, label_smoothing)
    except (TypeError, ValueError) as error:
        explain_one_hot_error("cross_entropy", input, target, error)
        raise


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None, ignore_index: int = -100,
    reduction: str = "mean", label_smoothing: float = 0.0, chunk_rows: int | None = None,
) -> Tensor:  # fmt: skip
    """Computes `cross_entropy(linear(input, linear_weight, linear_bias), target)` without storing
    the logits of all rows at once, which are the largest tensor of a model with a large vocabulary.

    The gradients are computed in the forward pass, chunk by chunk. With `reduction="none"`, class
    weights or target probabilities, all logits are computed at once.

    Shapes: [.., in_features], linear_weight [classes, in_features], linear_bias [classes], class
    indices [..] (int32, int64 or uint8) or probabilities [.., classes] -> [], or [..] if
    `reduction` is "none"

    Args:
        weight: the weight of each class, [classes].
        ignore_index: a target index that is ignored.
        label_smoothing: the fraction of a label that is distributed over all classes.
        chunk_rows: the number of rows whose logits are stored at a time. By default as many as have
            2^29 logits.

    Raises:
        IndexError: If a class index is out of range.
        ValueError: If the shapes do not match, `reduction` is unknown, or `chunk_rows` is 0.
    """
    return _native.linear_cross_entropy(
        input, linear_weight, _class_indices(target), linear_bias=linear_bias, weight=weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing,
        chunk_rows=chunk_rows,
    )  # fmt: skip


def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """Computes the negative log-likelihood of class indices.

    Shapes: log-probabilities [batch, classes, ..] and [batch, ..] (int32, int64 or uint8) -> []

    Raises:
        IndexError: If a class index is out of range.
        ValueError: If the shapes do not match.
        TypeError: If the indices have another dtype.
    """
    warn_log_probabilities(input)
    try:
        return _native.nll_loss(input, _class_indices(target), weight, ignore_index, reduction)
    except (TypeError, ValueError) as error:
        explain_one_hot_error("nll_loss", input, target, error)
        raise


def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Computes the Kullback-Leibler divergence of log-probabilities from a target: probabilities,
    or their logarithms if `log_target` is True.

    Shapes: two tensors of the same shape -> [], or that shape if `reduction` is "none"

    Raises:
        TypeError: If the dtype is not floating.
        ValueError: If `reduction` is unknown.
    """
    warn_activation("kl_div", input)
    return _native.kl_div(input, target, reduction, log_target)


def _class_indices(target: Any) -> Any:
    """Converts class indices to an index dtype: uint8 is accepted as well, as in PyTorch."""
    return target.long() if isinstance(target, Tensor) and target.dtype == uint8 else target


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divides each vector along `dim` by its norm, or by `eps` if the norm is smaller.

    Shapes: [..] -> the same

    Raises:
        IndexError: If the axis does not exist.
    """
    return _native._normalize(input, p, dim, eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Computes the cosine of the angle between vectors along `dim`, with broadcasting. Norms below
    `eps` are replaced by `eps`.

    Shapes: [.., n, ..] and the same -> [.., ..], without `dim`

    Raises:
        ValueError: If the shapes do not broadcast.
        IndexError: If the axis does not exist.
    """
    return _native._cosine_similarity(x1, x2, dim, eps)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Computes the norm, along the last axis, of the differences plus `eps`.

    Shapes: [.., n] and the same -> [..], with `keepdim` [.., 1]

    Raises:
        ValueError: If the shapes do not broadcast.
    """
    return _native._pairwise_distance(x1, x2, (p, eps, keepdim))


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Computes the distances of all pairs of rows, each pair once: of the first row to all later
    rows, then of the second row to all later rows, and so on.

    Shapes: [rows, width] -> [rows * (rows - 1) / 2]

    Raises:
        ValueError: If the input does not have 2 axes, or `p` is below 0.
    """
    return _native._pdist(input, p)


def _warn_broadcast(op: str, input: Any, target: Any) -> None:
    """Warns if `input` and `target` differ in shape: with `[n, 1]` and `[n]` every prediction would
    be compared with every target, and the model would learn nothing.
    """
    if not isinstance(input, Tensor) or not isinstance(target, Tensor) or input.shape == target.shape:
        return
    shapes = f"input has shape {list(input.shape)} and target {list(target.shape)}"
    warn_caller(f"{op}: {shapes}: they are broadcast, which is seldom meant; give both one shape")


def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Computes a loss that is quadratic up to a distance of `beta` and linear beyond, with a
    gradient of 1 in the linear part.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If `beta` is below 0.
    """
    _warn_broadcast("smooth_l1_loss", input, target)
    return _native._smooth_l1_loss(input, target, reduction, beta)


def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Computes the cross-entropy of probabilities. As in PyTorch, logarithms are clamped to at
    least -100, and the divisor in the gradient to at least 1e-12.

    The range from 0 to 1 is checked on the CPU only: on another device the check would have to wait
    for the device.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Args:
        weight: the weight of each element, broadcast.

    Raises:
        ValueError: If the shapes differ, or a value is outside 0 to 1.
    """
    _require_tensors("binary_cross_entropy", input=input, target=target)
    if input.shape != target.shape:
        raise ValueError(f"binary_cross_entropy: a target of shape {tuple(target.shape)}, expected {tuple(input.shape)}")
    if not target.is_floating_point():
        kind = str(target.dtype).split(".")[-1]
        raise TypeError(f"binary_cross_entropy: target is {kind}, expected a floating dtype: target.float() makes it one")
    _check_probabilities("binary_cross_entropy", input=input, target=target)
    return _native._binary_cross_entropy(input, target, weight, reduction)


def _check_probabilities(op: str, **arguments: Tensor) -> None:
    """Raises ValueError for CPU tensors with values outside 0 to 1."""
    for name, value in arguments.items():
        if value.device.type == "cpu" and not bool(((value >= 0) & (value <= 1)).all()):
            raise ValueError(f"{op}: {name} has numbers outside 0 to 1, or NaN; expected probabilities")


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None
) -> Tensor:
    """Computes the binary cross-entropy of logits with target probabilities.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Args:
        weight: the weight of each element, broadcast.
        pos_weight: the weight of positive targets relative to negative ones, broadcast.

    Raises:
        ValueError: If the shapes differ, the weights do not broadcast, or `reduction` is unknown.
        TypeError: If an argument is not a tensor or has an integer dtype.
    """
    warn_activation("binary_cross_entropy_with_logits", input)
    warn_targets("binary_cross_entropy_with_logits", input, target)
    return _native.binary_cross_entropy_with_logits(input, target, weight, reduction, pos_weight)


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """Computes `max(0, -target * (input1 - input2) + margin)`. A target of 1 ranks the first input
    higher, -1 the second.

    Shapes: [..], the same and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If the numbers of axes differ, the shapes do not broadcast, or `reduction` is
            unknown.
    """
    if not input1.ndim == input2.ndim == target.ndim:
        shapes = ", ".join(str(list(x.shape)) for x in (input1, input2, target))
        raise ValueError(f"margin_ranking_loss: input1, input2 and target have shapes {shapes}, expected as many axes of each")
    _warn_broadcast("margin_ranking_loss", input1, target)
    return _native._margin_ranking_loss((input1, input2, target), margin, reduction)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """Computes `input` where the target is 1, `max(0, margin - input)` where it is -1, and their
    sum for other targets, as in PyTorch.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If the shapes do not broadcast, or `reduction` is unknown.
    """
    _warn_broadcast("hinge_embedding_loss", input, target)
    warn_signs("hinge_embedding_loss", input, target)
    return _native._hinge_embedding_loss(input, target, margin, reduction)


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """Computes `1 - cos` where the target is 1, `max(0, cos - margin)` where it is -1, and 0 for
    other targets, for vectors along the last axis.

    Shapes: [batch, width], the same and [batch] -> [], or [batch] if `reduction` is "none"

    Raises:
        ValueError: If the inputs do not have one more axis than the target, the shapes do not
            broadcast, or `reduction` is unknown.
    """
    if not input1.ndim == input2.ndim == target.ndim + 1:
        shapes = ", ".join(str(list(x.shape)) for x in (input1, input2, target))
        raise ValueError(f"cosine_embedding_loss: input1, input2 and target have shapes {shapes}, expected [batch, width] twice and [batch], or [width] and []")
    warn_signs("cosine_embedding_loss", input1, target)
    return _native._cosine_embedding_loss((input1, input2, target), margin, reduction)


def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Computes `log(1 + e^(-target * input))` for targets 1 and -1.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If the shapes do not broadcast, or `reduction` is unknown.
    """
    _warn_broadcast("soft_margin_loss", input, target)
    warn_signs("soft_margin_loss", input, target)
    return _native._soft_margin_loss(input, target, reduction)


def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Computes the mean binary cross-entropy over all classes, which are on the last axis.

    Shapes: [.., classes] and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If the shapes differ, or `reduction` is unknown.
        TypeError: If an argument is not a tensor or has an integer dtype.
    """
    if isinstance(target, Tensor) and target.dtype == bool_dtype:
        # As in PyTorch, where `1 - target` is not defined for bool tensors.
        raise TypeError("multilabel_soft_margin_loss: target is bool, expected a floating dtype: target.float() makes it one")
    warn_targets("multilabel_soft_margin_loss", input, target)
    return _native._multilabel_soft_margin_loss(input, target, weight, reduction)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Computes `max(0, d(anchor, positive) - d(anchor, negative) + margin)`.

    Shapes: [.., width], the same and the same -> [], or [..] if `reduction` is "none"

    Args:
        swap: uses the distance between positive and negative where it is smaller than that between
            anchor and negative (Balntas et al. 2016).

    Raises:
        ValueError: If the margin is not above 0, the shapes do not broadcast, or `reduction` is
            unknown.
    """
    return _native._triplet_margin_loss((anchor, positive, negative), (margin, p, eps), swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any = None, margin: float = 1.0, swap: bool = False,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Computes `triplet_margin_loss` with an arbitrary distance function.

    Shapes: [.., width], the same and the same -> [], or the distance's shape if `reduction` is
    "none"

    Args:
        distance_function: a function of two tensors; `pairwise_distance` by default.
        swap: uses the distance between positive and negative where it is smaller than that between
            anchor and negative.

    Raises:
        ValueError: If the margin is not above 0, the shapes do not broadcast, or `reduction` is
            unknown.
    """
    if distance_function is None:
        return _native._triplet_margin_loss((anchor, positive, negative), (margin, 2.0, 1e-6), swap, reduction)
    return _native._triplet_margin_with_distance_loss((anchor, positive, negative), distance_function, (margin, swap), reduction)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Tensor:
    """Computes the negative log-likelihood of counts under a Poisson distribution, without the
    terms that do not depend on the input.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Args:
        log_input: whether the input is the logarithm of the rate.
        full: adds Stirling's approximation of the logarithm of the factorial, for targets above 1.

    Raises:
        ValueError: If the shapes do not broadcast, or `reduction` is unknown.
    """
    _warn_broadcast("poisson_nll_loss", input, target)
    return _native._poisson_nll_loss(input, target, (log_input, full, eps), reduction)


def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Tensor:
    """Computes the negative log-likelihood under normal distributions with the given variances.
    Variances below `eps` are replaced by `eps`.

    Shapes: [..], the same and the same -> [], or [..] if `reduction` is "none"; a variance per row
    may omit the last axis

    Args:
        full: adds the constant `log(2 pi) / 2`.

    Raises:
        ValueError: If the shapes do not broadcast, `reduction` is unknown, or a variance on the CPU
            is below 0. (On other devices the check would have to wait for the device: the loss is
            NaN.)
    """
    is_number = not isinstance(var, Tensor)
    if is_number:
        var = tensor(float(var), dtype=input.dtype, device=input.device)
    if is_number and var.ndim == 0:
        pass
    elif var.shape != input.shape and var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    elif var.shape != input.shape and (var.ndim != input.ndim or sum(size for size, expected in zip(var.shape, input.shape) if size != expected) != 1):
        raise ValueError(f"gaussian_nll_loss: var of shape {tuple(var.shape)} for an input of shape {tuple(input.shape)}, expected the same, without the last axis, or 1 along one axis")
    if var.device.type == "cpu" and bool((var.detach() < 0).any()):
        raise ValueError("gaussian_nll_loss: a variance below 0, expected none")
    _warn_broadcast("gaussian_nll_loss", input, target)
    return _native._gaussian_nll_loss((input, target, var), (full, eps), reduction)


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Computes the sum of `max(0, margin - input[y] + input[c])^p` over all classes c except the
    target y, divided by the number of classes.

    Shapes: [batch, classes] and class indices [batch] (int32 or int64) -> [], or [batch] if
    `reduction` is "none"; the batch axis is optional

    Args:
        p: 1 or 2.
        weight: the weight of each class as a target, [classes].

    Raises:
        IndexError: If a class index is out of range.
        ValueError: If `p` is neither 1 nor 2, the shapes do not match, or `reduction` is unknown.
        TypeError: If the logits have an integer dtype, or the indices have a floating dtype.
    """
    try:
        return _native._multi_margin_loss(input, target, (p, margin), weight, reduction)
    except (TypeError, ValueError) as error:
        explain_one_hot_error("multi_margin_loss", input, target, error)
        raise


def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Computes the sum of `max(0, 1 - input[y] + input[c])` over all targets y and all classes c
    that are not targets, divided by the number of classes.

    Shapes: [batch, classes] and class indices of the same shape (int32 or int64), of which those
    before the first -1 in each row are used -> [], or [batch] if `reduction` is "none"; the batch
    axis is optional

    Raises:
        IndexError: If a class index is out of range.
        ValueError: If the shapes differ, or `reduction` is unknown.
        TypeError: If the logits have an integer dtype, or the indices have a floating dtype.
    """
    return _native._multilabel_margin_loss(input, target, reduction)


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
) -> Tensor:
    """Computes the connectionist temporal classification loss: the negative log-probability of each
    target, summed over all its alignments with the input.

    The gradient is taken with respect to the log-probabilities as given. PyTorch's gradient is
    correct only directly after `log_softmax`, where the two agree.

    Shapes: log-probabilities [time, batch, classes] and targets [batch, length] (int32 or int64),
    or concatenated [sum of target_lengths] -> [], or [batch] if `reduction` is "none"; without a
    batch [time, classes] and [length]

    Args:
        input_lengths, target_lengths: the length of each sequence; tensors or lists of integers.
        blank: the index of the blank class.
        reduction: "mean" divides each loss by its target length first.
        zero_infinity: replaces infinite losses, of targets that do not fit into their input, by 0.

    Raises:
        IndexError: If a target is out of range.
        ValueError: If the shapes do not match, a length exceeds its sequence, or `reduction` is
            unknown.
        TypeError: If the log-probabilities have an integer dtype, or the lengths are not integers.
    """
    lengths = [_lengths("ctc_loss", name, value) for name, value in (("input_lengths", input_lengths), ("target_lengths", target_lengths))]
    return _native._ctc_loss(log_probs, targets, lengths, (blank, zero_infinity), reduction)


def _lengths(op: str, name: str, value: Any) -> list[int]:
    if isinstance(value, Tensor):
        if value.is_floating_point():
            raise TypeError(f"{op}: {name} of {str(value.dtype).split('.')[-1]}, expected integers")
        value = value.reshape(-1).tolist()
    lengths = [value] if isinstance(value, int) else [int(length) for length in value]
    if any(length < 0 for length in lengths):
        raise ValueError(f"{op}: {name} below 0")
    return lengths


name_all(globals())
