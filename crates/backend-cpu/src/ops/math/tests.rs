//! Comparison of every function with f64 over all of f32: errors in units in the last place, and
//! the special cases.

use super::*;

/// Returns bit patterns of both signs and all exponents, and the neighborhoods of zero, one, and
/// the boundaries of the reductions.
fn sweep() -> impl Iterator<Item = f32> {
    let dense = [
        0f32,
        f32::MIN_POSITIVE,
        0.2928932,
        0.3465736,
        0.41421356,
        0.625,
        std::f32::consts::FRAC_1_SQRT_2,
        1.0,
        4.0,
        15.0,
        87.33655,
        88.72284,
        103.97208,
    ]
    .into_iter()
    .flat_map(|center| {
        (-3000i32..3000).map(move |step| f32::from_bits(center.to_bits().saturating_add_signed(step)))
    });
    (0..=u32::MAX).step_by(1021).map(f32::from_bits).chain(dense.clone()).chain(dense.map(|x| -x))
}

/// Returns the distance between neighboring f32 numbers at `exact`.
fn ulp(exact: f64) -> f64 {
    let exponent = (exact.abs().max(f64::from(f32::MIN_POSITIVE)).to_bits() >> 52) as i32 - 1023;
    f64::exp2(f64::from(exponent - 23))
}

/// Asserts that `function` is within `limit` ulp of `exact`, and returns the same special values.
fn check(name: &str, limit: f64, function: fn(f32) -> f32, exact: fn(f64) -> f64) {
    let (mut worst, mut worst_at, mut total, mut count) = (0f64, 0f32, 0f64, 0u64);
    for x in sweep() {
        let (got, want) = (function(x), exact(f64::from(x)));
        if want.is_nan() {
            assert!(got.is_nan(), "{name}({x:e}) = {got:e}, expected NaN");
            continue;
        }
        if (want as f32).is_infinite() || got.is_infinite() {
            assert_eq!(got, want as f32, "{name}({x:e}), exactly {want:e}");
            continue;
        }
        let error = (f64::from(got) - want).abs() / ulp(want);
        assert!(error <= limit, "{name}({x:e}) = {got:e}, exactly {want:e}: {error:.2} units off");
        if want == 0.0 && x == 0.0 {
            assert_eq!(got.to_bits(), x.to_bits(), "{name} of a zero keeps its sign");
        }
        if error > worst {
            (worst, worst_at) = (error, x);
        }
        total += error;
        count += 1;
    }
    assert!(count > 1_000_000, "{name}: only {count} values compared");
    println!(
        "{name}: at most {worst:.3} units (at {worst_at:e}), mean {:.3}, {count} values",
        total / count as f64
    );
}

#[test]
fn exp_is_accurate() {
    check("exp", 1.0, exp, f64::exp);
}

#[test]
fn expm1_is_accurate() {
    check("expm1", 2.0, expm1, f64::exp_m1);
}

#[test]
fn log_is_accurate() {
    check("log", 2.0, log, f64::ln);
}

#[test]
fn log1p_is_accurate() {
    check("log1p", 2.0, log1p, f64::ln_1p);
}

#[test]
fn tanh_is_accurate() {
    check("tanh", 2.0, tanh, f64::tanh);
}

#[test]
fn sigmoid_is_accurate() {
    check("sigmoid", 2.5, sigmoid, |x| 1.0 / (1.0 + (-x).exp()));
}

#[test]
fn erf_is_accurate() {
    check("erf", 2.0, erf, erf_f64);
}

#[test]
fn normal_cdf_is_accurate() {
    check("normal_cdf", 4.0, normal_cdf, normal_cdf_f64);
    check(
        "normal_pdf",
        4.0,
        |x| normal_cdf_and_pdf(x).1,
        |x| (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt(),
    );
}

#[test]
fn error_function_in_double_precision() {
    // Abramowitz and Stegun, tables 7.1 and 7.2 (recomputed to 17 digits).
    let table = [
        (0.5, 0.520_499_877_813_046_5),
        (1.0, 0.842_700_792_949_714_9),
        (1.499_999_9, 0.966_105_134_582_28),
        (1.5, 0.966_105_146_475_310_8),
        (2.0, 0.995_322_265_018_952_7),
        (3.0, 0.999_977_909_503_001_4),
    ];
    for (x, want) in table {
        let error = (erf_f64(x) - want).abs();
        assert!(error <= 4e-16, "erf({x}) is {error:e} off");
        assert_eq!(erf_f64(-x), -erf_f64(x));
    }
    for (x, want) in [
        (-1.0, 0.158_655_253_931_457_05),
        (-3.0, 0.001_349_898_031_630_094_6),
        (-10.0, 7.619_853_024_160_525e-24),
    ] {
        let error = (normal_cdf_f64(x) - want).abs() / want;
        assert!(error <= 4e-15, "normal_cdf({x}) is {error:e} off");
    }
    assert!(erf_f64(f64::NAN).is_nan() && normal_cdf_f64(f64::NAN).is_nan());
    assert_eq!((erf_f64(f64::INFINITY), normal_cdf_f64(f64::NEG_INFINITY)), (1.0, 0.0));
    assert!(erf_f64(-0.0).is_sign_negative());
}
