//! Norms of matrices, and of tensors as either vectors or matrices.

use crate::svd::named_svd;
use crate::vector_norm::{VectorNormOptions, cast, named_vector_norm};
use ternion_core::{Axis, DType, Error, Result, Tensor};

/// A norm of matrices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MatrixNorm {
    /// Frobenius norm: of all elements.
    Fro,
    /// Nuclear norm: the sum of the singular values.
    Nuc,
    /// 1 or -1: the largest or smallest sum of magnitudes of a column. Infinity or -infinity: the
    /// largest or smallest sum of magnitudes of a row. 2 or -2: the largest or smallest singular
    /// value.
    Order(f64),
}

/// The axes of the matrices, and the dtype.
#[derive(Clone, Copy, Debug)]
pub struct NormOptions {
    /// The axes of rows and of columns.
    pub dim: [isize; 2],
    /// Whether those axes are kept with size 1.
    pub keepdim: bool,
    /// The floating dtype to which the input is cast first. It must represent the input's values.
    pub dtype: Option<DType>,
}

impl Default for NormOptions {
    /// The last two axes, which are removed.
    fn default() -> NormOptions {
        NormOptions { dim: [-2, -1], keepdim: false, dtype: None }
    }
}

/// Returns the norms of matrices.
///
/// # Shapes
/// Shapes of a reduction over the two axes
///
/// # Gradient
/// That of the singular values, or of the sums. If several rows, columns or singular values attain
/// the minimum or maximum, they share the gradient.
///
/// # Errors
/// Returns an error for a dtype that is not floating (f32 or f64 if singular values are used) or
/// cannot represent the input's values, axes that do not exist or are the same, an unsupported
/// order, a minimum over no elements (a maximum is 0), and a NaN or an infinity if singular values
/// are used.
pub fn matrix_norm(a: &Tensor, norm: MatrixNorm, options: &NormOptions) -> Result<Tensor> {
    named_matrix_norm("linalg.matrix_norm", a, norm, options)
}

/// Runs [`matrix_norm`] with errors in the name of `op`.
pub(crate) fn named_matrix_norm(
    op: &'static str,
    a: &Tensor,
    norm: MatrixNorm,
    options: &NormOptions,
) -> Result<Tensor> {
    let a = cast(op, a, options.dtype)?;
    if a.rank() < 2 {
        return Err(Error::Rank { op, expected: "at least 2".into(), shape: Box::new(*a.shape()) });
    }
    let rows = Axis::from(options.dim[0]).resolve(a.shape(), op)?;
    let columns = Axis::from(options.dim[1]).resolve(a.shape(), op)?;
    if rows == columns {
        let detail = format!("axes {:?} of shape {:?} are the same", options.dim, a.shape());
        return Err(Error::invalid(op, detail));
    }
    let axes = [rows, columns];
    let norms = match norm {
        MatrixNorm::Fro => {
            let dim = Some(vec![rows as isize, columns as isize]);
            named_vector_norm(op, &a, 2.0, &VectorNormOptions { dim, keepdim: true, dtype: None })?
        }
        MatrixNorm::Nuc => of_singular_values(op, &a, axes, |s| s.sum(-1))?,
        MatrixNorm::Order(order) => of_order(op, &a, order, axes)?,
    };
    if options.keepdim { Ok(norms) } else { norms.squeeze([rows as isize, columns as isize]) }
}

fn of_order(op: &'static str, a: &Tensor, order: f64, [rows, columns]: [usize; 2]) -> Result<Tensor> {
    let is_largest = order > 0.0;
    if ![1.0, 2.0, f64::INFINITY].contains(&order.abs()) {
        return Err(Error::invalid(
            op,
            format!("order {order}, expected fro, nuc, 1, -1, 2, -2, inf or -inf"),
        ));
    }
    let [row_count, column_count] = [a.dims()[rows], a.dims()[columns]];
    let reached = match order.abs() {
        2.0 => row_count.min(column_count),
        1.0 => column_count,
        _ => row_count,
    };
    if reached == 0 && is_largest {
        // The norm of an empty matrix.
        return a.sum_keep([rows as isize, columns as isize]);
    }
    if reached == 0 {
        let detail = format!(
            "nothing to take the norm of order {order} of in matrices of {row_count} x {column_count}"
        );
        return Err(Error::invalid(op, detail));
    }
    if order.abs() == 2.0 {
        return of_singular_values(
            op,
            a,
            [rows, columns],
            |s| if is_largest { s.max(-1) } else { s.min(-1) },
        );
    }
    let (summed, compared) = if order.abs() == 1.0 { (rows, columns) } else { (columns, rows) };
    let wide = a.to_dtype(a.dtype().accumulator())?;
    let sums = wide.abs()?.sum_keep(summed as isize)?;
    let extremes =
        if is_largest { sums.max_keep(compared as isize)? } else { sums.min_keep(compared as isize)? };
    extremes.to_dtype(a.dtype())
}

fn of_singular_values(
    op: &'static str,
    a: &Tensor,
    [rows, columns]: [usize; 2],
    f: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let mut order: Vec<isize> =
        (0..a.rank()).filter(|axis| *axis != rows && *axis != columns).map(|axis| axis as isize).collect();
    order.extend([rows as isize, columns as isize]);
    let mut dims = a.dims().to_vec();
    (dims[rows], dims[columns]) = (1, 1);
    f(&named_svd(op, &a.permute(order.as_slice())?, false)?.1)?.reshape(ternion_core::Shape::new(&dims)?)
}

/// Returns the norm of vectors or of matrices. Without `dim` and order: the 2-norm of all elements.
/// Without `dim`, with an order: the vector or matrix norm of `x`, which must be a vector or a
/// matrix. With one axis: the vector norm. With two axes and an order: the matrix norm. With two
/// axes and no order: the 2-norm over both.
///
/// # Errors
/// The errors of [`vector_norm`](crate::vector_norm) and [`matrix_norm`]; a number of axes other
/// than one or two, except all axes without an order.
pub fn norm(x: &Tensor, order: Option<MatrixNorm>, options: &VectorNormOptions) -> Result<Tensor> {
    const OP: &str = "linalg.norm";
    let count = options.dim.as_ref().map_or(x.rank(), Vec::len);
    let Some(order) = order else {
        if options.dim.is_some() && count > 2 {
            return Err(Error::invalid(
                OP,
                format!("norm over {count} axes, expected one axis of vectors or two of matrices"),
            ));
        }
        return named_vector_norm(OP, x, 2.0, options);
    };
    match (count, order, options.dim.as_deref()) {
        (1, MatrixNorm::Order(order), _) => named_vector_norm(OP, x, order, options),
        (2, _, dim) => {
            let dim = dim.map_or([-2, -1], |dim| [dim[0], dim[1]]);
            named_matrix_norm(
                OP,
                x,
                order,
                &NormOptions { dim, keepdim: options.keepdim, dtype: options.dtype },
            )
        }
        (count, ..) => {
            let detail =
                format!("norm {order:?} over {count} axes, expected one axis of vectors or two of matrices");
            Err(Error::invalid(OP, detail))
        }
    }
}
