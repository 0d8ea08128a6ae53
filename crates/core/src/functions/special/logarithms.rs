//! Powers of two, logarithms with factors, and the sinc function.

use super::{offset_from_integer, polynomial};
use crate::functions::{binary, unary};
use crate::{Result, Tensor};
use std::f64::consts::{LN_2, LN_10, PI};

functions! {
    /// Returns 2 to the power of each element.
    exp2: |x| x.rpow_scalar(2), |x| x.exp2()?.mul_scalar(LN_2);
    /// Returns the logarithm to base 2 of each element. It is exact for powers of 2.
    log2: |x| to_base(x, 2, LN_2), |x| x.mul_scalar(LN_2)?.recip();
    /// Returns the logarithm to base 10 of each element. It is exact for powers of 10 that the
    /// dtype can represent.
    log10: |x| to_base(x, 10, LN_10), |x| x.mul_scalar(LN_10)?.recip();
    /// Returns `-x log(x)` of each element, the contribution of a probability to an entropy: 0 at
    /// 0, -inf below.
    entr: entropy, |x| x.log()?.add_scalar(1)?.neg();
    /// Returns `sin(pi x) / (pi x)` of each element: 1 at 0, and 0 at all other integers.
    sinc: sinc_value, sinc_grad;
}

/// Returns the logarithm to a base whose natural logarithm is `scale`: an integer where that power
/// of the base equals the element, otherwise the rounded quotient.
fn to_base(x: &Tensor, base: i64, scale: f64) -> Result<Tensor> {
    let y = x.log()?.div_scalar(scale)?;
    let rounded = y.round()?;
    rounded.rpow_scalar(base)?.eq(x)?.where_(&rounded, &y)
}

impl Tensor {
    /// Returns `log(x / (1 - x))` of each element, and NaN outside 0 to 1. With an `eps` of at
    /// least 0, elements are first clamped to `eps` and `1 - eps`, and the gradient of those
    /// outside is 0.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point.
    pub fn logit(&self, eps: Option<f64>) -> Result<Tensor> {
        let eps = eps.filter(|&eps| eps >= 0.0);
        unary("logit", self, move |x| log_odds(&clamp_to_eps(x, eps)?), move |x| log_odds_grad(x, eps))
    }

    /// Returns `self * log(other)`, with broadcasting. Where this tensor is 0 the result is 0,
    /// unless `other` is NaN. There the gradient of `other` is 0, and that of this tensor is
    /// `log(other)` where `other` is positive, otherwise 0.
    ///
    /// # Errors
    /// Returns an error if the shapes do not broadcast, or if the dtypes differ or are not
    /// floating-point.
    pub fn xlogy(&self, other: &Tensor) -> Result<Tensor> {
        binary("xlogy", [self, other], |x, y| product(x, y, &y.log()?), [xlogy_grad, ratio])
    }

    /// Returns `self * log(1 + other)`, with broadcasting, accurate near 0. Where this tensor is 0
    /// the result is 0, unless `other` is NaN. There the gradient of `other` is 0, and that of this
    /// tensor is `log(1 + other)` where `other` is above -1, otherwise 0.
    ///
    /// # Errors
    /// Returns an error if the shapes do not broadcast, or if the dtypes differ or are not
    /// floating-point.
    pub fn xlog1py(&self, other: &Tensor) -> Result<Tensor> {
        let grads = [xlog1py_grad, |x: &Tensor, y: &Tensor| ratio(x, &y.add_scalar(1)?)];
        binary("xlog1py", [self, other], |x, y| product(x, y, &y.log1p()?), grads)
    }
}

fn entropy(x: &Tensor) -> Result<Tensor> {
    let above = x.mul(&x.log()?)?.neg()?;
    let value = above.masked_fill(&x.eq_scalar(0)?, 0)?;
    value.masked_fill(&x.lt_scalar(0)?, f64::NEG_INFINITY)
}

/// Returns `x * logarithm`, and 0 where x is 0 and y is not NaN.
fn product(x: &Tensor, y: &Tensor, logarithm: &Tensor) -> Result<Tensor> {
    let is_replaced = x.eq_scalar(0)?.logical_and(&y.eq(y)?)?;
    let value = x.mul(logarithm)?;
    is_replaced.where_(&value.scalar_like(0)?, &value)
}

