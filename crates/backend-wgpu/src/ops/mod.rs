//! What queues the shaders of each op, a file for each family, with the stem of its shader.

pub(crate) mod assemble;
pub(crate) mod attention;
pub(crate) mod batch_norm;
pub(crate) mod conv;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod cumulative;
pub(crate) mod elementwise;
pub(crate) mod gather;
pub(crate) mod loss;
pub(crate) mod matmul;
pub(crate) mod norm;
pub(crate) mod patches;
pub(crate) mod pool;
pub(crate) mod radix;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod rows;
pub(crate) mod scatter;
pub(crate) mod softmax;
pub(crate) mod sort;
pub(crate) mod step;
pub(crate) mod step_fours;
pub(crate) mod transpose;
pub(crate) mod window;
pub(crate) mod write;

/// Threads of a work group of most shaders, as in their texts.
pub(crate) const GROUP: usize = 256;

/// A file of `shaders/` by its name.
pub(crate) fn shader(name: &str) -> &'static str {
    match name {
        "elementwise.wgsl" => include_str!("../../shaders/elementwise.wgsl"),
        "cumulative.wgsl" => include_str!("../../shaders/cumulative.wgsl"),
        "norm_grad.wgsl" => include_str!("../../shaders/norm_grad.wgsl"),
        "norm_grad_fours.wgsl" => include_str!("../../shaders/norm_grad_fours.wgsl"),
        "exponentials_fours.wgsl" => include_str!("../../shaders/exponentials_fours.wgsl"),
        "sums_fours.wgsl" => include_str!("../../shaders/sums_fours.wgsl"),
        "rows.wgsl" => include_str!("../../shaders/rows.wgsl"),
        "gather.wgsl" => include_str!("../../shaders/gather.wgsl"),
        "radix.wgsl" => include_str!("../../shaders/radix.wgsl"),
        "scatter.wgsl" => include_str!("../../shaders/scatter.wgsl"),
        "random.wgsl" => include_str!("../../shaders/random.wgsl"),
        "sort.wgsl" => include_str!("../../shaders/sort.wgsl"),
        "pad.wgsl" => include_str!("../../shaders/pad.wgsl"),
        "concat.wgsl" => include_str!("../../shaders/concat.wgsl"),
        "step.wgsl" => include_str!("../../shaders/step.wgsl"),
        "step_fours.wgsl" => include_str!("../../shaders/step_fours.wgsl"),
        "transpose.wgsl" => include_str!("../../shaders/transpose.wgsl"),
        "pool.wgsl" => include_str!("../../shaders/pool.wgsl"),
        "patches.wgsl" => include_str!("../../shaders/patches.wgsl"),
        "matmul.wgsl" => include_str!("../../shaders/matmul.wgsl"),
        "matmul_cooperative.wgsl" => include_str!("../../shaders/matmul_cooperative.wgsl"),
        "attention.wgsl" => include_str!("../../shaders/attention.wgsl"),
        "attention_fours.wgsl" => include_str!("../../shaders/attention_fours.wgsl"),
        "attention_fours_grad.wgsl" => include_str!("../../shaders/attention_fours_grad.wgsl"),
        "attention_products.wgsl" => include_str!("../../shaders/attention_products.wgsl"),
        "attention_halves.wgsl" => include_str!("../../shaders/attention_halves.wgsl"),
        "attention_cooperative.wgsl" => include_str!("../../shaders/attention_cooperative.wgsl"),
        "attention_cooperative_grad.wgsl" => include_str!("../../shaders/attention_cooperative_grad.wgsl"),
        "attention_grad.wgsl" => include_str!("../../shaders/attention_grad.wgsl"),
        "attention_grad_rows.wgsl" => include_str!("../../shaders/attention_grad_rows.wgsl"),
        "conv2d.wgsl" => include_str!("../../shaders/conv2d.wgsl"),
        _ => unreachable!("{name} is not among the shaders"),
    }
}
