//! Ending work that takes long before its end: a recorded step, or an op that is made of many blocks, between two of its parts.

use crate::error::Result;
use std::cell::RefCell;
use std::rc::Rc;

type Look = Rc<dyn Fn() -> Result<()>>;

thread_local! {
    static LOOK: RefCell<Option<Look>> = const { RefCell::new(None) };
}

/// Runs `f`; `look` is called between the ops of recorded steps that are replayed inside it on this thread, where the device runs them one by one, and between the
/// blocks of ops that take long. Its error ends the replay or the op and becomes its error: what a step had changed until then stays changed.
pub fn interruptible<T>(look: impl Fn() -> Result<()> + 'static, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<Look>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LOOK.set(self.0.take());
        }
    }
    let _restore = Restore(LOOK.replace(Some(Rc::new(look))));
    f()
}

/// Between two ops of a replay, or two blocks of an op: an error if it is to end here.
///
/// # Errors
/// That of the `look` of [`interruptible`].
#[inline]
pub fn check_interrupt() -> Result<()> {
    let look = LOOK.with_borrow(Option::clone);
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
