//! Pooling: the maximum or the mean of windows over one, two or three axes.
//!
//! Floating-point windows over two axes have dedicated ops ([`crate::ops::pool`]); those over one
//! and three axes are composed of them. All other cases are computed along one axis at a time
//! ([`AxisWindows`]): integers, windows far larger than the image, and windows of different
//! lengths.

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

/// Returns the `N` sizes of all axes except the first two, which are batch and channels.
fn spatial_sizes<const N: usize>(op: &'static str, x: &Tensor) -> Result<[usize; N]> {
    match x.dims() {
        [_, 0, sizes @ ..] if sizes.len() == N => {
            Err(Error::invalid(op, format!("an input of shape {:?} without channels", x.shape())))
        }
        [_, _, sizes @ ..] => sizes.try_into().map_err(|_| rank_error::<N>(op, x)),
        _ => Err(rank_error::<N>(op, x)),
    }
}

fn rank_error<const N: usize>(op: &'static str, x: &Tensor) -> Error {
    Error::Rank { op, expected: (N + 2).to_string(), shape: Box::new(*x.shape()) }
}

/// Checks that the elements of an input of a max pool have an order.
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

    /// Returns the number of elements beyond the border of an image of `size` that the last windows
    /// contain.
    fn overhangs(&self, size: [usize; 2]) -> [usize; 2] {
        [0, 1].map(|axis| self.overhang(axis, size[axis]))
    }
}

impl<const N: usize> PoolOptions<N> {
    /// Returns whether the ops support these options: floating-point, and no window extends beyond
    /// an image by more than its size.
    fn has_op(&self, x: &Tensor, size: &[usize; N]) -> bool {
        let overhang_fits = |axis: usize| {
            let size = size[axis];
            self.padding[axis] <= size && self.overhang(axis, size) <= size
        };
        x.dtype().is_float() && (0..N).all(overhang_fits)
    }

    fn check_undilated(&self, op: &'static str) -> Result<()> {
        match self.dilation == [1; N] {
            true => Ok(()),
            false => Err(Error::invalid(op, format!("dilation {:?}, expected {:?}", self.dilation, [1; N]))),
        }
    }
}

/// Defines the functions for one, two and three axes from documentation, names and implementations.
macro_rules! max_pools {
    ($($axes:literal, $name:ident, $with_positions:ident, $compute:expr, $shape:literal, $windows:literal, $position:literal;)*) => {
        impl Tensor {$(
            /// Returns the maximum of each window, or NaN if there is one.
            ///
            /// # Shapes
            #[doc = concat!("`[batch, channels, ", $shape, "]` to `[batch, channels, ", $windows, "]`, each `(size + 2 padding - dilation (kernel - 1) - 1) / stride + 1`, rounded")]
            /// down, or up with [`ceil_mode`](PoolOptions::ceil_mode).
            ///
            /// # Errors
            /// Returns an error if the rank does not match, if there are no channels, if the dtype
            /// is bool, or if the windows do not fit.
            pub fn $name(&self, options: PoolOptions<$axes>) -> Result<Tensor> {
                Ok($compute(stringify!($name), self, options)?.0)
            }

            #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), "), with the position of each winner, the first one: `", $position, "` (i32, i64 where that")]
            /// would overflow).
            ///
            /// # Errors
            #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), ").")]
            pub fn $with_positions(&self, options: PoolOptions<$axes>) -> Result<(Tensor, Tensor)> {
                $compute(stringify!($name), self, options)
            }
        )*}
    };
}

max_pools! {
    1, max_pool1d, max_pool1d_with_positions, max_pool_rows, "length", "windows", "index";
    2, max_pool2d, max_pool2d_with_positions, max_pool_planes, "height, width", "oh, ow", "row * width + column";
    3, max_pool3d, max_pool3d_with_positions, max_pool_volumes, "depth, height, width", "od, oh, ow", "(plane * height + row) * width + column";
}

fn max_pool_planes(op: &'static str, x: &Tensor, options: PoolOptions) -> Result<(Tensor, Tensor)> {
    let size = spatial_sizes(op, x)?;
    if !options.has_op(x, &size) {
        return max_pool_axes(op, x, &options);
    }
    let overhang = options.overhangs(size);
    let wide = pad_end(x, overhang, f64::NEG_INFINITY)?;
    let mut outputs = apply(MaxPool2d { window: options.window() }, &[&wide])?.into_iter();
    match (outputs.next(), outputs.next()) {
        (Some(largest), Some(position)) if overhang[1] == 0 => Ok((largest, position)),
        (Some(largest), Some(position)) => {
            // Converts positions from rows of the padded image to the shorter rows of the image.
            let row = position.div_scalar(wide.shape().dim(3) as i32)?;
            Ok((largest, position.sub(&row.mul_scalar(overhang[1] as i32)?)?))
        }
        _ => Err(Error::invalid(op, "the device returned fewer than 2 outputs")),
    }
}

