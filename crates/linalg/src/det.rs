//! Determinants and their logarithms, by LU decomposition.

use crate::checks;
use crate::host::{Matrices, Values, normalized, not_converged};
use crate::lu::Factors;
use crate::record::{constant, with_gradient};
use crate::solve::{Singular, named_inverse};
use crate::svd::svd;
use faer::{Mat, MatRef};
use ternion_core::autograd::{Context, Grads};
use ternion_core::op::Saves;
use ternion_core::{Result, Tensor};

/// Returns the determinants of square matrices: 1 for a 0 x 0 matrix.
///
/// # Shapes
/// `[.., n, n] -> [..]`
///
/// # Gradient
/// The cofactors: `da = dy det(a) a^-T` (Giles 2008, 2.2.4); for singular matrices they are
/// computed from the singular value decomposition.
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64, and matrices that are not square.
pub fn det(a: &Tensor) -> Result<Tensor> {
    let size = checks::square("linalg.det", a)?;
    if size == 0 {
        let ones = Tensor::ones(checks::batch_dims(a), a.dtype(), a.device())?;
        return constant("linalg.det", &[a], ones);
    }
    let mut values = Values::default();
    values.extend(Matrices::read(a)?.iter().map(|matrix| Factors::of(matrix).determinant()));
    let y = values.into_tensor(a, &[])?;
    let rule = |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
        let cofactors = cofactors(context.input(0)?, context.output(0)?)?;
        Ok(Grads::from_elem(Some(checks::as_matrices(dy)?.mul(&cofactors)?), 1))
    };
    Ok(with_gradient("linalg.det", &[a], vec![y], Saves::ALL, rule)?.swap_remove(0))
}

/// Returns the derivatives of the determinants `det` of `a` with respect to its elements.
fn cofactors(a: &Tensor, det: &Tensor) -> Result<Tensor> {
    let is_zero = det.eq_scalar(0i64)?;
    if !is_zero.any(..)?.item::<bool>()? {
        return checks::as_matrices(det)?.mul(&checks::transposed(&named_inverse(
            "linalg.det",
            a,
            Singular::DivideByZero,
        )?)?);
    }
    // Regular and singular matrices have different formulas. Each formula first replaces the
    // matrices of the other case, so that it does not compute infinities.
    let is_zero = checks::as_matrices(&is_zero)?;
    // A matrix with distinct singular values, for which every formula and its derivative is finite.
    let size = a.dims()[a.rank() - 1];
    let placeholder = Tensor::linspace(1.0, size as f64, size, a.dtype(), a.device())?;
    let placeholder = checks::with_diagonal(&placeholder)?;
    let regular = is_zero.where_(&placeholder, a)?;
    let by_inverse = checks::transposed(&named_inverse("linalg.det", &regular, Singular::DivideByZero)?)?;
    let by_inverse = checks::as_matrices(det)?.mul(&by_inverse)?;
    is_zero.where_(&cofactors_of_singular(&is_zero.where_(a, &placeholder)?)?, &by_inverse)
}

/// Returns the cofactors of singular matrices. `a = u diag(s) vt` has the cofactors `det(u) det(vt)
/// u diag(the products of all other s) vt`; the host computes them and rounds once.
fn cofactors_of_singular(a: &Tensor) -> Result<Tensor> {
    let matrices = Matrices::read(a)?;
    matrices.check_finite("linalg.det", a)?;
    let mut values = Values::default();
    for (index, matrix) in matrices.iter().enumerate() {
        values.push_matrix(cofactors_on_host(a, index, matrix)?.as_ref());
    }
    let size = a.dims()[a.rank() - 1];
    let exact = values.into_tensor(a, &[size, size])?;
    if !a.needs_grad() {
        return Ok(exact);
    }
    // The result has the exact value, and the gradient of the composition.
    let cofactors_by_svd = cofactors_by_svd(a)?;
    cofactors_by_svd.add(&exact.sub(&cofactors_by_svd.detach())?)
}

