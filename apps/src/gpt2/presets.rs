//! The sizes of a new GPT-2 and of its training where nothing else is said.

use crate::support::program::Outcome;
use std::fmt::Display;
use ternion::prelude::*;

/// What options take the place of.
pub struct Usual {
    /// Tokens, where a checkpoint tells them.
    pub vocabulary: Option<usize>,
    pub layers: usize,
    pub heads: usize,
    pub width: usize,
    pub context: usize,
    pub steps: u64,
    pub lr: f64,
    /// Steps in which the rate rises, where a checkpoint tells them.
    pub warmup: Option<u64>,
}

/// A model that a CPU trains in a minute or two.
pub const SMALL: Usual = Usual {
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
pub const LARGE: Usual =
    Usual { layers: 12, heads: 12, width: 768, context: 1024, steps: 1000, lr: 6e-4, ..SMALL };

impl Usual {
    /// Those of a training that goes on from `checkpoint`.
    pub fn of(checkpoint: &Checkpoint) -> Outcome<Usual> {
        Ok(Usual {
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

/// The help of an option: what it is, and what it is where it is not given.
pub fn help<T: Display>(what: &str, of: impl Fn(&Usual) -> T) -> String {
    format!("{what} [default: {}, with --train {}]", of(&SMALL), of(&LARGE))
}

/// A size that cannot be 0.
pub fn at_least_1(text: &str) -> std::result::Result<usize, String> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| "expected a whole number of at least 1".to_owned())
}
