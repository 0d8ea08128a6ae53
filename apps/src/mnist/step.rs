//! One training step on tensors that stay where they are, so that a device can record it once and replay it.

use crate::support::digits::DigitSet;
use crate::support::repeated::Repeated;
use std::cell::RefCell;
use ternion::prelude::*;
use ternion::trace::{SpanKind, in_span};

/// Forward, loss, backward and the optimiser's step on one batch of a set.
///
/// Models that look at a batch as a whole, such as by batch normalisation, would see the filling of the last batch; the loss does not.
pub struct Step<'m> {
    /// `[batch]`, i64: which digits. Written before each step.
    rows: Tensor,
    /// `[2]`, f32: mean loss and number of hits. Left by each step.
    result: Tensor,
    ops: Repeated<'m>,
}

impl<'m> Step<'m> {
    /// A step that trains `model` by `adam` on `batch` of the digits, op by op.
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
            let (images, labels) = digits.pick(&from)?;
            let logits = in_span(SpanKind::Other, "forward", "", || model.forward(&images))?;
            let loss = logits.cross_entropy(&labels)?;
            no_grad(|| {
                let hits = logits.argmax(1)?.eq(&labels)?.to_dtype(DType::F32)?.sum(..)?;
                to.select(0, 0)?.copy_(&loss.detach())?;
                to.select(0, 1)?.copy_(&hits)
            })?;
            adam.borrow_mut().step(&loss.backward()?)
        };
        Ok(Step { rows, result, ops: Repeated::new(digits.device(), ops) })
    }

    /// The same step, recorded when it runs for the first time and replayed from then on.
    pub fn captured(mut self) -> Step<'m> {
        self.ops = self.ops.captured();
        self
    }

    /// Trains on the digits numbered by `rows`. Gives `[2]`, f32, which the next step overwrites: mean loss and hits among those that are no filling.
    pub fn run(&mut self, rows: &Tensor) -> Result<&Tensor> {
        self.rows.copy_(rows)?;
        self.ops.run()?;
        Ok(&self.result)
    }

    /// Whether the device recorded the step: not before the first one, and not every device can.
    pub fn is_recorded(&self) -> bool {
        self.ops.is_recorded()
    }
}