fn cofactors_on_host(a: &Tensor, index: usize, matrix: MatRef<'_, f64>) -> Result<Mat<f64>> {
    let (matrix, scale) = normalized(matrix);
    let factors = matrix.svd().map_err(|_| not_converged("linalg.det", a, index))?;
    let (u, v) = (factors.U(), factors.V());
    let sign = (Factors::of(u).determinant() * Factors::of(v).determinant()).signum();
    let s: Vec<f64> = factors.S().column_vector().iter().map(|value| value * scale).collect();
    let all_but = |k: usize| s.iter().enumerate().filter(|(other, _)| *other != k).map(|(_, s)| s).product();
    let others: Vec<f64> = (0..s.len()).map(all_but).collect();
    let element = |i: usize, j: usize| (0..s.len()).map(|k| u[(i, k)] * others[k] * v[(j, k)]).sum::<f64>();
    Ok(Mat::from_fn(s.len(), s.len(), |i, j| sign * element(i, j)))
}

fn cofactors_by_svd(a: &Tensor) -> Result<Tensor> {
    let (u, s, vt) = svd(a, false)?;
    // The determinant of an orthogonal matrix is 1 or -1, and its derivative is 0.
    let sign = det(&u.detach())?.mul(&det(&vt.detach())?)?.round()?;
    let size = s.dims()[s.rank() - 1];
    let eye = Tensor::eye(size, s.dtype(), s.device())?.ne_scalar(0i64)?;
    let rows = s.unsqueeze(-2)?.expand(checks::shape(s.dims(), &[size])?)?;
    let others = rows.masked_fill(&eye, 1i64)?.prod(-1)?;
    checks::as_matrices(&sign)?.mul(&u.mul(&others.unsqueeze(-2)?)?.matmul(&vt)?)
}

/// Returns the signs (1, -1, or 0 for a singular matrix) and the logarithms of the magnitudes
/// (-infinity for a singular matrix) of determinants.
///
/// # Shapes
/// `[.., n, n] -> ([..], [..])`
///
/// # Gradient
/// That of the logarithm is `da = dy a^-T`, which is not finite for a singular matrix. That of the
/// sign is 0.
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64, and matrices that are not square.
pub fn slogdet(a: &Tensor) -> Result<(Tensor, Tensor)> {
    named_slogdet("linalg.slogdet", a)
}

fn named_slogdet(op: &'static str, a: &Tensor) -> Result<(Tensor, Tensor)> {
    if checks::square(op, a)? == 0 {
        let [ones, zeros] =
            [Tensor::ones, Tensor::zeros].map(|of| of(checks::batch_dims(a), a.dtype(), a.device()));
        return Ok((constant(op, &[a], ones?)?, constant(op, &[a], zeros?)?));
    }
    let (mut signs, mut logarithms) = (Values::default(), Values::default());
    for matrix in Matrices::read(a)?.iter() {
        let (sign, logarithm) = Factors::of(matrix).log_determinant();
        signs.extend([sign]);
        logarithms.extend([logarithm]);
    }
    let (sign, logarithm) = (signs.into_tensor(a, &[])?, logarithms.into_tensor(a, &[])?);
    let sign = constant(op, &[a], sign)?;
    let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
        let inverse = checks::transposed(&named_inverse(op, context.input(0)?, Singular::DivideByZero)?)?;
        Ok(Grads::from_elem(Some(checks::as_matrices(dy)?.mul(&inverse)?), 1))
    };
    let logarithm = with_gradient(op, &[a], vec![logarithm], Saves::INPUTS, rule)?.swap_remove(0);
    Ok((sign, logarithm))
}

/// Returns the logarithms of determinants: -infinity where they are 0, NaN where they are negative.
///
/// # Shapes
/// `[.., n, n] -> [..]`
///
/// # Gradient
/// Same as [`slogdet`].
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64, and matrices that are not square.
pub fn logdet(a: &Tensor) -> Result<Tensor> {
    let (sign, logarithm) = named_slogdet("logdet", a)?;
    logarithm.masked_fill(&sign.lt_scalar(0i64)?, f64::NAN)
}
