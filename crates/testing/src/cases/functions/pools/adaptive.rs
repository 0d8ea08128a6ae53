//! Rows of adaptive pools, whose windows depend on the output size, of fractional pools with random
//! offsets, and of unpooling.

use super::windows::{combinations, each_window, position, first_maximum};
use crate::prelude::*;

/// Returns this module's rows of the op table.
pub(super) fn rows() -> Vec<OpCase> {
    [means(), maxima(), fractional(), unpooled()].concat()
}

/// Returns the indices in window `at` of the `count` windows of an axis of `size` elements: from
/// the floor of its start to the ceiling of its end.
fn adaptive_window(at: usize, count: usize, size: usize) -> Vec<usize> {
    (at * size / count..((at + 1) * size).div_ceil(count)).collect()
}

fn adaptive_mean(x: &Array, size: &[usize]) -> Array {
    let lists = |axis: usize, at: usize| adaptive_window(at, size[axis], x.shape[2 + axis]);
    each_window(x, size, lists, |_, elements| {
        elements.iter().map(|element| element.1).sum::<f64>() / elements.len() as f64
    })
}

fn adaptive_max(x: &Array, size: &[usize]) -> (Array, Array) {
    let lists = |axis: usize, at: usize| adaptive_window(at, size[axis], x.shape[2 + axis]);
    let result = |f: fn((usize, f64)) -> f64| {
        each_window(x, size, lists, |_, elements| f(first_maximum(elements.into_iter())))
    };
    (result(|maximum| maximum.1), result(|maximum| maximum.0 as f64))
}

fn means() -> Vec<OpCase> {
    let row = |op: &'static str, size: &[usize]| {
        OpCase::new(op, format!("to {size:?}")).input(Uniform(-4.0, 4.0)).f32_limit(2e-6, 2e-6).double_backward()
    };
    let case_1d = |size: usize| {
        row("adaptive_avg_pool1d", &[size])
            .on([&[2, 3, 6]])
            .on([&[1, 1, 7]])
            .run(move |x| x[0].adaptive_avg_pool1d([size]))
            .oracle(move |x| adaptive_mean(&x[0], &[size]))
    };
    let case_3d = |size: [usize; 3]| {
        row("adaptive_avg_pool3d", &size)
            .on([&[2, 1, 4, 3, 5]])
            .on([&[1, 2, 2, 3, 3]])
            .run(move |x| x[0].adaptive_avg_pool3d(size))
            .oracle(move |x| adaptive_mean(&x[0], &size))
    };
    vec![
        case_1d(1),
        case_1d(4).on([&[0, 2, 5]]).rejects("adaptive_avg_pool1d: image of [0] to [2]", |device| {
            Tensor::zeros([1, 1, 0], F32, device)?.adaptive_avg_pool1d([2])
        }),
        case_1d(9).adversarial(
            "special",
            [Array::new(&[1, 1, 5], vec![1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0])],
        ),
        case_1d(0),
        case_3d([1, 1, 1]),
        case_3d([3, 2, 4]).rejects("adaptive_avg_pool3d: input is i64, expected a floating dtype", |device| {
            Tensor::zeros([1, 1, 2, 2, 2], I64, device)?.adaptive_avg_pool3d([1, 1, 1])
        }),
        case_3d([2, 0, 2]),
    ]
}

fn maxima() -> Vec<OpCase> {
    let row = |op: &'static str, size: &[usize]| {
        OpCase::new(op, format!("to {size:?}"))
            .input(Distinct)
            .also(INTEGERS)
            .exact()
            .double_backward()
            .differentiable_outputs(1)
    };
    let case_1d = |size: usize| {
        row("adaptive_max_pool1d", &[size])
            .on([&[2, 3, 6]])
            .on([&[1, 1, 7]])
            .run(move |x| x[0].adaptive_max_pool1d([size]))
            .oracle(move |x| adaptive_max(&x[0], &[size]))
    };
    let case_2d = |size: [usize; 2]| {
        row("adaptive_max_pool2d", &size)
            .on([&[2, 2, 4, 5]])
            .on([&[1, 1, 3, 7]])
            .run(move |x| x[0].adaptive_max_pool2d(size))
            .oracle(move |x| adaptive_max(&x[0], &size))
    };
    let case_3d = |size: [usize; 3]| {
        row("adaptive_max_pool3d", &size)
            .on([&[2, 1, 4, 3, 5]])
            .on([&[0, 2, 2, 3, 3]])
            .run(move |x| x[0].adaptive_max_pool3d(size))
            .oracle(move |x| adaptive_max(&x[0], &size))
    };
    let special = vec![1.0, f64::NAN, 9.0, f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NAN];
    vec![
        case_1d(1),
        case_1d(4).rejects("adaptive_max_pool1d: input is bool, expected a number", |device| {
            Tensor::zeros([1, 1, 4], Bool, device)?.adaptive_max_pool1d([2])
        }),
        case_1d(9),
        case_1d(0),
        case_2d([1, 2]),
        case_2d([3, 4]).adversarial("nan", [Array::new(&[1, 1, 2, 3], special)]),
        case_2d([5, 0]).rejects("adaptive_max_pool2d: expected 4 axes, got shape [2, 3, 4]", |device| {
            Tensor::zeros([2, 3, 4], F32, device)?.adaptive_max_pool2d([2, 2])
        }),
        case_3d([1, 1, 1]),
        case_3d([3, 2, 4]),
    ]
}

