//! Formulas of composite reductions and of all derivatives, in terms of tensor ops. Reduced axes
//! are kept, with size 1.

use super::ReduceOp;
use crate::DType;
use crate::error::{Error, Result};
use crate::shape::AxisSet;
use crate::tensor::Tensor;

/// Computes a composite reduction over `axes`.
pub(super) fn compose(op: ReduceOp, x: &Tensor, axes: AxisSet) -> Result<Tensor> {
    match op {
        ReduceOp::Mean => x.sum_keep(axes)?.div_scalar(axes.elements(x.shape()) as f64),
        ReduceOp::SumSquares => x.square()?.sum_keep(axes),
        ReduceOp::MaxAbs => x.abs()?.max_keep(axes),
        ReduceOp::Norm => norm(x, axes),
        ReduceOp::LogSumExp => log_sum_exp(x, axes),
        primitive => Err(Error::Unsupported {
            op: primitive.name(),
            device: "composition".into(),
            why: "it is a primitive".into(),
        }),
    }
}

/// Computes `m sqrt(sum((x / m)^2))` with m the largest magnitude, or 1 if that is 0 or infinite:
/// the squares of `x` itself could overflow or underflow.
fn norm(x: &Tensor, axes: AxisSet) -> Result<Tensor> {
    if axes.elements(x.shape()) == 0 {
        return x.sum_keep(axes);
    }
    let largest = x.detach().max_abs_keep(axes)?;
    let is_positive_finite = largest.gt_scalar(0i64)?.logical_and(&largest.lt_scalar(f64::INFINITY)?)?;
    let unit = is_positive_finite.where_(&largest, &largest.scalar_like(1i64)?)?;
    x.div(&unit)?.square()?.sum_keep(axes)?.sqrt()?.mul(&unit)
}

/// Computes `m + log(sum(e^(x - m)))` with m the maximum, or 0 if that is infinite: if all elements
/// are -infinity, so is the result.
fn log_sum_exp(x: &Tensor, axes: AxisSet) -> Result<Tensor> {
    if axes.elements(x.shape()) == 0 {
        // Without elements there is no maximum; the logarithm of the empty sum is -infinity.
        return x.sum_keep(axes)?.log();
    }
    let max = x.detach().max_keep(axes)?;
    let shift = max.abs()?.eq_scalar(f64::INFINITY)?.where_(&max.scalar_like(0i64)?, &max)?;
    x.sub(&shift)?.exp()?.sum_keep(axes)?.log()?.add(&shift)
}

/// Computes `x - mean(x)` over `axes`.
pub(super) fn centered(x: &Tensor, axes: AxisSet) -> Result<Tensor> {
    x.sub(&compose(ReduceOp::Mean, x, axes)?)
}

/// Starting from this magnitude, 2^64, the sum of the elements or the difference of two of them may
/// overflow the dtype.
const LARGE: f64 = 18_446_744_073_709_551_616.0;

/// Returns `x` divided by a unit and the unit, which is [`LARGE`] where an element over `axes` is
/// at least that, else 1.
pub(super) fn in_units(x: &Tensor, axes: AxisSet) -> Result<(Tensor, Tensor)> {
    in_units_from(x, axes, LARGE, LARGE)
}

/// Returns `x` divided by a unit and the unit, which is large where an element over `axes` is
/// large, else 1. In these units a sum of squares overflows only if its product with the squared
/// unit does, and the squares of differences of neighboring numbers do not underflow.
pub(crate) fn in_square_units(x: &Tensor, axes: AxisSet) -> Result<(Tensor, Tensor)> {
    let exponent = half_max_exponent(x.dtype());
    in_units_from(x, axes, 2f64.powi(exponent / 2), 2f64.powi(exponent))
}

/// Returns `x` divided by a unit and the unit, which is large where an element over `axes` is
/// large, else 1. In these units no sum of squares overflows.
pub(crate) fn in_length_units(x: &Tensor, axes: AxisSet) -> Result<(Tensor, Tensor)> {
    let exponent = half_max_exponent(x.dtype()) / 4 * 3;
    in_units_from(x, axes, 2f64.powi(exponent), 2f64.powi(2 * exponent))
}

/// Returns half of the dtype's largest binary exponent.
fn half_max_exponent(dtype: DType) -> i32 {
    if dtype == DType::F64 { 512 } else { 64 }
}

