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
def add_relu(input: Tensor, other: Tensor) -> Tensor:
    """`max(input + other, 0)`, broadcast, in one pass.

    Shapes: two tensors, broadcast -> the shape that they have together

    Raises:
        TypeError: dtypes that differ.
    """
def bias_activation(input: Tensor, bias: Tensor, activation: str) -> Tensor:
    """`activation(input + bias)`, in one pass.

    Shapes: [.., features] and bias [features] -> [.., features]

    Args:
        activation: "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "softplus" or "leaky_relu" (slope 0.01).

    Raises:
        ValueError: another activation, shapes that do not fit.
        TypeError: dtypes that differ.
    """
def group_norm(input: Tensor, num_groups: _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-5) -> Tensor:
    """Groups of channels shifted to mean 0 and scaled to variance 1, then each channel `* weight + bias`.

    Shapes: [batch, channels, ..], weight and bias [channels]

    Raises:
        ValueError: channels that do not divide into the groups.
        TypeError: no floating dtype.
    """
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: _float = 1.0, weight: Tensor | None = None) -> Tensor:
    """Quadratic up to a distance of `delta`, linear beyond.

    Shapes: two tensors, broadcast -> [], or with reduction "none" the shape that they have together

    Args:
        weight: how much each element counts, of the input's shape.

    Raises:
        ValueError: shapes that do not broadcast, a `delta` that is not above 0, another name as `reduction`.
    """
def l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """`|input - target|`.

    Shapes: two tensors, broadcast -> [], or with reduction "none" the shape that they have together

    Args:
        weight: how much each element counts, of the input's shape; the mean is divided by their sum.
        size_average, reduce: what PyTorch before 1.0 had in the place of `reduction`, with a warning.

    Raises:
        ValueError: shapes that do not broadcast, another name as `reduction`.
    """
def layer_norm(input: Tensor, normalized_shape: SizeLike, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-5) -> Tensor:
    """Rows over the last `normalized_shape` axes shifted to mean 0 and scaled to variance 1, then `* weight + bias`.

    Shapes: [.., *normalized_shape], weight and bias [*normalized_shape] -> the shape of the input

    Raises:
        ValueError: last axes of other sizes.
        TypeError: no floating dtype.
    """
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`input @ weight.T + bias`.

    Shapes: [.., in_features], weight [out_features, in_features], bias [out_features] -> [.., out_features]

    Raises:
        ValueError: inner sizes that differ.
    """
def mse_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """`(input - target)^2`.

    Shapes: two tensors, broadcast -> [], or with reduction "none" the shape that they have together

    Args:
        weight: how much each element counts, of the input's shape; the mean is divided by their sum.
        size_average, reduce: what PyTorch before 1.0 had in the place of `reduction`, with a warning.

    Raises:
        ValueError: shapes that do not broadcast, another name as `reduction`.
    """
def one_hot(tensor: Tensor, num_classes: _int = ...) -> Tensor:
    """1 in the place of each index, 0 elsewhere, int64; as many places as the largest index needs, if `num_classes` is -1.

    Shapes: [..] -> [.., num_classes]

    Raises:
        TypeError: indices that are not int32 or int64.
        ValueError: no elements, and no `num_classes`.
    """
def rms_norm(input: Tensor, normalized_shape: SizeLike, weight: Tensor | None = None, eps: _float | None = None) -> Tensor:
    """Rows over the last `normalized_shape` axes divided by the root of their mean square, then `* weight`.

    Shapes: [.., *normalized_shape], weight [*normalized_shape] -> the shape of the input

    Args:
        eps: added to the mean square; the dtype's distance from 1 to the next number by default.

    Raises:
        ValueError: last axes of other sizes.
    """
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """`x * Phi(x)`, with the exact distribution function, or by tanh if `approximate` is "tanh".

    Shapes: [..] -> the same; integers become float32

    Raises:
        ValueError: another name as `approximate`.
    """
def logsigmoid(input: Tensor) -> Tensor:
    """`log(sigmoid(x))` of each element, without loss.

    Shapes: [..] -> the same; integers become float32
    """
def sigmoid(input: Tensor) -> Tensor:
    """`1 / (1 + e^-x)` of each element.

    Shapes: [..] -> the same; integers become float32
    """
def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent of each element.

    Shapes: [..] -> the same; integers become float32
    """
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] | str = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Each window of sequences, weighted.

    Shapes: [batch, channels, length], weight [out, channels / groups, kernel] -> [batch, out, windows]; the batch may be left out

    Args:
        padding: zeros on both sides; or "valid" (none) or "same" (as many windows as places, of stride 1).

    Raises:
        ValueError: another number of axes, channels that do not fit, a window larger than the input, a stride or dilation below 1, another padding.
        TypeError: no tensors, whole numbers as input, or settings that are none.
    """
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] | str = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Each window of images, weighted.

    Shapes: [batch, channels, height, width], weight [out, channels / groups, kernel height, kernel width] -> [batch, out, rows, columns]; the batch may be
    left out

    Args:
        padding: zeros on all sides; or "valid" (none) or "same" (as many windows as places, of stride 1).

    Raises:
        ValueError: another number of axes, channels that do not fit, a window larger than the input, a stride or dilation below 1, another padding.
        TypeError: no tensors, whole numbers as input, or settings that are none.
    """
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """What a convolution with the same numbers makes of its gradient.

    Shapes: [batch, channels, height, width], weight [channels, out / groups, kernel height, kernel width] -> [batch, out, rows, columns]; the batch may be
    left out

    Raises:
        ValueError: another number of axes, channels that do not fit, an output padding that is neither below the stride nor the dilation.
        TypeError: no tensors, or whole numbers as input.
    """
