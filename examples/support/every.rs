//! All examples in one program, which share most of their code: `cargo xtask bundle` takes it along. It is the example by whose name it is called.

// Each example has its helpers, as it stands alone too; here `say!` finds those of the root.
#![allow(clippy::duplicate_mod, dead_code, unused_imports, unused_macros)]

#[path = "../gradients.rs"]
mod gradients;
#[path = "../mnist.rs"]
mod mnist;
mod say;
#[path = "../tensors.rs"]
mod tensors;
#[path = "../tiny_gpt.rs"]
mod tiny_gpt;
#[path = "../xor.rs"]
mod xor;

use std::path::Path;
use std::process::{ExitCode, Termination};

fn main() -> ExitCode {
    let called = std::env::args_os().next().unwrap_or_default();
    match Path::new(&called).file_name().and_then(|name| name.to_str()).unwrap_or_default() {
        "gradients" => gradients::main().report(),
        "mnist" => mnist::main(),
        "tensors" => tensors::main().report(),
        "tiny_gpt" => tiny_gpt::main(),
        "xor" => xor::main().report(),
        other => {
            say::warn(format_args!(
                "error: no example {other:?}, expected gradients, mnist, tensors, tiny_gpt or xor"
            ));
            ExitCode::from(2)
        }
    }
}
