//! Messages of the framework in the words of Python: its names of dtypes, methods and arguments in place of Rust's.

use crate::dtype;
use ternion::{DType, Error};

/// Ops whose functions have another name in Python.
const OPS: [(&str, &str); 23] = [
    ("and_scalar", "logical_and"),
    ("attention", "scaled_dot_product_attention"),
    ("bce_with_logits", "binary_cross_entropy_with_logits"),
    ("col2im", "fold"),
    ("concat", "cat"),
    ("copy", "copy_"),
    ("from_slice", "tensor"),
    ("from_vec", "tensor"),
    ("histogram", "histc"),
    ("im2col", "unfold"),
    ("iota", "arange"),
    ("or_scalar", "logical_or"),
    ("permutation", "randperm"),
    ("powf", "pow"),
    ("recip", "reciprocal"),
    ("requires_grad", "requires_grad_"),
    ("scatter_set", "scatter"),
    ("slice", "index"),
    ("slice_assign", "index"),
    ("to_device", "to"),
    ("to_dtype", "to"),
    ("upsample", "interpolate"),
    ("xor_scalar", "logical_xor"),
];

/// What is said otherwise in Python.
const PHRASES: [(&str, &str); 8] = [
    ("with to_dtype", "with .to(dtype)"),
    ("with to_device", "with .to(device)"),
    ("or use grad with cotangents", "or give backward() a gradient"),
    ("outputs but", "outputs for"),
    ("cotangents", "gradients"),
    ("cotangent", "gradient"),
    ("call requires_grad on it", "call requires_grad_() on it"),
    ("; allow_unused gives None", "; allow_unused=True gives None"),
];

/// What fails in an op on the way is told in the name of the function that was called.
pub trait Called {
    fn called(self, function: &'static str) -> Self;
}

impl<T> Called for ternion::Result<T> {
    fn called(mut self, function: &'static str) -> Self {
        if let Err(
            Error::Invalid { op, .. }
            | Error::Broadcast { op, .. }
            | Error::Shape { op, .. }
            | Error::Rank { op, .. }
            | Error::Axis { op, .. }
            | Error::DType { op, .. }
            | Error::DTypeMismatch { op, .. }
            | Error::DeviceMismatch { op, .. }
            | Error::IndexOutOfRange { op, .. },
        ) = &mut self
        {
            *op = function;
        }
        self
    }
}

/// The function of Python behind an op.
fn op_name(op: &str) -> &str {
    let known = OPS.iter().find(|(own, _)| *own == op).map(|(_, name)| *name);
    known.unwrap_or_else(|| op.strip_suffix("_scalar").or(op.strip_suffix("_keep")).unwrap_or(op))
}

/// What a dtype is called in Python, if the word is the name of one.
fn dtype_name(word: &str) -> Option<&'static str> {
    // bool is bool everywhere.
    DType::parse(word).map(dtype::name)
}

/// The message of an error for whoever writes Python.
///
/// What users named themselves stays: files, devices, parameters.
pub fn message(error: &Error) -> String {
    let text = error.to_string();
    let op = match error {
        Error::File { .. }
        | Error::Device { .. }
        | Error::OutOfMemory { .. }
        | Error::MissingGradient { .. } => return text,
        Error::Invalid { op, .. }
        | Error::Broadcast { op, .. }
        | Error::Shape { op, .. }
        | Error::Rank { op, .. }
        | Error::Axis { op, .. }
        | Error::DType { op, .. }
        | Error::DTypeMismatch { op, .. }
        | Error::DeviceMismatch { op, .. }
        | Error::IndexOutOfRange { op, .. }
        | Error::Unsupported { op, .. } => *op,
        _ => "",
    };
    let text = match text.strip_prefix(op).filter(|_| !op.is_empty()) {
        Some(rest) => format!("{}{rest}", op_name(op)),
        None => text,
    };
    let phrased = PHRASES.iter().fold(text, |text, (own, said)| text.replace(own, said));
    with_dtypes(&phrased)
}

/// The text with Python's names of dtypes. A word is between blanks, commas and brackets: parts of keys and paths are none.
pub fn with_dtypes(text: &str) -> String {
    let is_word = |c: char| !matches!(c, ' ' | ',' | ';' | ':' | '(' | ')' | '[' | ']');
    let mut said = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        let end = rest[start..].find(|c| !is_word(c)).map_or(rest.len(), |length| start + length);
        let word = &rest[start..end];
        // A full stop ends a sentence, and is of no key where nothing follows it.
        let (bare, stop) = word.strip_suffix('.').map_or((word, ""), |bare| (bare, "."));
        said += &rest[..start];
        match dtype_name(bare) {
            Some(name) => said += &format!("{name}{stop}"),
            None => said += word,
        }
        rest = &rest[end..];
    }
    said + rest
}
