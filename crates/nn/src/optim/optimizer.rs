//! What every optimiser does.

use crate::module::{Param, StateDict};
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
        if gradients.are_stale() {
            let detail =
                "gradients were added to those that a step has used: begin with new ones for each step";
            return Err(Error::invalid("step", detail));
        }
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

    /// The learning rate of the next step; groups multiply it by their [`lr_scale`](super::ParamGroup::lr_scale).
    fn lr(&self) -> f64;

    /// Sets the learning rate of the next steps.
    ///
    /// # Errors
    /// If it is negative or not finite.
    fn set_lr(&mut self, lr: f64) -> Result<()>;

    /// The share of the old momentum that stays from the next step on; of Adam and its kin the first beta. Schedules change it (Smith and Topin 2018).
    ///
    /// # Errors
    /// If it is not above 0 and below 1; an optimizer that was made without momentum, or keeps none.
    fn set_momentum(&mut self, momentum: f64) -> Result<()> {
        Err(Error::invalid("optimizer", format!("momentum {momentum}, expected none: it keeps no momentum")))
    }

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

/// [`Optimizer`] for types around [`Steps`](super::steps::Steps).
macro_rules! optimizer {
    ($($name:ident),+) => {$(
        impl $crate::optim::optimizer::Optimizer for $name {
            fn step(&mut self, gradients: &ternion_core::Gradients) -> ternion_core::Result<()> {
                self.0.step(gradients)
            }
            fn lr(&self) -> f64 {
                self.0.lr()
            }
            fn set_lr(&mut self, lr: f64) -> ternion_core::Result<()> {
                self.0.set_lr(lr)
            }
            fn set_momentum(&mut self, momentum: f64) -> ternion_core::Result<()> {
                self.0.set_momentum(momentum)
            }
            fn parameters(&self) -> Vec<$crate::module::Param> {
                self.0.parameters()
            }
            fn state_dict(&self) -> ternion_core::Result<$crate::module::StateDict> {
                self.0.state_dict()
            }
            fn load_state_dict(&mut self, dict: &$crate::module::StateDict) -> ternion_core::Result<()> {
                self.0.load_state_dict(dict)
            }
        }
    )+};
}
pub(super) use optimizer;

/// That `betas` are decays of averages.
pub(super) fn check_betas(op: &'static str, betas: [f64; 2]) -> Result<()> {
    match betas.iter().all(|beta| (0.0..1.0).contains(beta)) {
        true => Ok(()),
        false => Err(Error::invalid(op, format!("betas {betas:?}, expected at least 0 and below 1"))),
    }
}
