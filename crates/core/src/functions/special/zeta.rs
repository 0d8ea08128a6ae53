//! Hurwitz's zeta function and the derivatives of digamma.

use super::{for_dtype, past_whole};
use crate::functions::{binary, unary};
use crate::{DType, Error, Result, Tensor};
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
    let found = everywhere(order, x, Units::ONE)?;
    let fraction = order.ne(&order.floor()?)?.logical_and(&x.lt_scalar(0)?)?;
    let found = found.masked_fill(&fraction, f64::NAN)?;
    let pole = x.le_scalar(0)?.logical_and(&x.eq(&x.floor()?)?)?;
    let found = found.masked_fill(&pole.logical_or(&order.eq_scalar(1)?)?, f64::INFINITY)?;
    found.masked_fill(&order.lt_scalar(1)?, f64::NAN)
}

fn polygamma_value(x: &Tensor, order: i64) -> Result<Tensor> {
    let power = x.scalar_like(order as f64 + 1.0)?;
    let found = everywhere(&power, x, Units::of_factorial(order, x.dtype() == DType::F64))?;
    let pole = x.le_scalar(0)?.logical_and(&x.eq(&x.floor()?)?)?;
    let found = found.masked_fill(&pole, f64::INFINITY)?;
    if order % 2 == 0 { found.neg() } else { Ok(found) }
}

/// What the terms of a sum of powers are multiplied by.
///
/// Factors as large as `order!` and powers as small as theirs are beyond the dtype where their products are not. Numbers are divided by a power of two
/// before, and a term is `root^(2^halvings)`, of a root that is within the dtype wherever the term is.
#[derive(Clone, Copy)]
struct Units {
    scale: f64,
    /// The root of the rest of the factor.
    factor: f64,
    halvings: i32,
}

impl Units {
    const ONE: Units = Units { scale: 1.0, factor: 1.0, halvings: 0 };

    /// `order!` for powers of `-(order + 1)`.
    fn of_factorial(order: i64, is_f64: bool) -> Units {
        let power = order as f64 + 1.0;
        let scale = (log_factorial(order) / power / LN_2).floor().exp2();
        // Powers up to which a term needs no root, and how much of the exponent's range the factor of a root may take: what is left of it twice is that of terms.
        let (single, range) = if is_f64 { (128.0, 400.0) } else { (16.0, 50.0) };
        let halvings = if power <= single { 0 } else { (power / range).log2().ceil().max(1.0) as i32 };
        Units { scale, factor: scaled_factorial(order, scale, 2f64.powi(-halvings)), halvings }
    }

    /// With a root at least.
    fn halved(self) -> Units {
        if self.halvings > 0 { self } else { Units { factor: self.factor.sqrt(), halvings: 1, ..self } }
    }

    /// `x^power` in these units, times `share`, which may be small where the power is beyond the dtype.
    fn term(self, x: &Tensor, power: &Tensor, share: Option<&Tensor>) -> Result<Tensor> {
        let part = power.mul_scalar(2f64.powi(-self.halvings))?;
        let mut root = x.div_scalar(self.scale)?.pow(&part)?.mul_scalar(self.factor)?;
        for _ in 1..self.halvings {
            root = root.square()?;
        }
        let found = share.map_or_else(|| Ok(root.clone()), |share| root.mul(share))?;
        if self.halvings == 0 { Ok(found) } else { found.mul(&root) }
    }
}

/// Up to here products of factors have more digits than Stirling's series.
const SMALL_ORDER: i64 = 1000;

