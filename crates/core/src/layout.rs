//! Layouts of tensors in buffers. Every view op is a function from layout to layout; none accesses
//! data.

use crate::error::{Error, Result};
use crate::shape::{MAX_RANK, Shape};

/// The shape, strides and offset of a tensor in its buffer.
///
/// Element `[i, j, ..]` is at `offset + i * strides[0] + j * strides[1] + ..`, all in elements. A
/// stride of 0 repeats one element (broadcast), and negative strides reverse the order (flip).
#[derive(Clone, Copy, Debug, Eq)]
pub struct Layout {
    shape: Shape,
    strides: [isize; MAX_RANK],
    offset: usize,
    // Derived from the fields above, and used several times in every op.
    elements: usize,
    order: Order,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The strides are those of [`Shape::row_major_strides`].
    RowMajor,
    /// Equivalent to row-major: only strides of axes with size 1 differ, or there are no elements.
    Contiguous,
    Other,
}

impl PartialEq for Layout {
    /// Compares without a function call and without a branch per axis, like the comparison of
    /// [`Shape`]. (All strides beyond the rank are 0.)
    #[inline(always)]
    fn eq(&self, other: &Layout) -> bool {
        let mut differences = 0;
        for axis in 0..MAX_RANK {
            differences |= self.strides[axis] ^ other.strides[axis];
        }
        differences == 0 && self.offset == other.offset && self.shape == other.shape
    }
}

impl Layout {
    /// Returns the contiguous row-major layout of `shape`, at the start of a buffer.
    #[inline]
    pub fn row_major(shape: Shape) -> Layout {
        let (strides, elements) = (shape.row_major_strides(), shape.elements());
        Layout { shape, strides, offset: 0, elements, order: Order::RowMajor }
    }

    fn of(shape: Shape, strides: [isize; MAX_RANK], offset: usize) -> Layout {
        let mut order = Order::RowMajor;
        let mut step = 1isize;
        for axis in (0..shape.rank()).rev() {
            let dim = shape.dim(axis);
            if strides[axis] != step {
                order = if dim == 1 { Order::Contiguous } else { Order::Other };
                if dim != 1 {
                    break;
                }
            }
            step *= dim.max(1) as isize;
        }
        let elements = shape.elements();
        if elements == 0 && order == Order::Other {
            order = Order::Contiguous;
        }
        Layout { shape, strides, offset, elements, order }
    }

    /// Creates a layout from its parts.
    ///
    /// # Errors
    /// Returns an error if the number of strides differs from the rank, or if an element would be
    /// before the start of the buffer.
    pub fn new(shape: Shape, strides: &[isize], offset: usize) -> Result<Layout> {
        if strides.len() != shape.rank() {
            return Err(Error::invalid("layout", format!("{} strides for shape {shape:?}", strides.len())));
        }
        let mut padded_strides = [0; MAX_RANK];
        padded_strides[..strides.len()].copy_from_slice(strides);
        let layout = Layout::of(shape, padded_strides, offset);
        match layout.bounds() {
            Some(_) => Ok(layout),
            None => Err(Error::invalid(
                "layout",
                format!("shape {shape:?}, strides {strides:?}, offset {offset} leave the buffer"),
            )),
        }
    }

    /// Returns the shape.
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the distance between neighbors along each axis, in elements.
    #[inline]
    pub fn strides(&self) -> &[isize] {
        &self.strides[..self.shape.rank()]
    }

    /// Returns the offset of the first element, in elements.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the number of elements of the tensor (a repeated element counts each time).
    #[inline]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Returns the lowest and highest position of an element in the buffer, or `None` if one is
    /// negative or not representable. For an empty tensor, both are its offset.
    pub fn bounds(&self) -> Option<(usize, usize)> {
        if self.elements() == 0 {
            return Some((self.offset, self.offset));
        }
        let (mut low, mut high) = (self.offset as i128, self.offset as i128);
        for (&dim, &stride) in self.shape.dims().iter().zip(self.strides()) {
            let reach = (dim as i128 - 1) * stride as i128;
            if reach < 0 { low += reach } else { high += reach }
        }
        (low >= 0 && high < isize::MAX as i128).then_some((low as usize, high as usize))
    }

