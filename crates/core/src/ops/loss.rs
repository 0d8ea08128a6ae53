//! Losses: cross-entropy as an op, the others as compositions of smaller ops.

use crate::anomaly::in_function;
use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::dispatch::apply_one;
use crate::error::{Error, Result, with_index_error_op};
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::shape::AxisSet;
use crate::{DType, Shape, Tensor};

mod linear;
mod options;
mod weighted;
mod with_grad;

pub use linear::LinearCrossEntropyOptions;
pub use options::{BceOptions, CrossEntropyOptions, NllOptions, Reduction};
pub use with_grad::{CrossEntropyGradUpdate, CrossEntropyWithGrad};

/// Cross-entropy of each row with a class index, with label smoothing s (Szegedy et al. 2016,
/// section 7):
/// `loss = lse(x) - (1 - s) * x[target] - s/classes * sum(x)`, 0 where `target == ignore_index`.
///
/// Inputs: logits `[rows, classes]` floating, target `[rows]` i32/i64 in `0..classes` (or
/// ignore_index, which may be outside); other values are an
/// [`IndexOutOfRange`](crate::Error::IndexOutOfRange) error. Outputs: loss `[rows]` and (auxiliary)
/// `log(sum(e^(x - m)))` `[rows]`, both in the `accumulator()` dtype of the logits (f32 for half
/// precision). m is the row's maximum, or 0 if that is infinite. `lse = m + log_sum` is not
/// computed, because with large logits its rounding error would be relative to m.
#[derive(Clone, Debug)]
pub struct CrossEntropy {
    /// A target value that is ignored.
    pub ignore_index: i64,
    /// Weight distributed evenly over all classes, in `0..=1`.
    pub label_smoothing: f64,
}

/// `dx[r, c] = dloss[r] *
/// (exp(x[r, c] - m[r] - log_sum[r]) - (1 - s) * [c == target[r]] - s/classes)`, 0 in ignored rows;
/// m as in [`CrossEntropy`].
///
/// Inputs: logits, target, log_sum `[rows]`, dloss `[rows]` (both in the accumulator dtype).
/// Output: dlogits, with the shape and dtype of the logits; may reuse their buffer.
#[derive(Clone, Debug)]
pub struct CrossEntropyGrad {
    /// A target value that is ignored.
    pub ignore_index: i64,
    /// Weight distributed evenly over all classes, in `0..=1`.
    pub label_smoothing: f64,
}

fn check_rows_and_targets(op: &'static str, inputs: &[Meta<'_>], count: usize) -> Result<(Shape, DType)> {
    check::count(op, inputs, count)?;
    check::float(op, "logits", &inputs[0])?;
    let [rows, classes] = inputs[0].shape().to_array(op)?;
    if classes == 0 && rows > 0 {
        return Err(Error::invalid(op, format!("logits of shape {:?} have no classes", inputs[0].shape())));
    }
    check::index(op, "target", &inputs[1])?;
    let per_row = Shape::unchecked(&[rows]);
    check::shape(op, "target", &inputs[1], per_row)?;
    Ok((per_row, inputs[0].dtype.accumulator()))
}

impl Rule for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let (rows, dtype) = check_rows_and_targets("cross_entropy", inputs, 2)?;
        Ok([Output::fresh(rows, dtype), Output::fresh(rows, dtype)].into_iter().collect())
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let [logits, target] = [&inputs[0], &inputs[1]];
        let x = logits.to_dtype(logits.dtype().accumulator())?;
        let shifted = x.sub(&row_shift(&x)?)?;
        let log_sum = shifted.exp()?.sum(1)?.log()?;
        let (is_counted, class) = split_ignored(target, self.ignore_index)?;
        let target_logits = with_index_error_op(self.name(), || shifted.gather(1, &class.unsqueeze(1)?))?;
        let mut loss = log_sum.sub(&target_logits.squeeze(1)?.mul_scalar(1.0 - self.label_smoothing)?)?;
        if self.label_smoothing != 0.0 {
            loss = loss.sub(&shifted.sum(1)?.mul_scalar(self.label_smoothing / x.dims()[1] as f64)?)?;
        }
        Ok(vec![loss.masked_fill(&is_counted.logical_not()?, 0.0)?, log_sum])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves { inputs: 0b11, outputs: 0b10 })
    }
    /// The log_sum output can have a gradient too: it comes from the gradient of
    /// [`CrossEntropyGrad`].
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let saved = [context.input(0)?, context.input(1)?, context.output(1)?];
        Ok([self.gradient(saved, [&grad_outputs[0], &grad_outputs[1]])?, None].into_iter().collect())
    }
}

