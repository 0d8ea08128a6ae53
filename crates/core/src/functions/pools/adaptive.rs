//! Pooling with windows that follow from the size of the result.

use super::axis_windows::AxisWindows;
use super::{PoolOptions, check_ordered, max_along_axes, product_over_axes, spatial_sizes, sums_along};
use crate::error::{Error, Result};
use crate::functions::{check_floating, in_accumulator};
use crate::{Shape, Tensor};

/// Defines the functions for one, two and three axes.
macro_rules! adaptive {
    ($($axes:literal, $mean:ident, $max:ident, $by_op:ident, $sizes:literal, $shape:literal, $outputs:literal;)*) => {
        impl Tensor {$(
            /// Returns means over windows that are chosen so that the result has this size: window
            /// `i` of `n` is `floor(i * size / n)..ceil((i + 1) * size / n)` along an axis.
            ///
            /// # Shapes
            #[doc = concat!("`[batch, channels, ", $shape, "]` to `[batch, channels, ", $outputs, "]`.")]
            /// # Errors
            /// Returns an error if the rank does not match, if there are no channels, if the dtype
            /// is not floating-point, if the image is empty, or if the result is too large.
            pub fn $mean(&self, size: [usize; $axes]) -> Result<Tensor> {
                means(stringify!($mean), self, size, Tensor::$by_op)
            }

            #[doc = concat!("The largest element, or NaN, of each window of [`", stringify!($mean), "`](Tensor::", stringify!($mean), "), and its position in the")]
            #[doc = concat!("image, counted as in [`", $sizes, "`](Tensor::", $sizes, "): the first of several.")]
            /// # Shapes
            #[doc = concat!("`[batch, channels, ", $shape, "]` to `[batch, channels, ", $outputs, "]`, both.")]
            /// # Errors
            /// Returns an error if the rank does not match, if there are no channels, if the dtype
            /// is bool, if the image is empty, or if the result is too large.
            pub fn $max(&self, size: [usize; $axes]) -> Result<(Tensor, Tensor)> {
                let op = stringify!($max);
                check_ordered(op, self)?;
                let (inputs, windows) = windows_for(op, self, size)?;
                max_along_axes(self, &inputs, &windows)
            }
        )*}
    };
}

adaptive! {
    1, adaptive_avg_pool1d, adaptive_max_pool1d, avg_pool1d, "max_pool1d_with_positions", "length", "size";
    2, adaptive_avg_pool2d, adaptive_max_pool2d, avg_pool2d, "max_pool2d_with_positions", "height, width", "size[0], size[1]";
    3, adaptive_avg_pool3d, adaptive_max_pool3d, avg_pool3d, "max_pool3d_with_positions", "depth, height, width", "size[0], size[1], size[2]";
}

/// Returns the size of the image, and the windows for a result of `size`.
fn windows_for<const N: usize>(
    op: &'static str,
    x: &Tensor,
    size: [usize; N],
) -> Result<([usize; N], [AxisWindows; N])> {
    let inputs = spatial_sizes::<N>(op, x)?;
    if inputs.contains(&0) {
        return Err(Error::invalid(op, format!("image of {inputs:?} to {size:?}")));
    }
    // Allocates the output to report missing memory before the windows are listed.
    let shape = Shape::new(&[&x.dims()[..2], &size[..]].concat())?;
    drop(Tensor::uninitialized(shape, x.dtype(), x.device())?);
    let windows: Result<Vec<AxisWindows>> =
        inputs.iter().zip(size).map(|(&inputs, size)| AxisWindows::dividing(op, inputs, size)).collect();
    let windows = windows?.try_into().map_err(|_| Error::invalid(op, "as many windows as axes"))?;
    Ok((inputs, windows))
}

fn means<const N: usize>(
    op: &'static str,
    x: &Tensor,
    size: [usize; N],
    by_op: impl Fn(&Tensor, PoolOptions<N>) -> Result<Tensor>,
) -> Result<Tensor> {
    check_floating(op, x)?;
    let inputs = spatial_sizes::<N>(op, x)?;
    let divides = |axis: usize| size[axis] > 0 && inputs[axis] > 0 && inputs[axis].is_multiple_of(size[axis]);
    if (0..N).all(divides) {
        return by_op(x, PoolOptions::new(std::array::from_fn(|axis| inputs[axis] / size[axis])));
    }
    let (_, windows) = windows_for(op, x, size)?;
    in_accumulator([x], |[x]| {
        let counts = |axis: usize| windows[axis].counts().iter().map(|&count| count as f64).collect();
        sums_along(x, &windows)?.div(&product_over_axes(N, counts, x.dtype(), x.device())?)
    })
}
