//! Rows of copies and casts.

use super::unary::{first_and_second_derivatives, wrap};
use crate::compare::round_to;
use crate::prelude::*;
use ternion_core::no_grad;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows: Vec<OpCase> = DType::ALL.into_iter().flat_map(casts_to).collect();
    rows.extend(copies());
    rows
}

/// Zeros, rounding ties of f16 and bf16, and numbers beyond the range of small dtypes; the last is
/// beyond i32.
const NUMBERS: [f64; 22] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.5,
    -2.5,
    0.75,
    -0.75,
    127.0,
    255.0,
    256.0,
    300.0,
    -300.0,
    2049.0,
    2051.0,
    65504.0,
    65520.0,
    -70000.0,
    16777217.0,
    2147483647.0,
    -2147483648.0,
    3e9,
];

fn convert(from: DType, to: DType, value: f64) -> f64 {
    match (from, to) {
        (_, Bool) => f64::from(u8::from(value != 0.0)),
        (F64 | F32 | F16 | BF16, I64) if value.is_nan() => 0.0,
        (F64 | F32 | F16 | BF16, I64) => value.trunc().clamp(i64::MIN as f64, i64::MAX as f64),
        (F64 | F32 | F16 | BF16, I32) if value.is_nan() => 0.0,
        (F64 | F32 | F16 | BF16, I32) => value.trunc().clamp(i32::MIN.into(), i32::MAX.into()),
        (F64 | F32 | F16 | BF16, I16) if value.is_nan() => 0.0,
        (F64 | F32 | F16 | BF16, I16) => value.trunc().clamp(i16::MIN.into(), i16::MAX.into()),
        (F64 | F32 | F16 | BF16, I8) if value.is_nan() => 0.0,
        (F64 | F32 | F16 | BF16, I8) => value.trunc().clamp(i8::MIN.into(), i8::MAX.into()),
        (F64 | F32 | F16 | BF16, U8) if value.is_nan() => 0.0,
        (F64 | F32 | F16 | BF16, U8) => value.trunc().clamp(0.0, 255.0),
        (F64 | F32 | F16 | BF16, U64 | U32 | U16) if value.is_nan() => 0.0,
        (F64 | F32 | F16 | BF16, U64) => value.trunc().clamp(0.0, u64::MAX as f64),
        (F64 | F32 | F16 | BF16, U32) => value.trunc().clamp(0.0, u32::MAX.into()),
        (F64 | F32 | F16 | BF16, U16) => value.trunc().clamp(0.0, u16::MAX.into()),
        (_, I64 | I32 | I16 | I8 | U64 | U32 | U16 | U8) => wrap(to, value),
        _ => round_to(to, value),
    }
}

fn casts_to(to: DType) -> Vec<OpCase> {
    let cast = |parameters: &str, from: &'static [DType], numbers: &[f64]| {
        OpCase::new("copy", format!("to={to}, {parameters}"))
            .input(Fixed(numbers.to_vec()))
            .shapes([&[numbers.len()], &[3, 7], &[0, 3]])
            .dtypes(from)
            .casts()
            .exact()
            .run(move |x| if x[0].dtype() == to { x[0].copy() } else { x[0].to_dtype(to) })
            .oracle_for(move |from, x| x[0].map(|value| convert(from, to, value)))
    };
    let mut rows = vec![
        cast("values", FLOATS, &NUMBERS).forward_only("rounding has steps").adversarial(
            "special",
            [Array::new(&[5], vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30, -1e30])],
        ),
        cast("i64", &[I64], &NUMBERS),
        cast("smaller integers", &[I32, I16, I8, U32, U16, U8], &NUMBERS[..21]),
        // Numbers above the largest i64: only those that f64 represents.
        cast("u64", &[U64], &[0.0, 1.0, 300.0, 65519.0, 2051.0, 70000.0, 3e9, 2f64.powi(63), 1.2e19, 2f64.powi(64) - 4096.0]),
        cast("bools", BOOL, &NUMBERS),
    ];
    if to.is_float() {
        // Cotangents have the output's dtype, and are generated for the row's dtype. So gradients
        // of casts to half precision run here only from half precision; those from f32 and f64 are
        // below.
        let from = if to.is_half() { &[F16, BF16][..] } else { FLOATS };
        rows.push(
            OpCase::new("copy", format!("to={to}, gradient"))
                .input(Uniform(-4.0, 4.0))
                .shapes([&[], &[7, 33], &[2, 3, 5]])
                .dtypes(from)
                .casts()
                .double_backward()
                .run(move |x| if x[0].dtype() == to { x[0].copy() } else { x[0].to_dtype(to) })
                .oracle(|x| x[0].clone()),
        );
        rows.push(
            OpCase::new("copy", format!("to={to}, gradients"))
                .input(Uniform(-4.0, 4.0))
                .shapes([&[7]])
                .forward_only("compares derivatives themselves")
                .run(move |x| first_and_second_derivatives(&x[0], |x| x.to_dtype(to)?.mul_scalar(0.5)))
                .oracle(|x| vec![x[0].map(|_| 0.5), x[0].map(|_| 0.0)]),
        );
    }
    rows
}

fn copies() -> Vec<OpCase> {
    vec![
        OpCase::new("copy", "in place, into a slice")
            .input(Uniform(-4.0, 4.0))
            .input(Uniform(-4.0, 4.0))
            .on([&[5, 7], &[3, 4]])
            .on([&[5, 7], &[4]])
            .on([&[5, 7], &[]])
            .also(INTEGERS)
            .also(UNSIGNED)
            .also(BOOL)
            .exact()
            .forward_only("changes a tensor in place")
            .run(|x| {
                no_grad(|| {
                    let base = x[0].copy()?;
                    base.narrow(0, 1, 3)?.narrow(1, 2, 4)?.copy_(&x[1])?;
                    Ok(base)
                })
            })
            .oracle(|x| {
                let source = x[1].expand(&[3, 4]);
                Array::from_fn(&x[0].shape, |at| match (at[0], at[1]) {
                    (row @ 1..4, column @ 2..6) => source.at(&[row - 1, column - 2]),
                    _ => x[0].at(at),
                })
            })
            .rejects("copy: destination has shape [3], expected [2]", |device| {
                Tensor::zeros([3], F32, device)?.copy_(&Tensor::zeros([2], F32, device)?)
            }),
        OpCase::new("copy", "in place, onto itself reversed")
            .input(Uniform(-4.0, 4.0))
            .shapes([&[7], &[5, 3]])
            .forward_only("changes a tensor in place")
            .exact()
            .run(|x| {
                no_grad(|| {
                    let base = x[0].copy()?;
                    base.copy_(&base.flip(0)?)?;
                    Ok(base)
                })
            })
            .oracle(|x| x[0].map_slices(0, |slice| slice.iter().rev().copied().collect())),
        OpCase::new("copy", "in place, casting")
            .input(Input::of(I32, Integers(-9, 9)))
            .shapes([&[3, 5]])
            .forward_only("changes a tensor in place")
            .run_on(|x, device, dtype| {
                let base = Tensor::zeros([2, 3, 5], dtype, device)?;
                base.copy_(&x[0])?;
                Ok(base)
            })
            .oracle(|x| x[0].expand(&[2, 3, 5])),
    ]
}