impl CrossEntropy {
    /// Computes the gradient of the logits from those of the loss and of log_sum.
    fn gradient(
        &self,
        [logits, target, log_sum]: [&Tensor; 3],
        [dloss, dlog_sum]: [&Option<Tensor>; 2],
    ) -> Result<Option<Tensor>> {
        let CrossEntropy { ignore_index, label_smoothing } = *self;
        let mut sum = None;
        if let Some(dloss) = dloss {
            let op = CrossEntropyGrad { ignore_index, label_smoothing };
            sum = Some(apply_one(op, &[logits, target, log_sum, dloss])?);
        }
        if let Some(grad) = dlog_sum {
            let derivative = probabilities(logits, log_sum)?.sub(&shift_grad(logits)?)?;
            let term = derivative.mul(&grad.unsqueeze(1)?)?.to_dtype(logits.dtype())?;
            sum = add_optional(sum, term)?;
        }
        Ok(sum)
    }
}

/// Adds `term` to `sum`, which may be `None`.
fn add_optional(sum: Option<Tensor>, term: Tensor) -> Result<Option<Tensor>> {
    match sum {
        Some(sum) => sum.add(&term).map(Some),
        None => Ok(Some(term)),
    }
}

/// Computes `exp(logits - m - log_sum)`: the softmax of each row, in the accumulator dtype.
fn probabilities(logits: &Tensor, log_sum: &Tensor) -> Result<Tensor> {
    let x = logits.to_dtype(log_sum.dtype())?;
    x.sub(&row_shift(&x)?)?.sub(&log_sum.unsqueeze(1)?)?.exp()
}

/// Returns the maximum of each row, or 0 if it is infinite: `[rows, 1]`.
fn row_shift(x: &Tensor) -> Result<Tensor> {
    if x.dims()[1] == 0 {
        return Tensor::zeros([x.dims()[0], 1], x.dtype(), x.device());
    }
    let max = x.max_keep(1)?;
    max.abs()?.lt_scalar(f64::INFINITY)?.where_(&max, &max.scalar_like(0i64)?)
}

/// Computes the derivative of each row's [`row_shift`] with respect to its elements, in the
/// accumulator dtype. Equal maxima share the derivative of 1.
fn shift_grad(logits: &Tensor) -> Result<Tensor> {
    let x = logits.detach().to_dtype(logits.dtype().accumulator())?;
    let max = x.max_keep(1)?;
    let largest = x.eq(&max)?.logical_and(&max.abs()?.lt_scalar(f64::INFINITY)?)?.to_dtype(x.dtype())?;
    largest.div(&largest.sum_keep(1)?.maximum_scalar(1i64)?)
}

/// Returns the mask of targets that are not ignored, and the targets with the ignored ones replaced
/// by 0.
fn split_ignored(target: &Tensor, ignore_index: i64) -> Result<(Tensor, Tensor)> {
    let is_counted = target.ne_scalar(ignore_index)?;
    let class = target.masked_fill(&is_counted.logical_not()?, 0)?;
    Ok((is_counted, class))
}

impl Rule for CrossEntropyGrad {
    fn name(&self) -> &'static str {
        "cross_entropy_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "cross_entropy_grad";
        let (rows, dtype) = check_rows_and_targets(name, inputs, 4)?;
        for (what, meta) in [("log_sum", &inputs[2]), ("grad_output", &inputs[3])] {
            check::dtype(name, what, meta, dtype)?;
            check::shape(name, what, meta, rows)?;
        }
        Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), inputs[0].dtype, 0)]))
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let [logits, target, log_sum, dloss] = [&inputs[0], &inputs[1], &inputs[2], &inputs[3]];
        // This gather only checks the class indices. Below they are compared, not used as indices,
        // so that an index out of range would not be reported.
        let class = split_ignored(target, self.ignore_index)?.1.unsqueeze(1)?;
        with_index_error_op(self.name(), || logits.gather(1, &class))?;
        let distribution =
            target_distribution(target, logits.dims()[1], self.label_smoothing, log_sum.dtype())?;
        let grad = probabilities(logits, log_sum)?.sub(&distribution)?.mul(&dloss.unsqueeze(1)?)?;
        let ignored = target.eq_scalar(self.ignore_index)?.unsqueeze(1)?;
        Ok(vec![grad.masked_fill(&ignored, 0.0)?.to_dtype(logits.dtype())?])
    }
}

