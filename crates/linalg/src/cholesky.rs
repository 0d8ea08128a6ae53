//! Cholesky decompositions of symmetric positive definite matrices, and linear systems solved by
//! them.

use crate::checks;
use crate::host::{Matrices, Values};
use crate::record::with_gradient;
use crate::triangular::{TriangularOptions, triangular};
use faer::linalg::cholesky::llt::factor::LltError;
use faer::{Mat, Side};
use ternion_core::autograd::{Context, Grads};
use ternion_core::op::Saves;
use ternion_core::{Error, Result, Tensor};

/// Returns the lower triangular `l` with `a = l l^T`, or the upper triangular `u` with `a = u^T u`.
/// Only the corresponding triangle of `a` is read.
///
/// # Shapes
/// `[.., n, n]`, unchanged
///
/// # Gradient
/// `da = l^-T s l^-1` with the symmetric part `s` of the lower triangle of `l^T dl` (Murray 2016,
/// equation 10), symmetric like `a`.
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64, and for matrices that are not square or not
/// positive definite. The message names the first leading minor that is not positive definite.
pub fn cholesky(a: &Tensor, upper: bool) -> Result<Tensor> {
    const OP: &str = "linalg.cholesky";
    let (factor, minors) = factor_triangle(OP, a, upper)?;
    if let Some(index) = minors.iter().position(|minor| *minor > 0) {
        let (batch_element, minor) = (checks::describe_batch_element(a, index), minors[index]);
        let detail = format!(
            "the matrix{batch_element} is not positive definite (the leading minor of order {minor} is not)"
        );
        return Err(Error::matrix(OP, detail));
    }
    Ok(factor)
}

/// Like [`cholesky`], but accepts matrices that are not positive definite. The second result is,
/// for each matrix, the order of the first leading minor that is not positive definite, or 0 if
/// there is none. If it is not 0, the factor is NaN.
///
/// # Shapes
/// `[.., n, n] -> ([.., n, n], [..])`; orders are i32
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64, and matrices that are not square.
pub fn cholesky_ex(a: &Tensor, upper: bool) -> Result<(Tensor, Tensor)> {
    let (factor, minors) = factor_triangle("linalg.cholesky_ex", a, upper)?;
    Ok((factor, checks::info_tensor(minors, a)?))
}

/// Returns the triangle, and for each matrix the order of the first leading minor that is not
/// positive, or 0.
fn factor_triangle(op: &'static str, a: &Tensor, upper: bool) -> Result<(Tensor, Vec<i32>)> {
    checks::square(op, a)?;
    if upper {
        let (l, minors) = lower(op, &checks::transposed(a)?)?;
        return Ok((checks::transposed(&l)?, minors));
    }
    lower(op, a)
}

fn lower(op: &'static str, a: &Tensor) -> Result<(Tensor, Vec<i32>)> {
    let size = checks::square(op, a)?;
    let (mut values, mut minors) = (Values::default(), Vec::new());
    for matrix in Matrices::read(a)?.iter() {
        let factor = matrix.llt(Side::Lower);
        let element = |row: usize, column: usize| match &factor {
            _ if row < column => 0.0,
            Ok(factor) => factor.L()[(row, column)],
            Err(_) => f64::NAN,
        };
        values.push_matrix(Mat::from_fn(size, size, element).as_ref());
        minors.push(factor.map_or_else(|LltError::NonPositivePivot { index }| index as i32 + 1, |_| 0));
    }
    let l = values.into_tensor(a, &[size, size])?;
    let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dl) = &grads[0] else { return Ok(Grads::new()) };
        let l = context.output(0)?;
        let transposed = checks::transposed(l)?;
        let product = transposed.matmul(&dl.tril(0)?)?;
        // The lower triangle and its reflection, each with half of the diagonal; then half of both.
        let symmetric = product.tril(0)?.add(&checks::transposed(&product.tril(-1)?)?)?.mul_scalar(0.5)?;
        let half =
            triangular(op, &transposed, &symmetric, TriangularOptions { upper: true, ..Default::default() })?;
        let da = triangular(op, l, &half, TriangularOptions { left: false, ..Default::default() })?;
        Ok(Grads::from_elem(Some(da), 1))
    };
    Ok((with_gradient(op, &[a], vec![l], Saves::OUTPUTS, rule)?.swap_remove(0), minors))
}

/// Solves `a x = b` for `x`, given the triangular `l` that [`cholesky`] returns for `a` (the upper
/// one if `upper`).
///
/// # Shapes
/// `b`: `[.., n, k]`; `l`: `[.., n, n]`. The axes before the last two are broadcast.
///
/// # Errors
/// The errors of [`solve_triangular`](crate::solve_triangular).
pub fn cholesky_solve(b: &Tensor, l: &Tensor, upper: bool) -> Result<Tensor> {
    solve_with_factor("cholesky_solve", b, l, upper)
}

/// Returns the inverse of `a`, given the triangular `l` that [`cholesky`] returns for it (the upper
/// one if `upper`).
///
/// # Shapes
/// `[.., n, n]`, unchanged
///
/// # Errors
/// The errors of [`solve_triangular`](crate::solve_triangular).
pub fn cholesky_inverse(l: &Tensor, upper: bool) -> Result<Tensor> {
    let size = checks::square("cholesky_inverse", l)?;
    solve_with_factor("cholesky_inverse", &checks::identity(size, l)?, l, upper)
}

fn solve_with_factor(op: &'static str, b: &Tensor, l: &Tensor, upper: bool) -> Result<Tensor> {
    checks::square(op, l)?;
    let transposed = checks::transposed(l)?;
    let (lower, upper_factor) = if upper { (&transposed, l) } else { (l, &transposed) };
    let y = triangular(op, lower, b, TriangularOptions::default())?;
    triangular(op, upper_factor, &y, TriangularOptions { upper: true, ..Default::default() })
}
