//! Views of the same memory with another dtype.

use crate::dtype::{DTypeArgument, PyDType};
use crate::error::{Outcome, RaisedError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ternion::{DType, Tensor};

/// Returns the dtype if it is the only argument.
pub(super) fn dtype_argument(arguments: &Bound<'_, PyTuple>, is_named: bool) -> Outcome<Option<DType>> {
    match arguments.len() {
        1 if is_named || arguments.get_item(0)?.cast::<PyDType>().is_ok() => {
            Ok(Some(arguments.get_item(0)?.extract::<DTypeArgument>()?.0))
        }
        _ => Ok(None),
    }
}

/// Reinterprets the bytes of the memory as numbers of another dtype.
pub(super) fn view_as_dtype(x: &Tensor, dtype: DType) -> Outcome<Tensor> {
    let (current, requested) = (crate::dialect::dtype_name(x.dtype()), crate::dialect::dtype_name(dtype));
    if x.dtype().size() != dtype.size() || (dtype == DType::Bool && x.dtype() != DType::Bool) {
        return Err(RaisedError::type_error(format!(
            "view: {current} as {requested}, expected a dtype of numbers of {} bytes; to() converts",
            x.dtype().size()
        )));
    }
    if x.device().name().starts_with("wgpu") {
        return Err(RaisedError::type_error(format!(
            "view: {current} as {requested} on wgpu, whose memory has no bytes of a dtype"
        )));
    }
    let x = x.detach();
    Ok(Tensor::from_buffer(x.buffer().clone(), *x.layout(), dtype, x.device())?)
}