    /// Returns whether the elements are contiguous in row-major order.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.order != Order::Other
    }

    /// Returns whether this is exactly [`Layout::row_major`] of its shape.
    #[inline]
    pub fn is_row_major(&self) -> bool {
        self.order == Order::RowMajor && self.offset == 0
    }

    /// Returns whether two indices refer to the same element (because of a stride of 0, or a
    /// sliding window).
    ///
    /// The result is exact for two axes, and for layouts that the functions of this module derive
    /// from a layout without overlap. For other layouts it may be true although no elements
    /// overlap.
    pub fn overlaps_itself(&self) -> bool {
        if self.elements() <= 1 {
            return false;
        }
        let mut axes: smallvec::SmallVec<[(usize, usize); MAX_RANK]> = (0..self.shape.rank())
            .filter(|&axis| self.shape.dim(axis) > 1)
            .map(|axis| (self.strides[axis].unsigned_abs(), self.shape.dim(axis)))
            .collect();
        axes.sort_unstable();
        if let [(near, near_dim), (far, far_dim)] = axes[..] {
            // `i` steps along the near axis equal `j` steps along the far axis, with the smallest
            // positive `i = far / gcd` and `j = near / gcd`.
            let divisor = gcd(near, far).max(1);
            return near == 0 || (far / divisor < near_dim && near / divisor < far_dim);
        }
        let mut span = 0;
        for (stride, dim) in axes {
            if stride <= span {
                return true;
            }
            span += stride * (dim - 1);
        }
        false
    }

    /// Returns the non-overlapping and dense layout of the same shape whose axes have the same
    /// order in memory.
    ///
    /// Broadcast axes (stride 0) keep their position among the others.
    pub fn dense_like(&self) -> Layout {
        if self.is_contiguous() {
            return Layout::row_major(self.shape);
        }
        let rank = self.shape.rank();
        let mut order: smallvec::SmallVec<[usize; MAX_RANK]> = (0..rank).collect();
        let slowest_first = |&left: &usize, &right: &usize| {
            let (l, r) = (self.strides[left].unsigned_abs(), self.strides[right].unsigned_abs());
            if l == 0 || r == 0 { left.cmp(&right) } else { r.cmp(&l) }
        };
        // Insertion sort: with strides of 0 the comparison is not a total order, and library sorts
        // may panic.
        for end in 1..rank {
            let mut at = end;
            while at > 0 && slowest_first(&order[at - 1], &order[at]).is_gt() {
                order.swap(at - 1, at);
                at -= 1;
            }
        }
        let mut strides = [0; MAX_RANK];
        let mut step = 1isize;
        for &axis in order.iter().rev() {
            strides[axis] = step;
            step *= self.shape.dim(axis).max(1) as isize;
        }
        Layout::of(self.shape, strides, 0)
    }

    /// Returns whether the elements fill a range of memory that begins at the offset, each exactly
    /// once: dense in any order of axes, without negative strides.
    pub fn fills_its_range(&self) -> bool {
        let dense = self.dense_like();
        let strides = self.strides().iter().zip(dense.strides());
        self.is_contiguous() || self.shape.dims().iter().zip(strides).all(|(&dim, (a, b))| dim == 1 || a == b)
    }

    /// Permutes the axes: axis `i` of the result is axis `order[i]` of this layout.
    ///
    /// # Errors
    /// Returns an error if `order` does not contain every axis exactly once.
    pub fn permute(&self, order: &[usize]) -> Result<Layout> {
        let rank = self.shape.rank();
        let mut is_listed = [false; MAX_RANK];
        let complete = order.len() == rank
            && order.iter().all(|&axis| axis < rank && !std::mem::replace(&mut is_listed[axis], true));
        if !complete {
            return Err(Error::invalid("permute", format!("order {order:?} on shape {:?}", self.shape)));
        }
        let dims: smallvec::SmallVec<[usize; MAX_RANK]> =
            order.iter().map(|&axis| self.shape.dim(axis)).collect();
        let mut strides = [0; MAX_RANK];
        for (to, &from) in order.iter().enumerate() {
            strides[to] = self.strides[from];
        }
        Ok(Layout::of(Shape::unchecked(&dims), strides, self.offset))
    }

    /// Swaps axes `first` and `second`.
    ///
    /// # Panics
    /// If an axis does not exist.
    pub fn transpose(&self, first: usize, second: usize) -> Layout {
        let (a, b) = (self.shape.dim(first), self.shape.dim(second));
        let mut strides = self.strides;
        strides.swap(first, second);
        Layout::of(self.shape.with_dim(first, b).with_dim(second, a), strides, self.offset)
    }

    /// Selects every `step`-th element along `axis`, from `start` up to `end`, exclusive
    /// (`step > 0`), or down to `end`, exclusive (`step < 0`; `end` -1 includes the first element).
    ///
    /// Requires `0 <= start <= dim` and `end` in `-1..=dim`.
    ///
    /// # Errors
    /// Returns an error if the step is 0, or if the axis or a bound is out of range.
    pub fn slice(&self, axis: usize, start: usize, end: isize, step: isize) -> Result<Layout> {
        if axis >= self.shape.rank() {
            return Err(Error::Axis { op: "slice", axis: axis as isize, shape: Box::new(self.shape) });
        }
        let dim = self.shape.dim(axis);
        if step == 0 || start > dim || end < -1 || end > dim as isize {
            return Err(Error::invalid(
                "slice",
                format!("{start}..{end} step {step} on axis {axis} of shape {:?}", self.shape),
            ));
        }
        let span = if step > 0 { end - start as isize } else { start as isize - end };
        let count = if span <= 0 { 0 } else { (span as usize).div_ceil(step.unsigned_abs()) };
        if count > 0 && start >= dim {
            return Err(Error::invalid(
                "slice",
                format!("start {start} on axis {axis} of shape {:?}", self.shape),
            ));
        }
        let shape = self.shape.with_dim(axis, count);
        let (mut strides, mut offset) = (self.strides, self.offset);
        // The offset of a tensor without elements is kept: with the new offset it could be outside
        // its buffer.
        if shape.elements() > 0 {
            offset = (self.offset as isize + start as isize * self.strides[axis]) as usize;
            strides[axis] = if count == 1 { self.strides[axis] } else { self.strides[axis] * step };
        }
        Ok(Layout::of(shape, strides, offset))
    }

    /// Broadcasts this layout to `target`: repeats axes of size 1, and adds leading axes.
    ///
    /// # Errors
    /// Returns an error if this shape does not broadcast to `target`.
    #[inline]
    pub fn expand(&self, target: &Shape) -> Result<Layout> {
        if self.shape == *target {
            return Ok(*self);
        }
        if !self.shape.broadcasts_to(target) {
            return Err(Error::invalid("expand", format!("shape {:?} to {target:?}", self.shape)));
        }
        let lead = target.rank() - self.shape.rank();
        let mut strides = [0; MAX_RANK];
        for axis in 0..self.shape.rank() {
            let same = self.shape.dim(axis) == target.dim(lead + axis);
            strides[lead + axis] = if same { self.strides[axis] } else { 0 };
        }
        Ok(Layout::of(*target, strides, self.offset))
    }

    /// Removes the axes of size 1 in `drop`.
    pub fn squeeze(&self, drop: crate::shape::AxisSet) -> Layout {
        let mut strides = [0; MAX_RANK];
        let mut rank = 0;
        for axis in 0..self.shape.rank() {
            if !drop.contains(axis) {
                strides[rank] = self.strides[axis];
                rank += 1;
            }
        }
        Layout::of(drop.drop_from(&self.shape), strides, self.offset)
    }

    /// Inserts a new axis of size 1 before position `axis`.
    ///
    /// # Errors
    /// Returns an error if the rank would exceed the maximum, or if `axis` is out of range.
    pub fn unsqueeze(&self, axis: usize) -> Result<Layout> {
        let shape = self.shape.with_axis(axis, 1)?;
        let mut strides = [0; MAX_RANK];
        strides[..axis].copy_from_slice(&self.strides[..axis]);
        strides[axis] = 1;
        strides[axis + 1..shape.rank()].copy_from_slice(&self.strides[axis..self.shape.rank()]);
        Ok(Layout::of(shape, strides, self.offset))
    }

    /// Returns the layout of the same elements in another shape, if no copy is needed.
    ///
    /// `shape` must have the same number of elements.
    pub fn reshape(&self, shape: &Shape) -> Option<Layout> {
        if self.shape == *shape {
            return Some(*self);
        }
        if self.elements() == 0 || self.is_contiguous() {
            return Some(Layout { offset: self.offset, ..Layout::row_major(*shape) });
        }
        let mut strides = [0; MAX_RANK];
        let from: smallvec::SmallVec<[usize; MAX_RANK]> =
            (0..self.shape.rank()).filter(|&axis| self.shape.dim(axis) != 1).collect();
        let (mut old, mut new) = (0, 0);
        // Old and new axes are matched in groups whose sizes have equal products. A group needs no
        // copy if the elements of its old axes are evenly spaced.
        while old < from.len() && new < shape.rank() {
            let (mut old_end, mut new_end) = (old + 1, new + 1);
            let (mut old_product, mut new_product) = (self.shape.dim(from[old]), shape.dim(new));
            while old_product != new_product {
                if old_product < new_product {
                    old_product *= self.shape.dim(from[old_end]);
                    old_end += 1;
                } else {
                    new_product *= shape.dim(new_end);
                    new_end += 1;
                }
            }
            let is_evenly_spaced = (old..old_end - 1).all(|at| {
                self.strides[from[at]] == self.strides[from[at + 1]] * self.shape.dim(from[at + 1]) as isize
            });
            if !is_evenly_spaced {
                return None;
            }
            let mut step = self.strides[from[old_end - 1]];
            for axis in (new..new_end).rev() {
                strides[axis] = step;
                step *= shape.dim(axis) as isize;
            }
            (old, new) = (old_end, new_end);
        }
        Some(Layout::of(*shape, strides, self.offset))
    }

    /// Returns windows of `size` along `axis`, with distance `step`, as a new last axis: a view in
    /// which windows share elements.
    ///
    /// # Errors
    /// Returns an error if the step is 0, if the size is larger than the axis, or if there would be
    /// too many axes.
    pub fn unfold(&self, axis: usize, size: usize, step: usize) -> Result<Layout> {
        if axis >= self.shape.rank() {
            return Err(Error::Axis { op: "unfold", axis: axis as isize, shape: Box::new(self.shape) });
        }
        let dim = self.shape.dim(axis);
        if step == 0 || size > dim {
            return Err(Error::invalid(
                "unfold",
                format!("windows of {size}, step {step}, on axis {axis} of shape {:?}", self.shape),
            ));
        }
        let shape = self.shape.with_dim(axis, (dim - size) / step + 1).with_axis(self.shape.rank(), size)?;
        let mut strides = self.strides;
        strides[self.shape.rank()] = self.strides[axis];
        strides[axis] *= step as isize;
        Ok(Layout::of(shape, strides, self.offset))
    }

    /// Replaces `row_axis` and `column_axis` by their diagonal, as the last axis. `offset` 0 is the
    /// main diagonal; a positive one begins that many columns later, a negative one that many rows
    /// later.
    ///
    /// # Errors
    /// Returns an error if an axis does not exist, or if both are the same.
    pub fn diagonal(&self, offset: isize, row_axis: usize, column_axis: usize) -> Result<Layout> {
        let rank = self.shape.rank();
        if row_axis.max(column_axis) >= rank || row_axis == column_axis {
            let detail = format!("axes {row_axis} and {column_axis} of shape {:?}, expected two", self.shape);
            return Err(Error::invalid("diagonal", detail));
        }
        let (below, above) = (offset.min(0).unsigned_abs(), offset.max(0).unsigned_abs());
        let [rows, columns] = [row_axis, column_axis].map(|axis| self.shape.dim(axis));
        let mut dims = [0; MAX_RANK];
        let mut strides = [0; MAX_RANK];
        for (to, from) in (0..rank).filter(|&axis| axis != row_axis && axis != column_axis).enumerate() {
            (dims[to], strides[to]) = (self.shape.dim(from), self.strides[from]);
        }
        dims[rank - 2] = rows.saturating_sub(below).min(columns.saturating_sub(above));
        strides[rank - 2] = self.strides[row_axis].saturating_add(self.strides[column_axis]);
        let shape = Shape::unchecked(&dims[..rank - 1]);
        // As in `slice`, the offset of a tensor without elements is kept.
        let skipped = match shape.elements() {
            0 => 0,
            _ => below as isize * self.strides[row_axis] + above as isize * self.strides[column_axis],
        };
        Ok(Layout::of(shape, strides, (self.offset as isize + skipped) as usize))
    }

    /// Returns this layout with the offset increased by `elements`.
    #[must_use]
    pub fn shifted(mut self, elements: usize) -> Layout {
        self.offset += elements;
        self
    }

    /// Iterates over the positions of the elements in the buffer, in row-major order of their
    /// indices. For tests, oracles and display.
    pub fn positions(&self) -> impl Iterator<Item = usize> + '_ {
        let elements = self.elements();
        (0..elements).map(move |linear| {
            let mut rest = linear;
            let mut position = self.offset as isize;
            for axis in (0..self.shape.rank()).rev() {
                let dim = self.shape.dim(axis);
                position += (rest % dim) as isize * self.strides[axis];
                rest /= dim;
            }
            position as usize
        })
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
