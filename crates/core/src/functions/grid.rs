//! Sampling of images at arbitrary positions, and the sampling grid of an affine map (Jaderberg et
//! al. 2015, "Spatial transformer networks").

use super::resize::cubic_weights;
use super::{check_floating, in_accumulator};
use crate::error::{Error, Result};
use crate::op::check;
use crate::ops::index::index_dtype;
use crate::{Shape, Tensor};

/// Interpolation modes of [`grid_sample`](Tensor::grid_sample).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GridMode {
    /// Linear interpolation between the two nearest elements along each axis.
    #[default]
    Bilinear,
    /// The nearest element; ties go to the even index. No gradient flows to the grid.
    Nearest,
    /// Cubic convolution of the four nearest elements along each axis, with `a = -0.75`; images
    /// only.
    Bicubic,
}

/// What [`grid_sample`](Tensor::grid_sample) reads outside the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GridPadding {
    /// Zeros.
    #[default]
    Zeros,
    /// The nearest element at the border.
    Border,
    /// The image reflected at its border: at the centers of the corner elements if `align_corners`,
    /// otherwise at their outer edges.
    Reflection,
}

impl Tensor {
    /// Samples the image at the positions of a grid. The last axis of `grid` is x, y (and z for
    /// volumes), from -1 to 1 across the image. With `align_corners` these are the centers of the
    /// corner elements, otherwise their outer edges. Half-precision inputs are computed in f32, and
    /// the result is rounded once.
    ///
    /// Positions that are NaN or infinite are handled as in PyTorch on the CPU. With `Zeros` an
    /// image gives NaN, or 0 with `Nearest`, and a volume gives 0. With the other padding modes a
    /// NaN reads the first element of the axis, in a volume the last. Infinities do the same with
    /// `Reflection`; with `Border` they read the element at their side. `Bicubic` gives NaN with
    /// any padding.
    ///
    /// All elements that contribute to a position are gathered: 4 for an image, 16 for `Bicubic`, 8
    /// for a volume. Each gathered tensor is as large as the result.
    ///
    /// # Shapes
    /// `[batch, channels, height, width]` and grid `[batch, oh, ow, 2]` ->
    /// `[batch, channels, oh, ow]`; `[batch, channels, depth, height, width]` and
    /// `[batch, od, oh, ow, 3]` -> `[batch, channels, od, oh, ow]`
    ///
    /// # Errors
    /// Returns an error if the rank is not 4 or 5, if the dtypes differ or are not floating-point,
    /// if the shape of the grid does not match, if the image is empty, or if `Bicubic` is used for
    /// a volume.
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

