//! The Hurwitz zeta function and the derivatives of digamma.

use super::{for_dtype, offset_from_integer};
use crate::functions::{binary, unary};
use crate::{DType, Error, Result, Tensor};
use std::f64::consts::{LN_2, TAU};

impl Tensor {
    /// Returns the Hurwitz zeta function `sum of (other + k)^-self` over `k >= 0`, with
    /// broadcasting; this tensor is the order. The result is infinite for order 1 and where `other`
    /// is a nonpositive integer. It is NaN for orders below 1, and for non-integer orders where
    /// `other` is negative.
    ///
    /// Uses the Euler-Maclaurin formula (DLMF 25.11.5), and for negative numbers the sum over all
    /// integers k, which is a combination of two zeta functions.
    ///
    /// # Errors
    /// Returns an error if the shapes do not broadcast, or if the dtypes differ or are not
    /// floating-point. The gradient with respect to the order is also an error, as in PyTorch.
    pub fn zeta(&self, other: &Tensor) -> Result<Tensor> {
        binary("zeta", [self, other], zeta_value, [order_grad, zeta_grad])
    }

    /// Returns the derivative of the given order of [`digamma`](Tensor::digamma):
    /// `(-1)^(order + 1) order! zeta(order + 1, x)` (DLMF 5.15.2). Order 0 is `digamma` itself.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point, or if the order is negative.
    pub fn polygamma(&self, order: i64) -> Result<Tensor> {
        match order {
            ..0 => Err(Error::invalid("polygamma", format!("order {order}, expected at least 0"))),
            0 => self.digamma(),
            _ => {
                let next = order.saturating_add(1);
                unary("polygamma", self, move |x| polygamma_value(x, order), move |x| x.polygamma(next))
            }
        }
    }
}

fn order_grad(_: &Tensor, _: &Tensor) -> Result<Tensor> {
    Err(Error::autograd("zeta: no gradient with respect to the order"))
}

fn zeta_grad(order: &Tensor, x: &Tensor) -> Result<Tensor> {
    order.add_scalar(1)?.zeta(x)?.mul(&order.neg()?)
}

fn zeta_value(order: &Tensor, x: &Tensor) -> Result<Tensor> {
    let value = hurwitz_zeta(order, x, Units::ONE)?;
    let is_undefined = order.ne(&order.floor()?)?.logical_and(&x.lt_scalar(0)?)?;
    let value = value.masked_fill(&is_undefined, f64::NAN)?;
    let is_pole = x.le_scalar(0)?.logical_and(&x.eq(&x.floor()?)?)?;
    let value = value.masked_fill(&is_pole.logical_or(&order.eq_scalar(1)?)?, f64::INFINITY)?;
    value.masked_fill(&order.lt_scalar(1)?, f64::NAN)
}

fn polygamma_value(x: &Tensor, order: i64) -> Result<Tensor> {
    let power = x.scalar_like(order as f64 + 1.0)?;
    let value = hurwitz_zeta(&power, x, Units::of_factorial(order, x.dtype() == DType::F64))?;
    let is_pole = x.le_scalar(0)?.logical_and(&x.eq(&x.floor()?)?)?;
    let value = value.masked_fill(&is_pole, f64::INFINITY)?;
    if order % 2 == 0 { value.neg() } else { Ok(value) }
}

/// The factor of the terms of a sum of powers.
///
/// A factor such as `order!` may overflow, and the powers may underflow, where their products do
/// neither. Therefore the arguments are first divided by a power of two, and a term is
/// `root^(2^halvings)`, where the root is in range wherever the term is.
#[derive(Clone, Copy)]
struct Units {
    scale: f64,
    /// The root of the remaining factor.
    factor: f64,
    halvings: i32,
}

impl Units {
    const ONE: Units = Units { scale: 1.0, factor: 1.0, halvings: 0 };

