//! Losses that are the negative logarithm of a probability.

use super::{checked_weight, float_input};
use crate::functions::binary;
use crate::ops::loss::loss_pair;
use crate::{Error, Reduction, Result, Tensor};
use std::f64::consts::TAU;

/// Options of [`Tensor::poisson_nll_loss`].
#[derive(Clone, Copy, Debug)]
pub struct PoissonNllOptions {
    /// Whether the input is the logarithm of the rate. Default: true.
    pub log_input: bool,
    /// Whether Stirling's approximation of `log(target!)` is added for targets above 1. Default:
    /// false.
    pub full: bool,
    /// Added to the rate before its logarithm is computed. Default: 1e-8.
    pub eps: f64,
    /// How the losses are reduced. Default: mean.
    pub reduction: Reduction,
}

impl Default for PoissonNllOptions {
    fn default() -> Self {
        PoissonNllOptions { log_input: true, full: false, eps: 1e-8, reduction: Reduction::Mean }
    }
}

/// Options of [`Tensor::gaussian_nll_loss`].
#[derive(Clone, Copy, Debug)]
pub struct GaussianNllOptions {
    /// Whether the constant `log(2 pi) / 2` is added. Default: false.
    pub full: bool,
    /// Smaller variances are replaced by this value; the gradient ignores the replacement. Default:
    /// 1e-6.
    pub eps: f64,
    /// How the losses are reduced. Default: mean.
    pub reduction: Reduction,
}

impl Default for GaussianNllOptions {
    fn default() -> Self {
        GaussianNllOptions { full: false, eps: 1e-6, reduction: Reduction::Mean }
    }
}

impl Tensor {
    /// Returns the negative log-probability of counts under Poisson distributions:
    /// `e^x - target * x` if x is the logarithm of the rate, `x - target * log(x + eps)` if x is
    /// the rate.
    ///
    /// # Shapes
    /// Both of one shape -> same shape, or `[]` if reduced
    ///
    /// # Errors
    /// Returns an error if the shapes or dtypes differ, or if the dtype is not floating-point.
    pub fn poisson_nll_loss(&self, target: &Tensor, options: PoissonNllOptions) -> Result<Tensor> {
        let name = "poisson_nll_loss";
        let PoissonNllOptions { log_input, full, eps, reduction } = options;
        let (x, target) = loss_pair(name, self, target)?;
        let mut losses = match log_input {
            true => x.exp()?.sub(&target.mul(&x)?)?,
            false => x.sub(&target.mul(&x.add_scalar(eps)?.log()?)?)?,
        };
        if full {
            let is_small = target.le_scalar(1)?;
            // Masked before and after, so that the logarithms of unused elements have finite
            // gradients.
            let count = target.masked_fill(&is_small, 1)?;
            let root = count.mul_scalar(TAU)?.log()?.mul_scalar(0.5)?;
            let stirling = count.mul(&count.log()?)?.sub(&count)?.add(&root)?;
            losses = losses.add(&stirling.masked_fill(&is_small, 0)?)?;
        }
        reduction.apply(name, &losses)
    }

    /// Returns the negative log-probability of the target under normal distributions with means x:
    /// `(log v + (x - target)^2 / v) / 2` with variances v. Variances below `eps` are replaced by
    /// `eps`, and their gradient is the one at `eps`. For a negative variance the loss is NaN.
    ///
    /// # Shapes
    /// Both of one shape, to which the variances are broadcast -> same shape, or `[]` if reduced
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, or if the dtype is not floating-point.
    pub fn gaussian_nll_loss(
        &self,
        target: &Tensor,
        variance: &Tensor,
        options: GaussianNllOptions,
    ) -> Result<Tensor> {
        let name = "gaussian_nll_loss";
        let GaussianNllOptions { full, eps, reduction } = options;
        let (x, target) = loss_pair(name, self, target)?;
        let variance = float_input(name, "variance", variance, x.dtype())?;
        if !variance.shape().broadcasts_to(x.shape()) {
            let shapes = format!("variance {:?} does not broadcast to {:?}", variance.shape(), x.shape());
            return Err(Error::invalid(name, shapes));
        }
        let detached = variance.detach();
        let clamped = detached.lt_scalar(eps)?.where_(&detached.scalar_like(eps)?, &detached)?;
        let clamped = clamped.masked_fill(&detached.lt_scalar(0)?, f64::NAN)?;
        // The value is the clamped one, and the gradient flows to the original variance.
        let variance = clamped
            .add(&variance.sub(&detached)?.masked_fill(&detached.abs()?.eq_scalar(f64::INFINITY)?, 0)?)?;
        let mut losses = x.sub(&target)?.square()?.div(&variance)?.add(&variance.log()?)?.mul_scalar(0.5)?;
        if full {
            losses = losses.add_scalar(0.5 * TAU.ln())?;
        }
        reduction.apply(name, &losses)
    }

    /// Returns the cross-entropy of probabilities x:
    /// `-(target * log x + (1 - target) * log(1 - x))`, where the logarithms are at least -100. The
    /// gradient of x is `(x - target) / (x (1 - x))`, where the divisor is at least 1e-12. Both are
    /// as in PyTorch.
    ///
    /// # Shapes
    /// Both of one shape, to which the weight is broadcast -> same shape, or `[]` if reduced
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, or if the dtype is not floating-point.
    /// Probabilities outside 0 to 1 are not detected.
    pub fn binary_cross_entropy(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        reduction: Reduction,
    ) -> Result<Tensor> {
        let name = "binary_cross_entropy";
        let (x, target) = loss_pair(name, self, target)?;
        let losses = binary(name, [&x, &target], bce, [bce_grad, bce_target_grad])?;
        match weight {
            None => reduction.apply(name, &losses),
            Some(weight) => reduction.apply(name, &losses.mul(&checked_weight(name, weight, &losses)?)?),
        }
    }
}

/// Returns `log x` and `log(1 - x)`, both at least -100.
fn clamped_logs(x: &Tensor) -> Result<(Tensor, Tensor)> {
    Ok((x.log()?.maximum_scalar(-100)?, x.neg()?.log1p()?.maximum_scalar(-100)?))
}

fn bce(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    let (positive, negative) = clamped_logs(x)?;
    target.sub_scalar(1)?.mul(&negative)?.sub(&target.mul(&positive)?)
}

fn bce_grad(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    let value: fn(&Tensor, &Tensor) -> Result<Tensor> =
        |x, target| x.sub(target)?.div(&bernoulli_variance(x)?);
    binary(
        "binary_cross_entropy_grad",
        [x, target],
        value,
        [bce_second_grad, |x, _| bernoulli_variance(x)?.recip()?.neg()],
    )
}

/// Returns `x (1 - x)`, at least 1e-12.
fn bernoulli_variance(x: &Tensor) -> Result<Tensor> {
    x.mul(&x.rsub_scalar(1)?)?.maximum_scalar(1e-12)
}

/// Returns `target / x^2 + (1 - target) / (1 - x)^2`. 1e-12 is added to x and 1 - x before
/// squaring: where one of them is 0 the result is PyTorch's, and it is also correct if the
/// numerator is 0.
fn bce_second_grad(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    let term = |numerator: &Tensor, divisor: &Tensor| numerator.div(&divisor.add_scalar(1e-12)?.square()?);
    term(target, x)?.add(&term(&target.rsub_scalar(1)?, &x.rsub_scalar(1)?)?)
}

fn bce_target_grad(x: &Tensor, _: &Tensor) -> Result<Tensor> {
    let (positive, negative) = clamped_logs(x)?;
    negative.sub(&positive)
}
