//! Running statistics of normalization layers.

use crate::error::Result;
use crate::op::check;
use crate::ops::norm::channels;
use crate::{Tensor, no_grad};

/// The running mean and variance of a normalization, `[channels]` each, which are updated in place
/// with those of each batch.
#[derive(Clone, Copy, Debug)]
pub struct RunningStatistics<'a> {
    mean: &'a Tensor,
    var: &'a Tensor,
}

impl<'a> RunningStatistics<'a> {
    /// Returns the statistics of `op` for an input `[batch, channels, ..]`.
    ///
    /// # Errors
    /// Returns an error if a statistic has another shape than `[channels]`, if its dtype is not
    /// floating-point, or if the input has fewer than 2 axes.
    pub fn new(
        op: &'static str,
        input: &Tensor,
        mean: &'a Tensor,
        var: &'a Tensor,
    ) -> Result<RunningStatistics<'a>> {
        let expected = channels(op, &input.meta())?;
        for (what, statistic) in [("running_mean", mean), ("running_var", var)] {
            check::float(op, what, &statistic.meta())?;
            check::shape(op, what, &statistic.meta(), expected)?;
        }
        Ok(RunningStatistics { mean, var })
    }

    /// Updates the statistics with the mean and variance of a batch:
    /// `running * (1 - momentum) + batch * momentum`. The given variance is the biased one over the
    /// `count` values of a channel; it is converted to the unbiased one. Gradients are not
    /// recorded.
    ///
    /// # Errors
    /// Returns an error if the statistics are on another device, or if their memory cannot be
    /// written.
    pub fn follow(&self, batch: [&Tensor; 2], count: usize, momentum: f64) -> Result<()> {
        no_grad(|| {
            for (running, batch, scale) in self.updates(batch, count) {
                running.mul_scalar_(1.0 - momentum)?;
                running.add_(&batch.mul_scalar(momentum * scale)?.to_dtype(running.dtype())?)?;
            }
            Ok(())
        })
    }

    /// Same as [`follow`](RunningStatistics::follow), except that the statistics become the means
    /// over all batches. `batches` is the number of batches including this one, as a tensor without
    /// axes, so that the number stays on the device.
    ///
    /// # Errors
    /// Same as [`follow`](RunningStatistics::follow).
    pub fn follow_evenly(&self, batch: [&Tensor; 2], count: usize, batches: &Tensor) -> Result<()> {
        no_grad(|| {
            for (running, batch, scale) in self.updates(batch, count) {
                let batches = batches.to_dtype(running.dtype())?;
                let contribution = batch.mul_scalar(scale)?.to_dtype(running.dtype())?.div(&batches)?;
                let decayed = running.mul(&batches.sub_scalar(1)?.div(&batches)?)?;
                running.copy_(&decayed.add(&contribution)?)?;
            }
            Ok(())
        })
    }

    /// Returns each statistic, the value of the batch, and the factor that makes the value of the
    /// batch unbiased.
    fn updates<'b>(&self, [mean, var]: [&'b Tensor; 2], count: usize) -> [(&'a Tensor, &'b Tensor, f64); 2] {
        let unbiased = count as f64 / (count as f64 - 1.0);
        [(self.mean, mean, 1.0), (self.var, var, unbiased)]
    }
}
