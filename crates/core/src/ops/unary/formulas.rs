//! The formulas of composite functions and of all derivatives, in tensor ops.

use super::UnaryOp;
use crate::DType;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::ops::create::integer_range;
use crate::tensor::Tensor;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

/// Coefficient of the cubic term in the tanh form of gelu (Hendrycks and Gimpel 2016).
const GELU_CUBIC: f64 = 0.044715;

/// Beyond this the normal density is 0 and tanh is 1, also in f64: derivatives of gelu have reached their limits.
const GELU_LIMIT: f64 = 40.0;

/// `f(x)` of a composite function.
pub(super) fn compose(op: UnaryOp, x: &Tensor) -> Result<Tensor> {
    match op {
        UnaryOp::LeakyRelu { slope } => x.gt_scalar(0i64)?.where_(x, &x.mul_scalar(slope)?),
        UnaryOp::Elu { alpha } => x.gt_scalar(0i64)?.where_(x, &x.expm1()?.mul_scalar(alpha)?),
        UnaryOp::GeluErf => x.mul_scalar(0.5)?.mul(&x.mul_scalar(FRAC_1_SQRT_2)?.erf()?.add_scalar(1i64)?),
        UnaryOp::GeluTanh => x.mul_scalar(0.5)?.mul(&gelu_inner(x)?.tanh()?.add_scalar(1i64)?),
        UnaryOp::Silu => x.mul(&x.sigmoid()?),
        UnaryOp::Softplus => x.relu()?.add(&x.abs()?.neg()?.exp()?.log1p()?),
        UnaryOp::Clamp { low, high } => {
            x.maximum_scalar(bound(low, x.dtype()))?.minimum_scalar(bound(high, x.dtype()))
        }
        UnaryOp::Neg
        | UnaryOp::Abs
        | UnaryOp::Sign
        | UnaryOp::Exp
        | UnaryOp::Log
        | UnaryOp::Log1p
        | UnaryOp::Expm1
        | UnaryOp::Sqrt
        | UnaryOp::Rsqrt
        | UnaryOp::Sin
        | UnaryOp::Cos
        | UnaryOp::Tanh
        | UnaryOp::Sigmoid
        | UnaryOp::Relu
        | UnaryOp::Erf
        | UnaryOp::Square
        | UnaryOp::Recip
        | UnaryOp::Floor
        | UnaryOp::Ceil
        | UnaryOp::Round
        | UnaryOp::Not => Err(Error::Unsupported {
            op: op.name(),
            device: "composition".into(),
            why: "it is a primitive".into(),
        }),
    }
}

/// A bound of clamp in the tensor's dtype: beyond an integer's range it is the end of the range.
fn bound(value: f64, dtype: DType) -> Scalar {
    match integer_range(dtype) {
        Some((low, high)) => Scalar::Int((value as i64).clamp(low, high)),
        None => Scalar::Float(value),
    }
}

/// `sqrt(2/pi) * (x + 0.044715 x^3)`, as `x * (1 + 0.044715 x^2)` which does not cancel.
fn gelu_inner(x: &Tensor) -> Result<Tensor> {
    let factor = x.square()?.mul_scalar(GELU_CUBIC)?.add_scalar(1i64)?;
    x.mul(&factor)?.mul_scalar((2.0 / PI).sqrt())
}

