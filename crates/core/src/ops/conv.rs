//! Convolutions, and the patch matrices they are composed from.

use crate::Shape;
use crate::backend::Meta;
use crate::error::{Error, Result};
use crate::op::{Output, Outputs, Rule, check};

/// A window that slides over two axes `[height, width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Size of the window.
    pub kernel: [usize; 2],
    /// Distance of neighbouring windows.
    pub stride: [usize; 2],
    /// Zeros (for max pooling: -infinity) around the image, on both sides.
    pub padding: [usize; 2],
    /// Distance of neighbouring elements in a window.
    pub dilation: [usize; 2],
}

impl Window {
    /// How many windows fit on an image of `size`: `(size + 2 padding - dilation (kernel - 1) - 1) / stride + 1`.
    ///
    /// # Errors
    /// Zero kernel, stride or dilation, or a window larger than the padded image.
    pub fn output_size(&self, op: &'static str, size: [usize; 2]) -> Result<[usize; 2]> {
        let mut output = [0; 2];
        for axis in 0..2 {
            let (kernel, stride, dilation) = (self.kernel[axis], self.stride[axis], self.dilation[axis]);
            if kernel == 0 || stride == 0 || dilation == 0 {
                return Err(Error::invalid(
                    op,
                    format!(
                        "kernel {:?}, stride {:?} and dilation {:?} must be at least 1",
                        self.kernel, self.stride, self.dilation
                    ),
                ));
            }
            let too_large = || {
                Error::invalid(
                    op,
                    format!(
                        "window {:?} with dilation {:?} is larger than image {size:?} with padding {:?}",
                        self.kernel, self.dilation, self.padding
                    ),
                )
            };
            let span = (kernel - 1)
                .checked_mul(dilation)
                .and_then(|span| span.checked_add(1))
                .ok_or_else(too_large)?;
            let padded = self.padding[axis]
                .checked_mul(2)
                .and_then(|both| both.checked_add(size[axis]))
                .ok_or_else(too_large)?;
            output[axis] = padded.checked_sub(span).ok_or_else(too_large)? / stride + 1;
        }
        Ok(output)
    }
}

/// `y[n, (c, i, j), (oh, ow)] = x[n, c, oh * stride + i * dilation - padding, ow * ..]`, 0 outside. Input: x `[batch, channels, height, width]`, floating. Output:
/// `[batch, channels * kh * kw, oh * ow]`.
#[derive(Clone, Debug)]
pub struct Im2col {
    /// The window.
    pub window: Window,
}

/// The adjoint of [`Im2col`]: each pixel is the sum of the patch elements that show it. Input: columns `[batch, channels * kh * kw, oh * ow]`.
/// Output: `[batch, channels, height, width]`.
#[derive(Clone, Debug)]
pub struct Col2im {
    /// The window.
    pub window: Window,
    /// Height and width of the image.
    pub size: [usize; 2],
}

/// Window and groups of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvConfig {
    /// The window; its kernel is the weight's.
    pub window: Window,
    /// Into how many independent parts the channels are split.
    pub groups: usize,
}

/// `y[n, o, oh, ow] = bias[o] + sum_{c, i, j} x[n, c, ..] * weight[o, c, i, j]` (cross-correlation, as in PyTorch).
///
/// Inputs: x `[batch, channels, height, width]`, weight `[out_channels, channels / groups, kh, kw]`, one floating dtype; bias
/// `[out_channels]` if `bias`. Output: `[batch, out_channels, oh, ow]`.
#[derive(Clone, Debug)]
pub struct Conv2d {
    /// Window and groups.
    pub config: ConvConfig,
    /// Whether a bias follows the weight.
    pub bias: bool,
}

/// Gradient of [`Conv2d`] for its input (a transposed convolution). Inputs: weight, dy. Output: `[batch, channels, height, width]`.
#[derive(Clone, Debug)]
pub struct Conv2dGradInput {
    /// Window and groups.
    pub config: ConvConfig,
    /// Height and width of the input.
    pub size: [usize; 2],
}

/// Gradient of [`Conv2d`] for its weight. Inputs: x, dy. Output: `[out_channels, channels / groups, kh, kw]`.
#[derive(Clone, Debug)]
pub struct Conv2dGradWeight {
    /// Window and groups.
    pub config: ConvConfig,
}

fn divisible(op: &'static str, channels: usize, groups: usize) -> Result<usize> {
    if groups == 0 || channels % groups != 0 {
        return Err(Error::invalid(op, format!("{channels} channels are no multiple of {groups} groups")));
    }
    Ok(channels / groups)
}

