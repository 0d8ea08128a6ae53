//! Optimisers: they change parameters, in place, by the gradients of a backward pass.
//!
//! A step is one fused op for all parameters of a device and dtype, up to 512 of them. What changes from step to step (learning rate, clip factor, bias
//! corrections) is computed in f64 on the host and goes to the device in one small upload.

mod adam;
mod clip;
mod sgd;
mod steps;

pub use adam::{Adam, AdamConfig, AdamW, AdamWConfig};
pub use clip::clip_grad_norm;
pub use sgd::{SGD, SGDConfig};

use crate::{Param, StateDict};
use ternion_core::{Error, Gradients, Result, Tensor};

/// Changes parameters by their gradients.
pub trait Optimizer {
    /// One step by the gradients of one backward pass. Nothing is changed if a gradient is missing.
    ///
    /// # Errors
    /// [`MissingGradient`](ternion_core::Error::MissingGradient), which names the parameters, unless the configuration allows it; a gradient or a
    /// state whose dtype or device is no longer that of the parameter.
    fn step(&mut self, gradients: &Gradients) -> Result<()>;

    /// As [`step`](Optimizer::step), but fails before anything is changed if a gradient belongs to no parameter of this optimiser: a layer that
    /// its module does not name, or an optimiser that was given part of a model, would never learn and say nothing. Inputs that ask for a
    /// gradient on purpose, and models that are trained by several optimisers, take [`step`](Optimizer::step) and
    /// [`Gradients::unclaimed`].
    ///
    /// # Errors
    /// Gradients that no parameter claims, told by their shapes; those of [`step`](Optimizer::step).
    fn step_strict(&mut self, gradients: &Gradients) -> Result<()> {
        let parameters: Vec<Tensor> = self.parameters().iter().map(Param::tensor).collect();
        let unclaimed = gradients.unclaimed(&parameters);
        if unclaimed.is_empty() {
            return self.step(gradients);
        }
        let shapes: Vec<String> = unclaimed.iter().map(|(_, grad)| format!("{:?}", grad.shape())).collect();
        let detail = format!(
            "{} of {} gradients belong to no parameter of this optimiser, of shapes {}: is a layer missing from parameters()?",
            unclaimed.len(),
            gradients.len(),
            shapes.join(", ")
        );
        Err(Error::invalid("step", detail))
    }

    /// The learning rate of the next step.
    fn lr(&self) -> f64;

    /// Sets the learning rate of the next steps.
    ///
    /// # Errors
    /// If it is negative or not finite.
    fn set_lr(&mut self, lr: f64) -> Result<()>;

    /// The parameters, in the order in which they were given.
    fn parameters(&self) -> Vec<Param>;

    /// A copy of the optimiser's state at this moment: learning rate, step counts and moments, by parameter. Can be kept in a file
    /// by [`checkpoint::write`](crate::checkpoint::write).
    ///
    /// # Errors
    /// If there is no memory, or an earlier op failed on the device.
    fn state_dict(&self) -> Result<StateDict>;

    /// Goes on from a state told by [`state_dict`](Optimizer::state_dict). Nothing is changed unless all fits.
    ///
    /// # Errors
    /// One error that lists every key that is missing, extra, misshapen or of another dtype.
    fn load_state_dict(&mut self, dict: &StateDict) -> Result<()>;
}
