//! Rows of the normalizations, with their statistics, and of their gradients as separate ops.

use crate::prelude::*;
use ternion_core::dispatch::apply;
use ternion_core::ops::norm::{BatchNorm, BatchNormGrad, LayerNorm, LayerNormGrad, RmsNorm, RmsNormGrad};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [layer_norms(), rms_norms(), batch_norms(), derived(), gradients(), rounded(), residual_gradients()].into_iter().flatten().collect()
}

const EPS: f64 = 1e-5;

/// Creates a row of the op table with an input x whose rows have different means and standard
/// deviations, so that a statistic at the wrong index is detected.
fn normed(op: &'static str, parameters: &str) -> OpCase {
    normed_of(op, parameters, Uniform(-2.0, 4.0))
}

/// Like [`normed`], but excludes the broadcast layout where all elements that are normalized
/// together would be equal: the gradient is not determined there.
fn normed_unequal(op: &'static str, parameters: &str) -> OpCase {
    let draw = |shapes: &[Vec<usize>], position: usize, rng: &mut Rng| {
        (0..shapes[position].iter().product()).map(|_| rng.uniform(-2.0, 4.0)).collect()
    };
    normed_of(op, parameters, Values::custom(draw))
}

fn normed_of(op: &'static str, parameters: &str, x: Values) -> OpCase {
    // Deviations from a mean of up to 4, divided by a standard deviation of about 1.
    OpCase::new(op, parameters).input(x).f32_limit(4e-6, 4e-6)
}

fn parameter() -> Input {
    Input::float(Uniform(0.5, 2.0))
}

fn layer_norms() -> Vec<OpCase> {
    let op = |weight, bias| LayerNorm { eps: EPS, weight, bias, out_dtype: None };
    vec![
        normed("layer_norm", "weight bias")
            .input(parameter())
            .input(parameter())
            .on([&[7, 33], &[33], &[33]])
            .on([&[2, 3, 5], &[5], &[5]])
            // The gradients of the parameters are sums over many rows.
            .on([&[400, 3], &[3], &[3]])
            .on([&[0, 5], &[5], &[5]])
            .double_backward()
            .run(|x| x[0].layer_norm(Some(&x[1]), Some(&x[2]), EPS))
            .oracle(|x| affine(&normalized(&x[0], &[last_axis(&x[0])]), &x[1], &x[2]))
            .adversarial(
                "far from 0",
                [
                    Array::new(&[2, 4], vec![1000.0, 1001.0, 1002.0, 1003.0, -7.0, -7.0, -7.0, -7.0]),
                    Array::full(&[4], 1.0),
                    Array::full(&[4], 0.0),
                ],
            )
            .adversarial(
                "infinite",
                [
                    Array::new(&[2, 2], vec![f64::INFINITY, 1.0, f64::NAN, 1.0]),
                    Array::full(&[2], 1.0),
                    Array::full(&[2], 0.0),
                ],
            )
            .rejects("layer_norm: weight has shape [3], expected [4]", |device| {
                zeros(&[2, 4], device)?.layer_norm(Some(&zeros(&[3], device)?), None, EPS)
            })
            .rejects("layer_norm: expected at least 1 axes, got shape []", |device| {
                zeros(&[], device)?.layer_norm(None, None, EPS)
            })
            .rejects("layer_norm: weight is f64, expected f32", |device| {
                zeros(&[2, 4], device)?.layer_norm(Some(&Tensor::zeros([4], F64, device)?), None, EPS)
            })
            .perf([&[8192, 1024], &[1024], &[1024]]),
        normed("layer_norm", "")
            .shapes([&[7, 33], &[3, 64], &[2, 65], &[2, 1030]])
            .run(|x| x[0].layer_norm(None, None, EPS))
            .oracle(|x| normalized(&x[0], &[last_axis(&x[0])])),
        normed_unequal("layer_norm", "one row")
            .input(parameter())
            .input(parameter())
            .on([&[5], &[5], &[5]])
            .run(|x| x[0].layer_norm(Some(&x[1]), Some(&x[2]), EPS))
            .oracle(|x| affine(&normalized(&x[0], &[0]), &x[1], &x[2])),
        normed("layer_norm", "weight")
            .input(parameter())
            .on([&[7, 5], &[5]])
            .double_backward()
            .run(|x| x[0].layer_norm(Some(&x[1]), None, EPS))
            .oracle(|x| affine(&normalized(&x[0], &[1]), &x[1], &Array::scalar(0.0))),
        normed("layer_norm", "bias")
            .input(parameter())
            .on([&[7, 5], &[5]])
            .run(|x| x[0].layer_norm(None, Some(&x[1]), EPS))
            .oracle(|x| affine(&normalized(&x[0], &[1]), &Array::scalar(1.0), &x[1])),
        // The statistics have gradients too, which second-order gradients use.
        normed("layer_norm", "op")
            .input(parameter())
            .input(parameter())
            .on([&[7, 5], &[5], &[5]])
            .on([&[2, 3, 4], &[4], &[4]])
            .double_backward()
            .run(move |x| Ok(apply(op(true, true), &[&x[0], &x[1], &x[2]])?.into_vec()))
            .oracle(|x| {
                let axes = [last_axis(&x[0])];
                let y = affine(&normalized(&x[0], &axes), &x[1], &x[2]);
                let rstd = x[0].reduce(&axes, Keep::No, variance).map(|v| 1.0 / (v + EPS).sqrt());
                (y, x[0].reduce(&axes, Keep::No, average), rstd)
            }),
    ]
}

