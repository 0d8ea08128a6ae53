//! Linear systems and inverses by LU decomposition with partial pivoting.

use crate::checks;
use crate::host::{Matrices, Values};
use crate::lu::Factors;
use faer::Mat;
use ternion_core::autograd::{Context, Grads, with_gradient};
use ternion_core::op::Saves;
use ternion_core::{Error, Result, Tensor};

/// What a matrix without an inverse is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Singular {
    /// An error.
    Refused,
    /// Divided by its zeros: infinities and NaN.
    Divided,
}

/// `x` with `a x = b`, or with `x a = b` unless `left`.
///
/// # Shapes
/// `a`: `[.., n, n]`; `b`: `[.., n, k]` (`[.., k, n]` unless `left`), or vectors `[.., n]`: one axis, or the shape of `a` without its last axis. Axes
/// before those broadcast. The result has the shape of `b`, broadcast.
///
/// # Gradient
/// `db = a^-T dx`, `da = -db x^T` (Giles 2008, 2.3.1), and gradients of it.
///
/// # Errors
/// Dtypes other than f32 and f64 or that differ, matrices that are not square, sizes that do not fit, a singular matrix.
pub fn solve(a: &Tensor, b: &Tensor, left: bool) -> Result<Tensor> {
    const OP: &str = "linalg.solve";
    let size = checks::square(OP, a)?;
    checks::same_dtype(OP, a, b)?;
    checks::same_device(OP, a, b)?;
    if b.rank() == 0 {
        return Err(Error::Rank { op: OP, expected: "at least 1".into(), shape: Box::new(*b.shape()) });
    }
    let is_vector = b.rank() == 1 || b.dims() == &a.dims()[..a.rank() - 1];
    if is_vector && !left {
        let detail =
            format!("right sides are vectors of shape {:?}, which only left = true takes", b.shape());
        return Err(Error::invalid(OP, detail));
    }
    let columns = if is_vector { b.unsqueeze(-1)? } else { b.clone() };
    let rows = columns.dims()[columns.rank() - if left { 2 } else { 1 }];
    if rows != size {
        let detail = format!("right sides of shape {:?} for matrices of {size} x {size}", b.shape());
        return Err(Error::invalid(OP, detail));
    }
    let (a, columns) = checks::broadcast(OP, a, &columns)?;
    if !left {
        let x = matrices(OP, &checks::transposed(&a)?, &checks::transposed(&columns)?, Singular::Refused)?;
        return checks::transposed(&x);
    }
    let x = matrices(OP, &a, &columns, Singular::Refused)?;
    if is_vector { x.squeeze(-1) } else { Ok(x) }
}

/// The inverses of square matrices, which have gradients of every order.
///
/// # Shapes
/// `[.., n, n]`, unchanged
///
/// # Gradient
/// `da = -y^T dy y^T` (Giles 2008, 2.2.3).
///
/// # Errors
/// Dtypes other than f32 and f64, matrices that are not square, a singular one.
pub fn inv(a: &Tensor) -> Result<Tensor> {
    inverse("linalg.inv", a, Singular::Refused)
}

/// [`inv`] in the name of `op`.
pub(crate) fn inverse(op: &'static str, a: &Tensor, singular: Singular) -> Result<Tensor> {
    let size = checks::square(op, a)?;
    let mut values = Values::default();
    for (index, matrix) in Matrices::read(a)?.iter().enumerate() {
        let factors = Factors::of(matrix);
        refuse(op, a, index, &factors, singular)?;
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
    Ok(with_gradient("linalg.inv", &[a], vec![y], Saves::OUTPUTS, rule)?.swap_remove(0))
}

fn refuse(op: &'static str, a: &Tensor, index: usize, factors: &Factors, singular: Singular) -> Result<()> {
    if singular == Singular::Divided || !factors.is_singular() {
        return Ok(());
    }
    Err(Error::invalid(op, format!("the matrix{} is singular", checks::of_batch_element(a, index))))
}

/// `a^-1 b`, for `a` `[.., n, n]` and `b` `[.., n, k]` with the same axes before.
pub(crate) fn matrices(op: &'static str, a: &Tensor, b: &Tensor, singular: Singular) -> Result<Tensor> {
    let tail = [b.dims()[b.rank() - 2], b.dims()[b.rank() - 1]];
    let mut values = Values::default();
    let rights = Matrices::read(b)?;
    let mut rights = rights.iter();
    for (index, matrix) in Matrices::read(a)?.iter().enumerate() {
        let factors = Factors::of(matrix);
        refuse(op, a, index, &factors, singular)?;
        // None where there are no right sides: the matrix is checked all the same.
        if let Some(right) = rights.next() {
            let mut x = right.to_owned();
            factors.solve_in_place(&mut x);
            values.push_matrix(x.as_ref());
        }
    }
    let x = values.into_tensor(b, &tail)?;
    let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dx) = &grads[0] else { return Ok(Grads::new()) };
        let db = matrices(op, &checks::transposed(context.input(0)?)?, dx, Singular::Divided)?;
        let da = match context.needs(0) {
            true => Some(db.matmul(&checks::transposed(context.output(0)?)?)?.neg()?),
            false => None,
        };
        Ok(Grads::from_iter([da, Some(db)]))
    };
    Ok(with_gradient(op, &[a, b], vec![x], Saves { inputs: 0b01, outputs: 0b1 }, rule)?.swap_remove(0))
}
