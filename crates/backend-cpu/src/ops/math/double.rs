//! The error function in f64, which the standard library does not have. For oracles: accuracy is
//! more important than speed.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// Below this limit, erf is computed from its series; above it, its complement from the continued
/// fraction.
const SERIES_BELOW: f64 = 1.5;

/// Computes `e^-x^2` with x^2 split into two terms, because the rounding error of x^2 would be a
/// relative error of the result.
fn gauss(x: f64) -> f64 {
    let high = f64::from_bits(x.to_bits() & !0x07ff_ffff);
    (-high * high).exp() * ((high - x) * (high + x)).exp()
}

/// Computes `erf x = 2/sqrt(pi) e^(-x^2) sum_n 2^n x^(2n+1) / (1 3 .. (2n+1))` (Abramowitz and
/// Stegun 7.1.6): all terms have the same sign.
fn erf_series(x: f64) -> f64 {
    let square = x * x;
    let (mut sum, mut n) = (0.0, 60.0);
    while n >= 1.0 {
        sum = (1.0 + sum) * (2.0 * square / (2.0 * n + 1.0));
        n -= 1.0;
    }
    FRAC_2_SQRT_PI * gauss(x) * (x + x * sum)
}

/// Computes `erfc x = e^(-x^2)/sqrt(pi) * 1/(x + (1/2)/(x + 1/(x + (3/2)/(x + ..))))` for x > 0
/// (Abramowitz and Stegun 7.1.14).
fn erfc_fraction(x: f64) -> f64 {
    let (mut tail, mut n) = (x, 150.0);
    while n >= 1.0 {
        tail = x + 0.5 * n / tail;
        n -= 1.0;
    }
    0.5 * FRAC_2_SQRT_PI * gauss(x) / tail
}

/// Computes the error function.
pub(crate) fn erf_f64(x: f64) -> f64 {
    let magnitude = x.abs();
    if magnitude < SERIES_BELOW {
        // Adding zero times x would lose the sign of a zero.
        if magnitude < 1e-160 { FRAC_2_SQRT_PI * x } else { erf_series(x) }
    } else if magnitude < 6.0 {
        (1.0 - erfc_fraction(magnitude)).copysign(x)
    } else if x.is_nan() {
        x
    } else {
        1f64.copysign(x)
    }
}

/// Computes the standard normal distribution function, with a small relative error also far below
/// 0.
pub(crate) fn normal_cdf_f64(x: f64) -> f64 {
    let z = x.abs() * FRAC_1_SQRT_2;
    if x.is_nan() {
        return x;
    }
    let tail = match z {
        z if z < SERIES_BELOW => 0.5 - 0.5 * erf_f64(z),
        z if z < 30.0 => 0.5 * erfc_fraction(z),
        _ => 0.0,
    };
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// Computes the standard normal distribution function and its density `e^(-x^2/2) / sqrt(2 pi)`.
pub(crate) fn normal_cdf_and_pdf_f64(x: f64) -> (f64, f64) {
    (normal_cdf_f64(x), 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * (-0.5 * x * x).exp())
}