/// f32 rows whose results the same kernel also rounds to half precision: the limit is one rounding
/// to bf16.
fn rounded() -> Vec<OpCase> {
    let row = |op, parameters| OpCase::new(op, parameters)
            .input(Uniform(-2.0, 4.0))
            .dtypes(&[F32])
            .f32_limit(1e-5, 4e-3)
            .forward_only("differences of what is rounded say nothing of its gradient");
    vec![
        row("layer_norm", "as bf16")
            .input(parameter())
            .input(parameter())
            .on([&[7, 33], &[33], &[33]])
            .on([&[2, 3, 8], &[8], &[8]])
            .on([&[0, 5], &[5], &[5]])
            .run(|x| x[0].layer_norm_as(Some(BF16), Some(&x[1]), Some(&x[2]), EPS)?.to_dtype(F32))
            .oracle(|x| affine(&normalized(&x[0], &[last_axis(&x[0])]), &x[1], &x[2]))
            .rejects("layer_norm: output is f64, expected the input's dtype, or f16 and bf16 for f32", |device| {
                zeros(&[2, 4], device)?.layer_norm_as(Some(F64), None, None, EPS)
            }),
        row("rms_norm", "as f16")
            .input(parameter())
            .on([&[7, 33], &[33]])
            .on([&[2, 3, 8], &[8]])
            .run(|x| x[0].rms_norm_as(Some(F16), Some(&x[1]), EPS)?.to_dtype(F32))
            .oracle(|x| rms_normalized(&x[0]).zip(&x[1], |n, w| n * w)),
    ]
}

/// Gradients plus the residual gradient of x. Those that are also rounded are compared unmodified.
fn residual_gradients() -> Vec<OpCase> {
    let statistic = || Input::accumulator(Uniform(0.5, 2.0));
    let row = |op| OpCase::new(op, "weight residual").input(Uniform(-2.0, 2.0)).input(statistic());
    vec![
        row("layer_norm_grad")
            .input(statistic())
            .input(Uniform(-1.0, 1.0))
            .input(parameter())
            .input(Uniform(-1.0, 1.0))
            .on([&[7, 5], &[7], &[7], &[7, 5], &[5], &[7, 5]])
            .on([&[2, 3, 4], &[2, 3], &[2, 3], &[2, 3, 4], &[4], &[2, 3, 4]])
            .f32_limit(2e-5, 1e-5)
            .dtypes(&[F32, F64])
            .run(|x| {
                let op = LayerNormGrad { weight: true, bias: true, residual: true, rounds: false };
                Ok(apply(op, &[&x[0], &x[1], &x[2], &x[3], &x[4], &x[5]])?.into_vec())
            })
            .oracle(|x| {
                let [mean, rstd] = [column(&x[1]), column(&x[2])];
                let normal = x[0].zip(&mean, |x, m| x - m).zip(&rstd, |c, r| c * r);
                let mut all = gradient_of(&normal, &x[3], &x[4], &rstd, &[last_axis(&x[0])], Centered::Yes);
                all[0] = all[0].zip(&x[5], |dx, r| dx + r);
                all
            })
            .rejects("layer_norm_grad: residual's gradient has shape [2], expected [2, 3]", |device| {
                let (x, statistic) = (zeros(&[2, 3], device)?, zeros(&[2], device)?);
                let op = LayerNormGrad { weight: false, bias: false, residual: true, rounds: false };
                Ok(apply(op, &[&x, &statistic, &statistic, &x, &statistic])?.into_vec())
            })
            .rejects(
                "layer_norm_grad: grad_output is f32, expected half precision, to which dx of f32 is rounded",
                |device| {
                    let (x, statistic) = (zeros(&[2, 3], device)?, zeros(&[2], device)?);
                    let op = LayerNormGrad { weight: false, bias: false, residual: false, rounds: true };
                    Ok(apply(op, &[&x, &statistic, &statistic, &x])?.into_vec())
                },
            ),
        row("rms_norm_grad")
            .input(Uniform(-1.0, 1.0))
            .input(parameter())
            .input(Uniform(-1.0, 1.0))
            .on([&[7, 5], &[7], &[7, 5], &[5], &[7, 5]])
            .f32_limit(2e-5, 1e-5)
            .dtypes(&[F32, F64])
            .run(|x| {
                let op = RmsNormGrad { weight: true, residual: true, rounds: false };
                Ok(apply(op, &[&x[0], &x[1], &x[2], &x[3], &x[4]])?.into_vec())
            })
            .oracle(|x| {
                let rrms = column(&x[1]);
                let normal = x[0].zip(&rrms, |x, r| x * r);
                let mut all = gradient_of(&normal, &x[2], &x[3], &rrms, &[1], Centered::No);
                all.truncate(2);
                all[0] = all[0].zip(&x[4], |dx, r| dx + r);
                all
            }),
    ]
}

