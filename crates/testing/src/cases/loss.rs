//! Rows of losses. Half-precision inputs are computed in f32, and their losses are f32.

use super::softmax::log_softmax;
use crate::oracle::{self, log_sum_exp};
use crate::prelude::*;
use ternion_core::dispatch::{apply, apply_one};
use ternion_core::ops::loss::{
    CrossEntropy, CrossEntropyGrad, CrossEntropyGradUpdate, CrossEntropyWithGrad,
};
use ternion_core::{BceOptions, CrossEntropyOptions, NllOptions, Reduction};

mod linear;
mod smooth;
mod weighted;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [
        cross_entropies(),
        cross_entropy_ops(),
        cross_entropy_with_grad(),
        nll_and_accuracy(),
        elementwise(),
        linear::rows(),
        smooth::rows(),
        weighted::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

const CLASS: Values = Values::Index { input: 0, axis: 1 };

/// Class indices for the first input's axis 1, one in four of them -100.
fn some_ignored() -> Input {
    Input::index(Values::custom(|shapes, position, rng| {
        let elements: usize = shapes[position].iter().product();
        let classes = shapes[0][1] as i64;
        (0..elements)
            .map(|_| if rng.integer(0, 3) == 0 { -100.0 } else { rng.integer(0, classes - 1) as f64 })
            .collect()
    }))
}

fn with_options(
    options: CrossEntropyOptions<'static>,
) -> impl Fn(&[Tensor]) -> Result<Tensor> + Send + Sync + 'static {
    move |x| x[0].cross_entropy_with(&x[1], options)
}

