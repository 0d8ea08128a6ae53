//! Comparison with the definitions, window by window.

use crate::testing::{Numbers, assert_close, layouts, rounded, tensor};
use ternion_core::dispatch::{apply, apply_one};
use ternion_core::ops::conv::Window;
use ternion_core::ops::pool::{AvgPool2d, AvgPool2dGrad, MaxPool2d, MaxPool2dGrad};
use ternion_core::{DType, Error};

struct Case {
    shape: [usize; 4],
    window: Window,
}

fn cases() -> Vec<Case> {
    let window = |kernel, stride, padding, dilation| Window { kernel, stride, padding, dilation };
    vec![
        Case { shape: [2, 3, 6, 7], window: window([2, 2], [2, 2], [0, 0], [1, 1]) },
        Case { shape: [1, 2, 5, 4], window: window([3, 2], [1, 2], [1, 1], [1, 1]) },
        Case { shape: [3, 1, 9, 8], window: window([3, 3], [2, 1], [1, 0], [2, 3]) },
        Case { shape: [1, 1, 1, 1], window: window([1, 1], [1, 1], [0, 0], [1, 1]) },
        Case { shape: [0, 2, 4, 4], window: window([2, 2], [1, 1], [0, 0], [1, 1]) },
        Case { shape: [4, 16, 24, 24], window: window([3, 3], [2, 2], [1, 1], [1, 1]) },
    ]
}

impl Case {
    fn small(&self) -> [usize; 2] {
        self.window.output_size("pool", [self.shape[2], self.shape[3]]).unwrap()
    }

    /// Returns the pixels, `row * width + column`, that each window contains.
    fn windows(&self) -> Vec<Vec<usize>> {
        let ([oh, ow], [_, _, height, width]) = (self.small(), self.shape);
        let Window { kernel, stride, padding, dilation } = self.window;
        let coordinate = |axis: usize, output: usize, tap: usize, size: usize| {
            let coordinate = (output * stride[axis] + tap * dilation[axis]) as isize - padding[axis] as isize;
            (0..size as isize).contains(&coordinate).then_some(coordinate as usize)
        };
        let mut windows = vec![];
        for (row, column) in (0..oh * ow).map(|index| (index / ow, index % ow)) {
            let mut pixels = vec![];
            for (i, j) in (0..kernel[0] * kernel[1]).map(|tap| (tap / kernel[1], tap % kernel[1])) {
                if let (Some(y), Some(x)) = (coordinate(0, row, i, height), coordinate(1, column, j, width)) {
                    pixels.push(y * width + x);
                }
            }
            windows.push(pixels);
        }
        windows
    }
}

#[test]
fn maxima_and_their_gradients() {
    let device = crate::device();
    let mut numbers = Numbers::new(9);
    for case in cases() {
        let [batch, channels, height, width] = case.shape;
        let ([oh, ow], windows) = (case.small(), case.windows());
        for dtype in DType::FLOATS {
            let x = rounded(dtype, &numbers.between(-2.0, 2.0, case.shape.iter().product()));
            let dy = rounded(dtype, &numbers.between(-1.0, 1.0, batch * channels * oh * ow));
            let (mut y, mut positions, mut dx) = (vec![], vec![], vec![0.0; x.len()]);
            for (plane, image) in x.chunks(height * width).enumerate() {
                for (index, window) in windows.iter().enumerate() {
                    let mut winner = window[0];
                    for &pixel in window {
                        winner = if image[pixel] > image[winner] { pixel } else { winner };
                    }
                    y.push(image[winner]);
                    positions.push(winner as f64);
                    dx[plane * height * width + winner] += dy[plane * windows.len() + index];
                }
            }
            let small = [batch, channels, oh, ow];
            let all_dy = layouts(dtype, &dy, &small, &device);
            for (x, dy) in layouts(dtype, &x, &case.shape, &device).iter().zip(&all_dy) {
                let outputs = apply(MaxPool2d { window: case.window }, &[x]).unwrap();
                assert_close("max_pool2d", &outputs[0], &y, 0.0);
                assert_close("positions", &outputs[1], &positions, 0.0);
                for winners in layouts(DType::I32, &positions, &small, &device) {
                    let op = MaxPool2dGrad { window: case.window, size: [height, width] };
                    assert_close("max_pool2d_grad", &apply_one(op, &[&winners, dy]).unwrap(), &dx, 4.0);
                }
            }
        }
    }
}

