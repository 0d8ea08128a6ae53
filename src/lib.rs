//! Ternion: a deep-learning framework whose numbers you can trust. One model, three backends, the
//! same numbers.
//!
//! ```
//! use ternion::prelude::*;
//!
//! fn main() -> Result<()> {
//!     let device = ternion::best()?; // the fastest device that is compiled in and available
//!     device.seed(1);
//!     let digits = Mnist::load(DataSource::Synthetic { train: 2000, test: 500, seed: 1 })?;
//!     let model = Mlp::new([784, 64, 10], &device)?;
//!     let mut adam = AdamW::new(model.parameters(), AdamWConfig { lr: 3e-3, ..Default::default() })?;
//!     let batches = digits.train().shuffled(1).batches(50, &device);
//!     for epoch in 0..8 {
//!         for batch in batches.epoch(epoch) {
//!             let batch = batch?; // images [50, 1, 28, 28] and labels [50]
//!             let loss = model.forward(&batch.images)?.cross_entropy(&batch.labels)?;
//!             adam.step(&loss.backward()?)?;
//!         }
//!     }
//!     for batch in digits.test().batches(500, &device) {
//!         let batch = batch?;
//!         let accuracy = model.forward(&batch.images)?.accuracy(&batch.labels)?.item::<f32>()?;
//!         println!("{:.1} % of 500 unseen digits", accuracy * 100.0);
//!         # assert!(accuracy > 0.7, "{accuracy}");
//!     }
//!     Ok(())
//! }
//! ```
//!
//! [`Tensor`] and its methods come from [`ternion_core`]. Layers, losses and optimizers are in
//! [`nn`], linear algebra in [`linalg`], data sets in [`data`], and checkpoints, metrics and curves
//! in [`train`]. [`device`], [`best`], [`cpu`], [`cuda`] and [`wgpu`] return a device. The features
//! `cpu` (on by default), `cuda` and `wgpu` determine which backends are compiled in. Environment
//! variables can enable checks in any program: see [`decorators::from_environment`].

// `#[derive(Module)]` refers to this crate by its absolute path, also within the crate.
extern crate self as ternion;

mod devices;

pub use devices::{DeviceDescription, best, cpu, cuda, device, devices, wgpu};
pub use ternion_core::*;
#[cfg(feature = "cuda")]
pub use ternion_cuda::Nvtx;
#[doc(inline)]
pub use ternion_data as data;
#[cfg(feature = "linalg")]
#[doc(inline)]
pub use ternion_linalg as linalg;
#[doc(inline)]
pub use ternion_nn as nn;
#[doc(inline)]
pub use ternion_train as train;

/// The items that most programs use: `use ternion::prelude::*;`
pub mod prelude {
    pub use ternion_core::{
        Axis, DType, Device, Error, Gradients, Precision, Reduction, Result, Shape, Tensor, einsum, grad,
        no_grad, with_precision,
    };
    pub use ternion_data::{Batch, DataSource, LastBatch, Mnist, Split};
    pub use ternion_nn::optim::{
        Adagrad, AdagradConfig, Adam, AdamConfig, AdamW, AdamWConfig, Lion, LionConfig, Muon, MuonConfig,
        Optimizer, ParamGroup, RMSprop, RMSpropConfig, SGD, SGDConfig, clip_grad_norm, clip_grad_value,
    };
    pub use ternion_nn::schedule::Schedule;
    pub use ternion_nn::{
        AdaptiveAvgPool2d, AvgPool2d, BCEWithLogitsLoss, BatchNorm1d, BatchNorm2d, BatchNormConfig, Conv1d,
        Conv1dConfig, Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig, CrossEntropyLoss,
        Dropout, DropoutConfig, ELU, Ema, EmaConfig, Embedding, EmbeddingConfig, FeedForward,
        FeedForwardConfig, Flatten, Forward, GELU, GPT, GPTConfig, GRU, GroupNorm, GroupNormConfig,
        HuberLoss, Identity, InPrecision, Init, KLDivLoss, L1Loss, LSTM, LayerNorm, LayerNormConfig,
        LeakyReLU, Linear, LinearConfig, LogSoftmax, Loss, LossScale, MSELoss, MaxPool2d, Mlp, Module,
        MultiHeadAttention, MultiHeadAttentionConfig, NLLLoss, Param, RMSNorm, RMSNormConfig, ReLU,
        RecurrentConfig, ResNet, ResNetConfig, Sampling, Sequential, SiLU, Sigmoid, Softmax, Softplus,
        StateTensor, StatsConfig, StatsMonitor, Tanh, TransformerBlock, TransformerBlockConfig, Upsample,
        model_stats, summary,
    };
    pub use ternion_train::{Checkpoint, Checkpoints, Keep, Recorder, TrainingState};
}

/// The program in README.md, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The programs of the pages for users of other frameworks, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/from-pytorch.md")]
#[doc = include_str!("../docs/from-burn.md")]
#[doc = include_str!("../docs/from-candle.md")]
struct ComingFrom;

/// The programs of the tutorial on checkpoints, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/tutorials/checkpoints.md")]
struct CheckpointsTutorial;