fn rms_norms() -> Vec<OpCase> {
    vec![
        normed("rms_norm", "weight")
            .input(parameter())
            .on([&[7, 33], &[33]])
            .on([&[2, 3, 5], &[5]])
            .on([&[400, 3], &[3]])
            .on([&[5], &[5]])
            .on([&[0, 5], &[5]])
            .double_backward()
            .run(|x| x[0].rms_norm(Some(&x[1]), EPS))
            .oracle(|x| rms_normalized(&x[0]).zip(&x[1], |n, w| n * w))
            .adversarial(
                "zeros and large",
                [Array::new(&[2, 2], vec![0.0, 0.0, 1000.0, -200.0]), Array::full(&[2], 1.0)],
            )
            .rejects("rms_norm: weight has shape [3], expected [4]", |device| {
                zeros(&[2, 4], device)?.rms_norm(Some(&zeros(&[3], device)?), EPS)
            })
            .rejects("rms_norm: input is i64, expected a floating dtype", |device| {
                Tensor::zeros([2, 4], I64, device)?.rms_norm(None, EPS)
            })
            .perf([&[8192, 1024], &[1024]]),
        normed("rms_norm", "")
            .shapes([&[7, 33], &[2, 65], &[2, 1030]])
            .run(|x| x[0].rms_norm(None, EPS))
            .oracle(|x| rms_normalized(&x[0])),
        normed("rms_norm", "op")
            .input(parameter())
            .on([&[7, 5], &[5]])
            .double_backward()
            .run(|x| Ok(apply(RmsNorm { eps: EPS, weight: true, out_dtype: None }, &[&x[0], &x[1]])?.into_vec()))
            .oracle(|x| {
                let rrms = x[0].reduce(&[1], Keep::No, |row| 1.0 / (mean_square(row) + EPS).sqrt());
                (rms_normalized(&x[0]).zip(&x[1], |n, w| n * w), rrms)
            }),
    ]
}

