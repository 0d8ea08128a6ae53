//! The op table on every device that is present: forward, backward, twice, fused against composed, and what must be rejected.
//!
//! `cargo test --test ops -- softmax` runs the tests whose names contain that; `cargo test --test ops -- 'softmax axis=1 [7,33] bf16 sliced'` runs every check of the case
//! with that printed key. A filter that matches nothing fails. `TERNION_EXPECT=cpu,cuda` makes a missing device a failure.

use std::process::ExitCode;

fn main() -> ExitCode {
    ternion_testing::suite::main("cargo test --test ops", &ternion_testing::suite::targets())
}
