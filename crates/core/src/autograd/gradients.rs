//! The gradients of a backward pass, by tensor, and where a pass delivers them.

use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::text;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

/// Names a tensor to which gradients flow: its node and its index among the node's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId {
    pub(super) node: u64,
    pub(super) index: u32,
}

impl TensorId {
    /// The number of the node that computed the tensor.
    pub fn node(self) -> u64 {
        self.node
    }
}

impl Tensor {
    /// The name under which this tensor's gradient is found, if one flows to it.
    pub fn id(&self) -> Option<TensorId> {
        self.0.edge.as_ref().map(|edge| TensorId { node: edge.node.id(), index: edge.index })
    }
}

/// The gradients of a backward pass, one for each leaf that it reached.
#[derive(Default)]
pub struct Gradients {
    of: HashMap<TensorId, Tensor>,
    /// Whether a step went by them.
    used: AtomicBool,
    /// Whether others were added to them after a step had gone by them.
    is_stale: bool,
}

impl Gradients {
    /// The gradient of `tensor`, if the loss depends on it.
    pub fn get(&self, tensor: &Tensor) -> Option<&Tensor> {
        self.of.get(&tensor.id()?)
    }

    /// Takes the gradient of `tensor` out.
    pub fn remove(&mut self, tensor: &Tensor) -> Option<Tensor> {
        self.of.remove(&tensor.id()?)
    }

    /// Replaces the gradient of `tensor` (clipping, communication).
    ///
    /// # Errors
    /// If no gradient flows to `tensor`, or shape, dtype or device differ.
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
        self.of.insert(id, grad);
        Ok(())
    }

    /// The gradients of leaves that are not among `parameters`: of inputs that ask for one on
    /// purpose, or of a layer that was forgotten.
    pub fn unclaimed<'t>(
        &self,
        parameters: impl IntoIterator<Item = &'t Tensor>,
    ) -> Vec<(TensorId, &Tensor)> {
        let claimed: HashSet<TensorId> = parameters.into_iter().filter_map(Tensor::id).collect();
        let mut unclaimed: Vec<_> = self.iter().filter(|(id, _)| !claimed.contains(id)).collect();
        unclaimed.sort_by_key(|(id, _)| *id);
        unclaimed
    }

    /// Notes that a step of an optimizer went by these gradients.
    pub fn note_used(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// Whether gradients were added to these after a step had gone by them, so that the next step goes by them once more: the sum of micro-batches begins anew behind each step.
    pub fn are_stale(&self) -> bool {
        self.is_stale
    }

    /// Adds the gradients of another pass to these, in the order in which the leaves were made: accumulation over micro-batches. A recorded step may do so.
    ///
    /// # Errors
    /// Those of an addition.
    pub fn accumulate(&mut self, other: Gradients) -> Result<()> {
        self.is_stale |= !self.of.is_empty() && (*self.used.get_mut() || other.is_stale);
        // A recorded step must add them in the same order each time, which a map does not have.
        let mut added: Vec<_> = other.of.into_iter().collect();
        added.sort_unstable_by_key(|(id, _)| *id);
        super::no_grad(|| {
            for (id, grad) in added {
                let sum = match self.of.remove(&id) {
                    Some(own) => own.add(&grad)?,
                    None => grad,
                };
                self.of.insert(id, sum);
            }
            Ok(())
        })
    }

    /// The results of `f` for each gradient, under the same names; `f` is called in the order in
    /// which the leaves were made.
    ///
    /// # Errors
    /// Those of `f`; a shape, dtype or device that it changes.
    pub fn map(&self, mut f: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Gradients> {
        let mut of = HashMap::with_capacity(self.of.len());
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
            of.insert(id, mapped);
        }
        Ok(Gradients { of, is_stale: self.is_stale, ..Gradients::default() })
    }

    /// The number of gradients.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Every gradient with the name of its tensor.
    pub fn iter(&self) -> impl Iterator<Item = (TensorId, &Tensor)> {
        self.of.iter().map(|(&id, grad)| (id, grad))
    }
}

/// Where [`Tensor::backward_into`] delivers the gradients of leaves.
pub trait GradientSink {
    /// (optional) Memory for the gradient of leaf `id`: it is copied there and delivered as this
    /// tensor. Default: none.
    fn destination(&mut self, id: TensorId) -> Option<Tensor> {
        let _ = id;
        None
    }

    /// The gradient of leaf `id`, as soon as nothing can be added to it any more.
    ///
    /// # Errors
    /// Whatever stops the walk.
    fn ready(&mut self, id: TensorId, grad: Tensor) -> Result<()>;
}

impl GradientSink for Gradients {
    fn ready(&mut self, id: TensorId, grad: Tensor) -> Result<()> {
        self.of.insert(id, grad);
        Ok(())
    }
}
