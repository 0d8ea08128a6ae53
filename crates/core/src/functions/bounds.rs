//! Clamping with tensor bounds, and maximum and minimum that ignore NaN. At ties the whole gradient
//! goes to the first operand, as in PyTorch (`maximum` and `minimum` share it between both).

use super::check_number;
use crate::Tensor;
use crate::error::{Error, Result};

impl Tensor {
    /// Clamps each element to at least `low` and at most `high`, with broadcasting. Where `low` is
    /// above `high`, the result is `high`. NaN in any of the three gives NaN.
    ///
    /// The gradient of an element within its bounds goes to this tensor, and that of any other
    /// element to the bound. An exception is an element below two equal bounds, whose gradient is
    /// dropped.
    ///
    /// # Errors
    /// Returns an error if there is no bound, if the dtypes differ or are bool, or if the shapes do
    /// not broadcast.
    pub fn clamp_tensor(&self, low: Option<&Tensor>, high: Option<&Tensor>) -> Result<Tensor> {
        let name = "clamp_tensor";
        if low.is_none() && high.is_none() {
            return Err(Error::invalid(name, "no bound, expected at least one"));
        }
        let mut shape = *self.shape();
        for bound in [low, high].into_iter().flatten() {
            check_number(name, self, bound)?;
            shape = shape.broadcast(bound.shape(), name)?;
        }
        let mut y = self.clone();
        if let Some(low) = low {
            let low = &below_high(low, high)?;
            y = is_number(low)?.logical_not()?.logical_or(&low.gt(&y)?)?.where_(low, &y)?;
        }
        if let Some(high) = high {
            // A NaN in `y` stays NaN: no comparison with it is true.
            y = is_number(high)?.logical_not()?.logical_or(&high.lt(&y)?)?.where_(high, &y)?;
        }
        Ok(y)
    }

    /// Returns the larger element of each pair, with broadcasting. If one of them is NaN, returns
    /// the other one (C99, 7.12.12.2).
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are bool, or if the shapes do not broadcast.
    pub fn fmax(&self, other: &Tensor) -> Result<Tensor> {
        check_number("fmax", self, other)?;
        self.shape().broadcast(other.shape(), "fmax")?;
        is_number(self)?.logical_not()?.logical_or(&other.gt(self)?)?.where_(other, self)
    }

    /// Returns the smaller element of each pair, with broadcasting. If one of them is NaN, returns
    /// the other one (C99, 7.12.12.3).
    ///
    /// # Errors
    /// Same as [`fmax`](Tensor::fmax).
    pub fn fmin(&self, other: &Tensor) -> Result<Tensor> {
        check_number("fmin", self, other)?;
        self.shape().broadcast(other.shape(), "fmin")?;
        is_number(self)?.logical_not()?.logical_or(&other.lt(self)?)?.where_(other, self)
    }
}

/// Returns the lower bound, detached where it equals the upper one, so that no gradient reaches it
/// there.
fn below_high(low: &Tensor, high: Option<&Tensor>) -> Result<Tensor> {
    match high {
        Some(high) if low.needs_grad() => low.ne(high)?.where_(low, &low.detach()),
        _ => Ok(low.clone()),
    }
}

fn is_number(x: &Tensor) -> Result<Tensor> {
    x.eq(x)
}