    /// Returns units for the factor `order!` and powers of `-(order + 1)`.
    fn of_factorial(order: i64, is_f64: bool) -> Units {
        let power = order as f64 + 1.0;
        let scale = (log_factorial(order) / power / LN_2).floor().exp2();
        // The largest power for which a term needs no root, and the largest exponent of 2 that the
        // factor of a root may have: twice the remaining exponent range covers the range of terms.
        let (single, range) = if is_f64 { (128.0, 400.0) } else { (16.0, 50.0) };
        let halvings = if power <= single { 0 } else { (power / range).log2().ceil().max(1.0) as i32 };
        Units { scale, factor: scaled_factorial(order, scale, 2f64.powi(-halvings)), halvings }
    }

    /// Returns units with at least one root.
    fn halved(self) -> Units {
        if self.halvings > 0 { self } else { Units { factor: self.factor.sqrt(), halvings: 1, ..self } }
    }

    /// Returns `x^power` in these units, times `fraction`, which may be small where the power
    /// overflows.
    fn term(self, x: &Tensor, power: &Tensor, fraction: Option<&Tensor>) -> Result<Tensor> {
        let root_power = power.mul_scalar(2f64.powi(-self.halvings))?;
        let mut root = x.div_scalar(self.scale)?.pow(&root_power)?.mul_scalar(self.factor)?;
        for _ in 1..self.halvings {
            root = root.square()?;
        }
        let value = fraction.map_or_else(|| Ok(root.clone()), |fraction| root.mul(fraction))?;
        if self.halvings == 0 { Ok(value) } else { value.mul(&root) }
    }
}

/// Up to this order, products of factors are more accurate than Stirling's series.
const SMALL_ORDER: i64 = 1000;

/// Returns `n! / scale^(n + 1)` to the given power.
fn scaled_factorial(n: i64, scale: f64, power: f64) -> f64 {
    if n > SMALL_ORDER {
        return ((log_factorial(n) - (n as f64 + 1.0) * scale.ln()) * power).exp();
    }
    // Multiplies the factors below 1, whose product may become very small, apart from the others.
    let (small, large): (Vec<f64>, Vec<f64>) =
        (1..=n).map(|k| k as f64 / scale).partition(|&factor| factor < 1.0);
    let part = |factors: &[f64]| factors.iter().map(|factor| factor.powf(power)).product::<f64>();
    part(&small) * part(&large) * scale.powf(-power)
}

/// Returns the logarithm of `n!`, from its factors or by Stirling's series (DLMF 5.11.1).
fn log_factorial(n: i64) -> f64 {
    if n <= SMALL_ORDER {
        return (2..=n).map(|k| (k as f64).ln()).sum();
    }
    let x = n as f64 + 1.0;
    let correction = (1.0 / 12.0 - 1.0 / (360.0 * x * x)) / x;
    (x - 0.5) * (x.ln() - 1.0) + 0.5 * (TAU.ln() - 1.0) + correction
}

/// Returns the sum over `k >= 0` of `(x + k)^-order` in these units; for negative x only for
/// integer orders.
///
/// Let n be the integer nearest to x, and `r = x - n`. The sum over all integers k is the same for
/// r and x: `zeta(s, |r|) ± zeta(s, 1 - |r|)`, with the sign of r if the order is odd. Zeta of a
/// negative x is this sum without `±zeta(s, 1 - x)`. Halfway between two poles the difference
/// vanishes and only that term remains, so differences are summed term by term.
fn hurwitz_zeta(order: &Tensor, x: &Tensor, units: Units) -> Result<Tensor> {
    let is_negative = x.lt_scalar(0)?;
    let positive_sum = series(order, &is_negative.where_(&x.rsub_scalar(1)?, x)?, units)?;
    let offset = offset_from_integer(x)?;
    let near = offset.abs()?;
    // Exact near 1/2.
    let shift = near.rsub_scalar(0.5)?.mul_scalar(2)?;
    let difference = difference_of_series(order, &near, &shift, units)?;
    let sum = series(order, &near.rsub_scalar(1)?, units)?.mul_scalar(2)?.add(&difference)?;
    let signed = offset.lt_scalar(0)?.where_(&difference.neg()?, &difference)?;
    let half = order.mul_scalar(0.5)?;
    let is_odd = half.ne(&half.floor()?)?;
    let all = is_odd.where_(&signed, &sum)?;
    let reflected = all.sub(&is_odd.where_(&positive_sum.neg()?, &positive_sum)?)?;
    // The sum over all k overflows first, and the other sum may be infinite with the opposite sign.
    let reflected = all.abs()?.eq_scalar(f64::INFINITY)?.where_(&all, &reflected)?;
    is_negative.where_(&reflected, &positive_sum)
}

