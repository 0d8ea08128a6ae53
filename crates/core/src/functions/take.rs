//! Reading and replacing elements and slices by index.

use crate::error::{Error, Result, with_index_error_op};
use crate::op::check;
use crate::ops::indexing::IntoIndex;
use crate::shape::Axis;
use crate::{DType, Tensor};

impl Tensor {
    /// Returns the elements at `indices` along an axis, where the other axes are broadcast. Without
    /// an axis, indices refer to all elements in row-major order. Negative indices count from the
    /// end.
    ///
    /// # Shapes
    /// `[.., n, ..]` and indices `[.., m, ..]` of the same rank -> `[.., m, ..]`; without an axis
    /// `[indices]`
    ///
    /// # Errors
    /// Returns an error if the axis does not exist, if an index is out of range, if the indices are
    /// not i32 or i64, or if the shapes do not broadcast.
    pub fn take_along_dim(&self, indices: &Tensor, axis: Option<Axis>) -> Result<Tensor> {
        let name = "take_along_dim";
        let Some(axis) = axis else {
            let row = self.reshape([self.elements()])?;
            return row.take_along_dim(&indices.reshape([indices.elements()])?, Some(Axis(0)));
        };
        let axis = axis.resolve(self.shape(), name)?;
        check::index(name, "indices", &indices.meta())?;
        if self.rank() != indices.rank() {
            let detail =
                format!("shapes {:?} and {:?}, expected as many axes", self.shape(), indices.shape());
            return Err(Error::invalid(name, detail));
        }
        let [input_shape, index_shape] = [self, indices].map(|x| x.shape().with_dim(axis, 1));
        let common = input_shape.broadcast(&index_shape, name)?;
        let sizes = [self, indices].map(|x| common.resized(axis, x.dims()[axis], name));
        let [input_shape, index_shape] = sizes;
        let indices = wrap_negative(indices, self.dims()[axis])?.expand(index_shape?)?;
        with_index_error_op(name, || self.expand(input_shape?)?.gather(axis, &indices))
    }

    /// Returns the elements at these positions in row-major order. Negative positions count from
    /// the end.
    ///
    /// # Shapes
    /// `[..]` and index `[*positions]` -> `[*positions]`
    ///
    /// # Errors
    /// Returns an error if a position is out of range, or if the positions are not i32 or i64.
    pub fn take(&self, index: &Tensor) -> Result<Tensor> {
        check::index("take", "index", &index.meta())?;
        let positions = wrap_negative(index, self.elements())?.reshape([index.elements()])?;
        let row = self.reshape([self.elements()])?;
        with_index_error_op("take", || row.index_select(0, &positions))?.reshape(*index.shape())
    }

    /// Returns this tensor with the elements at these positions in row-major order replaced by
    /// those of `source`, or with `accumulate` increased by them. Negative positions count from the
    /// end. If a position occurs twice, the last element is kept; sums add all of them. For bool a
    /// sum is the logical OR.
    ///
    /// # Shapes
    /// `[..]`, index and source with the same number of elements -> `[..]`
    ///
    /// # Errors
    /// Returns an error if a position is out of range, if the positions are not i32 or i64, or if
    /// the source has another dtype or number of elements.
    pub fn put(&self, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
        let name = "put";
        check::index(name, "index", &index.meta())?;
        check::same_dtype(name, &self.meta(), &source.meta())?;
        let (count, source_count) = (index.elements(), source.elements());
        if count != source_count {
            return Err(Error::invalid(name, format!("{source_count} elements for {count} positions")));
        }
        let row = self.reshape([self.elements()])?;
        let (positions, source) =
            (wrap_negative(index, row.elements())?.reshape([count])?, source.reshape([count])?);
        let result = with_index_error_op(name, || match accumulate {
            true if row.dtype() == DType::Bool => {
                let [row, source] = [&row, &source].map(|x| x.to_dtype(DType::I32));
                row?.scatter_add(0, &positions, &source?)?.to_dtype(DType::Bool)
            }
            true => row.scatter_add(0, &positions, &source),
            false => row.scatter(0, &positions, &source),
        });
        result?.reshape(*self.shape())
    }

