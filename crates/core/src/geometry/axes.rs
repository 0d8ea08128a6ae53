//! The axes of an index space that several tensors of one shape share.

use crate::layout::Layout;
use crate::shape::MAX_RANK;
use smallvec::SmallVec;

/// An axis of an index space: its size, and its stride in each of `N` tensors.
pub type Axis<S, const N: usize> = (usize, [S; N]);

/// A type that strides are kept in: kernels take `i64`, layouts `isize`.
pub trait Stride: Copy + PartialEq {
    /// The stride of a layout.
    fn from_isize(stride: isize) -> Self;

    /// The distance of `count` steps.
    #[must_use]
    fn times(self, count: usize) -> Self;

    /// The distance without its sign.
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

/// The axes of `layouts`, which have one shape, in the order of the shape.
#[inline]
pub fn axes_of<S: Stride, const N: usize>(layouts: [&Layout; N]) -> SmallVec<[Axis<S, N>; MAX_RANK]> {
    let mut axes = SmallVec::new();
    for (axis, &size) in layouts[0].shape().dims().iter().enumerate() {
        axes.push((size, layouts.map(|layout| S::from_isize(layout.strides()[axis]))));
    }
    axes
}

/// Orders axes by how far apart their elements are in tensor number `tensor`, the slowest axis
/// first; axes that are equal in this keep their order.
#[inline]
pub fn sort_slowest_first<S: Stride, const N: usize>(axes: &mut [Axis<S, N>], tensor: usize) {
    axes.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[tensor].magnitude()));
}

/// As few axes as the same elements in the same order need: without those of size 1, and
/// neighbors joined into one where its elements are evenly spaced in every tensor. `axes` come
/// slowest first. Nothing is left of a single element.
#[inline]
pub fn merged_axes<S: Stride, const N: usize>(
    axes: impl IntoIterator<Item = Axis<S, N>>,
) -> impl Iterator<Item = Axis<S, N>> {
    let mut axes = axes.into_iter().filter(|(size, _)| *size != 1);
    let mut next = axes.next();
    std::iter::from_fn(move || {
        let mut current = next.take()?;
        for (size, strides) in axes.by_ref() {
            let (outer_size, outer_strides) = current;
            if !(0..N).all(|tensor| outer_strides[tensor] == strides[tensor].times(size)) {
                next = Some((size, strides));
                break;
            }
            current = (outer_size * size, strides);
        }
        Some(current)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    fn merged<const N: usize>(layouts: [&Layout; N]) -> Vec<Axis<isize, N>> {
        merged_axes(axes_of(layouts)).collect()
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
        assert_eq!(merged([&every_other]), [(96, [2])], "a spacing of 2 goes on over the rows");
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
        assert_eq!(axes.as_slice(), [(8, [1]), (4, [48]), (6, [8])]);
        sort_slowest_first(&mut axes, 0);
        assert_eq!(axes.as_slice(), [(4, [48]), (6, [8]), (8, [1])]);
        assert_eq!(merged_axes(axes).collect::<Vec<_>>(), [(192, [1])]);
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
            for (size, [stride]) in merged_axes(axes_of::<isize, 1>([&layout])) {
                let steps = |&start: &isize| (0..size).map(move |step| start + step as isize * stride);
                positions = positions.iter().flat_map(steps).collect();
            }
            let expected: Vec<isize> = layout.positions().map(|position| position as isize).collect();
            assert_eq!(positions, expected, "{layout:?}");
        }
    }
}
