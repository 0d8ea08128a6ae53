//! All programs in one binary, because they share most of their code. It runs the program that the
//! file name of `argv[0]` names. `cargo xtask bundle` packs it.

use std::path::Path;
use std::process::ExitCode;
use ternion_apps::{
    cifar10, compare, gpt2, housing, image_encoder, mnist, pytorch_weights, softmax_regression, tiny_gpt,
};

const NAMES: &str =
    "cifar10, compare, gpt2, housing, image_encoder, mnist, pytorch_weights, softmax_regression or tiny_gpt";

fn main() -> ExitCode {
    let called = std::env::args_os().next().unwrap_or_default();
    match Path::new(&called).file_name().and_then(|name| name.to_str()).unwrap_or_default() {
        "cifar10" => cifar10::main(),
        "compare" => compare::main(),
        "gpt2" => gpt2::main(),
        "housing" => housing::main(),
        "image_encoder" => image_encoder::main(),
        "mnist" => mnist::main(),
        "pytorch_weights" => pytorch_weights::main(),
        "softmax_regression" => softmax_regression::main(),
        "tiny_gpt" => tiny_gpt::main(),
        other => {
            eprintln!("error: no program {other:?}, expected {NAMES}");
            ExitCode::from(2)
        }
    }
}
