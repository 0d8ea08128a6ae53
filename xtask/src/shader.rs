//! Prints the WGSL that the wgpu backend links for an op: for its first call in its rows of the op
//! table. For an op without its own shader, prints the shaders of the ops that it is composed of.

use std::collections::BTreeSet;
use ternion_core::ops::create::Fill;
use ternion_core::{DType, Device, Op, Scalar, Shape, no_grad};
use ternion_testing::OpCase;
use ternion_testing::case::{CaseInputs, InputKind};
use ternion_testing::guarded::{Guarded, Repeat};
use ternion_testing::memory_layout::MemoryLayout;
use ternion_testing::table::{Instance, table};
use ternion_wgpu::{Launched, WgpuBackend, noop_device};

/// Prints the shaders of an op in a dtype.
pub fn run(name: &str, dtype: &str) -> Result<(), String> {
    let text = linked(name, dtype)?;
    print!("{text}");
    Ok(())
}

/// Returns the shaders of an op in a dtype, concatenated if a call launches several.
fn linked(name: &str, dtype: &str) -> Result<String, String> {
    let rows: Vec<OpCase> = table().into_iter().filter(|row| row.op == name).collect();
    if rows.is_empty() {
        return Err(format!("no op {name:?} in the op table; there are: {}", listed(names())));
    }
    let dtype = parsed(dtype)?;
    let selected_rows: Vec<&OpCase> = rows.iter().filter(|row| row.dtypes.contains(&dtype)).collect();
    if selected_rows.is_empty() {
        let all: BTreeSet<&str> = rows.iter().flat_map(|row| &row.dtypes).map(|dtype| dtype.name()).collect();
        return Err(format!("{name} is not for {dtype}; it is for: {}", listed(all)));
    }
    let device = noop_device();
    unsupported_reason(&device, dtype)
        .map_or(Ok(()), |why| Err(format!("{name}: no shader in {dtype}: {why}")))?;
    texts(name, &selected_rows, dtype, &device)
}

/// Returns the shaders of the first call of the op. If the op is not called, returns those of the
/// first shapes that launch any.
fn texts(name: &str, rows: &[&OpCase], dtype: DType, device: &Device) -> Result<String, String> {
    let (mut composed, mut is_of_host) = (Vec::new(), false);
    for case in rows.iter().flat_map(|row| filled(row).into_iter().map(move |instance| (*row, instance))) {
        let (launched, has_run) = run_case(name, case, dtype, device);
        if let Some(own) = launched.iter().find(|one| one.op == name).map(|one| one.call) {
            let own: Vec<Launched> = launched.into_iter().filter(|one| one.call == own).collect();
            return Ok(described(&own));
        }
        is_of_host |= has_run;
        if composed.is_empty() {
            composed = launched;
        }
    }
    match composed.is_empty() {
        _ if is_of_host => Err(format!("{name} launches no shader: the host computes it")),
        true => Err(format!("{name} launches no shader on dense tensors: it makes a view")),
        false => Ok(format!("{}\n\n{}", heading(name, &composed), described(&composed))),
    }
}

/// Returns the names of all ops.
fn names() -> BTreeSet<&'static str> {
    table().iter().map(|row| row.op).collect()
}

fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn parsed(name: &str) -> Result<DType, String> {
    let found = DType::ALL.iter().find(|dtype| dtype.name() == name);
    found.copied().ok_or_else(|| {
        format!("no dtype {name:?}; there are: {}", listed(DType::ALL.iter().map(|dtype| dtype.name())))
    })
}

/// Returns why the backend has no shaders of a dtype, if it has none.
fn unsupported_reason(device: &Device, dtype: DType) -> Option<String> {
    let fill = Op::Fill(Fill { shape: Shape::new(&[1]).ok()?, dtype, value: Scalar::Int(0) });
    device.backend().plan(&fill, &[]).err().map(|unsupported| unsupported.why.into_owned())
}

/// Returns the shapes of the row in which all tensors have elements: without elements an op
/// launches nothing, or only a copy. The smallest shapes with more than one element come first:
/// with one element no strides are read.
fn filled(row: &OpCase) -> Vec<&Instance> {
    let elements = |shape: &Vec<usize>| shape.iter().product::<usize>();
    let mut instances: Vec<&Instance> = row.instances.iter().collect();
    instances.retain(|instance| instance.iter().all(|shape| elements(shape) > 0));
    instances.sort_by_key(|instance| {
        let sum = instance.iter().map(elements).sum::<usize>();
        (sum <= 1, sum)
    });
    instances
}