/// Returns `log(y)`, and 0 where x is 0 and y is not positive.
fn xlogy_grad(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let is_replaced = x.eq_scalar(0)?.logical_and(&y.le_scalar(0)?)?;
    is_replaced.where_(&y.scalar_like(1)?, y)?.log()
}

fn xlog1py_grad(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let is_replaced = x.eq_scalar(0)?.logical_and(&y.le_scalar(-1)?)?;
    is_replaced.where_(&y.scalar_like(0)?, y)?.log1p()
}

/// Returns `x / y`, and 0 where both are 0. There its own gradients are finite, too.
fn ratio(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let is_replaced = x.eq_scalar(0)?.logical_and(&y.eq_scalar(0)?)?;
    x.div(&is_replaced.where_(&y.scalar_like(1)?, y)?)
}

/// Clamps `x` to `eps` and `1 - eps`. If these bounds cross, the lower one takes precedence, as in
/// PyTorch.
fn clamp_to_eps(x: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    let Some(eps) = eps else { return Ok(x.clone()) };
    let high = x.gt_scalar(1.0 - eps)?.where_(&x.full_like(1.0 - eps)?, x)?;
    x.lt_scalar(eps)?.where_(&x.full_like(eps)?, &high)
}

/// Computes values between 1/4 and 3/4 as `log(1 + (2x - 1) / (1 - x))`, whose numerator is exact.
fn log_odds(x: &Tensor) -> Result<Tensor> {
    let center = x.mul_scalar(2)?.sub_scalar(1)?.div(&x.rsub_scalar(1)?)?.log1p()?;
    let outer = x.log()?.sub(&x.neg()?.log1p()?)?;
    x.sub_scalar(0.5)?.abs()?.lt_scalar(0.25)?.where_(&center, &outer)
}

/// Returns `1 / (x (1 - x))`: 0 beyond the bounds of `eps`, NaN outside 0 to 1.
fn log_odds_grad(x: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    let (low, outside_grad) = eps.map_or((0.0, f64::NAN), |eps| (eps, 0.0));
    let is_outside = x.lt_scalar(low)?.logical_or(&x.gt_scalar(1.0 - low)?)?;
    // Masked before and after, so that elements that are not selected have a finite gradient.
    let inside = x.masked_fill(&is_outside, 0.5)?;
    inside.mul(&inside.rsub_scalar(1)?)?.recip()?.masked_fill(&is_outside, outside_grad)
}

/// Returns `(-1)^n` for the integer n nearest to x.
fn sign_of_parity(x: &Tensor) -> Result<Tensor> {
    x.round()?.remainder_scalar(2)?.mul_scalar(-2)?.add_scalar(1)
}

/// Computes the sine from the distance to the nearest integer: the rounding error of `pi x` would
/// exceed that distance for large x.
fn sinc_value(x: &Tensor) -> Result<Tensor> {
    let sine = offset_from_integer(x)?.mul_scalar(PI)?.sin()?.mul(&sign_of_parity(x)?)?;
    let is_zero = x.eq_scalar(0)?;
    sine.div(&x.masked_fill(&is_zero, 1)?.mul_scalar(PI)?)?.masked_fill(&is_zero, 1)
}

/// Returns `(cos(pi x) - sinc(x)) / x`. Near 0, where the difference cancels, uses the Taylor
/// series in `(pi x)^2`.
fn sinc_grad(x: &Tensor) -> Result<Tensor> {
    let is_near = x.abs()?.lt_scalar(0.5)?;
    let far_x = x.masked_fill(&is_near, 1)?;
    let cosine = offset_from_integer(&far_x)?.mul_scalar(PI)?.cos()?.mul(&sign_of_parity(&far_x)?)?;
    let far_grad = cosine.sub(&far_x.sinc()?)?.div(&far_x)?;
    // d/du of the sum of `(-1)^k u^2k / (2k+1)!` is u times the sum of
    // `(-1)^k 2k u^(2k-2) / (2k+1)!`.
    let mut coefficients = Vec::new();
    let mut factorial = 1.0;
    for k in 1..=11 {
        let k = f64::from(k);
        factorial *= -2.0 * k * (2.0 * k + 1.0);
        coefficients.push(2.0 * k / factorial);
    }
    let angle = is_near.where_(x, &x.scalar_like(0)?)?.mul_scalar(PI)?;
    let near_grad = polynomial(&angle.square()?, &coefficients)?.mul(&angle)?.mul_scalar(PI)?;
    is_near.where_(&near_grad, &far_grad)
}
