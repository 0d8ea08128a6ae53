"""Written by python/stubs.py."""

from builtins import bool as _bool, float as _float, int as _int
from typing import Any

from .._ternion import Operand, SizeLike, DTypeLike, Tensor, Number
from collections.abc import Sequence

def accuracy(input: Tensor, target: Tensor) -> Tensor:
    """Returns the fraction of rows whose largest logit is at the target index; float32, without
    gradient.

    Shapes: logits [batch, classes, ..] and [batch, ..] (int32 or int64) -> []

    Raises:
        IndexError: a class index out of range.
    """
def add_relu(input: Tensor, other: Tensor) -> Tensor:
    """Computes `max(input + other, 0)`, broadcast, in one pass.

    Shapes: two tensors, broadcast -> the broadcast shape

    Raises:
        TypeError: dtypes that differ.
    """
def bias_activation(input: Tensor, bias: Tensor, activation: str) -> Tensor:
    """Computes `activation(input + bias)` in one pass.

    Shapes: [.., features] and bias [features] -> [.., features]

    Args:
        activation: "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "softplus" or
            "leaky_relu" (negative slope 0.01).

    Raises:
        ValueError: an unknown activation, or incompatible shapes.
        TypeError: dtypes that differ.
    """
def group_norm(input: Tensor, num_groups: _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-5) -> Tensor:
    """Normalizes groups of channels to mean 0 and variance 1, then applies `* weight + bias` to each
    channel.

    Shapes: [batch, channels, ..], weight and bias [channels]

    Raises:
        ValueError: the number of channels is not divisible by the number of groups.
        TypeError: the dtype is not floating.
    """
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: _float = 1.0, weight: Tensor | None = None) -> Tensor:
    """Computes the Huber loss: quadratic up to a distance of `delta`, linear beyond.

    Shapes: two tensors, broadcast -> [], or with reduction "none" the broadcast shape

    Args:
        weight: the weight of each element, of the input's shape.

    Raises:
        ValueError: shapes that do not broadcast, a `delta` that is not positive, or an unknown
            `reduction`.
    """
def l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Computes the absolute error `|input - target|`.

    Shapes: two tensors, broadcast -> [], or with reduction "none" the broadcast shape

    Args:
        weight: the weight of each element, of the input's shape; the mean is divided by their sum.
        size_average, reduce: deprecated arguments that PyTorch had before `reduction`, accepted
            with a warning.

    Raises:
        ValueError: shapes that do not broadcast, or an unknown `reduction`.
    """
def layer_norm(input: Tensor, normalized_shape: SizeLike, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-5) -> Tensor:
    """Normalizes the last `normalized_shape` axes to mean 0 and variance 1, then applies `* weight +
    bias`.

    Shapes: [.., *normalized_shape], weight and bias [*normalized_shape] -> the shape of the input

    Raises:
        ValueError: last axes of other sizes.
        TypeError: the dtype is not floating.
    """
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes `input @ weight.T + bias`.

    Shapes: [.., in_features], weight [out_features, in_features], bias [out_features] -> [..,
    out_features]

    Raises:
        ValueError: inner sizes that differ.
    """
def mse_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Computes the squared error `(input - target)^2`.

    Shapes: two tensors, broadcast -> [], or with reduction "none" the broadcast shape

    Args:
        weight: the weight of each element, of the input's shape; the mean is divided by their sum.
        size_average, reduce: deprecated arguments that PyTorch had before `reduction`, accepted
            with a warning.

    Raises:
        ValueError: shapes that do not broadcast, or an unknown `reduction`.
    """
def one_hot(tensor: Tensor, num_classes: _int = ...) -> Tensor:
    """Returns a one-hot encoding, int64: 1 at each index, 0 elsewhere. If `num_classes` is -1, it is
    the largest index plus 1.

    Shapes: [..] -> [.., num_classes]

    Raises:
        TypeError: indices that are not int32 or int64.
        ValueError: no elements, and no `num_classes`.
    """
def rms_norm(input: Tensor, normalized_shape: SizeLike, weight: Tensor | None = None, eps: _float | None = None) -> Tensor:
    """Divides the last `normalized_shape` axes by their root mean square, then applies `* weight`.

    Shapes: [.., *normalized_shape], weight [*normalized_shape] -> the shape of the input

    Args:
        eps: added to the mean square; by default the machine epsilon of the dtype in which the sum
            is computed, float32 for half precision.

    Raises:
        ValueError: last axes of other sizes.
    """
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Computes `x * Phi(x)`, where `Phi` is the CDF of the standard normal distribution, or its
    tanh approximation if `approximate` is "tanh".

    Shapes: [..] -> the same; integers become float32

    Raises:
        ValueError: an unknown `approximate`.
    """
def logsigmoid(input: Tensor) -> Tensor:
    """Computes `log(sigmoid(x))` of each element without cancellation.

    Shapes: [..] -> the same; integers become float32
    """
def sigmoid(input: Tensor) -> Tensor:
    """Computes `1 / (1 + e^-x)` of each element.

    Shapes: [..] -> the same; integers become float32
    """
