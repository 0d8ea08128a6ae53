//! Rows of rounding toward zero, and to decimals.

use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows = vec![trunc(), frac()];
    rows.extend(decimals());
    rows
}

/// Values away from integers.
fn between_integers() -> Values {
    Values::custom(|shapes, position, rng| {
        let count = shapes[position].iter().product();
        (0..count).map(|_| rng.integer(-6, 5) as f64 + rng.uniform(0.2, 0.8)).collect()
    })
}

fn specials() -> Array {
    let infinity = f64::INFINITY;
    let all = vec![f64::NAN, infinity, -infinity, 0.0, -0.0, -0.5, 0.5, 3.0, -3.0, 1e30, -65504.0, 2.5];
    Array::new(&[all.len()], all)
}

fn trunc() -> OpCase {
    OpCase::new("trunc", "")
        .input(between_integers())
        .shapes([&[], &[0, 3], &[13], &[7, 33]])
        .exact()
        .double_backward()
        .run(|x| x[0].trunc())
        .oracle(|x| x[0].map(f64::trunc))
        .adversarial("special", [specials()])
        .rejects("trunc: input is i32, expected a floating dtype", |device| Tensor::zeros([2], I32, device)?.trunc())
}

fn frac() -> OpCase {
    OpCase::new("frac", "")
        .input(between_integers())
        .shapes([&[], &[0, 3], &[13], &[7, 33]])
        .exact()
        .double_backward()
        .run(|x| x[0].frac())
        .oracle(|x| x[0].map(|x| x - x.trunc()))
        .adversarial("special", [specials()])
        .rejects("frac: input is i32, expected a floating dtype", |device| Tensor::zeros([2], I32, device)?.frac())
}

/// Scaling sixteenths by 10 or 100 is exact in f32, so that ties occur and the oracle rounds the
/// same numbers.
fn decimals() -> Vec<OpCase> {
    let row = |decimals: i32, values: Values, definition: fn(f64) -> f64| {
        OpCase::new("round_decimals", format!("decimals={decimals}"))
            .input(values)
            .shapes([&[], &[0, 3], &[7, 33]])
            .run(move |x| x[0].round_decimals(decimals))
            .oracle(move |x| x[0].map(definition))
    };
    let sixteenths = || Fixed((-40..=40).map(|k| f64::from(k) / 16.0).collect());
    vec![
        row(2, sixteenths(), |x| (x * 100.0).round_ties_even() / 100.0)
            .forward_only("has steps")
            .adversarial("special", [specials()])
            .rejects("round_decimals: input is i32, expected a floating dtype", |device| {
                Tensor::zeros([2], I32, device)?.round_decimals(1)
            })
            .rejects("round_decimals: decimals of -400, expected -308 to 308", |device| {
                Tensor::zeros([2], F32, device)?.round_decimals(-400)
            }),
        row(1, around_integers(10.0), |x| (x * 10.0).round_ties_even() / 10.0).double_backward(),
        row(0, around_integers(1.0), f64::round_ties_even).double_backward(),
        row(-1, Fixed((-30..=30).map(|k| f64::from(k) * 2.5).collect()), |x| (x / 10.0).round_ties_even() * 10.0)
            .forward_only("has steps"),
    ]
}

/// Near integers divided by `scale`: away from the discontinuities of rounding.
fn around_integers(scale: f64) -> Values {
    Values::custom(move |shapes, position, rng| {
        let count = shapes[position].iter().product();
        (0..count).map(|_| (rng.integer(-20, 20) as f64 + rng.uniform(-0.3, 0.3)) / scale).collect()
    })
}
