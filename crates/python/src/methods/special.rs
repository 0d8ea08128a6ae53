//! Special functions of one element or two, from the core's `functions/special`.

use crate::error::Outcome;
use crate::expected::of;
use crate::promote::{floating, meet};
use crate::tensor::PyTensor;
use pyo3::prelude::*;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                ///
                /// Shapes: [..] -> the same; integers become float32
                fn $name(&self, py: Python<'_>) -> Outcome<PyTensor> {
                    self.map(py, |x| floating(x)?.$name())
                }
            )*
        }
    };
}

functions! {
    /// The tangent of each element, in radians.
    tan;
    /// The angle of each element's sine, from -pi/2 to pi/2.
    asin;
    /// The angle of each element's cosine, from 0 to pi.
    acos;
    /// The hyperbolic sine of each element.
    sinh;
    /// The hyperbolic cosine of each element.
    cosh;
    /// The number whose hyperbolic sine each element is.
    asinh;
    /// The number of at least 0 whose hyperbolic cosine each element is; NaN below 1.
    acosh;
    /// The number whose hyperbolic tangent each element is; NaN outside -1 to 1.
    atanh;
    /// 1 less the error function of each element, to the last digits where that is near 1.
    erfc;
    /// `e^(x^2) erfc(x)` of each element.
    erfcx;
    /// The number whose error function each element is: infinite at -1 and 1, NaN outside.
    erfinv;
    /// The logarithm of the size of the gamma function of each element: infinite at 0 and at negative whole numbers.
    lgamma;
    /// The derivative of `lgamma` of each element: infinite at 0, NaN at negative whole numbers.
    digamma;
    /// The modified Bessel function of the first kind of order 0 of each element.
    i0;
    /// `i0` times `e^-|x|` of each element.
    i0e;
    /// The modified Bessel function of the first kind of order 1 of each element.
    i1;
    /// `i1` times `e^-|x|` of each element.
    i1e;
    /// The normal distribution function of each element: the probability of numbers below it.
    ndtr;
    /// The number whose normal distribution function each element is: infinite at 0 and 1, NaN outside.
    ndtri;
    /// The logarithm of the normal distribution function of each element, finite where that is 0.
    log_ndtr;
    /// `-x log(x)` of each element: 0 at 0, -inf below.
    entr;
    /// 2 to the power of each element.
    exp2;
    /// `sin(pi x) / (pi x)` of each element, 1 at 0.
    sinc;
}

macro_rules! functions_of_two {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                ///
                /// Shapes: two tensors, broadcast -> the shape that they have together; integers become float32
                ///
                /// Raises:
                ///     ValueError: shapes that do not broadcast.
                ///     TypeError: `other` is no tensor.
                fn $name(
                    &self,
                    py: Python<'_>,
                    #[pyo3(from_py_with = of::$name)] other: Bound<'_, PyTensor>,
                ) -> Outcome<PyTensor> {
                    let other = other.get().tensor();
                    self.map(py, |x| {
                        let (x, other) = meet(x, &other)?;
                        floating(&x)?.$name(&floating(&other)?)
                    })
                }
            )*
        }
    };
}

functions_of_two! {
    /// `x * log(other)`, 0 where x is 0 and other is not NaN.
    xlogy;
    /// `x * log(1 + other)`, accurate near 0: 0 where x is 0 and other is not NaN.
    xlog1py;
    /// The zeta function of Hurwitz, the sum of `(other + k)^-x` over `k >= 0`; without a gradient of x.
    zeta;
}

#[pymethods]
impl PyTensor {
    /// The derivative of order `n` of `digamma` of each element; n is 0 for `digamma` itself.
    ///
    /// Shapes: [..] -> the same; integers become float32
    ///
    /// Raises:
    ///     ValueError: an order below 0.
    fn polygamma(&self, py: Python<'_>, #[pyo3(from_py_with = of::polygamma)] n: i64) -> Outcome<PyTensor> {
        self.map(py, |x| floating(x)?.polygamma(n))
    }

    /// The logarithm of the gamma function of positive definite matrices of size `p`: `log(pi) p (p - 1) / 4` and the sum of `lgamma(x - i / 2)`
    /// over `i < p`.
    ///
    /// Shapes: [..] -> the same; integers become float32
    ///
    /// Raises:
    ///     ValueError: a size below 1.
    fn mvlgamma(&self, py: Python<'_>, #[pyo3(from_py_with = of::mvlgamma)] p: i64) -> Outcome<PyTensor> {
        self.map(py, |x| floating(x)?.mvlgamma(p))
    }

    /// `log(x / (1 - x))` of each element, which is kept from `eps` to `1 - eps` if that is given.
    ///
    /// Shapes: [..] -> the same; integers become float32
    #[pyo3(signature = (eps=None))]
    fn logit(&self, py: Python<'_>, #[pyo3(from_py_with = of::logit)] eps: Option<f64>) -> Outcome<PyTensor> {
        self.map(py, |x| floating(x)?.logit(eps))
    }
}
