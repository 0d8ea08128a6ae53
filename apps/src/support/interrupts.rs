//! Ctrl-C: requests that a training run stops, so that it can be saved.

use crate::support::console::warn;
use crate::support::program::Outcome;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether Ctrl-C was pressed. Clones share the flag.
#[derive(Clone, Default)]
pub struct Interrupts(Arc<AtomicBool>);

impl Interrupts {
    /// Installs the handler. The first Ctrl-C requests a stop; a second one ends the program at
    /// once.
    pub fn install() -> Outcome<Interrupts> {
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

    /// Returns whether the run is to stop.
    pub fn should_stop(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
