//! The logarithm of the gamma function, its derivative, and the multivariate gamma function.

use super::{for_dtype, offset_from_integer, polynomial};
use crate::anomaly::in_function;
use crate::functions::in_accumulator;
use crate::{DType, Error, Result, Tensor};
use std::f64::consts::{PI, TAU};

functions! {
    /// Returns `log |Gamma(x)|` of each element. It is infinite at 0 and at negative integers.
    ///
    /// Uses a polynomial from 1.5 to 2.5, the recurrence (DLMF 5.5.1) below 8, Stirling's series
    /// (5.11.1) above, and reflection (5.5.3) for negative numbers. Near zeros of the function at
    /// negative numbers, the error is that of the terms that cancel.
    lgamma: lgamma_value, Tensor::digamma;
    /// Returns the derivative of `log Gamma(x)`. It is infinite at 0, with the sign opposite to
    /// that of the zero, and NaN at negative integers.
    ///
    /// Uses a polynomial from 1 to 2, the recurrence (DLMF 5.5.2) below 8, the asymptotic series
    /// (5.11.2) above, and reflection (5.5.4) for negative numbers.
    digamma: digamma_value, |x| x.polygamma(1);
}

impl Tensor {
    /// Returns the logarithm of the multivariate gamma function, which is the gamma function of
    /// positive definite matrices of size `p`: `log(pi) p (p - 1) / 4` plus the sum of
    /// `log |Gamma(x - i / 2)|` over `i < p` (DLMF 35.3.5).
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point, or if the size, which is the number of
    /// terms, is below 1 or above 2^20.
    pub fn mvlgamma(&self, p: i64) -> Result<Tensor> {
        super::super::check_floating("mvlgamma", self)?;
        if !(1..=1 << 20).contains(&p) {
            return Err(Error::invalid("mvlgamma", format!("size {p}, expected 1 to 1048576")));
        }
        let sum = |[x]: &[Tensor; 1]| {
            let constant = PI.ln() * p as f64 * (p as f64 - 1.0) / 4.0;
            sum_of_lgammas(x, p as usize)?.add_scalar(constant)
        };
        in_function("mvlgamma", &[self], || in_accumulator([self], sum))
    }
}

/// Number of elements in a block of [`sum_of_lgammas`].
const BLOCK: usize = 1 << 16;

/// Returns the sum of `log |Gamma(x - i / 2)|` over `i < count`, in blocks of consecutive i.
fn sum_of_lgammas(x: &Tensor, count: usize) -> Result<Tensor> {
    let size = (BLOCK / x.elements().max(1)).clamp(1, count);
    let column = x.unsqueeze(-1)?;
    let mut sum = x.zeros_like()?;
    for start in (0..count).step_by(size) {
        let length = size.min(count - start);
        let offsets = Tensor::iota(length, DType::I32, start as i64, 1, x.device())?;
        let offsets = offsets.to_dtype(x.dtype())?.mul_scalar(0.5)?;
        sum = sum.add(&column.sub(&offsets)?.lgamma()?.sum(-1)?)?;
    }
    Ok(sum)
}

/// From this value on the asymptotic series are accurate to all digits.
const FAR: f64 = 8.0;

/// `log Gamma(2 + z) / z` for `|z| <= 0.5` as powers of z, interpolated at Chebyshev points with 60
/// digits. Relative error below 1e-16.
const LGAMMA: [f64; 18] = [
    0.42278433509846713,
    0.3224670334241132,
    -0.06735230105319563,
    0.02058080842778338,
    -0.007385551028935545,
    0.002890510330865901,
    -0.0011927539009983087,
    0.0005096695196526673,
    -0.00022315497746292723,
    9.945761692157133e-05,
    -4.4923727564247656e-05,
    2.050601970174762e-05,
    -9.45628851510172e-06,
    4.3828545383846665e-06,
    -1.9743106888421067e-06,
    9.242852225162277e-07,
    -5.811277768921246e-07,
    2.7475390051909663e-07,
];

