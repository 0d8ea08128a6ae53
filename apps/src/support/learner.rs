//! The optimizer and precision of a training run, and one step with them that a device can record.

use crate::support::mixed_precision::MixedPrecision;
use crate::support::replayable::ReplayableOps;
use std::cell::RefCell;
use std::rc::Rc;
use ternion::prelude::*;
use ternion::trace::{SpanKind, in_span};

/// An optimizer and the precision in which its gradients are computed.
pub struct Learner {
    /// The optimizer.
    pub adam: RefCell<AdamW>,
    /// The precision of matrix products, and its loss scale.
    pub mixed_precision: RefCell<MixedPrecision>,
}

impl Learner {
    /// Returns a learner that has made no step.
    pub fn new(adam: AdamW, precision: Precision) -> Learner {
        Learner { adam: RefCell::new(adam), mixed_precision: RefCell::new(MixedPrecision::new(precision)) }
    }

    /// Runs `f`, a forward pass, in the precision. Profilers show it as `forward`.
    pub fn forward<T>(&self, f: impl FnOnce() -> T) -> T {
        in_span(SpanKind::Other, "forward", "", || self.mixed_precision.borrow().run(f))
    }

    /// Runs the backward pass from `loss`; returns gradients for [`step`](Learner::step).
    pub fn backward(&self, loss: &Tensor) -> Result<Gradients> {
        self.mixed_precision.borrow().backward(loss)
    }

    /// Makes a step with these gradients, unless they overflowed in f16.
    pub fn step(&self, gradients: &Gradients) -> Result<()> {
        self.mixed_precision.borrow().step(&mut *self.adam.borrow_mut(), gradients)
    }
}

/// Forward pass, loss, backward pass and optimizer step on tensors whose memory stays the same.
pub struct LearnerStep<'m> {
    learner: &'m Learner,
    /// Returns gradients if the optimizer step is not among the ops.
    ops: ReplayableOps<'m, Option<Rc<Gradients>>>,
}

impl<'m> LearnerStep<'m> {
    /// Returns a step of `learner` that runs op by op. `gradients` runs forward pass, loss and
    /// backward pass on tensors of `device`.
    pub fn new(
        learner: &'m Learner,
        device: &Device,
        mut gradients: impl FnMut() -> Result<Gradients> + 'm,
    ) -> LearnerStep<'m> {
        // Whether a loss scale skips the step is read from the gradients, which a recorded step
        // cannot wait for. In that case forward and backward pass are recorded, and the optimizer
        // step runs after them.
        let steps_separately = learner.mixed_precision.borrow().may_skip_steps();
        let ops = move || {
            let gradients = gradients()?;
            if steps_separately {
                return Ok(Some(Rc::new(gradients)));
            }
            learner.step(&gradients)?;
            Ok(None)
        };
        LearnerStep { learner, ops: ReplayableOps::new(device, ops) }
    }

    /// Returns the same step, which is recorded on its first run and replayed from then on.
    pub fn captured(mut self) -> LearnerStep<'m> {
        self.ops = self.ops.captured();
        self
    }

    /// Runs the step.
    pub fn run(&mut self) -> Result<()> {
        let gradients = self.ops.run()?;
        self.apply(gradients)
    }

    /// Runs the step op by op, for callers that inspect its parts.
    pub fn run_op_by_op(&mut self) -> Result<()> {
        let gradients = self.ops.run_op_by_op()?;
        self.apply(gradients)
    }

    fn apply(&self, gradients: Option<Rc<Gradients>>) -> Result<()> {
        gradients.map_or(Ok(()), |gradients| self.learner.step(&gradients))
    }

    /// Returns whether the device recorded the step: only after the first one, and only if the
    /// device supports it.
    pub fn is_recorded(&self) -> bool {
        self.ops.is_recorded()
    }
}
