//! Layers: modules that map a tensor to a tensor, with one file for each family.

mod activation;
mod attention;
mod batch_norm;
mod channels;
mod conv;
mod dropout;
mod embedding;
mod feed_forward;
mod flatten;
mod in_precision;
mod linear;
mod norm;
mod pool;
pub mod position;
mod recurrent;
mod sequential;
mod transformer;
mod upsample;

pub use activation::{
    ELU, GELU, GeluApproximation, LeakyReLU, LogSoftmax, ReLU, SiLU, Sigmoid, Softmax, Softplus, Tanh,
};
pub use attention::{AttentionMask, KeyValueCache, MultiHeadAttention, MultiHeadAttentionConfig};
pub use batch_norm::{BatchNorm1d, BatchNorm2d, BatchNormConfig};
pub use channels::{ChannelShuffle, LocalResponseNorm, PixelShuffle, PixelUnshuffle};
pub use conv::{
    Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Conv3d, Conv3dConfig, ConvTranspose1d, ConvTranspose1dConfig,
    ConvTranspose2d, ConvTranspose2dConfig, ConvTranspose3d, ConvTranspose3dConfig,
};
pub use dropout::{AlphaDropout, Dropout, DropoutConfig, FeatureAlphaDropout};
pub use embedding::{Embedding, EmbeddingBag, EmbeddingConfig};
pub use feed_forward::{FeedForward, FeedForwardConfig, FeedForwardKind};
pub use flatten::{Flatten, Identity};
pub use in_precision::InPrecision;
pub use linear::{Linear, LinearConfig};
pub use norm::{GroupNorm, GroupNormConfig, LayerNorm, LayerNormConfig, RMSNorm, RMSNormConfig};
pub use pool::{
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d,
    AdaptiveMaxPool3d, AvgPool1d, AvgPool2d, AvgPool3d, MaxPool1d, MaxPool2d, MaxPool3d,
};
pub use recurrent::{GRU, LSTM, RecurrentConfig};
pub use sequential::Sequential;
pub use transformer::{NormKind, TransformerBlock, TransformerBlockConfig};
pub use upsample::{Upsample, UpsampleMode, UpsampleSize};
