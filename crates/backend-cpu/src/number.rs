//! Arithmetic of the compute types, with the same names for floats and integers: integers wrap, and
//! NaN propagates.

use crate::ops::math;
use crate::storage::Compute;
use ternion_core::{Element, Scalar};

/// Operations of every compute type.
pub(crate) trait Number: Compute {
    const ZERO: Self;
    const ONE: Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// Integers: rounds toward zero; division by zero gives 0.
    fn div(self, other: Self) -> Self;
    /// The remainder with the sign of `other`. Integers: division by zero gives 0.
    fn remainder(self, other: Self) -> Self;
    /// Integers: a negative exponent gives 0, except for the bases 1 and -1.
    fn pow(self, exponent: Self) -> Self;
    /// The larger number; NaN if either is NaN.
    fn maximum(self, other: Self) -> Self;
    /// The smaller number; NaN if either is NaN.
    fn minimum(self, other: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    /// -1, 0 or 1; NaN stays NaN.
    fn sign(self) -> Self;
    fn is_nan(self) -> bool;
    /// `number`, converted as in the core crate; f32 for half precision.
    fn from_number(number: Scalar) -> Self;
}

/// Operations of the floating compute types.
pub(crate) trait Real: Number {
    /// A power of two near the square root of the largest number. In units of its square, sums of
    /// squares whose mean is finite stay far from overflow.
    const SQUARED_UNIT: Self;
    fn real(value: f64) -> Self;
    fn exp(self) -> Self;
    fn log(self) -> Self;
    fn log1p(self) -> Self;
    fn expm1(self) -> Self;
    fn sqrt(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn tanh(self) -> Self;
    fn sigmoid(self) -> Self;
    fn erf(self) -> Self;
    /// The cumulative distribution function of the standard normal distribution.
    fn normal_cdf(self) -> Self;
    /// The cumulative distribution function of the standard normal distribution, and its density.
    fn normal_cdf_and_pdf(self) -> (Self, Self);
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    /// Rounds to the nearest integer, ties to even.
    fn round(self) -> Self;
    /// Returns whether the number is neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// Returns whether a sum of squares overflowed, or is so small that subnormal squares may have
    /// lost digits. False for NaN.
    fn is_inexact_sum_of_squares(self) -> bool;
    /// Returns the largest power of two that is not above a magnitude, within the range in which
    /// its reciprocal is exact too; 1 for 0, infinity and NaN.
    fn power_of_two_below(self) -> Self;
}

macro_rules! integer {
    ($($integer:ty => $sign:expr;)*) => {
        $(impl Number for $integer {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            #[inline(always)]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            #[allow(unused_comparisons, reason = "unsigned numbers are never negative")]
            fn remainder(self, other: Self) -> Self {
                if other == 0 {
                    return 0;
                }
                let rest = self.wrapping_rem(other);
                if rest != 0 && (rest < 0) != (other < 0) { rest.wrapping_add(other) } else { rest }
            }
            #[inline(always)]
            #[allow(unused_comparisons, reason = "unsigned numbers are never negative")]
            fn pow(self, exponent: Self) -> Self {
                if exponent < 0 {
                    return match self {
                        1 => 1,
                        base if base == (0 as $integer).wrapping_sub(1) && base < 0 => {
                            if exponent & 1 == 0 { 1 } else { base }
                        }
                        _ => 0,
                    };
                }
                power(self, exponent as u64)
            }
            #[inline(always)]
            fn maximum(self, other: Self) -> Self { if self > other { self } else { other } }
            #[inline(always)]
            fn minimum(self, other: Self) -> Self { if self < other { self } else { other } }
            #[inline(always)]
            fn neg(self) -> Self { self.wrapping_neg() }
            #[inline(always)]
            #[allow(unused_comparisons, reason = "unsigned numbers are never negative")]
            fn abs(self) -> Self { if self < 0 { self.wrapping_neg() } else { self } }
            #[inline(always)]
            fn sign(self) -> Self { ($sign)(self) }
            #[inline(always)]
            fn is_nan(self) -> bool { false }
            fn from_number(number: Scalar) -> Self { <$integer>::from_scalar(number) }
        })*
    };
}
integer! {
    i64 => i64::signum;
    i32 => i32::signum;
    i16 => i16::signum;
    i8 => i8::signum;
    u64 => |value: u64| value.min(1);
    u32 => |value: u32| value.min(1);
    u16 => |value: u16| value.min(1);
    u8 => |value: u8| value.min(1);
}

/// Computes `base^exponent` by repeated squaring, with wrap-around.
#[inline(always)]
fn power<T: Number>(mut base: T, mut exponent: u64) -> T {
    let mut product = T::ONE;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product = product.mul(base);
        }
        base = base.mul(base);
        exponent >>= 1;
    }
    product
}

