//! Margin losses with targets 1 and -1.

use super::{float_input, hinge};
use crate::anomaly::in_function;
use crate::op::check;
use crate::ops::loss::loss_pair;
use crate::{Reduction, Result, Tensor};

impl Tensor {
    /// Returns `log(1 + e^(-target * x))` for targets 1 and -1.
    ///
    /// # Shapes
    /// Both of one shape -> same shape, or `[]` if reduced
    ///
    /// # Errors
    /// Returns an error if the shapes or dtypes differ, or if the dtype is not floating-point.
    pub fn soft_margin_loss(&self, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
        let (x, target) = loss_pair("soft_margin_loss", self, target)?;
        let compute = || x.mul(&target)?.neg()?.softplus();
        reduction.apply("soft_margin_loss", &in_function("soft_margin_loss", &[&x, &target], compute)?)
    }

    /// Returns x where the target is 1, `max(0, margin - x)` where it is -1, and the sum of both
    /// elsewhere, as in PyTorch.
    ///
    /// # Shapes
    /// Same as [`soft_margin_loss`](Tensor::soft_margin_loss); targets may be floats, integers or
    /// bool.
    ///
    /// # Errors
    /// Returns an error if the shapes differ, or if the input is not floating-point.
    pub fn hinge_embedding_loss(&self, target: &Tensor, margin: f64, reduction: Reduction) -> Result<Tensor> {
        let name = "hinge_embedding_loss";
        check::float(name, "input", &self.meta())?;
        check::shape(name, "target", &target.meta(), *self.shape())?;
        let x = self.to_dtype(self.dtype().accumulator())?;
        let target = target.to_dtype(x.dtype())?;
        let near = x.masked_fill(&target.eq_scalar(-1)?, 0)?;
        let far = hinge(&x.rsub_scalar(margin)?)?.masked_fill(&target.eq_scalar(1)?, 0)?;
        reduction.apply(name, &near.add(&far)?)
    }

    /// Returns `max(0, margin - target * (x - other))`. A target of 1 means that x should be larger
    /// than `other`, -1 that it should be smaller. Where both arguments of the maximum are 0, the
    /// gradient is that of the second one.
    ///
    /// # Shapes
    /// All three of one shape -> same shape, or `[]` if reduced
    ///
    /// # Errors
    /// Returns an error if the shapes or dtypes differ, or if the dtype is not floating-point.
    pub fn margin_ranking_loss(
        &self,
        other: &Tensor,
        target: &Tensor,
        margin: f64,
        reduction: Reduction,
    ) -> Result<Tensor> {
        let name = "margin_ranking_loss";
        let (x, target) = loss_pair(name, self, target)?;
        let other = float_input(name, "other", other, x.dtype())?;
        check::shape(name, "other", &other.meta(), *x.shape())?;
        let signed_difference = target.mul(&x.sub(&other)?)?;
        reduction.apply(name, &hinge(&signed_difference.rsub_scalar(margin)?)?)
    }
}
