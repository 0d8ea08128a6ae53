//! The norm of all elements of many tensors. The tensors are processed one after another, each by
//! all threads.

use super::engine::merge;
use super::reducers::{MaxAbs, Reducer, SumScaledSquares, SumSquares};
use super::{Bounded, Task, plan};
use crate::access::Locked;
use crate::elementwise::Operand;
use crate::kernel::Variant;
use crate::number::Real;
use std::marker::PhantomData;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::geometry::ReductionOrder;
use ternion_core::{AxisSet, DType, Op, Result};

/// Supports every floating dtype.
pub(crate) fn select_multi_tensor_norm(inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    let run = match inputs[0].dtype {
        DType::F64 => run_norm::<f64>,
        _ => run_norm::<f32>,
    };
    Ok(Variant { plan: Plan::ROW_MAJOR, run })
}

/// Computes the root of the sum of squares. If that overflows or has lost digits by underflow, the
/// elements are scaled first, by a power of two.
fn run_norm<T: Bounded + Real>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let tasks =
        inputs.iter().map(|x| full_reduction::<T>(op.name(), x, &outputs[0])).collect::<Result<Vec<_>>>()?;
    let sum = reduce_all(&tasks, SumSquares(PhantomData), &[]);
    if !sum.is_inexact_sum_of_squares() {
        return tasks[0].write(&[sum], |sum| sum.sqrt());
    }
    let scale = reduce_all(&tasks, MaxAbs(PhantomData), &[]).power_of_two_below();
    let sum = reduce_all(&tasks, SumScaledSquares(PhantomData), &[T::ONE.div(scale)]);
    tasks[0].write(&[sum], |sum| sum.sqrt().mul(scale))
}

/// Returns the reduction of all elements of `x`, in memory order.
fn full_reduction<'a, T: Real>(op: &'static str, x: &Locked<'a>, y: &'a Locked<'a>) -> Result<Task<'a, T>> {
    let plan = plan(x, y, AxisSet::first(x.layout.shape().rank()), ReductionOrder::Memory);
    Ok(Task { plan, input: Operand::new(op, *x)?, output: y })
}

/// Reduces the elements of all tasks by `reducer`.
fn reduce_all<T: Real, R: Reducer<In = T, Acc = T>>(tasks: &[Task<'_, T>], reducer: R, shifts: &[T]) -> T {
    let results = tasks.iter().flat_map(|task| task.reduce(reducer, shifts)).collect();
    merge(reducer, results, 1)[0]
}
