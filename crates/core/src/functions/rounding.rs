//! Rounding towards zero, and to digits behind the point.

use super::{check_floating, unary, with_zero_gradient};
use crate::Tensor;
use crate::autograd::no_grad;
use crate::error::{Error, Result};

impl Tensor {
    /// The whole part of each element, towards zero; infinities, NaN and the sign of 0 stay.
    ///
    /// The gradient is 0.
    ///
    /// # Errors
    /// A dtype that is not floating.
    pub fn trunc(&self) -> Result<Tensor> {
        check_floating("trunc", self)?;
        let y = no_grad(|| whole_part(self))?;
        with_zero_gradient("trunc", &[self], y)
    }

    /// What is behind the point of each element, with its sign: `self - trunc(self)`, NaN of infinities.
    ///
    /// The gradient is 1.
    ///
    /// # Errors
    /// A dtype that is not floating.
    pub fn frac(&self) -> Result<Tensor> {
        unary("frac", self, |x| x.sub(&whole_part(x)?), |x| x.detach().ones_like())
    }

    /// The nearest number of each element with so many digits behind the point, ties to even; of fewer than 0 digits that many before it are 0. As PyTorch has it,
    /// that is `round(self * 10^decimals) / 10^decimals`, both rounded, and `round(self / 10^-decimals) * 10^-decimals` for a negative number of digits.
    ///
    /// The gradient is 0.
    ///
    /// # Errors
    /// A dtype that is not floating, a power of 10 that is not finite.
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

/// Up from below 0, down from above. NaN is not below.
fn whole_part(x: &Tensor) -> Result<Tensor> {
    x.lt_scalar(0)?.where_(&x.ceil()?, &x.floor()?)
}
