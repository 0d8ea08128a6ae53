//! From an op and its inputs to outputs: shape rule, plan, allocation, run or composition, and the record for backward.

use crate::autograd::{self, Parts};
use crate::backend::{Buffer, Meta, OutputOrder, Plan, View};
use crate::error::{Error, Result, index_told_as};
use crate::observe;
use crate::op::{Differentiability, Op, Output, Outputs, Role, Rule};
use crate::precision::{self, Precision};
use crate::tensor::Tensor;
use crate::{DType, Device, Layout};
use smallvec::SmallVec;
use std::sync::Arc;

/// The outputs of an op.
pub type Tensors = SmallVec<[Tensor; 1]>;

/// Runs `$body` with `$element` naming the host type of `$dtype`.
macro_rules! with_element {
    ($dtype:expr, $element:ident => $body:expr) => {
        match $dtype {
            $crate::DType::F64 => {
                type $element = f64;
                $body
            }
            $crate::DType::F32 => {
                type $element = f32;
                $body
            }
            $crate::DType::F16 => {
                type $element = half::f16;
                $body
            }
            $crate::DType::BF16 => {
                type $element = half::bf16;
                $body
            }
            $crate::DType::I64 => {
                type $element = i64;
                $body
            }
            $crate::DType::I32 => {
                type $element = i32;
                $body
            }
            $crate::DType::I16 => {
                type $element = i16;
                $body
            }
            $crate::DType::I8 => {
                type $element = i8;
                $body
            }
            $crate::DType::U8 => {
                type $element = u8;
                $body
            }
            $crate::DType::Bool => {
                type $element = bool;
                $body
            }
        }
    };
}
pub(crate) use with_element;

type Layouts = SmallVec<[Layout; 3]>;
type Metas<'a> = SmallVec<[Meta<'a>; 4]>;

/// The items in order. (`collect` is a call for each list, which is dear when an op adds two numbers.)
#[inline(always)]
fn listed<A: smallvec::Array>(items: impl Iterator<Item = A::Item>) -> SmallVec<A> {
    let mut list = SmallVec::new();
    for item in items {
        list.push(item);
    }
    list
}

/// Runs `op` on `inputs` (at least one), and records it if a gradient is wanted.
///
/// # Errors
/// What the op rejects, tensors on different devices, no memory.
pub fn apply(op: impl Into<Op>, inputs: &[&Tensor]) -> Result<Tensors> {
    let op = op.into();
    let Some(first) = inputs.first() else {
        return Err(Error::invalid(op.name(), "expected at least 1 input; use apply_on to name a device"));
    };
    apply_on(op, first.device(), inputs)
}

/// As [`apply`], for ops with one output or whose other outputs are not wanted.
///
/// # Errors
/// As [`apply`].
#[inline]
pub fn apply_one(op: impl Into<Op>, inputs: &[&Tensor]) -> Result<Tensor> {
    one(op.into(), inputs)
}

fn one(op: Op, inputs: &[&Tensor]) -> Result<Tensor> {
    match precision::current() {
        None => one_as_it_is(op, inputs),
        Some(scope) => scoped(scope, op, inputs, one_as_it_is),
    }
}

/// Applies `op`, by `apply`, as a scope of mixed precision has it.
#[inline(never)]
fn scoped<T>(
    scope: Precision,
    op: Op,
    inputs: &[&Tensor],
    apply: impl FnOnce(Op, &[&Tensor]) -> Result<T>,
) -> Result<T> {
    match precision::prepared(scope, &op, inputs)? {
        None => apply(op, inputs),
        Some(prepared) => {
            let inputs: SmallVec<[&Tensor; 4]> = listed(prepared.inputs.iter());
            apply(prepared.op, &inputs)
        }
    }
}

fn one_as_it_is(op: Op, inputs: &[&Tensor]) -> Result<Tensor> {
    if observe::is_watched() {
        let told = op.clone();
        return observe::told(&told, inputs, || one_as_it_is(op, inputs), std::slice::from_ref);
    }
    let taken = match *inputs {
        [a] => elementwise(&op, [a])?,
        [a, b] => elementwise(&op, [a, b])?,
        [a, b, c] => elementwise(&op, [a, b, c])?,
        _ => None,
    };
    if let Some((buffer, dtype)) = taken {
        let layout = inputs[0].0.layout.clone();
        return Ok(recorded(op, inputs, Formed { buffer, layout, dtype }));
    }
    match *inputs {
        [a] => inferred(op, [a]),
        [a, b] => inferred(op, [a, b]),
        [a, b, c] => inferred(op, [a, b, c]),
        _ => on_as_it_is(op, inputs[0].device(), inputs).map(|mut outputs| outputs.swap_remove(0)),
    }
}

