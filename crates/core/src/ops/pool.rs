//! Pooling over windows of two axes.

use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::dispatch::{apply, apply_one};
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::ops::conv::{Col2im, Window, linear_grad};
use crate::ops::reduce::{Reduce, ReduceOp};
use crate::shape::AxisSet;
use crate::tensor::Tensor;
use crate::{DType, Shape};

/// Largest element of each window; NaN if there is one. Padding counts as -infinity and never wins a position. Input: x `[batch, channels, height,
/// width]`, floating; padding at most half the kernel, and an element of the image in every window. Outputs: y `[batch, channels, oh, ow]`; position of the winner in its image plane (`row * width + col`, the first one, i32,
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

/// Mean of each window, with dilation 1. Input: x `[batch, channels, height, width]`, floating; padding at most half the kernel, and an element of
/// the image in every window. Output: `[batch, channels, oh, ow]`. Halves accumulate in f32.
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

fn at_most_half(op: &'static str, window: &Window) -> Result<()> {
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
    at_most_half(op, window)?;
    let output = window.output_size(op, size)?;
    // Windows that start in the image reach less far into it than the last one.
    let all_in_padding = (0..2).any(|axis| {
        let in_padding = window.padding[axis].div_ceil(window.stride[axis]).min(output[axis]);
        (0..in_padding).chain([output[axis] - 1]).any(|at| !sees_image(window, axis, at, size[axis]))
    });
    if all_in_padding {
        return Err(Error::invalid(
            op,
            format!("a window {window:?} on an image of {size:?} lies in the padding altogether"),
        ));
    }
    Ok(output)
}

