//! What makes the steps of a training, and one step of it: an optimizer, a precision, and gradients that a device can record how to find.

use crate::support::precise::Precise;
use crate::support::repeated::Repeated;
use std::cell::RefCell;
use std::rc::Rc;
use ternion::prelude::*;
use ternion::trace::{SpanKind, in_span};

/// An optimizer and the precision in which it has its gradients.
pub struct Learner {
    /// The optimizer.
    pub adam: RefCell<AdamW>,
    /// The precision of the products, and its loss scale.
    pub precise: RefCell<Precise>,
}

impl Learner {
    /// One that has made no step.
    pub fn new(adam: AdamW, precision: Precision) -> Learner {
        Learner { adam: RefCell::new(adam), precise: RefCell::new(Precise::new(precision)) }
    }

    /// Runs `f`, a forward pass, in the precision. Profilers show it as `forward`.
    pub fn forward<T>(&self, f: impl FnOnce() -> T) -> T {
        in_span(SpanKind::Other, "forward", "", || self.precise.borrow().run(f))
    }

    /// Backward from `loss`: gradients for [`step`](Learner::step).
    pub fn backward(&self, loss: &Tensor) -> Result<Gradients> {
        self.precise.borrow().backward(loss)
    }

    /// A step by these gradients, unless f16 has lost them.
    pub fn step(&self, gradients: &Gradients) -> Result<()> {
        self.precise.borrow().step(&mut *self.adam.borrow_mut(), gradients)
    }
}

/// Forward, loss, backward and the optimizer's step on tensors that stay where they are.
pub struct LearnerStep<'m> {
    learner: &'m Learner,
    /// Leave gradients where the step by them is not among the ops.
    ops: Repeated<'m, Option<Rc<Gradients>>>,
}

impl<'m> LearnerStep<'m> {
    /// A step of `learner` by what `gradients` gives, which is forward, loss and backward on tensors of `device`; op by op.
    pub fn new(
        learner: &'m Learner,
        device: &Device,
        mut gradients: impl FnMut() -> Result<Gradients> + 'm,
    ) -> LearnerStep<'m> {
        // Whether a loss scale takes the step is read from the gradients, for which a recorded step cannot wait: there, forward and backward are recorded, and the step is made behind them.
        let is_apart = learner.precise.borrow().may_leave_steps_out();
        let ops = move || {
            let gradients = gradients()?;
            if is_apart {
                return Ok(Some(Rc::new(gradients)));
            }
            learner.step(&gradients)?;
            Ok(None)
        };
        LearnerStep { learner, ops: Repeated::new(device, ops) }
    }

    /// The same step, recorded when it runs for the first time and replayed from then on.
    pub fn captured(mut self) -> LearnerStep<'m> {
        self.ops = self.ops.captured();
        self
    }

    /// Makes the step.
    pub fn run(&mut self) -> Result<()> {
        let left = self.ops.run()?;
        self.step_by(left)
    }

    /// Makes the step op by op, for whoever looks at its parts.
    pub fn run_op_by_op(&mut self) -> Result<()> {
        let left = self.ops.run_op_by_op()?;
        self.step_by(left)
    }

    fn step_by(&self, left: Option<Rc<Gradients>>) -> Result<()> {
        left.map_or(Ok(()), |gradients| self.learner.step(&gradients))
    }

    /// Whether the device recorded the step: not before the first one, and not every device can.
    pub fn is_recorded(&self) -> bool {
        self.ops.is_recorded()
    }
}
