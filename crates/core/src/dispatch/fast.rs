//! The fast paths for ops with one output: most ops of a training step.

use super::{NewOutput, allocate, checks, general};
use crate::autograd::{self, OutputParts};
use crate::backend::{Buffer, Meta, OutputOrder, Plan, View};
use crate::error::Result;
use crate::op::{Differentiability, Op, Output, Outputs, Role};
use crate::tensor::Tensor;
use crate::{DType, Layout};
use std::sync::Arc;

/// The fastest path, for most ops of most steps: an elementwise op on row-major tensors of one
/// shape, which the backend supports. The output has the layout of the inputs. Returns `None` for
/// all other ops and for all errors, which [`infer_then_run`] handles. This path constructs no
/// shapes and lists, because an addition of two scalars takes only 100 ns.
#[inline(always)]
pub(super) fn elementwise<const N: usize>(op: &Op, inputs: [&Tensor; N]) -> Result<Option<(Buffer, DType)>> {
    let first = inputs[0];
    let (device, layout) = (first.device(), first.layout());
    let same_layout =
        |tensor: &Tensor| Arc::ptr_eq(&tensor.0.layout, &first.0.layout) || tensor.layout() == layout;
    let matches_first = |tensor: &&Tensor| tensor.device().is(device) && same_layout(tensor);
    if !layout.is_row_major() || !inputs[1..].iter().all(matches_first) {
        return Ok(None);
    }
    let metas = inputs.map(Tensor::meta);
    let Some(dtype) = op.rule().elementwise(&metas) else { return Ok(None) };
    debug_assert!(
        op.rule().infer(&metas).is_ok_and(|specs| matches!(
            specs.as_slice(),
            [Output { shape, dtype: inferred, role: Role::Fresh | Role::Reuses(_) }]
                if shape == layout.shape() && *inferred == dtype
        )),
        "{}: what elementwise and infer say differs",
        op.name()
    );
    let backend = device.backend();
    let buffer = plan_allocate_run!(
        backend.plan(op, &metas),
        |_plan| allocate(backend, layout, dtype),
        |buffer| backend.run(op, &inputs.map(Tensor::view), &[View { buffer: &buffer, dtype, layout }]),
        else |_unsupported| return Ok(None),
    );
    Ok(Some((buffer, dtype)))
}

/// Infers the output of an op with at most three inputs, runs the op and records it. The inputs are
/// arrays of fixed length, which cost nothing to construct. (A separate function, because its stack
/// space would slow down [`elementwise`].)
#[inline(never)]
pub(super) fn infer_then_run<const N: usize>(op: Op, inputs: [&Tensor; N]) -> Result<Tensor> {
    let device = inputs[0].device();
    checks::same_device(op.rule(), device, &inputs)?;
    let metas = inputs.map(Tensor::meta);
    // The outputs are borrowed, because to move them takes several nanoseconds.
    match op.rule().infer(&metas) {
        Err(error) => Err(error),
        Ok(ref specs) => match run_single(&op, inputs, &metas, specs)? {
            Some(new) => Ok(record_single(op, &inputs, new)),
            None => general::run_and_record(op, device, &inputs, &metas, specs)
                .map(|mut outputs| outputs.swap_remove(0)),
        },
    }
}

/// Runs an op that the backend supports, with one output in new memory and without expanded inputs.
/// Returns `None` for all other ops, which [`general::run_and_record`] handles. (Constructing the
/// lists of outputs there takes as long as the rest of a small op.)
#[inline(always)]
fn run_single<const N: usize>(
    op: &Op,
    inputs: [&Tensor; N],
    metas: &[Meta<'_>; N],
    specs: &Outputs,
) -> Result<Option<NewOutput>> {
    let [spec @ Output { role: Role::Fresh | Role::Reuses(_), dtype, .. }] = specs.as_slice() else {
        return Ok(None);
    };
    if op.rule().broadcasts() && metas.iter().any(|meta| *meta.shape() != spec.shape) {
        return Ok(None);
    }
    checks::reject_endless(op, metas, spec)?;
    let (backend, dtype) = (inputs[0].device().backend(), *dtype);
    let new = plan_allocate_run!(
        backend.plan(op, metas),
        |plan| {
            let layout = shared_layout(&plan, inputs[0], metas, spec);
            allocate(backend, &layout, dtype).map(|buffer| NewOutput { buffer, layout, dtype })
        },
        |new| {
            let output = View { buffer: &new.buffer, dtype, layout: &new.layout };
            backend.run(op, &inputs.map(Tensor::view), &[output])
        },
        else |_unsupported| return Ok(None),
    );
    Ok(Some(new))
}

/// Returns the layout that the plan requests. It is shared with the first input if that has the
/// same layout.
#[inline]
fn shared_layout(plan: &Plan, first: &Tensor, planned: &[Meta<'_>], spec: &Output) -> Arc<Layout> {
    let has_layout_of_first =
        plan.order == OutputOrder::RowMajor && first.layout().is_row_major() && *first.shape() == spec.shape;
    match has_layout_of_first {
        true => first.0.layout.clone(),
        false => Arc::new(general::planned_layout(plan, planned, 0, spec)),
    }
}

/// Creates the tensor of a new output, with its node in the graph if a gradient is needed.
#[inline(always)]
pub(super) fn record_single(op: Op, inputs: &[&Tensor], new: NewOutput) -> Tensor {
    let NewOutput { buffer, layout, dtype } = new;
    let differentiability = op.rule().differentiability();
    let record = differentiability != Differentiability::NonDifferentiable && autograd::wants_record(inputs);
    let edge = (record && dtype.is_float()).then(|| {
        let output = [OutputParts { buffer: &buffer, layout: &layout, dtype }];
        autograd::edge(op, inputs, &output, differentiability)
    });
    Tensor::with_edge(buffer, layout, dtype, inputs[0].device().clone(), edge)
}
