//! The tensors that require a gradient, by the ids under which a backward pass returns their
//! gradients.

use super::{GradSlot, ParamData};
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
struct LeafRegistry {
    leaves: HashMap<TensorId, Weak<GradSlot>>,
    params: Vec<Weak<GradSlot>>,
    /// If there are this many entries, the entries of dropped tensors are removed.
    cleanup_size: usize,
}

static LEAVES: LazyLock<Mutex<LeafRegistry>> = LazyLock::new(Mutex::default);

impl LeafRegistry {
    fn remove_dropped(&mut self) {
        if self.leaves.len() + self.params.len() > self.cleanup_size {
            self.leaves.retain(|_, slot| slot.strong_count() > 0);
            self.params.retain(|slot| slot.strong_count() > 0);
            self.cleanup_size = 2 * (self.leaves.len() + self.params.len()) + 1024;
        }
    }
}

pub fn register_leaf(tensor: &Tensor, slot: &Arc<GradSlot>) {
    if let Some(id) = tensor.id() {
        let mut registry = LEAVES.lock();
        registry.remove_dropped();
        registry.leaves.insert(id, Arc::downgrade(slot));
    }
}

pub fn register_param(param: &Param, slot: &Arc<GradSlot>) {
    let (name, hooks) = (Mutex::new("a parameter".to_owned()), Mutex::default());
    let _ = slot.param.set(Box::new(ParamData { param: param.clone(), name, hooks }));
    let mut registry = LEAVES.lock();
    registry.remove_dropped();
    registry.params.push(Arc::downgrade(slot));
}

/// Returns the tensors that accumulated a gradient in the backward pass `pass_index` and still have
/// it, with the shapes of the gradients.
pub fn accumulated_in(py: Python<'_>, pass_index: u64) -> Vec<(TensorId, Shape)> {
    let slots: Vec<(Option<TensorId>, Arc<GradSlot>)> = {
        let registry = LEAVES.lock();
        let leaves = registry.leaves.iter().filter_map(|(id, slot)| Some((Some(*id), slot.upgrade()?)));
        let params = registry.params.iter().filter_map(Weak::upgrade);
        let params =
            params.map(|slot| (slot.param.get().and_then(|param_data| param_data.param.tensor().id()), slot));
        leaves.chain(params).filter(|(_, slot)| slot.pass_index.load(Relaxed) == pass_index).collect()
    };
    let shape =
        |(id, slot): (Option<TensorId>, Arc<GradSlot>)| Some((id?, *slot.get(py)?.get().tensor().shape()));
    slots.into_iter().filter_map(shape).collect()
}

/// Returns the slots for these gradients, in the order in which the leaves were created.
pub(super) fn slots_of(gradients: &Gradients) -> Vec<(TensorId, Arc<GradSlot>)> {
    let registry = LEAVES.lock();
    let mut param_slots: HashMap<TensorId, Arc<GradSlot>> = HashMap::new();
    for slot in registry.params.iter().filter_map(Weak::upgrade) {
        if let Some(id) = slot.param.get().and_then(|param_data| param_data.param.tensor().id()) {
            param_slots.insert(id, slot);
        }
    }
    let find = |(id, _): (TensorId, &Tensor)| {
        let leaf = registry.leaves.get(&id).map(Weak::upgrade);
        Some((id, leaf.unwrap_or_else(|| param_slots.get(&id).cloned())?))
    };
    let mut slots: Vec<_> = gradients.iter().filter_map(find).collect();
    slots.sort_by_key(|(id, _)| *id);
    slots
}
