//! Pools: what is largest, or the mean, of windows over one, two or three axes.
//!
//! Windows of floats over two axes have ops of their own ([`crate::ops::pool`]), from which those over one and three are composed. All else goes along one
//! axis at a time ([`AxisWindows`]): integers, windows far larger than the image, windows of several lengths.

mod adaptive;
mod axis_windows;
mod fractional;
mod options;
mod unpool;

pub use options::PoolOptions;

use crate::dispatch::{apply, apply_one};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::functions::{check_floating, in_accumulator};
use crate::ops::conv::Window;
use crate::ops::index::index_dtype;
use crate::ops::pool::{AvgPool2d, MaxPool2d};
use crate::text;
use crate::{DType, Device, Tensor};
use axis_windows::AxisWindows;

/// The sizes of all axes but the first two, batch and channels: `N` of them, and channels.
fn spatial<const N: usize>(op: &'static str, x: &Tensor) -> Result<[usize; N]> {
    match x.dims() {
        [_, 0, sizes @ ..] if sizes.len() == N => {
            Err(Error::invalid(op, format!("an input of shape {:?} without channels", x.shape())))
        }
        [_, _, sizes @ ..] => sizes.try_into().map_err(|_| rank::<N>(op, x)),
        _ => Err(rank::<N>(op, x)),
    }
}

fn rank<const N: usize>(op: &'static str, x: &Tensor) -> Error {
    Error::Rank { op, expected: (N + 2).to_string(), shape: Box::new(*x.shape()) }
}

/// That an input of a pool of largest elements has an order.
fn check_ordered(op: &'static str, x: &Tensor) -> Result<()> {
    match x.dtype() {
        DType::Bool => Err(Error::dtype(op, "input", DType::Bool, "a number")),
        _ => Ok(()),
    }
}

impl PoolOptions {
    fn window(&self) -> Window {
        let PoolOptions { kernel, stride, padding, dilation, .. } = *self;
        Window { kernel, stride, padding, dilation }
    }

    /// Elements beyond the border of an image of `size` that the last windows reach.
    fn beyond(&self, size: [usize; 2]) -> [usize; 2] {
        [0, 1].map(|axis| self.beyond_along(axis, size[axis]))
    }
}

impl<const N: usize> PoolOptions<N> {
    /// Whether ops of windows take these as they are: of floats, no farther beyond an image than it is long.
    fn has_op(&self, x: &Tensor, size: &[usize; N]) -> bool {
        let is_near = |axis: usize| {
            let size = size[axis];
            self.padding[axis] <= size && self.beyond_along(axis, size) <= size
        };
        x.dtype().is_float() && (0..N).all(is_near)
    }

    fn check_undilated(&self, op: &'static str) -> Result<()> {
        match self.dilation == [1; N] {
            true => Ok(()),
            false => Err(Error::invalid(op, format!("dilation {:?}, expected {:?}", self.dilation, [1; N]))),
        }
    }
}

/// Functions of one, two and three axes: documentation, names, and what computes them.
macro_rules! largest {
    ($($axes:literal, $name:ident, $with_positions:ident, $compute:expr, $shape:literal, $windows:literal, $position:literal;)*) => {
        impl Tensor {$(
            /// The largest element of each window; NaN if there is one.
            ///
            /// # Shapes
            #[doc = concat!("`[batch, channels, ", $shape, "]` to `[batch, channels, ", $windows, "]`, each `(size + 2 padding - dilation (kernel - 1) - 1) / stride + 1`, rounded")]
            /// down, or up with [`ceil_mode`](PoolOptions::ceil_mode).
            ///
            /// # Errors
            /// Another rank, no channels, truth values, windows that do not fit.
            pub fn $name(&self, options: PoolOptions<$axes>) -> Result<Tensor> {
                Ok($compute(stringify!($name), self, options)?.0)
            }

            #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), "), with the position of each winner, the first one: `", $position, "` (i32, i64 where that")]
            /// does not reach).
            ///
            /// # Errors
            #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), ").")]
            pub fn $with_positions(&self, options: PoolOptions<$axes>) -> Result<(Tensor, Tensor)> {
                $compute(stringify!($name), self, options)
            }
        )*}
    };
}

