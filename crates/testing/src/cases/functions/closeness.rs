//! Rows of tests for close, equal, infinite and NaN elements.

use crate::prelude::*;
use ternion_core::Closeness;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows = kinds();
    rows.extend([isclose(), isclose_of_nan(), isclose_of_integers(), allclose(), equal()]);
    rows
}

const BOOLS: &str = "gives bools";

fn kinds() -> Vec<OpCase> {
    type Method = fn(&Tensor) -> Result<Tensor>;
    let row = |op: &'static str, run: Method, definition: fn(f64) -> bool| {
        OpCase::new(op, "")
            .input(Fixed(vec![1.0, f64::INFINITY, -3.0, f64::NEG_INFINITY, f64::NAN, 0.0]))
            .shapes([&[], &[0, 3], &[7, 33]])
            .also(INTEGERS)
            .also(BOOL)
            .forward_only(BOOLS)
            .run(move |x| run(&x[0]))
            // Integers have no NaN or infinity.
            .oracle_for(move |dtype, x| {
                x[0].map(|x| f64::from(definition(if dtype.is_float() { x } else { 0.0 })))
            })
    };
    vec![
        row("isnan", Tensor::isnan, f64::is_nan),
        row("isinf", Tensor::isinf, f64::is_infinite),
        row("isfinite", Tensor::isfinite, f64::is_finite),
    ]
}

const WIDE: Closeness = Closeness { rtol: 0.25, atol: 0.125, equal_nan: false };

fn near(a: f64, b: f64) -> bool {
    a == b || b.is_finite() && (a - b).abs() <= WIDE.atol + WIDE.rtol * b.abs()
}

/// Multiples of 1/2, so that a difference equals the tolerance only where both are exact.
fn multiples_of_half() -> Values {
    Values::custom(|shapes, position, rng| {
        let infinity = f64::INFINITY;
        let value = |rng: &mut Rng| match rng.integer(0, 9) {
            0 => f64::NAN,
            1 => infinity,
            2 => -infinity,
            _ => f64::from(rng.integer(-9, 9) as i32) / 2.0,
        };
        (0..shapes[position].iter().product()).map(|_| value(rng)).collect()
    })
}

fn isclose() -> OpCase {
    OpCase::new("isclose", "rtol=0.25 atol=0.125")
        .input(multiples_of_half())
        .input(multiples_of_half())
        .shapes([&[], &[0, 3], &[7, 33]])
        .on([&[5, 1], &[7]])
        .forward_only(BOOLS)
        .run(|x| x[0].isclose(&x[1], WIDE))
        .oracle(|x| x[0].zip(&x[1], |a, b| f64::from(near(a, b))))
        .rejects("isclose: rtol -1 and atol 0, expected at least 0", |device| {
            let x = Tensor::zeros([2], F32, device)?;
            x.isclose(&x, Closeness { rtol: -1.0, atol: 0.0, equal_nan: false })
        })
        .rejects("isclose: shapes [2] and [3] do not broadcast", |device| {
            Tensor::zeros([2], F32, device)?.isclose(&Tensor::zeros([3], F32, device)?, WIDE)
        })
        .rejects("isclose: dtypes f32 and i32 differ; cast one of them with to_dtype", |device| {
            Tensor::zeros([2], F32, device)?.isclose(&Tensor::zeros([2], I32, device)?, WIDE)
        })
}

fn isclose_of_nan() -> OpCase {
    OpCase::new("isclose", "equal_nan")
        .input(multiples_of_half())
        .input(multiples_of_half())
        .shapes([&[7, 33]])
        .forward_only(BOOLS)
        .run(|x| x[0].isclose(&x[1], Closeness { equal_nan: true, ..WIDE }))
        .oracle(|x| x[0].zip(&x[1], |a, b| f64::from(near(a, b) || a.is_nan() && b.is_nan())))
}

/// Differences of up to 3 with a tolerance of 2. In an unsigned dtype `a - b` would wrap if `b` is
/// larger.
fn isclose_of_integers() -> OpCase {
    let closeness = Closeness { rtol: 0.0, atol: 2.0, equal_nan: false };
    OpCase::new("isclose", "integers")
        .input(Integers(0, 3))
        .input(Integers(0, 3))
        .shapes([&[], &[7, 33]])
        .dtypes(INTEGERS)
        .also(UNSIGNED)
        .run(move |x| x[0].isclose(&x[1], closeness))
        .oracle(|x| x[0].zip(&x[1], |a, b| f64::from((a - b).abs() <= 2.0)))
}

/// A tensor and its multiples that are within the tolerance, or beyond it; and the tensor itself.
fn allclose() -> OpCase {
    OpCase::new("allclose", "")
        .input(Uniform(1.0, 2.0))
        .shapes([&[], &[7, 33], &[0]])
        .forward_only(BOOLS)
        .run_on(|x, device, _| {
            let (near, far) = (x[0].mul_scalar(1.125)?, x[0].mul_scalar(4)?);
            let results = [x[0].allclose(&near, WIDE)?, x[0].allclose(&far, WIDE)?, x[0].allclose(&x[0], Closeness::default())?];
            Tensor::from_vec(results.map(i32::from).to_vec(), [3], device)
        })
        .oracle(|x| Array::new(&[3], vec![1.0, f64::from(x[0].elements() == 0), 1.0]))
        .rejects("allclose: rtol 0 and atol NaN, expected at least 0", |device| {
            let x = Tensor::zeros([2], F32, device)?;
            x.allclose(&x, Closeness { rtol: 0.0, atol: f64::NAN, equal_nan: false })?;
            Ok(x)
        })
}

fn equal() -> OpCase {
    OpCase::new("equal", "")
        .input(Distinct)
        .shapes([&[], &[7, 33], &[0]])
        .also(INTEGERS)
        .forward_only(BOOLS)
        .run_on(|x, device, _| {
            let moved = x[0].add_scalar(1)?;
            let results = [x[0].equal(&x[0].copy()?)?, x[0].equal(&moved)?, x[0].equal(&x[0].unsqueeze(0)?)?];
            Tensor::from_vec(results.map(i32::from).to_vec(), [3], device)
        })
        .oracle(|x| Array::new(&[3], vec![1.0, f64::from(x[0].elements() == 0), 0.0]))
        .rejects("equal: dtypes f32 and i32 differ; cast one of them with to_dtype", |device| {
            Tensor::zeros([2], F32, device)?.equal(&Tensor::zeros([2], I32, device)?)?;
            Tensor::zeros([2], F32, device)
        })
}
