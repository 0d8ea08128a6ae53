//! Margin losses between classes.

use super::checked_weight;
use crate::error::{Error, Result, with_index_error_op};
use crate::op::check;
use crate::ops::loss::loss_pair;
use crate::{Reduction, Shape, Tensor};

/// Options of [`Tensor::multi_margin_loss`].
#[derive(Clone, Copy, Debug)]
pub struct MultiMarginOptions<'a> {
    /// The exponent of each margin violation, 1 or 2. Default: 1.
    pub p: u32,
    /// By how much the score of the target class should exceed each other score. Default: 1.
    pub margin: f64,
    /// The weight of each target class, `[classes]`; `None` for equal weights.
    pub weight: Option<&'a Tensor>,
    /// How the losses are reduced. Default: mean.
    pub reduction: Reduction,
}

impl Default for MultiMarginOptions<'_> {
    fn default() -> Self {
        MultiMarginOptions { p: 1, margin: 1.0, weight: None, reduction: Reduction::Mean }
    }
}

/// Returns `[classes]` or `[batch, classes]` as rows in the accumulation dtype, and the shape of
/// their losses.
fn class_rows(name: &'static str, x: &Tensor) -> Result<(Tensor, Shape)> {
    check::float(name, "input", &x.meta())?;
    let classes = match x.dims() {
        [classes] | [_, classes] => *classes,
        _ => return Err(Error::Rank { op: name, expected: "1 or 2".into(), shape: Box::new(*x.shape()) }),
    };
    if classes == 0 {
        return Err(Error::invalid(name, format!("input of shape {:?} has no classes", x.shape())));
    }
    let wide = x.to_dtype(x.dtype().accumulator())?;
    Ok((if x.rank() == 1 { wide.unsqueeze(0)? } else { wide }, x.shape().without_axis(x.rank() - 1)))
}

impl Tensor {
    /// Returns the sum of `max(0, margin - x[y] + x[c])^p` over all classes c except the target y,
    /// divided by the number of classes and multiplied by the weight of y (Crammer and Singer
    /// 2001).
    ///
    /// # Shapes
    /// `[batch, classes]` and class indices `[batch]` (i32 or i64) -> `[batch]`, or `[]` if
    /// reduced; the batch axis is optional
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, if there are no classes, if a class index
    /// is out of range, if `p` is not 1 or 2, or if the number of weights is not the number of
    /// classes.
    pub fn multi_margin_loss(&self, target: &Tensor, options: MultiMarginOptions<'_>) -> Result<Tensor> {
        let name = "multi_margin_loss";
        let MultiMarginOptions { p, margin, weight, reduction } = options;
        if !matches!(p, 1 | 2) {
            return Err(Error::invalid(name, format!("p of {p}, expected 1 or 2")));
        }
        let (x, shape) = class_rows(name, self)?;
        check::index(name, "target", &target.meta())?;
        check::shape(name, "target", &target.meta(), shape)?;
        let [rows, classes] = x.sizes()?;
        let target = target.reshape([rows, 1])?;
        let target_scores = with_index_error_op(name, || x.gather(1, &target))?;
        let mut violations = x.sub(&target_scores)?.add_scalar(margin)?.relu()?;
        if p == 2 {
            violations = violations.square()?;
        }
        let class = Tensor::iota(classes, target.dtype(), 0, 1, x.device())?;
        let mut losses =
            violations.masked_fill(&target.eq(&class)?, 0)?.sum(1)?.div_scalar(classes as f64)?;
        if let Some(weight) = weight {
            check::float(name, "weight", &weight.meta())?;
            check::shape(name, "weight", &weight.meta(), Shape::new(&[classes])?)?;
            let weights = weight.to_dtype(losses.dtype())?.index_select(0, &target.reshape([rows])?)?;
            losses = losses.mul(&weights)?;
        }
        reduction.apply(name, &losses.reshape(shape)?)
    }

    /// Returns the sum of `max(0, 1 - x[y] + x[c])` over all targets y and all classes c that are
    /// not targets, divided by the number of classes. Copies the maximum number of targets of a row
    /// to the host.
    ///
    /// # Shapes
    /// `[batch, classes]` and class indices of the same shape (i32 or i64), where a row ends at its
    /// first -1 -> `[batch]`, or `[]` if reduced; the batch axis is optional
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, if there are no classes, or if a class
    /// index is out of range.
    pub fn multilabel_margin_loss(&self, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
        let name = "multilabel_margin_loss";
        let (x, shape) = class_rows(name, self)?;
        check::index(name, "target", &target.meta())?;
        check::shape(name, "target", &target.meta(), *self.shape())?;
        let target = target.reshape(*x.shape())?;
        let ends = target.eq_scalar(-1)?.cumsum(1)?;
        let is_counted = ends.eq_scalar(0)?;
        let max_targets = match x.elements() {
            0 => 0,
            _ => is_counted.sum(1)?.max_all()?.item_f64()? as usize,
        };
        let (is_counted, classes) = (is_counted.narrow(1, 0, max_targets)?, x.dims()[1]);
        let labels = target.narrow(1, 0, max_targets)?.masked_fill(&is_counted.logical_not()?, 0)?;
        let zeros = x.detach().zeros_like()?;
        let is_target =
            with_index_error_op(name, || zeros.scatter_add(1, &labels, &is_counted.to_dtype(x.dtype())?))?;
        let target_scores = x.gather(1, &labels)?.unsqueeze(2)?;
        // All pairs of a target and a class, for the maximum number of targets of a row.
        let violations = x.unsqueeze(1)?.sub(&target_scores)?.add_scalar(1)?.relu()?;
        let is_pair = is_counted.unsqueeze(2)?.logical_and(&is_target.eq_scalar(0)?.unsqueeze(1)?)?;
        let violations = violations.masked_fill(&is_pair.logical_not()?, 0)?;
        let losses = violations.sum([1, 2])?.div_scalar(classes as f64)?;
        reduction.apply(name, &losses.reshape(shape)?)
    }

    /// Returns the mean over the classes, which are the last axis, of the binary cross-entropy of
    /// logits x and targets, multiplied by the weights of the classes.
    ///
    /// # Shapes
    /// `[.., classes]` and the same, to which the weight is broadcast -> `[..]`, or `[]` if reduced
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, if the dtype is not floating-point, or if
    /// there is no axis.
    pub fn multilabel_soft_margin_loss(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        reduction: Reduction,
    ) -> Result<Tensor> {
        let name = "multilabel_soft_margin_loss";
        let (x, target) = loss_pair(name, self, target)?;
        let Some(last) = x.rank().checked_sub(1) else {
            return Err(Error::invalid(name, "logits without an axis of classes"));
        };
        let mut losses = x.softplus()?.sub(&x.mul(&target)?)?;
        if let Some(weight) = weight {
            losses = losses.mul(&checked_weight(name, weight, &losses)?)?;
        }
        reduction.apply(name, &losses.mean(last)?)
    }
}
