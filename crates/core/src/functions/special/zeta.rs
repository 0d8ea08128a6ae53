//! Hurwitz's zeta function and the derivatives of digamma.

use super::{for_dtype, past_whole};
use crate::functions::{binary, unary};
use crate::{Error, Result, Tensor};
use std::f64::consts::{LN_2, TAU};

impl Tensor {
    /// Hurwitz's zeta function `sum of (other + k)^-self` over `k >= 0`, broadcast; this tensor is the order. Infinite of order 1 and where
    /// `other` is a whole number of at most 0, NaN of orders below 1, and of orders that are no whole numbers where `other` is negative.
    ///
    /// By the formula of Euler and Maclaurin (DLMF 25.11.5); of negative numbers by the sum over all whole k, which is that of two zeta functions.
    ///
    /// # Errors
    /// Shapes that do not broadcast, dtypes that differ or are not floating. The gradient with respect to the order, as in PyTorch.
    pub fn zeta(&self, other: &Tensor) -> Result<Tensor> {
        binary("zeta", [self, other], zeta_value, [order_grad, zeta_grad])
    }

    /// The derivative of this order of [`digamma`](Tensor::digamma), which is that of order 0:
    /// `(-1)^(order + 1) order! zeta(order + 1, x)` (DLMF 5.15.2).
    ///
    /// # Errors
    /// A dtype that is not floating, an order below 0.
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
    let found = everywhere(order, x, Units { scale: 1.0, factor: 1.0 })?;
    let fraction = order.ne(&order.floor()?)?.logical_and(&x.lt_scalar(0)?)?;
    let found = found.masked_fill(&fraction, f64::NAN)?;
    let pole = x.le_scalar(0)?.logical_and(&x.eq(&x.floor()?)?)?;
    let found = found.masked_fill(&pole.logical_or(&order.eq_scalar(1)?)?, f64::INFINITY)?;
    found.masked_fill(&order.lt_scalar(1)?, f64::NAN)
}

/// `order!` in two factors, one of them a power of two within the powers of the sum: alone it would overflow where the product does not.
fn polygamma_value(x: &Tensor, order: i64) -> Result<Tensor> {
    let power = order as f64 + 1.0;
    let scale = (log_factorial(order) / power / LN_2).floor().exp2();
    let sign = if order % 2 == 0 { -1.0 } else { 1.0 };
    let units = Units { scale, factor: sign * scaled_factorial(order, scale) };
    let found = everywhere(&x.scalar_like(power)?, x, units)?;
    let pole = x.le_scalar(0)?.logical_and(&x.eq(&x.floor()?)?)?;
    found.masked_fill(&pole, f64::INFINITY * sign)
}

/// What the numbers are divided by in the sum, and what it is multiplied by.
#[derive(Clone, Copy)]
struct Units {
    scale: f64,
    factor: f64,
}

/// Up to here products of factors have more digits than Stirling's series.
const SMALL_ORDER: i64 = 170;

/// `n! / scale^(n + 1)`.
fn scaled_factorial(n: i64, scale: f64) -> f64 {
    if n <= SMALL_ORDER {
        return (1..=n).map(|k| k as f64 / scale).product::<f64>() / scale;
    }
    (log_factorial(n) - (n as f64 + 1.0) * scale.ln()).exp()
}

/// The logarithm of `n!`: of its factors, or by Stirling's series (DLMF 5.11.1).
fn log_factorial(n: i64) -> f64 {
    if n <= SMALL_ORDER {
        return (2..=n).map(|k| (k as f64).ln()).sum();
    }
    let x = n as f64 + 1.0;
    let correction = (1.0 / 12.0 - 1.0 / (360.0 * x * x)) / x;
    (x - 0.5) * (x.ln() - 1.0) + 0.5 * (TAU.ln() - 1.0) + correction
}

