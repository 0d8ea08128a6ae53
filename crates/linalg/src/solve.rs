//! Linear systems and inverses by LU decomposition with partial pivoting.

use crate::checks;
use crate::host::{Matrices, Values};
use crate::lu::Factors;
use crate::record::with_gradient;
use faer::Mat;
use ternion_core::autograd::{Context, Grads};
use ternion_core::op::Saves;
use ternion_core::{Error, Result, Shape, Tensor};

/// How a singular matrix is handled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Singular {
    /// As an error.
    Error,
    /// By division by its zero pivots: the result has infinities and NaN.
    DivideByZero,
}

/// Solves `a x = b` for `x` if `left`, otherwise `x a = b`.
///
/// # Shapes
/// `a`: `[.., n, n]`; `b`: `[.., n, k]` (`[.., k, n]` unless `left`), or vectors `[.., n]`: one
/// axis, or the shape of `a` without its last axis. The axes before these are broadcast. The result
/// has the shape of `b`, broadcast.
///
/// # Gradient
/// `db = a^-T dx`, `da = -db x^T` (Giles 2008, 2.3.1), which have gradients too.
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64 or that differ, matrices that are not square,
/// sizes that do not match, and a singular matrix.
pub fn solve(a: &Tensor, b: &Tensor, left: bool) -> Result<Tensor> {
    Ok(named_solve("linalg.solve", a, b, left, Singular::Error)?.0)
}

/// Like [`solve`], but accepts singular matrices. The second result is, for each matrix of `a`, the
/// index of its first pivot that is 0, starting at 1, or 0 if there is none. If it is not 0 the
/// solution is infinite or NaN.
///
/// # Shapes
/// Same as [`solve`]; the indices have the axes of `a` before the last two, and are i32.
///
/// # Errors
/// The errors of [`solve`] except a singular matrix.
pub fn solve_ex(a: &Tensor, b: &Tensor, left: bool) -> Result<(Tensor, Tensor)> {
    let (x, mut zeros) = named_solve("linalg.solve_ex", a, b, left, Singular::DivideByZero)?;
    // There is one index for each matrix of `a` broadcast to `b`.
    let mut common = x.dims().to_vec();
    common.truncate(common.len() - if is_vector(a, b) { 1 } else { 2 });
    if common.contains(&0) {
        return Ok((x, checks::info_tensor(Vec::new(), a)?));
    }
    let common = Shape::new(&common)?;
    // The matrices have no elements, and so no zero pivot was found.
    zeros.resize(common.elements(), 0);
    let mut zeros = Tensor::from_vec(zeros, common, a.device())?;
    for axis in 0..common.rank() {
        let size = (axis + a.rank() - 2).checked_sub(common.rank()).map_or(1, |size| a.dims()[size]);
        zeros = zeros.narrow(axis as isize, 0, size)?;
    }
    Ok((x, zeros.reshape(Shape::new(checks::batch_dims(a))?)?.contiguous()?))
}

/// Returns whether the right-hand sides `b` of `a` are vectors.
fn is_vector(a: &Tensor, b: &Tensor) -> bool {
    b.rank() == 1 || b.dims() == &a.dims()[..a.rank() - 1]
}

fn named_solve(
    op: &'static str,
    a: &Tensor,
    b: &Tensor,
    left: bool,
    singular: Singular,
) -> Result<(Tensor, Vec<i32>)> {
    let size = checks::square(op, a)?;
    checks::same_dtype(op, a, b)?;
    checks::same_device(op, a, b)?;
    if b.rank() == 0 {
        return Err(Error::Rank { op, expected: "at least 1".into(), shape: Box::new(*b.shape()) });
    }
    let is_vector = is_vector(a, b);
    if is_vector && !left {
        let detail =
            format!("right sides are vectors of shape {:?}, which only left = true takes", b.shape());
        return Err(Error::invalid(op, detail));
    }
    let columns = if is_vector { b.unsqueeze(-1)? } else { b.clone() };
    let rows = columns.dims()[columns.rank() - if left { 2 } else { 1 }];
    if rows != size {
        let detail = format!("right sides of shape {:?} for matrices of {size} x {size}", b.shape());
        return Err(Error::invalid(op, detail));
    }
    let (a, columns) = checks::broadcast(op, a, &columns)?;
    if !left {
        let (x, zeros) =
            solve_matrices(op, &checks::transposed(&a)?, &checks::transposed(&columns)?, singular)?;
        return Ok((checks::transposed(&x)?, zeros));
    }
    let (x, zeros) = solve_matrices(op, &a, &columns, singular)?;
    Ok((if is_vector { x.squeeze(-1)? } else { x }, zeros))
}

