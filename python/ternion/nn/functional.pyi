"""Written by python/stubs.py."""

from builtins import bool as _bool, float as _float, int as _int
from typing import Any

from .._ternion import Operand, SizeLike, DTypeLike, Tensor, Number
from collections.abc import Sequence

def accuracy(input: Tensor, target: Tensor) -> Tensor:
    """The share of rows whose largest logit is the target's, float32; no gradient flows.

    Shapes: logits [batch, classes, ..] and [batch, ..] (int32 or int64) -> []

    Raises:
        IndexError: an index that is none of a class.
    """
def adaptive_avg_pool2d(input: Tensor, output_size: SizeLike) -> Tensor:
    """Means of windows that divide images into `output_size` rows and columns."""
def add_relu(input: Tensor, other: Tensor) -> Tensor:
    """`max(input + other, 0)`, broadcast, in one pass."""
def avg_pool2d(input: Tensor, kernel_size: SizeLike, stride: SizeLike | None = None, padding: SizeLike | None = None, ceil_mode: _bool = False, count_include_pad: _bool = True) -> Tensor:
    """The mean of each window of images.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]
    """
def batch_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, training: _bool = False, momentum: _float = 0.1, eps: _float = 1e-5) -> Tensor:
    """Each channel shifted to mean 0 and scaled to variance 1: of the batch in training, else of the running statistics, which follow the batch in training.

    Shapes: [batch, channels, ..], the others [channels]
    """
def bias_activation(input: Tensor, bias: Tensor, activation: str) -> Tensor:
    """`activation(input + bias)`, in one pass.

    Shapes: [.., features] and bias [features] -> [.., features]

    Args:
        activation: "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "softplus" or "leaky_relu" (slope 0.01).

    Raises:
        ValueError: another activation, shapes that do not fit.
    """
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, reduction: str = "mean", pos_weight: Tensor | None = None) -> Tensor:
    """Binary cross-entropy of logits and probabilities.

    Args:
        pos_weight: how much more a positive answer counts than a negative one, broadcast.
    """
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | None = None, padding: SizeLike | None = None, dilation: SizeLike | None = None, groups: _int = 1) -> Tensor:
    """Each window of sequences, weighted.

    Shapes: [batch, channels, length], weight [out, channels / groups, kernel] -> [batch, out, windows]
    """
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: SizeLike | None = None, padding: SizeLike | None = None, dilation: SizeLike | None = None, groups: _int = 1) -> Tensor:
    """Each window of images, weighted.

    Shapes: [batch, channels, height, width], weight [out, channels / groups, kernel height, kernel width] -> [batch, out, rows, columns]
    """
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: SizeLike | None = None, padding: SizeLike | None = None, output_padding: SizeLike | None = None, groups: _int = 1, dilation: SizeLike | None = None) -> Tensor:
    """What a convolution with the same numbers makes of its gradient.

    Shapes: [batch, channels, height, width], weight [channels, out / groups, kernel height, kernel width] -> [batch, out, rows, columns]
    """
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: _int = ..., reduction: str = "mean", label_smoothing: _float = 0.0) -> Tensor:
    """Cross-entropy of logits and class indices, or probabilities.

    Shapes: [batch, classes, ..] and [batch, ..] (int32 or int64) or probabilities of the logits' shape -> []

    Args:
        weight: how much each class counts, [classes].
        ignore_index: an index that counts nothing.
        label_smoothing: the share of a label that is spread over all classes.

    Raises:
        IndexError: an index that is none of a class.
    """
def dropout(input: Tensor, p: _float = 0.5, training: _bool = True) -> Tensor:
    """Elements become 0 with probability `p`, the others are divided by `1 - p`; nothing changes if `training` is False."""
def embedding(input: Tensor, weight: Tensor) -> Tensor:
    """Rows of `weight` by their numbers.

    Shapes: input [..] (int32 or int64), weight [rows, width] -> [.., width]

    Raises:
        IndexError: a number that is none of a row.
    """
def fold(input: Tensor, output_size: SizeLike, kernel_size: SizeLike, dilation: SizeLike | None = None, padding: SizeLike | None = None, stride: SizeLike | None = None) -> Tensor:
    """Patches added up to images: what `unfold` makes of its gradient.

    Shapes: [batch, channels * kernel height * kernel width, windows] -> [batch, channels, output height, output width]
    """
def group_norm(input: Tensor, num_groups: _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-5) -> Tensor:
    """Groups of channels shifted to mean 0 and scaled to variance 1, then each channel `* weight + bias`.

    Shapes: [batch, channels, ..], weight and bias [channels]
    """
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: _float = 1.0) -> Tensor:
    """Quadratic up to a distance of `delta`, linear beyond."""
def interpolate(input: Tensor, size: SizeLike | None = None, scale_factor: _float | Sequence[_float] | None = None, mode: str = "nearest", align_corners: _bool | None = None, recompute_scale_factor: _bool | None = None) -> Tensor:
    """Images of another size.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Args:
        size: rows and columns, or one number for both.
        scale_factor: instead of a size, what rows and columns are multiplied by, rounded down.
        mode: "nearest" or "bilinear".
        align_corners: of "bilinear": whether the elements in the corners stay where they are, rather than the corners of the images.
        recompute_scale_factor: whether factors only tell the size, and places follow from that.

    Raises:
        ValueError: both a size and a factor or neither, another mode, another number of axes.
    """
