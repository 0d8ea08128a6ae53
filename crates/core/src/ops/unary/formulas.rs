//! Formulas of unary functions and of their derivatives that are longer than a line, in terms of
//! tensor ops.

use crate::DType;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::ops::create::integer_range;
use crate::tensor::Tensor;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

/// Coefficient of the cubic term in the tanh approximation of gelu (Hendrycks and Gimpel 2016).
const GELU_CUBIC: f64 = 0.044715;

/// Beyond this value the normal density is 0 and tanh is 1, also in f64: the derivatives of gelu
/// have reached their limits.
const GELU_LIMIT: f64 = 40.0;

/// Computes `min(max(x, low), high)`.
pub(super) fn clamp(x: &Tensor, low: f64, high: f64) -> Result<Tensor> {
    x.maximum_scalar(to_bound(low, x.dtype()))?.minimum_scalar(to_bound(high, x.dtype()))
}

/// Returns `dy` where x is inside or at the bounds, 0 elsewhere.
pub(super) fn clamp_grad(x: &Tensor, dy: &Tensor, low: f64, high: f64) -> Result<Tensor> {
    let inside = x.ge_scalar(low)?.logical_and(&x.le_scalar(high)?)?;
    inside.where_(dy, &dy.scalar_like(0i64)?)
}

/// Converts a bound of clamp to the tensor's dtype. Bounds outside the range of an integer dtype
/// are clamped to it.
fn to_bound(value: f64, dtype: DType) -> Scalar {
    match integer_range(dtype) {
        Some((low, high)) => Scalar::integer((value as i128).clamp(low, high)),
        None => Scalar::Float(value),
    }
}

/// Computes `sqrt(2/pi) * (x + 0.044715 x^3)`, as `x * (1 + 0.044715 x^2)`, in which no terms
/// cancel.
pub(super) fn gelu_inner(x: &Tensor) -> Result<Tensor> {
    let factor = x.square()?.mul_scalar(GELU_CUBIC)?.add_scalar(1i64)?;
    x.mul(&factor)?.mul_scalar((2.0 / PI).sqrt())
}

/// Returns `dy` for positive x, `alpha * e^x * dy` elsewhere.
pub(super) fn elu_grad(x: &Tensor, dy: &Tensor, alpha: f64) -> Result<Tensor> {
    // e^x is computed only for negative x: for other x it could overflow, and the gradient of the
    // unused branch would be NaN. At 0 the second derivative is 0, as in PyTorch.
    let below = x.ge_scalar(0i64)?.where_(&x.scalar_like(0i64)?, x)?;
    let negative = dy.mul(&below.exp()?.mul_scalar(alpha)?)?;
    x.gt_scalar(0i64)?.where_(dy, &negative)
}

/// Computes `s * (1 + x * (1 - s)) * dy` with `s = sigmoid(x)`.
pub(super) fn silu_grad(x: &Tensor, dy: &Tensor) -> Result<Tensor> {
    let sigmoid = x.sigmoid()?;
    let inner = x.mul(&sigmoid.rsub_scalar(1i64)?)?.add_scalar(1i64)?;
    dy.mul(&sigmoid.mul(&inner)?)
}

/// Computes `Phi(x) + x * phi(x)`, with the cumulative normal distribution and its density.
pub(super) fn gelu_erf_derivative(x: &Tensor) -> Result<Tensor> {
    let x = x.clamp(-GELU_LIMIT, GELU_LIMIT)?;
    let distribution = x.mul_scalar(FRAC_1_SQRT_2)?.erf()?.add_scalar(1i64)?.mul_scalar(0.5)?;
    let density = x.square()?.mul_scalar(-0.5)?.exp()?.mul_scalar(0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2)?;
    distribution.add(&x.mul(&density)?)
}

/// Computes `(1 + t)/2 + x/2 * (1 - t^2) * du/dx` with `t = tanh(u)`.
pub(super) fn gelu_tanh_derivative(x: &Tensor) -> Result<Tensor> {
    let x = x.clamp(-GELU_LIMIT, GELU_LIMIT)?;
    let tanh = gelu_inner(&x)?.tanh()?;
    let inner_derivative =
        x.square()?.mul_scalar(3.0 * GELU_CUBIC)?.add_scalar(1i64)?.mul_scalar((2.0 / PI).sqrt())?;
    let curved = x.mul(&tanh.square()?.rsub_scalar(1i64)?)?.mul(&inner_derivative)?;
    tanh.add_scalar(1i64)?.add(&curved)?.mul_scalar(0.5)
}
