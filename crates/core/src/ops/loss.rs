//! Losses.

use crate::backend::Meta;
use crate::error::Result;
use crate::op::{Output, Outputs, Rule, check};
use crate::{DType, Shape};

/// Cross-entropy of each row with a class index, with label smoothing s (Szegedy et al. 2016, section 7):
/// `loss = lse(x) - (1 - s) * x[target] - s/classes * sum(x)`, 0 where `target == ignore_index`.
///
/// Inputs: logits `[rows, classes]` floating, target `[rows]` i32/i64 in `0..classes` (or ignore_index, which may lie outside), else
/// [`IndexOutOfRange`](crate::Error::IndexOutOfRange). Outputs: loss `[rows]` and log-sum-exp `[rows]` (auxiliary), both in
/// `accumulator()` of the logits' dtype (f32 for halves).
#[derive(Clone, Debug)]
pub struct CrossEntropy {
    /// A target that counts nothing.
    pub ignore_index: i64,
    /// Weight spread evenly over all classes, in `0..=1`.
    pub label_smoothing: f64,
}

/// `dx[r, c] = dloss[r] * (exp(x[r, c] - lse[r]) - (1 - s) * [c == target[r]] - s/classes)`, 0 in ignored rows.
///
/// Inputs: logits, target, lse `[rows]`, dloss `[rows]` (both in the accumulator dtype). Output: dlogits, as logits; may take their place.
#[derive(Clone, Debug)]
pub struct CrossEntropyGrad {
    /// A target that counts nothing.
    pub ignore_index: i64,
    /// Weight spread evenly over all classes, in `0..=1`.
    pub label_smoothing: f64,
}

fn rows_and_targets(op: &'static str, inputs: &[Meta<'_>], count: usize) -> Result<(Shape, DType)> {
    check::count(op, inputs, count)?;
    check::float(op, "logits", &inputs[0])?;
    let [rows, _classes] = inputs[0].shape().to_array(op)?;
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
        let (rows, dtype) = rows_and_targets("cross_entropy", inputs, 2)?;
        Ok([Output::fresh(rows, dtype), Output::fresh(rows, dtype)].into_iter().collect())
    }
}

impl Rule for CrossEntropyGrad {
    fn name(&self) -> &'static str {
        "cross_entropy_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "cross_entropy_grad";
        let (rows, dtype) = rows_and_targets(name, inputs, 4)?;
        for (what, meta) in [("log_sum_exp", &inputs[2]), ("grad_output", &inputs[3])] {
            check::dtype(name, what, meta, dtype)?;
            check::shape(name, what, meta, rows)?;
        }
        Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), inputs[0].dtype, 0)]))
    }
}
