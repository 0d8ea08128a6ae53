//! Views: other layouts of the same buffer. They run no kernel, except that reshape may copy.

use super::index::{IndexAdd, add_into_zeros, index_dtype};
use super::sort::positions;
use crate::autograd::{ViewOp, record_view, record_views};
use crate::error::{Error, Result};
use crate::shape::{Axes, Axis, AxisSet, IntoShape, MAX_RANK, ReshapeDims};
use crate::tensor::Tensor;
use crate::{Device, Layout, Shape};
use smallvec::SmallVec;

impl Tensor {
    /// Returns the same elements in another shape, of which one size may be -1. The result is a
    /// view if the strides permit it, otherwise a copy.
    ///
    /// # Errors
    /// Returns an error if the product of the sizes differs from the number of elements.
    pub fn reshape(&self, shape: impl Into<ReshapeDims>) -> Result<Tensor> {
        let shape = shape.into().resolve(self.shape())?;
        match self.layout().reshape(&shape) {
            Some(layout) => Ok(record_view(self, layout, || ViewOp::Reshape)),
            None => {
                let dense = self.copy()?;
                Ok(record_view(&dense, Layout::row_major(shape), || ViewOp::Reshape))
            }
        }
    }

    /// Flattens axes `first..=last` to one axis.
    ///
    /// # Errors
    /// Returns an error if an axis does not exist, or if the axes are in the wrong order.
    pub fn flatten(&self, first: impl Into<Axis>, last: impl Into<Axis>) -> Result<Tensor> {
        if self.rank() == 0 {
            return self.reshape([1usize]);
        }
        let (first, last) =
            (first.into().resolve(self.shape(), "flatten")?, last.into().resolve(self.shape(), "flatten")?);
        if first > last {
            return Err(Error::invalid(
                "flatten",
                format!("axes {first} to {last} of shape {:?}", self.shape()),
            ));
        }
        let dims = self.dims();
        let mut flat: Vec<usize> = dims[..first].to_vec();
        flat.push(dims[first..=last].iter().product());
        flat.extend(&dims[last + 1..]);
        self.reshape(flat)
    }

    /// Permutes the axes: axis `i` of the result is axis `order[i]` of this tensor.
    ///
    /// # Errors
    /// Returns an error if `order` does not contain every axis exactly once.
    pub fn permute(&self, order: impl Into<Axes>) -> Result<Tensor> {
        let Axes::List(list) = order.into() else { return Ok(self.clone()) };
        let order = list
            .iter()
            .map(|&axis| Axis(axis).resolve(self.shape(), "permute"))
            .collect::<Result<SmallVec<[usize; MAX_RANK]>>>()?;
        self.permute_axes(&order)
    }

    pub(crate) fn permute_axes(&self, order: &[usize]) -> Result<Tensor> {
        let layout = self.layout().permute(order)?;
        Ok(record_view(self, layout, || ViewOp::Permute(order.iter().map(|&axis| axis as u8).collect())))
    }

    /// Swaps two axes.
    ///
    /// # Errors
    /// Returns an error if an axis does not exist.
    pub fn transpose(&self, first: impl Into<Axis>, second: impl Into<Axis>) -> Result<Tensor> {
        let (first, second) = (
            first.into().resolve(self.shape(), "transpose")?,
            second.into().resolve(self.shape(), "transpose")?,
        );
        let mut order: SmallVec<[usize; MAX_RANK]> = (0..self.rank()).collect();
        order.swap(first, second);
        self.permute_axes(&order)
    }

    /// Transposes the matrix: swaps the last two axes.
    ///
    /// # Errors
    /// Returns an error if there are fewer than two axes.
    pub fn t(&self) -> Result<Tensor> {
        if self.rank() < 2 {
            return Err(Error::Rank {
                op: "t",
                expected: "at least 2".into(),
                shape: Box::new(*self.shape()),
            });
        }
        self.transpose(-2, -1)
    }