largest! {
    1, max_pool1d, max_pool1d_with_positions, largest_of_rows, "length", "windows", "place";
    2, max_pool2d, max_pool2d_with_positions, largest_of_planes, "height, width", "oh, ow", "row * width + column";
    3, max_pool3d, max_pool3d_with_positions, largest_of_volumes, "depth, height, width", "od, oh, ow", "(plane * height + row) * width + column";
}

fn largest_of_planes(op: &'static str, x: &Tensor, options: PoolOptions) -> Result<(Tensor, Tensor)> {
    let size = spatial(op, x)?;
    if !options.has_op(x, &size) {
        return largest(op, x, &options);
    }
    let beyond = options.beyond(size);
    let wide = behind(x, beyond, f64::NEG_INFINITY)?;
    let mut outputs = apply(MaxPool2d { window: options.window() }, &[&wide])?.into_iter();
    match (outputs.next(), outputs.next()) {
        (Some(largest), Some(position)) if beyond[1] == 0 => Ok((largest, position)),
        (Some(largest), Some(position)) => {
            // Rows of the image are shorter than those that were looked at.
            let row = position.div_scalar(wide.shape().dim(3) as i32)?;
            Ok((largest, position.sub(&row.mul_scalar(beyond[1] as i32)?)?))
        }
        _ => Err(Error::invalid(op, "the device returned fewer than 2 outputs")),
    }
}

/// As planes of one row.
fn largest_of_rows(op: &'static str, x: &Tensor, options: PoolOptions<1>) -> Result<(Tensor, Tensor)> {
    let size = spatial(op, x)?;
    if !options.has_op(x, &size) {
        return largest(op, x, &options);
    }
    options.windows(op, size)?;
    let (values, positions) = largest_of_planes(op, &x.unsqueeze(2)?, of_rows(&options))?;
    Ok((values.squeeze(2)?, positions.squeeze(2)?))
}

/// Over one axis as over the second of two.
fn of_rows(options: &PoolOptions<1>) -> PoolOptions {
    let wide = options.over(|[size]| [1, *size]);
    PoolOptions { padding: [0, options.padding[0]], ..wide }
}

/// Over the last two axes, then of those over the first.
fn largest_of_volumes(op: &'static str, x: &Tensor, options: PoolOptions<3>) -> Result<(Tensor, Tensor)> {
    let size = spatial(op, x)?;
    if !options.has_op(x, &size) || index_dtype(size.iter().product()) != DType::I32 {
        return largest(op, x, &options);
    }
    options.windows(op, size)?;
    let [batch, channels, depth, height, width] = x.sizes()?;
    let planes = for_gradients(x)?.reshape([batch, channels * depth, height, width])?;
    let (values, within) = largest_of_planes(op, &planes, options.over(|&[_, down, across]| [down, across]))?;
    let [_, _, oh, ow] = values.sizes()?;
    let columns = |x: &Tensor| x.reshape([batch, channels, depth, oh * ow]);
    let (values, places) = largest_of_planes(op, &columns(&values)?, of_planes(&options))?;
    // Of the image of [depth, oh * ow] to the plane that won, and the place in it.
    let plane = places.div_scalar((oh * ow) as i32)?;
    let position = columns(&within)?.gather(2, &plane)?.add(&plane.mul_scalar((height * width) as i32)?)?;
    let od = values.shape().dim(2);
    let shape = [batch, channels, od, oh, ow];
    Ok((values.reshape(shape)?.to_dtype(x.dtype())?, position.reshape(shape)?))
}

