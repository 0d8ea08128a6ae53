//! Strided copies and casts.

use crate::access::Locked;
use crate::elementwise::{Operand, map1};
use crate::simd::{Vectorize, vectorize};
use crate::storage::{Compute, f64_to_f32_odd, i64_to_f32_odd, u64_to_f32_odd, with_compute};
use crate::threads::Cost;
use crate::transpose::copy_transposed;
use ternion_core::{DType, Error, Op, Result};

pub(crate) fn run_copy(_: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    copy_view(inputs[0], outputs[0])
}

/// Copies `input` to `output`, which has the same shape.
pub(crate) fn copy_view(input: Locked<'_>, output: Locked<'_>) -> Result<()> {
    if input.dtype == output.dtype {
        return match input.dtype.size() {
            8 => copy_bits::<i64>(input, output),
            4 => copy_bits::<i32>(input, output),
            2 => copy_bits::<u16>(input, output),
            _ => copy_bits::<u8>(input, output),
        };
    }
    with_compute!(input.dtype, From => cast_from::<From>(input, output))
}

fn copy_bits<C: Compute>(input: Locked<'_>, output: Locked<'_>) -> Result<()> {
    if copy_transposed::<C>(&input, &output) {
        return Ok(());
    }
    let (from, to) = (Operand::<C>::raw("copy", input)?, Operand::<C>::raw("copy", output)?);
    map1(Cost::Light, from, to, &|from, to| to.copy_from_slice(from));
    Ok(())
}

fn cast_from<F: Cast>(input: Locked<'_>, output: Locked<'_>) -> Result<()> {
    match output.dtype {
        DType::F64 => cast(input, output, F::to_f64),
        DType::F32 => cast(input, output, F::to_f32),
        DType::F16 | DType::BF16 => cast(input, output, F::to_f32_odd),
        DType::I64 => cast(input, output, F::to_i64),
        DType::I32 => cast(input, output, F::to_i32),
        DType::I16 => cast(input, output, F::to_i16),
        DType::I8 => cast(input, output, F::to_i8),
        DType::U64 => cast(input, output, F::to_u64),
        DType::U32 => cast(input, output, F::to_u32),
        DType::U16 => cast(input, output, F::to_u16),
        DType::U8 => cast(input, output, F::to_u8),
        DType::Bool => cast(input, output, F::to_bool),
    }
}

fn cast<F: Cast, T: Compute>(
    input: Locked<'_>,
    output: Locked<'_>,
    convert: impl Fn(F) -> T + Sync + std::marker::Copy,
) -> Result<()> {
    let (from, to) = (Operand::<F>::new("copy", input)?, Operand::<T>::new("copy", output)?);
    map1(Cost::Light, from, to, &|from, to| vectorize(Convert { convert, from, to }));
    Ok(())
}

struct Convert<'a, F, T, C> {
    convert: C,
    from: &'a [F],
    to: &'a mut [T],
}

impl<F: std::marker::Copy, T, C: Fn(F) -> T> Vectorize for Convert<'_, F, T, C> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (&from, to) in self.from.iter().zip(self.to) {
            *to = (self.convert)(from);
        }
    }
}

/// The conversions that [`Copy`] specifies.
trait Cast: Compute {
    fn to_f64(self) -> f64;
    fn to_f32(self) -> f32;
    /// Rounds to odd, so that a second rounding to 16 bits is not affected by the first.
    fn to_f32_odd(self) -> f32;
    fn to_i64(self) -> i64;
    fn to_i32(self) -> i32;
    fn to_i16(self) -> i16;
    fn to_i8(self) -> i8;
    fn to_u64(self) -> u64;
    fn to_u32(self) -> u32;
    fn to_u16(self) -> u16;
    fn to_u8(self) -> u8;
    fn to_bool(self) -> u8;
}

macro_rules! cast {
    ($($from:ty, odd: $odd:expr;)*) => {
        $(impl Cast for $from {
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)]
            fn to_f32(self) -> f32 { self as f32 }
            #[inline(always)]
            fn to_f32_odd(self) -> f32 { ($odd)(self) }
            #[inline(always)]
            fn to_i64(self) -> i64 { self as i64 }
            #[inline(always)]
            fn to_i32(self) -> i32 { self as i32 }
            #[inline(always)]
            fn to_i16(self) -> i16 { self as i16 }
            #[inline(always)]
            fn to_i8(self) -> i8 { self as i8 }
            #[inline(always)]
            fn to_u64(self) -> u64 { self as u64 }
            #[inline(always)]
            fn to_u32(self) -> u32 { self as u32 }
            #[inline(always)]
            fn to_u16(self) -> u16 { self as u16 }
            #[inline(always)]
            fn to_u8(self) -> u8 { self as u8 }
            #[inline(always)]
            fn to_bool(self) -> u8 { u8::from(self != 0 as $from) }
        })*
    };
}
cast! {
    f64, odd: f64_to_f32_odd;
    f32, odd: |value| value;
    i64, odd: i64_to_f32_odd;
    i32, odd: |value| i64_to_f32_odd(i64::from(value));
    i16, odd: f32::from;
    i8, odd: f32::from;
    u64, odd: u64_to_f32_odd;
    u32, odd: |value| u64_to_f32_odd(u64::from(value));
    u16, odd: f32::from;
    u8, odd: f32::from;
}

/// Copies `input` to `output`, which has the same shape. Fails only if the dtypes differ.
pub(crate) fn copy_same_dtype(input: Locked<'_>, output: Locked<'_>) -> Result<()> {
    if input.dtype != output.dtype {
        return Err(Error::DTypeMismatch { op: "copy", left: input.dtype, right: output.dtype });
    }
    copy_view(input, output)
}
