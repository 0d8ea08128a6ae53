"""Layers. Names, arguments, defaults, first values and keys of the state dict are PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .. import _ternion
from .._ternion import Parameter, Tensor
from . import functional as F
from .module import Module

if TYPE_CHECKING:
    from typing_extensions import Self


def _uniform(shape, bound, device, dtype):
    return Parameter(_ternion._initial(shape, "uniform", [-bound, bound], device=device, dtype=dtype))


def _weight_and_bias(weight_shape: Any, fan_in: Any, out: Any, bias: Any, device: Any, dtype: Any) -> tuple[Parameter, Parameter | None]:
    """What PyTorch's linear and convolution layers start from."""
    weight = Parameter(_ternion._initial(weight_shape, "kaiming_uniform", [math.sqrt(5.0)], device=device, dtype=dtype))
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
    return weight, (_uniform((out,), bound, device, dtype) if bias else None)


def _zero_bias(layer, bias):
    """A layer without bias, with one of zeros if that is wanted: no random numbers are drawn for it."""
    if bias:
        layer.bias = Parameter(_ternion.zeros(layer.weight.shape[0], dtype=layer.weight.dtype, device=layer.weight.device))
    return layer


def _pair(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value, value)


class Identity(Module):
    """The input as it is."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """`input @ weight.T + bias`: [.., in_features] -> [.., out_features]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None):
        self.in_features, self.out_features = in_features, out_features
        self.weight, self.bias = _weight_and_bias((out_features, in_features), in_features, out_features, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """A row of `weight` for each number: [..] (int32 or int64) -> [.., embedding_dim]."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, device: Any = None, dtype: Any = None):
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"padding_idx {padding_idx} is none of {num_embeddings} rows")
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        weight = _ternion._initial((num_embeddings, embedding_dim), "normal", [0.0, 1.0], device=device, dtype=dtype)
        if self.padding_idx is not None:
            weight[self.padding_idx] = 0.0
        self.weight = Parameter(weight)

    def forward(self, input: Tensor) -> Tensor:
        weight: Tensor = self.weight
        if self.padding_idx is not None and weight.requires_grad:
            # No gradient reaches the row of the padding.
            rows = _ternion.arange(self.num_embeddings, device=weight.device) == self.padding_idx
            weight = _ternion.where(rows.unsqueeze(1), weight.detach(), weight)
        return F.embedding(input, weight)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


class _Conv(Module):
    def _make(self, weight_shape, fan_in, channels, options, bias, device, dtype):
        self._set(channels, options)
        self.weight, self.bias = _weight_and_bias(weight_shape, fan_in, self.out_channels, bias, device, dtype)

    def _set(self, channels, options):
        self.in_channels, self.out_channels = channels
        self.kernel_size, self.stride, self.padding, self.dilation, self.groups = options
        if self.groups < 1 or self.in_channels % self.groups or self.out_channels % self.groups:
            raise ValueError(f"groups {self.groups} do not divide {self.in_channels} and {self.out_channels} channels")

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, groups={self.groups}, bias={self.bias is not None}"
        )


class Conv1d(_Conv):
    """Windows of sequences, weighted: [batch, in_channels, length] -> [batch, out_channels, windows]."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        inner = in_channels // max(groups, 1)
        options = (kernel_size, stride, padding, dilation, groups)
        self._make((out_channels, inner, kernel_size), inner * kernel_size, (in_channels, out_channels), options, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.conv1d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2d(_Conv):
    """Windows of images, weighted: [batch, in_channels, height, width] -> [batch, out_channels, rows, columns]."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        kernel, inner = _pair(kernel_size), in_channels // max(groups, 1)
        options = (kernel, _pair(stride), _pair(padding), _pair(dilation), groups)
        fan_in = inner * kernel[0] * kernel[1]
        self._make((out_channels, inner, *kernel), fan_in, (in_channels, out_channels), options, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class ConvTranspose2d(_Conv):
    """What a convolution makes of its gradient: [batch, in_channels, height, width] -> [batch, out_channels, rows, columns]."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, bias: bool = True,
        dilation: int | Sequence[int] = 1, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        kernel, inner = _pair(kernel_size), out_channels // max(groups, 1)
        options = (kernel, _pair(stride), _pair(padding), _pair(dilation), groups)
        self.output_padding = _pair(output_padding)
        fan_in = inner * kernel[0] * kernel[1]
        self._make((in_channels, inner, *kernel), fan_in, (in_channels, out_channels), options, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.conv_transpose2d(
            input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation
        )


class LayerNorm(Module):
    """Rows over the last axes shifted to mean 0 and scaled to variance 1, then `* weight + bias`."""

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        self.normalized_shape = tuple(normalized_shape) if isinstance(normalized_shape, (list, tuple)) else (normalized_shape,)
        self.eps = eps
        made = dict(device=device, dtype=dtype)
        self.weight = Parameter(_ternion.ones(self.normalized_shape, **made)) if elementwise_affine else None
        self.bias = Parameter(_ternion.zeros(self.normalized_shape, **made)) if elementwise_affine and bias else None

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(Module):
    """Rows over the last axes divided by the root of their mean square, then `* weight`."""

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine: bool = True, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        self.normalized_shape = tuple(normalized_shape) if isinstance(normalized_shape, (list, tuple)) else (normalized_shape,)
        self.eps = eps
        self.weight = Parameter(_ternion.ones(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class GroupNorm(Module):
    """Groups of channels shifted to mean 0 and scaled to variance 1, then each channel `* weight + bias`."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None, dtype: Any = None):
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(f"{num_groups} groups of {num_channels} channels")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        made = dict(device=device, dtype=dtype)
        self.weight = Parameter(_ternion.ones(num_channels, **made)) if affine else None
        self.bias = Parameter(_ternion.zeros(num_channels, **made)) if affine else None

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class _BatchNorm(Module):
    _ranks: tuple = ()
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.track_running_stats = track_running_stats
        made = dict(device=device, dtype=dtype)
        self.weight = Parameter(_ternion.ones(num_features, **made)) if affine else None
        self.bias = Parameter(_ternion.zeros(num_features, **made)) if affine else None
        tracked = (lambda tensor: tensor) if track_running_stats else (lambda tensor: None)
        self.register_buffer("running_mean", tracked(_ternion.zeros(num_features, device=device)))
        self.register_buffer("running_var", tracked(_ternion.ones(num_features, device=device)))
        self.register_buffer("num_batches_tracked", tracked(_ternion.zeros((), dtype=_ternion.int64, device=device)))

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in self._ranks:
            raise ValueError(f"{type(self).__name__}: an input of shape {tuple(input.shape)}, expected {self._ranks} axes")
        follows, momentum = self.training and self.track_running_stats, self.momentum
        if momentum is None:
            momentum = 1 / (self.num_batches_tracked.item() + 1) if follows else 0.0
        of_batch = self.training or not self.track_running_stats
        output = F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, of_batch, momentum, self.eps)
        if follows:
            self.num_batches_tracked.add_(1)
        return output

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm1d(_BatchNorm):
    """Each channel of rows or sequences shifted to mean 0 and scaled to variance 1: [batch, channels] or [batch, channels, length]."""

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Each channel of images shifted to mean 0 and scaled to variance 1: [batch, channels, height, width]."""

    _ranks = (4,)


class Dropout(Module):
    """In training, elements become 0 with probability `p`, and the others are divided by `1 - p`."""

    def __init__(self, p: float = 0.5):
        if not 0 <= p <= 1:
            raise ValueError(f"dropout: probability {p}, expected 0 to 1")
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class MaxPool2d(Module):
    """The largest element of each window of images."""

    def __init__(
        self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
    ):  # fmt: skip
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.dilation, self.ceil_mode = dilation, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(Module):
    """The mean of each window of images."""

    def __init__(
        self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
    ):  # fmt: skip
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AdaptiveAvgPool2d(Module):
    """Means of windows that divide images into `output_size` rows and columns."""

    def __init__(self, output_size: int | Sequence[int]):
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class Upsample(Module):
    """Images of another size: [batch, channels, height, width] -> [batch, channels, rows, columns].

    Args are those of `functional.interpolate`.
    """

    def __init__(
        self, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ):  # fmt: skip
        self.size, self.scale_factor, self.mode = size, scale_factor, mode
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)

    def extra_repr(self) -> str:
        told = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{told}, mode={self.mode!r}"


class Flatten(Module):
    """Axes from `start_dim` to `end_dim` as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)


class Sequential(Module):
    """Modules one behind the other; they are also items: `model[0]`, `len(model)`, `for layer in model`."""

    def __init__(self, *modules: Any):
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], dict) else enumerate(modules)
        for name, module in named:
            setattr(self, str(name), module)

    def forward(self, input: Tensor) -> Tensor:
        for module in self.children():
            input = module(input)
        return input

    def __len__(self) -> int:
        return len(list(self.children()))

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self.children()))

    def __getitem__(self, index: Any) -> Any:
        modules = list(self.children())
        return Sequential(*modules[index]) if isinstance(index, slice) else modules[index]

    def append(self, module: Module) -> Self:
        """Puts a module behind the others; the model itself."""
        setattr(self, str(len(self)), module)
        return self


class ModuleList(Module):
    """Modules in a list. (A plain list as an attribute does as well.)"""

    def __init__(self, modules: Any = ()):
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> Self:
        """Puts a module behind the others; the list itself."""
        setattr(self, str(len(self)), module)
        return self

    def __len__(self) -> int:
        return len(list(self.children()))

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self.children()))

    def __getitem__(self, index: Any) -> Any:
        modules = list(self.children())
        return ModuleList(modules[index]) if isinstance(index, slice) else modules[index]


class _Activation(Module):
    """A layer that is a function of a tensor."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        raise NotImplementedError


def _function(name: str, doc: str, call: Any, **defaults: Any) -> type[_Activation]:
    """A layer that is a function with settings."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("inplace", None)
        settings = dict(defaults)
        settings.update(zip(defaults, args))
        unknown = [key for key in kwargs if key not in defaults]
        if unknown or len(args) > len(defaults):
            raise TypeError(f"{name}() takes {', '.join(defaults) or 'no settings'}")
        settings.update(kwargs)
        self.__dict__.update(settings)

    def forward(self: Any, input: Tensor) -> Any:
        return call(input, *(getattr(self, key) for key in defaults))

    def extra_repr(self: Any) -> str:
        return ", ".join(f"{key}={getattr(self, key)}" for key in defaults)

    body = {"__doc__": doc, "__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__module__": __name__}
    return type(name, (_Activation,), body)


ReLU = _function("ReLU", "`max(x, 0)`.", Tensor.relu)
GELU = _function("GELU", "`x * Phi(x)`, by tanh if `approximate` is \"tanh\".", Tensor.gelu, approximate="none")
SiLU = _function("SiLU", "`x * sigmoid(x)`.", Tensor.silu)
ELU = _function("ELU", "`x` where it is positive, else `alpha * (e^x - 1)`.", Tensor.elu, alpha=1.0)
LeakyReLU = _function("LeakyReLU", "`x` where it is positive, else `negative_slope * x`.", Tensor.leaky_relu, negative_slope=0.01)
Sigmoid = _function("Sigmoid", "`1 / (1 + e^-x)`.", Tensor.sigmoid)
Tanh = _function("Tanh", "The hyperbolic tangent.", Tensor.tanh)
Softplus = _function("Softplus", "`log(1 + e^(beta * x)) / beta`.", Tensor.softplus, beta=1.0)
Softmax = _function("Softmax", "`e^x / sum(e^x)` along `dim`.", Tensor.softmax, dim=-1)
LogSoftmax = _function("LogSoftmax", "The logarithm of `Softmax` along `dim`.", Tensor.log_softmax, dim=-1)
LogSigmoid = _function("LogSigmoid", "`log(sigmoid(x))`.", Tensor.logsigmoid)


class CrossEntropyLoss(Module):
    """Cross-entropy of logits and class indices, or probabilities."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0):
        self.register_buffer("weight", weight)
        self.ignore_index, self.reduction, self.label_smoothing = ignore_index, reduction, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)


class NLLLoss(Module):
    """Minus the log-probability of each class index."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"):
        self.register_buffer("weight", weight)
        self.ignore_index, self.reduction = ignore_index, reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class MSELoss(Module):
    """`(input - target)^2`."""

    def __init__(self, reduction: str = "mean"):
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, self.reduction)


class L1Loss(Module):
    """`|input - target|`."""

    def __init__(self, reduction: str = "mean"):
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, self.reduction)


class HuberLoss(Module):
    """Quadratic up to a distance of `delta`, linear beyond."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0):
        self.reduction, self.delta = reduction, delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, self.reduction, self.delta)


class BCEWithLogitsLoss(Module):
    """Binary cross-entropy of logits and probabilities."""

    pos_weight: Tensor | None

    def __init__(self, reduction: str = "mean", pos_weight: Tensor | None = None):
        self.register_buffer("pos_weight", pos_weight)
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(input, target, self.reduction, self.pos_weight)


class KLDivLoss(Module):
    """The Kullback-Leibler divergence of log-probabilities from a target."""

    def __init__(self, reduction: str = "mean", log_target: bool = False):
        self.reduction, self.log_target = reduction, log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, self.reduction, self.log_target)
