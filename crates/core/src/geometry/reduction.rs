//! The axes of a reduction: kept and reduced ones.

use super::axes::{Axes, Stride, sort_slowest_first};
use crate::layout::Layout;
use crate::ops::reduce::ReduceOp;
use crate::shape::AxisSet;

/// The order of the reduced elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReductionOrder {
    /// In the order of the shape, because indices are part of the result.
    RowMajor,
    /// In memory order, which is the same in each run.
    Memory,
}

impl ReductionOrder {
    /// Returns the order for a reduction: the order of the shape if the result is an index.
    #[inline]
    pub fn of(op: ReduceOp) -> ReductionOrder {
        match op {
            ReduceOp::ArgMax | ReduceOp::ArgMin => ReductionOrder::RowMajor,
            _ => ReductionOrder::Memory,
        }
    }
}

/// The axes of a reduction. The kept axes are in the memory order of the input, slowest first, so
/// that results from neighboring elements are computed together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReductionAxes<S> {
    /// Kept axes, with strides in the output and in the input.
    pub kept: Axes<S, 2>,
    /// Reduced axes, with strides in the input.
    pub reduced: Axes<S, 1>,
}

impl<S: Stride> ReductionAxes<S> {
    /// Returns the axes of `input` reduced over `axes` to `output`, in which these axes have size 1
    /// or are removed.
    #[inline]
    pub fn new(input: &Layout, output: &Layout, axes: AxisSet, order: ReductionOrder) -> ReductionAxes<S> {
        let (mut kept, mut reduced) = (Axes::new(), Axes::new());
        let keeps_reduced = output.shape().rank() == input.shape().rank();
        let mut target = 0;
        for (axis, &size) in input.shape().dims().iter().enumerate() {
            let stride = S::from_isize(input.strides()[axis]);
            let is_reduced = axes.contains(axis);
            match is_reduced {
                true => reduced.push((size, [stride])),
                false => kept.push((size, [S::from_isize(output.strides()[target]), stride])),
            }
            target += usize::from(!is_reduced || keeps_reduced);
        }
        sort_slowest_first(&mut kept, 1);
        if order == ReductionOrder::Memory {
            sort_slowest_first(&mut reduced, 0);
        }
        ReductionAxes { kept, reduced }
    }

    /// Returns the number of results.
    #[inline]
    pub fn results(&self) -> usize {
        self.kept.iter().map(|(size, _)| size).product()
    }

    /// Returns the number of elements from which each result is computed.
    #[inline]
    pub fn elements_of_each(&self) -> usize {
        self.reduced.iter().map(|(size, _)| size).product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    fn row_major(dims: &[usize]) -> Layout {
        Layout::row_major(Shape::new(dims).unwrap())
    }

    fn axes(of: &[usize]) -> AxisSet {
        of.iter().fold(AxisSet::EMPTY, |set, &axis| set.with(axis))
    }

    #[test]
    fn outputs_may_keep_or_lack_reduced_axes() {
        let input = row_major(&[2, 3, 4]);
        for output in [row_major(&[2, 4]), row_major(&[2, 1, 4])] {
            let result = ReductionAxes::<isize>::new(&input, &output, axes(&[1]), ReductionOrder::Memory);
            assert_eq!(result.kept[..], [(2, [4, 12]), (4, [1, 1])]);
            assert_eq!(result.reduced[..], [(3, [4])]);
            assert_eq!((result.results(), result.elements_of_each()), (8, 3));
        }
        let all =
            ReductionAxes::<i64>::new(&input, &row_major(&[]), axes(&[0, 1, 2]), ReductionOrder::Memory);
        assert_eq!((all.kept.len(), all.results(), all.elements_of_each()), (0, 1, 24));
        let none = ReductionAxes::<i64>::new(&input, &input, AxisSet::EMPTY, ReductionOrder::Memory);
        assert_eq!((none.reduced.len(), none.results(), none.elements_of_each()), (0, 24, 1));
    }

    #[test]
    fn axes_follow_memory_where_indices_mean_nothing() {
        let input = row_major(&[2, 3, 4, 5]).permute(&[3, 2, 1, 0]).unwrap();
        let output = row_major(&[5, 3]);
        let by = |order| ReductionAxes::<i64>::new(&input, &output, axes(&[1, 3]), order);
        let memory = by(ReductionOrder::Memory);
        assert_eq!(memory.kept[..], [(3, [1, 20]), (5, [3, 1])]);
        assert_eq!(memory.reduced[..], [(2, [60]), (4, [5])]);
        let row_major = by(ReductionOrder::RowMajor);
        assert_eq!(row_major.kept, memory.kept);
        assert_eq!(row_major.reduced[..], [(4, [5]), (2, [60])]);
    }
}
