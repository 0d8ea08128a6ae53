//! Tensors by their keys: as Python dicts, and on disk as safetensors (the native part of
//! `ternion.save` and `ternion.load`).

use crate::device::{DeviceArgument, or_default};
use crate::error::{Outcome, RaisedError};
use crate::gil::{wait, wait_on_thread};
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::path::PathBuf;
use ternion::nn::checkpoint::{HostTensor, HostTensors};
use ternion::nn::{StateDict, checkpoint};

/// Returns the tensors of a dict.
///
/// Fails on a key that is not a str, or a value that is not a tensor.
pub fn state_of(dict: &Bound<'_, PyDict>, what: &str) -> Outcome<StateDict> {
    let entry = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let Ok(name) = key.extract::<String>() else {
            return Err(RaisedError::type_error(format!("{what}: the key {}, expected a str", key.repr()?)));
        };
        match value.cast::<PyTensor>() {
            Ok(tensor) => Ok((name, tensor.get().tensor().detach())),
            Err(_) => {
                let kind = value.get_type().name()?;
                Err(RaisedError::type_error(format!("{what}: {name} is of type {kind}, expected a tensor")))
            }
        }
    };
    dict.iter().map(entry).collect()
}

/// Returns a dict of tensors, ordered by key.
pub fn dict_of(py: Python<'_>, state: StateDict) -> Outcome<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (key, tensor) in state {
        dict.set_item(key, Bound::new(py, PyTensor::new(tensor))?)?;
    }
    Ok(dict)
}

/// Saves tensors and strings as a safetensors file.
#[pyfunction]
fn _save(
    py: Python<'_>,
    path: PathBuf,
    tensors: &Bound<'_, PyDict>,
    texts: BTreeMap<String, String>,
) -> Outcome<()> {
    let state = state_of(tensors, "save")?;
    let tensors = wait(py, || {
        let to_host = |(key, tensor): (&String, &ternion::Tensor)| Ok((key.clone(), HostTensor::of(tensor)?));
        state.iter().map(to_host).collect::<ternion::Result<HostTensors>>()
    })?;
    // The tensors have PyTorch's layout, which some readers expect to be declared.
    let mut texts = texts;
    texts.insert("format".into(), "pt".into());
    // A write to a pipe blocks until its reader reads.
    let waits_for_another = path.metadata().is_ok_and(|known| !known.is_file() && !known.is_dir());
    let write = move || checkpoint::write_host(&tensors, &texts, &path);
    if waits_for_another { wait_on_thread(py, write) } else { wait(py, write) }
}

/// Tensors, strings, and the names of the tensors that were skipped, each with its dtype.
type Loaded<'py> = (Bound<'py, PyDict>, BTreeMap<String, String>, Vec<String>);

/// Loads the tensors of a safetensors file to a device, and the strings in its header. `name` is
/// the name of the file in errors.
#[pyfunction]
fn _load<'py>(
    py: Python<'py>,
    path: PathBuf,
    device: Option<DeviceArgument>,
    name: &str,
) -> Outcome<Loaded<'py>> {
    let device = or_default(py, device)?;
    let name = name.to_owned();
    let (tensors, texts, skipped) = wait_on_thread(py, move || {
        let in_file = |detail, code| ternion::Error::File { path: name.clone(), detail, code };
        let (tensors, texts, skipped) = checkpoint::read_host_known(&path).map_err(|error| match error {
            ternion::Error::File { detail, code, .. } => in_file(detail, code),
            other => other,
        })?;
        let moved = |(key, tensor): (String, HostTensor)| match tensor.to_device(&device) {
            Err(ternion::Error::Invalid { detail, .. }) => {
                Err(in_file(format!("tensor {key}: {detail}"), None))
            }
            moved => Ok((key, moved?)),
        };
        Ok((tensors.into_iter().map(moved).collect::<ternion::Result<StateDict>>()?, texts, skipped))
    })?;
    Ok((dict_of(py, tensors)?, texts, skipped))
}

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_save, module)?)?;
    module.add_function(wrap_pyfunction!(_load, module)?)
}
