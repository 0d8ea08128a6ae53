//! Pooling over windows along two axes.

use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::dispatch::apply_one;
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::ops::conv::{Col2im, Window, linear_grad};
use crate::ops::reduce::{Reduce, ReduceOp};
use crate::shape::AxisSet;
use crate::tensor::Tensor;
use crate::{DType, Shape};

pub use crate::functions::pools::PoolOptions;

/// The largest element of each window; NaN if the window contains one. Padding is -infinity and is
/// never selected. Input: x `[batch, channels, height, width]`, floating; the padding is at most
/// half the kernel, and every window contains an element of the image. Outputs: y
/// `[batch, channels, oh, ow]`, and the index of the selected element in its image plane
/// (`row * width + col`, the first one, i32, auxiliary).
#[derive(Clone, Debug)]
pub struct MaxPool2d {
    /// The window.
    pub window: Window,
}

/// Gradient of [`MaxPool2d`]: adds each `dy` to the selected element. Inputs: indices (i32), dy.
/// Output: `[batch, channels, height, width]`, with the dtype of dy.
#[derive(Clone, Debug)]
pub struct MaxPool2dGrad {
    /// The window of the forward pass.
    pub window: Window,
    /// Height and width of the input.
    pub size: [usize; 2],
}

/// The mean of each window, with dilation 1. Input: x `[batch, channels, height, width]`, floating;
/// the padding is at most half the kernel, and every window contains an element of the image.
/// Output: `[batch, channels, oh, ow]`. Half precision accumulates in f32.
#[derive(Clone, Debug)]
pub struct AvgPool2d {
    /// The window.
    pub window: Window,
    /// Whether the divisor includes padding (PyTorch's default).
    pub count_include_pad: bool,
}

/// Gradient of [`AvgPool2d`]: distributes each `dy` equally over its window. Input: dy. Output:
/// `[batch, channels, height, width]`.
#[derive(Clone, Debug)]
pub struct AvgPool2dGrad {
    /// The window of the forward pass.
    pub window: Window,
    /// Whether the divisor included padding.
    pub count_include_pad: bool,
    /// Height and width of the input.
    pub size: [usize; 2],
}

fn infer_pool(op: &'static str, x: &Meta<'_>, window: &Window) -> Result<Shape> {
    check::float(op, "input", x)?;
    let [batch, channels, height, width] = x.shape().to_array(op)?;
    let [oh, ow] = output_size(op, window, [height, width])?;
    Shape::new(&[batch, channels, oh, ow])
}

fn check_padding(op: &'static str, window: &Window) -> Result<()> {
    if (0..2).any(|axis| window.padding[axis] > window.kernel[axis] / 2) {
        let Window { padding, kernel, .. } = window;
        return Err(Error::invalid(
            op,
            format!("padding {padding:?} is more than half of kernel {kernel:?}"),
        ));
    }
    Ok(())
}

fn output_size(op: &'static str, window: &Window, size: [usize; 2]) -> Result<[usize; 2]> {
    check_padding(op, window)?;
    let output = window.output_size(op, size)?;
    // All windows that start in the padding before the image are checked. Of the others, the last
    // one starts farthest, so it is sufficient to check that one.
    let has_padding_window = (0..2).any(|axis| {
        let in_padding = window.padding[axis].div_ceil(window.stride[axis]).min(output[axis]);
        (0..in_padding).chain([output[axis] - 1]).any(|at| !overlaps_image(window, axis, at, size[axis]))
    });
    if has_padding_window {
        return Err(Error::invalid(
            op,
            format!("a window {window:?} on an image of {size:?} is entirely in the padding"),
        ));
    }
    Ok(output)
}

/// Returns whether window `at` along `axis` contains an element of the image.
fn overlaps_image(window: &Window, axis: usize, at: usize, size: usize) -> bool {
    let start = at * window.stride[axis];
    let padding = window.padding[axis];
    // Number of window elements before the image's first element.
    let skipped = padding.saturating_sub(start).div_ceil(window.dilation[axis]);
    skipped < window.kernel[axis] && start + skipped * window.dilation[axis] < padding + size
}

