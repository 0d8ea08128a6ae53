//! What queues the shaders of each op, a file for each family, with the stem of its shader.

pub(crate) mod batch_norm;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod cumulative;
pub(crate) mod elementwise;
pub(crate) mod loss;
pub(crate) mod norm;
pub(crate) mod reduce;
pub(crate) mod rows;
pub(crate) mod softmax;

/// Threads of a work group of most shaders, as in their texts.
pub(crate) const GROUP: usize = 256;

/// A file of `shaders/` by its name.
pub(crate) fn shader(name: &str) -> &'static str {
    match name {
        "elementwise.wgsl" => include_str!("../../shaders/elementwise.wgsl"),
        "cumulative.wgsl" => include_str!("../../shaders/cumulative.wgsl"),
        "norm_grad.wgsl" => include_str!("../../shaders/norm_grad.wgsl"),
        "rows.wgsl" => include_str!("../../shaders/rows.wgsl"),
        _ => unreachable!("{name} is not among the shaders"),
    }
}
