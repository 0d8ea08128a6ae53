//! The different elements of a tensor, or the different slices along an axis.

use crate::error::{Error, Result};
use crate::ops::index::index_dtype;
use crate::shape::Axis;
use crate::{DType, Tensor};

/// The different elements or slices, which of them each one is, and how often each occurs.
type Groups = (Tensor, Tensor, Tensor);

impl Tensor {
    /// The different elements in order; where each element is among them, in this tensor's shape; and how often each occurs. Along an axis of slices, which
    /// are compared as a whole, number by number: the positions have one number for each slice then. Each NaN differs from all else. Reads back to the
    /// host where groups begin.
    ///
    /// # Errors
    /// An axis that does not exist, slices without elements.
    pub fn unique(&self, axis: Option<isize>) -> Result<(Tensor, Tensor, Tensor)> {
        let (rows, axis) = rows("unique", self, axis)?;
        let mut order = Tensor::iota(rows.dims()[0], index_dtype(rows.dims()[0]), 0, 1, self.device())?;
        // By the last number first: sorting keeps the order of equal ones.
        for column in (0..rows.dims()[1]).rev() {
            let numbers = rows.select(1, column)?.index_select(0, &order)?;
            order = order.index_select(0, &numbers.argsort(0, false)?)?;
        }
        groups(self, axis, &rows, &order)
    }

    /// [`unique`](Tensor::unique) of runs: an element or slice is left out where it is as the one before it.
    ///
    /// # Errors
    /// An axis that does not exist, slices without elements.
    pub fn unique_consecutive(&self, axis: Option<isize>) -> Result<(Tensor, Tensor, Tensor)> {
        let (rows, axis) = rows("unique_consecutive", self, axis)?;
        let order = Tensor::iota(rows.dims()[0], index_dtype(rows.dims()[0]), 0, 1, self.device())?;
        groups(self, axis, &rows, &order)
    }
}

/// What is compared as rows of a matrix, and the axis.
fn rows(name: &'static str, x: &Tensor, axis: Option<isize>) -> Result<(Tensor, Option<usize>)> {
    let x = x.detach();
    let Some(axis) = axis else { return Ok((x.reshape([x.elements(), 1])?, None)) };
    let axis = Axis(axis).resolve(x.shape(), name)?;
    let width: usize =
        (0..x.rank()).filter(|&other| other != axis).map(|other| x.shape().dim(other)).product();
    if width == 0 {
        return Err(Error::invalid(
            name,
            format!("slices along axis {axis} of shape {:?} have no elements", x.shape()),
        ));
    }
    Ok((first(&x, axis)?.reshape([x.shape().dim(axis), width])?, Some(axis)))
}

/// `x` with this axis in front of the others.
fn first(x: &Tensor, axis: usize) -> Result<Tensor> {
    let order: Vec<usize> =
        std::iter::once(axis).chain((0..x.rank()).filter(|&other| other != axis)).collect();
    x.permute(&order[..])
}

/// The groups of rows that are the same one after the other in this order.
fn groups(x: &Tensor, axis: Option<usize>, rows: &Tensor, order: &Tensor) -> Result<Groups> {
    let count = order.elements();
    let ordered = rows.index_select(0, order)?;
    let begins = match count {
        0 => Tensor::zeros([0], DType::Bool, x.device())?,
        _ => {
            let changes = ordered.narrow(0, 1, count - 1)?.ne(&ordered.narrow(0, 0, count - 1)?)?.any(1)?;
            Tensor::concat(&[&Tensor::ones([1], DType::Bool, x.device())?, &changes], 0)?
        }
    };
    let starts = begins.true_positions()?;
    let dtype = starts.dtype();
    let group = begins.cumsum(0)?.sub_scalar(1)?.to_dtype(dtype)?;
    let inverse = Tensor::zeros([count], dtype, x.device())?.scatter(0, order, &group)?;
    let end = Tensor::full([1], count as i64, dtype, x.device())?;
    let counts = match starts.elements() {
        0 => starts.clone(),
        groups => Tensor::concat(&[&starts.narrow(0, 1, groups - 1)?, &end], 0)?.sub(&starts)?,
    };
    let picked = order.index_select(0, &starts)?;
    Ok(match axis {
        None => {
            (x.detach().reshape([count])?.index_select(0, &picked)?, inverse.reshape(*x.shape())?, counts)
        }
        Some(axis) => (x.detach().index_select(axis, &picked)?, inverse, counts),
    })
}
