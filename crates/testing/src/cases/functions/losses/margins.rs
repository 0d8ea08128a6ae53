//! Rows of margin losses.

use super::{mean, signs};
use crate::prelude::*;
use ternion_core::{Reduction, enable_grad};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [soft(), hinge(), ranking()].concat()
}

fn soft() -> Vec<OpCase> {
    let loss = |x: f64, t: f64| (-t * x).max(0.0) + (-(t * x).abs()).exp().ln_1p();
    vec![
        OpCase::new("soft_margin_loss", "none")
            .input(Uniform(-9.0, 9.0))
            .input(signs())
            .shapes([&[], &[5, 7], &[0, 3]])
            .double_backward()
            .f32_limit(2e-6, 2e-6)
            .run(|x| x[0].soft_margin_loss(&x[1], Reduction::None))
            .oracle(move |x| x[0].zip(&x[1], loss))
            .adversarial(
                "large",
                [Array::new(&[3], vec![60000.0, -60000.0, f64::NAN]), Array::new(&[3], vec![1.0, 1.0, 1.0])],
            )
            .rejects("soft_margin_loss: target has shape [3], expected [3, 1]", |device| {
                Tensor::zeros([3, 1], F32, device)?
                    .soft_margin_loss(&Tensor::zeros([3], F32, device)?, Reduction::Mean)
            }),
        OpCase::new("soft_margin_loss", "mean")
            .input(Uniform(-9.0, 9.0))
            .input(signs())
            .shapes([&[5, 7]])
            .run(|x| x[0].soft_margin_loss(&x[1], Reduction::Mean))
            .oracle(move |x| mean(&x[0].zip(&x[1], loss))),
    ]
}

/// Targets of 1 and -1, and sometimes 0.
fn some_neither() -> Input {
    Input::float(Fixed(vec![1.0, -1.0, -1.0, 1.0, 0.0])).constant()
}

fn hinge() -> Vec<OpCase> {
    let loss = |x: f64, t: f64| {
        let below_margin = if x > 1.5 { 0.0 } else { 1.5 - x };
        // NaN is preserved: no comparison with it holds.
        let below_margin = if x.is_nan() { x } else { below_margin };
        (if t == -1.0 { 0.0 } else { x }) + (if t == 1.0 { 0.0 } else { below_margin })
    };
    vec![
        OpCase::new("hinge_embedding_loss", "margin=1.5 none")
            .input(Values::custom(|shapes, position, rng| {
                // Away from the margin.
                let count = shapes[position].iter().product();
                (0..count).map(|_| 1.5 + rng.sign() * rng.uniform(0.1, 2.0)).collect()
            }))
            .input(some_neither())
            .shapes([&[], &[5, 7], &[0]])
            .double_backward()
            .run(|x| x[0].hinge_embedding_loss(&x[1], 1.5, Reduction::None))
            .oracle(move |x| x[0].zip(&x[1], loss))
            .adversarial(
                "not numbers",
                [
                    Array::new(&[4], vec![f64::NAN, f64::INFINITY, f64::NAN, f64::NEG_INFINITY]),
                    Array::new(&[4], vec![1.0, -1.0, -1.0, 1.0]),
                ],
            )
            .rejects("hinge_embedding_loss: target has shape [2], expected [3]", |device| {
                let target = Tensor::zeros([2], I64, device)?;
                Tensor::zeros([3], F32, device)?.hinge_embedding_loss(&target, 1.0, Reduction::Mean)
            })
            .rejects("hinge_embedding_loss: input is i64, expected a floating dtype", |device| {
                let x = Tensor::zeros([3], I64, device)?;
                x.hinge_embedding_loss(&x, 1.0, Reduction::Mean)
            }),
        OpCase::new("hinge_embedding_loss", "whole targets, at the margin, gradient")
            .input(Fixed(vec![1.5]))
            .input(Input::index(Fixed(vec![-1.0, 1.0])))
            .shapes([&[4]])
            .forward_only("a gradient itself")
            .run(|x| {
                let leaf = x[0].requires_grad()?;
                let loss = enable_grad(|| leaf.hinge_embedding_loss(&x[1], 1.5, Reduction::Sum))?;
                let gradients = loss.backward()?;
                gradients.get(&leaf).cloned().ok_or_else(|| Error::autograd("no gradient"))
            })
            // At the margin the gradient is that above it, as in PyTorch.
            .oracle(|_| Array::new(&[4], vec![-1.0, 1.0, -1.0, 1.0])),
    ]
}

fn ranking() -> Vec<OpCase> {
    let loss = |x: &[Array]| {
        let difference = x[0].zip(&x[1], |a, b| a - b);
        difference.zip(&x[2], |d, t| (0.25 - t * d).max(0.0))
    };
    let row = |parameters: &str, reduction: Reduction| {
        OpCase::new("margin_ranking_loss", parameters)
            .input(Distinct)
            .input(Fixed(vec![1.0 / 64.0]))
            .input(signs())
            .run(move |x| x[0].margin_ranking_loss(&x[1], &x[2], 0.25, reduction))
    };
    vec![
        row("margin=0.25 none", Reduction::None)
            .shapes([&[], &[5, 7], &[0]])
            .double_backward()
            .oracle(loss)
            .rejects("margin_ranking_loss: other has shape [3], expected [4]", |device| {
                let x = Tensor::zeros([4], F32, device)?;
                x.margin_ranking_loss(&Tensor::zeros([3], F32, device)?, &x, 0.0, Reduction::Mean)
            }),
        row("margin=0.25 mean", Reduction::Mean).shapes([&[5, 7]]).oracle(move |x| mean(&loss(x))),
    ]
}
