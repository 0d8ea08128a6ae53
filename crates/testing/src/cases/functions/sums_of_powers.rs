//! Rows of logarithms of sums of powers.

use crate::prelude::*;
use std::f64::consts::LN_2;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    type Method = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let kinds: [(&'static str, Method, f64); 2] =
        [("logaddexp", |x, y| x.logaddexp(y), 1.0), ("logaddexp2", |x, y| x.logaddexp2(y), LN_2)];
    let mut rows = Vec::new();
    for (op, run, scale) in kinds {
        let sum = move |x: f64, y: f64| match x == y {
            true => x + LN_2 / scale,
            false => x.max(y) + (-(x - y).abs() * scale).exp().ln_1p() / scale,
        };
        rows.push(
            OpCase::new(op, "")
                .input(Uniform(-9.0, 9.0))
                .input(Uniform(-9.0, 9.0))
                .shapes([&[], &[5, 7], &[0]])
                .on([&[5, 1], &[7]])
                .double_backward()
                .f32_limit(2e-6, 2e-6)
                .run(move |x| run(&x[0], &x[1]))
                .oracle(move |x| x[0].zip(&x[1], sum))
                .adversarial("special", pairs())
                .rejects(format!("{op}: shapes [2] and [3] do not broadcast"), move |device| {
                    run(&Tensor::zeros([2], F32, device)?, &Tensor::zeros([3], F32, device)?)
                }),
        );
        // If both operands are equal there is no kink.
        rows.push(
            OpCase::new(op, "of equal numbers")
                .input(Fixed(vec![1.0, -2.0, 0.5]))
                .input(Fixed(vec![1.0, -2.0, 0.5]))
                .shapes([&[3]])
                .double_backward()
                .run(move |x| run(&x[0], &x[1]))
                .oracle(move |x| x[0].zip(&x[1], sum)),
        );
    }
    rows.push(logcumsumexp("axis=1", Uniform(-9.0, 9.0)).shapes([&[3, 7], &[2, 5, 3], &[2, 1], &[2, 0]]));
    rows.push(logcumsumexp("of equal numbers, axis=1", Fixed(vec![0.5])).shapes([&[2, 5]]));
    rows
}

fn pairs() -> [Array; 2] {
    let infinity = f64::INFINITY;
    [
        Array::new(&[6], vec![infinity, -infinity, infinity, f64::NAN, 60000.0, -infinity]),
        Array::new(&[6], vec![infinity, -infinity, -infinity, 1.0, 60000.0, 3.0]),
    ]
}

fn logcumsumexp(parameters: &str, values: Values) -> OpCase {
    OpCase::new("logcumsumexp", parameters)
        .input(values)
        .double_backward()
        .f32_limit(4e-6, 2e-6)
        .run(|x| x[0].logcumsumexp(1))
        .oracle(|x| x[0].map_slices(1, |slice| (1..=slice.len()).map(|end| crate::oracle::log_sum_exp(&slice[..end])).collect()))
        .adversarial("infinite", [Array::new(&[1, 3], vec![f64::NEG_INFINITY, f64::NEG_INFINITY, 1.0])])
        .rejects("logcumsumexp: axis 1 on shape [3]", |device| Tensor::zeros([3], F32, device)?.logcumsumexp(1))
}
