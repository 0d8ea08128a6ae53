//! [`ternion_apps::housing`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ternion_apps::housing::main()
}
