//! Comparison with the definitions in f64.

use crate::testing::{Numbers, assert_close, exact_sum, layouts, rounded, tensor};
use ternion_core::DType;
use ternion_core::dispatch::apply;
use ternion_core::ops::norm::{BatchNorm, BatchNormGrad};

const EPS: f64 = 1e-3;

/// Returns the elements of a channel in `[batch, channels, height, width]`.
fn channel(values: &[f64], shape: &[usize], channel: usize) -> Vec<f64> {
    let space: usize = shape[2..].iter().product();
    (0..values.len()).filter(|index| index / space % shape[1] == channel).map(|index| values[index]).collect()
}

/// The inverse of [`channel`].
fn join(rows: &[Vec<f64>], shape: &[usize]) -> Vec<f64> {
    let space: usize = shape[2..].iter().product();
    let count = shape.iter().product();
    let mut taken = vec![0; shape[1]];
    (0..count)
        .map(|index: usize| {
            let channel = index / space % shape[1];
            taken[channel] += 1;
            rows[channel][taken[channel] - 1]
        })
        .collect()
}

#[test]
fn forward_and_gradient() {
    let device = crate::device();
    let mut numbers = Numbers::new(8);
    let shapes: [&[usize]; 6] =
        [&[2, 3, 4, 5], &[1, 1, 1, 1], &[40, 20], &[3, 2, 700], &[5, 70, 3, 3], &[0, 2, 3]];
    for shape in shapes {
        let (count, channels) = (shape.iter().product(), shape[1]);
        for dtype in DType::FLOATS {
            let mut some = |low, high, count| rounded(dtype, &numbers.between(low, high, count));
            let (x, dy) = (some(-2.0, 3.0, count), some(-1.0, 1.0, count));
            let (weight, bias) = (some(0.5, 1.5, channels), some(-1.0, 1.0, channels));
            for affine in [false, true] {
                let (mut y, mut dx) = (vec![], vec![]);
                let (mut means, mut variances, mut dweight, mut dbias) = (vec![], vec![], vec![], vec![]);
                for c in 0..channels {
                    let (x, dy) = (channel(&x, shape, c), channel(&dy, shape, c));
                    let elements = x.len() as f64;
                    let mean = exact_sum(x.iter().copied()) / elements;
                    let variance = exact_sum(x.iter().map(|x| (x - mean).powi(2))) / elements;
                    let rstd = 1.0 / (variance + EPS).sqrt();
                    let (w, b) = if affine { (weight[c], bias[c]) } else { (1.0, 0.0) };
                    let n: Vec<f64> = x.iter().map(|x| (x - mean) * rstd).collect();
                    y.push(n.iter().map(|n| n * w + b).collect());
                    let mean_g = exact_sum(dy.iter().copied()) * w / elements;
                    let projection = exact_sum(dy.iter().zip(&n).map(|(dy, n)| dy * n)) * w / elements;
                    dx.push(
                        dy.iter().zip(&n).map(|(dy, n)| rstd * (dy * w - mean_g - n * projection)).collect(),
                    );
                    means.push(mean);
                    variances.push(variance);
                    dweight.push(exact_sum(dy.iter().zip(&n).map(|(dy, n)| dy * n)));
                    dbias.push(exact_sum(dy.iter().copied()));
                }
                let (y, dx) = (join(&y, shape), join(&dx, shape));
                let vector = |dtype, values: &[f64]| tensor(dtype, values, &[channels], &device);
                let (weight_tensor, bias_tensor) = (vector(dtype, &weight), vector(dtype, &bias));
                let statistics =
                    [vector(dtype.accumulator(), &means), vector(dtype.accumulator(), &variances)];
                for (x, dy) in layouts(dtype, &x, shape, &device)
                    .iter()
                    .zip(layouts(dtype, &dy, shape, &device).iter().rev())
                {
                    let inputs = if affine { vec![x, &weight_tensor, &bias_tensor] } else { vec![x] };
                    let outputs = apply(BatchNorm { eps: EPS, affine }, &inputs).unwrap();
                    for (output, want) in outputs.iter().zip([&y, &means, &variances]) {
                        assert_close(&format!("batch_norm {shape:?}"), output, want, 32.0);
                    }
                    let mut inputs = vec![x, &statistics[0], &statistics[1], dy];
                    inputs.extend(affine.then_some(&weight_tensor));
                    let outputs = apply(BatchNormGrad { eps: EPS, affine }, &inputs).unwrap();
                    assert_eq!(outputs.len(), if affine { 3 } else { 1 });
                    for (output, want) in outputs.iter().zip([&dx, &dweight, &dbias]) {
                        assert_close(&format!("batch_norm_grad {shape:?}"), output, want, 300.0);
                    }
                }
            }
        }
    }
}
