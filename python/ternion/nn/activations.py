"""Activations as layers. `inplace=True` changes the input itself, as in PyTorch."""

from __future__ import annotations

from typing import Any

from .. import _ternion
from .._ternion import Parameter, Tensor
from .._warnings import warn_caller
from . import functional as F
from ._activations import _axis_of
from ._first_values import draw_again
from .module import Module

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU",
    "ReLU", "ReLU6", "RReLU", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink",
    "Threshold",
]  # fmt: skip


def _check(name: str, setting: str, value: Any) -> Any:
    """A setting of a layer: a number, or for `inplace` a truth value."""
    if setting == "inplace":
        if not isinstance(value, bool):
            raise TypeError(f"{name}: inplace {value!r}, expected True or False")
    elif setting == "dim":
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f"{name}: dim {value!r}, expected a whole number")
    elif setting != "approximate" and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise TypeError(f"{name}: {setting} {value!r}, expected a number")
    return value


class _Activation(Module):
    """A layer that is a function with settings, which are attributes."""

    _settings: tuple[str, ...] = ()

    def _take(self, **settings: Any) -> None:
        for setting, value in settings.items():
            setattr(self, setting, _check(type(self).__name__, setting, value))

    def extra_repr(self) -> str:
        told = [f"{setting}={getattr(self, setting)!r}" for setting in self._settings if setting != "inplace"]
        return ", ".join(told + (["inplace=True"] if getattr(self, "inplace", False) else []))


class _InPlace(_Activation):
    """A layer whose only setting is whether it overwrites its input."""

    inplace: bool
    _settings = ("inplace",)

    def __init__(self, inplace: bool = False):
        self._take(inplace=inplace)


class ReLU(_InPlace):
    """`max(x, 0)`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an `inplace` that is neither True nor False, or an input that is no tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, True) if self.inplace else Tensor.relu(input)


class ReLU6(_InPlace):
    """`min(max(x, 0), 6)`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an `inplace` that is neither True nor False, or an input that is no tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu6(input, self.inplace)


class SiLU(_InPlace):
    """`x * sigmoid(x)`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an `inplace` that is neither True nor False, or an input that is no tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    """`x * tanh(softplus(x))`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an `inplace` that is neither True nor False, or an input that is no tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class SELU(_InPlace):
    """ELU with the two constants that keep mean 0 and variance 1 (Klambauer et al. 2017).

    Shapes: [..] -> the same

    Raises:
        TypeError: an `inplace` that is neither True nor False, or an input that is no tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class Hardswish(_InPlace):
    """`x * hardsigmoid(x)`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an `inplace` that is neither True nor False, or an input that is no tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)


