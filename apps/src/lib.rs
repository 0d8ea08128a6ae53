//! Complete training programs written with Ternion: command lines, checkpoints, plots, and resuming
//! after an interruption.
//!
//! Each module is a program, built under its name (`cargo run --release -p apps --bin mnist`). The
//! short programs to learn from are in `examples/`.

pub mod cifar10;
pub mod compare;
pub mod gpt2;
pub mod housing;
pub mod image_encoder;
pub mod mnist;
pub mod pytorch_weights;
pub mod softmax_regression;
pub mod support;
pub mod tiny_gpt;
