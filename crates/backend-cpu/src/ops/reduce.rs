//! Reductions over any axes, variance, and cumulative sums.

mod cumulative;
mod engine;
mod multi_tensor;
mod plan;
mod reducers;

pub(crate) use cumulative::select_cumulative_sum;
pub(crate) use multi_tensor::select_multi_tensor_norm;

use crate::access::Locked;
use crate::elementwise::Operand;
use crate::kernel::Variant;
use crate::number::{Number, Real};
use crate::storage::Compute;
use engine::{reduce, write};
use plan::{LoopAxis, ReductionPlan, plan};
use reducers::{
    ArgReducer, Bounded, FirstEqual, IndexedValue, MaxAbs, Maximum, Minimum, Product, Reducer, Sum,
    SumExponentials, SumInUnits, SumScaledSquares, SumSquaredDeviations, SumSquaredDeviationsInUnits,
    SumSquares,
};
use std::marker::PhantomData;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::geometry::ReductionOrder;
use ternion_core::ops::reduce::{Reduce, ReduceOp, Variance};
use ternion_core::{DType, Error, Op, Result};

/// Supports all reductions in every dtype that core accepts.
pub(crate) fn select_reduce(_: &Reduce, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_reduce })
}

fn run_reduce(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Reduce(payload) = op else { return Err(Error::invalid(op.name(), "is not a reduction")) };
    let (x, y) = (&inputs[0], &outputs[0]);
    match x.dtype {
        DType::F64 => reduce_float::<f64>(payload, x, y),
        DType::F32 | DType::F16 | DType::BF16 => reduce_float::<f32>(payload, x, y),
        DType::I64 => reduce_primitive::<i64>(payload, x, y),
        DType::I32 => reduce_primitive::<i32>(payload, x, y),
        DType::I16 => reduce_primitive::<i16>(payload, x, y),
        DType::I8 => reduce_primitive::<i8>(payload, x, y),
        DType::U64 => reduce_primitive::<u64>(payload, x, y),
        DType::U32 => reduce_primitive::<u32>(payload, x, y),
        DType::U16 => reduce_primitive::<u16>(payload, x, y),
        DType::U8 => reduce_primitive::<u8>(payload, x, y),
        DType::Bool => reduce_bool(payload, x, y),
    }
}

/// One reduction: its input, its output, and the order of traversal.
struct Task<'a, T: 'static> {
    plan: ReductionPlan,
    input: Operand<'a, T>,
    output: &'a Locked<'a>,
}

