//! The groups into which the time of a step is divided.

/// Returns the group of a kernel by its op and the file that it is compiled from;
/// `peers/timeline.py` has the same groups for PyTorch's kernels.
pub fn group(op: &str, file: &str) -> &'static str {
    let op_starts_with = |prefixes: &[&str]| prefixes.iter().any(|prefix| op.starts_with(prefix));
    let folder = file.split('/').next().unwrap_or_default();
    match () {
        () if op == "copy" => "casts and copies",
        () if op_starts_with(&["concat", "pad", "slice_assign"]) => "casts and copies",
        () if folder == "attention" || op_starts_with(&["attention"]) => "attention",
        () if op_starts_with(&["im2col", "col2im", "conv2d", "max_pool2d", "avg_pool2d"]) => {
            "convolution and pooling"
        }
        () if folder == "conv" => "convolution and pooling",
        () if op_starts_with(&["layer_norm", "rms_norm", "batch_norm", "group_norm"]) => "norm",
        () if op_starts_with(&["cross_entropy", "log_softmax", "softmax"]) => "loss",
        () if op_starts_with(&["adam", "sgd", "multi_tensor"])
            || op.ends_with("_step")
            || op.contains("grad_norm") =>
        {
            "optimizer"
        }
        () if op_starts_with(&["gather", "index_select", "index_add", "scatter", "embedding"]) => "embedding",
        () if op_starts_with(&["matmul", "linear", "addmm"]) || PRODUCTS.contains(&folder) => "products",
        () if file == "ops/reduce.cu" || file == "ops/cumulative.cu" => "reductions",
        () if ELEMENTWISE.contains(&file) => "elementwise",
        () => "other",
    }
}

/// Folders of kernels that multiply matrices.
const PRODUCTS: [&str; 2] = ["gemm", "matmul"];
const ELEMENTWISE: [&str; 3] = ["ops/elementwise.cu", "ops/create.cu", "ops/random.cu"];

/// The group of the driver's copies and fills.
pub const MEMORY: &str = "memset and memcpy";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_of_a_step_has_a_group() {
        for (op, file, expected) in [
            ("matmul", "gemm/mma.cu", "products"),
            ("matmul", "ops/reduce.cu", "products"),
            ("attention_grad", "attention/grad.cu", "attention"),
            ("layer_norm_grad", "ops/norm.cu", "norm"),
            ("gelu_tanh", "ops/elementwise.cu", "elementwise"),
            ("copy", "ops/elementwise.cu", "casts and copies"),
            ("copy", "ops/copy.cu", "casts and copies"),
            ("concat", "ops/assemble.cu", "casts and copies"),
            ("cross_entropy_with_grad", "ops/loss.cu", "loss"),
            ("adam_step", "ops/step.cu", "optimizer"),
            ("multi_tensor_norm", "ops/multi_tensor.cu", "optimizer"),
            ("index_select", "ops/index.cu", "embedding"),
            ("index_add", "ops/scatter.cu", "embedding"),
            ("sum", "ops/reduce.cu", "reductions"),
            ("im2col", "conv/im2col.cu", "convolution and pooling"),
            ("max_pool2d_grad", "ops/pool.cu", "convolution and pooling"),
            ("dropout", "ops/random.cu", "elementwise"),
            ("something", "new/thing.cu", "other"),
        ] {
            assert_eq!(group(op, file), expected, "{op} of {file}");
        }
    }

    /// Ops that other groups than elementwise match by a prefix of their names must not be
    /// elementwise functions.
    #[test]
    fn all_files_of_kernels_but_those_of_tests_are_known() {
        for variant in ternion_cuda::variants() {
            let file = variant.source().file;
            let op = match file {
                "ops/copy.cu" => "copy",
                "ops/assemble.cu" => "pad",
                "ops/index.cu" | "ops/scatter.cu" | "ops/sort.cu" => "gather",
                "ops/softmax.cu" => "softmax",
                "ops/loss.cu" => "cross_entropy",
                "ops/norm.cu" => "layer_norm",
                "ops/batch_norm.cu" => "batch_norm",
                "ops/step.cu" => "adam_step",
                "ops/multi_tensor.cu" => "multi_tensor_norm",
                "ops/pool.cu" => "max_pool2d",
                _ => "any",
            };
            assert_ne!(group(op, file), "other", "{file}");
        }
    }
}
