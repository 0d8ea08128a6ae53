"""Activations as layers. `inplace=True` changes the input itself, as in PyTorch."""

from __future__ import annotations

from typing import Any

from .. import _ternion
from .._ternion import Parameter, Tensor
from .._warnings import warn_caller
from . import functional as F
from ._activations import _axis_of
from ._initialization import reset_parameter
from .module import Module

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU",
    "ReLU", "ReLU6", "RReLU", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink",
    "Threshold",
]  # fmt: skip


def _check(name: str, setting: str, value: Any) -> Any:
    """Checks and returns a setting of a layer: a number, or a bool for `inplace`."""
    if setting == "inplace":
        if not isinstance(value, bool):
            raise TypeError(f"{name}: inplace {value!r}, expected True or False")
    elif setting == "dim":
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f"{name}: dim {value!r}, expected an integer")
    elif setting != "approximate" and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise TypeError(f"{name}: {setting} {value!r}, expected a number")
    return value


class _Activation(Module):
    """Base class of layers that apply a function with settings, which are attributes."""

    _settings: tuple[str, ...] = ()

    def _set_options(self, **settings: Any) -> None:
        for setting, value in settings.items():
            setattr(self, setting, _check(type(self).__name__, setting, value))

    def extra_repr(self) -> str:
        settings = [f"{setting}={getattr(self, setting)!r}" for setting in self._settings if setting != "inplace"]
        return ", ".join(settings + (["inplace=True"] if getattr(self, "inplace", False) else []))


class _InPlaceActivation(_Activation):
    """Base class of layers whose only setting is whether they overwrite the input."""

    inplace: bool
    _settings = ("inplace",)

    def __init__(self, inplace: bool = False):
        self._set_options(inplace=inplace)


class ReLU(_InPlaceActivation):
    """Applies `max(x, 0)` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If `inplace` is not a bool, or the input is not a tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, True) if self.inplace else Tensor.relu(input)


class ReLU6(_InPlaceActivation):
    """Applies `min(max(x, 0), 6)` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If `inplace` is not a bool, or the input is not a tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu6(input, self.inplace)


class SiLU(_InPlaceActivation):
    """Applies `x * sigmoid(x)` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If `inplace` is not a bool, or the input is not a tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_InPlaceActivation):
    """Applies `x * tanh(softplus(x))` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If `inplace` is not a bool, or the input is not a tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class SELU(_InPlaceActivation):
    """Applies ELU with the two constants that preserve mean 0 and variance 1
    (Klambauer et al. 2017).

    Shapes: [..] -> the same

    Raises:
        TypeError: If `inplace` is not a bool, or the input is not a tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class Hardswish(_InPlaceActivation):
    """Applies `x * hardsigmoid(x)` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If `inplace` is not a bool, or the input is not a tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)


