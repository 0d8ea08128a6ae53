//! Softmax and log-softmax.

use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::dispatch::apply_one;
use crate::error::Result;
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::{Axis, Tensor};

/// `y = exp(x - max x) / sum exp(x - max x)` along `axis`. Input: x, floating. Output: same shape
/// and dtype, may reuse x's buffer.
///
/// A slice in which all elements are -infinity gives NaN (0/0).
#[derive(Clone, Debug)]
pub struct Softmax {
    /// The axis along which the result sums to 1.
    pub axis: usize,
}

/// `dx = y * (dy - sum(y * dy))` along `axis`. Inputs: y, dy. Output: y's shape and dtype, may
/// reuse dy's buffer.
#[derive(Clone, Debug)]
pub struct SoftmaxGrad {
    /// The axis along which y sums to 1.
    pub axis: usize,
}

/// `y = (x - max x) - log sum exp(x - max x)` along `axis`. Input: x, floating. Output: same shape
/// and dtype, may reuse x's buffer.
#[derive(Clone, Debug)]
pub struct LogSoftmax {
    /// The axis along which the exponentials of the result sum to 1.
    pub axis: usize,
}

/// `dx = dy - exp(y) * sum(dy)` along `axis`. Inputs: y, dy. Output: y's shape and dtype, may reuse
/// dy's buffer.
#[derive(Clone, Debug)]
pub struct LogSoftmaxGrad {
    /// The axis along which the exponentials of y sum to 1.
    pub axis: usize,
}

fn infer_forward(op: &'static str, axis: usize, inputs: &[Meta<'_>]) -> Result<Outputs> {
    check::count(op, inputs, 1)?;
    check::float(op, "input", &inputs[0])?;
    check::axis(op, axis, inputs[0].shape())?;
    Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), inputs[0].dtype, 0)]))
}

fn infer_gradient(op: &'static str, axis: usize, inputs: &[Meta<'_>]) -> Result<Outputs> {
    check::count(op, inputs, 2)?;
    check::float(op, "output", &inputs[0])?;
    check::axis(op, axis, inputs[0].shape())?;
    check::same_dtype(op, &inputs[0], &inputs[1])?;
    check::shape(op, "grad_output", &inputs[1], *inputs[0].shape())?;
    Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), inputs[0].dtype, 1)]))
}

/// Computes `x - max x` in the accumulator dtype; `None` if there are no elements.
fn subtract_max(x: &Tensor, axis: usize) -> Result<Option<Tensor>> {
    if x.elements() == 0 {
        return Ok(None);
    }
    let x = x.to_dtype(x.dtype().accumulator())?;
    // The shift cancels out: no gradient needs to flow through the maximum.
    x.sub(&x.max_keep(axis)?.detach()).map(Some)
}

/// Converts the output and its gradient to the accumulator dtype.
fn widen(inputs: &[Tensor]) -> Result<[Tensor; 2]> {
    let dtype = inputs[0].dtype().accumulator();
    Ok([inputs[0].to_dtype(dtype)?, inputs[1].to_dtype(dtype)?])
}

impl Rule for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        infer_forward("softmax", self.axis, inputs)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let Some(shifted) = subtract_max(&inputs[0], self.axis)? else { return Ok(inputs.to_vec()) };
        let exp = shifted.exp()?;
        Ok(vec![exp.div(&exp.sum_keep(self.axis)?)?.to_dtype(inputs[0].dtype())?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::OUTPUTS)
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let grad = |dy| apply_one(SoftmaxGrad { axis: self.axis }, &[context.output(0)?, dy]);
        Ok(Grads::from_elem(grad_outputs[0].as_ref().map(grad).transpose()?, 1))
    }
}

impl Rule for SoftmaxGrad {
    fn name(&self) -> &'static str {
        "softmax_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        infer_gradient("softmax_grad", self.axis, inputs)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let [y, dy] = widen(inputs)?;
        let inner = y.mul(&dy)?.sum_keep(self.axis)?;
        Ok(vec![y.mul(&dy.sub(&inner)?)?.to_dtype(inputs[0].dtype())?])
    }
}

impl Rule for LogSoftmax {
    fn name(&self) -> &'static str {
        "log_softmax"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        infer_forward("log_softmax", self.axis, inputs)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let Some(shifted) = subtract_max(&inputs[0], self.axis)? else { return Ok(inputs.to_vec()) };
        let log_sum = shifted.exp()?.sum_keep(self.axis)?.log()?;
        Ok(vec![shifted.sub(&log_sum)?.to_dtype(inputs[0].dtype())?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::OUTPUTS)
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let grad = |dy| apply_one(LogSoftmaxGrad { axis: self.axis }, &[context.output(0)?, dy]);
        Ok(Grads::from_elem(grad_outputs[0].as_ref().map(grad).transpose()?, 1))
    }
}

impl Rule for LogSoftmaxGrad {
    fn name(&self) -> &'static str {
        "log_softmax_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        infer_gradient("log_softmax_grad", self.axis, inputs)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let [y, dy] = widen(inputs)?;
        let total = dy.sum_keep(self.axis)?;
        Ok(vec![dy.sub(&y.exp()?.mul(&total)?)?.to_dtype(inputs[0].dtype())?])
    }
}

impl Tensor {
    /// Computes the softmax along `axis`: `exp(x) / sum(exp(x))`, positive weights that sum to 1.
    ///
    /// Each slice's maximum is subtracted first, so that large logits do not overflow. A slice in
    /// which all elements are -infinity gives NaN.
    ///
    /// # Errors
    /// Returns an error if `axis` does not exist, or if the dtype is not floating.
    pub fn softmax(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "softmax")?;
        apply_one(Softmax { axis }, &[self])
    }

    /// Computes the logarithm of [`softmax`](Tensor::softmax), accurately also where the softmax is
    /// close to 0.
    ///
    /// # Errors
    /// Returns an error if `axis` does not exist, or if the dtype is not floating.
    pub fn log_softmax(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        let axis = axis.into().resolve(self.shape(), "log_softmax")?;
        apply_one(LogSoftmax { axis }, &[self])
    }
}
