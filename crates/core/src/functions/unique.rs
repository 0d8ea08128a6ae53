//! The unique elements of a tensor, or the unique slices along an axis.

use crate::error::{Error, Result};
use crate::ops::index::index_dtype;
use crate::shape::Axis;
use crate::{DType, Tensor};

/// The unique elements or slices; for each element or slice the index of its unique one; and the
/// counts.
type Groups = (Tensor, Tensor, Tensor);

impl Tensor {
    /// Returns the sorted unique elements, the index among them of each element, in the shape of
    /// this tensor, and their counts. With an axis, slices along it are compared lexicographically,
    /// and there is one index for each slice. Each NaN counts as a different element. Copies to the
    /// host a mask of the elements that start a group.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist, or if slices have no elements.
    pub fn unique(&self, axis: Option<isize>) -> Result<(Tensor, Tensor, Tensor)> {
        let (rows, axis) = as_rows("unique", self, axis)?;
        let mut order = Tensor::iota(rows.dims()[0], index_dtype(rows.dims()[0]), 0, 1, self.device())?;
        // Sorts by the last column first: the sort is stable.
        for column in (0..rows.dims()[1]).rev() {
            let values = rows.select(1, column)?.index_select(0, &order)?;
            order = order.index_select(0, &values.argsort(0, false)?)?;
        }
        find_groups(self, axis, &rows, &order)
    }

    /// Same as [`unique`](Tensor::unique), but without sorting: an element or slice is skipped if
    /// it equals the previous one.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist, or if slices have no elements.
    pub fn unique_consecutive(&self, axis: Option<isize>) -> Result<(Tensor, Tensor, Tensor)> {
        let (rows, axis) = as_rows("unique_consecutive", self, axis)?;
        let order = Tensor::iota(rows.dims()[0], index_dtype(rows.dims()[0]), 0, 1, self.device())?;
        find_groups(self, axis, &rows, &order)
    }
}

/// Returns the elements to be compared as rows of a matrix, and the axis.
fn as_rows(name: &'static str, x: &Tensor, axis: Option<isize>) -> Result<(Tensor, Option<usize>)> {
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
    Ok((move_to_front(&x, axis)?.reshape([x.shape().dim(axis), width])?, Some(axis)))
}

/// Moves this axis before the others.
fn move_to_front(x: &Tensor, axis: usize) -> Result<Tensor> {
    let order: Vec<usize> =
        std::iter::once(axis).chain((0..x.rank()).filter(|&other| other != axis)).collect();
    x.permute(&order[..])
}

/// Returns the groups of rows that are equal and consecutive in this order.
fn find_groups(x: &Tensor, axis: Option<usize>, rows: &Tensor, order: &Tensor) -> Result<Groups> {
    let count = order.elements();
    let ordered = rows.index_select(0, order)?;
    let is_start = match count {
        0 => Tensor::zeros([0], DType::Bool, x.device())?,
        _ => {
            let changes = ordered.narrow(0, 1, count - 1)?.ne(&ordered.narrow(0, 0, count - 1)?)?.any(1)?;
            Tensor::concat(&[&Tensor::ones([1], DType::Bool, x.device())?, &changes], 0)?
        }
    };
    let starts = is_start.true_positions()?;
    let dtype = starts.dtype();
    let group = is_start.cumsum(0)?.sub_scalar(1)?.to_dtype(dtype)?;
    let inverse = Tensor::zeros([count], dtype, x.device())?.scatter(0, order, &group)?;
    let end = Tensor::full([1], count as i64, dtype, x.device())?;
    let counts = match starts.elements() {
        0 => starts.clone(),
        groups => Tensor::concat(&[&starts.narrow(0, 1, groups - 1)?, &end], 0)?.sub(&starts)?,
    };
    let first_indices = order.index_select(0, &starts)?;
    Ok(match axis {
        None => (
            x.detach().reshape([count])?.index_select(0, &first_indices)?,
            inverse.reshape(*x.shape())?,
            counts,
        ),
        Some(axis) => (x.detach().index_select(axis, &first_indices)?, inverse, counts),
    })
}