macro_rules! float {
    ($($float:ident: $exp:path, $log:path, $log1p:path, $expm1:path, $tanh:path, $sigmoid:path, $erf:path, $cdf:path, $normal:path;)*) => {
        $(impl Number for $float {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            #[inline(always)]
            fn add(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self - other }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self * other }
            #[inline(always)]
            fn div(self, other: Self) -> Self { self / other }
            #[inline(always)]
            fn remainder(self, other: Self) -> Self {
                // The exact remainder with the sign of `self`, corrected once. The formula with a
                // rounded quotient loses all digits if the quotient is large.
                let rest = self % other;
                if rest != 0.0 && (rest < 0.0) != (other < 0.0) { rest + other } else { rest }
            }
            #[inline(always)]
            fn pow(self, exponent: Self) -> Self { self.powf(exponent) }
            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                if self > other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                if self < other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn neg(self) -> Self { -self }
            #[inline(always)]
            fn abs(self) -> Self { <$float>::abs(self) }
            #[inline(always)]
            fn sign(self) -> Self {
                if self == 0.0 || self.is_nan() { self } else { (1.0 as $float).copysign(self) }
            }
            #[inline(always)]
            fn is_nan(self) -> bool { <$float>::is_nan(self) }
            fn from_number(number: Scalar) -> Self { number.as_f64() as $float }
        }
        impl Real for $float {
            // 2^64 and 2^512, constructed from their biased exponents.
            const SQUARED_UNIT: Self = <$float>::from_bits(
                (((<$float>::MAX_EXP - 1 + <$float>::MAX_EXP / 2) as u64) << (<$float>::MANTISSA_DIGITS - 1)) as _,
            );
            #[inline(always)]
            fn real(value: f64) -> Self { value as $float }
            #[inline(always)]
            fn exp(self) -> Self { $exp(self) }
            #[inline(always)]
            fn log(self) -> Self { $log(self) }
            #[inline(always)]
            fn log1p(self) -> Self { $log1p(self) }
            #[inline(always)]
            fn expm1(self) -> Self { $expm1(self) }
            #[inline(always)]
            fn sqrt(self) -> Self { <$float>::sqrt(self) }
            #[inline(always)]
            fn sin(self) -> Self { <$float>::sin(self) }
            #[inline(always)]
            fn cos(self) -> Self { <$float>::cos(self) }
            #[inline(always)]
            fn tanh(self) -> Self { $tanh(self) }
            #[inline(always)]
            fn sigmoid(self) -> Self { $sigmoid(self) }
            #[inline(always)]
            fn erf(self) -> Self { $erf(self) }
            #[inline(always)]
            fn normal_cdf(self) -> Self { $cdf(self) }
            #[inline(always)]
            fn normal_cdf_and_pdf(self) -> (Self, Self) { $normal(self) }
            #[inline(always)]
            fn floor(self) -> Self { <$float>::floor(self) }
            #[inline(always)]
            fn ceil(self) -> Self { <$float>::ceil(self) }
            #[inline(always)]
            fn round(self) -> Self { <$float>::round_ties_even(self) }
            #[inline(always)]
            fn is_finite(self) -> bool { <$float>::is_finite(self) }
            fn is_inexact_sum_of_squares(self) -> bool {
                // At least 26 binary digits above the smallest normal number.
                const LEAST: $float = $float::MIN_POSITIVE * ((1u64 << 26) as $float);
                self == $float::INFINITY || self < LEAST
            }
            fn power_of_two_below(self) -> Self {
                if self == 0.0 || !self.is_finite() {
                    return 1.0;
                }
                // The reciprocal of the largest power of two would be subnormal.
                let size = self.clamp($float::MIN_POSITIVE, $float::MAX / 4.0);
                let digits = (1 << ($float::MANTISSA_DIGITS - 1)) - 1;
                $float::from_bits(size.to_bits() & !digits)
            }
        })*
    };
}
float! {
    f32: math::exp, math::log, math::log1p, math::expm1, math::tanh, math::sigmoid, math::erf, math::normal_cdf, math::normal_cdf_and_pdf;
    f64: f64::exp, f64::ln, f64::ln_1p, f64::exp_m1, f64::tanh, sigmoid_f64, math::erf_f64, math::normal_cdf_f64, math::normal_cdf_and_pdf_f64;
}

fn sigmoid_f64(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
