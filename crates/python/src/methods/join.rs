//! Concatenation and stacking of tensors.

use crate::arguments::dim_or_axis;
use crate::error::{Outcome, RaisedError};
use crate::extract::of;
use crate::gil::run;
use crate::promote::promote_types;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::{Result, Tensor};

/// Extracts the tensors of a list, at least one.
pub(super) fn extract_unpromoted_tensors(list: &Bound<'_, PyAny>, function: &str) -> Outcome<Vec<Tensor>> {
    let Ok(items) = list.try_iter() else {
        let kind = list.get_type().name()?.to_string();
        return Err(RaisedError::type_error(format!("{function}: expected a list of tensors, got {kind}")));
    };
    let items = items.map(|item| {
        let item = item?;
        match item.cast::<PyTensor>() {
            Ok(tensor) => Ok(tensor.get().tensor()),
            Err(_) => {
                let kind = item.get_type().name()?.to_string();
                Err(RaisedError::type_error(format!("{function}: expected tensors, got {kind}")))
            }
        }
    });
    let tensors = items.collect::<Outcome<Vec<_>>>()?;
    match tensors.is_empty() {
        true => Err(RaisedError::value_error(format!("{function}: expected at least one tensor"))),
        false => Ok(tensors),
    }
}

/// Extracts the tensors of a list and converts them to their common dtype.
pub(super) fn extract_tensors(list: &Bound<'_, PyAny>, function: &str) -> Outcome<Vec<Tensor>> {
    let tensors = extract_unpromoted_tensors(list, function)?;
    let first = tensors[0].dtype();
    let Some(dtype) = tensors.iter().try_fold(first, |dtype, tensor| promote_types(dtype, tensor.dtype()))
    else {
        // The next op reports the incompatible dtypes.
        return Ok(tensors);
    };
    Ok(tensors.iter().map(|tensor| tensor.to_dtype(dtype)).collect::<Result<_>>()?)
}

pub(super) fn join_tensors(
    py: Python<'_>,
    tensors: Vec<Tensor>,
    f: impl FnOnce(&[&Tensor]) -> Result<Tensor> + Send,
) -> Outcome<PyTensor> {
    let elements = tensors.iter().map(Tensor::elements).sum();
    run(py, elements, || f(&tensors.iter().collect::<Vec<_>>())).map(PyTensor::new)
}

/// Omits tensors of shape [0] if others have another number of axes: as in PyTorch, they are
/// ignored.
fn without_empty_tensors<'a>(tensors: &[&'a Tensor]) -> Vec<&'a Tensor> {
    let others: Vec<&Tensor> = tensors.iter().copied().filter(|tensor| tensor.dims() != [0]).collect();
    if others.iter().any(|tensor| tensor.rank() != 1) { others } else { tensors.to_vec() }
}

/// Concatenates tensors along an existing axis. Tensors of shape [0] are ignored if others have
/// more axes.
///
/// Shapes: [.., m, ..] and [.., n, ..] -> [.., m + n, ..]
///
/// Raises:
///     ValueError: no tensors, or sizes that differ along another axis.
///     IndexError: an axis that does not exist.
///     TypeError: an argument that is not a tensor.
#[pyfunction]
#[pyo3(signature = (tensors, dim=None, *, axis=None))]
fn cat(
    py: Python<'_>,
    tensors: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::cat)] dim: Option<isize>,
    #[pyo3(from_py_with = of::cat)] axis: Option<isize>,
) -> Outcome<PyTensor> {
    let dim = dim_or_axis("cat", dim, axis)?.unwrap_or(0);
    join_tensors(py, extract_tensors(tensors, "cat")?, |tensors| {
        Tensor::concat(&without_empty_tensors(tensors), dim)
    })
}

/// Alias of `cat`.
///
/// Shapes and errors are those of `cat`
#[pyfunction]
#[pyo3(signature = (tensors, dim=None, *, axis=None))]
fn concat(
    py: Python<'_>,
    tensors: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::concat)] dim: Option<isize>,
    #[pyo3(from_py_with = of::concat)] axis: Option<isize>,
) -> Outcome<PyTensor> {
    cat(py, tensors, dim, axis)
}

/// Stacks tensors of one shape along a new axis.
///
/// Shapes: n of [..] -> [.., n, ..]
///
/// Raises:
///     ValueError: no tensors, or shapes that differ.
///     IndexError: an axis that the result does not have.
///     TypeError: an argument that is not a tensor.
#[pyfunction]
#[pyo3(signature = (tensors, dim=None, *, axis=None))]
fn stack(
    py: Python<'_>,
    tensors: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = of::stack)] dim: Option<isize>,
    #[pyo3(from_py_with = of::stack)] axis: Option<isize>,
) -> Outcome<PyTensor> {
    let dim = dim_or_axis("stack", dim, axis)?.unwrap_or(0);
    join_tensors(py, extract_tensors(tensors, "stack")?, |tensors| Tensor::stack(tensors, dim))
}

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(cat, module)?)?;
    module.add_function(wrap_pyfunction!(concat, module)?)?;
    module.add_function(wrap_pyfunction!(stack, module)?)
}
