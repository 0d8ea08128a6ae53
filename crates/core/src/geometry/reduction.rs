//! The axes of a reduction: those that stay, and those that are reduced.

use super::axes::{Axes, Stride, sort_slowest_first};
use crate::layout::Layout;
use crate::ops::reduce::ReduceOp;
use crate::shape::AxisSet;

/// In which order the reduced elements are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReductionOrder {
    /// In the order of the shape: their indices mean something.
    RowMajor,
    /// In the order of memory, which is the same each time.
    Memory,
}

impl ReductionOrder {
    /// That of a reduction: the order of the shape where an element's number is the result.
    #[inline]
    pub fn of(op: ReduceOp) -> ReductionOrder {
        match op {
            ReduceOp::ArgMax | ReduceOp::ArgMin => ReductionOrder::RowMajor,
            _ => ReductionOrder::Memory,
        }
    }
}

/// The axes of a reduction. Those that stay are in the input's order of memory, slowest first, so
/// that results whose elements are neighbors are computed together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReductionAxes<S> {
    /// Axes that stay, with strides in the output and in the input.
    pub kept: Axes<S, 2>,
    /// Axes that are reduced, with strides in the input.
    pub reduced: Axes<S, 1>,
}

impl<S: Stride> ReductionAxes<S> {
    /// Those of `input` reduced over `axes` into `output`, which has these axes with size 1 or lacks
    /// them.
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

    /// The number of results.
    #[inline]
    pub fn results(&self) -> usize {
        self.kept.iter().map(|(size, _)| size).product()
    }

    /// The number of elements that each result is computed from.
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
            let found = ReductionAxes::<isize>::new(&input, &output, axes(&[1]), ReductionOrder::Memory);
            assert_eq!(found.kept[..], [(2, [4, 12]), (4, [1, 1])]);
            assert_eq!(found.reduced[..], [(3, [4])]);
            assert_eq!((found.results(), found.elements_of_each()), (8, 3));
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
