//! The axes of an index space that several tensors of one shape share.

use crate::layout::Layout;
use crate::shape::MAX_RANK;
use smallvec::SmallVec;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// An axis of an index space: its size, and its stride in each of `N` tensors.
pub type Axis<S, const N: usize> = (usize, [S; N]);

/// A type for strides: kernels use `i64`, layouts `isize`.
pub trait Stride: Copy + PartialEq {
    /// Converts the stride of a layout.
    fn from_isize(stride: isize) -> Self;

    /// Returns the distance of `count` steps.
    #[must_use]
    fn times(self, count: usize) -> Self;

    /// Returns the absolute value of the distance.
    fn magnitude(self) -> u64;
}

macro_rules! stride {
    ($($type:ty),*) => {
        $(impl Stride for $type {
            #[inline(always)]
            fn from_isize(stride: isize) -> Self {
                stride as $type
            }
            #[inline(always)]
            fn times(self, count: usize) -> Self {
                self * count as $type
            }
            #[inline(always)]
            fn magnitude(self) -> u64 {
                self.unsigned_abs() as u64
            }
        })*
    };
}
stride!(i64, isize);

/// The axes of a shape, in a list of fixed size: a list of dynamic length would need function
/// calls, and an op on a few elements takes only 200 ns.
#[derive(Clone, Copy)]
pub struct Axes<S, const N: usize> {
    list: [Axis<S, N>; MAX_RANK],
    rank: usize,
}

impl<S: Stride, const N: usize> Axes<S, N> {
    /// Creates an empty list.
    #[inline]
    pub fn new() -> Axes<S, N> {
        Axes { list: [(1, [S::from_isize(0); N]); MAX_RANK], rank: 0 }
    }

    /// Appends an axis.
    ///
    /// # Panics
    /// If there are already `MAX_RANK` axes.
    #[inline]
    pub fn push(&mut self, axis: Axis<S, N>) {
        self.list[self.rank] = axis;
        self.rank += 1;
    }
}

impl<S: Stride, const N: usize> Default for Axes<S, N> {
    fn default() -> Self {
        Axes::new()
    }
}

impl<S, const N: usize> Deref for Axes<S, N> {
    type Target = [Axis<S, N>];

    #[inline]
    fn deref(&self) -> &[Axis<S, N>] {
        &self.list[..self.rank]
    }
}

impl<S, const N: usize> DerefMut for Axes<S, N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Axis<S, N>] {
        &mut self.list[..self.rank]
    }
}

impl<S: PartialEq, const N: usize> PartialEq for Axes<S, N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<S: fmt::Debug, const N: usize> fmt::Debug for Axes<S, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&**self).finish()
    }
}

impl<S: Stride, const N: usize> FromIterator<Axis<S, N>> for Axes<S, N> {
    /// # Panics
    /// If there are more than `MAX_RANK` axes.
    #[inline]
    fn from_iter<I: IntoIterator<Item = Axis<S, N>>>(axes: I) -> Self {
        let mut list = Axes::new();
        axes.into_iter().for_each(|axis| list.push(axis));
        list
    }
}

/// Returns the axes of `layouts`, which have one shape, in the order of the shape.
#[inline]
pub fn axes_of<S: Stride, const N: usize>(layouts: [&Layout; N]) -> Axes<S, N> {
    let mut axes = Axes::new();
    for (axis, &size) in layouts[0].shape().dims().iter().enumerate() {
        axes.push((size, layouts.map(|layout| S::from_isize(layout.strides()[axis]))));
    }
    axes
}

/// Sorts axes by the distance between their elements in the tensor with index `tensor`, the slowest
/// axis first. The sort is stable.
#[inline]
pub fn sort_slowest_first<S: Stride>(axes: &mut [(usize, impl AsRef<[S]>)], tensor: usize) {
    axes.sort_by_key(|(_, strides)| std::cmp::Reverse(strides.as_ref()[tensor].magnitude()));
}

/// Merges axes without changing the elements or their order: axes of size 1 are dropped, and
/// neighboring axes are joined into one if its elements are evenly spaced in every tensor. `axes`
/// are sorted slowest first. `add(index, axis)` is called for each axis of the result, and again
/// with the same index if the axis is joined with the next one. Returns the rank: 0 for a single
/// element.
///
/// (The caller stores each axis where it needs it: constructing a list or iterator of axes of this
/// length takes longer than merging.)
#[inline]
pub fn merge_axes<S: Stride, const N: usize>(
    axes: impl IntoIterator<Item = Axis<S, N>>,
    mut add: impl FnMut(usize, Axis<S, N>),
) -> usize {
    let mut rank = 0;
    let mut last = (1, [S::from_isize(0); N]);
    for (size, strides) in axes {
        if size == 1 {
            continue;
        }
        let (outer_size, outer_strides): Axis<S, N> = last;
        let is_even = |tensor: usize| outer_strides[tensor] == strides[tensor].times(size);
        if rank > 0 && (0..N).all(is_even) {
            last = (outer_size * size, strides);
        } else {
            last = (size, strides);
            rank += 1;
        }
        add(rank - 1, last);
    }
    rank
}

/// An axis of a tensor that is the concatenation of several tensors (parts) along one axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedAxis {
    /// The size in the tensor.
    pub size: usize,
    /// The strides of the tensor and of each part.
    pub strides: SmallVec<[isize; 8]>,
    /// Whether the parts are concatenated along this axis. All others have the same size in each
    /// part.
    pub joins: bool,
    /// Number of elements of this axis for each element of the first axis that was merged into it.
    pub inner: usize,
}

