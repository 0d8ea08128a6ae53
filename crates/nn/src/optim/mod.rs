//! Optimisers: they change parameters, in place, by the gradients of a backward pass.
//!
//! A step of [`SGD`], [`Adam`] or [`AdamW`] is one fused op for all parameters of a group, device and dtype, up to 512 of them; the other optimisers are composed of tensor
//! methods, some ops for each parameter. What changes from step to step (learning rate, clip factor, bias corrections) is computed in f64 on the
//! host and goes to the device in one small upload.
//!
//! Groups of parameters with settings of their own: [`ParamGroup`]. Learning rates that change: [`schedule`]. Averages of weights:
//! [`Ema`].
//!
//! # Gradients of several batches
//!
//! A batch that is too large for memory is cut into micro-batches, whose gradients [`Gradients::accumulate`](ternion_core::Gradients::accumulate) adds: nothing needs to be set to zero. Each loss counts by its share
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
mod ema;
mod group;
mod lion;
mod loss_scale;
mod muon;
mod optimizer;
mod rmsprop;
pub mod schedule;
mod sgd;
mod steps;

pub use adagrad::{Adagrad, AdagradConfig};
pub use adam::{Adam, AdamConfig, AdamW, AdamWConfig};
pub use clip::{clip_grad_norm, clip_grad_value};
pub use ema::{Ema, EmaConfig};
pub use group::ParamGroup;
pub use lion::{Lion, LionConfig};
pub use loss_scale::{LossScale, LossScaleConfig, ScaledStep};
pub use muon::{Muon, MuonConfig, MuonLrAdjustment};
pub use optimizer::Optimizer;
pub use rmsprop::{RMSprop, RMSpropConfig};
pub use sgd::{SGD, SGDConfig};
