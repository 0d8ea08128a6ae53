//! Diagonals and triangles of matrices.

use super::index_tensor;
use crate::error::{Error, Result};
use crate::ops::view::diagonal_of;
use crate::shape::Axis;
use crate::{Device, Ellipsis, Scalar, Shape, Slice, Tensor};
use std::ops::Range;

impl Tensor {
    /// Returns matrices whose diagonals are the last axis of this tensor, and zeros elsewhere. The
    /// matrices have the axes `first` and `second` of the result.
    ///
    /// # Shapes
    /// `[.., n]` -> `[.., n + |offset|, n + |offset|]` if these are the last two axes
    ///
    /// # Errors
    /// Returns an error if this tensor has no axes, if the result does not have one of the axes, if
    /// they are the same, or if the result is too large.
    pub fn diag_embed(
        &self,
        offset: isize,
        first: impl Into<Axis>,
        second: impl Into<Axis>,
    ) -> Result<Tensor> {
        let name = "diag_embed";
        let Some((&count, leading)) = self.dims().split_last() else {
            return Err(Error::Rank {
                op: name,
                expected: "at least 1".into(),
                shape: Box::new(*self.shape()),
            });
        };
        let size = count.saturating_add(offset.unsigned_abs());
        let shape = Shape::new(&[leading, &[size, size]].concat())?;
        let (first, second) = (first.into().resolve(&shape, name)?, second.into().resolve(&shape, name)?);
        if first == second {
            return Err(Error::invalid(name, format!("axes {first} and {second}, expected two")));
        }
        let matrices = Tensor::zeros(shape, self.dtype(), self.device())?;
        let rows = matrices.reshape(&[leading, &[size * size]].concat()[..])?;
        let (start, end) = diagonal_range(offset, size, count);
        let slice = Slice::new(Some(start as isize), Some(end as isize), size as isize + 1);
        let filled = rows.slice_assign((Ellipsis, slice), self)?;
        let last = leading.len();
        filled
            .reshape(shape)?
            .movedim(&[last as isize, last as isize + 1], &[first as isize, second as isize])
    }

    /// Returns a diagonal of a matrix, or a matrix with this vector on that diagonal and zeros
    /// elsewhere. The result is a copy.
    ///
    /// # Shapes
    /// `[rows, columns]` -> `[length]`; `[n]` -> `[n + |offset|, n + |offset|]`
    ///
    /// # Errors
    /// Returns an error if the tensor is neither a matrix nor a vector.
    pub fn diag(&self, offset: isize) -> Result<Tensor> {
        match self.rank() {
            1 => self.diag_embed(offset, 0, 1),
            2 => self.diagonal(offset, 0, 1)?.copy(),
            _ => {
                let shape = Box::new(*self.shape());
                Err(Error::Rank { op: "diag", expected: "1 or 2".into(), shape })
            }
        }
    }

    /// Returns a matrix with all elements on a diagonal, in row-major order, and zeros elsewhere.
    ///
    /// # Shapes
    /// `[..]` of n elements -> `[n + |offset|, n + |offset|]`
    ///
    /// # Errors
    /// Returns an error if the result is too large.
    pub fn diagflat(&self, offset: isize) -> Result<Tensor> {
        self.reshape([self.elements()])?.diag_embed(offset, 0, 1)
    }

    /// Returns the sum of the main diagonal; for integers and bool in i64.
    ///
    /// # Shapes
    /// `[rows, columns]` -> `[]`
    ///
    /// # Errors
    /// Returns an error if the tensor is not a matrix.
    pub fn trace(&self) -> Result<Tensor> {
        let [_, _] = self.shape().to_array("trace")?;
        diagonal_of("trace", self, 0, [Axis(0), Axis(1)])?.sum(..)
    }

