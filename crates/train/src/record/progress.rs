//! A progress bar, with the latest values of metrics next to it.

use super::{Scalar, Sink};
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use ternion_core::{Error, Result};

/// A progress bar on standard error if that is a terminal; otherwise nothing is printed. Clones
/// share the bar.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: ProgressBar,
    /// The latest value of each name, in the order of their first values.
    newest: Arc<Mutex<Vec<(String, f64)>>>,
}

impl Progress {
    /// Creates a bar of `steps` steps, of which `done` are completed.
    ///
    /// # Errors
    /// A caller cannot cause an error.
    pub fn new(steps: u64, done: u64) -> Result<Progress> {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {eta} left  {msg}")
            .map_err(|error| Error::invalid("progress", error.to_string()))?;
        let bar = ProgressBar::new(steps).with_style(style.progress_chars("=> ")).with_position(done);
        // The estimate of the remaining time must not include steps of an earlier run.
        bar.reset_eta();
        Ok(Progress { bar, newest: Arc::default() })
    }

    /// Moves the bar to a step for which no value is recorded.
    pub fn set_step(&self, step: u64) {
        self.bar.set_position(step);
    }

    /// Hides the bar while `f` prints.
    pub fn suspend<T>(&self, f: impl FnOnce() -> T) -> T {
        self.bar.suspend(f)
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Formats the values next to the bar.
    fn message(&self, scalar: &Scalar<'_>) -> String {
        // Ignores poisoning: a panic elsewhere cannot leave the values half changed.
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        match newest.iter_mut().find(|(name, _)| name == scalar.name) {
            Some((_, value)) => *value = scalar.value,
            None => newest.push((scalar.name.to_owned(), scalar.value)),
        }
        let mut message = String::new();
        for (name, value) in newest.iter() {
            let gap = if message.is_empty() { "" } else { "  " };
            // Writing to a string cannot fail.
            let _ = match value.abs() {
                size if size != 0.0 && !(1e-3..1e6).contains(&size) && size.is_finite() => {
                    write!(message, "{gap}{name} {value:.3e}")
                }
                _ => write!(message, "{gap}{name} {value:.4}"),
            };
        }
        message
    }
}

impl Sink for Progress {
    fn scalar(&mut self, scalar: &Scalar<'_>) -> Result<()> {
        let message = self.message(scalar);
        self.bar.set_message(message);
        self.bar.set_position(scalar.step);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_values_are_shown_next_to_the_bar() {
        let mut progress = Progress::new(100, 40).unwrap();
        assert_eq!(progress.bar.position(), 40);
        let clone = progress.clone();
        for (name, value) in [("loss", 2.0), ("lr", 2.5e-5), ("loss", f64::NAN), ("grad", f64::INFINITY)] {
            progress.scalar(&Scalar { name, step: 41, value, time: 0.0 }).unwrap();
        }
        assert_eq!(clone.bar.message(), "loss NaN  lr 2.500e-5  grad inf");
        assert_eq!(clone.bar.position(), 41);
        assert_eq!(clone.suspend(|| 7), 7);
        clone.set_step(50);
        assert_eq!(progress.bar.position(), 50);
        clone.finish();
        assert!(progress.bar.is_finished());
    }
}
