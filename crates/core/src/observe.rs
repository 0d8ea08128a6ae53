//! Watching ops as they are applied: what a program calls, not what the calls are composed of.

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
    /// What it was applied to.
    pub inputs: &'a [&'a Tensor],
    /// What came out, with its history; for an op in place, the tensor that was changed.
    pub outputs: &'a [Tensor],
}

type Observer = Rc<dyn Fn(&OpCall<'_>) -> Result<()>>;

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    /// With each, what ends with it, unless a closure does that.
    static OBSERVERS: RefCell<Vec<(Observer, Option<Restore>)>> = const { RefCell::new(Vec::new()) };
}

/// Restores on drop whether this thread is watched.
#[derive(Debug)]
pub(crate) struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        WATCHED.set(self.0);
    }
}

/// Runs `f`; whenever an op has been applied on this thread inside it, `observer` is told. What the observer returns as an error becomes the error of the op.
///
/// Told are the ops that are called, whether or not they are recorded; not the smaller ops that a device composes them of, and not views, which run nothing. Several observers may
/// watch at a time. An observer is not told of the ops that it applies itself.
pub fn observe_ops<T>(observer: impl Fn(&OpCall<'_>) -> Result<()> + 'static, f: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            OBSERVERS.with_borrow_mut(Vec::pop);
        }
    }
    OBSERVERS.with_borrow_mut(|observers| observers.push((Rc::new(observer), None)));
    let _leave = Leave;
    let _restore = watched();
    f()
}

/// Has `observer` told as [`observe_ops`] does, until [`close_op_observer`]: for bindings to languages whose scopes are no closures.
pub fn open_op_observer(observer: impl Fn(&OpCall<'_>) -> Result<()> + 'static) {
    let watched = watched();
    OBSERVERS.with_borrow_mut(|observers| observers.push((Rc::new(observer), Some(watched))));
}

/// Ends what [`open_op_observer`] began last on this thread.
pub fn close_op_observer() {
    OBSERVERS.with_borrow_mut(Vec::pop);
}

/// Runs `f`; nobody is told of its ops: for watchers that compute something of their own.
pub fn unobserved<T>(f: impl FnOnce() -> T) -> T {
    let _restore = Restore(WATCHED.replace(false));
    f()
}

/// Has ops of this thread told, or traced, until what is returned is dropped.
pub(crate) fn watched() -> Restore {
    Restore(WATCHED.replace(true))
}

/// Whether anybody watches. All that an op costs while nobody does.
#[inline(always)]
pub(crate) fn is_watched() -> bool {
    WATCHED.get()
}

/// Runs `apply` unobserved, then notifies the observers once, for the whole op.
#[cold]
pub(crate) fn apply_observed<T>(
    op: &Op,
    inputs: &[&Tensor],
    apply: impl FnOnce() -> Result<T>,
    outputs: impl FnOnce(&T) -> &[Tensor],
) -> Result<T> {
    let _restore = Restore(WATCHED.replace(false));
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
