//! Reshaping of operands of any rank to matrices.

use crate::error::{Error, Result};
use crate::{Shape, Tensor};
use smallvec::SmallVec;

/// Converts vectors to matrices: to a row on the left, to a column on the right.
pub(super) fn as_matrices(left: &Tensor, right: &Tensor) -> Result<(Tensor, Tensor)> {
    let fail = |detail: String| {
        Err(Error::invalid("matmul", format!("{:?} x {:?}: {detail}", left.shape(), right.shape())))
    };
    let (Some(&columns), Some(&rows)) =
        (left.dims().last(), right.dims().get(right.rank().saturating_sub(2)))
    else {
        return fail("operands need at least 1 axis".into());
    };
    if columns != rows {
        return fail(format!("inner sizes {columns} and {rows} differ"));
    }
    Ok((
        if left.rank() == 1 { left.unsqueeze(0)? } else { left.clone() },
        if right.rank() == 1 { right.unsqueeze(1)? } else { right.clone() },
    ))
}

/// Returns the shape `[rows, k]` of the left operand with which the product of a batch of matrices
/// and one matrix is a product of two matrices, if reshaping the operand needs no copy.
pub(super) fn one_matrix(left: &Tensor, right: &Tensor) -> Option<Shape> {
    if right.rank() != 2 || left.rank() <= 2 {
        return None;
    }
    let (&width, rows) = left.dims().split_last()?;
    let flat = Shape::unchecked(&[rows.iter().product(), width]);
    left.layout().reshape(&flat).map(|_| flat)
}

/// Returns the leading axes of `product` and the last two axes of `operand`.
pub(super) fn with_matrix_of(product: &Shape, operand: &Tensor) -> Result<Shape> {
    let mut dims: SmallVec<[usize; 10]> = product.dims()[..product.rank() - 2].into();
    dims.extend_from_slice(&operand.dims()[operand.rank() - 2..]);
    Shape::new(&dims)
}
