//! Activations that are no ops of their own.

use crate::autograd::{Context, Grads, no_grad, with_gradient};
use crate::op::Saves;
use crate::{Result, Tensor};

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
}
