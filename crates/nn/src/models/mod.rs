//! Complete models, text generation, and the evaluation of how well a model predicts a text.

mod generate;
mod gpt;
mod mlp;
mod perplexity;
mod resnet;

pub use generate::Sampling;
pub use gpt::{GPT, GPTConfig, GPTPositions};
pub use mlp::Mlp;
pub use perplexity::TextLoss;
pub use resnet::{ResNet, ResNetConfig, ResidualBlock};
