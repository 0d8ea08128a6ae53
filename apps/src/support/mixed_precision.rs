//! Training in a precision: forward passes in its scope, and a loss scale if f16 needs one.

use ternion::prelude::*;
use ternion::with_precision;

/// A precision and its loss scale.
pub struct MixedPrecision {
    precision: Precision,
    scale: LossScale,
}

impl MixedPrecision {
    /// Returns the state of a run in `precision` that has made no step.
    pub fn new(precision: Precision) -> MixedPrecision {
        MixedPrecision { precision, scale: LossScale::default() }
    }

    /// Runs `f`, a forward pass, in the precision.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        match self.precision {
            // Gives the same results as a scope with f32, but without its casts.
            Precision::F32 => f(),
            precision => with_precision(precision, f),
        }
    }

    /// Runs the backward pass from `loss`. The gradients may be scaled, which only
    /// [`step`](MixedPrecision::step) undoes. Gradients of several batches may be added.
    pub fn backward(&self, loss: &Tensor) -> Result<Gradients> {
        match self.precision.needs_loss_scale() {
            true => self.scale.scale(loss)?.backward(),
            false => loss.backward(),
        }
    }

    /// Makes a step with these gradients, or skips it if they overflowed in f16.
    pub fn step(&self, optimizer: &mut dyn Optimizer, gradients: &Gradients) -> Result<()> {
        match self.precision.needs_loss_scale() {
            true => self.scale.step(optimizer, gradients).map(drop),
            false => optimizer.step(gradients),
        }
    }

    /// Returns whether a step may be skipped, which is known only after its gradients are computed.
    pub fn may_skip_steps(&self) -> bool {
        self.precision.needs_loss_scale()
    }

    /// Returns the loss scale, for a checkpoint.
    pub fn scale_mut(&mut self) -> &mut LossScale {
        &mut self.scale
    }

    /// Returns a line about the loss scale, if there is one.
    pub fn report(&self) -> Option<String> {
        self.precision.needs_loss_scale().then(|| self.scale.to_string())
    }
}
