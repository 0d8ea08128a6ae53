//! Condition numbers.

use crate::checks;
use crate::matrix_norm::{MatrixNorm, NormOptions, named_matrix_norm};
use crate::solve::{Singular, named_inverse};
use crate::svd::named_svd;
use ternion_core::{Result, Tensor};

/// Returns the condition numbers with respect to inversion in a norm: `norm(a) norm(a^-1)`,
/// infinity for a singular matrix. In the 2-norm (the default), the ratio of the largest to the
/// smallest singular value, also for matrices that are not square (NaN if all are 0); with -2, the
/// ratio of the smallest to the largest. 0 for matrices without elements.
///
/// # Shapes
/// `[.., m, n] -> [..]`
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64; in other norms, also for matrices that are
/// not square; in the 2-norm, also for a NaN or an infinity.
pub fn cond(a: &Tensor, norm: Option<MatrixNorm>) -> Result<Tensor> {
    const OP: &str = "linalg.cond";
    let sizes = checks::matrix(OP, a)?;
    if sizes.contains(&0) {
        return Tensor::zeros(checks::batch_dims(a), a.dtype(), a.device());
    }
    match norm.unwrap_or(MatrixNorm::Order(2.0)) {
        MatrixNorm::Order(order) if order.abs() == 2.0 => {
            let s = named_svd(OP, a, false)?.1;
            let (largest, smallest) = (s.max(-1)?, s.min(-1)?);
            if order > 0.0 { largest.div(&smallest) } else { smallest.div(&largest) }
        }
        norm => {
            checks::square(OP, a)?;
            let options = NormOptions::default();
            let singular = crate::det::slogdet(&a.detach())?.0.eq_scalar(0i64)?;
            let identity = checks::identity(a.dims()[a.rank() - 1], a)?;
            // A singular matrix is replaced before it is inverted, so that no gradient involves its
            // infinities.
            let regular = checks::as_matrices(&singular)?.where_(&identity, a)?;
            let inverse = named_inverse(OP, &regular, Singular::DivideByZero)?;
            let product = named_matrix_norm(OP, a, norm, &options)?
                .mul(&named_matrix_norm(OP, &inverse, norm, &options)?)?;
            product.masked_fill(&singular, f64::INFINITY)
        }
    }
}
