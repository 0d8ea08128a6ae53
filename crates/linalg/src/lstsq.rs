//! Least squares.

use crate::checks;
use crate::pinv::{PseudoInverse, RankTolerance, pseudo_inverse};
use ternion_core::{Error, Result, Tensor, without_precision};

/// The results of [`lstsq`].
#[derive(Clone, Debug)]
pub struct Lstsq {
    /// The solution of smallest norm.
    pub solution: Tensor,
    /// The sums of squared residuals for each right-hand side; empty (`[0]`) unless all matrices
    /// have more rows than columns and full rank.
    pub residuals: Tensor,
    /// The number of singular values that are not treated as 0, i64.
    pub rank: Tensor,
    /// The singular values.
    pub singular_values: Tensor,
}

/// Returns the `x` that minimizes `|a x - b|`; if there are several, the one with the smallest
/// `|x|`: `pinv(a) b`. Singular values not above `rcond` times the largest are treated as 0
/// (`eps max(m, n)` by default).
///
/// # Shapes
/// `a`: `[.., m, n]`; `b`: `[.., m, k]`, or vectors `[.., m]` of the shape of `a` without its last
/// axis. Leading axes are broadcast. The solution: `[.., n, k]` or `[.., n]`.
///
/// # Gradient
/// That of the pseudo-inverse and of the product.
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64 or that differ, sizes that do not match, and
/// a NaN or an infinity in `a`.
pub fn lstsq(a: &Tensor, b: &Tensor, rcond: Option<f64>) -> Result<Lstsq> {
    const OP: &str = "linalg.lstsq";
    let [m, n] = checks::matrix(OP, a)?;
    checks::same_dtype(OP, a, b)?;
    checks::same_device(OP, a, b)?;
    let is_vector = b.rank() + 1 == a.rank() && b.dims() == &a.dims()[..a.rank() - 1];
    let columns = if is_vector { b.unsqueeze(-1)? } else { b.clone() };
    if checks::matrix_sizes(OP, &columns)?[0] != m {
        let detail = format!("right sides of shape {:?} for matrices of {m} x {n}", b.shape());
        return Err(Error::invalid(OP, detail));
    }
    let (wide, columns) = checks::broadcast(OP, a, &columns)?;
    let tolerance = RankTolerance { atol: None, rtol: rcond };
    let PseudoInverse { inverse, magnitudes, rank } = pseudo_inverse(OP, a, tolerance, false)?;
    let solution = without_precision(|| inverse.matmul(&columns))?;
    let is_full = m > n && rank.eq_scalar(n as i64)?.all(..)?.item::<bool>()?;
    let residuals = match is_full {
        true => without_precision(|| wide.matmul(&solution))?.sub(&columns)?.square()?.sum(-2)?,
        false => solution.reshape([solution.elements()])?.narrow(0, 0, 0)?.contiguous()?,
    };
    let squeezed =
        |tensor: &Tensor, axis: isize| if is_vector { tensor.squeeze(axis) } else { Ok(tensor.clone()) };
    let residuals = if is_full { squeezed(&residuals, -1)? } else { residuals };
    Ok(Lstsq { solution: squeezed(&solution, -1)?, residuals, rank, singular_values: magnitudes })
}
