"""Windows, by which pieces of a signal are weighed. A symmetric one ends as it begins; of one that is not (`sym=False`) the last of one element more is left out."""

from __future__ import annotations

from typing import Any

from .._functions.windows import _window
from .._refusals import name_all as _name_all
from .._ternion import Tensor

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def bartlett(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A triangle: `1 - |2 x - 1|` of places from 0 to 1.

    Shapes: -> [M]

    Raises:
        ValueError: a length below 0.
        TypeError: a dtype that is not floating.
    """
    return _window("bartlett", "bartlett", [], M, sym, dtype, device, requires_grad, layout)


def blackman(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi x)` of places from 0 to 1.

    Shapes: -> [M]

    Raises:
        ValueError: a length below 0.
        TypeError: a dtype that is not floating.
    """
    return _window("blackman", "blackman", [], M, sym, dtype, device, requires_grad, layout)


def cosine(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`sin(pi (n + 1/2) / M)` of elements n.

    Shapes: -> [M]

    Raises:
        ValueError: a length below 0.
        TypeError: a dtype that is not floating.
    """
    return _window("cosine", "cosine", [], M, sym, dtype, device, requires_grad, layout)


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`e^(-|n - center| / tau)` of elements n, by default about the middle.

    Shapes: -> [M]

    Raises:
        ValueError: a length below 0; a `center` of a symmetric window, a `tau` that is not above 0.
        TypeError: a dtype that is not floating.
    """
    return _window("exponential", "exponential", [tau] if center is None else [tau, center], M, sym, dtype, device, requires_grad, layout)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`e^(-((n - middle) / std)^2 / 2)` of elements n.

    Shapes: -> [M]

    Raises:
        ValueError: a length below 0; a `std` that is not above 0.
        TypeError: a dtype that is not floating.
    """
    return _window("gaussian", "gaussian", [std], M, sym, dtype, device, requires_grad, layout)


def general_cosine(M: int, *, a: Any, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The sum of `(-1)^k a[k] cos(2 pi k x)` of places from 0 to 1.

    Shapes: -> [M]

    Raises:
        ValueError: a length below 0; no coefficients.
        TypeError: a dtype that is not floating.
    """
    return _window("general_cosine", "general_cosine", list(a), M, sym, dtype, device, requires_grad, layout)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`alpha - (1 - alpha) cos(2 pi x)` of places from 0 to 1.

    Shapes: -> [M]

    Raises:
        ValueError: a length below 0.
        TypeError: a dtype that is not floating.
    """
    return _window("general_hamming", "general_hamming", [alpha], M, sym, dtype, device, requires_grad, layout)


def hamming(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`0.54 - 0.46 cos(2 pi x)` of places from 0 to 1.

    Shapes: -> [M]

    Raises:
        ValueError: a length below 0.
        TypeError: a dtype that is not floating.
    """
    return _window("hamming", "hamming", [], M, sym, dtype, device, requires_grad, layout)


def hann(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`0.5 - 0.5 cos(2 pi x)` of places from 0 to 1.

    Shapes: -> [M]

    Raises:
        ValueError: a length below 0.
        TypeError: a dtype that is not floating.
    """
    return _window("hann", "hann", [], M, sym, dtype, device, requires_grad, layout)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`I0(beta sqrt(1 - (2 x - 1)^2)) / I0(beta)` of places from 0 to 1, with the modified Bessel function of order 0.

    Shapes: -> [M]

    Raises:
        ValueError: a length below 0; a `beta` below 0.
        TypeError: a dtype that is not floating.
    """
    return _window("kaiser", "kaiser", [beta], M, sym, dtype, device, requires_grad, layout)


def nuttall(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The general cosine window of 0.3635819, 0.4891775, 0.1365995 and 0.0106411.

    Shapes: -> [M]

    Raises:
        ValueError: a length below 0.
        TypeError: a dtype that is not floating.
    """
    return _window("nuttall", "nuttall", [], M, sym, dtype, device, requires_grad, layout)


_name_all(globals())
