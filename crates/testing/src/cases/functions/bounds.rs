//! Rows of functions with tensors as bounds.

use crate::cases::binary::offset_distinct;
use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [clamps(), pairs()].concat()
}

/// All combinations of these numbers, including equal ones, NaN and infinities.
fn combinations(name: &'static str) -> (&'static str, [Array; 3]) {
    let all = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0, -1.0, 0.0];
    let count = all.len();
    let operand = |period: usize| Array::from_fn(&[count * count * count], |at| all[(at[0] / period) % count]);
    (name, [operand(1), operand(count), operand(count * count)])
}

/// Upper bounds that equal no element of [`Distinct`] and [`offset_distinct`].
fn high() -> Values {
    Values::custom(|shapes, position, rng| {
        let count: usize = shapes[position].iter().product();
        (0..count).map(|_| rng.uniform(-4.0, 4.0).floor() + 1.0 / 128.0).collect()
    })
}

/// NaN if any argument is NaN; if both bounds apply, the upper one wins.
fn clamped(x: f64, low: f64, high: f64) -> f64 {
    match () {
        () if x.is_nan() || low.is_nan() || high.is_nan() => f64::NAN,
        () if high < low || x > high => high,
        () if x < low => low,
        () => x,
    }
}

fn clamps() -> Vec<OpCase> {
    let row = |parameters: &str| {
        OpCase::new("clamp_tensor", parameters).input(Distinct).input(offset_distinct())
    };
    let (name, adversarial) = combinations("meeting");
    let [x, low, _] = adversarial.clone();
    vec![
        row("")
            .input(high())
            .shapes([&[], &[0, 3], &[13], &[7, 33]])
            .on([&[4, 5], &[5], &[4, 1]])
            .exact()
            .double_backward()
            .run(|x| x[0].clamp_tensor(Some(&x[1]), Some(&x[2])))
            .oracle(|x| {
                let at_least = x[0].zip(&x[1], f64::max);
                at_least.zip(&x[2], f64::min)
            })
            .rejects("clamp_tensor: no bound, expected at least one", |device| {
                Tensor::zeros([2], F32, device)?.clamp_tensor(None, None)
            })
            .rejects("clamp_tensor: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
                Tensor::zeros([2], F32, device)?.clamp_tensor(Some(&Tensor::zeros([2], F64, device)?), None)
            })
            .rejects("clamp_tensor: input is bool, expected a number", |device| {
                let x = Tensor::zeros([2], Bool, device)?;
                x.clamp_tensor(Some(&x), None)
            })
            .rejects("clamp_tensor: shapes [2] and [3] do not broadcast", |device| {
                Tensor::zeros([2], F32, device)?.clamp_tensor(None, Some(&Tensor::zeros([3], F32, device)?))
            }),
        row("all meet")
            .input(high())
            .shapes([&[5]])
            .exact()
            .run(|x| x[0].clamp_tensor(Some(&x[1]), Some(&x[2])))
            .oracle(|x| {
                Array::from_fn(&x[0].shape, |at| clamped(x[0].at(at), x[1].at(at), x[2].at(at)))
            })
            .adversarial(name, adversarial),
        row("low")
            .shapes([&[7, 33]])
            .also(INTEGERS)
            .exact()
            .run(|x| x[0].clamp_tensor(Some(&x[1]), None))
            .oracle(|x| x[0].zip(&x[1], |x, low| if low.is_nan() || x.is_nan() { f64::NAN } else { x.max(low) }))
            .adversarial(name, [x, low]),
        row("high")
            .shapes([&[7, 33]])
            .exact()
            .run(|x| x[0].clamp_tensor(None, Some(&x[1])))
            .oracle(|x| x[0].zip(&x[1], f64::min)),
    ]
}

fn pairs() -> Vec<OpCase> {
    type Run = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let row = |name: &'static str, run: Run, definition: fn(f64, f64) -> f64| {
        let (adversarial, [first, second, _]) = combinations("meeting");
        OpCase::new(name, "")
            .input(Distinct)
            .input(offset_distinct())
            .shapes([&[], &[0, 3], &[13], &[7, 33]])
            .on([&[5, 1], &[7]])
            .exact()
            .double_backward()
            .run(move |x| run(&x[0], &x[1]))
            .oracle(move |x| x[0].zip(&x[1], definition))
            .adversarial(adversarial, [first, second])
            .rejects(format!("{name}: dtypes f32 and i32 differ; cast one of them with to_dtype"), move |device| {
                run(&Tensor::zeros([2], F32, device)?, &Tensor::zeros([2], I32, device)?)
            })
            .rejects(format!("{name}: input is bool, expected a number"), move |device| {
                run(&Tensor::zeros([2], Bool, device)?, &Tensor::zeros([2], Bool, device)?)
            })
    };
    // If one argument is NaN, f64::max and f64::min return the other.
    vec![row("fmax", Tensor::fmax, f64::max), row("fmin", Tensor::fmin, f64::min)]
}
