//! Losses of single elements of which some count more than others.

use super::weight_of;
use crate::{Error, Reduction, Result, Tensor};

/// `weight * losses`, reduced; the mean is that of the elements, or where `divides` is set the sum divided by the sum of the weights.
fn weighted(
    op: &'static str,
    losses: &Tensor,
    weight: &Tensor,
    divides: bool,
    reduction: Reduction,
) -> Result<Tensor> {
    if weight.shape() != losses.shape() {
        let detail = format!("weight has shape {:?}, expected {:?}", weight.shape(), losses.shape());
        return Err(Error::invalid(op, detail));
    }
    let weight = weight_of(op, weight, losses)?;
    let losses = losses.mul(&weight)?;
    match reduction {
        Reduction::Mean if divides => losses.sum(..)?.div(&weight.sum(..)?),
        _ => reduction.apply(op, &losses),
    }
}

impl Tensor {
    /// `weight * (x - target)^2`; the mean is `sum(weight * (x - target)^2) / sum(weight)`, as PyTorch's.
    ///
    /// # Shapes
    /// All of one shape; the result has it too, or `[]` if reduced.
    ///
    /// # Errors
    /// Shapes or dtypes that differ, a dtype that is not floating.
    pub fn mse_loss_weighted(
        &self,
        target: &Tensor,
        weight: &Tensor,
        reduction: Reduction,
    ) -> Result<Tensor> {
        weighted("mse_loss", &self.mse_loss(target, Reduction::None)?, weight, true, reduction)
    }

    /// `weight * |x - target|`; the mean is `sum(weight * |x - target|) / sum(weight)`, as PyTorch's.
    ///
    /// # Shapes
    /// As [`mse_loss_weighted`](Tensor::mse_loss_weighted).
    ///
    /// # Errors
    /// As [`mse_loss_weighted`](Tensor::mse_loss_weighted).
    pub fn l1_loss_weighted(&self, target: &Tensor, weight: &Tensor, reduction: Reduction) -> Result<Tensor> {
        weighted("l1_loss", &self.l1_loss(target, Reduction::None)?, weight, true, reduction)
    }

    /// `weight` times [`huber_loss`](Tensor::huber_loss) of each element; the mean is that of the elements, whatever the weights, as PyTorch's.
    ///
    /// # Shapes
    /// As [`mse_loss_weighted`](Tensor::mse_loss_weighted).
    ///
    /// # Errors
    /// As [`mse_loss_weighted`](Tensor::mse_loss_weighted); a `delta` that is not positive.
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
