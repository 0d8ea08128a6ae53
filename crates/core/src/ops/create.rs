//! Tensors from nothing: constants and evenly spaced numbers.

use crate::backend::Meta;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Rule, check};
use crate::{DType, Shape};

/// `y[..] = value`. No input; one output. Primitive, all dtypes.
#[derive(Clone, Debug)]
pub struct Fill {
    /// The sizes.
    pub shape: Shape,
    /// The element type.
    pub dtype: DType,
    /// The value, converted as [`Element::from_scalar`](crate::Element::from_scalar) does.
    pub value: Scalar,
}

impl Rule for Fill {
    fn name(&self) -> &'static str {
        "fill"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("fill", inputs, 0)?;
        Ok(Outputs::from_buf([Output::fresh(self.shape, self.dtype)]))
    }
    fn is_primitive(&self) -> bool {
        true
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::NonDifferentiable
    }
}

/// `y[i] = start + i * step`, shape `[count]`. No input. Primitive, all dtypes but bool.
///
/// Floats: computed in f64 as one product and one sum, then rounded once. Integers: exact, wrapping.
#[derive(Clone, Debug)]
pub struct Iota {
    /// The number of elements.
    pub count: usize,
    /// The element type.
    pub dtype: DType,
    /// The first value.
    pub start: Scalar,
    /// The difference of neighbours.
    pub step: Scalar,
}

impl Rule for Iota {
    fn name(&self) -> &'static str {
        "iota"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("iota", inputs, 0)?;
        if self.dtype == DType::Bool {
            return Err(Error::DType { op: "iota", what: "output", got: self.dtype, expected: "a number" });
        }
        Ok(Outputs::from_buf([Output::fresh(Shape::new(&[self.count])?, self.dtype)]))
    }
    fn is_primitive(&self) -> bool {
        true
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::NonDifferentiable
    }
}

impl crate::Tensor {
    /// `count` evenly spaced numbers: `start + i * step`.
    ///
    /// # Errors
    /// No memory, or dtype bool.
    pub fn iota(
        count: usize,
        dtype: DType,
        start: impl Into<Scalar>,
        step: impl Into<Scalar>,
        device: &crate::Device,
    ) -> Result<crate::Tensor> {
        let op = Iota { count, dtype, start: start.into(), step: step.into() };
        Ok(crate::dispatch::apply_on(op, device, &[])?.swap_remove(0))
    }

    /// One value everywhere.
    ///
    /// # Errors
    /// No memory.
    pub fn full(
        shape: impl crate::IntoShape,
        value: impl Into<Scalar>,
        dtype: DType,
        device: &crate::Device,
    ) -> Result<crate::Tensor> {
        let op = Fill { shape: shape.into_shape()?, dtype, value: value.into() };
        Ok(crate::dispatch::apply_on(op, device, &[])?.swap_remove(0))
    }

    /// Zeros.
    ///
    /// # Errors
    /// No memory.
    pub fn zeros(
        shape: impl crate::IntoShape,
        dtype: DType,
        device: &crate::Device,
    ) -> Result<crate::Tensor> {
        crate::Tensor::full(shape, 0i64, dtype, device)
    }

    /// Ones.
    ///
    /// # Errors
    /// No memory.
    pub fn ones(shape: impl crate::IntoShape, dtype: DType, device: &crate::Device) -> Result<crate::Tensor> {
        crate::Tensor::full(shape, 1i64, dtype, device)
    }
}
