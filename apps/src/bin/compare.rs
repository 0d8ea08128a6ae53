//! [`ternion_apps::compare`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ternion_apps::compare::main()
}
