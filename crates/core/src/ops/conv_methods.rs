//! Public methods for convolutions. The ops are in `conv`.

use super::conv::{
    Col2im, Conv2d, Conv2dGradInput, ConvConfig, Im2col, Window, check_channels, check_divisible,
};
use crate::dispatch::apply_one;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::functions::convolutions::{conv2d_of_integers, transposed_of_integers};
use crate::op::check;
use crate::precision;
use crate::tensor::Tensor;
use crate::{DType, Shape};

/// Options of [`conv2d`](Tensor::conv2d), `[height, width]` each. The defaults are stride 1, no
/// padding, no dilation, one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2dOptions {
    /// Distance between neighboring windows.
    pub stride: [usize; 2],
    /// Number of zeros on each side of the image.
    pub padding: [usize; 2],
    /// Distance between neighboring elements of a window.
    pub dilation: [usize; 2],
    /// Number of independent groups into which the channels are split.
    pub groups: usize,
}

impl Default for Conv2dOptions {
    fn default() -> Self {
        Conv2dOptions { stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1 }
    }
}

impl Conv2dOptions {
    fn config(&self, kernel: [usize; 2]) -> ConvConfig {
        let Conv2dOptions { stride, padding, dilation, groups } = *self;
        ConvConfig { window: Window { kernel, stride, padding, dilation }, groups, tf32: false }
    }
}

/// Options of [`conv1d`](Tensor::conv1d), as in [`Conv2dOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv1dOptions {
    /// Distance between neighboring windows.
    pub stride: usize,
    /// Number of zeros on each side.
    pub padding: usize,
    /// Distance between neighboring elements of a window.
    pub dilation: usize,
    /// Number of independent groups into which the channels are split.
    pub groups: usize,
}

impl Default for Conv1dOptions {
    fn default() -> Self {
        Conv1dOptions { stride: 1, padding: 0, dilation: 1, groups: 1 }
    }
}

impl Conv1dOptions {
    /// Performs the checks of conv2d beforehand, so that errors contain the caller's
    /// one-dimensional values.
    fn check(&self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
        let op = "conv1d";
        let [_, channels, length] = x.shape().to_array(op)?;
        let [out_channels, _, kernel] = weight.shape().to_array(op)?;
        check_operands(op, x, weight, bias)?;
        check_divisible(op, channels, self.groups)?;
        check_divisible(op, out_channels, self.groups)?;
        check_channels(op, &x.meta(), &weight.meta(), weight.shape().dim(1).saturating_mul(self.groups))?;
        check_bias(op, bias, out_channels)?;
        let Conv1dOptions { stride, padding, dilation, .. } = *self;
        if [kernel, stride, dilation].contains(&0) {
            let detail =
                format!("kernel {kernel}, stride {stride} and dilation {dilation} must be at least 1");
            return Err(Error::invalid(op, detail));
        }
        let span = (kernel - 1).checked_mul(dilation).and_then(|span| span.checked_add(1));
        let padded = padding.checked_mul(2).and_then(|both| both.checked_add(length));
        if span.is_some_and(|span| padded.is_some_and(|padded| span <= padded)) {
            return Ok(());
        }
        let detail = format!(
            "window {kernel} with dilation {dilation} is larger than input {length} with padding {padding}"
        );
        Err(Error::invalid(op, detail))
    }
}

/// Checks that all operands have the same numeric dtype.
pub(crate) fn check_operands(
    op: &'static str,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<()> {
    if x.dtype() == DType::Bool {
        return Err(Error::dtype(op, "input", DType::Bool, "a number"));
    }
    for tensor in [Some(weight), bias].into_iter().flatten() {
        check::same_dtype(op, &x.meta(), &tensor.meta())?;
    }
    Ok(())
}

pub(crate) fn check_bias(op: &'static str, bias: Option<&Tensor>, out_channels: usize) -> Result<()> {
    match bias {
        Some(bias) => check::shape(op, "bias", &bias.meta(), Shape::new(&[out_channels])?),
        None => Ok(()),
    }
}

/// Options of [`conv_transpose2d`](Tensor::conv_transpose2d), `[height, width]` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvTranspose2dOptions {
    /// Distance between neighboring windows on the output.
    pub stride: [usize; 2],
    /// Number of rows and columns removed from each side of the output.
    pub padding: [usize; 2],
    /// Number of rows and columns added at the end of the output. This selects one of the output
    /// sizes that a convolution with these options maps to the size of the input. Must be less than
    /// stride or dilation.
    pub output_padding: [usize; 2],
    /// Distance between neighboring elements of a window.
    pub dilation: [usize; 2],
    /// Number of independent groups into which the channels are split.
    pub groups: usize,
}