impl Rule for Im2col {
    fn name(&self) -> &'static str {
        "im2col"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("im2col", inputs, 1)?;
        check::float("im2col", "input", &inputs[0])?;
        let [batch, channels, height, width] = inputs[0].shape().to_array("im2col")?;
        let [oh, ow] = self.window.output_size("im2col", [height, width])?;
        let [kh, kw] = self.window.kernel;
        let shape = Shape::new(&[batch, channels * kh * kw, oh * ow])?;
        Ok(Outputs::from_buf([Output::fresh(shape, inputs[0].dtype)]))
    }
}

impl Rule for Col2im {
    fn name(&self) -> &'static str {
        "col2im"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("col2im", inputs, 1)?;
        check::float("col2im", "columns", &inputs[0])?;
        let [batch, rows, _] = inputs[0].shape().to_array("col2im")?;
        let [oh, ow] = self.window.output_size("col2im", self.size)?;
        let [kh, kw] = self.window.kernel;
        let channels = divisible("col2im", rows, kh * kw)?;
        check::shape("col2im", "columns", &inputs[0], Shape::new(&[batch, rows, oh * ow])?)?;
        let shape = Shape::new(&[batch, channels, self.size[0], self.size[1]])?;
        Ok(Outputs::from_buf([Output::fresh(shape, inputs[0].dtype)]))
    }
}

impl Rule for Conv2d {
    fn name(&self) -> &'static str {
        "conv2d"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "conv2d";
        check::count(name, inputs, 2 + usize::from(self.bias))?;
        check::float(name, "input", &inputs[0])?;
        for meta in &inputs[1..] {
            check::same_dtype(name, &inputs[0], meta)?;
        }
        let [batch, channels, height, width] = inputs[0].shape().to_array(name)?;
        let [out_channels, _, _, _] = inputs[1].shape().to_array(name)?;
        let per_group = divisible(name, channels, self.config.groups)?;
        divisible(name, out_channels, self.config.groups)?;
        let [kh, kw] = self.config.window.kernel;
        check::shape(name, "weight", &inputs[1], Shape::new(&[out_channels, per_group, kh, kw])?)?;
        if self.bias {
            check::shape(name, "bias", &inputs[2], Shape::unchecked(&[out_channels]))?;
        }
        let [oh, ow] = self.config.window.output_size(name, [height, width])?;
        Ok(Outputs::from_buf([Output::fresh(Shape::new(&[batch, out_channels, oh, ow])?, inputs[0].dtype)]))
    }
}

impl Rule for Conv2dGradInput {
    fn name(&self) -> &'static str {
        "conv2d_grad_input"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "conv2d_grad_input";
        check::count(name, inputs, 2)?;
        check::float(name, "weight", &inputs[0])?;
        check::same_dtype(name, &inputs[0], &inputs[1])?;
        let [out_channels, per_group, kh, kw] = inputs[0].shape().to_array(name)?;
        let [batch, _, _, _] = inputs[1].shape().to_array(name)?;
        divisible(name, out_channels, self.config.groups)?;
        if [kh, kw] != self.config.window.kernel {
            return Err(Error::invalid(
                name,
                format!("weight of shape {:?} for kernel {:?}", inputs[0].shape(), self.config.window.kernel),
            ));
        }
        let [oh, ow] = self.config.window.output_size(name, self.size)?;
        check::shape(name, "grad_output", &inputs[1], Shape::new(&[batch, out_channels, oh, ow])?)?;
        let shape = Shape::new(&[batch, per_group * self.config.groups, self.size[0], self.size[1]])?;
        Ok(Outputs::from_buf([Output::fresh(shape, inputs[0].dtype)]))
    }
}

impl Rule for Conv2dGradWeight {
    fn name(&self) -> &'static str {
        "conv2d_grad_weight"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "conv2d_grad_weight";
        check::count(name, inputs, 2)?;
        check::float(name, "input", &inputs[0])?;
        check::same_dtype(name, &inputs[0], &inputs[1])?;
        let [batch, channels, height, width] = inputs[0].shape().to_array(name)?;
        let [_, out_channels, _, _] = inputs[1].shape().to_array(name)?;
        let per_group = divisible(name, channels, self.config.groups)?;
        divisible(name, out_channels, self.config.groups)?;
        let [oh, ow] = self.config.window.output_size(name, [height, width])?;
        check::shape(name, "grad_output", &inputs[1], Shape::new(&[batch, out_channels, oh, ow])?)?;
        let [kh, kw] = self.config.window.kernel;
        Ok(Outputs::from_buf([Output::fresh(
            Shape::new(&[out_channels, per_group, kh, kw])?,
            inputs[0].dtype,
        )]))
    }
}
