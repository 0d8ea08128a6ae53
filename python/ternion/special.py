"""Special functions under the names that they have in `torch.special`. Integers become float32; gradients are formulas of their own."""

from __future__ import annotations

from typing import Any

from ._functions import arithmetic as _arithmetic, special as _special
from ._refusals import name_all as _name_all
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
    """The derivative of `gammaln` of each element: infinite at 0, NaN at negative whole numbers.

    Shapes: [..] -> the same
    """
    return _tensor("digamma", input).digamma()


def entr(input: Tensor) -> Tensor:
    """`-x log(x)` of each element: 0 at 0, -inf below.

    Shapes: [..] -> the same
    """
    return _tensor("entr", input).entr()


def erf(input: Tensor) -> Tensor:
    """The error function of each element.

    Shapes: [..] -> the same
    """
    return _tensor("erf", input).erf()


def erfc(input: Tensor) -> Tensor:
    """1 less the error function of each element, to the last digits where that is near 1.

    Shapes: [..] -> the same
    """
    return _tensor("erfc", input).erfc()


def erfcx(input: Tensor) -> Tensor:
    """`e^(x^2) erfc(x)` of each element.

    Shapes: [..] -> the same
    """
    return _tensor("erfcx", input).erfcx()


def erfinv(input: Tensor) -> Tensor:
    """The number whose error function each element is: infinite at -1 and 1, NaN outside.

    Shapes: [..] -> the same
    """
    return _tensor("erfinv", input).erfinv()


def exp2(input: Tensor) -> Tensor:
    """2 to the power of each element.

    Shapes: [..] -> the same
    """
    return _tensor("exp2", input).exp2()


def expit(input: Tensor) -> Tensor:
    """`1 / (1 + e^-x)` of each element.

    Shapes: [..] -> the same
    """
    return _tensor("expit", input).sigmoid()


def expm1(input: Tensor) -> Tensor:
    """`e^x - 1` of each element, accurate near 0.

    Shapes: [..] -> the same
    """
    return _tensor("expm1", input).expm1()


def gammaln(input: Tensor) -> Tensor:
    """The logarithm of the size of the gamma function of each element: infinite at 0 and at negative whole numbers.

    Shapes: [..] -> the same
    """
    return _tensor("gammaln", input).lgamma()


def i0(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 0 of each element.

    Shapes: [..] -> the same
    """
    return _tensor("i0", input).i0()


def i0e(input: Tensor) -> Tensor:
    """`i0` times `e^-|x|` of each element.

    Shapes: [..] -> the same
    """
    return _tensor("i0e", input).i0e()


def i1(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 1 of each element.

    Shapes: [..] -> the same
    """
    return _tensor("i1", input).i1()


def i1e(input: Tensor) -> Tensor:
    """`i1` times `e^-|x|` of each element.

    Shapes: [..] -> the same
    """
    return _tensor("i1e", input).i1e()


def log1p(input: Tensor) -> Tensor:
    """`log(1 + x)` of each element, accurate near 0.

    Shapes: [..] -> the same
    """
    return _tensor("log1p", input).log1p()


def log_ndtr(input: Tensor) -> Tensor:
    """The logarithm of the normal distribution function of each element, finite where that is 0.

    Shapes: [..] -> the same
    """
    return _tensor("log_ndtr", input).log_ndtr()


def ndtr(input: Tensor) -> Tensor:
    """The normal distribution function of each element: the probability of numbers below it.

    Shapes: [..] -> the same
    """
    return _tensor("ndtr", input).ndtr()


def ndtri(input: Tensor) -> Tensor:
    """The number whose normal distribution function each element is: infinite at 0 and 1, NaN outside.

    Shapes: [..] -> the same
    """
    return _tensor("ndtri", input).ndtri()


def psi(input: Tensor) -> Tensor:
    """`digamma` of each element.

    Shapes: [..] -> the same
    """
    return _tensor("psi", input).digamma()


def sinc(input: Tensor) -> Tensor:
    """`sin(pi x) / (pi x)` of each element, 1 at 0.

    Shapes: [..] -> the same
    """
    return _tensor("sinc", input).sinc()


def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """`log(x / (1 - x))` of each element, which is kept from `eps` to `1 - eps` if that is given.

    Shapes: [..] -> the same
    """
    return _tensor("logit", input).logit(eps)


def multigammaln(input: Tensor, p: int) -> Tensor:
    """The logarithm of the gamma function of positive definite matrices of size `p`.

    Shapes: [..] -> the same

    Raises:
        ValueError: a size below 1.
    """
    return _tensor("multigammaln", input).mvlgamma(p)


def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """`log(sum(e^x))` over axes, without overflow.

    Shapes: [..] -> without the axes, or with size 1 there

    Raises:
        IndexError: an axis that is not there.
    """
    return _tensor("logsumexp", input).logsumexp(dim, keepdim)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """`e^x / sum(e^x)` along an axis; in another dtype if one is named.

    Shapes: [..] -> the same

    Raises:
        IndexError: an axis that is not there.
    """
    return _tensor("softmax", input).softmax(dim, dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of `softmax`, without overflow.

    Shapes: [..] -> the same

    Raises:
        IndexError: an axis that is not there.
    """
    return _tensor("log_softmax", input).log_softmax(dim, dtype)


_name_all(globals())
