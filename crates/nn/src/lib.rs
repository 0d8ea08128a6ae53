//! Layers, losses and optimisers, with PyTorch's names, defaults and state-dict keys. Everything is made of `Tensor` methods and knows no device.
//!
//! A layer is made by `new`, with PyTorch's defaults, or by `with_config`, with a `..Config` that documents them; layers without parameters of their own (activations, pools,
//! [`Upsample`], [`Flatten`]), and losses, have their settings as public fields. Defaults differ from PyTorch's in the block of transformers alone, where
//! [`TransformerBlockConfig`] tells them; and batches come first everywhere, also in [`MultiHeadAttention`], [`LSTM`] and [`GRU`].
//!
//! Reading order: a [`Module`] is a tree of [`Param`]s, which `#[derive(Module)]` walks; [`Forward`] is a module that turns a tensor
//! into a tensor, and the layers are such; losses compare with a target; [`optim`] changes parameters by gradients, at the rates of a [`schedule`], and [`Ema`] averages them;
//! [`checkpoint`] keeps them on disk, and [`huggingface`] reads and writes GPT-2's.
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

// `#[derive(Module)]` names this crate by its absolute path, also inside it.
extern crate self as ternion_nn;

mod activation;
mod attention;
mod batch_norm;
pub mod checkpoint;
mod conv;
mod dropout;
mod ema;
mod embedding;
mod feed_forward;
mod fields;
mod flatten;
mod flops;
mod generate;
mod gpt;
pub mod huggingface;
pub mod init;
mod linear;
mod loss;
mod loss_scale;
mod mlp;
mod module;
mod monitor;
mod norm;
mod observe;
pub mod optim;
mod param;
mod perplexity;
mod pool;
pub mod position;
mod precision;
mod recurrent;
mod residual;
pub mod schedule;
mod sequential;
mod state;
mod stats;
mod summary;
mod trace;
mod transformer;
mod upsample;

pub use activation::{
    ELU, GELU, GeluForm, LeakyReLU, LogSoftmax, ReLU, SiLU, Sigmoid, Softmax, Softplus, Tanh,
};
pub use attention::{KeyValueCache, MultiHeadAttention, MultiHeadAttentionConfig, Seen};
pub use batch_norm::{BatchNorm1d, BatchNorm2d, BatchNormConfig};
pub use checkpoint::{load, load_with, save};
pub use conv::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig};
pub use dropout::{Dropout, DropoutConfig};
pub use ema::{Ema, EmaConfig};
pub use embedding::{Embedding, EmbeddingConfig};
pub use feed_forward::{FeedForward, FeedForwardConfig, FeedForwardForm};
pub use flatten::{Flatten, Identity};
pub use flops::op_flops;
pub use generate::Sampling;
pub use gpt::{GPT, GPTConfig, GPTPositions};
pub use init::Init;
pub use linear::{Linear, LinearConfig};
pub use loss::{BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, KLDivLoss, L1Loss, Loss, MSELoss, NLLLoss};
pub use loss_scale::{LossScale, LossScaleConfig, ScaledStep};
pub use mlp::Mlp;
pub use module::{Forward, Member, Module, ModuleField, Walk};
pub use monitor::{Fault, LayerStats, StatsConfig, StatsMonitor, StatsReport, StatsWarning, WeightStats};
pub use norm::{GroupNorm, GroupNormConfig, LayerNorm, LayerNormConfig, RMSNorm, RMSNormConfig};
pub use observe::{
    LayerCall, LayerEvent, are_layers_observed, close_layer_observer, in_layer, in_layer_at, layer_output,
    observe_layer_events, observe_layers, open_layer_observer,
};
pub use param::{Mode, Param, StateTensor};
pub use perplexity::TextLoss;
pub use pool::{AdaptiveAvgPool2d, AvgPool2d, MaxPool2d};
pub use precision::InPrecision;
pub use recurrent::{GRU, LSTM, RecurrentConfig};
pub use residual::{ResNet, ResNetConfig, ResidualBlock};
pub use sequential::Sequential;
pub use state::{Matching, StateDict, Unmatched};
pub use stats::{ModelStats, ParamStats, model_stats};
pub use summary::{LayerSummary, Summary, SummaryPass, summary, summary_of_shape, summary_with};
pub use trace::{SpanTotal, Timeline, TracingSpans, trace};
pub use transformer::{NormForm, TransformerBlock, TransformerBlockConfig};
pub use upsample::{Upsample, UpsampleMode, UpsampleSize};

/// Implements [`Module`](trait@Module) for a type by walking its fields.
pub use ternion_derive::Module;
