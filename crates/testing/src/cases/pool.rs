//! Rows of pooling.

use crate::prelude::*;
use ternion_core::dispatch::apply_one;
use ternion_core::ops::conv::Window;
use ternion_core::ops::pool::{AvgPool2dGrad, MaxPool2dGrad, PoolOptions};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [maxima(), means(), adaptive()].concat()
}

fn text(options: &PoolOptions) -> String {
    let PoolOptions { kernel, stride, padding, dilation, .. } = options;
    format!("kernel={kernel:?} stride={stride:?} padding={padding:?} dilation={dilation:?}")
}

fn window(options: &PoolOptions) -> Window {
    let PoolOptions { kernel, stride, padding, dilation, .. } = *options;
    Window { kernel, stride, padding, dilation }
}

/// Returns how many windows fit on `size` pixels.
fn output_size(options: &PoolOptions, axis: usize, size: usize) -> usize {
    let span = options.dilation[axis] * (options.kernel[axis] - 1) + 1;
    (size + 2 * options.padding[axis] - span) / options.stride[axis] + 1
}

/// Returns the pixels along `axis` in window `output_index`.
fn pixels(options: &PoolOptions, axis: usize, output_index: usize, size: usize) -> Vec<usize> {
    (0..options.kernel[axis])
        .filter_map(|kernel_index| {
            (output_index * options.stride[axis] + kernel_index * options.dilation[axis]).checked_sub(options.padding[axis])
        })
        .filter(|&at| at < size)
        .collect()
}

/// Calls `f` for each window with its elements as `(row, column, value)`.
fn each_window(x: &Array, options: &PoolOptions, f: impl Fn(&[(usize, usize, f64)]) -> f64) -> Array {
    let [batch, channels, height, width] = x.sizes();
    let shape = [batch, channels, output_size(options, 0, height), output_size(options, 1, width)];
    Array::from_fn(&shape, |at| {
        let columns = pixels(options, 1, at[3], width);
        let in_window: Vec<(usize, usize, f64)> = pixels(options, 0, at[2], height)
            .into_iter()
            .flat_map(|row| columns.iter().map(move |&column| (row, column)))
            .map(|(row, column)| (row, column, x.at(&[at[0], at[1], row, column])))
            .collect();
        f(&in_window)
    })
}

/// Returns the first maximum, or the first NaN.
fn first_maximum(in_window: &[(usize, usize, f64)]) -> (usize, usize, f64) {
    let mut best = in_window[0];
    for &element in &in_window[1..] {
        if !best.2.is_nan() && (element.2.is_nan() || element.2 > best.2) {
            best = element;
        }
    }
    best
}

fn max_pool2d(x: &Array, options: &PoolOptions) -> (Array, Array) {
    let width = x.shape[3];
    let maxima = each_window(x, options, |in_window| first_maximum(in_window).2);
    (maxima, each_window(x, options, |in_window| (first_maximum(in_window).0 * width + first_maximum(in_window).1) as f64))
}

fn avg_pool2d(x: &Array, options: &PoolOptions) -> Array {
    let window_size = options.kernel[0] * options.kernel[1];
    each_window(x, options, |in_window| {
        let count = if options.count_include_pad { window_size } else { in_window.len() };
        in_window.iter().map(|element| element.2).sum::<f64>() / count as f64
    })
}

fn options() -> [PoolOptions; 5] {
    let plain = PoolOptions::new([2, 3]);
    [
        plain,
        PoolOptions { stride: [1, 2], ..plain },
        PoolOptions { padding: [1, 1], ..plain },
        PoolOptions { kernel: [3, 3], stride: [1, 1], padding: [1, 1], ..plain },
        PoolOptions { stride: [3, 2], padding: [1, 0], ..plain },
    ]
}

