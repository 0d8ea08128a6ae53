//! [`ternion_apps::mnist`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ternion_apps::mnist::main()
}