def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: _bool = False) -> Tensor:
    """The Kullback-Leibler divergence of log-probabilities from a target: probabilities, or with `log_target` their logarithms."""
def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """`|input - target|`."""
def layer_norm(input: Tensor, normalized_shape: SizeLike, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-5) -> Tensor:
    """Rows over the last `normalized_shape` axes shifted to mean 0 and scaled to variance 1, then `* weight + bias`."""
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`input @ weight.T + bias`.

    Shapes: [.., in_features], weight [out_features, in_features], bias [out_features] -> [.., out_features]
    """
def max_pool2d(input: Tensor, kernel_size: SizeLike, stride: SizeLike | None = None, padding: SizeLike | None = None, dilation: SizeLike | None = None, ceil_mode: _bool = False, return_indices: _bool = False) -> Any:
    """The largest element of each window of images; with `return_indices` also where it is in its plane (int64).

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]
    """
def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """`(input - target)^2`."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: _int = ..., reduction: str = "mean") -> Tensor:
    """Minus the log-probability of each class index.

    Shapes: log-probabilities [batch, classes, ..] and [batch, ..] (int32 or int64) -> []
    """
def one_hot(tensor: Tensor, num_classes: _int = ...) -> Tensor:
    """1 in the place of each index, 0 elsewhere, int64; as many places as the largest index needs, if `num_classes` is -1."""
def pad(input: Tensor, pad: Sequence[_int], mode: str = "constant", value: _float = 0.0) -> Tensor:
    """A constant around the elements: pairs of amounts (before, behind) for the last axis, the one before it, and so on."""
def rms_norm(input: Tensor, normalized_shape: SizeLike, weight: Tensor | None = None, eps: _float | None = None) -> Tensor:
    """Rows over the last `normalized_shape` axes divided by the root of their mean square, then `* weight`.

    Args:
        eps: added to the mean square; the dtype's distance from 1 to the next number by default.
    """
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: _float = 0.0, is_causal: _bool = False, scale: _float | None = None, enable_gqa: _bool = False, *, window: _int | None = None) -> Tensor:
    """Means of `value`, weighted by `softmax(scale * query @ key.T + mask)`.

    Shapes: query [.., heads, queries, head_dim], key [.., kv_heads, keys, head_dim], value [.., kv_heads, keys, value_dim] -> [.., heads, queries,
    value_dim]; axes before the last two may be left out

    Args:
        attn_mask: bool, true where a key is seen, or numbers that are added to the scores; broadcast.
        dropout_p: the probability with which a weight becomes 0.
        is_causal: whether a query sees only keys up to its own place; the last query stands at the last key.
        scale: of the scores; 1 / sqrt(head_dim) by default.
        enable_gqa: taken as in PyTorch; heads of keys and values may be shared by several heads of queries without it, too.
        window: how many places back, and ahead unless causal, a query sees, its own counted.

    Raises:
        ValueError: shapes that do not fit, a probability outside 0 to 1.
    """
def unfold(input: Tensor, kernel_size: SizeLike, dilation: SizeLike | None = None, padding: SizeLike | None = None, stride: SizeLike | None = None) -> Tensor:
    """The patches that a window shows, as the columns of a matrix for each image.

    Shapes: [batch, channels, height, width] -> [batch, channels * kernel height * kernel width, windows]
    """
def elu(input: Tensor, alpha: _float = 1.0) -> Tensor:
    """`x` where it is positive, else `alpha * (e^x - 1)`."""
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """`x * Phi(x)`, with the exact distribution function, or by tanh if `approximate` is "tanh"."""
def leaky_relu(input: Tensor, negative_slope: _float = 0.01) -> Tensor:
    """`x` where it is positive, else `negative_slope * x`."""
def log_softmax(input: Tensor, dim: _int | None = None, dtype: DTypeLike | None = None, *, axis: _int | None = None) -> Tensor:
    """The logarithm of `softmax` along `dim`, without loss."""
def logsigmoid(input: Tensor) -> Tensor:
    """`log(sigmoid(x))` of each element, without loss."""
def relu(input: Tensor) -> Tensor:
    """`max(x, 0)` of each element; NaN stays."""
def sigmoid(input: Tensor) -> Tensor:
    """`1 / (1 + e^-x)` of each element."""
def silu(input: Tensor) -> Tensor:
    """`x * sigmoid(x)` of each element."""
def softmax(input: Tensor, dim: _int | None = None, dtype: DTypeLike | None = None, *, axis: _int | None = None) -> Tensor:
    """`e^x / sum(e^x)` along `dim`."""
def softplus(input: Tensor, beta: _float = 1.0) -> Tensor:
    """`log(1 + e^(beta * x)) / beta`."""
def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent of each element."""
def normalize(input: Tensor, p: _float = 2.0, dim: _int = 1, eps: _float = 1e-12) -> Tensor:
    """Each vector along `dim` divided by its norm, which counts as `eps` if it is less."""
def sinusoidal(positions: _int, width: _int, device: Any = None) -> Tensor:
    """Sines and cosines of positions (Vaswani et al. 2017, section 3.5): float32, [positions, width].

    Column `2 i` is `sin(position / 10000^(2 i / width))`, column `2 i + 1` its cosine.

    Raises:
        ValueError: an odd width.
    """
def binary_cross_entropy(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Cross-entropy of probabilities; logarithms below -100 count as that, as in PyTorch."""
