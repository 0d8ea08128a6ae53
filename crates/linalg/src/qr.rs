//! QR decompositions.

use crate::checks;
use crate::host::{Matrices, Values};
use crate::record::with_gradient;
use crate::triangular::{TriangularOptions, triangular};
use ternion_core::autograd::{Context, Grads};
use ternion_core::op::Saves;
use ternion_core::{Error, Result, Tensor};

/// Which parts of a QR decomposition are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QrMode {
    /// Q has `min(rows, columns)` columns.
    Reduced,
    /// Q is square.
    Complete,
    /// Only R: Q is empty. It has no gradient.
    R,
}

/// Returns the factors of `a = q r` with orthonormal columns of `q` and an upper triangular `r`.
///
/// # Shapes
/// `[.., m, n] -> ([.., m, k], [.., k, n])` with `k = min(m, n)`, or `m` for [`QrMode::Complete`];
/// for [`QrMode::R`] `q` has shape `[0]`.
///
/// # Gradient
/// `da = (dq + q sym(r dr^T - dq^T q)) r^-T`, where `sym` reflects the lower triangle (Walter and
/// Lehmann 2010); the gradient of the columns of a wide matrix beyond the square follows from `r2 =
/// q^T a2`. The first k columns must be linearly independent. A complete decomposition has a
/// gradient only if the matrix has at least as many columns as rows.
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64, and fewer than two axes; in the backward
/// pass, also for a mode without a gradient.
pub fn qr(a: &Tensor, mode: QrMode) -> Result<(Tensor, Tensor)> {
    const OP: &str = "linalg.qr";
    let [m, n] = checks::matrix(OP, a)?;
    let size = if mode == QrMode::Complete { m } else { m.min(n) };
    let (q, r) = decompose(a, mode, size)?;
    let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
        if mode == QrMode::R || (mode == QrMode::Complete && m > n) {
            let detail = "linalg.qr: only the reduced decomposition has a gradient, and the complete one of a matrix with as many columns as rows, or more";
            return Err(Error::autograd(detail));
        }
        let (q, r) = (context.output(0)?, context.output(1)?);
        Ok(Grads::from_elem(Some(gradient(OP, q, r, [grads[0].as_ref(), grads[1].as_ref()])?), 1))
    };
    let mut outputs = with_gradient(OP, &[a], vec![q, r], Saves::OUTPUTS, rule)?;
    let r = outputs.swap_remove(1);
    Ok((outputs.swap_remove(0), r))
}

fn decompose(a: &Tensor, mode: QrMode, size: usize) -> Result<(Tensor, Tensor)> {
    let n = a.dims()[a.rank() - 1];
    let m = a.dims()[a.rank() - 2];
    let (mut q_values, mut r_values) = (Values::default(), Values::default());
    for matrix in Matrices::read(a)?.iter() {
        let factors = matrix.qr();
        match mode {
            QrMode::Reduced => q_values.push_matrix(factors.compute_thin_Q().as_ref()),
            QrMode::Complete => q_values.push_matrix(factors.compute_Q().as_ref()),
            QrMode::R => {}
        }
        let r = factors.R();
        for row in 0..size {
            r_values.extend((0..n).map(|column| if row > column { 0.0 } else { r[(row, column)] }));
        }
    }
    let q = match mode {
        QrMode::R => Tensor::zeros([0], a.dtype(), a.device())?,
        // For a matrix without columns every orthogonal matrix is correct.
        _ if a.elements() == 0 => {
            let eye = Tensor::eye(m, a.dtype(), a.device())?.narrow(1, 0, size)?;
            eye.expand(checks::shape(checks::batch_dims(a), &[m, size])?)?.contiguous()?
        }
        _ => q_values.into_tensor(a, &[m, size])?,
    };
    Ok((q, r_values.into_tensor(a, &[size, n])?))
}

/// Returns zeros for a missing gradient.
fn grad_or_zeros(grad: Option<&Tensor>, like: &Tensor) -> Result<Tensor> {
    grad.map_or_else(|| like.zeros_like(), |grad| Ok(grad.clone()))
}

fn gradient(op: &'static str, q: &Tensor, r: &Tensor, grads: [Option<&Tensor>; 2]) -> Result<Tensor> {
    let [size, n] = checks::matrix_sizes(op, r)?;
    let (dq, dr) = (grad_or_zeros(grads[0], q)?, grad_or_zeros(grads[1], r)?);
    if n == size {
        return square_gradient(op, q, r, &dq, &dr);
    }
    // a = [a1 a2], r = [r1 r2]: a1 = q r1, and r2 = q^T a2.
    let (r1, r2) = (r.narrow(-1, 0, size)?, r.narrow(-1, size, n - size)?);
    let (dr1, dr2) = (dr.narrow(-1, 0, size)?, dr.narrow(-1, size, n - size)?);
    let a2 = q.matmul(&r2)?;
    let dq = dq.add(&a2.matmul(&checks::transposed(&dr2)?)?)?;
    let da1 = square_gradient(op, q, &r1, &dq, &dr1)?;
    Tensor::concat(&[&da1, &q.matmul(&dr2)?], -1)
}

fn square_gradient(op: &'static str, q: &Tensor, r: &Tensor, dq: &Tensor, dr: &Tensor) -> Result<Tensor> {
    let by_r = r.matmul(&checks::transposed(&dr.triu(0)?)?)?;
    let m = by_r.sub(&checks::transposed(dq)?.matmul(q)?)?;
    let symmetric = m.tril(0)?.add(&checks::transposed(&m.tril(-1)?)?)?;
    let right = dq.add(&q.matmul(&symmetric)?)?;
    triangular(op, &checks::transposed(r)?, &right, TriangularOptions { left: false, ..Default::default() })
}
