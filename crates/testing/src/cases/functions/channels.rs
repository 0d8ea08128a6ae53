//! Rows of channel shuffle, pixel shuffle, normalization by neighboring channels and by instance,
//! and channel dropout.

use crate::oracle::random_word;
use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [shuffled(), normed(), instance_norm(), dropped()].concat()
}

/// Creates a row of an op that only moves elements.
fn permuting(op: &'static str, parameters: &str) -> OpCase {
    OpCase::new(op, parameters).input(Distinct).also(INTEGERS).also(BOOL).exact().double_backward()
}

fn shuffled() -> Vec<OpCase> {
    vec![
        permuting("pixel_shuffle", "2")
            .on([&[2, 8, 2, 3]])
            .on([&[4, 1, 2]])
            .on([&[0, 4, 2, 2]])
            .on([&[1, 4, 0, 2]])
            .run(|x| x[0].pixel_shuffle(2))
            .oracle(|x| {
                let [.., channels, height, width] = x[0].shape[..] else { panic!("three axes") };
                let outer = &x[0].shape[..x[0].rank() - 3];
                Array::from_fn(&[outer, &[channels / 4, height * 2, width * 2]].concat(), |at| {
                    let [outer @ .., c, row, column] = at else { panic!("three axes") };
                    x[0].at(&[outer, &[c * 4 + row % 2 * 2 + column % 2, row / 2, column / 2]].concat())
                })
            })
            .rejects("pixel_shuffle: expected at least 3 axes, got shape [4, 2]", |device| {
                Tensor::zeros([4, 2], F32, device)?.pixel_shuffle(2)
            })
            .rejects("pixel_shuffle: 6 channels by a factor of 2, expected a multiple of its square", |device| {
                Tensor::zeros([6, 2, 2], F32, device)?.pixel_shuffle(2)
            })
            .rejects("pixel_shuffle: 4 channels by a factor of 0, expected a multiple of its square", |device| {
                Tensor::zeros([4, 2, 2], F32, device)?.pixel_shuffle(0)
            }),
        permuting("pixel_unshuffle", "3")
            .on([&[2, 2, 3, 6]])
            .on([&[1, 6, 3]])
            .on([&[1, 1, 0, 3]])
            .run(|x| x[0].pixel_unshuffle(3))
            .oracle(|x| {
                let [.., channels, height, width] = x[0].shape[..] else { panic!("three axes") };
                let outer = &x[0].shape[..x[0].rank() - 3];
                Array::from_fn(&[outer, &[channels * 9, height / 3, width / 3]].concat(), |at| {
                    let [outer @ .., c, row, column] = at else { panic!("three axes") };
                    x[0].at(&[outer, &[c / 9, row * 3 + c % 9 / 3, column * 3 + c % 3]].concat())
                })
            })
            .rejects("pixel_unshuffle: images of 4 x 3 by a factor of 3, expected multiples of it", |device| {
                Tensor::zeros([1, 4, 3], F32, device)?.pixel_unshuffle(3)
            }),
        permuting("channel_shuffle", "3")
            .on([&[2, 6, 2, 2]])
            .on([&[1, 3, 5]])
            .on([&[2, 6, 0]])
            .run(|x| x[0].channel_shuffle(3))
            .oracle(|x| {
                let per_group = x[0].shape[1] / 3;
                Array::from_fn(&x[0].shape, |at| {
                    let mut from = at.to_vec();
                    from[1] = at[1] % 3 * per_group + at[1] / 3;
                    x[0].at(&from)
                })
            })
            .rejects("channel_shuffle: expected at least 3 axes, got shape [4, 2]", |device| {
                Tensor::zeros([4, 2], F32, device)?.channel_shuffle(2)
            })
            .rejects("channel_shuffle: 4 channels in 3 groups, expected a multiple", |device| {
                Tensor::zeros([1, 4, 2], F32, device)?.channel_shuffle(3)
            }),
    ]
}

/// `x / (k + alpha / size * sum of squares of the neighboring channels)^beta`.
fn local_response_norm(x: &Array, size: usize, [alpha, beta, k]: [f64; 3]) -> Array {
    Array::from_fn(&x.shape, |at| {
        let mut neighbor = at.to_vec();
        let mut sum = 0.0;
        for channel in 0..x.shape[1] {
            let is_neighbor = channel + size / 2 >= at[1] && channel <= at[1].saturating_add((size - 1) / 2);
            neighbor[1] = channel;
            sum += if is_neighbor { x.at(&neighbor).powi(2) } else { 0.0 };
        }
        x.at(at) / (k + alpha / size as f64 * sum).powf(beta)
    })
}