impl Default for ConvTranspose2dOptions {
    fn default() -> Self {
        ConvTranspose2dOptions {
            stride: [1, 1],
            padding: [0, 0],
            output_padding: [0, 0],
            dilation: [1, 1],
            groups: 1,
        }
    }
}

impl Tensor {
    /// Computes the cross-correlation over two axes, as in PyTorch:
    /// `y[n, o, ..] = bias[o] + sum x[n, c, ..] * weight[o, c, ..]`. Integers wrap.
    ///
    /// # Shapes
    /// `[batch, channels, height, width]`, weight `[out_channels, channels / groups, kh, kw]`, bias
    /// `[out_channels]` -> `[batch, out_channels, oh, ow]` with
    /// `oh = (height + 2 padding - dilation (kh - 1) - 1) / stride + 1`.
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes are incompatible, or if the window is larger than the
    /// padded image.
    pub fn conv2d(&self, weight: &Tensor, bias: Option<&Tensor>, options: Conv2dOptions) -> Result<Tensor> {
        let [_, _, kh, kw] = weight.shape().to_array("conv2d")?;
        let op = Conv2d { config: options.config([kh, kw]), bias: bias.is_some() };
        if !self.dtype().is_float() {
            return conv2d_of_integers(&op, self, weight, bias);
        }
        match bias {
            Some(bias) => apply_one(op, &[self, weight, bias]),
            None => apply_one(op, &[self, weight]),
        }
    }

    /// Computes the cross-correlation over one axis: a [`conv2d`](Tensor::conv2d) on images of
    /// height 1.
    ///
    /// # Shapes
    /// `[batch, channels, length]`, weight `[out_channels, channels / groups, kernel]`, bias
    /// `[out_channels]` ->
    /// `[batch, out_channels, (length + 2 padding - dilation (kernel - 1) - 1) / stride + 1]`.
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes are incompatible, or if the window is larger than the
    /// padded input.
    pub fn conv1d(&self, weight: &Tensor, bias: Option<&Tensor>, options: Conv1dOptions) -> Result<Tensor> {
        match precision::current() {
            None => self.conv1d_uncast(weight, bias, options),
            Some(scope) => {
                let (x, weight, bias) = (scope.operand(self)?, scope.operand(weight)?, scope.optional(bias)?);
                x.conv1d_uncast(&weight, bias.as_ref(), options)
            }
        }
    }

    fn conv1d_uncast(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: Conv1dOptions,
    ) -> Result<Tensor> {
        options.check(self, weight, bias)?;
        let options = Conv2dOptions {
            stride: [1, options.stride],
            padding: [0, options.padding],
            dilation: [1, options.dilation],
            groups: options.groups,
        };
        self.unsqueeze(2)?.conv2d(&weight.unsqueeze(2)?, bias, options)?.squeeze(2)
    }

    /// Computes the transposed convolution, as in PyTorch: the gradient of
    /// [`conv2d`](Tensor::conv2d) with respect to its input.
    ///
    /// # Shapes
    /// `[batch, channels, height, width]`, weight `[channels, out_channels / groups, kh, kw]`, bias
    /// `[out_channels]` -> `[batch, out_channels, oh, ow]` with
    /// `oh = (height - 1) stride - 2 padding + dilation (kh - 1) + output_padding + 1`.
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes are incompatible, if the output padding is not less
    /// than stride or dilation, or if the output has no pixels.
    pub fn conv_transpose2d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: ConvTranspose2dOptions,
    ) -> Result<Tensor> {
        match precision::current() {
            None => self.conv_transpose2d_uncast(weight, bias, options),
            Some(scope) => {
                let (x, weight, bias) = (scope.operand(self)?, scope.operand(weight)?, scope.optional(bias)?);
                x.conv_transpose2d_uncast(&weight, bias.as_ref(), options)
            }
        }
    }

    fn conv_transpose2d_uncast(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: ConvTranspose2dOptions,
    ) -> Result<Tensor> {
        let op = "conv_transpose2d";
        let [_, channels, height, width] = self.shape().to_array(op)?;
        let [_, per_group, kh, kw] = weight.shape().to_array(op)?;
        check_operands(op, self, weight, bias)?;
        check_channels(op, &self.meta(), &weight.meta(), weight.shape().dim(0))?;
        check_divisible(op, channels, options.groups)?;
        let out_channels = per_group.saturating_mul(options.groups);
        check_bias(op, bias, out_channels)?;
        let size = transposed_size([height, width], [kh, kw], &options)?;
        let ConvTranspose2dOptions { stride, padding, dilation, groups, .. } = options;
        let window = Window { kernel: [kh, kw], stride, padding, dilation };
        let config = ConvConfig { window, groups, tf32: false };
        let y = if !self.dtype().is_float() {
            transposed_of_integers(self, weight, &config, size)?
        } else if (0..2).all(|axis| options.output_padding[axis] < stride[axis]) {
            apply_one(Conv2dGradInput { config, size }, &[weight, self])?
        } else {
            compute_and_crop(self, weight, config, size)?
        };
        let Some(bias) = bias else { return Ok(y) };
        y.add(&bias.reshape([out_channels, 1, 1])?)
    }

    /// Returns the patches under a sliding window, as the columns of one matrix per image
    /// (PyTorch's `unfold`).
    ///
    /// # Shapes
    /// `[batch, channels, height, width] -> [batch, channels * kh * kw, oh * ow]`.
    ///
    /// # Errors
    /// Returns an error if the rank is not 4, or if the window is larger than the padded image.
    pub fn im2col(&self, window: Window) -> Result<Tensor> {
        if self.dtype().is_float() {
            return apply_one(Im2col { window }, &[self]);
        }
        let shape = Im2col { window }.output_shape(&self.meta())?;
        patches(self, &window)?.reshape(shape)
    }

    /// Sums columns into images of `size`: the adjoint of [`im2col`](Tensor::im2col) (PyTorch's
    /// `fold`).
    ///
    /// # Shapes
    /// `[batch, channels * kh * kw, oh * ow] -> [batch, channels, size[0], size[1]]`.
    ///
    /// # Errors
    /// Returns an error if the columns do not have the shape for such images, or if the dtype is
    /// not floating.
    pub fn col2im(&self, window: Window, size: [usize; 2]) -> Result<Tensor> {
        apply_one(Col2im { window, size }, &[self])
    }
}

