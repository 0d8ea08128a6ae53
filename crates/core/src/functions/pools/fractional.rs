//! Pooling with windows at random distances (Graham 2014, "Fractional Max-Pooling").

use super::axis_windows::argmax_of_length;
use super::{check_ordered, gather_each_axis, spatial_sizes};
use crate::autograd::no_grad;
use crate::error::{Error, Result};
use crate::functions::check_floating;
use crate::op::check;
use crate::ops::index::index_dtype;
use crate::{DType, Shape, Tensor};

impl Tensor {
    /// Returns the maximum of each window, or NaN if there is one, and its position in the plane
    /// (`row * width + column`). Window `i` of `n` begins at `floor((i + u) a) - floor(u a)` with
    /// `a = (size - kernel) / (n - 1)`, the last one at `size - kernel`. `u` is `samples[.., 1]`
    /// for rows and `samples[.., 0]` for columns.
    ///
    /// # Shapes
    /// `[batch, channels, height, width]`, samples `[batch, channels, 2]` (from 0 to below 1) ->
    /// `[batch, channels, size[0], size[1]]`, both
    ///
    /// # Errors
    /// Returns an error if the rank does not match, if there are no channels, if the dtype is not
    /// floating-point, if the samples have another shape or dtype, or if `size + kernel - 1`
    /// exceeds the size of the image.
    pub fn fractional_max_pool2d(
        &self,
        kernel: [usize; 2],
        size: [usize; 2],
        samples: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        fractional_pool("fractional_max_pool2d", self, kernel, size, samples, [1, 0])
    }

    /// Same as [`fractional_max_pool2d`](Tensor::fractional_max_pool2d) over three axes. `u` is
    /// `samples[.., 0]` for planes, `[.., 1]` for rows and `[.., 2]` for columns.
    ///
    /// # Shapes
    /// `[batch, channels, depth, height, width]`, samples `[batch, channels, 3]` ->
    /// `[batch, channels, size[0], size[1], size[2]]`, both
    ///
    /// # Errors
    /// Same as [`fractional_max_pool2d`](Tensor::fractional_max_pool2d).
    pub fn fractional_max_pool3d(
        &self,
        kernel: [usize; 3],
        size: [usize; 3],
        samples: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        fractional_pool("fractional_max_pool3d", self, kernel, size, samples, [0, 1, 2])
    }
}

/// Pools over all axes. `order[axis]` is the index of the sample for `axis`.
fn fractional_pool<const N: usize>(
    op: &'static str,
    x: &Tensor,
    kernel: [usize; N],
    size: [usize; N],
    samples: &Tensor,
    order: [usize; N],
) -> Result<(Tensor, Tensor)> {
    check_floating(op, x)?;
    check_ordered(op, x)?;
    let inputs = spatial_sizes::<N>(op, x)?;
    check::same_dtype(op, &x.meta(), &samples.meta())?;
    check::shape(op, "samples", &samples.meta(), Shape::new(&[x.shape().dim(0), x.shape().dim(1), N])?)?;
    let fits = |axis: usize| {
        let reach = kernel[axis].saturating_add(size[axis]).saturating_sub(1);
        kernel[axis] > 0 && size[axis] > 0 && reach <= inputs[axis]
    };
    if !(0..N).all(fits) {
        let detail = format!(
            "windows {kernel:?} to size {size:?} of an image of {inputs:?}, expected size + kernel - 1 within the image"
        );
        return Err(Error::invalid(op, detail));
    }
    let dtype = index_dtype(inputs.iter().product());
    let argmax = |values: &Tensor, axis: usize| {
        no_grad(|| {
            let sample = samples.narrow(2, order[axis], 1)?;
            let starts = window_starts(&sample, inputs[axis] - kernel[axis], size[axis])?;
            // The starts vary along this axis and are the same along the others.
            let mut starts_shape = vec![x.shape().dim(0), x.shape().dim(1)];
            starts_shape.extend((0..N).map(|other| if other == axis { size[axis] } else { 1 }));
            let all = values.shape().resized(2 + axis, size[axis], op)?;
            let starts = starts.reshape(&starts_shape[..])?.expand(all)?;
            argmax_of_length(values, 2 + axis, &starts, kernel[axis], dtype)
        })
    };
    gather_each_axis(x, &inputs, argmax)
}

/// Returns the starts of `count` windows, the last one at `last`: samples `[batch, channels, 1]` ->
/// `[batch, channels, count]`.
fn window_starts(sample: &Tensor, last: usize, count: usize) -> Result<Tensor> {
    let sample = sample.detach().to_dtype(sample.dtype().accumulator())?;
    let device = sample.device();
    let indices = Tensor::iota(count, index_dtype(count), 0, 1, device)?;
    let is_last = indices.eq_scalar((count - 1) as i64)?;
    let distance = if count > 1 { last as f64 / (count - 1) as f64 } else { 0.0 };
    let distance = if sample.dtype() == DType::F64 { distance } else { f64::from(distance as f32) };
    let positions = sample.add(&indices.to_dtype(sample.dtype())?)?.mul_scalar(distance)?.floor()?;
    let positions = positions.sub(&sample.mul_scalar(distance)?.floor()?)?;
    // Rounding must not move a window beyond the image.
    let positions = positions.maximum_scalar(0)?.minimum_scalar(last as f64)?.to_dtype(index_dtype(last))?;
    is_last.where_(&positions.scalar_like(last as i64)?, &positions)
}
