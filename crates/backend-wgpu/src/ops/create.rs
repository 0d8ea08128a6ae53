//! Creation of tensors.

use super::copy::copy;
use super::elementwise::{Kernel, launch};
use crate::call::Call;
use crate::gpu::Gpu;
use crate::names::ElementResult;
use std::sync::Arc;
use ternion_core::backend::View;
use ternion_core::ops::create::{Fill, Iota};
use ternion_core::{DType, Element, Layout, Op, Result, Scalar};

pub(crate) fn run_fill(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Fill(Fill { dtype, value, .. }) = op else {
        return Err(call.wrong_op());
    };
    fill(call.gpu, call.name, &call.outputs[0], value.bits(*dtype))
}

/// Fills `y` with the bits of an element.
pub(crate) fn fill(gpu: &Gpu, op: &'static str, y: &View<'_>, bits: u64) -> Result<()> {
    let result = if y.dtype.size() == 8 { ElementResult::FillWide } else { ElementResult::Fill };
    launch(gpu, op, Kernel { scalar: bits, ..Kernel::moving(y.dtype, result) }, &[*y])
}

/// Computes the sequence on the host, because WGSL has no 64-bit floats: one product, one sum, and
/// one rounding to the dtype per element.
pub(crate) fn run_iota(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Iota(Iota { count, dtype, start, step }) = op else {
        return Err(call.wrong_op());
    };
    let float = |i: usize| Scalar::Float(start.as_f64() + i as f64 * step.as_f64());
    // An i64 has the same low bits as the u64 value, and integers wrap.
    let (first, increment) = (start.as_i128() as i64, step.as_i128() as i64);
    let integer = |i: usize| first.wrapping_add((i as i64).wrapping_mul(increment));
    let bytes: Vec<u8> = match dtype {
        DType::F32 => bytes_of((0..*count).map(|i| f32::from_scalar(float(i)))),
        DType::F16 => bytes_of((0..*count).map(|i| half::f16::from_scalar(float(i)))),
        DType::BF16 => bytes_of((0..*count).map(|i| half::bf16::from_scalar(float(i)))),
        DType::I64 => bytes_of((0..*count).map(integer)),
        DType::I32 => bytes_of((0..*count).map(|i| integer(i) as i32)),
        DType::I16 => bytes_of((0..*count).map(|i| integer(i) as i16)),
        DType::I8 => bytes_of((0..*count).map(|i| integer(i) as i8)),
        DType::U64 => bytes_of((0..*count).map(|i| integer(i) as u64)),
        DType::U32 => bytes_of((0..*count).map(|i| integer(i) as u32)),
        DType::U16 => bytes_of((0..*count).map(|i| integer(i) as u16)),
        _ => bytes_of((0..*count).map(|i| integer(i) as u8)),
    };
    upload_to(call.gpu, call.name, &bytes, &call.outputs[0])
}

fn bytes_of<E: Element>(values: impl Iterator<Item = E>) -> Vec<u8> {
    E::to_bytes(&values.collect::<Vec<E>>()).into_owned()
}

/// Uploads elements in row-major order to `y`, which may have any layout.
fn upload_to(gpu: &Arc<Gpu>, op: &'static str, bytes: &[u8], y: &View<'_>) -> Result<()> {
    if y.layout.is_contiguous() {
        return gpu.upload(bytes, y.buffer, y.layout.offset() * y.dtype.size());
    }
    let dense = gpu.alloc(bytes.len())?;
    gpu.upload(bytes, &dense, 0)?;
    let layout = Layout::row_major(*y.layout.shape());
    copy(gpu, op, &View { buffer: &dense, dtype: y.dtype, layout: &layout }, y)
}