    /// Selects every `step`-th element along an axis, as [`Layout::slice`]: `end` is exclusive.
    /// With a negative step the order is reversed, and -1 as `end` includes the first element.
    ///
    /// # Errors
    /// Returns an error if an axis or bound is out of range, or if the step is 0.
    pub fn slice_axis(&self, axis: impl Into<Axis>, start: usize, end: isize, step: isize) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "slice")?;
        let layout = self.layout().slice(axis, start, end, step)?;
        Ok(record_view(self, layout, || ViewOp::Slice { axis, start, end, step }))
    }

    /// Selects `length` elements along `axis`, beginning at `start`.
    ///
    /// # Errors
    /// Returns an error if the range exceeds the axis.
    pub fn narrow(&self, axis: impl Into<Axis>, start: usize, length: usize) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "narrow")?;
        let end = start.checked_add(length).filter(|&end| end <= self.shape().dim(axis));
        let Some(end) = end else {
            return Err(Error::invalid(
                "narrow",
                format!("{length} elements from {start} on axis {axis} of shape {:?}", self.shape()),
            ));
        };
        self.slice_axis(axis, start, end as isize, 1)
    }

    /// Splits into parts of these sizes, which sum to the length of `axis`.
    pub(crate) fn parts(&self, axis: usize, sizes: Vec<usize>) -> Result<Vec<Tensor>> {
        let mut end = 0;
        let layouts = sizes.iter().map(|size| {
            let start = end;
            end += size;
            self.layout().slice(axis, start, end as isize, 1)
        });
        record_views(self, layouts, || ViewOp::Split { axis, sizes: sizes.as_slice().into() })
    }

    /// Selects one element along `axis`, and removes the axis.
    ///
    /// # Errors
    /// Returns an error if the index is out of range.
    pub fn select(&self, axis: impl Into<Axis>, index: usize) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "select")?;
        if index >= self.shape().dim(axis) {
            return Err(Error::IndexOutOfRange {
                op: "select",
                index: index as i64,
                size: self.shape().dim(axis),
            });
        }
        self.narrow(axis, index, 1)?.squeeze(axis)
    }

    /// Removes axes of size 1: the given ones, or all (`..`).
    ///
    /// # Errors
    /// Returns an error if a given axis does not exist or has another size.
    pub fn squeeze(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        let removed = match axes.into() {
            Axes::All => (0..self.rank())
                .filter(|&axis| self.shape().dim(axis) == 1)
                .fold(AxisSet::EMPTY, AxisSet::with),
            list => list.resolve(self.shape(), "squeeze")?,
        };
        if let Some(axis) = removed.iter().find(|&axis| self.shape().dim(axis) != 1) {
            return Err(Error::invalid(
                "squeeze",
                format!("axis {axis} of shape {:?} has size {}", self.shape(), self.shape().dim(axis)),
            ));
        }
        Ok(record_view(self, self.layout().squeeze(removed), || ViewOp::Reshape))
    }

    /// Inserts an axis of size 1 before position `axis`; -1 appends it.
    ///
    /// # Errors
    /// Returns an error if the position is out of range, or if there would be too many axes.
    pub fn unsqueeze(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        let Axis(axis) = axis.into();
        let position = if axis < 0 { axis + self.rank() as isize + 1 } else { axis };
        if !(0..=self.rank() as isize).contains(&position) {
            return Err(Error::Axis { op: "unsqueeze", axis, shape: Box::new(*self.shape()) });
        }
        Ok(record_view(self, self.layout().unsqueeze(position as usize)?, || ViewOp::Reshape))
    }

    /// Broadcasts to `shape`: repeats axes of size 1, and the whole tensor along new leading axes.
    /// No copy is made.
    ///
    /// # Errors
    /// Returns an error if this shape does not broadcast to `shape`.
    pub fn expand(&self, shape: impl IntoShape) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        if shape == *self.shape() {
            return Ok(self.clone());
        }
        Ok(record_view(self, self.layout().expand(&shape)?, || ViewOp::Expand))
    }

    /// Returns windows of `size` along `axis`, with distance `step`, as a new last axis. No copy is
    /// made.
    ///
    /// # Errors
    /// Returns an error if the step is 0, if the size is larger than the axis, or if there would be
    /// too many axes.
    pub fn unfold(&self, axis: impl Into<Axis>, size: usize, step: usize) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "unfold")?;
        Ok(record_view(self, self.layout().unfold(axis, size, step)?, || ViewOp::Unfold { axis, size, step }))
    }

    /// Returns a diagonal of the matrices that two axes form, as the last axis. `offset` 0 is the
    /// main diagonal, positive offsets are above it. No copy is made.
    ///
    /// # Shapes
    /// `[.., rows, columns]` -> `[.., length]` for the last two axes
    ///
    /// # Errors
    /// Returns an error if an axis does not exist, or if both axes are the same.
    pub fn diagonal(
        &self,
        offset: isize,
        row_axis: impl Into<Axis>,
        column_axis: impl Into<Axis>,
    ) -> Result<Tensor> {
        diagonal_of("diagonal", self, offset, [row_axis.into(), column_axis.into()])
    }

    /// Returns the elements at indices `offset + i * strides[0] + j * strides[1] + ..` of this
    /// tensor's row-major order, at `[i, j, ..]`. The result is a view of this tensor if it is
    /// contiguous, otherwise of a copy. Gradients of elements that occur more than once are summed.
    /// (PyTorch's strides are those in memory, which is equivalent for a contiguous tensor.)
    ///
    /// # Errors
    /// Returns an error if the numbers of strides and sizes differ, or if an element is out of
    /// range.
    pub fn as_strided(&self, size: &[usize], strides: &[usize], offset: usize) -> Result<Tensor> {
        let shape = strided_shape("as_strided", self.elements(), (size, strides, offset))?;
        let dense = self.contiguous()?;
        // Strides of axes with fewer than two elements are not checked, and may be larger than a
        // stride can be.
        let steps: SmallVec<[isize; MAX_RANK]> =
            strides.iter().map(|&stride| stride.min(self.elements()) as isize).collect();
        let skipped = if shape.elements() > 0 { offset } else { 0 };
        let layout = Layout::new(shape, &steps, dense.layout().offset() + skipped)?;
        Ok(record_view(&dense, layout, || ViewOp::Strided { strides: strides.into(), offset }))
    }

    /// Reverses the order of elements along `axes`. No copy is made.
    ///
    /// # Errors
    /// Returns an error if an axis does not exist.
    pub fn flip(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        let mut flipped = self.clone();
        for axis in axes.into().resolve(self.shape(), "flip")?.iter() {
            let dim = self.shape().dim(axis);
            if dim > 1 {
                flipped = flipped.slice_axis(axis, dim - 1, -1, -1)?;
            }
        }
        Ok(flipped)
    }
}

