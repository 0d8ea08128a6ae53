//! Norms of vectors.

use crate::checks;
use crate::record::with_gradient;
use ternion_core::autograd::{Context, Grads, no_grad};
use ternion_core::op::Saves;
use ternion_core::{Axes, AxisSet, DType, Error, Result, Tensor, text};

/// The axes along which a norm is computed, and its dtype.
#[derive(Clone, Debug, Default)]
pub struct VectorNormOptions {
    /// The axes; all of them if it is `None` or empty.
    pub dim: Option<Vec<isize>>,
    /// Whether those axes are kept with size 1.
    pub keepdim: bool,
    /// The floating dtype to which the input is cast first. It must represent the input's values.
    pub dtype: Option<DType>,
}

/// Returns the p-norms `(sum |x|^p)^(1/p)` of all orders: infinity gives the largest magnitude,
/// -infinity the smallest, 0 the number of nonzero elements. Intermediate results do not overflow
/// or underflow if the norm itself does not.
///
/// # Shapes
/// Shapes of a reduction. Half precision is computed in f32 and rounded once.
///
/// # Gradient
/// `dx = dy sign(x) (|x| / y)^(p - 1)`, 0 where x is 0; for infinity, the elements of largest
/// magnitude share the gradient.
///
/// # Errors
/// Returns an error for a dtype that is not floating or cannot represent the input's values, axes
/// that do not exist, and no elements along them if the order is negative or infinite.
pub fn vector_norm(x: &Tensor, order: f64, options: &VectorNormOptions) -> Result<Tensor> {
    named_vector_norm("linalg.vector_norm", x, order, options)
}

/// Returns the `order`-norm of all differences of two tensors, broadcast: [`vector_norm`] of `x -
/// other`, like PyTorch's `dist`.
///
/// # Shapes
/// `[..]` and `[..]` -> `[]`. Half precision is computed in f32 and rounded once.
///
/// # Gradient
/// Same as [`vector_norm`], and its negative for `other`.
///
/// # Errors
/// Returns an error for dtypes that differ or are not floating, shapes that do not broadcast, an
/// order that is NaN, and no elements if it is negative or infinite.
pub fn dist(x: &Tensor, other: &Tensor, order: f64) -> Result<Tensor> {
    let op = "dist";
    checks::floating(op, x)?;
    checks::same_dtype(op, x, other)?;
    if order.is_nan() {
        return Err(Error::invalid(op, "order NaN, expected a number"));
    }
    x.shape().broadcast(other.shape(), op)?;
    let dtype = x.dtype().accumulator();
    let differences = x.to_dtype(dtype)?.sub(&other.to_dtype(dtype)?)?;
    named_vector_norm(op, &differences, order, &VectorNormOptions::default())?.to_dtype(x.dtype())
}

/// Divides each vector along `axis` by its `order`-norm, or by `eps` if that is larger; `eps` has
/// no gradient. Like PyTorch's `normalize`.
///
/// # Shapes
/// `[..]`, unchanged. Half precision is computed in f32 and rounded once.
///
/// # Errors
/// Returns an error for a dtype that is not floating, an axis that does not exist, and no elements
/// along it if the order is negative or infinite.
pub fn normalize(x: &Tensor, order: f64, axis: isize, eps: f64) -> Result<Tensor> {
    let op = "normalize";
    checks::floating(op, x)?;
    let wide = x.to_dtype(x.dtype().accumulator())?;
    let options = VectorNormOptions { dim: Some(vec![axis]), keepdim: true, dtype: None };
    let norms = named_vector_norm(op, &wide, order, &options)?;
    wide.div(&norms.clamp(eps, f64::INFINITY)?)?.to_dtype(x.dtype())
}

/// Runs [`vector_norm`] with errors in the name of `op`.
pub(crate) fn named_vector_norm(
    op: &'static str,
    x: &Tensor,
    order: f64,
    options: &VectorNormOptions,
) -> Result<Tensor> {
    let x = cast(op, x, options.dtype)?;
    let axes = match options.dim.as_deref() {
        None | Some([]) => AxisSet::first(x.rank()),
        Some(dim) => Axes::from(dim).resolve(x.shape(), op)?,
    };
    let has_no_elements = axes.elements(x.shape()) == 0 && axes.drop_from(x.shape()).elements() > 0;
    if has_no_elements && (order < 0.0 || order.is_infinite()) {
        let detail = format!("no elements along axes {axes:?} of shape {:?} for order {order}", x.shape());
        return Err(Error::invalid(op, detail));
    }
    let norms = of_order(op, &x.to_dtype(x.dtype().accumulator())?, order, axes)?.to_dtype(x.dtype())?;
    if options.keepdim { Ok(norms) } else { norms.reshape(axes.drop_from(x.shape())) }
}

