//! Convolutions over one and three axes, composed of two-dimensional ones, and convolutions of
//! integers.

use crate::error::{Error, Result};
use crate::op::Rule;
use crate::ops::conv::{Col2im, Conv2d, ConvConfig, Window, check_channels, check_divisible};
use crate::ops::conv_methods::{check_bias, check_operands, patches};
use crate::precision;
use crate::{Conv2dOptions, ConvTranspose2dOptions, Tensor};

/// Options of [`conv3d`](Tensor::conv3d), with `[depth, height, width]` each. The defaults are
/// stride 1, dilation 1, one group and no padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv3dOptions {
    /// Distance between neighboring windows.
    pub stride: [usize; 3],
    /// Number of zeros added on both sides of each axis.
    pub padding: [usize; 3],
    /// Distance between neighboring elements of a window.
    pub dilation: [usize; 3],
    /// Number of independent groups into which the channels are split.
    pub groups: usize,
}

impl Default for Conv3dOptions {
    fn default() -> Self {
        Conv3dOptions { stride: [1; 3], padding: [0; 3], dilation: [1; 3], groups: 1 }
    }
}

/// Options of [`conv_transpose1d`](Tensor::conv_transpose1d); fields as in
/// [`ConvTranspose2dOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvTranspose1dOptions {
    /// Distance between neighboring windows on the output.
    pub stride: usize,
    /// Number of elements removed from the output on both sides.
    pub padding: usize,
    /// Number of elements added at the end of the output. Must be below the stride or the dilation.
    pub output_padding: usize,
    /// Distance between neighboring elements of a window.
    pub dilation: usize,
    /// Number of independent groups into which the channels are split.
    pub groups: usize,
}

impl Default for ConvTranspose1dOptions {
    fn default() -> Self {
        ConvTranspose1dOptions { stride: 1, padding: 0, output_padding: 0, dilation: 1, groups: 1 }
    }
}

/// Options of [`conv_transpose3d`](Tensor::conv_transpose3d), with `[depth, height, width]` each;
/// fields as in [`ConvTranspose2dOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvTranspose3dOptions {
    /// Distance between neighboring windows on the output.
    pub stride: [usize; 3],
    /// Number of elements removed from the output on both sides.
    pub padding: [usize; 3],
    /// Number of elements added at the end of the output. Must be below the stride or the dilation.
    pub output_padding: [usize; 3],
    /// Distance between neighboring elements of a window.
    pub dilation: [usize; 3],
    /// Number of independent groups into which the channels are split.
    pub groups: usize,
}

impl Default for ConvTranspose3dOptions {
    fn default() -> Self {
        ConvTranspose3dOptions {
            stride: [1; 3],
            padding: [0; 3],
            output_padding: [0; 3],
            dilation: [1; 3],
            groups: 1,
        }
    }
}

impl Tensor {
    /// Computes the cross-correlation over three axes, like PyTorch's `conv3d`. It is a
    /// [`conv2d`](Tensor::conv2d) over depth slices, whose channels are the channels of all slices
    /// under the kernel. It allocates the size of the volume times the kernel depth (divided by the
    /// depth stride) once, in addition to the memory of `conv2d`. Integer results wrap around.
    ///
    /// # Shapes
    /// `[batch, channels, depth, height, width]`, weight
    /// `[out_channels, channels / groups, kd, kh, kw]`, bias `[out_channels]` ->
    /// `[batch, out_channels, od, oh, ow]`, where each output size is
    /// `(size + 2 padding - dilation (kernel - 1) - 1) / stride + 1`
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, or if the window is larger than the
    /// padded volume.
    pub fn conv3d(&self, weight: &Tensor, bias: Option<&Tensor>, options: Conv3dOptions) -> Result<Tensor> {
        match precision::current() {
            None => conv3d(self, weight, bias, &options),
            Some(scope) => {
                let (x, weight, bias) = (scope.operand(self)?, scope.operand(weight)?, scope.optional(bias)?);
                conv3d(&x, &weight, bias.as_ref(), &options)
            }
        }
    }