/// `n! / scale^(n + 1)` to this power.
fn scaled_factorial(n: i64, scale: f64, power: f64) -> f64 {
    if n > SMALL_ORDER {
        return ((log_factorial(n) - (n as f64 + 1.0) * scale.ln()) * power).exp();
    }
    // The first factors are small, and their product may be below any f64.
    let (small, large): (Vec<f64>, Vec<f64>) =
        (1..=n).map(|k| k as f64 / scale).partition(|&factor| factor < 1.0);
    let part = |factors: &[f64]| factors.iter().map(|factor| factor.powf(power)).product::<f64>();
    part(&small) * part(&large) * scale.powf(-power)
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

/// The sum over `k >= 0` of `(x + k)^-order` in these units, of negative x for whole orders only.
///
/// With `r = x - n` for the whole number n next to x, the sum over all k, of r as of x, is `zeta(s, |r|) ± zeta(s, 1 - |r|)`, with the sign of r where the order is odd,
/// and what zeta of a negative x lacks is `±zeta(s, 1 - x)`. Half way between two poles the difference vanishes and that is all there is: differences are summed as such.
fn everywhere(order: &Tensor, x: &Tensor, units: Units) -> Result<Tensor> {
    let negative = x.lt_scalar(0)?;
    let beyond = series(order, &negative.where_(&x.rsub_scalar(1)?, x)?, units)?;
    let rest = past_whole(x)?;
    let near = rest.abs()?;
    // Exact near 1/2.
    let apart = near.rsub_scalar(0.5)?.mul_scalar(2)?;
    let difference = difference_of_series(order, &near, &apart, units)?;
    let sum = series(order, &near.rsub_scalar(1)?, units)?.mul_scalar(2)?.add(&difference)?;
    let signed = rest.lt_scalar(0)?.where_(&difference.neg()?, &difference)?;
    let half = order.mul_scalar(0.5)?;
    let is_odd = half.ne(&half.floor()?)?;
    let all = is_odd.where_(&signed, &sum)?;
    let reflected = all.sub(&is_odd.where_(&beyond.neg()?, &beyond)?)?;
    // The sum over all k overflows first: the other may be infinite with another sign.
    let reflected = all.abs()?.eq_scalar(f64::INFINITY)?.where_(&all, &reflected)?;
    negative.where_(&reflected, &beyond)
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

/// How many terms stand before the integral, and how many corrections behind it.
fn lengths(x: &Tensor) -> (u8, usize) {
    *for_dtype(x, &(10, 11), &(5, 6))
}

/// The same sum for positive x by the formula of Euler and Maclaurin: from the start where x is large beside the order, else behind the first terms.
///
/// Far away the sum is `x` times as large as its terms, which vanish where it does not: there it is taken from its integral.
fn series(order: &Tensor, x: &Tensor, units: Units) -> Result<Tensor> {
    let (terms, corrections) = lengths(x);
    let from = x.add_scalar(f64::from(terms))?;
    let power = order.neg()?;
    let last = units.term(&from, &power, None)?;
    // The integral from there on, and half of the first term.
    let factors = from.div(&order.sub_scalar(1)?)?.add(&end_corrections(order, &from, corrections)?)?;
    // Factors of what is 0 may be infinite.
    let mut sum = last.mul(&factors)?.masked_fill(&last.eq_scalar(0)?, 0)?;
    for k in (1..terms).rev() {
        sum = sum.add(&units.term(&x.add_scalar(f64::from(k))?, &power, None)?)?;
    }
    let sum = with_first(&units.term(x, &power, None)?, &sum)?;
    x.ge(&order.add_scalar(FAR)?)?.where_(&far_series(order, x, units, corrections)?, &sum)
}

/// The first term and the sum of the others, whose corrections have no digits, and may be infinite with another sign, where the first is infinite.
fn with_first(first: &Tensor, others: &Tensor) -> Result<Tensor> {
    first.eq_scalar(f64::INFINITY)?.where_(first, &first.add(others)?)
}

/// `zeta(s, x) - zeta(s, x + apart)` for x up to 1/2 and `apart` up to 1: pairs of terms, and the integral and its corrections as differences too.
fn difference_of_series(order: &Tensor, x: &Tensor, apart: &Tensor, units: Units) -> Result<Tensor> {
    let (terms, corrections) = lengths(x);
    let power = order.neg()?;
    let pair = |k: u8| {
        let at = x.add_scalar(f64::from(k))?;
        units.term(&at, &power, Some(&share_lost(&at, apart, order)?))
    };
    let from = x.add_scalar(f64::from(terms))?;
    let ends = end_of_difference(order, &from, apart, corrections)?;
    let mut sum = units.term(&from, &power, Some(&ends))?;
    for k in (1..terms).rev() {
        sum = sum.add(&pair(k)?)?;
    }
    // A share of 0 of what is infinite.
    with_first(&pair(0)?, &sum)?.masked_fill(&apart.eq_scalar(0)?, 0)
}

/// `1 - (x / (x + apart))^power`.
fn share_lost(x: &Tensor, apart: &Tensor, power: &Tensor) -> Result<Tensor> {
    apart.div(x)?.log1p()?.mul(power)?.neg()?.expm1()?.neg()
}

/// The integral from `from` on and its corrections less those from `from + apart` on, in units of the first term of the former.
fn end_of_difference(order: &Tensor, from: &Tensor, apart: &Tensor, corrections: usize) -> Result<Tensor> {
    // What is lost of a power p + q, by what is lost of p and of q.
    let joined = |p: &Tensor, q: &Tensor| p.add(&q.mul(&p.rsub_scalar(1)?)?);
    let one = apart.div(&from.add(apart)?)?;
    let two = joined(&one, &one)?;
    let less = order.sub_scalar(1)?;
    let mut share = share_lost(from, apart, &less)?;
    let integral = from.div(&less)?.mul(&share)?;
    share = joined(&share, &one)?;
    let mut sum = integral.add(&share.mul_scalar(0.5)?)?;
    share = joined(&share, &one)?;
    let inverse = from.recip()?;
    let mut rising = order.mul(&inverse)?;
    for (j, &bernoulli) in BERNOULLI.iter().enumerate().take(corrections) {
        if j > 0 {
            rising = risen(&rising, order, &inverse, j)?;
            share = joined(&share, &two)?;
        }
        sum = sum.add(&rising.mul(&share)?.mul_scalar(bernoulli)?)?;
    }
    Ok(sum)
}

/// From this distance above the order on the corrections at x itself have all digits.
const FAR: f64 = 24.0;

/// The integral and its corrections at `x`: `scale / (s - 1) (x / scale)^(1 - s) (1 + (s - 1) / x ..)`. The power is taken as a product of two square roots, between which the
/// factors are: alone it would vanish before the product does.
fn far_series(order: &Tensor, x: &Tensor, units: Units, corrections: usize) -> Result<Tensor> {
    let less = order.sub_scalar(1)?;
    let ends = end_corrections(order, x, corrections)?.mul(&less)?.div(x)?.add_scalar(1)?;
    units.halved().term(x, &less.neg()?, Some(&ends.div(&less)?.mul_scalar(units.scale)?))
}

/// What the sum from `from` on has beyond its integral, in units of its first term: half of that, and the derivatives at the end.
fn end_corrections(order: &Tensor, from: &Tensor, corrections: usize) -> Result<Tensor> {
    let inverse = from.recip()?;
    let mut rising = order.mul(&inverse)?;
    let mut sum = rising.mul_scalar(BERNOULLI[0])?.add_scalar(0.5)?;
    for (j, &bernoulli) in BERNOULLI.iter().enumerate().take(corrections).skip(1) {
        rising = risen(&rising, order, &inverse, j)?;
        sum = sum.add(&rising.mul_scalar(bernoulli)?)?;
    }
    Ok(sum)
}

/// The factors of the correction `j`, from those of the one before.
fn risen(rising: &Tensor, order: &Tensor, inverse: &Tensor, j: usize) -> Result<Tensor> {
    let j = 2.0 * j as f64;
    let once = rising.mul(&order.add_scalar(j - 1.0)?.mul(inverse)?)?;
    once.mul(&order.add_scalar(j)?.mul(inverse)?)
}
