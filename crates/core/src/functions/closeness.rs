//! Predicates: close, equal, infinite, NaN. None of them has a gradient.

use super::check_broadcast;
use crate::anomaly::in_function;
use crate::autograd::no_grad;
use crate::error::{Error, Result};
use crate::op::check;
use crate::{DType, Tensor};

/// Tolerances of [`isclose`](Tensor::isclose) and [`allclose`](Tensor::allclose).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Closeness {
    /// Relative tolerance, as a fraction of the magnitude of the other element.
    pub rtol: f64,
    /// Absolute tolerance, added to the relative one.
    pub atol: f64,
    /// Whether two NaN count as close to each other.
    pub equal_nan: bool,
}

impl Default for Closeness {
    /// PyTorch's defaults: relative tolerance 1e-5, absolute tolerance 1e-8, NaN is close to
    /// nothing.
    fn default() -> Self {
        Closeness { rtol: 1e-5, atol: 1e-8, equal_nan: false }
    }
}

impl Tensor {
    /// Returns a bool tensor that is true where elements are close to those of `other`:
    /// `|self - other| <= atol + rtol * |other|`, or both are the same infinity. Integers are
    /// subtracted without rounding, and their tolerance is computed in f32.
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> their broadcast shape
    ///
    /// # Errors
    /// Returns an error if a tolerance is negative or NaN, if the dtypes differ, or if the shapes
    /// do not broadcast.
    pub fn isclose(&self, other: &Tensor, closeness: Closeness) -> Result<Tensor> {
        close_mask("isclose", self, other, closeness)
    }

    /// Returns whether all elements are close to those of `other`: see
    /// [`isclose`](Tensor::isclose). Waits for the device.
    ///
    /// # Errors
    /// Same as [`isclose`](Tensor::isclose).
    pub fn allclose(&self, other: &Tensor, closeness: Closeness) -> Result<bool> {
        is_all_true(&close_mask("allclose", self, other, closeness)?)
    }

    /// Returns whether both tensors have the same shape and the same elements. NaN equals nothing.
    /// Waits for the device.
    ///
    /// # Errors
    /// Returns an error if the dtypes or the devices differ.
    pub fn equal(&self, other: &Tensor) -> Result<bool> {
        check::same_dtype("equal", &self.meta(), &other.meta())?;
        if self.shape() != other.shape() {
            return Ok(false);
        }
        is_all_true(&self.eq(other)?)
    }

    /// Returns a bool tensor that is true where elements are NaN.
    ///
    /// # Errors
    /// Returns an error if the allocation fails.
    pub fn isnan(&self) -> Result<Tensor> {
        self.ne(self)
    }

    /// Returns a bool tensor that is true where elements are infinite, of either sign.
    ///
    /// # Errors
    /// Returns an error if the allocation fails.
    pub fn isinf(&self) -> Result<Tensor> {
        match self.dtype().is_float() {
            true => self.detach().abs()?.eq_scalar(f64::INFINITY),
            false => self.ne(self),
        }
    }

    /// Returns a bool tensor that is true where elements are neither infinite nor NaN.
    ///
    /// # Errors
    /// Returns an error if the allocation fails.
    pub fn isfinite(&self) -> Result<Tensor> {
        match self.dtype().is_float() {
            true => self.detach().abs()?.lt_scalar(f64::INFINITY),
            false => self.eq(self),
        }
    }
}

fn is_all_true(mask: &Tensor) -> Result<bool> {
    Ok(mask.all(..)?.item_f64()? != 0.0)
}

fn close_mask(name: &'static str, a: &Tensor, b: &Tensor, closeness: Closeness) -> Result<Tensor> {
    let Closeness { rtol, atol, equal_nan } = closeness;
    if rtol.is_nan() || rtol < 0.0 || atol.is_nan() || atol < 0.0 {
        return Err(Error::invalid(name, format!("rtol {rtol} and atol {atol}, expected at least 0")));
    }
    check::same_dtype(name, &a.meta(), &b.meta())?;
    check_broadcast(name, a, b)?;
    let compute = || {
        if !a.dtype().is_float() {
            return integers_close(a, b, closeness);
        }
        let near = a.sub(b)?.abs()?.le(&b.abs()?.mul_scalar(rtol)?.add_scalar(atol)?)?;
        // Everything would be close to an infinite b.
        let is_finite = b.abs()?.lt_scalar(f64::INFINITY)?;
        let close = near.logical_and(&is_finite)?.logical_or(&a.eq(b)?)?;
        match equal_nan {
            true => close.logical_or(&a.isnan()?.logical_and(&b.isnan()?)?),
            false => Ok(close),
        }
    };
    in_function(name, &[a, b], || no_grad(compute))
}

/// Compares integers. Their difference is exact in 64 bits; where it overflows, it is computed in
/// f32.
fn integers_close(a: &Tensor, b: &Tensor, closeness: Closeness) -> Result<Tensor> {
    let wide = if a.dtype() == DType::U64 { DType::U64 } else { DType::I64 };
    let (a, b) = (a.to_dtype(wide)?, b.to_dtype(wide)?);
    let (high, low) = (a.maximum(&b)?, a.minimum(&b)?);
    let exact = high.sub(&low)?;
    let rounded = high.to_dtype(DType::F32)?.sub(&low.to_dtype(DType::F32)?)?;
    let difference = exact.ge_scalar(0)?.where_(&exact.to_dtype(DType::F32)?, &rounded)?;
    let allowed = b.to_dtype(DType::F32)?.abs()?.mul_scalar(closeness.rtol)?.add_scalar(closeness.atol)?;
    difference.le(&allowed)?.logical_or(&a.eq(&b)?)
}
