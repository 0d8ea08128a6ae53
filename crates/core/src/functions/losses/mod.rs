//! Losses of margins, distances, likelihoods and alignments, composed of ops. For half-precision
//! inputs they are computed and returned in f32.

mod classes;
mod ctc;
mod distances;
mod elements;
mod likelihoods;
mod margins;

pub use classes::MultiMarginOptions;
pub use ctc::CtcOptions;
pub use distances::TripletOptions;
pub use likelihoods::{GaussianNllOptions, PoissonNllOptions};

use crate::op::check;
use crate::ops::loss::broadcast_weight;
use crate::{DType, Error, Result, Tensor};

/// Returns `max(0, x)`, whose gradient at 0 is 1, as in PyTorch's margin losses.
fn hinge(x: &Tensor) -> Result<Tensor> {
    x.clamp(0.0, f64::INFINITY)
}

/// Checks that a further input of a loss is floating-point and converts it to `dtype`, in which the
/// loss is computed. An input with another accumulation dtype is an error.
fn float_input(op: &'static str, what: &'static str, x: &Tensor, dtype: DType) -> Result<Tensor> {
    check::float(op, what, &x.meta())?;
    match x.dtype().accumulator() == dtype {
        true => x.to_dtype(dtype),
        false => Err(Error::DTypeMismatch { op, left: dtype, right: x.dtype() }),
    }
}

/// Checks that a weight is floating-point and broadcasts to the losses, and converts it to their
/// dtype.
fn checked_weight(op: &'static str, weight: &Tensor, losses: &Tensor) -> Result<Tensor> {
    check::float(op, "weight", &weight.meta())?;
    broadcast_weight(op, "weight", weight, losses)
}
