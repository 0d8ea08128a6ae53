//! [`ternion_apps::image_encoder`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ternion_apps::image_encoder::main()
}
