//! The path from an op and its inputs to its outputs: shape rule, plan, allocation, run or
//! composition, and recording for the backward pass.
//!
//! ```text
//! apply_one                        apply, apply_on                  apply_into
//!    |                                    |                             |
//!    |   autocast_then: casts, in a       |                             |
//!    |   precision scope                  |                             |
//!    v                                    v                             |
//! dispatch_one                       dispatch_on                        |
//!    |   observe::apply_observed, while   |                             |
//!    |   there are observers              |                             |
//!    v                                    v                             v
//! fast::elementwise                  Rule::infer                   Rule::infer
//!    |  row-major, of one shape:          |                             |
//!    |  nothing is inferred               |                             |
//!    | else                               |                             |
//!    v                                    v                             v
//! fast::infer_then_run  - else ->  general::run_and_record    in_place::run_into
//!    |  one new output,                   |                             |
//!    |  nothing is expanded               |                             |
//!    v                                    v                             v
//!  . . . . . . . plan_allocate_run: the sequence that all of them share . . . . .
//!    |                                    |  no kernel: Rule::compose   |  no kernel:
//!    v                                    v                             v  compute, copy
//! fast::record_single              autograd::record                (no record)
//! ```
//!
//! The fast paths compute the same as the general path and only avoid its intermediate values: an
//! addition of two scalars takes about 100 ns, in which each shape or list is measurable. `checks`
//! rejects calls that no path may run.

/// The sequence that all paths share: the backend plans the op, its outputs are allocated as the
/// plan requests, and the backend fills them. The `else` arm handles an op that the backend does
/// not support; nothing has been allocated in this case. This is a macro because the code must be
/// part of the enclosing function: calling closures to allocate and run would cost 30 ns, a fifth
/// of a small op.
macro_rules! plan_allocate_run {
    (
        $backend:ident.plan($op:expr, $inputs:expr),
        |$plan:ident| $allocate:expr,
        |$outputs:ident| $run:expr,
        else |$unsupported:ident| $otherwise:expr $(,)?
    ) => {
        match $backend.plan($op, $inputs) {
            Ok($plan) => {
                let $outputs = $allocate?;
                $run?;
                $outputs
            }
            Err($unsupported) => $otherwise,
        }
    };
}

mod checks;
mod fast;
mod general;
mod in_place;
mod packed;

pub use in_place::apply_into;

use crate::backend::{Backend, Buffer, Meta};
use crate::error::{Error, Result};
use crate::observe;
use crate::op::Op;
use crate::precision::{self, Precision};
use crate::tensor::Tensor;
use crate::{DType, Device, Layout, Shape};
use smallvec::SmallVec;
use std::sync::Arc;

/// The outputs of an op.
pub type Tensors = SmallVec<[Tensor; 1]>;

type Metas<'a> = SmallVec<[Meta<'a>; 4]>;

/// Collects the items in order. (`collect` is not inlined, and a call per list is expensive for an
/// op that adds two scalars.)
#[inline(always)]
fn collect_inline<A: smallvec::Array>(items: impl Iterator<Item = A::Item>) -> SmallVec<A> {
    let mut list = SmallVec::new();
    for item in items {
        list.push(item);
    }
    list
}

/// Runs `op` on `inputs` (at least one), and records it if a gradient is needed.
///
/// # Errors
/// Returns an error if the op rejects the inputs, if tensors are on different devices, or if there
/// is not enough memory.
pub fn apply(op: impl Into<Op>, inputs: &[&Tensor]) -> Result<Tensors> {
    let op = op.into();
    let Some(first) = inputs.first() else { return Err(no_inputs(&op)) };
    apply_on(op, first.device(), inputs)
}

#[cold]
fn no_inputs(op: &Op) -> Error {
    Error::invalid(op.name(), "expected at least 1 input; use apply_on to name a device")
}

/// Same as [`apply`], on an explicit device: for ops without inputs.
///
/// # Errors
/// Same as [`apply`].
pub fn apply_on(op: impl Into<Op>, device: &Device, inputs: &[&Tensor]) -> Result<Tensors> {
    let op = op.into();
    match precision::current() {
        None => dispatch_on(op, device, inputs),
        Some(scope) => autocast_then(scope, op, inputs, |op, inputs| dispatch_on(op, device, inputs)),
    }
}