/// Returns the inverses of square matrices, which have gradients of every order.
///
/// # Shapes
/// `[.., n, n]`, unchanged
///
/// # Gradient
/// `da = -y^T dy y^T` (Giles 2008, 2.2.3).
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64, matrices that are not square, and a singular
/// one.
pub fn inv(a: &Tensor) -> Result<Tensor> {
    named_inverse("linalg.inv", a, Singular::Error)
}

/// Like [`inv`], but accepts singular matrices. The second result is, for each matrix, the index of
/// its first pivot that is 0, starting at 1, or 0 if there is none. If it is not 0 the inverse is
/// infinite or NaN.
///
/// # Shapes
/// `[.., n, n] -> ([.., n, n], [..])`; the indices are i32
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64, and matrices that are not square.
pub fn inv_ex(a: &Tensor) -> Result<(Tensor, Tensor)> {
    let (y, zeros) = inverse_and_zeros("linalg.inv_ex", a, Singular::DivideByZero)?;
    Ok((y, checks::info_tensor(zeros, a)?))
}

/// Runs [`inv`] with errors in the name of `op`.
pub(crate) fn named_inverse(op: &'static str, a: &Tensor, singular: Singular) -> Result<Tensor> {
    Ok(inverse_and_zeros(op, a, singular)?.0)
}

/// Returns the inverses, and for each matrix the index of its first pivot that is 0, starting at 1,
/// or 0.
fn inverse_and_zeros(op: &'static str, a: &Tensor, singular: Singular) -> Result<(Tensor, Vec<i32>)> {
    let size = checks::square(op, a)?;
    let (mut values, mut zeros) = (Values::default(), Vec::new());
    for (index, matrix) in Matrices::read(a)?.iter().enumerate() {
        let factors = Factors::of(matrix);
        reject_singular(op, a, index, &factors, singular)?;
        zeros.push(factors.first_zero());
        let mut inverse = Mat::identity(size, size);
        factors.solve_in_place(&mut inverse);
        values.push_matrix(inverse.as_ref());
    }
    let y = values.into_tensor(a, &[size, size])?;
    let rule = |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
        let transposed = checks::transposed(context.output(0)?)?;
        let da = transposed.matmul(dy)?.matmul(&transposed)?.neg()?;
        Ok(Grads::from_elem(Some(da), 1))
    };
    Ok((with_gradient("linalg.inv", &[a], vec![y], Saves::OUTPUTS, rule)?.swap_remove(0), zeros))
}

fn reject_singular(
    op: &'static str,
    a: &Tensor,
    index: usize,
    factors: &Factors,
    singular: Singular,
) -> Result<()> {
    if singular == Singular::DivideByZero || !factors.is_singular() {
        return Ok(());
    }
    Err(Error::matrix(op, format!("the matrix{} is singular", checks::describe_batch_element(a, index))))
}

/// Returns `a^-1 b`, and for each matrix the index of its first pivot that is 0, starting at 1, or
/// 0, for `a` `[.., n, n]` and `b` `[.., n, k]` with the same axes before.
fn solve_matrices(
    op: &'static str,
    a: &Tensor,
    b: &Tensor,
    singular: Singular,
) -> Result<(Tensor, Vec<i32>)> {
    let tail = [b.dims()[b.rank() - 2], b.dims()[b.rank() - 1]];
    let (mut values, mut zeros) = (Values::default(), Vec::new());
    let rights = Matrices::read(b)?;
    let mut rights = rights.iter();
    for (index, matrix) in Matrices::read(a)?.iter().enumerate() {
        let factors = Factors::of(matrix);
        reject_singular(op, a, index, &factors, singular)?;
        zeros.push(factors.first_zero());
        // `None` if there are no right-hand sides; the matrix is still checked.
        if let Some(right) = rights.next() {
            let mut x = right.to_owned();
            factors.solve_in_place(&mut x);
            values.push_matrix(x.as_ref());
        }
    }
    let x = values.into_tensor(b, &tail)?;
    let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dx) = &grads[0] else { return Ok(Grads::new()) };
        let db = solve_matrices(op, &checks::transposed(context.input(0)?)?, dx, Singular::DivideByZero)?.0;
        let da = match context.needs(0) {
            true => Some(db.matmul(&checks::transposed(context.output(0)?)?)?.neg()?),
            false => None,
        };
        Ok(Grads::from_iter([da, Some(db)]))
    };
    let x = with_gradient(op, &[a, b], vec![x], Saves { inputs: 0b01, outputs: 0b1 }, rule)?.swap_remove(0);
    Ok((x, zeros))
}