/// The same with an error of 4e-8, for f32.
const LGAMMA_SHORT: [f64; 8] = [
    0.4227843426470044,
    0.3224670300514728,
    -0.06735326573945029,
    0.02058123942781242,
    -0.007366421845287885,
    0.00288196555904312,
    -0.0013125623822621145,
    0.0005631591990363806,
];

/// `B_2k / (2k (2k - 1))` with the Bernoulli numbers (DLMF 5.11.1).
const STIRLING: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1260.0,
    -1.0 / 1680.0,
    1.0 / 1188.0,
    -691.0 / 360360.0,
    1.0 / 156.0,
    -3617.0 / 122400.0,
];

/// Returns for negative numbers `log(pi / |x sin(pi x)|)` minus the function of `|x|`. The sine is
/// computed from the distance to the nearest integer.
fn lgamma_value(x: &Tensor) -> Result<Tensor> {
    let size = x.abs()?;
    let value = lgamma_of_positive(&size)?;
    let sine = offset_from_integer(&size)?.mul_scalar(PI)?.sin()?.abs()?;
    let reflected = sine.log()?.add(&size.log()?)?.add(&value)?.rsub_scalar(PI.ln())?;
    // Poles. Where the function of the magnitude is infinite, all numbers are integers and
    // therefore poles.
    let reflected = reflected.masked_fill(&size.eq(&size.round()?)?, f64::INFINITY)?;
    // Below 1e-20 the function is -log |x| for both signs, and pi times a subnormal number has few
    // digits.
    let is_reflected = x.lt_scalar(0)?.logical_and(&size.ge_scalar(1e-20)?)?;
    is_reflected.where_(&reflected, &value)
}

fn lgamma_of_positive(size: &Tensor) -> Result<Tensor> {
    let far = size.maximum_scalar(FAR)?;
    let inverse = far.recip()?;
    let correction =
        polynomial(&inverse.square()?, for_dtype(size, &STIRLING[..], &STIRLING[..3]))?.mul(&inverse)?;
    let main = far.sub_scalar(0.5)?.mul(&far.log()?.sub_scalar(1)?)?.add_scalar(0.5 * (TAU.ln() - 1.0))?;
    size.ge_scalar(FAR)?.where_(&main.add(&correction)?, &lgamma_below(size)?)
}

/// Computes the function from 0 to [`FAR`]: `Gamma(x) = (x - 1) .. (x - k) Gamma(x - k)`, and
/// `Gamma(x) = Gamma(x + 1) / x`.
fn lgamma_below(size: &Tensor) -> Result<Tensor> {
    let mut near = size.clamp(0.0, FAR)?;
    let mut product = near.full_like(1)?;
    for _ in 0..6 {
        let is_above = near.gt_scalar(2.5)?;
        let decremented = near.sub_scalar(1)?;
        product = is_above.where_(&product.mul(&decremented)?, &product)?;
        near = is_above.where_(&decremented, &near)?;
    }
    let (is_below, is_middle) = (near.lt_scalar(0.5)?, near.lt_scalar(1.5)?);
    let z = is_below.where_(&near, &is_middle.where_(&near.sub_scalar(1)?, &near.sub_scalar(2)?)?)?;
    let value = polynomial(&z, for_dtype(size, &LGAMMA[..], &LGAMMA_SHORT[..]))?.mul(&z)?;
    let factor = is_middle.where_(&near, &product)?.log()?;
    let value = is_middle.where_(&value.sub(&factor)?, &value.add(&factor)?)?;
    is_below.where_(&value.sub(&near.log1p()?)?, &value)
}

/// The zero of digamma as a sum of three numbers, the first of which has few digits (OEIS A030169).
const ZERO: [f64; 3] = [1.4616241455078125, 7.999460549841262e-06, 3.7762852363112324e-22];

