//! Shows that the harness finds faults: twelve typical faults of kernels and gradient rules,
//! planted in every op, dtype and direction.
//!
//! `cargo test --test faults -- softmax` plants them in the ops whose names contain `softmax`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let cpu = ternion_testing::suite::targets().swap_remove(0);
    ternion_testing::faults::search::main(&cpu)
}