fn maxima() -> Vec<OpCase> {
    let row = |options: PoolOptions| {
        OpCase::new("max_pool2d", text(&options))
            .input(Distinct)
            .on([&[2, 3, 6, 5]])
            .on([&[1, 1, 7, 9]])
            .exact()
            .double_backward()
            .differentiable_outputs(1)
            .run(move |x| x[0].max_pool2d_with_positions(options))
            .oracle(move |x| max_pool2d(&x[0], &options))
    };
    let dilated = PoolOptions { kernel: [3, 2], stride: [1, 2], padding: [1, 1], dilation: [2, 3], ..PoolOptions::new([3, 2]) };
    let padded = PoolOptions { padding: [1, 1], stride: [1, 1], ..PoolOptions::new([2, 2]) };
    let neg_inf = f64::NEG_INFINITY;
    let mut rows: Vec<OpCase> = options().into_iter().map(row).collect();
    rows.push(row(dilated).perf([&[64, 64, 28, 28]]));
    rows.push(
        row(padded)
            .on([&[0, 2, 3, 3]])
            .adversarial("only -infinity", [Array::full(&[1, 2, 2, 3], neg_inf)])
            .adversarial("all equal", [Array::full(&[1, 1, 3, 3], 7.0)])
            .adversarial("nan", [Array::new(&[1, 1, 2, 4], vec![1.0, f64::NAN, 9.0, neg_inf, 3.0, 2.0, f64::NAN, f64::INFINITY])])
            .rejects("max_pool2d: padding [2, 0] is more than half of kernel [2, 2]", |device| {
                let options = PoolOptions { padding: [2, 0], ..PoolOptions::new([2, 2]) };
                Tensor::zeros([1, 1, 4, 4], F32, device)?.max_pool2d(options)
            })
            .rejects("max_pool2d: input is bool, expected a number", |device| {
                Tensor::zeros([1, 1, 4, 4], Bool, device)?.max_pool2d(PoolOptions::new([2, 2]))
            })
            .rejects("max_pool2d: expected 4 axes, got shape [4, 4]", |device| {
                Tensor::zeros([4, 4], F32, device)?.max_pool2d(PoolOptions::new([2, 2]))
            })
            .rejects(
                "max_pool2d: window [5, 2] with dilation [1, 1] is larger than image [4, 4] with padding [0, 0]",
                |device| Tensor::zeros([1, 1, 4, 4], F32, device)?.max_pool2d(PoolOptions::new([5, 2])),
            )
            .rejects(
                "max_pool2d: a window Window { kernel: [2, 1], stride: [2, 1], padding: [1, 0], dilation: [5, 1] } on an image of [4, 4] is entirely in the padding",
                |device| {
                    let options =
                        PoolOptions { padding: [1, 0], dilation: [5, 1], ..PoolOptions::new([2, 1]) };
                    Tensor::zeros([1, 1, 4, 4], F32, device)?.max_pool2d(options)
                },
            ),
    );
    rows.push(max_grad());
    rows.push(one_winner());
    rows
}

/// One element is the maximum of every window: hundreds of gradients are added there.
fn one_winner() -> OpCase {
    let options = PoolOptions { stride: [1, 1], padding: [10, 10], ..PoolOptions::new([21, 21]) };
    let values: Vec<f64> = (0..441).map(|at| if at == 220 { 8.0 } else { f64::from(at % 31) / 8.0 }).collect();
    OpCase::new("max_pool2d", "one element wins every window")
        .input(Fixed(values))
        .on([&[1, 1, 21, 21]])
        .exact()
        .differentiable_outputs(1)
        .positive_cotangents()
        .run(move |x| x[0].max_pool2d_with_positions(options))
        .oracle(move |x| max_pool2d(&x[0], &options))
}

fn max_grad() -> OpCase {
    let options = PoolOptions::new([2, 2]);
    OpCase::new("max_pool2d_grad", "")
        .input(Input::of(I32, Integers(0, 27)).constant())
        .input(Uniform(-4.0, 4.0))
        .on([&[2, 3, 2, 3], &[2, 3, 2, 3]])
        .f32_limit(2e-6, 2e-6)
        .double_backward()
        .run(move |x| {
            apply_one(MaxPool2dGrad { window: window(&options), size: [4, 7] }, &[&x[0], &x[1]])
        })
        .oracle(|x| {
            let mut dx = Array::zeros(&[2, 3, 4, 7]);
            Array::from_fn(&x[0].shape, |at| {
                let position = x[0].at(at) as usize;
                *dx.at_mut(&[at[0], at[1], position / 7, position % 7]) += x[1].at(at);
                0.0
            });
            dx
        })
        .rejects("max_pool2d_grad: positions is i64, expected i32", move |device| {
            let (positions, dy) =
                (Tensor::zeros([1, 1, 2, 2], I64, device)?, Tensor::zeros([1, 1, 2, 2], F32, device)?);
            apply_one(MaxPool2dGrad { window: window(&options), size: [4, 5] }, &[&positions, &dy])
        })
        .rejects("max_pool2d_grad: grad_output has shape [1, 1, 2, 3], expected [1, 1, 2, 2]", move |device| {
            let (positions, dy) =
                (Tensor::zeros([1, 1, 2, 3], I32, device)?, Tensor::zeros([1, 1, 2, 3], F32, device)?);
            apply_one(MaxPool2dGrad { window: window(&options), size: [4, 5] }, &[&positions, &dy])
        })
}

/// A linear op: central differences are exact except for rounding. The sum of elements of magnitude
/// 4 may cancel.
fn mean_limits(row: OpCase) -> OpCase {
    let loose = Tolerance { abs: 2e-6, rel: 2e-6 };
    row.f32_limit(loose.abs, loose.rel).grad_tolerances(Tolerance { abs: 2e-9, rel: 2e-9 }, loose.times(10.0))
}

