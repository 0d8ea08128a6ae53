//! Replacing parts of a tensor. All functions copy: no result shares memory with an input.

use crate::Tensor;
use crate::error::{Error, Result};
use crate::op::check;
use crate::ops::index::index_dtype;
use crate::ops::view::{diagonal_of, strided_indices, strided_shape};
use crate::shape::Axis;

impl Tensor {
    /// Returns this tensor with `source` written to the elements that
    /// [`as_strided`](Tensor::as_strided) selects. If an element is selected more than once, the
    /// last value is kept.
    ///
    /// # Errors
    /// Same as [`as_strided`](Tensor::as_strided). Also returns an error if the source has another
    /// shape or dtype.
    pub fn as_strided_scatter(
        &self,
        source: &Tensor,
        size: &[usize],
        strides: &[usize],
        offset: usize,
    ) -> Result<Tensor> {
        let name = "as_strided_scatter";
        let shape = strided_shape(name, self.elements(), (size, strides, offset))?;
        let indices = strided_indices(self.elements(), (shape, strides, offset), self.device())?;
        replace_at(name, self, source, &indices)
    }

    /// Returns this tensor with slice `index` along `axis` replaced by `source`. A negative index
    /// counts from the end.
    ///
    /// # Errors
    /// Returns an error if the axis or the index does not exist, or if the source has another shape
    /// or dtype than the slice.
    pub fn select_scatter(&self, source: &Tensor, axis: impl Into<Axis>, index: isize) -> Result<Tensor> {
        let name = "select_scatter";
        let axis = axis.into().resolve(self.shape(), name)?;
        let size = self.shape().dim(axis);
        let at = if index < 0 { index.saturating_add_unsigned(size) } else { index };
        match usize::try_from(at) {
            Ok(at) if at < size => replace_at(name, self, source, &element_indices(self)?.select(axis, at)?),
            _ => Err(Error::IndexOutOfRange { op: name, index: index as i64, size }),
        }
    }

    /// Returns this tensor with the slices `start`, `start + step`, .. below `end` along `axis`
    /// replaced by `source`. Negative bounds count from the end, and bounds beyond the axis are
    /// clamped.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist, if the step is 0, or if the source has another
    /// shape or dtype than the slices.
    pub fn slice_scatter(
        &self,
        source: &Tensor,
        axis: impl Into<Axis>,
        [start, end]: [Option<isize>; 2],
        step: usize,
    ) -> Result<Tensor> {
        let name = "slice_scatter";
        let axis = axis.into().resolve(self.shape(), name)?;
        if step == 0 {
            return Err(Error::invalid(name, "a step of 0, expected at least 1"));
        }
        let size = self.shape().dim(axis);
        let bound = |bound: isize| {
            let from_start = if bound < 0 { bound.saturating_add_unsigned(size) } else { bound };
            usize::try_from(from_start).unwrap_or(0).min(size)
        };
        let (start, end) = (start.map_or(0, bound), end.map_or(size, bound));
        let step = isize::try_from(step.min(size.max(1))).unwrap_or(isize::MAX);
        replace_at(
            name,
            self,
            source,
            &element_indices(self)?.slice_axis(axis, start, end.max(start) as isize, step)?,
        )
    }

    /// Returns this tensor with diagonals of the matrices of two axes replaced by `source`.
    /// `offset` 0 is the main diagonal, positive offsets are above it.
    ///
    /// # Shapes
    /// source: the remaining axes, then the length of the diagonal
    ///
    /// # Errors
    /// Returns an error if an axis does not exist, if both are the same, or if the source has
    /// another shape or dtype than the diagonals.
    pub fn diagonal_scatter(
        &self,
        source: &Tensor,
        offset: isize,
        row_axis: impl Into<Axis>,
        column_axis: impl Into<Axis>,
    ) -> Result<Tensor> {
        let name = "diagonal_scatter";
        let axes = [row_axis.into(), column_axis.into()];
        let indices = diagonal_of(name, &element_indices(self)?, offset, axes)?;
        replace_at(name, self, source, &indices)
    }
}

/// Returns the index of each element in row-major order.
fn element_indices(x: &Tensor) -> Result<Tensor> {
    Tensor::iota(x.elements(), index_dtype(x.elements()), 0, 1, x.device())?.reshape(*x.shape())
}

/// Returns `x` with the elements at these indices replaced by those of `source`, which has the
/// shape of the indices.
fn replace_at(name: &'static str, x: &Tensor, source: &Tensor, indices: &Tensor) -> Result<Tensor> {
    check::same_dtype(name, &x.meta(), &source.meta())?;
    check::shape(name, "source", &source.meta(), *indices.shape())?;
    let count = indices.elements();
    let row = x.reshape([x.elements()])?;
    if count == 0 {
        return row.copy()?.reshape(*x.shape());
    }
    row.scatter(0, &indices.reshape([count])?, &source.reshape([count])?)?.reshape(*x.shape())
}
