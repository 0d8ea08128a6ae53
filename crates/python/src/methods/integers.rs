//! Functions of integers, from the core's `functions/integers.rs`.

use crate::arguments::Operand;
use crate::error::Outcome;
use crate::extract::of;
use crate::gil::run;
use crate::promote::{promote_pair, scalar_tensor_like};
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::{Result, Tensor};

/// Runs `f` on two tensors in their common dtype.
fn apply_promoted(
    slf: &PyTensor,
    py: Python<'_>,
    other: &Bound<'_, PyTensor>,
    f: fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Outcome<PyTensor> {
    let (a, b) = (slf.tensor(), other.get().tensor());
    let result = run(py, a.elements().max(b.elements()), || {
        let (a, b) = promote_pair(&a, &b)?;
        f(&a, &b)
    });
    result.map(PyTensor::new)
}

/// Runs `f` on a tensor and another tensor, or a number, in their common dtype.
pub(super) fn apply_with_operand(
    slf: &PyTensor,
    name: &str,
    other: &Bound<'_, PyAny>,
    f: fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Outcome<PyTensor> {
    let (py, a) = (other.py(), slf.tensor());
    let b = match Operand::for_function(name, other, &a)? {
        Operand::Tensor(b) => b,
        Operand::Number(number) => scalar_tensor_like(&a, number)?,
    };
    let result = run(py, a.elements().max(b.elements()), || {
        let (a, b) = promote_pair(&a, &b)?;
        f(&a, &b)
    });
    result.map(PyTensor::new)
}

macro_rules! divisors {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                ///
                /// Shapes: two tensors, broadcast -> the broadcast shape
                ///
                /// Raises:
                ///     TypeError: floats, or `other` is not a tensor.
                ///     ValueError: shapes that do not broadcast.
                fn $name(
                    &self,
                    py: Python<'_>,
                    #[pyo3(from_py_with = of::$name)] other: Bound<'_, PyTensor>,
                ) -> Outcome<PyTensor> {
                    apply_promoted(self, py, &other, Tensor::$name)
                }
            )*
        }
    };
}

divisors! {
    /// Computes the greatest common divisor elementwise; 0 for two zeros.
    gcd;
    /// Computes the least common multiple elementwise; 0 if either is 0.
    lcm;
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                ///
                /// Shapes: [..] and a shape that broadcasts with it -> the broadcast shape
                ///
                /// Raises:
                ///     TypeError: floats.
                ///     ValueError: shapes that do not broadcast.
                fn $name(&self, other: &Bound<'_, PyAny>) -> Outcome<PyTensor> {
                    apply_with_operand(self, stringify!($name), other, Tensor::$name)
                }
            )*
        }
    };
}

functions! {
    /// Computes the bitwise AND; for bool tensors the logical AND.
    bitwise_and;
    /// Computes the bitwise OR; for bool tensors the logical OR.
    bitwise_or;
    /// Computes the bitwise XOR; for bool tensors the logical XOR.
    bitwise_xor;
    /// Computes `x << n`: the product with 2 to the power of n, which wraps. The result is 0 if n
    /// is negative or at least the number of bits, as in PyTorch.
    bitwise_left_shift;
    /// Computes `x >> n`: the quotient by 2 to the power of n, rounded down. The result is -1 or 0
    /// if n is negative or at least the number of bits, as in PyTorch.
    bitwise_right_shift;
}

#[pymethods]
impl PyTensor {
    /// Computes the bitwise NOT; for bool tensors the logical NOT.
    ///
    /// Shapes: [..] -> the same
    ///
    /// Raises:
    ///     TypeError: floats.
    fn bitwise_not(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, Tensor::bitwise_not)
    }
}
