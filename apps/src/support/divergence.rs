//! Handling of a non-finite loss: the training run ends without saving, and the program ends with
//! an error that suggests what to try.

use std::fmt;

/// A non-finite loss.
#[derive(Clone, Copy, Debug)]
pub struct Divergence {
    step: u64,
    loss: f64,
}

impl Divergence {
    /// Returns the divergence if the loss after `step` steps is not finite.
    pub fn detect(step: u64, loss: f64) -> Option<Divergence> {
        (!loss.is_finite()).then_some(Divergence { step, loss })
    }

    /// Converts a divergence to an error.
    pub fn check(divergence: Option<Divergence>) -> Result<(), Divergence> {
        divergence.map_or(Ok(()), Err)
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
