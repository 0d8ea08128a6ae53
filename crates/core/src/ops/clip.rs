//! Gradients kept small: by their norm together, or each element by itself. Nothing is read back to the host.

use crate::autograd::no_grad;
use crate::error::{Error, Result};
use crate::ops::multi_tensor::total_norm;
use crate::{DType, Gradients, Tensor};
use std::collections::HashSet;

/// The Euclidean norm of the gradients of `parameters` taken as one vector (f64 if one of them is, else f32). A parameter without a gradient counts as 0, one
/// that is listed twice counts once.
///
/// # Shapes
/// `[]`
///
/// # Errors
/// No parameters at all; gradients on several devices.
pub fn grad_norm(gradients: &Gradients, parameters: &[&Tensor]) -> Result<Tensor> {
    let Some(first) = parameters.first() else {
        return Err(Error::invalid("grad_norm", "expected at least 1 parameter"));
    };
    let found = each_once(gradients, parameters);
    no_grad(|| match found.is_empty() {
        true => Tensor::zeros((), DType::F32, first.device()),
        false => total_norm(&found.iter().map(|(_, grad)| grad).collect::<Vec<_>>()),
    })
}

/// Scales the gradients of `parameters` by `min(1, max_norm / (norm + 1e-6))` and returns their norm before (Pascanu et al. 2013, algorithm 1, in PyTorch's form).
///
/// A norm that is not finite makes all of them NaN or 0, as the formula says: look at what is returned.
///
/// # Errors
/// No parameters at all; gradients on several devices; a `max_norm` that is negative or no number.
pub fn clip_grad_norm(gradients: &mut Gradients, parameters: &[&Tensor], max_norm: f64) -> Result<Tensor> {
    check_limit("clip_grad_norm", "norm", max_norm)?;
    let norm = grad_norm(gradients, parameters)?;
    no_grad(|| {
        let factor = norm.add_scalar(1e-6)?.rdiv_scalar(max_norm)?.minimum_scalar(1.0)?;
        for (parameter, grad) in each_once(gradients, parameters) {
            let scaled = wide(&grad)?;
            let scaled = scaled.mul(&factor.to_dtype(scaled.dtype())?)?.to_dtype(grad.dtype())?;
            gradients.insert(parameter, scaled)?;
        }
        Ok(norm)
    })
}

/// Clamps each element of the gradients of `parameters` to `-limit..=limit`; NaN stays.
///
/// # Errors
/// A `limit` that is negative or no number.
pub fn clip_grad_value(gradients: &mut Gradients, parameters: &[&Tensor], limit: f64) -> Result<()> {
    check_limit("clip_grad_value", "value", limit)?;
    no_grad(|| {
        for (parameter, grad) in each_once(gradients, parameters) {
            gradients.insert(parameter, grad.clamp(-limit, limit)?)?;
        }
        Ok(())
    })
}

/// In the accumulator dtype.
fn wide(grad: &Tensor) -> Result<Tensor> {
    grad.to_dtype(grad.dtype().accumulator())
}

/// The parameters that have a gradient, and that; tied ones once.
fn each_once<'a>(gradients: &Gradients, parameters: &[&'a Tensor]) -> Vec<(&'a Tensor, Tensor)> {
    let mut seen = HashSet::new();
    let unseen = parameters.iter().filter(|parameter| parameter.id().is_some_and(|id| seen.insert(id)));
    unseen.filter_map(|&parameter| Some((parameter, gradients.get(parameter)?.clone()))).collect()
}

fn check_limit(op: &'static str, what: &str, limit: f64) -> Result<()> {
    match limit >= 0.0 {
        true => Ok(()),
        false => Err(Error::invalid(op, format!("largest {what} {limit}, expected 0 or more"))),
    }
}
