//! Cholesky decompositions of symmetric positive definite matrices, and what is solved by them.

use crate::checks;
use crate::host::{Matrices, Values};
use crate::triangular::{TriangularOptions, triangular};
use faer::linalg::cholesky::llt::factor::LltError;
use faer::{Mat, Side};
use ternion_core::autograd::{Context, Grads, with_gradient};
use ternion_core::op::Saves;
use ternion_core::{Error, Result, Tensor};

/// The lower triangular `l` with `a = l l^T`, or the upper triangular `u` with `a = u^T u`. Only that triangle of `a` is looked at.
///
/// # Shapes
/// `[.., n, n]`, unchanged
///
/// # Gradient
/// `da = l^-T s l^-1` with the symmetric part `s` of the lower triangle of `l^T dl` (Murray 2016, equation 10), symmetric as `a` is.
///
/// # Errors
/// Dtypes other than f32 and f64, matrices that are not square, one that is not positive definite: the message tells the first leading minor that is not.
pub fn cholesky(a: &Tensor, upper: bool) -> Result<Tensor> {
    const OP: &str = "linalg.cholesky";
    if upper {
        checks::square(OP, a)?;
        return checks::transposed(&lower(OP, &checks::transposed(a)?)?);
    }
    lower(OP, a)
}

fn lower(op: &'static str, a: &Tensor) -> Result<Tensor> {
    let size = checks::square(op, a)?;
    let mut values = Values::default();
    for (index, matrix) in Matrices::read(a)?.iter().enumerate() {
        let found = matrix.llt(Side::Lower).map_err(|LltError::NonPositivePivot { index: minor }| {
            let which = checks::of_batch_element(a, index);
            let minor = minor + 1;
            Error::invalid(
                op,
                format!(
                    "the matrix{which} is not positive definite (the leading minor of order {minor} is not)"
                ),
            )
        })?;
        let l = found.L();
        let l = Mat::from_fn(size, size, |row, column| if row < column { 0.0 } else { l[(row, column)] });
        values.push_matrix(l.as_ref());
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
    Ok(with_gradient(op, &[a], vec![l], Saves::OUTPUTS, rule)?.swap_remove(0))
}

/// `x` with `a x = b`, of the triangular `l` that [`cholesky`] makes of `a` (the upper one if `upper`).
///
/// # Shapes
/// `b`: `[.., n, k]`; `l`: `[.., n, n]`. Axes before those broadcast.
///
/// # Errors
/// Those of [`solve_triangular`](crate::solve_triangular).
pub fn cholesky_solve(b: &Tensor, l: &Tensor, upper: bool) -> Result<Tensor> {
    by_factor("cholesky_solve", b, l, upper)
}

/// The inverse of `a`, of the triangular `l` that [`cholesky`] makes of it (the upper one if `upper`).
///
/// # Shapes
/// `[.., n, n]`, unchanged
///
/// # Errors
/// Those of [`solve_triangular`](crate::solve_triangular).
pub fn cholesky_inverse(l: &Tensor, upper: bool) -> Result<Tensor> {
    let size = checks::square("cholesky_inverse", l)?;
    by_factor("cholesky_inverse", &checks::identity(size, l)?, l, upper)
}

fn by_factor(op: &'static str, b: &Tensor, l: &Tensor, upper: bool) -> Result<Tensor> {
    checks::square(op, l)?;
    let transposed = checks::transposed(l)?;
    let (first, second) = if upper { (&transposed, l) } else { (l, &transposed) };
    let y = triangular(op, first, b, TriangularOptions::default())?;
    triangular(op, second, &y, TriangularOptions { upper: true, ..Default::default() })
}
