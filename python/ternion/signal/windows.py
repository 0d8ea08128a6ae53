"""Window functions for signal processing.

A window is symmetric by default. With `sym=False` it is the symmetric window of one more element
without its last element.
"""

from __future__ import annotations

from typing import Any

from .._error_messages import name_all as _name_all
from .._functions.windows import _window
from .._ternion import Tensor

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def bartlett(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Returns the triangular Bartlett window `1 - |2 x - 1|` with x from 0 to 1.

    Shapes: -> [M]

    Raises:
        ValueError: If the length is negative.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _window("bartlett", "bartlett", [], M, sym, dtype, device, requires_grad, layout)


def blackman(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Returns the Blackman window `0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi x)` with x from 0 to 1.

    Shapes: -> [M]

    Raises:
        ValueError: If the length is negative.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _window("blackman", "blackman", [], M, sym, dtype, device, requires_grad, layout)


def cosine(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Returns the cosine window `sin(pi (n + 1/2) / M)` for index n.

    Shapes: -> [M]

    Raises:
        ValueError: If the length is negative.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _window("cosine", "cosine", [], M, sym, dtype, device, requires_grad, layout)


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Returns the exponential window `e^(-|n - center| / tau)` for index n. The default of `center`
    is the middle.

    Shapes: -> [M]

    Raises:
        ValueError: If the length is negative, if `center` is given for a symmetric window, or if
            `tau` is not positive.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _window("exponential", "exponential", [tau] if center is None else [tau, center], M, sym, dtype, device, requires_grad, layout)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Returns the Gaussian window `e^(-((n - middle) / std)^2 / 2)` for index n.

    Shapes: -> [M]

    Raises:
        ValueError: If the length is negative, or if `std` is not positive.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _window("gaussian", "gaussian", [std], M, sym, dtype, device, requires_grad, layout)


def general_cosine(M: int, *, a: Any, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Returns the general cosine window: the sum of `(-1)^k a[k] cos(2 pi k x)` with x from 0 to 1.

    Shapes: -> [M]

    Raises:
        ValueError: If the length is negative, or if there are no coefficients.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _window("general_cosine", "general_cosine", list(a), M, sym, dtype, device, requires_grad, layout)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Returns the general Hamming window `alpha - (1 - alpha) cos(2 pi x)` with x from 0 to 1.

    Shapes: -> [M]

    Raises:
        ValueError: If the length is negative.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _window("general_hamming", "general_hamming", [alpha], M, sym, dtype, device, requires_grad, layout)


def hamming(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Returns the Hamming window `0.54 - 0.46 cos(2 pi x)` with x from 0 to 1.

    Shapes: -> [M]

    Raises:
        ValueError: If the length is negative.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _window("hamming", "hamming", [], M, sym, dtype, device, requires_grad, layout)


def hann(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Returns the Hann window `0.5 - 0.5 cos(2 pi x)` with x from 0 to 1.

    Shapes: -> [M]

    Raises:
        ValueError: If the length is negative.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _window("hann", "hann", [], M, sym, dtype, device, requires_grad, layout)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Returns the Kaiser window `I0(beta sqrt(1 - (2 x - 1)^2)) / I0(beta)` with x from 0 to 1,
    where I0 is the modified Bessel function of order 0.

    Shapes: -> [M]

    Raises:
        ValueError: If the length or `beta` is negative.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _window("kaiser", "kaiser", [beta], M, sym, dtype, device, requires_grad, layout)


def nuttall(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Returns the Nuttall window: the general cosine window with the coefficients 0.3635819,
    0.4891775, 0.1365995 and 0.0106411.

    Shapes: -> [M]

    Raises:
        ValueError: If the length is negative.
        TypeError: If the dtype is not a floating-point dtype.
    """
    return _window("nuttall", "nuttall", [], M, sym, dtype, device, requires_grad, layout)


_name_all(globals())
