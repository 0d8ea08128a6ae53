//! Rows of the total norm of several tensors.

use super::reduce::gradients;
use crate::prelude::*;
use ternion_core::dispatch::{apply, apply_on, apply_one};
use ternion_core::ops::multi_tensor::MultiTensorNorm;
use ternion_core::total_norm;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let huge = 2f64.powi(100);
    let mut rows = vec![few(), chunks(), many_tensors(), out_of_range(), views()];
    rows.push(gradients_at("huge numbers", [3.0 * huge, -4.0 * huge, 12.0 * huge]));
    rows.push(gradients_at("tiny numbers", [3.0 / huge, -4.0 / huge, 12.0 / huge]));
    rows.push(gradients_at("zeros", [0.0; 3]));
    rows.extend(super::compositions([mixed()]));
    rows
}

/// Returns the norm of all elements as one vector: NaN if one is NaN, and scaled so that squares
/// neither overflow nor underflow.
fn norm(x: &[Array]) -> Array {
    let numbers = || x.iter().flat_map(|x| x.data.iter().copied());
    let largest = numbers().fold(0.0f64, |largest, x| largest.max(x.abs()));
    if numbers().any(f64::is_nan) {
        return Array::scalar(f64::NAN);
    }
    if largest == 0.0 || largest.is_infinite() {
        return Array::scalar(largest);
    }
    Array::scalar(largest * numbers().map(|x| (x / largest) * (x / largest)).sum::<f64>().sqrt())
}

fn run(x: &[Tensor]) -> Result<Tensor> {
    apply_one(MultiTensorNorm, &x.iter().collect::<Vec<_>>())
}

fn row(parameters: &str, tensors: usize, values: &Values) -> OpCase {
    let row = OpCase::new("multi_tensor_norm", parameters.to_owned()).casts();
    (0..tensors).fold(row, |row, _| row.input(values.clone())).run(run).oracle(norm)
}

fn few() -> OpCase {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let arrays = |lists: [&[f64]; 3]| lists.map(|values| Array::new(&[values.len()], values.to_vec()));
    row("", 3, &AwayFrom(0.2))
        .on([&[7, 5], &[33], &[]])
        .on([&[0], &[1], &[3, 0]])
        .on([&[2, 1, 33], &[5, 17, 2], &[4, 3]])
        .double_backward()
        .adversarial("a NaN", arrays([&[1.0, nan], &[inf], &[2.0]]))
        .adversarial("infinities", arrays([&[1.0], &[-inf, inf, 3.0], &[]]))
        .adversarial("the largest f16", arrays([&[65504.0; 9], &[-65504.0; 4], &[1.0]]))
        .adversarial("numbers far apart", arrays([&[1e30, -1.0], &[1e-30], &[2e30]]))
        .adversarial("subnormal numbers", arrays([&[1e-40, -3e-42], &[7e-45], &[-2e-310]]))
        .adversarial("zeros", arrays([&[0.0, -0.0], &[0.0], &[0.0]]))
        .adversarial("nothing", arrays([&[], &[], &[]]))
        .rejects("multi_tensor_norm: expected at least 1 input; use apply_on to name a device", |_| run(&[]))
        .rejects("multi_tensor_norm: expected at least 1 tensor, got 0", |device| {
            Ok(apply_on(MultiTensorNorm, device, &[])?.into_vec())
        })
        .rejects("multi_tensor_norm: input is i32, expected a floating dtype", |device| {
            run(&[Tensor::zeros([2], I32, device)?])
        })
        .rejects("multi_tensor_norm: dtypes f32 and f16 differ; cast one of them with to_dtype", |device| {
            run(&[Tensor::zeros([2], F32, device)?, Tensor::zeros([2], F16, device)?])
        })
}

/// Tensors that are split: with exactly the chunk size of CUDA or wgpu, with one element more, and
/// several whose last vector load (pack) is incomplete.
fn chunks() -> OpCase {
    row("of several chunks", 3, &Uniform(-2.0, 2.0))
        .on([&[16384], &[2, 16385], &[5]])
        .on([&[70_001], &[32768], &[8193]])
        .forward_only("the gradient of an element does not depend on how the sum is cut")
}

/// More tensors than a launch accepts.
fn many_tensors() -> OpCase {
    let mut row = row("of many tensors", 201, &Uniform(-2.0, 2.0));
    row.instances.push((0..201).map(|tensor| vec![tensor % 7]).collect());
    row
}

/// Numbers whose squares exceed the range of f32 although their norm does not, and numbers whose
/// squares are within the range.
fn out_of_range() -> OpCase {
    let values = vec![3e30, -4e30, 0.0, 12e30, 3e-30, 1.0];
    row("beyond its squares", 2, &Fixed(values))
        .shapes([&[4], &[2, 4], &[4, 1025]])
        .dtypes(&[F64, F32, BF16])
        .forward_only("its gradient is its own row")
}

/// Gradients where squares are out of range, which differences cannot determine; 0 if all numbers
/// are 0.
fn gradients_at(what: &str, [a, b, c]: [f64; 3]) -> OpCase {
    OpCase::new("multi_tensor_norm", format!("gradients at {what}"))
        .input(Fixed(vec![a, b]))
        .input(Fixed(vec![c]))
        .on([&[2], &[1]])
        .dtypes(&[F64, F32])
        .forward_only("compares gradients themselves")
        .run(|x| gradients(x, run))
        .oracle(|x| {
            let norm = norm(x).data[0];
            x.iter().map(|x| x.map(|x| if norm == 0.0 { 0.0 } else { x / norm })).collect::<Vec<_>>()
        })
}

/// Views: with gaps, broadcast, with permuted axes, with an offset that is not 16-byte aligned.
fn views() -> OpCase {
    OpCase::new("multi_tensor_norm", "of views")
        .casts()
        .input(AwayFrom(0.2))
        .input(AwayFrom(0.2))
        .on([&[9, 7], &[2051]])
        .run(|x| {
            let [gaps, row] = [x[0].narrow(1, 1, 5)?, x[0].select(0, 3)?];
            let (transposed, misaligned) = (x[0].transpose(0, 1)?, x[1].narrow(0, 1, 2049)?);
            let tensors = [&gaps, &row.expand([4, 7])?, &transposed, &misaligned, &x[1], &x[1]];
            Ok(apply(MultiTensorNorm, &tensors)?.into_vec())
        })
        .oracle(|x| {
            let gaps = Array::from_fn(&[9, 5], |at| x[0].at(&[at[0], at[1] + 1]));
            let rows = Array::from_fn(&[4, 7], |at| x[0].at(&[3, at[1]]));
            let misaligned = Array::from_fn(&[2049], |at| x[1].at(&[at[0] + 1]));
            norm(&[gaps, rows, x[0].clone(), misaligned, x[1].clone(), x[1].clone()])
        })
}

/// Tensors of several dtypes: a norm for each dtype, and the norm of these.
fn mixed() -> OpCase {
    OpCase::new("total_norm", "")
        .input(AwayFrom(0.2))
        .input(Input::of(BF16, AwayFrom(0.2)))
        .input(AwayFrom(0.2))
        .input(Input::of(F32, AwayFrom(0.2)))
        .on([&[3, 5], &[2], &[], &[7, 2]])
        .on([&[0], &[1], &[2, 3], &[0, 3]])
        .casts()
        .f64_limit(1e-6, 1e-6)
        .run(|x| total_norm(&x.iter().collect::<Vec<_>>()))
        .oracle(norm)
        .rejects("total_norm: expected at least 1 tensor, got 0", |_| total_norm(&[]))
}