fn cross_entropies() -> Vec<OpCase> {
    // A log-sum-exp of numbers up to 9 minus one of them: its accuracy is that of the numbers.
    let logits = |parameters: &str| {
        OpCase::new("cross_entropy", parameters).input(Uniform(-9.0, 9.0)).f32_limit(2e-6, 2e-6)
    };
    let options = CrossEntropyOptions::default();
    let smoothed = CrossEntropyOptions { label_smoothing: 0.1, ..options };
    vec![
        logits("")
            .input(Input::index(CLASS))
            .on([&[1, 1], &[1]])
            .on([&[7, 33], &[7]])
            .on([&[2, 5, 3], &[2, 3]])
            .on([&[2, 5, 3, 2], &[2, 3, 2]])
            .on([&[0, 5], &[0]])
            .double_backward()
            .run(|x| x[0].cross_entropy(&x[1]))
            .oracle(|x| counted_mean(&losses(&x[0], &x[1], -100.0, 0.0), &x[1], -100.0))
            .adversarial(
                "infinite",
                [
                    Array::new(&[2, 3], vec![f64::NEG_INFINITY, 0.0, 1.0, f64::NEG_INFINITY, 2.0, 60000.0]),
                    Array::new(&[2], vec![1.0, 0.0]),
                ],
            )
            .adversarial("all ignored", [Array::zeros(&[2, 3]), Array::full(&[2], -100.0)])
            .adversarial("only -infinity", [Array::full(&[1, 3], f64::NEG_INFINITY), Array::zeros(&[1])])
            .adversarial(
                "infinity",
                [Array::new(&[1, 3], vec![f64::INFINITY, 0.0, 1.0]), Array::new(&[1], vec![2.0])],
            )
            .rejects("cross_entropy: index 5 is out of range for size 5", |device| {
                let target = Tensor::from_slice(&[1i64, 5], [2], device)?;
                Tensor::zeros([2, 5], F32, device)?.cross_entropy(&target)
            })
            .rejects("cross_entropy: index -1 is out of range for size 5", |device| {
                let target = Tensor::from_slice(&[1i32, -1], [2], device)?;
                Tensor::zeros([2, 5], F32, device)?.cross_entropy(&target)
            })
            .rejects("cross_entropy: target has shape [3], expected [2]", |device| {
                Tensor::zeros([2, 5], F32, device)?.cross_entropy(&Tensor::zeros([3], I64, device)?)
            })
            .rejects("cross_entropy: target is u8, expected i32 or i64", |device| {
                Tensor::zeros([2, 5], F32, device)?.cross_entropy(&Tensor::zeros([2], U8, device)?)
            })
            .rejects("cross_entropy: logits is i32, expected a floating dtype", |device| {
                Tensor::zeros([2, 5], I32, device)?.cross_entropy(&Tensor::zeros([2], I64, device)?)
            })
            .rejects("cross_entropy: label smoothing 1.5, expected 0 to 1", |device| {
                let options = CrossEntropyOptions { label_smoothing: 1.5, ..Default::default() };
                Tensor::zeros([2, 5], F32, device)?
                    .cross_entropy_with(&Tensor::zeros([2], I64, device)?, options)
            })
            .rejects("cross_entropy: logits of shape [2, 0] have no classes", |device| {
                Tensor::zeros([2, 0], F32, device)?.cross_entropy(&Tensor::zeros([2], I64, device)?)
            }),
        large_together("offset 2^20")
            .forward_only("differences of the oracle drown in the offset")
            .run(|x| x[0].cross_entropy(&x[1]))
            .oracle(|x| counted_mean(&losses(&minus_largest(&x[0]), &x[1], -100.0, 0.0), &x[1], -100.0))
            .adversarial(
                "offset 1e8",
                [Array::new(&[2, 2], vec![1e8, 1e8, 1e8, 1e8 - 8.0]), Array::new(&[2], vec![1.0, 1.0])],
            ),
        large_together("gradient at offset 2^20")
            .forward_only("it is a gradient, given by a formula")
            .run(|x| {
                let leaf = x[0].requires_grad()?;
                let gradients = ternion_core::enable_grad(|| leaf.cross_entropy(&x[1])?.backward())?;
                gradients.get(&leaf).cloned().ok_or_else(|| ternion_core::Error::autograd("none"))
            })
            .oracle(|x| {
                let (p, rows) = (oracle::softmax(&minus_largest(&x[0]), 1), x[0].shape[0]);
                Array::from_fn(&x[0].shape, |at| {
                    let hit = f64::from(u8::from(x[1].data[at[0]] == at[1] as f64));
                    (p.at(at) - hit) / rows as f64
                })
            }),
        logits("one sample")
            .input(Input::index(Values::Index { input: 0, axis: 0 }))
            .on([&[5], &[]])
            .run(|x| x[0].cross_entropy(&x[1]))
            .oracle(|x| {
                let losses = losses(&x[0].reshape(&[1, 5]), &x[1].reshape(&[1]), -100.0, 0.0);
                Array::scalar(losses.data[0])
            }),
        logits("ignored")
            .input(some_ignored())
            .on([&[17, 5], &[17]])
            .on([&[3, 5, 7], &[3, 7]])
            .double_backward()
            .run(|x| x[0].cross_entropy(&x[1]))
            .oracle(|x| counted_mean(&losses(&x[0], &x[1], -100.0, 0.0), &x[1], -100.0)),
        logits("ignore_index=2 label_smoothing=0.1")
            .input(Input::index(CLASS))
            .on([&[17, 5], &[17]])
            .double_backward()
            .run(with_options(CrossEntropyOptions { ignore_index: 2, ..smoothed }))
            .oracle(|x| counted_mean(&losses(&x[0], &x[1], 2.0, 0.1), &x[1], 2.0)),
        logits("none label_smoothing=0.1")
            .input(some_ignored())
            .on([&[7, 5], &[7]])
            .on([&[2, 5, 3], &[2, 3]])
            .run(with_options(CrossEntropyOptions { reduction: Reduction::None, ..smoothed }))
            .oracle(|x| losses(&x[0], &x[1], -100.0, 0.1)),
        logits("sum")
            .input(some_ignored())
            .on([&[7, 5], &[7]])
            .f32_limit(1e-5, 2e-6)
            .run(with_options(CrossEntropyOptions { reduction: Reduction::Sum, ..options }))
            .oracle(|x| Array::scalar(losses(&x[0], &x[1], -100.0, 0.0).sum())),
        logits("probabilities")
            .input(Uniform(0.0, 0.5))
            .shapes([&[5], &[7, 5], &[2, 5, 3]])
            .double_backward()
            .run(|x| x[0].cross_entropy(&x[1]))
            .oracle(|x| mean(&soft_losses(&x[0], &x[1], 0.0)))
            .rejects("cross_entropy: target has shape [2, 4], expected [2, 5]", |device| {
                Tensor::zeros([2, 5], F32, device)?.cross_entropy(&Tensor::zeros([2, 4], F32, device)?)
            })
            .rejects("cross_entropy: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
                Tensor::zeros([2, 5], F32, device)?.cross_entropy(&Tensor::zeros([2, 5], F64, device)?)
            }),
        logits("probabilities none label_smoothing=0.1")
            .input(Uniform(0.0, 0.5))
            .shapes([&[7, 5], &[2, 5, 3]])
            .f32_limit(1e-5, 2e-6)
            .run(with_options(CrossEntropyOptions { reduction: Reduction::None, ..smoothed }))
            .oracle(|x| soft_losses(&x[0], &x[1], 0.1)),
    ]
}