/// Returns where a window of an axis begins (Graham 2014, section 2).
fn begin(at: usize, count: usize, last: usize, sample: f64) -> usize {
    if at + 1 == count {
        return last;
    }
    let distance = last as f64 / (count - 1) as f64;
    (((at as f64 + sample) * distance).floor() - (sample * distance).floor()) as usize
}

/// Returns the maxima of fractional windows and their positions. The sample of each axis is element
/// `sample_of_axis[axis]` of the last axis of the samples.
fn fractional_pool(x: &[Array], kernel: &[usize], size: &[usize], sample_of_axis: &[usize]) -> (Array, Array) {
    let (image, samples) = (&x[0], &x[1]);
    let sizes = &image.shape[2..];
    let result = |f: fn((usize, f64)) -> f64| {
        Array::from_fn(&[&image.shape[..2], size].concat(), |at| {
            let lists: Vec<Vec<usize>> = (0..size.len())
                .map(|axis| {
                    let sample = samples.at(&[at[0], at[1], sample_of_axis[axis]]);
                    let first = begin(at[2 + axis], size[axis], sizes[axis] - kernel[axis], sample);
                    (first..first + kernel[axis]).collect()
                })
                .collect();
            let window_indices = combinations(&lists)
                .into_iter()
                .map(|inner| (position(&inner, sizes), image.at(&[&at[..2], &inner[..]].concat())));
            f(first_maximum(window_indices))
        })
    };
    (result(|maximum| maximum.1), result(|maximum| maximum.0 as f64))
}

fn fractional() -> Vec<OpCase> {
    let row = |op: &'static str, kernel: &[usize], size: &[usize]| {
        OpCase::new(op, format!("kernel={kernel:?} to {size:?}"))
            .input(Distinct)
            .input(Input::float(Uniform(0.0, 0.99)).constant())
            .exact()
            .double_backward()
            .differentiable_outputs(1)
    };
    // Exact distances: a different rounding must not select a different window.
    let case_2d = |kernel: [usize; 2], size: [usize; 2]| {
        row("fractional_max_pool2d", &kernel, &size)
            .on([&[2, 3, 7, 8], &[2, 3, 2]])
            .run(move |x| x[0].fractional_max_pool2d(kernel, size, &x[1]))
            .oracle(move |x| fractional_pool(x, &kernel, &size, &[1, 0]))
    };
    let case_3d = |kernel: [usize; 3], size: [usize; 3]| {
        row("fractional_max_pool3d", &kernel, &size)
            .on([&[1, 2, 5, 4, 6], &[1, 2, 3]])
            .run(move |x| x[0].fractional_max_pool3d(kernel, size, &x[1]))
            .oracle(move |x| fractional_pool(x, &kernel, &size, &[0, 1, 2]))
    };
    vec![
        case_2d([2, 1], [3, 5])
            .rejects(
                "fractional_max_pool2d: windows [2, 2] to size [4, 3] of an image of [4, 4], expected size + kernel - 1 within the image",
                |device| {
                    let samples = Tensor::zeros([1, 1, 2], F32, device)?;
                    Tensor::zeros([1, 1, 4, 4], F32, device)?.fractional_max_pool2d([2, 2], [4, 3], &samples)
                },
            )
            .rejects("fractional_max_pool2d: samples has shape [1, 1, 3], expected [1, 1, 2]", |device| {
                let samples = Tensor::zeros([1, 1, 3], F32, device)?;
                Tensor::zeros([1, 1, 4, 4], F32, device)?.fractional_max_pool2d([2, 2], [2, 2], &samples)
            }),
        case_2d([3, 2], [1, 5]),
        case_3d([2, 2, 2], [3, 1, 3]),
        case_3d([1, 2, 3], [3, 2, 3]).rejects(
            "fractional_max_pool3d: input is i64, expected a floating dtype",
            |device| {
                let samples = Tensor::zeros([1, 1, 3], F32, device)?;
                Tensor::zeros([1, 1, 4, 4, 4], I64, device)?
                    .fractional_max_pool3d([2; 3], [2; 3], &samples)
            },
        ),
    ]
}