fn normed() -> Vec<OpCase> {
    let row = |size: usize, constants: [f64; 3]| {
        let [alpha, beta, k] = constants;
        OpCase::new("local_response_norm", format!("size={size} alpha={alpha} beta={beta} k={k}"))
            .input(Uniform(-4.0, 4.0))
            .on([&[2, 5, 3]])
            .on([&[1, 2, 2, 2]])
            .on([&[0, 2, 3]])
            .f32_limit(2e-6, 3e-6)
            .double_backward()
            .run(move |x| x[0].local_response_norm(size, alpha, beta, k))
            .oracle(move |x| local_response_norm(&x[0], size, constants))
    };
    vec![
        row(2, [1e-4, 0.75, 1.0]),
        row(3, [0.5, 1.0, 2.0])
            .adversarial("special", [Array::new(&[1, 3, 2], vec![f64::NAN, 0.0, 1.0, f64::INFINITY, -0.0, 2.0])])
            .rejects("local_response_norm: a size of 0, expected at least 1", |device| {
                Tensor::zeros([1, 4, 2], F32, device)?.local_response_norm(0, 1.0, 1.0, 1.0)
            })
            .rejects("local_response_norm: expected at least 3 axes, got shape [4, 2]", |device| {
                Tensor::zeros([4, 2], F32, device)?.local_response_norm(2, 1.0, 1.0, 1.0)
            })
            .rejects("local_response_norm: input is i64, expected a floating dtype", |device| {
                Tensor::zeros([1, 4, 2], I64, device)?.local_response_norm(2, 1.0, 1.0, 1.0)
            }),
        row(1 << 40, [3e9, 0.5, 1.0]),
    ]
}

/// Means and variances over all axes after the first two.
fn instance_norm() -> Vec<OpCase> {
    const EPS: f64 = 1e-3;
    let normalized = |x: &Array| {
        let values = x.shape[2..].iter().product::<usize>();
        let mut data = Vec::with_capacity(x.elements());
        for channel in x.data.chunks(values.max(1)) {
            let mean = channel.iter().sum::<f64>() / values as f64;
            let var = channel.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values as f64;
            data.extend(channel.iter().map(|x| (x - mean) / (var + EPS).sqrt()));
        }
        Array::new(&x.shape, data)
    };
    vec![
        OpCase::new("instance_norm", "")
            .input(Uniform(-2.0, 2.0))
            .shapes([&[2, 3, 4], &[1, 2, 3, 2], &[0, 2, 3], &[2, 0, 3], &[2, 3, 0]])
            .f32_limit(4e-6, 4e-6)
            .double_backward()
            .run(|x| x[0].instance_norm(None, None, EPS))
            .oracle(move |x| normalized(&x[0]))
            .rejects("instance_norm: an input of shape [2, 3], expected more than 1 value in each channel", |device| {
                Tensor::zeros([2, 3], F32, device)?.instance_norm(None, None, EPS)
            })
            .rejects("instance_norm: an input of shape [2, 3, 1], expected more than 1 value in each channel", |device| {
                Tensor::zeros([2, 3, 1], F32, device)?.instance_norm(None, None, EPS)
            })
            .rejects("instance_norm: input is i32, expected a floating dtype", |device| {
                Tensor::zeros([2, 3, 4], I32, device)?.instance_norm(None, None, EPS)
            }),
        OpCase::new("instance_norm", "weight and bias")
            .input(Uniform(-2.0, 2.0))
            .input(Uniform(0.5, 1.5))
            .input(Uniform(-1.0, 1.0))
            .on([&[2, 3, 4], &[3], &[3]])
            .on([&[1, 2, 3, 2], &[2], &[2]])
            .f32_limit(4e-6, 4e-6)
            .double_backward()
            .run(|x| x[0].instance_norm(Some(&x[1]), Some(&x[2]), EPS))
            .oracle(move |x| {
                let normalized = normalized(&x[0]);
                Array::from_fn(&x[0].shape, |at| normalized.at(at) * x[1].at(&[at[1]]) + x[2].at(&[at[1]]))
            }),
        tracked(normalized),
    ]
}

