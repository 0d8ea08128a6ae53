//! Softmax and its logarithm.

use crate::backend::Meta;
use crate::error::Result;
use crate::op::{Output, Outputs, Rule, check};

/// `y = exp(x - max x) / sum exp(x - max x)` along `axis`. Input: x, floating. Output: same shape and dtype, may take x's place.
///
/// A slice of only -infinity gives NaN, as 0/0 says.
#[derive(Clone, Debug)]
pub struct Softmax {
    /// The axis that sums to 1.
    pub axis: usize,
}

/// `dx = y * (dy - sum(y * dy))` along `axis`. Inputs: y, dy. Output: as y, may take dy's place.
#[derive(Clone, Debug)]
pub struct SoftmaxGrad {
    /// The axis that sums to 1.
    pub axis: usize,
}

/// `y = (x - max x) - log sum exp(x - max x)` along `axis`. Input: x, floating. Output: same shape and dtype, may take x's place.
#[derive(Clone, Debug)]
pub struct LogSoftmax {
    /// The axis whose exponentials sum to 1.
    pub axis: usize,
}

/// `dx = dy - exp(y) * sum(dy)` along `axis`. Inputs: y, dy. Output: as y, may take dy's place.
#[derive(Clone, Debug)]
pub struct LogSoftmaxGrad {
    /// The axis whose exponentials sum to 1.
    pub axis: usize,
}

fn forward(op: &'static str, axis: usize, inputs: &[Meta<'_>]) -> Result<Outputs> {
    check::count(op, inputs, 1)?;
    check::float(op, "input", &inputs[0])?;
    check::axis(op, axis, inputs[0].shape())?;
    Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), inputs[0].dtype, 0)]))
}

fn gradient(op: &'static str, axis: usize, inputs: &[Meta<'_>]) -> Result<Outputs> {
    check::count(op, inputs, 2)?;
    check::float(op, "output", &inputs[0])?;
    check::axis(op, axis, inputs[0].shape())?;
    check::same_dtype(op, &inputs[0], &inputs[1])?;
    check::shape(op, "grad_output", &inputs[1], *inputs[0].shape())?;
    Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), inputs[0].dtype, 1)]))
}

impl Rule for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        forward("softmax", self.axis, inputs)
    }
}

impl Rule for SoftmaxGrad {
    fn name(&self) -> &'static str {
        "softmax_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        gradient("softmax_grad", self.axis, inputs)
    }
}

impl Rule for LogSoftmax {
    fn name(&self) -> &'static str {
        "log_softmax"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        forward("log_softmax", self.axis, inputs)
    }
}

impl Rule for LogSoftmaxGrad {
    fn name(&self) -> &'static str {
        "log_softmax_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        gradient("log_softmax_grad", self.axis, inputs)
    }
}
