//! One training step of a transformer on windows of tokens.

use crate::support::learner::{Learner, LearnerStep};
use ternion::LinearCrossEntropyOptions;
use ternion::data::{RandomWindows, TokenBatch};
use ternion::prelude::*;
use ternion::trace::{SpanKind, in_span};

/// Returns the mean cross-entropy of the next tokens of a batch. The gradient of the logits
/// overwrites them. A vocabulary of any size, such as GPT-2's 50,257 tokens, is nearly as fast as a
/// padded one.
pub fn mean_loss(model: &GPT, TokenBatch { inputs, targets, .. }: &TokenBatch) -> Result<Tensor> {
    model.loss(inputs, targets, LinearCrossEntropyOptions::default())
}

/// Gradient accumulation over some batches, and one optimizer step.
pub struct GptStep<'m> {
    /// Written before each step.
    batches: Vec<TokenBatch>,
    step: LearnerStep<'m>,
}

impl<'m> GptStep<'m> {
    /// Returns a step that trains `model` op by op on `accumulate` batches of `size` windows, and
    /// adds its loss to `sum`, `[]`, f32.
    pub fn new(
        model: &'m GPT,
        learner: &'m Learner,
        [size, accumulate]: [usize; 2],
        sum: &Tensor,
    ) -> Result<GptStep<'m>> {
        let (device, shape) = (sum.device(), [size, model.config().context]);
        let zeros = || Tensor::zeros(shape, DType::I64, device);
        let batch = |_| Ok(TokenBatch { inputs: zeros()?, targets: zeros()?, size });
        let batches: Vec<TokenBatch> = (0..accumulate).map(batch).collect::<Result<_>>()?;
        let (from, to) = (batches.clone(), sum.clone());
        let gradients = move || gradients(model, learner, &from, &to);
        Ok(GptStep { batches, step: LearnerStep::new(learner, device, gradients) })
    }

    /// Returns the same step, which is recorded on its first run and replayed from then on.
    pub fn captured(mut self) -> GptStep<'m> {
        self.step = self.step.captured();
        self
    }

    /// Trains on the next windows.
    pub fn run(&mut self, windows: &mut RandomWindows) -> Result<()> {
        in_span(SpanKind::Other, "step", "", || {
            self.feed(windows)?;
            self.step.run()
        })
    }

    /// As [`run`](GptStep::run), but op by op.
    pub fn run_op_by_op(&mut self, windows: &mut RandomWindows) -> Result<()> {
        in_span(SpanKind::Other, "step", "", || {
            self.feed(windows)?;
            self.step.run_op_by_op()
        })
    }

    fn feed(&self, windows: &mut RandomWindows) -> Result<()> {
        self.batches.iter().try_for_each(|to| {
            let from = windows.batch()?;
            to.inputs.copy_(&from.inputs)?;
            to.targets.copy_(&from.targets)
        })
    }

    /// Returns whether the device recorded the step: only after the first one, and only if the
    /// device supports it.
    pub fn is_recorded(&self) -> bool {
        self.step.is_recorded()
    }
}

/// Returns the gradients of the mean loss of all batches, and adds that loss to `sum`.
fn gradients(model: &GPT, learner: &Learner, batches: &[TokenBatch], sum: &Tensor) -> Result<Gradients> {
    let share = 1.0 / batches.len() as f64;
    let mut gradients: Option<Gradients> = None;
    for batch in batches {
        let mean = learner.forward(|| mean_loss(model, batch))?;
        let loss = if batches.len() == 1 { mean } else { mean.mul_scalar(share)? };
        let new = learner.backward(&loss)?;
        match &mut gradients {
            Some(sum) => sum.accumulate(new)?,
            None => gradients = Some(new),
        }
        no_grad(|| sum.add_(&loss.detach().to_dtype(DType::F32)?))?;
    }
    gradients.ok_or_else(|| Error::invalid("step", "no batch to learn from"))
}
