//! What the harness is doing on this thread: so that a planted fault acts in the direction that it is meant for, and nowhere else.

use std::cell::Cell;

/// A part of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Drawing, placing and reading.
    Idle,
    /// The call under test.
    Forward,
    /// The walk back from its outputs.
    Backward,
    /// The same computation on the reference device.
    Reference,
}

thread_local! {
    static PHASE: Cell<Phase> = const { Cell::new(Phase::Idle) };
}

/// The phase of this thread.
pub fn current() -> Phase {
    PHASE.get()
}

/// Runs `f` in `phase`; what runs on behalf of the reference stays there.
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
