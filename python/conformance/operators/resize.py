"""Image resizing: a matrix of weights for each axis, which depends only on the sizes, multiplies
the image.

Ternion's interpolate supports only some of ONNX's modes. Upsample, an older operator, uses it.
"""

import math

import numpy as np

import ternion
from ternion.nn import functional

from .table import numbers, operator, positive


def _origins(node, out, size, scale, roi):
    """Returns the position of each of `out` elements among `size` elements."""
    mode = node.attribute("coordinate_transformation_mode", "half_pixel")
    position, length = np.arange(out, dtype=np.float64), scale * size
    if mode == "align_corners":
        return position * (size - 1) / (length - 1) if length != 1 else 0 * position
    if mode == "asymmetric":
        return position / scale
    if mode == "tf_crop_and_resize":
        step = (roi[1] - roi[0]) * (size - 1)
        return roi[0] * (size - 1) + (position * step / (length - 1) if length != 1 else 0 * position + step / 2)
    if mode == "pytorch_half_pixel" and length == 1:
        return 0 * position - 0.5
    if mode == "half_pixel_symmetric":
        return size / 2 * (1 - out / length) + (position + 0.5) / scale - 0.5
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (position + 0.5) / scale - 0.5
    raise node.unsupported(f"coordinate_transformation_mode {mode}")


def _nearest(node, origin):
    """Returns the index of the element that is used."""
    mode = node.attribute("nearest_mode", "round_prefer_floor")
    choices = {
        "round_prefer_floor": math.ceil(origin - 0.5),
        "round_prefer_ceil": math.floor(origin + 0.5),
        "floor": math.floor(origin),
        "ceil": math.ceil(origin),
    }
    return choices[mode]


def _cubic(distance, a):
    """Returns the weight of an element at a distance (Keys, 1981)."""
    if distance <= 1:
        return (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    return a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a if distance < 2 else 0.0


def _weights(node, origin, scale):
    """Returns the indices of elements near an origin, with their weights."""
    mode = node.attribute("mode", "nearest")
    if mode == "nearest":
        return {_nearest(node, origin): 1.0}
    # With antialias, the weights of a smaller image cover more elements.
    stretch = min(scale, 1.0) if node.attribute("antialias", 0) else 1.0
    reach = (2 if mode == "cubic" else 1) / stretch
    indices = range(math.floor(origin - reach), math.ceil(origin + reach) + 1)
    distances = {index: abs(index - origin) * stretch for index in indices}
    if mode == "cubic":
        weights = {index: _cubic(distance, node.attribute("cubic_coeff_a", -0.75)) for index, distance in distances.items()}
    else:
        weights = {index: max(1 - distance, 0.0) for index, distance in distances.items()}
    total = sum(weights.values())
    return {index: weight / total for index, weight in weights.items() if weight}


def _matrix(node, out, size, scale, roi):
    """Returns the weights [out, size] of one axis, and which outputs are a constant instead."""
    matrix, origins = np.zeros((out, size)), _origins(node, out, size, scale, roi)
    for row, origin in enumerate(origins):
        weights = _weights(node, float(origin), scale)
        if node.attribute("exclude_outside", 0):
            weights = {index: weight for index, weight in weights.items() if 0 <= index < size}
            weights = {index: weight / sum(weights.values()) for index, weight in weights.items()}
        # Elements outside the image are replaced by those at the edge.
        for index, weight in weights.items():
            matrix[row, min(max(index, 0), size - 1)] += weight
    cropping = node.attribute("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    return matrix, cropping & ((origins < 0) | (origins > size - 1))


def _targets(node, x, axes, scales, sizes):
    """Returns scale and size of each axis, of which one is given."""
    if not sizes:
        return scales, [math.floor(scale * x.shape[axis]) for scale, axis in zip(scales, axes)]
    scales = [size / x.shape[axis] for size, axis in zip(sizes, axes)]
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return scales, sizes
    scale = (min if policy == "not_larger" else max)(scales)
    return [scale] * len(axes), [math.floor(scale * x.shape[axis] + 0.5) for axis in axes]


@operator("Resize")
def resize(node, x, roi=None, scales=None, sizes=None):
    axes = [positive(axis, x.dim()) for axis in node.attribute("axes", list(range(x.dim())))]
    scales, sizes = _targets(node, x, axes, numbers(scales), numbers(sizes))
    regions = numbers(roi) or [0.0] * len(axes) + [1.0] * len(axes)
    for number, axis in enumerate(axes):
        region = regions[number], regions[number + len(axes)]
        if sizes[number] != x.shape[axis] or region != (0.0, 1.0):
            x = _along(node, x, axis, sizes[number], scales[number], region)
    return x


def _along(node, x, axis, out, scale, region):
    """Resizes one axis."""
    matrix, constant = _matrix(node, out, x.shape[axis], scale, region)
    result = (x.transpose(axis, -1) @ ternion.tensor(matrix).to(x.dtype).T).transpose(axis, -1)
    if not constant.any():
        return result
    sizes = [1] * x.dim()
    sizes[axis] = out
    return ternion.where(ternion.tensor(constant).reshape(sizes), node.attribute("extrapolation_value", 0.0), result)


@operator("Upsample")
def upsample(node, x, scales=None):
    """Resizes images with interpolate: integer factors, each element repeated by its factor."""
    scales = node.attribute("scales") if scales is None else numbers(scales)
    if node.attribute("mode", "nearest") != "nearest" or x.dim() != 4 or any(scale != int(scale) for scale in scales) or scales[:2] != [1, 1]:
        raise node.unsupported("other than images in whole factors by the nearest")
    return functional.interpolate(x, scale_factor=scales[2:], mode="nearest")


@operator("AffineGrid")
def affine_grid(node, theta, size):
    """Returns the positions of an output's elements, from -1 to 1, transformed by a matrix for each
    batch element. Composed from other ops.

    Shapes: theta [n, rank, rank + 1] -> [n, spatial.., rank].
    """
    spatial = size.tolist()[2:]
    columns = []
    # The last spatial axis is x, the first coordinate.
    for axis, count in reversed(list(enumerate(spatial))):
        positions = ternion.arange(count, dtype=theta.dtype)
        if node.attribute("align_corners", 0):
            positions = positions * (2 / max(count - 1, 1)) - 1
        else:
            positions = (positions + 0.5) * (2 / count) - 1
        sizes = [1] * len(spatial)
        sizes[axis] = count
        columns.append(positions.reshape(sizes).expand(spatial))
    columns.append(ternion.ones(spatial, dtype=theta.dtype))
    grid = ternion.stack(columns, -1).reshape(1, -1, len(spatial) + 1)
    return (grid @ theta.transpose(1, 2)).reshape([theta.shape[0]] + spatial + [len(spatial)])


@operator("GridSample")
def grid_sample(node, x, grid):
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(node.attribute("mode", "linear"), node.attribute("mode", "linear"))
    if mode == "bicubic" and x.dim() != 4:
        raise node.unsupported("cubic of three spatial axes")
    return functional.grid_sample(x, grid, mode, node.attribute("padding_mode", "zeros"), bool(node.attribute("align_corners", 0)))