    /// Computes the transposed convolution over one axis, like PyTorch's `conv_transpose1d`: a
    /// [`conv_transpose2d`](Tensor::conv_transpose2d) of images of height 1.
    ///
    /// # Shapes
    /// `[batch, channels, length]`, weight `[channels, out_channels / groups, kernel]`, bias
    /// `[out_channels]` ->
    /// `[batch, out_channels, (length - 1) stride - 2 padding + dilation (kernel - 1) +
    /// output_padding + 1]`
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, if the output padding is not below the
    /// stride or the dilation, or if the output would have no elements.
    pub fn conv_transpose1d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: ConvTranspose1dOptions,
    ) -> Result<Tensor> {
        let op = "conv_transpose1d";
        let ([_, _, length], [_, _, kernel]) = (self.shape().to_array(op)?, weight.shape().to_array(op)?);
        let ConvTranspose1dOptions { stride, padding, output_padding, dilation, groups } = options;
        let axis = TransposedAxis { size: length, kernel, stride, padding, output_padding, dilation };
        check_transposed(op, self, weight, bias, groups, &[axis])?;
        let wide = |size: usize, other: usize| [other, size];
        let options = ConvTranspose2dOptions {
            stride: wide(stride, 1),
            padding: wide(padding, 0),
            output_padding: wide(output_padding, 0),
            dilation: wide(dilation, 1),
            groups,
        };
        self.unsqueeze(2)?.conv_transpose2d(&weight.unsqueeze(2)?, bias, options)?.squeeze(2)
    }

    /// Computes the transposed convolution over three axes, like PyTorch's `conv_transpose3d`: the
    /// gradient of [`conv3d`](Tensor::conv3d) with respect to its input. It is a
    /// [`conv_transpose2d`](Tensor::conv_transpose2d) of depth slices, whose results are then
    /// summed along the depth. It allocates the size of the result times the kernel depth (divided
    /// by the depth stride), and for half precision f32 copies of all operands.
    ///
    /// # Shapes
    /// `[batch, channels, depth, height, width]`, weight
    /// `[channels, out_channels / groups, kd, kh, kw]`, bias `[out_channels]` ->
    /// `[batch, out_channels, od, oh, ow]`, where each output size is
    /// `(size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1`
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, if the output padding is not below the
    /// stride or the dilation, or if the output would have no elements.
    pub fn conv_transpose3d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: ConvTranspose3dOptions,
    ) -> Result<Tensor> {
        match precision::current() {
            None => conv_transpose3d(self, weight, bias, &options),
            Some(scope) => {
                let (x, weight, bias) = (scope.operand(self)?, scope.operand(weight)?, scope.optional(bias)?);
                conv_transpose3d(&x, &weight, bias.as_ref(), &options)
            }
        }
    }
}

fn check_convolved(
    op: &'static str,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &Conv3dOptions,
) -> Result<()> {
    let [_, channels, depth, height, width] = x.shape().to_array(op)?;
    let [out_channels, _, kd, kh, kw] = weight.shape().to_array(op)?;
    check_operands(op, x, weight, bias)?;
    check_divisible(op, channels, options.groups)?;
    check_divisible(op, out_channels, options.groups)?;
    check_channels(op, &x.meta(), &weight.meta(), weight.shape().dim(1).saturating_mul(options.groups))?;
    check_bias(op, bias, out_channels)?;
    let (size, kernel) = ([depth, height, width], [kd, kh, kw]);
    let Conv3dOptions { stride, padding, dilation, .. } = *options;
    if [kernel, stride, dilation].concat().contains(&0) {
        let detail =
            format!("kernel {kernel:?}, stride {stride:?} and dilation {dilation:?} must be at least 1");
        return Err(Error::invalid(op, detail));
    }
    let fits = |axis: usize| {
        let span = (kernel[axis] - 1).checked_mul(dilation[axis])?.checked_add(1)?;
        let padded = padding[axis].checked_mul(2)?.checked_add(size[axis])?;
        padded.checked_sub(span)
    };
    if (0..3).any(|axis| fits(axis).is_none()) {
        let detail = format!(
            "window {kernel:?} with dilation {dilation:?} is larger than input {size:?} with padding {padding:?}"
        );
        return Err(Error::invalid(op, detail));
    }
    Ok(())
}

