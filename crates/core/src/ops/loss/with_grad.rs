//! Cross-entropy that computes its gradient in the forward pass, so that the logits, the largest
//! tensor of a language model, are read once.
//!
//! The forward pass does not know the gradient of its loss, but nearly always it is that of a mean
//! or a sum: 1 / count or 1. The gradient of the logits is computed for this predicted value. The
//! backward pass compares the values on the device: rows for which the prediction was correct are
//! left unchanged, and the others are recomputed, with the same result as without a prediction.

use super::{
    CrossEntropy, CrossEntropyGrad, CrossEntropyOptions, Reduction, add_optional, check_rows_and_targets,
    target_distribution,
};
use crate::autograd::{self, Context, Grads};
use crate::backend::Meta;
use crate::dispatch::{apply, apply_into, apply_one};
use crate::error::{Result, with_index_error_op};
use crate::op::{Differentiability, Op, Output, Outputs, Role, Rule, Saves, check};
use crate::{Layout, Shape, Tensor};

/// The minimum number of logits for which the gradient is computed in the forward pass. With fewer,
/// reading them again in the backward pass is cheaper than computing the predicted gradient and
/// checking the prediction.
const MIN_ELEMENTS: usize = 1 << 18;

/// [`CrossEntropy`] and [`CrossEntropyGrad`] in one op.
///
/// Inputs: logits and target as for [`CrossEntropy`], and dloss `[rows]` (accumulator dtype), for
/// which the gradient is computed. Outputs: loss and log_sum (auxiliary) as for [`CrossEntropy`],
/// and dlogits (auxiliary) with the shape and dtype of the logits. dloss affects only dlogits: the
/// backward pass of the loss uses the gradient that it receives.
#[derive(Clone, Debug)]
pub struct CrossEntropyWithGrad {
    /// A target value that is ignored.
    pub ignore_index: i64,
    /// Weight distributed evenly over all classes, in `0..=1`.
    pub label_smoothing: f64,
    /// Whether dlogits overwrite the logits, for callers that no longer need them. Such an op has
    /// no gradient.
    pub in_place: bool,
}

/// Computes [`CrossEntropyGrad`] in place, where necessary: rows of dlogits with
/// `dloss == predicted_dloss` are unchanged.
///
/// Inputs: logits, target, log_sum, dloss as for [`CrossEntropyGrad`], predicted_dloss `[rows]`
/// (accumulator dtype), dlogits (shape and dtype of the logits), which is updated in place.
#[derive(Clone, Debug)]
pub struct CrossEntropyGradUpdate {
    /// A target value that is ignored.
    pub ignore_index: i64,
    /// Weight distributed evenly over all classes, in `0..=1`.
    pub label_smoothing: f64,
}

impl Rule for CrossEntropyWithGrad {
    fn name(&self) -> &'static str {
        "cross_entropy_with_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = self.name();
        let (rows, dtype) = check_rows_and_targets(name, inputs, 3)?;
        check::dtype(name, "grad_output", &inputs[2], dtype)?;
        check::shape(name, "grad_output", &inputs[2], rows)?;
        let role = if self.in_place { Role::Aliases(0) } else { Role::Fresh };
        let dlogits = Output { shape: *inputs[0].shape(), dtype: inputs[0].dtype, role };
        Ok([Output::fresh(rows, dtype), Output::fresh(rows, dtype), dlogits].into_iter().collect())
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let [logits, target, dloss] = [&inputs[0], &inputs[1], &inputs[2]];
        let CrossEntropyWithGrad { ignore_index, label_smoothing, in_place } = *self;
        let mut outputs =
            apply(CrossEntropy { ignore_index, label_smoothing }, &[logits, target])?.into_vec();
        let op = CrossEntropyGrad { ignore_index, label_smoothing };
        let inputs = [logits, target, &outputs[1], dloss];
        let dlogits = match in_place {
            true => apply_into(op, &inputs, logits).map(|()| logits.clone()),
            false => apply_one(op, &inputs),
        };
        outputs.push(dlogits?);
        Ok(outputs)
    }
    fn differentiability(&self) -> Differentiability {
        match self.in_place {
            true => Differentiability::NonDifferentiable,
            false => Differentiability::Stated(Saves { inputs: 0b111, outputs: 0b110 }),
        }
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let is_loss_only = grad_outputs[1].is_none() && grad_outputs[2].is_none();
        if let (Some(dloss), Ok(dlogits), true) = (&grad_outputs[0], context.output(2), is_loss_only) {
            // The precomputed gradient is consumed here. A second backward pass detects that it was
            // modified, and recomputes it.
            if !autograd::is_recording() {
                return self.update_precomputed(context, dloss, dlogits);
            }
        }
        let [logits, target, log_sum] = [context.input(0)?, context.input(1)?, context.output(1)?];
        let mut sum =
            self.forward().gradient([logits, target, log_sum], [&grad_outputs[0], &grad_outputs[1]])?;
        let mut dloss_grad = None;
        if let Some(grad) = &grad_outputs[2] {
            let (term, grad) = self.double_backward([logits, target, context.input(2)?], grad)?;
            (sum, dloss_grad) = (add_optional(sum, term)?, Some(grad));
        }
        Ok([sum, None, dloss_grad].into_iter().collect())
    }
}

impl CrossEntropyWithGrad {
    /// Returns the op without the gradient.
    fn forward(&self) -> CrossEntropy {
        CrossEntropy { ignore_index: self.ignore_index, label_smoothing: self.label_smoothing }
    }