#[test]
fn means_and_their_gradients() {
    let device = crate::device();
    let mut numbers = Numbers::new(10);
    for case in cases().into_iter().filter(|case| case.window.dilation == [1, 1]) {
        let [batch, channels, height, width] = case.shape;
        let ([oh, ow], windows) = (case.small(), case.windows());
        let whole = case.window.kernel.iter().product::<usize>() as f64;
        for (dtype, count_include_pad) in
            DType::FLOATS.into_iter().flat_map(|dtype| [(dtype, true), (dtype, false)])
        {
            let x = rounded(dtype, &numbers.between(-2.0, 2.0, case.shape.iter().product()));
            let dy = rounded(dtype, &numbers.between(-1.0, 1.0, batch * channels * oh * ow));
            let (mut y, mut dx) = (vec![], vec![0.0; x.len()]);
            for (plane, image) in x.chunks(height * width).enumerate() {
                for (index, window) in windows.iter().enumerate() {
                    let divisor = if count_include_pad { whole } else { window.len() as f64 };
                    y.push(window.iter().map(|&pixel| image[pixel]).sum::<f64>() / divisor);
                    for &pixel in window {
                        dx[plane * height * width + pixel] += dy[plane * windows.len() + index] / divisor;
                    }
                }
            }
            for x in layouts(dtype, &x, &case.shape, &device) {
                let op = AvgPool2d { window: case.window, count_include_pad };
                assert_close("avg_pool2d", &apply_one(op, &[&x]).unwrap(), &y, 4.0);
            }
            for dy in layouts(dtype, &dy, &[batch, channels, oh, ow], &device) {
                let op = AvgPool2dGrad { window: case.window, count_include_pad, size: [height, width] };
                assert_close("avg_pool2d_grad", &apply_one(op, &[&dy]).unwrap(), &dx, 8.0);
            }
        }
    }
}

#[test]
fn nan_wins_and_ties_go_to_the_first() {
    let device = crate::device();
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let x = [1.0, nan, 3.0, nan, -inf, -inf, -inf, -inf, 2.0, 2.0, 2.0, 2.0];
    let window = Window { kernel: [2, 2], stride: [2, 2], padding: [0, 0], dilation: [1, 1] };
    let x = tensor(DType::F32, &x, &[3, 1, 2, 2], &device);
    let outputs = apply(MaxPool2d { window }, &[&x]).unwrap();
    assert_close("max", &outputs[0], &[nan, -inf, 2.0], 0.0);
    assert_close("positions", &outputs[1], &[1.0, 0.0, 0.0], 0.0);
}

#[test]
fn positions_out_of_range_are_errors() {
    let device = crate::device();
    let window = Window { kernel: [2, 2], stride: [2, 2], padding: [0, 0], dilation: [1, 1] };
    let dy = tensor(DType::F32, &[1.0], &[1, 1, 1, 1], &device);
    for position in [-1.0, 4.0] {
        let winner = tensor(DType::I32, &[position], &[1, 1, 1, 1], &device);
        let error = apply(MaxPool2dGrad { window, size: [2, 2] }, &[&winner, &dy]).map(drop).unwrap_err();
        assert!(matches!(error, Error::IndexOutOfRange { op: "max_pool2d_grad", size: 4, .. }), "{error}");
    }
    let window = Window { kernel: [2, 2], stride: [1, 1], padding: [1, 1], dilation: [3, 3] };
    let x = tensor(DType::F32, &[1.0; 4], &[1, 1, 2, 2], &device);
    assert!(apply(MaxPool2d { window }, &[&x]).map(drop).is_err());
}
