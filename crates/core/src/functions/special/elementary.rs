//! Trigonometric and hyperbolic functions and their inverses.

use super::odd;
use crate::{DType, Result, Tensor};
use std::f64::consts::LN_2;

functions! {
    /// Returns the tangent of each element, in radians.
    tan: tan_value, |x| x.tan()?.square()?.add_scalar(1);
    /// Returns the inverse tangent of each element, from -pi/2 to pi/2.
    atan: |x| x.atan2_scalar(1), |x| x.square()?.add_scalar(1)?.recip();
    /// Returns the inverse sine of each element, from -pi/2 to pi/2.
    asin: asin_value, arc_grad;
    /// Returns the inverse cosine of each element, from 0 to pi.
    acos: acos_value, |x| arc_grad(x)?.neg();
    /// Returns the hyperbolic sine of each element.
    sinh: sinh_value, Tensor::cosh;
    /// Returns the hyperbolic cosine of each element.
    cosh: cosh_value, Tensor::sinh;
    /// Returns the inverse hyperbolic sine of each element.
    asinh: asinh_value, asinh_grad;
    /// Returns the inverse hyperbolic cosine of each element, which is at least 0; NaN below 1.
    acosh: acosh_value, |x| x.sub_scalar(1)?.rsqrt()?.mul(&x.add_scalar(1)?.rsqrt()?);
    /// Returns the inverse hyperbolic tangent of each element; NaN outside -1 to 1.
    atanh: atanh_value, |x| x.rsub_scalar(1)?.mul(&x.add_scalar(1)?)?.recip();
}

fn tan_value(x: &Tensor) -> Result<Tensor> {
    x.sin()?.div(&x.cos()?)
}

/// Returns `sqrt(1 - x^2)`, from factors that are exact where it is small.
fn sqrt_one_minus_square(x: &Tensor) -> Result<Tensor> {
    x.rsub_scalar(1)?.mul(&x.add_scalar(1)?)?.sqrt()
}

fn asin_value(x: &Tensor) -> Result<Tensor> {
    x.atan2(&sqrt_one_minus_square(x)?)
}

fn acos_value(x: &Tensor) -> Result<Tensor> {
    sqrt_one_minus_square(x)?.atan2(x)
}

/// Returns `1 / sqrt(1 - x^2)`.
fn arc_grad(x: &Tensor) -> Result<Tensor> {
    x.rsub_scalar(1)?.mul(&x.add_scalar(1)?)?.rsqrt()
}

/// Returns `within`, or `e^size / 2` where `e^size` overflows and its half may not.
fn or_half_exp(size: &Tensor, within: &Tensor) -> Result<Tensor> {
    let last = if size.dtype() == DType::F64 { 709 } else { 88 };
    let root = size.mul_scalar(0.5)?.exp()?;
    size.gt_scalar(last)?.where_(&root.mul_scalar(0.5)?.mul(&root)?, within)
}

/// Returns `(e^x - e^-x) / 2`, computed from `e^x - 1`, which is accurate where the difference is
/// small.
fn sinh_value(x: &Tensor) -> Result<Tensor> {
    odd(x, |size| {
        let exponential = size.expm1()?;
        or_half_exp(size, &exponential.add(&exponential.div(&exponential.add_scalar(1)?)?)?.mul_scalar(0.5)?)
    })
}

fn cosh_value(x: &Tensor) -> Result<Tensor> {
    let size = x.abs()?;
    let exponential = size.exp()?;
    or_half_exp(&size, &exponential.add(&exponential.recip()?)?.mul_scalar(0.5)?)
}

/// Above this value `sqrt(x^2 + 1)` is x, even in f64, and `x^2` does not yet overflow in f32.
const LARGE: f64 = 1e8;

/// Returns `near`, or `log(2 x)`, computed without overflow, where x is large.
fn or_log_of_double(x: &Tensor, near: &Tensor) -> Result<Tensor> {
    x.gt_scalar(LARGE)?.where_(&x.log()?.add_scalar(LN_2)?, near)
}

/// Returns `log(x + sqrt(x^2 + 1))`, with `sqrt(x^2 + 1) - 1 = x^2 / (sqrt(x^2 + 1) + 1)` for small
/// x.
fn asinh_value(x: &Tensor) -> Result<Tensor> {
    odd(x, |size| {
        let square = size.square()?;
        let above_one = square.div(&square.add_scalar(1)?.sqrt()?.add_scalar(1)?)?;
        or_log_of_double(size, &size.add(&above_one)?.log1p()?)
    })
}

/// Returns `1 / sqrt(x^2 + 1)`. Both branches have finite gradients where they are not selected.
fn asinh_grad(x: &Tensor) -> Result<Tensor> {
    let size = x.abs()?;
    let near = size.clamp(0.0, LARGE)?.square()?.add_scalar(1)?.rsqrt()?;
    size.gt_scalar(LARGE)?.where_(&size.maximum_scalar(1)?.recip()?, &near)
}

/// Returns `log(x + sqrt(x^2 - 1))`, computed from `x - 1`, which is exact where x is near 1.
fn acosh_value(x: &Tensor) -> Result<Tensor> {
    let above_one = x.sub_scalar(1)?;
    let root = above_one.sqrt()?.mul(&x.add_scalar(1)?.sqrt()?)?;
    or_log_of_double(x, &above_one.add(&root)?.log1p()?)
}

fn atanh_value(x: &Tensor) -> Result<Tensor> {
    x.log1p()?.sub(&x.neg()?.log1p()?)?.mul_scalar(0.5)
}
