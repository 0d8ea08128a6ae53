//! Scopes in which every op is compared with another device.

use crate::device::DeviceArgument;
use crate::dialect;
use crate::error::{Outcome, RaisedError};
use pyo3::prelude::*;
use ternion::{CheckConfig, OnDifference};

/// Starts the comparison of every op of this thread with the device `against`.
#[pyfunction]
fn open_check(py: Python<'_>, against: DeviceArgument, factor: f64, collect: bool) -> Outcome<()> {
    let against = against.open(py)?;
    let on_difference = if collect { OnDifference::Collect } else { OnDifference::Fail };
    Ok(ternion::check::open_check(CheckConfig { against, factor, on_difference })?)
}

/// Ends the comparison. Returns the number of compared ops, and the collected differences.
#[pyfunction]
fn close_check() -> Outcome<(usize, Vec<String>)> {
    let report = ternion::check::close_check().ok_or_else(|| {
        RaisedError::runtime_error("no check is open on this thread: it is left where it was entered")
    })?;
    Ok((report.compared, report.differences.iter().map(dialect::message).collect()))
}

/// Sets whether an op of this thread that produces a NaN is an error. Returns the previous setting.
#[pyfunction]
fn set_anomaly_detection(on: bool) -> bool {
    ternion::anomaly::set_anomaly_detection(on)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(open_check, module)?)?;
    module.add_function(wrap_pyfunction!(set_anomaly_detection, module)?)?;
    module.add_function(wrap_pyfunction!(close_check, module)?)
}
