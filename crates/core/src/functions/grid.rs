//! Images read at any places, and the places of an affine map (Jaderberg et al. 2015, "Spatial transformer networks").

use super::resize::cubic_weights;
use super::{check_floating, in_accumulator};
use crate::error::{Error, Result};
use crate::op::check;
use crate::ops::index::index_dtype;
use crate::{Shape, Tensor};

/// How [`grid_sample`](Tensor::grid_sample) reads between elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GridMode {
    /// The mean of the nearest, two along each axis, weighted by nearness.
    #[default]
    Bilinear,
    /// The nearest; of two as near the one whose number is even. No gradient flows to the grid.
    Nearest,
    /// The cubic convolution of the nearest, four along each axis, with `a = -0.75`; of images only.
    Bicubic,
}

/// What [`grid_sample`](Tensor::grid_sample) reads outside of the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GridPadding {
    /// Zeros.
    #[default]
    Zeros,
    /// The element at the border.
    Border,
    /// The image reflected at its border: at the corner elements' centers if `align_corners`, else at their edges.
    Reflection,
}

impl Tensor {
    /// The image at the places of a grid: the last axis of `grid` is x, y (and z of volumes), from -1 to 1 across the image; with `align_corners` these are
    /// the centers of corner elements, without it their outer edges. Half precision is computed in f32 and rounded once.
    ///
    /// Places that are NaN or infinite read as in PyTorch on the CPU. With `Zeros` an image gives NaN, but 0 with `Nearest`; a volume gives 0. With another padding
    /// NaN reads the first element of the axis, of a volume the last; so do infinities with `Reflection`, while with `Border` they read the element at their side.
    /// `Bicubic` gives NaN with any padding.
    ///
    /// All elements that a place reads are picked: 4 of an image, 16 of `Bicubic`, 8 of a volume, each as large as the result.
    ///
    /// # Shapes
    /// `[batch, channels, height, width]` and grid `[batch, oh, ow, 2]` to `[batch, channels, oh, ow]`; `[batch, channels, depth, height, width]` and
    /// `[batch, od, oh, ow, 3]` to `[batch, channels, od, oh, ow]`.
    ///
    /// # Errors
    /// Another rank, dtypes that differ or are not floating, another batch, an empty image, `Bicubic` of volumes.
    pub fn grid_sample(
        &self,
        grid: &Tensor,
        mode: GridMode,
        padding: GridPadding,
        align_corners: bool,
    ) -> Result<Tensor> {
        let shape = sampled_shape(self, grid, mode)?;
        in_accumulator([self, grid], |[x, grid]| {
            let sampler = Sampler { sizes: &x.dims()[2..], mode, padding, align_corners };
            sampler.sample(x, grid)?.reshape(shape)
        })
    }

    /// The grid of an affine map for [`grid_sample`](Tensor::grid_sample): `theta (x, y, 1)` at each place of an image of `size`, `theta (x, y, z, 1)` of a volume.
    ///
    /// # Shapes
    /// `[batch, 2, 3]` and a size of 2 to `[batch, size[0], size[1], 2]`; `[batch, 3, 4]` and a size of 3 to `[batch, size[0], size[1], size[2], 3]`.
    ///
    /// # Errors
    /// Another shape, a dtype that is not floating, a size of 0.
    pub fn affine_grid(&self, size: &[usize], align_corners: bool) -> Result<Tensor> {
        let op = "affine_grid";
        check_floating(op, self)?;
        let [batch, rows, columns] = self.shape().to_array(op)?;
        let axes = size.len();
        if !(2..=3).contains(&axes) || [rows, columns] != [axes, axes + 1] || size.contains(&0) {
            let detail = format!(
                "maps of shape {:?} to {size:?}, expected [batch, 2, 3] to 2 sizes above 0, or [batch, 3, 4] to 3",
                self.shape()
            );
            return Err(Error::invalid(op, detail));
        }
        in_accumulator([self], |[theta]| {
            let base = base_grid(size, align_corners, theta)?;
            base.matmul(&theta.t()?)?.reshape(Shape::new(&[&[batch], size, &[axes]].concat())?)
        })
    }
}