/// Pools rows as planes of one row.
fn max_pool_rows(op: &'static str, x: &Tensor, options: PoolOptions<1>) -> Result<(Tensor, Tensor)> {
    let size = spatial_sizes(op, x)?;
    if !options.has_op(x, &size) {
        return max_pool_axes(op, x, &options);
    }
    options.windows(op, size)?;
    let (values, positions) = max_pool_planes(op, &x.unsqueeze(2)?, to_row_options(&options))?;
    Ok((values.squeeze(2)?, positions.squeeze(2)?))
}

/// Converts options of one axis to those of two, with the axis as the second one.
fn to_row_options(options: &PoolOptions<1>) -> PoolOptions {
    let wide = options.over(|[size]| [1, *size]);
    PoolOptions { padding: [0, options.padding[0]], ..wide }
}

/// Pools over the last two axes, then the results over the first.
fn max_pool_volumes(op: &'static str, x: &Tensor, options: PoolOptions<3>) -> Result<(Tensor, Tensor)> {
    let size = spatial_sizes(op, x)?;
    if !options.has_op(x, &size) || index_dtype(size.iter().product()) != DType::I32 {
        return max_pool_axes(op, x, &options);
    }
    options.windows(op, size)?;
    let [batch, channels, depth, height, width] = x.sizes()?;
    let planes = widen_for_grad(x)?.reshape([batch, channels * depth, height, width])?;
    let (values, within) =
        max_pool_planes(op, &planes, options.over(|&[_, vertical, horizontal]| [vertical, horizontal]))?;
    let [_, _, oh, ow] = values.sizes()?;
    let columns = |x: &Tensor| x.reshape([batch, channels, depth, oh * ow]);
    let (values, indices) = max_pool_planes(op, &columns(&values)?, to_plane_options(&options))?;
    // Positions in the image of [depth, oh * ow] give the plane of the maximum; its position within
    // the plane was computed before.
    let plane = indices.div_scalar((oh * ow) as i32)?;
    let position = columns(&within)?.gather(2, &plane)?.add(&plane.mul_scalar((height * width) as i32)?)?;
    let od = values.shape().dim(2);
    let shape = [batch, channels, od, oh, ow];
    Ok((values.reshape(shape)?.to_dtype(x.dtype())?, position.reshape(shape)?))
}

/// Converts half precision to f32 if a gradient is needed: gradients are accumulated along several
/// axes and rounded once.
fn widen_for_grad(x: &Tensor) -> Result<Tensor> {
    if x.needs_grad() { x.to_dtype(x.dtype().accumulator()) } else { Ok(x.clone()) }
}

/// Converts options of the first of three axes to those of two, with the axis as the first one.
fn to_plane_options(options: &PoolOptions<3>) -> PoolOptions {
    let tall = options.over(|&[depth, ..]| [depth, 1]);
    PoolOptions { padding: [options.padding[0], 0], ..tall }
}

/// Pools along one axis after another, beginning with the last one.
fn max_pool_axes<const N: usize>(
    op: &'static str,
    x: &Tensor,
    options: &PoolOptions<N>,
) -> Result<(Tensor, Tensor)> {
    check_ordered(op, x)?;
    let size = spatial_sizes(op, x)?;
    max_along_axes(x, &size, &options.windows(op, size)?)
}

/// Returns the maxima of these windows, and their positions in an image of `size`.
fn max_along_axes<const N: usize>(
    x: &Tensor,
    size: &[usize; N],
    windows: &[AxisWindows; N],
) -> Result<(Tensor, Tensor)> {
    let dtype = index_dtype(size.iter().product());
    let argmax = |values: &Tensor, axis: usize| windows[axis].argmax(values, 2 + axis, dtype);
    gather_each_axis(x, size, argmax)
}

/// Gathers elements along each axis, beginning with the last one, at the indices that `argmax`
/// returns. Also returns their positions in an image of `size`.
fn gather_each_axis<const N: usize>(
    x: &Tensor,
    size: &[usize; N],
    argmax: impl Fn(&Tensor, usize) -> Result<Tensor>,
) -> Result<(Tensor, Tensor)> {
    let (mut values, mut positions, mut elements) = (widen_for_grad(x)?, None::<Tensor>, 1);
    for axis in (0..N).rev() {
        let indices = argmax(&values, axis)?;
        values = values.gather(2 + axis, &indices)?;
        positions = Some(match positions {
            Some(inner) => inner.gather(2 + axis, &indices)?.add(&indices.mul_scalar(elements as i64)?)?,
            None => indices,
        });
        elements *= size[axis];
    }
    let positions = positions.ok_or_else(|| Error::invalid("pool", "no axes"))?;
    Ok((values.to_dtype(x.dtype())?, positions))
}