/// Elements whose gradients are added up along several axes: for half precision in f32, so that they are rounded once.
fn for_gradients(x: &Tensor) -> Result<Tensor> {
    if x.needs_grad() { x.to_dtype(x.dtype().accumulator()) } else { Ok(x.clone()) }
}

/// Over the first of three axes as over the first of two.
fn of_planes(options: &PoolOptions<3>) -> PoolOptions {
    let tall = options.over(|&[depth, ..]| [depth, 1]);
    PoolOptions { padding: [options.padding[0], 0], ..tall }
}

/// Along one axis after the other, the last one first.
fn largest<const N: usize>(
    op: &'static str,
    x: &Tensor,
    options: &PoolOptions<N>,
) -> Result<(Tensor, Tensor)> {
    check_ordered(op, x)?;
    let size = spatial(op, x)?;
    largest_along(x, &size, &options.windows(op, size)?)
}

/// The largest elements of these windows, and their positions in an image of `size`.
fn largest_along<const N: usize>(
    x: &Tensor,
    size: &[usize; N],
    windows: &[AxisWindows; N],
) -> Result<(Tensor, Tensor)> {
    let dtype = index_dtype(size.iter().product());
    let winners = |values: &Tensor, axis: usize| windows[axis].winners(values, 2 + axis, dtype);
    each_axis(x, size, winners)
}

/// Picks elements along each axis, the last one first, at what `winners` finds; with their positions in an image of `size`.
fn each_axis<const N: usize>(
    x: &Tensor,
    size: &[usize; N],
    winners: impl Fn(&Tensor, usize) -> Result<Tensor>,
) -> Result<(Tensor, Tensor)> {
    let (mut values, mut positions, mut elements) = (for_gradients(x)?, None::<Tensor>, 1);
    for axis in (0..N).rev() {
        let places = winners(&values, axis)?;
        values = values.gather(2 + axis, &places)?;
        positions = Some(match positions {
            Some(inner) => inner.gather(2 + axis, &places)?.add(&places.mul_scalar(elements as i64)?)?,
            None => places,
        });
        elements *= size[axis];
    }
    let positions = positions.ok_or_else(|| Error::invalid("pool", "no axes"))?;
    Ok((values.to_dtype(x.dtype())?, positions))
}

/// Images with so many rows below and columns to the right.
fn behind(x: &Tensor, [rows, columns]: [usize; 2], value: f64) -> Result<Tensor> {
    if [rows, columns] == [0, 0] {
        return Ok(x.clone());
    }
    x.pad(&[[0, 0], [0, 0], [0, rows], [0, columns]], value)
}

impl Tensor {
    /// The mean of each window. Of i64 it is rounded towards zero.
    ///
    /// # Shapes
    /// As [`max_pool1d`](Tensor::max_pool1d).
    ///
    /// # Errors
    /// Another rank, no channels, a dtype that is neither floating nor i64, a dilation, a divisor of 0, windows that do not fit.
    pub fn avg_pool1d(&self, options: PoolOptions<1>) -> Result<Tensor> {
        let op = "avg_pool1d";
        let size = spatial(op, self)?;
        if !options.has_op(self, &size) || options.divisor_override.is_some() {
            return means(op, self, &options);
        }
        options.check_undilated(op)?;
        options.windows(op, size)?;
        self.unsqueeze(2)?.avg_pool2d(of_rows(&options))?.squeeze(2)
    }

    /// The mean of each window. Of i64 it is rounded towards zero.
    ///
    /// # Shapes
    /// As [`max_pool2d`](Tensor::max_pool2d).
    ///
    /// # Errors
    /// Another rank, no channels, a dtype that is neither floating nor i64, a dilation, a divisor of 0, windows that do not fit.
    pub fn avg_pool2d(&self, options: PoolOptions) -> Result<Tensor> {
        let op = "avg_pool2d";
        let size = spatial(op, self)?;
        if !options.has_op(self, &size) || options.divisor_override.is_some() {
            return means(op, self, &options);
        }
        let op = AvgPool2d { window: options.window(), count_include_pad: options.count_include_pad };
        match options.beyond(size) {
            [0, 0] => apply_one(op, &[self]),
            beyond => {
                options.windows("avg_pool2d", size)?;
                mean_of_counted(self, op, beyond)
            }
        }
    }

