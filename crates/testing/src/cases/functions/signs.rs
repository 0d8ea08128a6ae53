//! Rows of signs, the step at 0, and non-finite numbers.

use crate::cases::binary::special_pairs;
use crate::compare::largest;
use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows = vec![copysign(), signbit(), signbit_of_integers()];
    rows.extend(heaviside());
    rows.extend(infinities());
    rows.extend(nan_to_num());
    rows
}

fn specials() -> Array {
    let infinity = f64::INFINITY;
    let all = vec![f64::NAN, infinity, -infinity, 0.0, -0.0, 1.0, -1.0, 1e30, -65504.0];
    Array::new(&[all.len()], all)
}

/// NaN has no sign here.
fn is_negative(x: f64) -> bool {
    !x.is_nan() && x.is_sign_negative()
}

fn signed(x: f64, other: f64) -> f64 {
    if is_negative(other) { -x.abs() } else { x.abs() }
}

/// The comparison treats zeros of either sign as equal.
fn copysign() -> OpCase {
    OpCase::new("copysign", "")
        .input(AwayFrom(0.25))
        .input(AwayFrom(0.25))
        .shapes([&[], &[0, 3], &[13], &[7, 33]])
        .on([&[5, 1], &[7]])
        .exact()
        .double_backward()
        .run(|x| x[0].copysign(&x[1]))
        .oracle(|x| x[0].zip(&x[1], signed))
        .adversarial("special", special_pairs())
        .rejects("copysign: shapes [2] and [3] do not broadcast", |device| {
            Tensor::zeros([2], F32, device)?.copysign(&Tensor::zeros([3], F32, device)?)
        })
        .rejects("copysign: input is i32, expected a floating dtype", |device| {
            Tensor::zeros([2], I32, device)?.copysign(&Tensor::zeros([2], I32, device)?)
        })
}

fn signbit() -> OpCase {
    OpCase::new("signbit", "")
        .input(AwayFrom(0.0))
        .shapes([&[], &[0, 3], &[7, 33]])
        .forward_only("gives bools")
        .run(|x| x[0].signbit())
        .oracle(|x| x[0].map(|x| f64::from(is_negative(x))))
        .adversarial("special", [specials()])
}

fn signbit_of_integers() -> OpCase {
    OpCase::new("signbit", "integers")
        .input(Integers(-2, 2))
        .shapes([&[], &[7, 33]])
        .dtypes(INTEGERS)
        .also(BOOL)
        .run(|x| x[0].signbit())
        .oracle(|x| x[0].map(|x| f64::from(x < 0.0)))
}

fn step(x: f64, value: f64) -> f64 {
    if x == 0.0 { value } else { f64::from(x > 0.0) }
}

fn heaviside() -> [OpCase; 2] {
    let row = |parameters: &str, values: Values| {
        OpCase::new("heaviside", parameters)
            .input(values)
            .input(Integers(-4, 4))
            .exact()
            .run(|x| x[0].heaviside(&x[1]))
            .oracle(|x| x[0].zip(&x[1], step))
    };
    [
        row("", AwayFrom(0.25))
            .shapes([&[], &[0, 3], &[7, 33]])
            .on([&[5, 1], &[7]])
            .double_backward()
            .adversarial("special", special_pairs())
            .rejects("heaviside: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
                Tensor::zeros([2], F32, device)?.heaviside(&Tensor::zeros([2], F64, device)?)
            })
            .rejects("heaviside: shapes [2] and [3] do not broadcast", |device| {
                Tensor::zeros([2], F32, device)?.heaviside(&Tensor::zeros([3], F32, device)?)
            }),
        // The values have a gradient at 0, which the step itself does not.
        OpCase { inputs: vec![Input::float(Integers(-1, 1)).constant(), Integers(-4, 4).into()], ..row("at 0", Bools) }
            .shapes([&[7, 33]])
            .also(INTEGERS)
            .also(BOOL),
    ]
}

fn infinities() -> [OpCase; 2] {
    let row = |op: &'static str, run: fn(&Tensor) -> Result<Tensor>, infinity: f64| {
        OpCase::new(op, "")
            .input(Fixed(vec![1.0, f64::INFINITY, -3.0, f64::NEG_INFINITY, f64::NAN]))
            .shapes([&[], &[0, 3], &[7, 33]])
            .also(INTEGERS)
            .also(BOOL)
            .forward_only("gives bools")
            .run(move |x| run(&x[0]))
            .oracle_for(move |dtype, x| x[0].map(|x| f64::from(dtype.is_float() && x == infinity)))
    };
    [row("isposinf", Tensor::isposinf, f64::INFINITY), row("isneginf", Tensor::isneginf, f64::NEG_INFINITY)]
}

fn nan_to_num() -> Vec<OpCase> {
    let replaced = |nan: f64, above: f64, below: f64| {
        move |x: f64| match x {
            _ if x.is_nan() => nan,
            f64::INFINITY => above,
            f64::NEG_INFINITY => below,
            _ => x,
        }
    };
    let row = |parameters: &str| {
        OpCase::new("nan_to_num", parameters).input(AwayFrom(0.25)).shapes([&[], &[0, 3], &[7, 33]]).exact()
    };
    vec![
        row("")
            .also(INTEGERS)
            .also(BOOL)
            .double_backward()
            .run(|x| x[0].nan_to_num(0.0, None, None))
            .oracle_for(move |dtype, x| {
                let max = largest(dtype);
                x[0].map(replaced(0.0, max, -max))
            })
            .adversarial("special", [specials()]),
        row("nan=-1.5 posinf=8 neginf=-4")
            .run(|x| x[0].nan_to_num(-1.5, Some(8.0), Some(-4.0)))
            .oracle(move |x| x[0].map(replaced(-1.5, 8.0, -4.0)))
            .adversarial("special", [specials()]),
    ]
}