class Hardsigmoid(_InPlaceActivation):
    """Applies `min(max(x + 3, 0), 6) / 6` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If `inplace` is not a bool, or the input is not a tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)


class Hardtanh(_Activation):
    """Clamps each element to the range from `min_val` to `max_val`.

    Shapes: [..] -> the same

    Raises:
        TypeError: If a limit is not a number.
        ValueError: When called, if `min_val` is above `max_val`.
    """

    min_val: float
    max_val: float
    inplace: bool
    _settings = ("min_val", "max_val", "inplace")

    def __init__(
        self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False, min_value: float | None = None, max_value: float | None = None,
    ):  # fmt: skip
        for name, deprecated in (("min_val", min_value), ("max_val", max_value)):
            if deprecated is not None:
                warn_caller(f"Hardtanh: {name}ue is deprecated: {name} is its name")
        min_val, max_val = min_val if min_value is None else min_value, max_val if max_value is None else max_value
        self._set_options(min_val=min_val, max_val=max_val, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ELU(_Activation):
    """Applies `x` if `x > 0`, else `alpha * (e^x - 1)`, elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If a setting is not a number, or the input is not a tensor.
    """

    alpha: float
    inplace: bool
    _settings = ("alpha", "inplace")

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        self._set_options(alpha=alpha, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(ELU):
    """Applies `x` if `x > 0`, else `alpha * (e^(x / alpha) - 1)`, elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If `alpha` is not a number.
        ValueError: When called, if `alpha` is 0.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(_Activation):
    """Applies `x` if `x > 0`, else `negative_slope * x`, elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If a setting is not a number, or the input is not a tensor.
    """

    negative_slope: float
    inplace: bool
    _settings = ("negative_slope", "inplace")

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False):
        self._set_options(negative_slope=negative_slope, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class RReLU(_Activation):
    """Applies `x` if `x > 0`, else `slope * x`, elementwise. In training, `slope` is drawn from the
    uniform distribution between `lower` and `upper`; otherwise it is their mean.

    Shapes: [..] -> the same

    Raises:
        TypeError: If a slope is not a number; in training, if the input has an integer dtype.
        ValueError: When called, if `lower` is above `upper`.
    """

    lower: float
    upper: float
    inplace: bool
    _settings = ("lower", "upper", "inplace")

    def __init__(self, lower: float = 0.125, upper: float = 1 / 3, inplace: bool = False):
        self._set_options(lower=lower, upper=upper, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class PReLU(Module):
    """Applies `x` if `x > 0`, else `weight * x`, elementwise, with one learned slope or one per
    channel.

    Shapes: [batch, channels, ..] -> the same; `weight` is [num_parameters]

    Raises:
        TypeError: If `init` is not a number.
        ValueError: When called, if the number of slopes is neither 1 nor the number of channels.
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None):
        self.num_parameters, self.init = num_parameters, float(_check("PReLU", "init", init))
        self.weight = Parameter(_ternion.full((num_parameters,), self.init, dtype=dtype, device=device))

    def reset_parameters(self) -> None:
        """Resets the slopes to `init`."""
        reset_parameter(self.weight, "constant", [self.init])

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Threshold(_Activation):
    """Keeps elements above `threshold` and replaces the others by `value`.

    Shapes: [..] -> the same

    Raises:
        TypeError: If a setting is not a number, or the input is not a tensor.
    """

    threshold: float
    value: float
    inplace: bool
    _settings = ("threshold", "value", "inplace")

    def __init__(self, threshold: float, value: float, inplace: bool = False):
        self._set_options(threshold=threshold, value=value, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class GELU(_Activation):
    """Applies `x * Phi(x)` elementwise, with the tanh approximation if `approximate` is "tanh".

    Shapes: [..] -> the same

    Raises:
        ValueError: If `approximate` is neither "none" nor "tanh".
        TypeError: If `approximate` is not a string, or the input is not a tensor.
    """

    approximate: str
    _settings = ("approximate",)

    def __init__(self, approximate: str = "none"):
        if approximate not in ("none", "tanh"):
            kind = ValueError if isinstance(approximate, str) else TypeError
            raise kind(f"GELU: approximate {approximate!r}, expected \"none\" or \"tanh\"")
        self._set_options(approximate=approximate)

    def forward(self, input: Tensor) -> Tensor:
        return Tensor.gelu(input, self.approximate)


class Softplus(_Activation):
    """Applies `log(1 + e^(beta * x)) / beta` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If a setting is not a number.
        ValueError: When called, if `beta` is 0 or less.
    """

    beta: float
    threshold: float
    _settings = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        self._set_options(beta=beta, threshold=threshold)

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


class Softshrink(_Activation):
    """Moves each element toward 0 by `lambd`. Elements within `lambd` of 0 become 0.

    Shapes: [..] -> the same

    Raises:
        TypeError: If `lambd` is not a number.
        ValueError: When called, if `lambd` is below 0.
    """

    lambd: float
    _settings = ("lambd",)

    def __init__(self, lambd: float = 0.5):
        self._set_options(lambd=lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class Hardshrink(Softshrink):
    """Replaces elements within `lambd` of 0 by 0 and keeps the others.

    Shapes: [..] -> the same

    Raises:
        TypeError: If a setting is not a number, or the input is not a tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Sigmoid(Module):
    """Applies `1 / (1 + e^-x)` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return Tensor.sigmoid(input)


class Tanh(Module):
    """Applies the hyperbolic tangent elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return Tensor.tanh(input)


class LogSigmoid(Module):
    """Applies `log(sigmoid(x))` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return Tensor.logsigmoid(input)


class Softsign(Module):
    """Applies `x / (1 + |x|)` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """Applies `x - tanh(x)` elementwise.

    Shapes: [..] -> the same

    Raises:
        TypeError: If the input is not a tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class _AlongDim(_Activation):
    """Base class of layers along an axis. Without `dim` the axis is the one that
    `functional.softmax` chooses.
    """

    dim: int | None
    _settings = ("dim",)

    def __init__(self, dim: int | None = None):
        self._set_options(dim=dim)

    def _default_dim(self, input: Tensor) -> int:
        # The warning points to the line that calls the layer, outside `forward` and `__call__`.
        return _axis_of(type(self).__name__, input, None, stacklevel=5)


class Softmax(_AlongDim):
    """Computes `e^x / sum(e^x)` along `dim`. Without `dim` the axis is 0 for inputs of 0, 1 or 3
    axes and 1 otherwise, with a warning.

    Shapes: [..] -> the same

    Raises:
        TypeError: If `dim` is not an integer.
        IndexError: When called, if the axis does not exist.
    """

    def forward(self, input: Tensor) -> Tensor:
        return Tensor.softmax(input, self._default_dim(input) if self.dim is None else self.dim)


class Softmax2d(Module):
    """Computes `e^x / sum(e^x)` over the channels, for each pixel of images.

    Shapes: [batch, channels, height, width] or [channels, height, width] -> the same

    Raises:
        ValueError: When called, if the number of axes is invalid.
        TypeError: If the input is not a tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        if isinstance(input, Tensor) and input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: an input of shape {tuple(input.shape)}, expected 3 or 4 axes")
        return Tensor.softmax(input, -3)


class Softmin(_AlongDim):
    """Computes `softmax(-x)` along `dim`. Without `dim` the axis is 0 for inputs of 0, 1 or 3 axes
    and 1 otherwise, with a warning.

    Shapes: [..] -> the same

    Raises:
        TypeError: If `dim` is not an integer.
        IndexError: When called, if the axis does not exist.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self._default_dim(input) if self.dim is None else self.dim)


class LogSoftmax(_AlongDim):
    """Computes the logarithm of `Softmax` along `dim`. Without `dim` the axis is 0 for inputs of 0,
    1 or 3 axes and 1 otherwise, with a warning.

    Shapes: [..] -> the same

    Raises:
        TypeError: If `dim` is not an integer.
        IndexError: When called, if the axis does not exist.
    """

    def forward(self, input: Tensor) -> Tensor:
        return Tensor.log_softmax(input, self._default_dim(input) if self.dim is None else self.dim)


class GLU(_Activation):
    """Multiplies the first half of the input along `dim` by the sigmoid of the second half.

    Shapes: [.., 2 n, ..] -> [.., n, ..]

    Raises:
        TypeError: If `dim` is not an integer.
        ValueError: When called, if the size along `dim` is odd.
        IndexError: When called, if the axis does not exist.
    """

    dim: int
    _settings = ("dim",)

    def __init__(self, dim: int = -1):
        self._set_options(dim=dim)

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)