    /// The mean of each window. Of i64 it is rounded towards zero.
    ///
    /// # Shapes
    /// As [`max_pool3d`](Tensor::max_pool3d).
    ///
    /// # Errors
    /// Another rank, no channels, a dtype that is neither floating nor i64, a dilation, a divisor of 0, windows that do not fit.
    pub fn avg_pool3d(&self, options: PoolOptions<3>) -> Result<Tensor> {
        let op = "avg_pool3d";
        let size = spatial(op, self)?;
        if !options.has_op(self, &size) || options.divisor_override.is_some() {
            return means(op, self, &options);
        }
        options.check_undilated(op)?;
        options.windows(op, size)?;
        in_accumulator([self], |[x]| {
            let [batch, channels, depth, height, width] = x.sizes()?;
            let planes = x.reshape([batch, channels * depth, height, width])?;
            let planes = planes.avg_pool2d(options.over(|&[_, down, across]| [down, across]))?;
            let [_, _, oh, ow] = planes.sizes()?;
            let volumes =
                planes.reshape([batch, channels, depth, oh * ow])?.avg_pool2d(of_planes(&options))?;
            volumes.reshape([batch, channels, volumes.shape().dim(2), oh, ow])
        })
    }

    /// `(sum of x^p)^(1 / p)` of each window; 0, with a gradient of 0, where the sum is 0. Of a window that is cut, in [`ceil_mode`](PoolOptions::ceil_mode),
    /// the sum is scaled to the whole window, as in PyTorch.
    ///
    /// # Shapes
    /// As [`max_pool1d`](Tensor::max_pool1d).
    ///
    /// # Errors
    /// As [`avg_pool1d`](Tensor::avg_pool1d); integers, a `p` of 0.
    pub fn lp_pool1d(&self, p: f64, options: PoolOptions<1>) -> Result<Tensor> {
        powers("lp_pool1d", self, p, &options, Tensor::avg_pool1d)
    }

    /// [`lp_pool1d`](Tensor::lp_pool1d) of windows over two axes.
    ///
    /// # Shapes
    /// As [`max_pool2d`](Tensor::max_pool2d).
    ///
    /// # Errors
    /// As [`avg_pool2d`](Tensor::avg_pool2d); integers, a `p` of 0.
    pub fn lp_pool2d(&self, p: f64, options: PoolOptions) -> Result<Tensor> {
        powers("lp_pool2d", self, p, &options, Tensor::avg_pool2d)
    }

    /// [`lp_pool1d`](Tensor::lp_pool1d) of windows over three axes.
    ///
    /// # Shapes
    /// As [`max_pool3d`](Tensor::max_pool3d).
    ///
    /// # Errors
    /// As [`avg_pool3d`](Tensor::avg_pool3d); integers, a `p` of 0.
    pub fn lp_pool3d(&self, p: f64, options: PoolOptions<3>) -> Result<Tensor> {
        powers("lp_pool3d", self, p, &options, Tensor::avg_pool3d)
    }
}

/// Means over windows that reach so many rows and columns `beyond` the border: over the whole window, then divided by the share of it that counts.
fn mean_of_counted(x: &Tensor, op: AvgPool2d, beyond: [usize; 2]) -> Result<Tensor> {
    let [_, _, height, width] = x.shape().to_array("avg_pool2d")?;
    let [top, left] = op.window.padding;
    let border = |x: &Tensor, value: f64| x.pad(&[[0, 0], [0, 0], [top, top], [left, left]], value);
    let op = AvgPool2d { window: Window { padding: [0, 0], ..op.window }, ..op };
    let wide = border(&x.to_dtype(x.dtype().accumulator())?, 0.0)?;
    let ones = Tensor::ones([1, 1, height, width], wide.dtype(), x.device())?;
    let counted = border(&ones, if op.count_include_pad { 1.0 } else { 0.0 })?;
    let share = apply_one(op.clone(), &[&behind(&counted, beyond, 0.0)?])?;
    apply_one(op, &[&behind(&wide, beyond, 0.0)?])?.div(&share)?.to_dtype(x.dtype())
}