def tanh(input: Tensor) -> Tensor:
    """Computes the hyperbolic tangent of each element.

    Shapes: [..] -> the same; integers become float32
    """
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] | str = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Applies a 1D convolution to sequences.

    Shapes: [batch, channels, length], weight [out, channels / groups, kernel] ->
    [batch, out, windows]; the batch axis is optional

    Args:
        padding: zero padding on both sides, or "valid" (no padding) or "same" (an output of the
            input's length; requires stride 1).

    Raises:
        ValueError: If the number of axes, the channels or `padding` is invalid, a window is larger
            than the input, or a stride or dilation is below 1.
        TypeError: If an argument is not a tensor, the input has an integer dtype, or a setting is
            not an integer.
    """
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] | str = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Applies a 2D convolution to images.

    Shapes: [batch, channels, height, width], weight [out, channels / groups, kernel height, kernel
    width] -> [batch, out, rows, columns]; the batch axis is optional

    Args:
        padding: zero padding on all sides, or "valid" (no padding) or "same" (an output of the
            input's size; requires stride 1).

    Raises:
        ValueError: If the number of axes, the channels or `padding` is invalid, a window is larger
            than the input, or a stride or dilation is below 1.
        TypeError: If an argument is not a tensor, the input has an integer dtype, or a setting is
            not an integer.
    """
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """Applies a 2D transposed convolution: the gradient of `conv2d` with respect to its input.

    Shapes: [batch, channels, height, width], weight [channels, out / groups, kernel height, kernel
    width] -> [batch, out, rows, columns]; the batch axis is optional

    Raises:
        ValueError: If the number of axes or the channels are invalid, or an output padding is below
            neither the stride nor the dilation.
        TypeError: If an argument is not a tensor, or the input has an integer dtype.
    """
def max_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Any:
    """Computes the maximum of each window of images. With `return_indices`, also returns its index
    in the flattened plane (int64).

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch axis is
    optional

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, the padding exceeds half a window, or a size is below 1.
        TypeError: If the input is not a tensor, or is a bool tensor.
    """
def avg_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None) -> Tensor:
    """Computes the mean of each window of images. For int64 it is rounded toward zero.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch axis is
    optional

    Args:
        divisor_override: the divisor of the sums, instead of the window size.

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, the padding exceeds half a window, a size is below 1, or the divisor is 0.
        TypeError: If the input is not a tensor, or its dtype is neither floating nor int64.
    """
def batch_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, training: _bool = False, momentum: _float = 0.1, eps: _float = 1e-05) -> Tensor:
    """Shifts each channel to mean 0 and scales it to variance 1. In training it uses the statistics
    of the batch and updates the running statistics with them; otherwise it uses the running
    statistics.

    Shapes: [batch, channels, ..], the others [channels] -> the input's; an empty batch does not
    update the running statistics

    Raises:
        ValueError: If training has a single value per channel, the running statistics are missing
            outside training, only one of them is given, their size is not the number of channels,
            or `eps` is not above 0.
    """
def dropout(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> Tensor:
    """Sets elements to 0 with probability `p` and divides the others by `1 - p`. Does nothing if
    `training` is False.

    Shapes: [..] -> the same

    Raises:
        ValueError: If the probability is outside 0 to 1.
    """
def hardtanh(input: Tensor, min_val: _float = -1.0, max_val: _float = 1.0, inplace: _bool = False) -> Tensor:
    """Clamps each element to the range from `min_val` to `max_val`. The gradient is 0 at both
    bounds.

    Shapes: [..] -> the same

    Raises:
        ValueError: If `min_val` is above `max_val`.
    """
def pad(input: Tensor, pad: Sequence[_int], mode: str = "constant", value: _float | None = None) -> Tensor:
    """Pads a tensor. `pad` lists pairs of amounts (before, after), for the last axis first, then
    for the one before it, and so on.

    Shapes: [.., size] -> [.., size + before + after]

    Args:
        mode: "constant" (filled with `value`, 0 by default), "reflect"
            (excluding the edge element), "replicate" (repeating the edge element) or "circular".
            Negative amounts crop. All modes except "constant" pad one to three axes that follow a
            channel axis and an optional batch axis.

    Raises:
        ValueError: If the number of amounts is odd or larger than two per axis, the mode is
            unknown, an amount is too large to reflect or wrap around, or `value` is given for
            another mode than "constant".
        TypeError: If the input of a mode that reflects or replicates is a bool tensor.
    """
def embedding(input: Tensor, weight: Tensor, padding_idx: _int | None = None, max_norm: _float | None = None, norm_type: _float = 2.0, scale_grad_by_freq: _bool = False, sparse: _bool = False) -> Tensor:
    """Looks up rows of `weight` by index.

    Shapes: input [..] (int32 or int64), weight [rows, width] -> [.., width]

    Args:
        padding_idx: the index of a row that receives no gradient.
        max_norm: rows that are looked up and whose norm is larger are first scaled to this norm, in
            `weight` itself.
        norm_type: the p of the norm for `max_norm`.
        scale_grad_by_freq: divides the gradient of each row by the number of its occurrences in the
            input.

    Raises:
        IndexError: If an index is out of range.
        ValueError: If `padding_idx` is out of range, or `sparse` is True, which only PyTorch
            supports.
    """
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _bool | None = None, reduction: str = "mean", label_smoothing: _float = 0.0) -> Tensor:
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
def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None, ignore_index: _int = -100, reduction: str = "mean", label_smoothing: _float = 0.0, chunk_rows: _int | None = None) -> Tensor:
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
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """Computes the negative log-likelihood of class indices.

    Shapes: log-probabilities [batch, classes, ..] and [batch, ..] (int32, int64 or uint8) -> []

    Raises:
        IndexError: If a class index is out of range.
        ValueError: If the shapes do not match.
        TypeError: If the indices have another dtype.
    """
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None) -> Tensor:
    """Computes the binary cross-entropy of logits with target probabilities.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Args:
        weight: the weight of each element, broadcast.
        pos_weight: the weight of positive targets relative to negative ones, broadcast.

    Raises:
        ValueError: If the shapes differ, the weights do not broadcast, or `reduction` is unknown.
        TypeError: If an argument is not a tensor or has an integer dtype.
    """
