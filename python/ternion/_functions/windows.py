"""Windows, by which pieces of a signal are weighed."""

from __future__ import annotations

from typing import Any

from .. import _ternion
from .._ternion import Tensor
from .kinds import _check_layout


def _window(function: str, window: str, parameters: list[float], length: int, symmetric: bool, dtype: Any, device: Any, requires_grad: bool, layout: Any = None) -> Tensor:
    """A window of the core by its name; a symmetric one, or that of one more element without the last."""
    _check_layout(function, layout)
    if not isinstance(length, int) or isinstance(length, bool):
        raise TypeError(f"{function}: a length of type {type(length).__name__}, expected a whole number")
    if length < 0:
        raise ValueError(f"{function}: a length of {length}, expected at least 0")
    dtype = _ternion.get_default_dtype() if dtype is None else dtype
    made = _ternion._window(window, parameters, (length, symmetric), dtype, device)
    return made.requires_grad_() if requires_grad else made


def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """`0.5 - 0.5 cos(2 pi x)` of places from 0 to 1; if `periodic` the last of one more is left out.

    Shapes: -> [window_length]

    Raises:
        ValueError: a length below 0.
        TypeError: a dtype that is not floating.
    """
    return _window("hann_window", "hann", [], window_length, not periodic, dtype, device, requires_grad, layout)


def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """`alpha - beta cos(2 pi x)` of places from 0 to 1; see `hann_window`.

    Shapes: -> [window_length]

    Raises:
        ValueError: a length below 0.
        TypeError: a dtype that is not floating.
    """
    return _window("hamming_window", "general_cosine", [alpha, beta], window_length, not periodic, dtype, device, requires_grad, layout)


def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """`0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi x)` of places from 0 to 1; see `hann_window`.

    Shapes: -> [window_length]

    Raises:
        ValueError: a length below 0.
        TypeError: a dtype that is not floating.
    """
    return _window("blackman_window", "blackman", [], window_length, not periodic, dtype, device, requires_grad, layout)


def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """A triangle: `1 - |2 x - 1|` of places from 0 to 1; see `hann_window`.

    Shapes: -> [window_length]

    Raises:
        ValueError: a length below 0.
        TypeError: a dtype that is not floating.
    """
    return _window("bartlett_window", "bartlett", [], window_length, not periodic, dtype, device, requires_grad, layout)


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """`I0(beta sqrt(1 - (2 x - 1)^2)) / I0(beta)` of places from 0 to 1, with the modified Bessel function of order 0; see `hann_window`.

    Shapes: -> [window_length]

    Raises:
        ValueError: a length below 0, a `beta` below 0.
        TypeError: a dtype that is not floating.
    """
    return _window("kaiser_window", "kaiser", [beta], window_length, not periodic, dtype, device, requires_grad, layout)
