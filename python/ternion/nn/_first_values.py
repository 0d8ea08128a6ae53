"""First values of layers: how they are drawn, and drawn again. For the same seed they are those of the Rust crates."""

from __future__ import annotations

import math
from typing import Any

from .. import _ternion
from .._scopes import no_grad
from .._ternion import Parameter


def uniform(shape: Any, bound: float, device: Any, dtype: Any) -> Parameter:
    return Parameter(_ternion._initial(shape, "uniform", [-bound, bound], device=device, dtype=dtype))


def weight_and_bias(weight_shape: Any, fan_in: int, out: int, bias: bool, device: Any, dtype: Any) -> tuple[Parameter, Parameter | None]:
    """What PyTorch's linear and convolution layers start from."""
    weight = Parameter(_ternion._initial(weight_shape, "kaiming_uniform", [math.sqrt(5.0)], device=device, dtype=dtype))
    return weight, (uniform((out,), _bound(fan_in), device, dtype) if bias else None)


def _bound(fan_in: int) -> float:
    return 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0


def draw_again(parameter: Any, formula: str, numbers: list[float]) -> None:
    """Overwrites a parameter, where there is one, by a formula of `_initial`."""
    if parameter is not None:
        with no_grad():
            parameter.copy_(_ternion._initial(tuple(parameter.shape), formula, numbers, dtype=parameter.dtype, device=parameter.device))


def draw_uniform_again(parameter: Any, bound: float) -> None:
    draw_again(parameter, "uniform", [-bound, bound])


def draw_weight_and_bias_again(layer: Any) -> None:
    """As `weight_and_bias`, of a layer whose weight has the inputs of an output behind its first axis."""
    draw_again(layer.weight, "kaiming_uniform", [math.sqrt(5.0)])
    draw_uniform_again(layer.bias, _bound(math.prod(layer.weight.shape[1:])))


def make_neutral(layer: Any) -> None:
    """A weight of 1 and a bias of 0, where there are any: what norms start from."""
    draw_again(layer.weight, "constant", [1.0])
    draw_again(getattr(layer, "bias", None), "constant", [0.0])
