//! [`ternion_apps::cifar10`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ternion_apps::cifar10::main()
}
