//! Functions of one or two elements over the whole range of a dtype, each with a separate formula
//! for the gradient.
//!
//! A gradient through the formulas of the values would compute `inf / inf` at limits, and lose
//! digits by cancellation.

/// Defines tensor methods from formulas for floats and from their derivatives.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $value:expr, $grad:expr;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                /// # Errors
                /// Returns an error if the dtype is not floating-point.
                pub fn $name(&self) -> Result<Tensor> {
                    crate::functions::unary(stringify!($name), self, $value, $grad)
                }
            )*
        }
    };
}

mod bessel;
mod elementary;
mod gamma;
mod logarithms;
mod normal;
mod zeta;

use crate::{DType, Result, Tensor};

/// Returns the sum of `coefficients[k] * x^k`, by Horner's rule.
fn polynomial(x: &Tensor, coefficients: &[f64]) -> Result<Tensor> {
    let Some((&last, rest)) = coefficients.split_last() else { return x.zeros_like() };
    let Some((&before, rest)) = rest.split_last() else { return x.full_like(last) };
    let mut sum = x.mul_scalar(last)?.add_scalar(before)?;
    for &coefficient in rest.iter().rev() {
        sum = sum.mul(x)?.add_scalar(coefficient)?;
    }
    Ok(sum)
}

/// Returns `long` for f64 and `short` for f32.
fn for_dtype<'a, T: ?Sized>(x: &Tensor, long: &'a T, short: &'a T) -> &'a T {
    if x.dtype() == DType::F64 { long } else { short }
}

/// Evaluates an odd function from its values for `|x|`. Preserves the sign of zeros and NaN.
fn odd(x: &Tensor, of_size: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let value = of_size(&x.abs()?)?;
    let below = x.lt_scalar(0)?.where_(&value.neg()?, x)?;
    x.gt_scalar(0)?.where_(&value, &below)
}

/// Returns `x` minus the nearest integer, which is exact.
fn offset_from_integer(x: &Tensor) -> Result<Tensor> {
    x.sub(&x.round()?)
}
