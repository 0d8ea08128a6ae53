//! [`ternion_apps::softmax_regression`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ternion_apps::softmax_regression::main()
}