/// `digamma(x) / (x - ZERO)` for x from 1 to 2 as powers of `x - 1.5`, interpolated at Chebyshev
/// points with 60 digits. Relative error below 2e-16.
const DIGAMMA: [f64; 21] = [
    0.9510558760318328,
    -0.4236274212814573,
    0.24054248424078478,
    -0.14840492305485808,
    0.09498872445354183,
    -0.06192213319072707,
    0.0407608338843387,
    -0.026975800029253667,
    0.017907250563619775,
    -0.011908146513976738,
    0.007926972735646359,
    -0.005280903066090605,
    0.0035187504361950134,
    -0.002337552647103118,
    0.0015580749137213761,
    -0.0010776863967234226,
    0.0007184107969046378,
    -0.00035476352053371977,
    0.00023650171719339814,
    -0.0003783907897248858,
    0.0002522590506964885,
];

/// The same with an error of 3e-8, for f32.
const DIGAMMA_SHORT: [f64; 10] = [
    0.9510558962329134,
    -0.42362743473901193,
    0.24053845299247192,
    -0.14840223752060958,
    0.09511622179338902,
    -0.062007068861342586,
    0.03936941933941425,
    -0.02604888222714401,
    0.023909071438577043,
    -0.01590631756163065,
];

/// `B_2k / 2k` with the Bernoulli numbers (DLMF 5.11.2).
const DIGAMMA_FAR: [f64; 9] = [
    1.0 / 12.0,
    -1.0 / 120.0,
    1.0 / 252.0,
    -1.0 / 240.0,
    1.0 / 132.0,
    -691.0 / 32760.0,
    1.0 / 12.0,
    -3617.0 / 8160.0,
    43867.0 / 14364.0,
];

/// Returns `digamma(1 - x) - pi / tan(pi x)` for negative numbers.
fn digamma_value(x: &Tensor) -> Result<Tensor> {
    let is_negative = x.lt_scalar(0)?;
    let value = digamma_of_positive(&is_negative.where_(&x.rsub_scalar(1)?, x)?)?;
    let offset = offset_from_integer(&x.abs()?)?;
    let angle = offset.mul_scalar(PI)?;
    let cotangent = angle.cos()?.div(&angle.sin()?)?.mul_scalar(PI)?;
    // Pi times a subnormal number has few digits.
    let cotangent = offset.abs()?.lt_scalar(1e-10)?.where_(&offset.recip()?, &cotangent)?;
    let reflected = value.add(&cotangent)?.masked_fill(&offset.eq_scalar(0)?, f64::NAN)?;
    let value = is_negative.where_(&reflected, &value)?;
    x.eq_scalar(0)?.where_(&x.recip()?.neg()?, &value)
}

fn digamma_of_positive(size: &Tensor) -> Result<Tensor> {
    let far = size.maximum_scalar(FAR)?;
    let inverse = far.recip()?;
    let square = inverse.square()?;
    let correction =
        polynomial(&square, for_dtype(size, &DIGAMMA_FAR[..], &DIGAMMA_FAR[..3]))?.mul(&square)?;
    let main = far.log()?.sub(&inverse.mul_scalar(0.5)?)?.sub(&correction)?;
    size.ge_scalar(FAR)?.where_(&main, &digamma_below(size)?)
}

/// Computes the function from 0 to [`FAR`]: `digamma(x) = digamma(x - 1) + 1 / (x - 1)`.
fn digamma_below(size: &Tensor) -> Result<Tensor> {
    let mut near = size.clamp(0.0, FAR)?;
    let mut sum = near.zeros_like()?;
    for _ in 0..6 {
        let is_above = near.gt_scalar(2)?;
        let decremented = near.sub_scalar(1)?;
        sum = is_above.where_(&sum.add(&decremented.recip()?)?, &sum)?;
        near = is_above.where_(&decremented, &near)?;
    }
    let is_below = near.lt_scalar(1)?;
    let sum = is_below.where_(&near.recip()?.neg()?, &sum)?;
    let near = is_below.where_(&near.add_scalar(1)?, &near)?;
    let coefficients = for_dtype(size, &DIGAMMA[..], &DIGAMMA_SHORT[..]);
    let past_zero = near.sub_scalar(ZERO[0])?.sub_scalar(ZERO[1])?.sub_scalar(ZERO[2])?;
    polynomial(&near.sub_scalar(1.5)?, coefficients)?.mul(&past_zero)?.add(&sum)
}
