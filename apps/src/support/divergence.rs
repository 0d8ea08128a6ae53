//! A training whose loss is no number any more: it ends there, unsaved, and with it the program, by an error that says what to try.

use std::fmt;

/// A loss that is no number.
#[derive(Clone, Copy, Debug)]
pub struct Divergence {
    step: u64,
    loss: f64,
}

impl Divergence {
    /// What the loss after `step` steps tells: nothing as long as it is a number.
    pub fn of(step: u64, loss: f64) -> Option<Divergence> {
        (!loss.is_finite()).then_some(Divergence { step, loss })
    }

    /// That there was none.
    pub fn none(found: Option<Divergence>) -> Result<(), Divergence> {
        found.map_or(Ok(()), Err)
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Divergence { step, loss } = self;
        write!(
            f,
            "step {step}: the loss is {loss}: the training has diverged, and nothing of this step is saved. Try a smaller --lr, or TERNION_NAN=error to see which op made the first NaN"
        )
    }
}

impl std::error::Error for Divergence {}
