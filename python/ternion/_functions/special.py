"""Special functions with arguments in PyTorch's order, and with a number beside a tensor."""

from __future__ import annotations

from typing import Any

from .._ternion import Tensor
from .arithmetic import _beside

_POLYGAMMA, _XLOGY, _XLOG1PY, _ZETA = Tensor.polygamma, Tensor.xlogy, Tensor.xlog1py, Tensor.zeta


def polygamma(n: int, input: Tensor) -> Tensor:
    """The derivative of order `n` of `digamma` of each element; n is 0 for `digamma` itself.

    Shapes: [..] -> the same; integers become float32

    Raises:
        ValueError: an order below 0.
        TypeError: an order that is no whole number, an input that is no tensor.
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"polygamma: input is {type(input).__name__}, expected a tensor")
    return _POLYGAMMA(input, n)


def xlogy(input: Any, other: Any) -> Tensor:
    """`input * log(other)`, 0 where input is 0 and other is not NaN; one of both may be a number.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
        TypeError: something that is neither a tensor nor a number, two numbers.
    """
    return _XLOGY(*_beside("xlogy", input, other))


def xlog1py(input: Any, other: Any) -> Tensor:
    """`input * log(1 + other)`, accurate near 0: 0 where input is 0 and other is not NaN; one of both may be a number.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
        TypeError: something that is neither a tensor nor a number, two numbers.
    """
    return _XLOG1PY(*_beside("xlog1py", input, other))


def zeta(input: Any, other: Any) -> Tensor:
    """The zeta function of Hurwitz, the sum of `(other + k)^-input` over `k >= 0`; one of both may be a number. Input has no gradient.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
        TypeError: something that is neither a tensor nor a number, two numbers.
    """
    return _ZETA(*_beside("zeta", input, other))
