//! Anomaly detection: a scope that stops at the first op, or the first gradient of an op, that
//! produces a NaN: [`detect_anomaly`]. It works with existing tensors, whereas
//! [`NanCheck`](crate::decorators::NanCheck) requires tensors on its own device.

use crate::autograd::Node;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::no_grad;
use crate::observe::{Restore, observe_scope, unobserved};
use crate::op::Op;
use crate::tensor::Tensor;
use crate::text;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

thread_local! {
    /// While detection is on, ops are observed; dropping this value restores the earlier state.
    static OPENED: RefCell<Option<Restore>> = const { RefCell::new(None) };
    /// Whether anomaly detection is on for this thread.
    static IS_OPEN: Cell<bool> = const { Cell::new(false) };
    /// Whether the gradient of an op is being computed: a report then names the op, and not the ops
    /// of its gradient rule.
    static IN_GRADIENT: Cell<bool> = const { Cell::new(false) };
    /// The outermost composed function that is being computed.
    static FUNCTION: Cell<Option<&'static str>> = const { Cell::new(None) };
    /// Unwanted values that an op of this function has produced. When the function ends, its result
    /// is checked for them.
    static PENDING: Cell<Option<Unwanted>> = const { Cell::new(None) };
    /// The functions in which nodes were recorded, by node id.
    static RECORDED_IN: RefCell<BTreeMap<u64, &'static str>> = const { RefCell::new(BTreeMap::new()) };
}

/// Values that an output must not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwanted {
    Nan,
    NanOrInfinity,
}

/// Maximum number of nodes whose functions are stored; with more nodes only the latest are kept.
const MAX_NODES: usize = 1 << 16;

/// Runs `f` with anomaly detection. If an op of this thread produces a NaN from inputs without one,
/// it returns an error, [`Error::NotFinite`], that names the op. The same applies to an op whose
/// gradient is NaN although the gradients of its outputs are not.
///
/// A NaN that existed before, or that the program wrote itself, is not an error. A function that is
/// composed of ops is reported by its own name and checked as a whole: a NaN that an op in it
/// produces, but that is not in its result, is not an error. Each output is checked by copying one
/// number to the host. This is slow, and intended for debugging. A step that is captured for replay
/// ([`Device::capture`](crate::Device::capture)) cannot be checked.
///
/// ```
/// # use ternion_core::{Device, Result, Tensor, anomaly::detect_anomaly};
/// # fn shares(x: &Tensor) -> Result<Tensor> {
/// // 0/0: "div: NaN in 3 of 12 elements of output 0 ([4, 3] f32); its inputs had none"
/// let result = detect_anomaly(|| x.div(&x.sum_keep(1)?));
/// # result }
/// ```
pub fn detect_anomaly<T>(f: impl FnOnce() -> T) -> T {
    /// Closes the scope, also if `f` panics.
    struct Close(bool);
    impl Drop for Close {
        fn drop(&mut self) {
            set_anomaly_detection(self.0);
        }
    }
    let _close = Close(set_anomaly_detection(true));
    f()
}

/// Turns anomaly detection on or off for this thread, and returns whether it was on, for bindings
/// to languages whose scopes are not closures. See [`detect_anomaly`].
pub fn set_anomaly_detection(on: bool) -> bool {
    let before = IS_OPEN.replace(on);
    if on != before {
        let restore = on.then(observe_scope);
        // The replaced value is dropped here, after the borrow, because its drop restores state.
        let ended = OPENED.replace(restore);
        drop(ended);
    }
    before
}

/// Returns whether anomaly detection is on for this thread.
#[inline]
pub fn is_anomaly_detected() -> bool {
    IS_OPEN.get()
}

/// Returns the name of the composed function that this thread computes: the outermost one, if they
/// are nested.
pub fn current_function() -> Option<&'static str> {
    FUNCTION.get()
}

/// Computes a function that is composed of ops. Scopes that search for NaN check it as a whole:
/// they report its name, and check its result instead of the results of its ops.
pub(crate) fn in_function(
    name: &'static str,
    inputs: &[&Tensor],
    compute: impl FnOnce() -> Result<Tensor>,
) -> Result<Tensor> {
    /// Leaves the function, also if `compute` panics.
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            FUNCTION.set(None);
            PENDING.set(None);
        }
    }
    if FUNCTION.get().is_some() {
        return compute();
    }
    FUNCTION.set(Some(name));
    let _leave = Leave;
    let output = compute()?;
    match PENDING.take() {
        None => Ok(output),
        Some(unwanted) => after_function(name, inputs, output, unwanted),
    }
}

/// Records that an op of a composed function produced unwanted values: [`in_function`] checks the
/// result for them. Returns `false`, and records nothing, for an op outside of such a function.
pub(crate) fn defer_to_function(unwanted: Unwanted) -> bool {
    let is_inside = FUNCTION.get().is_some();
    if is_inside {
        PENDING.set(Some(unwanted));
    }
    is_inside
}

