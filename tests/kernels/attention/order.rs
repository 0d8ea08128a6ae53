//! The single-pass gradient whose sums have no fixed order, which is only for measurements: it is
//! within rounding of the kernel that tensors use.

use super::super::{assert_no_faults, first_difference, gpu, lock_shared, tensor, unless_short};
use std::fmt::Write;
use ternion::dispatch::apply;
use ternion::ops::attention::{Attention, AttentionConfig, AttentionGrad};
use ternion::ops::random::Dropout;
use ternion::prelude::*;
use ternion_cuda::CudaBackend;
use ternion_cuda::attention_study::{self, SumOrder};

/// Batch, query heads, key heads, queries, keys: several blocks of keys and tiles of queries, with
/// partial ones at both ends; a single block with all keys; and sequences so long that the gradient
/// of queries lags in a causal band at head_dim 64.
const SIZES: [[usize; 5]; 5] = [
    [2, 4, 2, 700, 1100],
    [1, 3, 3, 1024, 1024],
    [2, 36, 36, 257, 300],
    [1, 1, 1, 5, 7],
    [1, 2, 1, 1700, 1800],
];
/// The same for short tests.
const FEW: [[usize; 5]; 1] = [[1, 2, 1, 200, 300]];

const CAUSAL: AttentionConfig = AttentionConfig { scale: 0.04, causal: true, ..AttentionConfig::PLAIN };
/// All keys, a causal band, and one that is limited on both sides.
const CONFIGS: [AttentionConfig; 3] =
    [AttentionConfig { causal: false, ..CAUSAL }, CAUSAL, AttentionConfig { window: Some(150), ..CAUSAL }];

/// Returns the first CUDA device, if it supports the kernels' instructions.
pub(in crate::kernels) fn device() -> Option<(&'static Device, &'static CudaBackend)> {
    let device = gpu()?;
    let backend: &CudaBackend = device.downcast().expect("the CUDA backend itself");
    let runs = attention_study::runs(backend);
    if !runs {
        println!("not tested: the device lacks the instructions");
    }
    runs.then_some((device, backend))
}

/// Returns q, k, v, y, the log-sum-exp and dy.
fn operands(
    device: &Device,
    dtype: DType,
    [batch, heads, kv_heads, queries, keys]: [usize; 5],
    width: usize,
    config: AttentionConfig,
) -> Result<Vec<Tensor>> {
    let random = |heads, rows, seed| tensor(&[batch, heads, rows, width], dtype, device, seed);
    let (q, k, v) = (random(heads, queries, 1)?, random(kv_heads, keys, 2)?, random(kv_heads, keys, 3)?);
    let mut outputs = apply(Attention { config }, &[&q, &k, &v])?.into_vec();
    let (lse, y) = (outputs.remove(1), outputs.remove(0));
    Ok(vec![q, k, v, y, lse, random(heads, queries, 4)?])
}

/// Computes dq, dk and dv in a given order. Elements that are not written stay NaN.
fn gradient(
    backend: &CudaBackend,
    config: &AttentionConfig,
    order: SumOrder,
    operands: &[Tensor],
) -> Result<Vec<Tensor>> {
    let unwritten = |x: &Tensor| Tensor::full(*x.shape(), f64::NAN, x.dtype(), x.device());
    let results = operands[..3].iter().map(unwritten).collect::<Result<Vec<_>>>()?;
    let [inputs, outputs] =
        [operands, &results[..]].map(|all| all.iter().map(Tensor::view).collect::<Vec<_>>());
    let (inputs, outputs) = ([0, 1, 2, 3, 4, 5].map(|at| &inputs[at]), [0, 1, 2].map(|at| &outputs[at]));
    attention_study::gradient(backend, config, order, inputs, outputs)?;
    Ok(results)
}

/// Returns what is wrong in one case.
fn faults(
    (device, backend): (&Device, &CudaBackend),
    dtype: DType,
    sizes: [usize; 5],
    width: usize,
    config: AttentionConfig,
) -> Result<String> {
    let mut faults = String::new();
    let operands = operands(device, dtype, sizes, width, config)?;
    let inputs: Vec<&Tensor> = operands.iter().collect();
    let product = apply(AttentionGrad { config }, &inputs)?.into_vec();
    let fixed = gradient(backend, &config, SumOrder::Fixed, &operands)?;
    for (at, (fixed, product)) in fixed.iter().zip(&product).enumerate() {
        if fixed.to_vec_f64()? != product.to_vec_f64()? {
            let _ = writeln!(faults, "result {at}: the fixed order is not what tensors get");
        }
    }
    for lags in [false, true] {
        // Neither is necessarily bit-identical in two runs, or equal to the other.
        let found = gradient(backend, &config, SumOrder::Any { lags }, &operands)?;
        for (at, (found, fixed)) in found.iter().zip(&fixed).enumerate() {
            if let Some(text) = first_difference(found, fixed)? {
                let _ = writeln!(faults, "result {at}, lags {lags}: {text}");
            }
        }
    }
    Ok(faults)
}

