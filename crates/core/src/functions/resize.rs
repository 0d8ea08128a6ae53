//! Resizing images over one, two or three axes.

use super::in_accumulator;
use crate::error::{Error, Result};
use crate::ops::index::index_dtype;
use crate::{DType, Device, Shape, Tensor};

/// Interpolation modes of [`interpolate`](Tensor::interpolate).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InterpolateMode {
    /// The element at the position rounded down: `floor(i * inputs / outputs)`, or for a factor
    /// `floor(i / factor)`.
    #[default]
    Nearest,
    /// The element at the center: `floor((i + 0.5) * inputs / outputs)`, or for a factor
    /// `floor((i + 0.5) / factor)`.
    NearestExact,
    /// Linear interpolation between two elements along each axis. The centers of the corner
    /// elements are half an element inside the corners; with `align_corners` they are on them.
    Linear {
        /// Whether the first and last elements of input and output coincide.
        align_corners: bool,
    },
    /// Cubic convolution of four elements along each axis with `a = -0.75` (Keys 1981, "Cubic
    /// convolution interpolation for digital image processing"). Beyond the image the elements at
    /// its border are repeated.
    Cubic {
        /// Whether the first and last elements of input and output coincide.
        align_corners: bool,
    },
    /// The means of [`adaptive_avg_pool2d`](Tensor::adaptive_avg_pool2d) and its counterparts for
    /// one and three axes.
    Area,
}

