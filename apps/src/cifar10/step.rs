//! One training step of a classifier of images.

use crate::support::learner::{Learner, LearnerStep};
use ternion::CrossEntropyOptions;
use ternion::nn::StatsReport;
use ternion::prelude::*;
use ternion::trace::{SpanKind, in_span};

/// A model with the batch that it learns next, on tensors that stay where they are.
#[derive(Clone)]
struct Lesson<'m> {
    model: &'m dyn Forward,
    learner: &'m Learner,
    /// `[batch, channels, rows, cols]`, f32, and `[batch]`, i64. Written before each step.
    images: Tensor,
    labels: Tensor,
    label_smoothing: f64,
    /// `[]`, f32. Left by each step.
    loss: Tensor,
}

impl Lesson<'_> {
    fn loss(&self) -> Result<Tensor> {
        let options = CrossEntropyOptions { label_smoothing: self.label_smoothing, ..Default::default() };
        self.learner.forward(|| self.model.forward(&self.images)?.cross_entropy_with(&self.labels, options))
    }

    fn backward(&self, loss: &Tensor) -> Result<Gradients> {
        no_grad(|| self.loss.copy_(&loss.detach().to_dtype(DType::F32)?))?;
        self.learner.backward(loss)
    }
}

/// What makes the steps: AdamW, which makes matrices and convolutions smaller and leaves norms and biases alone.
pub fn learner(model: &dyn Forward, lr: f64, weight_decay: f64, precision: Precision) -> Result<Learner> {
    let (matrices, vectors) = model.parameters().into_iter().partition(|param| param.shape().rank() > 1);
    let groups =
        vec![ParamGroup::new(matrices), ParamGroup { weight_decay: Some(0.0), ..ParamGroup::new(vectors) }];
    let config = AdamWConfig { lr, weight_decay, ..Default::default() };
    Ok(Learner::new(AdamW::with_groups(groups, config)?, precision))
}

/// Forward, loss, backward and the optimizer's step on a batch.
pub struct ImageStep<'m> {
    lesson: Lesson<'m>,
    ops: LearnerStep<'m>,
    monitor: Option<StatsMonitor>,
    /// Steps between two looks of the monitor.
    every: u64,
}

impl<'m> ImageStep<'m> {
    /// A step that trains `model` on batches of `shape`, `[batch, channels, rows, cols]`, op by op.
    pub fn new(
        model: &'m dyn Forward,
        learner: &'m Learner,
        shape: [usize; 4],
        label_smoothing: f64,
        device: &Device,
    ) -> Result<ImageStep<'m>> {
        let lesson = Lesson {
            model,
            learner,
            images: Tensor::zeros(shape, DType::F32, device)?,
            labels: Tensor::zeros([shape[0]], DType::I64, device)?,
            label_smoothing,
            loss: Tensor::zeros((), DType::F32, device)?,
        };
        let of_ops = lesson.clone();
        let ops = LearnerStep::new(learner, device, move || of_ops.backward(&of_ops.loss()?));
        Ok(ImageStep { lesson, ops, monitor: None, every: u64::MAX })
    }

    /// The same step, recorded when it runs for the first time and replayed from then on.
    pub fn captured(mut self) -> ImageStep<'m> {
        self.ops = self.ops.captured();
        self
    }

    /// The same step, looked at each `every` steps, if at all.
    pub fn watched(mut self, every: Option<u64>) -> Result<ImageStep<'m>> {
        let looks = |every| StatsMonitor::new(StatsConfig { every, ..Default::default() });
        self.monitor = every.map(looks).transpose()?;
        self.every = every.unwrap_or(u64::MAX);
        Ok(self)
    }

    /// Trains on `batch` as step `number`: its loss, `[]`, f32, which the next step overwrites, and what was seen of the step if it was looked at.
    pub fn run(&mut self, batch: &Batch, number: u64) -> Result<(&Tensor, Option<StatsReport>)> {
        let report = in_span(SpanKind::Other, "step", "", || {
            self.lesson.images.copy_(&batch.images)?;
            self.lesson.labels.copy_(&batch.labels)?;
            match &mut self.monitor {
                // What a monitor looks at is read from the device between the ops, which a recorded step does not do.
                Some(monitor) if number.is_multiple_of(self.every) => look(&self.lesson, monitor, number),
                monitor => {
                    let lr = self.lesson.learner.adam.borrow().lr();
                    monitor.iter_mut().for_each(|monitor| monitor.set_lr(lr));
                    self.ops.run().map(|()| None)
                }
            }
        })?;
        Ok((&self.lesson.loss, report))
    }

    /// Whether the device recorded the step: not before the first one that is not looked at, and not every device can.
    pub fn is_recorded(&self) -> bool {
        self.ops.is_recorded()
    }
}

/// A step op by op, and what `monitor` saw of it.
fn look(lesson: &Lesson<'_>, monitor: &mut StatsMonitor, number: u64) -> Result<Option<StatsReport>> {
    let loss = monitor.watch(lesson.model, number, || lesson.loss())?;
    let gradients = lesson.backward(&loss)?;
    if lesson.learner.precise.borrow().may_leave_steps_out() {
        // How far a step that may be left out moves the weights is not looked at.
        let report = monitor.report(&gradients)?;
        lesson.learner.step(&gradients)?;
        return Ok(report);
    }
    monitor.step(&mut *lesson.learner.adam.borrow_mut(), &gradients)
}
