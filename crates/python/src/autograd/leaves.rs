//! The tensors that require a gradient, by the ids under which a backward pass returns their
//! gradients.

use super::{Slot, Trained};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock, Weak};
use ternion::autograd::TensorId;
use ternion::nn::Param;
use ternion::{Gradients, Shape, Tensor};

/// The tensors that require a gradient, by the ids under which their gradients are found.
#[derive(Default)]
struct Asking {
    leaves: HashMap<TensorId, Weak<Slot>>,
    params: Vec<Weak<Slot>>,
    /// The number of entries at which those of dropped tensors are removed.
    full: usize,
}

static ASKING: LazyLock<Mutex<Asking>> = LazyLock::new(Mutex::default);

impl Asking {
    fn tidy(&mut self) {
        if self.leaves.len() + self.params.len() > self.full {
            self.leaves.retain(|_, slot| slot.strong_count() > 0);
            self.params.retain(|slot| slot.strong_count() > 0);
            self.full = 2 * (self.leaves.len() + self.params.len()) + 1024;
        }
    }
}

pub fn register_leaf(tensor: &Tensor, slot: &Arc<Slot>) {
    if let Some(id) = tensor.id() {
        let mut asking = ASKING.lock();
        asking.tidy();
        asking.leaves.insert(id, Arc::downgrade(slot));
    }
}

pub fn register_param(param: &Param, slot: &Arc<Slot>) {
    let (name, hooks) = (Mutex::new("a parameter".to_owned()), Mutex::default());
    let _ = slot.param.set(Box::new(Trained { param: param.clone(), name, hooks }));
    let mut asking = ASKING.lock();
    asking.tidy();
    asking.params.push(Arc::downgrade(slot));
}

/// Returns the tensors that accumulated a gradient in the backward pass `turn` and still have it,
/// with the shapes of the gradients.
pub fn gathered_in(py: Python<'_>, turn: u64) -> Vec<(TensorId, Shape)> {
    let slots: Vec<(Option<TensorId>, Arc<Slot>)> = {
        let asking = ASKING.lock();
        let leaves = asking.leaves.iter().filter_map(|(id, slot)| Some((Some(*id), slot.upgrade()?)));
        let params = asking.params.iter().filter_map(Weak::upgrade);
        let params = params.map(|slot| (slot.param.get().and_then(|own| own.param.tensor().id()), slot));
        leaves.chain(params).filter(|(_, slot)| slot.turn.load(Relaxed) == turn).collect()
    };
    let shape =
        |(id, slot): (Option<TensorId>, Arc<Slot>)| Some((id?, *slot.get(py)?.get().tensor().shape()));
    slots.into_iter().filter_map(shape).collect()
}

/// Returns the slots for these gradients, in the order in which the leaves were created.
pub(super) fn places(gradients: &Gradients) -> Vec<(TensorId, Arc<Slot>)> {
    let asking = ASKING.lock();
    let mut of_params: HashMap<TensorId, Arc<Slot>> = HashMap::new();
    for slot in asking.params.iter().filter_map(Weak::upgrade) {
        if let Some(id) = slot.param.get().and_then(|own| own.param.tensor().id()) {
            of_params.insert(id, slot);
        }
    }
    let find = |(id, _): (TensorId, &Tensor)| {
        let leaf = asking.leaves.get(&id).map(Weak::upgrade);
        Some((id, leaf.unwrap_or_else(|| of_params.get(&id).cloned())?))
    };
    let mut found: Vec<_> = gradients.iter().filter_map(find).collect();
    found.sort_by_key(|(id, _)| *id);
    found
}
