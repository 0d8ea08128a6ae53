//! The interface of all optimizers.

use crate::module::{Param, StateDict};
use ternion_core::{Error, Gradients, Result, Tensor};

/// Updates parameters from their gradients.
pub trait Optimizer {
    /// Makes one step with the gradients of one backward pass. Nothing is changed if a gradient is
    /// missing.
    ///
    /// # Errors
    /// Returns [`MissingGradient`](ternion_core::Error::MissingGradient) with the names of the
    /// parameters that have no gradient, unless the configuration allows it. Returns an error if a
    /// gradient or a state no longer has the dtype or device of its parameter.
    fn step(&mut self, gradients: &Gradients) -> Result<()>;

    /// Like [`step`](Optimizer::step), but returns an error before anything is changed if a
    /// gradient belongs to no parameter of this optimizer. Without this check, a layer that its
    /// module does not list, or an optimizer that got only a part of a model, would leave
    /// parameters untrained without a message. Use [`step`](Optimizer::step) and
    /// [`Gradients::unmatched`] if inputs require a gradient on purpose, or if several optimizers
    /// train a model.
    ///
    /// # Errors
    /// Returns an error that lists the shapes of the gradients without a parameter, and the errors
    /// of [`step`](Optimizer::step).
    fn step_strict(&mut self, gradients: &Gradients) -> Result<()> {
        if gradients.are_stale() {
            let detail =
                "gradients were added to those that a step has used: begin with new ones for each step";
            return Err(Error::invalid("step", detail));
        }
        let parameters: Vec<Tensor> = self.parameters().iter().map(Param::tensor).collect();
        let unmatched = gradients.unmatched(&parameters);
        if unmatched.is_empty() {
            return self.step(gradients);
        }
        let shapes: Vec<String> = unmatched.iter().map(|(_, grad)| format!("{:?}", grad.shape())).collect();
        let detail = format!(
            "{} of {} gradients belong to no parameter of this optimizer, of shapes {}: is a layer missing from parameters()?",
            unmatched.len(),
            gradients.len(),
            shapes.join(", ")
        );
        Err(Error::invalid("step", detail))
    }

    /// Returns the learning rate of the next step. Groups multiply it by their
    /// [`lr_scale`](super::ParamGroup::lr_scale).
    fn lr(&self) -> f64;

    /// Sets the learning rate of the following steps.
    ///
    /// # Errors
    /// Returns an error if it is negative or not finite.
    fn set_lr(&mut self, lr: f64) -> Result<()>;

    /// Sets the fraction of the old momentum that is kept from the next step on; for Adam and its
    /// variants this is the first beta. Momentum schedules use it (Smith and Topin 2018).
    ///
    /// # Errors
    /// Returns an error unless `momentum` is above 0 and below 1, or if the optimizer has no
    /// momentum or was created with a momentum of 0.
    fn set_momentum(&mut self, momentum: f64) -> Result<()> {
        Err(Error::invalid("optimizer", format!("momentum {momentum}, expected none: it keeps no momentum")))
    }

    /// Returns the parameters, in the order in which they were passed.
    fn parameters(&self) -> Vec<Param>;

    /// Returns a copy of the current state of the optimizer: the learning rate, and the step count
    /// and moments of each parameter. [`checkpoint::write`](crate::checkpoint::write) can save it
    /// to a file.
    ///
    /// # Errors
    /// Returns an error if memory is exhausted, or if an earlier op failed on the device.
    fn state_dict(&self) -> Result<StateDict>;

    /// Resumes from a state that [`state_dict`](Optimizer::state_dict) returned. Nothing is changed
    /// unless all entries fit.
    ///
    /// # Errors
    /// Returns one error that lists every key that is missing, unexpected, or has the wrong shape
    /// or dtype.
    fn load_state_dict(&mut self, dict: &StateDict) -> Result<()>;
}

/// Implements [`Optimizer`] for newtypes around [`Steps`](super::steps::Steps).
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

/// Checks that `betas` are decay rates of averages: at least 0 and below 1.
pub(super) fn check_betas(op: &'static str, betas: [f64; 2]) -> Result<()> {
    match betas.iter().all(|beta| (0.0..1.0).contains(beta)) {
        true => Ok(()),
        false => Err(Error::invalid(op, format!("betas {betas:?}, expected at least 0 and below 1"))),
    }
}
