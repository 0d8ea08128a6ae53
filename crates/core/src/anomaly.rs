//! A scope that stops at the first op, or the first gradient of an op, that makes a NaN: [`detect_anomaly`]. For tensors that are there already, where
//! [`NanCheck`](crate::decorators::NanCheck) wants them to be made on a device of its own.

use crate::autograd::Node;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::no_grad;
use crate::observe::{Restore, unobserved, watched};
use crate::op::Op;
use crate::tensor::Tensor;
use crate::text;
use std::cell::{Cell, RefCell};

thread_local! {
    static OPENED: RefCell<Option<Restore>> = const { RefCell::new(None) };
    static IS_OPEN: Cell<bool> = const { Cell::new(false) };
    /// Whether the gradient of an op is computed: a report names the op, and not what its rule is composed of.
    static IN_GRADIENT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`; an op of this thread inside it that makes a NaN of inputs without one is an error, [`Error::NotFinite`], that names the op; so is an op whose gradient is NaN though the gradients
/// that came to it are not.
///
/// A NaN that was there before, or that the program wrote itself, is no error. Each output is read back, as one number: slow, for finding out where numbers go wrong. A step that is recorded for its
/// replay ([`Device::capture`](crate::Device::capture)) cannot be read.
///
/// ```
/// # use ternion_core::{Device, Result, Tensor, anomaly::detect_anomaly};
/// # fn shares(x: &Tensor) -> Result<Tensor> {
/// let told = detect_anomaly(|| x.div(&x.sum_keep(1)?)); // 0/0: "div: NaN in 3 of 12 elements of output 0 ([4, 3] f32); its inputs had none"
/// # told }
/// ```
pub fn detect_anomaly<T>(f: impl FnOnce() -> T) -> T {
    /// Closes the scope also where `f` panics.
    struct Close(bool);
    impl Drop for Close {
        fn drop(&mut self) {
            set_anomaly_detection(self.0);
        }
    }
    let _close = Close(set_anomaly_detection(true));
    f()
}

/// Begins on this thread what [`detect_anomaly`] does, or ends it; whether it was on before. For bindings to languages whose scopes are no closures.
pub fn set_anomaly_detection(on: bool) -> bool {
    let before = IS_OPEN.replace(on);
    if on != before {
        let restore = on.then(watched);
        // What is replaced restores on its drop, behind the borrow.
        let ended = OPENED.replace(restore);
        drop(ended);
    }
    before
}

/// Whether a scope is open on this thread.
#[inline]
pub fn is_anomaly_detected() -> bool {
    IS_OPEN.get()
}

/// The elements that are NaN.
fn nan_count(tensor: &Tensor) -> Result<usize> {
    if !tensor.dtype().is_float() || tensor.elements() == 0 {
        return Ok(0);
    }
    let count = || {
        let x = tensor.detach();
        x.ne(&x)?.to_dtype(DType::I64)?.sum_all()?.item::<i64>()
    };
    unobserved(|| no_grad(count)).map(|count| usize::try_from(count).unwrap_or(0))
}

fn any_nan<'t>(tensors: impl IntoIterator<Item = &'t Tensor>) -> Result<bool> {
    for tensor in tensors {
        if nan_count(tensor)? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// To be called with what an op gave. Of an input that it overwrote nothing is known any more.
pub(crate) fn after(op: &Op, inputs: &[&Tensor], outputs: &[Tensor]) -> Result<()> {
    if !IS_OPEN.get() || IN_GRADIENT.get() {
        return Ok(());
    }
    for (index, output) in outputs.iter().enumerate() {
        let count = nan_count(output)?;
        if count == 0 {
            continue;
        }
        let is_kept = |input: &&&Tensor| !outputs.iter().any(|output| output.buffer().is(input.buffer()));
        let asked = crate::decorators::asks_for(op).is_some_and(f64::is_nan);
        if asked || any_nan(inputs.iter().filter(is_kept).copied())? {
            return Ok(());
        }
        let detail = text![
            format!("NaN in {count} of {} elements of output {index} (", output.elements()),
            output,
            "); its inputs had none"
        ];
        return Err(Error::NotFinite { op: op.name(), detail });
    }
    Ok(())
}

/// Runs `form`, the gradient of an op.
pub(crate) fn in_gradient<T>(form: impl FnOnce() -> T) -> T {
    /// Restores also where `form` panics.
    struct Leave(bool);
    impl Drop for Leave {
        fn drop(&mut self) {
            IN_GRADIENT.set(self.0);
        }
    }
    let _leave = Leave(IN_GRADIENT.replace(true));
    form()
}

/// To be called with the gradients that came to a node, and those that it gave.
pub(crate) fn after_gradient(node: &Node, came: &[Option<Tensor>], gave: &[Option<Tensor>]) -> Result<()> {
    if !IS_OPEN.get() {
        return Ok(());
    }
    for (index, grad) in gave.iter().enumerate() {
        let Some(grad) = grad else { continue };
        let count = nan_count(grad)?;
        if count == 0 {
            continue;
        }
        if any_nan(came.iter().flatten())? {
            return Ok(());
        }
        let detail = text![
            format!("NaN in {count} of {} elements of the gradient of its input {index} (", grad.elements()),
            grad,
            "); the gradients that came to it had none"
        ];
        return Err(Error::NotFinite { op: node.function().name(), detail });
    }
    Ok(())
}