/// A row of logits that are all large: only their differences matter, and those are exact.
fn large_together(parameters: &str) -> OpCase {
    OpCase::new("cross_entropy", parameters)
        .input(Values::custom(|shapes, position, rng| {
            let count = shapes[position].iter().product();
            (0..count).map(|_| 1048576.0 + (8.0 * rng.uniform(-3.0, 3.0)).round() / 8.0).collect()
        }))
        .input(Input::index(CLASS))
        .on([&[7, 33], &[7]])
        .on([&[2, 2], &[2]])
        .dtypes(&[F64, F32])
        .f32_limit(2e-6, 2e-6)
}

fn minus_largest(x: &Array) -> Array {
    let offset = largest(&x.data);
    x.map(|x| x - offset)
}

/// The ops themselves, with their second outputs and as used in second-order gradients.
fn cross_entropy_ops() -> Vec<OpCase> {
    let op = |smoothing| CrossEntropy { ignore_index: -100, label_smoothing: smoothing };
    vec![
        OpCase::new("cross_entropy", "op")
            .input(Uniform(-9.0, 9.0))
            .input(some_ignored())
            .on([&[7, 33], &[7]])
            .on([&[3, 1], &[3]])
            .on([&[3, 1030], &[3]])
            .f32_limit(2e-6, 2e-6)
            .double_backward()
            .run(move |x| Ok(apply(op(0.1), &[&x[0], &x[1]])?.into_vec()))
            .oracle(|x| {
                let log_sum = |row: &[f64]| log_sum_exp(row) - largest(row);
                (losses(&x[0], &x[1], -100.0, 0.1), x[0].reduce(&[1], Keep::No, log_sum))
            })
            .perf([&[8192, 1000], &[8192]]),
        OpCase::new("cross_entropy_grad", "label_smoothing=0.1")
            .input(Uniform(-4.0, 4.0))
            .input(some_ignored())
            .input(Input::accumulator(Uniform(-2.0, 2.0)))
            .input(Input::accumulator(Uniform(-2.0, 2.0)))
            .on([&[7, 33], &[7], &[7], &[7]])
            .on([&[0, 3], &[0], &[0], &[0]])
            // 2 exp(2) is the largest value that occurs.
            .f32_limit(1e-5, 2e-6)
            .double_backward()
            .run(|x| {
                let op = CrossEntropyGrad { ignore_index: -100, label_smoothing: 0.1 };
                apply_one(op, &[&x[0], &x[1], &x[2], &x[3]])
            })
            .oracle(|x| loss_grads(&x[0], &x[1], &x[2], &x[3], 0.1))
            .rejects("cross_entropy_grad: index 3 is out of range for size 3", |device| {
                let (x, per_row) = (Tensor::zeros([2, 3], F32, device)?, Tensor::ones([2], F32, device)?);
                let op = CrossEntropyGrad { ignore_index: -100, label_smoothing: 0.0 };
                apply_one(op, &[&x, &Tensor::from_slice(&[0i64, 3], [2], device)?, &per_row, &per_row])
            })
            .rejects("cross_entropy_grad: log_sum is f16, expected f32", |device| {
                let (x, target) = (Tensor::zeros([2, 3], F16, device)?, Tensor::zeros([2], I64, device)?);
                let per_row = Tensor::zeros([2], F16, device)?;
                let op = CrossEntropyGrad { ignore_index: -100, label_smoothing: 0.0 };
                apply_one(op, &[&x, &target, &per_row, &per_row])
            }),
    ]
}

