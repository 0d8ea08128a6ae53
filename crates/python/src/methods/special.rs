//! Functions of one element that need no arguments, from the core's `functions/special.rs`.

use crate::error::Outcome;
use crate::promote::floating;
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
}