/// Sums along one axis after the other, divided.
fn means<const N: usize>(op: &'static str, x: &Tensor, options: &PoolOptions<N>) -> Result<Tensor> {
    if !x.dtype().is_float() && x.dtype() != DType::I64 {
        return Err(Error::dtype(op, "input", x.dtype(), text!["a floating dtype or ", DType::I64]));
    }
    options.check_undilated(op)?;
    if options.divisor_override == Some(0) {
        return Err(Error::invalid(op, "a divisor of 0"));
    }
    let size = spatial(op, x)?;
    let windows = options.windows(op, size)?;
    in_accumulator([x], |[x]| {
        let divisor = match options.divisor_override {
            Some(divisor) if x.dtype().is_float() => x.detach().scalar_like(divisor as f64)?,
            Some(divisor) => x.detach().scalar_like(Scalar::from(divisor))?,
            None => {
                let counts = |axis: usize| options.divisors(axis, size[axis], &windows[axis]);
                product_over_axes(N, counts, x.dtype(), x.device())?
            }
        };
        sums_along(x, &windows)?.div(&divisor)
    })
}

/// Sums of windows, along the last axis first.
fn sums_along<const N: usize>(x: &Tensor, windows: &[AxisWindows; N]) -> Result<Tensor> {
    (0..N).rev().try_fold(x.clone(), |sums, axis| windows[axis].sums(&sums, 2 + axis))
}

/// The product of the numbers of each of `axes` axes, spread over them.
fn product_over_axes(
    axes: usize,
    numbers: impl Fn(usize) -> Vec<f64>,
    dtype: DType,
    device: &Device,
) -> Result<Tensor> {
    let mut product = None::<Tensor>;
    for axis in 0..axes {
        let numbers = numbers(axis);
        let mut shape = vec![1; axes];
        shape[axis] = numbers.len();
        let factor = match dtype {
            DType::F64 => Tensor::from_vec(numbers, &shape[..], device)?,
            DType::I64 => Tensor::from_vec(
                numbers.into_iter().map(|number| number as i64).collect::<Vec<_>>(),
                &shape[..],
                device,
            )?,
            _ => Tensor::from_vec(
                numbers.into_iter().map(|number| number as f32).collect::<Vec<_>>(),
                &shape[..],
                device,
            )?,
        };
        product = Some(match product {
            Some(product) => product.mul(&factor)?,
            None => factor,
        });
    }
    product.ok_or_else(|| Error::invalid("pool", "no axes"))
}

/// Roots of sums of powers, of a function that gives means of windows.
fn powers<const N: usize>(
    op: &'static str,
    x: &Tensor,
    p: f64,
    options: &PoolOptions<N>,
    means: impl Fn(&Tensor, PoolOptions<N>) -> Result<Tensor>,
) -> Result<Tensor> {
    check_floating(op, x)?;
    spatial::<N>(op, x)?;
    if p == 0.0 || p.is_nan() {
        return Err(Error::invalid(op, format!("p of {p}, expected another number than 0")));
    }
    in_accumulator([x], |[x]| {
        let elements: f64 = options.kernel.iter().map(|&size| size as f64).product();
        let sum = means(&x.powf(p)?, *options)?.mul_scalar(elements)?;
        // The root has an infinite derivative at 0, whose gradient is 0 here, as in PyTorch.
        let is_zero = sum.detach().eq_scalar(0)?;
        sum.masked_fill(&is_zero, 1)?.powf(1.0 / p)?.masked_fill(&is_zero, 0)
    })
}
