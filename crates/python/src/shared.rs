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
    member: Option<Box<Member>>,
    /// Whether it is a view of another object's tensor without a family: the other would not see what is done to it.
    is_orphan: bool,
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

impl Member {
    fn is_current(&self) -> bool {
        self.family.base.read().1 == self.changes
    }
}

impl Value {
    pub fn new(tensor: Tensor) -> Value {
        Value { tensor, member: None, is_orphan: false }
    }

    /// Whether nobody changed the memory since.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.member.as_ref().is_none_or(|member| member.is_current())
    }

    /// The tensor after what others of the family did.
    pub fn renewed(&mut self) -> Tensor {
        if let Some(member) = &mut self.member {
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
        let member = self.family_of(tensor).and_then(|family| {
            let (base, changes) = family.base.read().clone();
            let is_view = matches!(view.same_view_of(&base, &base), Ok(Some(_)));
            is_view.then(|| Box::new(Member { family, base, view: view.clone(), changes }))
        });
        Value { tensor: view, is_orphan: member.is_none(), member }
    }

    /// The family of `tensor`, which is founded where there is none. None of what shows a leaf, which is not changed while ops are recorded, nor of what lies in
    /// gaps, as of which a view may need a copy of a dense base.
    fn family_of(&mut self, tensor: &Tensor) -> Option<Arc<Family>> {
        if let Some(member) = &self.member {
            return Some(member.family.clone());
        }
        if tensor.shows_leaf() || !tensor.is_contiguous() {
            return None;
        }
        let family = Arc::new(Family { base: RwLock::new((tensor.clone(), 0)) });
        let (base, view) = (tensor.clone(), tensor.clone());
        self.member = Some(Box::new(Member { family: family.clone(), base, view, changes: 0 }));
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
        match self.member.take_if(|member| Arc::strong_count(&member.family) == 1) {
            Some(_) => {}
            None => match &self.member {
                Some(member) => return Ok(member.put(&result)?),
                None => self.check_alone(&current)?,
            },
        }
        *self = Value::new(result);
        Ok(())
    }

    /// That a tensor of no family shares its memory with nobody who would keep the old values.
    fn check_alone(&self, tensor: &Tensor) -> Outcome<()> {
        let is_shared = self.is_orphan || (!tensor.needs_grad() && !tensor.buffer().is_sole_handle());
        if !is_shared {
            return Ok(());
        }
        Err(Failure::state(
            "in place on a tensor that shares memory with others, which a gradient would have to flow to as well: clone() it first, or take the form that returns a new tensor",
        ))
    }
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
