//! Inverses and linear systems of tensors that are reshaped to matrices.

use crate::checks;
use crate::solve::{Singular, named_inverse, solve};
use ternion_core::{Error, Result, Shape, Tensor};

/// Returns the inverse of a tensor with respect to the contraction over its first `ind` axes.
///
/// # Shapes
/// `[a.., b..] -> [b.., a..]`: `ind` axes a, which have as many elements as the other axes, b
///
/// # Errors
/// Returns an error if `ind` is 0 or above the rank, or if the numbers of elements differ, and the
/// errors of [`inv`](crate::inv).
pub fn tensorinv(a: &Tensor, ind: usize) -> Result<Tensor> {
    const OP: &str = "linalg.tensorinv";
    checks::dtype(OP, a)?;
    if ind == 0 || ind > a.rank() {
        return Err(Error::invalid(OP, format!("ind {ind} for shape {:?}", a.shape())));
    }
    let (first, second) = a.dims().split_at(ind);
    let [rows, columns]: [usize; 2] = [first.iter().product(), second.iter().product()];
    if rows != columns {
        let detail =
            format!("shape {:?} has {rows} elements before axis {ind} and {columns} from it on", a.shape());
        return Err(Error::invalid(OP, format!("{detail}, expected as many")));
    }
    let shape = Shape::new(&[second, first].concat())?;
    named_inverse(OP, &a.reshape(Shape::new(&[rows, columns])?)?, Singular::Error)?.reshape(shape)
}

/// Solves `sum a[b.., x..] x[x..] = b[b..]` for `x`; the axes `dims` of `a` are moved to its end
/// first.
///
/// # Shapes
/// `a`: `[b.., x..]`, with as many elements along both; `b`: `[b..]`; the result: `[x..]`
///
/// # Errors
/// Returns an error if an axis does not exist or is repeated, or if the numbers of elements do not
/// match, and the errors of [`solve`].
pub fn tensorsolve(a: &Tensor, b: &Tensor, dims: Option<&[isize]>) -> Result<Tensor> {
    const OP: &str = "linalg.tensorsolve";
    checks::dtype(OP, a)?;
    let mut order: Vec<usize> = (0..a.rank()).collect();
    for &dim in dims.unwrap_or(&[]) {
        let axis = ternion_core::Axis::from(dim).resolve(a.shape(), OP)?;
        order.retain(|other| *other != axis);
        order.push(axis);
    }
    let order: Vec<isize> = order.into_iter().map(|axis| axis as isize).collect();
    let moved = a.permute(order.as_slice())?;
    let rest = moved.dims().get(b.rank()..).unwrap_or(&[]).to_vec();
    let [rows, columns]: [usize; 2] = [b.elements(), rest.iter().product()];
    if rows != columns || rows.checked_mul(columns) != Some(a.elements()) {
        let detail =
            format!("shapes {:?} and {:?}, expected as many equations as unknowns", moved.shape(), b.shape());
        return Err(Error::invalid(OP, detail));
    }
    let matrix = moved.reshape(Shape::new(&[rows, columns])?)?;
    solve(&matrix, &b.reshape(Shape::new(&[rows])?)?, true)?.reshape(Shape::new(&rest)?)
}
