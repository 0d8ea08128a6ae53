"""Normalization layers, which shift and scale their input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _ternion
from .._ternion import Parameter, Tensor, _functional as _native
from . import functional as F
from ._initialization import reset_affine
from .module import Module

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "RMSNorm",
]  # fmt: skip


def _shape(normalized_shape):
    return tuple(normalized_shape) if isinstance(normalized_shape, (list, tuple)) else (normalized_shape,)


class LayerNorm(Module):
    """Shifts rows over the last axes to mean 0 and scales them to variance 1, then applies
    `* weight + bias`.

    Shapes: [.., *normalized_shape] -> the same; `weight` and `bias` are [*normalized_shape]

    Args:
        elementwise_affine: whether the layer has a weight and, unless `bias` is False, a bias.

    Raises:
        ValueError: If a size is below 0; when called, if the last axes have other sizes.
        TypeError: If a size is not an integer; when called, if the input is not a tensor or has an
            integer dtype.
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        self.normalized_shape, self.eps, self.elementwise_affine = _shape(normalized_shape), eps, elementwise_affine
        factory_kwargs = dict(device=device, dtype=dtype)
        self.weight = Parameter(_ternion.ones(self.normalized_shape, **factory_kwargs)) if elementwise_affine else None
        self.bias = Parameter(_ternion.zeros(self.normalized_shape, **factory_kwargs)) if elementwise_affine and bias else None

    def reset_parameters(self) -> None:
        """Resets the weight to 1 and the bias to 0, where they exist."""
        reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class RMSNorm(Module):
    """Divides rows over the last axes by their root mean square, then applies `* weight`.

    Shapes: [.., *normalized_shape] -> the same; `weight` is [*normalized_shape]

    Raises:
        ValueError: When called, if the last axes have other sizes.
        TypeError: When called, if the input has an integer dtype.
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine: bool = True, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        self.normalized_shape, self.eps, self.elementwise_affine = _shape(normalized_shape), eps, elementwise_affine
        self.weight = Parameter(_ternion.ones(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None

    def reset_parameters(self) -> None:
        """Resets the weight to 1, where it exists."""
        reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Shifts groups of channels to mean 0 and scales them to variance 1, then applies
    `* weight + bias` to each channel.

    Shapes: [batch, num_channels, ..] -> the same; `weight` and `bias` are [num_channels]

    Raises:
        ValueError: If the groups do not divide the channels; when called, if the number of channels
            differs or the input has fewer than 2 axes.
    """

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None, dtype: Any = None):
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(f"GroupNorm: {num_groups} groups of {num_channels} channels, expected a number that divides them")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        factory_kwargs = dict(device=device, dtype=dtype)
        self.weight = Parameter(_ternion.ones(num_channels, **factory_kwargs)) if affine else None
        self.bias = Parameter(_ternion.zeros(num_channels, **factory_kwargs)) if affine else None

    def reset_parameters(self) -> None:
        """Resets the weight to 1 and the bias to 0, where they exist."""
        reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class _RunningStatsModule(Module):
    """Base class of layers with running statistics."""

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        # Files of PyTorch before 0.4.1 and of other frameworks have no batch count. As in PyTorch,
        # it then keeps its value.
        key = f"{prefix}num_batches_tracked"
        if self.num_batches_tracked is not None and key not in state_dict:
            state_dict[key] = self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, *others)


