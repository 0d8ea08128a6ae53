//! Images of another size, over one, two or three axes.

use super::in_accumulator;
use crate::error::{Error, Result};
use crate::ops::index::index_dtype;
use crate::{DType, Device, Shape, Tensor};

/// How [`interpolate`](Tensor::interpolate) finds the elements of an image of another size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InterpolateMode {
    /// The element at the place, rounded down: `floor(i * inputs / outputs)`, or, of a factor, `floor(i / factor)`.
    #[default]
    Nearest,
    /// The element under the center: `floor((i + 0.5) * inputs / outputs)`, or, of a factor, `floor((i + 0.5) / factor)`.
    NearestExact,
    /// Along each axis the mean of the two around the place, weighted by nearness. Centers of corner elements lie half an element inside the corners; with
    /// `align_corners` they lie on them.
    Linear {
        /// Whether the first and last elements of the input are those of the output.
        align_corners: bool,
    },
    /// Along each axis the cubic convolution of the four around the place with `a = -0.75` (Keys 1981, "Cubic convolution interpolation for digital image
    /// processing"), beyond the image those at its border.
    Cubic {
        /// Whether the first and last elements of the input are those of the output.
        align_corners: bool,
    },
    /// The means of [`adaptive_avg_pool2d`](Tensor::adaptive_avg_pool2d) and its kin.
    Area,
}

