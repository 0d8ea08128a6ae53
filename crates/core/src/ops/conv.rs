//! Convolutions, and the ops im2col and col2im, which their compositions use. The public methods
//! are in `conv_methods`.

use crate::Shape;
use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::dispatch::{apply_into, apply_one};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::ops::binary::{Binary, BinaryOp};
use crate::ops::matmul::MatmulOptions;
use crate::tensor::Tensor;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A window that slides along two axes `[height, width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Size of the window, in elements.
    pub kernel: [usize; 2],
    /// Distance between neighboring windows.
    pub stride: [usize; 2],
    /// Size of the border on each side of the image: zeros (for max pooling: -infinity).
    pub padding: [usize; 2],
    /// Distance between neighboring elements of a window.
    pub dilation: [usize; 2],
}

impl Window {
    /// Returns the number of windows on an image of `size`:
    /// `(size + 2 padding - dilation (kernel - 1) - 1) / stride + 1`.
    ///
    /// # Errors
    /// Returns an error if kernel, stride or dilation is 0, or if the window is larger than the
    /// padded image.
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

impl Window {
    /// Returns a view of all windows of images `[batch, channels, height, width]`, padded with
    /// `value`: `[batch, channels, oh, ow, kh, kw]`.
    pub(crate) fn views(&self, images: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        let [top, left] = self.padding;
        let padded = match self.padding {
            [0, 0] => images.clone(),
            _ => images.pad(&[[0, 0], [0, 0], [top, top], [left, left]], value)?,
        };
        let [rows, columns] = self.spans();
        let patches = padded.unfold(2, rows, self.stride[0])?.unfold(3, columns, self.stride[1])?;
        patches.slice_axis(4, 0, rows as isize, self.dilation[0] as isize)?.slice_axis(
            5,
            0,
            columns as isize,
            self.dilation[1] as isize,
        )
    }

    /// Returns the height and width of the area that a window covers.
    fn spans(&self) -> [usize; 2] {
        [0, 1].map(|axis| (self.kernel[axis] - 1) * self.dilation[axis] + 1)
    }
}

/// `y[n, (c, i, j), (oh, ow)] = x[n, c, oh * stride + i * dilation - padding, ow * ..]`, 0 outside
/// the image. Input: x `[batch, channels, height, width]`, floating. Output:
/// `[batch, channels * kh * kw, oh * ow]`.
#[derive(Clone, Debug)]
pub struct Im2col {
    /// The window.
    pub window: Window,
}

/// The adjoint of [`Im2col`]: each pixel is the sum of the patch elements at its position. Input:
/// columns `[batch, channels * kh * kw, oh * ow]`. Output: `[batch, channels, height, width]`.
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
    /// The window. Its kernel size is that of the weight.
    pub window: Window,
    /// Number of independent groups into which the channels are split.
    pub groups: usize,
    /// Whether a backend may multiply f32 in TF32: a permission, see
    /// [`Matmul::tf32`](crate::ops::matmul::Matmul::tf32). It also applies to the gradients.
    pub tf32: bool,
}

/// `y[n, o, oh, ow] = bias[o] + sum_{c, i, j} x[n, c, ..] * weight[o, c, i, j]`
/// (cross-correlation, as in PyTorch).
///
/// Inputs, of one floating dtype: x `[batch, channels, height, width]`, weight
/// `[out_channels, channels / groups, kh, kw]`; bias `[out_channels]` if `bias`. Output:
/// `[batch, out_channels, oh, ow]`.
#[derive(Clone, Debug)]
pub struct Conv2d {
    /// Window and groups.
    pub config: ConvConfig,
    /// Whether there is a bias input after the weight.
    pub bias: bool,
}

/// Gradient of [`Conv2d`] with respect to its input (a transposed convolution). Inputs: weight, dy.
/// Output: `[batch, channels, height, width]`.
#[derive(Clone, Debug)]
pub struct Conv2dGradInput {
    /// Window and groups.
    pub config: ConvConfig,
    /// Height and width of the input.
    pub size: [usize; 2],
}

/// Gradient of [`Conv2d`] with respect to its weight. Inputs: x, dy. Output:
/// `[out_channels, channels / groups, kh, kw]`.
#[derive(Clone, Debug)]
pub struct Conv2dGradWeight {
    /// Window and groups.
    pub config: ConvConfig,
}

pub(crate) fn check_divisible(op: &'static str, channels: usize, groups: usize) -> Result<usize> {
    if groups == 0 || !channels.is_multiple_of(groups) {
        return Err(Error::invalid(op, format!("{channels} channels are not a multiple of {groups} groups")));
    }
    Ok(channels / groups)
}

/// Checks that the input of a convolution has the number of channels that its weight requires. The
/// most frequent cause of this error is an input with another axis order, so the message contains
/// both shapes.
pub(crate) fn check_channels(
    op: &'static str,
    input: &Meta<'_>,
    weight: &Meta<'_>,
    takes: usize,
) -> Result<()> {
    if input.shape().dim(1) == takes {
        return Ok(());
    }
    let (shape, weight) = (input.shape(), weight.shape());
    let detail = format!(
        "input of shape {shape:?}, expected {takes} channels along axis 1, as weight of shape {weight:?} takes"
    );
    Err(Error::invalid(op, detail))
}

impl Rule for Im2col {
    fn name(&self) -> &'static str {
        "im2col"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("im2col", inputs, 1)?;
        check::float("im2col", "input", &inputs[0])?;
        Ok(Outputs::from_buf([Output::fresh(self.output_shape(&inputs[0])?, inputs[0].dtype)]))
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let patches = self.window.views(&inputs[0], 0.0)?;
        let [batch, channels, oh, ow, kh, kw] = patches.sizes()?;
        let columns = patches.permute([0, 1, 4, 5, 2, 3])?.contiguous()?;
        Ok(vec![columns.reshape([batch, channels * kh * kw, oh * ow])?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::NOTHING)
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let [_, _, height, width] = context.shape(0).to_array("im2col")?;
        let adjoint = Col2im { window: self.window, size: [height, width] };
        linear_grad(grad_outputs, |dy| apply_one(adjoint.clone(), &[dy]))
    }
}

impl Im2col {
    pub(crate) fn output_shape(&self, x: &Meta<'_>) -> Result<Shape> {
        let [batch, channels, height, width] = x.shape().to_array("im2col")?;
        let [oh, ow] = self.window.output_size("im2col", [height, width])?;
        let [kh, kw] = self.window.kernel;
        Shape::new(&[batch, channels.saturating_mul(kh).saturating_mul(kw), oh.saturating_mul(ow)])
    }
}

/// Returns the gradient of a linear op with one input: `adjoint(dy)`.
pub(crate) fn linear_grad(
    grad_outputs: &[Option<Tensor>],
    adjoint: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Grads> {
    Ok(Grads::from_elem(grad_outputs[0].as_ref().map(adjoint).transpose()?, 1))
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
        let channels = check_divisible("col2im", rows, kh.saturating_mul(kw))?;
        check::shape("col2im", "columns", &inputs[0], Shape::new(&[batch, rows, oh.saturating_mul(ow)])?)?;
        let shape = Shape::new(&[batch, channels, self.size[0], self.size[1]])?;
        Ok(Outputs::from_buf([Output::fresh(shape, inputs[0].dtype)]))
    }
    /// For each position `(i, j)` in the window, adds the patch elements at this position to their
    /// pixels, for all windows at once. These pixels are distinct.
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let columns = &inputs[0];
        let [batch, rows, _] = columns.sizes()?;
        let ([kh, kw], [oh, ow]) = (self.window.kernel, self.window.output_size("col2im", self.size)?);
        let patches = columns.reshape([batch, rows / (kh * kw), kh, kw, oh, ow])?;
        let [[top, height], [left, width]] = [0, 1].map(|axis| [self.window.padding[axis], self.size[axis]]);
        let padded = [batch, rows / (kh * kw), height + 2 * top, width + 2 * left];
        let dtype = columns.dtype().accumulator();
        let sum = Tensor::zeros(padded, dtype, columns.device())?;
        for (i, j) in (0..kh * kw).map(|tap| (tap / kw, tap % kw)) {
            let pixels = self.pixels_at_tap(&self.pixels_at_tap(&sum, 0, i, oh)?, 1, j, ow)?;
            let part = patches.select(3, j)?.select(2, i)?.to_dtype(dtype)?;
            apply_into(Binary { op: BinaryOp::Add }, &[&pixels, &part], &pixels)?;
        }
        let image = sum.narrow(2, top, height)?.narrow(3, left, width)?;
        Ok(vec![image.to_dtype(columns.dtype())?.contiguous()?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::NOTHING)
    }
    fn backward(&self, _context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        linear_grad(grad_outputs, |dy| apply_one(Im2col { window: self.window }, &[dy]))
    }
}

impl Col2im {
    /// Returns the view of the pixels along spatial `axis` that are at position `tap` of a
    /// window.
    fn pixels_at_tap(&self, padded: &Tensor, axis: usize, tap: usize, count: usize) -> Result<Tensor> {
        let start = tap * self.window.dilation[axis];
        let stride = self.window.stride[axis];
        let end = start + (count - 1) * stride + 1;
        padded.slice_axis(2 + axis, start, end as isize, stride as isize)
    }
}

impl Rule for Conv2d {
    fn name(&self) -> &'static str {
        "conv2d"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("conv2d", inputs, 2 + usize::from(self.bias))?;
        check::float("conv2d", "input", &inputs[0])?;
        Ok(Outputs::from_buf([Output::fresh(self.output_shape(inputs)?, inputs[0].dtype)]))
    }
    /// Computes one matrix product for each image and group: weight `[out, patch]` x patches
    /// `[patch, oh * ow]`.
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, weight) = (&inputs[0], &inputs[1]);
        let [batch, channels, height, width] = x.sizes()?;
        let [out_channels, _, _, _] = weight.sizes()?;
        if let Some(images) = self.config.images_per_chunk(batch, channels, [height, width])? {
            let compute =
                |from, count| self.config.convolve(&x.narrow(0, from, count)?, weight, inputs.get(2));
            return Ok(vec![concat_batches(&in_batches(batch, images, compute)?)?]);
        }
        let [oh, ow] = self.config.window.output_size("conv2d", [height, width])?;
        let y =
            self.config.accumulator_product(&self.config.group_weight(weight)?, &self.config.patches(x)?)?;
        let y = y.reshape([batch, out_channels, oh, ow])?;
        let y = match inputs.get(2) {
            Some(bias) => y.add(&bias.to_dtype(y.dtype())?.reshape([out_channels, 1, 1])?)?,
            None => y,
        };
        Ok(vec![y.to_dtype(x.dtype())?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves { inputs: 0b11, outputs: 0 })
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, context.inputs());
        let Some(dy) = &grad_outputs[0] else { return Ok(grads) };
        if context.needs(0) {
            grads[0] = Some(self.config.grad_input(context.input(1)?, dy, context.shape(0))?);
        }
        if context.needs(1) {
            grads[1] = Some(self.config.grad_weight(context.input(0)?, dy)?);
        }
        if self.bias && context.needs(2) {
            grads[2] = Some(dy.sum([0, 2, 3])?);
        }
        Ok(grads)
    }
}

impl Conv2d {
    pub(crate) fn output_shape(&self, inputs: &[Meta<'_>]) -> Result<Shape> {
        let name = "conv2d";
        for meta in &inputs[1..] {
            check::same_dtype(name, &inputs[0], meta)?;
        }
        let [batch, channels, height, width] = inputs[0].shape().to_array(name)?;
        let [out_channels, _, _, _] = inputs[1].shape().to_array(name)?;
        let per_group = check_divisible(name, channels, self.config.groups)?;
        check_divisible(name, out_channels, self.config.groups)?;
        let [kh, kw] = self.config.window.kernel;
        check_channels(
            name,
            &inputs[0],
            &inputs[1],
            inputs[1].shape().dim(1).saturating_mul(self.config.groups),
        )?;
        check::shape(name, "weight", &inputs[1], Shape::new(&[out_channels, per_group, kh, kw])?)?;
        if self.bias {
            check::shape(name, "bias", &inputs[2], Shape::unchecked(&[out_channels]))?;
        }
        let [oh, ow] = self.config.window.output_size(name, [height, width])?;
        Shape::new(&[batch, out_channels, oh, ow])
    }
}

/// The maximum number of patch elements in memory at a time: 2 GiB at 4 bytes each, and below the
/// limit of an op on a GPU. Tests set a smaller value.
#[doc(hidden)]
pub static MAX_PATCHES: AtomicUsize = AtomicUsize::new(1 << 29);

/// Calls `compute(start, count)` for consecutive ranges of at most `max_images` images.
fn in_batches(
    batch: usize,
    max_images: usize,
    compute: impl Fn(usize, usize) -> Result<Tensor>,
) -> Result<Vec<Tensor>> {
    (0..batch).step_by(max_images).map(|from| compute(from, max_images.min(batch - from))).collect()
}

/// Concatenates the results of all ranges.
fn concat_batches(parts: &[Tensor]) -> Result<Tensor> {
    Tensor::concat(&parts.iter().collect::<Vec<_>>(), 0)
}

impl ConvConfig {
    /// Computes the matrix product in the operands' dtype.
    fn product(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        a.matmul_with(b, MatmulOptions { tf32: self.tf32, ..MatmulOptions::default() })
    }

    /// Computes the matrix product in the accumulator's dtype, so that the result of the following
    /// ops is rounded to half precision only once.
    fn accumulator_product(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let out_dtype = a.dtype().is_half().then(|| a.dtype().accumulator());
        a.matmul_with(b, MatmulOptions { out_dtype, tf32: self.tf32, ..MatmulOptions::default() })
    }

    /// Reshapes weights `[out, in / groups, kh, kw]` to matrices `[groups, out / groups, patch]`.
    pub(crate) fn group_weight(&self, weight: &Tensor) -> Result<Tensor> {
        let [out_channels, per_group, kh, kw] = weight.sizes()?;
        weight.reshape([self.groups, out_channels / self.groups, per_group * kh * kw])
    }

    /// Returns the patches of images as matrices `[batch, groups, patch, oh * ow]`.
    fn patches(&self, x: &Tensor) -> Result<Tensor> {
        let columns = apply_one(Im2col { window: self.window }, &[x])?;
        let [batch, rows, positions] = columns.sizes()?;
        columns.reshape([batch, self.groups, rows / self.groups, positions])
    }

    /// Returns the number of images whose patches have at most [`MAX_PATCHES`] elements in total,
    /// if that is less than the batch size.
    fn images_per_chunk(&self, batch: usize, channels: usize, size: [usize; 2]) -> Result<Option<usize>> {
        let [kh, kw] = self.window.kernel;
        let [oh, ow] = self.window.output_size("conv2d", size)?;
        let image = channels.saturating_mul(kh * kw).saturating_mul(oh * ow).max(1);
        let images = (MAX_PATCHES.load(Ordering::Relaxed) / image).max(1);
        Ok((images < batch).then_some(images))
    }

    /// Applies the convolution with its bias.
    fn convolve(&self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let op = Conv2d { config: *self, bias: bias.is_some() };
        match bias {
            Some(bias) => apply_one(op, &[x, weight, bias]),
            None => apply_one(op, &[x, weight]),
        }
    }

    /// Computes the gradient with respect to the weight; `product` multiplies matrices.
    fn weight_grad(
        &self,
        x: &Tensor,
        dy: &Tensor,
        product: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let (patches, dy) = (self.patches(x)?, self.group_outputs(dy)?);
        let [batch, groups, patch, positions] = patches.sizes()?;
        let [_, _, out_per_group, _] = dy.sizes()?;
        let patches = patches.permute([1, 2, 0, 3])?.reshape([groups, patch, batch * positions])?;
        let dy = dy.permute([1, 2, 0, 3])?.reshape([groups, out_per_group, batch * positions])?;
        let [kh, kw] = self.window.kernel;
        let weight = product(&dy, &patches.t()?)?;
        weight.reshape([groups * out_per_group, patch / (kh * kw), kh, kw])
    }

    /// Reshapes outputs `[batch, out, oh, ow]` to matrices
    /// `[batch, groups, out / groups, oh * ow]`.
    pub(crate) fn group_outputs(&self, dy: &Tensor) -> Result<Tensor> {
        let [batch, out_channels, oh, ow] = dy.sizes()?;
        dy.reshape([batch, self.groups, out_channels / self.groups, oh * ow])
    }

    /// Applies the convolution without bias.
    fn forward(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        apply_one(Conv2d { config: *self, bias: false }, &[x, weight])
    }

    /// Computes the gradient with respect to an input of this shape.
    fn grad_input(&self, weight: &Tensor, dy: &Tensor, input: &Shape) -> Result<Tensor> {
        let size = [input.dim(2), input.dim(3)];
        apply_one(Conv2dGradInput { config: *self, size }, &[weight, dy])
    }

    /// Computes the gradient with respect to the weight.
    fn grad_weight(&self, x: &Tensor, dy: &Tensor) -> Result<Tensor> {
        apply_one(Conv2dGradWeight { config: *self }, &[x, dy])
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
        check_divisible(name, out_channels, self.config.groups)?;
        if [kh, kw] != self.config.window.kernel {
            return Err(Error::invalid(
                name,
                format!("weight of shape {:?} for kernel {:?}", inputs[0].shape(), self.config.window.kernel),
            ));
        }
        let [oh, ow] = self.config.window.output_size(name, self.size)?;
        check::shape(name, "grad_output", &inputs[1], Shape::new(&[batch, out_channels, oh, ow])?)?;
        let shape =
            Shape::new(&[batch, per_group.saturating_mul(self.config.groups), self.size[0], self.size[1]])?;
        Ok(Outputs::from_buf([Output::fresh(shape, inputs[0].dtype)]))
    }
    /// Computes the gradient of each patch, `weight^T dy`, and adds it at the patch's position in
    /// the image.
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (weight, dy) = (&inputs[0], &inputs[1]);
        let channels = weight.dims()[1] * self.config.groups;
        if let Some(images) = self.config.images_per_chunk(dy.dims()[0], channels, self.size)? {
            let shape = |count: usize| Shape::new(&[count, channels, self.size[0], self.size[1]]);
            let compute =
                |from, count| self.config.grad_input(weight, &dy.narrow(0, from, count)?, &shape(count)?);
            return Ok(vec![concat_batches(&in_batches(dy.dims()[0], images, compute)?)?]);
        }
        let dy = self.config.group_outputs(dy)?;
        let patches = self.config.accumulator_product(&self.config.group_weight(weight)?.t()?, &dy)?;
        let [batch, groups, patch, positions] = patches.sizes()?;
        let columns = patches.reshape([batch, groups * patch, positions])?;
        let dx = apply_one(Col2im { window: self.config.window, size: self.size }, &[&columns])?;
        Ok(vec![dx.to_dtype(weight.dtype())?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::INPUTS)
    }
    /// The op is linear in the weight and in dy;
    /// `<grad, grad_input(weight, dy)> = <conv(grad, weight), dy>`.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, 2);
        let Some(grad) = &grad_outputs[0] else { return Ok(grads) };
        if context.needs(0) {
            grads[0] = Some(self.config.grad_weight(grad, context.input(1)?)?);
        }
        if context.needs(1) {
            grads[1] = Some(self.config.forward(grad, context.input(0)?)?);
        }
        Ok(grads)
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
        let per_group = check_divisible(name, channels, self.config.groups)?;
        check_divisible(name, out_channels, self.config.groups)?;
        let [oh, ow] = self.config.window.output_size(name, [height, width])?;
        check::shape(name, "grad_output", &inputs[1], Shape::new(&[batch, out_channels, oh, ow])?)?;
        let [kh, kw] = self.config.window.kernel;
        Ok(Outputs::from_buf([Output::fresh(
            Shape::new(&[out_channels, per_group, kh, kw])?,
            inputs[0].dtype,
        )]))
    }
    /// Computes `dy patches^T`, summed over images and output positions in one product per group.
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, dy) = (&inputs[0], &inputs[1]);
        let [batch, channels, height, width] = x.sizes()?;
        let Some(images) = self.config.images_per_chunk(batch, channels, [height, width])? else {
            return Ok(vec![self.config.weight_grad(x, dy, |a, b| self.config.product(a, b))?]);
        };
        let compute = |from, count| {
            let (x, dy) = (x.narrow(0, from, count)?, dy.narrow(0, from, count)?);
            // Only the sum over all ranges is rounded.
            self.config.weight_grad(&x, &dy, |a, b| self.config.accumulator_product(a, b))
        };
        let parts = in_batches(batch, images, compute)?;
        let sum = parts[1..].iter().try_fold(parts[0].clone(), |sum, part| sum.add(part))?;
        Ok(vec![sum.to_dtype(x.dtype())?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::INPUTS)
    }
    /// The op is linear in x and in dy; `<grad, grad_weight(x, dy)> = <conv(x, grad), dy>`.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, 2);
        let Some(grad) = &grad_outputs[0] else { return Ok(grads) };
        if context.needs(0) {
            grads[0] = Some(self.config.grad_input(grad, context.input(1)?, context.shape(0))?);
        }
        if context.needs(1) {
            grads[1] = Some(self.config.forward(context.input(0)?, grad)?);
        }
        Ok(grads)
    }
}