fn batch_norms() -> Vec<OpCase> {
    vec![
        normed_unequal("batch_norm", "affine")
            .input(parameter())
            .input(parameter())
            .on([&[7, 3], &[3], &[3]])
            .on([&[3, 2, 5], &[2], &[2]])
            .on([&[2, 3, 4, 3], &[3], &[3]])
            .on([&[67, 3, 9], &[3], &[3]])
            .on([&[400, 3], &[3], &[3]])
            .double_backward()
            .run(|x| x[0].batch_norm_train(Some(&x[1]), Some(&x[2]), EPS))
            .oracle(|x| {
                let axes = all_but_channels(&x[0]);
                let y = channel_affine(&normalized(&x[0], &axes), &x[1], &x[2]);
                (y, x[0].reduce(&axes, Keep::No, average), x[0].reduce(&axes, Keep::No, variance))
            })
            .rejects("batch_norm: expected at least 2 axes, got shape [4]", |device| {
                zeros(&[4], device)?.batch_norm_train(None, None, EPS)
            })
            .rejects("batch_norm: weight has shape [3], expected [4]", |device| {
                zeros(&[2, 4, 3], device)?.batch_norm_train(Some(&zeros(&[3], device)?), None, EPS)
            })
            .perf([&[64, 64, 32, 32], &[64], &[64]]),
        normed_unequal("batch_norm", "")
            .shapes([&[7, 3], &[2, 3, 4, 3]])
            .double_backward()
            .run(|x| x[0].batch_norm_train(None, None, EPS))
            .oracle(|x| {
                let axes = all_but_channels(&x[0]);
                let y = normalized(&x[0], &axes);
                (y, x[0].reduce(&axes, Keep::No, average), x[0].reduce(&axes, Keep::No, variance))
            }),
        normed_unequal("batch_norm", "bias only")
            .input(parameter())
            .on([&[7, 3], &[3]])
            .run(|x| Ok(x[0].batch_norm_train(None, Some(&x[1]), EPS)?.0))
            .oracle(|x| channel_affine(&normalized(&x[0], &[0]), &Array::full(&[3], 1.0), &x[1])),
        normed("batch_norm_eval", "affine")
            .input(Input::accumulator(Uniform(-1.0, 1.0)))
            .input(Input::accumulator(Uniform(0.25, 2.0)))
            .input(parameter())
            .input(parameter())
            .on([&[7, 3], &[3], &[3], &[3], &[3]])
            .on([&[2, 3, 4, 3], &[3], &[3], &[3], &[3]])
            .on([&[0, 3], &[3], &[3], &[3], &[3]])
            .double_backward()
            .run(|x| x[0].batch_norm_eval(&x[1], &x[2], Some(&x[3]), Some(&x[4]), EPS))
            .oracle(|x| channel_affine(&with_statistics(&x[0], &x[1], &x[2]), &x[3], &x[4]))
            .rejects("batch_norm: var has shape [3], expected [4]", |device| {
                let (x, mean) = (zeros(&[2, 4], device)?, zeros(&[4], device)?);
                x.batch_norm_eval(&mean, &zeros(&[3], device)?, None, None, EPS)
            }),
        normed("batch_norm_eval", "")
            .input(Input::accumulator(Uniform(-1.0, 1.0)))
            .input(Input::accumulator(Uniform(0.25, 2.0)))
            .on([&[3, 2, 5], &[2], &[2]])
            .run(|x| x[0].batch_norm_eval(&x[1], &x[2], None, None, EPS))
            .oracle(|x| with_statistics(&x[0], &x[1], &x[2])),
    ]
}

fn derived() -> Vec<OpCase> {
    vec![
        normed("group_norm", "groups=2 affine")
            .input(parameter())
            .input(parameter())
            .on([&[3, 6], &[6], &[6]])
            .on([&[2, 6, 5], &[6], &[6]])
            .on([&[2, 4, 3, 2], &[4], &[4]])
            .double_backward()
            .run(|x| x[0].group_norm(2, Some(&x[1]), Some(&x[2]), EPS))
            .oracle(|x| channel_affine(&grouped(&x[0], 2), &x[1], &x[2]))
            .rejects("group_norm: 4 channels do not divide into 3 groups", |device| {
                zeros(&[2, 4], device)?.group_norm(3, None, None, EPS)
            })
            .rejects("group_norm: 4 channels do not divide into 0 groups", |device| {
                zeros(&[2, 4], device)?.group_norm(0, None, None, EPS)
            }),
        normed("group_norm", "groups=3")
            .shapes([&[2, 6, 5]])
            .run(|x| x[0].group_norm(3, None, None, EPS))
            .oracle(|x| grouped(&x[0], 3)),
        normed("group_norm", "groups=3 weight only")
            .input(parameter())
            .on([&[2, 6, 5], &[6]])
            .run(|x| x[0].group_norm(3, Some(&x[1]), None, EPS))
            .oracle(|x| channel_affine(&grouped(&x[0], 3), &x[1], &Array::zeros(&[6]))),
    ]
}

