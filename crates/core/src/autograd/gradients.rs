//! The gradients of a backward pass, by tensor, and the receivers of gradients.

use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::text;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The id of a tensor to which gradients flow: its node and its output index in the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId {
    pub(super) node: u64,
    pub(super) index: u32,
}

impl TensorId {
    /// Returns the id of the node that computed the tensor.
    pub fn node(self) -> u64 {
        self.node
    }
}

impl Tensor {
    /// Returns the id under which this tensor's gradient is stored, if it has one.
    pub fn id(&self) -> Option<TensorId> {
        self.0.edge.as_ref().map(|edge| TensorId { node: edge.node.id(), index: edge.index })
    }
}

/// The gradients of a backward pass, one for each leaf that it reached.
#[derive(Default)]
pub struct Gradients {
    by_id: HashMap<TensorId, Tensor>,
    /// Whether an optimizer step has used them, or gradients that were mapped from them, or from
    /// which they were mapped.
    used: Arc<AtomicBool>,
    /// Whether further gradients were added after an optimizer step had used them.
    is_stale: bool,
}

impl Gradients {
    /// Returns the gradient of `tensor`, if the loss depends on it.
    pub fn get(&self, tensor: &Tensor) -> Option<&Tensor> {
        self.by_id.get(&tensor.id()?)
    }

    /// Removes the gradient of `tensor` and returns it.
    pub fn remove(&mut self, tensor: &Tensor) -> Option<Tensor> {
        self.by_id.remove(&tensor.id()?)
    }

    /// Sets the gradient of `tensor` (for clipping or communication).
    ///
    /// # Errors
    /// Returns an error if no gradient flows to `tensor`, or if shape, dtype or device differ.
    pub fn insert(&mut self, tensor: &Tensor, grad: Tensor) -> Result<()> {
        let id = tensor.id().ok_or_else(|| Error::autograd("no gradient flows to this tensor"))?;
        if grad.shape() != tensor.shape() {
            return Err(Error::Shape {
                op: "gradients",
                what: "gradient",
                got: Box::new(*grad.shape()),
                expected: Box::new(*tensor.shape()),
            });
        }
        if grad.dtype() != tensor.dtype() {
            return Err(Error::dtype("gradients", "gradient", grad.dtype(), tensor.dtype()));
        }
        if !grad.device().is(tensor.device()) {
            let (left, right) = (tensor.device().name().into(), grad.device().name().into());
            return Err(Error::DeviceMismatch { op: "gradients", left, right });
        }
        self.by_id.insert(id, grad);
        Ok(())
    }

    /// Returns the gradients of leaves that are not among `parameters`: inputs on which
    /// `requires_grad` was set on purpose, or parameters of a layer that was omitted by mistake.
    pub fn unmatched<'t>(
        &self,
        parameters: impl IntoIterator<Item = &'t Tensor>,
    ) -> Vec<(TensorId, &Tensor)> {
        let claimed: HashSet<TensorId> = parameters.into_iter().filter_map(Tensor::id).collect();
        let mut unmatched: Vec<_> = self.iter().filter(|(id, _)| !claimed.contains(id)).collect();
        unmatched.sort_by_key(|(id, _)| *id);
        unmatched
    }

    /// Records that an optimizer step used these gradients.
    pub fn mark_used(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// Returns whether gradients were added after a step had used these, so that the next step
    /// would use them again: the sum of micro-batches must start from scratch after each step.
    pub fn are_stale(&self) -> bool {
        self.is_stale
    }

    /// Adds the gradients of another pass to these, in the order in which the leaves were created:
    /// gradient accumulation over micro-batches. Supported in a captured step.
    ///
    /// # Errors
    /// Returns the errors of an addition.
    pub fn accumulate(&mut self, other: Gradients) -> Result<()> {
        self.is_stale |= !self.by_id.is_empty() && (self.used.load(Ordering::Relaxed) || other.is_stale);
        // A captured step must add them in the same order each time, and the iteration order of a
        // map is not fixed.
        let mut added: Vec<_> = other.by_id.into_iter().collect();
        added.sort_unstable_by_key(|(id, _)| *id);
        super::no_grad(|| {
            for (id, grad) in added {
                let sum = match self.by_id.remove(&id) {
                    Some(previous) => previous.add(&grad)?,
                    None => grad,
                };
                self.by_id.insert(id, sum);
            }
            Ok(())
        })
    }

    /// Returns the results of `f` for each gradient, under the same ids. `f` is called in the order
    /// in which the leaves were created. An optimizer step that uses the results also counts as a
    /// use of these gradients ([`mark_used`](Gradients::mark_used)).
    ///
    /// # Errors
    /// Returns the errors of `f`, and an error if it changes shape, dtype or device.
    pub fn map(&self, mut f: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Gradients> {
        let mut by_id = HashMap::with_capacity(self.by_id.len());
        let mut ordered: Vec<_> = self.iter().collect();
        ordered.sort_by_key(|(id, _)| *id);
        for (id, grad) in ordered {
            let mapped = f(grad)?;
            let same = mapped.shape() == grad.shape() && mapped.dtype() == grad.dtype();
            if !same || !mapped.device().is(grad.device()) {
                let [from, into] =
                    [grad, &mapped].map(|tensor| text![tensor, " on ", tensor.device().name()]);
                return Err(Error::autograd(text!["map turned a gradient of shape ", from, " into ", into]));
            }
            by_id.insert(id, mapped);
        }
        Ok(Gradients { by_id, used: Arc::clone(&self.used), is_stale: self.is_stale })
    }

    /// Returns the number of gradients.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns whether there are no gradients.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Iterates over the gradients with the ids of their tensors.
    pub fn iter(&self) -> impl Iterator<Item = (TensorId, &Tensor)> {
        self.by_id.iter().map(|(&id, grad)| (id, grad))
    }
}

/// The receiver of leaf gradients of [`Tensor::backward_into`].
pub trait GradientSink {
    /// (optional) Returns memory for the gradient of leaf `id`: the gradient is copied there and
    /// delivered as this tensor. Default: `None`.
    fn destination(&mut self, id: TensorId) -> Option<Tensor> {
        let _ = id;
        None
    }

    /// Receives the gradient of leaf `id`, as soon as it is final.
    ///
    /// # Errors
    /// Returns any error that should stop the backward pass.
    fn ready(&mut self, id: TensorId, grad: Tensor) -> Result<()>;
}

impl GradientSink for Gradients {
    fn ready(&mut self, id: TensorId, grad: Tensor) -> Result<()> {
        self.by_id.insert(id, grad);
        Ok(())
    }
}
