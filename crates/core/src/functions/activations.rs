//! Activations that are no ops of their own.

use super::{check_floating, in_accumulator};
use crate::Tensor;
use crate::autograd::{Context, Grads, no_grad, with_gradient};
use crate::error::{Error, Result};
use crate::op::{Saves, check};

impl Tensor {
    /// Each element kept from `low` to `high`. At the bounds the gradient is 0, as PyTorch has it of `hardtanh` (there that of `clamp` is 1).
    /// Of integers, the bounds without their fractions.
    ///
    /// # Errors
    /// Truth values.
    pub fn hardtanh(&self, low: f64, high: f64) -> Result<Tensor> {
        if !self.dtype().is_float() {
            return self.clamp(low.trunc(), high.trunc());
        }
        let y = no_grad(|| self.clamp(low, high))?;
        let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
            let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
            let x = context.input(0)?;
            // NaN is not within, as in PyTorch.
            let within = x.gt_scalar(low)?.logical_and(&x.lt_scalar(high)?)?;
            Ok(Grads::from_elem(Some(dy.masked_fill(&within.logical_not()?, 0)?), 1))
        };
        Ok(with_gradient("hardtanh", &[self], vec![y], Saves::INPUTS, rule)?.swap_remove(0))
    }
    /// Each element that is above 0, `weight * x` of the others; with one weight, or one for each channel, the second axis (He et al. 2015, Delving deep into
    /// rectifiers, eq. 1).
    ///
    /// The gradient is 1 above 0 and the weight elsewhere, also at 0; that of the weight is the sum of `dy * x` of elements that are not above 0.
    ///
    /// # Shapes
    /// `[batch, channels, ..]` and `[]`, `[1]` or `[channels]`, unchanged
    ///
    /// # Errors
    /// Dtypes that differ or are not floating, weights of another shape.
    pub fn prelu(&self, weight: &Tensor) -> Result<Tensor> {
        let name = "prelu";
        check_floating(name, self)?;
        check::same_dtype(name, &self.meta(), &weight.meta())?;
        let channels = if self.rank() > 1 { self.dims()[1] } else { 1 };
        let weight = match weight.dims() {
            [] | [1] => weight.reshape(())?,
            &[count] if count == channels => {
                let mut dims = vec![1; self.rank() - 1];
                dims[0] = channels;
                weight.reshape(&dims[..])?
            }
            _ => {
                let detail = format!("weight of shape {}, expected [1] or [{channels}]", weight.shape());
                return Err(Error::invalid(name, detail));
            }
        };
        in_accumulator([self, &weight], |[x, weight]| {
            let is_positive = x.gt_scalar(0)?;
            // An infinite element above 0 is not multiplied: the gradient of the weight would be `0 * inf`.
            let others = x.masked_fill(&is_positive, 0)?;
            is_positive.where_(x, &weight.mul(&others)?)
        })
    }
}