fn means() -> Vec<OpCase> {
    let on = |options: PoolOptions| {
        let parameters = format!("{} count_include_pad={}", text(&options), options.count_include_pad);
        mean_limits(OpCase::new("avg_pool2d", parameters))
            .input(Uniform(-4.0, 4.0))
            .double_backward()
            .run(move |x| x[0].avg_pool2d(options))
            .oracle(move |x| avg_pool2d(&x[0], &options))
    };
    let grad = |options: PoolOptions, size: [usize; 2]| {
        let PoolOptions { count_include_pad, .. } = options;
        let [oh, ow] = [output_size(&options, 0, size[0]), output_size(&options, 1, size[1])];
        let parameters = format!("{} count_include_pad={count_include_pad}", text(&options));
        mean_limits(OpCase::new("avg_pool2d_grad", parameters))
            .input(Uniform(-4.0, 4.0))
            .on([&[2, 3, oh, ow]])
            .double_backward()
            .run(move |x| {
                let op = AvgPool2dGrad { window: window(&options), count_include_pad, size };
                apply_one(op, &[&x[0]])
            })
            .oracle(move |x| avg_pool2d_grad(&x[0], &options, size))
    };
    let row = |options: PoolOptions| on(options).on([&[2, 3, 6, 5]]).on([&[1, 1, 7, 9]]);
    let mut rows = Vec::new();
    for options in options() {
        rows.push(row(options));
        rows.push(grad(options, [6, 5]));
        if options.padding != [0, 0] {
            rows.push(row(PoolOptions { count_include_pad: false, ..options }));
            rows.push(grad(PoolOptions { count_include_pad: false, ..options }, [6, 5]));
        }
    }
    // Sums of hundreds of elements, forward and backward.
    let large = PoolOptions { stride: [1, 1], ..PoolOptions::new([15, 15]) };
    rows.push(on(large).on([&[1, 1, 17, 18]]));
    rows.push(grad(large, [17, 18]));
    let last = rows.pop().expect("there are rows");
    rows.push(last.rejects("avg_pool2d: dilation [2, 1], expected [1, 1]", |device| {
        let options = PoolOptions { dilation: [2, 1], ..PoolOptions::new([2, 2]) };
        Tensor::zeros([1, 1, 4, 4], F32, device)?.avg_pool2d(options)
    }));
    rows
}

/// Distributes each dy equally to the pixels of its window.
fn avg_pool2d_grad(dy: &Array, options: &PoolOptions, [height, width]: [usize; 2]) -> Array {
    let mut dx = Array::zeros(&[dy.shape[0], dy.shape[1], height, width]);
    Array::from_fn(&dy.shape, |at| {
        let (rows, columns) = (pixels(options, 0, at[2], height), pixels(options, 1, at[3], width));
        let count = match options.count_include_pad {
            true => options.kernel[0] * options.kernel[1],
            false => rows.len() * columns.len(),
        };
        for &row in &rows {
            for &column in &columns {
                *dx.at_mut(&[at[0], at[1], row, column]) += dy.at(at) / count as f64;
            }
        }
        0.0
    });
    dx
}

fn adaptive() -> Vec<OpCase> {
    let row = |size: [usize; 2]| {
        OpCase::new("adaptive_avg_pool2d", format!("to {size:?}"))
            .input(Uniform(-4.0, 4.0))
            .on([&[2, 3, 6, 4]])
            .on([&[1, 1, 7, 5]])
            .f32_limit(2e-6, 2e-6)
            .double_backward()
            .steps()
            .run(move |x| x[0].adaptive_avg_pool2d(size))
            .oracle(move |x| adaptive_avg_pool2d(&x[0], size))
    };
    vec![
        row([1, 1]).rejects("adaptive_avg_pool2d: image of [0, 4] to [1, 1]", |device| {
            Tensor::zeros([1, 1, 0, 4], F32, device)?.adaptive_avg_pool2d([1, 1])
        }),
        row([3, 2]),
        row([4, 3]),
        row([9, 5]),
    ]
}

/// Returns the mean of the rows `floor(i h / oh)..ceil((i + 1) h / oh)`, and of the columns
/// likewise.
fn adaptive_avg_pool2d(x: &Array, [oh, ow]: [usize; 2]) -> Array {
    let [batch, channels, height, width] = x.sizes();
    let range = |at: usize, count: usize, size: usize| at * size / count..((at + 1) * size).div_ceil(count);
    Array::from_fn(&[batch, channels, oh, ow], |at| {
        let (rows, columns) = (range(at[2], oh, height), range(at[3], ow, width));
        let count = (rows.len() * columns.len()) as f64;
        rows.flat_map(|row| columns.clone().map(move |column| (row, column)))
            .map(|(row, column)| x.at(&[at[0], at[1], row, column]))
            .sum::<f64>()
            / count
    })
}