/// Whether window `at` along `axis` has an element of the image.
fn sees_image(window: &Window, axis: usize, at: usize, size: usize) -> bool {
    let start = at * window.stride[axis];
    let padding = window.padding[axis];
    // The first element at or beyond the image's start.
    let skipped = padding.saturating_sub(start).div_ceil(window.dilation[axis]);
    skipped < window.kernel[axis] && start + skipped * window.dilation[axis] < padding + size
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
    /// The winner's place in its window, then its place in the image, then its value.
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let x = &inputs[0];
        let windows = self.window.views(x, f64::NEG_INFINITY)?;
        let [batch, channels, oh, ow, kh, kw] = windows.sizes()?;
        let place = apply_one(arg_max(), &[&windows])?;
        let seen = self.positions(x)?.contiguous()?.reshape([1, 1, oh, ow, kh * kw])?;
        let position = seen
            .expand([batch, channels, oh, ow, kh * kw])?
            .gather(4, &place.reshape([batch, channels, oh, ow, 1])?)?
            .squeeze(4)?;
        // Where all are -infinity the padding, which is as large, may come first: the first element of the image wins instead.
        let first = seen.gather(4, &first_inside(&seen)?)?.squeeze(4)?;
        let position = position.ge_scalar(0)?.where_(&position, &first)?;
        Ok(vec![
            in_planes(x)?.gather(2, &in_planes(&position)?)?.reshape([batch, channels, oh, ow])?,
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
    /// The position in the image of every element of every window, -1 in the padding: `[1, 1, oh, ow, kh, kw]`.
    fn positions(&self, x: &Tensor) -> Result<Tensor> {
        let [_, _, height, width] = x.sizes()?;
        let position = Tensor::iota(height * width, DType::I32, 0, 1, x.device())?;
        self.window.views(&position.reshape([1, 1, height, width])?, -1)
    }
}

/// The first largest element of each window of a six-axis view.
fn arg_max() -> Reduce {
    Reduce { op: ReduceOp::ArgMax, axes: AxisSet::one(4).with(5), keep: false }
}

/// The place in each window of its first element that is not padding: `[1, 1, oh, ow, 1]`.
fn first_inside(seen: &Tensor) -> Result<Tensor> {
    let inside = seen.ge_scalar(0)?.to_dtype(DType::I32)?;
    apply_one(Reduce { op: ReduceOp::ArgMax, axes: AxisSet::one(4), keep: true }, &[&inside])
}

/// Each image plane in one axis: `[batch, channels, height * width]`.
fn in_planes(x: &Tensor) -> Result<Tensor> {
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
        let outputs = grad(name, &inputs[1], &self.window, self.size)?;
        check::shape(name, "positions", &inputs[0], *inputs[1].shape())?;
        Ok(outputs)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (position, dy) = (&inputs[0], &inputs[1]);
        let [batch, channels, _, _] = dy.sizes()?;
        let [height, width] = self.size;
        let zeros = Tensor::zeros([batch, channels, height * width], dy.dtype(), dy.device())?;
        let dx = zeros.scatter_add(2, &in_planes(position)?, &in_planes(dy)?)?;
        Ok(vec![dx.reshape([batch, channels, height, width])?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves { inputs: 0b01, outputs: 0 })
    }
    /// Linear in dy: each gets what came to its winner.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, 2);
        if let (Some(grad), true) = (&grad_outputs[0], context.needs(1)) {
            let position = in_planes(context.input(0)?)?;
            grads[1] = Some(in_planes(grad)?.gather(2, &position)?.reshape(*context.shape(1))?);
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
        undilated("avg_pool2d", &self.window)?;
        let shape = pooled("avg_pool2d", &inputs[0], &self.window)?;
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

fn undilated(op: &'static str, window: &Window) -> Result<()> {
    match window.dilation {
        [1, 1] => Ok(()),
        dilation => Err(Error::invalid(op, format!("dilation {dilation:?}, expected [1, 1]"))),
    }
}

/// By what the sum of each window is divided: a number, or `[1, 1, oh, ow]` where windows reach into padding that does not count.
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
        undilated("avg_pool2d_grad", &self.window)?;
        grad("avg_pool2d_grad", &inputs[0], &self.window, self.size)
    }
    /// Every element of a window gets the same share: columns that repeat it, added up.
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let dy = inputs[0].to_dtype(inputs[0].dtype().accumulator())?;
        let [batch, channels, oh, ow] = dy.sizes()?;
        let [kh, kw] = self.window.kernel;
        let share = dy.div(&divisor(&self.window, self.count_include_pad, self.size, &dy)?)?;
        let columns = share
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

fn grad(op: &'static str, dy: &Meta<'_>, window: &Window, size: [usize; 2]) -> Result<Outputs> {
    check::float(op, "grad_output", dy)?;
    let [batch, channels, _, _] = dy.shape().to_array(op)?;
    let [oh, ow] = output_size(op, window, size)?;
    check::shape(op, "grad_output", dy, Shape::unchecked(&[batch, channels, oh, ow]))?;
    Ok(Outputs::from_buf([Output::fresh(Shape::new(&[batch, channels, size[0], size[1]])?, dy.dtype)]))
}

/// The window of a pooling: `[height, width]` each. `PoolOptions { padding: [1, 1], ..PoolOptions::new([3, 3]) }`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Size of the window.
    pub kernel: [usize; 2],
    /// Distance of neighbouring windows; the kernel by default.
    pub stride: [usize; 2],
    /// Border around the image, on both sides, at most half the kernel; none by default.
    pub padding: [usize; 2],
    /// Distance of neighbouring elements in a window; 1 by default. [1, 1] for averages.
    pub dilation: [usize; 2],
    /// Whether the border counts in the divisor of an average; yes by default.
    pub count_include_pad: bool,
    /// Whether a last window that reaches beyond the border is kept, if it begins before the border behind the image; not by default. What lies beyond never counts. Costs
    /// a copy of the image where there is such a window.
    pub ceil_mode: bool,
}

impl PoolOptions {
    /// Windows side by side, without padding: PyTorch's defaults.
    pub fn new(kernel: [usize; 2]) -> PoolOptions {
        PoolOptions {
            kernel,
            stride: kernel,
            padding: [0, 0],
            dilation: [1, 1],
            count_include_pad: true,
            ceil_mode: false,
        }
    }

    fn window(&self) -> Window {
        let PoolOptions { kernel, stride, padding, dilation, .. } = *self;
        Window { kernel, stride, padding, dilation }
    }

    /// Rows and columns beyond the border of an image `[.., height, width]` that its last windows reach; none but in [`ceil_mode`](PoolOptions::ceil_mode).
    fn beyond(&self, shape: &Shape) -> [usize; 2] {
        match shape.dims() {
            [.., height, width] if self.ceil_mode => {
                [0, 1].map(|axis| self.beyond_along(axis, [*height, *width][axis]))
            }
            _ => [0, 0],
        }
    }

    fn beyond_along(&self, axis: usize, size: usize) -> usize {
        let (stride, padding) = (self.stride[axis], self.padding[axis]);
        let span = self.kernel[axis].saturating_sub(1).saturating_mul(self.dilation[axis]).saturating_add(1);
        let padded = padding.saturating_mul(2).saturating_add(size);
        // Where the first window begins that does not fit. Strides of 0 and images that hold no window are told of by the op.
        let start = match (padded.checked_sub(span), stride) {
            (_, 0) => return 0,
            (Some(rest), stride) if rest % stride == 0 => return 0,
            (Some(rest), stride) => (rest / stride).saturating_add(1).saturating_mul(stride),
            (None, stride) if span - padded < stride => 0,
            (None, _) => return 0,
        };
        if start < padding.saturating_add(size) { start.saturating_add(span) - padded } else { 0 }
    }
}

impl Tensor {
    /// The largest element of each window; NaN if there is one.
    ///
    /// # Shapes
    /// `[batch, channels, height, width]` to `[batch, channels, oh, ow]` with `oh = (height + 2 padding - dilation (kh - 1) - 1) / stride + 1`, rounded down, or up with
    /// [`ceil_mode`](PoolOptions::ceil_mode).
    ///
    /// # Errors
    /// Another rank, a dtype that is not floating, windows that do not fit.
    pub fn max_pool2d(&self, options: PoolOptions) -> Result<Tensor> {
        let x = behind(self, options.beyond(self.shape()), f64::NEG_INFINITY)?;
        apply_one(MaxPool2d { window: options.window() }, &[&x])
    }

    /// As [`max_pool2d`](Tensor::max_pool2d), with the position of each winner in its image plane (`row * width + column`, i32).
    ///
    /// # Errors
    /// As [`max_pool2d`](Tensor::max_pool2d).
    pub fn max_pool2d_with_positions(&self, options: PoolOptions) -> Result<(Tensor, Tensor)> {
        let beyond = options.beyond(self.shape());
        let x = behind(self, beyond, f64::NEG_INFINITY)?;
        let mut outputs = apply(MaxPool2d { window: options.window() }, &[&x])?.into_iter();
        match (outputs.next(), outputs.next()) {
            (Some(largest), Some(position)) if beyond[1] == 0 => Ok((largest, position)),
            (Some(largest), Some(position)) => {
                // Rows of the image are shorter than those that were looked at.
                let row = position.div_scalar(x.shape().dim(3) as i32)?;
                Ok((largest, position.sub(&row.mul_scalar(beyond[1] as i32)?)?))
            }
            _ => Err(Error::invalid("max_pool2d", "the device returned fewer than 2 outputs")),
        }
    }

    /// The mean of each window.
    ///
    /// # Shapes
    /// As [`max_pool2d`](Tensor::max_pool2d).
    ///
    /// # Errors
    /// Another rank, a dtype that is not floating, a dilation, windows that do not fit.
    pub fn avg_pool2d(&self, options: PoolOptions) -> Result<Tensor> {
        let op = AvgPool2d { window: options.window(), count_include_pad: options.count_include_pad };
        match options.beyond(self.shape()) {
            [0, 0] => apply_one(op, &[self]),
            beyond => mean_of_counted(self, op, beyond),
        }
    }

    /// Means over windows chosen so that the result has this size: window `i` of `oh` is `floor(i * height / oh)..ceil((i + 1) * height / oh)`.
    ///
    /// # Shapes
    /// `[batch, channels, height, width]` to `[batch, channels, size[0], size[1]]`.
    ///
    /// # Errors
    /// Another rank, a dtype that is not floating, an empty image or result, a result that is too large.
    pub fn adaptive_avg_pool2d(&self, size: [usize; 2]) -> Result<Tensor> {
        let op = "adaptive_avg_pool2d";
        check::float(op, "input", &self.meta())?;
        let [_, _, height, width] = self.shape().to_array(op)?;
        if [height, width].contains(&0) || size.contains(&0) {
            return Err(Error::invalid(op, format!("image of {:?} to {size:?}", [height, width])));
        }
        if height % size[0] == 0 && width % size[1] == 0 {
            return self.avg_pool2d(PoolOptions::new([height / size[0], width / size[1]]));
        }
        let rows = self.shape().resized(2, size[0], op)?;
        rows.resized(3, size[1], op)?;
        let x = self.to_dtype(self.dtype().accumulator())?;
        window_means(&window_means(&x, 2, size[0])?, 3, size[1])?.to_dtype(self.dtype())
    }
}

/// Images with so many rows below and columns to the right.
fn behind(x: &Tensor, [rows, columns]: [usize; 2], value: f64) -> Result<Tensor> {
    if [rows, columns] == [0, 0] {
        return Ok(x.clone());
    }
    x.pad(&[[0, 0], [0, 0], [0, rows], [0, columns]], value)
}

/// Means over windows that reach so many rows and columns `beyond` the border: over the whole window, then divided by the share of it that counts.
fn mean_of_counted(x: &Tensor, op: AvgPool2d, beyond: [usize; 2]) -> Result<Tensor> {
    let [_, _, height, width] = x.shape().to_array("avg_pool2d")?;
    at_most_half("avg_pool2d", &op.window)?;
    let [top, left] = op.window.padding;
    let border = |x: &Tensor, value: f64| x.pad(&[[0, 0], [0, 0], [top, top], [left, left]], value);
    let op = AvgPool2d { window: Window { padding: [0, 0], ..op.window }, ..op };
    let wide = border(&x.to_dtype(x.dtype().accumulator())?, 0.0)?;
    let ones = Tensor::ones([1, 1, height, width], wide.dtype(), x.device())?;
    let counted = border(&ones, if op.count_include_pad { 1.0 } else { 0.0 })?;
    let share = apply_one(op.clone(), &[&behind(&counted, beyond, 0.0)?])?;
    apply_one(op, &[&behind(&wide, beyond, 0.0)?])?.div(&share)?.to_dtype(x.dtype())
}

/// The means of `count` windows, nearly equal and as far apart as can be, that cover `axis`.
///
/// All windows are picked at once, at the width of the widest: that is less than the axis and three times `count` together.
fn window_means(x: &Tensor, axis: usize, count: usize) -> Result<Tensor> {
    let op = "adaptive_avg_pool2d";
    let (length, device) = (x.shape().dim(axis), x.device());
    let width = (length.div_ceil(count) + 1).min(length);
    let picked = x.shape().resized(axis, count, op)?.with_axis(axis + 1, width)?;
    // Memory that is not there is told of before the windows are listed.
    drop(Tensor::uninitialized(picked, x.dtype(), device)?);
    let windows = Windows::of(length, count, width, op)?;
    let places = Tensor::from_vec(windows.places, [count * width], device)?;
    let inside = Tensor::from_vec(windows.inside, [count, width], device)?;
    let sizes = Tensor::from_vec(windows.sizes, [count], device)?.to_dtype(x.dtype())?;
    // As axes `[count, width, 1, ..]`, which align with those of what is picked.
    let after = vec![1; x.rank() - axis - 1];
    let picked = x.index_select(axis, &places)?.reshape(picked)?;
    let inside = inside.reshape([&[count, width], after.as_slice()].concat())?;
    let sum = inside.where_(&picked, &picked.scalar_like(0i64)?)?.sum(axis + 1)?;
    sum.div(&sizes.reshape([&[count], after.as_slice()].concat())?)
}

/// Windows over an axis: `width` places of each, whether each place is inside it, and its size.
struct Windows {
    places: Vec<i32>,
    inside: Vec<bool>,
    sizes: Vec<f32>,
}

impl Windows {
    fn of(length: usize, count: usize, width: usize, op: &'static str) -> Result<Windows> {
        if i32::try_from(length).is_err() || count.checked_mul(length).is_none() {
            return Err(Error::invalid(op, format!("an axis of {length} to {count}: too long")));
        }
        let mut windows = Windows { places: Vec::new(), inside: Vec::new(), sizes: Vec::new() };
        for at in 0..count {
            let (start, end) = (at * length / count, ((at + 1) * length).div_ceil(count));
            windows.places.extend((start..start + width).map(|place| place.min(length - 1) as i32));
            windows.inside.extend((start..start + width).map(|place| place < end));
            windows.sizes.push((end - start) as f32);
        }
        Ok(windows)
    }
}
