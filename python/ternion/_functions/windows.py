"""Window functions for signal processing."""

from __future__ import annotations

from typing import Any

from .. import _ternion
from .._ternion import Tensor
from .kinds import _check_layout


def _window(function: str, window: str, parameters: list[float], length: int, symmetric: bool, dtype: Any, device: Any, requires_grad: bool, layout: Any = None) -> Tensor:
    """Returns a window of the core by name: a symmetric one, or a periodic one, which is the
    symmetric window of one more element without its last element.
    """
    _check_layout(function, layout)
    if not isinstance(length, int) or isinstance(length, bool):
        raise TypeError(f"{function}: a length of type {type(length).__name__}, expected an integer")
    if length < 0:
        raise ValueError(f"{function}: a length of {length}, expected at least 0")
    dtype = _ternion.get_default_dtype() if dtype is None else dtype
    result = _ternion._window(window, parameters, (length, symmetric), dtype, device)
    return result.requires_grad_() if requires_grad else result


def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """Returns the Hann window `0.5 - 0.5 cos(2 pi x)` with x from 0 to 1. If `periodic`, the window
    has one more point, and the last one is left out.

    Shapes: -> [window_length]

    Raises:
        ValueError: If the length is negative.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _window("hann_window", "hann", [], window_length, not periodic, dtype, device, requires_grad, layout)


def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """Returns the Hamming window `alpha - beta cos(2 pi x)` with x from 0 to 1; see `hann_window`.

    Shapes: -> [window_length]

    Raises:
        ValueError: If the length is negative.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _window("hamming_window", "general_cosine", [alpha, beta], window_length, not periodic, dtype, device, requires_grad, layout)


def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """Returns the Blackman window `0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi
    x)` with x from 0 to 1; see `hann_window`.

    Shapes: -> [window_length]

    Raises:
        ValueError: If the length is negative.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _window("blackman_window", "blackman", [], window_length, not periodic, dtype, device, requires_grad, layout)


def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """Returns the triangular Bartlett window `1 - |2 x - 1|` with x from 0 to 1; see `hann_window`.

    Shapes: -> [window_length]

    Raises:
        ValueError: If the length is negative.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _window("bartlett_window", "bartlett", [], window_length, not periodic, dtype, device, requires_grad, layout)


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """Returns the Kaiser window `I0(beta sqrt(1 - (2 x - 1)^2)) / I0(beta)` with x from 0 to 1,
    where I0 is the modified Bessel function of order 0; see `hann_window`.

    Shapes: -> [window_length]

    Raises:
        ValueError: If the length or `beta` is negative.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _window("kaiser_window", "kaiser", [beta], window_length, not periodic, dtype, device, requires_grad, layout)