/// The gradients as formulas of all their inputs, which are treated as independent.
fn gradients() -> Vec<OpCase> {
    let statistic = || Input::accumulator(Uniform(0.5, 2.0));
    let dy = || Uniform(-1.0, 1.0);
    vec![
        OpCase::new("layer_norm_grad", "weight bias")
            .input(Uniform(-2.0, 2.0))
            .input(statistic())
            .input(statistic())
            .input(dy())
            .input(parameter())
            .on([&[7, 5], &[7], &[7], &[7, 5], &[5]])
            .on([&[2, 3, 4], &[2, 3], &[2, 3], &[2, 3, 4], &[4]])
            .f32_limit(2e-5, 1e-5)
            .double_backward()
            .run(|x| {
                let op = LayerNormGrad { weight: true, bias: true, residual: false, rounds: false };
                Ok(apply(op, &[&x[0], &x[1], &x[2], &x[3], &x[4]])?.into_vec())
            })
            .oracle(|x| {
                let axes = [last_axis(&x[0])];
                let [mean, rstd] = [column(&x[1]), column(&x[2])];
                let normal = x[0].zip(&mean, |x, m| x - m).zip(&rstd, |c, r| c * r);
                gradient_of(&normal, &x[3], &x[4], &rstd, &axes, Centered::Yes)
            })
            .rejects("layer_norm_grad: mean is bf16, expected f32", |device| {
                let (x, statistic) = (Tensor::zeros([2, 3], BF16, device)?, Tensor::zeros([2], BF16, device)?);
                let op = LayerNormGrad { weight: false, bias: false, residual: false, rounds: false };
                Ok(apply(op, &[&x, &statistic, &statistic, &x])?.into_vec())
            }),
        OpCase::new("rms_norm_grad", "weight")
            .input(Uniform(-2.0, 2.0))
            .input(statistic())
            .input(dy())
            .input(parameter())
            .on([&[7, 5], &[7], &[7, 5], &[5]])
            .f32_limit(2e-5, 1e-5)
            .double_backward()
            .run(|x| Ok(apply(RmsNormGrad { weight: true, residual: false, rounds: false }, &[&x[0], &x[1], &x[2], &x[3]])?.into_vec()))
            .oracle(|x| {
                let rrms = column(&x[1]);
                let normal = x[0].zip(&rrms, |x, r| x * r);
                let mut all = gradient_of(&normal, &x[2], &x[3], &rrms, &[1], Centered::No);
                all.truncate(2);
                all
            })
            .rejects("rms_norm_grad: grad_output has shape [3, 2], expected [2, 3]", |device| {
                let (x, statistic) = (zeros(&[2, 3], device)?, zeros(&[2], device)?);
                let op = RmsNormGrad { weight: false, residual: false, rounds: false };
                Ok(apply(op, &[&x, &statistic, &zeros(&[3, 2], device)?])?.into_vec())
            }),
        OpCase::new("batch_norm_grad", "affine")
            .input(Uniform(-2.0, 2.0))
            .input(statistic())
            .input(statistic())
            .input(dy())
            .input(parameter())
            .on([&[7, 3], &[3], &[3], &[7, 3], &[3]])
            .on([&[2, 3, 4], &[3], &[3], &[2, 3, 4], &[3]])
            .f32_limit(2e-5, 1e-5)
            .double_backward()
            .run(|x| {
                let op = BatchNormGrad { eps: EPS, affine: true };
                Ok(apply(op, &[&x[0], &x[1], &x[2], &x[3], &x[4]])?.into_vec())
            })
            .oracle(|x| {
                let axes = all_but_channels(&x[0]);
                let per_channel = |v: &Array| channels_of(v, x[0].rank());
                let rstd = per_channel(&x[2]).map(|v| 1.0 / (v + EPS).sqrt());
                let normal = x[0].zip(&per_channel(&x[1]), |x, m| x - m).zip(&rstd, |c, r| c * r);
                gradient_of(&normal, &x[3], &per_channel(&x[4]), &rstd, &axes, Centered::Yes)
            })
            .rejects("batch_norm_grad: var has shape [2], expected [3]", |device| {
                let (x, mean, var) = (zeros(&[2, 3], device)?, zeros(&[3], device)?, zeros(&[2], device)?);
                let op = BatchNormGrad { eps: EPS, affine: false };
                Ok(apply(op, &[&x, &mean, &var, &x])?.into_vec())
            }),
        normed_unequal("batch_norm", "op affine=false")
            .shapes([&[5, 2]])
            .run(|x| Ok(apply(BatchNorm { eps: EPS, affine: false }, &[&x[0]])?.into_vec()))
            .oracle(|x| {
                let [mean, var] =
                    [average as fn(&[f64]) -> f64, variance].map(|f| x[0].reduce(&[0], Keep::No, f));
                (normalized(&x[0], &[0]), mean, var)
            }),
    ]
}

