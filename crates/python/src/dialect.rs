//! The names of the Python interface in the framework's messages: functions, dtypes and terms.
//! Messages consist of parts, `ternion::error::Text`, and are rendered with these names.

use ternion::error::{Dialect, Term};
use ternion::{DType, Error};

/// Names of each dtype; the first one is used by `repr`.
pub const DTYPES: [(DType, &[&str]); 13] = [
    (DType::F64, &["float64", "double"]),
    (DType::F32, &["float32", "float"]),
    (DType::F16, &["float16", "half"]),
    (DType::BF16, &["bfloat16"]),
    (DType::I64, &["int64", "long"]),
    (DType::I32, &["int32", "int"]),
    (DType::I16, &["int16", "short"]),
    (DType::I8, &["int8"]),
    (DType::U64, &["uint64"]),
    (DType::U32, &["uint32"]),
    (DType::U16, &["uint16"]),
    (DType::U8, &["uint8"]),
    (DType::Bool, &["bool"]),
];

/// Ops whose functions have another name in Python.
const OPS: [(&str, &str); 27] = [
    ("and_scalar", "logical_and"),
    ("attention", "scaled_dot_product_attention"),
    ("bce_with_logits", "binary_cross_entropy_with_logits"),
    ("col2im", "fold"),
    ("circular_pad", "pad"),
    ("concat", "cat"),
    ("copy", "copy_"),
    ("from_slice", "tensor"),
    ("from_vec", "tensor"),
    ("gelu_erf", "gelu"),
    ("histogram", "histc"),
    ("im2col", "unfold"),
    ("iota", "arange"),
    ("or_scalar", "logical_or"),
    ("permutation", "randperm"),
    ("powf", "pow"),
    ("recip", "reciprocal"),
    ("reflection_pad", "pad"),
    ("replication_pad", "pad"),
    ("requires_grad", "requires_grad_"),
    ("scatter_set", "scatter"),
    ("slice", "index"),
    ("slice_assign", "index"),
    ("stats_monitor", "StatsMonitor"),
    ("to_device", "to"),
    ("to_dtype", "to"),
    ("xor_scalar", "logical_xor"),
];

/// The names of the Python interface.
struct PythonNames;

impl Dialect for PythonNames {
    fn op<'a>(&self, op: &'a str) -> &'a str {
        let known = OPS.iter().find(|(core_name, _)| *core_name == op).map(|(_, name)| *name);
        known.unwrap_or_else(|| op.strip_suffix("_scalar").or(op.strip_suffix("_keep")).unwrap_or(op))
    }

    fn dtype(&self, dtype: DType) -> &'static str {
        dtype_name(dtype)
    }

    fn term(&self, term: Term) -> &'static str {
        match term {
            Term::ToDType => ".to(dtype)",
            Term::ToDevice => ".to(device)",
            Term::RequiresGrad => "requires_grad_()",
            Term::AllowUnused => "allow_unused=True",
            Term::Cotangent => "gradient",
            Term::Cotangents => "gradients",
            Term::OutputsAgainst => "outputs for",
            Term::WeighOutputs => "give backward() a gradient",
        }
    }
}

/// Returns the name of a dtype in Python.
pub fn dtype_name(dtype: DType) -> &'static str {
    DTYPES.iter().find(|(known, _)| *known == dtype).map_or("", |(_, names)| names[0])
}

/// Returns the op that an error's message begins with, by its name in Python.
pub fn op(error: &Error) -> Option<&'static str> {
    error.op().map(|op| PythonNames.op(op))
}

/// Renders the message of an error in the names of the Python interface.
pub fn message(error: &Error) -> String {
    error.in_dialect(&PythonNames).to_string()
}