/// Pads images with rows at the bottom and columns at the right.
fn pad_end(x: &Tensor, [rows, columns]: [usize; 2], value: f64) -> Result<Tensor> {
    if [rows, columns] == [0, 0] {
        return Ok(x.clone());
    }
    x.pad(&[[0, 0], [0, 0], [0, rows], [0, columns]], value)
}

impl Tensor {
    /// Returns the mean of each window. For i64 it is rounded toward zero.
    ///
    /// # Shapes
    /// Same as [`max_pool1d`](Tensor::max_pool1d).
    ///
    /// # Errors
    /// Returns an error if the rank does not match, if there are no channels, if the dtype is
    /// neither floating-point nor i64, if there is a dilation, if the divisor is 0, or if the
    /// windows do not fit.
    pub fn avg_pool1d(&self, options: PoolOptions<1>) -> Result<Tensor> {
        let op = "avg_pool1d";
        let size = spatial_sizes(op, self)?;
        if !options.has_op(self, &size) || options.divisor_override.is_some() {
            return means(op, self, &options);
        }
        options.check_undilated(op)?;
        options.windows(op, size)?;
        self.unsqueeze(2)?.avg_pool2d(to_row_options(&options))?.squeeze(2)
    }

    /// Returns the mean of each window. For i64 it is rounded toward zero.
    ///
    /// # Shapes
    /// Same as [`max_pool2d`](Tensor::max_pool2d).
    ///
    /// # Errors
    /// Returns an error if the rank does not match, if there are no channels, if the dtype is
    /// neither floating-point nor i64, if there is a dilation, if the divisor is 0, or if the
    /// windows do not fit.
    pub fn avg_pool2d(&self, options: PoolOptions) -> Result<Tensor> {
        let op = "avg_pool2d";
        let size = spatial_sizes(op, self)?;
        if !options.has_op(self, &size) || options.divisor_override.is_some() {
            return means(op, self, &options);
        }
        let op = AvgPool2d { window: options.window(), count_include_pad: options.count_include_pad };
        match options.overhangs(size) {
            [0, 0] => apply_one(op, &[self]),
            overhang => {
                options.windows("avg_pool2d", size)?;
                mean_with_overhang(self, op, overhang)
            }
        }
    }

    /// Returns the mean of each window. For i64 it is rounded toward zero.
    ///
    /// # Shapes
    /// Same as [`max_pool3d`](Tensor::max_pool3d).
    ///
    /// # Errors
    /// Returns an error if the rank does not match, if there are no channels, if the dtype is
    /// neither floating-point nor i64, if there is a dilation, if the divisor is 0, or if the
    /// windows do not fit.
    pub fn avg_pool3d(&self, options: PoolOptions<3>) -> Result<Tensor> {
        let op = "avg_pool3d";
        let size = spatial_sizes(op, self)?;
        if !options.has_op(self, &size) || options.divisor_override.is_some() {
            return means(op, self, &options);
        }
        options.check_undilated(op)?;
        options.windows(op, size)?;
        in_accumulator([self], |[x]| {
            let [batch, channels, depth, height, width] = x.sizes()?;
            let planes = x.reshape([batch, channels * depth, height, width])?;
            let planes =
                planes.avg_pool2d(options.over(|&[_, vertical, horizontal]| [vertical, horizontal]))?;
            let [_, _, oh, ow] = planes.sizes()?;
            let volumes =
                planes.reshape([batch, channels, depth, oh * ow])?.avg_pool2d(to_plane_options(&options))?;
            volumes.reshape([batch, channels, volumes.shape().dim(2), oh, ow])
        })
    }

    /// Returns `(sum of x^p)^(1 / p)` of each window. Where the sum is 0, the result and its
    /// gradient are 0. If a window is clipped, with [`ceil_mode`](PoolOptions::ceil_mode), the sum
    /// is scaled to the whole window, as in PyTorch.
    ///
    /// # Shapes
    /// Same as [`max_pool1d`](Tensor::max_pool1d).
    ///
    /// # Errors
    /// Same as [`avg_pool1d`](Tensor::avg_pool1d). Also returns an error for integers, or if `p`
    /// is 0.
    pub fn lp_pool1d(&self, p: f64, options: PoolOptions<1>) -> Result<Tensor> {
        power_means("lp_pool1d", self, p, &options, Tensor::avg_pool1d)
    }

    /// Same as [`lp_pool1d`](Tensor::lp_pool1d), with windows over two axes.
    ///
    /// # Shapes
    /// Same as [`max_pool2d`](Tensor::max_pool2d).
    ///
    /// # Errors
    /// Same as [`avg_pool2d`](Tensor::avg_pool2d). Also returns an error for integers, or if `p`
    /// is 0.
    pub fn lp_pool2d(&self, p: f64, options: PoolOptions) -> Result<Tensor> {
        power_means("lp_pool2d", self, p, &options, Tensor::avg_pool2d)
    }

