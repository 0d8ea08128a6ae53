//! Checks of the inputs and output dtypes of normalization ops.

use crate::backend::Meta;
use crate::error::{Error, Result};
use crate::op::{Output, check};
use crate::{DType, Shape};

/// Splits `[.., width]` into `([..], [width])`.
pub(super) fn rows_and_width(op: &'static str, x: &Meta<'_>) -> Result<(Shape, Shape)> {
    check::float(op, "input", x)?;
    let shape = x.shape();
    match shape.dims().split_last() {
        Some((&width, rows)) => Ok((Shape::unchecked(rows), Shape::unchecked(&[width]))),
        None => Err(Error::Rank { op, expected: "at least 1".into(), shape: Box::new(*shape) }),
    }
}

pub(super) fn check_vector(
    op: &'static str,
    what: &'static str,
    meta: &Meta<'_>,
    dtype: DType,
    shape: Shape,
) -> Result<()> {
    check::dtype(op, what, meta, dtype)?;
    check::shape(op, what, meta, shape)
}

/// Returns the dtype of the normalized rows.
pub(super) fn normal_dtype(op: &'static str, dtype: DType, out_dtype: Option<DType>) -> Result<DType> {
    match out_dtype {
        Some(out) if out != dtype && !(dtype == DType::F32 && out.is_half()) => {
            let expected =
                crate::text!["the input's dtype, or ", DType::F16, " and ", DType::BF16, " for ", DType::F32];
            Err(Error::dtype(op, "output", out, expected))
        }
        out => Ok(out.unwrap_or(dtype)),
    }
}

/// Checks dy: it has x's dtype, or half precision if an f32 output was rounded.
pub(super) fn output_grad(op: &'static str, meta: &Meta<'_>, x: &Meta<'_>) -> Result<()> {
    let is_rounded = x.dtype == DType::F32 && meta.dtype.is_half();
    check_vector(op, "grad_output", meta, if is_rounded { meta.dtype } else { x.dtype }, *x.shape())
}

/// Checks the residual's gradient. Only f32 and f64 are supported: the sum is then rounded as by a
/// separate addition.
pub(super) fn residual_grad(op: &'static str, meta: &Meta<'_>, x: &Meta<'_>) -> Result<()> {
    if x.dtype.is_half() {
        let expected = crate::text![DType::F32, " or ", DType::F64, ", where a residual's gradient is added"];
        return Err(Error::dtype(op, "input", x.dtype, expected));
    }
    check_vector(op, "residual's gradient", meta, x.dtype, *x.shape())
}

/// Returns the output for dx in the half precision of dy, if requested.
pub(super) fn rounded_output(
    op: &'static str,
    rounds: bool,
    dy: &Meta<'_>,
    x: &Meta<'_>,
) -> Result<Option<Output>> {
    if rounds && (!dy.dtype.is_half() || x.dtype != DType::F32) {
        let expected = crate::text!["half precision, to which dx of ", DType::F32, " is rounded"];
        return Err(Error::dtype(op, "grad_output", dy.dtype, expected));
    }
    Ok(rounds.then(|| Output::fresh(*x.shape(), dy.dtype)))
}