impl<'a, T: Compute> Task<'a, T> {
    fn new(payload: &Reduce, x: &Locked<'a>, y: &'a Locked<'a>) -> Result<Task<'a, T>> {
        let input = Operand::new(payload.op.name(), *x)?;
        Ok(Task { plan: plan(x, y, payload.axes, ReductionOrder::of(payload.op)), input, output: y })
    }

    fn reduce<R: Reducer<In = T>>(&self, reducer: R, shifts: &[T]) -> Vec<R::Acc> {
        reduce(reducer, &self.plan, &self.input, shifts)
    }

    fn write<A: Copy + Sync>(&self, accs: &[A], finish: impl Fn(A) -> T + Sync) -> Result<()> {
        write(&self.plan, &Operand::new("reduce", *self.output)?, accs, finish);
        Ok(())
    }

    fn run<R: Reducer<In = T, Acc = T>>(&self, reducer: R, finish: impl Fn(T) -> T + Sync) -> Result<()> {
        self.write(&self.reduce(reducer, &[]), finish)
    }

    fn arg_reduce<R: Reducer<In = T, Acc = T>>(&self, reducer: R) -> Result<()>
    where
        T: Number,
    {
        let output = Operand::<i32>::new("reduce", *self.output)?;
        if let LoopAxis::Columns { .. } = self.plan.loop_axis {
            // With adjacent columns, two fast passes are faster than one that carries values and
            // indices.
            let best = self.reduce(reducer, &[]);
            write(&self.plan, &output, &self.reduce(FirstEqual(PhantomData), &best), |index| index);
            return Ok(());
        }
        let indexed_values = self.reduce(ArgReducer(reducer), &[]);
        write(&self.plan, &output, &indexed_values, |indexed_value: IndexedValue<T>| {
            indexed_value.index as i32
        });
        Ok(())
    }
}

fn reduce_primitive<T: Bounded>(payload: &Reduce, x: &Locked<'_>, y: &Locked<'_>) -> Result<()> {
    let task = Task::<T>::new(payload, x, y)?;
    match payload.op {
        ReduceOp::Sum => task.run(Sum(PhantomData), |sum| sum),
        ReduceOp::Prod => task.run(Product(PhantomData), |product| product),
        ReduceOp::Max => task.run(Maximum(PhantomData), |value| value),
        ReduceOp::Min => task.run(Minimum(PhantomData), |value| value),
        ReduceOp::ArgMax => task.arg_reduce(Maximum(PhantomData)),
        ReduceOp::ArgMin => task.arg_reduce(Minimum(PhantomData)),
        op => Err(Error::dtype(op.name(), "input", x.dtype, "a floating dtype")),
    }
}

fn reduce_float<T: Bounded + Real>(payload: &Reduce, x: &Locked<'_>, y: &Locked<'_>) -> Result<()> {
    if payload.op.is_primitive() {
        return reduce_primitive::<T>(payload, x, y);
    }
    let task = Task::<T>::new(payload, x, y)?;
    let count = T::real(task.plan.reduced as f64);
    match payload.op {
        ReduceOp::Mean => task.run(Sum(PhantomData), |sum| sum.div(count)),
        ReduceOp::SumSquares => task.run(SumSquares(PhantomData), |sum| sum),
        ReduceOp::MaxAbs => task.run(MaxAbs(PhantomData), |value| value),
        ReduceOp::Norm => norm(&task),
        _ => log_sum_exp(&task),
    }
}

/// Computes the root of the sum of squares. If a sum overflows or has lost digits by underflow, the
/// elements are scaled first, by powers of two.
fn norm<T: Bounded + Real>(task: &Task<'_, T>) -> Result<()> {
    let sums = task.reduce(SumSquares(PhantomData), &[]);
    if !sums.iter().any(|sum| sum.is_inexact_sum_of_squares()) {
        return task.write(&sums, |sum| sum.sqrt());
    }
    let largest = task.reduce(MaxAbs(PhantomData), &[]);
    let scales: Vec<T> = largest.into_iter().map(T::power_of_two_below).collect();
    let factors: Vec<T> = scales.iter().map(|&scale| T::ONE.div(scale)).collect();
    let sums = task.reduce(SumScaledSquares(PhantomData), &factors);
    let pairs: Vec<(T, T)> = scales.into_iter().zip(sums).collect();
    task.write(&pairs, |(scale, sum)| sum.sqrt().mul(scale))
}

/// Computes `max + log(sum(e^(x - max)))`. With an infinite maximum, or NaN, the unshifted sum
/// gives the correct result.
fn log_sum_exp<T: Bounded + Real>(task: &Task<'_, T>) -> Result<()> {
    let shift_of = |max: T| if max.sub(max) == T::ZERO { max } else { T::ZERO };
    let shifts: Vec<T> = task.reduce(Maximum(PhantomData), &[]).into_iter().map(shift_of).collect();
    let sums = task.reduce(SumExponentials(PhantomData), &shifts);
    let pairs: Vec<(T, T)> = shifts.into_iter().zip(sums).collect();
    task.write(&pairs, |(shift, sum)| shift.add(sum.log()))
}

/// Reduces bools by "any" (the maximum) or "all" (the minimum).
fn reduce_bool(payload: &Reduce, x: &Locked<'_>, y: &Locked<'_>) -> Result<()> {
    let task = Task::<u8>::new(payload, x, y)?;
    match payload.op {
        ReduceOp::Max => task.run(Maximum(PhantomData), |any| any),
        ReduceOp::Min => task.run(Minimum(PhantomData), |all| u8::from(all != 0)),
        op => Err(Error::dtype(op.name(), "input", DType::Bool, "a number")),
    }
}

/// Supports every floating dtype.
pub(crate) fn select_variance(_: &Variance, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_variance })
}

fn run_variance(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Variance(payload) = op else { return Err(Error::invalid(op.name(), "is not variance")) };
    match inputs[0].dtype {
        DType::F64 => variance::<f64>(payload, &inputs[0], &outputs[0]),
        _ => variance::<f32>(payload, &inputs[0], &outputs[0]),
    }
}

/// Computes the variance in two passes: the mean first. If a sum overflows, both are recomputed in
/// units that keep it far from overflow.
fn variance<T: Real>(payload: &Variance, x: &Locked<'_>, y: &Locked<'_>) -> Result<()> {
    let plan = plan(x, y, payload.axes, ReductionOrder::Memory);
    let task = Task { plan, input: Operand::<T>::new("var", *x)?, output: y };
    let count = T::real(task.plan.reduced as f64);
    let divisor = T::real((task.plan.reduced as f64 - payload.correction).max(0.0));
    let mean_of = |sum: T| sum.div(count);
    let means: Vec<T> = task.reduce(Sum(PhantomData), &[]).into_iter().map(mean_of).collect();
    let squares = task.reduce(SumSquaredDeviations(PhantomData), &means);
    if squares.iter().all(|sum| sum.is_finite()) {
        return task.write(&squares, |sum| sum.div(divisor));
    }
    let means: Vec<T> = task.reduce(SumInUnits(PhantomData), &[]).into_iter().map(mean_of).collect();
    let in_units = task.reduce(SumSquaredDeviationsInUnits(PhantomData), &means);
    let pairs: Vec<(T, T)> = squares.into_iter().zip(in_units).collect();
    task.write(&pairs, |(sum, in_units)| match sum.is_finite() {
        true => sum.div(divisor),
        false => in_units.div(divisor).mul(T::SQUARED_UNIT).mul(T::SQUARED_UNIT),
    })
}
