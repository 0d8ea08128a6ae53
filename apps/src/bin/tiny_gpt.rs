//! [`ternion_apps::tiny_gpt`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ternion_apps::tiny_gpt::main()
}
