//! Recorded views, which can also be applied to another tensor.

use crate::error::Result;
use crate::shape::{MAX_RANK, Shape};
use crate::tensor::Tensor;
use smallvec::SmallVec;

/// A view: a change of layout, recorded so that its gradient can be computed.
#[derive(Clone, Debug)]
pub enum ViewOp {
    /// The same elements in another shape; also squeeze, unsqueeze and aliases.
    Reshape,
    /// Axes in another order.
    Permute(SmallVec<[u8; MAX_RANK]>),
    /// A range of an axis, as [`Layout::slice`].
    Slice {
        /// The axis.
        axis: usize,
        /// The first element.
        start: usize,
        /// The end, exclusive. With a negative step, -1 is the position before element 0.
        end: isize,
        /// The step.
        step: isize,
    },
    /// Consecutive ranges of an axis, with one output each.
    Split {
        /// The axis.
        axis: usize,
        /// The sizes of the ranges.
        sizes: Box<[usize]>,
    },
    /// Repetition along axes of size 1 and new leading axes.
    Expand,
    /// Windows along an axis, as [`Layout::unfold`].
    Unfold {
        /// The axis.
        axis: usize,
        /// The number of elements of a window.
        size: usize,
        /// The distance between the starts of consecutive windows, in elements.
        step: usize,
    },
    /// The diagonal of two axes as the last axis, as [`Layout::diagonal`].
    Diagonal {
        /// The offset above the main diagonal.
        offset: isize,
        /// The axis of the rows.
        row_axis: usize,
        /// The axis of the columns.
        column_axis: usize,
    },
    /// Elements by their indices in row-major order, as `Tensor::as_strided`.
    Strided {
        /// The distance between neighbors along each axis, in elements.
        strides: SmallVec<[usize; MAX_RANK]>,
        /// The index of the first element.
        offset: usize,
    },
}

impl ViewOp {
    /// Applies the view to another tensor, and returns output `index`, which has this shape.
    pub(super) fn replay(&self, x: &Tensor, index: usize, shape: Shape) -> Result<Tensor> {
        match self {
            ViewOp::Reshape => x.reshape(shape),
            ViewOp::Permute(order) => {
                let order: SmallVec<[isize; MAX_RANK]> = order.iter().map(|&axis| axis as isize).collect();
                x.permute(&order[..])
            }
            &ViewOp::Slice { axis, start, end, step } => x.slice_axis(axis, start, end, step),
            ViewOp::Split { axis, sizes } => x.narrow(*axis, sizes[..index].iter().sum(), sizes[index]),
            ViewOp::Expand => x.expand(shape),
            &ViewOp::Unfold { axis, size, step } => x.unfold(axis, size, step),
            &ViewOp::Diagonal { offset, row_axis, column_axis } => x.diagonal(offset, row_axis, column_axis),
            ViewOp::Strided { strides, offset } => x.as_strided(shape.dims(), strides, *offset),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            ViewOp::Reshape => "reshape",
            ViewOp::Permute(_) => "permute",
            ViewOp::Slice { .. } => "slice",
            ViewOp::Split { .. } => "split",
            ViewOp::Expand => "expand",
            ViewOp::Unfold { .. } => "unfold",
            ViewOp::Diagonal { .. } => "diagonal",
            ViewOp::Strided { .. } => "as_strided",
        }
    }
}