/// Returns zeros of `shape` with `grad` at the elements that the slice selected.
pub(crate) fn slice_adjoint(
    grad: &Tensor,
    shape: &Shape,
    axis: usize,
    start: usize,
    end: isize,
    step: isize,
) -> Result<Tensor> {
    if step == 1 {
        let after = shape.dim(axis) - start - grad.shape().dim(axis);
        let mut amounts = vec![[0, 0]; shape.rank()];
        amounts[axis] = [start, after];
        return crate::dispatch::apply_one(
            super::assemble::Pad { amounts: amounts.into(), value: crate::Scalar::Float(0.0) },
            &[grad],
        );
    }
    let length = shape.dim(axis) as isize;
    if (start as isize, end, step) == (length - 1, -1, -1) {
        return grad.flip(axis);
    }
    let mut slices: Box<[(usize, isize, isize)]> =
        shape.dims().iter().map(|&dim| (0, dim as isize, 1)).collect();
    slices[axis] = (start, end, step);
    let zeros = Tensor::zeros(*shape, grad.dtype(), grad.device())?;
    crate::dispatch::apply_one(super::indexing::SliceAssign { slices }, &[&zeros, grad])
}

/// Concatenates the gradients of the ranges into which `shape` was split along `axis`, with zeros
/// for ranges without a gradient.
pub(crate) fn split_adjoint(
    grads: &[Option<Tensor>],
    shape: &Shape,
    axis: usize,
    sizes: &[usize],
) -> Result<Option<Tensor>> {
    let mut known = grads.iter().enumerate().filter_map(|(part, grad)| Some((part, grad.as_ref()?)));
    let Some((part, first)) = known.next() else { return Ok(None) };
    if known.next().is_none() {
        let start: usize = sizes[..part].iter().sum();
        return slice_adjoint(first, shape, axis, start, (start + sizes[part]) as isize, 1).map(Some);
    }
    let zeros = |size| Tensor::zeros(shape.with_dim(axis, size), first.dtype(), first.device());
    let part = |(grad, &size): (&Option<Tensor>, &usize)| grad.clone().map_or_else(|| zeros(size), Ok);
    let parts = grads.iter().zip(sizes).map(part).collect::<Result<Vec<_>>>()?;
    if let Some(whole) = merge_adjacent(&parts, shape, axis)? {
        return Ok(Some(whole));
    }
    Tensor::concat(&parts.iter().collect::<Vec<_>>(), axis).map(Some)
}

