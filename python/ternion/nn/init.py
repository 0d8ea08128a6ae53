"""Initialization of parameters, with the formulas of PyTorch's `torch.nn.init`. Each function
overwrites a tensor and returns it. Random ones accept a `generator`.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from .. import _ternion
from .._error_messages import name_all
from .._scopes import no_grad
from .._ternion import Tensor, _initial, _number
from ..linalg import qr

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "orthogonal_", "sparse_",
    "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__

_GAINS = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """Returns the factor by which weights before an activation are scaled, because the activation
    reduces the standard deviation of its input. `param` is the slope of a leaky ReLU.

    Raises:
        ValueError: If the activation is unknown, or the slope is not a number.
    """
    if nonlinearity in ("linear", "sigmoid") or nonlinearity in [f"conv{kind}{axes}d" for kind in ("", "_transpose") for axes in (1, 2, 3)]:
        return 1.0
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        known = ", ".join(["linear", "conv1d, ..", "sigmoid", *_GAINS, "leaky_relu"])
        raise ValueError(f"calculate_gain: nonlinearity {nonlinearity!r}, expected one of {known}")
    if param is None:
        param = 0.01
    if isinstance(param, bool) or not isinstance(param, (int, float)):
        raise ValueError(f"calculate_gain: a slope of {param!r}, expected a number")
    return math.sqrt(2.0 / (1 + param**2))


def _check(name: str, tensor: Any, axes: int = 0) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name}: tensor of type {type(tensor).__name__}, expected a tensor")
    if tensor.ndim < axes:
        raise ValueError(f"{name}: a tensor of shape {tuple(tensor.shape)}, expected at least {axes} axes")


def _fill(tensor, name, numbers, **options):
    _check(f"{name}_", tensor)
    with no_grad():
        return tensor.copy_(_initial(tuple(tensor.shape), name, numbers, dtype=tensor.dtype, device=tensor.device, **options))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills the tensor with `val`.

    Shapes: [..] -> the same

    Raises:
        TypeError: If `tensor` is not a tensor or has an integer dtype.
    """
    return _fill(tensor, "constant", [val])


def zeros_(tensor: Tensor) -> Tensor:
    """Fills the tensor with 0.

    Shapes: [..] -> the same

    Raises:
        TypeError: If `tensor` is not a tensor or has an integer dtype.
    """
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Fills the tensor with 1.

    Shapes: [..] -> the same

    Raises:
        TypeError: If `tensor` is not a tensor or has an integer dtype.
    """
    return constant_(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """Sets the diagonal of a matrix to 1 and all other elements to 0.

    Shapes: [rows, columns] -> the same

    Raises:
        ValueError: If the tensor does not have 2 axes.
        TypeError: If `tensor` is not a tensor.
    """
    _check("eye_", tensor)
    if tensor.ndim != 2:
        raise ValueError(f"eye_: a tensor of shape {tuple(tensor.shape)}, expected 2 axes")
    rows, columns = tensor.shape
    is_diagonal = _ternion.arange(rows, device=tensor.device).unsqueeze(1) == _ternion.arange(columns, device=tensor.device)
    with no_grad():
        return tensor.copy_(is_diagonal.to(tensor.dtype))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Initializes the weight of a convolution, [out, in / groups, ..], to pass as many channels
    through unchanged as possible, in each group separately.

    Raises:
        ValueError: If the number of axes is invalid, or the groups do not divide the outputs.
        TypeError: If `tensor` is not a tensor.
    """
    _check("dirac_", tensor)
    if tensor.ndim not in (3, 4, 5) or tensor.shape[0] % groups:
        raise ValueError(f"dirac_: a tensor of shape {tuple(tensor.shape)} in {groups} groups, expected 3 to 5 axes, and groups that divide the first")
    outputs, inputs = tensor.shape[0] // groups, tensor.shape[1]
    middle = tuple(size // 2 for size in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(outputs, inputs)):
                tensor[(group * outputs + channel, channel, *middle)] = 1.0
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fills the tensor from the uniform distribution between `a` and `b`.

    Shapes: [..] -> the same

    Raises:
        ValueError: If `a` is above `b`.
        TypeError: If `tensor` is not a tensor or has an integer dtype.
    """
    return _fill(tensor, "uniform", [a, b], generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fills the tensor from the normal distribution.

    Shapes: [..] -> the same

    Raises:
        ValueError: If the standard deviation is below 0.
        TypeError: If `tensor` is not a tensor or has an integer dtype.
    """
    return _fill(tensor, "normal", [mean, std], generator=generator)


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None) -> Tensor:
    """Fills the tensor from the normal distribution, truncated to the range from `a` to `b`.

    Shapes: [..] -> the same

    Raises:
        ValueError: If `a` is above `b`.
        TypeError: If `tensor` is not a tensor or has an integer dtype.
    """
    return _fill(tensor, "trunc_normal", [mean, std, a, b], generator=generator)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fills the tensor from the uniform distribution between -b and b, with b = gain * sqrt(6 /
    (fan_in + fan_out)) (Glorot and Bengio 2010).

    Shapes: [out, in, ..] -> the same

    Raises:
        ValueError: If the tensor has fewer than 2 axes.
        TypeError: If `tensor` is not a tensor or has an integer dtype.
    """
    _check("xavier_uniform_", tensor, 2)
    return _fill(tensor, "xavier_uniform", [gain], generator=generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fills the tensor from the normal distribution with standard deviation gain * sqrt(2 /
    (fan_in + fan_out)) (Glorot and Bengio 2010).

    Shapes: [out, in, ..] -> the same

    Raises:
        ValueError: If the tensor has fewer than 2 axes.
        TypeError: If `tensor` is not a tensor or has an integer dtype.
    """
    _check("xavier_normal_", tensor, 2)
    return _fill(tensor, "xavier_normal", [gain], generator=generator)


