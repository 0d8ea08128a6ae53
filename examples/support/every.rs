//! All examples in one program, which share most of their code: `cargo xtask bundle` takes it along. It is the example by whose name it is called.

// Each example has its helpers, as it stands alone too; here `say!` finds those of the root.
#![allow(clippy::duplicate_mod, dead_code, unused_imports, unused_macros)]

#[path = "../cifar10.rs"]
mod cifar10;
#[path = "../compare.rs"]
mod compare;
#[path = "../gpt2.rs"]
mod gpt2;
#[path = "../gradients.rs"]
mod gradients;
#[path = "../housing.rs"]
mod housing;
#[path = "../image_encoder.rs"]
mod image_encoder;
#[path = "../mnist.rs"]
mod mnist;
#[path = "../pytorch_weights.rs"]
mod pytorch_weights;
mod say;
#[path = "../softmax_regression.rs"]
mod softmax_regression;
#[path = "../tensors.rs"]
mod tensors;
#[path = "../tiny_gpt.rs"]
mod tiny_gpt;
#[path = "../xor.rs"]
mod xor;

use std::path::Path;
use std::process::{ExitCode, Termination};

const NAMES: &str = "cifar10, compare, gpt2, gradients, housing, image_encoder, mnist, pytorch_weights, softmax_regression, tensors, tiny_gpt or xor";

fn main() -> ExitCode {
    let called = std::env::args_os().next().unwrap_or_default();
    match Path::new(&called).file_name().and_then(|name| name.to_str()).unwrap_or_default() {
        "cifar10" => cifar10::main(),
        "compare" => compare::main(),
        "gpt2" => gpt2::main(),
        "gradients" => gradients::main().report(),
        "housing" => housing::main(),
        "image_encoder" => image_encoder::main(),
        "mnist" => mnist::main(),
        "pytorch_weights" => pytorch_weights::main(),
        "softmax_regression" => softmax_regression::main(),
        "tensors" => tensors::main().report(),
        "tiny_gpt" => tiny_gpt::main(),
        "xor" => xor::main().report(),
        other => {
            say::warn(format_args!("error: no example {other:?}, expected {NAMES}"));
            ExitCode::from(2)
        }
    }
}