/// Returns the concatenation of `parts` along `axis`, of `shape`, as a view, if the parts are
/// adjacent in one buffer and need no gradient.
fn merge_adjacent(parts: &[Tensor], shape: &Shape, axis: usize) -> Result<Option<Tensor>> {
    let [first, ..] = parts else { return Ok(None) };
    let (strides, mut start) = (first.layout().strides(), first.layout().offset() as isize);
    for part in parts {
        let layout = part.layout();
        let is_adjacent = part.buffer().is(first.buffer())
            && layout.offset() as isize == start
            && layout.strides() == strides
            && part.dtype() == first.dtype()
            && !part.needs_grad();
        if !is_adjacent {
            return Ok(None);
        }
        start += layout.shape().dim(axis) as isize * strides[axis];
    }
    let layout = Layout::new(*shape, strides, first.layout().offset())?;
    Ok(Some(Tensor::from_parts(first.buffer().clone(), layout, first.dtype(), first.device().clone())))
}

/// Returns zeros of `shape` to which the elements of each window of `grad` are added at their
/// original indices.
pub(crate) fn unfold_adjoint(
    grad: &Tensor,
    shape: &Shape,
    axis: usize,
    size: usize,
    step: usize,
) -> Result<Tensor> {
    let windows = grad.shape().dim(axis);
    let (length, device) = (shape.dim(axis), grad.device());
    let starts = positions(windows, 0, step as isize, length, device)?.unsqueeze(1)?;
    let index = starts.add(&positions(size, 0, 1, length, device)?)?.reshape([windows * size])?;
    // The last axis, which is the index in a window, is moved after the axis of the windows.
    let mut order: SmallVec<[usize; MAX_RANK]> = (0..shape.rank()).collect();
    order.insert(axis + 1, shape.rank());
    let source = grad.permute_axes(&order)?.flatten(axis, axis + 1)?;
    add_into_zeros(IndexAdd { axis }, shape, &index, &source)
}

/// Returns the diagonal of two axes as the last axis; `name` is the op for errors.
pub(crate) fn diagonal_of(
    name: &'static str,
    x: &Tensor,
    offset: isize,
    [row_axis, column_axis]: [Axis; 2],
) -> Result<Tensor> {
    let (row_axis, column_axis) = (row_axis.resolve(x.shape(), name)?, column_axis.resolve(x.shape(), name)?);
    if row_axis == column_axis {
        return Err(Error::invalid(name, format!("axes {row_axis} and {column_axis}, expected two")));
    }
    let layout = x.layout().diagonal(offset, row_axis, column_axis)?;
    Ok(record_view(x, layout, || ViewOp::Diagonal { offset, row_axis, column_axis }))
}

