//! Layers, losses and optimizers, with PyTorch's names, defaults and state-dict keys. The crate
//! uses only `Tensor` methods and contains no device-specific code.
//!
//! A layer is created by `new` with PyTorch's defaults, or by `with_config` with a `..Config`
//! struct that documents them. Layers without parameters (activations, pooling, [`Upsample`],
//! [`Flatten`]) and losses have their settings as public fields. Two things differ from PyTorch:
//! transformer blocks have other defaults, which [`TransformerBlockConfig`] documents, and the
//! batch is always the first axis, also in [`MultiHeadAttention`], [`LSTM`] and [`GRU`].
//!
//! Reading order: a [`Module`] is a tree of [`Param`]s, which `#[derive(Module)]` traverses.
//! [`Forward`] is a module that maps one tensor to one tensor; layers implement it. Losses compare
//! an output with a target. [`optim`] updates parameters from gradients, with the learning rates of
//! a [`schedule`], and [`Ema`] averages parameters. [`checkpoint`] saves them to disk, and
//! [`huggingface`] reads and writes GPT-2 weights.
//!
//! ```
//! use ternion_core::{DType, Result, Tensor};
//! use ternion_nn::optim::{Optimizer, SGD, SGDConfig};
//! use ternion_nn::{Forward, Linear, Module, ReLU, Sequential};
//!
//! # fn main() -> Result<()> {
//! # let device = ternion_cpu::device();
//! device.seed(1);
//! let model = Sequential::new().with(Linear::new(2, 8, &device)?).with(ReLU).with(Linear::new(8, 1, &device)?);
//! let mut sgd = SGD::new(model.parameters(), SGDConfig { lr: 0.1, ..Default::default() })?;
//!
//! let input = Tensor::rand([64, 2], DType::F32, &device)?;
//! let target = input.sum_keep(1)?;
//! let mut losses = Vec::new();
//! for _ in 0..50 {
//!     let loss = model.forward(&input)?.mse_loss(&target, ternion_core::Reduction::Mean)?;
//!     sgd.step(&loss.backward()?)?;
//!     losses.push(loss.item::<f32>()?);
//! }
//! assert!(losses[49] < losses[0] / 10.0);
//! # Ok(())
//! # }
//! ```

// `#[derive(Module)]` refers to this crate by its absolute path, also within the crate.
extern crate self as ternion_nn;

mod formats;
pub mod init;
mod inspect;
mod layers;
mod losses;
mod models;
mod module;
pub mod optim;

pub use formats::checkpoint::{load, load_with, save};
pub use formats::{checkpoint, huggingface};
pub use init::Init;
pub use inspect::*;
pub use layers::*;
pub use losses::*;
pub use models::*;
pub use module::*;
pub use optim::{Ema, EmaConfig, LossScale, LossScaleConfig, ScaledStep, schedule};
