//! Comparisons, and selection between two tensors.

use crate::access::Locked;
use crate::elementwise::{Operand, Rhs, map2, map3};
use crate::number::Number;
use crate::simd::{Vectorize, each, vectorize};
use crate::storage::{Compute, with_compute};
use crate::threads::Cost;
use ternion_core::ops::compare::{Compare, CompareOp, CompareScalar};
use ternion_core::{DType, Error, Op, Result, Scalar};

pub(crate) fn run_compare(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Compare(Compare { op }) = op else {
        return Err(Error::invalid(op.name(), "is not a comparison"));
    };
    with_compute!(inputs[0].dtype, T => {
        let b = Operand::<T>::new(op.name(), inputs[1])?;
        run(*op, Operand::<T>::new(op.name(), inputs[0])?, Rhs::Tensor(b), outputs[0])
    })
}

pub(crate) fn run_compare_scalar(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::CompareScalar(CompareScalar { op, scalar }) = op else {
        return Err(Error::invalid(op.name(), "is not a comparison with a number"));
    };
    let dtype = inputs[0].dtype;
    with_compute!(dtype, T => {
        let number = rounded::<T>(*scalar, dtype);
        run(*op, Operand::<T>::new(op.name(), inputs[0])?, Rhs::Scalar(number), outputs[0])
    })
}

/// Rounds `scalar` to `dtype`, and converts it to the compute type.
fn rounded<T: Number>(scalar: Scalar, dtype: DType) -> T {
    use crate::storage::f64_to_f32_odd;
    let through_half = |half: f32| T::from_number(Scalar::Float(f64::from(half)));
    match dtype {
        DType::F16 => through_half(half::f16::from_f32(f64_to_f32_odd(scalar.as_f64())).to_f32()),
        DType::BF16 => through_half(half::bf16::from_f32(f64_to_f32_odd(scalar.as_f64())).to_f32()),
        DType::Bool => T::from_number(Scalar::Bool(scalar.as_bool())),
        _ => T::from_number(scalar),
    }
}

fn run<T: Compute>(op: CompareOp, a: Operand<'_, T>, b: Rhs<'_, T>, y: Locked<'_>) -> Result<()> {
    let y = Operand::<u8>::new(op.name(), y)?;
    map2(Cost::Light, a, b, y, &|a, b, y| vectorize(Apply { op, a, b, y }));
    Ok(())
}

struct Apply<'a, T> {
    op: CompareOp,
    a: &'a [T],
    b: &'a [T],
    y: &'a mut [u8],
}

impl<T: Compute> Vectorize for Apply<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (a, b, y) = (self.a, self.b, self.y);
        match self.op {
            CompareOp::Eq => each!(a, b => y, |a, b| u8::from(a == b)),
            CompareOp::Ne => each!(a, b => y, |a, b| u8::from(a != b)),
            CompareOp::Lt => each!(a, b => y, |a, b| u8::from(a < b)),
            CompareOp::Le => each!(a, b => y, |a, b| u8::from(a <= b)),
            CompareOp::Gt => each!(a, b => y, |a, b| u8::from(a > b)),
            CompareOp::Ge => each!(a, b => y, |a, b| u8::from(a >= b)),
        }
    }
}

pub(crate) fn run_select(_: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    match inputs[1].dtype.size() {
        8 => choose::<i64>(inputs, outputs[0]),
        4 => choose::<i32>(inputs, outputs[0]),
        2 => choose::<u16>(inputs, outputs[0]),
        _ => choose::<u8>(inputs, outputs[0]),
    }
}

/// Only bits are copied, so one loop handles all dtypes of a size.
fn choose<C: Compute>(inputs: &[Locked<'_>], output: Locked<'_>) -> Result<()> {
    let condition = Operand::<u8>::raw("where", inputs[0])?;
    let (a, b) = (Operand::<C>::raw("where", inputs[1])?, Operand::<C>::raw("where", inputs[2])?);
    map3(Cost::Light, (condition, a, b), Operand::<C>::raw("where", output)?, &|condition, a, b, y| {
        vectorize(Choose { condition, a, b, y })
    });
    Ok(())
}

struct Choose<'a, C> {
    condition: &'a [u8],
    a: &'a [C],
    b: &'a [C],
    y: &'a mut [C],
}

impl<C: Compute> Vectorize for Choose<'_, C> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        each!(self.condition, self.a, self.b => self.y, |condition, a, b| if condition != 0 { a } else { b });
    }
}
