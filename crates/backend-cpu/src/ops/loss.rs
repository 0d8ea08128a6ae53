//! Cross-entropy and its gradient: one pass over each row of logits.

use crate::access::Locked;
use crate::float::Float;
use crate::kernel::Variant;
use crate::lanes;
use crate::rows::{Rows, Scratch, for_rows, vector};
use crate::simd::vectorized;
use crate::threads::Cost;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::ops::loss::{CrossEntropy, CrossEntropyGrad};
use ternion_core::{DType, Error, Op, Result};

/// Supports both ops, all floats, and both index types.
pub(crate) fn select(op: &Op, inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    let run = match (op, inputs[0].dtype) {
        (Op::CrossEntropy(_), DType::F64) => forward::<f64>,
        (Op::CrossEntropy(_), _) => forward::<f32>,
        (_, DType::F64) => gradient::<f64>,
        _ => gradient::<f32>,
    };
    Ok(Variant { plan: Plan::ROW_MAJOR, run })
}

/// Returns the target class of each row, or `None` for a row that is ignored.
fn classes_of(
    op: &'static str,
    target: &Locked<'_>,
    ignore_index: i64,
    classes: usize,
) -> Result<Vec<Option<usize>>> {
    let targets = match target.dtype {
        DType::I64 => vector::<i64>(op, target)?,
        _ => vector::<i32>(op, target)?.into_iter().map(i64::from).collect(),
    };
    targets
        .into_iter()
        .map(|class| match class {
            class if class == ignore_index => Ok(None),
            class if (0..classes as i64).contains(&class) => Ok(Some(class as usize)),
            index => Err(Error::IndexOutOfRange { op, index, size: classes }),
        })
        .collect()
}

/// Label smoothing as factors: `1 - s` for the target, `s / classes` for each class.
struct LabelSmoothing<T> {
    target: T,
    per_class: T,
}

impl<T: Float> LabelSmoothing<T> {
    fn new(label_smoothing: f64, classes: usize) -> LabelSmoothing<T> {
        LabelSmoothing {
            target: T::real(1.0 - label_smoothing),
            per_class: T::real(label_smoothing / classes.max(1) as f64),
        }
    }
}

fn forward<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::CrossEntropy(CrossEntropy { ignore_index, label_smoothing }) = op else {
        return Err(Error::invalid(op.name(), "is not cross_entropy"));
    };
    let logits = Rows::<T>::along_last_axis(op.name(), &inputs[0])?;
    let targets = classes_of(op.name(), &inputs[1], *ignore_index, logits.width())?;
    let (losses, log_sums) = (
        Rows::<T>::as_single_row(op.name(), &outputs[0])?,
        Rows::<T>::as_single_row(op.name(), &outputs[1])?,
    );
    let smoothing = LabelSmoothing::new(*label_smoothing, logits.width());
    for_rows(logits.count(), logits.width(), Cost::Heavy, |rows| {
        let mut scratch = [Scratch::new(), Scratch::new(), Scratch::new()];
        let [scratch_logits, scratch_losses, scratch_sums] = &mut scratch;
        // SAFETY: these rows are used only by this thread; outputs share no memory with inputs or
        // each other.
        let (loss, log_sum) = unsafe {
            (losses.buffer(0, rows.clone(), scratch_losses), log_sums.buffer(0, rows.clone(), scratch_sums))
        };
        for (index, row) in rows.clone().enumerate() {
            // SAFETY: as above.
            let x = unsafe { logits.read(row, 0..logits.width(), scratch_logits) };
            (loss.values[index], log_sum.values[index]) = row_loss(x, targets[row], &smoothing);
        }
        // SAFETY: as above.
        unsafe {
            losses.write(0, rows.start, loss);
            log_sums.write(0, rows.start, log_sum);
        }
    });
    Ok(())
}

/// Returns the loss of a row of logits, and the logarithm of the sum of `e^(x - shift)`.
fn row_loss<T: Float>(x: &[T], target: Option<usize>, smoothing: &LabelSmoothing<T>) -> (T, T) {
    vectorized(
        #[inline(always)]
        || {
            let base = shift(x);
            let log_sum = lanes::sum(x, |x| (x - base).exp()).log();
            let Some(target) = target else { return (T::ZERO, log_sum) };
            let mut loss = log_sum - smoothing.target * (x[target] - base);
            if smoothing.per_class != T::ZERO {
                loss -= smoothing.per_class * lanes::sum(x, |x| x - base);
            }
            (loss, log_sum)
        },
    )
}

/// Returns what is subtracted from the logits so that exponentials do not overflow and differences
/// do not cancel: the largest logit, or 0 if that is infinite.
#[inline(always)]
fn shift<T: Float>(x: &[T]) -> T {
    let max = lanes::max(x);
    if max.is_finite() { max } else { T::ZERO }
}

fn gradient<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::CrossEntropyGrad(CrossEntropyGrad { ignore_index, label_smoothing }) = op else {
        return Err(Error::invalid(op.name(), "is not cross_entropy_grad"));
    };
    let (logits, dx) = (
        Rows::<T>::along_last_axis(op.name(), &inputs[0])?,
        Rows::<T>::along_last_axis(op.name(), &outputs[0])?,
    );
    let targets = classes_of(op.name(), &inputs[1], *ignore_index, logits.width())?;
    let (log_sums, dlosses) =
        (Rows::<T>::as_single_row(op.name(), &inputs[2])?, Rows::<T>::as_single_row(op.name(), &inputs[3])?);
    let smoothing = LabelSmoothing::new(*label_smoothing, logits.width());
    for_rows(dx.count(), dx.width(), Cost::Heavy, |rows| {
        let mut scratch = [Scratch::new(), Scratch::new(), Scratch::new()];
        let [scratch_dx, scratch_sums, scratch_dloss] = &mut scratch;
        // SAFETY: these rows are used only by this thread; dx does not overlap any input, or is the
        // view of the logits.
        unsafe {
            let log_sum = log_sums.read(0, rows.clone(), scratch_sums);
            let dloss = dlosses.read(0, rows.clone(), scratch_dloss);
            for (index, row) in rows.enumerate() {
                let buffer = dx.buffer(row, 0..dx.width(), scratch_dx);
                logits.copy(row, 0, buffer.values);
                row_gradient(buffer.values, targets[row], &smoothing, log_sum[index], dloss[index]);
                dx.write(row, 0, buffer);
            }
        }
    });
    Ok(())
}

/// Computes the gradient of a row of logits, in place.
fn row_gradient<T: Float>(
    x: &mut [T],
    target: Option<usize>,
    smoothing: &LabelSmoothing<T>,
    log_sum: T,
    dloss: T,
) {
    let Some(target) = target else { return x.fill(T::ZERO) };
    vectorized(
        #[inline(always)]
        || {
            let base = shift(x);
            let at_target =
                dloss * ((x[target] - base - log_sum).exp() - (smoothing.target + smoothing.per_class));
            for x in x.iter_mut() {
                *x = dloss * ((*x - base - log_sum).exp() - smoothing.per_class);
            }
            x[target] = at_target;
        },
    );
}

#[cfg(test)]
mod tests;
