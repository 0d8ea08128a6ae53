"""Layers. Names, arguments, defaults, initial values and state dict keys are PyTorch's."""

from __future__ import annotations

from typing import Any

from .. import _ternion
from .._scopes import no_grad
from .._ternion import Parameter, Tensor
from . import functional as F
from ._images import _int_tuple
from ._initialization import reset_linear, reset_parameter, reset_uniform, uniform, weight_and_bias
from .module import Module

__all__ = [
    "AlphaDropout", "Bilinear", "CosineSimilarity", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "Embedding", "EmbeddingBag", "FeatureAlphaDropout", "Flatten", "Identity",
    "Linear", "PairwiseDistance", "Unflatten",
]  # fmt: skip


def _zero_bias(layer, bias):
    """Adds a bias of zeros to a layer without bias, if `bias` is True. It draws no random numbers.
    """
    if bias:
        layer.bias = Parameter(_ternion.zeros(layer.weight.shape[0], dtype=layer.weight.dtype, device=layer.weight.device))
    return layer


class Identity(Module):
    """Returns the input unchanged.

    Shapes: [..] -> the same
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """Computes `input @ weight.T + bias`: [.., in_features] -> [.., out_features].

    Raises:
        TypeError: If the numbers of features are not integers; when called, if the input is not a
            tensor, or its dtype is not that of the weights.
        ValueError: When called, if the size of the last axis is not `in_features`.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None):
        (self.in_features,), (self.out_features,) = _int_tuple("Linear", "in_features", in_features, 1), _int_tuple("Linear", "out_features", out_features, 1)
        self.weight, self.bias = weight_and_bias((out_features, in_features), in_features, out_features, bias, device, dtype)

    def reset_parameters(self) -> None:
        """Reinitializes the parameters."""
        reset_linear(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """Computes `input1 @ weight[o] @ input2 + bias[o]`: [.., in1_features], [.., in2_features] ->
    [.., out_features].

    Raises:
        ValueError: When called, if the sizes of the last axes are not `in1_features` and
            `in2_features`.
    """

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None):
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        bound = in1_features**-0.5
        self.weight = uniform((out_features, in1_features, in2_features), bound, device, dtype)
        self.bias = uniform((out_features,), bound, device, dtype) if bias else None

    def reset_parameters(self) -> None:
        """Reinitializes the parameters."""
        for parameter in (self.weight, self.bias):
            reset_uniform(parameter, self.in1_features**-0.5)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        text = f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}"
        return f"{text}, bias={self.bias is not None}"


def _embedding_weight(layer: Any, weight: Tensor | None, device: Any, dtype: Any) -> Tensor:
    """Returns the initial rows of an embedding: the given ones, or random ones."""
    shape, name = (layer.num_embeddings, layer.embedding_dim), type(layer).__name__
    if weight is not None:
        if not isinstance(weight, Tensor) or tuple(weight.shape) != shape:
            actual = f"shape {list(weight.shape)}" if isinstance(weight, Tensor) else f"type {type(weight).__name__}"
            raise ValueError(f"{name}: _weight of {actual}, expected a tensor of shape {list(shape)}")
        return weight
    weight = _ternion._initial(shape, "normal", [0.0, 1.0], device=device, dtype=dtype)
    if layer.padding_idx is not None:
        weight[layer.padding_idx] = 0.0
    return weight


