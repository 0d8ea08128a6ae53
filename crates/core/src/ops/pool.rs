//! Pooling over windows of two axes.

use crate::backend::Meta;
use crate::error::{Error, Result};
use crate::op::{Output, Outputs, Rule, check};
use crate::ops::conv::Window;
use crate::{DType, Shape};

/// Largest element of each window; NaN if there is one. Padding counts as -infinity and never wins a position. Input: x `[batch, channels, height,
/// width]`, floating; padding at most half the kernel. Outputs: y `[batch, channels, oh, ow]`; position of the winner in its image plane (`row * width + col`, the first one, i32,
/// auxiliary).
#[derive(Clone, Debug)]
pub struct MaxPool2d {
    /// The window.
    pub window: Window,
}

/// Each `dy` goes to its winner. Inputs: positions (i32), dy. Output: `[batch, channels, height, width]`, dtype of dy.
#[derive(Clone, Debug)]
pub struct MaxPool2dGrad {
    /// The window of the forward pass.
    pub window: Window,
    /// Height and width of the input.
    pub size: [usize; 2],
}

/// Mean of each window, with dilation 1. Input: x `[batch, channels, height, width]`, floating; padding at most half the kernel. Output: `[batch,
/// channels, oh, ow]`.
#[derive(Clone, Debug)]
pub struct AvgPool2d {
    /// The window.
    pub window: Window,
    /// Whether padding counts in the divisor (PyTorch's default).
    pub count_include_pad: bool,
}

/// Each `dy` is shared among its window. Input: dy. Output: `[batch, channels, height, width]`.
#[derive(Clone, Debug)]
pub struct AvgPool2dGrad {
    /// The window of the forward pass.
    pub window: Window,
    /// Whether padding counted in the divisor.
    pub count_include_pad: bool,
    /// Height and width of the input.
    pub size: [usize; 2],
}

fn pooled(op: &'static str, x: &Meta<'_>, window: &Window) -> Result<Shape> {
    check::float(op, "input", x)?;
    let [batch, channels, height, width] = x.shape().to_array(op)?;
    let [oh, ow] = output_size(op, window, [height, width])?;
    Shape::new(&[batch, channels, oh, ow])
}

fn output_size(op: &'static str, window: &Window, size: [usize; 2]) -> Result<[usize; 2]> {
    if (0..2).any(|axis| window.padding[axis] * 2 > window.kernel[axis]) {
        return Err(Error::invalid(
            op,
            format!("padding {:?} is more than half of kernel {:?}", window.padding, window.kernel),
        ));
    }
    window.output_size(op, size)
}

impl Rule for MaxPool2d {
    fn name(&self) -> &'static str {
        "max_pool2d"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("max_pool2d", inputs, 1)?;
        let shape = pooled("max_pool2d", &inputs[0], &self.window)?;
        Ok([Output::fresh(shape, inputs[0].dtype), Output::fresh(shape, DType::I32)].into_iter().collect())
    }
}

impl Rule for MaxPool2dGrad {
    fn name(&self) -> &'static str {
        "max_pool2d_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "max_pool2d_grad";
        check::count(name, inputs, 2)?;
        check::dtype(name, "positions", &inputs[0], DType::I32)?;
        grad(name, &inputs[1], &self.window, self.size)?;
        check::shape(name, "positions", &inputs[0], *inputs[1].shape())?;
        grad(name, &inputs[1], &self.window, self.size)
    }
}

impl Rule for AvgPool2d {
    fn name(&self) -> &'static str {
        "avg_pool2d"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("avg_pool2d", inputs, 1)?;
        if self.window.dilation != [1, 1] {
            return Err(Error::invalid(
                "avg_pool2d",
                format!("dilation {:?}, expected [1, 1]", self.window.dilation),
            ));
        }
        let shape = pooled("avg_pool2d", &inputs[0], &self.window)?;
        Ok(Outputs::from_buf([Output::fresh(shape, inputs[0].dtype)]))
    }
}

impl Rule for AvgPool2dGrad {
    fn name(&self) -> &'static str {
        "avg_pool2d_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("avg_pool2d_grad", inputs, 1)?;
        grad("avg_pool2d_grad", &inputs[0], &self.window, self.size)
    }
}

fn grad(op: &'static str, dy: &Meta<'_>, window: &Window, size: [usize; 2]) -> Result<Outputs> {
    check::float(op, "grad_output", dy)?;
    let [batch, channels, _, _] = dy.shape().to_array(op)?;
    let [oh, ow] = output_size(op, window, size)?;
    check::shape(op, "grad_output", dy, Shape::unchecked(&[batch, channels, oh, ow]))?;
    Ok(Outputs::from_buf([Output::fresh(Shape::new(&[batch, channels, size[0], size[1]])?, dy.dtype)]))
}