    /// Returns this tensor with the elements that `index` selects (see [`i`](Tensor::i)) replaced
    /// by `source`, which is broadcast, or with `accumulate` increased by it. If an element is
    /// selected twice, the last value is kept; sums add all of them. For bool a sum is the logical
    /// OR.
    ///
    /// # Errors
    /// Returns an error if the index does not match, or if the source has another dtype or does not
    /// broadcast to the selected elements.
    pub fn index_put<Kind>(
        &self,
        index: impl IntoIndex<Kind>,
        source: &Tensor,
        accumulate: bool,
    ) -> Result<Tensor> {
        let name = "index_put";
        check::same_dtype(name, &self.meta(), &source.meta())?;
        let positions = Tensor::iota(self.elements(), DType::I64, 0, 1, self.device())?;
        let targets = positions.reshape(*self.shape())?.i(index)?;
        if !source.shape().broadcasts_to(targets.shape()) {
            let detail = format!("a source of shape {:?} into {:?}", source.shape(), targets.shape());
            return Err(Error::invalid(name, detail));
        }
        self.put(&targets, &source.expand(*targets.shape())?, accumulate)
    }

    /// Returns this tensor with slice `index[i]` along an axis replaced by slice `i` of `source`.
    /// If a slice is selected twice, the last one is kept.
    ///
    /// # Shapes
    /// `[.., n, ..]`, index `[m]`, source `[.., m, ..]` -> `[.., n, ..]`
    ///
    /// # Errors
    /// Returns an error if the axis does not exist, if the index is out of range, does not have
    /// exactly one axis, or is not i32 or i64, or if the source has another shape or dtype.
    pub fn index_copy(&self, axis: impl Into<Axis>, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let name = "index_copy";
        let axis = axis.into().resolve(self.shape(), name)?;
        let count = slice_count(name, index)?;
        check::same_dtype(name, &self.meta(), &source.meta())?;
        check::shape(name, "source", &source.meta(), self.shape().resized(axis, count, name)?)?;
        with_index_error_op(name, || self.scatter(axis, &expand_index(index, axis, source)?, source))
    }

    /// Returns this tensor with the slices `index[0]`, `index[1]`, .. along an axis filled with one
    /// value. Negative indices count from the end. The value gets a gradient.
    ///
    /// # Shapes
    /// `[.., n, ..]`, index `[m]`, value `[]` -> `[.., n, ..]`
    ///
    /// # Errors
    /// Returns an error if the axis does not exist, if the index is out of range, does not have
    /// exactly one axis, or is not i32 or i64, or if the value has axes or another dtype.
    pub fn index_fill(&self, axis: impl Into<Axis>, index: &Tensor, value: &Tensor) -> Result<Tensor> {
        let name = "index_fill";
        let axis = axis.into().resolve(self.shape(), name)?;
        let count = slice_count(name, index)?;
        check::same_dtype(name, &self.meta(), &value.meta())?;
        let [] = value.shape().to_array(name)?;
        let source = value.expand(self.shape().resized(axis, count, name)?)?;
        let index = wrap_negative(index, self.dims()[axis])?;
        with_index_error_op(name, || self.scatter(axis, &expand_index(&index, axis, &source)?, &source))
    }
}

/// Returns the number of slices that an index selects.
fn slice_count(name: &'static str, index: &Tensor) -> Result<usize> {
    check::index(name, "index", &index.meta())?;
    let [count] = index.shape().to_array(name)?;
    Ok(count)
}

/// Expands an index of slices to all elements of the slices.
fn expand_index(index: &Tensor, axis: usize, source: &Tensor) -> Result<Tensor> {
    let mut shape = vec![1; source.rank()];
    shape[axis] = index.elements();
    index.reshape(shape)?.expand(*source.shape())
}

/// Converts negative indices to indices counted from the front.
fn wrap_negative(index: &Tensor, size: usize) -> Result<Tensor> {
    index.lt_scalar(0i64)?.where_(&index.add_scalar(size as i64)?, index)
}
