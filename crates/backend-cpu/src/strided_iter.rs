//! The index space of several tensors of the same shape. Neighboring axes are merged if this is
//! possible in all of the tensors.

use ternion_core::geometry::{Axis, axes_of, merge_axes, sort_slowest_first};
use ternion_core::{Layout, MAX_RANK};

/// Sizes and strides of `N` operands, slowest axis first. Rank 0 is a single element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StridedIter<const N: usize> {
    rank: usize,
    dims: [usize; MAX_RANK],
    strides: [[isize; MAX_RANK]; N],
    elements: usize,
}

impl<const N: usize> StridedIter<N> {
    /// Returns the common index space of `layouts`, in the memory order of the first one.
    #[inline]
    pub(crate) fn new(layouts: [&Layout; N]) -> StridedIter<N> {
        let elements = layouts[0].elements();
        if layouts.iter().all(|layout| layout.is_contiguous()) {
            return StridedIter::contiguous(elements);
        }
        let mut axes = axes_of(layouts);
        sort_slowest_first(&mut axes, 0);
        StridedIter::from_axes(&axes)
    }

    /// Returns the index space of `elements` elements that are contiguous in every operand.
    #[inline]
    fn contiguous(elements: usize) -> StridedIter<N> {
        let mut iter = StridedIter { rank: 1, dims: [0; MAX_RANK], strides: [[0; MAX_RANK]; N], elements };
        iter.dims[0] = elements;
        for strides in &mut iter.strides {
            strides[0] = 1;
        }
        iter
    }

    /// Returns the index space of these axes, slowest first, in this order.
    pub(crate) fn from_axes(axes: &[Axis<isize, N>]) -> StridedIter<N> {
        let elements = axes.iter().map(|(size, _)| size).product();
        let mut iter = StridedIter { rank: 0, dims: [0; MAX_RANK], strides: [[0; MAX_RANK]; N], elements };
        iter.rank = merge_axes(axes.iter().copied(), |axis, (size, strides)| {
            iter.dims[axis] = size;
            (0..N).for_each(|operand| iter.strides[operand][axis] = strides[operand]);
        });
        iter
    }

    #[inline]
    pub(crate) fn elements(&self) -> usize {
        self.elements
    }

    /// Returns the sizes and strides of operand `index`.
    #[inline]
    pub(crate) fn operand(&self, index: usize) -> OperandLayout<'_> {
        OperandLayout { dims: &self.dims[..self.rank], strides: &self.strides[index][..self.rank] }
    }
}

/// The sizes and strides of one operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperandLayout<'a> {
    pub(crate) dims: &'a [usize],
    pub(crate) strides: &'a [isize],
}

impl OperandLayout<'_> {
    /// Returns whether the elements are contiguous.
    #[inline]
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut step = 1;
        self.dims.iter().zip(self.strides).rev().all(|(&dim, &stride)| {
            let follows = stride == step;
            step = stride * dim as isize;
            follows
        })
    }

    /// Returns whether there is only one element, repeated.
    #[inline]
    pub(crate) fn is_broadcast(&self) -> bool {
        self.strides.iter().all(|&stride| stride == 0)
    }

    /// Returns the offset of the element with linear index `linear`, in elements from the first.
    #[inline]
    pub(crate) fn position(&self, mut linear: usize) -> isize {
        let mut position = 0;
        for (&dim, &stride) in self.dims.iter().zip(self.strides).rev() {
            position += (linear % dim) as isize * stride;
            linear /= dim;
        }
        position
    }

    /// Calls `visit(position, stride, length)` for each evenly spaced run of the `length` elements
    /// from index `start` on.
    #[inline]
    pub(crate) fn runs(&self, start: usize, length: usize, mut visit: impl FnMut(isize, isize, usize)) {
        if length == 0 {
            return;
        }
        let Some((&inner, outer_dims)) = self.dims.split_last() else {
            return visit(0, 1, length);
        };
        let (&stride, outer_strides) = self.strides.split_last().expect("as many strides as sizes");
        let outer = OperandLayout { dims: outer_dims, strides: outer_strides };
        let mut column = start % inner;
        let mut remaining = length;
        let mut cursor = Cursor::new(outer, start / inner);
        while remaining > 0 {
            let count = remaining.min(inner - column);
            visit(cursor.position + column as isize * stride, stride, count);
            remaining -= count;
            column = 0;
            if remaining > 0 {
                cursor.advance();
            }
        }
    }
}

/// A position in an operand that advances from element to element, in row-major order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    layout: OperandLayout<'a>,
    index: [usize; MAX_RANK],
    /// The offset of the element from the first.
    pub(crate) position: isize,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the element with linear index `linear`.
    #[inline]
    pub(crate) fn new(layout: OperandLayout<'a>, mut linear: usize) -> Cursor<'a> {
        let mut cursor = Cursor { layout, index: [0; MAX_RANK], position: 0 };
        for axis in (0..layout.dims.len()).rev() {
            cursor.index[axis] = linear % layout.dims[axis];
            cursor.position += cursor.index[axis] as isize * layout.strides[axis];
            linear /= layout.dims[axis];
        }
        cursor
    }

    /// Advances to the next element; from the last one, to the first.
    #[inline]
    pub(crate) fn advance(&mut self) {
        for axis in (0..self.layout.dims.len()).rev() {
            self.index[axis] += 1;
            self.position += self.layout.strides[axis];
            if self.index[axis] < self.layout.dims[axis] {
                return;
            }
            self.position -= self.layout.strides[axis] * self.layout.dims[axis] as isize;
            self.index[axis] = 0;
        }
    }
}
