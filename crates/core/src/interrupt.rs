//! Interruption of long work: a replayed step can stop between two ops, and a long op between two
//! of its blocks.

use crate::error::Result;
use std::cell::RefCell;
use std::rc::Rc;

type InterruptCheck = Rc<dyn Fn() -> Result<()>>;

thread_local! {
    static INTERRUPT_CHECK: RefCell<Option<InterruptCheck>> = const { RefCell::new(None) };
}

/// Runs `f`. During it, this thread calls `check` between the ops of a replayed step, if the device
/// runs them one by one, and between the blocks of long ops. If `check` returns an error, the
/// replay or the op stops and returns this error; changes that a step has made so far are kept.
pub fn interruptible<T>(check: impl Fn() -> Result<()> + 'static, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<InterruptCheck>);
    impl Drop for Restore {
        fn drop(&mut self) {
            INTERRUPT_CHECK.set(self.0.take());
        }
    }
    let _restore = Restore(INTERRUPT_CHECK.replace(Some(Rc::new(check))));
    f()
}

/// Checks for an interruption between two ops of a replay, or two blocks of an op.
///
/// # Errors
/// Returns the error of the `check` function of [`interruptible`].
#[inline]
pub fn check_interrupt() -> Result<()> {
    let check = INTERRUPT_CHECK.with_borrow(Option::clone);
    check.map_or(Ok(()), |check| check())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::cell::Cell;

    #[test]
    fn an_interrupt_check_is_called_only_inside_its_scope() {
        let seen = Rc::new(Cell::new(0));
        let counted = seen.clone();
        let check = move || {
            counted.set(counted.get() + 1);
            if counted.get() == 2 { Err(Error::invalid("replay", "interrupted")) } else { Ok(()) }
        };
        assert!(check_interrupt().is_ok());
        let ended = interruptible(check, || (0..5).try_for_each(|_| check_interrupt()));
        assert_eq!(ended.unwrap_err().to_string(), "replay: interrupted");
        assert!(check_interrupt().is_ok());
        assert_eq!(seen.get(), 2);
    }
}
