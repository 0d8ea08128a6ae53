//! Iteration spaces of tensors, independent of a device: what backends compute on the host before
//! they launch a kernel.
//!
//! [`merge_axes`] joins the axes of an index space, [`ReductionAxes`] divides them into kept and
//! reduced axes, [`padded_axes`] describes a tensor with a border, [`joined_axes`] a concatenated
//! tensor, and [`SlidingWindow`] the elements of an image that a window covers. Backends convert
//! the values to the types of their kernel parameters.

mod axes;
mod border;
mod reduction;
mod window;

pub use axes::{Axes, Axis, JoinedAxis, Stride, axes_of, joined_axes, merge_axes, sort_slowest_first};
pub use border::{PaddedAxis, padded_axes};
pub use reduction::{ReductionAxes, ReductionOrder};
pub use window::{SlidingWindow, sliding_windows};