/// Returns the target distribution: `[rows, classes]`.
fn target_distribution(
    target: &Tensor,
    classes: usize,
    label_smoothing: f64,
    dtype: DType,
) -> Result<Tensor> {
    let class = Tensor::iota(classes, target.dtype(), 0, 1, target.device())?;
    let is_target = target.unsqueeze(1)?.eq(&class)?.to_dtype(dtype)?;
    is_target.mul_scalar(1.0 - label_smoothing)?.add_scalar(label_smoothing / classes.max(1) as f64)
}

/// Converts a weight to the dtype of the losses (f32 for half precision), or returns an error if it
/// does not broadcast to them.
pub(crate) fn broadcast_weight(
    op: &'static str,
    what: &str,
    weight: &Tensor,
    losses: &Tensor,
) -> Result<Tensor> {
    match weight.shape().broadcasts_to(losses.shape()) {
        true => weight.to_dtype(losses.dtype()),
        false => {
            let shapes = format!("{what} {:?} does not broadcast to {:?}", weight.shape(), losses.shape());
            Err(Error::invalid(op, shapes))
        }
    }
}

impl Tensor {
    /// Computes the mean cross-entropy of these logits and `target`, as PyTorch's `cross_entropy`.
    ///
    /// # Shapes
    /// logits `[batch, classes, ..]` (or `[classes]`) with class indices `[batch, ..]` (i32 or i64;
    /// -100 is ignored) or floating class probabilities of the logits' shape -> `[]`
    ///
    /// # Errors
    /// Same as [`cross_entropy_with`](Tensor::cross_entropy_with).
    pub fn cross_entropy(&self, target: &Tensor) -> Result<Tensor> {
        self.cross_entropy_with(target, CrossEntropyOptions::default())
    }

    /// Computes the cross-entropy of these logits and `target`, with options.
    ///
    /// The mean is over the targets that are not ignored. With class indices it is weighted by the
    /// weights of their classes. If all targets are ignored, the mean is NaN (0/0).
    ///
    /// # Shapes
    /// Same as [`cross_entropy`](Tensor::cross_entropy). Without reduction the result has the
    /// logits' shape without the class axis.
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes are incompatible, if a class index is out of range, if
    /// the smoothing is outside `0..=1`, or if the number of weights differs from the number of
    /// classes.
    pub fn cross_entropy_with(&self, target: &Tensor, options: CrossEntropyOptions<'_>) -> Result<Tensor> {
        let name = "cross_entropy";
        if !(0.0..=1.0).contains(&options.label_smoothing) {
            let detail = format!("label smoothing {}, expected 0 to 1", options.label_smoothing);
            return Err(Error::invalid(name, detail));
        }
        check::float(name, "logits", &self.meta())?;
        if target.dtype().is_float() {
            return soft_cross_entropy(self, target, options);
        }
        if let Some(weight) = options.weight {
            return weighted::cross_entropy(self, target, weight, options);
        }
        let (rows, shape) = class_rows(name, self, target)?;
        let target = target.reshape([rows.dims()[0]])?;
        let count = match options.reduction {
            Reduction::Mean => {
                Some(count_targets(&target, options.ignore_index, rows.dtype().accumulator())?)
            }
            _ => None,
        };
        let losses = with_grad::losses(&rows, &target, &options, count.as_ref())?.reshape(shape)?;
        reduce_counted(name, &losses, count, options.reduction)
    }

    /// Computes the mean negative log-likelihood of the targets, as PyTorch's `nll_loss`:
    /// [`cross_entropy`](Tensor::cross_entropy) without the log-softmax.
    ///
    /// # Shapes
    /// log-probabilities `[batch, classes, ..]` (or `[classes]`), class indices `[batch, ..]` (i32
    /// or i64; -100 is ignored) -> `[]`
    ///
    /// # Errors
    /// Same as [`nll_loss_with`](Tensor::nll_loss_with).
    pub fn nll_loss(&self, target: &Tensor) -> Result<Tensor> {
        self.nll_loss_with(target, NllOptions::default())
    }

