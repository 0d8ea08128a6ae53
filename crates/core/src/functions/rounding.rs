//! Rounding toward zero, and to a number of decimals.

use super::{check_floating, unary, with_zero_gradient};
use crate::Tensor;
use crate::autograd::no_grad;
use crate::error::{Error, Result};

impl Tensor {
    /// Rounds each element toward zero. Infinities, NaN and the sign of 0 are preserved.
    ///
    /// The gradient is 0.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point.
    pub fn trunc(&self) -> Result<Tensor> {
        check_floating("trunc", self)?;
        let y = no_grad(|| integer_part(self))?;
        with_zero_gradient("trunc", &[self], y)
    }

    /// Returns the fractional part of each element, with its sign: `self - trunc(self)`. It is NaN
    /// for infinities.
    ///
    /// The gradient is 1.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point.
    pub fn frac(&self) -> Result<Tensor> {
        unary("frac", self, |x| x.sub(&integer_part(x)?), |x| x.detach().ones_like())
    }

    /// Rounds each element to this number of decimals, ties to even; a negative number rounds to a
    /// power of 10. As in PyTorch, the result is `round(self * 10^decimals) / 10^decimals` with
    /// both steps rounded, and `round(self / 10^-decimals) * 10^-decimals` for a negative number.
    ///
    /// The gradient is 0.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point, or if the power of 10 is not finite.
    pub fn round_decimals(&self, decimals: i32) -> Result<Tensor> {
        let name = "round_decimals";
        check_floating(name, self)?;
        let scale = 10f64.powi(decimals.saturating_abs());
        if !scale.is_finite() {
            let detail = format!("decimals of {decimals}, expected -308 to 308");
            return Err(Error::invalid(name, detail));
        }
        let y = no_grad(|| {
            let x = self.to_dtype(self.dtype().accumulator())?;
            let y = match decimals {
                0 => x.round()?,
                1.. => x.mul_scalar(scale)?.round()?.div_scalar(scale)?,
                _ => x.div_scalar(scale)?.round()?.mul_scalar(scale)?,
            };
            y.to_dtype(self.dtype())
        })?;
        with_zero_gradient(name, &[self], y)
    }
}

/// Rounds up below 0 and down otherwise. NaN is not below 0.
fn integer_part(x: &Tensor) -> Result<Tensor> {
    x.lt_scalar(0)?.where_(&x.ceil()?, &x.floor()?)
}
