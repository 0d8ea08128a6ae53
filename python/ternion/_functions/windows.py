"""Windows, by which pieces of a signal are weighed."""

from __future__ import annotations

import math
from typing import Any

from .. import _ternion
from .._ternion import Tensor


def _window(name: str, length: int, periodic: bool, shape: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """`shape` of the places from 0 to 1 of a window; of a periodic one the last, which would be the first of the next, is left out."""
    if length < 0:
        raise ValueError(f"{name}: a length of {length}, expected at least 0")
    dtype = _ternion.get_default_dtype() if dtype is None else dtype
    count = length + 1 if periodic and length > 1 else length
    places = _ternion.arange(count, dtype=_ternion.float64, device="cpu") / max(count - 1, 1)
    made = shape(places)[:length] if length > 1 else _ternion.ones(length, device="cpu")
    made = made.to(dtype).to(_ternion.get_default_device() if device is None else device)
    return made.requires_grad_() if requires_grad else made


def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`0.5 - 0.5 cos(2 pi x)` of places from 0 to 1; if `periodic` the last of one more is left out.

    Shapes: -> [window_length]

    Raises:
        ValueError: a length below 0.
    """
    return _window("hann_window", window_length, periodic, lambda x: 0.5 - 0.5 * (2 * math.pi * x).cos(), dtype, device, requires_grad)


def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`alpha - beta cos(2 pi x)` of places from 0 to 1; see `hann_window`.

    Shapes: -> [window_length]

    Raises:
        ValueError: a length below 0.
    """
    return _window("hamming_window", window_length, periodic, lambda x: alpha - beta * (2 * math.pi * x).cos(), dtype, device, requires_grad)


def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi x)` of places from 0 to 1; see `hann_window`.

    Shapes: -> [window_length]

    Raises:
        ValueError: a length below 0.
    """

    def shape(x: Tensor) -> Tensor:
        return 0.42 - 0.5 * (2 * math.pi * x).cos() + 0.08 * (4 * math.pi * x).cos()

    return _window("blackman_window", window_length, periodic, shape, dtype, device, requires_grad)


def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A triangle: `1 - |2 x - 1|` of places from 0 to 1; see `hann_window`.

    Shapes: -> [window_length]

    Raises:
        ValueError: a length below 0.
    """
    return _window("bartlett_window", window_length, periodic, lambda x: 1 - (2 * x - 1).abs(), dtype, device, requires_grad)


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`I0(beta sqrt(1 - (2 x - 1)^2)) / I0(beta)` of places from 0 to 1, with the modified Bessel function of order 0; see `hann_window`.

    Shapes: -> [window_length]

    Raises:
        ValueError: a length below 0.
    """

    def shape(x: Tensor) -> Tensor:
        # 1 - (2x - 1)^2 = 4x (1 - x), which is 0 at both ends.
        return _bessel(beta * (4 * x * (1 - x)).sqrt()) / _bessel(_ternion.tensor(beta, dtype=_ternion.float64, device="cpu"))

    return _window("kaiser_window", window_length, periodic, shape, dtype, device, requires_grad)


def _bessel(x: Tensor) -> Tensor:
    """`I0(x) = sum of ((x / 2)^k / k!)^2` (Abramowitz and Stegun 9.6.12): all terms are positive, and beyond k = |x| they fall fast."""
    term = total = _ternion.ones_like(x)
    most = float(x.abs().max()) if x.numel() else 0.0
    for k in range(1, int(1.5 * most) + 40):
        term = term * (x / (2 * k)).square()
        total = total + term
    return total
