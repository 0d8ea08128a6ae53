//! Elementary functions of f32 without branches, so that loops over them can be vectorized; and of
//! f64 where the standard library has none.
//!
//! Every function accepts every input: NaN gives NaN; infinities and zeros (with their sign) give
//! the limits of the function; subnormals are as accurate as other numbers; results overflow and
//! underflow where the exact ones do. Errors are at most about 2 ulp over the entire range (4 for
//! the normal distribution), as measured by the tests. Selections are written as `if` on plain
//! values, which compile to masks. Only `+ - * /` and integer arithmetic are used, so that the bits
//! are the same on every CPU.
//!
//! Method: reduce the argument to a short interval, evaluate a polynomial there (minimax fits
//! computed for this file, in Horner's form), and undo the reduction.

mod double;
#[cfg(test)]
mod tests;

pub(crate) use double::{erf_f64, normal_cdf_and_pdf_f64, normal_cdf_f64};

/// Adding and subtracting this number rounds to an integer, which is then in the low bits of the
/// sum: 1.5 * 2^23.
const ROUNDING: f32 = 12_582_912.0;
/// ln 2 = `LN_2_HIGH + LN_2_LOW`; `LN_2_HIGH`, 355 / 512, has 9 bits, so that its product with an
/// exponent is exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// Evaluates the polynomial with these coefficients, the constant first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    for &coefficient in coefficients[..N - 1].iter().rev() {
        sum = sum * x + coefficient;
    }
    sum
}

/// Returns `|x|` with the sign of `sign`.
#[inline(always)]
fn with_sign(x: f32, sign: f32) -> f32 {
    f32::from_bits((x.to_bits() & 0x7fff_ffff) | (sign.to_bits() & 0x8000_0000))
}

/// Returns `2^n` for `n` in -126..=127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23) as u32)
}

/// Computes `x * 2^n` for `x` in `0.5..2` and `n` in -250..=254, rounded once: the first product is
/// not subnormal.
#[inline(always)]
fn scale(x: f32, n: i32) -> f32 {
    let half = n >> 1;
    x * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// Clamps `x` to `low..=high`; NaN stays NaN.
#[inline(always)]
fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// Returns `(n, n as integer)` with n the integer nearest to `x / ln 2`.
#[inline(always)]
fn binary_exponent(x: f32) -> (f32, i32) {
    let shifted = x * std::f32::consts::LOG2_E + ROUNDING;
    (shifted - ROUNDING, shifted.to_bits().wrapping_sub(ROUNDING.to_bits()) as i32)
}

/// Computes `e^x`.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Beyond these bounds the result is 0 or infinity, also after the reduction.
    exp_of_sum(clamp(x, -104.5, 89.0), 0.0)
}

/// Computes `e^(x + rest)` for x in `-104.5..=89` and a small `rest` (below 0.1): for arguments
/// that are known more precisely than one f32 can represent.
#[inline(always)]
fn exp_of_sum(x: f32, rest: f32) -> f32 {
    let (n, exponent) = binary_exponent(x);
    let r = (x - n * LN_2_HIGH) - (n * LN_2_LOW - rest);
    // e^r = 1 + r + r^2 q(r) for |r| <= ln 2 / 2 (+ rest).
    let q =
        polynomial(r, [5.0e-1, 1.666_666_6e-1, 4.166_629_5e-2, 8.333_497e-3, 1.394_465_8e-3, 1.979_034_9e-4]);
    scale(1.0 + (r + r * r * q), exponent)
}

