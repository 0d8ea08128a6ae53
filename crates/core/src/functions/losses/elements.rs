//! Elementwise losses with a weight for each element.

use super::checked_weight;
use crate::{Error, Reduction, Result, Tensor};

/// Returns `weight * losses`, reduced. The mean is over the elements; if `is_weighted_mean` is set,
/// it is the sum divided by the sum of the weights.
fn weighted(
    op: &'static str,
    losses: &Tensor,
    weight: &Tensor,
    is_weighted_mean: bool,
    reduction: Reduction,
) -> Result<Tensor> {
    if weight.shape() != losses.shape() {
        let detail = format!("weight has shape {:?}, expected {:?}", weight.shape(), losses.shape());
        return Err(Error::invalid(op, detail));
    }
    let weight = checked_weight(op, weight, losses)?;
    let losses = losses.mul(&weight)?;
    match reduction {
        Reduction::Mean if is_weighted_mean => losses.sum(..)?.div(&weight.sum(..)?),
        _ => reduction.apply(op, &losses),
    }
}

impl Tensor {
    /// Returns `weight * (x - target)^2`. The mean is `sum(weight * (x - target)^2) / sum(weight)`,
    /// as in PyTorch.
    ///
    /// # Shapes
    /// All of one shape -> same shape, or `[]` if reduced
    ///
    /// # Errors
    /// Returns an error if the shapes or dtypes differ, or if the dtype is not floating-point.
    pub fn mse_loss_weighted(
        &self,
        target: &Tensor,
        weight: &Tensor,
        reduction: Reduction,
    ) -> Result<Tensor> {
        weighted("mse_loss", &self.mse_loss(target, Reduction::None)?, weight, true, reduction)
    }

    /// Returns `weight * |x - target|`. The mean is `sum(weight * |x - target|) / sum(weight)`, as
    /// in PyTorch.
    ///
    /// # Shapes
    /// Same as [`mse_loss_weighted`](Tensor::mse_loss_weighted).
    ///
    /// # Errors
    /// Same as [`mse_loss_weighted`](Tensor::mse_loss_weighted).
    pub fn l1_loss_weighted(&self, target: &Tensor, weight: &Tensor, reduction: Reduction) -> Result<Tensor> {
        weighted("l1_loss", &self.l1_loss(target, Reduction::None)?, weight, true, reduction)
    }

    /// Returns `weight` times the [`huber_loss`](Tensor::huber_loss) of each element. The mean is
    /// over the elements, regardless of the weights, as in PyTorch.
    ///
    /// # Shapes
    /// Same as [`mse_loss_weighted`](Tensor::mse_loss_weighted).
    ///
    /// # Errors
    /// Same as [`mse_loss_weighted`](Tensor::mse_loss_weighted). Also returns an error if `delta`
    /// is not positive.
    pub fn huber_loss_weighted(
        &self,
        target: &Tensor,
        weight: &Tensor,
        delta: f64,
        reduction: Reduction,
    ) -> Result<Tensor> {
        weighted("huber_loss", &self.huber_loss(target, delta, Reduction::None)?, weight, false, reduction)
    }
}
