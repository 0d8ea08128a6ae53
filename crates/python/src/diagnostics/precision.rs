//! Precision scopes.

use crate::error::{Outcome, RaisedError};
use pyo3::prelude::*;
use ternion::Precision;
use ternion::precision::{close_scope, current, open_scope};

/// Opens a precision scope on this thread; None opens a scope without a precision.
#[pyfunction]
fn open_precision(name: Option<&str>) -> Outcome<()> {
    let precision = name.map(str::parse::<Precision>).transpose()?;
    open_scope(precision);
    Ok(())
}

/// Closes the scope that was opened last on this thread.
#[pyfunction]
fn close_precision() -> Outcome<()> {
    if close_scope() {
        return Ok(());
    }
    Err(RaisedError::runtime_error(
        "no scope of precision is open on this thread: it is left where it was entered",
    ))
}

/// Returns the precision of this thread: "f32", "ieee", "tf32", "bf16", "f16" or None.
#[pyfunction]
fn current_precision() -> Option<&'static str> {
    current().map(Precision::name)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(open_precision, module)?)?;
    module.add_function(wrap_pyfunction!(close_precision, module)?)?;
    module.add_function(wrap_pyfunction!(current_precision, module)?)
}
