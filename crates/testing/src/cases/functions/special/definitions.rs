//! Definitions of special functions in float64: integrals, sums and inverses by bisection. None of
//! them uses the method of the functions under test.

use crate::oracle::erf;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_PI_2, PI, TAU};

/// Returns the integral of `f` from 0 to infinity by the double exponential formula (Takahasi and
/// Mori 1974): `t = e^(pi/2 sinh u)`, in steps of 1/48.
pub fn integral(f: impl Fn(f64) -> f64) -> f64 {
    let steps = 48.0;
    (-216..=216)
        .map(|k| f64::from(k) / steps)
        .map(|u| {
            let t = (FRAC_PI_2 * u.sinh()).exp();
            let weight = FRAC_PI_2 * u.cosh() * t;
            let value = f(t) * weight;
            if value.is_finite() { value } else { 0.0 }
        })
        .sum::<f64>()
        / steps
}

/// Returns `log |Gamma(x)|` by Binet's second formula (DLMF 5.9.10_2) for x of at least 1, and the
/// recurrence.
pub fn lgamma(x: f64) -> f64 {
    if x.is_infinite() || (x <= 0.0 && x == x.floor()) {
        return f64::INFINITY;
    }
    let (mut x, mut recurrence) = (x, 0.0);
    while x < 1.0 {
        recurrence += x.abs().ln();
        x += 1.0;
    }
    let rest = 2.0 * integral(|t| (t / x).atan() / (TAU * t).exp_m1());
    (x - 0.5) * x.ln() - x + 0.5 * TAU.ln() + rest - recurrence
}

/// Returns the derivative of `log Gamma(x)` by Binet's formula (DLMF 5.9.15) for x of at least 1,
/// and the recurrence.
pub fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return -1.0 / x;
    }
    if x == f64::INFINITY {
        return x;
    }
    if x < 0.0 && x == x.floor() {
        return f64::NAN;
    }
    let (mut x, mut recurrence) = (x, 0.0);
    while x < 1.0 {
        recurrence += 1.0 / x;
        x += 1.0;
    }
    x.ln() - 0.5 / x - 2.0 * integral(|t| t / ((t * t + x * x) * (TAU * t).exp_m1())) - recurrence
}

/// Returns `Gamma(x)` by Euler's integral (DLMF 5.2.1).
fn gamma(x: f64) -> f64 {
    integral(|t| t.powf(x - 1.0) * (-t).exp())
}

/// Returns `sum of (x + k)^-order` over `k >= 0` by its integral (DLMF 25.11.25) for x of at least
/// 1, and by its first terms.
pub fn zeta(order: f64, x: f64) -> f64 {
    if order == 1.0 {
        return f64::INFINITY;
    }
    if order < 1.0 {
        return f64::NAN;
    }
    if x <= 0.0 && x == x.floor() {
        return f64::INFINITY;
    }
    if x < 0.0 && order != order.floor() || x.is_nan() || order.is_nan() {
        return f64::NAN;
    }
    if x.is_infinite() {
        return 0.0;
    }
    let (mut x, mut recurrence) = (x, 0.0);
    while x < 1.0 {
        recurrence += x.powf(-order);
        x += 1.0;
    }
    // x^(1 - order) times the integral of t^(order - 2) e^-t u / (1 - e^-u) with u = t / x:
    // x^-order would underflow where this does not.
    let part = |u: f64| if u < 1e-16 { 1.0 } else { u / -(-u).exp_m1() };
    let sum = integral(|t| t.powf(order - 2.0) * (-t).exp() * part(t / x));
    recurrence + x.powf(1.0 - order) * sum / gamma(order)
}

/// Returns the derivative of order `order` (at least 1) of [`digamma`], by `order!` and [`zeta`].
pub fn polygamma(order: u32, x: f64) -> f64 {
    let factorial: f64 = (1..=order).map(f64::from).product();
    let sign = if order.is_multiple_of(2) { -1.0 } else { 1.0 };
    sign * factorial * zeta(f64::from(order) + 1.0, x)
}

/// Returns [`polygamma`] of an order so large that few terms of its sum matter, by products of that
/// many factors: without factorials and powers, which may exceed the range of f64.
pub fn large_polygamma(order: u32, x: f64) -> f64 {
    let sign = if order.is_multiple_of(2) { -1.0 } else { 1.0 };
    if x <= 0.0 && x == x.floor() {
        return sign * f64::INFINITY;
    }
    if x.is_infinite() {
        return 0.0;
    }
    if x < 0.0 && x - x.floor() == 0.5 && order.is_multiple_of(2) {
        // Terms of opposite sign are paired.
        return large_polygamma(order, 1.0 - x);
    }
    let term = |base: f64| (1..=order).fold(1.0 / base, |product, k| product * (f64::from(k) / base));
    let bases = || (0..2000).map(|k| x + f64::from(k));
    let nearest = bases().fold(f64::INFINITY, |nearest, base| if base.abs() < nearest.abs() { base } else { nearest });
    // Other terms are smaller, and may be infinite with another sign.
    let first = term(nearest);
    if first.is_infinite() { sign * first } else { sign * bases().map(term).sum::<f64>() }
}

