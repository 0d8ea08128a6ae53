//! Triangular linear systems.

use crate::checks;
use crate::host::{Matrices, Values};
use crate::record::with_gradient;
use faer::{Mat, MatRef};
use ternion_core::autograd::{Context, Grads};
use ternion_core::op::Saves;
use ternion_core::{Error, Result, Tensor};

/// Which triangle of the matrix is used, and on which side of `x` the matrix is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriangularOptions {
    /// If true, uses the upper triangle, otherwise (the default) the lower one.
    pub upper: bool,
    /// If true (the default), solves `a x = b`, otherwise `x a = b`.
    pub left: bool,
    /// If true, treats the diagonal as 1 without reading it; false by default.
    pub unitriangular: bool,
}

impl Default for TriangularOptions {
    /// The lower triangle with its diagonal, on the left side.
    fn default() -> TriangularOptions {
        TriangularOptions { upper: false, left: true, unitriangular: false }
    }
}

/// Solves `a x = b` (or `x a = b`) for `x`, with one triangle of `a`; the rest is not read. A 0 on
/// the diagonal is a division by zero.
///
/// # Shapes
/// `a`: `[.., n, n]`; `b`: `[.., n, k]` (`[.., k, n]` unless `left`). The axes before the last two
/// are broadcast.
///
/// # Gradient
/// `db = a^-T dx`, `da` = the triangle of `-db x^T` (Giles 2008, 2.3.1), which have gradients too.
///
/// # Errors
/// Returns an error for dtypes other than f32 and f64 or that differ, a matrix that is not square,
/// and sizes that do not match.
pub fn solve_triangular(a: &Tensor, b: &Tensor, options: TriangularOptions) -> Result<Tensor> {
    triangular("linalg.solve_triangular", a, b, options)
}

/// Runs [`solve_triangular`] with errors in the name of `op`.
pub(crate) fn triangular(
    op: &'static str,
    a: &Tensor,
    b: &Tensor,
    options: TriangularOptions,
) -> Result<Tensor> {
    let size = checks::square(op, a)?;
    let [rows, columns] = checks::matrix(op, b)?;
    checks::same_dtype(op, a, b)?;
    checks::same_device(op, a, b)?;
    if size != if options.left { rows } else { columns } {
        let detail = format!("right sides of shape {:?} for matrices of {size} x {size}", b.shape());
        return Err(Error::invalid(op, detail));
    }
    let (a, b) = checks::broadcast(op, a, b)?;
    if options.left {
        return left(op, &a, &b, options);
    }
    // x a = b is a^T x^T = b^T.
    let options = TriangularOptions { upper: !options.upper, left: true, ..options };
    checks::transposed(&left(op, &checks::transposed(&a)?, &checks::transposed(&b)?, options)?)
}

fn left(op: &'static str, a: &Tensor, b: &Tensor, options: TriangularOptions) -> Result<Tensor> {
    let tail = [b.dims()[b.rank() - 2], b.dims()[b.rank() - 1]];
    let mut values = Values::default();
    let (lefts, rights) = (Matrices::read(a)?, Matrices::read(b)?);
    for (matrix, right) in lefts.iter().zip(rights.iter()) {
        values.push_matrix(solve_on_host(matrix, right, options).as_ref());
    }
    let x = values.into_tensor(b, &tail)?;
    let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dx) = &grads[0] else { return Ok(Grads::new()) };
        let transposed = TriangularOptions { upper: !options.upper, ..options };
        let db = left(op, &checks::transposed(context.input(0)?)?, dx, transposed)?;
        if !context.needs(0) {
            return Ok(Grads::from_iter([None, Some(db)]));
        }
        let da = db.matmul(&checks::transposed(context.output(0)?)?)?.neg()?;
        let diagonal = isize::from(options.unitriangular);
        let da = if options.upper { da.triu(diagonal)? } else { da.tril(-diagonal)? };
        Ok(Grads::from_iter([Some(da), Some(db)]))
    };
    Ok(with_gradient(op, &[a, b], vec![x], Saves { inputs: 0b01, outputs: 0b1 }, rule)?.swap_remove(0))
}

fn solve_on_host(matrix: MatRef<'_, f64>, right: MatRef<'_, f64>, options: TriangularOptions) -> Mat<f64> {
    let mut x = right.to_owned();
    match (options.upper, options.unitriangular) {
        (false, false) => matrix.solve_lower_triangular_in_place(&mut x),
        (false, true) => matrix.solve_unit_lower_triangular_in_place(&mut x),
        (true, false) => matrix.solve_upper_triangular_in_place(&mut x),
        (true, true) => matrix.solve_unit_upper_triangular_in_place(&mut x),
    }
    x
}
