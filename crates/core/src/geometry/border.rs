//! A tensor inside a larger one, with a border around it.

use crate::layout::Layout;
use crate::shape::MAX_RANK;
use smallvec::SmallVec;

/// An axis of a padded tensor y, and of the tensor x inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaddedAxis {
    /// Number of elements of y.
    pub padded: usize,
    /// Number of elements of y before the first one of x.
    pub before: usize,
    /// Number of elements of x.
    pub inner: usize,
    /// The stride of x, in elements.
    pub x_stride: isize,
    /// The stride of y, in elements.
    pub y_stride: isize,
}

impl PaddedAxis {
    /// Merges this axis with `faster`, the next one, if `faster` has no border, and elements are
    /// evenly spaced over both axes in x and in y.
    fn merged(&self, faster: &PaddedAxis) -> Option<PaddedAxis> {
        let size = faster.padded as isize;
        let is_even = self.x_stride == faster.x_stride * size && self.y_stride == faster.y_stride * size;
        (faster.inner == faster.padded && is_even).then(|| PaddedAxis {
            padded: self.padded * faster.padded,
            before: self.before * faster.padded,
            inner: self.inner * faster.padded,
            ..*faster
        })
    }
}

/// Returns the axes of `y`, which is `x` with `amounts[axis]` elements before and after it along
/// each axis: slowest first, merged as far as possible, but at least one.
pub fn padded_axes(amounts: &[[usize; 2]], x: &Layout, y: &Layout) -> SmallVec<[PaddedAxis; MAX_RANK]> {
    let mut axes: SmallVec<[PaddedAxis; MAX_RANK]> = SmallVec::new();
    for (axis, &[before, _]) in amounts.iter().enumerate() {
        let current = PaddedAxis {
            padded: y.shape().dim(axis),
            before,
            inner: x.shape().dim(axis),
            x_stride: x.strides()[axis],
            y_stride: y.strides()[axis],
        };
        match axes.last_mut() {
            _ if current.padded == 1 && current.inner == 1 => {}
            Some(outer) => match outer.merged(&current) {
                Some(merged) => *outer = merged,
                None => axes.push(current),
            },
            None => axes.push(current),
        }
    }
    if axes.is_empty() {
        axes.push(PaddedAxis { padded: 1, before: 0, inner: 1, x_stride: 1, y_stride: 1 });
    }
    axes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    fn row_major(dims: &[usize]) -> Layout {
        Layout::row_major(Shape::new(dims).unwrap())
    }

    #[test]
    fn axes_without_a_border_are_merged() {
        let (x, y) = (row_major(&[2, 3, 4, 5]), row_major(&[2, 4, 4, 5]));
        let axes = padded_axes(&[[0, 0], [1, 0], [0, 0], [0, 0]], &x, &y);
        let batch = PaddedAxis { padded: 2, before: 0, inner: 2, x_stride: 60, y_stride: 80 };
        let rows = PaddedAxis { padded: 80, before: 20, inner: 60, x_stride: 1, y_stride: 1 };
        assert_eq!(axes.as_slice(), [batch, rows]);
        let axes = padded_axes(&[[0, 0]; 4], &x, &x);
        let line = PaddedAxis { padded: 120, before: 0, inner: 120, x_stride: 1, y_stride: 1 };
        assert_eq!(axes.as_slice(), [line]);
        assert_eq!(padded_axes(&[], &row_major(&[]), &row_major(&[])).len(), 1, "a number");
    }

    #[test]
    fn borders_and_gaps_keep_axes_apart() {
        let y = row_major(&[4, 7]);
        let x = row_major(&[3, 5]);
        assert_eq!(padded_axes(&[[0, 1], [1, 1]], &x, &y).len(), 2, "the faster axis has a border");
        let gaps = row_major(&[3, 14]).slice(1, 0, 7, 1).unwrap();
        assert_eq!(padded_axes(&[[1, 0], [0, 0]], &gaps, &y).len(), 2, "x is not dense");
    }
}