class Hardsigmoid(_InPlace):
    """`min(max(x + 3, 0), 6) / 6`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an `inplace` that is neither True nor False, or an input that is no tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)


class Hardtanh(_Activation):
    """Each element, but at least `min_val` and at most `max_val`.

    Shapes: [..] -> the same

    Raises:
        TypeError: a limit that is no number.
        ValueError: when called, `min_val` above `max_val`.
    """

    min_val: float
    max_val: float
    inplace: bool
    _settings = ("min_val", "max_val", "inplace")

    def __init__(
        self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False, min_value: float | None = None, max_value: float | None = None,
    ):  # fmt: skip
        for name, older in (("min_val", min_value), ("max_val", max_value)):
            if older is not None:
                warn_caller(f"Hardtanh: {name}ue is deprecated: {name} is its name")
        min_val, max_val = min_val if min_value is None else min_value, max_val if max_value is None else max_value
        self._take(min_val=min_val, max_val=max_val, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ELU(_Activation):
    """`x` where it is positive, else `alpha * (e^x - 1)`.

    Shapes: [..] -> the same

    Raises:
        TypeError: a setting that is no number, or an input that is no tensor.
    """

    alpha: float
    inplace: bool
    _settings = ("alpha", "inplace")

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        self._take(alpha=alpha, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(ELU):
    """`x` where it is positive, else `alpha * (e^(x / alpha) - 1)`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an `alpha` that is no number.
        ValueError: when called, an `alpha` of 0.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(_Activation):
    """`x` where it is positive, else `negative_slope * x`.

    Shapes: [..] -> the same

    Raises:
        TypeError: a setting that is no number, or an input that is no tensor.
    """

    negative_slope: float
    inplace: bool
    _settings = ("negative_slope", "inplace")

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False):
        self._take(negative_slope=negative_slope, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class RReLU(_Activation):
    """`x` where it is positive, else times a slope: in training a random one from `lower` to `upper`, else their mean.

    Shapes: [..] -> the same

    Raises:
        TypeError: a slope that is no number; in training, whole numbers.
        ValueError: when called, `lower` above `upper`.
    """

    lower: float
    upper: float
    inplace: bool
    _settings = ("lower", "upper", "inplace")

    def __init__(self, lower: float = 0.125, upper: float = 1 / 3, inplace: bool = False):
        self._take(lower=lower, upper=upper, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class PReLU(Module):
    """`x` where it is positive, else `weight * x`: one slope that is learned, or one for each channel.

    Shapes: [batch, channels, ..] -> the same; `weight` is [num_parameters]

    Raises:
        TypeError: an `init` that is no number.
        ValueError: when called, as many slopes as neither 1 nor the channels.
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None):
        self.num_parameters, self.init = num_parameters, float(_check("PReLU", "init", init))
        self.weight = Parameter(_ternion.full((num_parameters,), self.init, dtype=dtype, device=device))

    def reset_parameters(self) -> None:
        """Slopes of `init`."""
        draw_again(self.weight, "constant", [self.init])

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Threshold(_Activation):
    """Each element that is above `threshold`, else `value`.

    Shapes: [..] -> the same

    Raises:
        TypeError: a setting that is no number, or an input that is no tensor.
    """

    threshold: float
    value: float
    inplace: bool
    _settings = ("threshold", "value", "inplace")

    def __init__(self, threshold: float, value: float, inplace: bool = False):
        self._take(threshold=threshold, value=value, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class GELU(_Activation):
    """`x * Phi(x)`, by tanh if `approximate` is "tanh".

    Shapes: [..] -> the same

    Raises:
        ValueError: an `approximate` other than "none" and "tanh".
        TypeError: one that is no string, or an input that is no tensor.
    """

    approximate: str
    _settings = ("approximate",)

    def __init__(self, approximate: str = "none"):
        if approximate not in ("none", "tanh"):
            kind = ValueError if isinstance(approximate, str) else TypeError
            raise kind(f"GELU: approximate {approximate!r}, expected \"none\" or \"tanh\"")
        self._take(approximate=approximate)

    def forward(self, input: Tensor) -> Tensor:
        return Tensor.gelu(input, self.approximate)


class Softplus(_Activation):
    """`log(1 + e^(beta * x)) / beta`.

    Shapes: [..] -> the same

    Raises:
        TypeError: a setting that is no number.
        ValueError: when called, a `beta` of 0 or less.
    """

    beta: float
    threshold: float
    _settings = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        self._take(beta=beta, threshold=threshold)

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


class Softshrink(_Activation):
    """Each element nearer to 0 by `lambd`; 0 where it is that near.

    Shapes: [..] -> the same

    Raises:
        TypeError: a `lambd` that is no number.
        ValueError: when called, a `lambd` below 0.
    """

    lambd: float
    _settings = ("lambd",)

    def __init__(self, lambd: float = 0.5):
        self._take(lambd=lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class Hardshrink(Softshrink):
    """0 where an element is not further than `lambd` from it, else the element.

    Shapes: [..] -> the same

    Raises:
        TypeError: a setting that is no number, or an input that is no tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Sigmoid(Module):
    """`1 / (1 + e^-x)`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return Tensor.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return Tensor.tanh(input)


class LogSigmoid(Module):
    """`log(sigmoid(x))`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return Tensor.logsigmoid(input)


class Softsign(Module):
    """`x / (1 + |x|)`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """`x - tanh(x)`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class _Along(_Activation):
    """A layer that works along an axis; where none is named along that which `functional.softmax` chooses."""

    dim: int | None
    _settings = ("dim",)

    def __init__(self, dim: int | None = None):
        self._take(dim=dim)

    def _chosen(self, input: Tensor) -> int:
        # The warning is of the line that calls the layer, behind `forward` and `__call__`.
        return _axis_of(type(self).__name__, input, None, stacklevel=5)


class Softmax(_Along):
    """`e^x / sum(e^x)` along `dim`; without one along the first of 0, 1 or 3 axes, else the second, with a warning.

    Shapes: [..] -> the same

    Raises:
        TypeError: a `dim` that is no whole number.
        IndexError: when called, an axis that is not there.
    """

    def forward(self, input: Tensor) -> Tensor:
        return Tensor.softmax(input, self._chosen(input) if self.dim is None else self.dim)


class Softmax2d(Module):
    """`e^x / sum(e^x)` of the channels of each place of images.

    Shapes: [batch, channels, height, width] or [channels, height, width] -> the same

    Raises:
        ValueError: when called, another number of axes.
        TypeError: an input that is no tensor.
    """

    def forward(self, input: Tensor) -> Tensor:
        if isinstance(input, Tensor) and input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: an input of shape {tuple(input.shape)}, expected 3 or 4 axes")
        return Tensor.softmax(input, -3)


class Softmin(_Along):
    """`softmax(-x)` along `dim`; without one along the first of 0, 1 or 3 axes, else the second, with a warning.

    Shapes: [..] -> the same

    Raises:
        TypeError: a `dim` that is no whole number.
        IndexError: when called, an axis that is not there.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self._chosen(input) if self.dim is None else self.dim)


class LogSoftmax(_Along):
    """The logarithm of `Softmax` along `dim`; without one along the first of 0, 1 or 3 axes, else the second, with a warning.

    Shapes: [..] -> the same

    Raises:
        TypeError: a `dim` that is no whole number.
        IndexError: when called, an axis that is not there.
    """

    def forward(self, input: Tensor) -> Tensor:
        return Tensor.log_softmax(input, self._chosen(input) if self.dim is None else self.dim)


class GLU(_Activation):
    """The first half along `dim` times the sigmoid of the second.

    Shapes: [.., 2 n, ..] -> [.., n, ..]

    Raises:
        TypeError: a `dim` that is no whole number.
        ValueError: when called, an odd size.
        IndexError: when called, an axis that is not there.
    """

    dim: int
    _settings = ("dim",)

    def __init__(self, dim: int = -1):
        self._take(dim=dim)

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)
