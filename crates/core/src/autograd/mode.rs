//! Whether ops are recorded: a switch of each thread.

use super::TensorId;
use crate::Shape;
use crate::backend::{Buffer, WeakBuffer};
use crate::tensor::Tensor;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;

thread_local! {
    static RECORDING: Cell<bool> = const { Cell::new(true) };
    /// Whether a checkpointed segment runs, and what it did so far.
    static READING: Cell<bool> = const { Cell::new(false) };
    static READ: RefCell<Option<Reading>> = const { RefCell::new(None) };
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

/// What a checkpointed segment did while it ran.
#[derive(Default)]
pub(super) struct Reading {
    /// The ops, in order.
    pub(super) ops: Vec<&'static str>,
    /// Tensors from outside that need a gradient, in the order of their first use.
    pub(super) captured: Vec<Tensor>,
    /// Memory from outside.
    pub(super) memory: Vec<Read>,
    /// Memory seen so far, by its address: that of `memory`, and what the segment made itself.
    seen: HashSet<usize>,
    /// Handles that keep the addresses of what the segment made from being given out again.
    made: Vec<WeakBuffer>,
    /// Nodes with smaller numbers were there before the segment ran.
    start: u64,
    /// The same for tensors that need a gradient.
    known: HashSet<TensorId>,
}

/// Memory as it was when it was first read. Not kept alive.
pub(super) struct Read {
    memory: WeakBuffer,
    pub(super) version: u64,
    /// Of the tensor through which it was read.
    pub(super) shape: Shape,
}

impl Read {
    fn of(tensor: &Tensor) -> Read {
        Read {
            memory: tensor.buffer().downgrade(),
            version: tensor.buffer().version(),
            shape: *tensor.shape(),
        }
    }

    /// The memory, if it is still there.
    pub(super) fn buffer(&self) -> Option<Buffer> {
        self.memory.upgrade()
    }
}

impl Reading {
    fn read(&mut self, tensor: &Tensor) {
        if self.seen.insert(tensor.buffer().address()) {
            self.memory.push(Read::of(tensor));
        }
        self.capture(tensor);
    }

    /// Notes a tensor that needs a gradient, if it comes from outside.
    pub(super) fn capture(&mut self, tensor: &Tensor) {
        let outside = tensor.node().is_some_and(|node| node.id() < self.start);
        if let Some(id) = tensor.id().filter(|_| outside)
            && self.known.insert(id)
        {
            self.captured.push(tensor.clone());
        }
    }

    /// A segment inside this one: what the inner one did, the outer one did too.
    fn take_in(&mut self, inner: &Reading) {
        self.ops.extend(&inner.ops);
        inner.captured.iter().for_each(|tensor| self.capture(tensor));
        inner.made.iter().filter_map(WeakBuffer::upgrade).for_each(|buffer| self.make(&buffer));
        for read in &inner.memory {
            if let Some(buffer) = read.buffer().filter(|buffer| self.seen.insert(buffer.address())) {
                self.memory.push(Read { memory: buffer.downgrade(), ..*read });
            }
        }
    }

    fn make(&mut self, buffer: &Buffer) {
        if self.seen.insert(buffer.address()) {
            self.made.push(buffer.downgrade());
        }
    }
}

/// Runs `f` and tells what it read from outside: tensors of nodes older than `start`, and memory.
pub(super) fn reading<T>(start: u64, f: impl FnOnce() -> T) -> (T, Reading) {
    struct Reset(bool, Option<Reading>);
    impl Drop for Reset {
        fn drop(&mut self) {
            READING.set(self.0);
            READ.replace(self.1.take());
        }
    }
    let reading = Reading { start, ..Reading::default() };
    let mut reset = Reset(READING.replace(true), READ.replace(Some(reading)));
    let result = f();
    let inner = READ.take().unwrap_or_default();
    if let Some(outer) = &mut reset.1 {
        outer.take_in(&inner);
    }
    (result, inner)
}

/// Notes that an op read `inputs` and made `outputs`, for [`reading`].
#[inline]
pub(crate) fn note<'a>(op: &'static str, inputs: &[&Tensor], outputs: impl IntoIterator<Item = &'a Buffer>) {
    if READING.get() {
        READ.with_borrow_mut(|reading| {
            if let Some(reading) = reading {
                reading.ops.push(op);
                inputs.iter().for_each(|tensor| reading.read(tensor));
                outputs.into_iter().for_each(|buffer| reading.make(buffer));
            }
        });
    }
}