/// Returns `x` divided by a unit and the unit, which is `large` where an element over `axes` is at
/// least `threshold`, else 1.
fn in_units_from(x: &Tensor, axes: AxisSet, threshold: f64, large: f64) -> Result<(Tensor, Tensor)> {
    if axes.elements(x.shape()) == 0 {
        let unit = x.detach().sum_keep(axes)?.full_like(1i64)?;
        return Ok((x.clone(), unit));
    }
    let is_large = x.detach().max_abs_keep(axes)?.ge_scalar(threshold)?;
    let one = x.detach().scalar_like(1i64)?;
    let (unit, factor) = (x.detach().scalar_like(large)?, x.detach().scalar_like(1.0 / large)?);
    Ok((x.mul(&is_large.where_(&factor, &one)?)?, is_large.where_(&unit, &one)?))
}

/// Computes the gradient of x from `dy`, with the reduced axes kept. `y` has them too, if
/// [`ReduceOp`]'s rule saved it.
pub(super) fn gradient(
    op: ReduceOp,
    axes: AxisSet,
    x: &Tensor,
    y: Option<&Tensor>,
    dy: &Tensor,
) -> Result<Tensor> {
    match (op, y) {
        (ReduceOp::Prod, _) => dy.mul(&product_of_others(x, axes)?),
        (ReduceOp::SumSquares, _) => dy.mul(&x.mul_scalar(2i64)?),
        (ReduceOp::Max | ReduceOp::Min, Some(y)) => distribute_grad(&x.eq(y)?, axes, dy),
        (ReduceOp::Norm, Some(y)) => {
            // Where the norm is 0, the gradient and the second derivative are 0 with any other
            // divisor.
            let is_zero = y.eq_scalar(0i64)?;
            let divisor = is_zero.where_(&y.scalar_like(1i64)?, y)?;
            is_zero.where_(&dy.scalar_like(0i64)?, dy)?.mul(&x.div(&divisor)?)
        }
        (ReduceOp::LogSumExp, Some(y)) => {
            // e^(-inf - y) = 0 for every finite y: rows of -infinity get the gradient 0.
            let y = y.eq_scalar(f64::NEG_INFINITY)?.where_(&y.scalar_like(0i64)?, y)?;
            dy.mul(&x.sub(&y)?.exp()?)
        }
        _ => Err(Error::autograd(format!("{} states no gradient", op.name()))),
    }
}

/// Distributes `dy` equally over the selected elements. If none is selected, the result is NaN for
/// all elements: this occurs if the min or max is NaN, which equals nothing.
pub(super) fn distribute_grad(is_selected: &Tensor, axes: AxisSet, dy: &Tensor) -> Result<Tensor> {
    let count = is_selected.to_dtype(dy.dtype())?.sum_keep(axes)?;
    let other_grads = count.zeros_like()?.masked_fill(&count.eq_scalar(0i64)?, f64::NAN)?;
    is_selected.where_(&dy.div(&count)?, &other_grads)
}

/// Computes the product of all other elements along `axes`, without dividing by 0.
///
/// With P the product of the nonzero elements, and Z the sum of the zeros among the others (its
/// value is 0, but its derivative with respect to each of them is 1): P / x if no other element is
/// 0, Z * P / x if one is, else 0. The derivative of the result is therefore correct too. If there
/// is a zero, P is computed without an infinite or NaN element instead of being divided by it.
fn product_of_others(x: &Tensor, axes: AxisSet) -> Result<Tensor> {
    let is_zero = x.eq_scalar(0i64)?;
    let (zero, one) = (x.scalar_like(0i64)?, x.scalar_like(1i64)?);
    let nonzero = is_zero.where_(&one, x)?;
    let others = nonzero.prod_keep(axes)?.div(&nonzero)?;
    let flags = is_zero.to_dtype(x.dtype())?;
    let zeros_of_others = flags.sum_keep(axes)?.sub(&flags)?;
    let zeros = is_zero.where_(x, &zero)?;
    let others_with_zero = product_with_zero(x, &nonzero, &others, axes)?;
    let with_one_zero = zeros.sum_keep(axes)?.sub(&zeros)?.mul(&others_with_zero)?;
    let with_zeros = zeros_of_others.eq_scalar(1i64)?.where_(&with_one_zero, &zero)?;
    zeros_of_others.eq_scalar(0i64)?.where_(&others, &with_zeros)
}

/// Returns `others`, except for elements that are infinite or NaN: for these, the product of the
/// other nonzero elements, or NaN, which is `0 * inf`, if there are several of them.
fn product_with_zero(x: &Tensor, nonzero: &Tensor, others: &Tensor, axes: AxisSet) -> Result<Tensor> {
    let is_nonfinite = x.abs()?.lt_scalar(f64::INFINITY)?.logical_not()?;
    let count = is_nonfinite.to_dtype(x.dtype())?.sum_keep(axes)?;
    let product_of_finite = is_nonfinite.where_(&x.scalar_like(1i64)?, nonzero)?.prod_keep(axes)?;
    is_nonfinite.where_(&product_of_finite.masked_fill(&count.gt_scalar(1i64)?, f64::NAN)?, others)
}
