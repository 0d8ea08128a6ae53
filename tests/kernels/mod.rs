//! Kernels that the op table's small shapes do not cover, on the GPU compared with the CPU backend:
//! rows of every length, random numbers, every tile of products and attention. Without a GPU the
//! tests report that there is nothing to compare. With `TERNION_TABLE=brief` the tests that run
//! under compute-sanitizer have fewer cases.

mod attention;
mod attention_ladder;
mod bf16x6;
mod dependent_launches;
mod gemm;
mod gemm_epilogues;
mod gemm_row_sums;
mod ladder;
mod launch;
mod multi_tensor;
mod random;
mod repeats;
mod rows;
mod split_k;
mod tiles;

use crate::{lock_shared, support};
use std::fmt::Write;
use std::sync::OnceLock;
use ternion::prelude::*;
use ternion_cuda::CudaBackend;
use ternion_cuda::ladder::{Rung, runs};
use ternion_testing::suite;

const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];

/// Moves a number away from ties between two TF32 numbers, which kernels may round to either
/// neighbor (see `ties_of_tf32_go_to_a_neighbor`).
fn off_ties_of_tf32(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits(if bits & 0x1fff == 0x1000 { bits | 1 } else { bits })
}

/// Returns pseudorandom numbers between -3 and 3.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            off_ties_of_tf32((state >> 40) as f32 / (1 << 24) as f32 * 6.0 - 3.0)
        })
        .collect()
}

fn tensor(shape: &[usize], dtype: DType, device: &Device, seed: u64) -> Result<Tensor> {
    let cpu = ternion::cpu()?;
    Tensor::from_vec(numbers(shape.iter().product(), seed), shape, &cpu)?.to_dtype(dtype)?.to_device(device)
}

/// Returns the outputs of `f` and the gradients of their sum, weighted by random numbers, with
/// respect to its inputs.
fn forward_and_backward(
    inputs: &[Tensor],
    device: &Device,
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Result<Vec<Tensor>> {
    forward_and_backward_with(inputs, f, |y| tensor(y.dims(), y.dtype(), device, 99))
}

/// Runs [`forward_and_backward`] with these weights of the output.
fn forward_and_backward_with(
    inputs: &[Tensor],
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
    weights: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Vec<Tensor>> {
    let leaves = inputs.iter().map(Tensor::requires_grad).collect::<Result<Vec<_>>>()?;
    let y = f(&leaves)?;
    let gradients = y.mul(&weights(&y)?)?.sum(..)?.backward()?;
    let mut all = vec![y.detach()];
    all.extend(leaves.iter().filter_map(|leaf| gradients.get(leaf)).cloned());
    Ok(all)
}

/// Returns the first element that differs by more than the dtype's rounding, relative to the
/// element and to the root mean square of all. Elements below the smallest normal f16 number, which
/// have a spacing of 2^-24, may differ by one rounding step of a result, times a derivative of up
/// to 3 by which a gradient multiplies it, plus their own rounding step.
fn first_difference(found: &Tensor, expected: &Tensor) -> Result<Option<String>> {
    difference_with_allowance(found, expected, 0.0)
}

/// Runs [`first_difference`] with an additional relative allowance `lost` for f32 sums that are not
/// rounded further.
fn difference_with_allowance(found: &Tensor, expected: &Tensor, lost: f64) -> Result<Option<String>> {
    let tolerance = match expected.dtype() {
        DType::F64 => 1e-11,
        DType::F32 => 3e-5 + lost,
        DType::F16 => 3e-3,
        _ => 2e-2,
    };
    let steps = if expected.dtype() == DType::F16 { 4.0 * 2f64.powi(-24) } else { 0.0 };
    let (found, expected) = (found.to_vec_f64()?, expected.to_vec_f64()?);
    let squares: f64 = expected.iter().map(|value| value * value).sum();
    let scale = (squares / expected.len().max(1) as f64).sqrt();
    let differing = found.iter().zip(&expected).position(|(found, expected)| {
        let limit = (tolerance * (expected.abs() + scale)).max(steps);
        !((found - expected).abs() <= limit || (found.is_nan() && expected.is_nan()))
    });
    Ok(differing.map(|at| format!("at {at}: {} instead of {} (scale {scale})", found[at], expected[at])))
}

/// Returns the first CUDA device, shared by all tests of this file: its kernels and memory belong
/// to it.
fn gpu() -> Option<&'static Device> {
    static GPU: OnceLock<Option<Device>> = OnceLock::new();
    GPU.get_or_init(support::cuda).as_ref()
}

/// Returns whether products may use tensor maps.
fn has_tensor_maps() -> bool {
    std::env::var("TERNION_CUDA_TENSOR_MAPS").map_or(true, |value| value != "0")
}

/// Returns whether the device has warpgroup products (WGMMA), whose operands are copied by tensor
/// maps.
fn has_warpgroups(device: &Device) -> bool {
    let has_instructions =
        device.downcast().is_some_and(|backend: &CudaBackend| runs(backend, Rung::WgmmaTma));
    has_instructions && has_tensor_maps()
}

/// Returns whether tests should be short. Under compute-sanitizer, for which the op table runs only
/// its smallest shapes, a launch takes about fifty times as long.
fn is_short() -> bool {
    suite::smallest_only()
}

/// Returns `all`, or `few` in short tests.
fn unless_short<T>(all: T, few: T) -> T {
    if is_short() { few } else { all }
}

/// Runs `f` on the GPU twice and adds every result that is not bit-identical to `faults`. The
/// caller must hold the guard of [`lock_shared`].
fn twice(
    faults: &mut String,
    what: &str,
    f: impl Fn(&Device) -> Result<Vec<Tensor>>,
) -> Result<Option<Vec<Tensor>>> {
    let Some(gpu) = gpu() else { return Ok(None) };
    let (found, again) = (f(gpu)?, f(gpu)?);
    for (at, (found, again)) in found.iter().zip(&again).enumerate() {
        if found.to_bytes()? != again.to_bytes()? {
            let _ = writeln!(faults, "{what}, result {at}: twice not the same");
        }
    }
    Ok(Some(found))
}

/// Runs `f` on both devices, on the GPU twice, and adds what is wrong to `faults`.
fn compare(faults: &mut String, what: &str, f: impl Fn(&Device) -> Result<Vec<Tensor>>) -> Result<()> {
    // The guard is also held during the host's work, whose memory would affect a test that has
    // exclusive use of the device.
    let _shared = lock_shared();
    let Some(found) = twice(faults, what, &f)? else { return Ok(()) };
    for (at, (found, expected)) in found.iter().zip(f(&ternion::cpu()?)?).enumerate() {
        if let Some(text) = first_difference(found, &expected)? {
            let _ = writeln!(faults, "{what}, result {at}: {text}");
        }
    }
    Ok(())
}

fn assert_no_faults(faults: &str) {
    assert!(faults.is_empty(), "{faults}");
}