def kl_div(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean", log_target: _bool = False) -> Tensor:
    """Computes the Kullback-Leibler divergence of log-probabilities from a target: probabilities,
    or their logarithms if `log_target` is True.

    Shapes: two tensors of the same shape -> [], or that shape if `reduction` is "none"

    Raises:
        TypeError: If the dtype is not floating.
        ValueError: If `reduction` is unknown.
    """
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: _float = 0.0, is_causal: _bool = False, scale: _float | None = None, enable_gqa: _bool = False, *, window: _int | None = None) -> Tensor:
    """Computes the mean of `value`, weighted by `softmax(scale * query @ key.T + mask)`.

    Shapes: query [.., heads, queries, head_dim], key [.., kv_heads, keys, head_dim], value
    [.., kv_heads, keys, value_dim] -> [.., heads, queries, value_dim]; axes before the last two are
    optional

    Args:
        attn_mask: bool, where True keeps a key, or a floating mask that is added to the scores;
            broadcast.
        dropout_p: the dropout probability of attention weights.
        is_causal: whether a query attends only to keys up to its own position. The first query is
            aligned with the first key, as in PyTorch; with a `window`, the last query is aligned
            with the last key.
        scale: the factor of the scores; 1 / sqrt(head_dim) by default.
        enable_gqa: whether several query heads may share a key and value head. A single key and
            value head is shared by all query heads in any case.
        window: the number of positions that a query attends to, including its own: backward, and
            forward unless causal.

    Raises:
        ValueError: If the shapes do not match, or the probability is outside 0 to 1.
    """
def unfold(input: Tensor, kernel_size: _int | Sequence[_int], dilation: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, stride: _int | Sequence[_int] = 1) -> Tensor:
    """Extracts the patches of a sliding window as the columns of one matrix per image.

    Shapes: [batch, channels, height, width] -> [batch, channels * kernel height * kernel width,
    windows]; the batch axis is optional

    Raises:
        ValueError: If the number of axes is invalid, or a window is larger than the images.
        TypeError: If the input is not a tensor.
    """
def fold(input: Tensor, output_size: _int | Sequence[_int], kernel_size: _int | Sequence[_int], dilation: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, stride: _int | Sequence[_int] = 1) -> Tensor:
    """Sums patches into images: the gradient of `unfold` with respect to its input.

    Shapes: [batch, channels * kernel height * kernel width, windows] ->
    [batch, channels, output height, output width]; the batch axis is optional

    Raises:
        ValueError: If the number of axes is invalid, the rows are not a multiple of the window
            size, or the number of windows differs from that of the output.
    """
