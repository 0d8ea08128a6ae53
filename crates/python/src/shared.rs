//! Objects that share memory through which a gradient flows: an in-place change of one is visible
//! in the others, as in PyTorch.
//!
//! A recorded op never overwrites a recorded tensor: it creates a new one. So the objects of a
//! family, which are a tensor and the views of it that were created through this package, share a
//! base. A change of one object creates a new base, into which its values are written by a scatter,
//! through which gradients flow to both. Each of the other objects recreates its view from the new
//! base when it is next accessed.

use crate::error::{Failure, Outcome};
use parking_lot::RwLock;
use std::sync::Arc;
use ternion::autograd::enable_grad;
use ternion::{DType, Result, Tensor};

/// The tensor of an object, and its family.
pub struct Value {
    pub tensor: Tensor,
    kin: Option<Box<Kin>>,
}

/// The relation of an object to others that share its memory.
enum Kin {
    Member(Member),
    /// A view of another object's tensor without a family: the other object would not see changes
    /// of it.
    Orphan,
}

/// The shared state of a family: the tensor that all objects are views of, and the number of its
/// changes.
struct Family {
    base: RwLock<(Tensor, u64)>,
}

/// The membership of an object in its family: the object's tensor is to the family's current base
/// as `view` is to `base`.
struct Member {
    family: Arc<Family>,
    base: Tensor,
    view: Tensor,
    changes: u64,
}

impl Kin {
    fn is_current(&self) -> bool {
        match self {
            Kin::Member(member) => member.family.base.read().1 == member.changes,
            Kin::Orphan => true,
        }
    }
}

impl Value {
    #[inline(always)]
    pub fn new(tensor: Tensor) -> Value {
        Value { tensor, kin: None }
    }

    /// Returns whether no other object is known to share the memory.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.kin.is_none()
    }

    /// Returns whether the memory is unchanged since the last access.
    pub fn is_current(&self) -> bool {
        self.kin.as_ref().is_none_or(|kin| kin.is_current())
    }

    /// Returns the tensor, updated with the changes of the family.
    pub fn renewed(&mut self) -> Tensor {
        if let Some(Kin::Member(member)) = self.kin.as_deref_mut() {
            let (base, changes) = member.family.base.read().clone();
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
            // A leaf is not changed in place while ops are recorded: see `may_change`.
            return Value::new(view);
        }
        let member = self.family_of(tensor).and_then(|family| {
            let (base, changes) = family.base.read().clone();
            let is_view = matches!(view.same_view_of(&base, &base), Ok(Some(_)));
            is_view.then(|| Kin::Member(Member { family, base, view: view.clone(), changes }))
        });
        Value { tensor: view, kin: Some(Box::new(member.unwrap_or(Kin::Orphan))) }
    }

    /// Returns the family of `tensor`, and creates it if there is none. A tensor that is not
    /// contiguous has no family: a view of it may require a copy of a contiguous base.
    fn family_of(&mut self, tensor: &Tensor) -> Option<Arc<Family>> {
        if let Some(Kin::Member(member)) = self.kin.as_deref() {
            return Some(member.family.clone());
        }
        if !tensor.is_contiguous() {
            return None;
        }
        let family = Arc::new(Family { base: RwLock::new((tensor.clone(), 0)) });
        let (base, view) = (tensor.clone(), tensor.clone());
        self.kin = Some(Box::new(Kin::Member(Member { family: family.clone(), base, view, changes: 0 })));
        Some(family)
    }

    /// Stores `result`, which was recorded, as the result of an in-place change, for the other
    /// members of the family as well.
    pub fn put(&mut self, result: Tensor) -> Outcome<()> {
        let current = self.renewed();
        if result.shape() != current.shape() {
            return Err(Failure::value(format!(
                "in place: a result of shape {:?} for a tensor of shape {:?}",
                result.dims(),
                current.dims()
            )));
        }
        if !result.device().is(current.device()) {
            return Err(Failure::value(format!(
                "in place: a result on {} for a tensor on {}",
                result.device().name(),
                current.device().name()
            )));
        }
        if current.layout().overlaps_itself() {
            return Err(Failure::state(
                "in place on a tensor whose elements share memory, as expand() makes them: clone() it first",
            ));
        }
        let result = result.to_dtype(current.dtype())?;
        match self.kin.as_deref() {
            // The last member of a family has no others to update.
            Some(Kin::Member(member)) if Arc::strong_count(&member.family) > 1 => {
                return Ok(member.put(&result)?);
            }
            Some(Kin::Member(_)) => {}
            Some(Kin::Orphan) => return Err(shares()),
            None if current.needs_grad() || current.buffer().is_sole_handle() => {}
            None => return Err(shares()),
        }
        *self = Value::new(result);
        Ok(())
    }
}

/// Returns the error for a change that other tensors would not see.
fn shares() -> Failure {
    Failure::state(
        "in place on a tensor that shares memory with others, which a gradient would have to flow to as well: clone() it first, or take the form that returns a new tensor",
    )
}

impl Member {
    /// Creates the new base, in which `result` replaces the elements of this view.
    fn put(&self, result: &Tensor) -> Result<()> {
        let mut family = self.family.base.write();
        let changed = enable_grad(|| self.changed(&family.0, result))?;
        *family = (changed, family.1 + 1);
        Ok(())
    }

    fn changed(&self, base: &Tensor, result: &Tensor) -> Result<Tensor> {
        let covers = self.view.elements() == base.elements() && self.view.is_contiguous();
        if covers {
            return result.reshape(*base.shape())?.contiguous();
        }
        let count = base.elements();
        let numbers = Tensor::iota(count, DType::I64, 0, 1, base.device())?.reshape(*base.shape())?;
        let Some(places) = self.view.same_view_of(&self.base, &numbers)? else { return Ok(base.clone()) };
        let (part, places) = ([result.elements()], places.contiguous()?);
        base.reshape([count])?
            .scatter(0, &places.reshape(part)?, &result.reshape(part)?)?
            .reshape(*base.shape())
    }
}