/// Returns what a row launches with these shapes, and whether the device ran an op of this name.
/// Because nothing is computed, the call may return an error after it has launched the shaders.
fn run_case(
    name: &str,
    (row, instance): (&OpCase, &Instance),
    dtype: DType,
    device: &Device,
) -> (Vec<Launched>, bool) {
    let Some(backend) = device.downcast::<WgpuBackend>() else { return (Vec::new(), false) };
    let case_inputs = CaseInputs::new(row, instance, InputKind::of(dtype), MemoryLayout::Dense);
    let (recorded, trace) = Guarded::device(device, Repeat::Unguarded);
    backend.take_launched();
    let _ = no_grad(|| row.call(&recorded, dtype, MemoryLayout::Dense, &case_inputs.inputs));
    (backend.take_launched(), trace.get().ran.iter().any(|(_, ran)| *ran == name))
}

/// Returns a heading which says that these shaders belong to other ops.
fn heading(name: &str, launched: &[Launched]) -> String {
    let mut ops: Vec<&str> = Vec::new();
    for one in launched {
        if !ops.contains(&one.op) {
            ops.push(one.op);
        }
    }
    format!("// {name} has no shader; it is composed of ops that have: {}", listed(ops))
}

/// Returns the shaders, each after the path of its template, without duplicates.
fn described(launched: &[Launched]) -> String {
    let mut text = String::new();
    for (at, one) in launched.iter().enumerate() {
        let is_equal = |other: &Launched| (other.op, &other.source) == (one.op, &one.source);
        if !launched[..at].iter().any(is_equal) {
            text.push_str(&format!("// {}: shaders/{}\n\n", one.op, one.path));
            one.source.trim_end().split_inclusive('\n').for_each(|line| push_line(&mut text, line));
            text.push('\n');
        }
    }
    text
}

