//! Optimizers: they update parameters in place from the gradients of a backward pass.
//!
//! A step of [`SGD`], [`Adam`] or [`AdamW`] is one fused op for up to 512 parameters of the same
//! group, device and dtype. The other optimizers are composed of tensor methods and take several
//! ops for each parameter. The numbers that change from step to step (learning rate, clip factor,
//! bias corrections) are computed in f64 on the host and copied to the device in one small upload.
//!
//! See [`ParamGroup`] for groups of parameters with separate settings, [`schedule`] for learning
//! rates that change, and [`Ema`] for averages of weights.
//!
//! # Gradient accumulation
//!
//! A batch that is too large for memory is split into micro-batches, whose gradients
//! [`Gradients::accumulate`](ternion_core::Gradients::accumulate) adds. There is no `zero_grad`.
//! Each loss is multiplied by the fraction of the batch that it covers, so that the sum is the
//! gradient of the mean over the whole batch, up to rounding:
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
//! The sums have the dtype of the parameters. In half precision they are therefore rounded after
//! each micro-batch.

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
