//! Indices of the largest and smallest elements, also for axes that are too long for the core's
//! int32 indices.

use ternion::{Axes, DType, Error, Result, Tensor, text};

/// The maximum number of elements of an axis whose indices fit int32.
const MAX_INDEXED_SIZE: usize = 1 << 31;
/// Longer axes are processed in chunks of this size.
const CHUNK: usize = 1 << 30;

/// Returns the largest or smallest elements along an axis, which is kept with size 1, and their
/// indices (i64).
fn extreme_along(x: &Tensor, axis: usize, is_largest: bool) -> Result<(Tensor, Tensor)> {
    let size = x.dims()[axis];
    if size <= MAX_INDEXED_SIZE {
        // Bool tensors are ordered, but the ops argmax and argmin do not support them.
        let numbers = if x.dtype() == DType::Bool { x.to_dtype(DType::U8)? } else { x.clone() };
        let axis = axis as isize;
        let index = if is_largest { numbers.argmax_keep(axis)? } else { numbers.argmin_keep(axis)? };
        return Ok((x.gather(axis, &index)?, index.to_dtype(DType::I64)?));
    }
    let part = |start: usize| {
        let part = x.narrow(axis as isize, start, CHUNK.min(size - start))?;
        let (values, indices) = extreme_along(&part, axis, is_largest)?;
        Ok((values, indices.add_scalar(start as i64)?))
    };
    let (values, indices): (Vec<_>, Vec<_>) =
        (0..size).step_by(CHUNK).map(part).collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let concat = |parts: Vec<Tensor>| Tensor::concat(&parts.iter().collect::<Vec<_>>(), axis as isize);
    let (values, indices) = (concat(values)?, concat(indices)?);
    let (extreme, best) = extreme_along(&values, axis, is_largest)?;
    Ok((extreme, indices.gather(axis as isize, &best)?))
}

/// Returns the largest or smallest elements along an axis, and their indices.
pub fn min_or_max(x: &Tensor, dim: isize, keepdim: bool, is_largest: bool) -> Result<(Tensor, Tensor)> {
    let axis = ternion::Axis(dim).resolve(x.shape(), if is_largest { "argmax" } else { "argmin" })?;
    let (values, indices) = extreme_along(x, axis, is_largest)?;
    if keepdim { Ok((values, indices)) } else { Ok((values.squeeze(dim)?, indices.squeeze(dim)?)) }
}

/// Returns the index of the largest or smallest element along an axis, or of all elements in
/// row-major order; i64.
pub fn arg_min_or_max(x: &Tensor, dim: Option<isize>, keepdim: bool, is_largest: bool) -> Result<Tensor> {
    let name = if is_largest { "argmax" } else { "argmin" };
    let axis = dim.map(|dim| ternion::Axis(dim).resolve(x.shape(), name)).transpose()?;
    let size = axis.map_or(x.elements(), |axis| x.dims()[axis]);
    if size > MAX_INDEXED_SIZE {
        let (row, axis) = match axis {
            Some(axis) => (x.detach(), axis),
            None => (x.detach().reshape([size])?, 0),
        };
        let indices = extreme_along(&row, axis, is_largest)?.1;
        return match (dim, keepdim) {
            (Some(_), true) => Ok(indices),
            (Some(dim), false) => indices.squeeze(dim),
            (None, true) => indices.reshape(&vec![1_usize; x.rank()][..]),
            (None, false) => indices.reshape(()),
        };
    }
    let axes = dim.map_or(Axes::All, Axes::from);
    let result = match (is_largest, keepdim) {
        (true, true) => x.argmax_keep(axes),
        (true, false) => x.argmax(axes),
        (false, true) => x.argmin_keep(axes),
        (false, false) => x.argmin(axes),
    };
    result?.to_dtype(DType::I64)
}

/// Checks that the indices along an axis fit int32, for functions that do not process an axis in
/// chunks.
pub fn check_index_range(name: &'static str, x: &Tensor, dim: isize) -> Result<()> {
    let axis = ternion::Axis(dim).resolve(x.shape(), name)?;
    let size = x.dims()[axis];
    if size <= MAX_INDEXED_SIZE {
        return Ok(());
    }
    Err(Error::invalid(
        name,
        text![
            format!("{size} elements along axis {dim}, indices of at most {MAX_INDEXED_SIZE} fit "),
            DType::I32
        ],
    ))
}