/// Adds a line. Skips a blank line that follows another one, where the linker removed declarations.
fn push_line(text: &mut String, line: &str) {
    if !(line.trim().is_empty() && text.ends_with("\n\n")) {
        text.push_str(if line.trim().is_empty() { "\n" } else { line });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Methods without a shader: views, and what the host computes.
    const WITHOUT: &[&str] = &[
        "as_strided",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "bartlett_window",
        "blackman_window",
        "broadcast_shapes",
        "broadcast_tensors",
        "chunk",
        "cosine_window",
        "diagonal",
        "dsplit",
        "expand",
        "exponential_window",
        "flatten",
        "flip",
        "fliplr",
        "flipud",
        "float_power",
        "gaussian_window",
        "general_cosine_window",
        "general_hamming_window",
        "hamming_window",
        "hann_window",
        "hsplit",
        "iota",
        "kaiser_window",
        "linalg.det",
        "linalg.inv",
        "linalg.inv_ex",
        "linalg.lu_factor",
        "linalg.lu_factor_ex",
        "linalg.slogdet",
        "linalg.svdvals",
        "linalg.tensorinv",
        "linalg.tensorsolve",
        "logspace",
        "meshgrid",
        "movedim",
        "narrow",
        "new",
        "nuttall_window",
        "permute",
        "reshape",
        "select",
        "slice",
        "split",
        "split_sizes",
        "squeeze",
        "t",
        "tensor_split",
        "transpose",
        "tril_indices",
        "triu_indices",
        "unfold",
        "unsqueeze",
        "vsplit",
    ];

    /// Returns what is printed for an op: in f32, or in its first dtype if it does not support f32.
    fn printed(name: &str) -> Result<String, String> {
        let rows = table().into_iter().filter(|row| row.op == name);
        let dtypes: BTreeSet<&str> = rows.flat_map(|row| row.dtypes).map(DType::name).collect();
        let first = dtypes.first().expect("a dtype");
        linked(name, if dtypes.contains("f32") { "f32" } else { first })
    }

    #[test]
    fn every_op_of_the_table_has_its_shader_printed() {
        let mut without = Vec::new();
        for name in names() {
            match printed(name) {
                Ok(text) => {
                    assert!(text.contains("fn main("), "{name}: {text}");
                    assert!(!text.contains("\n\n\n"), "{name}: blank lines in a row: {text}");
                }
                Err(_) => without.push(name),
            }
        }
        assert_eq!(without, WITHOUT);
    }

    /// The ops that the backend runs: the variant of `Op`, an op of it, and the file that computes
    /// it.
    const OWN_SHADERS: &[[&str; 3]] = &[
        ["Fill", "fill", "ops/elementwise.wgsl"],
        ["Copy", "copy", "ops/elementwise.wgsl"],
        ["Unary", "relu", "ops/elementwise.wgsl"],
        ["UnaryGrad", "relu_grad", "ops/elementwise.wgsl"],
        ["Binary", "add", "ops/elementwise.wgsl"],
        ["BinaryScalar", "add_scalar", "ops/elementwise.wgsl"],
        ["MultiplyAdd", "multiply_add", "ops/elementwise.wgsl"],
        ["ScaleAdd", "scale_add", "ops/elementwise.wgsl"],
        ["AddRelu", "add_relu", "ops/elementwise.wgsl"],
        ["BiasActivation", "bias_activation", "ops/elementwise.wgsl"],
        ["Compare", "le", "ops/elementwise.wgsl"],
        ["CompareScalar", "ne_scalar", "ops/elementwise.wgsl"],
        ["Select", "where", "ops/elementwise.wgsl"],
        ["Reduce", "sum", "rows/rows.wgsl"],
        ["Variance", "var", "rows/rows.wgsl"],
        ["CumulativeSum", "cumsum", "rows/cumulative.wgsl"],
        ["Softmax", "softmax", "rows/rows.wgsl"],
        ["SoftmaxGrad", "softmax_grad", "rows/rows.wgsl"],
        ["LogSoftmax", "log_softmax", "rows/rows.wgsl"],
        ["LogSoftmaxGrad", "log_softmax_grad", "rows/rows.wgsl"],
        ["CrossEntropy", "cross_entropy", "rows/rows.wgsl"],
        ["CrossEntropyGrad", "cross_entropy_grad", "rows/rows.wgsl"],
        ["CrossEntropyWithGrad", "cross_entropy_with_grad", "rows/rows.wgsl"],
        ["CrossEntropyGradUpdate", "cross_entropy_grad_update", "rows/rows.wgsl"],
        ["LayerNorm", "layer_norm", "rows/rows.wgsl"],
        ["LayerNormGrad", "layer_norm_grad", "rows/norm_grad.wgsl"],
        ["RmsNorm", "rms_norm", "rows/rows.wgsl"],
        ["RmsNormGrad", "rms_norm_grad", "rows/norm_grad.wgsl"],
        ["BatchNorm", "batch_norm", "rows/rows.wgsl"],
        ["BatchNormGrad", "batch_norm_grad", "rows/rows.wgsl"],
        ["Gather", "gather", "ops/gather.wgsl"],
        ["IndexSelect", "index_select", "ops/gather.wgsl"],
        ["Scatter", "scatter_add", "ops/scatter.wgsl"],
        ["Scatter", "scatter_set", "ops/scatter.wgsl"],
        ["IndexAdd", "index_add", "ops/scatter.wgsl"],
        ["RandomBits", "random_bits", "ops/random.wgsl"],
        ["Uniform", "uniform", "ops/random.wgsl"],
        ["Normal", "normal", "ops/random.wgsl"],
        ["Dropout", "dropout", "ops/random.wgsl"],
        ["Sort", "sort", "ops/sort.wgsl"],
        ["Pad", "pad", "ops/pad.wgsl"],
        ["Concat", "concat", "ops/concat.wgsl"],
        ["SliceAssign", "slice_assign", "ops/elementwise.wgsl"],
        ["SgdStep", "sgd_step", "ops/step.wgsl"],
        ["AdamStep", "adam_step", "ops/step.wgsl"],
        ["MultiTensorNorm", "multi_tensor_norm", "ops/multi_tensor.wgsl"],
        ["MaxPool2d", "max_pool2d", "ops/pool.wgsl"],
        ["MaxPool2dGrad", "max_pool2d_grad", "ops/pool.wgsl"],
        ["AvgPool2d", "avg_pool2d", "ops/pool.wgsl"],
        ["AvgPool2dGrad", "avg_pool2d_grad", "ops/pool.wgsl"],
        ["Im2col", "im2col", "ops/im2col.wgsl"],
        ["Col2im", "col2im", "ops/im2col.wgsl"],
        ["Matmul", "matmul", "gemm/matmul.wgsl"],
        ["Attention", "attention", "attention/attention.wgsl"],
        ["AttentionGrad", "attention_grad", "attention/grad.wgsl"],
        ["Conv2d", "conv2d", "gemm/conv2d.wgsl"],
        ["Conv2dGradInput", "conv2d_grad_input", "gemm/conv2d.wgsl"],
        ["Conv2dGradWeight", "conv2d_grad_weight", "gemm/conv2d.wgsl"],
    ];

    /// Ops that only move elements.
    const COPIES: &[&str] = &["copy", "slice_assign"];

    #[test]
    fn every_op_that_the_backend_runs_has_its_own_template_printed() {
        let code = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !line.starts_with("//")).map(String::from).collect()
        };
        let copy = code(&printed("copy").expect("a copy has a shader"));
        for [_, name, path] in OWN_SHADERS {
            let text = printed(name).unwrap_or_else(|error| panic!("{error}"));
            assert!(text.starts_with(&format!("// {name}: ")), "{name}: not its own: {text}");
            assert!(text.contains(&format!("// {name}: shaders/{path}\n")), "{name}: not of {path}: {text}");
            assert!(COPIES.contains(name) || code(&text) != copy, "{name}: a copy");
        }
    }

    #[test]
    fn templates_are_known_of_all_that_the_backend_runs() {
        let selection = crate::root().join("crates/backend-wgpu/src/select.rs");
        let selection = std::fs::read_to_string(selection).expect("the selection");
        let selected: BTreeSet<&str> = selection
            .split("Op::")
            .skip(1)
            .filter_map(|text| text.split(|letter: char| !letter.is_ascii_alphanumeric()).next())
            // `Iota` is computed by the host; `Norm` is a kind of reduction, composed with a scale.
            .filter(|variant| !["Iota", "Norm"].contains(variant))
            .collect();
        assert_eq!(selected, OWN_SHADERS.iter().map(|[variant, ..]| *variant).collect());
    }

    #[test]
    fn ops_without_a_shader_are_reported() {
        let error = printed("iota").expect_err("no shader");
        assert_eq!(error, "iota launches no shader: the host computes it");
        let error = printed("permute").expect_err("no shader");
        assert_eq!(error, "permute launches no shader on dense tensors: it makes a view");
        let text = printed("mse_loss").expect("its parts have shaders");
        let heading = "// mse_loss has no shader; it is composed of ops that have: sub, square, mean\n\n";
        assert!(text.starts_with(heading), "{text}");
        let headings: Vec<&str> = text.lines().filter(|line| line.contains(": shaders/")).collect();
        let elementwise = |op: &str| format!("// {op}: shaders/ops/elementwise.wgsl");
        let mean = "// mean: shaders/rows/rows.wgsl".to_string();
        assert_eq!(headings, [elementwise("sub"), elementwise("square"), mean]);
    }

    #[test]
    fn what_does_not_exist_is_named() {
        let error = linked("soft_max", "f32").expect_err("no such op");
        assert!(error.contains("soft_max") && error.contains(" softmax,"), "{error}");
        let error = linked("softmax", "f23").expect_err("no such dtype");
        assert!(error.contains("f23") && error.contains("bf16"), "{error}");
        let error = linked("softmax", "i32").expect_err("floats only");
        assert!(error.contains("is not for i32; it is for: bf16, f16, f32, f64"), "{error}");
        let error = linked("softmax", "f64").expect_err("WGSL");
        assert!(error.contains("WGSL has no 64-bit floats"), "{error}");
    }

    /// The page shows the shader in parts, with text between them.
    #[test]
    fn the_expanded_shader_of_the_page_is_current() {
        let page = crate::root().join("docs/kernels/wgsl-expanded.md");
        let page = std::fs::read_to_string(page).expect("the page");
        let blocks = page.split("```wgsl\n").skip(1).filter_map(|part| part.split("```").next());
        let lines = |text: &str| text.lines().filter(|line| !line.is_empty()).map(String::from).collect();
        let shown: Vec<String> = lines(&blocks.collect::<String>());
        let printed: Vec<String> = lines(&linked("softmax", "f32").expect("softmax has a shader"));
        assert_eq!(shown, printed, "cargo xtask shader softmax f32");
    }
}
