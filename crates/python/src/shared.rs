//! Objects on one memory that a gradient flows to: what is done to one of them in place is seen in the others, as in PyTorch.
//!
//! An op that is recorded never writes over what is recorded already: it makes a new tensor. So the objects of a family, a tensor and the views of it that
//! were made through this package, agree on a base. A change of one makes a new base (its own values in their places, by a scatter, which passes gradients on
//! to both), and each of the others takes its view anew, of the new base, when it is next looked at.

use crate::error::{Failure, Outcome};
use parking_lot::RwLock;
use std::sync::Arc;
use ternion::autograd::enable_grad;
use ternion::{DType, Result, Tensor};

/// The tensor of an object, and which family it belongs to.
pub struct Value {
    pub tensor: Tensor,
    kin: Option<Box<Kin>>,
}

/// What an object has to do with others on its memory.
enum Kin {
    Member(Member),
    /// It is a view of another object's tensor, and there is no family: the other would not see what is done to it.
    Orphan,
}

/// What the objects of a family agree on: the tensor that all are views of, and how often it was changed.
struct Family {
    base: RwLock<(Tensor, u64)>,
}

/// How an object belongs to its family: as `view` is to `base`.
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

    /// Whether no others are known on the memory.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.kin.is_none()
    }

    /// Whether nobody changed the memory since.
    pub fn is_current(&self) -> bool {
        self.kin.as_ref().is_none_or(|kin| kin.is_current())
    }

    /// The tensor after what others of the family did.
    pub fn renewed(&mut self) -> Tensor {
        if let Some(Kin::Member(member)) = self.kin.as_deref_mut() {
            let (base, changes) = member.family.base.read().clone();
            // A base is dense, so that no view of it needs a copy: it was one of a dense tensor before.
            if let Ok(Some(view)) = enable_grad(|| member.view.same_view_of(&member.base, &base)) {
                self.tensor = view;
                member.changes = changes;
            }
        }
        self.tensor.clone()
    }

    /// The value of an object with `view`, which was made of `tensor`, this one's.
    pub fn view(&mut self, tensor: &Tensor, view: Tensor) -> Value {
        if tensor.shows_leaf() {
            // Nothing changes it while ops are recorded: see `may_change`.
            return Value::new(view);
        }
        let member = self.family_of(tensor).and_then(|family| {
            let (base, changes) = family.base.read().clone();
            let is_view = matches!(view.same_view_of(&base, &base), Ok(Some(_)));
            is_view.then(|| Kin::Member(Member { family, base, view: view.clone(), changes }))
        });
        Value { tensor: view, kin: Some(Box::new(member.unwrap_or(Kin::Orphan))) }
    }

    /// The family of `tensor`, which is founded where there is none. None of what lies in gaps: a view of it may need a copy of a dense base.
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

    /// Takes over `result`, which was recorded, as what was done in place; so do the others of the family.
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
            // The last of its family has nobody to tell.
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

/// Others would keep the old values.
fn shares() -> Failure {
    Failure::state(
        "in place on a tensor that shares memory with others, which a gradient would have to flow to as well: clone() it first, or take the form that returns a new tensor",
    )
}

impl Member {
    /// Makes the new base, in which `result` has the place of this view.
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
