//! Random zeros in training.

use crate::param::Mode;
use crate::{Forward, Module, in_layer};
use ternion_core::{Error, Result, Tensor};

/// In training, each element becomes 0 with probability `p`, and the others are scaled by `1 / (1 - p)`; in use, nothing happens (Srivastava et al. 2014).
#[derive(Module, Debug)]
pub struct Dropout {
    p: f64,
    mode: Mode,
}

impl Dropout {
    /// With probability `p` of a zero.
    ///
    /// # Errors
    /// If `p` is not within `0..=1`.
    pub fn new(p: f64) -> Result<Dropout> {
        if (0.0..=1.0).contains(&p) {
            Ok(Dropout { p, mode: Mode::default() })
        } else {
            Err(Error::invalid("dropout", format!("probability {p}, expected 0 to 1")))
        }
    }
}

impl Forward for Dropout {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let active = self.mode.is_training() && self.p > 0.0;
        in_layer(self, "Dropout", || if active { input.dropout(self.p) } else { Ok(input.clone()) })
    }
}
