//! Where the largest and smallest elements are, also of more than the framework's own indices, int32, can count.

use ternion::{Axes, DType, Error, Result, Tensor, text};

/// The most elements of an axis whose places int32 can count.
const COUNTED: usize = 1 << 31;
/// Longer axes are looked through in parts of this size.
const PART: usize = 1 << 30;

/// The largest or smallest elements along an axis, which stays with size 1, and where they are: i64.
fn found(x: &Tensor, axis: usize, is_largest: bool) -> Result<(Tensor, Tensor)> {
    let size = x.dims()[axis];
    if size <= COUNTED {
        // Truth values have an order, but no extremes among the ops.
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

/// The largest or smallest elements along an axis, and where they are.
pub fn extremes(x: &Tensor, dim: isize, keepdim: bool, is_largest: bool) -> Result<(Tensor, Tensor)> {
    let axis = ternion::Axis(dim).resolve(x.shape(), if is_largest { "argmax" } else { "argmin" })?;
    let (values, places) = found(x, axis, is_largest)?;
    if keepdim { Ok((values, places)) } else { Ok((values.squeeze(dim)?, places.squeeze(dim)?)) }
}

/// The place of an extreme along an axis, or of all elements in row-major order; i64.
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

/// That int32 can count the places along an axis, for functions that do not go on in parts.
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
