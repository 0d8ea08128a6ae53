//! One training step of an image classifier.

use crate::support::learner::{Learner, LearnerStep};
use ternion::CrossEntropyOptions;
use ternion::nn::StatsReport;
use ternion::prelude::*;
use ternion::trace::{SpanKind, in_span};

/// A model with its next batch, in tensors whose memory stays the same.
#[derive(Clone)]
struct TrainingTask<'m> {
    model: &'m dyn Forward,
    learner: &'m Learner,
    /// `[batch, channels, rows, cols]`, f32, and `[batch]`, i64. Written before each step.
    images: Tensor,
    labels: Tensor,
    label_smoothing: f64,
    /// `[]`, f32. Written by each step.
    loss: Tensor,
}

impl TrainingTask<'_> {
    fn loss(&self) -> Result<Tensor> {
        let options = CrossEntropyOptions { label_smoothing: self.label_smoothing, ..Default::default() };
        self.learner.forward(|| self.model.forward(&self.images)?.cross_entropy_with(&self.labels, options))
    }

    fn backward(&self, loss: &Tensor) -> Result<Gradients> {
        no_grad(|| self.loss.copy_(&loss.detach().to_dtype(DType::F32)?))?;
        self.learner.backward(loss)
    }
}

/// Returns the learner: AdamW with weight decay for matrices and convolutions, and none for norms
/// and biases.
pub fn learner(model: &dyn Forward, lr: f64, weight_decay: f64, precision: Precision) -> Result<Learner> {
    let (matrices, vectors) = model.parameters().into_iter().partition(|param| param.shape().rank() > 1);
    let groups =
        vec![ParamGroup::new(matrices), ParamGroup { weight_decay: Some(0.0), ..ParamGroup::new(vectors) }];
    let config = AdamWConfig { lr, weight_decay, ..Default::default() };
    Ok(Learner::new(AdamW::with_groups(groups, config)?, precision))
}

/// Forward pass, loss, backward pass and optimizer step on a batch.
pub struct ImageStep<'m> {
    task: TrainingTask<'m>,
    ops: LearnerStep<'m>,
    monitor: Option<StatsMonitor>,
    /// Steps between two inspections by the monitor.
    inspect_every: u64,
}

impl<'m> ImageStep<'m> {
    /// Returns a step that trains `model` op by op on batches of shape `[batch, channels, rows,
    /// cols]`.
    pub fn new(
        model: &'m dyn Forward,
        learner: &'m Learner,
        shape: [usize; 4],
        label_smoothing: f64,
        device: &Device,
    ) -> Result<ImageStep<'m>> {
        let task = TrainingTask {
            model,
            learner,
            images: Tensor::zeros(shape, DType::F32, device)?,
            labels: Tensor::zeros([shape[0]], DType::I64, device)?,
            label_smoothing,
            loss: Tensor::zeros((), DType::F32, device)?,
        };
        let task_of_ops = task.clone();
        let ops = LearnerStep::new(learner, device, move || task_of_ops.backward(&task_of_ops.loss()?));
        Ok(ImageStep { task, ops, monitor: None, inspect_every: u64::MAX })
    }

    /// Returns the same step, which is recorded on its first run and replayed from then on.
    pub fn captured(mut self) -> ImageStep<'m> {
        self.ops = self.ops.captured();
        self
    }

    /// Returns the same step with a monitor that inspects it each `every` steps, if given.
    pub fn monitored(mut self, every: Option<u64>) -> Result<ImageStep<'m>> {
        let create_monitor = |every| StatsMonitor::new(StatsConfig { every, ..Default::default() });
        self.monitor = every.map(create_monitor).transpose()?;
        self.inspect_every = every.unwrap_or(u64::MAX);
        Ok(self)
    }

    /// Trains on `batch` as step `number`. Returns its loss, `[]`, f32, which the next step
    /// overwrites, and the report if the step was inspected.
    pub fn run(&mut self, batch: &Batch, number: u64) -> Result<(&Tensor, Option<StatsReport>)> {
        let report = in_span(SpanKind::Other, "step", "", || {
            self.task.images.copy_(&batch.images)?;
            self.task.labels.copy_(&batch.labels)?;
            match &mut self.monitor {
                // The monitor reads values from the device between the ops, which a recorded step
                // cannot do.
                Some(monitor) if number.is_multiple_of(self.inspect_every) => {
                    inspect(&self.task, monitor, number)
                }
                monitor => {
                    let lr = self.task.learner.adam.borrow().lr();
                    monitor.iter_mut().for_each(|monitor| monitor.set_lr(lr));
                    self.ops.run().map(|()| None)
                }
            }
        })?;
        Ok((&self.task.loss, report))
    }

    /// Returns whether the device recorded the step: only after the first one that is not
    /// inspected, and only if the device supports it.
    pub fn is_recorded(&self) -> bool {
        self.ops.is_recorded()
    }
}

/// Runs a step op by op; returns the report of `monitor`.
fn inspect(task: &TrainingTask<'_>, monitor: &mut StatsMonitor, number: u64) -> Result<Option<StatsReport>> {
    let loss = monitor.watch(task.model, number, || task.loss())?;
    let gradients = task.backward(&loss)?;
    if task.learner.mixed_precision.borrow().may_skip_steps() {
        // The size of the weight update is not inspected, because the loss scale may skip the step.
        let report = monitor.report(&gradients)?;
        task.learner.step(&gradients)?;
        return Ok(report);
    }
    monitor.step(&mut *task.learner.adam.borrow_mut(), &gradients)
}
