//! Statistics of the batches before, which norms follow.

use crate::error::Result;
use crate::op::check;
use crate::ops::norm::channels;
use crate::{Tensor, no_grad};

/// The running mean and the running variance of a norm, `[channels]` each, which follow those of each batch in place.
#[derive(Clone, Copy, Debug)]
pub struct RunningStatistics<'a> {
    mean: &'a Tensor,
    var: &'a Tensor,
}

impl<'a> RunningStatistics<'a> {
    /// Those of `op` for an input `[batch, channels, ..]`.
    ///
    /// # Errors
    /// Statistics of another shape than `[channels]`, a dtype that is not floating, an input of fewer than 2 axes.
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

    /// Moves them towards mean and variance (the population's, of `count` values a channel) of a batch: `running * (1 - momentum) + batch * momentum`, where
    /// the variance is made the unbiased one. Nothing is recorded.
    ///
    /// # Errors
    /// Statistics that another device has, memory that cannot be written.
    pub fn follow(&self, batch: [&Tensor; 2], count: usize, momentum: f64) -> Result<()> {
        no_grad(|| {
            for (running, batch, scale) in self.beside(batch, count) {
                running.mul_scalar_(1.0 - momentum)?;
                running.add_(&batch.mul_scalar(momentum * scale)?.to_dtype(running.dtype())?)?;
            }
            Ok(())
        })
    }

    /// As [`follow`](RunningStatistics::follow), so that they are the means over all batches, of which `batches` there are with this one: a tensor without axes, so
    /// that the number stays on the device.
    ///
    /// # Errors
    /// As there.
    pub fn follow_evenly(&self, batch: [&Tensor; 2], count: usize, batches: &Tensor) -> Result<()> {
        no_grad(|| {
            for (running, batch, scale) in self.beside(batch, count) {
                let batches = batches.to_dtype(running.dtype())?;
                let share = batch.mul_scalar(scale)?.to_dtype(running.dtype())?.div(&batches)?;
                let kept = running.mul(&batches.sub_scalar(1)?.div(&batches)?)?;
                running.copy_(&kept.add(&share)?)?;
            }
            Ok(())
        })
    }

    /// Each statistic, that of the batch, and the factor that takes the latter's bias away.
    fn beside<'b>(&self, [mean, var]: [&'b Tensor; 2], count: usize) -> [(&'a Tensor, &'b Tensor, f64); 2] {
        let unbiased = count as f64 / (count as f64 - 1.0);
        [(self.mean, mean, 1.0), (self.var, var, unbiased)]
    }
}