/// The places of the elements of an image of `size`, `[elements, axes + 1]`: x, y, .., 1.
fn base_grid(size: &[usize], align_corners: bool, like: &Tensor) -> Result<Tensor> {
    let elements = Shape::new(size)?.elements();
    let mut columns = Vec::new();
    for axis in (0..size.len()).rev() {
        let count = size[axis];
        // (2 i - (n - 1)) / (n - 1), or / n.
        let numbers = Tensor::arange(0, count as f64, 1, like.dtype(), like.device())?;
        let parts = if align_corners { count - 1 } else { count }.max(1);
        let places = numbers.mul_scalar(2.0)?.sub_scalar((count - 1) as f64)?.div_scalar(parts as f64)?;
        let mut shape = vec![1; size.len()];
        shape[axis] = count;
        columns.push(places.reshape(&shape[..])?.expand(size)?.reshape([elements, 1])?);
    }
    columns.push(Tensor::ones([elements, 1], like.dtype(), like.device())?);
    Tensor::concat(&columns.iter().collect::<Vec<_>>(), 1)
}

/// The shape of the result, if the operands fit.
fn sampled_shape(x: &Tensor, grid: &Tensor, mode: GridMode) -> Result<Shape> {
    let op = "grid_sample";
    check_floating(op, x)?;
    check::same_dtype(op, &x.meta(), &grid.meta())?;
    let axes = match x.rank() {
        rank @ 4..=5 => rank - 2,
        _ => return Err(Error::Rank { op, expected: "4 or 5".into(), shape: Box::new(*x.shape()) }),
    };
    let fits = grid.rank() == x.rank() && grid.dims()[0] == x.dims()[0] && grid.dims()[axes + 1] == axes;
    if !fits {
        let detail = format!("a grid of shape {:?} for an input of {:?}", grid.shape(), x.shape());
        return Err(Error::invalid(op, detail));
    }
    if x.dims()[2..].contains(&0) {
        return Err(Error::invalid(op, format!("an input of shape {:?} without elements", x.shape())));
    }
    if mode == GridMode::Bicubic && axes != 2 {
        return Err(Error::invalid(op, "bicubic of a volume, expected an image"));
    }
    Shape::new(&[&x.dims()[..2], &grid.dims()[1..=axes]].concat())
}

struct Sampler<'a> {
    sizes: &'a [usize],
    mode: GridMode,
    padding: GridPadding,
    align_corners: bool,
}

/// One of the elements along an axis that places read: their numbers, which may lie outside, and their weights.
type Tap = (Tensor, Option<Tensor>);

