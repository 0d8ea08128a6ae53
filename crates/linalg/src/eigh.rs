//! Eigenvalues and eigenvectors of symmetric matrices.

use crate::checks;
use crate::host::{Matrices, Values, normalized, not_converged};
use crate::record::with_gradient;
use faer::{Mat, Side};
use ternion_core::autograd::{Context, Grads};
use ternion_core::op::Saves;
use ternion_core::{Result, Tensor};

/// The triangle of a symmetric matrix that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triangle {
    /// The lower triangle.
    Lower,
    /// The upper triangle.
    Upper,
}

/// Returns the eigenvalues in ascending order and the eigenvectors, the columns of `v`, of
/// symmetric matrices: `a = v diag(w) v^T`.
///
/// # Shapes
/// `[.., n, n] -> ([.., n], [.., n, n])`
///
/// # Gradient
/// `da = v (diag(dw) + skew(v^T dv) / E) v^T` with `E[i, j] = w[j] - w[i]` and `skew(x) = (x - x^T)
/// / 2` (Giles 2008, 3.1), symmetric like `a`. If eigenvalues are equal, the gradient through `v`
/// does not exist and is not finite; the gradient through `w` only is always finite.
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64, matrices that are not square, and a NaN or
/// an infinity.
pub fn eigh(a: &Tensor, triangle: Triangle) -> Result<(Tensor, Tensor)> {
    named_eigh("linalg.eigh", a, triangle)
}

/// Returns the eigenvalues in ascending order.
///
/// # Shapes
/// `[.., n, n] -> [.., n]`
///
/// # Gradient
/// `da = v diag(dw) v^T`.
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64, matrices that are not square, and a NaN or
/// an infinity.
pub fn eigvalsh(a: &Tensor, triangle: Triangle) -> Result<Tensor> {
    Ok(named_eigh("linalg.eigvalsh", a, triangle)?.0)
}

/// Runs [`eigh`] with errors in the name of `op`.
pub(crate) fn named_eigh(op: &'static str, a: &Tensor, triangle: Triangle) -> Result<(Tensor, Tensor)> {
    let size = checks::square(op, a)?;
    let (mut values, mut vectors) = (Values::default(), Values::default());
    // Only one triangle is read, also when checking for non-finite elements.
    let (half, upper) = match triangle {
        Triangle::Lower => (a.detach().tril(0)?, false),
        Triangle::Upper => (a.detach().triu(0)?, true),
    };
    let matrices = Matrices::read(&half)?;
    matrices.check_finite(op, a)?;
    for (index, matrix) in matrices.iter().enumerate() {
        let (half, scale) = normalized(matrix);
        let lower = Mat::from_fn(size, size, |row, column| {
            let (larger, smaller) = (row.max(column), row.min(column));
            if upper { half[(smaller, larger)] } else { half[(larger, smaller)] }
        });
        let decomposition = lower.self_adjoint_eigen(Side::Lower).map_err(|_| not_converged(op, a, index))?;
        values.extend(decomposition.S().column_vector().iter().map(|value| value * scale));
        vectors.push_matrix(decomposition.U());
    }
    let outputs = vec![values.into_tensor(a, &[size])?, vectors.into_tensor(a, &[size, size])?];
    let rule = |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let da = gradient(context.output(0)?, context.output(1)?, grads[0].as_ref(), grads[1].as_ref())?;
        Ok(Grads::from_elem(da, 1))
    };
    let mut outputs = with_gradient(op, &[a], outputs, Saves::OUTPUTS, rule)?;
    let vectors = outputs.swap_remove(1);
    Ok((outputs.swap_remove(0), vectors))
}

fn gradient(w: &Tensor, v: &Tensor, dw: Option<&Tensor>, dv: Option<&Tensor>) -> Result<Option<Tensor>> {
    let transposed = checks::transposed(v)?;
    let Some(dv) = dv else {
        // v diag(dw) v^T is finite for all eigenvalues.
        return dw.map(|dw| v.mul(&dw.unsqueeze(-2)?)?.matmul(&transposed)).transpose();
    };
    let eye = Tensor::eye(w.dims()[w.rank() - 1], w.dtype(), w.device())?;
    let differences = w.unsqueeze(-2)?.sub(&w.unsqueeze(-1)?)?.add(&eye)?;
    let vt_dv = transposed.matmul(dv)?;
    // E is skew-symmetric too: the gradient is symmetric.
    let skew = vt_dv.sub(&checks::transposed(&vt_dv)?)?.mul_scalar(0.5)?;
    let mut inner = skew.div(&differences)?;
    if let Some(dw) = dw {
        inner = inner.add(&checks::with_diagonal(dw)?)?;
    }
    Ok(Some(v.matmul(&inner)?.matmul(&transposed)?))
}