def celu(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """Applies `x` if `x > 0`, else `alpha * (e^(x / alpha) - 1)`, elementwise (Barron 2017).

    Shapes: [..] -> the same

    Raises:
        ValueError: If `alpha` is 0.
    """
def celu_(input: Tensor, alpha: _float = 1.0) -> Tensor:
    """Applies `celu` in place: changes the input tensor and returns it.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If a leaf that requires a gradient is changed in place while operations are
            recorded.
    """
def elu(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """Applies `x` if `x > 0`, else `alpha * (e^x - 1)`, elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
def elu_(input: Tensor, alpha: _float = 1.0) -> Tensor:
    """Applies `elu` in place: changes the input tensor and returns it.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If a leaf that requires a gradient is changed in place while operations are
            recorded.
    """
def glu(input: Tensor, dim: _int = -1) -> Tensor:
    """Multiplies the first half of the input along `dim` by the sigmoid of the second half
    (Dauphin et al. 2017).

    Shapes: [.., 2 n, ..] -> [.., n, ..]

    Raises:
        ValueError: If the size along `dim` is odd.
        IndexError: If the axis does not exist.
    """
def gumbel_softmax(logits: Tensor, tau: _float = 1.0, hard: _bool = False, eps: _float = 1e-10, dim: _int = -1) -> Tensor:
    """Draws a random one-hot choice along `dim` through which gradients flow (Jang et al. 2017).

    Shapes: [..] -> the same

    Args:
        tau: the temperature. The lower it is, the closer the result is to one-hot.
        hard: if True, returns an exact one-hot tensor with the gradients of the soft choice.
        eps: accepted for compatibility; PyTorch ignores it, too.

    Raises:
        IndexError: If the axis does not exist.
    """
def hardshrink(input: Tensor, lambd: _float = 0.5) -> Tensor:
    """Replaces elements within `lambd` of 0 by 0 and keeps the others.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
def hardsigmoid(input: Tensor, inplace: _bool = False) -> Tensor:
    """Applies `min(max(x + 3, 0), 6) / 6` elementwise. The gradient is 0 at -3 and 3.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
def hardswish(input: Tensor, inplace: _bool = False) -> Tensor:
    """Applies `x * hardsigmoid(x)` elementwise (Howard et al. 2019).

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
def hardtanh_(input: Tensor, min_val: _float = -1.0, max_val: _float = 1.0) -> Tensor:
    """Applies `hardtanh` in place: changes the input tensor and returns it.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If a leaf that requires a gradient is changed in place while operations are
            recorded.
    """
def leaky_relu(input: Tensor, negative_slope: _float = 0.01, inplace: _bool = False) -> Tensor:
    """Applies `x` if `x > 0`, else `negative_slope * x`, elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
def leaky_relu_(input: Tensor, negative_slope: _float = 0.01) -> Tensor:
    """Applies `leaky_relu` in place: changes the input tensor and returns it.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If a leaf that requires a gradient is changed in place while operations are
            recorded.
    """
def mish(input: Tensor, inplace: _bool = False) -> Tensor:
    """Applies `x * tanh(softplus(x))` elementwise (Misra 2019).

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Applies `x` if `x > 0`, else `weight * x`, elementwise.

    Shapes: [batch, channels, ..], weight [] or [1] or [channels] -> the input's

    Raises:
        ValueError: If the number of slopes is neither 1 nor the number of channels.
    """
def relu(input: Tensor, inplace: _bool = False) -> Tensor:
    """Applies `max(x, 0)` elementwise. NaN is preserved.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
def relu6(input: Tensor, inplace: _bool = False) -> Tensor:
    """Applies `min(max(x, 0), 6)` elementwise. The gradient is 0 at both bounds.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
def relu_(input: Tensor) -> Tensor:
    """Applies `relu` in place: changes the input tensor and returns it.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If a leaf that requires a gradient is changed in place while operations are
            recorded.
    """
def rrelu(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False) -> Tensor:
    """Applies `x` if `x > 0`, else `slope * x`, elementwise. In training, `slope` is drawn per
    element from the uniform distribution between `lower` and `upper`; otherwise it is their mean.

    Shapes: [..] -> the same

    Raises:
        ValueError: If `lower` is above `upper`.
    """
def rrelu_(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False) -> Tensor:
    """Applies `rrelu` in place: changes the input tensor and returns it.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If a leaf that requires a gradient is changed in place while operations are
            recorded.
    """
def selu(input: Tensor, inplace: _bool = False) -> Tensor:
    """Applies ELU with the two constants that preserve mean 0 and variance 1
    (Klambauer et al. 2017).

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
def selu_(input: Tensor) -> Tensor:
    """Applies `selu` in place: changes the input tensor and returns it.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If a leaf that requires a gradient is changed in place while operations are
            recorded.
    """
def silu(input: Tensor, inplace: _bool = False) -> Tensor:
    """Applies `x * sigmoid(x)` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
def softmin(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: Any = None) -> Tensor:
    """Computes `softmax(-x)` along `dim`, in `dtype` if it is given. Without `dim` the axis is 0
    for inputs of 0, 1 or 3 axes and 1 otherwise, with a warning, as in PyTorch.

    Shapes: [..] -> the same

    Raises:
        IndexError: If the axis does not exist.
    """
def softplus(input: Tensor, beta: _float = 1.0, threshold: _float = 20.0) -> Tensor:
    """Applies `log(1 + e^(beta * x)) / beta` elementwise. Where `beta * x` is above `threshold`,
    the result is `x`.

    Shapes: [..] -> the same

    Raises:
        ValueError: If `beta` is 0 or less.
    """
def softshrink(input: Tensor, lambd: _float = 0.5) -> Tensor:
    """Moves each element toward 0 by `lambd`. Elements within `lambd` of 0 become 0.

    Shapes: [..] -> the same

    Raises:
        ValueError: If `lambd` is below 0.
    """
def softsign(input: Tensor) -> Tensor:
    """Applies `x / (1 + |x|)` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
def tanhshrink(input: Tensor) -> Tensor:
    """Applies `x - tanh(x)` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
def threshold(input: Tensor, threshold: _float, value: _float, inplace: _bool = False) -> Tensor:
    """Keeps elements above `threshold` and replaces the others by `value`. NaN is preserved.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """
def threshold_(input: Tensor, threshold: _float, value: _float) -> Tensor:
    """Applies `threshold` in place: changes the input tensor and returns it.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
        RuntimeError: If a leaf that requires a gradient is changed in place while operations are
            recorded.
    """
def affine_grid(theta: Tensor, size: Sequence[_int], align_corners: _bool | None = None) -> Tensor:
    """Generates a grid for `grid_sample` from affine maps: `theta (x, y, 1)` at each pixel of
    images of `size`, `theta (x, y, z, 1)` for volumes.

    Shapes: theta [batch, 2, 3], size (batch, channels, rows, columns) -> [batch, rows, columns, 2];
    for volumes theta is [batch, 3, 4] and the grid has one more axis

    Args:
        align_corners: whether -1 and 1 refer to the centers of the corner elements, rather than to
            their outer edges.

    Raises:
        ValueError: If the maps do not match the size, or a size is below 1.
        TypeError: If the argument is not a tensor or has an integer dtype.
    """
def channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """Interleaves groups of channels: the first channel of each group, then the second of each, and
    so on (Zhang et al. 2018).

    Shapes: [batch, channels, ..] -> the same

    Raises:
        ValueError: If the input has fewer than 3 axes, the number of groups is below 1, or it does
            not divide the channels.
        TypeError: If the input is not a tensor, or the number of groups is not an integer.
    """
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] | str = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Applies a 3D convolution to volumes.

    Shapes: [batch, channels, depth, height, width], weight [out, channels / groups, *kernel] ->
    [batch, out, planes, rows, columns]; the batch axis is optional

    Args:
        padding: zero padding on all sides, or "valid" (no padding) or "same" (an output of the
            input's size; requires stride 1).

    Raises:
        ValueError: If the number of axes, the channels or `padding` is invalid, a window is larger
            than the input, or a stride or dilation is below 1.
        TypeError: If an argument is not a tensor, the input is a bool tensor, or a setting is not
            an integer.
    """
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """Applies a 1D transposed convolution: the gradient of `conv1d` with respect to its input.

    Shapes: [batch, channels, length], weight [channels, out / groups, kernel] ->
    [batch, out, output length]; the batch axis is optional

    Raises:
        ValueError: If the number of axes or the channels are invalid, or an output padding is below
            neither the stride nor the dilation.
        TypeError: If an argument is not a tensor, or the input has an integer dtype.
    """
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """Applies a 3D transposed convolution: the gradient of `conv3d` with respect to its input.

    Shapes: [batch, channels, depth, height, width], weight [channels, out / groups, *kernel] ->
    [batch, out, planes, rows, columns]; the batch axis is optional

    Raises:
        ValueError: If the number of axes or the channels are invalid, or an output padding is below
            neither the stride nor the dilation.
        TypeError: If an argument is not a tensor, or the input is a bool tensor.
    """
def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: _bool | None = None) -> Tensor:
    """Samples images at the positions of a grid. The last axis of `grid` is x, y
    (and z for volumes), from -1 to 1 across the image. Positions that are NaN read 0.

    Shapes: [batch, channels, height, width], grid [batch, rows, columns, 2] ->
    [batch, channels, rows, columns]; volumes have one more axis

    Args:
        mode: "bilinear" or "nearest", and "bicubic" for images.
        padding_mode: the values outside the image: "zeros", "border" (the edge element) or
            "reflection".
        align_corners: whether -1 and 1 refer to the centers of the corner elements, rather than to
            their outer edges.

    Raises:
        ValueError: If a mode, the number of axes or the batch size is invalid, an image is empty,
            or the dtypes differ.
        TypeError: If an argument is not a tensor or has an integer dtype.
    """
def interpolate(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: _bool | None = None, recompute_scale_factor: _bool | None = None, antialias: _bool = False) -> Tensor:
    """Resizes sequences, images or volumes.

    Shapes: [batch, channels, ..] -> the same with other sizes of the last one to three axes

    Args:
        size: the output size, one number for all axes or one per axis.
        scale_factor: the factor of the sizes, instead of `size`. Output sizes are rounded down.
        mode: "nearest", "nearest-exact" (uses element centers, as other programs do), "area",
            "linear" for sequences, "bilinear" or "bicubic" for images, "trilinear" for volumes.
        align_corners: for "linear", "bilinear", "bicubic" and "trilinear": whether the centers of
            the corner elements of input and output are aligned, rather than the outer corners of
            the images.
        recompute_scale_factor: whether `scale_factor` only determines the output size, from which
            the sampling positions are then computed.

    Raises:
        ValueError: If not exactly one of `size` and `scale_factor` is given, the mode or the number
            of axes is invalid, the input or the result is empty, or `antialias` is True.
        TypeError: If the input is not a tensor, a size is not an integer, or the input has an
            integer dtype in a mode that interpolates.
        MemoryError: If the result is larger than any memory.
    """
def local_response_norm(input: Tensor, size: _int, alpha: _float = 0.0001, beta: _float = 0.75, k: _float = 1.0) -> Tensor:
    """Computes `x / (k + alpha / size * sum of squares)^beta`, where the sum is over the `size`
    channels around each channel (Krizhevsky et al. 2012).

    Shapes: [batch, channels, ..] -> the same

    Raises:
        ValueError: If the input has fewer than 3 axes, or the size is below 1.
        TypeError: If the input is not a tensor or has an integer dtype.
    """
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor:
    """Rearranges channels into pixels (Shi et al. 2016): [.., channels * factor^2, height, width]
    -> [.., channels, height * factor, width * factor].

    Raises:
        ValueError: If the input has fewer than 3 axes, the factor is below 1, or the channels are
            not a multiple of its square.
        TypeError: If the input is not a tensor, or the factor is not an integer.
    """
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor:
    """Rearranges pixels into channels, the inverse of `pixel_shuffle`:
    [.., channels, height, width] -> [.., channels * factor^2, height / factor, width / factor].

    Raises:
        ValueError: If the input has fewer than 3 axes, the factor is below 1, or the height or
            width is not a multiple of it.
        TypeError: If the input is not a tensor, or the factor is not an integer.
    """
def upsample(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: _bool | None = None) -> Tensor:
    """Alias of `interpolate`.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Raises:
        ValueError: Same as `interpolate`.
    """
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Resizes images by bilinear interpolation with `align_corners=True`; see `interpolate`.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Raises:
        ValueError: Same as `interpolate`.
    """
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Resizes by nearest-neighbor interpolation; see `interpolate`.

    Shapes: [batch, channels, ..] -> the same with other sizes of the last axes

    Raises:
        ValueError: Same as `interpolate`.
    """
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
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
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """Computes `1 - cos` where the target is 1, `max(0, cos - margin)` where it is -1, and 0 for
    other targets, for vectors along the last axis.

    Shapes: [batch, width], the same and [batch] -> [], or [batch] if `reduction` is "none"

    Raises:
        ValueError: If the inputs do not have one more axis than the target, the shapes do not
            broadcast, or `reduction` is unknown.
    """
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = 1e-08) -> Tensor:
    """Computes the cosine of the angle between vectors along `dim`, with broadcasting. Norms below
    `eps` are replaced by `eps`.

    Shapes: [.., n, ..] and the same -> [.., ..], without `dim`

    Raises:
        ValueError: If the shapes do not broadcast.
        IndexError: If the axis does not exist.
    """
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: _int = 0, reduction: str = "mean", zero_infinity: _bool = False) -> Tensor:
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
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: _bool = False, eps: _float = 1e-06, reduction: str = "mean") -> Tensor:
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
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: _float = 1.0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """Computes `input` where the target is 1, `max(0, margin - input)` where it is -1, and their
    sum for other targets, as in PyTorch.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If the shapes do not broadcast, or `reduction` is unknown.
    """
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """Computes `max(0, -target * (input1 - input2) + margin)`. A target of 1 ranks the first input
    higher, -1 the second.

    Shapes: [..], the same and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If the numbers of axes differ, the shapes do not broadcast, or `reduction` is
            unknown.
    """
