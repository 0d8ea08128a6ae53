//! Rows of negative log-likelihood losses.

use super::mean;
use crate::prelude::*;
use std::f64::consts::TAU;
use ternion_core::{GaussianNllOptions, PoissonNllOptions, Reduction, enable_grad};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [poisson(), gaussian(), binary()].concat()
}

fn poisson() -> Vec<OpCase> {
    let row = |parameters: &str, x: Values, options: PoissonNllOptions| {
        OpCase::new("poisson_nll_loss", parameters)
            .input(x)
            .input(Uniform(1.5, 5.0))
            .double_backward()
            .f32_limit(1e-5, 2e-6)
            .run(move |x| x[0].poisson_nll_loss(&x[1], options))
    };
    let none = PoissonNllOptions { reduction: Reduction::None, ..PoissonNllOptions::default() };
    let stirling = |t: f64| if t > 1.0 { t * t.ln() - t + 0.5 * (TAU * t).ln() } else { 0.0 };
    let zeros = [Array::zeros(&[3]), Array::new(&[3], vec![0.0, 1.0, 2.0])];
    vec![
        row("none", Uniform(-2.0, 2.0), none)
            .shapes([&[], &[5, 7], &[0]])
            .oracle(|x| x[0].zip(&x[1], |x, t| x.exp() - t * x))
            .rejects("poisson_nll_loss: target has shape [2], expected [3]", |device| {
                let target = Tensor::zeros([2], F32, device)?;
                Tensor::zeros([3], F32, device)?.poisson_nll_loss(&target, PoissonNllOptions::default())
            }),
        row("full none", Uniform(-2.0, 2.0), PoissonNllOptions { full: true, ..none })
            .shapes([&[5, 7]])
            .oracle(move |x| x[0].zip(&x[1], |x, t| x.exp() - t * x + stirling(t)))
            .adversarial("small counts", zeros.clone()),
        row("log_input=false none", Uniform(0.5, 3.0), PoissonNllOptions { log_input: false, ..none })
            .shapes([&[5, 7]])
            .oracle(|x| x[0].zip(&x[1], |x, t| x - t * (x + 1e-8).ln()))
            .adversarial("rate 0", zeros),
        row("mean", Uniform(-2.0, 2.0), PoissonNllOptions::default())
            .shapes([&[5, 7]])
            .oracle(|x| mean(&x[0].zip(&x[1], |x, t| x.exp() - t * x))),
    ]
}

fn gaussian() -> Vec<OpCase> {
    let losses = |x: &[Array], full: bool| {
        let square = x[0].zip(&x[1], |x, t| (x - t) * (x - t));
        let constant = if full { TAU.ln() } else { 0.0 };
        square.zip(&x[2], |square, v| 0.5 * (v.ln() + square / v + constant))
    };
    let row = |parameters: &str, options: GaussianNllOptions| {
        OpCase::new("gaussian_nll_loss", parameters)
            .input(Uniform(-3.0, 3.0))
            .input(Uniform(-3.0, 3.0))
            .input(Uniform(0.5, 2.0))
            .f32_limit(8e-6, 4e-6)
            .run(move |x| x[0].gaussian_nll_loss(&x[1], &x[2], options))
    };
    let none = GaussianNllOptions { reduction: Reduction::None, ..GaussianNllOptions::default() };
    vec![
        row("none", none)
            .shapes([&[], &[5, 7], &[0]])
            .on([&[5, 7], &[5, 7], &[5, 1]])
            .double_backward()
            .oracle(move |x| losses(x, false))
            .adversarial("no variance", [Array::full(&[2], 0.5), Array::full(&[2], 0.5), Array::full(&[2], f64::INFINITY)])
            .rejects("gaussian_nll_loss: variance [2] does not broadcast to [3]", |device| {
                let x = Tensor::zeros([3], F32, device)?;
                x.gaussian_nll_loss(&x, &Tensor::ones([2], F32, device)?, GaussianNllOptions::default())
            }),
        // Below eps the gradient of a variance is that at eps, unlike central differences.
        row("eps=4 none", GaussianNllOptions { eps: 4.0, ..none })
            .shapes([&[5, 7]])
            .forward_only("no derivative below eps")
            .oracle(move |x| losses(&[x[0].clone(), x[1].clone(), x[2].map(|v| v.max(4.0))], false)),
        OpCase::new("gaussian_nll_loss", "variances below 0")
            .input(Uniform(-3.0, 3.0))
            .input(Uniform(-3.0, 3.0))
            .input(Fixed(vec![-1.0, -0.25, 2.0, f64::NAN]))
            .shapes([&[2, 4]])
            .forward_only("no numbers")
            .f32_limit(8e-6, 4e-6)
            .run(move |x| x[0].gaussian_nll_loss(&x[1], &x[2], none))
            .oracle(move |x| losses(x, false)),
        row("full mean", GaussianNllOptions { full: true, ..GaussianNllOptions::default() })
            .shapes([&[5, 7]])
            .oracle(move |x| mean(&losses(x, true))),
    ]
}

fn binary() -> Vec<OpCase> {
    let loss = |x: f64, t: f64| {
        let logarithm = |x: f64| x.ln().max(-100.0);
        -(t * logarithm(x) + (1.0 - t) * logarithm(1.0 - x))
    };
    vec![
        OpCase::new("binary_cross_entropy", "none")
            .input(Uniform(0.25, 0.75))
            .input(Uniform(0.0, 1.0))
            .shapes([&[], &[5, 7], &[0]])
            .double_backward()
            .f32_limit(2e-6, 2e-6)
            .run(|x| x[0].binary_cross_entropy(&x[1], None, Reduction::None))
            .oracle(move |x| x[0].zip(&x[1], loss))
            .adversarial(
                "certain",
                [Array::new(&[4], vec![0.0, 1.0, 0.0, 1.0]), Array::new(&[4], vec![0.0, 1.0, 1.0, 0.0])],
            )
            .rejects("binary_cross_entropy: weight [2] does not broadcast to [3]", |device| {
                let x = Tensor::zeros([3], F32, device)?;
                x.binary_cross_entropy(&x, Some(&Tensor::ones([2], F32, device)?), Reduction::Mean)
            }),
        OpCase::new("binary_cross_entropy", "weight mean")
            .input(Uniform(0.05, 0.95))
            .input(Uniform(0.0, 1.0))
            .input(Uniform(0.5, 2.0))
            .on([&[5, 7], &[5, 7], &[7]])
            .run(|x| x[0].binary_cross_entropy(&x[1], Some(&x[2]), Reduction::Mean))
            .oracle(move |x| mean(&x[0].zip(&x[1], loss).zip(&x[2], |loss, weight| loss * weight))),
        // At 0 and 1 the gradient is (x - target) / 1e-12, as in PyTorch.
        OpCase::new("binary_cross_entropy", "gradient at 0 and 1")
            .input(Fixed(vec![0.0, 1.0]))
            .input(Fixed(vec![0.0, 1.0, 1.0, 0.0]))
            .shapes([&[4]])
            .dtypes(&[F64, F32])
            .forward_only("a gradient itself")
            .run(|x| {
                let leaf = x[0].requires_grad()?;
                let loss = enable_grad(|| leaf.binary_cross_entropy(&x[1], None, Reduction::Sum))?;
                let gradients = loss.backward()?;
                gradients.get(&leaf).cloned().ok_or_else(|| Error::autograd("no gradient"))
            })
            .oracle(|_| Array::new(&[4], vec![0.0, 0.0, -1e12, 1e12])),
    ]
}
