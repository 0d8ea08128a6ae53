//! Elements and slices by their indices: read, and put in the place of others.

use crate::error::{Error, Result, index_told_as};
use crate::op::check;
use crate::ops::indexing::IntoIndex;
use crate::shape::Axis;
use crate::{DType, Tensor};

impl Tensor {
    /// The elements at `indices` along an axis, both broadcast against each other elsewhere; without an axis those of all elements in row-major order. Negative indices
    /// count from the end.
    ///
    /// # Shapes
    /// `[.., n, ..]` and indices `[.., m, ..]` of as many axes -> `[.., m, ..]`; without an axis `[indices]`
    ///
    /// # Errors
    /// An axis that does not exist, an index out of range or of another dtype than i32 and i64, shapes that do not broadcast.
    pub fn take_along_dim(&self, indices: &Tensor, axis: Option<Axis>) -> Result<Tensor> {
        let name = "take_along_dim";
        let Some(axis) = axis else {
            let row = self.reshape([self.elements()])?;
            return row.take_along_dim(&indices.reshape([indices.elements()])?, Some(Axis(0)));
        };
        let axis = axis.resolve(self.shape(), name)?;
        check::index(name, "indices", &indices.meta())?;
        if self.rank() != indices.rank() {
            let told = format!("shapes {:?} and {:?}, expected as many axes", self.shape(), indices.shape());
            return Err(Error::invalid(name, told));
        }
        let [of_input, of_indices] = [self, indices].map(|x| x.shape().with_dim(axis, 1));
        let both = of_input.broadcast(&of_indices, name)?;
        let sizes = [self, indices].map(|x| both.resized(axis, x.dims()[axis], name));
        let [of_input, of_indices] = sizes;
        let indices = from_front(indices, self.dims()[axis])?.expand(of_indices?)?;
        index_told_as(name, || self.expand(of_input?)?.gather(axis, &indices))
    }

    /// The elements at these positions in row-major order; negative ones count from the end.
    ///
    /// # Shapes
    /// `[..]` and index `[*positions]` -> `[*positions]`
    ///
    /// # Errors
    /// A position out of range or of another dtype than i32 and i64.
    pub fn take(&self, index: &Tensor) -> Result<Tensor> {
        check::index("take", "index", &index.meta())?;
        let positions = from_front(index, self.elements())?.reshape([index.elements()])?;
        let row = self.reshape([self.elements()])?;
        index_told_as("take", || row.index_select(0, &positions))?.reshape(*index.shape())
    }

    /// This tensor with the elements of `source` at these positions in row-major order, or with `accumulate` added there. Negative positions count from the end. Of those
    /// that are there twice the last stays; sums get all. A sum of truth values is whether any of them is true.
    ///
    /// # Shapes
    /// `[..]`, index and source of as many elements -> `[..]`
    ///
    /// # Errors
    /// A position out of range or of another dtype than i32 and i64, a source of another dtype or number of elements.
    pub fn put(&self, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
        let name = "put";
        check::index(name, "index", &index.meta())?;
        check::same_dtype(name, &self.meta(), &source.meta())?;
        let (count, given) = (index.elements(), source.elements());
        if count != given {
            return Err(Error::invalid(name, format!("{given} elements for {count} positions")));
        }
        let row = self.reshape([self.elements()])?;
        let (positions, source) =
            (from_front(index, row.elements())?.reshape([count])?, source.reshape([count])?);
        let found = index_told_as(name, || match accumulate {
            true if row.dtype() == DType::Bool => {
                let [row, source] = [&row, &source].map(|x| x.to_dtype(DType::I32));
                row?.scatter_add(0, &positions, &source?)?.to_dtype(DType::Bool)
            }
            true => row.scatter_add(0, &positions, &source),
            false => row.scatter(0, &positions, &source),
        });
        found?.reshape(*self.shape())
    }

    /// This tensor with `source`, broadcast, in the place of what `index` names (see [`i`](Tensor::i)), or with `accumulate` added there. Of elements that are named twice
    /// the last stays; sums get all. A sum of truth values is whether any of them is true.
    ///
    /// # Errors
    /// An index that does not fit, a source of another dtype or that does not broadcast to what is named.
    pub fn index_put<Kind>(
        &self,
        index: impl IntoIndex<Kind>,
        source: &Tensor,
        accumulate: bool,
    ) -> Result<Tensor> {
        let name = "index_put";
        check::same_dtype(name, &self.meta(), &source.meta())?;
        let positions = Tensor::iota(self.elements(), DType::I64, 0, 1, self.device())?;
        let named = positions.reshape(*self.shape())?.i(index)?;
        if !source.shape().broadcasts_to(named.shape()) {
            let told = format!("a source of shape {:?} into {:?}", source.shape(), named.shape());
            return Err(Error::invalid(name, told));
        }
        self.put(&named, &source.expand(*named.shape())?, accumulate)
    }

    /// This tensor with slice `i` of `source` in place of slice `index[i]` along an axis; of those that are named twice the last stays.
    ///
    /// # Shapes
    /// `[.., n, ..]`, index `[m]`, source `[.., m, ..]` -> `[.., n, ..]`
    ///
    /// # Errors
    /// An axis that does not exist, an index out of range, of several axes or of another dtype than i32 and i64; a source of another shape or dtype.
    pub fn index_copy(&self, axis: impl Into<Axis>, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let name = "index_copy";
        let axis = axis.into().resolve(self.shape(), name)?;
        let count = slices(name, index)?;
        check::same_dtype(name, &self.meta(), &source.meta())?;
        check::shape(name, "source", &source.meta(), self.shape().resized(axis, count, name)?)?;
        index_told_as(name, || self.scatter(axis, &along(index, axis, source)?, source))
    }

    /// This tensor with one value in the slices `index[0]`, `index[1]`, .. along an axis; negative indices count from the end. A gradient flows to the value.
    ///
    /// # Shapes
    /// `[.., n, ..]`, index `[m]`, value `[]` -> `[.., n, ..]`
    ///
    /// # Errors
    /// An axis that does not exist, an index out of range, of several axes or of another dtype than i32 and i64; a value with axes or of another dtype.
    pub fn index_fill(&self, axis: impl Into<Axis>, index: &Tensor, value: &Tensor) -> Result<Tensor> {
        let name = "index_fill";
        let axis = axis.into().resolve(self.shape(), name)?;
        let count = slices(name, index)?;
        check::same_dtype(name, &self.meta(), &value.meta())?;
        let [] = value.shape().to_array(name)?;
        let source = value.expand(self.shape().resized(axis, count, name)?)?;
        let index = from_front(index, self.dims()[axis])?;
        index_told_as(name, || self.scatter(axis, &along(&index, axis, &source)?, &source))
    }
}

/// How many slices an index names.
fn slices(name: &'static str, index: &Tensor) -> Result<usize> {
    check::index(name, "index", &index.meta())?;
    let [count] = index.shape().to_array(name)?;
    Ok(count)
}

/// An index of slices, repeated for each element of these.
fn along(index: &Tensor, axis: usize, source: &Tensor) -> Result<Tensor> {
    let mut shape = vec![1; source.rank()];
    shape[axis] = index.elements();
    index.reshape(shape)?.expand(*source.shape())
}

/// Negative indices counted from the front.
fn from_front(index: &Tensor, size: usize) -> Result<Tensor> {
    index.lt_scalar(0i64)?.where_(&index.add_scalar(size as i64)?, index)
}
