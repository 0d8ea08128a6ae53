//! Optimisers: they change parameters, in place, by the gradients of a backward pass.
//!
//! A step of [`SGD`], [`Adam`] or [`AdamW`] is one fused op for all parameters of a group, device and dtype, up to 512 of them; the other optimisers are composed of tensor
//! methods, some ops for each parameter. What changes from step to step (learning rate, clip factor, bias corrections) is computed in f64 on the
//! host and goes to the device in one small upload.
//!
//! Groups of parameters with settings of their own: [`ParamGroup`]. Learning rates that change: [`schedule`](crate::schedule). Averages of weights:
//! [`Ema`](crate::Ema).
//!
//! # Gradients of several batches
//!
//! A batch that is too large for memory is cut into micro-batches, whose gradients [`Gradients::accumulate`] adds: nothing needs to be set to zero. Each loss counts by its share
//! of the batch, so that the sum is the gradient of the mean over all of it, to rounding:
//!
//! ```
//! use ternion_nn::optim::{AdamW, AdamWConfig, Optimizer};
//! # use ternion_nn::{Forward, Linear, Module};
//! # use ternion_core::{DType, Gradients, Reduction, Result, Tensor};
//! # fn main() -> Result<()> {
//! # let device = ternion_cpu::device();
//! # let model = Linear::new(3, 1, &device)?;
//! # let micro_batches: Vec<(Tensor, Tensor)> = (0..4)
//! #     .map(|_| Ok((Tensor::rand([8, 3], DType::F32, &device)?, Tensor::ones([8, 1], DType::F32, &device)?)))
//! #     .collect::<Result<_>>()?;
//! let mut adam = AdamW::new(model.parameters(), AdamWConfig::default())?;
//! let mut gradients = Gradients::default();
//! for (input, target) in &micro_batches {
//!     let loss = model.forward(input)?.mse_loss(target, Reduction::Mean)?;
//!     gradients.accumulate(loss.div_scalar(micro_batches.len() as f64)?.backward()?)?;
//! }
//! adam.step(&gradients)?;
//! # Ok(())
//! # }
//! ```
//!
//! The sums are in the dtype of the parameters: those of halves round with each micro-batch.

mod adagrad;
mod adam;
mod clip;
mod composed;
mod group;
mod lion;
mod muon;
mod rmsprop;
mod sgd;
mod steps;

pub use adagrad::{Adagrad, AdagradConfig};
pub use adam::{Adam, AdamConfig, AdamW, AdamWConfig};
pub use clip::{clip_grad_norm, clip_grad_value};
pub use group::ParamGroup;
pub use lion::{Lion, LionConfig};
pub use muon::{Muon, MuonConfig, MuonLrAdjustment};
pub use rmsprop::{RMSprop, RMSpropConfig};
pub use sgd::{SGD, SGDConfig};
pub(crate) use steps::{check_number, unique_label};

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

    /// The learning rate of the next step; groups multiply it by their [`lr_scale`](ParamGroup::lr_scale).
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

/// [`Optimizer`] for types around [`Steps`](steps::Steps).
macro_rules! optimizer {
    ($($name:ident),+) => {$(
        impl $crate::optim::Optimizer for $name {
            fn step(&mut self, gradients: &ternion_core::Gradients) -> ternion_core::Result<()> {
                self.0.step(gradients)
            }
            fn lr(&self) -> f64 {
                self.0.lr()
            }
            fn set_lr(&mut self, lr: f64) -> ternion_core::Result<()> {
                self.0.set_lr(lr)
            }
            fn parameters(&self) -> Vec<$crate::Param> {
                self.0.parameters()
            }
            fn state_dict(&self) -> ternion_core::Result<$crate::StateDict> {
                self.0.state_dict()
            }
            fn load_state_dict(&mut self, dict: &$crate::StateDict) -> ternion_core::Result<()> {
                self.0.load_state_dict(dict)
            }
        }
    )+};
}
use optimizer;

fn check_betas(op: &'static str, betas: [f64; 2]) -> Result<()> {
    match betas.iter().all(|beta| (0.0..1.0).contains(beta)) {
        true => Ok(()),
        false => Err(Error::invalid(op, format!("betas {betas:?}, expected at least 0 and below 1"))),
    }
}
