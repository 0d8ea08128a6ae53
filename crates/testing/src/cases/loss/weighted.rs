//! Losses with weights for classes or for elements.

use super::{CLASS, class_last, losses, mean, picked, soft_losses, some_ignored, weighted_losses};
use crate::prelude::*;
use ternion_core::{BceOptions, CrossEntropyOptions, NllOptions, Reduction};

/// The ignored target, which is not a class.
const IGNORED: f64 = -100.0;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [
        vec![
        indices("mean", Reduction::Mean, 0.0),
        indices("none", Reduction::None, 0.0),
        indices("mean label_smoothing=0.1", Reduction::Mean, 0.1)
            .adversarial(
                "all ignored",
                [Array::zeros(&[2, 3]), Array::full(&[2], IGNORED), Array::full(&[3], 0.5)],
            )
            .rejects("cross_entropy: weight has shape [2], expected [3]", |device| {
                let (x, target) = (Tensor::zeros([2, 3], F32, device)?, Tensor::zeros([2], I64, device)?);
                x.cross_entropy_with(&target, weighted_by(&Tensor::ones([2], F32, device)?, Reduction::Mean, 0.1))
            })
            .rejects("cross_entropy: weight is i64, expected a floating dtype", |device| {
                let (x, target) = (Tensor::zeros([2, 3], F32, device)?, Tensor::zeros([2], I64, device)?);
                x.cross_entropy_with(&target, weighted_by(&Tensor::ones([3], I64, device)?, Reduction::Mean, 0.1))
            })
            .rejects("cross_entropy: index 3 is out of range for size 3", |device| {
                let (x, target) = (Tensor::zeros([2, 3], F32, device)?, Tensor::full([2], 3, I64, device)?);
                x.cross_entropy_with(&target, weighted_by(&Tensor::ones([3], F32, device)?, Reduction::Mean, 0.1))
            }),
        probabilities(),
        log_probabilities(),
        ],
        elements("mse_loss", |x, t| (x - t) * (x - t), true, |x, reduction| x[0].mse_loss_weighted(&x[1], &x[2], reduction)),
        elements("l1_loss", |x, t| (x - t).abs(), true, |x, reduction| x[0].l1_loss_weighted(&x[1], &x[2], reduction)),
        vec![logits("mean", Reduction::Mean), logits("none", Reduction::None)],
        elements("huber_loss", huber, false, |x, reduction| x[0].huber_loss_weighted(&x[1], &x[2], 1.5, reduction)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// With `delta` = 1.5.
fn huber(x: f64, t: f64) -> f64 {
    let d = (x - t).abs();
    if d <= 1.5 { d * d / 2.0 } else { 1.5 * (d - 0.75) }
}

/// Losses with a weight for each element, with all reductions. The sum is divided by that of the
/// weights if `divides_by_weights`, otherwise by the number of elements.
fn elements(
    op: &'static str,
    loss: fn(f64, f64) -> f64,
    divides_by_weights: bool,
    run: fn(&[Tensor], Reduction) -> Result<Tensor>,
) -> Vec<OpCase> {
    let row = |name: &str, reduction: Reduction| {
        OpCase::new(op, format!("weight {name}"))
            .input(Distinct)
            .input(Fixed(vec![1.0 / 64.0]))
            .input(Uniform(0.25, 2.0))
            .shapes([&[7, 5], &[]])
            .f32_limit(8e-6, 2e-6)
            .run(move |x| run(x, reduction))
            .oracle(move |x| {
                let losses = x[0].zip(&x[1], loss).zip(&x[2], |loss, weight| loss * weight);
                match reduction {
                    Reduction::None => losses,
                    Reduction::Mean if divides_by_weights => Array::scalar(losses.sum() / x[2].sum()),
                    Reduction::Mean => mean(&losses),
                    _ => Array::scalar(losses.sum()),
                }
            })
    };
    let wrong = format!("{op}: weight has shape [2], expected [3]");
    vec![
        row("mean", Reduction::Mean).rejects(wrong, move |device| {
            let x = Tensor::ones([3], F32, device)?;
            run(&[x.clone(), x, Tensor::ones([2], F32, device)?], Reduction::Mean)
        }),
        row("sum", Reduction::Sum),
        row("none", Reduction::None),
    ]
}

/// Binary cross-entropy with elements weighted by a third input, broadcast to the others, and
/// positive targets weighted by a fourth.
fn logits(name: &str, reduction: Reduction) -> OpCase {
    fn options(x: &[Tensor], reduction: Reduction) -> BceOptions<'_> {
        BceOptions { weight: Some(&x[2]), pos_weight: x.get(3), reduction }
    }
    OpCase::new("bce_with_logits", format!("weight {name}"))
        .input(Uniform(-9.0, 9.0))
        .input(Uniform(0.0, 1.0))
        .input(Uniform(0.25, 4.0))
        .input(Uniform(0.25, 4.0))
        .on([&[5, 3], &[5, 3], &[3], &[5, 1]])
        .on([&[2, 4, 3], &[2, 4, 3], &[4, 1], &[3]])
        .f32_limit(8e-6, 2e-6)
        .run(move |x| x[0].bce_with_logits_with(&x[1], options(x, reduction)))
        .oracle(move |x| {
            let losses = weighted_losses(&[x[0].clone(), x[1].clone(), x[3].clone()]);
            let losses = losses.zip(&x[2], |loss, weight| loss * weight);
            if reduction == Reduction::None { losses } else { mean(&losses) }
        })
        .rejects("bce_with_logits: weight [1, 3] does not broadcast to [3, 1]", move |device| {
            let (x, weight) = (Tensor::zeros([3, 1], F32, device)?, Tensor::ones([1, 3], F32, device)?);
            x.bce_with_logits_with(&x, BceOptions { weight: Some(&weight), ..BceOptions::default() })
        })
}

fn weighted_by(weight: &Tensor, reduction: Reduction, label_smoothing: f64) -> CrossEntropyOptions<'_> {
    CrossEntropyOptions { weight: Some(weight), reduction, label_smoothing, ..Default::default() }
}

