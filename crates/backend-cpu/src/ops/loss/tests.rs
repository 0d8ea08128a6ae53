//! Comparison with the definition in f64.

use crate::testing::{Numbers, assert_close, layouts, rounded, tensor};
use ternion_core::dispatch::{apply, apply_into, apply_one};
use ternion_core::ops::loss::{CrossEntropy, CrossEntropyGrad};
use ternion_core::{DType, Error};

const IGNORE: i64 = -100;

/// Returns `[loss, log-sum-exp, log-sum-exp less the maximum]` of a row.
fn row_loss(x: &[f64], target: i64, smoothing: f64) -> [f64; 3] {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let shifted = x.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
    let log_sum = max + shifted;
    if target == IGNORE {
        return [0.0, log_sum, shifted];
    }
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    [log_sum - (1.0 - smoothing) * x[target as usize] - smoothing * mean, log_sum, shifted]
}

#[test]
fn losses_and_gradients() {
    let device = crate::device();
    let mut numbers = Numbers::new(5);
    for (rows, classes) in [(1, 1), (7, 3), (64, 10), (5, 1000), (0, 4), (3000, 9)] {
        let mut targets = numbers.below(classes, rows);
        if rows > 4 {
            targets[4] = IGNORE;
        }
        for dtype in DType::FLOATS {
            let x = rounded(dtype, &numbers.between(-6.0, 6.0, rows * classes));
            let dloss = numbers.between(-2.0, 2.0, rows);
            let dloss_tensor = tensor(dtype.accumulator(), &dloss, &[rows], &device);
            for label_smoothing in [0.0, 0.125] {
                let want: Vec<[f64; 3]> =
                    x.chunks(classes).zip(&targets).map(|(x, &t)| row_loss(x, t, label_smoothing)).collect();
                let losses: Vec<f64> = want.iter().map(|want| want[0]).collect();
                let sums: Vec<f64> = want.iter().map(|want| want[1]).collect();
                let shifted: Vec<f64> = want.iter().map(|want| want[2]).collect();
                let mut gradient = vec![0.0; x.len()];
                for (index, dx) in gradient.iter_mut().enumerate() {
                    let (row, class) = (index / classes, index % classes);
                    let target_weight =
                        if targets[row] == class as i64 { 1.0 - label_smoothing } else { 0.0 };
                    let expected = target_weight + label_smoothing / classes as f64;
                    let counts = f64::from(u8::from(targets[row] != IGNORE));
                    *dx = counts * dloss[row] * ((x[index] - sums[row]).exp() - expected);
                }
                for index_dtype in [DType::I32, DType::I64] {
                    let plain: Vec<f64> = targets.iter().map(|&target| target as f64).collect();
                    let target_views = layouts(index_dtype, &plain, &[rows], &device);
                    for (x, target) in layouts(dtype, &x, &[rows, classes], &device).iter().zip(&target_views)
                    {
                        let op = CrossEntropy { ignore_index: IGNORE, label_smoothing };
                        let outputs = apply(op, &[x, target]).unwrap();
                        assert_close("loss", &outputs[0], &losses, 16.0);
                        assert_close("log_sum", &outputs[1], &shifted, 8.0);
                        let op = CrossEntropyGrad { ignore_index: IGNORE, label_smoothing };
                        let dx = apply_one(op.clone(), &[x, target, &outputs[1], &dloss_tensor]).unwrap();
                        assert_close("gradient", &dx, &gradient, 16.0);
                        apply_into(op, &[x, target, &outputs[1], &dloss_tensor], x).unwrap();
                        assert_close("gradient in place", x, &gradient, 16.0);
                    }
                }
            }
        }
    }
}

#[test]
fn targets_out_of_range_are_errors() {
    let device = crate::device();
    let x = tensor(DType::F32, &[0.0; 6], &[2, 3], &device);
    for target in [-1.0, 3.0, 1e6] {
        let target = tensor(DType::I64, &[0.0, target], &[2], &device);
        let op = CrossEntropy { ignore_index: IGNORE, label_smoothing: 0.0 };
        let error = apply(op, &[&x, &target]).map(drop).unwrap_err();
        assert!(matches!(error, Error::IndexOutOfRange { op: "cross_entropy", size: 3, .. }), "{error}");
        let zeros = tensor(DType::F32, &[0.0; 2], &[2], &device);
        let op = CrossEntropyGrad { ignore_index: IGNORE, label_smoothing: 0.0 };
        let error = apply(op, &[&x, &target, &zeros, &zeros]).map(drop).unwrap_err();
        assert!(matches!(error, Error::IndexOutOfRange { op: "cross_entropy_grad", size: 3, .. }), "{error}");
    }
}

#[test]
fn infinite_logits() {
    let device = crate::device();
    let inf = f64::INFINITY;
    let x = tensor(DType::F32, &[-inf, 0.0, 0.0, -inf, -inf, -inf], &[3, 2], &device);
    let target = tensor(DType::I32, &[0.0, 0.0, 1.0], &[3], &device);
    let op = CrossEntropy { ignore_index: IGNORE, label_smoothing: 0.0 };
    let outputs = apply(op, &[&x, &target]).unwrap();
    assert_close("loss", &outputs[0], &[inf, 0.0, f64::NAN], 0.0);
    assert_close("log_sum_exp", &outputs[1], &[0.0, 0.0, -inf], 0.0);
}
