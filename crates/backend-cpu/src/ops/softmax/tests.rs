//! Comparison with the definitions in f64, for every axis, layout and dtype.

use crate::testing::{Numbers, assert_close, layouts, rounded, tensor, values};
use ternion_core::dispatch::{apply_into, apply_one};
use ternion_core::ops::softmax::{LogSoftmax, LogSoftmaxGrad, Softmax, SoftmaxGrad};
use ternion_core::{DType, Tensor};

/// Applies `rule` to each slice of `values` along `axis`; `other` is a second operand.
fn map_slices(
    shape: &[usize],
    axis: usize,
    values: &[f64],
    other: &[f64],
    rule: impl Fn(&[f64], &[f64]) -> Vec<f64>,
) -> Vec<f64> {
    let (width, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let mut result = vec![0.0; values.len()];
    for start in (0..values.len()).filter(|start| start / inner % width == 0) {
        let at = |index: usize| start + index * inner;
        let row: Vec<f64> = (0..width).map(|index| values[at(index)]).collect();
        let second: Vec<f64> = (0..width).map(|index| other[at(index)]).collect();
        for (index, value) in rule(&row, &second).into_iter().enumerate() {
            result[at(index)] = value;
        }
    }
    result
}

fn softmax(x: &[f64]) -> Vec<f64> {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = x.iter().map(|x| (x - max).exp()).sum();
    x.iter().map(|x| (x - max).exp() / sum).collect()
}

fn log_softmax(x: &[f64]) -> Vec<f64> {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = x.iter().map(|x| (x - max).exp()).sum();
    x.iter().map(|x| x - max - sum.ln()).collect()
}

fn softmax_grad(y: &[f64], dy: &[f64]) -> Vec<f64> {
    let sum: f64 = y.iter().zip(dy).map(|(y, dy)| y * dy).sum();
    y.iter().zip(dy).map(|(y, dy)| y * (dy - sum)).collect()
}

fn log_softmax_grad(y: &[f64], dy: &[f64]) -> Vec<f64> {
    let sum: f64 = dy.iter().sum();
    y.iter().zip(dy).map(|(y, dy)| dy - y.exp() * sum).collect()
}

#[test]
fn every_axis_layout_and_dtype() {
    let device = crate::device();
    let mut numbers = Numbers::new(1);
    for shape in [[3, 5, 4], [2, 1, 33], [1, 70, 2], [9, 3, 64], [0, 3, 2], [2, 300, 40]] {
        let count = shape.iter().product();
        for dtype in DType::FLOATS {
            let x = rounded(dtype, &numbers.between(-8.0, 8.0, count));
            for axis in 0..3 {
                let want = map_slices(&shape, axis, &x, &x, |x, _| softmax(x));
                let want_log = map_slices(&shape, axis, &x, &x, |x, _| log_softmax(x));
                for x in layouts(dtype, &x, &shape, &device) {
                    let y = apply_one(Softmax { axis }, &[&x]).unwrap();
                    assert_close(&format!("softmax {shape:?} axis {axis}"), &y, &want, 4.0);
                    let y = apply_one(LogSoftmax { axis }, &[&x]).unwrap();
                    assert_close(&format!("log_softmax {shape:?} axis {axis}"), &y, &want_log, 4.0);
                }
            }
        }
    }
}

#[test]
fn gradients() {
    let device = crate::device();
    let mut numbers = Numbers::new(2);
    for shape in [[3, 5, 4], [2, 1, 33], [9, 3, 64], [2, 300, 40]] {
        let count = shape.iter().product();
        for dtype in DType::FLOATS {
            let y = rounded(dtype, &numbers.between(0.0, 0.25, count));
            let log_y = rounded(dtype, &numbers.between(-6.0, 0.0, count));
            let dy = rounded(dtype, &numbers.between(-2.0, 2.0, count));
            for axis in 0..3 {
                let want = map_slices(&shape, axis, &y, &dy, softmax_grad);
                let want_log = map_slices(&shape, axis, &log_y, &dy, log_softmax_grad);
                let pairs = |first: &[f64]| -> Vec<(Tensor, Tensor)> {
                    let dy = layouts(dtype, &dy, &shape, &device);
                    layouts(dtype, first, &shape, &device).into_iter().zip(dy.into_iter().rev()).collect()
                };
                for (y, dy) in pairs(&y) {
                    let dx = apply_one(SoftmaxGrad { axis }, &[&y, &dy]).unwrap();
                    assert_close(&format!("softmax_grad {shape:?} axis {axis}"), &dx, &want, 60.0);
                }
                for (y, dy) in pairs(&log_y) {
                    let dx = apply_one(LogSoftmaxGrad { axis }, &[&y, &dy]).unwrap();
                    assert_close(&format!("log_softmax_grad {shape:?} axis {axis}"), &dx, &want_log, 60.0);
                }
            }
        }
    }
}

#[test]
fn in_place() {
    let device = crate::device();
    let x = Numbers::new(3).between(-4.0, 4.0, 60);
    for dtype in DType::FLOATS {
        for tensor in layouts(dtype, &x, &[3, 5, 4], &device) {
            for axis in 0..3 {
                let separate = values(&apply_one(Softmax { axis }, &[&tensor]).unwrap());
                let in_place = tensor.clone();
                apply_into(Softmax { axis }, &[&in_place], &in_place).unwrap();
                assert_close("softmax in place", &in_place, &separate, 4.0);
            }
        }
    }
}

#[test]
fn infinities_and_nan() {
    let device = crate::device();
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let x = tensor(DType::F32, &[-inf, -inf, 0.0, -inf, inf, 0.0, nan, 0.0, 300.0, 100.0], &[5, 2], &device);
    let y = apply_one(Softmax { axis: 1 }, &[&x]).unwrap();
    assert_close("softmax", &y, &[nan, nan, 1.0, 0.0, nan, nan, nan, nan, 1.0, 0.0], 0.0);
    let y = apply_one(LogSoftmax { axis: 1 }, &[&x]).unwrap();
    assert_close("log_softmax", &y, &[nan, nan, 0.0, -inf, nan, nan, nan, nan, 0.0, -200.0], 1.0);
}