    /// Computes the negative log-likelihood of each target, times the weight of its class, and 0
    /// for `ignore_index`. The mean is over the targets that are not ignored, weighted by the
    /// weights of their classes.
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes are incompatible, if a class index is out of range, or
    /// if the number of weights differs from the number of classes.
    pub fn nll_loss_with(&self, target: &Tensor, options: NllOptions<'_>) -> Result<Tensor> {
        let name = "nll_loss";
        let NllOptions { weight, ignore_index, reduction } = options;
        check::float(name, "input", &self.meta())?;
        let (rows, shape) = class_rows(name, self, target)?;
        let (is_counted, class) = split_ignored(&target.reshape([rows.dims()[0], 1])?, ignore_index)?;
        let target_log_probs = with_index_error_op(name, || rows.gather(1, &class))?;
        let losses = target_log_probs.to_dtype(rows.dtype().accumulator())?.neg()?;
        let losses = losses.masked_fill(&is_counted.logical_not()?, 0.0)?.reshape(shape)?;
        if let Some(weight) = weight {
            let classes = rows.dims()[1];
            return weighted::reduce(name, &losses, (weight, classes), (target, ignore_index), reduction);
        }
        let count = match reduction {
            Reduction::Mean => Some(count_targets(target, ignore_index, losses.dtype())?),
            _ => None,
        };
        reduce_counted(name, &losses, count, reduction)
    }

    /// Computes `(x - target)^2`.
    ///
    /// # Shapes
    /// Both tensors have one shape. So has the result, or `[]` if reduced.
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes differ, or if the dtype is not floating.
    pub fn mse_loss(&self, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
        let (x, target) = loss_pair("mse_loss", self, target)?;
        let losses = in_function("mse_loss", &[&x, &target], || x.sub(&target)?.square())?;
        reduction.apply("mse_loss", &losses)
    }

    /// Computes `|x - target|`.
    ///
    /// # Errors
    /// Same as [`mse_loss`](Tensor::mse_loss).
    pub fn l1_loss(&self, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
        let (x, target) = loss_pair("l1_loss", self, target)?;
        let losses = in_function("l1_loss", &[&x, &target], || x.sub(&target)?.abs())?;
        reduction.apply("l1_loss", &losses)
    }

    /// Computes the Huber loss, with `d = |x - target|`: `d^2 / 2` up to `delta`, then
    /// `delta * (d - delta / 2)` (Huber 1964).
    ///
    /// # Errors
    /// Same as [`mse_loss`](Tensor::mse_loss), and an error if `delta` is not positive.
    pub fn huber_loss(&self, target: &Tensor, delta: f64, reduction: Reduction) -> Result<Tensor> {
        let (x, target) = loss_pair("huber_loss", self, target)?;
        if delta.is_nan() || delta <= 0.0 {
            return Err(Error::invalid("huber_loss", format!("delta {delta}, expected more than 0")));
        }
        // With c = min(max(r, -delta), delta), all branches are c * (r - c / 2), which is smooth at
        // 0. The gradient of hardtanh is 0 at both bounds, so the second derivative is 0 there, as
        // in PyTorch.
        let losses = in_function("huber_loss", &[&x, &target], || {
            let residual = x.sub(&target)?;
            let capped = residual.hardtanh(-delta, delta)?;
            capped.mul(&residual.sub(&capped.mul_scalar(0.5)?)?)
        })?;
        reduction.apply("huber_loss", &losses)
    }

