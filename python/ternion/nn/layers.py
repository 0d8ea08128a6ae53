"""Layers. Names, arguments, defaults, first values and keys of the state dict are PyTorch's."""

from __future__ import annotations

from typing import Any

from .. import _ternion
from .._scopes import no_grad
from .._ternion import Parameter, Tensor
from . import functional as F
from ._first_values import draw_again, draw_uniform_again, draw_weight_and_bias_again, uniform, weight_and_bias
from ._images import _numbers
from .module import Module

__all__ = [
    "AlphaDropout", "Bilinear", "CosineSimilarity", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "Embedding", "EmbeddingBag", "FeatureAlphaDropout", "Flatten", "Identity",
    "Linear", "PairwiseDistance", "Unflatten",
]  # fmt: skip


def _zero_bias(layer, bias):
    """A layer without bias, with one of zeros if that is wanted: no random numbers are drawn for it."""
    if bias:
        layer.bias = Parameter(_ternion.zeros(layer.weight.shape[0], dtype=layer.weight.dtype, device=layer.weight.device))
    return layer


class Identity(Module):
    """The input as it is.

    Shapes: [..] -> the same
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """`input @ weight.T + bias`: [.., in_features] -> [.., out_features].

    Raises:
        TypeError: features that are no whole numbers; when called, no tensor, or one of another dtype than the weights.
        ValueError: when called, a last axis of another size than `in_features`.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None):
        (self.in_features,), (self.out_features,) = _numbers("Linear", "in_features", in_features, 1), _numbers("Linear", "out_features", out_features, 1)
        self.weight, self.bias = weight_and_bias((out_features, in_features), in_features, out_features, bias, device, dtype)

    def reset_parameters(self) -> None:
        """Draws the first values anew."""
        draw_weight_and_bias_again(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """`input1 @ weight[o] @ input2 + bias[o]`: [.., in1_features], [.., in2_features] -> [.., out_features].

    Raises:
        ValueError: when called, last axes of other sizes than `in1_features` and `in2_features`.
    """

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None):
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        bound = in1_features**-0.5
        self.weight = uniform((out_features, in1_features, in2_features), bound, device, dtype)
        self.bias = uniform((out_features,), bound, device, dtype) if bias else None

    def reset_parameters(self) -> None:
        """Draws the first values anew."""
        for parameter in (self.weight, self.bias):
            draw_uniform_again(parameter, self.in1_features**-0.5)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        told = f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}"
        return f"{told}, bias={self.bias is not None}"


def _rows_of(layer: Any, weight: Tensor | None, device: Any, dtype: Any) -> Tensor:
    """The first rows of an embedding: those that were given, or drawn."""
    shape, name = (layer.num_embeddings, layer.embedding_dim), type(layer).__name__
    if weight is not None:
        if not isinstance(weight, Tensor) or tuple(weight.shape) != shape:
            told = f"shape {list(weight.shape)}" if isinstance(weight, Tensor) else f"type {type(weight).__name__}"
            raise ValueError(f"{name}: _weight of {told}, expected a tensor of shape {list(shape)}")
        return weight
    weight = _ternion._initial(shape, "normal", [0.0, 1.0], device=device, dtype=dtype)
    if layer.padding_idx is not None:
        weight[layer.padding_idx] = 0.0
    return weight