/// Same as [`apply`], for ops with one output, or whose other outputs are not needed.
///
/// # Errors
/// Same as [`apply`].
#[inline]
pub fn apply_one(op: impl Into<Op>, inputs: &[&Tensor]) -> Result<Tensor> {
    autocast_then_dispatch_one(op.into(), inputs)
}

fn autocast_then_dispatch_one(op: Op, inputs: &[&Tensor]) -> Result<Tensor> {
    match precision::current() {
        None => dispatch_one(op, inputs),
        Some(scope) => autocast_then(scope, op, inputs, dispatch_one),
    }
}

/// Casts the inputs as the precision scope requires, then applies `op` to them with `apply`.
#[inline(never)]
fn autocast_then<T>(
    scope: Precision,
    op: Op,
    inputs: &[&Tensor],
    apply: impl FnOnce(Op, &[&Tensor]) -> Result<T>,
) -> Result<T> {
    match precision::prepared(scope, &op, inputs)? {
        None => apply(op, inputs),
        Some(prepared) => {
            let inputs: SmallVec<[&Tensor; 4]> = collect_inline(prepared.inputs.iter());
            apply(prepared.op, &inputs)
        }
    }
}

/// Dispatches an op of which the caller needs only the first output.
fn dispatch_one(op: Op, inputs: &[&Tensor]) -> Result<Tensor> {
    if observe::is_observed() {
        let observed_op = op.clone();
        return observe::apply_observed(
            &observed_op,
            inputs,
            || dispatch_one(op, inputs),
            std::slice::from_ref,
        );
    }
    let elementwise_output = match *inputs {
        [a] => fast::elementwise(&op, [a])?,
        [a, b] => fast::elementwise(&op, [a, b])?,
        [a, b, c] => fast::elementwise(&op, [a, b, c])?,
        _ => None,
    };
    if let Some((buffer, dtype)) = elementwise_output {
        let layout = inputs[0].0.layout.clone();
        return Ok(fast::record_single(op, inputs, NewOutput { buffer, layout, dtype }));
    }
    match *inputs {
        [a] => fast::infer_then_run(op, [a]),
        [a, b] => fast::infer_then_run(op, [a, b]),
        [a, b, c] => fast::infer_then_run(op, [a, b, c]),
        [] => Err(no_inputs(&op)),
        _ => dispatch_on(op, inputs[0].device(), inputs).map(|mut outputs| outputs.swap_remove(0)),
    }
}

/// Dispatches an op of which the caller needs all outputs.
fn dispatch_on(op: Op, device: &Device, inputs: &[&Tensor]) -> Result<Tensors> {
    if observe::is_observed() {
        let observed_op = op.clone();
        let apply = || dispatch_on(op, device, inputs);
        return observe::apply_observed(&observed_op, inputs, apply, |outputs| outputs);
    }
    let rule = op.rule();
    checks::same_device(rule, device, inputs)?;
    let metas: Metas<'_> = collect_inline(inputs.iter().map(|tensor| tensor.meta()));
    let specs = rule.infer(&metas)?;
    general::run_and_record(op, device, inputs, &metas, &specs)
}

/// An output in new memory that is not yet a tensor.
struct NewOutput {
    buffer: Buffer,
    layout: Arc<Layout>,
    dtype: DType,
}

/// Allocates memory for an output of this layout.
#[inline(always)]
fn allocate(backend: &dyn Backend, layout: &Layout, dtype: DType) -> Result<Buffer> {
    let Some(bytes) = dtype.bytes_for(layout.elements()) else {
        return Err(too_large(layout.shape()));
    };
    let buffer = backend.alloc(bytes)?;
    crate::capture::record_allocation(&buffer);
    Ok(buffer)
}

#[cold]
fn too_large(shape: &Shape) -> Error {
    Error::invalid("alloc", format!("shape {shape:?} is too large"))
}