    /// Updates the precomputed gradient.
    fn update_precomputed(&self, context: &Context<'_>, dloss: &Tensor, dlogits: &Tensor) -> Result<Grads> {
        let CrossEntropyWithGrad { ignore_index, label_smoothing, .. } = *self;
        let op = CrossEntropyGradUpdate { ignore_index, label_smoothing };
        let (logits, target, predicted_dloss) = (context.input(0)?, context.input(1)?, context.input(2)?);
        let inputs = [logits, target, context.output(1)?, dloss, predicted_dloss, dlogits];
        Ok([Some(apply_one(op, &inputs)?), None, None].into_iter().collect())
    }

    /// Computes the gradients of logits and dloss from that of `dlogits = dloss * (p - w)`:
    /// `dloss * p * (grad - sum(p * grad))` and `sum(grad * (p - w))`, with the softmax p and the
    /// target distribution w; 0 in ignored rows.
    fn double_backward(
        &self,
        [logits, target, dloss]: [&Tensor; 3],
        grad: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let (grad, x) = (grad.to_dtype(dloss.dtype())?, logits.to_dtype(dloss.dtype())?);
        let ignored = target.eq_scalar(self.ignore_index)?;
        let p = x.softmax(1)?;
        let projection = p.mul(&grad)?.sum_keep(1)?;
        let logits_grad = p.mul(&grad.sub(&projection)?)?.mul(&dloss.unsqueeze(1)?)?;
        let logits_grad = logits_grad.masked_fill(&ignored.unsqueeze(1)?, 0.0)?.to_dtype(logits.dtype())?;
        let distribution =
            target_distribution(target, logits.dims()[1], self.label_smoothing, dloss.dtype())?;
        let dloss_grad = p.sub(&distribution)?.mul(&grad)?.sum(1)?.masked_fill(&ignored, 0.0)?;
        Ok((logits_grad, dloss_grad))
    }
}

impl Rule for CrossEntropyGradUpdate {
    fn name(&self) -> &'static str {
        "cross_entropy_grad_update"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = self.name();
        let (rows, dtype) = check_rows_and_targets(name, inputs, 6)?;
        for (what, meta) in
            [("log_sum", &inputs[2]), ("grad_output", &inputs[3]), ("predicted_dloss", &inputs[4])]
        {
            check::dtype(name, what, meta, dtype)?;
            check::shape(name, what, meta, rows)?;
        }
        check::same_dtype(name, &inputs[0], &inputs[5])?;
        check::shape(name, "dlogits", &inputs[5], *inputs[0].shape())?;
        let (shape, dtype) = (*inputs[0].shape(), inputs[0].dtype);
        Ok(Outputs::from_buf([Output { shape, dtype, role: Role::Aliases(5) }]))
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let [logits, target, log_sum] = [&inputs[0], &inputs[1], &inputs[2]];
        let [dloss, predicted_dloss, dlogits] = [&inputs[3], &inputs[4], &inputs[5]];
        let CrossEntropyGradUpdate { ignore_index, label_smoothing } = *self;
        let op = CrossEntropyGrad { ignore_index, label_smoothing };
        let fresh = with_index_error_op(self.name(), || apply_one(op, &[logits, target, log_sum, dloss]))?;
        dlogits.copy_(&dloss.eq(predicted_dloss)?.unsqueeze(1)?.where_(dlogits, &fresh)?)?;
        Ok(vec![dlogits.clone()])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::NonDifferentiable
    }
}

/// Computes the loss of each row of `rows`, the logits `[rows, classes]`. The gradient is computed
/// in the same op if the device supports it, if a gradient is recorded, if the logits are large
/// enough, and if the reduction is a mean over `count` rows or a sum.
pub(super) fn losses(
    rows: &Tensor,
    target: &Tensor,
    options: &CrossEntropyOptions<'_>,
    count: Option<&Tensor>,
) -> Result<Tensor> {
    let CrossEntropyOptions { ignore_index, label_smoothing, reduction, .. } = *options;
    let plain = CrossEntropy { ignore_index, label_smoothing };
    let without_grad = || Ok(apply(plain.clone(), &[rows, target])?.swap_remove(0));
    let is_predictable = matches!(reduction, Reduction::Mean | Reduction::Sum);
    if !is_predictable || rows.elements() < MIN_ELEMENTS || !autograd::wants_record(&[rows]) {
        return without_grad();
    }
    let dtype = rows.dtype().accumulator();
    let op =
        Op::CrossEntropyWithGrad(CrossEntropyWithGrad { ignore_index, label_smoothing, in_place: false });
    let (per_row, backend) =
        (Layout::row_major(Shape::unchecked(&[rows.dims()[0]])), rows.device().backend());
    let metas = [rows.meta(), target.meta(), Meta { dtype, layout: &per_row }];
    if op.rule().infer(&metas).is_err() || backend.plan(&op, &metas).is_err() {
        return without_grad();
    }
    // 1 / count, computed as by the backward pass, so that the values are equal.
    let predicted_dloss = match count {
        Some(count) => count.recip()?,
        None => Tensor::ones((), dtype, rows.device())?,
    };
    let predicted_dloss = predicted_dloss.expand([rows.dims()[0]])?;
    Ok(with_index_error_op(plain.name(), || apply(op, &[rows, target, &predicted_dloss]))?.swap_remove(0))
}
