//! The op table on every device that is present: forward, backward, double backward, fused against
//! composed, and rejected calls.
//!
//! `cargo run -p ternion-testing --example ops -- softmax` runs the tests whose names contain
//! `softmax`; with a printed key as the filter, it runs every check of that case.

use std::process::ExitCode;

fn main() -> ExitCode {
    ternion_testing::suite::main(
        "cargo run -p ternion-testing --example ops",
        &ternion_testing::suite::targets(),
    )
}