/// The size of what [`interpolate`](Tensor::interpolate) makes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InterpolateSize<'a> {
    /// The sizes of all axes but batch and channels.
    To(&'a [usize]),
    /// So many times the sizes of the input, rounded down; finite numbers above 0.
    ///
    /// As in PyTorch, the places of the output's elements are those of the factor, and not of the rounded size: 3 columns times 1.5 are 4, at distances of `1 / 1.5`
    /// columns of the input, and not of `3 / 4`. Some cases are as if the size were given: as many elements as the input has, of images by the nearest elements and of
    /// all by linear ones; twice as many, of images by the nearest elements; corners that are aligned; areas.
    Times(&'a [f64]),
}

impl Tensor {
    /// Images of another size, larger or smaller. Half precision is computed in f32 and rounded once.
    ///
    /// # Shapes
    /// `[batch, channels, ..]`, one to three axes more, to those axes in the new size.
    ///
    /// # Errors
    /// Another rank, sizes or factors for another number of axes, an image without channels or elements, or of none, a factor that is not a finite number above
    /// 0, a dtype that is not floating unless elements are only picked.
    pub fn interpolate(&self, size: InterpolateSize<'_>, mode: InterpolateMode) -> Result<Tensor> {
        let op = "interpolate";
        let axes = resized(op, self, size)?;
        let shape: Vec<usize> =
            self.dims()[..2].iter().copied().chain(axes.iter().map(|axis| axis.outputs)).collect();
        if self.dims()[1..].contains(&0) || shape[2..].contains(&0) {
            return Err(Error::invalid(
                op,
                format!("an image of {:?} to {:?}", &self.dims()[1..], &shape[2..]),
            ));
        }
        // Axes are made one after the other, each of which may be possible.
        drop(Tensor::uninitialized(Shape::new(&shape)?, self.dtype(), self.device())?);
        let picks = matches!(mode, InterpolateMode::Nearest | InterpolateMode::NearestExact);
        if !picks {
            super::check_floating(op, self)?;
        }
        match mode {
            InterpolateMode::Area => area(self, &shape[2..]),
            // A gradient in half precision would be rounded after each axis.
            _ if picks && !(self.dtype().is_half() && self.needs_grad()) => along_all(self, &axes, mode),
            _ => in_accumulator([self], |[x]| along_all(x, &axes, mode)),
        }
    }
}

fn area(x: &Tensor, size: &[usize]) -> Result<Tensor> {
    match *size {
        [length] => x.adaptive_avg_pool1d([length]),
        [rows, columns] => x.adaptive_avg_pool2d([rows, columns]),
        [planes, rows, columns] => x.adaptive_avg_pool3d([planes, rows, columns]),
        _ => Err(Error::invalid("interpolate", format!("{} axes", size.len()))),
    }
}

/// An axis with as many elements as it has, and as it shall have.
#[derive(Clone, Copy)]
struct Resized {
    inputs: usize,
    outputs: usize,
    /// From one element of the output to the next, in elements of the input, where corners are not aligned.
    distance: f64,
}

/// All axes but batch and channels.
fn resized(op: &'static str, x: &Tensor, size: InterpolateSize<'_>) -> Result<Vec<Resized>> {
    let inputs = match x.dims() {
        [_, _, inputs @ ..] if (1..=3).contains(&inputs.len()) => inputs,
        _ => return Err(Error::Rank { op, expected: "3 to 5".into(), shape: Box::new(*x.shape()) }),
    };
    let given = match size {
        InterpolateSize::To(sizes) => sizes.len(),
        InterpolateSize::Times(factors) => factors.len(),
    };
    if given != inputs.len() {
        let detail = format!("{given} sizes or factors for the {} axes of {inputs:?}", inputs.len());
        return Err(Error::invalid(op, detail));
    }
    let axis = |(at, &inputs): (usize, &usize)| match size {
        InterpolateSize::To(sizes) => {
            Ok(Resized { inputs, outputs: sizes[at], distance: inputs as f64 / sizes[at] as f64 })
        }
        InterpolateSize::Times(factors) => {
            let factor = factors[at];
            if !factor.is_finite() || factor <= 0.0 {
                let detail = format!("a factor of {factor}, expected a finite number above 0");
                return Err(Error::invalid(op, detail));
            }
            // A product beyond all sizes becomes the largest one, for which there is no memory.
            Ok(Resized { inputs, outputs: (inputs as f64 * factor) as usize, distance: factor.recip() })
        }
    };
    inputs.iter().enumerate().map(axis).collect()
}

fn along_all(x: &Tensor, axes: &[Resized], mode: InterpolateMode) -> Result<Tensor> {
    axes.iter().enumerate().try_fold(x.clone(), |x, (at, axis)| along(&x, 2 + at, *axis, mode))
}

/// The elements of the output along `axis`.
fn along(input: &Tensor, axis: usize, resized: Resized, mode: InterpolateMode) -> Result<Tensor> {
    let Resized { inputs, outputs, distance } = resized;
    let (stays, is_image) = (inputs == outputs, input.rank() == 4);
    match mode {
        InterpolateMode::Nearest if stays && is_image => Ok(input.clone()),
        InterpolateMode::Linear { .. } if stays => Ok(input.clone()),
        InterpolateMode::Nearest | InterpolateMode::NearestExact => {
            // In f32 whatever the image is, as in PyTorch: a place that rounding moves is another element.
            let is_exact = mode == InterpolateMode::NearestExact;
            let distance =
                if outputs == 2 * inputs && !is_exact && is_image { 0.5 } else { f64::from(distance as f32) };
            let numbers = numbers(outputs, DType::F32, input.device())?;
            let numbers = if is_exact { numbers.add_scalar(0.5)? } else { numbers };
            input.index_select(axis, &whole(&numbers.mul_scalar(distance)?, 0, inputs)?)
        }
        InterpolateMode::Linear { align_corners } => {
            let places =
                places(resized, align_corners, input.dtype(), input.device())?.maximum_scalar(0.0)?;
            let low = whole(&places, 0, inputs)?;
            let share = places.sub(&low.to_dtype(places.dtype())?)?;
            let high = low.add_scalar(1)?.minimum_scalar((inputs - 1) as i64)?;
            weighted(input, axis, &[(low, share.rsub_scalar(1.0)?), (high, share)])
        }
        InterpolateMode::Cubic { align_corners } => {
            let places = places(resized, align_corners, input.dtype(), input.device())?;
            let share = places.sub(&places.floor()?)?;
            let taps = cubic_weights(&share)?.into_iter().zip(-1_i64..);
            let taps: Result<Vec<_>> =
                taps.map(|(weight, by)| Ok((whole(&places, by, inputs)?, weight))).collect();
            weighted(input, axis, &taps?)
        }
        InterpolateMode::Area => Err(Error::invalid("interpolate", "areas have no axes")),
    }
}

/// 0, 1, 2 and so on. Places are computed on the device: nothing is uploaded, so that a recorded step holds them, too.
fn numbers(count: usize, dtype: DType, device: &Device) -> Result<Tensor> {
    Tensor::arange(0, count as f64, 1, dtype, device)
}

/// Places rounded down, moved `by` elements and kept within `inputs` of them.
fn whole(places: &Tensor, by: i64, inputs: usize) -> Result<Tensor> {
    let moved = places.floor()?.add_scalar(by as f64)?;
    moved.maximum_scalar(0.0)?.minimum_scalar((inputs - 1) as f64)?.to_dtype(index_dtype(inputs))
}

/// Where the elements of the output lie among those of the input; below 0 where that is outside.
fn places(resized: Resized, align_corners: bool, dtype: DType, device: &Device) -> Result<Tensor> {
    let Resized { inputs, outputs, distance } = resized;
    let rounded = |number: f64| if dtype == DType::F64 { number } else { f64::from(number as f32) };
    let at = numbers(outputs, dtype, device)?;
    if align_corners {
        let ratio = if outputs > 1 { (inputs - 1) as f64 / (outputs - 1) as f64 } else { 0.0 };
        return at.mul_scalar(rounded(ratio));
    }
    at.add_scalar(0.5)?.mul_scalar(rounded(distance))?.sub_scalar(0.5)
}

/// The weights of the elements one before, at, one and two behind a place that lies a `share` behind an element (Keys 1981, equation 4, with `a = -0.75`).
pub(super) fn cubic_weights(share: &Tensor) -> Result<[Tensor; 4]> {
    const A: f64 = -0.75;
    // Of distances up to 1: (a + 2) d^3 - (a + 3) d^2 + 1; up to 2: a d^3 - 5a d^2 + 8a d - 4a.
    let near = |d: &Tensor| d.mul_scalar(A + 2.0)?.sub_scalar(A + 3.0)?.mul(&d.square()?)?.add_scalar(1.0);
    let far = |d: &Tensor| {
        d.mul_scalar(A)?.sub_scalar(5.0 * A)?.mul(d)?.add_scalar(8.0 * A)?.mul(d)?.sub_scalar(4.0 * A)
    };
    let rest = share.rsub_scalar(1.0)?;
    Ok([far(&share.add_scalar(1.0)?)?, near(share)?, near(&rest)?, far(&rest.add_scalar(1.0)?)?])
}

/// The sum of elements along `axis`, each picked at the indices and multiplied by the weights beside it.
fn weighted(input: &Tensor, axis: usize, taps: &[(Tensor, Tensor)]) -> Result<Tensor> {
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