def max_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Any:
    """The largest element of each window of images; with `return_indices` also where it is in its plane (int64).

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch may be left out

    Raises:
        ValueError: another number of axes, no channels, a window larger than the input, a padding of more than half a window, a size below 1.
        TypeError: no tensor, or truth values as input.
    """
def avg_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None) -> Tensor:
    """The mean of each window of images; of int64 rounded towards zero.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch may be left out

    Args:
        divisor_override: what sums are divided by in place of the size of the window.

    Raises:
        ValueError: another number of axes, no channels, a window larger than the input, a padding of more than half a window, a size below 1, a divisor of 0.
        TypeError: no tensor, or an input of another dtype.
    """
def batch_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, training: _bool = False, momentum: _float = 0.1, eps: _float = 1e-05) -> Tensor:
    """Each channel shifted to mean 0 and scaled to variance 1: of the batch in training, else of the running statistics, which follow the batch in training.

    Shapes: [batch, channels, ..], the others [channels] -> the input's; of an empty batch nothing follows

    Raises:
        ValueError: training on a single value for each channel; no running statistics, unless in training; one of both alone, or of another size than the
            channels; an `eps` that is not above 0.
    """
def dropout(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> Tensor:
    """Elements become 0 with probability `p`, the others are divided by `1 - p`; nothing changes if `training` is False.

    Shapes: [..] -> the same

    Raises:
        ValueError: a probability outside 0 to 1.
    """
def hardtanh(input: Tensor, min_val: _float = -1.0, max_val: _float = 1.0, inplace: _bool = False) -> Tensor:
    """Each element, but at least `min_val` and at most `max_val`; the gradient is 0 at both bounds.

    Shapes: [..] -> the same

    Raises:
        ValueError: `min_val` above `max_val`.
    """
def pad(input: Tensor, pad: Sequence[_int], mode: str = "constant", value: _float | None = None) -> Tensor:
    """Elements around those that are there: pairs of amounts (before, behind) for the last axis, the one before it, and so on.

    Shapes: [.., size] -> [.., size + before + behind]

    Args:
        mode: "constant" (of `value`, 0 by default), "reflect" (without the outermost element), "replicate" (the outermost element) or "circular"; negative
            amounts cut off. All but "constant" are of one to three axes behind channels, and a batch, which may be left out.

    Raises:
        ValueError: an odd number of amounts, more than axes, another mode, more than there is to reflect or to go around, a `value` of another mode.
        TypeError: truth values to reflect or to replicate.
    """
def embedding(input: Tensor, weight: Tensor, padding_idx: _int | None = None, max_norm: _float | None = None, norm_type: _float = 2.0, scale_grad_by_freq: _bool = False, sparse: _bool = False) -> Tensor:
    """Rows of `weight` by their numbers.

    Shapes: input [..] (int32 or int64), weight [rows, width] -> [.., width]

    Args:
        padding_idx: the number of a row that gets no gradient.
        max_norm: rows that are used and longer are shortened to it before, in `weight` itself.
        norm_type: of which norm their length is.
        scale_grad_by_freq: divides the gradient of each row by how often it is used.

    Raises:
        IndexError: a number that is none of a row.
        ValueError: a `padding_idx` that is none; `sparse`, which PyTorch alone has.
    """
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _bool | None = None, reduction: str = "mean", label_smoothing: _float = 0.0) -> Tensor:
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
def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None, ignore_index: _int = -100, reduction: str = "mean", label_smoothing: _float = 0.0, chunk_rows: _int | None = None) -> Tensor:
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
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """Minus the log-probability of each class index.

    Shapes: log-probabilities [batch, classes, ..] and [batch, ..] (int32, int64 or uint8) -> []

    Raises:
        IndexError: an index that is none of a class.
        ValueError: shapes that do not fit.
        TypeError: indices of another dtype.
    """
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None) -> Tensor:
    """Binary cross-entropy of logits and probabilities.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Args:
        weight: how much each element counts, broadcast.
        pos_weight: how much more a positive answer counts than a negative one, broadcast.

    Raises:
        ValueError: shapes that differ, weights that do not broadcast, another reduction.
        TypeError: whole numbers, or no tensors.
    """
