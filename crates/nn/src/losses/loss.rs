//! What every loss does.

use crate::module::Module;
use ternion_core::{Result, Tensor};

/// Compares a prediction with a target.
pub trait Loss: Module {
    /// The loss: a single element, unless it is not reduced.
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit.
    fn forward(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor>;
}
