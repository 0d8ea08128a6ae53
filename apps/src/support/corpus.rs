//! A text that needs no file: documentation and source of this project.

use ternion::data::Text;

/// Documentation first, then source.
const PARTS: &[&str] = &[
    include_str!("../../../README.md"),
    include_str!("../../../ARCHITECTURE.md"),
    include_str!("../../../CONTRIBUTING.md"),
    include_str!("../../../docs/gradients.md"),
    include_str!("../../../docs/adding-an-op.md"),
    include_str!("../../../docs/adding-a-backend.md"),
    include_str!("../../../docs/kernels/README.md"),
    include_str!("../../../docs/kernels/matmul.md"),
    include_str!("../../../docs/kernels/attention.md"),
    include_str!("../mnist/mod.rs"),
    include_str!("../tiny_gpt/mod.rs"),
    include_str!("../../../src/lib.rs"),
];

/// Returns all parts, concatenated.
pub fn text() -> ternion::data::Result<Text> {
    Text::new(PARTS.join("\n"))
}