/// `B_2j / (2j)!` with the Bernoulli numbers, starting with `j = 1`.
const BERNOULLI: [f64; 11] = [
    1.0 / 12.0,
    -1.0 / 720.0,
    1.0 / 30240.0,
    -1.0 / 1209600.0,
    1.0 / 47900160.0,
    -691.0 / 1307674368000.0,
    1.0 / 74724249600.0,
    -3617.0 / 10670622842880000.0,
    43867.0 / 5109094217170944000.0,
    -174611.0 / 802857662698291200000.0,
    77683.0 / 14101100039391805440000.0,
];

/// Returns the number of terms before the integral, and the number of corrections after it.
fn term_counts(x: &Tensor) -> (u8, usize) {
    *for_dtype(x, &(10, 11), &(5, 6))
}

/// Returns the sum of [`hurwitz_zeta`] for positive x by the Euler-Maclaurin formula, which is
/// applied at x itself where x is large compared with the order, otherwise after the first terms.
///
/// For large x the sum is about `x` times as large as its terms, which may underflow where the sum
/// does not. There it is computed from its integral.
fn series(order: &Tensor, x: &Tensor, units: Units) -> Result<Tensor> {
    let (terms, corrections) = term_counts(x);
    let from = x.add_scalar(f64::from(terms))?;
    let power = order.neg()?;
    let last = units.term(&from, &power, None)?;
    // The integral from this point on, and half of the first term.
    let factors = from.div(&order.sub_scalar(1)?)?.add(&end_corrections(order, &from, corrections)?)?;
    // The factors of a term that is 0 may be infinite.
    let mut sum = last.mul(&factors)?.masked_fill(&last.eq_scalar(0)?, 0)?;
    for k in (1..terms).rev() {
        sum = sum.add(&units.term(&x.add_scalar(f64::from(k))?, &power, None)?)?;
    }
    let sum = with_first(&units.term(x, &power, None)?, &sum)?;
    x.ge(&order.add_scalar(FAR)?)?.where_(&asymptotic_sum(order, x, units, corrections)?, &sum)
}

/// Returns the first term plus the sum of the others. Where the first term is infinite, the sum is
/// not added: its corrections have no correct digits there, and may be infinite with the opposite
/// sign.
fn with_first(first: &Tensor, others: &Tensor) -> Result<Tensor> {
    first.eq_scalar(f64::INFINITY)?.where_(first, &first.add(others)?)
}

/// Returns `zeta(s, x) - zeta(s, x + shift)` for x up to 1/2 and `shift` up to 1, as a sum of
/// differences of terms, of the integrals and of the corrections.
fn difference_of_series(order: &Tensor, x: &Tensor, shift: &Tensor, units: Units) -> Result<Tensor> {
    let (terms, corrections) = term_counts(x);
    let power = order.neg()?;
    let pair = |k: u8| {
        let shifted = x.add_scalar(f64::from(k))?;
        units.term(&shifted, &power, Some(&fraction_lost(&shifted, shift, order)?))
    };
    let from = x.add_scalar(f64::from(terms))?;
    let ends = end_difference(order, &from, shift, corrections)?;
    let mut sum = units.term(&from, &power, Some(&ends))?;
    for k in (1..terms).rev() {
        sum = sum.add(&pair(k)?)?;
    }
    // Where `shift` is 0, a fraction of 0 of an infinite term would be NaN.
    with_first(&pair(0)?, &sum)?.masked_fill(&shift.eq_scalar(0)?, 0)
}

