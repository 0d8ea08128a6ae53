//! Tests that naga accepts the shaders that the op table's smallest shapes do not use; launches.rs
//! tests the others. No adapter is needed.

use crate::WgpuBackend;
use crate::gpu::Gpu;
use crate::options::Options;
use ternion_core::dispatch::{apply, apply_one};
use ternion_core::ops::step::{AdamStep, DecayMode, SgdStep};
use ternion_core::ops::unary::{Unary, UnaryGrad};
use ternion_core::{AttentionOptions, DType, Device, Error, GradOptions, Op, Result, Tensor, UnaryOp, grad};

/// Products that are large enough to be read as vec4, with each operand along both axes.
#[test]
fn products_of_vec4_are_valid() {
    let gpu = Gpu::noop(Options::default());
    let device = Device::new(WgpuBackend { gpu: gpu.clone() });
    let matrix = |dtype| Tensor::zeros([128, 128], dtype, &device).unwrap();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for transposed in 0..4 {
            let [a, b] = [1, 2].map(|which| {
                let matrix = matrix(dtype);
                if transposed & which == 0 { matrix } else { matrix.t().unwrap() }
            });
            a.matmul(&b).unwrap_or_else(|error| panic!("{error}"));
        }
    }
    let (compiled, rejected) = gpu.compiled();
    assert!(rejected.is_empty(), "the first of {}: {}", rejected.len(), rejected[0]);
    assert!(compiled >= 12, "only {compiled} shaders were requested");
}

/// Attention whose rows are read as vec4, in both widths of tiles, with masks and without, and its
/// gradients.
#[test]
fn attention_of_vec4_is_valid() {
    let gpu = Gpu::noop(Options { small_products: true, ..Options::default() });
    let device = Device::new(WgpuBackend { gpu: gpu.clone() });
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        // First few rows, then enough rows for unfused attention.
        for (width, lines) in [(64, 8), (128, 8), (64, 129), (128, 129)] {
            let x =
                Tensor::zeros([1, 1, lines, width], dtype, &device).and_then(|x| x.requires_grad()).unwrap();
            for mask in [None, Some(DType::Bool), Some(dtype)] {
                let mask = mask.map(|dtype| Tensor::zeros([lines, lines], dtype, &device).unwrap());
                let options = AttentionOptions { mask: mask.as_ref(), ..AttentionOptions::default() };
                let y =
                    x.scaled_dot_product_attention(&x, &x, options).unwrap_or_else(|error| panic!("{error}"));
                // Squares, because the gradient of a plain sum is the same for all elements.
                let squares = y.mul(&y).and_then(|squares| squares.sum_all()).unwrap();
                squares.backward().unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }
    let (compiled, rejected) = gpu.compiled();
    assert!(rejected.is_empty(), "the first of {}: {}", rejected.len(), rejected[0]);
    assert!(compiled >= 3 * 2 * 3 * 3 + 2 * 3 * 3 * 4, "only {compiled} shaders were requested");
}

/// Attention with cooperative matrices makes the documented number of launches.
#[test]
fn attention_of_half_dtypes_launches_what_is_documented() {
    let gpu = Gpu::noop(Options::default());
    let device = Device::new(WgpuBackend { gpu: gpu.clone() });
    for dtype in [DType::F16, DType::BF16] {
        for (width, backward) in [(64, 7), (128, 8)] {
            let leaf = |heads: usize| Tensor::zeros([1, heads, 70, width], dtype, &device)?.requires_grad();
            let counted = || {
                let (q, k, v) = (leaf(4)?, leaf(2)?, leaf(2)?);
                let before = gpu.launches();
                let y = q.scaled_dot_product_attention(&k, &v, AttentionOptions::default())?;
                let forward = gpu.launches() - before;
                let dy = Tensor::zeros(*y.shape(), dtype, &device)?;
                let before = gpu.launches();
                let inputs = [q.clone(), k.clone(), v.clone()];
                grad(&[y], &inputs, &[dy], GradOptions::default())?;
                Ok::<_, Error>([forward, gpu.launches() - before])
            };
            assert_eq!(counted().unwrap_or_else(|error| panic!("{error}")), [4, backward], "{dtype} {width}");
        }
    }
}

/// Unfused attention makes the documented number of launches, with split-KV (two parts) and
/// without.
#[test]
fn attention_by_products_launches_what_is_documented() {
    let gpu = Gpu::noop(Options { small_products: true, ..Options::default() });
    let device = Device::new(WgpuBackend { gpu: gpu.clone() });
    for (lines, parts, expected) in [(70, 1, [2, 6]), (130, 2, [3, 9])] {
        for width in [64, 128] {
            let leaf =
                |heads: usize| Tensor::zeros([1, heads, lines, width], DType::F32, &device)?.requires_grad();
            let counted = || {
                let (q, k, v) = (leaf(4)?, leaf(2)?, leaf(2)?);
                let before = gpu.launches();
                let y = q.scaled_dot_product_attention(&k, &v, AttentionOptions::default())?;
                let forward = gpu.launches() - before;
                let dy = Tensor::zeros(*y.shape(), DType::F32, &device)?;
                let before = gpu.launches();
                let inputs = [q.clone(), k.clone(), v.clone()];
                grad(&[y], &inputs, &[dy], GradOptions::default())?;
                Ok::<_, Error>([forward, gpu.launches() - before])
            };
            assert_eq!(
                counted().unwrap_or_else(|error| panic!("{error}")),
                expected,
                "{width}, {parts} parts"
            );
        }
    }
}

/// Elementwise ops of many elements, functions of 16-bit results, copies of transposed tensors,
/// steps of several large parameters.
#[test]
fn shaders_for_many_elements_are_valid() {
    let gpu = Gpu::noop(Options::default());
    let device = Device::new(WgpuBackend { gpu: gpu.clone() });
    let adam = AdamStep {
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-6,
        weight_decay: 0.1,
        decay_mode: DecayMode::Decoupled,
        half_copy: false,
    };
    let sgd =
        |momentum| SgdStep { momentum, dampening: 0.0, weight_decay: 0.1, nesterov: false, half_copy: false };
    let steps: [(Op, usize, usize); 3] =
        [(sgd(0.0).into(), 3, 0), (sgd(0.9).into(), 3, 1), (adam.into(), 4, 2)];
    let functions =
        [UnaryOp::Tanh, UnaryOp::Sigmoid, UnaryOp::Erf, UnaryOp::GeluErf, UnaryOp::GeluTanh, UnaryOp::Silu];
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let zeros = |shape: &[usize], dtype| Tensor::zeros(shape, dtype, &device).unwrap();
        let x = zeros(&[4, 64, 128], dtype);
        for op in functions.into_iter().chain([UnaryOp::Softplus]) {
            apply_one(Unary { op }, &[&x]).unwrap_or_else(|error| panic!("{error}"));
            apply_one(UnaryGrad { op }, &[&x, &x]).unwrap_or_else(|error| panic!("{error}"));
        }
        for other in [zeros(&[128], dtype), zeros(&[4, 1, 128], dtype)] {
            x.add(&other).unwrap_or_else(|error| panic!("{error}"));
        }
        x.transpose(1, 2).and_then(|x| x.contiguous()).unwrap_or_else(|error| panic!("{error}"));
        for (op, numbers, states) in &steps {
            let hyper = zeros(&[*numbers], DType::F32);
            let one = || {
                let own = [x.copy().unwrap(), x.copy().unwrap(), hyper.clone()];
                own.into_iter().chain((0..*states).map(|_| zeros(&[4, 64, 128], DType::F32)))
            };
            let inputs: Vec<Tensor> = (0..10).flat_map(|_| one()).collect();
            apply(op.clone(), &inputs.iter().collect::<Vec<_>>()).unwrap_or_else(|error| panic!("{error}"));
        }
    }
    let (compiled, rejected) = gpu.compiled();
    assert!(rejected.is_empty(), "the first of {}: {}", rejected.len(), rejected[0]);
    assert!(compiled >= 3 * (14 + 2 + 1 + 3), "only {compiled} shaders were requested");
}