/// As [`one`], for an op of few inputs whose output its rule infers. Lists of a known length take no time to form. (Apart from the short way, which
/// room for all this on the stack would make longer.)
#[inline(never)]
fn inferred<const N: usize>(op: Op, inputs: [&Tensor; N]) -> Result<Tensor> {
    let device = inputs[0].device();
    same_device(op.rule(), device, &inputs)?;
    let metas = inputs.map(Tensor::meta);
    let specs = op.rule().infer(&metas)?;
    match single(&op, inputs, &metas, &specs)? {
        Some(formed) => Ok(recorded(op, &inputs, formed)),
        None => finish(op, device, &inputs, &metas, &specs).map(|mut outputs| outputs.swap_remove(0)),
    }
}

/// The tensor that was formed, with its place in the graph if a gradient is wanted.
#[inline(always)]
fn recorded(op: Op, inputs: &[&Tensor], formed: Formed) -> Tensor {
    let Formed { buffer, layout, dtype } = formed;
    let differentiability = op.rule().differentiability();
    let record = differentiability != Differentiability::NonDifferentiable && autograd::wants_record(inputs);
    let edge = (record && dtype.is_float()).then(|| {
        let output = [Parts { buffer: &buffer, layout: &layout, dtype }];
        autograd::edge(op, inputs, &output, differentiability)
    });
    Tensor::with_edge(buffer, layout, dtype, inputs[0].device().clone(), edge)
}

/// An op's only output, before it is a tensor.
struct Formed {
    buffer: Buffer,
    layout: Arc<Layout>,
    dtype: DType,
}