/// `factor` times the sum over `k >= 0` of `((x + k) / scale)^-order`, of negative x for whole orders only.
///
/// With `r = x - n` for the whole number n next to x, the sum over all k, of r as of x, is `r^-s + zeta(s, 1 + r) ± zeta(s, 1 - r)`, and what
/// zeta of a negative x lacks is `±zeta(s, 1 - x)`.
fn everywhere(order: &Tensor, x: &Tensor, units: Units) -> Result<Tensor> {
    let negative = x.lt_scalar(0)?;
    let rest = past_whole(x)?;
    let half = order.mul_scalar(0.5)?;
    let is_odd = half.ne(&half.floor()?)?;
    let first = series(order, &negative.where_(&rest.add_scalar(1)?, x)?, units)?;
    let second =
        series(order, &rest.rsub_scalar(1)?, units)?.sub(&series(order, &x.abs()?.add_scalar(1)?, units)?)?;
    let own = rest.abs()?.div_scalar(units.scale)?.pow(&order.neg()?)?.mul_scalar(units.factor)?;
    let own = is_odd.logical_and(&rest.lt_scalar(0)?)?.where_(&own.neg()?, &own)?;
    let reflected = own.add(&is_odd.where_(&first.sub(&second)?, &first.add(&second)?)?)?;
    // The term of the smallest base overflows first: others may be infinite with another sign.
    let reflected = own.abs()?.eq_scalar(f64::INFINITY)?.where_(&own, &reflected)?;
    negative.where_(&reflected, &first)
}

/// The Bernoulli numbers `B_2j / (2j)!` from `j = 1` on.
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

/// The same sum for positive x by the formula of Euler and Maclaurin: from the start where x is large beside the order, else behind the first terms.
///
/// Far away the sum is `x` times as large as its terms, which vanish where it does not: there it is taken from its integral.
fn series(order: &Tensor, x: &Tensor, units: Units) -> Result<Tensor> {
    let scale = units.scale;
    let &(terms, corrections) = for_dtype(x, &(10, 11), &(5, 6));
    let from = x.add_scalar(f64::from(terms))?;
    let power = order.neg()?;
    let last = from.div_scalar(scale)?.pow(&power)?;
    // The integral from there on, and half of the first term.
    let factors = from.div(&order.sub_scalar(1)?)?.add(&end_corrections(order, &from, corrections)?)?;
    // Factors of what is 0 may be infinite.
    let mut sum = last.mul(&factors)?.masked_fill(&last.eq_scalar(0)?, 0)?;
    for k in (0..terms).rev() {
        sum = sum.add(&x.add_scalar(f64::from(k))?.div_scalar(scale)?.pow(&power)?)?;
    }
    let sum = sum.mul_scalar(units.factor)?;
    x.ge(&order.add_scalar(FAR)?)?.where_(&far_series(order, x, units, corrections)?, &sum)
}

/// From this distance above the order on the corrections at x itself have all digits.
const FAR: f64 = 24.0;

/// The integral and its corrections at `x`: `scale / (s - 1) (x / scale)^(1 - s) (1 + (s - 1) / x ..)`. The power is taken as a product of two square roots, between which the
/// factors are: alone it would vanish before the product does.
fn far_series(order: &Tensor, x: &Tensor, units: Units, corrections: usize) -> Result<Tensor> {
    let less = order.sub_scalar(1)?;
    let root = x.div_scalar(units.scale)?.pow(&less.mul_scalar(-0.5)?)?;
    let ends = end_corrections(order, x, corrections)?.mul(&less)?.div(x)?.add_scalar(1)?;
    let found = root.div(&less)?.mul_scalar(units.scale * units.factor)?.mul(&ends)?.mul(&root)?;
    found.masked_fill(&root.eq_scalar(0)?, 0)
}

/// What the sum from `from` on has beyond its integral, in units of its first term: half of that, and the derivatives at the end.
fn end_corrections(order: &Tensor, from: &Tensor, corrections: usize) -> Result<Tensor> {
    let inverse = from.recip()?;
    let mut rising = order.mul(&inverse)?;
    let mut sum = rising.mul_scalar(BERNOULLI[0])?.add_scalar(0.5)?;
    for (j, &bernoulli) in BERNOULLI.iter().enumerate().take(corrections).skip(1) {
        let j = 2.0 * j as f64;
        rising = rising.mul(&order.add_scalar(j - 1.0)?.mul(&inverse)?)?;
        rising = rising.mul(&order.add_scalar(j)?.mul(&inverse)?)?;
        sum = sum.add(&rising.mul_scalar(bernoulli)?)?;
    }
    Ok(sum)
}
