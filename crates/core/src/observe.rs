//! Observers of ops. They are notified of the ops that a program calls, not of the ops that a
//! composition calls.

use crate::anomaly;
use crate::check;
use crate::error::Result;
use crate::op::Op;
use crate::tensor::Tensor;
use crate::trace::{self, SpanKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// An op that has just been applied.
pub struct OpCall<'a> {
    /// The op.
    pub op: &'a Op,
    /// Its inputs.
    pub inputs: &'a [&'a Tensor],
    /// Its outputs, with their history; for an in-place op, the tensor that was changed.
    pub outputs: &'a [Tensor],
}

type Observer = Rc<dyn Fn(&OpCall<'_>) -> Result<()>>;

thread_local! {
    static OBSERVED: Cell<bool> = const { Cell::new(false) };
    /// The observers. An observer from `open_op_observer` is stored with the state to restore when
    /// it is closed; `observe_ops` restores the state itself.
    static OBSERVERS: RefCell<Vec<(Observer, Option<Restore>)>> = const { RefCell::new(Vec::new()) };
}

/// Restores on drop whether this thread is observed.
#[derive(Debug)]
pub(crate) struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        OBSERVED.set(self.0);
    }
}

/// Runs `f`. Whenever an op has been applied on this thread inside it, `observer` is called. If the
/// observer returns an error, the op returns this error.
///
/// The observer is notified of every op that the program calls, recorded or not. It is not notified
/// of the smaller ops that a composition calls, nor of views, which run nothing on the device.
/// There can be several observers at a time. An observer is not notified of the ops that it applies
/// itself.
pub fn observe_ops<T>(observer: impl Fn(&OpCall<'_>) -> Result<()> + 'static, f: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            OBSERVERS.with_borrow_mut(Vec::pop);
        }
    }
    OBSERVERS.with_borrow_mut(|observers| observers.push((Rc::new(observer), None)));
    let _leave = Leave;
    let _restore = observe_scope();
    f()
}

/// Installs `observer` as [`observe_ops`] does, until [`close_op_observer`] is called, for bindings
/// to languages whose scopes are not closures.
pub fn open_op_observer(observer: impl Fn(&OpCall<'_>) -> Result<()> + 'static) {
    let restore = observe_scope();
    OBSERVERS.with_borrow_mut(|observers| observers.push((Rc::new(observer), Some(restore))));
}

/// Removes the observer that [`open_op_observer`] installed last on this thread.
pub fn close_op_observer() {
    OBSERVERS.with_borrow_mut(Vec::pop);
}

/// Runs `f` without notifying observers, for observers that compute something themselves.
pub fn unobserved<T>(f: impl FnOnce() -> T) -> T {
    let _restore = Restore(OBSERVED.replace(false));
    f()
}

/// Turns on observation or tracing of ops on this thread until the returned value is dropped.
pub(crate) fn observe_scope() -> Restore {
    Restore(OBSERVED.replace(true))
}

/// Returns whether there is an observer. This check is the only cost of an op without one.
#[inline(always)]
pub(crate) fn is_observed() -> bool {
    OBSERVED.get()
}

/// Runs `apply` unobserved, then notifies the observers once, for the whole op.
#[cold]
pub(crate) fn apply_observed<T>(
    op: &Op,
    inputs: &[&Tensor],
    apply: impl FnOnce() -> Result<T>,
    outputs: impl FnOnce(&T) -> &[Tensor],
) -> Result<T> {
    let _restore = Restore(OBSERVED.replace(false));
    let before = check::before(inputs)?;
    let applied = trace::in_span(SpanKind::Op, op.name(), "", apply)?;
    let outputs = outputs(&applied);
    if let Some(before) = before {
        check::after(op, before, outputs)?;
    }
    anomaly::after(op, inputs, outputs)?;
    let observers: Vec<Observer> =
        OBSERVERS.with_borrow(|observers| observers.iter().map(|(observer, _)| observer.clone()).collect());
    let call = OpCall { op, inputs, outputs };
    observers.iter().try_for_each(|observer| observer(&call))?;
    Ok(applied)
}