class Embedding(Module):
    """A row of `weight` for each number: [..] (int32 or int64) -> [.., embedding_dim].

    Args:
        padding_idx: the number of a row that is 0 at first and gets no gradient.
        max_norm: rows that are used and longer are shortened to it when the layer is called, in `weight` itself.
        norm_type: of which norm their length is.
        scale_grad_by_freq: divides the gradient of each row by how often it is used.

    Raises:
        ValueError: a `padding_idx` that is none; `sparse`, which PyTorch alone has.
        IndexError: when called, a number that is none of a row.
        TypeError: when called, numbers of a floating dtype.
    """

    # Of layers that are made from rows, too.
    max_norm: float | None = None
    norm_type: float = 2.0
    scale_grad_by_freq: bool = False

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None, _freeze: bool = False,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        F._only_pytorchs("Embedding", sparse=sparse)
        self._set(num_embeddings, embedding_dim, padding_idx)
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.weight = Parameter(_rows_of(self, _weight, device, dtype), not _freeze)

    def _set(self, num_embeddings, embedding_dim, padding_idx):
        (self.num_embeddings,) = _numbers("Embedding", "num_embeddings", num_embeddings, 1)
        (self.embedding_dim,) = _numbers("Embedding", "embedding_dim", embedding_dim, 1)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"Embedding: padding_idx {padding_idx} is none of {num_embeddings} rows")
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings

    @classmethod
    def from_pretrained(
        cls, embeddings: Any, freeze: Any = True, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ):  # fmt: skip
        """A layer with these rows, [num_embeddings, embedding_dim], whose memory it takes over; trained only if `freeze` is False.

        Raises:
            ValueError: no tensor of 2 axes.
        """
        if not isinstance(embeddings, Tensor) or embeddings.ndim != 2:
            told = f"shape {tuple(embeddings.shape)}" if isinstance(embeddings, Tensor) else f"type {type(embeddings).__name__}"
            raise ValueError(f"Embedding.from_pretrained: embeddings of {told}, expected a tensor of 2 axes")
        F._only_pytorchs("Embedding.from_pretrained", sparse=sparse)
        layer = cls.__new__(cls)
        layer._set(embeddings.shape[0], embeddings.shape[1], padding_idx)
        layer.max_norm, layer.norm_type, layer.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        layer.weight = Parameter(embeddings, not freeze)
        return layer

    def reset_parameters(self) -> None:
        """Draws the rows anew; that of `padding_idx` is 0."""
        draw_again(self.weight, "normal", [0.0, 1.0])
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)

    def extra_repr(self) -> str:
        told = f"{self.num_embeddings}, {self.embedding_dim}"
        return told + _settings_of(self, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False)


def _settings_of(layer: Module, **usual: Any) -> str:
    """The settings that are others than the usual."""
    return "".join(f", {name}={getattr(layer, name)}" for name, value in usual.items() if getattr(layer, name) != value)


