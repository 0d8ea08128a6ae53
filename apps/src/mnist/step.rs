//! One training step on tensors whose memory stays the same, so that a device can record it once
//! and replay it.

use crate::support::digits::DigitSet;
use crate::support::replayable::ReplayableOps;
use std::cell::RefCell;
use ternion::prelude::*;
use ternion::trace::{SpanKind, in_span};

/// Forward pass, loss, backward pass and optimizer step on one batch of a data set.
///
/// Layers that combine the samples of a batch, such as batch normalization, would include the
/// padding of the last batch; the loss does not.
pub struct Step<'m> {
    /// `[batch]`, i64: indices of the digits. Written before each step.
    rows: Tensor,
    /// `[2]`, f32: mean loss and number of hits. Written by each step.
    result: Tensor,
    ops: ReplayableOps<'m>,
}

impl<'m> Step<'m> {
    /// Returns a step that trains `model` with `adam` on `batch` digits, op by op.
    pub fn new(
        model: &'m dyn Forward,
        adam: &'m RefCell<AdamW>,
        digits: &'m DigitSet,
        batch: usize,
    ) -> Result<Step<'m>> {
        let rows = Tensor::zeros([batch], DType::I64, digits.device())?;
        let result = Tensor::zeros([2], DType::F32, digits.device())?;
        let (from, to) = (rows.clone(), result.clone());
        let ops = move || {
            let (images, labels) = digits.gather(&from)?;
            let logits = in_span(SpanKind::Other, "forward", "", || model.forward(&images))?;
            let loss = logits.cross_entropy(&labels)?;
            no_grad(|| {
                let hits = logits.argmax(1)?.eq(&labels)?.to_dtype(DType::F32)?.sum(..)?;
                to.select(0, 0)?.copy_(&loss.detach())?;
                to.select(0, 1)?.copy_(&hits)
            })?;
            adam.borrow_mut().step(&loss.backward()?)
        };
        Ok(Step { rows, result, ops: ReplayableOps::new(digits.device(), ops) })
    }

    /// Returns the same step, which is recorded on its first run and replayed from then on.
    pub fn captured(mut self) -> Step<'m> {
        self.ops = self.ops.captured();
        self
    }

    /// Trains on the digits with indices `rows`. Returns `[2]`, f32, which the next step
    /// overwrites: mean loss and hits of the digits that are not padding.
    pub fn run(&mut self, rows: &Tensor) -> Result<&Tensor> {
        self.rows.copy_(rows)?;
        self.ops.run()?;
        Ok(&self.result)
    }

    /// Returns whether the device recorded the step: only after the first one, and only if the
    /// device supports it.
    pub fn is_recorded(&self) -> bool {
        self.ops.is_recorded()
    }
}
