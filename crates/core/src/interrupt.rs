//! Interruption of long work: of a replayed step between two ops, or of an op with many blocks
//! between two of them.

use crate::error::Result;
use std::cell::RefCell;
use std::rc::Rc;

type InterruptCheck = Rc<dyn Fn() -> Result<()>>;

thread_local! {
    static INTERRUPT_CHECK: RefCell<Option<InterruptCheck>> = const { RefCell::new(None) };
}

/// Runs `f`. During it, `look` is called on this thread between the ops of a captured step that is
/// replayed, if the device runs them one by one, and between the blocks of long ops. If it returns
/// an error, the replay or the op stops and returns this error; changes that a step has made so far
/// are kept.
pub fn interruptible<T>(look: impl Fn() -> Result<()> + 'static, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<InterruptCheck>);
    impl Drop for Restore {
        fn drop(&mut self) {
            INTERRUPT_CHECK.set(self.0.take());
        }
    }
    let _restore = Restore(INTERRUPT_CHECK.replace(Some(Rc::new(look))));
    f()
}

/// Checks for an interruption between two ops of a replay, or two blocks of an op.
///
/// # Errors
/// Returns the error of the `look` function of [`interruptible`].
#[inline]
pub fn check_interrupt() -> Result<()> {
    let look = INTERRUPT_CHECK.with_borrow(Option::clone);
    look.map_or(Ok(()), |look| look())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::cell::Cell;

    #[test]
    fn a_look_counts_inside_its_scope_alone() {
        let seen = Rc::new(Cell::new(0));
        let counted = seen.clone();
        let look = move || {
            counted.set(counted.get() + 1);
            if counted.get() == 2 { Err(Error::invalid("replay", "interrupted")) } else { Ok(()) }
        };
        assert!(check_interrupt().is_ok());
        let ended = interruptible(look, || (0..5).try_for_each(|_| check_interrupt()));
        assert_eq!(ended.unwrap_err().to_string(), "replay: interrupted");
        assert!(check_interrupt().is_ok());
        assert_eq!(seen.get(), 2);
    }
}
