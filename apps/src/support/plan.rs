//! What may change when a training goes on: how long it takes, and its learning rate.

use crate::support::program::Outcome;
use crate::support::saving::Saving;

/// By options, by those of the checkpoint that is gone on from, or as usual.
#[derive(Clone, Copy)]
pub struct Plan {
    pub epochs: u64,
    pub lr: f64,
}

impl Plan {
    /// With `epochs` and `lr` as they were given; `self` is what is usual.
    pub fn changed(self, saving: &Saving, epochs: Option<u64>, lr: Option<f64>) -> Outcome<Plan> {
        let usual = match saving.checkpoint()? {
            Some(checkpoint) => Plan { epochs: checkpoint.value("epochs")?, lr: checkpoint.value("lr")? },
            None => self,
        };
        Ok(Plan { epochs: epochs.unwrap_or(usual.epochs), lr: lr.unwrap_or(usual.lr) })
    }
}
