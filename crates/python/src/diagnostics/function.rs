//! Python functions with gradients that are defined in Python: the native part of
//! `ternion.autograd.Function`.

use crate::error::{Outcome, RaisedError, callback_error};
use crate::tensor::PyTensor;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::collections::HashSet;
use std::sync::LazyLock;
use ternion::autograd::{Context, Grads, with_gradient};
use ternion::op::Saves;
use ternion::{Error, Tensor};

/// Names have static lifetime, like names of ops. There is one name for each class.
static NAMES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);

fn intern_name(name: &str) -> &'static str {
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return known;
    }
    let interned: &'static str = Box::leak(name.into());
    names.insert(interned);
    interned
}

/// A saved tensor: an output by its index, because the graph must not own itself, or any other
/// tensor with its version.
enum SavedTensor {
    Output(usize),
    Input(Tensor, u64),
}

impl SavedTensor {
    fn of(object: &Bound<'_, PyAny>, outputs: usize) -> Outcome<SavedTensor> {
        if let Ok(tensor) = object.cast::<PyTensor>() {
            let tensor = tensor.get().tensor();
            let version = tensor.buffer().version();
            return Ok(SavedTensor::Input(tensor, version));
        }
        let index: usize = object.extract()?;
        if index >= outputs {
            return Err(RaisedError::value_error(format!("save_for_backward: output {index} of {outputs}")));
        }
        Ok(SavedTensor::Output(index))
    }

    /// Returns the saved tensor, or an error if it was changed in place.
    fn tensor(&self, context: &Context<'_>, name: &'static str, index: usize) -> ternion::Result<Tensor> {
        let (tensor, saved) = match self {
            SavedTensor::Output(index) => return context.output(*index).cloned(),
            SavedTensor::Input(tensor, saved) => (tensor, *saved),
        };
        let now = tensor.buffer().version();
        if now != saved {
            let (what, shape) = (format!("saved tensor {index}"), Box::new(*tensor.shape()));
            return Err(Error::ChangedInPlace { op: name, what, shape, saved, now });
        }
        Ok(tensor.clone())
    }
}

/// Calls the Python function with the gradients of the outputs and the saved tensors.
fn call_backward(
    py: Python<'_>,
    backward: &Py<PyAny>,
    grads: &[Option<Tensor>],
    saved: Vec<Tensor>,
) -> PyResult<Grads> {
    let grads: Vec<Option<PyTensor>> = grads.iter().map(|grad| grad.clone().map(PyTensor::new)).collect();
    let saved: Vec<PyTensor> = saved.into_iter().map(PyTensor::new).collect();
    let input_grads: Vec<Option<Py<PyTensor>>> = backward.call1(py, (grads, saved))?.extract(py)?;
    Ok(input_grads.into_iter().map(|grad| grad.map(|grad| grad.get().tensor())).collect())
}

/// Returns `outputs` with the gradient rule `backward(grads of outputs, saved tensors)`, which
/// returns the gradients of `inputs`. In `saved`, a tensor is saved itself, and a number is the
/// index of an output.
#[pyfunction]
#[pyo3(name = "with_gradient")]
fn function(
    py: Python<'_>,
    name: &str,
    inputs: Vec<Py<PyTensor>>,
    outputs: Vec<Py<PyTensor>>,
    saved: Vec<Bound<'_, PyAny>>,
    backward: Py<PyAny>,
) -> Outcome<Vec<PyTensor>> {
    let name = intern_name(name);
    let tensors = |objects: Vec<Py<PyTensor>>| -> Vec<Tensor> {
        objects.into_iter().map(|object| object.get().tensor()).collect()
    };
    let (inputs, outputs) = (tensors(inputs), tensors(outputs));
    let saved: Vec<SavedTensor> =
        saved.iter().map(|object| SavedTensor::of(object, outputs.len())).collect::<Outcome<_>>()?;
    let has_outputs = saved.iter().any(|saved| matches!(saved, SavedTensor::Output(_)));
    let saves = if has_outputs { Saves::OUTPUTS } else { Saves::NOTHING };
    let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let saved = saved.iter().enumerate();
        let saved = saved.map(|(index, saved)| saved.tensor(context, name, index));
        let saved: Vec<Tensor> = saved.collect::<ternion::Result<_>>()?;
        Python::attach(|py| {
            call_backward(py, &backward, grads, saved).map_err(|error| callback_error(name, error))
        })
    };
    let results =
        py.detach(|| with_gradient(name, &inputs.iter().collect::<Vec<_>>(), outputs, saves, rule))?;
    Ok(results.into_iter().map(PyTensor::new).collect())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(function, module)?)
}
