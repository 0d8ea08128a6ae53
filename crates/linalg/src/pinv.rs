//! Pseudo-inverses and ranks.

use crate::checks;
use crate::eigh::{Triangle, named_eigh};
use crate::record::with_gradient;
use crate::svd::named_svd;
use ternion_core::autograd::{Context, Grads, no_grad};
use ternion_core::op::Saves;
use ternion_core::{DType, Result, Tensor, without_precision};

/// The singular values that are treated as 0: those not above the larger of `atol` and `rtol` times
/// the largest singular value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankTolerance {
    /// The absolute tolerance; 0 by default.
    pub atol: Option<f64>,
    /// The relative tolerance; by default `eps max(m, n)` of the dtype, and 0 if the absolute
    /// tolerance is above 0.
    pub rtol: Option<f64>,
}

impl RankTolerance {
    /// Returns which of `magnitudes` `[.., k]` are above the tolerance.
    fn above(self, magnitudes: &Tensor, [m, n]: [usize; 2]) -> Result<Tensor> {
        let atol = self.atol.unwrap_or(0.0);
        let default = if atol > 0.0 { 0.0 } else { checks::epsilon(magnitudes.dtype()) * m.max(n) as f64 };
        let rtol = self.rtol.unwrap_or(default);
        if magnitudes.elements() == 0 {
            return magnitudes.gt_scalar(0i64);
        }
        let relative = magnitudes.max_keep(-1)?.mul_scalar(rtol)?;
        magnitudes.gt(&relative.maximum(&relative.full_like(atol)?)?)
    }
}

/// Returns the Moore-Penrose inverses. If `hermitian`, the matrices are assumed to be symmetric:
/// their eigenvalues are used, and only their lower triangles are read.
///
/// # Shapes
/// `[.., m, n] -> [.., n, m]`
///
/// # Gradient
/// With the pseudo-inverse `p` (Golub and Pereyra 1973, equation 4.12): `da = -p^T dp p^T + (1 - a
/// p) dp^T p p^T + p^T p dp^T (1 - p a)`, which holds for perturbations that keep the rank. If
/// `hermitian`, its symmetric part.
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64, fewer than two axes, and a NaN or an
/// infinity; if `hermitian`, also for matrices that are not square.
pub fn pinv(a: &Tensor, tolerance: RankTolerance, hermitian: bool) -> Result<Tensor> {
    Ok(pseudo_inverse("linalg.pinv", a, tolerance, hermitian)?.inverse)
}

/// A pseudo-inverse and the values that it was computed from.
pub(crate) struct PseudoInverse {
    pub inverse: Tensor,
    /// Singular values, or magnitudes of eigenvalues.
    pub magnitudes: Tensor,
    /// The number of them above the tolerance, i64.
    pub rank: Tensor,
}

/// Runs [`pinv`] with errors in the name of `op`.
pub(crate) fn pseudo_inverse(
    op: &'static str,
    a: &Tensor,
    tolerance: RankTolerance,
    hermitian: bool,
) -> Result<PseudoInverse> {
    let result = no_grad(|| without_precision(|| compute_pseudo_inverse(op, a, tolerance, hermitian)))?;
    let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dp) = &grads[0] else { return Ok(Grads::new()) };
        let a = context.input(0)?;
        let da = match hermitian {
            true => {
                // The triangle that is read, and its reflection.
                let a = a.tril(0)?.add(&checks::transposed(&a.tril(-1)?)?)?;
                let da = gradient(&a, context.output(0)?, dp)?;
                da.add(&checks::transposed(&da)?)?.mul_scalar(0.5)?
            }
            false => gradient(a, context.output(0)?, dp)?,
        };
        Ok(Grads::from_elem(Some(da), 1))
    };
    let inverse = with_gradient(op, &[a], vec![result.inverse], Saves::ALL, rule)?.swap_remove(0);
    Ok(PseudoInverse { inverse, ..result })
}

fn compute_pseudo_inverse(
    op: &'static str,
    a: &Tensor,
    tolerance: RankTolerance,
    hermitian: bool,
) -> Result<PseudoInverse> {
    let sizes = checks::matrix(op, a)?;
    let (u, values, vt) = match hermitian {
        true => {
            let (w, v) = named_eigh(op, a, Triangle::Lower)?;
            let vt = checks::transposed(&v)?;
            (v, w, vt)
        }
        false => named_svd(op, a, false)?,
    };
    let magnitudes = values.abs()?;
    let above = tolerance.above(&magnitudes, sizes)?;
    let reciprocals = values.recip()?.masked_fill(&above.logical_not()?, 0i64)?;
    let inverse =
        checks::transposed(&vt)?.mul(&reciprocals.unsqueeze(-2)?)?.matmul(&checks::transposed(&u)?)?;
    Ok(PseudoInverse { inverse, magnitudes, rank: above.to_dtype(DType::I64)?.sum(-1)? })
}

fn gradient(a: &Tensor, p: &Tensor, dp: &Tensor) -> Result<Tensor> {
    let (pt, dpt) = (checks::transposed(p)?, checks::transposed(dp)?);
    let [m, n] = checks::matrix_sizes("linalg.pinv", a)?;
    let regular = pt.matmul(dp)?.matmul(&pt)?.neg()?;
    let left_projector = Tensor::eye(m, a.dtype(), a.device())?.sub(&a.matmul(p)?)?;
    let right_projector = Tensor::eye(n, a.dtype(), a.device())?.sub(&p.matmul(a)?)?;
    let first = left_projector.matmul(&dpt)?.matmul(p)?.matmul(&pt)?;
    let second = pt.matmul(p)?.matmul(&dpt)?.matmul(&right_projector)?;
    regular.add(&first)?.add(&second)
}

/// Returns the number of singular values (magnitudes of eigenvalues if `hermitian`) above the
/// tolerance.
///
/// # Shapes
/// `[.., m, n] -> [..]`, i64. It has no gradient.
///
/// # Errors
/// The errors of [`pinv`].
pub fn matrix_rank(a: &Tensor, tolerance: RankTolerance, hermitian: bool) -> Result<Tensor> {
    const OP: &str = "linalg.matrix_rank";
    let sizes = checks::matrix(OP, a)?;
    no_grad(|| {
        let magnitudes = match hermitian {
            true => named_eigh(OP, a, Triangle::Lower)?.0.abs()?,
            false => named_svd(OP, a, false)?.1,
        };
        tolerance.above(&magnitudes, sizes)?.to_dtype(DType::I64)?.sum(-1)
    })
}
