//! Whether ops are recorded: a switch of each thread.

use crate::tensor::Tensor;
use std::cell::{Cell, RefCell};

/// Ops on tensors that need a gradient are recorded.
const RECORDING: u8 = 1;
/// The tensors that need a gradient and are used are noted: a checkpointed segment runs.
const CAPTURING: u8 = 2;

thread_local! {
    /// One cell for both, so that an op that is recorded reads one.
    static MODE: Cell<u8> = const { Cell::new(RECORDING) };
    static CAPTURED: RefCell<Option<Captured>> = const { RefCell::new(None) };
}

/// Sets one bit of the mode back on drop.
struct Restore {
    bit: u8,
    before: u8,
}

impl Restore {
    fn after_setting(bit: u8, on: bool) -> Restore {
        let before = MODE.get();
        MODE.set(if on { before | bit } else { before & !bit });
        Restore { bit, before }
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        MODE.set(MODE.get() & !self.bit | self.before & self.bit);
    }
}

fn with_mode<T>(recording: bool, f: impl FnOnce() -> T) -> T {
    let _restore = Restore::after_setting(RECORDING, recording);
    f()
}

/// Whether ops on this thread are recorded when an input needs a gradient.
#[inline]
pub fn is_recording() -> bool {
    MODE.get() & RECORDING != 0
}

/// Switches recording for this thread, until it is switched again, and tells what it was: for bindings to languages whose scopes are no closures. Rust
/// has [`no_grad`] and [`enable_grad`], which cannot be left open.
pub fn set_recording(on: bool) -> bool {
    let before = is_recording();
    MODE.set(if on { MODE.get() | RECORDING } else { MODE.get() & !RECORDING });
    before
}

/// Runs `f` without recording; in-place changes of parameters are allowed inside.
pub fn no_grad<T>(f: impl FnOnce() -> T) -> T {
    with_mode(false, f)
}

/// Runs `f` with recording, also inside [`no_grad`].
pub fn enable_grad<T>(f: impl FnOnce() -> T) -> T {
    with_mode(true, f)
}

/// The tensors that need a gradient and were there before the node of this number.
struct Captured {
    before: u64,
    tensors: Vec<Tensor>,
}

impl Captured {
    fn note<'t>(&mut self, tensors: impl Iterator<Item = &'t Tensor>) {
        let older = |tensor: &&Tensor| tensor.node().is_some_and(|node| node.id() < self.before);
        self.tensors.extend(tensors.filter(older).cloned());
    }
}

/// Runs `f` and tells which tensors that need a gradient it used, of those that were there before the node numbered `before`.
pub(super) fn capture_inputs<T>(before: u64, f: impl FnOnce() -> T) -> (T, Vec<Tensor>) {
    struct Reset(Option<Captured>);
    impl Drop for Reset {
        fn drop(&mut self) {
            CAPTURED.replace(self.0.take());
        }
    }
    let own = Captured { before, tensors: Vec::new() };
    let mut reset = Reset(CAPTURED.replace(Some(own)));
    let result = {
        let _restore = Restore::after_setting(CAPTURING, true);
        f()
    };
    let captured = CAPTURED.take().map(|captured| captured.tensors).unwrap_or_default();
    // A segment inside a segment: what the inner one uses, the outer one uses too.
    if let Some(outer) = &mut reset.0 {
        outer.note(captured.iter());
    }
    (result, captured)
}

/// Whether an op on `inputs`, some of which need a gradient, is recorded. They are noted for [`capture_inputs`].
#[inline]
pub(super) fn records(inputs: &[&Tensor]) -> bool {
    let mode = MODE.get();
    if mode & CAPTURING != 0 {
        note_inputs(inputs);
    }
    mode & RECORDING != 0
}

#[cold]
fn note_inputs(inputs: &[&Tensor]) {
    CAPTURED.with_borrow_mut(|captured| {
        if let Some(captured) = captured {
            captured.note(inputs.iter().copied());
        }
    });
}