    /// Returns the grid of an affine map for [`grid_sample`](Tensor::grid_sample):
    /// `theta (x, y, 1)` at each position of an image of `size`, or `theta (x, y, z, 1)` for a
    /// volume.
    ///
    /// # Shapes
    /// `[batch, 2, 3]` and 2 sizes -> `[batch, size[0], size[1], 2]`; `[batch, 3, 4]` and 3 sizes
    /// -> `[batch, size[0], size[1], size[2], 3]`
    ///
    /// # Errors
    /// Returns an error if the shape is not one of these, if the dtype is not floating-point, or if
    /// a size is 0.
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

/// Returns the positions of the elements of an image of `size`, `[elements, axes + 1]`: x, y,
/// .., 1.
fn base_grid(size: &[usize], align_corners: bool, like: &Tensor) -> Result<Tensor> {
    let elements = Shape::new(size)?.elements();
    let mut columns = Vec::new();
    for axis in (0..size.len()).rev() {
        let count = size[axis];
        // `(2 i - (n - 1)) / (n - 1)`, or `/ n`.
        let numbers = Tensor::arange(0, count as f64, 1, like.dtype(), like.device())?;
        let parts = if align_corners { count - 1 } else { count }.max(1);
        let coordinates =
            numbers.mul_scalar(2.0)?.sub_scalar((count - 1) as f64)?.div_scalar(parts as f64)?;
        let mut shape = vec![1; size.len()];
        shape[axis] = count;
        columns.push(coordinates.reshape(&shape[..])?.expand(size)?.reshape([elements, 1])?);
    }
    columns.push(Tensor::ones([elements, 1], like.dtype(), like.device())?);
    Tensor::concat(&columns.iter().collect::<Vec<_>>(), 1)
}

/// Returns the shape of the result, if the operands match.
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

/// One of the elements that contribute along an axis: its index at each position, which may be out
/// of range, and its weight.
type Tap = (Tensor, Option<Tensor>);

impl Sampler<'_> {
    /// Returns samples of shape `[batch, channels, positions]`.
    fn sample(&self, x: &Tensor, grid: &Tensor) -> Result<Tensor> {
        let axes = self.sizes.len();
        let [batch, channels] = [x.dims()[0], x.dims()[1]];
        let points: usize = grid.dims()[1..=axes].iter().product();
        let rows = x.reshape([batch, channels, self.sizes.iter().product()])?;
        let taps: Result<Vec<Vec<Tap>>> = (0..axes)
            .map(|axis| {
                let coordinates = grid.narrow(axes + 1, axes - 1 - axis, 1)?.reshape([batch, 1, points])?;
                self.taps(axis, &coordinates)
            })
            .collect();
        let taps = taps?;
        let mut sum = None::<Tensor>;
        let count: usize = taps.iter().map(Vec::len).product();
        for mut combination in 0..count {
            let mut chosen = Vec::with_capacity(axes);
            for taps in &taps {
                chosen.push(&taps[combination % taps.len()]);
                combination /= taps.len();
            }
            let part = self.weighted_values(&rows, &chosen)?;
            sum = Some(match sum {
                Some(sum) => sum.add(&part)?,
                None => part,
            });
        }
        sum.ok_or_else(|| Error::invalid("grid_sample", "no elements"))
    }

    /// Returns the elements along `axis` that contribute to these coordinates, which range from -1
    /// to 1.
    fn taps(&self, axis: usize, coordinates: &Tensor) -> Result<Vec<Tap>> {
        let size = self.sizes[axis] as f64;
        let coordinate = match self.align_corners {
            true => coordinates.add_scalar(1.0)?.mul_scalar((size - 1.0) / 2.0)?,
            false => coordinates.add_scalar(1.0)?.mul_scalar(size)?.sub_scalar(1.0)?.div_scalar(2.0)?,
        };
        match self.mode {
            GridMode::Nearest => {
                // A grid that requires a gradient gets zeros, including where it is NaN: the weight
                // is 1.
                let weight = match coordinate.needs_grad() {
                    true => {
                        let number = coordinate.masked_fill(&coordinate.ne(&coordinate)?, 0.0)?;
                        Some(number.sign()?.mul_scalar(0.0)?.add_scalar(1.0)?)
                    }
                    false => None,
                };
                let coordinate = self.padded(axis, &coordinate.detach())?;
                Ok(vec![(coordinate.round()?, weight)])
            }
            GridMode::Bilinear => {
                let coordinate = self.padded(axis, &coordinate)?;
                let low = coordinate.detach().floor()?;
                let fraction = coordinate.sub(&low)?;
                Ok(vec![
                    (low.clone(), Some(fraction.rsub_scalar(1.0)?)),
                    (low.add_scalar(1.0)?, Some(fraction)),
                ])
            }
            GridMode::Bicubic => {
                let low = coordinate.detach().floor()?;
                let weights = cubic_weights(&coordinate.sub(&low)?)?;
                let tap = |(weight, by): (Tensor, f64)| {
                    Ok((self.padded(axis, &low.add_scalar(by)?)?.round()?, Some(weight)))
                };
                weights.into_iter().zip([-1.0, 0.0, 1.0, 2.0]).map(tap).collect()
            }
        }
    }

