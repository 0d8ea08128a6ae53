//! Training in a precision: forward passes in its scope, and a loss scale where f16 needs one.

use ternion::prelude::*;
use ternion::with_precision;

/// A precision with what it takes to train in it.
pub struct Precise {
    precision: Precision,
    scale: LossScale,
}

impl Precise {
    /// A training in `precision` that has made no step.
    pub fn new(precision: Precision) -> Precise {
        Precise { precision, scale: LossScale::default() }
    }

    /// Runs `f`, a forward pass, in the precision.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        match self.precision {
            // What no scope is, too, without its casts.
            Precision::F32 => f(),
            precision => with_precision(precision, f),
        }
    }

    /// Backward from `loss`: its gradients, which only [`step`](Precise::step) knows to be scaled. Those of several batches may be added up.
    pub fn backward(&self, loss: &Tensor) -> Result<Gradients> {
        match self.precision.needs_loss_scale() {
            true => self.scale.scale(loss)?.backward(),
            false => loss.backward(),
        }
    }

    /// A step by these gradients, unless f16 has lost them: then it is left out.
    pub fn step(&self, optimizer: &mut dyn Optimizer, gradients: &Gradients) -> Result<()> {
        match self.precision.needs_loss_scale() {
            true => self.scale.step(optimizer, gradients).map(drop),
            false => optimizer.step(gradients),
        }
    }

    /// Whether a step may be left out, which is known once its gradients are there.
    pub fn may_leave_steps_out(&self) -> bool {
        self.precision.needs_loss_scale()
    }

    /// The loss scale, for a checkpoint.
    pub fn scale_mut(&mut self) -> &mut LossScale {
        &mut self.scale
    }

    /// What there is to tell about the steps, where a loss scale may leave some out.
    pub fn report(&self) -> Option<String> {
        self.precision.needs_loss_scale().then(|| self.scale.to_string())
    }
}
