//! Functions of integers, from the core's `functions/integers.rs`.

use crate::arguments::Operand;
use crate::error::Outcome;
use crate::expected::of;
use crate::promote::{beside, meet};
use crate::run::run;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::{Result, Tensor};

/// `f` of two tensors in the dtype that they meet in.
fn of_tensors(
    slf: &PyTensor,
    py: Python<'_>,
    other: &Bound<'_, PyTensor>,
    f: fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Outcome<PyTensor> {
    let (a, b) = (slf.tensor(), other.get().tensor());
    let result = run(py, a.elements().max(b.elements()), || {
        let (a, b) = meet(&a, &b)?;
        f(&a, &b)
    });
    result.map(PyTensor::new)
}

/// `f` of a tensor and another one, or a number, in the dtype that they meet in.
pub(super) fn of_two(
    slf: &PyTensor,
    name: &str,
    other: &Bound<'_, PyAny>,
    f: fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Outcome<PyTensor> {
    let (py, a) = (other.py(), slf.tensor());
    let b = match Operand::named(name, other, &a)? {
        Operand::Tensor(b) => b,
        Operand::Number(number) => beside(&a, number)?,
    };
    let result = run(py, a.elements().max(b.elements()), || {
        let (a, b) = meet(&a, &b)?;
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
                /// Shapes: two tensors, broadcast -> the shape that they have together
                ///
                /// Raises:
                ///     TypeError: floats, `other` is no tensor.
                ///     ValueError: shapes that do not broadcast.
                fn $name(
                    &self,
                    py: Python<'_>,
                    #[pyo3(from_py_with = of::$name)] other: Bound<'_, PyTensor>,
                ) -> Outcome<PyTensor> {
                    of_tensors(self, py, &other, Tensor::$name)
                }
            )*
        }
    };
}

divisors! {
    /// The greatest common divisor of each pair; 0 of two zeros.
    gcd;
    /// The least common multiple of each pair; 0 where either is 0.
    lcm;
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                ///
                /// Shapes: [..] and what broadcasts to it -> the shape that they have together
                ///
                /// Raises:
                ///     TypeError: floats.
                ///     ValueError: shapes that do not broadcast.
                fn $name(&self, other: &Bound<'_, PyAny>) -> Outcome<PyTensor> {
                    of_two(self, stringify!($name), other, Tensor::$name)
                }
            )*
        }
    };
}

functions! {
    /// The bits that both of each pair have; of truth values whether both are true.
    bitwise_and;
    /// The bits that either of each pair has; of truth values whether either is true.
    bitwise_or;
    /// The bits that one of each pair has; of truth values whether one alone is true.
    bitwise_xor;
    /// `x << n`: times 2 to the power of n, wrapped; 0 by as many bits as there are or more, and by less than none, as in PyTorch.
    bitwise_left_shift;
    /// `x >> n`: divided by 2 to the power of n, rounded down; -1 or 0 by as many bits as there are or more, and by less than none, as in PyTorch.
    bitwise_right_shift;
}

#[pymethods]
impl PyTensor {
    /// All bits but those of each element; of truth values the other one.
    ///
    /// Shapes: [..] -> the same
    ///
    /// Raises:
    ///     TypeError: floats.
    fn bitwise_not(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, Tensor::bitwise_not)
    }
}
