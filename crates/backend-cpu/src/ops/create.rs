//! Constants and evenly spaced numbers.

use crate::access::Locked;
use crate::elementwise::{Operand, map0};
use crate::kernel::Variant;
use crate::storage::f64_to_f32_odd;
use crate::threads::Cost;
use half::{bf16, f16};
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::ops::create::{Fill, Iota};
use ternion_core::{DType, Element, Error, Op, Result};

/// Selects fill, which supports every dtype.
pub(crate) fn select_fill(_: &Fill, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_fill })
}

fn run_fill(op: &Op, _: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Fill(fill) = op else { return Err(Error::invalid(op.name(), "is not fill")) };
    fill_view(outputs[0], fill.value)
}

/// Writes `value` to every element.
pub(crate) fn fill_view(output: Locked<'_>, value: ternion_core::Scalar) -> Result<()> {
    match output.dtype {
        DType::F64 => fill_bits(output, f64::from_scalar(value)),
        DType::F32 => fill_bits(output, f32::from_scalar(value)),
        DType::F16 => fill_bits(output, f16::from_f32(f64_to_f32_odd(value.as_f64())).to_bits()),
        DType::BF16 => fill_bits(output, bf16::from_f32(f64_to_f32_odd(value.as_f64())).to_bits()),
        DType::I64 => fill_bits(output, i64::from_scalar(value)),
        DType::I32 => fill_bits(output, i32::from_scalar(value)),
        DType::I16 => fill_bits(output, i16::from_scalar(value)),
        DType::I8 => fill_bits(output, i8::from_scalar(value)),
        DType::U64 => fill_bits(output, u64::from_scalar(value)),
        DType::U32 => fill_bits(output, u32::from_scalar(value)),
        DType::U16 => fill_bits(output, u16::from_scalar(value)),
        DType::U8 => fill_bits(output, u8::from_scalar(value)),
        DType::Bool => fill_bits(output, u8::from(value.as_bool())),
    }
}

fn fill_bits<C: crate::storage::Compute>(output: Locked<'_>, bits: C) -> Result<()> {
    map0::<C>(Cost::Light, Operand::raw("fill", output)?, &|_, block| block.fill(bits));
    Ok(())
}

/// Selects iota, which supports every dtype except bool, which core rejects.
pub(crate) fn select_iota(_: &Iota, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_iota })
}

fn run_iota(op: &Op, _: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Iota(iota) = op else { return Err(Error::invalid(op.name(), "is not iota")) };
    let (start, step) = (iota.start.as_f64(), iota.step.as_f64());
    // An i64 has the same low bits as the u64 value, and integers wrap.
    let (first, increment) = (iota.start.as_i128() as i64, iota.step.as_i128() as i64);
    let float_at = move |index: usize| start + index as f64 * step;
    let integer_at = move |index: usize| first.wrapping_add((index as i64).wrapping_mul(increment));
    match iota.dtype {
        DType::F64 => fill_by_index::<f64>(outputs[0], float_at),
        DType::F32 => fill_by_index::<f32>(outputs[0], move |index| float_at(index) as f32),
        DType::F16 | DType::BF16 => {
            fill_by_index::<f32>(outputs[0], move |index| f64_to_f32_odd(float_at(index)))
        }
        DType::I64 => fill_by_index::<i64>(outputs[0], integer_at),
        DType::I32 => fill_by_index::<i32>(outputs[0], move |index| integer_at(index) as i32),
        DType::I16 => fill_by_index::<i16>(outputs[0], move |index| integer_at(index) as i16),
        DType::I8 => fill_by_index::<i8>(outputs[0], move |index| integer_at(index) as i8),
        DType::U64 => fill_by_index::<u64>(outputs[0], move |index| integer_at(index) as u64),
        DType::U32 => fill_by_index::<u32>(outputs[0], move |index| integer_at(index) as u32),
        DType::U16 => fill_by_index::<u16>(outputs[0], move |index| integer_at(index) as u16),
        DType::U8 => fill_by_index::<u8>(outputs[0], move |index| integer_at(index) as u8),
        DType::Bool => Err(Error::invalid("iota", "bool has no numbers to count in")),
    }
}

fn fill_by_index<C: crate::storage::Compute>(
    output: Locked<'_>,
    value_at: impl Fn(usize) -> C + Sync + Copy,
) -> Result<()> {
    map0(Cost::Light, Operand::new("iota", output)?, &|start, block: &mut [C]| {
        for (index, value) in block.iter_mut().enumerate() {
            *value = value_at(start + index);
        }
    });
    Ok(())
}