/// Checks the result of a composed function in which an op produced unwanted values: an error if
/// the result has such values and the inputs have none.
#[cold]
fn after_function(
    name: &'static str,
    inputs: &[&Tensor],
    output: Tensor,
    unwanted: Unwanted,
) -> Result<Tensor> {
    let count = |tensor: &Tensor| match unwanted {
        Unwanted::Nan => nan_count(tensor),
        Unwanted::NanOrInfinity => Ok(nan_count(tensor)? + infinite_count(tensor)?),
    };
    let count_in_output = count(&output)?;
    if count_in_output == 0 {
        return Ok(output);
    }
    for input in inputs {
        if count(input)? > 0 {
            return Ok(output);
        }
    }
    let what = if unwanted == Unwanted::Nan { "NaN" } else { "NaN or infinity" };
    Err(not_finite_error(name, what, count_in_output, 0, &output, inputs)?)
}

/// Creates the error of an op or function that produces values which its inputs do not have.
fn not_finite_error(
    op: &'static str,
    what: &str,
    count: usize,
    index: usize,
    output: &Tensor,
    inputs: &[&Tensor],
) -> Result<Error> {
    let mut infinite = String::new();
    for (input_index, input) in inputs.iter().enumerate() {
        let count = infinite_count(input)?;
        if count > 0 {
            infinite = format!(
                ", but {count} of {} elements of its input {input_index} are infinite",
                input.elements()
            );
            break;
        }
    }
    let detail = text![
        format!("{what} in {count} of {} elements of output {index} (", output.elements()),
        output,
        format!("); its inputs had none{infinite}")
    ];
    Ok(Error::NotFinite { op, detail })
}

/// Counts the elements of a floating tensor for which `predicate` is true.
fn count_of(tensor: &Tensor, predicate: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<usize> {
    if !tensor.dtype().is_float() || tensor.elements() == 0 {
        return Ok(0);
    }
    let count = || predicate(&tensor.detach())?.to_dtype(DType::I64)?.sum_all()?.item::<i64>();
    unobserved(|| no_grad(count)).map(|count| usize::try_from(count).unwrap_or(0))
}

/// Counts the elements that are NaN.
fn nan_count(tensor: &Tensor) -> Result<usize> {
    count_of(tensor, |x| x.ne(x))
}

/// Counts the elements that are infinite.
fn infinite_count(tensor: &Tensor) -> Result<usize> {
    count_of(tensor, |x| x.abs()?.eq_scalar(f64::INFINITY))
}

/// Returns whether any of the tensors has a NaN.
fn any_nan<'t>(tensors: impl IntoIterator<Item = &'t Tensor>) -> Result<bool> {
    for tensor in tensors {
        if nan_count(tensor)? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Records the function in which the nodes of these outputs were recorded.
fn record_function(outputs: &[Tensor]) {
    let Some(function) = FUNCTION.get() else { return };
    let nodes = outputs.iter().filter_map(Tensor::node);
    RECORDED_IN.with_borrow_mut(|known| {
        known.extend(nodes.map(|node| (node.id(), function)));
        while known.len() > MAX_NODES {
            known.pop_first();
        }
    });
}

/// Checks the outputs of an op. Inputs that it overwrote are not checked, because their values are
/// lost.
pub(crate) fn after(op: &Op, inputs: &[&Tensor], outputs: &[Tensor]) -> Result<()> {
    if !IS_OPEN.get() || IN_GRADIENT.get() {
        return Ok(());
    }
    record_function(outputs);
    for (index, output) in outputs.iter().enumerate() {
        let count = nan_count(output)?;
        if count == 0 {
            continue;
        }
        let is_intact = |input: &&&Tensor| !outputs.iter().any(|output| output.buffer().is(input.buffer()));
        let is_requested = crate::decorators::scalar_argument(op).is_some_and(f64::is_nan);
        let intact: Vec<&Tensor> = inputs.iter().filter(is_intact).copied().collect();
        if is_requested || any_nan(intact.iter().copied())? || defer_to_function(Unwanted::Nan) {
            return Ok(());
        }
        return Err(not_finite_error(op.name(), "NaN", count, index, output, &intact)?);
    }
    Ok(())
}

/// Runs `compute`, the gradient of an op.
pub(crate) fn in_gradient<T>(compute: impl FnOnce() -> T) -> T {
    /// Restores the state, also if `compute` panics.
    struct Leave(bool);
    impl Drop for Leave {
        fn drop(&mut self) {
            IN_GRADIENT.set(self.0);
        }
    }
    let _leave = Leave(IN_GRADIENT.replace(true));
    compute()
}

/// Checks the gradients that a node returned (`grad_inputs`), given the gradients of its outputs
/// (`grad_outputs`).
pub(crate) fn after_gradient(
    node: &Node,
    grad_outputs: &[Option<Tensor>],
    grad_inputs: &[Option<Tensor>],
) -> Result<()> {
    if !IS_OPEN.get() {
        return Ok(());
    }
    for (index, grad) in grad_inputs.iter().enumerate() {
        let Some(grad) = grad else { continue };
        let count = nan_count(grad)?;
        if count == 0 {
            continue;
        }
        if any_nan(grad_outputs.iter().flatten())? {
            return Ok(());
        }
        let function = RECORDED_IN.with_borrow(|known| known.get(&node.id()).copied());
        let subject = match function {
            Some(_) => format!("a gradient inside of it, that of its {}", node.function().name()),
            None => format!("the gradient of its input {index}"),
        };
        let detail = text![
            format!("NaN in {count} of {} elements of {subject} (", grad.elements()),
            grad,
            "); the gradients that came to it had none"
        ];
        return Err(Error::NotFinite { op: function.unwrap_or(node.function().name()), detail });
    }
    Ok(())
}
