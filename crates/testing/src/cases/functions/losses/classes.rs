//! Rows of classification losses with margins.

use super::mean;
use crate::prelude::*;
use ternion_core::{MultiMarginOptions, Reduction};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [margins(), labels(), soft()].concat()
}

/// Numbers whose differences are multiples of 3/14, and so never the margin 1 or 0.75.
fn clear_of_margins() -> Values {
    Values::custom(|shapes, position, rng| {
        let count: usize = shapes[position].iter().product();
        rng.permutation(count).into_iter().map(|k| (k as f64 - count as f64 / 2.0) * 3.0 / 14.0).collect()
    })
}

/// Returns the slices along the last axis.
fn rows_of(x: &Array) -> Vec<&[f64]> {
    x.data.chunks(x.shape[x.rank() - 1].max(1)).collect()
}

fn margin_losses(x: &Array, target: &Array, p: i32, margin: f64, weight: Option<&Array>) -> Array {
    let losses = rows_of(x).into_iter().zip(&target.data).map(|(row, &target)| {
        let target = target as usize;
        let term = |(class, &x): (usize, &f64)| match class == target {
            true => 0.0,
            false => (margin - row[target] + x).max(0.0).powi(p),
        };
        let weight = weight.map_or(1.0, |weight| weight.data[target]);
        weight * row.iter().enumerate().map(term).sum::<f64>() / row.len() as f64
    });
    Array::new(&target.shape, losses.collect())
}

fn margins() -> Vec<OpCase> {
    let row = |parameters: &str| {
        OpCase::new("multi_margin_loss", parameters)
            .input(clear_of_margins())
            .input(Input::index(Values::custom(|shapes, position, rng| {
                let classes = shapes[0][shapes[0].len() - 1] as i64;
                (0..shapes[position].iter().product()).map(|_| rng.integer(0, classes - 1) as f64).collect()
            })))
            .f32_limit(8e-6, 2e-6)
    };
    let none = MultiMarginOptions { reduction: Reduction::None, ..MultiMarginOptions::default() };
    let rejected_call = |options: MultiMarginOptions<'static>, target: &'static [i64]| {
        move |device: &Device| {
            let target = Tensor::from_slice(target, [target.len()], device)?;
            Tensor::zeros([2, 3], F32, device)?.multi_margin_loss(&target, options)
        }
    };
    vec![
        row("none")
            .on([&[5, 4], &[5]])
            .on([&[6], &[]])
            .on([&[3, 1], &[3]])
            .run(move |x| x[0].multi_margin_loss(&x[1], none))
            .oracle(|x| margin_losses(&x[0], &x[1], 1, 1.0, None))
            .rejects(
                "multi_margin_loss: p of 3, expected 1 or 2",
                rejected_call(MultiMarginOptions { p: 3, ..none }, &[0, 1]),
            )
            .rejects("multi_margin_loss: index 3 is out of range for size 3", rejected_call(none, &[0, 3]))
            .rejects("multi_margin_loss: target has shape [3], expected [2]", rejected_call(none, &[0, 1, 2]))
            .rejects("multi_margin_loss: input of shape [2, 0] has no classes", |device| {
                Tensor::zeros([2, 0], F32, device)?
                    .multi_margin_loss(&Tensor::zeros([2], I64, device)?, MultiMarginOptions::default())
            }),
        row("p=2 margin=0.75 weight mean")
            .input(Uniform(0.5, 2.0))
            .on([&[5, 4], &[5], &[4]])
            .run(move |x| {
                let options = MultiMarginOptions { p: 2, margin: 0.75, weight: Some(&x[2]), ..Default::default() };
                x[0].multi_margin_loss(&x[1], options)
            })
            .oracle(|x| mean(&margin_losses(&x[0], &x[1], 2, 0.75, Some(&x[2])))),
        row("p=2 none")
            .on([&[5, 4], &[5]])
            .double_backward()
            .run(move |x| x[0].multi_margin_loss(&x[1], MultiMarginOptions { p: 2, ..none }))
            .oracle(|x| margin_losses(&x[0], &x[1], 2, 1.0, None)),
    ]
}