/// Returns `1 - (x / (x + shift))^power`.
fn fraction_lost(x: &Tensor, shift: &Tensor, power: &Tensor) -> Result<Tensor> {
    shift.div(x)?.log1p()?.mul(power)?.neg()?.expm1()?.neg()
}

/// Returns the integral from `from` on and its corrections minus those from `from + shift` on, in
/// units of the first term of the sum from `from` on.
fn end_difference(order: &Tensor, from: &Tensor, shift: &Tensor, corrections: usize) -> Result<Tensor> {
    // The fraction lost by a power with exponent p + q, from the fractions lost with exponents p
    // and q.
    let lost_by_product = |p: &Tensor, q: &Tensor| p.add(&q.mul(&p.rsub_scalar(1)?)?);
    let one = shift.div(&from.add(shift)?)?;
    let two = lost_by_product(&one, &one)?;
    let less = order.sub_scalar(1)?;
    let mut fraction = fraction_lost(from, shift, &less)?;
    let integral = from.div(&less)?.mul(&fraction)?;
    fraction = lost_by_product(&fraction, &one)?;
    let mut sum = integral.add(&fraction.mul_scalar(0.5)?)?;
    fraction = lost_by_product(&fraction, &one)?;
    let inverse = from.recip()?;
    let mut rising = order.mul(&inverse)?;
    for (j, &bernoulli) in BERNOULLI.iter().enumerate().take(corrections) {
        if j > 0 {
            rising = next_rising_factor(&rising, order, &inverse, j)?;
            fraction = lost_by_product(&fraction, &two)?;
        }
        sum = sum.add(&rising.mul(&fraction)?.mul_scalar(bernoulli)?)?;
    }
    Ok(sum)
}

/// From this distance above the order on, the corrections at x itself are accurate to all digits.
const FAR: f64 = 24.0;

/// Returns the integral and its corrections at `x`:
/// `scale / (s - 1) (x / scale)^(1 - s) (1 + (s - 1) / x ..)`. The power is a product of two square
/// roots, and the factors are multiplied in between, because the power may underflow where the
/// product does not.
fn asymptotic_sum(order: &Tensor, x: &Tensor, units: Units, corrections: usize) -> Result<Tensor> {
    let less = order.sub_scalar(1)?;
    let ends = end_corrections(order, x, corrections)?.mul(&less)?.div(x)?.add_scalar(1)?;
    units.halved().term(x, &less.neg()?, Some(&ends.div(&less)?.mul_scalar(units.scale)?))
}

/// Returns the difference between the sum from `from` on and its integral, in units of the first
/// term: half of that term, and the derivatives at the end.
fn end_corrections(order: &Tensor, from: &Tensor, corrections: usize) -> Result<Tensor> {
    let inverse = from.recip()?;
    let mut rising = order.mul(&inverse)?;
    let mut sum = rising.mul_scalar(BERNOULLI[0])?.add_scalar(0.5)?;
    for (j, &bernoulli) in BERNOULLI.iter().enumerate().take(corrections).skip(1) {
        rising = next_rising_factor(&rising, order, &inverse, j)?;
        sum = sum.add(&rising.mul_scalar(bernoulli)?)?;
    }
    Ok(sum)
}

/// Returns the factors of correction `j`, from those of the previous one.
fn next_rising_factor(rising: &Tensor, order: &Tensor, inverse: &Tensor, j: usize) -> Result<Tensor> {
    let j = 2.0 * j as f64;
    let once = rising.mul(&order.add_scalar(j - 1.0)?.mul(inverse)?)?;
    once.mul(&order.add_scalar(j)?.mul(inverse)?)
}