fn conv3d(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, options: &Conv3dOptions) -> Result<Tensor> {
    check_convolved("conv3d", x, weight, bias, options)?;
    let [batch, channels, _, height, width] = x.sizes()?;
    let [out_channels, per_group, kd, kh, kw] = weight.sizes()?;
    let Conv3dOptions { stride, padding, dilation, groups } = *options;
    // Half-precision gradients of overlapping windows are accumulated along the depth in f32.
    let wide = if x.needs_grad() { x.to_dtype(x.dtype().accumulator())? } else { x.clone() };
    let padded = match padding[0] {
        0 => wide,
        depth => wide.pad(&[[0, 0], [0, 0], [depth, depth], [0, 0], [0, 0]], 0)?,
    };
    let span = (kd - 1) * dilation[0] + 1;
    let windows = padded.unfold(2, span, stride[0])?.slice_axis(5, 0, span as isize, dilation[0] as isize)?;
    let od = windows.shape().dim(2);
    let planes = windows.permute([0, 2, 1, 5, 3, 4])?.to_dtype(x.dtype())?.reshape([
        batch * od,
        channels * kd,
        height,
        width,
    ])?;
    let options = Conv2dOptions {
        stride: [stride[1], stride[2]],
        padding: [padding[1], padding[2]],
        dilation: [dilation[1], dilation[2]],
        groups,
    };
    let y = planes.conv2d(&weight.reshape([out_channels, per_group * kd, kh, kw])?, bias, options)?;
    let [_, _, oh, ow] = y.sizes()?;
    y.reshape([batch, od, out_channels, oh, ow])?.permute([0, 2, 1, 3, 4])?.contiguous()
}

/// One axis of a transposed convolution.
struct TransposedAxis {
    size: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    output_padding: usize,
    dilation: usize,
}

impl TransposedAxis {
    /// Returns the size of the output before padding is removed and output padding is added.
    fn uncropped(&self) -> Option<usize> {
        let reach = self.size.checked_sub(1)?.checked_mul(self.stride)?;
        reach.checked_add(self.kernel.checked_sub(1)?.checked_mul(self.dilation)?)?.checked_add(1)
    }

    /// Returns the size of the output, or `None` if it has no elements.
    fn output(&self) -> Option<usize> {
        let full = self.uncropped()?.checked_add(self.output_padding)?;
        full.checked_sub(self.padding.checked_mul(2)?).filter(|&size| size > 0)
    }
}

fn check_transposed(
    op: &'static str,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    groups: usize,
    axes: &[TransposedAxis],
) -> Result<()> {
    check_operands(op, x, weight, bias)?;
    let (channels, per_group) = (x.shape().dim(1), weight.shape().dim(1));
    check_channels(op, &x.meta(), &weight.meta(), weight.shape().dim(0))?;
    check_divisible(op, channels, groups)?;
    check_bias(op, bias, per_group.saturating_mul(groups))?;
    for axis in axes {
        let &TransposedAxis { size, kernel, stride, padding, output_padding, dilation } = axis;
        if [kernel, stride, dilation].contains(&0) {
            let detail =
                format!("kernel {kernel}, stride {stride} and dilation {dilation} must be at least 1");
            return Err(Error::invalid(op, detail));
        }
        if output_padding >= stride.max(dilation) {
            let detail = format!(
                "output padding {output_padding} must be below stride {stride} or dilation {dilation}"
            );
            return Err(Error::invalid(op, detail));
        }
        if axis.output().is_none() {
            let detail = format!(
                "an axis of {size} with kernel {kernel}, stride {stride}, padding {padding} and dilation {dilation} leaves no output"
            );
            return Err(Error::invalid(op, detail));
        }
    }
    Ok(())
}

fn conv_transpose3d(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &ConvTranspose3dOptions,
) -> Result<Tensor> {
    let op = "conv_transpose3d";
    let [batch, channels, depth, height, width] = x.shape().to_array(op)?;
    let [_, per_group, kd, kh, kw] = weight.shape().to_array(op)?;
    let ConvTranspose3dOptions { stride, padding, output_padding, dilation, groups } = *options;
    let (size, kernel) = ([depth, height, width], [kd, kh, kw]);
    let axes = [0, 1, 2].map(|axis| TransposedAxis {
        size: size[axis],
        kernel: kernel[axis],
        stride: stride[axis],
        padding: padding[axis],
        output_padding: output_padding[axis],
        dilation: dilation[axis],
    });
    check_transposed(op, x, weight, bias, groups, &axes)?;
    // Sums along the depth are rounded to half precision once, at the end.
    let dtype = x.dtype().accumulator();
    let planes = x.to_dtype(dtype)?.permute([0, 2, 1, 3, 4])?;
    let planes = planes.reshape([batch * depth, channels, height, width])?;
    let weight = weight.to_dtype(dtype)?.reshape([channels, per_group * kd, kh, kw])?;
    let flat = ConvTranspose2dOptions {
        stride: [stride[1], stride[2]],
        padding: [padding[1], padding[2]],
        output_padding: [output_padding[1], output_padding[2]],
        dilation: [dilation[1], dilation[2]],
        groups,
    };
    let parts = planes.conv_transpose2d(&weight, None, flat)?;
    let [_, rows, oh, ow] = parts.sizes()?;
    let columns = parts.reshape([batch, depth, rows, oh * ow])?.permute([0, 2, 1, 3])?;
    let y = col2im_depth(&columns.reshape([batch, rows, depth * oh * ow])?, &axes[0], oh * ow)?;
    let out_channels = per_group * groups;
    let y = y.reshape([batch, out_channels, y.shape().dim(2), oh, ow])?;
    let y = match bias {
        Some(bias) => y.add(&bias.to_dtype(dtype)?.reshape([out_channels, 1, 1, 1])?)?,
        None => y,
    };
    y.to_dtype(x.dtype())
}