/// The short way, which most ops of most steps take: an elementwise op on dense tensors of one shape, that the backend runs itself. The
/// output has the layout of the inputs. `None` sends all others, and all that is wrong, on the long way. Each shape or list that is
/// not formed here counts: an addition of two numbers is over in 100 ns.
#[inline(always)]
fn elementwise<const N: usize>(op: &Op, inputs: [&Tensor; N]) -> Result<Option<(Buffer, DType)>> {
    let first = inputs[0];
    let (device, layout) = (first.device(), first.layout());
    let same_layout =
        |tensor: &Tensor| Arc::ptr_eq(&tensor.0.layout, &first.0.layout) || tensor.layout() == layout;
    let alike = |tensor: &&Tensor| tensor.device().is(device) && same_layout(tensor);
    if !layout.is_row_major() || !inputs[1..].iter().all(alike) {
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
    let (Ok(_), Some(bytes)) = (backend.plan(op, &metas), dtype.bytes_for(layout.elements())) else {
        return Ok(None);
    };
    let buffer = backend.alloc(bytes)?;
    crate::capture::note_made(&buffer);
    backend.run(op, &inputs.map(Tensor::view), &[View { buffer: &buffer, dtype, layout }])?;
    Ok(Some((buffer, dtype)))
}

/// The middle way: an op with one output in new memory, none of whose inputs is expanded, and which the backend runs itself. `None` leaves all
/// others to [`finish`], whose lists of outputs take as long to form as the rest of a small op.
#[inline(always)]
fn single<const N: usize>(
    op: &Op,
    inputs: [&Tensor; N],
    metas: &[Meta<'_>; N],
    specs: &Outputs,
) -> Result<Option<Formed>> {
    let [spec @ Output { role: Role::Fresh | Role::Reuses(_), dtype, .. }] = specs.as_slice() else {
        return Ok(None);
    };
    if op.rule().broadcasts() && metas.iter().any(|meta| *meta.shape() != spec.shape) {
        return Ok(None);
    }
    refuse_endless(op, metas, spec)?;
    let backend = inputs[0].device().backend();
    let Ok(plan) = backend.plan(op, metas) else { return Ok(None) };
    let layout = shared_layout(&plan, inputs[0], metas, spec);
    let buffer = backend.alloc(bytes_of(spec)?)?;
    crate::capture::note_made(&buffer);
    backend.run(
        op,
        &inputs.map(Tensor::view),
        &[View { buffer: &buffer, dtype: *dtype, layout: &layout }],
    )?;
    Ok(Some(Formed { buffer, layout, dtype: *dtype }))
}

/// As [`apply`], on a device that is named: for ops without inputs.
///
/// # Errors
/// As [`apply`].
pub fn apply_on(op: impl Into<Op>, device: &Device, inputs: &[&Tensor]) -> Result<Tensors> {
    let op = op.into();
    match precision::current() {
        None => on_as_it_is(op, device, inputs),
        Some(scope) => scoped(scope, op, inputs, |op, inputs| on_as_it_is(op, device, inputs)),
    }
}

fn on_as_it_is(op: Op, device: &Device, inputs: &[&Tensor]) -> Result<Tensors> {
    if observe::is_watched() {
        let told = op.clone();
        return observe::told(&told, inputs, || on_as_it_is(op, device, inputs), |outputs| outputs);
    }
    let rule = op.rule();
    same_device(rule, device, inputs)?;
    let metas: Metas<'_> = listed(inputs.iter().map(|tensor| tensor.meta()));
    let specs = rule.infer(&metas)?;
    finish(op, device, inputs, &metas, &specs)
}

/// Runs and records an op whose inputs have been checked.
fn finish(
    op: Op,
    device: &Device,
    inputs: &[&Tensor],
    metas: &[Meta<'_>],
    specs: &Outputs,
) -> Result<Tensors> {
    let differentiability = op.rule().differentiability();
    let record = differentiability != Differentiability::NonDifferentiable && autograd::wants_record(inputs);
    refuse_recorded_change(&op, inputs, specs)?;
    let outputs = execute(&op, device, inputs, metas, specs)?;
    for (output, spec) in outputs.iter().zip(specs) {
        if matches!(spec.role, Role::Aliases(_) | Role::Accumulates(_)) {
            output.buffer().bump_version();
        }
    }
    if record { Ok(autograd::record(op, inputs, outputs, differentiability)) } else { Ok(outputs) }
}

#[inline]
fn same_device(rule: &dyn Rule, device: &Device, inputs: &[&Tensor]) -> Result<()> {
    match inputs.iter().find(|tensor| !tensor.device().is(device)) {
        None => Ok(()),
        Some(other) => Err(Error::DeviceMismatch {
            op: rule.name(),
            left: device.name().into(),
            right: other.device().name().into(),
        }),
    }
}

/// Runs `op` on `inputs` and puts its (first and only) output into `destination`, in place. Never recorded.
///
/// Inputs that share memory with `destination` in any other way than being exactly it, for an op that has an in-place form, are copied first.
///
/// # Errors
/// What the op rejects; a destination of another shape or dtype, or that overlaps itself; a destination that is part of a recorded graph, or an
/// input that needs a gradient, while gradients are recorded.
pub fn apply_into(op: impl Into<Op>, inputs: &[&Tensor], destination: &Tensor) -> Result<()> {
    let op = op.into();
    if observe::is_watched() {
        let told = op.clone();
        let apply = || apply_into(op, inputs, destination).map(|()| destination.clone());
        return observe::told(&told, inputs, apply, std::slice::from_ref).map(drop);
    }
    let name = op.name();
    let device = destination.device();
    same_device(op.rule(), device, inputs)?;
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
    let separate: SmallVec<[Option<Tensor>; 3]> = inputs
        .iter()
        .map(|tensor| {
            match tensor.buffer().is(destination.buffer()) && !tensor.view().is(&destination.view()) {
                true => autograd::no_grad(|| tensor.copy()).map(Some),
                false => Ok(None),
            }
        })
        .collect::<Result<_>>()?;
    let inputs: SmallVec<[&Tensor; 3]> =
        inputs.iter().zip(&separate).map(|(&tensor, copy)| copy.as_ref().unwrap_or(tensor)).collect();
    let metas: Metas<'_> = listed(inputs.iter().map(|tensor| tensor.meta()));
    let specs = op.rule().infer(&metas)?;
    let spec = single_output(name, &specs)?;
    // A copy may broadcast into its destination; everything else must have the destination's shape.
    let shape = if matches!(op, Op::Copy(_)) && spec.shape.broadcasts_to(destination.shape()) {
        *destination.shape()
    } else {
        spec.shape
    };
    if shape != *destination.shape() {
        return Err(Error::Shape {
            op: name,
            what: "destination",
            got: Box::new(*destination.shape()),
            expected: Box::new(shape),
        });
    }
    if spec.dtype != destination.dtype() {
        return Err(Error::dtype(name, "destination", destination.dtype(), spec.dtype));
    }
    run_into(&op, &inputs, &metas, spec, destination)?;
    destination.buffer().bump_version();
    Ok(())
}

fn single_output(name: &'static str, specs: &Outputs) -> Result<Output> {
    match specs.as_slice() {
        [spec] if matches!(spec.role, Role::Fresh | Role::Reuses(_)) => Ok(*spec),
        _ => Err(Error::invalid(name, "has no form that writes into a destination")),
    }
}

fn run_into(
    op: &Op,
    inputs: &[&Tensor],
    metas: &[Meta<'_>],
    spec: Output,
    destination: &Tensor,
) -> Result<()> {
    let backend = destination.device().backend();
    let expanded = expand(op.rule(), metas, destination.layout().shape())?;
    let as_expanded = expanded.as_ref().map(|layouts| metas_of(metas, layouts));
    let planned = as_expanded.as_deref().unwrap_or(metas);
    let in_place = inputs.iter().position(|tensor| tensor.view().is(&destination.view()));
    let allowed = match (in_place, spec.role) {
        (None, _) => true,
        (Some(index), Role::Reuses(reused)) => index == reused || op.rule().broadcasts(),
        (Some(_), _) => false,
    };
    if allowed && backend.plan(op, planned).is_ok() {
        let views = views_of(inputs, planned);
        return backend.run(op, &views, &[destination.view()]);
    }
    // No such kernel, or it would read what it has already written: form the result apart, then copy it.
    let result =
        autograd::no_grad(|| execute(op, destination.device(), inputs, metas, &Outputs::from_buf([spec])))?;
    let copy = Op::Copy(crate::ops::copy::Copy { dtype: destination.dtype() });
    let layout = result[0].layout().expand(destination.shape())?;
    backend.run(&copy, &[View { layout: &layout, ..result[0].view() }], &[destination.view()])
}

/// Ops that always change an input are refused while its change would be recorded.
fn refuse_recorded_change(op: &Op, inputs: &[&Tensor], specs: &Outputs) -> Result<()> {
    if !specs.iter().any(|spec| matches!(spec.role, Role::Aliases(_) | Role::Accumulates(_))) {
        return Ok(());
    }
    // Sorted, as an optimiser's step may have hundreds of inputs: comparing each with each would take longer than the step.
    let mut addresses: SmallVec<[usize; 8]> = listed(inputs.iter().map(|tensor| tensor.buffer().address()));
    addresses.sort_unstable();
    let has_double = |tensor: &Tensor| {
        let address = tensor.buffer().address();
        let first = addresses.partition_point(|&other| other < address);
        addresses.get(first + 1) == Some(&address)
    };
    for spec in specs {
        let (Role::Aliases(index) | Role::Accumulates(index)) = spec.role else { continue };
        if autograd::is_recording() && inputs.iter().any(|tensor| tensor.needs_grad()) {
            return Err(Error::autograd(format!(
                "{} changes its input {index} in place: run it in no_grad",
                op.name()
            )));
        }
        let target = inputs[index];
        if target.layout().overlaps_itself() {
            return Err(Error::invalid(
                op.name(),
                format!("in place on a tensor of shape {:?} whose elements share memory", target.shape()),
            ));
        }
        let shared = has_double(target)
            && inputs.iter().enumerate().any(|(other, tensor)| {
                other != index && tensor.buffer().is(target.buffer()) && overlap(tensor, target)
            });
        if shared {
            return Err(Error::invalid(
                op.name(),
                format!("input {index} is changed in place and shares memory with another input"),
            ));
        }
    }
    Ok(())
}

/// Whether the ranges of two tensors on one buffer meet. (May say yes to interleaved views that do not.)
fn overlap(left: &Tensor, right: &Tensor) -> bool {
    let range = |tensor: &Tensor| {
        let (low, high) = tensor.layout().bounds().unwrap_or((0, usize::MAX - 1));
        let size = tensor.dtype().size();
        (low.saturating_mul(size), (high + 1).saturating_mul(size))
    };
    let ((a, b), (c, d)) = (range(left), range(right));
    left.elements() > 0 && right.elements() > 0 && a < d && c < b
}

/// No memory holds more elements (17 TB, a byte each), and no op is done with them within hours.
const MOST_ELEMENTS: usize = 1 << 44;

/// Ops that would read an expanded view element by element for days, or copy it, to form a result that memory does hold. (For one that it does
/// not hold, the allocation fails.)
#[inline]
fn refuse_endless(op: &Op, inputs: &[Meta<'_>], output: &Output) -> Result<()> {
    match inputs.iter().find(|input| input.layout.elements() > MOST_ELEMENTS) {
        Some(input) if output.shape.elements() <= MOST_ELEMENTS => Err(Error::invalid(
            op.name(),
            format!(
                "input of shape {:?}, an expanded view, has more elements than an op can read",
                input.shape()
            ),
        )),
        _ => Ok(()),
    }
}

/// The layout that the plan wants for output `index`.
#[inline]
fn layout_of(plan: &Plan, planned: &[Meta<'_>], index: usize, spec: &Output) -> Layout {
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

/// As [`layout_of`], shared with the first input where it has just that layout.
#[inline]
fn shared_layout(plan: &Plan, first: &Tensor, planned: &[Meta<'_>], spec: &Output) -> Arc<Layout> {
    let is_that_of_first =
        plan.order == OutputOrder::RowMajor && first.layout().is_row_major() && *first.shape() == spec.shape;
    if is_that_of_first { first.0.layout.clone() } else { Arc::new(layout_of(plan, planned, 0, spec)) }
}

/// Runs `op` without recording: by the backend if it plans it, else by composition.
fn execute(
    op: &Op,
    device: &Device,
    inputs: &[&Tensor],
    metas: &[Meta<'_>],
    specs: &Outputs,
) -> Result<Tensors> {
    let backend = device.backend();
    let expanded = expand(op.rule(), metas, &specs[0].shape)?;
    let as_expanded = expanded.as_ref().map(|layouts| metas_of(metas, layouts));
    let planned = as_expanded.as_deref().unwrap_or(metas);
    refuse_endless(op, planned, &specs[0])?;
    let plan = match backend.plan(op, planned) {
        Ok(plan) => plan,
        Err(unsupported) if op.is_primitive() => {
            return Err(Error::Unsupported {
                op: op.name(),
                device: device.name().into(),
                why: unsupported.why.into_owned(),
            });
        }
        Err(_) => return compose(op, inputs),
    };
    let mut outputs = Tensors::new();
    for (index, spec) in specs.iter().enumerate() {
        outputs.push(match spec.role {
            Role::Fresh | Role::Reuses(_) => allocate(device, spec, layout_of(&plan, planned, index, spec))?,
            Role::Aliases(input) | Role::Accumulates(input) => inputs[input].detach(),
        });
    }
    let views = views_of(inputs, planned);
    {
        let output_views: SmallVec<[View<'_>; 2]> = listed(outputs.iter().map(|tensor| tensor.view()));
        backend.run(op, &views, &output_views)?;
    }
    Ok(outputs)
}

#[inline]
fn allocate(device: &Device, spec: &Output, layout: Layout) -> Result<Tensor> {
    let buffer = device.backend().alloc(bytes_of(spec)?)?;
    crate::capture::note_made(&buffer);
    Ok(Tensor::from_parts(buffer, layout, spec.dtype, device.clone()))
}

/// The bytes of an output.
#[inline]
fn bytes_of(spec: &Output) -> Result<usize> {
    spec.dtype
        .bytes_for(spec.shape.elements())
        .ok_or_else(|| Error::invalid("alloc", format!("shape {:?} is too large", spec.shape)))
}

/// Runs the composition of `op`, unrecorded: the caller records the op as a whole.
fn compose(op: &Op, inputs: &[&Tensor]) -> Result<Tensors> {
    let detached: SmallVec<[Tensor; 4]> = inputs.iter().map(|tensor| tensor.detach()).collect();
    // In the dtypes that the op got, whatever scope of precision it was called in.
    let composed = || autograd::no_grad(|| precision::without_precision(|| op.rule().compose(&detached)));
    let outputs = index_told_as(op.name(), composed)?;
    Ok(outputs.into_iter().map(|tensor| tensor.detach()).collect())
}

/// The inputs' layouts expanded to `shape`, if the op broadcasts and any differs from it.
#[inline]
fn expand(rule: &dyn Rule, metas: &[Meta<'_>], shape: &crate::Shape) -> Result<Option<Layouts>> {
    if !rule.broadcasts() || metas.iter().all(|meta| meta.shape() == shape) {
        return Ok(None);
    }
    metas.iter().map(|meta| meta.layout.expand(shape)).collect::<Result<Layouts>>().map(Some)
}

#[inline]
fn metas_of<'a>(metas: &[Meta<'a>], layouts: &'a Layouts) -> Metas<'a> {
    listed(metas.iter().zip(layouts).map(|(meta, layout)| Meta { dtype: meta.dtype, layout }))
}

#[inline]
fn views_of<'a>(inputs: &'a [&Tensor], metas: &[Meta<'a>]) -> SmallVec<[View<'a>; 4]> {
    let view = |(tensor, meta): (&&'a Tensor, &Meta<'a>)| View {
        buffer: tensor.buffer(),
        dtype: meta.dtype,
        layout: meta.layout,
    };
    listed(inputs.iter().zip(metas).map(view))
}