class _BatchNorm(_RunningStatsModule):
    _ranks: tuple = ()
    num_batches_tracked: Tensor

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.track_running_stats = track_running_stats
        factory_kwargs = dict(device=device, dtype=dtype)
        self.weight = Parameter(_ternion.ones(num_features, **factory_kwargs)) if affine else None
        self.bias = Parameter(_ternion.zeros(num_features, **factory_kwargs)) if affine else None
        if_tracked = (lambda tensor: tensor) if track_running_stats else (lambda tensor: None)
        self.register_buffer("running_mean", if_tracked(_ternion.zeros(num_features, **factory_kwargs)))
        self.register_buffer("running_var", if_tracked(_ternion.ones(num_features, **factory_kwargs)))
        self.register_buffer("num_batches_tracked", if_tracked(_ternion.zeros((), dtype=_ternion.int64, device=device)))

    def reset_running_stats(self) -> None:
        """Resets the running mean to 0, the running variance to 1 and the number of batches to 0.
        """
        if self.running_mean is not None and self.running_var is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Resets the weight to 1 and the bias to 0, where they exist, and the running statistics.
        """
        self.reset_running_stats()
        reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        if not isinstance(input, Tensor):
            raise TypeError(f"{type(self).__name__}: an input of type {type(input).__name__}, expected a tensor")
        if input.ndim not in self._ranks:
            raise ValueError(f"{type(self).__name__}: an input of shape {tuple(input.shape)}, expected {self._ranks} axes")
        updates_stats = self.training and self.track_running_stats
        # Without a momentum, the statistics are the averages over all batches.
        momentum, batches = (0.0, self.num_batches_tracked if updates_stats else None) if self.momentum is None else (self.momentum, None)
        uses_batch_stats = self.training or not self.track_running_stats
        output = _native.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, uses_batch_stats, momentum, self.eps, batches)
        if updates_stats:
            self.num_batches_tracked.add_(1)
        return output

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, track_running_stats={self.track_running_stats}"


class BatchNorm1d(_BatchNorm):
    """Shifts each channel of rows or sequences to mean 0 and scales it to variance 1:
    [batch, channels] or [batch, channels, length] -> the same.

    Args:
        momentum: the weight of the current batch in the running statistics, or None for the average
            over all batches.
        track_running_stats: if False, evaluation uses the statistics of the batch, too.

    Raises:
        ValueError: When called, if the number of axes or channels is invalid; in training, if there
            is 1 value per channel.
        TypeError: When called, if the input is not a tensor or has an integer dtype.
    """

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Shifts each channel of images to mean 0 and scales it to variance 1:
    [batch, channels, height, width] -> the same.

    Args:
        momentum: the weight of the current batch in the running statistics, or None for the average
            over all batches.
        track_running_stats: if False, evaluation uses the statistics of the batch, too.

    Raises:
        ValueError: When called, if the number of axes or channels is invalid.
        TypeError: When called, if the input is not a tensor.
    """

    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Shifts each channel of volumes to mean 0 and scales it to variance 1:
    [batch, channels, depth, height, width] -> the same.

    Args:
        momentum: the weight of the current batch in the running statistics, or None for the average
            over all batches.
        track_running_stats: if False, evaluation uses the statistics of the batch, too.

    Raises:
        ValueError: When called, if the number of axes or channels is invalid.
        TypeError: When called, if the input is not a tensor.
    """

    _ranks = (5,)


class _InstanceNorm(_RunningStatsModule):
    _rank = 0

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = False, track_running_stats: bool = False,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.track_running_stats = track_running_stats
        factory_kwargs = dict(device=device, dtype=dtype)
        self.register_buffer("running_mean", _ternion.zeros(num_features, **factory_kwargs) if track_running_stats else None)
        self.register_buffer("running_var", _ternion.ones(num_features, **factory_kwargs) if track_running_stats else None)
        tracked = _ternion.tensor(0, dtype=_ternion.int64, device=device) if track_running_stats else None
        self.register_buffer("num_batches_tracked", tracked)
        self.weight = Parameter(_ternion.ones(num_features, **factory_kwargs)) if affine else None
        self.bias = Parameter(_ternion.zeros(num_features, **factory_kwargs)) if affine else None

    def reset_parameters(self) -> None:
        """Resets the weight to 1 and the bias to 0, where they exist."""
        reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (self._rank - 1, self._rank):
            raise ValueError(f"{type(self).__name__}: an input of shape {tuple(input.shape)}, expected {self._rank} axes, or {self._rank - 1} without a batch")
        batch = input if input.ndim == self._rank else input.unsqueeze(0)
        uses_batch_stats = self.training or not self.track_running_stats
        output = F.instance_norm(batch, self.running_mean, self.running_var, self.weight, self.bias, uses_batch_stats, self.momentum or 0.0, self.eps)
        return output if input.ndim == self._rank else output.squeeze(0)

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, track_running_stats={self.track_running_stats}"


class InstanceNorm1d(_InstanceNorm):
    """Shifts each channel of each sequence to mean 0 and scales it to variance 1:
    [batch, channels, length] -> the same; the batch axis is optional.

    With `track_running_stats`, running statistics are updated in training and used instead of the
    examples' own in evaluation mode.

    Raises:
        ValueError: When called, if the number of axes is invalid, or there is 1 value per channel.
    """

    _rank = 3


class InstanceNorm2d(_InstanceNorm):
    """Shifts each channel of each image to mean 0 and scales it to variance 1:
    [batch, channels, height, width] -> the same; the batch axis is optional.

    Raises:
        ValueError: When called, if the number of axes is invalid, or there is 1 value per channel.
    """

    _rank = 4


class InstanceNorm3d(_InstanceNorm):
    """Shifts each channel of each volume to mean 0 and scales it to variance 1:
    [batch, channels, depth, height, width] -> the same; the batch axis is optional.

    Raises:
        ValueError: When called, if the number of axes is invalid, or there is 1 value per channel.
    """

    _rank = 5