fn zeros(shape: &[usize], device: &Device) -> Result<Tensor> {
    Tensor::zeros(shape, F32, device)
}

fn last_axis(x: &Array) -> usize {
    x.rank() - 1
}

fn all_but_channels(x: &Array) -> Vec<usize> {
    (0..x.rank()).filter(|&axis| axis != 1).collect()
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the population variance.
fn variance(values: &[f64]) -> f64 {
    let mean = average(values);
    values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / values.len() as f64
}

fn mean_square(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64
}

/// `(x - mean) / sqrt(var + eps)` over `axes` (Ba et al. 2016, eq. 4; Ioffe and Szegedy 2015,
/// algorithm 1).
fn normalized(x: &Array, axes: &[usize]) -> Array {
    let (mean, var) = (x.reduce(axes, Keep::Yes, average), x.reduce(axes, Keep::Yes, variance));
    x.zip(&mean, |x, m| x - m).zip(&var, |c, v| c / (v + EPS).sqrt())
}

/// `x / sqrt(mean(x^2) + eps)` over the last axis (Zhang and Sennrich 2019, eq. 4).
fn rms_normalized(x: &Array) -> Array {
    let square = x.reduce(&[last_axis(x)], Keep::Yes, mean_square);
    x.zip(&square, |x, s| x / (s + EPS).sqrt())
}

fn affine(normal: &Array, weight: &Array, bias: &Array) -> Array {
    normal.zip(weight, |n, w| n * w).zip(bias, |y, b| y + b)
}

/// Reshapes `[channels]` to `[channels, 1, ..]`, which broadcasts to the rank of x.
fn channels_of(vector: &Array, rank: usize) -> Array {
    let mut shape = vec![1; rank];
    shape[1] = vector.elements();
    vector.reshape(&shape)
}

fn channel_affine(normal: &Array, weight: &Array, bias: &Array) -> Array {
    affine(normal, &channels_of(weight, normal.rank()), &channels_of(bias, normal.rank()))
}

fn with_statistics(x: &Array, mean: &Array, var: &Array) -> Array {
    let (mean, var) = (channels_of(mean, x.rank()), channels_of(var, x.rank()));
    x.zip(&mean, |x, m| x - m).zip(&var, |c, v| c / (v + EPS).sqrt())
}

/// Normalizes each group of channels of each sample over its channels and spatial axes (Wu and He
/// 2018, eq. 7).
fn grouped(x: &Array, groups: usize) -> Array {
    let width = x.shape[1..].iter().product::<usize>() / groups;
    normalized(&x.reshape(&[x.shape[0], groups, width]), &[2]).reshape(&x.shape)
}

/// Reshapes `[..]` to `[.., 1]`.
fn column(x: &Array) -> Array {
    x.reshape(&[&x.shape[..], &[1]].concat())
}

#[derive(Clone, Copy, PartialEq)]
enum Centered {
    Yes,
    No,
}

/// With `g = dy * weight` and the normalized input `n`:
/// `dx = rstd * (g - mean(g) - n * mean(g * n))` (without `mean(g)` if the input is not centered),
/// `dweight = sum(dy * n)`, `dbias = sum(dy)`.
fn gradient_of(
    normal: &Array,
    dy: &Array,
    weight: &Array,
    rstd: &Array,
    axes: &[usize],
    centered: Centered,
) -> Vec<Array> {
    // Parameters of row norms vary along the normalized axis, parameters of batch norm along the
    // channels.
    let parameter_axis = if weight.rank() == 1 { last_axis(dy) } else { 1 };
    let others: Vec<usize> = (0..dy.rank()).filter(|&axis| axis != parameter_axis).collect();
    let g = dy.zip(weight, |d, w| d * w);
    let shift = match centered {
        Centered::Yes => g.reduce(axes, Keep::Yes, average),
        Centered::No => Array::scalar(0.0),
    };
    let projection = g.zip(normal, |g, n| g * n).reduce(axes, Keep::Yes, average);
    let dx = g
        .zip(&shift, |g, s| g - s)
        .zip(&normal.zip(&projection, |n, p| n * p), |g, p| g - p)
        .zip(rstd, |d, r| d * r);
    let total = |values: &[f64]| values.iter().sum();
    let dweight = dy.zip(normal, |d, n| d * n).reduce(&others, Keep::No, total);
    vec![dx, dweight, dy.reduce(&others, Keep::No, total)]
}
