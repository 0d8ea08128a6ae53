"""Special functions with PyTorch's argument order, in which one argument may be a number."""

from __future__ import annotations

from typing import Any

from .._ternion import Tensor
from .arithmetic import _as_tensors

_POLYGAMMA, _XLOGY, _XLOG1PY, _ZETA = Tensor.polygamma, Tensor.xlogy, Tensor.xlog1py, Tensor.zeta


def polygamma(n: int, input: Tensor) -> Tensor:
    """Returns the derivative of order `n` of `digamma` for each element; `n = 0` is `digamma`
    itself.

    Shapes: [..] -> the same shape; integers become float32

    Raises:
        ValueError: If the order is negative.
        TypeError: If the order is not an integer, or `input` is not a tensor.
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"polygamma: input is {type(input).__name__}, expected a tensor")
    return _POLYGAMMA(input, n)


def xlogy(input: Any, other: Any) -> Tensor:
    """Computes `input * log(other)`, 0 where input is 0 and other is not NaN. One of the arguments
    may be a number.

    Shapes: [..] and [..], which broadcast -> the broadcast shape

    Raises:
        ValueError: If the shapes do not broadcast.
        TypeError: If an argument is neither a tensor nor a number, or if both are numbers.
    """
    return _XLOGY(*_as_tensors("xlogy", input, other))


def xlog1py(input: Any, other: Any) -> Tensor:
    """Computes `input * log(1 + other)`, accurate near 0; 0 where input is 0 and other is not NaN.
    One of the arguments may be a number.

    Shapes: [..] and [..], which broadcast -> the broadcast shape

    Raises:
        ValueError: If the shapes do not broadcast.
        TypeError: If an argument is neither a tensor nor a number, or if both are numbers.
    """
    return _XLOG1PY(*_as_tensors("xlog1py", input, other))


def zeta(input: Any, other: Any) -> Tensor:
    """Computes the Hurwitz zeta function, the sum of `(other + k)^-input` over `k >= 0`. One of the
    arguments may be a number. There is no gradient with respect to `input`.

    Shapes: [..] and [..], which broadcast -> the broadcast shape

    Raises:
        ValueError: If the shapes do not broadcast.
        TypeError: If an argument is neither a tensor nor a number, or if both are numbers.
    """
    return _ZETA(*_as_tensors("zeta", input, other))
