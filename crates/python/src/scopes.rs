//! Scopes of a thread that Python enters and leaves: whether ops are recorded.

use pyo3::prelude::*;

/// Switches recording for this thread on or off, and returns the previous setting.
#[pyfunction]
fn _set_recording(on: bool) -> bool {
    ternion::autograd::set_recording(on)
}

/// Returns whether ops on this thread are recorded if an input requires a gradient.
#[pyfunction]
fn is_grad_enabled() -> bool {
    ternion::autograd::is_recording()
}

/// The child process of a fork must call this.
#[pyfunction]
fn _forked() {
    crate::gil::mark_forked();
}

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_set_recording, module)?)?;
    module.add_function(wrap_pyfunction!(is_grad_enabled, module)?)?;
    module.add_function(wrap_pyfunction!(_forked, module)?)
}
