//! Tensors by their keys: as dicts of Python, and on disk as safetensors (the native part of `ternion.save` and `ternion.load`).

use crate::device::{DeviceArgument, or_default};
use crate::error::{Failure, Outcome};
use crate::run::wait;
use crate::tensor::PyTensor;
use pyo3::exceptions::PyFileNotFoundError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};
use ternion::nn::{StateDict, checkpoint};

/// The tensors of a dict.
///
/// Fails on a key that is no text, or a value that is no tensor.
pub fn state_of(dict: &Bound<'_, PyDict>, what: &str) -> Outcome<StateDict> {
    let entry = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let Ok(name) = key.extract::<String>() else {
            return Err(Failure::kind(format!("{what}: the key {}, expected a str", key.repr()?)));
        };
        match value.cast::<PyTensor>() {
            Ok(tensor) => Ok((name, tensor.get().tensor().detach())),
            Err(_) => {
                let kind = value.get_type().name()?;
                Err(Failure::kind(format!("{what}: {name} is of type {kind}, expected a tensor")))
            }
        }
    };
    dict.iter().map(entry).collect()
}

/// A dict of tensors, in the order of their keys.
pub fn dict_of(py: Python<'_>, state: StateDict) -> Outcome<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (key, tensor) in state {
        dict.set_item(key, Bound::new(py, PyTensor::new(tensor))?)?;
    }
    Ok(dict)
}

/// Runs what reads `path`: a file that is not there is a FileNotFoundError.
pub fn reading<T: Send>(
    py: Python<'_>,
    path: &Path,
    f: impl FnOnce() -> ternion::Result<T> + Send,
) -> Outcome<T> {
    match wait(py, || Ok(f()))? {
        Err(error @ ternion::Error::File { .. }) if !path.exists() => {
            Err(PyFileNotFoundError::new_err(error.to_string()).into())
        }
        result => Ok(result?),
    }
}

#[pyfunction]
fn _save(py: Python<'_>, path: PathBuf, tensors: &Bound<'_, PyDict>) -> Outcome<()> {
    let state = state_of(tensors, "save")?;
    wait(py, || checkpoint::write(&state, &path))
}

#[pyfunction]
fn _load(py: Python<'_>, path: PathBuf, device: Option<DeviceArgument>) -> Outcome<Bound<'_, PyDict>> {
    let device = or_default(py, device)?;
    dict_of(py, reading(py, &path, || checkpoint::read(&path, &device))?)
}

/// Puts the functions into the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_save, module)?)?;
    module.add_function(wrap_pyfunction!(_load, module)?)
}