def multi_margin_loss(input: Tensor, target: Tensor, p: _int = 1, margin: _float = 1.0, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
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
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
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
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """Computes the mean binary cross-entropy over all classes, which are on the last axis.

    Shapes: [.., classes] and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If the shapes differ, or `reduction` is unknown.
        TypeError: If an argument is not a tensor or has an integer dtype.
    """
def normalize(input: Tensor, p: _float = 2.0, dim: _int = 1, eps: _float = 1e-12) -> Tensor:
    """Divides each vector along `dim` by its norm, or by `eps` if the norm is smaller.

    Shapes: [..] -> the same

    Raises:
        IndexError: If the axis does not exist.
    """
def pairwise_distance(x1: Tensor, x2: Tensor, p: _float = 2.0, eps: _float = 1e-06, keepdim: _bool = False) -> Tensor:
    """Computes the norm, along the last axis, of the differences plus `eps`.

    Shapes: [.., n] and the same -> [..], with `keepdim` [.., 1]

    Raises:
        ValueError: If the shapes do not broadcast.
    """
def pdist(input: Tensor, p: _float = 2.0) -> Tensor:
    """Computes the distances of all pairs of rows, each pair once: of the first row to all later
    rows, then of the second row to all later rows, and so on.

    Shapes: [rows, width] -> [rows * (rows - 1) / 2]

    Raises:
        ValueError: If the input does not have 2 axes, or `p` is below 0.
    """
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: _bool = True, full: _bool = False, size_average: _bool | None = None, eps: _float = 1e-08, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """Computes the negative log-likelihood of counts under a Poisson distribution, without the
    terms that do not depend on the input.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Args:
        log_input: whether the input is the logarithm of the rate.
        full: adds Stirling's approximation of the logarithm of the factorial, for targets above 1.

    Raises:
        ValueError: If the shapes do not broadcast, or `reduction` is unknown.
    """
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean", beta: _float = 1.0) -> Tensor:
    """Computes a loss that is quadratic up to a distance of `beta` and linear beyond, with a
    gradient of 1 in the linear part.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If `beta` is below 0.
    """
def soft_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """Computes `log(1 + e^(-target * input))` for targets 1 and -1.

    Shapes: [..] and the same -> [], or [..] if `reduction` is "none"

    Raises:
        ValueError: If the shapes do not broadcast, or `reduction` is unknown.
    """
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: _float = 1.0, p: _float = 2.0, eps: _float = 1e-06, swap: _bool = False, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = "mean") -> Tensor:
    """Computes `max(0, d(anchor, positive) - d(anchor, negative) + margin)`.

    Shapes: [.., width], the same and the same -> [], or [..] if `reduction` is "none"

    Args:
        swap: uses the distance between positive and negative where it is smaller than that between
            anchor and negative (Balntas et al. 2016).

    Raises:
        ValueError: If the margin is not above 0, the shapes do not broadcast, or `reduction` is
            unknown.
    """