impl Rule for MaxPool2d {
    fn name(&self) -> &'static str {
        "max_pool2d"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("max_pool2d", inputs, 1)?;
        let shape = infer_pool("max_pool2d", &inputs[0], &self.window)?;
        Ok([Output::fresh(shape, inputs[0].dtype), Output::fresh(shape, DType::I32)].into_iter().collect())
    }
    /// Computes the index of the largest element in its window, then its index in the image, then
    /// its value.
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let x = &inputs[0];
        let windows = self.window.views(x, f64::NEG_INFINITY)?;
        let [batch, channels, oh, ow, kh, kw] = windows.sizes()?;
        let argmax = apply_one(argmax_op(), &[&windows])?;
        let window_positions = self.positions(x)?.contiguous()?.reshape([1, 1, oh, ow, kh * kw])?;
        let position = window_positions
            .expand([batch, channels, oh, ow, kh * kw])?
            .gather(4, &argmax.reshape([batch, channels, oh, ow, 1])?)?
            .squeeze(4)?;
        // If all elements are -infinity, the first of the equal maxima may be padding. In this case
        // the first element of the image is selected.
        let first = window_positions.gather(4, &first_inside(&window_positions)?)?.squeeze(4)?;
        let position = position.ge_scalar(0)?.where_(&position, &first)?;
        Ok(vec![
            flatten_planes(x)?.gather(2, &flatten_planes(&position)?)?.reshape([batch, channels, oh, ow])?,
            position,
        ])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves { inputs: 0, outputs: 0b10 })
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let [_, _, height, width] = context.shape(0).to_array("max_pool2d")?;
        let adjoint = MaxPool2dGrad { window: self.window, size: [height, width] };
        let position = context.output(1)?;
        linear_grad(grad_outputs, |dy| apply_one(adjoint, &[position, dy]))
    }
}

impl MaxPool2d {
    /// Returns the index in the image of every element of every window, -1 for padding:
    /// `[1, 1, oh, ow, kh, kw]`.
    fn positions(&self, x: &Tensor) -> Result<Tensor> {
        let [_, _, height, width] = x.sizes()?;
        let position = Tensor::iota(height * width, DType::I32, 0, 1, x.device())?;
        self.window.views(&position.reshape([1, 1, height, width])?, -1)
    }
}

/// Returns the argmax over each window of a view with six axes.
fn argmax_op() -> Reduce {
    Reduce { op: ReduceOp::ArgMax, axes: AxisSet::one(4).with(5), keep: false }
}

/// Returns the index in each window of its first element that is not padding: `[1, 1, oh, ow, 1]`.
fn first_inside(window_positions: &Tensor) -> Result<Tensor> {
    let inside = window_positions.ge_scalar(0)?.to_dtype(DType::I32)?;
    apply_one(Reduce { op: ReduceOp::ArgMax, axes: AxisSet::one(4), keep: true }, &[&inside])
}

/// Flattens each image plane to one axis: `[batch, channels, height * width]`.
fn flatten_planes(x: &Tensor) -> Result<Tensor> {
    let [batch, channels, height, width] = x.sizes()?;
    x.reshape([batch, channels, height * width])
}

impl Rule for MaxPool2dGrad {
    fn name(&self) -> &'static str {
        "max_pool2d_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "max_pool2d_grad";
        check::count(name, inputs, 2)?;
        check::dtype(name, "positions", &inputs[0], DType::I32)?;
        let outputs = infer_grad(name, &inputs[1], &self.window, self.size)?;
        check::shape(name, "positions", &inputs[0], *inputs[1].shape())?;
        Ok(outputs)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (position, dy) = (&inputs[0], &inputs[1]);
        let [batch, channels, _, _] = dy.sizes()?;
        let [height, width] = self.size;
        let zeros = Tensor::zeros([batch, channels, height * width], dy.dtype(), dy.device())?;
        let dx = zeros.scatter_add(2, &flatten_planes(position)?, &flatten_planes(dy)?)?;
        Ok(vec![dx.reshape([batch, channels, height, width])?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves { inputs: 0b01, outputs: 0 })
    }
    /// The op is linear in dy: each element of dy gets the gradient of its selected element.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, 2);
        if let (Some(grad), true) = (&grad_outputs[0], context.needs(1)) {
            let position = flatten_planes(context.input(0)?)?;
            grads[1] = Some(flatten_planes(grad)?.gather(2, &position)?.reshape(*context.shape(1))?);
        }
        Ok(grads)
    }
}

