//! Ctrl-C: asks a training to stop, so that it can save.

use crate::support::program::Outcome;
use crate::support::say::warn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether Ctrl-C was pressed. A clone is told as well.
#[derive(Clone, Default)]
pub struct Interrupts(Arc<AtomicBool>);

impl Interrupts {
    /// The first Ctrl-C asks the training to stop; a second one ends the program at once.
    pub fn watch() -> Outcome<Interrupts> {
        let interrupts = Interrupts::default();
        let flag = interrupts.0.clone();
        ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
            warn(format_args!("\nstopping after this batch; press Ctrl-C again to stop at once"));
        })?;
        Ok(interrupts)
    }

    /// Whether the training is to stop.
    pub fn stop(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
