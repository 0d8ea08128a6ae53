//! In-place ops, whose result is written to an existing tensor.

use super::{Metas, checks, collect_inline, general};
use crate::autograd;
use crate::backend::{Meta, View};
use crate::error::{Error, Result};
use crate::observe;
use crate::op::{Op, Output, Outputs, Role};
use crate::ops::copy::Copy;
use crate::tensor::Tensor;
use smallvec::SmallVec;

/// Runs `op` on `inputs` and writes its only output to `destination`, in place. Never recorded.
///
/// Inputs that share memory with `destination` but are not the identical view are copied first. If
/// an input is the identical view, and the op would read elements that it has already written, the
/// result is computed in separate memory and copied.
///
/// # Errors
/// Returns an error if the op rejects the inputs, if the destination has another shape or dtype or
/// overlaps itself, or if gradients are recorded and the destination is part of a recorded graph or
/// an input needs a gradient.
pub fn apply_into(op: impl Into<Op>, inputs: &[&Tensor], destination: &Tensor) -> Result<()> {
    let op = op.into();
    if observe::is_observed() {
        let observed_op = op.clone();
        let apply = || apply_into(op, inputs, destination).map(|()| destination.clone());
        return observe::apply_observed(&observed_op, inputs, apply, std::slice::from_ref).map(drop);
    }
    checks::same_device(op.rule(), destination.device(), inputs)?;
    check_destination(op.name(), inputs, destination)?;
    let copies: SmallVec<[Option<Tensor>; 3]> =
        inputs.iter().map(|tensor| copy_if_shared(tensor, destination)).collect::<Result<_>>()?;
    let inputs: SmallVec<[&Tensor; 3]> =
        inputs.iter().zip(&copies).map(|(&tensor, copy)| copy.as_ref().unwrap_or(tensor)).collect();
    let metas: Metas<'_> = collect_inline(inputs.iter().map(|tensor| tensor.meta()));
    let specs = op.rule().infer(&metas)?;
    let spec = expect_single_output(op.name(), &specs)?;
    check_output(&op, spec, destination)?;
    run_into(&op, &inputs, &metas, spec, destination)?;
    destination.buffer().bump_version();
    Ok(())
}

/// Checks that no gradient is lost by writing to `destination`, and that its elements do not
/// overlap in memory.
fn check_destination(name: &'static str, inputs: &[&Tensor], destination: &Tensor) -> Result<()> {
    if autograd::is_recording()
        && (destination.needs_grad() || inputs.iter().any(|tensor| tensor.needs_grad()))
    {
        return Err(Error::invalid(
            name,
            "in place: a gradient would be lost; use the form that returns a new tensor, detach, or no_grad",
        ));
    }
    if destination.layout().overlaps_itself() {
        return Err(Error::invalid(
            name,
            format!(
                "in place on a tensor of shape {:?} whose elements share memory; copy it first",
                destination.shape()
            ),
        ));
    }
    Ok(())
}

/// Copies `tensor` if it shares memory with `destination` and is not the identical view.
fn copy_if_shared(tensor: &Tensor, destination: &Tensor) -> Result<Option<Tensor>> {
    match tensor.buffer().is(destination.buffer()) && !tensor.view().is(&destination.view()) {
        true => autograd::no_grad(|| tensor.copy()).map(Some),
        false => Ok(None),
    }
}

fn expect_single_output(name: &'static str, specs: &Outputs) -> Result<Output> {
    match specs.as_slice() {
        [spec] if matches!(spec.role, Role::Fresh | Role::Reuses(_)) => Ok(*spec),
        _ => Err(Error::invalid(name, "has no form that writes into a destination")),
    }
}

/// Checks that the output has the destination's shape and dtype.
fn check_output(op: &Op, spec: Output, destination: &Tensor) -> Result<()> {
    // A copy may broadcast to its destination; all other outputs must have the destination's shape.
    let shape = if matches!(op, Op::Copy(_)) && spec.shape.broadcasts_to(destination.shape()) {
        *destination.shape()
    } else {
        spec.shape
    };
    if shape != *destination.shape() {
        return Err(Error::Shape {
            op: op.name(),
            what: "destination",
            got: Box::new(*destination.shape()),
            expected: Box::new(shape),
        });
    }
    if spec.dtype != destination.dtype() {
        return Err(Error::dtype(op.name(), "destination", destination.dtype(), spec.dtype));
    }
    Ok(())
}

fn run_into(
    op: &Op,
    inputs: &[&Tensor],
    metas: &[Meta<'_>],
    spec: Output,
    destination: &Tensor,
) -> Result<()> {
    let backend = destination.device().backend();
    let expanded = general::expand(op.rule(), metas, destination.layout().shape())?;
    let with_expanded = expanded.as_ref().map(|layouts| general::with_layouts(metas, layouts));
    let planned = with_expanded.as_deref().unwrap_or(metas);
    // An input that is the same view as the destination is read while the destination is written.
    // The op must permit this for each such input.
    let may_be_destination = |index: usize| match spec.role {
        Role::Reuses(reused) => index == reused || op.rule().broadcasts(),
        _ => false,
    };
    let destination_view = destination.view();
    let can_run_in_place = inputs
        .iter()
        .enumerate()
        .all(|(index, tensor)| !tensor.view().is(&destination_view) || may_be_destination(index));
    if can_run_in_place {
        plan_allocate_run!(
            backend.plan(op, planned),
            |_plan| Ok::<_, Error>(destination.view()),
            |output| backend.run(op, &general::views_of(inputs, planned), &[output]),
            else |_unsupported| return compute_and_copy(op, inputs, metas, spec, destination),
        );
        return Ok(());
    }
    compute_and_copy(op, inputs, metas, spec, destination)
}

/// Computes the result in separate memory, then copies it to `destination`. Used for an op without
/// a kernel, or if the op would read elements that it has already written.
fn compute_and_copy(
    op: &Op,
    inputs: &[&Tensor],
    metas: &[Meta<'_>],
    spec: Output,
    destination: &Tensor,
) -> Result<()> {
    let specs = Outputs::from_buf([spec]);
    let compute = || general::run_or_compose(op, destination.device(), inputs, metas, &specs);
    let result = autograd::no_grad(compute)?;
    let layout = result[0].layout().expand(destination.shape())?;
    let copy = Op::Copy(Copy { dtype: destination.dtype() });
    let backend = destination.device().backend();
    backend.run(&copy, &[View { layout: &layout, ..result[0].view() }], &[destination.view()])
}
