//! Compares softmax, norms and losses over rows for which a thread needs several iterations with
//! the CPU, if `TERNION_EXPECT` names wgpu.

use ternion_core::{DType, Result, Tensor};
use ternion_testing::{compare_devices, suite};

/// Compares outputs and gradients of random inputs, in every float dtype that wgpu supports.
fn compare(shapes: &[&[usize]], f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    if !suite::expects("wgpu") {
        return;
    }
    let (wgpu, cpu) = (ternion_wgpu::device(0).expect("an adapter"), ternion_cpu::device());
    cpu.seed(7);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let random = |shape: &&[usize]| Tensor::randn(*shape, DType::F32, &cpu)?.to_dtype(dtype);
        let inputs: Vec<Tensor> = shapes.iter().map(|shape| random(shape).expect("on the CPU")).collect();
        let compared = compare_devices(|x| Ok(vec![f(x)?]), &wgpu, &cpu, &inputs);
        assert!(compared.is_ok(), "{shapes:?} {dtype}: {}", compared.unwrap_err());
    }
}

/// Few rows, which are split into parts, and more rows; lengths that are even, odd, and not
/// multiples of a power of two.
const ROWS: [[usize; 2]; 3] = [[3, 9000], [40, 2051], [70, 2048]];

#[test]
fn softmax() {
    for shape in ROWS {
        compare(&[&shape], |x| x[0].mul_scalar(3.0)?.softmax(1));
        compare(&[&shape], |x| x[0].mul_scalar(3.0)?.log_softmax(1));
    }
    compare(&[&[700, 40]], |x| x[0].softmax(0));
    // Rows that begin in the middle of a word.
    compare(&[&[30, 2100]], |x| x[0].narrow(1, 1, 2091)?.softmax(1));
}

#[test]
fn norms() {
    for shape in ROWS {
        compare(&[&shape, &shape[1..], &shape[1..]], |x| x[0].layer_norm(Some(&x[1]), Some(&x[2]), 1e-5));
        compare(&[&shape, &shape[1..]], |x| x[0].rms_norm(Some(&x[1]), 1e-5));
        compare(&[&shape], |x| x[0].layer_norm(None, None, 1e-5));
    }
    compare(&[&[5, 3, 60, 50], &[3], &[3]], |x| Ok(x[0].batch_norm_train(Some(&x[1]), Some(&x[2]), 1e-5)?.0));
}

#[test]
fn losses() {
    for [rows, classes] in ROWS {
        compare(&[&[rows, classes]], |x| {
            let targets = (0..rows as i64).map(|row| row * 7919 % classes as i64).collect();
            x[0].cross_entropy(&Tensor::from_vec(targets, [rows], x[0].device())?)
        });
    }
}

/// Infinity minus infinity is NaN, in rows of one element and of many, at any index.
#[test]
fn variance_of_non_finite_values() -> Result<()> {
    if !suite::expects("wgpu") {
        return Ok(());
    }
    let device = ternion_wgpu::device(0)?;
    for length in [1, 2, 5, 1000, 20_000] {
        for index in [0, length / 2, length - 1] {
            for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
                let mut row: Vec<f32> = (0..length).map(|number| (number % 7) as f32).collect();
                row[index] = value;
                let x = Tensor::from_vec(row, [1, length], &device)?;
                let found = [x.var(1, 0.0)?, x.std(1, 0.0)?, x.var(.., 0.0)?].map(|y| y.to_vec::<f32>());
                for found in found {
                    assert!(found?[0].is_nan(), "{value} at index {index} of {length}");
                }
            }
        }
    }
    Ok(())
}