/// `dloss * (p - w)`: the gradient of smoothed losses, from the log-sum-exp.
fn loss_grads(x: &Array, target: &Array, log_sum: &Array, dloss: &Array, smoothing: f64) -> Array {
    let classes = x.shape[1] as f64;
    let shift = x.reduce(&[1], Keep::No, largest);
    Array::from_fn(&x.shape, |at| {
        let (row, target) = (at[0], target.data[at[0]]);
        let is_target = f64::from(u8::from(target == at[1] as f64));
        let p = (x.at(at) - shift.data[row] - log_sum.data[row]).exp();
        let value = dloss.data[row] * (p - (1.0 - smoothing) * is_target - smoothing / classes);
        if target == -100.0 { 0.0 } else { value }
    })
}

/// The op that computes the gradient in the forward pass, and the op that updates it.
fn cross_entropy_with_grad() -> Vec<OpCase> {
    let both = |smoothing: f64| {
        OpCase::new("cross_entropy_with_grad", format!("label_smoothing={smoothing}"))
            // The largest logit of a row is unique: with several, the log-sum-exp as computed has a
            // kink.
            .input(Distinct)
            .input(some_ignored())
            .input(Input::accumulator(Uniform(-2.0, 2.0)))
            .on([&[7, 33], &[7], &[7]])
            .on([&[3, 1], &[3], &[3]])
            .on([&[1, 510], &[1], &[1]])
            .on([&[5, 64], &[5], &[5]])
            .on([&[0, 3], &[0], &[0]])
            .f32_limit(2e-6, 2e-6)
            .double_backward()
            .run(move |x| {
                let op = CrossEntropyWithGrad { ignore_index: -100, label_smoothing: smoothing, in_place: false };
                Ok(apply(op, &[&x[0], &x[1], &x[2]])?.into_vec())
            })
            .oracle(move |x| {
                let log_sum = x[0].reduce(&[1], Keep::No, |row| log_sum_exp(row) - largest(row));
                let grads = loss_grads(&x[0], &x[1], &log_sum, &x[2], smoothing);
                vec![losses(&x[0], &x[1], -100.0, smoothing), log_sum, grads]
            })
    };
    let update = |x: &[Tensor]| {
        let op = CrossEntropyGradUpdate { ignore_index: -100, label_smoothing: 0.1 };
        let dlogits = x[5].copy()?;
        apply_one(op, &[&x[0], &x[1], &x[2], &x[3], &x[4], &dlogits])?;
        Ok(dlogits)
    };
    vec![
        both(0.0)
            .perf([&[8192, 1000], &[8192], &[8192]])
            .rejects("cross_entropy_with_grad: grad_output is f16, expected f32", |device| {
                let (x, target) = (Tensor::zeros([2, 3], F16, device)?, Tensor::zeros([2], I64, device)?);
                let op = CrossEntropyWithGrad { ignore_index: -100, label_smoothing: 0.0, in_place: false };
                apply_one(op, &[&x, &target, &Tensor::zeros([2], F16, device)?])
            })
            .rejects("cross_entropy_with_grad: index -2 is out of range for size 3", |device| {
                let target = Tensor::from_slice(&[-2i32, 0], [2], device)?;
                let op = CrossEntropyWithGrad { ignore_index: -100, label_smoothing: 0.0, in_place: false };
                let x = Tensor::zeros([2, 3], F32, device)?;
                Ok(apply(op, &[&x, &target, &Tensor::ones([2], F32, device)?])?[0].clone())
            }),
        both(0.1),
        OpCase::new("cross_entropy_grad_update", "label_smoothing=0.1")
            .input(Uniform(-4.0, 4.0))
            .input(some_ignored())
            .input(Input::accumulator(Uniform(-2.0, 2.0)))
            // The gradient of the loss and its prediction, which are equal in half of the rows.
            .input(Input::accumulator(Values::Integers(1, 2)))
            .input(Input::accumulator(Values::Integers(1, 2)))
            .input(Uniform(-2.0, 2.0))
            .on([&[7, 33], &[7], &[7], &[7], &[7], &[7, 33]])
            .on([&[70, 5], &[70], &[70], &[70], &[70], &[70, 5]])
            .on([&[3, 1030], &[3], &[3], &[3], &[3], &[3, 1030]])
            .on([&[0, 3], &[0], &[0], &[0], &[0], &[0, 3]])
            .f32_limit(1e-5, 2e-6)
            .forward_only("changes dlogits in place")
            .run(update)
            .oracle(|x| {
                let fresh = loss_grads(&x[0], &x[1], &x[2], &x[3], 0.1);
                Array::from_fn(&x[0].shape, |at| {
                    let row = at[0];
                    if x[3].data[row] == x[4].data[row] { x[5].at(at) } else { fresh.at(at) }
                })
            })
            .rejects("cross_entropy_grad_update: index 3 is out of range for size 3", move |device| {
                let (x, target) = (Tensor::zeros([2, 3], F32, device)?, Tensor::full([2], 3, I64, device)?);
                let (per_row, predicted) = (Tensor::ones([2], F32, device)?, Tensor::zeros([2], F32, device)?);
                update(&[x.clone(), target, per_row.clone(), per_row, predicted, x])
            })
            .rejects("cross_entropy_grad_update: dlogits has shape [3, 2], expected [2, 3]", move |device| {
                let (x, target) = (Tensor::zeros([2, 3], F32, device)?, Tensor::zeros([2], I64, device)?);
                let per_row = Tensor::zeros([2], F32, device)?;
                update(&[x, target, per_row.clone(), per_row.clone(), per_row, zeros(&[3, 2], device)?])
            }),
    ]
}

