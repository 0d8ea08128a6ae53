//! Numerical differentiation and integration of sampled values.

use super::{check_floating, in_accumulator};
use crate::error::{Error, Result};
use crate::op::check;
use crate::shape::Axis;
use crate::{Shape, Tensor};

/// The positions of the elements along an axis.
#[derive(Clone, Copy, Debug)]
pub enum Spacing<'a> {
    /// Positions with this distance between neighbors.
    Even(f64),
    /// These positions.
    Positions(&'a Tensor),
}

impl Tensor {
    /// Estimates the derivative along an axis by central differences, which are exact for
    /// parabolas. At both ends the order is 1, with the nearest neighbor, or 2, with the two
    /// nearest neighbors (NumPy's `gradient`).
    ///
    /// # Shapes
    /// `[..]` and positions `[size of the axis]` -> `[..]`
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point, if the axis does not exist or its size
    /// is not above the order, if the order is not 1 or 2, or if the positions have another shape
    /// or are not floating-point.
    pub fn gradient(&self, axis: impl Into<Axis>, spacing: Spacing<'_>, edge_order: usize) -> Result<Tensor> {
        let name = "gradient";
        check_floating(name, self)?;
        let axis = axis.into().resolve(self.shape(), name)?;
        if !matches!(edge_order, 1 | 2) {
            return Err(Error::invalid(name, format!("edge_order of {edge_order}, expected 1 or 2")));
        }
        let size = self.shape().dim(axis);
        if size <= edge_order {
            let detail = format!(
                "{size} elements along axis {axis}, expected more than the edge_order of {edge_order}"
            );
            return Err(Error::invalid(name, detail));
        }
        in_accumulator([self], |[x]| {
            let steps = match spacing {
                Spacing::Even(step) => {
                    x.detach().scalar_like(step)?.expand(axis_shape(x, axis, size - 1)?)?
                }
                Spacing::Positions(positions) => {
                    check::shape(name, "spacing", &positions.meta(), Shape::new(&[size])?)?;
                    check_floating(name, positions)?;
                    let positions = positions.to_dtype(x.dtype())?;
                    neighbor_differences(&positions, 0)?.reshape(axis_shape(x, axis, size - 1)?.dims())?
                }
            };
            finite_differences(x, axis, &steps, edge_order)
        })
    }

    /// Integrates this tensor along an axis by the trapezoidal rule.
    ///
    /// # Shapes
    /// `[.., n, ..]` and positions `[n]`, or of a rank of at least 2 and a shape that broadcasts to
    /// that of this tensor -> `[.., ..]`, the shape without the axis
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point, if the axis does not exist, or if the
    /// positions have another shape or are not floating-point.
    pub fn trapezoid(&self, axis: impl Into<Axis>, spacing: Spacing<'_>) -> Result<Tensor> {
        let name = "trapezoid";
        let axis = axis.into().resolve(self.shape(), name)?;
        in_accumulator([self], |[y]| trapezoid_areas(name, y, axis, spacing)?.sum(axis))
    }

    /// Returns the integrals along an axis up to each element except the first: see
    /// [`trapezoid`](Tensor::trapezoid).
    ///
    /// # Shapes
    /// `[.., n, ..]` and positions as for `trapezoid` -> `[.., n - 1, ..]`
    ///
    /// # Errors
    /// Same as [`trapezoid`](Tensor::trapezoid).
    pub fn cumulative_trapezoid(&self, axis: impl Into<Axis>, spacing: Spacing<'_>) -> Result<Tensor> {
        let name = "cumulative_trapezoid";
        let axis = axis.into().resolve(self.shape(), name)?;
        in_accumulator([self], |[y]| trapezoid_areas(name, y, axis, spacing)?.cumsum(axis))
    }
}

/// Returns a shape with this size along one axis and 1 along all others.
fn axis_shape(x: &Tensor, axis: usize, size: usize) -> Result<Shape> {
    let mut dims = vec![1; x.rank()];
    dims[axis] = size;
    Shape::new(&dims)
}

/// Returns all elements along an axis except the first, and all except the last.
fn neighbors(x: &Tensor, axis: usize) -> Result<(Tensor, Tensor)> {
    let rest = x.shape().dim(axis).saturating_sub(1);
    let first = usize::from(x.shape().dim(axis) > 0);
    Ok((x.narrow(axis, first, rest)?, x.narrow(axis, 0, rest)?))
}

/// Returns the differences of neighbors.
fn neighbor_differences(x: &Tensor, axis: usize) -> Result<Tensor> {
    let (later, earlier) = neighbors(x, axis)?;
    later.sub(&earlier)
}

/// Returns the derivatives at all positions, of `x` with these steps between neighbors.
fn finite_differences(x: &Tensor, axis: usize, steps: &Tensor, edge_order: usize) -> Result<Tensor> {
    // Difference quotients of neighbors.
    let quotients = neighbor_differences(x, axis)?.div(steps)?;
    let ((right, left), (step_right, step_left)) = (neighbors(&quotients, axis)?, neighbors(steps, axis)?);
    // The derivative on each side is weighted by the step of the other side.
    let inner = left.mul(&step_right)?.add(&right.mul(&step_left)?)?.div(&step_left.add(&step_right)?)?;
    let last = quotients.shape().dim(axis) - 1;
    let edge = |index: usize, other: usize| {
        let near = quotients.narrow(axis, index, 1)?;
        if edge_order == 1 {
            return Ok(near);
        }
        // The parabola through three points: its derivative at the end differs from the nearer
        // quotient in proportion to the change between the two quotients.
        let (step, other_step) = (steps.narrow(axis, index, 1)?, steps.narrow(axis, other, 1)?);
        let change = near.sub(&quotients.narrow(axis, other, 1)?)?;
        near.add(&change.mul(&step)?.div(&step.add(&other_step)?)?)
    };
    let (first, end) = (edge(0, last.min(1))?, edge(last, last.saturating_sub(1))?);
    Tensor::concat(&[&first, &inner, &end], axis)
}

/// Returns the areas between neighbors.
fn trapezoid_areas(name: &'static str, y: &Tensor, axis: usize, spacing: Spacing<'_>) -> Result<Tensor> {
    check_floating(name, y)?;
    let (later, earlier) = neighbors(y, axis)?;
    let sum = later.add(&earlier)?;
    let positions = match spacing {
        Spacing::Even(step) => return sum.mul_scalar(step / 2.0),
        Spacing::Positions(positions) => positions,
    };
    check_floating(name, positions)?;
    let (size, positions) = (y.shape().dim(axis), positions.to_dtype(y.dtype())?);
    let steps = match positions.rank() {
        1 if positions.elements() == size => neighbor_differences(&positions, 0)?
            .reshape(axis_shape(y, axis, size.saturating_sub(1))?.dims())?,
        0 | 1 => return Err(positions_error(name, y, &positions)),
        rank if rank > y.rank() || !positions.shape().broadcasts_to(y.shape()) => {
            return Err(positions_error(name, y, &positions));
        }
        rank => {
            let lead = vec![1; y.rank() - rank];
            let positions = positions.reshape(&[&lead[..], positions.dims()].concat()[..])?;
            // If all elements share one position, the steps are 0.
            neighbor_differences(&positions.expand(positions.shape().resized(axis, size, name)?)?, axis)?
        }
    };
    sum.mul_scalar(0.5)?.mul(&steps)
}

fn positions_error(name: &'static str, y: &Tensor, positions: &Tensor) -> Error {
    Error::invalid(
        name,
        format!("positions of shape {:?} for elements of {:?}", positions.shape(), y.shape()),
    )
}