class Embedding(Module):
    """Looks up a row of `weight` for each index: [..] (int32 or int64) -> [.., embedding_dim].

    Args:
        padding_idx: the index of a row that is initialized to 0 and receives no gradient.
        max_norm: rows that are looked up and whose norm is larger are scaled to this norm, in
            `weight` itself, when the layer is called.
        norm_type: the p of the norm for `max_norm`.
        scale_grad_by_freq: divides the gradient of each row by the number of its occurrences in the
            input.

    Raises:
        ValueError: If `padding_idx` is out of range, or `sparse` is True, which only PyTorch
            supports.
        IndexError: When called, if an index is out of range.
        TypeError: When called, if the indices have a floating dtype.
    """

    # Defaults for layers that are created by `from_pretrained`.
    max_norm: float | None = None
    norm_type: float = 2.0
    scale_grad_by_freq: bool = False

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None, _freeze: bool = False,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        F._reject_unsupported("Embedding", sparse=sparse)
        self._set_options(num_embeddings, embedding_dim, padding_idx)
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.weight = Parameter(_embedding_weight(self, _weight, device, dtype), not _freeze)

    def _set_options(self, num_embeddings, embedding_dim, padding_idx):
        (self.num_embeddings,) = _int_tuple("Embedding", "num_embeddings", num_embeddings, 1)
        (self.embedding_dim,) = _int_tuple("Embedding", "embedding_dim", embedding_dim, 1)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"Embedding: padding_idx {padding_idx} is none of {num_embeddings} rows")
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings

    @classmethod
    def from_pretrained(
        cls, embeddings: Any, freeze: Any = True, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ):  # fmt: skip
        """Creates a layer with these rows, [num_embeddings, embedding_dim], and shares their
        memory. It is trained only if `freeze` is False.

        Raises:
            ValueError: If `embeddings` is not a tensor of 2 axes.
        """
        if not isinstance(embeddings, Tensor) or embeddings.ndim != 2:
            actual = f"shape {tuple(embeddings.shape)}" if isinstance(embeddings, Tensor) else f"type {type(embeddings).__name__}"
            raise ValueError(f"Embedding.from_pretrained: embeddings of {actual}, expected a tensor of 2 axes")
        F._reject_unsupported("Embedding.from_pretrained", sparse=sparse)
        layer = cls.__new__(cls)
        layer._set_options(embeddings.shape[0], embeddings.shape[1], padding_idx)
        layer.max_norm, layer.norm_type, layer.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        layer.weight = Parameter(embeddings, not freeze)
        return layer

    def reset_parameters(self) -> None:
        """Reinitializes the rows. The row of `padding_idx` is 0."""
        reset_parameter(self.weight, "normal", [0.0, 1.0])
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        return text + _non_default_settings(self, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False)


def _non_default_settings(layer: Module, **defaults: Any) -> str:
    """Returns the settings that differ from their defaults."""
    return "".join(f", {name}={getattr(layer, name)}" for name, value in defaults.items() if getattr(layer, name) != value)