fn nll_and_accuracy() -> Vec<OpCase> {
    vec![
        OpCase::new("nll_loss", "")
            .input(Uniform(-9.0, 0.0))
            .input(some_ignored())
            .on([&[17, 5], &[17]])
            .on([&[3, 5, 7], &[3, 7]])
            .run(|x| x[0].nll_loss(&x[1]))
            .oracle(|x| counted_mean(&picked(&x[0], &x[1], -100.0), &x[1], -100.0))
            .rejects("nll_loss: index 5 is out of range for size 5", |device| {
                let target = Tensor::from_slice(&[1i64, 5], [2], device)?;
                Tensor::zeros([2, 5], F32, device)?.nll_loss(&target)
            })
            .rejects("nll_loss: expected at least 1 axes, got shape []", |device| {
                Tensor::zeros((), F32, device)?.nll_loss(&Tensor::zeros((), I64, device)?)
            }),
        OpCase::new("nll_loss", "ignore_index=1 none")
            .input(Uniform(-9.0, 0.0))
            .input(Input::index(CLASS))
            .on([&[7, 5], &[7]])
            .run(|x| x[0].nll_loss_with(&x[1], NllOptions { ignore_index: 1, reduction: Reduction::None, ..Default::default() }))
            .oracle(|x| picked(&x[0], &x[1], 1.0)),
        OpCase::new("accuracy", "")
            .input(Distinct)
            .input(Input::index(CLASS))
            .on([&[33, 3], &[33]])
            .on([&[3, 2, 5], &[3, 5]])
            .casts()
            .forward_only("it counts")
            .run(|x| x[0].accuracy(&x[1]))
            .oracle(|x| {
                let best = class_last(&x[0]).map_slices(1, |row| {
                    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    vec![row.iter().position(|&v| v == largest).map_or(-1.0, |at| at as f64)]
                });
                let right = best.data.iter().zip(&x[1].data).filter(|(best, target)| best == target).count();
                Array::scalar(right as f64 / x[1].elements() as f64)
            })
            .rejects("accuracy: index 3 is out of range for size 3", |device| {
                Tensor::zeros([2, 3], F32, device)?.accuracy(&Tensor::full([2], 3, I64, device)?)
            })
            .rejects("accuracy: target is f32, expected i32 or i64", |device| {
                Tensor::zeros([2, 3], F32, device)?.accuracy(&Tensor::zeros([2], F32, device)?)
            }),
    ]
}