/// Returns zeros of `shape` with `grad` on the diagonals that were selected.
pub(crate) fn diagonal_adjoint(
    grad: &Tensor,
    shape: &Shape,
    offset: isize,
    [row_axis, column_axis]: [usize; 2],
) -> Result<Tensor> {
    let last = grad.rank() - 1;
    let (leading, length) = (&grad.dims()[..last], grad.dims()[last]);
    let (rows, columns) = (shape.dim(row_axis), shape.dim(column_axis));
    let flat_shape = grad.shape().with_dim(last, rows * columns);
    let (below, above) = (offset.min(0).unsigned_abs(), offset.max(0).unsigned_abs());
    let diagonal = match length {
        0 => slice_adjoint(grad, &flat_shape, last, 0, 0, 1)?,
        _ => {
            let (start, step) = (below * columns + above, columns + 1);
            let end = start + (length - 1) * step + 1;
            slice_adjoint(grad, &flat_shape, last, start, end as isize, step as isize)?
        }
    };
    let matrices = diagonal.reshape(&[leading, &[rows, columns]].concat()[..])?;
    matrices.movedim(&[last as isize, last as isize + 1], &[row_axis as isize, column_axis as isize])
}

/// Checks sizes, strides and offset for a tensor of `count` elements, and returns the shape.
pub(crate) fn strided_shape(
    name: &'static str,
    count: usize,
    (size, strides, offset): (&[usize], &[usize], usize),
) -> Result<Shape> {
    if size.len() != strides.len() {
        return Err(Error::invalid(name, format!("{} strides for {} sizes", strides.len(), size.len())));
    }
    let shape = Shape::new(size)?;
    let last_index = size.iter().zip(strides).try_fold(offset, |sum, (&size, &stride)| {
        sum.checked_add(size.saturating_sub(1).checked_mul(stride)?)
    });
    if shape.elements() > 0 && last_index.is_none_or(|last| last >= count) {
        let detail =
            format!("size {size:?}, strides {strides:?} and offset {offset} reach beyond {count} elements");
        return Err(Error::invalid(name, detail));
    }
    Ok(shape)
}

/// Returns the indices of the strided elements in a tensor of `count` elements, in the strided
/// shape.
pub(crate) fn strided_indices(
    count: usize,
    (shape, strides, offset): (Shape, &[usize], usize),
    device: &Device,
) -> Result<Tensor> {
    let offset = if shape.elements() > 0 { offset as i64 } else { 0 };
    let mut indices = Tensor::full((), offset, index_dtype(count), device)?;
    for (&size, &stride) in shape.dims().iter().zip(strides) {
        // The stride of an axis of size 1 is ignored; it may be out of range.
        let stride = if size > 1 { stride as i64 } else { 0 };
        let steps = Tensor::iota(size, indices.dtype(), 0, stride, device)?;
        indices = indices.unsqueeze(indices.rank())?.add(&steps)?;
    }
    Ok(indices)
}

/// Returns zeros of `shape` to which each element of `grad` is added at its original index.
pub(crate) fn strided_adjoint(
    grad: &Tensor,
    shape: &Shape,
    strides: &[usize],
    offset: usize,
) -> Result<Tensor> {
    let (count, part) = (shape.elements(), [grad.elements()]);
    let indices = strided_indices(count, (*grad.shape(), strides, offset), grad.device())?.reshape(part)?;
    let row = Shape::unchecked(&[count]);
    add_into_zeros(IndexAdd { axis: 0 }, &row, &indices, &grad.reshape(part)?)?.reshape(*shape)
}