/// Returns [`polygamma`] of order 2 of a negative number by reflection (DLMF 5.15.6). The cotangent
/// of the fraction is computed by a tangent.
pub fn second_polygamma(x: f64) -> f64 {
    let rest = x - x.round();
    let cotangent = (PI * (0.5 - rest.abs())).tan() * rest.signum();
    polygamma(2, 1.0 - x) - 2.0 * PI.powi(3) * cotangent * (1.0 + cotangent * cotangent)
}

/// Returns the `log` of the gamma function of matrices of size p (DLMF 35.3.5).
pub fn mvlgamma(p: u32, x: f64) -> f64 {
    let count = f64::from(p);
    PI.ln() * count * (count - 1.0) / 4.0 + (0..p).map(|i| lgamma(x - f64::from(i) / 2.0)).sum::<f64>()
}

/// Returns `e^-|x|` times the modified Bessel function of the first kind, by its integral (DLMF
/// 10.32.3) as a sum over equal steps, which converges geometrically.
pub fn bessel_scaled(order: u32, x: f64) -> f64 {
    if x.is_infinite() {
        return 0.0;
    }
    let count = (40.0 + 8.0 * x.abs().sqrt()).ceil();
    if x.is_nan() {
        return x;
    }
    let mut sum = 0.0;
    for k in 0..=count as u32 {
        let angle = PI * f64::from(k) / count;
        let half = if k == 0 || f64::from(k) == count { 0.5 } else { 1.0 };
        // cos(a) - 1 = -2 sin^2(a / 2)
        let exponent = -2.0 * x.abs() * (angle / 2.0).sin().powi(2);
        sum += half * exponent.exp() * (f64::from(order) * angle).cos();
    }
    let scaled = sum / count;
    if order == 1 { scaled * x.signum() } else { scaled }
}

/// Returns the modified Bessel function of the first kind.
pub fn bessel(order: u32, x: f64) -> f64 {
    match x.is_infinite() {
        true => x.abs() * if order == 1 { x.signum() } else { 1.0 },
        false => bessel_scaled(order, x) * x.abs().exp(),
    }
}

/// Returns `1 - erf(x)`; for x of at least 2 by its continued fraction (DLMF 7.9.1).
pub fn erfc(x: f64) -> f64 {
    if x.is_nan() || x < 2.0 {
        return 1.0 - erf(x);
    }
    if x > 40.0 {
        return 0.0;
    }
    let fraction = (1..=200).rev().fold(x, |fraction, n| x + f64::from(n) / 2.0 / fraction);
    (-x * x).exp() / (fraction * PI.sqrt())
}

/// Returns `e^(x^2) erfc(x)` by its integral `2 / sqrt(pi)` times that of `e^(-t^2 - 2xt)` over
/// positive t (DLMF 7.7.1).
pub fn erfcx(x: f64) -> f64 {
    match x {
        f64::INFINITY => 0.0,
        x if x.is_nan() => x,
        x if x < -30.0 => f64::INFINITY,
        x if x < 0.0 => 2.0 * (x * x).exp() - erfcx(-x),
        _ => 2.0 / PI.sqrt() * integral(|t| (-t * (t + 2.0 * x)).exp()),
    }
}

/// Returns the normal distribution function.
pub fn ndtr(x: f64) -> f64 {
    0.5 * erfc(-x * FRAC_1_SQRT_2)
}

/// Returns the logarithm of the normal distribution function.
pub fn log_ndtr(x: f64) -> f64 {
    match x {
        f64::NEG_INFINITY => x,
        x if x < -3.0 => (0.5 * erfcx(-x * FRAC_1_SQRT_2)).ln() - 0.5 * x * x,
        x => (-ndtr(-x)).ln_1p(),
    }
}

/// Returns the zero of the increasing function `f` between `low` and `high`, by bisection.
fn zero_of(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if f(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Returns the number whose normal distribution function is p.
pub fn ndtri(p: f64) -> f64 {
    match p {
        0.0 => f64::NEG_INFINITY,
        1.0 => f64::INFINITY,
        p if !(0.0..=1.0).contains(&p) => f64::NAN,
        p if p > 0.5 => -zero_of(-40.0, 0.0, |y| ndtr(y) - (1.0 - p)),
        p => zero_of(-40.0, 0.0, |y| ndtr(y) - p),
    }
}

/// Returns the number whose error function is x.
pub fn erfinv(x: f64) -> f64 {
    match x.abs() {
        1.0 => x * f64::INFINITY,
        size if size > 1.0 || x.is_nan() => f64::NAN,
        _ => zero_of(-6.0, 6.0, |y| erf(y) - x),
    }
}
