//! The TMA forward kernel with its tiles for few and for many keys: the tiles that tensors get by
//! default give the same bits, the other tiles the same values up to rounding.

use super::super::{first_difference, lock_shared, tensor, unless_short};
use super::order::assert_no_faults_of;
pub(in crate::kernels) use super::order::device;
use std::fmt::Write;
use ternion::dispatch::apply;
use ternion::ops::attention::{Attention, AttentionConfig};
use ternion::prelude::*;
use ternion_cuda::CudaBackend;
use ternion_cuda::attention_study::{self, ForwardTiles};

/// Batch, query heads, key heads, queries, keys. There are more work tiles than an H200 has
/// multiprocessors, and numbers of rows that end within tiles of 128 and of 192. The last sizes are
/// so large that the default is the tiles for many keys.
const SIZES: [[usize; 5]; 4] =
    [[3, 36, 12, 300, 420], [2, 40, 40, 385, 449], [1, 24, 8, 1000, 1500], [1, 12, 12, 4200, 4200]];
/// The same for short tests.
const FEW: [[usize; 5]; 1] = [[2, 72, 12, 80, 150]];

const FULL: AttentionConfig = AttentionConfig { scale: 0.04, ..AttentionConfig::PLAIN };
const CONFIGS: [AttentionConfig; 3] = [
    FULL,
    AttentionConfig { causal: true, ..FULL },
    AttentionConfig { causal: true, window: Some(150), ..FULL },
];

/// Returns y and the log-sum-exp. Elements that are not written stay NaN.
pub(in crate::kernels) fn forward(
    backend: &CudaBackend,
    config: &AttentionConfig,
    tiles: ForwardTiles,
    inputs: &[Tensor; 3],
    outputs: &[Tensor; 2],
) -> Result<[Tensor; 2]> {
    let outputs = outputs.each_ref().map(|x| Tensor::full(*x.shape(), f64::NAN, x.dtype(), x.device()));
    let [y, lse] = outputs;
    let outputs = [y?, lse?];
    let (inputs, views) = (inputs.each_ref().map(Tensor::view), outputs.each_ref().map(Tensor::view));
    attention_study::forward(backend, config, tiles, inputs.each_ref(), views.each_ref())?;
    Ok(outputs)
}

/// Returns q, k and v, and the results of attention for them.
pub(in crate::kernels) fn operands(
    device: &Device,
    dtype: DType,
    [batch, heads, kv_heads, queries, keys]: [usize; 5],
    width: usize,
    config: AttentionConfig,
) -> Result<([Tensor; 3], [Tensor; 2])> {
    let random = |heads, rows, seed| tensor(&[batch, heads, rows, width], dtype, device, seed);
    let inputs = [random(heads, queries, 1)?, random(kv_heads, keys, 2)?, random(kv_heads, keys, 3)?];
    let outputs = apply(Attention { config }, &inputs.each_ref())?;
    Ok((inputs, [outputs[0].clone(), outputs[1].clone()]))
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
    let (inputs, expected) = operands(device, dtype, sizes, width, config)?;
    let mut is_same = Vec::new();
    for tiles in [ForwardTiles::Few, ForwardTiles::Many] {
        let found = forward(backend, &config, tiles, &inputs, &expected)?;
        let mut same = true;
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            same &= found.to_vec_f64()? == expected.to_vec_f64()?;
            if let Some(text) = first_difference(found, expected)? {
                let _ = writeln!(faults, "result {at}, {tiles:?}: {text}");
            }
        }
        is_same.push(same);
    }
    if !is_same.contains(&true) {
        let _ = writeln!(faults, "neither gives the bits that tensors get");
    }
    Ok(faults)
}

#[test]
fn tiles_for_few_and_for_many_keys_agree_up_to_rounding() -> Result<()> {
    let Some(device) = device() else { return Ok(()) };
    let _shared = lock_shared();
    // For head dims 40 and 136 the tiles are padded with zeros.
    assert_no_faults_of(
        [40, 64, 136, 192],
        unless_short(&SIZES[..], &FEW[..]),
        CONFIGS,
        |dtype, sizes, width, config| faults(device, dtype, sizes, width, config),
    )
}

#[test]
fn invalid_arguments_of_the_forward_study_are_errors() -> Result<()> {
    let Some((device, backend)) = device() else { return Ok(()) };
    let _shared = lock_shared();
    let check_rejected =
        |dtype, sizes, width, tiles, config: &AttentionConfig, expected: &str| -> Result<()> {
            let (inputs, outputs) = operands(device, dtype, sizes, width, FULL)?;
            let error = forward(backend, config, tiles, &inputs, &outputs).expect_err(expected);
            let text = error.to_string();
            assert!(text.contains(expected), "{text}");
            Ok(())
        };
    let (sizes, half) = ([2, 72, 12, 80, 150], DType::BF16);
    let masked = AttentionConfig { mask: true, ..FULL };
    check_rejected(half, sizes, 64, ForwardTiles::Few, &masked, "attention_study: expected no mask")?;
    let forms = "attention_study: expected f16 or bf16 on a device of compute capability 9.0";
    check_rejected(DType::F32, sizes, 64, ForwardTiles::Few, &FULL, forms)?;
    for width in [128, 256] {
        check_rejected(half, sizes, width, ForwardTiles::Many, &FULL, forms)?;
    }
    check_rejected(half, [1, 2, 2, 80, 80], 64, ForwardTiles::Few, &FULL, forms)?;
    check_rejected(half, [2, 72, 12, 64, 150], 64, ForwardTiles::Few, &FULL, forms)?;
    check_rejected(
        half,
        sizes,
        65,
        ForwardTiles::Few,
        &FULL,
        "expected q with rows of whole packs of 16 bytes",
    )?;
    let (inputs, [y, lse]) = operands(device, half, sizes, 64, FULL)?;
    let narrow = [y.narrow(2, 0, 10)?, lse];
    let error = forward(backend, &FULL, ForwardTiles::Few, &inputs, &narrow).expect_err("y of another shape");
    let text = error.to_string();
    let expected = "expected y of bf16 and shape [2, 72, 80, 64], got bf16 and [2, 72, 10, 64]";
    assert!(text.contains(expected), "{text}");
    device.synchronize()
}
