"""Initialization of layer parameters, at construction and on reset. With the same seed the values
equal those of the Rust crates.
"""

from __future__ import annotations

import math
from typing import Any

from .. import _ternion
from .._scopes import no_grad
from .._ternion import Parameter


def uniform(shape: Any, bound: float, device: Any, dtype: Any) -> Parameter:
    return Parameter(_ternion._initial(shape, "uniform", [-bound, bound], device=device, dtype=dtype))


def weight_and_bias(weight_shape: Any, fan_in: int, out: int, bias: bool, device: Any, dtype: Any) -> tuple[Parameter, Parameter | None]:
    """Returns weight and bias with PyTorch's initialization of linear and convolution layers."""
    weight = Parameter(_ternion._initial(weight_shape, "kaiming_uniform", [math.sqrt(5.0)], device=device, dtype=dtype))
    return weight, (uniform((out,), _bound(fan_in), device, dtype) if bias else None)


def _bound(fan_in: int) -> float:
    return 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0


def reset_parameter(parameter: Any, formula: str, numbers: list[float]) -> None:
    """Reinitializes a parameter with an initialization formula of `_initial`. Does nothing if it is
    None.
    """
    if parameter is not None:
        with no_grad():
            parameter.copy_(_ternion._initial(tuple(parameter.shape), formula, numbers, dtype=parameter.dtype, device=parameter.device))


def reset_uniform(parameter: Any, bound: float) -> None:
    reset_parameter(parameter, "uniform", [-bound, bound])


def reset_linear(layer: Any) -> None:
    """Reinitializes a layer as `weight_and_bias` does. The fan-in is the product of the weight's
    axes after the first.
    """
    reset_parameter(layer.weight, "kaiming_uniform", [math.sqrt(5.0)])
    reset_uniform(layer.bias, _bound(math.prod(layer.weight.shape[1:])))


def reset_affine(layer: Any) -> None:
    """Sets the weight to 1 and the bias to 0, where they exist: the initial values of normalization
    layers.
    """
    reset_parameter(layer.weight, "constant", [1.0])
    reset_parameter(getattr(layer, "bias", None), "constant", [0.0])
