//! What queues the shaders of each op, a file for each family, with the stem of its shader.

pub(crate) mod attention;
pub(crate) mod conv;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod elementwise;
pub(crate) mod matmul;

/// Threads of a work group of most shaders, as in their texts.
pub(crate) const GROUP: usize = 256;

/// A file of `shaders/` by its name.
pub(crate) fn shader(name: &str) -> &'static str {
    match name {
        "elementwise.wgsl" => include_str!("../../shaders/elementwise.wgsl"),
        "matmul.wgsl" => include_str!("../../shaders/matmul.wgsl"),
        "attention.wgsl" => include_str!("../../shaders/attention.wgsl"),
        "attention_grad.wgsl" => include_str!("../../shaders/attention_grad.wgsl"),
        "attention_grad_rows.wgsl" => include_str!("../../shaders/attention_grad_rows.wgsl"),
        "conv2d.wgsl" => include_str!("../../shaders/conv2d.wgsl"),
        _ => unreachable!("{name} is not among the shaders"),
    }
}