fn elementwise() -> Vec<OpCase> {
    let pair = |op: &'static str, parameters: &str, x: Values, target: Values| {
        OpCase::new(op, parameters).input(x).input(target)
    };
    let anything = || Uniform(-3.0, 3.0);
    let huber = |d: f64| if d.abs() <= 1.5 { d * d / 2.0 } else { 1.5 * (d.abs() - 0.75) };
    let bce = |x: f64, t: f64| x.max(0.0) - x * t + (-x.abs()).exp().ln_1p();
    vec![
        pair("mse_loss", "mean", anything(), anything())
            .shapes([&[], &[7, 33], &[0]])
            .double_backward()
            .run(|x| x[0].mse_loss(&x[1], Reduction::Mean))
            .oracle(|x| mean(&x[0].zip(&x[1], |x, t| (x - t) * (x - t))))
            .rejects("mse_loss: target has shape [3], expected [3, 1]", |device| {
                Tensor::zeros([3, 1], F32, device)?
                    .mse_loss(&Tensor::zeros([3], F32, device)?, Reduction::Mean)
            })
            .rejects("mse_loss: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
                Tensor::zeros([3], F32, device)?.mse_loss(&Tensor::zeros([3], F64, device)?, Reduction::Mean)
            })
            .rejects("mse_loss: input is i32, expected a floating dtype", |device| {
                let x = Tensor::zeros([3], I32, device)?;
                x.mse_loss(&x, Reduction::Mean)
            }),
        pair("mse_loss", "none", anything(), anything())
            .shapes([&[7, 5]])
            .run(|x| x[0].mse_loss(&x[1], Reduction::None))
            .oracle(|x| x[0].zip(&x[1], |x, t| (x - t) * (x - t)))
            .f32_limit(2e-6, 2e-6),
        // A sum of 231 numbers up to 36.
        pair("mse_loss", "sum", anything(), anything())
            .shapes([&[7, 33]])
            .run(|x| x[0].mse_loss(&x[1], Reduction::Sum))
            .oracle(|x| Array::scalar(x[0].zip(&x[1], |x, t| (x - t) * (x - t)).sum())),
        pair("l1_loss", "mean", Distinct, Fixed(vec![1.0 / 64.0]))
            .shapes([&[], &[7, 33]])
            .run(|x| x[0].l1_loss(&x[1], Reduction::Mean))
            .oracle(|x| mean(&x[0].zip(&x[1], |x, t| (x - t).abs())))
            .rejects("l1_loss: target has shape [3], expected [1]", |device| {
                Tensor::zeros([1], F32, device)?.l1_loss(&Tensor::zeros([3], F32, device)?, Reduction::Mean)
            }),
        pair("huber_loss", "delta=1.5 none", anything(), anything())
            .shapes([&[7, 33]])
            .run(|x| x[0].huber_loss(&x[1], 1.5, Reduction::None))
            .oracle(move |x| x[0].zip(&x[1], |x, t| huber(x - t)))
            .f32_limit(2e-6, 2e-6)
            .adversarial(
                "infinite",
                [Array::new(&[2], vec![f64::INFINITY, f64::NAN]), Array::new(&[2], vec![0.0, 0.0])],
            )
            .rejects("huber_loss: delta 0, expected more than 0", |device| {
                let x = Tensor::zeros([1], F32, device)?;
                x.huber_loss(&x, 0.0, Reduction::Mean)
            }),
        pair("huber_loss", "delta=1.5 mean", anything(), anything())
            .shapes([&[7, 5]])
            .run(|x| x[0].huber_loss(&x[1], 1.5, Reduction::Mean))
            .oracle(move |x| mean(&x[0].zip(&x[1], |x, t| huber(x - t)))),
        pair("bce_with_logits", "none", Uniform(-9.0, 9.0), Uniform(0.0, 1.0))
            .shapes([&[], &[7, 33]])
            .double_backward()
            .run(|x| x[0].bce_with_logits(&x[1], Reduction::None))
            .oracle(move |x| x[0].zip(&x[1], bce))
            .f32_limit(2e-6, 2e-6)
            .adversarial(
                "large",
                [
                    Array::new(&[4], vec![60000.0, -60000.0, 60000.0, -60000.0]),
                    Array::new(&[4], vec![1.0, 0.0, 0.0, 1.0]),
                ],
            )
            .rejects("bce_with_logits: target is i64, expected a floating dtype", |device| {
                Tensor::zeros([3], F32, device)?
                    .bce_with_logits(&Tensor::zeros([3], I64, device)?, Reduction::Mean)
            }),
        pair("bce_with_logits", "mean", Uniform(-9.0, 9.0), Uniform(0.0, 1.0))
            .shapes([&[7, 5]])
            .run(|x| x[0].bce_with_logits(&x[1], Reduction::Mean))
            .oracle(move |x| mean(&x[0].zip(&x[1], bce))),
        weighted_bce("none", Reduction::None).on([&[3], &[3], &[3]]).on([&[5, 3], &[5, 3], &[3]]).on([&[2, 4, 3], &[2, 4, 3], &[4, 1]]).double_backward().oracle(weighted_losses),
        weighted_bce("batch mean", Reduction::BatchMean)
            .on([&[5, 3], &[5, 3], &[3]])
            .oracle(|x| batch_mean(&weighted_losses(x)))
            .rejects("bce_with_logits: pos_weight [2] does not broadcast to [5, 3]", |device| {
                let x = Tensor::zeros([5, 3], F32, device)?;
                x.bce_with_logits_with(&x, weighted(&Tensor::ones([2], F32, device)?, Reduction::Mean))
            })
            .rejects("bce_with_logits: pos_weight is i64, expected a floating dtype", |device| {
                let x = Tensor::zeros([2], F32, device)?;
                x.bce_with_logits_with(&x, weighted(&Tensor::ones([2], I64, device)?, Reduction::Mean))
            }),
        pair("kl_div", "mean", Uniform(-4.0, 0.0), Uniform(0.125, 1.0))
            .shapes([&[7, 5]])
            .double_backward()
            .run(|x| x[0].kl_div(&x[1], Reduction::Mean, false))
            .adversarial("probability 0", [Array::new(&[2], vec![-1.0, -2.0]), Array::new(&[2], vec![0.0, 1.0])])
            .oracle(|x| mean(&x[0].zip(&x[1], |x, t| if t == 0.0 { 0.0 } else { t * (t.ln() - x) })))
            .rejects("kl_div: target has shape [3], expected [1]", |device| {
                Tensor::zeros([1], F32, device)?.kl_div(
                    &Tensor::zeros([3], F32, device)?,
                    Reduction::Mean,
                    true,
                )
            }),
        pair("kl_div", "batch mean", Uniform(-4.0, 0.0), Uniform(0.125, 1.0))
            .shapes([&[7, 5], &[3], &[2, 3, 4]])
            .double_backward()
            .f32_limit(2e-6, 2e-6)
            .run(|x| x[0].kl_div(&x[1], Reduction::BatchMean, false))
            .oracle(|x| batch_mean(&x[0].zip(&x[1], |x, t| t * (t.ln() - x))))
            .rejects(
                "kl_div: the mean over a batch of losses without an axis; use Mean or Sum",
                |device| {
                    let x = Tensor::ones((), F32, device)?;
                    x.kl_div(&x, Reduction::BatchMean, false)
                },
            ),
        pair("kl_div", "log_target sum", Uniform(-4.0, 0.0), Uniform(-4.0, 0.0))
            .shapes([&[7, 5]])
            .f32_limit(1e-5, 2e-6)
            .run(|x| x[0].kl_div(&x[1], Reduction::Sum, true))
            .oracle(|x| Array::scalar(x[0].zip(&x[1], |x, t| t.exp() * (t - x)).sum())),
    ]
}

