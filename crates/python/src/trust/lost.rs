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
static GONE: LazyLock<Mutex<HashMap<TensorId, String>>> = LazyLock::new(Mutex::default);
/// If more parameters than this are dropped between two backward passes, the earlier ones are not
/// reported.
const MOST: usize = 4096;

/// The index of the last backward pass with gradients for dropped parameters, and their names and
/// shapes.
static LOST: Mutex<(u64, Vec<Lost>)> = Mutex::new((0, Vec::new()));

struct Lost {
    id: TensorId,
    name: String,
    shape: Shape,
}

/// Records that the object of a parameter is dropped.
pub fn note_gone(id: Option<TensorId>, name: String) {
    let Some(id) = id else { return };
    let mut gone = GONE.lock();
    if gone.len() >= MOST {
        gone.clear();
    }
    gone.insert(id, name);
}

/// Records the gradients of a backward pass that belong to dropped parameters.
pub fn note_pass(turn: u64, gradients: &Gradients) {
    let gone = std::mem::take(&mut *GONE.lock());
    if gone.is_empty() {
        return;
    }
    let named = |(id, grad)| Some((id, gone.get(&id)?, *ternion::Tensor::shape(grad)));
    let mut found: Vec<_> = gradients.iter().filter_map(named).collect();
    found.sort_by_key(|(id, ..)| *id);
    if !found.is_empty() {
        let lost = found.into_iter().map(|(id, name, shape)| Lost { id, name: name.clone(), shape });
        *LOST.lock() = (turn, lost.collect());
    }
}

/// Returns the gradients that were lost in the backward pass with this index, by tensor and shape.
pub fn lost_in(turn: u64) -> Vec<(TensorId, Shape)> {
    let lost = LOST.lock();
    if lost.0 == turn { lost.1.iter().map(|lost| (lost.id, lost.shape)).collect() } else { Vec::new() }
}

/// Stores the name of a parameter, for use after it is dropped.
#[pyfunction]
fn note_owner(parameter: &Bound<'_, PyTensor>, name: String) {
    parameter.get().slot.note_name(name);
}

/// Returns the index of the last backward pass with gradients for dropped parameters, and a
/// description of each.
#[pyfunction]
fn lost_gradients() -> (u64, Vec<String>) {
    let lost = LOST.lock();
    (lost.0, lost.1.iter().map(|Lost { name, shape, .. }| format!("{name} {shape:?}")).collect())
}

/// Adds the functions to the module `_trust`.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(note_owner, module)?)?;
    module.add_function(wrap_pyfunction!(lost_gradients, module)?)
}
