//! The interface of losses.

use crate::module::Module;
use ternion_core::{Result, Tensor};

/// A loss that compares a prediction with a target.
pub trait Loss: Module {
    /// Returns the loss: a single element, unless the reduction is none.
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match.
    fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor>;
}