/// The size of the result of [`interpolate`](Tensor::interpolate).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InterpolateSize<'a> {
    /// The sizes of all axes except batch and channels.
    To(&'a [usize]),
    /// Factors of the sizes of the input, which are rounded down; finite and above 0.
    ///
    /// As in PyTorch, positions are computed from the factor, not from the rounded size: 3 columns
    /// times 1.5 are 4 columns, at distances of `1 / 1.5` columns of the input, not of `3 / 4`. In
    /// the following cases, the result is the same as for a given size: the size does not change
    /// (`Nearest` for images, `Linear` for all ranks); the size doubles (`Nearest` for images);
    /// corners are aligned; `Area`.
    Times(&'a [f64]),
}

impl Tensor {
    /// Resizes images, up or down. Half-precision inputs are computed in f32, and the result is
    /// rounded once.
    ///
    /// # Shapes
    /// `[batch, channels, ..]` with one to three further axes -> the same with these axes in the
    /// new size
    ///
    /// # Errors
    /// Returns an error if the rank does not match, if the number of sizes or factors is not the
    /// number of axes, if input or result has no channels or elements, if a factor is not finite or
    /// not above 0, or if the dtype is not floating-point and the mode is not one of the nearest
    /// ones.
    pub fn interpolate(&self, size: InterpolateSize<'_>, mode: InterpolateMode) -> Result<Tensor> {
        let op = "interpolate";
        let axes = resized_axes(op, self, size)?;
        let shape: Vec<usize> =
            self.dims()[..2].iter().copied().chain(axes.iter().map(|axis| axis.outputs)).collect();
        if self.dims()[1..].contains(&0) || shape[2..].contains(&0) {
            return Err(Error::invalid(
                op,
                format!("an image of {:?} to {:?}", &self.dims()[1..], &shape[2..]),
            ));
        }
        // Checks the memory for the result first: axes are resized one after another, and each step
        // may fit.
        drop(Tensor::uninitialized(Shape::new(&shape)?, self.dtype(), self.device())?);
        let selects = matches!(mode, InterpolateMode::Nearest | InterpolateMode::NearestExact);
        if !selects {
            super::check_floating(op, self)?;
        }
        match mode {
            InterpolateMode::Area => resize_by_area(self, &shape[2..]),
            // A half-precision gradient would be rounded after each axis.
            _ if selects && !(self.dtype().is_half() && self.needs_grad()) => resize_axes(self, &axes, mode),
            _ => in_accumulator([self], |[x]| resize_axes(x, &axes, mode)),
        }
    }
}

fn resize_by_area(x: &Tensor, size: &[usize]) -> Result<Tensor> {
    match *size {
        [length] => x.adaptive_avg_pool1d([length]),
        [rows, columns] => x.adaptive_avg_pool2d([rows, columns]),
        [planes, rows, columns] => x.adaptive_avg_pool3d([planes, rows, columns]),
        _ => Err(Error::invalid("interpolate", format!("{} axes", size.len()))),
    }
}

/// An axis with its sizes in the input and in the output.
#[derive(Clone, Copy)]
struct ResizedAxis {
    inputs: usize,
    outputs: usize,
    /// The distance between elements of the output, in elements of the input, if corners are not
    /// aligned.
    distance: f64,
}

/// Returns all axes except batch and channels.
fn resized_axes(op: &'static str, x: &Tensor, size: InterpolateSize<'_>) -> Result<Vec<ResizedAxis>> {
    let inputs = match x.dims() {
        [_, _, inputs @ ..] if (1..=3).contains(&inputs.len()) => inputs,
        _ => return Err(Error::Rank { op, expected: "3 to 5".into(), shape: Box::new(*x.shape()) }),
    };
    let count = match size {
        InterpolateSize::To(sizes) => sizes.len(),
        InterpolateSize::Times(factors) => factors.len(),
    };
    if count != inputs.len() {
        let detail = format!("{count} sizes or factors for the {} axes of {inputs:?}", inputs.len());
        return Err(Error::invalid(op, detail));
    }
    let axis = |(at, &inputs): (usize, &usize)| match size {
        InterpolateSize::To(sizes) => {
            Ok(ResizedAxis { inputs, outputs: sizes[at], distance: inputs as f64 / sizes[at] as f64 })
        }
        InterpolateSize::Times(factors) => {
            let factor = factors[at];
            if !factor.is_finite() || factor <= 0.0 {
                let detail = format!("a factor of {factor}, expected a finite number above 0");
                return Err(Error::invalid(op, detail));
            }
            // A product beyond the range becomes the largest size, for which the allocation fails.
            Ok(ResizedAxis { inputs, outputs: (inputs as f64 * factor) as usize, distance: factor.recip() })
        }
    };
    inputs.iter().enumerate().map(axis).collect()
}

fn resize_axes(x: &Tensor, axes: &[ResizedAxis], mode: InterpolateMode) -> Result<Tensor> {
    axes.iter().enumerate().try_fold(x.clone(), |x, (at, axis)| resize_axis(&x, 2 + at, *axis, mode))
}

/// Returns the elements of the output along `axis`.
fn resize_axis(input: &Tensor, axis: usize, resized: ResizedAxis, mode: InterpolateMode) -> Result<Tensor> {
    let ResizedAxis { inputs, outputs, distance } = resized;
    let (is_same_size, is_image) = (inputs == outputs, input.rank() == 4);
    match mode {
        InterpolateMode::Nearest if is_same_size && is_image => Ok(input.clone()),
        InterpolateMode::Linear { .. } if is_same_size => Ok(input.clone()),
        InterpolateMode::Nearest | InterpolateMode::NearestExact => {
            // In f32 for every dtype, as in PyTorch: a difference in rounding would select another
            // element.
            let is_exact = mode == InterpolateMode::NearestExact;
            let distance =
                if outputs == 2 * inputs && !is_exact && is_image { 0.5 } else { f64::from(distance as f32) };
            let positions = index_range(outputs, DType::F32, input.device())?;
            let positions = if is_exact { positions.add_scalar(0.5)? } else { positions };
            input.index_select(axis, &floor_indices(&positions.mul_scalar(distance)?, 0, inputs)?)
        }
        InterpolateMode::Linear { align_corners } => {
            let positions = source_positions(resized, align_corners, input.dtype(), input.device())?
                .maximum_scalar(0.0)?;
            let low = floor_indices(&positions, 0, inputs)?;
            let fraction = positions.sub(&low.to_dtype(positions.dtype())?)?;
            let high = low.add_scalar(1)?.minimum_scalar((inputs - 1) as i64)?;
            weighted_sum(input, axis, &[(low, fraction.rsub_scalar(1.0)?), (high, fraction)])
        }
        InterpolateMode::Cubic { align_corners } => {
            let positions = source_positions(resized, align_corners, input.dtype(), input.device())?;
            let fraction = positions.sub(&positions.floor()?)?;
            let taps = cubic_weights(&fraction)?.into_iter().zip(-1_i64..);
            let taps: Result<Vec<_>> =
                taps.map(|(weight, shift)| Ok((floor_indices(&positions, shift, inputs)?, weight))).collect();
            weighted_sum(input, axis, &taps?)
        }
        InterpolateMode::Area => Err(Error::invalid("interpolate", "areas have no axes")),
    }
}

/// Returns 0, 1, 2 and so on. Positions are computed on the device: nothing is uploaded, so they
/// can be part of a captured step.
fn index_range(count: usize, dtype: DType, device: &Device) -> Result<Tensor> {
    Tensor::arange(0, count as f64, 1, dtype, device)
}

/// Rounds positions down, shifts them by `shift` and clamps them to the `inputs` elements.
fn floor_indices(positions: &Tensor, shift: i64, inputs: usize) -> Result<Tensor> {
    let shifted = positions.floor()?.add_scalar(shift as f64)?;
    shifted.maximum_scalar(0.0)?.minimum_scalar((inputs - 1) as f64)?.to_dtype(index_dtype(inputs))
}

/// Returns the positions of the output elements in the input; negative before its first element.
fn source_positions(
    resized: ResizedAxis,
    align_corners: bool,
    dtype: DType,
    device: &Device,
) -> Result<Tensor> {
    let ResizedAxis { inputs, outputs, distance } = resized;
    let rounded = |number: f64| if dtype == DType::F64 { number } else { f64::from(number as f32) };
    let indices = index_range(outputs, dtype, device)?;
    if align_corners {
        let ratio = if outputs > 1 { (inputs - 1) as f64 / (outputs - 1) as f64 } else { 0.0 };
        return indices.mul_scalar(rounded(ratio));
    }
    indices.add_scalar(0.5)?.mul_scalar(rounded(distance))?.sub_scalar(0.5)
}

/// Returns the weights of the elements one before, at, one after and two after a position that is
/// at the fraction `fraction` behind an element (Keys 1981, equation 4, with `a = -0.75`).
pub(super) fn cubic_weights(fraction: &Tensor) -> Result<[Tensor; 4]> {
    const A: f64 = -0.75;
    // For distances up to 1: `(a + 2) d^3 - (a + 3) d^2 + 1`; up to 2:
    // `a d^3 - 5a d^2 + 8a d - 4a`.
    let near = |d: &Tensor| d.mul_scalar(A + 2.0)?.sub_scalar(A + 3.0)?.mul(&d.square()?)?.add_scalar(1.0);
    let far = |d: &Tensor| {
        d.mul_scalar(A)?.sub_scalar(5.0 * A)?.mul(d)?.add_scalar(8.0 * A)?.mul(d)?.sub_scalar(4.0 * A)
    };
    let rest = fraction.rsub_scalar(1.0)?;
    Ok([far(&fraction.add_scalar(1.0)?)?, near(fraction)?, near(&rest)?, far(&rest.add_scalar(1.0)?)?])
}

/// Returns the sum of elements along `axis`, each selected by indices and multiplied by the weights
/// in the same tuple.
fn weighted_sum(input: &Tensor, axis: usize, taps: &[(Tensor, Tensor)]) -> Result<Tensor> {
    let mut sum = None::<Tensor>;
    for (index, weight) in taps {
        let mut shape = vec![1; input.rank()];
        shape[axis] = weight.elements();
        let part = input.index_select(axis, index)?.mul(&weight.reshape(&shape[..])?)?;
        sum = Some(match sum {
            Some(sum) => sum.add(&part)?,
            None => part,
        });
    }
    sum.ok_or_else(|| Error::invalid("interpolate", "no elements"))
}
