//! Queries of the graph and of accumulated gradients.

use crate::error::Outcome;
use crate::gil::wait;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use std::sync::atomic::Ordering::Relaxed;
use ternion::Tensor;
use ternion::autograd::DotOptions;

/// Returns the index of the backward pass that last accumulated a gradient in a tensor; 0 if there
/// was none.
#[pyfunction]
fn backward_index(tensor: &Bound<'_, PyTensor>) -> u64 {
    tensor.get().slot.pass_index()
}

/// Records that an optimizer has used the gradients of these tensors.
#[pyfunction]
fn mark_used(py: Python<'_>, tensors: Vec<Py<PyTensor>>) {
    for tensor in tensors {
        // Without a slot there is no gradient.
        let Some(slot) = tensor.get().slot.initialized() else { continue };
        let version = slot.get(py).map_or(0, |grad| grad.get().tensor().buffer().version() + 1);
        slot.used.store(version, Relaxed);
        slot.is_stale.store(false, Relaxed);
    }
}

/// Returns whether a gradient was added to one of this tensor that an optimizer had used, and that
/// had neither been cleared nor written to since.
#[pyfunction]
fn is_stale(tensor: &Bound<'_, PyTensor>) -> bool {
    tensor.get().slot.initialized().is_some_and(|slot| slot.is_stale.load(Relaxed))
}

/// Returns the address of each tensor's buffer, and the offset of the tensor's first element in it.
/// Does not wait for the device.
#[pyfunction]
fn addresses_of(tensors: Vec<Py<PyTensor>>) -> Vec<(usize, Option<usize>)> {
    let address = |tensor: &Py<PyTensor>| {
        let tensor = tensor.get().tensor();
        (tensor.buffer().address(), tensor.layout().bounds().map(|(low, _)| low))
    };
    tensors.iter().map(address).collect()
}

/// Returns the names of the functions with custom gradients in the graph of `outputs`.
#[pyfunction]
fn custom_gradient_names(outputs: Vec<Py<PyTensor>>) -> Vec<&'static str> {
    let outputs: Vec<Tensor> = outputs.iter().map(|output| output.get().tensor()).collect();
    ternion::autograd::custom_gradient_names(&outputs)
}

/// Returns the graph that computed a tensor in Graphviz's DOT language. The names of tensors are
/// shown at their leaf or at the op that computed them.
#[pyfunction]
fn to_dot(
    py: Python<'_>,
    tensor: &Bound<'_, PyTensor>,
    names: Vec<(String, Py<PyTensor>)>,
    statistics: bool,
) -> Outcome<String> {
    let tensor = tensor.get().tensor();
    let names: Vec<(String, Tensor)> =
        names.into_iter().map(|(name, named)| (name, named.get().tensor())).collect();
    wait(py, || tensor.to_dot_with(DotOptions { statistics, names: &names }))
}

/// Adds the functions to the module `_trust`.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(backward_index, module)?)?;
    module.add_function(wrap_pyfunction!(mark_used, module)?)?;
    module.add_function(wrap_pyfunction!(is_stale, module)?)?;
    module.add_function(wrap_pyfunction!(addresses_of, module)?)?;
    module.add_function(wrap_pyfunction!(custom_gradient_names, module)?)?;
    module.add_function(wrap_pyfunction!(to_dot, module)?)
}
