//! The path for all ops: several outputs, expanded inputs, inputs that are changed in place,
//! compositions.

use super::packed::packed;
use super::{Metas, Tensors, allocate, checks, collect_inline};
use crate::autograd;
use crate::backend::{Meta, OutputOrder, Plan, View};
use crate::error::{Error, Result, with_index_error_op};
use crate::op::{Differentiability, Op, Output, Outputs, Role, Rule};
use crate::precision;
use crate::tensor::Tensor;
use crate::{Device, Layout, Shape};
use smallvec::SmallVec;

/// The inputs' layouts, expanded to one shape.
pub(super) type Layouts = SmallVec<[Layout; 3]>;

/// Runs and records an op whose inputs have been checked.
pub(super) fn run_and_record(
    op: Op,
    device: &Device,
    inputs: &[&Tensor],
    metas: &[Meta<'_>],
    specs: &Outputs,
) -> Result<Tensors> {
    let differentiability = op.rule().differentiability();
    let record = differentiability != Differentiability::NonDifferentiable && autograd::wants_record(inputs);
    checks::reject_recorded_change(&op, inputs, specs)?;
    let outputs = run_or_compose(&op, device, inputs, metas, specs)?;
    for (output, spec) in outputs.iter().zip(specs) {
        if matches!(spec.role, Role::Aliases(_) | Role::Accumulates(_)) {
            output.buffer().bump_version();
        }
    }
    if record { Ok(autograd::record(op, inputs, outputs, differentiability)) } else { Ok(outputs) }
}

/// Runs `op` without recording: on the backend if it supports the op, otherwise by composition.
pub(super) fn run_or_compose(
    op: &Op,
    device: &Device,
    inputs: &[&Tensor],
    metas: &[Meta<'_>],
    specs: &Outputs,
) -> Result<Tensors> {
    let backend = device.backend();
    let expanded = expand(op.rule(), metas, &specs[0].shape)?;
    let with_expanded = expanded.as_ref().map(|layouts| with_layouts(metas, layouts));
    let planned = with_expanded.as_deref().unwrap_or(metas);
    checks::reject_endless(op, planned, &specs[0])?;
    let outputs = plan_allocate_run!(
        backend.plan(op, planned),
        |plan| allocate_all(&plan, device, inputs, planned, specs),
        |outputs| {
            let views: SmallVec<[View<'_>; 2]> = collect_inline(outputs.iter().map(|tensor| tensor.view()));
            backend.run(op, &views_of(inputs, planned), &views)
        },
        else |unsupported| match op.is_primitive() {
            true => {
                return Err(Error::Unsupported {
                    op: op.name(),
                    device: device.name().into(),
                    why: unsupported.why.into_owned(),
                });
            }
            false => return compose(op, inputs),
        },
    );
    Ok(outputs)
}

/// Allocates memory for each output, except for outputs with role `Aliases` or `Accumulates`, which
/// use the buffer of their input.
#[inline]
fn allocate_all(
    plan: &Plan,
    device: &Device,
    inputs: &[&Tensor],
    planned: &[Meta<'_>],
    specs: &Outputs,
) -> Result<Tensors> {
    if let (OutputOrder::LikeEach, Some(outputs)) =
        (plan.order, allocate_packed(device, inputs, planned, specs)?)
    {
        return Ok(outputs);
    }
    let mut outputs = Tensors::new();
    for (index, spec) in specs.iter().enumerate() {
        outputs.push(match spec.role {
            Role::Fresh | Role::Reuses(_) => {
                let layout = planned_layout(plan, planned, index, spec);
                let buffer = allocate(device.backend(), &layout, spec.dtype)?;
                Tensor::from_parts(buffer, layout, spec.dtype, device.clone())
            }
            Role::Aliases(input) | Role::Accumulates(input) => inputs[input].detach(),
        });
    }
    Ok(outputs)
}

/// Allocates all outputs in one buffer if each has the shape and dtype of the input with the same
/// index, and if these inputs are [`packed`] in one buffer.
fn allocate_packed(
    device: &Device,
    inputs: &[&Tensor],
    planned: &[Meta<'_>],
    specs: &Outputs,
) -> Result<Option<Tensors>> {
    let is_like = |(index, spec): (usize, &Output)| {
        let meta = &planned[index];
        spec.role == Role::Fresh
            && (meta.dtype, *meta.shape()) == (spec.dtype, spec.shape)
            && inputs[index].buffer().is(inputs[0].buffer())
    };
    if inputs.len() < specs.len() || !specs.iter().enumerate().all(is_like) {
        return Ok(None);
    }
    let layouts: SmallVec<[&Layout; 3]> = planned[..specs.len()].iter().map(|meta| meta.layout).collect();
    let Some((layouts, elements)) = packed(&layouts) else { return Ok(None) };
    let whole = Layout::row_major(Shape::new(&[elements])?);
    let buffer = allocate(device.backend(), &whole, specs[0].dtype)?;
    let tensor = |(layout, spec): (Layout, &Output)| {
        Tensor::from_parts(buffer.clone(), layout, spec.dtype, device.clone())
    };
    Ok(Some(layouts.into_iter().zip(specs).map(tensor).collect()))
}

/// Runs the composition of `op` without recording: the caller records the op as a whole.
fn compose(op: &Op, inputs: &[&Tensor]) -> Result<Tensors> {
    let detached: SmallVec<[Tensor; 4]> = inputs.iter().map(|tensor| tensor.detach()).collect();
    // Without a precision scope: the composition computes in the dtypes of the op's inputs, which
    // the caller's scope has already cast.
    let run_composition =
        || autograd::no_grad(|| precision::without_precision(|| op.rule().compose(&detached)));
    let outputs = with_index_error_op(op.name(), run_composition)?;
    Ok(outputs.into_iter().map(|tensor| tensor.detach()).collect())
}

/// Returns the layout that the plan requests for output `index`.
#[inline]
pub(super) fn planned_layout(plan: &Plan, planned: &[Meta<'_>], index: usize, spec: &Output) -> Layout {
    let model = match plan.order {
        OutputOrder::Like(input) if index == 0 => planned.get(input),
        OutputOrder::LikeEach => planned.get(index),
        _ => None,
    };
    match model {
        Some(model) if !model.layout.is_contiguous() && *model.shape() == spec.shape => {
            model.layout.dense_like()
        }
        _ => Layout::row_major(spec.shape),
    }
}

/// Returns the inputs' layouts expanded to `shape`; `None` if the op does not broadcast, or if all
/// inputs already have this shape.
#[inline]
pub(super) fn expand(rule: &dyn Rule, metas: &[Meta<'_>], shape: &Shape) -> Result<Option<Layouts>> {
    if !rule.broadcasts() || metas.iter().all(|meta| meta.shape() == shape) {
        return Ok(None);
    }
    metas.iter().map(|meta| meta.layout.expand(shape)).collect::<Result<Layouts>>().map(Some)
}

/// Returns `metas` with `layouts` instead of their layouts.
#[inline]
pub(super) fn with_layouts<'a>(metas: &[Meta<'a>], layouts: &'a Layouts) -> Metas<'a> {
    collect_inline(metas.iter().zip(layouts).map(|(meta, layout)| Meta { dtype: meta.dtype, layout }))
}

/// Returns views of the buffers of `inputs` with dtypes and layouts of `metas`.
#[inline]
pub(super) fn views_of<'a>(inputs: &'a [&Tensor], metas: &[Meta<'a>]) -> SmallVec<[View<'a>; 4]> {
    let view = |(tensor, meta): (&&'a Tensor, &Meta<'a>)| View {
        buffer: tensor.buffer(),
        dtype: meta.dtype,
        layout: meta.layout,
    };
    collect_inline(inputs.iter().zip(metas).map(view))
}
