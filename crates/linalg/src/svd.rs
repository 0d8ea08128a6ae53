//! Singular value decompositions.

use crate::checks;
use crate::host::{Matrices, Values, normalized, not_converged};
use crate::record::with_gradient;
use ternion_core::autograd::{Context, Grads};
use ternion_core::op::Saves;
use ternion_core::{Result, Tensor};

/// Returns the factors of `a = u diag(s) vt`: orthonormal columns of `u` and rows of `vt`, and
/// singular values in descending order.
///
/// # Shapes
/// `[.., m, n] -> ([.., m, k], [.., k], [.., k, n])` with `k = min(m, n)`; with `full_matrices` `u`
/// and `vt` are square.
///
/// # Gradient
/// With `E[i, j] = s[j]^2 - s[i]^2` and `skew(x) = x - x^T` (Townsend 2016): `da = u (skew(u^T du)
/// / E diag(s) + diag(s) skew(v^T dv) / E + diag(ds)) vt`, and for a matrix with more rows than
/// columns, or more columns than rows, also `(1 - u u^T) du diag(1 / s) vt` or `u diag(1 / s) dvt
/// (1 - v v^T)`. If singular values are equal, the gradient through `u` and `vt` does not exist and
/// is not finite; the gradient through `s` only is always finite. Columns of `u` and rows of `vt`
/// beyond the first k are not uniquely determined, and have no gradient.
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64, fewer than two axes, and a NaN or an
/// infinity.
pub fn svd(a: &Tensor, full_matrices: bool) -> Result<(Tensor, Tensor, Tensor)> {
    named_svd("linalg.svd", a, full_matrices)
}

/// Returns the singular values in descending order.
///
/// # Shapes
/// `[.., m, n] -> [.., min(m, n)]`
///
/// # Gradient
/// `da = u diag(ds) vt` (Giles 2008, 3.2).
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64, fewer than two axes, and a NaN or an
/// infinity.
pub fn svdvals(a: &Tensor) -> Result<Tensor> {
    Ok(named_svd("linalg.svdvals", a, false)?.1)
}

/// Runs [`svd`] with errors in the name of `op`.
pub(crate) fn named_svd(op: &'static str, a: &Tensor, full: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let [m, n] = checks::matrix(op, a)?;
    let outputs = decompose(op, a, full)?;
    let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let k = m.min(n);
        let factors = [context.output(0)?.narrow(-1, 0, k)?, context.output(2)?.narrow(-2, 0, k)?];
        let leading_grad = |index: usize, axis: isize| -> Result<Option<Tensor>> {
            grads[index].as_ref().map(|grad| grad.narrow(axis, 0, k)).transpose()
        };
        let (du, dvt) = (leading_grad(0, -1)?, leading_grad(2, -2)?);
        let da = gradient(factors, context.output(1)?, du.as_ref(), grads[1].as_ref(), dvt.as_ref())?;
        Ok(Grads::from_elem(da, 1))
    };
    let mut outputs = with_gradient(op, &[a], outputs, Saves::OUTPUTS, rule)?.into_iter();
    match (outputs.next(), outputs.next(), outputs.next()) {
        (Some(u), Some(s), Some(vt)) => Ok((u, s, vt)),
        _ => unreachable!("three outputs went in"),
    }
}

fn decompose(op: &'static str, a: &Tensor, full: bool) -> Result<Vec<Tensor>> {
    let [m, n] = checks::matrix_sizes(op, a)?;
    let k = m.min(n);
    let (columns, rows) = if full { (m, n) } else { (k, k) };
    let (mut u, mut s, mut vt) = (Values::default(), Values::default(), Values::default());
    let matrices = Matrices::read(a)?;
    matrices.check_finite(op, a)?;
    for (index, matrix) in matrices.iter().enumerate() {
        let (matrix, scale) = normalized(matrix);
        let factors = if full { matrix.svd() } else { matrix.thin_svd() };
        let factors = factors.map_err(|_| not_converged(op, a, index))?;
        u.push_matrix(factors.U());
        vt.push_transposed(factors.V());
        s.extend(factors.S().column_vector().iter().map(|value| value * scale));
    }
    if a.elements() == 0 {
        let u = Tensor::eye(m, a.dtype(), a.device())?.narrow(1, 0, columns)?;
        let vt = Tensor::eye(n, a.dtype(), a.device())?.narrow(0, 0, rows)?;
        let batch_dims = checks::batch_dims(a);
        let u = u.expand(checks::shape(batch_dims, &[m, columns])?)?.contiguous()?;
        let vt = vt.expand(checks::shape(batch_dims, &[rows, n])?)?.contiguous()?;
        return Ok(vec![u, s.into_tensor(a, &[k])?, vt]);
    }
    Ok(vec![u.into_tensor(a, &[m, columns])?, s.into_tensor(a, &[k])?, vt.into_tensor(a, &[rows, n])?])
}

/// Returns `x - x^T`.
fn skew(x: &Tensor) -> Result<Tensor> {
    x.sub(&checks::transposed(x)?)
}

fn gradient(
    [u, vt]: [Tensor; 2],
    s: &Tensor,
    du: Option<&Tensor>,
    ds: Option<&Tensor>,
    dvt: Option<&Tensor>,
) -> Result<Option<Tensor>> {
    if du.is_none() && dvt.is_none() {
        // u diag(ds) vt is finite for all singular values.
        return ds.map(|ds| u.mul(&ds.unsqueeze(-2)?)?.matmul(&vt)).transpose();
    }
    let (rows, columns) = (s.unsqueeze(-1)?, s.unsqueeze(-2)?);
    // (s[j] - s[i]) (s[j] + s[i]) keeps the digits that a difference of squares loses.
    let eye = Tensor::eye(s.dims()[s.rank() - 1], s.dtype(), s.device())?;
    let differences = columns.sub(&rows)?.mul(&columns.add(&rows)?)?.add(&eye)?;
    let (ut, v) = (checks::transposed(&u)?, checks::transposed(&vt)?);
    let mut inner = match ds {
        Some(ds) => checks::with_diagonal(ds)?,
        None => differences.zeros_like()?,
    };
    let (mut left, mut right) = (None, None);
    if let Some(du) = du {
        let ut_du = ut.matmul(du)?;
        inner = inner.add(&skew(&ut_du)?.div(&differences)?.mul(&columns)?)?;
        if u.dims()[u.rank() - 2] > s.dims()[s.rank() - 1] {
            left = Some(du.sub(&u.matmul(&ut_du)?)?.div(&columns)?.matmul(&vt)?);
        }
    }
    if let Some(dvt) = dvt {
        let dvt_v = dvt.matmul(&v)?;
        // v^T dv is the transpose of dvt v.
        inner = inner.sub(&skew(&dvt_v)?.div(&differences)?.mul(&rows)?)?;
        if vt.dims()[vt.rank() - 1] > s.dims()[s.rank() - 1] {
            right = Some(u.matmul(&dvt.sub(&dvt_v.matmul(&vt)?)?.div(&rows)?)?);
        }
    }
    let mut da = u.matmul(&inner)?.matmul(&vt)?;
    for more in [left, right].into_iter().flatten() {
        da = da.add(&more)?;
    }
    Ok(Some(da))
}