/// Computes `e^x - 1`, accurate near 0.
#[inline(always)]
pub(crate) fn expm1(x: f32) -> f32 {
    let bounded = clamp(x, -18.0, 89.0);
    let (n, exponent) = binary_exponent(bounded);
    let high = bounded - n * LN_2_HIGH;
    let low = n * LN_2_LOW;
    let r = high - low;
    // The rounding error of r.
    let rounding_error = (high - r) - low;
    let q =
        polynomial(r, [5.0e-1, 1.666_666_6e-1, 4.166_636_2e-2, 8.333_39e-3, 1.394_062_5e-3, 1.984_587_7e-4]);
    // e^x - 1 = 2^n (e^r - 1) + 2^n - 1, doubled last so that 2^n does not overflow before the
    // result does.
    let rest = r * r * q + rounding_error;
    let half_power = power_of_two(exponent.wrapping_sub(1));
    let offset = half_power - 0.5;
    // At most two roundings: of the sum with `offset`, and of the sum with the small `rest`.
    let reduced = (half_power * r + offset) + half_power * rest;
    let near_zero = r + rest;
    if exponent == 0 { if x.to_bits() << 1 == 0 { x } else { near_zero } } else { reduced * 2.0 }
}

/// Splits a positive normal number: `x = (1 + f) * 2^n` with `1 + f` between the square roots of
/// 1/2 and 2. Returns `(1 + f, n)`.
#[inline(always)]
fn mantissa_and_exponent(x: f32) -> (f32, i32) {
    const SQRT_HALF: u32 = 0x3f35_04f3;
    let shifted = x.to_bits().wrapping_sub(SQRT_HALF);
    let n = (shifted as i32) >> 23;
    (f32::from_bits((shifted & 0x007f_ffff).wrapping_add(SQRT_HALF)), n)
}

/// Computes `log(1 + f) + n ln 2 + rest` for `1 + f` between the square roots of 1/2 and 2, and a
/// small `rest`.
#[inline(always)]
fn log_of_reduced(f: f32, n: f32, rest: f32) -> f32 {
    // log(1 + f) = f - f^2/2 + f^3 p(f).
    let p = polynomial(
        f,
        [
            3.333_331_3e-1,
            -2.500_001e-1,
            2.000_211_9e-1,
            -1.666_799_6e-1,
            1.421_955_1e-1,
            -1.240_559_15e-1,
            1.188_817_5e-1,
            -1.167_564_1e-1,
            6.746_601e-2,
        ],
    );
    let square = f * f;
    let small = (square * f * p + (n * LN_2_LOW + rest)) - 0.5 * square;
    (f + small) + n * LN_2_HIGH
}

/// Computes the natural logarithm; -infinity at 0, NaN below.
#[inline(always)]
pub(crate) fn log(x: f32) -> f32 {
    let is_subnormal = x < f32::MIN_POSITIVE;
    let normal = if is_subnormal { x * 16_777_216.0 } else { x };
    let (mantissa, exponent) = mantissa_and_exponent(normal);
    let n = (if is_subnormal { exponent.wrapping_sub(24) } else { exponent }) as f32;
    let result = log_of_reduced(mantissa - 1.0, n, 0.0);
    log_at_bounds(x, result)
}

/// Returns `result` if x is positive and finite, and otherwise the limit of the logarithm.
#[inline(always)]
fn log_at_bounds(x: f32, result: f32) -> f32 {
    let result = if x < f32::INFINITY { result } else { x };
    let result = if x == 0.0 { f32::NEG_INFINITY } else { result };
    if x < 0.0 { f32::NAN } else { result }
}

/// Computes `log(1 + x)`, accurate near 0; -infinity at -1, NaN below.
#[inline(always)]
pub(crate) fn log1p(x: f32) -> f32 {
    let sum = 1.0 + x;
    let (mantissa, exponent) = mantissa_and_exponent(sum);
    // The rounding error of the sum: exact, whichever of the two terms is larger.
    let rounding_error = if x < 1.0 { x - (sum - 1.0) } else { 1.0 - (sum - x) };
    let is_scaled = exponent != 0;
    let f = if is_scaled { mantissa - 1.0 } else { x };
    let rest = if is_scaled { rounding_error / sum } else { 0.0 };
    let result = log_of_reduced(f, exponent as f32, rest);
    let result = log_at_bounds(sum, result);
    if x.to_bits() << 1 == 0 { x } else { result }
}