def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any = None, margin: _float = 1.0, swap: _bool = False, reduction: str = "mean") -> Tensor:
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
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Computes the means of windows that divide sequences into `output_size` parts. The batch axis
    is optional.

    Shapes: [batch, channels, length] -> [batch, channels, output_size]

    Raises:
        ValueError: If the number of axes is invalid, a sequence is empty, or a size is below 0.
        TypeError: If the input is not a tensor, or a size is not an integer.
    """
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Computes the means of windows that divide images into `output_size` rows and columns. None
    keeps a size unchanged. The batch axis is optional.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]

    Raises:
        ValueError: If the number of axes is invalid, an image is empty, a size is below 0, or more
            than 2 sizes are given.
        TypeError: If the input is not a tensor, or a size is not an integer.
    """
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Computes the means of windows that divide volumes into `output_size` planes, rows and
    columns. None keeps a size unchanged. The batch axis is optional.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]

    Raises:
        ValueError: If the number of axes is invalid, a volume is empty, a size is below 0, or more
            than 3 sizes are given.
        TypeError: If the input is not a tensor, or a size is not an integer.
    """
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Any:
    """Computes the maxima of windows that divide sequences into `output_size` parts. With
    `return_indices`, also returns their indices (int64).

    Shapes: [batch, channels, length] -> [batch, channels, output_size]; the batch axis is optional

    Raises:
        ValueError: If the number of axes is invalid, a sequence is empty, or a size is below 0.
        TypeError: If the input is not a tensor, or a size is not an integer.
    """
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Any:
    """Computes the maxima of windows that divide images into `output_size` rows and columns. With
    `return_indices`, also returns their indices in the flattened planes (int64).

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch axis is
    optional; None keeps a size unchanged

    Raises:
        ValueError: If the number of axes is invalid, an image is empty, a size is below 0, or more
            than 2 sizes are given.
        TypeError: If the input is not a tensor, or a size is not an integer.
    """
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Any:
    """Computes the maxima of windows that divide volumes into `output_size` planes, rows and
    columns. With `return_indices`, also returns their indices (int64).

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the
    batch axis is optional; None keeps a size unchanged

    Raises:
        ValueError: If the number of axes is invalid, a volume is empty, a size is below 0, or more
            than 3 sizes are given.
        TypeError: If the input is not a tensor, or a size is not an integer.
    """
def avg_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True) -> Tensor:
    """Computes the mean of each window of sequences. For int64 it is rounded toward zero.

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch axis is optional

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, the padding exceeds half a window, or a size is below 1.
        TypeError: If the input is not a tensor, or its dtype is neither floating nor int64.
    """
def avg_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None) -> Tensor:
    """Computes the mean of each window of volumes. For int64 it is rounded toward zero.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the
    batch axis is optional

    Args:
        divisor_override: the divisor of the sums, instead of the window size.

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, the padding exceeds half a window, a size is below 1, or the divisor is 0.
        TypeError: If the input is not a tensor, or its dtype is neither floating nor int64.
    """
def fractional_max_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], output_size: Any = None, output_ratio: Any = None, return_indices: _bool = False, _random_samples: Tensor | None = None) -> Any:
    """Computes the maximum of each window of images, with windows at random steps (Graham 2014).
    With `return_indices`, also returns its index in the flattened plane (int64).

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch axis is
    optional

    Args:
        output_ratio: the ratio of output to input rows and columns, between 0 and 1, instead of
            `output_size`.

    Raises:
        ValueError: If the number of axes is invalid, not exactly one of `output_size` and
            `output_ratio` is given, or the sizes and windows do not fit.
        TypeError: If the input is not a tensor or has an integer dtype.
    """
def fractional_max_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], output_size: Any = None, output_ratio: Any = None, return_indices: _bool = False, _random_samples: Tensor | None = None) -> Any:
    """Computes the maximum of each window of volumes, with windows at random steps (Graham 2014).
    With `return_indices`, also returns its index (int64).

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the
    batch axis is optional

    Args:
        output_ratio: the ratio of output to input planes, rows and columns, between 0 and 1,
            instead of `output_size`.

    Raises:
        ValueError: If the number of axes is invalid, not exactly one of `output_size` and
            `output_ratio` is given, or the sizes and windows do not fit.
        TypeError: If the input is not a tensor or has an integer dtype.
    """
def lp_pool1d(input: Tensor, norm_type: _float, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """Computes `(sum of x^p)^(1 / p)` of each window of sequences, with p = `norm_type`. Integers
    are converted to float32. The gradient is 0 where the sum is 0.

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch axis is optional

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, a size is below 1, or `norm_type` is 0.
        TypeError: If the input is not a tensor.
    """
def lp_pool2d(input: Tensor, norm_type: _float, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """Computes `(sum of x^p)^(1 / p)` of each window of images, with p = `norm_type`. Integers are
    converted to float32. The gradient is 0 where the sum is 0.

    Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]; the batch axis is
    optional

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, a size is below 1, or `norm_type` is 0.
        TypeError: If the input is not a tensor.
    """
def lp_pool3d(input: Tensor, norm_type: _float, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """Computes `(sum of x^p)^(1 / p)` of each window of volumes, with p = `norm_type`. Integers are
    converted to float32. The gradient is 0 where the sum is 0.

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the
    batch axis is optional

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, a size is below 1, or `norm_type` is 0.
        TypeError: If the input is not a tensor.
    """
def max_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Any:
    """Computes the maximum of each window of sequences. With `return_indices`, also returns its
    index (int64).

    Shapes: [batch, channels, length] -> [batch, channels, windows]; the batch axis is optional

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, the padding exceeds half a window, or a size is below 1.
        TypeError: If the input is not a tensor, or is a bool tensor.
    """
def max_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Any:
    """Computes the maximum of each window of volumes. With `return_indices`, also returns its index
    in the flattened volume (int64).

    Shapes: [batch, channels, depth, height, width] -> [batch, channels, planes, rows, columns]; the
    batch axis is optional

    Raises:
        ValueError: If the number of axes is invalid, there are no channels, a window is larger than
            the input, the padding exceeds half a window, or a size is below 1.
        TypeError: If the input is not a tensor, or is a bool tensor.
    """
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, output_size: Any = None) -> Tensor:
    """Writes elements to the `indices` that `max_pool1d` returned, and 0 elsewhere. If indices
    repeat, the last element is kept.

    Shapes: [batch, channels, windows], indices likewise -> [batch, channels, length]; the batch
    axis is optional

    Args:
        output_size: the output size. It must differ by less than the stride from the size that the
            window implies.

    Raises:
        ValueError: If the number of axes is invalid, the indices have another shape than the input,
            or the output size is impossible.
        IndexError: If an index is outside the result.
        TypeError: If an argument is not a tensor, the input has an integer dtype, or the indices do
            not.
    """
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, output_size: Any = None) -> Tensor:
    """Writes elements to the `indices` that `max_pool2d` returned, and 0 elsewhere. If indices
    repeat, the last element is kept.

    Shapes: [batch, channels, rows, columns], indices likewise -> [batch, channels, height, width];
    the batch axis is optional

    Args:
        output_size: the output size. It must differ by less than the stride from the size that the
            window implies.

    Raises:
        ValueError: If the number of axes is invalid, the indices have another shape than the input,
            or the output size is impossible.
        IndexError: If an index is outside the result.
        TypeError: If an argument is not a tensor, the input has an integer dtype, or the indices do
            not.
    """
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, output_size: Any = None) -> Tensor:
    """Writes elements to the `indices` that `max_pool3d` returned, and 0 elsewhere. If indices
    repeat, the last element is kept.

    Shapes: [batch, channels, planes, rows, columns], indices likewise ->
    [batch, channels, depth, height, width]; the batch axis is optional

    Args:
        output_size: the output size. It must differ by less than the stride from the size that the
            window implies.

    Raises:
        ValueError: If the number of axes is invalid, the indices have another shape than the input,
            or the output size is impossible.
        IndexError: If an index is outside the result.
        TypeError: If an argument is not a tensor, the input has an integer dtype, or the indices do
            not.
    """
def softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: Any = None, *, axis: _int | None = None) -> Tensor:
    """Computes `e^x / sum(e^x)` along `dim`. `axis` is an alias of `dim`."""
def log_softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: Any = None, *, axis: _int | None = None) -> Tensor:
    """Computes the logarithm of `softmax` along `dim` without loss of precision."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes `input1 @ weight[o] @ input2 + bias[o]` for each output o.

    Shapes: [.., in1], [.., in2], weight [out, in1, in2], bias [out] -> [.., out]

    Raises:
        ValueError: If the last axes do not have the sizes of the weight.
    """
def dropout1d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> Tensor:
    """Sets entire channels of sequences to 0 with probability `p` and divides the others by
    `1 - p`: [batch, channels, length] or [channels, length].

    Raises:
        ValueError: If the probability is outside 0 to 1, or the number of axes is invalid.
    """
def dropout2d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> Tensor:
    """Sets entire channels of images to 0 with probability `p` and divides the others by `1 - p`:
    [batch, channels, ..].

    Raises:
        ValueError: If the probability is outside 0 to 1, or the number of axes is invalid.
    """
def dropout3d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> Tensor:
    """Sets entire channels of volumes to 0 with probability `p` and divides the others by `1 - p`:
    [batch, channels, depth, height, width], where the batch axis is optional.

    Raises:
        ValueError: If the probability is outside 0 to 1, or the number of axes is invalid.
    """
def alpha_dropout(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False) -> Tensor:
    """Applies dropout that preserves mean 0 and variance 1, for networks with `selu`: with
    probability `p` an element is set to the value of `selu` at -infinity.

    Shapes: [..] -> the same

    Raises:
        ValueError: If the probability is outside 0 to 1.
        TypeError: If the input has an integer dtype.
    """
def feature_alpha_dropout(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False) -> Tensor:
    """Applies `alpha_dropout` to entire channels: [batch, channels, ..].

    Raises:
        ValueError: If the probability is outside 0 to 1, or the input has fewer than two axes.
        TypeError: If the input has an integer dtype.
    """
def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: _float | None = None, norm_type: _float = 2.0, scale_grad_by_freq: _bool = False, mode: str = "mean", sparse: _bool = False, per_sample_weights: Tensor | None = None, include_last_offset: _bool = False, padding_idx: _int | None = None) -> Tensor:
    """Looks up rows of `weight` by index and reduces them by bag. An empty bag gives 0.

    Shapes: input [bags, size] (int32 or int64), or [count] with offsets [bags]; weight
    [rows, width] -> [bags, width]

    Args:
        offsets: the start of each bag, in ascending order; the first is 0.
        mode: "sum", "mean" or "max".
        per_sample_weights: the weight of each row in a sum, of the input's shape.
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: the index of a row that is ignored and receives no gradient.
        max_norm: rows that are looked up and whose norm is larger are first scaled to this norm, in
            `weight` itself.
        norm_type: the p of the norm for `max_norm`.

    Raises:
        IndexError: If an index is out of range.
        ValueError: If the shapes do not match, the offsets are not in ascending order,
            `per_sample_weights` is given for another mode than "sum", the mode is unknown,
            `padding_idx` is out of range, or `scale_grad_by_freq` or `sparse` is True, which only
            PyTorch supports.
        TypeError: If the indices have a floating dtype.
    """
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: _bool = True, momentum: _float = 0.1, eps: _float = 1e-05) -> Tensor:
    """Shifts each channel of each example to mean 0 and scales it to variance 1, then applies
    `* weight + bias`.

    The running statistics, if given, are updated in place with the batch averages of each example's
    mean and unbiased variance. Without `use_input_stats` they are used instead of the examples' own
    statistics.

    Shapes: [batch, channels, ..], the others [channels] -> the input's

    Raises:
        ValueError: If there are fewer than 2 values per channel, the running statistics are missing
            without `use_input_stats`, only one of them is given, or their size is not the number of
            channels.
    """
def sinusoidal(positions: _int, width: _int, device: Any = None) -> Tensor:
    """Returns the sinusoidal position encoding (Vaswani et al. 2017, section 3.5): float32,
    [positions, width].

    Column `2 i` is `sin(position / 10000^(2 i / width))`, column `2 i + 1` is the cosine of the
    same angle.

    Raises:
        ValueError: If the width is odd.
    """
def _alpha_dropout(*args: Any, **kwargs: Any) -> Any: ...
def _bag_padding_idx(*args: Any, **kwargs: Any) -> Any: ...
def _reject_unsupported(*args: Any, **kwargs: Any) -> Any: ...
def _check_running_stats(*args: Any, **kwargs: Any) -> Any: ...
def _broadcast_ranks(*args: Any, **kwargs: Any) -> Any: ...
def _check_heads(*args: Any, **kwargs: Any) -> Any: ...
def __dir__(*args: Any, **kwargs: Any) -> Any: ...
