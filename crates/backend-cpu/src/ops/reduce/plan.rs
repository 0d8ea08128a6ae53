//! How a reduction walks its input: which axes stay, which go, and which of them lies densest in memory.

use crate::access::Locked;
use crate::walk::Walk;
use smallvec::SmallVec;
use ternion_core::{AxisSet, Layout, MAX_RANK};

/// Whether positions within the reduced axes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Reduced axes in the order of the shape: positions mean something.
    Logical,
    /// Any order that is the same each time.
    Memory,
}

/// What an inner loop runs along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Along reduced axes: input as `[outputs, reduced]`.
    Rows,
    /// Along the densest axis that stays: input as `[outer, reduced, width]`.
    Columns {
        /// Elements of that axis.
        width: usize,
    },
}

/// The index spaces of a reduction.
pub(crate) struct ReductionPlan {
    /// The input, with the axes in the order of `form`.
    pub(crate) input: Walk<1>,
    /// The output, in the order in which results are formed.
    pub(crate) output: Walk<1>,
    pub(crate) outputs: usize,
    pub(crate) reduced: usize,
    pub(crate) form: Form,
}

type Axis = (usize, [isize; 2]);

impl ReductionPlan {
    /// The plan for `input` reduced over `axes` into `output`, which has these axes or lacks them.
    pub(crate) fn new(input: &Layout, output: &Layout, axes: AxisSet, order: Order) -> ReductionPlan {
        let (mut kept, mut gone) = axes_of(input, output, axes);
        let densest = |list: &[Axis]| {
            let dense = list.iter().filter(|(dim, strides)| *dim > 1 && strides[0] != 0);
            dense.map(|(_, strides)| strides[0].unsigned_abs()).min()
        };
        kept.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[0].unsigned_abs()));
        if order == Order::Memory {
            gone.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[0].unsigned_abs()));
        }
        let by_columns = match (densest(&kept), densest(&gone)) {
            (Some(kept), Some(gone)) => kept < gone,
            (Some(_), None) => true,
            _ => false,
        };
        let (outputs, reduced) = (product(&kept), product(&gone));
        let width_axes = if by_columns { dense_tail(&kept) } else { 0 };
        let (outer, inner) = kept.split_at(kept.len() - width_axes);
        let input_axes = outer.iter().chain(&gone).chain(inner).map(|&(dim, [stride, _])| (dim, [stride]));
        let input = Walk::in_order(&input_axes.collect::<SmallVec<[_; MAX_RANK]>>());
        let output_axes = kept.iter().map(|&(dim, [_, stride])| (dim, [stride]));
        let output = Walk::in_order(&output_axes.collect::<SmallVec<[_; MAX_RANK]>>());
        let form = if by_columns { Form::Columns { width: product(inner) } } else { Form::Rows };
        ReductionPlan { input, output, outputs, reduced, form }
    }
}

/// The axes that stay, with their strides in input and output, and those that go.
fn axes_of(
    input: &Layout,
    output: &Layout,
    axes: AxisSet,
) -> (SmallVec<[Axis; MAX_RANK]>, SmallVec<[Axis; MAX_RANK]>) {
    let (mut kept, mut gone) = (SmallVec::new(), SmallVec::new());
    let keeps_axes = output.shape().rank() == input.shape().rank();
    let mut next = 0;
    for axis in 0..input.shape().rank() {
        let (dim, stride) = (input.shape().dim(axis), input.strides()[axis]);
        if axes.contains(axis) {
            gone.push((dim, [stride, 0]));
        } else {
            kept.push((dim, [stride, output.strides()[if keeps_axes { axis } else { next }]]));
            next += 1;
        }
    }
    (kept, gone)
}

/// How many of the last axes lie evenly in the input, as one.
fn dense_tail(axes: &[Axis]) -> usize {
    let mut count = 1;
    while count < axes.len() {
        let ((_, [outer, _]), (dim, [inner, _])) = (axes[axes.len() - count - 1], axes[axes.len() - count]);
        if outer != inner * dim as isize {
            break;
        }
        count += 1;
    }
    count
}

fn product(axes: &[Axis]) -> usize {
    axes.iter().map(|(dim, _)| dim).product()
}

/// The layouts of a reduction's input and output, for [`ReductionPlan::new`].
pub(crate) fn plan(input: &Locked<'_>, output: &Locked<'_>, axes: AxisSet, order: Order) -> ReductionPlan {
    ReductionPlan::new(input.layout, output.layout, axes, order)
}