fn weighted(pos_weight: &Tensor, reduction: Reduction) -> BceOptions<'_> {
    BceOptions { pos_weight: Some(pos_weight), reduction, ..BceOptions::default() }
}

/// Binary cross-entropy with positive targets weighted by a third input, broadcast to the others.
fn weighted_bce(parameters: &str, reduction: Reduction) -> OpCase {
    OpCase::new("bce_with_logits", format!("pos_weight {parameters}"))
        .input(Uniform(-9.0, 9.0))
        .input(Uniform(0.0, 1.0))
        .input(Uniform(0.25, 4.0))
        .f32_limit(8e-6, 2e-6)
        .run(move |x| x[0].bce_with_logits_with(&x[1], weighted(&x[2], reduction)))
}

/// `-(w * t * log sigmoid(x) + (1 - t) * log sigmoid(-x))`.
fn weighted_losses(x: &[Array]) -> Array {
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    let positive = x[0].zip(&x[1], |x, t| t * softplus(-x)).zip(&x[2], |loss, w| w * loss);
    positive.zip(&x[0].zip(&x[1], |x, t| (1.0 - t) * softplus(x)), |p, n| p + n)
}

/// Returns the sum divided by the size of the first axis.
fn batch_mean(x: &Array) -> Array {
    Array::scalar(x.sum() / x.shape[0] as f64)
}