impl Rule for AvgPool2d {
    fn name(&self) -> &'static str {
        "avg_pool2d"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("avg_pool2d", inputs, 1)?;
        check_undilated("avg_pool2d", &self.window)?;
        let shape = infer_pool("avg_pool2d", &inputs[0], &self.window)?;
        Ok(Outputs::from_buf([Output::fresh(shape, inputs[0].dtype)]))
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let x = inputs[0].to_dtype(inputs[0].dtype().accumulator())?;
        let sum = self.window.views(&x, 0.0)?.sum([4, 5])?;
        let [_, _, height, width] = x.sizes()?;
        let mean = sum.div(&divisor(&self.window, self.count_include_pad, [height, width], &x)?)?;
        Ok(vec![mean.to_dtype(inputs[0].dtype())?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::NOTHING)
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let [_, _, height, width] = context.shape(0).to_array("avg_pool2d")?;
        let AvgPool2d { window, count_include_pad } = *self;
        let adjoint = AvgPool2dGrad { window, count_include_pad, size: [height, width] };
        linear_grad(grad_outputs, |dy| apply_one(adjoint, &[dy]))
    }
}

fn check_undilated(op: &'static str, window: &Window) -> Result<()> {
    match window.dilation {
        [1, 1] => Ok(()),
        dilation => Err(Error::invalid(op, format!("dilation {dilation:?}, expected [1, 1]"))),
    }
}

/// Returns the divisor of the sum of each window: a scalar, or `[1, 1, oh, ow]` if windows overlap
/// padding that is not included.
fn divisor(window: &Window, count_include_pad: bool, size: [usize; 2], like: &Tensor) -> Result<Tensor> {
    let [kh, kw] = window.kernel;
    if count_include_pad || window.padding == [0, 0] {
        return Tensor::full((), (kh * kw) as f64, like.dtype(), like.device());
    }
    let ones = Tensor::ones([1, 1, size[0], size[1]], like.dtype(), like.device())?;
    window.views(&ones, 0.0)?.sum([4, 5])
}

impl Rule for AvgPool2dGrad {
    fn name(&self) -> &'static str {
        "avg_pool2d_grad"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("avg_pool2d_grad", inputs, 1)?;
        check_undilated("avg_pool2d_grad", &self.window)?;
        infer_grad("avg_pool2d_grad", &inputs[0], &self.window, self.size)
    }
    /// Every element of a window gets the same value: columns that repeat it are summed into the
    /// image.
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let dy = inputs[0].to_dtype(inputs[0].dtype().accumulator())?;
        let [batch, channels, oh, ow] = dy.sizes()?;
        let [kh, kw] = self.window.kernel;
        let scaled = dy.div(&divisor(&self.window, self.count_include_pad, self.size, &dy)?)?;
        let columns = scaled
            .reshape([batch, channels, 1, oh * ow])?
            .expand([batch, channels, kh * kw, oh * ow])?
            .reshape([batch, channels * kh * kw, oh * ow])?;
        let dx = apply_one(Col2im { window: self.window, size: self.size }, &[&columns])?;
        Ok(vec![dx.to_dtype(inputs[0].dtype())?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::NOTHING)
    }
    fn backward(&self, _context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let AvgPool2dGrad { window, count_include_pad, .. } = *self;
        linear_grad(grad_outputs, |grad| apply_one(AvgPool2d { window, count_include_pad }, &[grad]))
    }
}

fn infer_grad(op: &'static str, dy: &Meta<'_>, window: &Window, size: [usize; 2]) -> Result<Outputs> {
    check::float(op, "grad_output", dy)?;
    let [batch, channels, _, _] = dy.shape().to_array(op)?;
    let [oh, ow] = output_size(op, window, size)?;
    check::shape(op, "grad_output", dy, Shape::unchecked(&[batch, channels, oh, ow]))?;
    Ok(Outputs::from_buf([Output::fresh(Shape::new(&[batch, channels, size[0], size[1]])?, dy.dtype)]))
}
