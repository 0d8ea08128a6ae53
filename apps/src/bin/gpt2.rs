//! [`ternion_apps::gpt2`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ternion_apps::gpt2::main()
}
