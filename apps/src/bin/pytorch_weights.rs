//! [`ternion_apps::pytorch_weights`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ternion_apps::pytorch_weights::main()
}
