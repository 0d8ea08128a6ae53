//! Gradients of parameters whose objects no longer exist, such as those of layers that are
//! recreated at each call of a model. No optimizer can train them.

use crate::tensor::PyTensor;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::LazyLock;
use ternion::autograd::TensorId;
use ternion::{Gradients, Shape};

/// Parameters whose objects were dropped since the last backward pass, with their names.
static DROPPED: LazyLock<Mutex<HashMap<TensorId, String>>> = LazyLock::new(Mutex::default);
/// If more parameters than this are dropped between two backward passes, the earlier ones are not
/// reported.
const MAX_DROPPED: usize = 4096;

/// The index of the last backward pass with gradients for dropped parameters, and their names and
/// shapes.
static LOST_GRADIENTS: Mutex<(u64, Vec<LostGradient>)> = Mutex::new((0, Vec::new()));

struct LostGradient {
    id: TensorId,
    name: String,
    shape: Shape,
}

/// Records that the object of a parameter is dropped.
pub fn record_dropped(id: Option<TensorId>, name: String) {
    let Some(id) = id else { return };
    let mut dropped = DROPPED.lock();
    if dropped.len() >= MAX_DROPPED {
        dropped.clear();
    }
    dropped.insert(id, name);
}

/// Records the gradients of a backward pass that belong to dropped parameters.
pub fn record_backward(pass_index: u64, gradients: &Gradients) {
    let dropped = std::mem::take(&mut *DROPPED.lock());
    if dropped.is_empty() {
        return;
    }
    let named = |(id, grad)| Some((id, dropped.get(&id)?, *ternion::Tensor::shape(grad)));
    let mut dropped_grads: Vec<_> = gradients.iter().filter_map(named).collect();
    dropped_grads.sort_by_key(|(id, ..)| *id);
    if !dropped_grads.is_empty() {
        let lost =
            dropped_grads.into_iter().map(|(id, name, shape)| LostGradient { id, name: name.clone(), shape });
        *LOST_GRADIENTS.lock() = (pass_index, lost.collect());
    }
}

/// Returns the gradients that were lost in the backward pass with this index, by tensor and shape.
pub fn lost_gradients_in(pass_index: u64) -> Vec<(TensorId, Shape)> {
    let lost = LOST_GRADIENTS.lock();
    if lost.0 == pass_index { lost.1.iter().map(|lost| (lost.id, lost.shape)).collect() } else { Vec::new() }
}

/// Stores the name of a parameter, for use after it is dropped.
#[pyfunction]
fn record_owner(parameter: &Bound<'_, PyTensor>, name: String) {
    parameter.get().slot.record_name(name);
}

/// Returns the index of the last backward pass with gradients for dropped parameters, and a
/// description of each.
#[pyfunction]
fn lost_gradients() -> (u64, Vec<String>) {
    let lost = LOST_GRADIENTS.lock();
    (lost.0, lost.1.iter().map(|LostGradient { name, shape, .. }| format!("{name} {shape:?}")).collect())
}

/// Adds the functions to the module `_trust`.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(record_owner, module)?)?;
    module.add_function(wrap_pyfunction!(lost_gradients, module)?)
}
