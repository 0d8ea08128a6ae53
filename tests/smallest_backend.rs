//! The backend trait is sufficient: a backend of plain loops over the primitives passes the op
//! table.

#[path = "../examples/own_backend/backend.rs"]
mod backend;

use std::process::ExitCode;

fn main() -> ExitCode {
    ternion_testing::suite::main_excluding(
        &["cpu", "cuda", "wgpu"],
        "cargo test --test smallest_backend",
        &[ternion_testing::Target::new(backend::device()).immediate()],
    )
}
