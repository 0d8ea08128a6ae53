"""Operators that pass tensors on or create them."""

import math

from onnx import TensorProto

import ternion

from arrays import dtype_of_type

from .table import numbers, operator


@operator("Identity", takes_coded=True)
def identity(node, x):
    return x


@operator("Constant")
def constant(node):
    """Returns the value of the attribute that is present."""
    if node.attribute("value") is not None:
        return node.attribute("value")
    dtypes = {"value_int": ternion.int64, "value_ints": ternion.int64, "value_float": ternion.float32, "value_floats": ternion.float32}
    for name, dtype in dtypes.items():
        if node.attribute(name) is not None:
            return ternion.tensor(node.attribute(name), dtype=dtype)
    raise node.unsupported("strings and sparse tensors")


@operator("ConstantOfShape")
def constant_of_shape(node, shape):
    value = node.attribute("value")
    if value is None:
        return ternion.zeros(numbers(shape))
    return ternion.full(numbers(shape), value.item(), dtype=value.dtype)


@operator("EyeLike")
def eye_like(node, x):
    """Returns a matrix of x's shape with ones on diagonal `k`."""
    dtype = x.dtype if node.attribute("dtype") is None else dtype_of_type(node.attribute("dtype"))
    rows, columns = x.shape
    offset = ternion.arange(columns).reshape(1, columns) - ternion.arange(rows).reshape(rows, 1)
    return (offset == node.attribute("k", 0)).to(dtype)


@operator("Range")
def arange(node, start, limit, delta):
    return ternion.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


@operator("MelWeightMatrix")
def mel_weight_matrix(node, bands, length, sample_rate, lowest, highest):
    """Returns triangles over the frequencies of a spectrum, whose corners are equidistant on the
    mel scale.

    Shapes: five numbers -> [length // 2 + 1, bands].
    """
    bands, length = int(bands.item()), int(length.item())
    low, high = (2595 * math.log10(1 + edge.item() / 700) for edge in (lowest, highest))
    mels = ternion.arange(bands + 2, dtype=ternion.float64) * ((high - low) / (bands + 2)) + low
    hertz = 700 * (mels / 2595 * math.log(10)).expm1()
    corners = (hertz * (length + 1) / sample_rate.item()).floor()
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    bin_index = ternion.arange(length // 2 + 1, dtype=ternion.float64).reshape(-1, 1)
    rising = ((bin_index - left) / (middle - left).clamp(min=1)).masked_fill((bin_index < left) | (bin_index > middle), 0)
    falling = ((right - bin_index) / (right - middle).clamp(min=1)).masked_fill((bin_index < middle) | (bin_index >= right), 0)
    # A triangle whose left corner is its middle starts with 1.
    weights = rising.maximum(falling).masked_fill((bin_index == middle) & (left == middle), 1)
    return weights.to(dtype_of_type(node.attribute("output_datatype", TensorProto.FLOAT)))


@operator("Bernoulli")
def bernoulli(node, x):
    """Supports only certain outcomes. Otherwise the test expects NumPy's random numbers."""
    dtype = x.dtype if node.attribute("dtype") is None else dtype_of_type(node.attribute("dtype"))
    if ((x != 0) & (x != 1)).any():
        raise node.unsupported("the random numbers of NumPy")
    return ternion.bernoulli(x).to(dtype)


@operator("RandomUniformLike")
def random_uniform_like(node, x):
    """A part of the decomposition of Bernoulli."""
    raise node.unsupported("the random numbers of NumPy")


def _window(node, size, first, second, third):
    """Returns a cosine window: `first - second cos(2 pi n / N) + third cos(4 pi n / N)`."""
    count = int(size.item())
    length = count if node.attribute("periodic", 1) else count - 1
    angle = ternion.arange(count, dtype=ternion.float32) * (2 * ternion.pi / length)
    window = first - second * angle.cos() + third * (2 * angle).cos()
    return window.to(dtype_of_type(node.attribute("output_datatype", 1)))


@operator("HannWindow")
def hann_window(node, size):
    return _window(node, size, 0.5, 0.5, 0.0)


@operator("HammingWindow")
def hamming_window(node, size):
    return _window(node, size, 25 / 46, 21 / 46, 0.0)


@operator("BlackmanWindow")
def blackman_window(node, size):
    return _window(node, size, 0.42, 0.5, 0.08)