impl Sampler<'_> {
    /// `[batch, channels, places]`.
    fn sample(&self, x: &Tensor, grid: &Tensor) -> Result<Tensor> {
        let axes = self.sizes.len();
        let [batch, channels] = [x.dims()[0], x.dims()[1]];
        let places: usize = grid.dims()[1..=axes].iter().product();
        let rows = x.reshape([batch, channels, self.sizes.iter().product()])?;
        let taps: Result<Vec<Vec<Tap>>> = (0..axes)
            .map(|axis| {
                let coordinates = grid.narrow(axes + 1, axes - 1 - axis, 1)?.reshape([batch, 1, places])?;
                self.taps(axis, &coordinates)
            })
            .collect();
        let taps = taps?;
        let mut sum = None::<Tensor>;
        let count: usize = taps.iter().map(Vec::len).product();
        for mut number in 0..count {
            let mut chosen = Vec::with_capacity(axes);
            for taps in &taps {
                chosen.push(&taps[number % taps.len()]);
                number /= taps.len();
            }
            let part = self.part(&rows, &chosen)?;
            sum = Some(match sum {
                Some(sum) => sum.add(&part)?,
                None => part,
            });
        }
        sum.ok_or_else(|| Error::invalid("grid_sample", "no elements"))
    }

    /// The elements along `axis` that places at these coordinates, from -1 to 1, read.
    fn taps(&self, axis: usize, coordinates: &Tensor) -> Result<Vec<Tap>> {
        let size = self.sizes[axis] as f64;
        let place = match self.align_corners {
            true => coordinates.add_scalar(1.0)?.mul_scalar((size - 1.0) / 2.0)?,
            false => coordinates.add_scalar(1.0)?.mul_scalar(size)?.sub_scalar(1.0)?.div_scalar(2.0)?,
        };
        match self.mode {
            GridMode::Nearest => {
                // A grid that asks for its gradient gets zeros, also where it is no number: the weight is 1.
                let weight = match place.needs_grad() {
                    true => {
                        let number = place.masked_fill(&place.ne(&place)?, 0.0)?;
                        Some(number.sign()?.mul_scalar(0.0)?.add_scalar(1.0)?)
                    }
                    false => None,
                };
                let place = self.padded(axis, &place.detach())?;
                Ok(vec![(place.round()?, weight)])
            }
            GridMode::Bilinear => {
                let place = self.padded(axis, &place)?;
                let low = place.detach().floor()?;
                let share = place.sub(&low)?;
                Ok(vec![(low.clone(), Some(share.rsub_scalar(1.0)?)), (low.add_scalar(1.0)?, Some(share))])
            }
            GridMode::Bicubic => {
                let low = place.detach().floor()?;
                let weights = cubic_weights(&place.sub(&low)?)?;
                let tap = |(weight, by): (Tensor, f64)| {
                    Ok((self.padded(axis, &low.add_scalar(by)?)?.round()?, Some(weight)))
                };
                weights.into_iter().zip([-1.0, 0.0, 1.0, 2.0]).map(tap).collect()
            }
        }
    }

    /// Where places outside lead to.
    fn padded(&self, axis: usize, place: &Tensor) -> Result<Tensor> {
        let last = (self.sizes[axis] - 1) as f64;
        let of_nan = if self.sizes.len() == 2 { 0.0 } else { last };
        let inside = match self.padding {
            GridPadding::Zeros => return Ok(place.clone()),
            GridPadding::Border => place.clone(),
            GridPadding::Reflection => {
                let is_number = place.detach().abs()?.lt_scalar(f64::INFINITY)?;
                let place = place.masked_fill(&is_number.logical_not()?, of_nan)?;
                let (low, span) = if self.align_corners { (0.0, last) } else { (-0.5, last + 1.0) };
                if span == 0.0 {
                    return place.mul_scalar(0.0);
                }
                let distance = place.sub_scalar(low)?.abs()?;
                let is_flipped =
                    distance.detach().div_scalar(span)?.floor()?.remainder_scalar(2.0)?.eq_scalar(1.0)?;
                let rest = distance.remainder_scalar(span)?;
                is_flipped.where_(&rest.rsub_scalar(span)?, &rest)?.add_scalar(low)?
            }
        };
        // On the first and the last row the gradient is 0, as beyond them.
        let is_within = inside.gt_scalar(0.0)?.logical_and(&inside.lt_scalar(last)?)?;
        let fixed = inside.detach();
        let fixed =
            fixed.masked_fill(&fixed.ne(&fixed)?, of_nan)?.maximum_scalar(0.0)?.minimum_scalar(last)?;
        is_within.where_(&inside, &fixed)
    }

    /// The elements at one tap of each axis, weighted; 0 outside.
    fn part(&self, rows: &Tensor, taps: &[&Tap]) -> Result<Tensor> {
        let (mut is_inside, mut position, mut weight) = (None::<Tensor>, None::<Tensor>, None::<Tensor>);
        let dtype = index_dtype(rows.shape().dim(2));
        for ((number, share), &size) in taps.iter().copied().zip(self.sizes) {
            let last = (size - 1) as f64;
            let fits = number.ge_scalar(0.0)?.logical_and(&number.le_scalar(last)?)?;
            let zero = number.detach().scalar_like(0.0)?;
            is_inside = Some(match is_inside {
                Some(inside) => inside.logical_and(&fits)?,
                None => fits.clone(),
            });
            let place = fits.where_(&number.detach(), &zero)?.to_dtype(dtype)?;
            position = Some(match position {
                Some(position) => position.mul_scalar(size as i64)?.add(&place)?,
                None => place,
            });
            // Weights of an image are NaN where a place is, those of a volume 0.
            let share = match share {
                Some(share) if self.sizes.len() == 3 => Some(fits.where_(share, &zero)?),
                share => share.clone(),
            };
            weight = match (weight, share) {
                (Some(weight), Some(share)) => Some(weight.mul(&share)?),
                (weight, share) => weight.or(share),
            };
        }
        let (Some(is_inside), Some(position)) = (is_inside, position) else {
            return Err(Error::invalid("grid_sample", "no axes"));
        };
        let [batch, channels, _] = rows.sizes()?;
        let places = position.shape().dim(2);
        let zero = rows.detach().scalar_like(0.0)?;
        let picked = rows.gather(2, &position.expand([batch, channels, places])?)?;
        let picked = is_inside.where_(&picked, &zero)?;
        // Outside this is 0, or NaN where a place is.
        if let Some(weight) = weight { picked.mul(&weight) } else { Ok(picked) }
    }
}