/// `f'(x) * dy`, where `saved` is y or x as [`UnaryOp::saves_output`] says.
///
/// Every path from `saved` stays finite where the result is, so that the formula can be differentiated again.
pub(super) fn gradient(op: UnaryOp, saved: &Tensor, dy: &Tensor) -> Result<Tensor> {
    match op {
        UnaryOp::Neg => dy.neg(),
        UnaryOp::Abs => dy.mul(&saved.sign()?),
        UnaryOp::Sign | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round => dy.zeros_like(),
        UnaryOp::Exp => dy.mul(saved),
        UnaryOp::Log => dy.div(saved),
        UnaryOp::Log1p => dy.div(&saved.add_scalar(1i64)?),
        UnaryOp::Expm1 => dy.mul(&saved.add_scalar(1i64)?),
        UnaryOp::Sqrt => dy.div(&saved.mul_scalar(2i64)?),
        // y^3 in factors: d/dx x^-1/2 = -y^3 / 2
        UnaryOp::Rsqrt => dy.mul(&saved.square()?.mul(saved)?.mul_scalar(-0.5)?),
        UnaryOp::Sin => dy.mul(&saved.cos()?),
        UnaryOp::Cos => dy.mul(&saved.sin()?.neg()?),
        UnaryOp::Tanh => dy.mul(&saved.square()?.rsub_scalar(1i64)?),
        UnaryOp::Sigmoid => dy.mul(&saved.mul(&saved.rsub_scalar(1i64)?)?),
        UnaryOp::Relu => saved.gt_scalar(0i64)?.where_(dy, &dy.scalar_like(0i64)?),
        UnaryOp::Erf => dy.mul(&saved.square()?.neg()?.exp()?.mul_scalar(FRAC_2_SQRT_PI)?),
        // Doubled last: twice a large x could overflow where the product does not.
        UnaryOp::Square => dy.mul(saved)?.mul_scalar(2i64),
        UnaryOp::Recip => dy.mul(&saved.square()?.neg()?),
        UnaryOp::Not => Err(Error::autograd("not has no gradient")),
        UnaryOp::LeakyRelu { slope } => saved.gt_scalar(0i64)?.where_(dy, &dy.mul_scalar(slope)?),
        UnaryOp::Elu { alpha } => {
            // e^x only of negative x: its overflow elsewhere would turn the unused branch's gradient into NaN.
            let negative = dy.mul(&saved.minimum_scalar(0i64)?.exp()?.mul_scalar(alpha)?)?;
            saved.gt_scalar(0i64)?.where_(dy, &negative)
        }
        UnaryOp::GeluErf => dy.mul(&gelu_erf_derivative(saved)?),
        UnaryOp::GeluTanh => dy.mul(&gelu_tanh_derivative(saved)?),
        UnaryOp::Silu => {
            let sigmoid = saved.sigmoid()?;
            let inner = saved.mul(&sigmoid.rsub_scalar(1i64)?)?.add_scalar(1i64)?;
            dy.mul(&sigmoid.mul(&inner)?)
        }
        UnaryOp::Softplus => dy.mul(&saved.sigmoid()?),
        UnaryOp::Clamp { low, high } => {
            let inside = saved.ge_scalar(low)?.logical_and(&saved.le_scalar(high)?)?;
            inside.where_(dy, &dy.scalar_like(0i64)?)
        }
    }
}

/// `Phi(x) + x * phi(x)`, the normal distribution function and its density.
fn gelu_erf_derivative(x: &Tensor) -> Result<Tensor> {
    let x = x.clamp(-GELU_LIMIT, GELU_LIMIT)?;
    let distribution = x.mul_scalar(FRAC_1_SQRT_2)?.erf()?.add_scalar(1i64)?.mul_scalar(0.5)?;
    let density = x.square()?.mul_scalar(-0.5)?.exp()?.mul_scalar(0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2)?;
    distribution.add(&x.mul(&density)?)
}

/// With `t = tanh(u)`: `(1 + t)/2 + x/2 * (1 - t^2) * du/dx`.
fn gelu_tanh_derivative(x: &Tensor) -> Result<Tensor> {
    let x = x.clamp(-GELU_LIMIT, GELU_LIMIT)?;
    let tanh = gelu_inner(&x)?.tanh()?;
    let inner_slope =
        x.square()?.mul_scalar(3.0 * GELU_CUBIC)?.add_scalar(1i64)?.mul_scalar((2.0 / PI).sqrt())?;
    let curved = x.mul(&tanh.square()?.rsub_scalar(1i64)?)?.mul(&inner_slope)?;
    tanh.add_scalar(1i64)?.add(&curved)?.mul_scalar(0.5)
}
