//! Copies and casts.

use super::elementwise::{Kernel, launch};
use super::transpose::Transpose;
use crate::call::Call;
use crate::gpu::Gpu;
use crate::names::{Cast, ElementResult, Function};
use crate::slots::StorageFormat;
use ternion_core::backend::View;
use ternion_core::{DType, Op, Result};

/// Returns the cast from the class of `from` to the dtype `to`, and whether the cast returns bits
/// instead of a number. Returns `None` if numbers are stored without a cast.
fn cast(from: DType, to: DType) -> Option<(Cast, bool)> {
    use DType::*;
    Some(match (from, to) {
        (F32 | F16 | BF16, F32) => return None,
        (F32 | F16 | BF16, F16) => (Cast::F32ToF16, true),
        (F32 | F16 | BF16, BF16) => (Cast::F32ToBF16, true),
        (F32 | F16 | BF16, I32) => (Cast::F32ToI32, false),
        (F32 | F16 | BF16, I64) => (Cast::F32ToI64, false),
        (F32 | F16 | BF16, I16) => (Cast::F32ToI16, false),
        (F32 | F16 | BF16, I8) => (Cast::F32ToI8, false),
        (F32 | F16 | BF16, U64) => (Cast::F32ToU64, false),
        (F32 | F16 | BF16, U32) => (Cast::F32ToU32, false),
        (F32 | F16 | BF16, U16) => (Cast::F32ToU16, false),
        (F32 | F16 | BF16, U8) => (Cast::F32ToU8, false),
        (F32 | F16 | BF16, _) => (Cast::F32ToBool, false),
        (I32 | I16 | I8, F32) => (Cast::I32ToF32, false),
        (I32 | I16 | I8, F16) => (Cast::I32ToF16, true),
        (I32 | I16 | I8, BF16) => (Cast::I32ToBF16, true),
        // Storing keeps the low bits.
        (I32 | I16 | I8, I32 | I16 | I8) => return None,
        (I32 | I16 | I8, I64 | U64) => (Cast::I32ToI64, false),
        (I32 | I16 | I8, U32 | U16) => (Cast::I32ToU32, false),
        (I32 | I16 | I8, U8) => (Cast::I32ToU8, false),
        (I32 | I16 | I8, _) => (Cast::I32ToBool, false),
        (I64 | F64, F32) => (Cast::I64ToF32, false),
        (I64 | F64, F16) => (Cast::I64ToF16, true),
        (I64 | F64, BF16) => (Cast::I64ToBF16, true),
        (U64, F32) => (Cast::U64ToF32, false),
        (U64, F16) => (Cast::U64ToF16, true),
        (U64, BF16) => (Cast::U64ToBF16, true),
        (I64 | U64 | F64, I64 | U64) => return None,
        (I64 | U64 | F64, I32 | I16 | I8) => (Cast::I64ToI32, false),
        (I64 | U64 | F64, U32 | U16) => (Cast::I64ToU32, false),
        (I64 | U64 | F64, U8) => (Cast::I64ToU8, false),
        (I64 | U64 | F64, _) => (Cast::I64ToBool, false),
        (U32 | U16, F32) => (Cast::U32ToF32, false),
        (U32 | U16, F16) => (Cast::U32ToF16, true),
        (U32 | U16, BF16) => (Cast::U32ToBF16, true),
        (U32 | U16, U8) => (Cast::U32ToU8, false),
        (U8 | Bool, F32) => (Cast::U8ToF32, false),
        (U8 | Bool, F16) => (Cast::U8ToF16, true),
        (U8 | Bool, BF16) => (Cast::U8ToBF16, true),
        // These casts are valid for all unsigned numbers of a word.
        (U32 | U16 | U8 | Bool, I32 | I16 | I8) => (Cast::U8ToI32, false),
        (U32 | U16 | U8 | Bool, I64 | U64) => (Cast::U8ToI64, false),
        (U32 | U16 | U8 | Bool, U32 | U16) | (U8 | Bool, U8) => return None,
        (U32 | U16 | U8 | Bool, _) => (Cast::U8ToBool, false),
    })
}

/// Copies `x` to `y`, which has the same shape, and casts it to the dtype of y.
pub(crate) fn copy(gpu: &Gpu, op: &'static str, x: &View<'_>, y: &View<'_>) -> Result<()> {
    match Transpose::of(gpu, op, x, y)? {
        Some(transpose) => transpose.launch(gpu, op, x, y),
        None => launch(gpu, op, kernel(x.dtype, y.dtype), &[*y, *x]),
    }
}

fn kernel(from: DType, to: DType) -> Kernel {
    if from == to {
        return Kernel::moving(to, ElementResult::Bits);
    }
    let (x, y) = (StorageFormat::of(from), StorageFormat::of(to));
    let (result, function) = match cast(from, to) {
        None => (ElementResult::Same, Function::None),
        Some((cast, true)) => (ElementResult::CastBits, Function::Cast(cast)),
        Some((cast, false)) => (ElementResult::Cast, Function::Cast(cast)),
    };
    Kernel { class: x.class(), stores: [y, x, x, x], result, function, constants: [0; 2], scalar: 0 }
}

pub(crate) fn run_copy(_: &Op, call: &Call<'_>) -> Result<()> {
    copy(call.gpu, call.name, &call.inputs[0], &call.outputs[0])
}