/// Casts `x` to `dtype`. Both must be floating, and `dtype` must represent the values of `x`.
pub(crate) fn cast(op: &'static str, x: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    checks::floating(op, x)?;
    match dtype {
        Some(dtype) if !dtype.is_float() => Err(Error::dtype(op, "dtype", dtype, "a floating dtype")),
        Some(dtype) if dtype == x.dtype() || dtype.size() > x.dtype().size() => x.to_dtype(dtype),
        Some(dtype) => Err(Error::invalid(
            op,
            text!["dtype ", dtype, " for an input of ", x.dtype(), ", expected one that holds its numbers"],
        )),
        None => Ok(x.clone()),
    }
}

fn of_order(op: &'static str, x: &Tensor, order: f64, axes: AxisSet) -> Result<Tensor> {
    if order.is_infinite() {
        return extreme(op, x, order > 0.0, axes);
    }
    let y = no_grad(|| value(&x.abs()?, order, axes))?;
    let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
        if order == 0.0 {
            return Ok(Grads::from_elem(Some(context.input(0)?.zeros_like()?), 1));
        }
        let dx = gradient(context.input(0)?, context.output(0)?, dy, order)?;
        Ok(Grads::from_elem(Some(dx), 1))
    };
    Ok(with_gradient(op, &[x], vec![y], Saves::ALL, rule)?.swap_remove(0))
}

/// Returns the largest or smallest magnitude. Elements of this magnitude share its gradient. If it
/// is NaN, the NaN elements share the gradient with a sign of 0, and all other elements get 0.
fn extreme(op: &'static str, x: &Tensor, is_largest: bool, axes: AxisSet) -> Result<Tensor> {
    let y = no_grad(|| if is_largest { x.abs()?.max_keep(axes) } else { x.abs()?.min_keep(axes) })?;
    let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
        let x = context.input(0)?;
        let is_nan = x.ne(x)?;
        let wins = x.abs()?.eq(context.output(0)?)?.logical_or(&is_nan)?;
        let share = dy.div(&wins.to_dtype(dy.dtype())?.sum_keep(axes)?)?;
        let sign = x.sign()?.masked_fill(&is_nan, 0i64)?;
        let dx = share.expand(*x.shape())?.masked_fill(&wins.logical_not()?, 0i64)?.mul(&sign)?;
        Ok(Grads::from_elem(Some(dx), 1))
    };
    Ok(with_gradient(op, &[x], vec![y], Saves::ALL, rule)?.swap_remove(0))
}

/// Returns the norms of `magnitudes`, computed from their ratios to the largest one (for a negative
/// order, the smallest one), which dominates.
fn value(magnitudes: &Tensor, order: f64, axes: AxisSet) -> Result<Tensor> {
    if order == 0.0 {
        return magnitudes.ne_scalar(0i64)?.to_dtype(magnitudes.dtype())?.sum_keep(axes);
    }
    if order == 1.0 || axes.elements(magnitudes.shape()) == 0 {
        return magnitudes.sum_keep(axes);
    }
    let unit = if order > 0.0 { magnitudes.max_keep(axes)? } else { magnitudes.min_keep(axes)? };
    let is_degenerate = unit.eq_scalar(0i64)?.logical_or(&unit.eq_scalar(f64::INFINITY)?)?;
    let unit = unit.masked_fill(&is_degenerate, 1i64)?;
    let ratios = magnitudes.div(&unit)?;
    let ratio = match order == 2.0 {
        true => ratios.square()?.sum_keep(axes)?.sqrt()?,
        false => ratios.powf(order)?.sum_keep(axes)?.powf(1.0 / order)?,
    };
    ratio.mul(&unit)
}

fn gradient(x: &Tensor, y: &Tensor, dy: &Tensor, order: f64) -> Result<Tensor> {
    if order == 1.0 {
        return dy.mul(&x.sign()?);
    }
    // A norm of 0 has the gradient 0: for a positive order, all elements are 0; for a negative
    // order, the limit is 0 for any values of the other elements.
    let is_zero = y.eq_scalar(0i64)?;
    let (divisor, dy) = (y.masked_fill(&is_zero, 1i64)?, dy.masked_fill(&is_zero, 0i64)?);
    if order == 2.0 {
        return dy.mul(&x.div(&divisor)?);
    }
    let ratios = x.abs()?.div(&divisor)?.masked_fill(&x.eq_scalar(0i64)?, 1i64)?;
    dy.mul(&x.sign()?.mul(&ratios.powf(order - 1.0)?)?)
}
