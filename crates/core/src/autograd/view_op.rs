//! What views are recorded as, so that they can be taken again of another tensor.

use crate::error::Result;
use crate::shape::{MAX_RANK, Shape};
use crate::tensor::Tensor;
use smallvec::SmallVec;

/// A view: a change of layout, recorded so that its gradient can be formed.
#[derive(Clone, Debug)]
pub enum ViewOp {
    /// Another shape of the same elements; also squeeze, unsqueeze and detachable aliases.
    Reshape,
    /// Axes in another order.
    Permute(SmallVec<[u8; MAX_RANK]>),
    /// Part of an axis, as [`Layout::slice`].
    Slice {
        /// The axis.
        axis: usize,
        /// First element.
        start: usize,
        /// End, not included.
        end: isize,
        /// Distance.
        step: isize,
    },
    /// Parts of these sizes along an axis: one output each.
    Split {
        /// The axis.
        axis: usize,
        /// The parts' sizes.
        sizes: Box<[usize]>,
    },
    /// Repetition along axes of size 1 and new leading axes.
    Expand,
    /// Windows along an axis, as [`Layout::unfold`].
    Unfold {
        /// The axis.
        axis: usize,
        /// Elements of a window.
        size: usize,
        /// Distance of windows.
        step: usize,
    },
    /// The diagonal of two axes as a last one, as [`Layout::diagonal`].
    Diagonal {
        /// How far above the main one.
        offset: isize,
        /// The axis of rows.
        first: usize,
        /// The axis of columns.
        second: usize,
    },
    /// Elements by their places in row-major order, as `Tensor::as_strided`.
    Strided {
        /// Distances along each axis.
        strides: SmallVec<[usize; MAX_RANK]>,
        /// The first element.
        offset: usize,
    },
}

impl ViewOp {
    /// Output `index`, of this shape, of the same view of another tensor.
    pub(super) fn again(&self, x: &Tensor, index: usize, shape: Shape) -> Result<Tensor> {
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
            &ViewOp::Diagonal { offset, first, second } => x.diagonal(offset, first, second),
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
