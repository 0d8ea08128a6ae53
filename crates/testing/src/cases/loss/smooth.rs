//! Rows of losses that are smooth at 0.

use super::mean;
use crate::prelude::*;
use ternion_core::Reduction;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let pair = |op: &'static str, parameters: &str, x: Values, target: Values| {
        OpCase::new(op, parameters).input(x).input(target)
    };
    let anything = || Uniform(-3.0, 3.0);
    vec![
        // At a residual of 0 the second derivative is 1.
        pair("huber_loss", "delta=1.5 at 0", Fixed(vec![0.5]), Fixed(vec![0.5]))
            .shapes([&[3]])
            .double_backward()
            .run(|x| x[0].huber_loss(&x[1], 1.5, Reduction::None))
            .oracle(|x| x[0].zip(&x[1], |x, t| (x - t) * (x - t) / 2.0)),
        pair("smooth_l1_loss", "beta=0.5 none", anything(), anything())
            .shapes([&[], &[7, 5], &[0]])
            .f32_limit(2e-6, 2e-6)
            .run(|x| x[0].smooth_l1_loss(&x[1], 0.5, Reduction::None))
            .oracle(|x| x[0].zip(&x[1], smooth))
            .adversarial(
                "infinite",
                [Array::new(&[2], vec![f64::INFINITY, f64::NAN]), Array::new(&[2], vec![0.0, 0.0])],
            )
            .rejects("smooth_l1_loss: beta -1, expected at least 0", |device| {
                let x = Tensor::zeros([1], F32, device)?;
                x.smooth_l1_loss(&x, -1.0, Reduction::Mean)
            }),
        pair("smooth_l1_loss", "beta=0.5 at 0", Fixed(vec![0.5]), Fixed(vec![0.5]))
            .shapes([&[3]])
            .double_backward()
            .run(|x| x[0].smooth_l1_loss(&x[1], 0.5, Reduction::Sum))
            .oracle(|x| Array::scalar(x[0].zip(&x[1], smooth).sum())),
        pair("smooth_l1_loss", "beta=0 mean", Distinct, Fixed(vec![1.0 / 64.0]))
            .shapes([&[7, 5]])
            .run(|x| x[0].smooth_l1_loss(&x[1], 0.0, Reduction::Mean))
            .oracle(|x| mean(&x[0].zip(&x[1], |x, t| (x - t).abs()))),
    ]
}

/// With `beta` = 1/2.
fn smooth(x: f64, t: f64) -> f64 {
    let d = (x - t).abs();
    if d <= 0.5 { d * d } else { d - 0.25 }
}
