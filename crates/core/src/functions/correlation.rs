//! Covariance and correlation matrices.

use super::{check_floating, in_accumulator};
use crate::anomaly::in_function;
use crate::autograd::{Context, Grads, no_grad, with_gradient};
use crate::error::{Error, Result};
use crate::op::{Saves, check};
use crate::ops::reduce::in_square_units;
use crate::shape::AxisSet;
use crate::{Shape, Tensor};

impl Tensor {
    /// Returns the covariances of the rows, whose columns are observations. `fweights` are the
    /// frequencies of the observations, `aweights` their relative weights. With weights it waits
    /// for the device, to check that none is negative and that their sum is not 0.
    ///
    /// Sums of products are divided by `sum(weights) - correction`, or with `aweights` by
    /// `sum(weights) - correction * sum(weights * aweights) / sum(weights)`, where `weights` are
    /// the products of both. A negative divisor is replaced by 0, as in PyTorch. Covariances are
    /// finite even where the sums of products would overflow. The gradients are those of the
    /// formula.
    ///
    /// # Shapes
    /// `[variables, observations]`, fweights and aweights `[observations]` ->
    /// `[variables, variables]`; `[observations]` or one variable -> `[]`
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point, if there are more than two axes, if
    /// `fweights` are not integers, if `aweights` have another dtype, if either has another shape
    /// or a negative element, or if the sum of the weights is 0.
    pub fn cov(
        &self,
        correction: f64,
        fweights: Option<&Tensor>,
        aweights: Option<&Tensor>,
    ) -> Result<Tensor> {
        let name = "cov";
        let x = as_rows(name, self)?;
        let observations = Shape::new(&[x.dims()[1]])?;
        if let Some(fweights) = fweights {
            if !fweights.dtype().is_int() {
                return Err(Error::dtype(name, "fweights", fweights.dtype(), "an integer dtype"));
            }
            check_weights("fweights", fweights, observations)?;
        }
        if let Some(aweights) = aweights {
            check::same_dtype(name, &self.meta(), &aweights.meta())?;
            check_weights("aweights", aweights, observations)?;
        }
        let dtype = x.dtype().accumulator();
        let cast = |tensor: Option<&Tensor>| tensor.map(|tensor| tensor.to_dtype(dtype)).transpose();
        let (fweights, aweights) = (cast(fweights)?, cast(aweights)?);
        let weights = match (&fweights, &aweights) {
            (Some(fweights), Some(aweights)) => Some(fweights.mul(aweights)?),
            (fweights, aweights) => fweights.as_ref().or(aweights.as_ref()).cloned(),
        };
        if let Some(weights) = &weights
            && weights.detach().sum(..)?.item_f64()? == 0.0
        {
            return Err(Error::invalid(name, "weights whose sum is 0"));
        }
        in_function(name, &[self], || {
            in_accumulator([&x], |[x]| covariance(x, correction, weights.as_ref(), aweights.as_ref()))
        })
    }

    /// Returns the correlations of the rows, whose columns are observations: covariances divided by
    /// both standard deviations, clamped to -1 and 1, without overflow or underflow. The gradients
    /// are those of the formula.
    ///
    /// # Shapes
    /// `[variables, observations]` -> `[variables, variables]`; `[observations]` or one variable ->
    /// `[]`
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point, or if there are more than two axes.
    pub fn corrcoef(&self) -> Result<Tensor> {
        let x = as_rows("corrcoef", self)?;
        let correlate = |[x]: &[Tensor; 1]| -> Result<Tensor> {
            let covariances = covariance(&normalized_deviations(x)?, 1.0, None, None)?;
            if covariances.rank() == 0 {
                return covariances.div(&covariances);
            }
            let count = covariances.dims()[0];
            let diagonal = covariances.reshape([count * count])?.slice_axis(
                0,
                0,
                (count * count) as isize,
                count as isize + 1,
            )?;
            let std = diagonal.sqrt()?;
            let quotient = covariances.div(&std.unsqueeze(1)?)?.div(&std.unsqueeze(0)?)?;
            // Clamps rounding errors beyond 1 without an effect on the gradient.
            let rounded = no_grad(|| quotient.clamp(-1.0, 1.0)?.sub(&quotient))?;
            quotient.add(&rounded)
        };
        in_function("corrcoef", &[self], || in_accumulator([&x], correlate))
    }
}

