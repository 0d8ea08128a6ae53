//! Slopes and areas of what is known at some places.

use super::{check_floating, in_accumulator};
use crate::error::{Error, Result};
use crate::op::check;
use crate::shape::Axis;
use crate::{Shape, Tensor};

/// Where the elements along an axis are.
#[derive(Clone, Copy, Debug)]
pub enum Spacing<'a> {
    /// As far apart each.
    Even(f64),
    /// At these places.
    Places(&'a Tensor),
}

impl Tensor {
    /// The slopes along an axis, by central differences that are exact of parabolas: at both ends of order 1, by the nearest neighbor, or 2, by the two
    /// nearest (NumPy's `gradient`).
    ///
    /// # Shapes
    /// `[..]` and places `[size of the axis]` -> the same
    ///
    /// # Errors
    /// A dtype that is not floating, an axis that does not exist or has no more elements than the order, an order other than 1 and 2, places of another shape or
    /// dtype.
    pub fn gradient(&self, axis: impl Into<Axis>, spacing: Spacing<'_>, edge_order: usize) -> Result<Tensor> {
        let name = "gradient";
        check_floating(name, self)?;
        let axis = axis.into().resolve(self.shape(), name)?;
        if !matches!(edge_order, 1 | 2) {
            return Err(Error::invalid(name, format!("edge_order of {edge_order}, expected 1 or 2")));
        }
        let size = self.shape().dim(axis);
        if size <= edge_order {
            let told = format!(
                "{size} elements along axis {axis}, expected more than the edge_order of {edge_order}"
            );
            return Err(Error::invalid(name, told));
        }
        in_accumulator([self], |[x]| {
            let steps = match spacing {
                Spacing::Even(step) => x.detach().scalar_like(step)?.expand(along(x, axis, size - 1)?)?,
                Spacing::Places(places) => {
                    check::shape(name, "spacing", &places.meta(), Shape::new(&[size])?)?;
                    check_floating(name, places)?;
                    let places = places.to_dtype(x.dtype())?;
                    apart(&places, 0)?.reshape(along(x, axis, size - 1)?.dims())?
                }
            };
            slopes(x, axis, &steps, edge_order)
        })
    }

    /// The area below this tensor along an axis, by straight lines between its elements.
    ///
    /// # Shapes
    /// `[..]` and places `[size of the axis]`, or of any shape that broadcasts to this one's -> without the axis
    ///
    /// # Errors
    /// A dtype that is not floating, an axis that does not exist, places of another shape or dtype.
    pub fn trapezoid(&self, axis: impl Into<Axis>, spacing: Spacing<'_>) -> Result<Tensor> {
        let name = "trapezoid";
        let axis = axis.into().resolve(self.shape(), name)?;
        in_accumulator([self], |[y]| areas(name, y, axis, spacing)?.sum(axis))
    }

    /// The areas below this tensor along an axis up to each of its elements but the first: see [`trapezoid`](Tensor::trapezoid).
    ///
    /// # Errors
    /// As [`trapezoid`](Tensor::trapezoid).
    pub fn cumulative_trapezoid(&self, axis: impl Into<Axis>, spacing: Spacing<'_>) -> Result<Tensor> {
        let name = "cumulative_trapezoid";
        let axis = axis.into().resolve(self.shape(), name)?;
        in_accumulator([self], |[y]| areas(name, y, axis, spacing)?.cumsum(axis))
    }
}

/// A shape that broadcasts along all axes but one.
fn along(x: &Tensor, axis: usize, size: usize) -> Result<Shape> {
    let mut dims = vec![1; x.rank()];
    dims[axis] = size;
    Shape::new(&dims)
}

/// All elements along an axis but the first; all but the last.
fn pairs(x: &Tensor, axis: usize) -> Result<(Tensor, Tensor)> {
    let rest = x.shape().dim(axis).saturating_sub(1);
    let first = usize::from(x.shape().dim(axis) > 0);
    Ok((x.narrow(axis, first, rest)?, x.narrow(axis, 0, rest)?))
}

/// The differences of neighbors.
fn apart(x: &Tensor, axis: usize) -> Result<Tensor> {
    let (later, earlier) = pairs(x, axis)?;
    later.sub(&earlier)
}

fn slopes(x: &Tensor, axis: usize, steps: &Tensor, edge_order: usize) -> Result<Tensor> {
    let between = apart(x, axis)?.div(steps)?;
    let ((right, left), (step_right, step_left)) = (pairs(&between, axis)?, pairs(steps, axis)?);
    // Each side counts by how near the other side's neighbor is.
    let inner = left.mul(&step_right)?.add(&right.mul(&step_left)?)?.div(&step_left.add(&step_right)?)?;
    let last = between.shape().dim(axis) - 1;
    let edge = |at: usize, other: usize| {
        let near = between.narrow(axis, at, 1)?;
        if edge_order == 1 {
            return Ok(near);
        }
        let (step, further) = (steps.narrow(axis, at, 1)?, steps.narrow(axis, other, 1)?);
        let bend = near.sub(&between.narrow(axis, other, 1)?)?;
        near.add(&bend.mul(&step)?.div(&step.add(&further)?)?)
    };
    let (first, end) = (edge(0, last.min(1))?, edge(last, last.saturating_sub(1))?);
    Tensor::concat(&[&first, &inner, &end], axis)
}

/// The areas between neighbors.
fn areas(name: &'static str, y: &Tensor, axis: usize, spacing: Spacing<'_>) -> Result<Tensor> {
    check_floating(name, y)?;
    let (later, earlier) = pairs(y, axis)?;
    let sum = later.add(&earlier)?;
    let places = match spacing {
        Spacing::Even(step) => return sum.mul_scalar(step / 2.0),
        Spacing::Places(places) => places,
    };
    check_floating(name, places)?;
    let (size, places) = (y.shape().dim(axis), places.to_dtype(y.dtype())?);
    let steps = match places.rank() {
        1 if places.elements() == size => {
            apart(&places, 0)?.reshape(along(y, axis, size.saturating_sub(1))?.dims())?
        }
        0 | 1 => return Err(wrong_places(name, y, &places)),
        rank if rank > y.rank() || !places.shape().broadcasts_to(y.shape()) => {
            return Err(wrong_places(name, y, &places));
        }
        rank => {
            let lead = vec![1; y.rank() - rank];
            let places = places.reshape(&[&lead[..], places.dims()].concat()[..])?;
            // Of one place for all there is no step between them.
            apart(&places.expand(places.shape().resized(axis, size, name)?)?, axis)?
        }
    };
    sum.mul_scalar(0.5)?.mul(&steps)
}

fn wrong_places(name: &'static str, y: &Tensor, places: &Tensor) -> Error {
    Error::invalid(name, format!("places of shape {:?} for elements of {:?}", places.shape(), y.shape()))
}
