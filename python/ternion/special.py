"""Special functions with the names of `torch.special`. Integers become float32. Gradients are
explicit formulas.
"""

from __future__ import annotations

from typing import Any

from ._error_messages import name_all as _name_all
from ._functions import arithmetic as _arithmetic, special as _special
from ._ternion import Tensor

__all__ = """
digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammaln i0 i0e i1 i1e log1p log_ndtr log_softmax logit logsumexp multigammaln ndtr ndtri polygamma
psi round sinc softmax xlog1py xlogy zeta
""".split()


def __dir__() -> list[str]:
    return __all__


def _tensor(function: str, input: Any) -> Tensor:
    if not isinstance(input, Tensor):
        raise TypeError(f"{function}: input is {type(input).__name__}, expected a tensor")
    return input


polygamma, xlogy, xlog1py, zeta = _special.polygamma, _special.xlogy, _special.xlog1py, _special.zeta
round = _arithmetic.round


def digamma(input: Tensor) -> Tensor:
    """Computes the derivative of `gammaln` elementwise: infinite at 0, NaN at negative integers.

    Shapes: [..] -> the same shape
    """
    return _tensor("digamma", input).digamma()


def entr(input: Tensor) -> Tensor:
    """Computes `-x log(x)` elementwise: 0 at 0, -inf for negative elements.

    Shapes: [..] -> the same shape
    """
    return _tensor("entr", input).entr()


def erf(input: Tensor) -> Tensor:
    """Computes the error function elementwise.

    Shapes: [..] -> the same shape
    """
    return _tensor("erf", input).erf()


def erfc(input: Tensor) -> Tensor:
    """Computes 1 minus the error function elementwise, accurate also where the latter is near 1.

    Shapes: [..] -> the same shape
    """
    return _tensor("erfc", input).erfc()


def erfcx(input: Tensor) -> Tensor:
    """Computes `e^(x^2) erfc(x)` elementwise.

    Shapes: [..] -> the same shape
    """
    return _tensor("erfcx", input).erfcx()


def erfinv(input: Tensor) -> Tensor:
    """Computes the inverse of the error function elementwise: infinite at -1 and 1, NaN outside.

    Shapes: [..] -> the same shape
    """
    return _tensor("erfinv", input).erfinv()


def exp2(input: Tensor) -> Tensor:
    """Computes 2 to the power of each element.

    Shapes: [..] -> the same shape
    """
    return _tensor("exp2", input).exp2()


def expit(input: Tensor) -> Tensor:
    """Computes `1 / (1 + e^-x)` elementwise.

    Shapes: [..] -> the same shape
    """
    return _tensor("expit", input).sigmoid()


def expm1(input: Tensor) -> Tensor:
    """Computes `e^x - 1` elementwise, accurate near 0.

    Shapes: [..] -> the same shape
    """
    return _tensor("expm1", input).expm1()


def gammaln(input: Tensor) -> Tensor:
    """Computes the logarithm of the absolute value of the gamma function elementwise: infinite at 0
    and at negative integers.

    Shapes: [..] -> the same shape
    """
    return _tensor("gammaln", input).lgamma()


def i0(input: Tensor) -> Tensor:
    """Computes the modified Bessel function of the first kind of order 0 elementwise.

    Shapes: [..] -> the same shape
    """
    return _tensor("i0", input).i0()


def i0e(input: Tensor) -> Tensor:
    """Computes `i0` times `e^-|x|` elementwise.

    Shapes: [..] -> the same shape
    """
    return _tensor("i0e", input).i0e()


def i1(input: Tensor) -> Tensor:
    """Computes the modified Bessel function of the first kind of order 1 elementwise.

    Shapes: [..] -> the same shape
    """
    return _tensor("i1", input).i1()


def i1e(input: Tensor) -> Tensor:
    """Computes `i1` times `e^-|x|` elementwise.

    Shapes: [..] -> the same shape
    """
    return _tensor("i1e", input).i1e()


def log1p(input: Tensor) -> Tensor:
    """Computes `log(1 + x)` elementwise, accurate near 0.

    Shapes: [..] -> the same shape
    """
    return _tensor("log1p", input).log1p()


def log_ndtr(input: Tensor) -> Tensor:
    """Computes the logarithm of the normal cumulative distribution function elementwise; it is
    finite where the latter underflows to 0.

    Shapes: [..] -> the same shape
    """
    return _tensor("log_ndtr", input).log_ndtr()


def ndtr(input: Tensor) -> Tensor:
    """Computes the normal cumulative distribution function elementwise: the probability of values
    below the element.

    Shapes: [..] -> the same shape
    """
    return _tensor("ndtr", input).ndtr()


def ndtri(input: Tensor) -> Tensor:
    """Computes the inverse of the normal cumulative distribution function elementwise: infinite at
    0 and 1, NaN outside.

    Shapes: [..] -> the same shape
    """
    return _tensor("ndtri", input).ndtri()


def psi(input: Tensor) -> Tensor:
    """The same as `digamma`.

    Shapes: [..] -> the same shape
    """
    return _tensor("psi", input).digamma()


def sinc(input: Tensor) -> Tensor:
    """Computes `sin(pi x) / (pi x)` elementwise, 1 at 0.

    Shapes: [..] -> the same shape
    """
    return _tensor("sinc", input).sinc()


def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """Computes `log(x / (1 - x))` elementwise. If `eps` is given, elements are clamped to the range
    from `eps` to `1 - eps` first.

    Shapes: [..] -> the same shape
    """
    return _tensor("logit", input).logit(eps)


def multigammaln(input: Tensor, p: int) -> Tensor:
    """Computes the logarithm of the multivariate gamma function of dimension `p`.

    Shapes: [..] -> the same shape

    Raises:
        ValueError: If the size is below 1.
    """
    return _tensor("multigammaln", input).mvlgamma(p)


def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """Computes `log(sum(e^x))` over axes, without overflow.

    Shapes: [..] -> without the axes `dim`, or with size 1 along them

    Raises:
        IndexError: If an axis is out of range.
    """
    return _tensor("logsumexp", input).logsumexp(dim, keepdim)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Computes `e^x / sum(e^x)` along an axis, in `dtype` if it is given.

    Shapes: [..] -> the same shape

    Raises:
        IndexError: If an axis is out of range.
    """
    return _tensor("softmax", input).softmax(dim, dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Computes the logarithm of `softmax`, without overflow.

    Shapes: [..] -> the same shape

    Raises:
        IndexError: If an axis is out of range.
    """
    return _tensor("log_softmax", input).log_softmax(dim, dtype)


_name_all(globals())
