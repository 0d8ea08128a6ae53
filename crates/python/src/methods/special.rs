//! Special functions of one or two tensors, elementwise, from the core's `functions/special`.

use crate::error::Outcome;
use crate::extract::of;
use crate::promote::{promote_pair, to_floating};
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
                    self.map(py, |x| to_floating(x)?.$name())
                }
            )*
        }
    };
}

functions! {
    /// Computes the tangent of each element, in radians.
    tan;
    /// Computes the arcsine of each element, from -pi/2 to pi/2.
    asin;
    /// Computes the arccosine of each element, from 0 to pi.
    acos;
    /// Computes the hyperbolic sine of each element.
    sinh;
    /// Computes the hyperbolic cosine of each element.
    cosh;
    /// Computes the inverse hyperbolic sine of each element.
    asinh;
    /// Computes the inverse hyperbolic cosine of each element, at least 0; NaN below 1.
    acosh;
    /// Computes the inverse hyperbolic tangent of each element; NaN outside -1 to 1.
    atanh;
    /// Computes the complementary error function `1 - erf(x)` of each element, without cancellation
    /// where `erf(x)` is near 1.
    erfc;
    /// Computes `e^(x^2) erfc(x)` of each element.
    erfcx;
    /// Computes the inverse error function of each element: infinite at -1 and 1, NaN outside.
    erfinv;
    /// Computes the logarithm of the absolute value of the gamma function of each element: infinite
    /// at 0 and at negative integers.
    lgamma;
    /// Computes the derivative of `lgamma` of each element: infinite at 0, NaN at negative
    /// integers.
    digamma;
    /// Computes the modified Bessel function of the first kind of order 0 of each element.
    i0;
    /// Computes `i0` times `e^-|x|` of each element.
    i0e;
    /// Computes the modified Bessel function of the first kind of order 1 of each element.
    i1;
    /// Computes `i1` times `e^-|x|` of each element.
    i1e;
    /// Computes the cumulative distribution function of the standard normal distribution at each
    /// element.
    ndtr;
    /// Computes the inverse of `ndtr` of each element: infinite at 0 and 1, NaN outside.
    ndtri;
    /// Computes the logarithm of `ndtr` of each element; finite where `ndtr` underflows to 0.
    log_ndtr;
    /// Computes `-x log(x)` of each element: 0 at 0, -inf below.
    entr;
    /// Computes 2 to the power of each element.
    exp2;
    /// Computes `sin(pi x) / (pi x)` of each element; 1 at 0.
    sinc;
}

macro_rules! functions_of_two {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                ///
                /// Shapes: two tensors, broadcast -> the broadcast shape; integers become float32
                ///
                /// Raises:
                ///     ValueError: shapes that do not broadcast.
                ///     TypeError: `other` is not a tensor.
                fn $name(
                    &self,
                    py: Python<'_>,
                    #[pyo3(from_py_with = of::$name)] other: Bound<'_, PyTensor>,
                ) -> Outcome<PyTensor> {
                    let other = other.get().tensor();
                    self.map(py, |x| {
                        let (x, other) = promote_pair(x, &other)?;
                        to_floating(&x)?.$name(&to_floating(&other)?)
                    })
                }
            )*
        }
    };
}

functions_of_two! {
    /// Computes `x * log(other)`; 0 where x is 0 and other is not NaN.
    xlogy;
    /// Computes `x * log(1 + other)`, accurate near 0; 0 where x is 0 and other is not NaN.
    xlog1py;
    /// Computes the Hurwitz zeta function, the sum of `(other + k)^-x` over `k >= 0`; without a
    /// gradient for x.
    zeta;
}

#[pymethods]
impl PyTensor {
    /// Computes the derivative of order `n` of `digamma` of each element; order 0 is `digamma`
    /// itself.
    ///
    /// Shapes: [..] -> the same; integers become float32
    ///
    /// Raises:
    ///     ValueError: a negative order.
    fn polygamma(&self, py: Python<'_>, #[pyo3(from_py_with = of::polygamma)] n: i64) -> Outcome<PyTensor> {
        self.map(py, |x| to_floating(x)?.polygamma(n))
    }

    /// Computes the multivariate log-gamma function of dimension `p`: `log(pi) p (p - 1) / 4` plus
    /// the sum of `lgamma(x - i / 2)` over `i < p`.
    ///
    /// Shapes: [..] -> the same; integers become float32
    ///
    /// Raises:
    ///     ValueError: a dimension below 1.
    fn mvlgamma(&self, py: Python<'_>, #[pyo3(from_py_with = of::mvlgamma)] p: i64) -> Outcome<PyTensor> {
        self.map(py, |x| to_floating(x)?.mvlgamma(p))
    }

    /// Computes `log(x / (1 - x))` of each element, which is clamped to the range from `eps` to `1
    /// - eps` if `eps` is given.
    ///
    /// Shapes: [..] -> the same; integers become float32
    #[pyo3(signature = (eps=None))]
    fn logit(&self, py: Python<'_>, #[pyo3(from_py_with = of::logit)] eps: Option<f64>) -> Outcome<PyTensor> {
        self.map(py, |x| to_floating(x)?.logit(eps))
    }
}
