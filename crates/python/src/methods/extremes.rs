//! Indices of the largest and smallest elements, also for axes that are too long for the core's
//! int32 indices.

use ternion::{Axes, DType, Error, Result, Tensor, text};

/// The maximum number of elements of an axis whose indices fit int32.
const COUNTED: usize = 1 << 31;
/// Longer axes are processed in chunks of this size.
const PART: usize = 1 << 30;

/// Returns the largest or smallest elements along an axis, which is kept with size 1, and their
/// indices (i64).
fn found(x: &Tensor, axis: usize, is_largest: bool) -> Result<(Tensor, Tensor)> {
    let size = x.dims()[axis];
    if size <= COUNTED {
        // Bool tensors are ordered, but the ops argmax and argmin do not support them.
        let numbers = if x.dtype() == DType::Bool { x.to_dtype(DType::U8)? } else { x.clone() };
        let axis = axis as isize;
        let place = if is_largest { numbers.argmax_keep(axis)? } else { numbers.argmin_keep(axis)? };
        return Ok((x.gather(axis, &place)?, place.to_dtype(DType::I64)?));
    }
    let part = |start: usize| {
        let part = x.narrow(axis as isize, start, PART.min(size - start))?;
        let (values, places) = found(&part, axis, is_largest)?;
        Ok((values, places.add_scalar(start as i64)?))
    };
    let (values, places): (Vec<_>, Vec<_>) =
        (0..size).step_by(PART).map(part).collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let joined = |parts: Vec<Tensor>| Tensor::concat(&parts.iter().collect::<Vec<_>>(), axis as isize);
    let (values, places) = (joined(values)?, joined(places)?);
    let (extreme, best) = found(&values, axis, is_largest)?;
    Ok((extreme, places.gather(axis as isize, &best)?))
}

/// Returns the largest or smallest elements along an axis, and their indices.
pub fn extremes(x: &Tensor, dim: isize, keepdim: bool, is_largest: bool) -> Result<(Tensor, Tensor)> {
    let axis = ternion::Axis(dim).resolve(x.shape(), if is_largest { "argmax" } else { "argmin" })?;
    let (values, places) = found(x, axis, is_largest)?;
    if keepdim { Ok((values, places)) } else { Ok((values.squeeze(dim)?, places.squeeze(dim)?)) }
}

/// Returns the index of the largest or smallest element along an axis, or of all elements in
/// row-major order; i64.
pub fn place(x: &Tensor, dim: Option<isize>, keepdim: bool, is_largest: bool) -> Result<Tensor> {
    let name = if is_largest { "argmax" } else { "argmin" };
    let axis = dim.map(|dim| ternion::Axis(dim).resolve(x.shape(), name)).transpose()?;
    let size = axis.map_or(x.elements(), |axis| x.dims()[axis]);
    if size > COUNTED {
        let (row, axis) = match axis {
            Some(axis) => (x.detach(), axis),
            None => (x.detach().reshape([size])?, 0),
        };
        let places = found(&row, axis, is_largest)?.1;
        return match (dim, keepdim) {
            (Some(_), true) => Ok(places),
            (Some(dim), false) => places.squeeze(dim),
            (None, true) => places.reshape(&vec![1_usize; x.rank()][..]),
            (None, false) => places.reshape(()),
        };
    }
    let axes = dim.map_or(Axes::All, Axes::from);
    let found = match (is_largest, keepdim) {
        (true, true) => x.argmax_keep(axes),
        (true, false) => x.argmax(axes),
        (false, true) => x.argmin_keep(axes),
        (false, false) => x.argmin(axes),
    };
    found?.to_dtype(DType::I64)
}

/// Checks that the indices along an axis fit int32, for functions that do not process an axis in
/// chunks.
pub fn counted(name: &'static str, x: &Tensor, dim: isize) -> Result<()> {
    let axis = ternion::Axis(dim).resolve(x.shape(), name)?;
    let size = x.dims()[axis];
    if size <= COUNTED {
        return Ok(());
    }
    Err(Error::invalid(
        name,
        text![format!("{size} elements along axis {dim}, places of at most {COUNTED} fit "), DType::I32],
    ))
}
