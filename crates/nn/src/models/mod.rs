//! Whole models, and what is done with one: generating text, and measuring how well it is
//! predicted.

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