/// Computes the hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let magnitude = x.abs();
    let square = x * x;
    // tanh x = x + x^3 p(x^2) below 0.625.
    let p = polynomial(
        square,
        [-3.333_333e-1, 1.333_320_6e-1, -5.394_676_3e-2, 2.170_070_4e-2, -8.177_401e-3, 2.142_963_7e-3],
    );
    let near_zero = x + x * square * p;
    let far = 1.0 - 2.0 / (exp(magnitude + magnitude) + 1.0);
    with_sign(if magnitude < 0.625 { near_zero } else { far }, x)
}

/// Computes `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    // The exponential of a negative number cannot overflow, and keeps small results accurate.
    let e = exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// Computes the error function: `2 / sqrt(pi) * integral of e^-t^2 from 0 to x`.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let magnitude = x.abs();
    let square = x * x;
    // erf x = x + x p(x^2) below 1.
    let p = polynomial(
        square,
        [
            1.283_791_7e-1,
            -3.761_262_6e-1,
            1.128_358_54e-1,
            -2.685_381_5e-2,
            5.188_334e-3,
            -8.010_242e-4,
            7.854_008_4e-5,
        ],
    );
    let near_zero = x + x * p;
    // 1 - erf x = e^(x r(x)) from 1 on. From 4 on, erf x rounds to 1.
    let bounded = if magnitude > 4.0 { 4.0 } else { magnitude };
    let r = polynomial(
        bounded,
        [
            -1.128_637_1,
            -6.351_980_6e-1,
            -1.061_590_5e-1,
            2.369_456_6e-2,
            -3.610_342e-3,
            3.148_581e-4,
            -1.043_311_5e-5,
        ],
    );
    let far = 1.0 - exp(bounded * r);
    if magnitude < 1.0 { near_zero } else { with_sign(far, x) }
}

/// Returns `(Phi(x), phi(x))`: the standard normal distribution function `(1 + erf(x / sqrt 2)) /
/// 2`, with a small relative error also far below 0, where that formula cancels, and its density
/// `e^(-x^2/2) / sqrt(2 pi)`.
#[inline(always)]
pub(crate) fn normal_cdf_and_pdf(x: f32) -> (f32, f32) {
    // From this limit on, both the tail and the density are 0.
    let magnitude = if x.abs() > 14.4 { 14.4 } else { x.abs() };
    // x^2 = high^2 + (x - high)(x + high), with an exact first term: an error of x^2 would be a
    // relative error of the result.
    let high = f32::from_bits(magnitude.to_bits() & 0xffff_f000);
    let gauss = exp_of_sum(-0.5 * high * high, -0.5 * (magnitude - high) * (magnitude + high));
    // Phi(-x) = e^(-x^2/2) q(u) / (x + 2) for x >= 0, u = (x - 2) / (x + 2); q by weighted least
    // squares, relative error 2e-8.
    let shrink = 1.0 / (magnitude + 2.0);
    let q = polynomial(
        (magnitude - 2.0) * shrink,
        [
            6.724_08e-1,
            -3.314_045_4e-1,
            2.879_835_5e-2,
            3.672_078_6e-2,
            -4.829_687_5e-4,
            -6.746_15e-3,
            -1.889_729_2e-3,
            8.706_463e-4,
            7.178_729e-4,
            4.215_71e-5,
            -6.863_502_5e-5,
        ],
    );
    let tail = gauss * (q * shrink);
    let below = if x < 0.0 { tail } else { 1.0 - tail };
    const DENSITY_AT_ZERO: f32 = 0.398_942_3;
    (below, gauss * DENSITY_AT_ZERO)
}

/// Computes the standard normal distribution function: see [`normal_cdf_and_pdf`].
#[inline(always)]
pub(crate) fn normal_cdf(x: f32) -> f32 {
    normal_cdf_and_pdf(x).0
}
