//! The traversal of a reduction's input: which axes are kept, which are reduced, and which of them
//! has the smallest stride.

use crate::access::Locked;
use crate::strided_iter::StridedIter;
use ternion_core::geometry::{Axes, Axis, ReductionAxes, ReductionOrder};
use ternion_core::{AxisSet, Layout};

/// The axis of the inner loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoopAxis {
    /// Along reduced axes: input as `[outputs, reduced]`.
    Rows,
    /// Along the kept axis with the smallest stride: input as `[outer, reduced, width]`.
    Columns {
        /// The number of elements of that axis.
        width: usize,
    },
}

/// The index spaces of a reduction.
pub(crate) struct ReductionPlan {
    /// The input, with the axes in the order of `loop_axis`.
    pub(crate) input: StridedIter<1>,
    /// The output, in the order in which results are computed.
    pub(crate) output: StridedIter<1>,
    pub(crate) outputs: usize,
    pub(crate) reduced: usize,
    pub(crate) loop_axis: LoopAxis,
}

impl ReductionPlan {
    /// Creates the plan for `input` reduced over `axes` into `output`, which keeps these axes with
    /// size 1 or lacks them.
    pub(crate) fn new(
        input: &Layout,
        output: &Layout,
        axes: AxisSet,
        order: ReductionOrder,
    ) -> ReductionPlan {
        let axes = ReductionAxes::<isize>::new(input, output, axes, order);
        let (outputs, reduced) = (axes.results(), axes.elements_of_each());
        let ReductionAxes { kept, reduced: reduced_axes } = axes;
        let by_columns = match (smallest_stride(&kept, 1), smallest_stride(&reduced_axes, 0)) {
            (Some(kept), Some(reduced_axes)) => kept < reduced_axes,
            (Some(_), None) => true,
            _ => false,
        };
        let width_axes = if by_columns { mergeable_tail(&kept) } else { 0 };
        let (outer, inner) = kept.split_at(kept.len() - width_axes);
        let of_input = |&(size, [_, stride]): &Axis<isize, 2>| (size, [stride]);
        let input_axes =
            outer.iter().map(of_input).chain(reduced_axes.iter().copied()).chain(inner.iter().map(of_input));
        let input = StridedIter::from_axes(&input_axes.collect::<Axes<_, 1>>());
        let output_axes = kept.iter().map(|&(size, [stride, _])| (size, [stride]));
        let output = StridedIter::from_axes(&output_axes.collect::<Axes<_, 1>>());
        let width = inner.iter().map(|(size, _)| size).product();
        let loop_axis = if by_columns { LoopAxis::Columns { width } } else { LoopAxis::Rows };
        ReductionPlan { input, output, outputs, reduced, loop_axis }
    }
}

/// Returns the smallest stride of any of the axes in tensor `tensor`.
fn smallest_stride<const N: usize>(axes: &[Axis<isize, N>], tensor: usize) -> Option<usize> {
    let varying = axes.iter().filter(|(size, strides)| *size > 1 && strides[tensor] != 0);
    varying.map(|(_, strides)| strides[tensor].unsigned_abs()).min()
}

/// Returns how many of the last axes have a common stride in the input, so that they can be merged
/// into one.
fn mergeable_tail(axes: &[Axis<isize, 2>]) -> usize {
    let mut count = 1;
    while count < axes.len() {
        let ((_, [_, outer]), (size, [_, inner])) = (axes[axes.len() - count - 1], axes[axes.len() - count]);
        if outer != inner * size as isize {
            break;
        }
        count += 1;
    }
    count
}

/// Returns the plan of a reduction for the layouts of its input and output.
pub(crate) fn plan(
    input: &Locked<'_>,
    output: &Locked<'_>,
    axes: AxisSet,
    order: ReductionOrder,
) -> ReductionPlan {
    ReductionPlan::new(input.layout, output.layout, axes, order)
}
