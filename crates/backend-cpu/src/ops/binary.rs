//! Elementwise functions of two tensors and the fused ops built on them.

use crate::access::Locked;
use crate::elementwise::{BLOCK, Operand, Rhs, map2, map3};
use crate::number::{Number, Real};
use crate::ops::unary;
use crate::simd::{Vectorize, each, vectorize};
use crate::storage::with_compute;
use crate::threads::Cost;
use ternion_core::ops::binary::{AddRelu, BiasActivation, Binary, BinaryOp, BinaryScalar, ScaleAdd, Side};
use ternion_core::{Error, Op, Result};

pub(crate) fn run_binary(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Binary(Binary { op }) = op else { return Err(Error::invalid(op.name(), "is not binary")) };
    with_compute!(inputs[0].dtype, T => {
        let a = Operand::<T>::new(op.name(), inputs[0])?;
        let b = Operand::<T>::new(op.name(), inputs[1])?;
        run(*op, a, Rhs::Tensor(b), Operand::<T>::new(op.name(), outputs[0])?, Side::Right)
    })
}

pub(crate) fn run_binary_scalar(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::BinaryScalar(BinaryScalar { op, scalar, side }) = op else {
        return Err(Error::invalid(op.name(), "is not binary with a number"));
    };
    let dtype = inputs[0].dtype;
    with_compute!(dtype, T => {
        let number = match dtype {
            ternion_core::DType::Bool => T::from_number(ternion_core::Scalar::Bool(scalar.as_bool())),
            _ => T::from_number(*scalar),
        };
        let x = Operand::<T>::new(op.name(), inputs[0])?;
        run(*op, x, Rhs::Scalar(number), Operand::<T>::new(op.name(), outputs[0])?, *side)
    })
}

/// Functions that exist only for some compute types.
pub(crate) trait Pairing: Number {
    fn atan2(self, x: Self) -> Self;
}
impl Pairing for f32 {
    #[inline(always)]
    fn atan2(self, x: Self) -> Self {
        f32::atan2(self, x)
    }
}
impl Pairing for f64 {
    #[inline(always)]
    fn atan2(self, x: Self) -> Self {
        f64::atan2(self, x)
    }
}

macro_rules! no_angles {
    ($($integer:ty),*) => {
        $(impl Pairing for $integer {
            fn atan2(self, _: Self) -> Self {
                unreachable!("atan2 of integers was rejected before")
            }
        })*
    };
}
no_angles!(i64, i32, i16, i8, u64, u32, u16, u8);

fn run<T: Pairing>(
    op: BinaryOp,
    a: Operand<'_, T>,
    b: Rhs<'_, T>,
    y: Operand<'_, T>,
    side: Side,
) -> Result<()> {
    let dtype = a.view.dtype;
    if op == BinaryOp::Atan2 && !dtype.is_float() {
        return Err(Error::dtype(op.name(), "operand", dtype, "a floating dtype"));
    }
    let cost = match op {
        BinaryOp::Pow | BinaryOp::Atan2 | BinaryOp::Remainder => Cost::Heavy,
        _ => Cost::Light,
    };
    match side {
        Side::Right => map2(cost, a, b, y, &|a, b, y| apply(op, a, b, y)),
        Side::Left => map2(cost, a, b, y, &|a, b, y| apply(op, b, a, y)),
    }
    Ok(())
}

/// Computes `y = op(a, b)`.
fn apply<T: Pairing>(op: BinaryOp, a: &[T], b: &[T], y: &mut [T]) {
    vectorize(Apply { op, a, b, y });
}

struct Apply<'a, T> {
    op: BinaryOp,
    a: &'a [T],
    b: &'a [T],
    y: &'a mut [T],
}

