//! The larger and the smaller of tensors where one of both counts: bounds that are tensors, and numbers beside NaN. At ties the whole gradient goes to the first operand,
//! as in PyTorch (`maximum` and `minimum` share it).

use super::check_number;
use crate::Tensor;
use crate::error::{Error, Result};

impl Tensor {
    /// Each element, but at least that of `low` and at most that of `high`, broadcast; `high` where the bounds are the wrong way round. NaN where any of the three is.
    ///
    /// The gradient of an element within its bounds goes to this tensor, of others to the bound, but to none of two bounds that are equal where this tensor is below
    /// them.
    ///
    /// # Errors
    /// No bound, dtypes that differ, bool, shapes that do not broadcast.
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
            // What is NaN by now stays so: nothing is less than it.
            y = is_number(high)?.logical_not()?.logical_or(&high.lt(&y)?)?.where_(high, &y)?;
        }
        Ok(y)
    }

    /// The larger of each pair, broadcast; of a number and NaN the number (C99, 7.12.12.2).
    ///
    /// # Errors
    /// Dtypes that differ, bool, shapes that do not broadcast.
    pub fn fmax(&self, other: &Tensor) -> Result<Tensor> {
        check_number("fmax", self, other)?;
        self.shape().broadcast(other.shape(), "fmax")?;
        is_number(self)?.logical_not()?.logical_or(&other.gt(self)?)?.where_(other, self)
    }

    /// The smaller of each pair, broadcast; of a number and NaN the number (C99, 7.12.12.3).
    ///
    /// # Errors
    /// As [`fmax`](Tensor::fmax).
    pub fn fmin(&self, other: &Tensor) -> Result<Tensor> {
        check_number("fmin", self, other)?;
        self.shape().broadcast(other.shape(), "fmin")?;
        is_number(self)?.logical_not()?.logical_or(&other.lt(self)?)?.where_(other, self)
    }
}

/// The lower bound, whose gradient is that of the elements where it is below the upper one.
fn below_high(low: &Tensor, high: Option<&Tensor>) -> Result<Tensor> {
    match high {
        Some(high) if low.needs_grad() => low.ne(high)?.where_(low, &low.detach()),
        _ => Ok(low.clone()),
    }
}

fn is_number(x: &Tensor) -> Result<Tensor> {
    x.eq(x)
}
