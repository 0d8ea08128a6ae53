"""First values of parameters, by the formulas of PyTorch's `torch.nn.init`: each function overwrites a tensor and returns it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._scopes import no_grad
from .._ternion import _initial

if TYPE_CHECKING:
    from .._ternion import Tensor


def _fill(tensor, name, numbers, **options):
    with no_grad():
        return tensor.copy_(_initial(tuple(tensor.shape), name, numbers, dtype=tensor.dtype, device=tensor.device, **options))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """`val` everywhere."""
    return _fill(tensor, "constant", [float(val)])


def zeros_(tensor: Tensor) -> Tensor:
    """0 everywhere."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """1 everywhere."""
    return constant_(tensor, 1.0)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Evenly from `a` to `b`."""
    return _fill(tensor, "uniform", [a, b])


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """The normal distribution."""
    return _fill(tensor, "normal", [mean, std])


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Tensor:
    """The normal distribution between `a` and `b`."""
    return _fill(tensor, "trunc_normal", [mean, std, a, b])


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Evenly over -b to b with b = gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    return _fill(tensor, "xavier_uniform", [gain])


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Normal with standard deviation gain * sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    return _fill(tensor, "xavier_normal", [gain])


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Evenly over -b to b with b = gain * sqrt(3 / fan) (He et al. 2015); `a` is the slope of a leaky ReLU."""
    return _fill(tensor, "kaiming_uniform", [a], fan=mode, nonlinearity=nonlinearity)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Normal with standard deviation gain / sqrt(fan) (He et al. 2015); `a` is the slope of a leaky ReLU."""
    return _fill(tensor, "kaiming_normal", [a], fan=mode, nonlinearity=nonlinearity)