fn mean(x: &Array) -> Array {
    Array::scalar(x.sum() / x.elements() as f64)
}

/// Returns the mean over the targets that are not ignored.
fn counted_mean(losses: &Array, target: &Array, ignore: f64) -> Array {
    let count = target.data.iter().filter(|&&target| target != ignore).count();
    Array::scalar(losses.sum() / count as f64)
}

/// Reshapes `[batch, classes, ..]` to `[rows, classes]`.
fn class_last(x: &Array) -> Array {
    let mut order: Vec<usize> = (0..x.rank()).filter(|&axis| axis != 1).collect();
    order.push(1);
    let classes = x.shape[1];
    let rows = x.elements().checked_div(classes).unwrap_or(x.shape[0]);
    x.permute(&order).reshape(&[rows, classes])
}

fn largest(row: &[f64]) -> f64 {
    row.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Returns for each row `lse(x) - (1 - s) * x[target] - s / classes * sum(x)`, 0 where ignored.
fn losses(x: &Array, target: &Array, ignore: f64, smoothing: f64) -> Array {
    let rows = class_last(x);
    let classes = rows.shape[1];
    let data = rows.data.chunks(classes.max(1)).zip(&target.data).map(|(row, &target)| {
        if target == ignore {
            return 0.0;
        }
        let even: f64 =
            if smoothing == 0.0 { 0.0 } else { smoothing / classes as f64 * row.iter().sum::<f64>() };
        log_sum_exp(row) - (1.0 - smoothing) * row[target as usize] - even
    });
    Array::new(&target.shape, data.collect())
}

fn zeros(shape: &[usize], device: &Device) -> Result<Tensor> {
    Tensor::zeros(shape, F32, device)
}

/// Returns for each row `-x[target]`, 0 where ignored.
fn picked(x: &Array, target: &Array, ignore: f64) -> Array {
    let rows = class_last(x);
    let data = rows.data.chunks(rows.shape[1]).zip(&target.data);
    let data = data.map(|(row, &target)| if target == ignore { 0.0 } else { -row[target as usize] });
    Array::new(&target.shape, data.collect())
}

/// Returns `-sum((1 - s) * target + s / classes) * log_softmax(x)` over the classes: axis 1, or the
/// only axis.
fn soft_losses(x: &Array, target: &Array, smoothing: f64) -> Array {
    let axis = usize::from(x.rank() > 1);
    let classes = x.shape[axis] as f64;
    let target = target.map(|t| (1.0 - smoothing) * t + smoothing / classes);
    log_softmax(x, axis).zip(&target, |l, t| -l * t).reduce(&[axis], Keep::No, |row| row.iter().sum())
}
