//! Loom's primitives under the names that the protocol uses, and faults to plant in them.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

pub(super) use loom::hint::spin_loop;
pub(super) use loom::sync::{Mutex, MutexGuard};
pub(super) use loom::thread::{park, yield_now};
pub(super) use std::sync::atomic::Ordering;

// Small values, so that every interleaving can be explored; the tests spawn one more worker than
// may spin.
pub(super) const MAX_SPINNING_WORKERS: usize = 1;
pub(super) const SPIN_ROUNDS: usize = 1;
pub(super) const PAUSES_PER_ROUND: usize = 0;
pub(super) const PAUSES_BEFORE_PARK: usize = 1;

/// A fault in the primitives of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// (F1) and (F2) have no effect.
    NoFence,
    /// A worker leaves without publishing its writes.
    NoRelease,
    /// A caller sees that its workers have left, but not their writes.
    NoAcquire,
    /// The last worker to leave does not wake the caller.
    NoUnpark,
    /// A worker is counted in two steps, between which another one may be counted.
    TornUpdate,
}

thread_local! {
    // All threads of a model are run by the thread that checks it.
    static FAULT: Cell<Fault> = const { Cell::new(Fault::None) };
}

/// Plants `fault` in the models that this thread checks from now on.
pub(super) fn plant(fault: Fault) {
    FAULT.set(fault);
}

fn planted(fault: Fault) -> bool {
    FAULT.get() == fault
}

pub(super) fn fence(ordering: Ordering) {
    if !planted(Fault::NoFence) {
        loom::sync::atomic::fence(ordering);
    }
}

fn weakened(ordering: Ordering) -> Ordering {
    match ordering {
        Release if planted(Fault::NoRelease) => Relaxed,
        Acquire if planted(Fault::NoAcquire) => Relaxed,
        other => other,
    }
}

pub(super) struct AtomicUsize(loom::sync::atomic::AtomicUsize);

impl AtomicUsize {
    pub(super) fn new(value: usize) -> AtomicUsize {
        AtomicUsize(loom::sync::atomic::AtomicUsize::new(value))
    }

    pub(super) fn load(&self, ordering: Ordering) -> usize {
        self.0.load(weakened(ordering))
    }

    pub(super) fn store(&self, value: usize, ordering: Ordering) {
        self.0.store(value, weakened(ordering));
    }

    pub(super) fn fetch_add(&self, value: usize, ordering: Ordering) -> usize {
        self.0.fetch_add(value, weakened(ordering))
    }

    pub(super) fn fetch_sub(&self, value: usize, ordering: Ordering) -> usize {
        self.0.fetch_sub(value, weakened(ordering))
    }

    pub(super) fn fetch_or(&self, value: usize, ordering: Ordering) -> usize {
        self.0.fetch_or(value, weakened(ordering))
    }

    pub(super) fn fetch_update(
        &self,
        success: Ordering,
        failure: Ordering,
        update: impl FnMut(usize) -> Option<usize>,
    ) -> Result<usize, usize> {
        if !planted(Fault::TornUpdate) {
            return self.0.fetch_update(weakened(success), weakened(failure), update);
        }
        let old = self.0.load(failure);
        let new = Some(old).and_then(update).ok_or(old)?;
        self.0.store(new, success);
        Ok(old)
    }
}

pub(super) struct Thread(loom::thread::Thread);

impl Thread {
    pub(super) fn unpark(&self) {
        if !planted(Fault::NoUnpark) {
            self.0.unpark();
        }
    }
}

pub(super) fn current() -> Thread {
    Thread(loom::thread::current())
}