/// Returns a contiguous copy of all windows of images, `[batch, channels, kh, kw, oh, ow]`.
pub(crate) fn patches(x: &Tensor, window: &Window) -> Result<Tensor> {
    let zero: Scalar = if x.dtype() == DType::Bool { false.into() } else { 0.into() };
    window.views(x, zero)?.permute([0, 1, 4, 5, 2, 3])?.contiguous()
}

/// Returns the height and width of a transposed convolution's output.
fn transposed_size(
    size: [usize; 2],
    kernel: [usize; 2],
    options: &ConvTranspose2dOptions,
) -> Result<[usize; 2]> {
    if [kernel, options.stride, options.dilation].concat().contains(&0) {
        let ConvTranspose2dOptions { stride, dilation, .. } = options;
        let detail =
            format!("kernel {kernel:?}, stride {stride:?} and dilation {dilation:?} must be at least 1");
        return Err(Error::invalid("conv_transpose2d", detail));
    }
    let mut output = [0; 2];
    for axis in 0..2 {
        let (stride, dilation) = (options.stride[axis], options.dilation[axis]);
        if options.output_padding[axis] >= stride.max(dilation) {
            return Err(Error::invalid(
                "conv_transpose2d",
                format!(
                    "output padding {:?} must be below stride {:?} or dilation {:?}",
                    options.output_padding, options.stride, options.dilation
                ),
            ));
        }
        let uncropped = |size: usize, kernel: usize| {
            let reach = (size.checked_sub(1)?).checked_mul(stride)?;
            let span = kernel.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
            reach.checked_add(span)?.checked_add(options.output_padding[axis])
        };
        let cropped = uncropped(size[axis], kernel[axis])
            .and_then(|full| full.checked_sub(options.padding[axis].checked_mul(2)?))
            .filter(|&size| size > 0);
        output[axis] = cropped.ok_or_else(|| {
            Error::invalid(
                "conv_transpose2d",
                format!("input {size:?} and kernel {kernel:?} with {options:?} leave no output"),
            )
        })?;
    }
    Ok(output)
}

/// Computes a transposed convolution whose output padding is not less than the stride, so that it
/// is not the gradient of a convolution. The full output is computed without cropping, then padded
/// and cropped to size.
fn compute_and_crop(x: &Tensor, weight: &Tensor, config: ConvConfig, size: [usize; 2]) -> Result<Tensor> {
    let [_, _, height, width] = x.sizes()?;
    let Window { kernel, stride, padding, dilation } = config.window;
    let full = [(0, height), (1, width)]
        .map(|(axis, length)| (length - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis] + 1);
    let window = Window { padding: [0, 0], ..config.window };
    let y = apply_one(Conv2dGradInput { config: ConvConfig { window, ..config }, size: full }, &[weight, x])?;
    let missing = [0, 1].map(|axis| (padding[axis] + size[axis]).saturating_sub(full[axis]));
    let y = y.pad(&[[0, 0], [0, 0], [0, missing[0]], [0, missing[1]]], 0.0)?;
    y.narrow(2, padding[0], size[0])?.narrow(3, padding[1], size[1])
}