/// Sums slices of `plane` elements at the positions of the windows of `axis`, and returns
/// `[batch, channels, output, plane]`.
fn col2im_depth(columns: &Tensor, axis: &TransposedAxis, plane: usize) -> Result<Tensor> {
    let (Some(full), Some(output)) = (axis.uncropped(), axis.output()) else {
        return Err(Error::invalid("conv_transpose3d", "no output"));
    };
    let window = Window {
        kernel: [axis.kernel, 1],
        stride: [axis.stride, 1],
        padding: [0, 0],
        dilation: [axis.dilation, 1],
    };
    let y = fold_columns(columns, window, [full, plane])?;
    let missing = (axis.padding + output).saturating_sub(full);
    let y = if missing > 0 { y.pad(&[[0, 0], [0, 0], [0, missing], [0, 0]], 0)? } else { y };
    y.narrow(2, axis.padding, output)?.contiguous()
}

/// Sums columns into images (`col2im`), for floating-point and integer dtypes.
fn fold_columns(columns: &Tensor, window: Window, size: [usize; 2]) -> Result<Tensor> {
    match columns.dtype().is_float() {
        true => columns.col2im(window, size),
        false => first_output(Col2im { window, size }.compose(std::slice::from_ref(columns))?),
    }
}

fn first_output(outputs: Vec<Tensor>) -> Result<Tensor> {
    outputs.into_iter().next().ok_or_else(|| Error::invalid("conv2d", "no output"))
}

/// Computes a convolution of integers, for which no op exists, as one matrix product of all
/// patches.
pub(crate) fn conv2d_of_integers(
    op: &Conv2d,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    check_operands("conv2d", x, weight, bias)?;
    let metas: Vec<_> = [Some(x), Some(weight), bias].into_iter().flatten().map(Tensor::meta).collect();
    let shape = op.output_shape(&metas)?;
    let patches = patches(x, &op.config.window)?;
    let [batch, channels, kh, kw, oh, ow] = patches.sizes()?;
    let groups = op.config.groups;
    let columns = patches.reshape([batch, groups, channels / groups * kh * kw, oh * ow])?;
    let y = op.config.group_weight(weight)?.matmul(&columns)?.reshape(shape)?;
    match bias {
        Some(bias) => y.add(&bias.reshape([bias.elements(), 1, 1])?),
        None => Ok(y),
    }
}

/// Computes a transposed convolution of integers, without bias, to an output of `size`.
pub(crate) fn transposed_of_integers(
    x: &Tensor,
    weight: &Tensor,
    config: &ConvConfig,
    size: [usize; 2],
) -> Result<Tensor> {
    let [batch, _, height, width] = x.sizes()?;
    let [_, per_group, kh, kw] = weight.sizes()?;
    let Window { kernel, stride, padding, dilation } = config.window;
    let full = [(0, height), (1, width)]
        .map(|(axis, length)| (length - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis] + 1);
    let patches = config.group_weight(weight)?.t()?.matmul(&config.group_outputs(x)?)?;
    let columns = patches.reshape([batch, config.groups * per_group * kh * kw, height * width])?;
    let y = fold_columns(&columns, Window { padding: [0, 0], ..config.window }, full)?;
    let missing = [0, 1].map(|axis| (padding[axis] + size[axis]).saturating_sub(full[axis]));
    let y = y.pad(&[[0, 0], [0, 0], [0, missing[0]], [0, missing[1]]], 0)?;
    y.narrow(2, padding[0], size[0])?.narrow(3, padding[1], size[1])?.contiguous()
}
