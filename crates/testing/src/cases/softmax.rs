//! Rows of softmax, its logarithm, and their gradients as separate ops.

use crate::oracle;
use crate::prelude::*;
use ternion_core::dispatch::apply_one;
use ternion_core::ops::softmax::{LogSoftmaxGrad, SoftmaxGrad};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    // With larger logits the gradient is a difference of nearly equal numbers: no digit of it would
    // survive the rounding of the output to half precision.
    let forward = |op: &'static str, axis: &str| {
        OpCase::new(op, format!("axis={axis}")).input(Uniform(-3.0, 3.0)).double_backward()
    };
    let wide = |op: &'static str| {
        OpCase::new(op, "axis=1 wide").input(Uniform(-30.0, 30.0)).dtypes(&[F64, F32]).double_backward()
    };
    let infinite = || Array::new(&[2, 2], vec![f64::NEG_INFINITY, 0.0, f64::INFINITY, 1.0]);
    let masked = || Array::full(&[2, 3], f64::NEG_INFINITY);
    let large = || Array::new(&[1, 3], vec![60000.0, -60000.0, 59968.0]);
    // Enough columns to be processed in parallel.
    let columns = || {
        Array::from_fn(&[2, 20], |at| match at[1] % 3 {
            0 => 60000.0 - 32.0 * at[0] as f64,
            1 => 32.0 * at[0] as f64 - 60000.0,
            _ => at[0] as f64,
        })
    };
    vec![
        forward("softmax", "1")
            .shapes([&[1, 1], &[7, 33], &[3, 5, 2], &[0, 4], &[4, 0]])
            .run(|x| x[0].softmax(1))
            .oracle(|x| oracle::softmax(&x[0], 1))
            .adversarial("infinite", [infinite()])
            .adversarial("only -infinity", [masked()])
            .adversarial("nan", [Array::new(&[2, 2], vec![f64::NAN, 0.0, 1.0, 2.0])])
            .adversarial("large", [large()])
            .rejects("softmax: axis 3 on shape [4, 7]", |device| {
                Tensor::zeros([4, 7], F32, device)?.softmax(3)
            })
            .rejects("softmax: input is i32, expected a floating dtype", |device| {
                Tensor::zeros([4, 7], I32, device)?.softmax(1)
            })
            .perf([&[8192, 1024]]),
        forward("softmax", "0")
            .shapes([&[5], &[33, 7], &[3, 5, 2]])
            .run(|x| x[0].softmax(0))
            .oracle(|x| oracle::softmax(&x[0], 0))
            .adversarial("each column by its own maximum", [columns()]),
        forward("softmax", "-1")
            .shapes([&[5], &[2, 3, 65], &[3, 129], &[2, 1030]])
            .run(|x| x[0].softmax(-1))
            .oracle(|x| oracle::softmax(&x[0], x[0].rank() - 1)),
        wide("softmax").shapes([&[7, 13]]).run(|x| x[0].softmax(1)).oracle(|x| oracle::softmax(&x[0], 1)),
        // The result is a difference of numbers up to 60: its accuracy is that of the numbers.
        wide("log_softmax")
            .shapes([&[7, 13]])
            .f32_limit(5e-6, 2e-6)
            .run(|x| x[0].log_softmax(1))
            .oracle(|x| log_softmax(&x[0], 1)),
        forward("log_softmax", "1")
            .shapes([&[1, 1], &[7, 33], &[3, 5, 2], &[0, 4], &[4, 0]])
            .f32_limit(2e-6, 2e-6)
            .run(|x| x[0].log_softmax(1))
            .oracle(|x| log_softmax(&x[0], 1))
            .adversarial("infinite", [infinite()])
            .adversarial("only -infinity", [masked()])
            .adversarial("large", [large()])
            .rejects("log_softmax: axis -3 on shape [4, 7]", |device| {
                Tensor::zeros([4, 7], F32, device)?.log_softmax(-3)
            })
            .perf([&[8192, 1024]]),
        // One weight of almost 1, so that the sum of all gradients matters.
        OpCase::new("log_softmax", "axis=-1 one large")
            .input(Values::custom(|shapes, position, rng| {
                let count = shapes[position].iter().product();
                (0..count).map(|at| if at == 7 { 12.0 } else { rng.uniform(-3.0, 0.0) }).collect()
            }))
            .shapes([&[8000]])
            .positive_cotangents()
            .f32_limit(2e-6, 2e-6)
            .run(|x| x[0].log_softmax(-1))
            .oracle(|x| log_softmax(&x[0], 0)),
        forward("log_softmax", "0")
            .shapes([&[5], &[33, 7], &[3, 5, 2]])
            .f32_limit(2e-6, 2e-6)
            .run(|x| x[0].log_softmax(0))
            .oracle(|x| log_softmax(&x[0], 0))
            .adversarial("each column by its own maximum", [columns()]),
        OpCase::new("softmax_grad", "axis=1")
            .input(Uniform(0.0, 1.0))
            .input(Uniform(-2.0, 2.0))
            .shapes([&[1, 1], &[7, 33], &[3, 5, 2], &[4, 0]])
            .f32_limit(2e-6, 2e-6)
            .double_backward()
            .run(|x| apply_one(SoftmaxGrad { axis: 1 }, &[&x[0], &x[1]]))
            .oracle(|x| {
                pairs_along(x, 1, |y, dy| {
                    let inner: f64 = y.iter().zip(dy).map(|(y, dy)| y * dy).sum();
                    y.iter().zip(dy).map(|(y, dy)| y * (dy - inner)).collect()
                })
            })
            .rejects("softmax_grad: grad_output has shape [2, 4], expected [2, 3]", |device| {
                let (y, dy) = (Tensor::zeros([2, 3], F32, device)?, Tensor::zeros([2, 4], F32, device)?);
                apply_one(SoftmaxGrad { axis: 1 }, &[&y, &dy])
            }),
        OpCase::new("log_softmax_grad", "axis=0")
            .input(Uniform(-4.0, 0.0))
            .input(Uniform(-2.0, 2.0))
            .shapes([&[1], &[33, 7], &[3, 5, 2], &[0, 4]])
            .f32_limit(4e-6, 2e-6)
            .double_backward()
            .run(|x| apply_one(LogSoftmaxGrad { axis: 0 }, &[&x[0], &x[1]]))
            .oracle(|x| {
                pairs_along(x, 0, |y, dy| {
                    let total: f64 = dy.iter().sum();
                    y.iter().zip(dy).map(|(y, dy)| dy - y.exp() * total).collect()
                })
            })
            .rejects(
                "log_softmax_grad: dtypes f32 and f16 differ; cast one of them with to_dtype",
                |device| {
                    let (y, dy) = (Tensor::zeros([2, 3], F32, device)?, Tensor::zeros([2, 3], F16, device)?);
                    apply_one(LogSoftmaxGrad { axis: 0 }, &[&y, &dy])
                },
            ),
    ]
}