    /// Same as [`lp_pool1d`](Tensor::lp_pool1d), with windows over three axes.
    ///
    /// # Shapes
    /// Same as [`max_pool3d`](Tensor::max_pool3d).
    ///
    /// # Errors
    /// Same as [`avg_pool3d`](Tensor::avg_pool3d). Also returns an error for integers, or if `p`
    /// is 0.
    pub fn lp_pool3d(&self, p: f64, options: PoolOptions<3>) -> Result<Tensor> {
        power_means("lp_pool3d", self, p, &options, Tensor::avg_pool3d)
    }
}

/// Returns means over windows that extend beyond the border by the rows and columns of `overhang`:
/// the mean over the whole window, divided by the fraction of elements that count.
fn mean_with_overhang(x: &Tensor, op: AvgPool2d, overhang: [usize; 2]) -> Result<Tensor> {
    let [_, _, height, width] = x.shape().to_array("avg_pool2d")?;
    let [top, left] = op.window.padding;
    let border = |x: &Tensor, value: f64| x.pad(&[[0, 0], [0, 0], [top, top], [left, left]], value);
    let op = AvgPool2d { window: Window { padding: [0, 0], ..op.window }, ..op };
    let wide = border(&x.to_dtype(x.dtype().accumulator())?, 0.0)?;
    let ones = Tensor::ones([1, 1, height, width], wide.dtype(), x.device())?;
    let counted = border(&ones, if op.count_include_pad { 1.0 } else { 0.0 })?;
    let counted_fraction = apply_one(op.clone(), &[&pad_end(&counted, overhang, 0.0)?])?;
    apply_one(op, &[&pad_end(&wide, overhang, 0.0)?])?.div(&counted_fraction)?.to_dtype(x.dtype())
}

/// Returns sums along one axis after another, divided by the divisor.
fn means<const N: usize>(op: &'static str, x: &Tensor, options: &PoolOptions<N>) -> Result<Tensor> {
    if !x.dtype().is_float() && x.dtype() != DType::I64 {
        return Err(Error::dtype(op, "input", x.dtype(), text!["a floating dtype or ", DType::I64]));
    }
    options.check_undilated(op)?;
    if options.divisor_override == Some(0) {
        return Err(Error::invalid(op, "a divisor of 0"));
    }
    let size = spatial_sizes(op, x)?;
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

/// Returns the sums of windows, beginning with the last axis.
fn sums_along<const N: usize>(x: &Tensor, windows: &[AxisWindows; N]) -> Result<Tensor> {
    (0..N).rev().try_fold(x.clone(), |sums, axis| windows[axis].sums(&sums, 2 + axis))
}

/// Returns the outer product of the `axes` lists of numbers that `factors` returns, one for each
/// axis.
fn product_over_axes(
    axes: usize,
    factors: impl Fn(usize) -> Vec<f64>,
    dtype: DType,
    device: &Device,
) -> Result<Tensor> {
    let mut product = None::<Tensor>;
    for axis in 0..axes {
        let factors = factors(axis);
        let mut shape = vec![1; axes];
        shape[axis] = factors.len();
        let factor = match dtype {
            DType::F64 => Tensor::from_vec(factors, &shape[..], device)?,
            DType::I64 => Tensor::from_vec(
                factors.into_iter().map(|number| number as i64).collect::<Vec<_>>(),
                &shape[..],
                device,
            )?,
            _ => Tensor::from_vec(
                factors.into_iter().map(|number| number as f32).collect::<Vec<_>>(),
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

/// Returns the roots of sums of powers, given a function that computes means of windows.
fn power_means<const N: usize>(
    op: &'static str,
    x: &Tensor,
    p: f64,
    options: &PoolOptions<N>,
    means: impl Fn(&Tensor, PoolOptions<N>) -> Result<Tensor>,
) -> Result<Tensor> {
    check_floating(op, x)?;
    spatial_sizes::<N>(op, x)?;
    if p == 0.0 || p.is_nan() {
        return Err(Error::invalid(op, format!("p of {p}, expected another number than 0")));
    }
    in_accumulator([x], |[x]| {
        let elements: f64 = options.kernel.iter().map(|&size| size as f64).product();
        let sum = means(&x.powf(p)?, *options)?.mul_scalar(elements)?;
        // The derivative of the root at 0 is infinite. The gradient there is defined as 0, as in
        // PyTorch.
        let is_zero = sum.detach().eq_scalar(0)?;
        sum.masked_fill(&is_zero, 1)?.powf(1.0 / p)?.masked_fill(&is_zero, 0)
    })
}