impl<T: Pairing> Vectorize for Apply<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (a, b, y) = (self.a, self.b, self.y);
        let from_bool = |value: bool| if value { T::ONE } else { T::ZERO };
        match self.op {
            BinaryOp::Add => each!(a, b => y, |a, b| a.add(b)),
            BinaryOp::Sub => each!(a, b => y, |a, b| a.sub(b)),
            BinaryOp::Mul => each!(a, b => y, |a, b| a.mul(b)),
            BinaryOp::Div => each!(a, b => y, |a, b| a.div(b)),
            BinaryOp::Pow => each!(a, b => y, |a, b| a.pow(b)),
            BinaryOp::Max => each!(a, b => y, |a, b| a.maximum(b)),
            BinaryOp::Min => each!(a, b => y, |a, b| a.minimum(b)),
            BinaryOp::Atan2 => each!(a, b => y, |a, b| a.atan2(b)),
            BinaryOp::Remainder => each!(a, b => y, |a, b| a.remainder(b)),
            BinaryOp::And => each!(a, b => y, |a, b| from_bool(a != T::ZERO && b != T::ZERO)),
            BinaryOp::Or => each!(a, b => y, |a, b| from_bool(a != T::ZERO || b != T::ZERO)),
            BinaryOp::Xor => each!(a, b => y, |a, b| from_bool((a != T::ZERO) != (b != T::ZERO))),
        }
    }
}

pub(crate) fn run_multiply_add(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let name = op.name();
    with_compute!(inputs[0].dtype, T => {
        let a = Operand::<T>::new(name, inputs[0])?;
        let b = Operand::<T>::new(name, inputs[1])?;
        let c = Operand::<T>::new(name, inputs[2])?;
        map3(Cost::Light, (a, b, c), Operand::<T>::new(name, outputs[0])?, &|a, b, c, y| {
            vectorize(ProductAndSum { a, b, c, y })
        });
        Ok(())
    })
}

struct ProductAndSum<'a, T> {
    a: &'a [T],
    b: &'a [T],
    c: &'a [T],
    y: &'a mut [T],
}

impl<T: Number> Vectorize for ProductAndSum<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        each!(self.a, self.b, self.c => self.y, |a, b, c| a.mul(b).add(c));
    }
}

pub(crate) fn run_sum(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    match inputs[0].dtype {
        ternion_core::DType::F64 => sum::<f64>(op, inputs, outputs[0]),
        _ => sum::<f32>(op, inputs, outputs[0]),
    }
}

fn sum<T: Pairing + Real>(op: &Op, inputs: &[Locked<'_>], output: Locked<'_>) -> Result<()> {
    let name = op.name();
    let a = Operand::<T>::new(name, inputs[0])?;
    let b = Rhs::Tensor(Operand::<T>::new(name, inputs[1])?);
    let y = Operand::<T>::new(name, output)?;
    match op {
        Op::ScaleAdd(ScaleAdd { scale }) => {
            let scale = T::real(*scale);
            map2(Cost::Light, a, b, y, &|a, b, y| vectorize(ScaledSum { scale, a, b, y }));
        }
        Op::AddRelu(AddRelu) => map2(Cost::Light, a, b, y, &|a, b, y| vectorize(PositiveSum { a, b, y })),
        Op::BiasActivation(BiasActivation { activation }) => {
            map2(unary::cost(*activation), a, b, y, &|a, b, y| activated_sum(*activation, a, b, y));
        }
        _ => return Err(Error::invalid(name, "is not a fused sum")),
    }
    Ok(())
}

struct ScaledSum<'a, T> {
    scale: T,
    a: &'a [T],
    b: &'a [T],
    y: &'a mut [T],
}

impl<T: Real> Vectorize for ScaledSum<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        each!(self.a, self.b => self.y, |a, b| self.scale.mul(a).add(b));
    }
}

struct PositiveSum<'a, T> {
    a: &'a [T],
    b: &'a [T],
    y: &'a mut [T],
}

impl<T: Real> Vectorize for PositiveSum<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        each!(self.a, self.b => self.y, |a, b| a.add(b).maximum(T::ZERO));
    }
}

/// Computes `y = activation(a + b)`: the sum of a block is computed in the L1 cache.
fn activated_sum<T: Pairing + Real>(
    activation: ternion_core::ops::unary::UnaryOp,
    a: &[T],
    b: &[T],
    y: &mut [T],
) {
    let mut sums = [T::ZERO; BLOCK];
    for ((a, b), y) in a.chunks(BLOCK).zip(b.chunks(BLOCK)).zip(y.chunks_mut(BLOCK)) {
        let sums = &mut sums[..a.len()];
        apply(BinaryOp::Add, a, b, sums);
        unary::apply(activation, sums, y);
    }
}