/// Returns `x - max x - log sum exp(x - max x)` along `axis`.
pub(super) fn log_softmax(x: &Array, axis: usize) -> Array {
    x.map_slices(axis, |slice| {
        let largest = slice.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = slice.iter().map(|v| (v - largest).exp()).sum();
        slice.iter().map(|v| v - largest - sum.ln()).collect()
    })
}

/// Applies `f` to corresponding slices of two arrays along `axis`.
fn pairs_along(x: &[Array], axis: usize, f: impl Fn(&[f64], &[f64]) -> Vec<f64>) -> Array {
    let size = x[0].shape[axis];
    let stacked_shape: Vec<usize> = [&[2], &x[0].shape[..]].concat();
    let stacked = Array::new(&stacked_shape, [&x[0].data[..], &x[1].data[..]].concat());
    // Each pair is a slice of y followed by the same slice of dy.
    let mut order: Vec<usize> = (1..stacked_shape.len()).filter(|&other| other != axis + 1).collect();
    order.extend([0, axis + 1]);
    let mut pair_shape: Vec<usize> = order[..order.len() - 2].iter().map(|&at| stacked_shape[at]).collect();
    pair_shape.push(2 * size);
    let stacked_rows = stacked
        .permute(&order)
        .reshape(&pair_shape)
        .map_slices(pair_shape.len() - 1, |pair| f(&pair[..size], &pair[size..]));
    let mut inverse_order: Vec<usize> = (0..stacked_rows.rank() - 1).collect();
    inverse_order.insert(axis, stacked_rows.rank() - 1);
    stacked_rows.permute(&inverse_order)
}
