//! Gradient clipping, by the total norm or by the value of each element. Nothing is copied to the
//! host.

use crate::autograd::no_grad;
use crate::error::{Error, Result};
use crate::ops::multi_tensor::total_norm;
use crate::{DType, Gradients, Tensor};
use std::collections::HashSet;

/// Computes the Euclidean norm of the gradients of `parameters` as one vector (f64 if one of them
/// is, otherwise f32). A parameter without a gradient contributes 0. A parameter that is listed
/// twice is counted once.
///
/// # Shapes
/// `[]`
///
/// # Errors
/// Returns an error if there are no parameters, or if gradients are on several devices.
pub fn grad_norm(gradients: &Gradients, parameters: &[&Tensor]) -> Result<Tensor> {
    let Some(first) = parameters.first() else {
        return Err(Error::invalid("grad_norm", "expected at least 1 parameter"));
    };
    let gradients_found = unique_gradients(gradients, parameters);
    no_grad(|| match gradients_found.is_empty() {
        true => Tensor::zeros((), DType::F32, first.device()),
        false => total_norm(&gradients_found.iter().map(|(_, grad)| grad).collect::<Vec<_>>()),
    })
}

/// Scales the gradients of `parameters` by `min(1, max_norm / (norm + 1e-6))` and returns their
/// norm before scaling (Pascanu et al. 2013, algorithm 1, as in PyTorch).
///
/// A non-finite norm makes all gradients NaN or 0, as follows from the formula. Check the returned
/// norm.
///
/// # Errors
/// Returns an error if there are no parameters, if gradients are on several devices, or if
/// `max_norm` is negative or NaN.
pub fn clip_grad_norm(gradients: &mut Gradients, parameters: &[&Tensor], max_norm: f64) -> Result<Tensor> {
    check_limit("clip_grad_norm", "norm", max_norm)?;
    let norm = grad_norm(gradients, parameters)?;
    no_grad(|| {
        let factor = norm.add_scalar(1e-6)?.rdiv_scalar(max_norm)?.minimum_scalar(1.0)?;
        for (parameter, grad) in unique_gradients(gradients, parameters) {
            let scaled = widen(&grad)?;
            let scaled = scaled.mul(&factor.to_dtype(scaled.dtype())?)?.to_dtype(grad.dtype())?;
            gradients.insert(parameter, scaled)?;
        }
        Ok(norm)
    })
}

/// Clamps each element of the gradients of `parameters` to `-limit..=limit`. NaN stays NaN.
///
/// # Errors
/// Returns an error if `limit` is negative or NaN.
pub fn clip_grad_value(gradients: &mut Gradients, parameters: &[&Tensor], limit: f64) -> Result<()> {
    check_limit("clip_grad_value", "value", limit)?;
    no_grad(|| {
        for (parameter, grad) in unique_gradients(gradients, parameters) {
            gradients.insert(parameter, grad.clamp(-limit, limit)?)?;
        }
        Ok(())
    })
}

/// Converts a gradient to its accumulator dtype.
fn widen(grad: &Tensor) -> Result<Tensor> {
    grad.to_dtype(grad.dtype().accumulator())
}

/// Returns the parameters that have a gradient, with the gradient. Tied parameters are listed once.
fn unique_gradients<'a>(gradients: &Gradients, parameters: &[&'a Tensor]) -> Vec<(&'a Tensor, Tensor)> {
    let mut known_ids = HashSet::new();
    let unique = parameters.iter().filter(|parameter| parameter.id().is_some_and(|id| known_ids.insert(id)));
    unique.filter_map(|&parameter| Some((parameter, gradients.get(parameter)?.clone()))).collect()
}

fn check_limit(op: &'static str, what: &str, limit: f64) -> Result<()> {
    match limit >= 0.0 {
        true => Ok(()),
        false => Err(Error::invalid(op, format!("largest {what} {limit}, expected 0 or more"))),
    }
}
