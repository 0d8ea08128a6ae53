//! Watching a backward pass: an observer of this thread sees what each node returns.

use super::node::{Grads, Node};
use crate::error::Result;
use crate::tensor::Tensor;
use std::cell::RefCell;
use std::rc::Rc;

type Observer = Rc<dyn Fn(&mut BackwardCall<'_>) -> Result<()>>;

/// A node whose gradient has just been computed.
pub struct BackwardCall<'a> {
    /// The node.
    pub node: &'a Node,
    /// The gradients of its outputs, from which it was computed.
    pub grad_outputs: &'a [Option<Tensor>],
    /// The gradients of its inputs, which may be changed.
    pub grad_inputs: &'a mut Grads,
}

thread_local! {
    static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
}

/// Runs `f`; in every backward pass of this thread inside it, `observer` sees (and may change) the
/// input gradients that each op returns.
///
/// For watching (where does the first NaN arise?) and for planting faults in tests of test harnesses.
pub fn observe_backward<T>(
    observer: impl Fn(&'static str, &mut Grads) -> Result<()> + 'static,
    f: impl FnOnce() -> T,
) -> T {
    observe_backward_calls(move |call| observer(call.node.function().name(), call.grad_inputs), f)
}

/// As [`observe_backward`], with the node and the gradients that came to it.
pub fn observe_backward_calls<T>(
    observer: impl Fn(&mut BackwardCall<'_>) -> Result<()> + 'static,
    f: impl FnOnce() -> T,
) -> T {
    struct Restore(Option<Observer>);
    impl Drop for Restore {
        fn drop(&mut self) {
            OBSERVER.replace(self.0.take());
        }
    }
    let _restore = Restore(OBSERVER.replace(Some(Rc::new(observer))));
    f()
}

/// Whether this thread has an observer.
pub(super) fn is_observed() -> bool {
    OBSERVER.with_borrow(Option::is_some)
}

/// Calls this thread's observer, if there is one, with what `node` returned.
pub(super) fn notify(node: &Node, grad_outputs: &[Option<Tensor>], grad_inputs: &mut Grads) -> Result<()> {
    let observer = OBSERVER.with_borrow(Clone::clone);
    match observer {
        Some(observer) => observer(&mut BackwardCall { node, grad_outputs, grad_inputs }),
        None => Ok(()),
    }
}