/// Indices into planes of this many elements, without duplicates in a plane, so that the order of
/// writes does not matter.
fn positions(outputs: usize) -> Input {
    Input::index(Values::custom(move |shapes, position, rng| {
        let planes = shapes[position][0] * shapes[position][1];
        let elements: usize = shapes[position][2..].iter().product();
        let plane = |_| rng.permutation(outputs).into_iter().take(elements).map(|at| at as f64).collect::<Vec<_>>();
        (0..planes).flat_map(plane).collect()
    }))
}

fn unpool(x: &[Array], size: &[usize]) -> Array {
    let outputs = size.iter().product();
    let mut y = Array::zeros(&[x[0].shape[0], x[0].shape[1], outputs]);
    Array::from_fn(&x[0].shape, |at| {
        *y.at_mut(&[at[0], at[1], x[1].at(at) as usize]) = x[0].at(at);
        0.0
    });
    y.reshape(&[&x[0].shape[..2], size].concat())
}

fn unpooled() -> Vec<OpCase> {
    let row = |op: &'static str, size: &[usize]| {
        OpCase::new(op, format!("to {size:?}"))
            .input(Uniform(-4.0, 4.0))
            .input(positions(size.iter().product()))
            .exact()
            .double_backward()
    };
    vec![
        row("max_unpool1d", &[7])
            .on([&[2, 3, 4], &[2, 3, 4]])
            .on([&[0, 3, 2], &[0, 3, 2]])
            .run(|x| x[0].max_unpool1d(&x[1], [7]))
            .oracle(|x| unpool(x, &[7]))
            .rejects("max_unpool1d: positions has shape [1, 1, 3], expected [1, 1, 2]", |device| {
                let positions = Tensor::zeros([1, 1, 3], I32, device)?;
                Tensor::zeros([1, 1, 2], F32, device)?.max_unpool1d(&positions, [4])
            }),
        row("max_unpool2d", &[4, 5])
            .on([&[2, 2, 2, 3], &[2, 2, 2, 3]])
            .on([&[1, 1, 4, 5], &[1, 1, 4, 5]])
            .adversarial(
                "special",
                [
                    Array::new(&[1, 1, 1, 3], vec![f64::NAN, f64::INFINITY, -0.0]),
                    Array::new(&[1, 1, 1, 3], vec![19.0, 0.0, 7.0]),
                ],
            )
            .run(|x| x[0].max_unpool2d(&x[1], [4, 5]))
            .oracle(|x| unpool(x, &[4, 5]))
            .rejects("max_unpool2d: positions is f32, expected i32 or i64", |device| {
                let x = Tensor::zeros([1, 1, 2, 2], F32, device)?;
                x.max_unpool2d(&x, [4, 4])
            })
            .rejects("max_unpool2d: 4 elements to size [0, 4]", |device| {
                let positions = Tensor::zeros([1, 1, 2, 2], I32, device)?;
                Tensor::zeros([1, 1, 2, 2], F32, device)?.max_unpool2d(&positions, [0, 4])
            }),
        row("max_unpool3d", &[3, 2, 4])
            .on([&[1, 2, 2, 1, 3], &[1, 2, 2, 1, 3]])
            .run(|x| x[0].max_unpool3d(&x[1], [3, 2, 4]))
            .oracle(|x| unpool(x, &[3, 2, 4]))
            .rejects("max_unpool3d: input is i64, expected a floating dtype", |device| {
                let positions = Tensor::zeros([1, 1, 1, 2, 2], I32, device)?;
                Tensor::zeros([1, 1, 1, 2, 2], I64, device)?.max_unpool3d(&positions, [2, 2, 2])
            }),
    ]
}