fn indices(parameters: &str, reduction: Reduction, smoothing: f64) -> OpCase {
    OpCase::new("cross_entropy", format!("weight {parameters}"))
        .input(Uniform(-9.0, 9.0))
        .input(some_ignored())
        .input(Uniform(0.25, 2.0))
        .on([&[7, 5], &[7], &[5]])
        .on([&[2, 5, 3], &[2, 3], &[5]])
        .f32_limit(8e-6, 2e-6)
        .run(move |x| x[0].cross_entropy_with(&x[1], weighted_by(&x[2], reduction, smoothing)))
        .oracle(move |x| {
            let weight = |target: f64| if target == IGNORED { 0.0 } else { x[2].data[target as usize] };
            let weights = x[1].map(weight);
            let hit = losses(&x[0], &x[1], IGNORED, 0.0).zip(&weights, |loss, w| loss * w);
            let losses = hit.zip(&even(&x[0], &x[1], &x[2]), |hit, even| {
                (1.0 - smoothing) * hit + if smoothing == 0.0 { 0.0 } else { smoothing * even }
            });
            match reduction {
                Reduction::Mean => Array::scalar(losses.sum() / weights.sum()),
                _ => losses,
            }
        })
}

/// Returns the weighted mean over all classes of the loss if that class were the target, 0 where
/// the target is ignored.
fn even(x: &Array, target: &Array, weight: &Array) -> Array {
    let rows = class_last(x);
    let classes = rows.shape[1];
    let all = Array::from_fn(&rows.shape, |at| weight.data[at[1]]);
    let mean = soft_losses(&rows, &all, 0.0).map(|loss| loss / classes as f64);
    Array::new(&target.shape, mean.data).zip(target, |mean, target| if target == IGNORED { 0.0 } else { mean })
}

fn probabilities() -> OpCase {
    OpCase::new("cross_entropy", "weight probabilities label_smoothing=0.1")
        .input(Uniform(-9.0, 9.0))
        .input(Uniform(0.0, 0.5))
        .input(Uniform(0.25, 2.0))
        .on([&[5], &[5], &[5]])
        .on([&[7, 5], &[7, 5], &[5]])
        .on([&[2, 5, 3], &[2, 5, 3], &[5]])
        .f32_limit(8e-6, 2e-6)
        .run(|x| x[0].cross_entropy_with(&x[1], weighted_by(&x[2], Reduction::Mean, 0.1)))
        .oracle(|x| {
            let (axis, classes) = (usize::from(x[0].rank() > 1), x[2].elements() as f64);
            let weighted =
                Array::from_fn(&x[1].shape, |at| (0.9 * x[1].at(at) + 0.1 / classes) * x[2].data[at[axis]]);
            mean(&soft_losses(&x[0], &weighted, 0.0))
        })
        .rejects("cross_entropy: weight has shape [2], expected [3]", |device| {
            let x = Tensor::zeros([2, 3], F32, device)?;
            x.cross_entropy_with(&x, weighted_by(&Tensor::ones([2], F32, device)?, Reduction::Mean, 0.0))
        })
}

fn log_probabilities() -> OpCase {
    fn options(weight: &Tensor) -> NllOptions<'_> {
        NllOptions { weight: Some(weight), ignore_index: 1, ..Default::default() }
    }
    OpCase::new("nll_loss", "weight ignore_index=1")
        .input(Uniform(-9.0, 0.0))
        .input(Input::index(CLASS))
        .input(Uniform(0.25, 2.0))
        .on([&[17, 5], &[17], &[5]])
        .on([&[3, 5, 7], &[3, 7], &[5]])
        .run(|x| x[0].nll_loss_with(&x[1], options(&x[2])))
        .oracle(|x| {
            let weights = x[1].map(|target| if target == 1.0 { 0.0 } else { x[2].data[target as usize] });
            let losses = picked(&x[0], &x[1], 1.0).zip(&weights, |loss, w| loss * w);
            Array::scalar(losses.sum() / weights.sum())
        })
        .rejects("nll_loss: weight has shape [3], expected [5]", |device| {
            let target = Tensor::zeros([2], I64, device)?;
            let weight = Tensor::ones([3], F32, device)?;
            Tensor::zeros([2, 5], F32, device)?.nll_loss_with(&target, options(&weight))
        })
}