/// Rows that are kept in registers: as many vec4 as threads hold, fewer, with edges, and longer
/// ones, with subgroups and in workgroup memory.
#[test]
fn rows_of_vec4_are_valid() {
    for without_subgroups in [false, true] {
        let gpu = Gpu::noop(Options { without_subgroups, ..Options::default() });
        let device = Device::new(WgpuBackend { gpu: gpu.clone() });
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for shape in [[1024, 1024], [700, 1000], [700, 1001], [140, 17_000], [140, 17_001]] {
                rows_of(shape, dtype, &device).unwrap_or_else(|error| panic!("{error}"));
            }
        }
        let (compiled, rejected) = gpu.compiled();
        assert!(rejected.is_empty(), "the first of {}: {}", rejected.len(), rejected[0]);
        assert!(compiled >= 100, "only {compiled} shaders were requested");
    }
}

/// All ops over rows, and their gradients.
fn rows_of(shape: [usize; 2], dtype: DType, device: &Device) -> Result<()> {
    let x = Tensor::zeros(shape, dtype, device)?.requires_grad()?;
    let weight = Tensor::zeros([shape[1]], dtype, device)?.requires_grad()?;
    let targets = Tensor::zeros([shape[0]], DType::I64, device)?;
    let results = [
        x.softmax(1)?,
        x.log_softmax(1)?,
        x.layer_norm(Some(&weight), Some(&weight), 1e-5)?,
        x.layer_norm(None, None, 1e-5)?,
        x.rms_norm(Some(&weight), 1e-5)?,
        x.cross_entropy(&targets)?,
        x.detach().cross_entropy(&targets)?,
    ];
    for y in results.iter().take(6) {
        y.mul(y)?.sum_all()?.backward()?;
    }
    Ok(())
}
