//! One training step on tensors that stay where they are, so that a device can record it once and replay it.

use super::digits::DigitSet;
use std::cell::RefCell;
use ternion::CapturedStep;
use ternion::prelude::*;

/// The ops of a step.
type Ops<'m> = Box<dyn FnMut() -> Result<()> + 'm>;

enum Form<'m> {
    /// Runs op by op, each time.
    Eager(Ops<'m>),
    /// Is recorded by the first step.
    Unrecorded(Ops<'m>),
    Captured(CapturedStep<'m, ()>),
    /// A step failed half way.
    Failed,
}

/// Forward, loss, backward and the optimiser's step on one batch of a set.
///
/// Models that look at a batch as a whole, such as by batch normalisation, would see the filling of the last batch; the loss does not.
pub struct Step<'m> {
    /// `[batch]`, i64: which digits. Written before each step.
    rows: Tensor,
    /// `[2]`, f32: mean loss and number of hits. Left by each step.
    result: Tensor,
    form: Form<'m>,
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
        let ops: Ops<'m> = Box::new(move || {
            let (images, labels) = digits.pick(&from)?;
            let logits = model.forward(&images)?;
            let loss = logits.cross_entropy(&labels)?;
            no_grad(|| {
                let hits = logits.argmax(1)?.eq(&labels)?.to_dtype(DType::F32)?.sum(..)?;
                to.select(0, 0)?.copy_(&loss.detach())?;
                to.select(0, 1)?.copy_(&hits)
            })?;
            adam.borrow_mut().step(&loss.backward()?)
        });
        Ok(Step { rows, result, form: Form::Eager(ops) })
    }

    /// The same step, recorded when it runs for the first time and replayed from then on.
    pub fn captured(mut self) -> Step<'m> {
        self.form = match self.form {
            Form::Eager(ops) => Form::Unrecorded(ops),
            other => other,
        };
        self
    }

    /// Trains on the digits numbered by `rows`. Gives `[2]`, f32, which the next step overwrites: mean loss and hits among those that are no filling.
    pub fn run(&mut self, rows: &Tensor) -> Result<&Tensor> {
        self.rows.copy_(rows)?;
        self.form = match std::mem::replace(&mut self.form, Form::Failed) {
            Form::Eager(mut ops) => {
                ops()?;
                Form::Eager(ops)
            }
            Form::Unrecorded(ops) => Form::Captured(self.rows.device().capture(ops)?),
            Form::Captured(mut step) => {
                step.replay()?;
                Form::Captured(step)
            }
            Form::Failed => return Err(Error::invalid("step", "an earlier step failed")),
        };
        Ok(&self.result)
    }

    /// Whether the device recorded the step: not before the first one, and not every device can.
    pub fn is_recorded(&self) -> bool {
        matches!(&self.form, Form::Captured(step) if step.is_recorded())
    }
}