/// Fails if `faults` finds any, in f16 and bf16, for each head_dim, size and configuration.
pub(super) fn assert_no_faults_of(
    widths: [usize; 4],
    sizes: &[[usize; 5]],
    configs: [AttentionConfig; 3],
    faults: impl Fn(DType, [usize; 5], usize, AttentionConfig) -> Result<String>,
) -> Result<()> {
    let mut all = String::new();
    for dtype in [DType::F16, DType::BF16] {
        for width in widths {
            for (&sizes, config) in
                sizes.iter().flat_map(|sizes| configs.into_iter().map(move |config| (sizes, config)))
            {
                let found = faults(dtype, sizes, width, config)?;
                if !found.is_empty() {
                    let _ = writeln!(all, "{dtype} of width {width}, {sizes:?}, {config:?}:\n{found}");
                }
            }
        }
    }
    assert_no_faults(&all);
    Ok(())
}

#[test]
fn sums_in_any_order_equal_those_in_fixed_order_up_to_rounding() -> Result<()> {
    let Some(device) = device() else { return Ok(()) };
    let _shared = lock_shared();
    // For head dims 40 and 72 the tiles are padded with zeros.
    assert_no_faults_of(
        [40, 64, 72, 128],
        unless_short(&SIZES[..], &FEW[..]),
        CONFIGS,
        |dtype, sizes, width, config| faults(device, dtype, sizes, width, config),
    )
}

#[test]
fn invalid_arguments_of_the_study_are_errors() -> Result<()> {
    let Some((device, backend)) = device() else { return Ok(()) };
    let _shared = lock_shared();
    let check_rejected = |config: &AttentionConfig, operands: &[Tensor], expected: &str| {
        let error = gradient(backend, config, SumOrder::Any { lags: true }, operands).expect_err(expected);
        let text = error.to_string();
        assert!(text.contains(expected), "{text}");
    };
    let sizes = [1, 2, 1, 20, 30];
    let causal_inputs = operands(device, DType::BF16, sizes, 64, CAUSAL)?;
    check_rejected(
        &AttentionConfig { mask: true, ..CAUSAL },
        &causal_inputs,
        "attention_study: expected no mask",
    );
    let dropout = Some(Dropout { p: 0.1, offset: 0 });
    check_rejected(
        &AttentionConfig { dropout, ..CAUSAL },
        &causal_inputs,
        "attention_study: expected no mask",
    );
    let single = operands(device, DType::F32, sizes, 64, CAUSAL)?;
    check_rejected(&CAUSAL, &single, "attention_study: expected f16 or bf16");
    let wide = operands(device, DType::BF16, sizes, 192, CAUSAL)?;
    check_rejected(&CAUSAL, &wide, "heads of 33 to 128 columns");
    let unseen = operands(device, DType::BF16, [1, 2, 1, 30, 20], 64, CAUSAL)?;
    check_rejected(&CAUSAL, &unseen, "queries that each attend to a key");
    let ragged = operands(device, DType::BF16, sizes, 65, CAUSAL)?;
    check_rejected(&CAUSAL, &ragged, "rows of whole packs of 16 bytes");
    let mut short = causal_inputs.clone();
    short[5] = short[5].narrow(2, 0, 10)?;
    check_rejected(&CAUSAL, &short, "attention_grad: ");
    let outputs = [&causal_inputs[1], &causal_inputs[1], &causal_inputs[2]].map(Tensor::view);
    let inputs: Vec<_> = causal_inputs.iter().map(Tensor::view).collect();
    let (inputs, outputs) = ([0, 1, 2, 3, 4, 5].map(|at| &inputs[at]), outputs.each_ref());
    let error = attention_study::gradient(backend, &CAUSAL, SumOrder::Fixed, inputs, outputs);
    let text = error.expect_err("dq of another shape").to_string();
    assert!(
        text.contains("expected dq of bf16 and shape [1, 2, 20, 64], got bf16 and [1, 1, 30, 64]"),
        "{text}"
    );
    device.synchronize()
}