def kl_div(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean", log_target: _bool = False) -> Tensor:
    """The Kullback-Leibler divergence of log-probabilities from a target: probabilities, or with `log_target` their logarithms.

    Shapes: two of one shape -> [], of reduction "none" that shape

    Raises:
        TypeError: no floating dtype.
        ValueError: another name as `reduction`.
    """
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: _float = 0.0, is_causal: _bool = False, scale: _float | None = None, enable_gqa: _bool = False, *, window: _int | None = None) -> Tensor:
    """Means of `value`, weighted by `softmax(scale * query @ key.T + mask)`.

    Shapes: query [.., heads, queries, head_dim], key [.., kv_heads, keys, head_dim], value [.., kv_heads, keys, value_dim] -> [.., heads, queries,
    value_dim]; axes before the last two may be left out

    Args:
        attn_mask: bool, true where a key is seen, or numbers that are added to the scores; broadcast.
        dropout_p: the probability with which a weight becomes 0.
        is_causal: whether a query sees only keys up to its own place; the first query stands at the first key, as in PyTorch, but under a `window`,
            where the last stands at the last.
        scale: of the scores; 1 / sqrt(head_dim) by default.
        enable_gqa: whether heads of keys and values may be shared by several heads of queries; a single one is shared by all without it, too.
        window: how many places back, and ahead unless causal, a query sees, its own counted.

    Raises:
        ValueError: shapes that do not fit, a probability outside 0 to 1.
    """
def unfold(input: Tensor, kernel_size: _int | Sequence[_int], dilation: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, stride: _int | Sequence[_int] = 1) -> Tensor:
    """The patches that a window shows, as the columns of a matrix for each image.

    Shapes: [batch, channels, height, width] -> [batch, channels * kernel height * kernel width, windows]; the batch may be left out

    Raises:
        ValueError: another number of axes, a window larger than the images.
        TypeError: no tensor.
    """
def fold(input: Tensor, output_size: _int | Sequence[_int], kernel_size: _int | Sequence[_int], dilation: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, stride: _int | Sequence[_int] = 1) -> Tensor:
    """Patches added up to images: what `unfold` makes of its gradient.

    Shapes: [batch, channels * kernel height * kernel width, windows] -> [batch, channels, output height, output width]; the batch may be left out

    Raises:
        ValueError: another number of axes, rows that the window does not divide, or other windows than the output has.
    """