class EmbeddingBag(Module):
    """The rows of `weight` for bags of numbers, reduced: [bags, size] (int32 or int64), or [count] with offsets [bags] -> [bags, embedding_dim].

    Args:
        mode: "sum", "mean" or "max".
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: the number of a row that is 0 at first, counts nothing and gets no gradient.
        max_norm: rows that are used and longer are shortened to it when the layer is called, in `weight` itself.
        norm_type: of which norm their length is.

    Raises:
        ValueError: another mode, a `padding_idx` that is none; `scale_grad_by_freq` or `sparse`, which PyTorch alone has; when called, other shapes.
        IndexError: when called, a number that is none of a row.
        TypeError: when called, numbers of a floating dtype.
    """

    max_norm: float | None = None
    norm_type: float = 2.0

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        F._only_pytorchs("EmbeddingBag", scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
        self._set(num_embeddings, embedding_dim, mode, include_last_offset, padding_idx)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.weight = Parameter(_rows_of(self, _weight, device, dtype))

    def _set(self, num_embeddings, embedding_dim, mode, include_last_offset, padding_idx):
        (self.num_embeddings,) = _numbers("EmbeddingBag", "num_embeddings", num_embeddings, 1)
        (self.embedding_dim,) = _numbers("EmbeddingBag", "embedding_dim", embedding_dim, 1)
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
        """A layer with these rows, [num_embeddings, embedding_dim], whose memory it takes over; trained only if `freeze` is False.

        Raises:
            ValueError: no tensor of 2 axes, another mode.
        """
        if not isinstance(embeddings, Tensor) or embeddings.ndim != 2:
            told = f"shape {tuple(embeddings.shape)}" if isinstance(embeddings, Tensor) else f"type {type(embeddings).__name__}"
            raise ValueError(f"EmbeddingBag.from_pretrained: embeddings of {told}, expected a tensor of 2 axes")
        layer = cls.__new__(cls)
        F._only_pytorchs("EmbeddingBag.from_pretrained", scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
        layer._set(embeddings.shape[0], embeddings.shape[1], mode, include_last_offset, padding_idx)
        layer.max_norm, layer.norm_type = max_norm, norm_type
        layer.weight = Parameter(embeddings, not freeze)
        return layer

    def reset_parameters(self) -> None:
        """Draws the rows anew; that of `padding_idx` is 0."""
        draw_again(self.weight, "normal", [0.0, 1.0])
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        settings: Any = dict(max_norm=self.max_norm, norm_type=self.norm_type, mode=self.mode, include_last_offset=self.include_last_offset, padding_idx=self.padding_idx)
        return F.embedding_bag(input, self.weight, offsets, per_sample_weights=per_sample_weights, **settings)

    def extra_repr(self) -> str:
        told = f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"
        return told + _settings_of(self, padding_idx=None, max_norm=None, norm_type=2.0)


class Dropout(Module):
    """In training, elements become 0 with probability `p`, and the others are divided by `1 - p`.

    Shapes: [..] -> the same

    Raises:
        ValueError: a probability outside 0 to 1.
        TypeError: a `p` that is no number; in training, whole numbers.
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
    """In training, whole channels of sequences become 0 with probability `p`, and the others are divided by `1 - p`.

    Shapes: [batch, channels, length] or [channels, length] -> the same

    Raises:
        ValueError: a probability outside 0 to 1; when called, another number of axes.
        TypeError: a `p` that is no number; in training, whole numbers.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(Dropout):
    """In training, whole channels of images become 0 with probability `p`, and the others are divided by `1 - p`.

    Shapes: [batch, channels, height, width] or three of these axes -> the same

    Raises:
        ValueError: a probability outside 0 to 1; when called, another number of axes.
        TypeError: a `p` that is no number; in training, whole numbers.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(Dropout):
    """In training, whole channels of volumes become 0 with probability `p`, and the others are divided by `1 - p`.

    Shapes: [batch, channels, depth, height, width] or without the batch -> the same

    Raises:
        ValueError: a probability outside 0 to 1; when called, another number of axes.
        TypeError: a `p` that is no number; in training, whole numbers.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(Dropout):
    """In training, dropout that keeps a mean of 0 and a variance of 1, for networks of `SELU`: see `functional.alpha_dropout`.

    Shapes: [..] -> the same

    Raises:
        ValueError: a probability outside 0 to 1.
        TypeError: a `p` that is no number; in training, whole numbers.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(Dropout):
    """In training, `AlphaDropout` of whole channels.

    Shapes: [batch, channels, ..] -> the same

    Raises:
        ValueError: a probability outside 0 to 1; in training, less than two axes.
        TypeError: a `p` that is no number; in training, whole numbers.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)


class Flatten(Module):
    """Axes from `start_dim` to `end_dim` as one.

    Shapes: [batch, a, b, ..] -> [batch, a * b * ..], by default

    Raises:
        IndexError: when called, axes that are not there.
        ValueError: when called, an `end_dim` before `start_dim`.
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Axis `dim` as several of these sizes, one of which may be -1.

    Shapes: [.., a * b, ..] -> [.., a, b, ..]

    Raises:
        TypeError: a `dim` or sizes that are no whole numbers.
        ValueError: when called, sizes that do not multiply to that of the axis.
        IndexError: when called, an axis that is not there.
    """

    def __init__(self, dim: int, unflattened_size: Any):
        if not isinstance(dim, int) or not all(isinstance(size, int) for size in unflattened_size):
            raise TypeError(f"Unflatten: dim {dim!r} and sizes {unflattened_size!r}, expected whole numbers: axes have no names here")
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along `dim`.

    Shapes: [.., n, ..] and the same -> [.., ..], without `dim`

    Raises:
        ValueError: when called, shapes that do not broadcast.
        IndexError: when called, an axis that is not there.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8):
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The norm of the differences along the last axis.

    Shapes: [.., n] and the same -> [..], with `keepdim` [.., 1]

    Raises:
        ValueError: when called, shapes that do not broadcast.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False):
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
