//! Observers of a backward pass. They are notified of the gradients that each node returns.

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
    /// The gradients of its outputs, from which its gradient was computed.
    pub grad_outputs: &'a [Option<Tensor>],
    /// The gradients of its inputs. The observer may change them.
    pub grad_inputs: &'a mut Grads,
}

thread_local! {
    static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
}

/// Runs `f`. In every backward pass of this thread inside it, `observer` is called with the input
/// gradients that each gradient rule returns, and may change them.
///
/// Use it for debugging, for example to find the first NaN, and to inject faults into gradients
/// when gradient checks are tested themselves.
pub fn observe_backward<T>(
    observer: impl Fn(&'static str, &mut Grads) -> Result<()> + 'static,
    f: impl FnOnce() -> T,
) -> T {
    observe_backward_calls(move |call| observer(call.node.function().name(), call.grad_inputs), f)
}

/// Same as [`observe_backward`], with the node and the gradients of its outputs.
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

/// Returns whether this thread has an observer.
pub(super) fn is_observed() -> bool {
    OBSERVER.with_borrow(Option::is_some)
}

/// Calls this thread's observer, if there is one, with the gradients that `node` returned.
pub(super) fn notify(node: &Node, grad_outputs: &[Option<Tensor>], grad_inputs: &mut Grads) -> Result<()> {
    let observer = OBSERVER.with_borrow(Clone::clone);
    match observer {
        Some(observer) => observer(&mut BackwardCall { node, grad_outputs, grad_inputs }),
        None => Ok(()),
    }
}