    /// Maps positions outside the image into it, according to the padding.
    fn padded(&self, axis: usize, coordinate: &Tensor) -> Result<Tensor> {
        let last = (self.sizes[axis] - 1) as f64;
        let nan_index = if self.sizes.len() == 2 { 0.0 } else { last };
        let inside = match self.padding {
            GridPadding::Zeros => return Ok(coordinate.clone()),
            GridPadding::Border => coordinate.clone(),
            GridPadding::Reflection => {
                let is_number = coordinate.detach().abs()?.lt_scalar(f64::INFINITY)?;
                let coordinate = coordinate.masked_fill(&is_number.logical_not()?, nan_index)?;
                let (low, span) = if self.align_corners { (0.0, last) } else { (-0.5, last + 1.0) };
                if span == 0.0 {
                    return coordinate.mul_scalar(0.0);
                }
                let distance = coordinate.sub_scalar(low)?.abs()?;
                let is_flipped =
                    distance.detach().div_scalar(span)?.floor()?.remainder_scalar(2.0)?.eq_scalar(1.0)?;
                let rest = distance.remainder_scalar(span)?;
                is_flipped.where_(&rest.rsub_scalar(span)?, &rest)?.add_scalar(low)?
            }
        };
        // At the first and the last element the gradient is 0, as beyond them.
        let is_within = inside.gt_scalar(0.0)?.logical_and(&inside.lt_scalar(last)?)?;
        let fixed = inside.detach();
        let fixed =
            fixed.masked_fill(&fixed.ne(&fixed)?, nan_index)?.maximum_scalar(0.0)?.minimum_scalar(last)?;
        is_within.where_(&inside, &fixed)
    }

    /// Returns the elements at one tap of each axis times their weights, and 0 outside the image.
    fn weighted_values(&self, rows: &Tensor, taps: &[&Tap]) -> Result<Tensor> {
        let (mut is_inside, mut position, mut weight) = (None::<Tensor>, None::<Tensor>, None::<Tensor>);
        let dtype = index_dtype(rows.shape().dim(2));
        for ((tap_index, tap_weight), &size) in taps.iter().copied().zip(self.sizes) {
            let last = (size - 1) as f64;
            let is_valid = tap_index.ge_scalar(0.0)?.logical_and(&tap_index.le_scalar(last)?)?;
            let zero = tap_index.detach().scalar_like(0.0)?;
            is_inside = Some(match is_inside {
                Some(inside) => inside.logical_and(&is_valid)?,
                None => is_valid.clone(),
            });
            let index = is_valid.where_(&tap_index.detach(), &zero)?.to_dtype(dtype)?;
            position = Some(match position {
                Some(position) => position.mul_scalar(size as i64)?.add(&index)?,
                None => index,
            });
            // Where a position is NaN, the weights of an image are NaN, and those of a volume
            // are 0.
            let tap_weight = match tap_weight {
                Some(tap_weight) if self.sizes.len() == 3 => Some(is_valid.where_(tap_weight, &zero)?),
                tap_weight => tap_weight.clone(),
            };
            weight = match (weight, tap_weight) {
                (Some(weight), Some(tap_weight)) => Some(weight.mul(&tap_weight)?),
                (weight, tap_weight) => weight.or(tap_weight),
            };
        }
        let (Some(is_inside), Some(position)) = (is_inside, position) else {
            return Err(Error::invalid("grid_sample", "no axes"));
        };
        let [batch, channels, _] = rows.sizes()?;
        let points = position.shape().dim(2);
        let zero = rows.detach().scalar_like(0.0)?;
        let values = rows.gather(2, &position.expand([batch, channels, points])?)?;
        let values = is_inside.where_(&values, &zero)?;
        // Outside the image the product is 0, or NaN where the position is NaN.
        if let Some(weight) = weight { values.mul(&weight) } else { Ok(values) }
    }
}