def celu(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """`x` where it is positive, else `alpha * (e^(x / alpha) - 1)` (Barron 2017).

    Shapes: [..] -> the same

    Raises:
        ValueError: an `alpha` of 0.
    """
def celu_(input: Tensor, alpha: _float = 1.0) -> Tensor:
    """`celu`, in place: the tensor itself is changed and returned.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
        RuntimeError: a tensor that asks for its gradient is changed in place while operations are recorded.
    """
def elu(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """`x` where it is positive, else `alpha * (e^x - 1)`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
def elu_(input: Tensor, alpha: _float = 1.0) -> Tensor:
    """`elu`, in place: the tensor itself is changed and returned.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
        RuntimeError: a tensor that asks for its gradient is changed in place while operations are recorded.
    """
def glu(input: Tensor, dim: _int = -1) -> Tensor:
    """The first half along `dim` times the sigmoid of the second (Dauphin et al. 2017).

    Shapes: [.., 2 n, ..] -> [.., n, ..]

    Raises:
        ValueError: an odd size.
        IndexError: an axis that is not there.
    """
def gumbel_softmax(logits: Tensor, tau: _float = 1.0, hard: _bool = False, eps: _float = 1e-10, dim: _int = -1) -> Tensor:
    """A random choice of one place along `dim` that gradients flow through (Jang et al. 2017).

    Shapes: [..] -> the same

    Args:
        tau: the temperature: the less, the nearer to a choice of one.
        hard: 1 in one place and 0 elsewhere, with the gradients of the soft choice.
        eps: of PyTorch, without effect there, too.

    Raises:
        IndexError: an axis that is not there.
    """
def hardshrink(input: Tensor, lambd: _float = 0.5) -> Tensor:
    """0 where an element is not further than `lambd` from it, else the element.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
def hardsigmoid(input: Tensor, inplace: _bool = False) -> Tensor:
    """`min(max(x + 3, 0), 6) / 6` of each element; the gradient is 0 at -3 and 3.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
def hardswish(input: Tensor, inplace: _bool = False) -> Tensor:
    """`x * hardsigmoid(x)` of each element (Howard et al. 2019).

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
def hardtanh_(input: Tensor, min_val: _float = -1.0, max_val: _float = 1.0) -> Tensor:
    """`hardtanh`, in place: the tensor itself is changed and returned.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
        RuntimeError: a tensor that asks for its gradient is changed in place while operations are recorded.
    """
def leaky_relu(input: Tensor, negative_slope: _float = 0.01, inplace: _bool = False) -> Tensor:
    """`x` where it is positive, else `negative_slope * x`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
def leaky_relu_(input: Tensor, negative_slope: _float = 0.01) -> Tensor:
    """`leaky_relu`, in place: the tensor itself is changed and returned.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
        RuntimeError: a tensor that asks for its gradient is changed in place while operations are recorded.
    """
def mish(input: Tensor, inplace: _bool = False) -> Tensor:
    """`x * tanh(softplus(x))` of each element (Misra 2019).

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """`x` where it is positive, else `weight * x`.

    Shapes: [batch, channels, ..], weight [] or [1] or [channels] -> the input's

    Raises:
        ValueError: as many slopes as neither 1 nor the channels.
    """
def relu(input: Tensor, inplace: _bool = False) -> Tensor:
    """`max(x, 0)` of each element; NaN stays.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
def relu6(input: Tensor, inplace: _bool = False) -> Tensor:
    """`min(max(x, 0), 6)` of each element; the gradient is 0 at both bounds.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
def relu_(input: Tensor) -> Tensor:
    """`relu`, in place: the tensor itself is changed and returned.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
        RuntimeError: a tensor that asks for its gradient is changed in place while operations are recorded.
    """
def rrelu(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False) -> Tensor:
    """`x` where it is positive, else times a slope: in training a random one of each element from `lower` to `upper`, else their mean.

    Shapes: [..] -> the same

    Raises:
        ValueError: `lower` above `upper`.
    """
def rrelu_(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False) -> Tensor:
    """`rrelu`, in place: the tensor itself is changed and returned.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
        RuntimeError: a tensor that asks for its gradient is changed in place while operations are recorded.
    """
def selu(input: Tensor, inplace: _bool = False) -> Tensor:
    """ELU with the two constants that keep mean 0 and variance 1 (Klambauer et al. 2017).

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
def selu_(input: Tensor) -> Tensor:
    """`selu`, in place: the tensor itself is changed and returned.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
        RuntimeError: a tensor that asks for its gradient is changed in place while operations are recorded.
    """
def silu(input: Tensor, inplace: _bool = False) -> Tensor:
    """`x * sigmoid(x)` of each element.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
def softmin(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: Any = None) -> Tensor:
    """`softmax(-x)` along `dim`; where none is named the first of 0, 1 or 3 axes, else the second, with a warning, as in PyTorch. In `dtype` if one is named.

    Shapes: [..] -> the same

    Raises:
        IndexError: an axis that is not there.
    """
def softplus(input: Tensor, beta: _float = 1.0, threshold: _float = 20.0) -> Tensor:
    """`log(1 + e^(beta * x)) / beta`; `x` itself where `beta * x` is above the threshold.

    Shapes: [..] -> the same

    Raises:
        ValueError: a `beta` of 0 or less.
    """
def softshrink(input: Tensor, lambd: _float = 0.5) -> Tensor:
    """Each element nearer to 0 by `lambd`; 0 where it is that near.

    Shapes: [..] -> the same

    Raises:
        ValueError: `lambd` below 0.
    """
def softsign(input: Tensor) -> Tensor:
    """`x / (1 + |x|)` of each element.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
def tanhshrink(input: Tensor) -> Tensor:
    """`x - tanh(x)` of each element.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
def threshold(input: Tensor, threshold: _float, value: _float, inplace: _bool = False) -> Tensor:
    """Each element that is above `threshold`, else `value`; NaN stays.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """
def threshold_(input: Tensor, threshold: _float, value: _float) -> Tensor:
    """`threshold`, in place: the tensor itself is changed and returned.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
        RuntimeError: a tensor that asks for its gradient is changed in place while operations are recorded.
    """
def affine_grid(theta: Tensor, size: Sequence[_int], align_corners: _bool | None = None) -> Tensor:
    """The grid of affine maps for `grid_sample`: `theta (x, y, 1)` at each place of images of `size`, `theta (x, y, z, 1)` of volumes.

    Shapes: theta [batch, 2, 3], size (batch, channels, rows, columns) -> [batch, rows, columns, 2]; of volumes theta [batch, 3, 4] and one axis more

    Args:
        align_corners: whether -1 and 1 are the centers of corner elements, rather than their outer edges.

    Raises:
        ValueError: maps that do not fit the size, a size below 1.
        TypeError: no tensor, or whole numbers.
    """
def channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """The channels of groups in turn: the first of each, the second of each, and so on (Zhang et al. 2018).

    Shapes: [batch, channels, ..] -> the same

    Raises:
        ValueError: fewer than 3 axes, a number of groups below 1, or one that does not divide the channels.
        TypeError: no tensor, or groups that are no whole number.
    """
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] | str = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Each window of volumes, weighted.

    Shapes: [batch, channels, depth, height, width], weight [out, channels / groups, *kernel] -> [batch, out, planes, rows, columns]; the batch may be left out

    Args:
        padding: zeros on all sides; or "valid" (none) or "same" (as many windows as places, of stride 1).

    Raises:
        ValueError: another number of axes, channels that do not fit, a window larger than the input, a stride or dilation below 1, another padding.
        TypeError: no tensors, truth values as input, or settings that are none.
    """
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """What a convolution of sequences with the same numbers makes of its gradient.

    Shapes: [batch, channels, length], weight [channels, out / groups, kernel] -> [batch, out, places]; the batch may be left out

    Raises:
        ValueError: another number of axes, channels that do not fit, an output padding that is neither below the stride nor the dilation.
        TypeError: no tensors, or whole numbers as input.
    """
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """What a convolution of volumes with the same numbers makes of its gradient.

    Shapes: [batch, channels, depth, height, width], weight [channels, out / groups, *kernel] -> [batch, out, planes, rows, columns]; the batch may be left out

    Raises:
        ValueError: another number of axes, channels that do not fit, an output padding that is neither below the stride nor the dilation.
        TypeError: no tensors, or truth values as input.
    """
def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: _bool | None = None) -> Tensor:
    """Images at the places of a grid, whose last axis is x, y (and z of volumes), from -1 to 1 across the image; places that are no numbers read 0.

    Shapes: [batch, channels, height, width], grid [batch, rows, columns, 2] -> [batch, channels, rows, columns]; of volumes with one axis more

    Args:
        mode: "bilinear", "nearest", or "bicubic" of images.
        padding_mode: what is outside: "zeros", "border" (the outermost element) or "reflection".
        align_corners: whether -1 and 1 are the centers of corner elements, rather than their outer edges.

    Raises:
        ValueError: another mode, number of axes or batch, an empty image, operands of two dtypes.
        TypeError: no tensors, or whole numbers.
    """
def interpolate(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: _bool | None = None, recompute_scale_factor: _bool | None = None, antialias: _bool = False) -> Tensor:
    """Sequences, images or volumes of another size.

    Shapes: [batch, channels, ..] -> the same with other sizes of the one to three last axes

    Args:
        size: one number for all axes, or one for each.
        scale_factor: instead of a size, what sizes are multiplied by, rounded down.
        mode: "nearest", "nearest-exact" (by the centers of the elements, as other programs do), "area"; "linear" of sequences, "bilinear" or "bicubic" of images,
            "trilinear" of volumes.
        align_corners: of "linear" to "bicubic": whether the elements in the corners stay where they are, rather than the corners of the images.
        recompute_scale_factor: whether factors only tell the size, and places follow from that.

    Raises:
        ValueError: both a size and a factor or neither, another mode or number of axes, an empty input or result, `antialias`.
        TypeError: no tensor, sizes that are no whole numbers, whole numbers as input of a mode that mixes elements.
        MemoryError: a result that no memory holds.
    """
def local_response_norm(input: Tensor, size: _int, alpha: _float = 0.0001, beta: _float = 0.75, k: _float = 1.0) -> Tensor:
    """`x / (k + alpha / size * sum of squares)^beta`, the sum over `size` channels around each (Krizhevsky et al. 2012).

    Shapes: [batch, channels, ..] -> the same

    Raises:
        ValueError: fewer than 3 axes, a size below 1.
        TypeError: no tensor, or whole numbers as input.
    """
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor:
    """Channels as pixels (Shi et al. 2016): [.., channels * factor^2, height, width] -> [.., channels, height * factor, width * factor].

    Raises:
        ValueError: fewer than 3 axes, a factor below 1, channels that the square of the factor does not divide.
        TypeError: no tensor, or a factor that is no whole number.
    """
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor:
    """Pixels as channels, what `pixel_shuffle` takes back: [.., channels, height, width] -> [.., channels * factor^2, height / factor, width / factor].

    Raises:
        ValueError: fewer than 3 axes, a factor below 1, a height or width that it does not divide.
        TypeError: no tensor, or a factor that is no whole number.
    """
def upsample(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: _bool | None = None) -> Tensor:
    """`interpolate`.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Raises:
        ValueError: as `interpolate`.
    """
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` of images between the nearest pixels, whose corners stay where they are.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Raises:
        ValueError: as `interpolate`.
    """
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` by the nearest elements.

    Shapes: [batch, channels, ..] -> the same with other sizes of the last axes

    Raises:
        ValueError: as `interpolate`.
    """
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """Cross-entropy of probabilities; logarithms below -100 count as that, and gradients are divided by 1e-12 at least, as in PyTorch.

    Whether they are from 0 to 1 is looked at on the processor: of a device that would mean to wait for it.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Args:
        weight: how much each element counts, broadcast.

    Raises:
        ValueError: shapes that differ, numbers outside 0 to 1.
    """
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """`1 - cos` where the target is 1, `max(0, cos - margin)` where it is -1, 0 where it is neither; of vectors along the last axis.

    Shapes: [batch, width], the same and [batch] -> [], of reduction "none" [batch]

    Raises:
        ValueError: vectors without a batch, or another number of axes, for targets; shapes that do not broadcast, another reduction.
    """
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = 1e-08) -> Tensor:
    """The cosine of the angle between vectors along `dim`, broadcast; a norm counts as `eps` if it is less.

    Shapes: [.., n, ..] and the same -> [.., ..], without `dim`

    Raises:
        ValueError: shapes that do not broadcast.
        IndexError: an axis that is not there.
    """
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: _int = 0, reduction: str = "mean", zero_infinity: _bool = False) -> Tensor:
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
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: _bool = False, eps: _float = 1e-06, reduction: str = "mean") -> Tensor:
    """Minus the log-probability of normal distributions with these variances, which count as `eps` if they are less.

    Shapes: [..], the same and the same -> [], of reduction "none" [..]; a variance of each row may be without the last axis

    Args:
        full: adds the constant `log(2 pi) / 2`.

    Raises:
        ValueError: shapes that do not broadcast, another reduction, variances below 0 on the processor (elsewhere that would mean to wait for the device: the loss is NaN).
    """
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: _float = 1.0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """The input where the target is 1, `max(0, margin - input)` where it is -1, and their sum where it is neither, as in PyTorch.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: shapes that do not broadcast, another reduction.
    """
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """`max(0, -target * (input1 - input2) + margin)`, where a target of 1 wants the first larger, -1 the second.

    Shapes: [..], the same and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: other numbers of axes, shapes that do not broadcast, another reduction.
    """
def multi_margin_loss(input: Tensor, target: Tensor, p: _int = 1, margin: _float = 1.0, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
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
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """The sum of `max(0, 1 - input[y] + input[c])` over all targets y and all classes c that are none, divided by the number of classes.

    Shapes: [batch, classes] and class indices of the same shape (int32 or int64), of which a row's first ones up to -1 count -> [], of reduction "none" [batch];
    or without the batch

    Raises:
        IndexError: an index that is none of a class.
        ValueError: shapes that differ, another reduction.
        TypeError: logits of whole numbers, indices of floats.
    """
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """The mean of the binary cross-entropies of all classes, along the last axis.

    Shapes: [.., classes] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: shapes that differ, another reduction.
        TypeError: whole numbers, or no tensors.
    """
def normalize(input: Tensor, p: _float = 2.0, dim: _int = 1, eps: _float = 1e-12) -> Tensor:
    """Each vector along `dim` divided by its norm, which counts as `eps` if it is less.

    Shapes: [..] -> the same

    Raises:
        IndexError: an axis that is not there.
    """
def pairwise_distance(x1: Tensor, x2: Tensor, p: _float = 2.0, eps: _float = 1e-06, keepdim: _bool = False) -> Tensor:
    """The norm of the differences along the last axis, to which `eps` is added.

    Shapes: [.., n] and the same -> [..], with `keepdim` [.., 1]

    Raises:
        ValueError: shapes that do not broadcast.
    """
def pdist(input: Tensor, p: _float = 2.0) -> Tensor:
    """The distances of all pairs of rows, each pair once: of the first row to the others, of the second to those behind it, and so on.

    Shapes: [rows, width] -> [rows * (rows - 1) / 2]

    Raises:
        ValueError: another number of axes than 2, `p` below 0.
    """
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: _bool = True, full: _bool = False, size_average: _bool | None = None, eps: _float = 1e-08, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """Minus the log-probability of counts, without what does not depend on the input.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Args:
        log_input: whether the input is the logarithm of the rate.
        full: adds Stirling's approximation of the logarithm of the factorial, of targets above 1.

    Raises:
        ValueError: shapes that do not broadcast, another reduction.
    """
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean", beta: _float = 1.0) -> Tensor:
    """Quadratic up to a distance of `beta`, linear beyond, with gradient 1 there.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: `beta` below 0.
    """
def soft_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """`log(1 + e^(-target * input))`, of targets 1 and -1.

    Shapes: [..] and the same -> [], of reduction "none" [..]

    Raises:
        ValueError: shapes that do not broadcast, another reduction.
    """
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: _float = 1.0, p: _float = 2.0, eps: _float = 1e-06, swap: _bool = False, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """`max(0, d(anchor, positive) - d(anchor, negative) + margin)`.

    Shapes: [.., width], the same and the same -> [], of reduction "none" [..]

    Args:
        swap: takes the distance of positive and negative where that is the smaller one (Balntas et al. 2016).

    Raises:
        ValueError: a margin that is not above 0, shapes that do not broadcast, another reduction.
    """
def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any = None, margin: _float = 1.0, swap: _bool = False, reduction: str = "mean") -> Tensor:
    """As `triplet_margin_loss`, of any distance.

    Shapes: [.., width], the same and the same -> [], of reduction "none" what the distance gives

    Args:
        distance_function: of two tensors; `pairwise_distance` by default.
        swap: takes the distance of positive and negative where that is the smaller one.

    Raises:
        ValueError: a margin that is not above 0, shapes that do not broadcast, another reduction.
    """
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that divide sequences into `output_size` parts. The batch may be left out.

    Shapes: [batch, channels, length] -> [batch, channels, output_size]

    Raises:
        ValueError: another number of axes, an empty sequence, a size below 0.
        TypeError: no tensor, or a size that is no whole number.
    """
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that divide images into `output_size` rows and columns; None leaves a size as it is. The batch may be left out.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Raises:
        ValueError: another number of axes, an empty image, a size below 0, more than 2 sizes.
        TypeError: no tensor, or a size that is no whole number.
    """
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that divide volumes into `output_size` planes, rows and columns; None leaves a size as it is. The batch may be left out.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]

    Raises:
        ValueError: another number of axes, an empty volume, a size below 0, more than 3 sizes.
        TypeError: no tensor, or a size that is no whole number.
    """
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Any:
    """Largest elements of windows that divide sequences into `output_size` parts; with `return_indices` also where they are (int64).

    Shapes: [batch, channels, length] -> [batch, channels, output_size]; the batch may be left out

    Raises:
        ValueError: another number of axes, an empty sequence, a size below 0.
        TypeError: no tensor, or a size that is no whole number.
    """
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Any:
    """Largest elements of windows that divide images into `output_size` rows and columns; with `return_indices` also where they are in their planes (int64).

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch may be left out, and None leaves a size as it is

    Raises:
        ValueError: another number of axes, an empty image, a size below 0, more than 2 sizes.
        TypeError: no tensor, or a size that is no whole number.
    """
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Any:
    """Largest elements of windows that divide volumes into `output_size` planes, rows and columns; with `return_indices` also where they are (int64).

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the batch may be left out, and None leaves a size as it is

    Raises:
        ValueError: another number of axes, an empty volume, a size below 0, more than 3 sizes.
        TypeError: no tensor, or a size that is no whole number.
    """
def avg_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True) -> Tensor:
    """The mean of each window of sequences; of int64 rounded towards zero.

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch may be left out

    Raises:
        ValueError: another number of axes, no channels, a window larger than the input, a padding of more than half a window, a size below 1.
        TypeError: no tensor, or an input of another dtype.
    """
def avg_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None) -> Tensor:
    """The mean of each window of volumes; of int64 rounded towards zero.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the batch may be left out

    Args:
        divisor_override: what sums are divided by in place of the size of the window.

    Raises:
        ValueError: another number of axes, no channels, a window larger than the input, a padding of more than half a window, a size below 1, a divisor of 0.
        TypeError: no tensor, or an input of another dtype.
    """
def fractional_max_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], output_size: Any = None, output_ratio: Any = None, return_indices: _bool = False, _random_samples: Tensor | None = None) -> Any:
    """The largest element of each window of images at random distances (Graham 2014); with `return_indices` also where it is in its plane (int64).

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch may be left out

    Args:
        output_ratio: instead of a size, what rows and columns are multiplied by, between 0 and 1.

    Raises:
        ValueError: another number of axes, both a size and a ratio or neither, sizes and windows that do not fit.
        TypeError: no tensor, or whole numbers as input.
    """
def fractional_max_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], output_size: Any = None, output_ratio: Any = None, return_indices: _bool = False, _random_samples: Tensor | None = None) -> Any:
    """The largest element of each window of volumes at random distances (Graham 2014); with `return_indices` also where it is (int64).

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the batch may be left out

    Args:
        output_ratio: instead of a size, what planes, rows and columns are multiplied by, between 0 and 1.

    Raises:
        ValueError: another number of axes, both a size and a ratio or neither, sizes and windows that do not fit.
        TypeError: no tensor, or whole numbers as input.
    """
def lp_pool1d(input: Tensor, norm_type: _float, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """`(sum of x^p)^(1 / p)` of each window of sequences, with p = `norm_type`; of whole numbers in float32. Its gradient is 0 where the sum is 0.

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch may be left out

    Raises:
        ValueError: another number of axes, no channels, a window larger than the input, a size below 1, a `norm_type` of 0.
        TypeError: no tensor.
    """
def lp_pool2d(input: Tensor, norm_type: _float, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """`(sum of x^p)^(1 / p)` of each window of images, with p = `norm_type`; of whole numbers in float32. Its gradient is 0 where the sum is 0.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch may be left out

    Raises:
        ValueError: another number of axes, no channels, a window larger than the input, a size below 1, a `norm_type` of 0.
        TypeError: no tensor.
    """
def lp_pool3d(input: Tensor, norm_type: _float, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """`(sum of x^p)^(1 / p)` of each window of volumes, with p = `norm_type`; of whole numbers in float32. Its gradient is 0 where the sum is 0.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the batch may be left out

    Raises:
        ValueError: another number of axes, no channels, a window larger than the input, a size below 1, a `norm_type` of 0.
        TypeError: no tensor.
    """
def max_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Any:
    """The largest element of each window of sequences; with `return_indices` also where it is (int64).

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch may be left out

    Raises:
        ValueError: another number of axes, no channels, a window larger than the input, a padding of more than half a window, a size below 1.
        TypeError: no tensor, or truth values as input.
    """
def max_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Any:
    """The largest element of each window of volumes; with `return_indices` also where it is in its volume (int64).

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the batch may be left out

    Raises:
        ValueError: another number of axes, no channels, a window larger than the input, a padding of more than half a window, a size below 1.
        TypeError: no tensor, or truth values as input.
    """
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, output_size: Any = None) -> Tensor:
    """Zeros with elements at the `indices` that `max_pool1d` found: the last of several that meet.

    Shapes: [batch, channels, windows], indices likewise -> [batch, channels, length]; the batch may be left out

    Args:
        output_size: the size of the result, which must be nearer than a stride to what the window leads to.

    Raises:
        ValueError: another number of axes, indices of another shape, a size that cannot be.
        IndexError: an index that is none of the result.
        TypeError: no tensors, whole numbers as input, or indices that are none.
    """
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, output_size: Any = None) -> Tensor:
    """Zeros with elements at the `indices` that `max_pool2d` found: the last of several that meet.

    Shapes: [batch, channels, rows, columns], indices likewise -> [batch, channels, height, width]; the batch may be left out

    Args:
        output_size: the size of the result, which must be nearer than a stride to what the window leads to.

    Raises:
        ValueError: another number of axes, indices of another shape, a size that cannot be.
        IndexError: an index that is none of the result.
        TypeError: no tensors, whole numbers as input, or indices that are none.
    """
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, output_size: Any = None) -> Tensor:
    """Zeros with elements at the `indices` that `max_pool3d` found: the last of several that meet.

    Shapes: [batch, channels, planes, rows, columns], indices likewise -> [batch, channels, depth, height, width]; the batch may be left out

    Args:
        output_size: the size of the result, which must be nearer than a stride to what the window leads to.

    Raises:
        ValueError: another number of axes, indices of another shape, a size that cannot be.
        IndexError: an index that is none of the result.
        TypeError: no tensors, whole numbers as input, or indices that are none.
    """
def softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: Any = None, *, axis: _int | None = None) -> Tensor:
    """`e^x / sum(e^x)` along `dim`; axis is another name of it."""
def log_softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: Any = None, *, axis: _int | None = None) -> Tensor:
    """The logarithm of `softmax` along `dim`, without loss."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`input1 @ weight[o] @ input2 + bias[o]` for each output o.

    Shapes: [.., in1], [.., in2], weight [out, in1, in2], bias [out] -> [.., out]

    Raises:
        ValueError: last axes of other sizes than the weight's.
    """
def dropout1d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> Tensor:
    """Whole channels of sequences become 0 with probability `p`, the others are divided by `1 - p`: [batch, channels, length] or [channels, length].

    Raises:
        ValueError: a probability outside 0 to 1, another number of axes.
    """
def dropout2d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> Tensor:
    """Whole channels of images become 0 with probability `p`, the others are divided by `1 - p`: [batch, channels, ..].

    Raises:
        ValueError: a probability outside 0 to 1, another number of axes.
    """
def dropout3d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> Tensor:
    """Whole channels of volumes become 0 with probability `p`, the others are divided by `1 - p`: [batch, channels, depth, height, width] or without the batch.

    Raises:
        ValueError: a probability outside 0 to 1, another number of axes.
    """
def alpha_dropout(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False) -> Tensor:
    """Dropout that keeps a mean of 0 and a variance of 1, for networks of `selu`: elements become what it gives of -infinity with probability `p`.

    Shapes: [..] -> the same

    Raises:
        ValueError: a probability outside 0 to 1.
        TypeError: whole numbers.
    """
def feature_alpha_dropout(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False) -> Tensor:
    """`alpha_dropout` of whole channels: [batch, channels, ..].

    Raises:
        ValueError: a probability outside 0 to 1, less than two axes.
        TypeError: whole numbers.
    """
def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: _float | None = None, norm_type: _float = 2.0, scale_grad_by_freq: _bool = False, mode: str = "mean", sparse: _bool = False, per_sample_weights: Tensor | None = None, include_last_offset: _bool = False, padding_idx: _int | None = None) -> Tensor:
    """Rows of `weight` by their numbers, reduced by bags; of a bag without rows 0.

    Shapes: input [bags, size] (int32 or int64), or [count] with offsets [bags]; weight [rows, width] -> [bags, width]

    Args:
        offsets: where each bag begins: 0 first, then in order.
        mode: "sum", "mean" or "max".
        per_sample_weights: what each row counts in a sum, of the input's shape.
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: the number of a row that counts nothing and gets no gradient.
        max_norm: rows that are used and longer are shortened to it before, in `weight` itself.
        norm_type: of which norm their length is.

    Raises:
        IndexError: a number that is none of a row.
        ValueError: other shapes, offsets that are not in order, weights of another mode than the sum, another mode, a `padding_idx` that is none;
            `scale_grad_by_freq` or `sparse`, which PyTorch alone has.
        TypeError: numbers of a floating dtype.
    """
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: _bool = True, momentum: _float = 0.1, eps: _float = 1e-05) -> Tensor:
    """Each channel of each example shifted to mean 0 and scaled to variance 1, then `* weight + bias`.

    Running statistics, if there are any, follow the means over the batch of each example's mean and unbiased variance, in place; without `use_input_stats`
    they take the place of the examples' own.

    Shapes: [batch, channels, ..], the others [channels] -> the input's

    Raises:
        ValueError: less than 2 values a channel; no running statistics, unless with `use_input_stats`; one of both alone, or of another size than the channels.
    """
def sinusoidal(positions: _int, width: _int, device: Any = None) -> Tensor:
    """Sines and cosines of positions (Vaswani et al. 2017, section 3.5): float32, [positions, width].

    Column `2 i` is `sin(position / 10000^(2 i / width))`, column `2 i + 1` its cosine.

    Raises:
        ValueError: an odd width.
    """
def _alpha_dropped(*args: Any, **kwargs: Any) -> Any: ...
def _bags_padding(*args: Any, **kwargs: Any) -> Any: ...
def _only_pytorchs(*args: Any, **kwargs: Any) -> Any: ...
def _check_running(*args: Any, **kwargs: Any) -> Any: ...
def _of_one_rank(*args: Any, **kwargs: Any) -> Any: ...
def _check_heads(*args: Any, **kwargs: Any) -> Any: ...
def __dir__(*args: Any, **kwargs: Any) -> Any: ...