/// Returns the axes of `whole`, the concatenation of `parts` along `axis`: slowest first, and
/// merged as far as possible.
pub fn joined_axes<'a>(
    axis: usize,
    whole: &'a Layout,
    parts: impl Iterator<Item = &'a Layout> + Clone,
) -> SmallVec<[JoinedAxis; MAX_RANK]> {
    let mut axes: SmallVec<[JoinedAxis; MAX_RANK]> = SmallVec::new();
    for index in 0..whole.shape().rank() {
        let layouts = std::iter::once(whole).chain(parts.clone());
        let strides: SmallVec<[isize; 8]> = layouts.map(|layout| layout.strides()[index]).collect();
        let size = whole.shape().dim(index);
        let is_even = |outer: &JoinedAxis| {
            outer.strides.iter().zip(&strides).all(|(slow, step)| *slow == step * size as isize)
        };
        match axes.last_mut() {
            _ if index != axis && size == 1 => {}
            Some(outer) if index != axis && is_even(outer) => {
                outer.size *= size;
                outer.strides = strides;
                outer.inner *= size;
            }
            _ => axes.push(JoinedAxis { size, strides, joins: index == axis, inner: 1 }),
        }
    }
    axes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    fn merged_axes<S: Stride, const N: usize>(axes: &[Axis<S, N>]) -> Vec<Axis<S, N>> {
        let mut merged = vec![(0, [S::from_isize(0); N]); MAX_RANK];
        let rank = merge_axes(axes.iter().copied(), |index, axis| merged[index] = axis);
        merged.truncate(rank);
        merged
    }

    fn merged<const N: usize>(layouts: [&Layout; N]) -> Vec<Axis<isize, N>> {
        merged_axes(&axes_of(layouts))
    }

    fn row_major(dims: &[usize]) -> Layout {
        Layout::row_major(Shape::new(dims).unwrap())
    }

    #[test]
    fn evenly_spaced_axes_become_one() {
        let dense = row_major(&[4, 6, 8]);
        assert_eq!(merged([&dense, &dense]), [(192, [1, 1])]);
        let bias = row_major(&[8]).expand(dense.shape()).unwrap();
        assert_eq!(merged([&dense, &bias]), [(24, [8, 0]), (8, [1, 1])]);
        let every_other = dense.slice(2, 0, 8, 2).unwrap();
        assert_eq!(merged([&every_other]), [(96, [2])], "a spacing of 2 continues over the rows");
        let cut = dense.slice(2, 0, 7, 1).unwrap();
        assert_eq!(merged([&cut]), [(24, [8]), (7, [1])]);
        let reversed = dense.slice(0, 3, -1, -1).unwrap();
        assert_eq!(merged([&reversed]), [(4, [-48]), (48, [1])]);
    }

    #[test]
    fn axes_of_size_one_are_dropped() {
        assert_eq!(merged([&row_major(&[1, 3, 1, 5, 1])]), [(15, [1])]);
        assert_eq!(merged([&row_major(&[1, 1])]), [], "one element");
        assert_eq!(merged([&row_major(&[])]), [], "a number");
        assert_eq!(merged([&row_major(&[3, 0])]), [(3, [1]), (0, [1])], "no element");
    }

    #[test]
    fn order_of_memory_is_slowest_first() {
        let permuted = row_major(&[4, 6, 8]).permute(&[2, 0, 1]).unwrap();
        let mut axes = axes_of::<i64, 1>([&permuted]);
        assert_eq!(*axes, [(8, [1]), (4, [48]), (6, [8])]);
        sort_slowest_first(&mut axes, 0);
        assert_eq!(*axes, [(4, [48]), (6, [8]), (8, [1])]);
        assert_eq!(merged_axes(&axes), [(192, [1])]);
        let mut equal = [(2, [0i64]), (3, [-4]), (5, [4])];
        sort_slowest_first(&mut equal, 0);
        assert_eq!(equal, [(3, [-4]), (5, [4]), (2, [0])], "the order of equals is kept");
    }

    /// Merging changes neither the elements nor their order.
    #[test]
    fn merged_axes_visit_the_same_elements() {
        let base = row_major(&[3, 4, 5, 2]);
        let layouts = [
            base,
            base.permute(&[3, 1, 0, 2]).unwrap(),
            base.slice(1, 1, 3, 1).unwrap(),
            base.slice(3, 1, -1, -1).unwrap(),
            row_major(&[3, 1, 1, 2]).expand(base.shape()).unwrap(),
        ];
        for layout in layouts {
            let mut positions = vec![layout.offset() as isize];
            for (size, [stride]) in merged([&layout]) {
                let steps = |&start: &isize| (0..size).map(move |step| start + step as isize * stride);
                positions = positions.iter().flat_map(steps).collect();
            }
            let expected: Vec<isize> = layout.positions().map(|position| position as isize).collect();
            assert_eq!(positions, expected, "{layout:?}");
        }
    }

    #[test]
    fn parts_are_joined_along_one_axis_and_the_others_merge() {
        let (whole, part) = (row_major(&[2, 3, 5, 4]), row_major(&[2, 3, 1, 4]));
        let axes = joined_axes(2, &whole, [&part].into_iter());
        let axis = |size, strides: [isize; 2], joins, inner| JoinedAxis {
            size,
            strides: strides.into_iter().collect(),
            joins,
            inner,
        };
        // The rows after the joined axis are one step of it.
        assert_eq!(axes[..], [axis(6, [20, 4], false, 3), axis(20, [1, 1], true, 4)]);
        let first = joined_axes(0, &row_major(&[2, 3]), [&row_major(&[1, 3])].into_iter());
        assert_eq!(first[..], [axis(6, [1, 1], true, 3)]);
    }
}
