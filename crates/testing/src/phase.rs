//! The current phase of the harness on this thread, so that a planted fault acts only in the
//! direction for which it is meant.

use std::cell::Cell;

/// A phase of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Generating inputs, moving them to the device, and reading results.
    Idle,
    /// The call under test.
    Forward,
    /// The backward pass from its outputs.
    Backward,
    /// The same computation on the reference device.
    Reference,
}

thread_local! {
    static PHASE: Cell<Phase> = const { Cell::new(Phase::Idle) };
}

/// Returns the phase of this thread.
pub fn current() -> Phase {
    PHASE.get()
}

/// Runs `f` in `phase`. In the reference phase the phase does not change.
pub fn during<T>(phase: Phase, f: impl FnOnce() -> T) -> T {
    struct Restore(Phase);
    impl Drop for Restore {
        fn drop(&mut self) {
            PHASE.set(self.0);
        }
    }
    let before = PHASE.get();
    let _restore = Restore(before);
    if before != Phase::Reference {
        PHASE.set(phase);
    }
    f()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_not_disturbed() {
        during(Phase::Reference, || during(Phase::Forward, || assert_eq!(current(), Phase::Reference)));
        during(Phase::Forward, || during(Phase::Backward, || assert_eq!(current(), Phase::Backward)));
        assert_eq!(current(), Phase::Idle);
    }
}
