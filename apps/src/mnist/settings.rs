//! Settings of a training run: from options, a checkpoint, or defaults.

use crate::mnist::{Arguments, Kind};
use crate::support::program::Outcome;
use ternion::prelude::*;

/// The values that determine the training.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) kind: Kind,
    pub(super) hidden: u32,
    pub(super) batch: u32,
    pub(super) seed: u64,
    /// Only the next two fields may change when a run is resumed.
    pub(super) epochs: u64,
    pub(super) lr: f64,
}

impl Settings {
    /// Returns the values of the options, else those of the resumed checkpoint, else defaults.
    pub(super) fn new(arguments: &Arguments, resumed: Option<&Checkpoint>) -> Outcome<Settings> {
        let defaults = match resumed {
            Some(checkpoint) => Settings {
                kind: Kind::from_name(&checkpoint.value::<String>("kind")?)?,
                hidden: checkpoint.value("hidden")?,
                batch: checkpoint.value("batch")?,
                seed: checkpoint.value("seed")?,
                epochs: checkpoint.value("epochs")?,
                lr: checkpoint.value("lr")?,
            },
            None => Settings { kind: Kind::Mlp, hidden: 128, batch: 64, seed: 1, epochs: 5, lr: 1e-3 },
        };
        Ok(Settings {
            kind: arguments.model.unwrap_or(defaults.kind),
            hidden: arguments.hidden.unwrap_or(defaults.hidden),
            batch: arguments.batch.unwrap_or(defaults.batch),
            seed: arguments.seed.unwrap_or(defaults.seed),
            epochs: arguments.epochs.unwrap_or(defaults.epochs),
            lr: arguments.lr.unwrap_or(defaults.lr),
        })
    }
}
