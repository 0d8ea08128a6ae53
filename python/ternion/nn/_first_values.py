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


def draw_again(parameter: Any, formula: str, numbers: list[float]) -> None:
    """Reinitializes a parameter with an initialization formula of `_initial`. Does nothing if it is
    None.
    """
    if parameter is not None:
        with no_grad():
            parameter.copy_(_ternion._initial(tuple(parameter.shape), formula, numbers, dtype=parameter.dtype, device=parameter.device))


def draw_uniform_again(parameter: Any, bound: float) -> None:
    draw_again(parameter, "uniform", [-bound, bound])


def draw_weight_and_bias_again(layer: Any) -> None:
    """Reinitializes a layer as `weight_and_bias` does. The fan-in is the product of the weight's
    axes after the first.
    """
    draw_again(layer.weight, "kaiming_uniform", [math.sqrt(5.0)])
    draw_uniform_again(layer.bias, _bound(math.prod(layer.weight.shape[1:])))


def make_neutral(layer: Any) -> None:
    """Sets the weight to 1 and the bias to 0, where they exist: the initial values of normalization
    layers.
    """
    draw_again(layer.weight, "constant", [1.0])
    draw_again(getattr(layer, "bias", None), "constant", [0.0])
