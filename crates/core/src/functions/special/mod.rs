//! Functions of one element or two over the whole range of a dtype, each with a formula of its own for the gradient.
//!
//! A gradient through the formulas for the values would meet `inf / inf` where these have limits, and lose digits where they cancel.

/// Methods of tensors by what they are of floats and by their derivatives.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $value:expr, $grad:expr;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// A dtype that is not floating.
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

/// The sum of `coefficients[k] * x^k`, by Horner's rule.
fn polynomial(x: &Tensor, coefficients: &[f64]) -> Result<Tensor> {
    let Some((&last, rest)) = coefficients.split_last() else { return x.zeros_like() };
    let Some((&before, rest)) = rest.split_last() else { return x.full_like(last) };
    let mut sum = x.mul_scalar(last)?.add_scalar(before)?;
    for &coefficient in rest.iter().rev() {
        sum = sum.mul(x)?.add_scalar(coefficient)?;
    }
    Ok(sum)
}

/// `long` for f64, `short` for f32.
fn for_dtype<'a, T: ?Sized>(x: &Tensor, long: &'a T, short: &'a T) -> &'a T {
    if x.dtype() == DType::F64 { long } else { short }
}

/// An odd function by what it is of `|x|`. Zeros keep their sign, NaN stays.
fn odd(x: &Tensor, of_size: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let found = of_size(&x.abs()?)?;
    let below = x.lt_scalar(0)?.where_(&found.neg()?, x)?;
    x.gt_scalar(0)?.where_(&found, &below)
}

/// `x` less the nearest whole number: exact.
fn past_whole(x: &Tensor) -> Result<Tensor> {
    x.sub(&x.round()?)
}
