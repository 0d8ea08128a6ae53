//! Derivatives of binary functions, in terms of tensor ops.
//!
//! Where a formula would compute `0 * inf`, the operand is replaced beforehand instead of masking
//! the result. The unused branch then has finite derivatives too, and the formula can be
//! differentiated again.

use super::{BinaryOp, Side};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Computes the gradient of operand `side` of `y = f(a, b)`, in the broadcast shape.
pub(super) fn gradient(op: BinaryOp, side: Side, a: &Tensor, b: &Tensor, dy: &Tensor) -> Result<Tensor> {
    match (op, side) {
        (BinaryOp::Add, _) | (BinaryOp::Sub | BinaryOp::Remainder, Side::Left) => Ok(dy.clone()),
        (BinaryOp::Sub, Side::Right) => dy.neg(),
        (BinaryOp::Mul, Side::Left) => dy.mul(b),
        (BinaryOp::Mul, Side::Right) => dy.mul(a),
        (BinaryOp::Div, Side::Left) => dy.div(b),
        (BinaryOp::Div, Side::Right) => dy.neg()?.mul(&a.div(b)?.div(b)?),
        (BinaryOp::Pow, Side::Left) => power_base(a, b, dy),
        (BinaryOp::Pow, Side::Right) => power_exponent(a, b, dy),
        (BinaryOp::Max, Side::Left) | (BinaryOp::Min, Side::Right) => extreme_gradient(&a.lt(b)?, a, b, dy),
        (BinaryOp::Max, Side::Right) | (BinaryOp::Min, Side::Left) => extreme_gradient(&a.gt(b)?, a, b, dy),
        (BinaryOp::Atan2, Side::Left) => dy.mul(&b.div(&squared_radius(a, b)?)?),
        (BinaryOp::Atan2, Side::Right) => dy.mul(&a.neg()?.div(&squared_radius(a, b)?)?),
        (BinaryOp::Remainder, Side::Right) => dy.neg()?.mul(&a.detach().floor_divide(&b.detach())?),
        (BinaryOp::And | BinaryOp::Or | BinaryOp::Xor, _) => {
            Err(Error::autograd(format!("{} has no gradient", op.name())))
        }
    }
}

/// Computes `dy * b * a^(b-1)`, and 0 where b is 0, also for `0^0`.
fn power_base(a: &Tensor, b: &Tensor, dy: &Tensor) -> Result<Tensor> {
    // Only 0^0 and NaN^0 must be replaced. Elsewhere the factor b gives the 0, and the derivative
    // with respect to b is preserved.
    let singular = b.eq_scalar(0i64)?.logical_and(&a.abs()?.gt_scalar(0i64)?.logical_not()?)?;
    let exponent = singular.where_(&b.scalar_like(1i64)?, b)?;
    let base = singular.where_(&a.scalar_like(1i64)?, a)?;
    let derivative = exponent.mul(&base.pow(&exponent.sub_scalar(1i64)?)?)?;
    singular.where_(&dy.scalar_like(0i64)?, &dy.mul(&derivative)?)
}

/// Computes `dy * a^b * log(a)`, and 0 where a is 0 and b is not negative.
fn power_exponent(a: &Tensor, b: &Tensor, dy: &Tensor) -> Result<Tensor> {
    let vanishes = a.eq_scalar(0i64)?.logical_and(&b.ge_scalar(0i64)?)?;
    // log(1) is 0, which gives the 0 of the result.
    let argument = vanishes.where_(&a.scalar_like(1i64)?, a)?;
    dy.mul(&a.pow(b)?.mul(&argument.log()?)?)
}

/// Computes `dy * p * x^(p-1)` for a constant exponent p; 0 for p = 0.
pub(super) fn fixed_power(x: &Tensor, exponent: f64, dy: &Tensor) -> Result<Tensor> {
    if exponent == 0.0 {
        dy.zeros_like()
    } else if exponent == 1.0 {
        Ok(dy.clone())
    } else if exponent == 2.0 {
        dy.mul(&x.mul_scalar(2i64)?)
    } else {
        dy.mul(&x.powf(exponent - 1.0)?.mul_scalar(exponent)?)
    }
}

/// Returns `dy` where the operand is the result, half of it where both are equal, and 0 where the
/// other operand is the result. If either is NaN, both operands get `dy`.
fn extreme_gradient(other_is_result: &Tensor, a: &Tensor, b: &Tensor, dy: &Tensor) -> Result<Tensor> {
    let halved_if_equal = a.eq(b)?.where_(&dy.mul_scalar(0.5)?, dy)?;
    other_is_result.where_(&dy.scalar_like(0i64)?, &halved_if_equal)
}

/// Computes `a^2 + b^2`, but 1 at the origin, where the gradient of the angle is defined as 0.
fn squared_radius(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let sum = a.square()?.add(&b.square()?)?;
    sum.eq_scalar(0i64)?.where_(&sum.scalar_like(1i64)?, &sum)
}