    /// Computes the smooth L1 loss, with `d = |x - target|`: `d^2 / (2 beta)` up to `beta`, then
    /// `d - beta / 2` (Girshick 2015, Fast R-CNN). With a `beta` of 0 it is `d`.
    ///
    /// # Errors
    /// Same as [`mse_loss`](Tensor::mse_loss), and an error if `beta` is negative.
    pub fn smooth_l1_loss(&self, target: &Tensor, beta: f64, reduction: Reduction) -> Result<Tensor> {
        let name = "smooth_l1_loss";
        let (x, target) = loss_pair(name, self, target)?;
        if beta.is_nan() || beta < 0.0 {
            return Err(Error::invalid(name, format!("beta {beta}, expected at least 0")));
        }
        let residual = x.sub(&target)?;
        if beta == 0.0 {
            return reduction.apply(name, &residual.abs()?);
        }
        let capped = residual.hardtanh(-beta, beta)?;
        // With a tiny beta, residual / beta could overflow. The quotient of the clamped residual is
        // at most 1.
        let clipped = capped.div_scalar(beta)?;
        reduction.apply(name, &clipped.mul(&residual.sub(&capped.mul_scalar(0.5)?)?)?)
    }

    /// Computes the binary cross-entropy of logits x and probabilities:
    /// `log(1 + e^x) - x * target`, in a form that does not overflow.
    ///
    /// # Errors
    /// Same as [`mse_loss`](Tensor::mse_loss).
    pub fn bce_with_logits(&self, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
        let (x, target) = loss_pair("bce_with_logits", self, target)?;
        reduction.apply("bce_with_logits", &x.softplus()?.sub(&x.mul(&target)?)?)
    }

    /// Computes [`bce_with_logits`](Tensor::bce_with_logits) with options. With the weight w of
    /// positive targets, `log(1 + e^x) - x * target` becomes
    /// `(1 - target) * x + (1 + (w - 1) * target) * log(1 + e^-x)`.
    ///
    /// # Shapes
    /// Input and target have one shape, to which the weights broadcast.
    ///
    /// # Errors
    /// Same as [`mse_loss`](Tensor::mse_loss), and an error if `pos_weight` is not floating, or if
    /// a weight does not broadcast to the target.
    pub fn bce_with_logits_with(&self, target: &Tensor, options: BceOptions<'_>) -> Result<Tensor> {
        let name = "bce_with_logits";
        let losses = match options.pos_weight {
            None => self.bce_with_logits(target, Reduction::None)?,
            Some(weight) => self.bce_of_weighted_positives(target, weight)?,
        };
        let Some(weight) = options.weight else { return options.reduction.apply(name, &losses) };
        let weight = broadcast_weight(name, "weight", weight, &losses)?;
        options.reduction.apply(name, &losses.mul(&weight)?)
    }

    fn bce_of_weighted_positives(&self, target: &Tensor, weight: &Tensor) -> Result<Tensor> {
        let name = "bce_with_logits";
        let (x, target) = loss_pair(name, self, target)?;
        check::float(name, "pos_weight", &weight.meta())?;
        let weight = broadcast_weight(name, "pos_weight", weight, &x)?;
        let scale = weight.sub_scalar(1.0)?.mul(&target)?.add_scalar(1.0)?;
        let negative = target.rsub_scalar(1.0)?.mul(&x)?;
        negative.add(&scale.mul(&x.neg()?.softplus()?)?)
    }

    /// Computes the Kullback-Leibler divergence `target * (log target - x)` of log-probabilities x
    /// from `target`, which contains probabilities, or their logarithms if `log_target`. For a
    /// probability of 0, `0 * log 0` is 0. [`Reduction::BatchMean`] gives the divergence of
    /// distributions, one per row.
    ///
    /// # Errors
    /// Same as [`mse_loss`](Tensor::mse_loss).
    pub fn kl_div(&self, target: &Tensor, reduction: Reduction, log_target: bool) -> Result<Tensor> {
        let (x, target) = loss_pair("kl_div", self, target)?;
        let losses = in_function("kl_div", &[&x, &target], || match log_target {
            true => target.exp()?.mul(&target.sub(&x)?),
            false => {
                let log = target.masked_fill(&target.eq_scalar(0.0)?, 1.0)?.log()?;
                target.mul(&log.sub(&x)?)
            }
        })?;
        reduction.apply("kl_div", &losses)
    }

