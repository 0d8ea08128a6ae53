//! Copies and casts.

use super::elementwise::{Shader, launch};
use super::transpose::Transpose;
use crate::gpu::Gpu;
use crate::select::Call;
use crate::slots::Store;
use ternion_core::backend::View;
use ternion_core::{DType, Op, Result};

/// The function that changes a number of one dtype's class into another dtype, and whether it tells the bits. `None` where the number stays.
fn cast(from: DType, to: DType) -> Option<(&'static str, bool)> {
    use DType::*;
    Some(match (from, to) {
        (F32 | F16 | BF16, F32) => return None,
        (F32 | F16 | BF16, F16) => ("cast_f32_f16", true),
        (F32 | F16 | BF16, BF16) => ("cast_f32_bf16", true),
        (F32 | F16 | BF16, I32) => ("cast_f32_i32", false),
        (F32 | F16 | BF16, I64) => ("cast_f32_i64", false),
        (F32 | F16 | BF16, I16) => ("cast_f32_i16", false),
        (F32 | F16 | BF16, I8) => ("cast_f32_i8", false),
        (F32 | F16 | BF16, U8) => ("cast_f32_u8", false),
        (F32 | F16 | BF16, _) => ("cast_f32_bool", false),
        (I32 | I16 | I8, F32) => ("cast_i32_f32", false),
        (I32 | I16 | I8, F16) => ("cast_i32_f16", true),
        (I32 | I16 | I8, BF16) => ("cast_i32_bf16", true),
        // What is stored keeps the low bits.
        (I32 | I16 | I8, I32 | I16 | I8) => return None,
        (I32 | I16 | I8, I64) => ("cast_i32_i64", false),
        (I32 | I16 | I8, U8) => ("cast_i32_u8", false),
        (I32 | I16 | I8, _) => ("cast_i32_bool", false),
        (I64 | F64, F32) => ("cast_i64_f32", false),
        (I64 | F64, F16) => ("cast_i64_f16", true),
        (I64 | F64, BF16) => ("cast_i64_bf16", true),
        (I64 | F64, I32 | I16 | I8) => ("cast_i64_i32", false),
        (I64 | F64, U8) => ("cast_i64_u8", false),
        (I64 | F64, _) => ("cast_i64_bool", false),
        (U8 | Bool, F32) => ("cast_u8_f32", false),
        (U8 | Bool, F16) => ("cast_u8_f16", true),
        (U8 | Bool, BF16) => ("cast_u8_bf16", true),
        (U8 | Bool, I32 | I16 | I8) => ("cast_u8_i32", false),
        (U8 | Bool, I64) => ("cast_u8_i64", false),
        (U8 | Bool, U8) => return None,
        (U8 | Bool, _) => ("cast_u8_bool", false),
    })
}

/// Copies `x` into `y`, which has its shape, in y's dtype.
pub(crate) fn copy(gpu: &Gpu, op: &'static str, x: &View<'_>, y: &View<'_>) -> Result<()> {
    match Transpose::of(gpu, op, x, y)? {
        Some(transpose) => transpose.launch(gpu, op, x, y),
        None => launch(gpu, op, shader(x.dtype, y.dtype), &[*y, *x]),
    }
}

fn shader(from: DType, to: DType) -> Shader {
    if from == to {
        return Shader::moving(to, "bits_result");
    }
    let (x, y) = (Store::of(from), Store::of(to));
    let (result, function) = match cast(from, to) {
        None => ("same_result", ["", ""]),
        Some((function, true)) => ("cast_bits_result", ["", function]),
        Some((function, false)) => ("cast_result", ["", function]),
    };
    Shader { class: x.class(), stores: [y, x, x, x], result, function, constants: [0; 2], scalar: 0 }
}

pub(crate) fn run_copy(_: &Op, call: &Call<'_>) -> Result<()> {
    copy(call.gpu, call.name, &call.inputs[0], &call.outputs[0])
}
