//! What may change when a run is resumed: the number of epochs and the learning rate.

use crate::support::program::Outcome;
use crate::support::saving::Saving;

/// Values of the options, else those of the checkpoint to resume from, else defaults.
#[derive(Clone, Copy)]
pub struct Hyperparameters {
    pub epochs: u64,
    pub lr: f64,
}

impl Hyperparameters {
    /// Replaces `epochs` and `lr` by the given ones; `self` holds the defaults of a new run.
    pub fn with_options(
        self,
        saving: &Saving,
        epochs: Option<u64>,
        lr: Option<f64>,
    ) -> Outcome<Hyperparameters> {
        let defaults = match saving.checkpoint()? {
            Some(checkpoint) => {
                Hyperparameters { epochs: checkpoint.value("epochs")?, lr: checkpoint.value("lr")? }
            }
            None => self,
        };
        Ok(Hyperparameters { epochs: epochs.unwrap_or(defaults.epochs), lr: lr.unwrap_or(defaults.lr) })
    }
}
