//! Padding with elements of the tensor itself.

use crate::error::{Error, Result};
use crate::{Shape, Tensor};

impl Tensor {
    /// Pads with elements reflected at the outermost ones, which are not repeated. Negative amounts
    /// crop; cropping comes after padding.
    ///
    /// # Shapes
    /// Each axis grows by `amounts[axis][0]` before and `amounts[axis][1]` after its elements.
    ///
    /// # Errors
    /// Returns an error if the number of amounts is not the rank, if an amount is not below the
    /// size of its axis, or if nothing is left of an axis.
    pub fn reflection_pad(&self, amounts: &[[isize; 2]]) -> Result<Tensor> {
        let op = "reflection_pad";
        pad_then_crop(op, self, amounts, |x, axis, [before, after]| {
            let size = x.shape().dim(axis);
            if before.max(after) >= size {
                let detail =
                    format!("{before} and {after} elements around axis {axis} of {size}, expected fewer");
                return Err(Error::invalid(op, detail));
            }
            concat_parts(
                [
                    x.narrow(axis, 1, before)?.flip(axis)?,
                    x.clone(),
                    x.narrow(axis, size - 1 - after, after)?.flip(axis)?,
                ],
                axis,
            )
        })
    }

    /// Pads with the outermost elements. Negative amounts crop.
    ///
    /// # Shapes
    /// Each axis grows by `amounts[axis][0]` before and `amounts[axis][1]` after its elements.
    ///
    /// # Errors
    /// Returns an error if the number of amounts is not the rank, if an axis is empty, if nothing
    /// is left of an axis, or if the allocation fails.
    pub fn replication_pad(&self, amounts: &[[isize; 2]]) -> Result<Tensor> {
        pad_then_crop("replication_pad", self, amounts, |x, axis, [before, after]| {
            let size = x.shape().dim(axis);
            let repeated = |at: usize, count: usize| {
                x.narrow(axis, at, 1)?.expand(x.shape().resized(axis, count, "replication_pad")?)
            };
            concat_parts([repeated(0, before)?, x.clone(), repeated(size - 1, after)?], axis)
        })
    }

    /// Pads with the elements at the opposite end. Negative amounts crop; cropping comes before
    /// padding.
    ///
    /// # Shapes
    /// Each axis grows by `amounts[axis][0]` before and `amounts[axis][1]` after its elements.
    ///
    /// # Errors
    /// Returns an error if the number of amounts is not the rank, if an amount is above the size of
    /// its axis, or if nothing is left of an axis.
    pub fn circular_pad(&self, amounts: &[[isize; 2]]) -> Result<Tensor> {
        let op = "circular_pad";
        let mut x = self.clone();
        let positive = check_amounts(op, self, amounts)?;
        for (axis, sides) in amounts.iter().enumerate() {
            let [off_before, off_after] = sides.map(|amount| amount.min(0).unsigned_abs());
            let size = x.shape().dim(axis);
            let remaining = off_before.checked_add(off_after).and_then(|removed| size.checked_sub(removed));
            x = match remaining {
                Some(remaining) if remaining > 0 || (off_before, off_after) == (0, 0) => {
                    x.narrow(axis, off_before, remaining)?
                }
                _ => return Err(empty_axis_error(op, axis, size, *sides)),
            };
        }
        for (axis, [before, after]) in positive.into_iter().enumerate() {
            let size = x.shape().dim(axis);
            if before.max(after) > size {
                let detail =
                    format!("{before} and {after} elements around axis {axis} of {size}, expected no more");
                return Err(Error::invalid(op, detail));
            }
            if before + after > 0 {
                x = concat_parts(
                    [x.narrow(axis, size - before, before)?, x.clone(), x.narrow(axis, 0, after)?],
                    axis,
                )?;
            }
        }
        Ok(x)
    }
}

fn concat_parts(parts: [Tensor; 3], axis: usize) -> Result<Tensor> {
    let parts: Vec<&Tensor> = parts.iter().filter(|part| part.shape().dim(axis) > 0).collect();
    Tensor::concat(&parts, axis)
}

fn empty_axis_error(op: &'static str, axis: usize, size: usize, sides: [isize; 2]) -> Error {
    Error::invalid(op, format!("{sides:?} around axis {axis} of {size} leave nothing of it"))
}

/// Returns the amounts that pad; those that crop are 0.
fn check_amounts(op: &'static str, x: &Tensor, amounts: &[[isize; 2]]) -> Result<Vec<[usize; 2]>> {
    if amounts.len() != x.rank() {
        return Err(Error::invalid(op, format!("{} amounts for shape {:?}", amounts.len(), x.shape())));
    }
    let positive: Vec<[usize; 2]> =
        amounts.iter().map(|sides| sides.map(|amount| amount.max(0).unsigned_abs())).collect();
    let dims = x.dims().iter().zip(&positive);
    let dims: Vec<usize> =
        dims.map(|(&size, sides)| sides.iter().fold(size, |sum, side| sum.saturating_add(*side))).collect();
    Shape::new(&dims)?;
    Ok(positive)
}

/// Pads each axis with `border`, then crops it.
fn pad_then_crop(
    op: &'static str,
    x: &Tensor,
    amounts: &[[isize; 2]],
    border: impl Fn(&Tensor, usize, [usize; 2]) -> Result<Tensor>,
) -> Result<Tensor> {
    let mut y = x.clone();
    for (axis, positive) in check_amounts(op, x, amounts)?.into_iter().enumerate() {
        let (size, sides) = (y.shape().dim(axis), amounts[axis]);
        if sides == [0, 0] {
            continue;
        }
        if size == 0 {
            return Err(empty_axis_error(op, axis, size, sides));
        }
        if positive != [0, 0] {
            y = border(&y, axis, positive)?;
        }
        let [before, after] = sides.map(|amount| amount.min(0).unsigned_abs());
        let size = y.shape().dim(axis);
        y = match before.checked_add(after).and_then(|removed| size.checked_sub(removed)) {
            Some(remaining) if remaining > 0 => y.narrow(axis, before, remaining)?,
            _ => return Err(empty_axis_error(op, axis, size, sides)),
        };
    }
    Ok(y)
}
