//! Gradients of parameters whose objects are gone: of layers that are made anew at each call of a model, and that no optimizer can train.

use crate::tensor::PyTensor;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::LazyLock;
use ternion::autograd::TensorId;
use ternion::{Gradients, Shape};

/// Parameters whose objects went since the last backward pass, with what they are called; no more than the latest.
static GONE: LazyLock<Mutex<HashMap<TensorId, String>>> = LazyLock::new(Mutex::default);
/// If more models than this are made and dropped between two backward passes, nothing is reported.
const MOST: usize = 4096;

/// Gradients that the last backward pass had for parameters that were gone: its number, and names and shapes.
static LOST: Mutex<(u64, Vec<Lost>)> = Mutex::new((0, Vec::new()));

struct Lost {
    id: TensorId,
    name: String,
    shape: Shape,
}

/// Notes that the object of a parameter goes.
pub fn note_gone(id: Option<TensorId>, name: String) {
    let Some(id) = id else { return };
    let mut gone = GONE.lock();
    if gone.len() >= MOST {
        gone.clear();
    }
    gone.insert(id, name);
}

/// Notes the gradients of a backward pass that belong to parameters that are gone.
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

/// The gradients that were lost in the backward pass of this number, by tensors and shapes.
pub fn lost_in(turn: u64) -> Vec<(TensorId, Shape)> {
    let lost = LOST.lock();
    if lost.0 == turn { lost.1.iter().map(|lost| (lost.id, lost.shape)).collect() } else { Vec::new() }
}

/// What a parameter is called once it is gone.
#[pyfunction]
fn note_owner(parameter: &Bound<'_, PyTensor>, name: String) {
    parameter.get().slot.note_name(name);
}

/// The gradients that a backward pass had for parameters that were gone: its number, and what they are.
#[pyfunction]
fn lost_gradients() -> (u64, Vec<String>) {
    let lost = LOST.lock();
    (lost.0, lost.1.iter().map(|Lost { name, shape, .. }| format!("{name} {shape:?}")).collect())
}

/// Puts the functions into the module `_trust`.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(note_owner, module)?)?;
    module.add_function(wrap_pyfunction!(lost_gradients, module)?)
}