/// With the updated running mean and variance as outputs, which have no gradient.
fn tracked(normalized: impl Fn(&Array) -> Array + Send + Sync + 'static) -> OpCase {
    const MOMENTUM: f64 = 0.25;
    let running = |x: &Array, statistic: fn(&[f64]) -> f64, initial: f64| {
        let (batch, channels) = (x.shape[0], x.shape[1]);
        let values: usize = x.shape[2..].iter().product();
        Array::from_fn(&[channels], |at| {
            let sample = |row: usize| statistic(&x.data[(row * channels + at[0]) * values..][..values]);
            let mean = (0..batch).map(sample).sum::<f64>() / batch as f64;
            if x.elements() == 0 { initial } else { initial * (1.0 - MOMENTUM) + mean * MOMENTUM }
        })
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let var = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
    };
    let run = |x: &Tensor, size: usize| {
        let start = |value: f64| Tensor::full([size], value, x.dtype().accumulator(), x.device());
        let (mean, var) = (start(0.5)?, start(2.0)?);
        let output = x.instance_norm_tracked([None, None], [&mean, &var], MOMENTUM, 1e-3)?;
        Ok((output, mean, var))
    };
    OpCase::new("instance_norm_tracked", "")
        .input(Uniform(-2.0, 2.0))
        .shapes([&[2, 3, 4], &[1, 2, 3, 2], &[0, 2, 3], &[2, 0, 3]])
        .f32_limit(4e-6, 4e-6)
        .double_backward()
        .differentiable_outputs(1)
        .run(move |x| run(&x[0], x[0].dims()[1]))
        .oracle(move |x| (normalized(&x[0]), running(&x[0], mean, 0.5), running(&x[0], var, 2.0)))
        .rejects("instance_norm: running_mean has shape [3], expected [1]", move |device| {
            Ok(run(&Tensor::zeros([2, 1, 4], F32, device)?, 3)?.0)
        })
        .rejects("instance_norm: running_var is i64, expected a floating dtype", |device| {
            let (x, mean) = (Tensor::zeros([2, 1, 4], F32, device)?, Tensor::zeros([1], F32, device)?);
            x.instance_norm_tracked([None, None], [&mean, &mean.to_dtype(I64)?], 0.5, 1e-3)
        })
}

/// The device is seeded with 0 before each call: one random word decides whether a whole channel is
/// dropped.
fn dropped() -> Vec<OpCase> {
    let is_kept = |channel: usize| f64::from(random_word(0, 0, channel) >> 8) / 2f64.powi(24) >= 0.25;
    let of_channels = move |x: &Array, leading_axes: usize| {
        let channel_elements = x.shape[leading_axes..].iter().product::<usize>();
        let data = x.data.iter().enumerate();
        let data = data.map(|(index, &x)| if is_kept(index / channel_elements) { x / 0.75 } else { 0.0 });
        Array::new(&x.shape, data.collect())
    };
    let row = |op: &'static str| OpCase::new(op, "p=0.25").input(Uniform(-2.0, 2.0)).double_backward();
    vec![
        row("dropout1d")
            .shapes([&[5, 3, 4], &[9, 4], &[0, 3, 2]])
            .run(|x| x[0].dropout1d(0.25))
            .oracle(move |x| of_channels(&x[0], if x[0].rank() == 2 { 1 } else { 2 }))
            .rejects("dropout1d: expected 2 or 3 axes, got shape [2]", |device| {
                Tensor::zeros([2], F32, device)?.dropout1d(0.5)
            })
            .rejects("dropout1d: probability 1.5, expected 0 to 1", |device| {
                Tensor::zeros([2, 3], F32, device)?.dropout1d(1.5)
            }),
        row("dropout2d")
            .shapes([&[5, 3, 2, 2], &[4, 3, 5]])
            .run(|x| x[0].dropout2d(0.25))
            .oracle(move |x| of_channels(&x[0], 2))
            .rejects("dropout2d: expected 3 or 4 axes, got shape [2, 3]", |device| {
                Tensor::zeros([2, 3], F32, device)?.dropout2d(0.5)
            })
            .rejects("dropout2d: input is i32, expected a floating dtype", |device| {
                Tensor::zeros([2, 3, 4], I32, device)?.dropout2d(0.5)
            }),
    ]
}
