//! Rows of cross-entropy of the output of a linear layer, computed in chunks.

use super::{counted_mean, losses, zeros};
use crate::oracle;
use crate::prelude::*;
use ternion_core::ops::matmul::LinearParameters;
use ternion_core::{CrossEntropyOptions, LinearCrossEntropyOptions, Reduction};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    super::super::compositions([mean(), sum(), single(), rejected()])
}

/// x, weight, bias and class indices, some of them -100.
fn row(parameters: &str) -> OpCase {
    let target = Values::custom(|shapes, position, rng| {
        let (elements, classes) = (shapes[position].iter().product::<usize>(), shapes[1][0] as i64);
        let class = |is_ignored: bool, class: i64| if is_ignored { -100.0 } else { class as f64 };
        (0..elements).map(|_| class(rng.integer(0, 3) == 0, rng.integer(0, classes - 1))).collect()
    });
    OpCase::new("linear_cross_entropy", parameters)
        .input(Uniform(-1.0, 1.0))
        .input(Uniform(-1.0, 1.0))
        .input(Uniform(-1.0, 1.0))
        .input(Input::index(target))
        .f32_limit(4e-6, 4e-6)
        // In half precision scores are rounded, as by the layer itself.
        .dtypes(&[F32, F64])
}

fn run(
    x: &[Tensor],
    chunk_rows: Option<usize>,
    label_smoothing: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    let loss = CrossEntropyOptions { label_smoothing, reduction, ..Default::default() };
    let options = LinearCrossEntropyOptions { loss, chunk_rows };
    x[0].linear_cross_entropy(LinearParameters { weight: &x[1], bias: Some(&x[2]) }, &x[3], options)
}

/// Returns the losses of the layer's scores.
fn expected(x: &[Array], smoothing: f64) -> Array {
    let rows = x[3].elements();
    let flat = Array::new(&[rows, x[1].shape[1]], x[0].data.clone());
    let scores = oracle::matmul(&flat, &x[1].t()).zip(&x[2], |y, b| y + b);
    losses(&scores, &Array::new(&[rows], x[3].data.clone()), -100.0, smoothing)
}

fn mean() -> OpCase {
    row("chunks of 3, label_smoothing=0.1")
        .on([&[7, 5], &[9, 5], &[9], &[7]])
        .on([&[2, 3, 4], &[5, 4], &[5], &[2, 3]])
        .on([&[1, 1], &[1, 1], &[1], &[1]])
        .on([&[3, 0], &[5, 0], &[5], &[3]])
        .double_backward()
        .run(|x| run(x, Some(3), 0.1, Reduction::Mean))
        .oracle(|x| counted_mean(&expected(x, 0.1), &x[3], -100.0))
        .adversarial(
            "infinite",
            [
                Array::new(&[2, 1], vec![f64::INFINITY, 1.0]),
                Array::new(&[2, 1], vec![1.0, -1.0]),
                Array::zeros(&[2]),
                Array::new(&[2], vec![0.0, -100.0]),
            ],
        )
        .adversarial(
            "all ignored",
            [
                Array::full(&[2, 1], 1.0),
                Array::full(&[2, 1], 1.0),
                Array::zeros(&[2]),
                Array::full(&[2], -100.0),
            ],
        )
}

fn sum() -> OpCase {
    row("sum")
        .on([&[300, 5], &[9, 5], &[9], &[300]])
        .on([&[5], &[9, 5], &[9], &[]])
        .on([&[0, 4], &[5, 4], &[5], &[0]])
        .f32_limit(4e-5, 1e-5)
        .double_backward()
        .run(|x| run(x, None, 0.0, Reduction::Sum))
        .oracle(|x| Array::scalar(expected(x, 0.0).sum()))
}

fn single() -> OpCase {
    row("none")
        .on([&[2, 3, 4], &[5, 4], &[5], &[2, 3]])
        .run(|x| run(x, Some(1), 0.0, Reduction::None))
        .oracle(|x| Array::new(&x[3].shape, expected(x, 0.0).data))
}

fn rejected() -> OpCase {
    let layer = |device: &Device, target: Tensor, chunk_rows: Option<usize>, label_smoothing: f64| {
        let x = [zeros(&[2, 4], device)?, zeros(&[3, 4], device)?, zeros(&[3], device)?, target];
        run(&x, chunk_rows, label_smoothing, Reduction::Mean)
    };
    row("rejects")
        .on([&[2, 4], &[3, 4], &[3], &[2]])
        .run(|x| run(x, Some(2), 0.0, Reduction::Mean))
        .oracle(|x| counted_mean(&expected(x, 0.0), &x[3], -100.0))
        .rejects("linear_cross_entropy: chunk_rows 0, expected at least 1", move |device| {
            layer(device, Tensor::zeros([2], I64, device)?, Some(0), 0.0)
        })
        .rejects("linear_cross_entropy: label smoothing -1, expected 0 to 1", move |device| {
            layer(device, Tensor::zeros([2], I64, device)?, None, -1.0)
        })
        .rejects("linear_cross_entropy: target has shape [3], expected [2]", move |device| {
            layer(device, Tensor::zeros([3], I64, device)?, None, 0.0)
        })
        .rejects("linear_cross_entropy: target has shape [2], expected [2, 3]", move |device| {
            layer(device, Tensor::zeros([2], F32, device)?, None, 0.0)
        })
        .rejects("linear_cross_entropy: target is u8, expected i32 or i64", move |device| {
            layer(device, Tensor::zeros([2], U8, device)?, None, 0.0)
        })
        .rejects("linear_cross_entropy: index 3 is out of range for size 3", move |device| {
            layer(device, Tensor::from_slice(&[0i64, 3], [2], device)?, Some(1), 0.0)
        })
        .rejects("linear_cross_entropy: expected 2 axes, got shape [4]", |device| {
            let (x, weight) = (zeros(&[2, 4], device)?, zeros(&[4], device)?);
            let layer = LinearParameters { weight: &weight, bias: None };
            x.linear_cross_entropy(layer, &Tensor::zeros([2], I64, device)?, Default::default())
        })
        .rejects("linear_cross_entropy: bias has shape [4], expected [3]", |device| {
            let (x, weight, bias) = (zeros(&[2, 4], device)?, zeros(&[3, 4], device)?, zeros(&[4], device)?);
            let layer = LinearParameters { weight: &weight, bias: Some(&bias) };
            x.linear_cross_entropy(layer, &Tensor::zeros([2], I64, device)?, Default::default())
        })
        .rejects("linear_cross_entropy: expected at least 1 axes, got shape []", |device| {
            let (x, weight) = (zeros(&[], device)?, zeros(&[4, 1], device)?);
            let layer = LinearParameters { weight: &weight, bias: None };
            x.linear_cross_entropy(layer, &Tensor::zeros([], I64, device)?, Default::default())
        })
        .rejects("linear_cross_entropy: [2, 4] with weight [3, 5]: inner sizes 4 and 5 differ", |device| {
            let (x, weight) = (zeros(&[2, 4], device)?, zeros(&[3, 5], device)?);
            let layer = LinearParameters { weight: &weight, bias: None };
            x.linear_cross_entropy(layer, &Tensor::zeros([2], I64, device)?, Default::default())
        })
}
