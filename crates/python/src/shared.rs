//! Objects that share memory through which a gradient flows: an in-place change of one is visible
//! in the others, as in PyTorch.
//!
//! A recorded op never overwrites a recorded tensor: it creates a new one. So the objects of a
//! family, which are a tensor and the views of it that were created through this package, share a
//! base. A change of one object creates a new base: a scatter writes the new values into a copy of
//! the old base, and gradients flow to both. Each of the other objects recreates its view from the
//! new base when it is next accessed.

use crate::error::{Outcome, RaisedError};
use parking_lot::RwLock;
use std::sync::Arc;
use ternion::autograd::enable_grad;
use ternion::{DType, Result, Tensor};

/// The tensor of an object, and its family.
pub struct Value {
    pub tensor: Tensor,
    sharing: Option<Box<Sharing>>,
}

/// The relation of an object to others that share its memory.
enum Sharing {
    View(ViewOfBase),
    /// A view of another object's tensor without a family: the other object would not see changes
    /// of it.
    UnknownBase,
}

/// The shared state of a family: the tensor that all objects are views of, and the number of its
/// changes.
struct SharedBase {
    base: RwLock<(Tensor, u64)>,
}

/// The membership of an object in its family. `view` is the same view of `base` as the object's
/// tensor is of the family's current base.
struct ViewOfBase {
    shared: Arc<SharedBase>,
    base: Tensor,
    view: Tensor,
    changes: u64,
}

impl Sharing {
    fn is_current(&self) -> bool {
        match self {
            Sharing::View(member) => member.shared.base.read().1 == member.changes,
            Sharing::UnknownBase => true,
        }
    }
}

impl Value {
    #[inline(always)]
    pub fn new(tensor: Tensor) -> Value {
        Value { tensor, sharing: None }
    }

    /// Returns whether no other object is known to share the memory.
    #[inline]
    pub fn is_unshared(&self) -> bool {
        self.sharing.is_none()
    }

    /// Returns whether the memory is unchanged since the last access.
    pub fn is_current(&self) -> bool {
        self.sharing.as_ref().is_none_or(|sharing| sharing.is_current())
    }

    /// Returns the tensor, updated with the changes of the family.
    pub fn refreshed(&mut self) -> Tensor {
        if let Some(Sharing::View(member)) = self.sharing.as_deref_mut() {
            let (base, changes) = member.shared.base.read().clone();
            // A base is contiguous, as the earlier one was, so that no view of it needs a copy.
            if let Ok(Some(view)) = enable_grad(|| member.view.same_view_of(&member.base, &base)) {
                self.tensor = view;
                member.changes = changes;
            }
        }
        self.tensor.clone()
    }

    /// Returns the value of an object for `view`, which was created from `tensor`, the tensor of
    /// this value.
    pub fn view(&mut self, tensor: &Tensor, view: Tensor) -> Value {
        if tensor.shows_leaf() {
            // A leaf is not changed in place while ops are recorded: see `check_in_place`.
            return Value::new(view);
        }
        let member = self.shared_base_of(tensor).and_then(|shared| {
            let (base, changes) = shared.base.read().clone();
            let is_view = matches!(view.same_view_of(&base, &base), Ok(Some(_)));
            is_view.then(|| Sharing::View(ViewOfBase { shared, base, view: view.clone(), changes }))
        });
        Value { tensor: view, sharing: Some(Box::new(member.unwrap_or(Sharing::UnknownBase))) }
    }

    /// Returns the family of `tensor`, and creates it if there is none. A tensor that is not
    /// contiguous has no family: a view of it may require a copy of a contiguous base.
    fn shared_base_of(&mut self, tensor: &Tensor) -> Option<Arc<SharedBase>> {
        if let Some(Sharing::View(member)) = self.sharing.as_deref() {
            return Some(member.shared.clone());
        }
        if !tensor.is_contiguous() {
            return None;
        }
        let shared = Arc::new(SharedBase { base: RwLock::new((tensor.clone(), 0)) });
        let (base, view) = (tensor.clone(), tensor.clone());
        self.sharing =
            Some(Box::new(Sharing::View(ViewOfBase { shared: shared.clone(), base, view, changes: 0 })));
        Some(shared)
    }

    /// Stores `result`, which was recorded, as the result of an in-place change, for the other
    /// members of the family as well.
    pub fn store(&mut self, result: Tensor) -> Outcome<()> {
        let current = self.refreshed();
        if result.shape() != current.shape() {
            return Err(RaisedError::value_error(format!(
                "in place: a result of shape {:?} for a tensor of shape {:?}",
                result.dims(),
                current.dims()
            )));
        }
        if !result.device().is(current.device()) {
            return Err(RaisedError::value_error(format!(
                "in place: a result on {} for a tensor on {}",
                result.device().name(),
                current.device().name()
            )));
        }
        if current.layout().overlaps_itself() {
            return Err(RaisedError::runtime_error(
                "in place on a tensor whose elements share memory, as expand() makes them: clone() it first",
            ));
        }
        let result = result.to_dtype(current.dtype())?;
        match self.sharing.as_deref() {
            // The last member of a family has no others to update.
            Some(Sharing::View(member)) if Arc::strong_count(&member.shared) > 1 => {
                return Ok(member.store(&result)?);
            }
            Some(Sharing::View(_)) => {}
            Some(Sharing::UnknownBase) => return Err(shared_memory_error()),
            None if current.needs_grad() || current.buffer().is_sole_handle() => {}
            None => return Err(shared_memory_error()),
        }
        *self = Value::new(result);
        Ok(())
    }
}

/// Returns the error for a change that other tensors would not see.
fn shared_memory_error() -> RaisedError {
    RaisedError::runtime_error(
        "in place on a tensor that shares memory with others, which a gradient would have to flow to as well: clone() it first, or take the form that returns a new tensor",
    )
}

impl ViewOfBase {
    /// Creates the new base, in which `result` replaces the elements of this view.
    fn store(&self, result: &Tensor) -> Result<()> {
        let mut shared = self.shared.base.write();
        let updated = enable_grad(|| self.updated_base(&shared.0, result))?;
        *shared = (updated, shared.1 + 1);
        Ok(())
    }

    fn updated_base(&self, base: &Tensor, result: &Tensor) -> Result<Tensor> {
        let covers_base = self.view.elements() == base.elements() && self.view.is_contiguous();
        if covers_base {
            return result.reshape(*base.shape())?.contiguous();
        }
        let count = base.elements();
        let indices = Tensor::iota(count, DType::I64, 0, 1, base.device())?.reshape(*base.shape())?;
        let Some(view_indices) = self.view.same_view_of(&self.base, &indices)? else {
            return Ok(base.clone());
        };
        let (flat_shape, view_indices) = ([result.elements()], view_indices.contiguous()?);
        base.reshape([count])?
            .scatter(0, &view_indices.reshape(flat_shape)?, &result.reshape(flat_shape)?)?
            .reshape(*base.shape())
    }
}
