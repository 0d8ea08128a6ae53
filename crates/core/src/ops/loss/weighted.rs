//! Losses with class weights, PyTorch's `weight`, composed of the ops of the unweighted losses.

use super::{
    CrossEntropyOptions, Reduction, class_rows, reduce_counted, soft_losses, split_ignored, with_grad,
};
use crate::error::{Result, with_index_error_op};
use crate::op::check;
use crate::{DType, Shape, Tensor};

/// Checks the weights of `op` and converts them to `dtype`; there is one weight per class.
fn class_weights(op: &'static str, weight: &Tensor, classes: usize, dtype: DType) -> Result<Tensor> {
    check::float(op, "weight", &weight.meta())?;
    check::shape(op, "weight", &weight.meta(), Shape::unchecked(&[classes]))?;
    weight.to_dtype(dtype)
}

/// Returns the weight of each target's class, 0 for ignored targets.
fn target_weights(op: &'static str, weights: &Tensor, target: &Tensor, ignore_index: i64) -> Result<Tensor> {
    let (is_counted, class) = split_ignored(target, ignore_index)?;
    with_index_error_op(op, || weights.index_select(0, &class))?.masked_fill(&is_counted.logical_not()?, 0.0)
}

/// Multiplies `losses` by the weights of their classes and reduces them. The mean divides by the
/// sum of the weights.
pub(super) fn reduce(
    op: &'static str,
    losses: &Tensor,
    (weight, classes): (&Tensor, usize),
    (target, ignore_index): (&Tensor, i64),
    reduction: Reduction,
) -> Result<Tensor> {
    let weights = class_weights(op, weight, classes, losses.dtype())?;
    let flat = target.reshape([target.elements()])?;
    let weights = target_weights(op, &weights, &flat, ignore_index)?.reshape(*losses.shape())?;
    let weight_sum = match reduction {
        Reduction::Mean => Some(weights.sum(..)?),
        _ => None,
    };
    reduce_counted(op, &losses.mul(&weights)?, weight_sum, reduction)
}

/// Computes for class indices y:
/// `(1 - s) * w[y] * (lse(x) - x[y]) + s/classes * sum_c w[c] * (lse(x) - x[c])`. The mean divides
/// by the sum of all `w[y]`.
pub(super) fn cross_entropy(
    logits: &Tensor,
    target: &Tensor,
    weight: &Tensor,
    options: CrossEntropyOptions<'_>,
) -> Result<Tensor> {
    let name = "cross_entropy";
    let CrossEntropyOptions { ignore_index, label_smoothing, reduction, .. } = options;
    let (rows, shape) = class_rows(name, logits, target)?;
    let classes = rows.dims()[1];
    let weights = class_weights(name, weight, classes, rows.dtype().accumulator())?;
    let target = target.reshape([rows.dims()[0]])?;
    let unreduced = CrossEntropyOptions { ignore_index, reduction: Reduction::None, ..Default::default() };
    let losses = with_grad::losses(&rows, &target, &unreduced, None)?;
    let target_weights = target_weights(name, &weights, &target, ignore_index)?;
    let mut losses = losses.mul(&target_weights)?;
    if label_smoothing != 0.0 {
        let smoothing_losses = soft_losses(&rows.to_dtype(weights.dtype())?, &weights, 1)?;
        let smoothing_losses = smoothing_losses.masked_fill(&target.eq_scalar(ignore_index)?, 0.0)?;
        let smoothing = label_smoothing / classes as f64;
        losses = losses.mul_scalar(1.0 - label_smoothing)?.add(&smoothing_losses.mul_scalar(smoothing)?)?;
    }
    let weight_sum = match reduction {
        Reduction::Mean => Some(target_weights.sum(..)?),
        _ => None,
    };
    reduce_counted(name, &losses.reshape(shape)?, weight_sum, reduction)
}

/// Multiplies class probabilities by the weights of their classes.
pub(super) fn of_probabilities(target: &Tensor, weight: &Tensor, axis: usize) -> Result<Tensor> {
    let classes = target.dims()[axis];
    let weights = class_weights("cross_entropy", weight, classes, target.dtype())?;
    let after = target.rank() - axis - 1;
    let shape: Vec<usize> = std::iter::once(classes).chain(std::iter::repeat_n(1, after)).collect();
    target.mul(&weights.reshape(&shape[..])?)
}