def _kaiming_std(name, tensor, a, mode, nonlinearity):
    """Returns the standard deviation of He et al. 2015."""
    _check(name, tensor, 2)
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"{name}: mode {mode!r}, expected \"fan_in\" or \"fan_out\"")
    inner = math.prod(tensor.shape[2:])
    fan = tensor.shape[1 if mode == "fan_in" else 0] * inner
    if tensor.numel() == 0:
        warnings.warn(f"{name}: a tensor without elements has no first values", stacklevel=4)
    return calculate_gain(nonlinearity, a) / math.sqrt(max(fan, 1))


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None) -> Tensor:
    """Fills the tensor from the uniform distribution between -b and b, with b = gain *
    sqrt(3 / fan) (He et al. 2015); `a` is the slope of a leaky ReLU.

    Shapes: [out, in, ..] -> the same

    Raises:
        ValueError: If the tensor has fewer than 2 axes, the mode is neither "fan_in" nor "fan_out",
            or the nonlinearity is unknown.
        TypeError: If `tensor` is not a tensor or has an integer dtype.
    """
    bound = math.sqrt(3.0) * _kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return _fill(tensor, "uniform", [-bound, bound], generator=generator)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None) -> Tensor:
    """Fills the tensor from the normal distribution with standard deviation gain / sqrt(fan)
    (He et al. 2015); `a` is the slope of a leaky ReLU.

    Shapes: [out, in, ..] -> the same

    Raises:
        ValueError: If the tensor has fewer than 2 axes, the mode is neither "fan_in" nor "fan_out",
            or the nonlinearity is unknown.
        TypeError: If `tensor` is not a tensor or has an integer dtype.
    """
    return _fill(tensor, "normal", [0.0, _kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity)], generator=generator)


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fills the tensor with rows, or columns if there are fewer of them, that are orthogonal and of
    length `gain` (Saxe et al. 2013). Axes after the first are flattened.

    They are the orthogonal factor of a normally distributed matrix, computed in float64 on the CPU,
    with the signs of the diagonal of the triangular factor.

    Shapes: [rows, ..] -> the same

    Raises:
        ValueError: If the tensor has fewer than 2 axes.
        TypeError: If `tensor` is not a tensor.
    """
    _check("orthogonal_", tensor, 2)
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    samples = _initial((rows, columns), "normal", [0.0, 1.0], device=tensor.device, generator=generator).double().cpu()
    basis = _orthonormal_columns(samples if rows >= columns else samples.t())
    basis = (basis if rows >= columns else basis.t()) * _number(gain)
    with no_grad():
        return tensor.copy_(basis.reshape(tensor.shape).to(tensor.dtype).to(tensor.device))


def _orthonormal_columns(matrix):
    """Returns the orthogonal factor of a matrix with at least as many rows as columns, for a
    triangular factor with a positive diagonal.
    """
    factor, triangle = qr(matrix)
    return factor * triangle.diagonal().sign()


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fills the tensor from the normal distribution, then sets a fraction of each column, at random
    rows, to 0 (Martens 2010).

    Shapes: [rows, columns] -> the same

    Raises:
        ValueError: If the tensor does not have 2 axes, or the fraction is outside 0 to 1.
        TypeError: If `tensor` is not a tensor or has an integer dtype.
    """
    _check("sparse_", tensor)
    if tensor.ndim != 2 or not 0 <= sparsity <= 1:
        raise ValueError(f"sparse_: a tensor of shape {tuple(tensor.shape)} and a fraction of {sparsity}, expected 2 axes and 0 to 1")
    rows, columns = tensor.shape
    zeros = math.ceil(_number(sparsity) * rows)
    options = {} if generator is None else {"generator": generator, "device": generator.device}
    normal_(tensor, 0.0, std, generator)
    with no_grad():
        for column in range(columns):
            for row in _ternion.randperm(rows, **options)[:zeros].tolist():
                tensor[row, column] = 0.0
    return tensor


name_all(globals())