    /// Returns this tensor with `value` on its main diagonal. With more than two axes, the diagonal
    /// consists of the elements whose indices are all equal. With `wrap`, the diagonal of a matrix
    /// with more rows than columns starts again one row after its end.
    ///
    /// # Shapes
    /// `[rows, columns]` or `[n, n, n, ..]` -> same shape
    ///
    /// # Errors
    /// Returns an error if there are fewer than two axes, if there are more than two of different
    /// sizes, or if an integer dtype cannot represent the value.
    pub fn fill_diagonal(&self, value: impl Into<Scalar>, wrap: bool) -> Result<Tensor> {
        let name = "fill_diagonal";
        let dims = self.dims();
        let &[rows, columns, ..] = dims else {
            return Err(Error::Rank {
                op: name,
                expected: "at least 2".into(),
                shape: Box::new(*self.shape()),
            });
        };
        if dims.len() > 2 && dims.iter().any(|&size| size != rows) {
            return Err(Error::invalid(name, format!("shape {:?}, expected axes of one size", self.shape())));
        }
        let value = self.scalar_like(value)?;
        let count = self.elements();
        if count == 0 {
            return self.copy();
        }
        let step: isize = self.shape().row_major_strides()[..dims.len()].iter().sum();
        let end = match wrap && dims.len() == 2 {
            true => count,
            false => (rows.min(columns) - 1) * step as usize + 1,
        };
        let diagonal = Slice::new(Some(0), Some(end as isize), step);
        self.reshape([count])?.slice_assign(diagonal, &value)?.reshape(*self.shape())
    }

    /// Returns the row and column indices of the elements on and below a diagonal of a matrix, in
    /// row-major order, as i32 (i64 if they exceed its range).
    ///
    /// # Shapes
    /// `[2, elements]`
    ///
    /// # Errors
    /// Returns an error if the allocation fails.
    pub fn tril_indices(rows: usize, columns: usize, offset: isize, device: &Device) -> Result<Tensor> {
        let end = |row: usize| row.saturating_add(1).saturating_add_signed(offset).min(columns);
        // If the diagonal starts below the first row, the rows above it are empty.
        let first = if columns == 0 { rows } else { offset.min(0).unsigned_abs().min(rows) };
        triangle_indices("tril_indices", first..rows, |row| 0..end(row), device)
    }

    /// Returns the row and column indices of the elements on and above a diagonal of a matrix, in
    /// row-major order, as i32 (i64 if they exceed its range).
    ///
    /// # Shapes
    /// `[2, elements]`
    ///
    /// # Errors
    /// Returns an error if the allocation fails.
    pub fn triu_indices(rows: usize, columns: usize, offset: isize, device: &Device) -> Result<Tensor> {
        let start = |row: usize| row.saturating_add_signed(offset).min(columns);
        // From this row on, the diagonal is beyond the last column.
        let end =
            if columns == 0 { 0 } else { columns.saturating_add_signed(offset.saturating_neg()).min(rows) };
        triangle_indices("triu_indices", 0..end, |row| start(row)..columns, device)
    }
}

/// Returns the range of the elements of a diagonal in the row-major order of a matrix; they are
/// `columns + 1` apart.
fn diagonal_range(offset: isize, columns: usize, length: usize) -> (usize, usize) {
    let (below, above) = (offset.min(0).unsigned_abs(), offset.max(0).unsigned_abs());
    match length {
        0 => (0, 0),
        _ => {
            let start = below * columns + above;
            (start, start + (length - 1) * (columns + 1) + 1)
        }
    }
}

/// Returns the row and column indices of the elements whose columns are in a range for each of
/// `rows`. No range is empty.
fn triangle_indices(
    name: &'static str,
    rows: Range<usize>,
    columns: impl Fn(usize) -> Range<usize>,
    device: &Device,
) -> Result<Tensor> {
    let mut indices: Vec<usize> = Vec::new();
    // Reserves memory before counting, so that a number of rows that cannot fit fails at once.
    let mut reserved = |count: usize| match indices.try_reserve_exact(count.saturating_mul(2)) {
        Ok(()) => Ok(()),
        Err(_) => Err(Error::host_memory(count.saturating_mul(2 * size_of::<usize>()))),
    };
    reserved(rows.len())?;
    let counted = rows.clone().try_fold(0usize, |sum, row| sum.checked_add(columns(row).len()));
    let Some(count) = counted.filter(|&count| count <= usize::MAX / 32) else {
        return Err(Error::invalid(name, "more elements than can be addressed"));
    };
    reserved(count)?;
    indices.extend(rows.clone().flat_map(|row| columns(row).map(move |_| row)));
    indices.extend(rows.flat_map(columns));
    index_tensor(indices, [2, count], device)
}