    /// Returns the fraction of rows whose argmax is the target (the first of equal maxima), f32. It
    /// has no gradient.
    ///
    /// # Shapes
    /// logits `[batch, classes, ..]` (or `[classes]`), class indices `[batch, ..]` (i32 or i64)
    /// -> `[]`
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes are incompatible, or if a class index is out of range.
    pub fn accuracy(&self, target: &Tensor) -> Result<Tensor> {
        let (rows, _) = class_rows("accuracy", self, target)?;
        let target = target.reshape([rows.dims()[0]])?;
        // The result of this gather is not used: it checks the indices.
        with_index_error_op("accuracy", || rows.detach().gather(1, &target.unsqueeze(1)?))?;
        let predicted = rows.argmax(1)?.to_dtype(target.dtype())?;
        predicted.eq(&target)?.to_dtype(DType::F32)?.mean(..)
    }
}

/// Returns the logits with the class axis last, as `[rows, classes]`, and the shape of the
/// unreduced losses.
fn class_rows(op: &'static str, logits: &Tensor, target: &Tensor) -> Result<(Tensor, Shape)> {
    check::index(op, "target", &target.meta())?;
    let axis = class_axis(op, logits)?;
    let shape = logits.shape().without_axis(axis);
    check::shape(op, "target", &target.meta(), shape)?;
    let rows = class_last(logits, axis)?.reshape([shape.elements(), logits.dims()[axis]])?;
    Ok((rows, shape))
}

/// Returns the class axis: axis 1, or axis 0 if it is the only one.
fn class_axis(op: &'static str, logits: &Tensor) -> Result<usize> {
    match logits.rank() {
        0 => Err(Error::Rank { op, expected: "at least 1".into(), shape: Box::new(*logits.shape()) }),
        rank => Ok(usize::from(rank > 1)),
    }
}

fn class_last(tensor: &Tensor, axis: usize) -> Result<Tensor> {
    let mut order: Vec<usize> = (0..tensor.rank()).filter(|&other| other != axis).collect();
    order.push(axis);
    tensor.permute_axes(&order)
}

/// Counts the targets that are not `ignore_index`.
fn count_targets(target: &Tensor, ignore_index: i64, dtype: DType) -> Result<Tensor> {
    // Counted in integers: a sum of f32 ones would stop increasing at 2^24.
    let is_counted = target.ne_scalar(ignore_index)?.to_dtype(DType::I32)?;
    is_counted.sum_as_is(AxisSet::first(is_counted.rank()))?.to_dtype(dtype)
}

/// Reduces the losses. With a `count`, the result is their sum divided by `count`.
fn reduce_counted(
    op: &'static str,
    losses: &Tensor,
    count: Option<Tensor>,
    reduction: Reduction,
) -> Result<Tensor> {
    match count {
        Some(count) => losses.sum(..)?.div(&count),
        None => reduction.apply(op, losses),
    }
}

/// Computes [`soft_losses`] over the classes, with a smoothed and weighted target. The mean is over
/// all rows.
fn soft_cross_entropy(logits: &Tensor, target: &Tensor, options: CrossEntropyOptions<'_>) -> Result<Tensor> {
    let axis = class_axis("cross_entropy", logits)?;
    let (x, mut target) = loss_pair("cross_entropy", logits, target)?;
    if options.label_smoothing != 0.0 {
        let smoothing = options.label_smoothing / logits.dims()[axis].max(1) as f64;
        target = target.mul_scalar(1.0 - options.label_smoothing)?.add_scalar(smoothing)?;
    }
    if let Some(weight) = options.weight {
        target = weighted::of_probabilities(&target, weight, axis)?;
    }
    options.reduction.apply("cross_entropy", &soft_losses(&x, &target, axis)?)
}

/// Computes `-sum(target * log_softmax(x))` over `axis`.
fn soft_losses(x: &Tensor, target: &Tensor, axis: usize) -> Result<Tensor> {
    x.log_softmax(axis)?.mul(target)?.sum(axis)?.neg()
}

/// Checks that input and target have the same shape, and converts both to the accumulator dtype.
pub(crate) fn loss_pair(op: &'static str, x: &Tensor, target: &Tensor) -> Result<(Tensor, Tensor)> {
    check::float(op, "input", &x.meta())?;
    check::float(op, "target", &target.meta())?;
    let dtype = x.dtype().accumulator();
    if target.dtype().accumulator() != dtype {
        return Err(Error::DTypeMismatch { op, left: x.dtype(), right: target.dtype() });
    }
    check::shape(op, "target", &target.meta(), *x.shape())?;
    Ok((x.to_dtype(dtype)?, target.to_dtype(dtype)?))
}
