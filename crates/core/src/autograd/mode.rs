//! Whether ops are recorded: a switch of each thread.

use crate::tensor::Tensor;
use std::cell::{Cell, RefCell};

thread_local! {
    static RECORDING: Cell<bool> = const { Cell::new(true) };
    /// While a checkpointed segment runs unrecorded: the tensors it uses that need a gradient.
    static CAPTURED: RefCell<Option<Vec<Tensor>>> = const { RefCell::new(None) };
    static CAPTURING: Cell<bool> = const { Cell::new(false) };
}

struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        RECORDING.set(self.0);
    }
}

fn with_mode<T>(recording: bool, f: impl FnOnce() -> T) -> T {
    let _restore = Restore(RECORDING.replace(recording));
    f()
}

/// Whether ops on this thread are recorded when an input needs a gradient.
#[inline]
pub fn is_recording() -> bool {
    RECORDING.get()
}

/// Runs `f` without recording; in-place changes of parameters are allowed inside.
pub fn no_grad<T>(f: impl FnOnce() -> T) -> T {
    with_mode(false, f)
}

/// Runs `f` with recording, also inside [`no_grad`].
pub fn enable_grad<T>(f: impl FnOnce() -> T) -> T {
    with_mode(true, f)
}

/// Runs `f` without recording and tells which tensors that need a gradient it used.
pub(super) fn capture_inputs<T>(f: impl FnOnce() -> T) -> (T, Vec<Tensor>) {
    struct Reset(bool, Option<Vec<Tensor>>);
    impl Drop for Reset {
        fn drop(&mut self) {
            CAPTURING.set(self.0);
            CAPTURED.replace(self.1.take());
        }
    }
    let mut reset = Reset(CAPTURING.replace(true), CAPTURED.replace(Some(Vec::new())));
    let result = no_grad(f);
    let captured = CAPTURED.take().unwrap_or_default();
    // A segment inside a segment: what the inner one uses, the outer one uses too.
    if let Some(outer) = &mut reset.1 {
        outer.extend(captured.iter().cloned());
    }
    (result, captured)
}

/// Notes the use of `inputs` for [`capture_inputs`].
#[inline]
pub(super) fn note_inputs(inputs: &[&Tensor]) {
    if CAPTURING.get() {
        CAPTURED.with_borrow_mut(|captured| {
            if let Some(captured) = captured {
                captured
                    .extend(inputs.iter().filter(|tensor| tensor.needs_grad()).map(|&tensor| tensor.clone()));
            }
        });
    }
}
