//! Default sizes of a new GPT-2 and of its training.

use crate::support::program::Outcome;
use std::fmt::Display;
use ternion::prelude::*;

/// Defaults of the options.
pub struct Defaults {
    /// Vocabulary size, if a checkpoint records it.
    pub vocabulary: Option<usize>,
    pub layers: usize,
    pub heads: usize,
    pub width: usize,
    pub context: usize,
    pub steps: u64,
    pub lr: f64,
    /// Warmup steps, if a checkpoint records them.
    pub warmup: Option<u64>,
}

/// A model that a CPU trains in a minute or two.
pub const SMALL_SIZES: Defaults = Defaults {
    vocabulary: None,
    layers: 4,
    heads: 4,
    width: 128,
    context: 128,
    steps: 300,
    lr: 1e-3,
    warmup: None,
};

/// GPT-2's own sizes.
pub const GPT2_SIZES: Defaults =
    Defaults { layers: 12, heads: 12, width: 768, context: 1024, steps: 1000, lr: 6e-4, ..SMALL_SIZES };

impl Defaults {
    /// Returns the sizes and settings of the run that `checkpoint` continues.
    pub fn from_checkpoint(checkpoint: &Checkpoint) -> Outcome<Defaults> {
        Ok(Defaults {
            vocabulary: Some(checkpoint.value("vocabulary")?),
            layers: checkpoint.value("layers")?,
            heads: checkpoint.value("heads")?,
            width: checkpoint.value("width")?,
            context: checkpoint.value("context")?,
            steps: checkpoint.value("steps")?,
            lr: checkpoint.value("lr")?,
            warmup: Some(checkpoint.value("warmup")?),
        })
    }
}

/// Returns the help text of an option with its defaults.
pub fn help<T: Display>(what: &str, of: impl Fn(&Defaults) -> T) -> String {
    format!("{what} [default: {}, with --train {}]", of(&SMALL_SIZES), of(&GPT2_SIZES))
}

/// Parses a size that cannot be 0.
pub fn at_least_1(text: &str) -> std::result::Result<usize, String> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| "expected an integer of at least 1".to_owned())
}