class EmbeddingBag(Module):
    """Looks up rows of `weight` for bags of indices and reduces them: [bags, size]
    (int32 or int64), or [count] with offsets [bags] -> [bags, embedding_dim].

    Args:
        mode: "sum", "mean" or "max".
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: the index of a row that is initialized to 0, is ignored and receives no
            gradient.
        max_norm: rows that are looked up and whose norm is larger are scaled to this norm, in
            `weight` itself, when the layer is called.
        norm_type: the p of the norm for `max_norm`.

    Raises:
        ValueError: If the mode is unknown, `padding_idx` is out of range, or `scale_grad_by_freq`
            or `sparse` is True, which only PyTorch supports; when called, if the shapes do not
            match.
        IndexError: When called, if an index is out of range.
        TypeError: When called, if the indices have a floating dtype.
    """

    max_norm: float | None = None
    norm_type: float = 2.0

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        F._reject_unsupported("EmbeddingBag", scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
        self._set_options(num_embeddings, embedding_dim, mode, include_last_offset, padding_idx)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.weight = Parameter(_embedding_weight(self, _weight, device, dtype))

    def _set_options(self, num_embeddings, embedding_dim, mode, include_last_offset, padding_idx):
        (self.num_embeddings,) = _int_tuple("EmbeddingBag", "num_embeddings", num_embeddings, 1)
        (self.embedding_dim,) = _int_tuple("EmbeddingBag", "embedding_dim", embedding_dim, 1)
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"EmbeddingBag: mode {mode!r}, expected 'sum', 'mean' or 'max'")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"EmbeddingBag: padding_idx {padding_idx} is none of {num_embeddings} rows")
        self.mode, self.include_last_offset = mode, include_last_offset
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings

    @classmethod
    def from_pretrained(
        cls, embeddings: Any, freeze: Any = True, max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, include_last_offset: bool = False, padding_idx: int | None = None,
    ):  # fmt: skip
        """Creates a layer with these rows, [num_embeddings, embedding_dim], and shares their
        memory. It is trained only if `freeze` is False.

        Raises:
            ValueError: If `embeddings` is not a tensor of 2 axes, or the mode is unknown.
        """
        if not isinstance(embeddings, Tensor) or embeddings.ndim != 2:
            actual = f"shape {tuple(embeddings.shape)}" if isinstance(embeddings, Tensor) else f"type {type(embeddings).__name__}"
            raise ValueError(f"EmbeddingBag.from_pretrained: embeddings of {actual}, expected a tensor of 2 axes")
        layer = cls.__new__(cls)
        F._reject_unsupported("EmbeddingBag.from_pretrained", scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
        layer._set_options(embeddings.shape[0], embeddings.shape[1], mode, include_last_offset, padding_idx)
        layer.max_norm, layer.norm_type = max_norm, norm_type
        layer.weight = Parameter(embeddings, not freeze)
        return layer

    def reset_parameters(self) -> None:
        """Reinitializes the rows. The row of `padding_idx` is 0."""
        reset_parameter(self.weight, "normal", [0.0, 1.0])
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        settings: Any = dict(max_norm=self.max_norm, norm_type=self.norm_type, mode=self.mode, include_last_offset=self.include_last_offset, padding_idx=self.padding_idx)
        return F.embedding_bag(input, self.weight, offsets, per_sample_weights=per_sample_weights, **settings)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"
        return text + _non_default_settings(self, padding_idx=None, max_norm=None, norm_type=2.0)


class Dropout(Module):
    """In training, sets elements to 0 with probability `p` and divides the others by `1 - p`.

    Shapes: [..] -> the same

    Raises:
        ValueError: If the probability is outside 0 to 1.
        TypeError: If `p` is not a number; in training, if the input has an integer dtype.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False):
        if not isinstance(p, (int, float)) or isinstance(p, bool) or not isinstance(inplace, bool):
            raise TypeError(f"{type(self).__name__}: p {p!r} and inplace {inplace!r}, expected a number, and True or False")
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: probability {p}, expected 0 to 1")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(Dropout):
    """In training, sets entire channels of sequences to 0 with probability `p` and divides the
    others by `1 - p`.

    Shapes: [batch, channels, length] or [channels, length] -> the same

    Raises:
        ValueError: If the probability is outside 0 to 1; when called, if the number of axes is
            invalid.
        TypeError: If `p` is not a number; in training, if the input has an integer dtype.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(Dropout):
    """In training, sets entire channels of images to 0 with probability `p` and divides the others
    by `1 - p`.

    Shapes: [batch, channels, height, width] or three of these axes -> the same

    Raises:
        ValueError: If the probability is outside 0 to 1; when called, if the number of axes is
            invalid.
        TypeError: If `p` is not a number; in training, if the input has an integer dtype.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(Dropout):
    """In training, sets entire channels of volumes to 0 with probability `p` and divides the others
    by `1 - p`.

    Shapes: [batch, channels, depth, height, width] -> the same; the batch axis is optional

    Raises:
        ValueError: If the probability is outside 0 to 1; when called, if the number of axes is
            invalid.
        TypeError: If `p` is not a number; in training, if the input has an integer dtype.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(Dropout):
    """In training, applies dropout that preserves mean 0 and variance 1, for networks with `SELU`:
    see `functional.alpha_dropout`.

    Shapes: [..] -> the same

    Raises:
        ValueError: If the probability is outside 0 to 1.
        TypeError: If `p` is not a number; in training, if the input has an integer dtype.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(Dropout):
    """In training, applies `AlphaDropout` to entire channels.

    Shapes: [batch, channels, ..] -> the same

    Raises:
        ValueError: If the probability is outside 0 to 1; in training, if the input has fewer than
            two axes.
        TypeError: If `p` is not a number; in training, if the input has an integer dtype.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)


class Flatten(Module):
    """Merges the axes from `start_dim` to `end_dim` into one.

    Shapes: [batch, a, b, ..] -> [batch, a * b * ..], by default

    Raises:
        IndexError: When called, if an axis does not exist.
        ValueError: When called, if `end_dim` is before `start_dim`.
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits axis `dim` into several axes of the given sizes, one of which may be -1.

    Shapes: [.., a * b, ..] -> [.., a, b, ..]

    Raises:
        TypeError: If `dim` or a size is not an integer.
        ValueError: When called, if the product of the sizes is not the size of the axis.
        IndexError: When called, if the axis does not exist.
    """

    def __init__(self, dim: int, unflattened_size: Any):
        if not isinstance(dim, int) or not all(isinstance(size, int) for size in unflattened_size):
            raise TypeError(f"Unflatten: dim {dim!r} and sizes {unflattened_size!r}, expected integers: axes have no names here")
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class CosineSimilarity(Module):
    """Computes the cosine of the angle between vectors along `dim`.

    Shapes: [.., n, ..] and the same -> [.., ..], without `dim`

    Raises:
        ValueError: When called, if the shapes do not broadcast.
        IndexError: When called, if the axis does not exist.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8):
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """Computes the norm of the differences along the last axis.

    Shapes: [.., n] and the same -> [..], with `keepdim` [.., 1]

    Raises:
        ValueError: When called, if the shapes do not broadcast.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False):
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
