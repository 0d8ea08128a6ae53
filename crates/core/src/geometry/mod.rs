//! How tensors are walked, without a device: what backends work out on the host before a kernel runs.
//!
//! [`merge_axes`] joins the axes of an index space, [`ReductionAxes`] divides them into those that
//! stay and those that are reduced, [`padded_axes`] describes a tensor with a border, and
//! [`joined_axes`] are those of a tensor made of parts, and [`SlidingWindow`] says which elements of an image a window covers. Backends convert the numbers to
//! the types that their kernels take.

mod axes;
mod border;
mod reduction;
mod window;

pub use axes::{Axes, Axis, JoinedAxis, Stride, axes_of, joined_axes, merge_axes, sort_slowest_first};
pub use border::{PaddedAxis, padded_axes};
pub use reduction::{ReductionAxes, ReductionOrder};
pub use window::{SlidingWindow, sliding_windows};