fn label_losses(x: &Array, target: &Array) -> Array {
    let losses = rows_of(x).into_iter().zip(rows_of(target)).map(|(row, targets)| {
        let targets: Vec<usize> = targets.iter().take_while(|&&target| target >= 0.0).map(|&at| at as usize).collect();
        let mut sum = 0.0;
        for &target in &targets {
            for (class, x) in row.iter().enumerate() {
                if !targets.contains(&class) {
                    sum += (1.0 - (row[target] - x)).max(0.0);
                }
            }
        }
        sum / row.len() as f64
    });
    Array::new(&x.shape[..x.rank() - 1], losses.collect())
}

fn labels() -> Vec<OpCase> {
    let row = |parameters: &str| {
        OpCase::new("multilabel_margin_loss", parameters).input(clear_of_margins()).input(Input::index(Values::custom(
            |shapes, position, rng| {
                let shape = &shapes[position];
                let classes = shape[shape.len() - 1];
                let rows = shape.iter().product::<usize>() / classes;
                // Each row: distinct classes, -1, and numbers after it that are ignored.
                (0..rows)
                    .flat_map(|_| {
                        let mut row: Vec<f64> = rng.permutation(classes).iter().map(|&class| class as f64).collect();
                        let end = rng.integer(0, classes as i64) as usize;
                        if end < classes {
                            row[end] = -1.0;
                        }
                        row
                    })
                    .collect()
            },
        )))
    };
    vec![
        row("none")
            .shapes([&[5, 4], &[6], &[1, 1]])
            .f32_limit(8e-6, 2e-6)
            .run(|x| x[0].multilabel_margin_loss(&x[1], Reduction::None))
            .oracle(|x| label_losses(&x[0], &x[1]))
            .rejects("multilabel_margin_loss: index 3 is out of range for size 3", |device| {
                let target = Tensor::from_slice(&[3i64, -1, 0], [3], device)?;
                Tensor::zeros([3], F32, device)?.multilabel_margin_loss(&target, Reduction::Mean)
            })
            .rejects("multilabel_margin_loss: target has shape [2], expected [3]", |device| {
                let target = Tensor::zeros([2], I64, device)?;
                Tensor::zeros([3], F32, device)?.multilabel_margin_loss(&target, Reduction::Mean)
            }),
        row("mean")
            .shapes([&[5, 4]])
            .f32_limit(4e-6, 2e-6)
            .run(|x| x[0].multilabel_margin_loss(&x[1], Reduction::Mean))
            .oracle(|x| mean(&label_losses(&x[0], &x[1]))),
    ]
}

fn soft() -> Vec<OpCase> {
    let loss = |x: f64, t: f64| x.max(0.0) - x * t + (-x.abs()).exp().ln_1p();
    let class_mean = |x: &Array| x.reduce(&[x.rank() - 1], Keep::No, |row| row.iter().sum::<f64>() / row.len() as f64);
    let row = |parameters: &str| {
        OpCase::new("multilabel_soft_margin_loss", parameters).input(Uniform(-9.0, 9.0)).input(Uniform(0.0, 1.0))
    };
    vec![
        row("none")
            .shapes([&[4], &[5, 7], &[2, 3, 4]])
            .double_backward()
            .f32_limit(2e-6, 2e-6)
            .run(|x| x[0].multilabel_soft_margin_loss(&x[1], None, Reduction::None))
            .oracle(move |x| class_mean(&x[0].zip(&x[1], loss)))
            .rejects("multilabel_soft_margin_loss: logits without an axis of classes", |device| {
                let x = Tensor::zeros((), F32, device)?;
                x.multilabel_soft_margin_loss(&x, None, Reduction::Mean)
            }),
        row("weight mean")
            .input(Uniform(0.5, 2.0))
            .on([&[5, 7], &[5, 7], &[7]])
            .f32_limit(2e-6, 2e-6)
            .run(|x| x[0].multilabel_soft_margin_loss(&x[1], Some(&x[2]), Reduction::Mean))
            .oracle(move |x| mean(&x[0].zip(&x[1], loss).zip(&x[2], |loss, weight| loss * weight))),
    ]
}
