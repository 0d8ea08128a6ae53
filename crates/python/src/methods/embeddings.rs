//! Lookup of rows by index: a part of `ternion.nn.functional`.

use crate::arguments::{Real, extract_tensor};
use crate::error::{Outcome, RaisedError, WithOp};
use crate::extract::of;
use crate::gil::{run, wait};
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::{DType, EmbeddingOptions};

/// Returns the rows of `weight` at the given indices.
///
/// Shapes: input [..] (int32 or int64), weight [rows, width] -> [.., width]
///
/// Raises:
///     IndexError: an index out of range.
///     TypeError: indices that are not int32 or int64.
///     ValueError: a `padding_idx` out of range.
#[pyfunction]
#[pyo3(signature = (input, weight, padding_idx=None, scale_grad_by_freq=false))]
fn embedding(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    weight: &Bound<'_, PyAny>,
    padding_idx: Option<isize>,
    scale_grad_by_freq: bool,
) -> Outcome<PyTensor> {
    let (indices, weight) =
        (extract_tensor("embedding", "input", input)?, extract_tensor("embedding", "weight", weight)?);
    let count = weight.dims().first().copied().unwrap_or(0);
    let row = |index: isize| {
        let from_start = if index < 0 { index.checked_add_unsigned(count)? } else { index };
        usize::try_from(from_start).ok().filter(|&row| row < count)
    };
    let out_of_range = |index: isize| {
        RaisedError::value_error(format!("embedding: padding_idx {index} is none of {count} rows"))
    };
    let padding_idx = padding_idx.map(|index| row(index).ok_or_else(|| out_of_range(index))).transpose()?;
    let options = EmbeddingOptions { padding_idx, scale_grad_by_freq };
    run(py, indices.elements(), || weight.embedding_with(&indices, options)).map(PyTensor::new)
}

/// Rescales the used rows of `weight` so that their norm is at most `max_norm`, in place.
#[pyfunction]
fn _embedding_renorm(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    weight: &Bound<'_, PyAny>,
    max_norm: Real,
    norm_type: Real,
) -> Outcome<()> {
    let (indices, weight) =
        (extract_tensor("embedding", "input", input)?, extract_tensor("embedding", "weight", weight)?);
    wait(py, || weight.embedding_renorm_(&indices, max_norm.0, norm_type.0).with_op("embedding"))
}

/// Returns a one-hot encoding, int64: 1 at each index, 0 elsewhere. If `num_classes` is -1, it is
/// the largest index plus 1.
///
/// Shapes: [..] -> [.., num_classes]
///
/// Raises:
///     TypeError: indices that are not int32 or int64.
///     ValueError: no elements, and no `num_classes`.
#[pyfunction]
#[pyo3(signature = (tensor, num_classes=-1))]
fn one_hot(
    py: Python<'_>,
    tensor: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::one_hot)] num_classes: isize,
) -> Outcome<PyTensor> {
    let x = extract_tensor("one_hot", "tensor", tensor)?;
    if num_classes < -1 || (num_classes == 0 && x.elements() > 0) {
        let message = format!(
            "one_hot: num_classes is {num_classes}, expected at least 1, or -1: as many as the largest index needs"
        );
        return Err(RaisedError::value_error(message));
    }
    if num_classes < 0 && x.elements() == 0 {
        let message = format!("one_hot: of shape {:?}, expected elements or num_classes", x.dims());
        return Err(RaisedError::value_error(message));
    }
    wait(py, || {
        let classes = match usize::try_from(num_classes) {
            Ok(classes) => classes,
            Err(_) => (x.max(..)?.item_f64()? as usize).saturating_add(1),
        };
        x.one_hot(classes, DType::I64)
    })
    .map(PyTensor::new)
}

/// Adds the functions to a module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(embedding, module)?)?;
    module.add_function(wrap_pyfunction!(_embedding_renorm, module)?)?;
    module.add_function(wrap_pyfunction!(one_hot, module)?)
}
