//! Ops that create tensors.

use super::elementwise::{self, Operand};
use crate::call::Call;
use crate::gpu::Gpu;
use crate::launch::Launch;
use crate::variant::elementwise::ElementwiseVariant;
use crate::variant::{KernelFamily, bits_like, wrapping_like};
use ternion_core::backend::View;
use ternion_core::{Error, Op, Result, Scalar};

const THREADS: usize = 256;

pub(crate) fn run_fill(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Fill(payload) = op else { return Err(Error::invalid(call.name, "is not fill")) };
    fill(call.gpu, call.name, &call.outputs[0], payload.value)
}

/// Fills `y` with `value`.
pub(crate) fn fill(gpu: &Gpu, op: &'static str, y: &View<'_>, value: Scalar) -> Result<()> {
    let variant = ElementwiseVariant::Move(bits_like(y.dtype));
    let number = Operand::Number(value.bits(y.dtype));
    elementwise::launch(gpu, op, variant, y, [number, Operand::Absent, Operand::Absent], [0; 2])
}

/// The parameters; mirrors `Iota` in the kernels.
#[repr(C)]
struct Parameters {
    y: u64,
    count: u64,
    stride: i64,
    start: u64,
    step: u64,
}

pub(crate) fn run_iota(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Iota(payload) = op else { return Err(Error::invalid(call.name, "is not iota")) };
    let y = &call.outputs[0];
    let bits = |scalar: Scalar| match payload.dtype.is_float() {
        true => scalar.as_f64().to_bits(),
        // The low bits of a u64 are those of an i64.
        false => scalar.as_i128() as u64,
    };
    let parameters = Parameters {
        y: call.gpu.address(call.name, y)?,
        count: payload.count as u64,
        stride: y.layout.strides()[0] as i64,
        start: bits(payload.start),
        step: bits(payload.step),
    };
    let blocks = u32::try_from(payload.count.div_ceil(THREADS))
        .map_err(|_| Error::invalid(call.name, "more elements than one launch can process"))?;
    let variant = KernelFamily::Iota(wrapping_like(payload.dtype));
    call.gpu.launch(call.name, Launch::new(variant, 0, blocks, THREADS as u32), &parameters)
}