/// Returns a matrix of shape `[variables, observations]`.
fn as_rows(name: &'static str, x: &Tensor) -> Result<Tensor> {
    check_floating(name, x)?;
    match x.rank() {
        0 | 1 => x.reshape([1, x.elements()]),
        2 => Ok(x.clone()),
        _ => Err(Error::Rank { op: name, expected: "at most 2".into(), shape: Box::new(*x.shape()) }),
    }
}

fn check_weights(what: &'static str, weights: &Tensor, observations: Shape) -> Result<()> {
    check::shape("cov", what, &weights.meta(), observations)?;
    let is_negative = no_grad(|| weights.lt_scalar(0)?.any(..)?.item_f64())? != 0.0;
    if is_negative { Err(Error::invalid("cov", format!("{what} below 0"))) } else { Ok(()) }
}

/// Returns the covariances of rows. `weights` are the products of all weights, `aweights` the
/// relative weights; all have the dtype of `x`.
fn covariance(
    x: &Tensor,
    correction: f64,
    weights: Option<&Tensor>,
    aweights: Option<&Tensor>,
) -> Result<Tensor> {
    let result = match weights {
        None => {
            let centered = x.sub(&x.mean_in_range(1.into(), true)?)?;
            let count = (x.dims()[1] as f64 - correction).max(0.0);
            mean_products([&centered, &centered, &x.detach().scalar_like(count)?])?
        }
        Some(weights) => {
            let total = weights.sum(..)?;
            // Normalized weights sum to 1, so the weighted sum cannot overflow.
            let centered = x.sub(&x.mul(&weights.div(&total)?)?.sum_keep(1)?)?;
            let lost_freedom = match aweights {
                None => total.detach().scalar_like(correction)?,
                Some(aweights) => weights.mul(aweights)?.sum(..)?.mul_scalar(correction)?.div(&total)?,
            };
            let count = total.sub(&lost_freedom)?.maximum_scalar(0)?;
            mean_products([&centered.mul(weights)?, &centered, &count])?
        }
    };
    if x.dims()[0] == 1 { result.reshape(()) } else { Ok(result) }
}

/// Returns sums of products of rows divided by a count. They are finite wherever the quotients are.
fn mean_products(inputs: [&Tensor; 3]) -> Result<Tensor> {
    let quotients = no_grad(|| {
        let [weighted, centered, count] = inputs;
        let (weighted, row_unit) = in_square_units(weighted, AxisSet::one(1))?;
        let (centered, column_unit) = in_square_units(centered, AxisSet::one(1))?;
        weighted.matmul(&centered.t()?)?.div(count)?.mul(&row_unit)?.mul(&column_unit.t()?)
    })?;
    let rule = |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
        let (weighted, centered, count) = (context.input(0)?, context.input(1)?, context.input(2)?);
        let scaled_grad = dy.div(count)?;
        let count_grad = match context.needs(2) {
            true => Some(scaled_grad.mul(context.output(0)?)?.sum(..)?.neg()?),
            false => None,
        };
        let (weighted_grad, centered_grad) =
            (scaled_grad.matmul(centered)?, scaled_grad.t()?.matmul(weighted)?);
        Ok([Some(weighted_grad), Some(centered_grad), count_grad].into_iter().collect())
    };
    Ok(with_gradient("cov", &inputs, vec![quotients], Saves::ALL, rule)?.swap_remove(0))
}

/// Returns the deviations of rows from their means, divided by the largest magnitude of each row.
/// Scaling a row does not change its correlations.
fn normalized_deviations(x: &Tensor) -> Result<Tensor> {
    if x.elements() == 0 {
        return Ok(x.clone());
    }
    let centered = x.sub(&x.mean_in_range(1.into(), true)?)?;
    let largest = centered.detach().max_abs_keep(1)?;
    let is_zero_or_infinite = largest.eq_scalar(0)?.logical_or(&largest.eq_scalar(f64::INFINITY)?)?;
    centered.div(&largest.masked_fill(&is_zero_or_infinite, 1)?)
}
