//! Gradient clipping outside of a step.

use crate::module::Param;
use ternion_core::{Gradients, Result, Tensor};

/// Scales the gradients of `parameters` so that the norm of all of them together is at most
/// `max_norm`. Returns the norm before scaling, as a tensor on the device.
///
/// `max_grad_norm` in an optimizer's configuration does the same within the step, without a
/// separate pass over the gradients.
///
/// # Errors
/// The errors of [`ternion_core::clip_grad_norm`].
pub fn clip_grad_norm(gradients: &mut Gradients, parameters: &[Param], max_norm: f64) -> Result<Tensor> {
    let tensors = tensors_of(parameters);
    ternion_core::clip_grad_norm(gradients, &tensors.iter().collect::<Vec<_>>(), max_norm)
}

/// Clamps each element of the gradients of `parameters` to `-clip_value..=clip_value`, as PyTorch's
/// `clip_grad_value_`. NaN stays NaN.
///
/// # Errors
/// The errors of [`ternion_core::clip_grad_value`].
pub fn clip_grad_value(gradients: &mut Gradients, parameters: &[Param], clip_value: f64) -> Result<()> {
    let tensors = tensors_of(parameters);
    ternion_core::clip_grad_value(gradients, &tensors.iter().collect::<Vec<_>>(), clip_value)
}

fn tensors_of(parameters: &[Param]) -> Vec<Tensor> {
    parameters.iter().map(Param::tensor).collect()
}
