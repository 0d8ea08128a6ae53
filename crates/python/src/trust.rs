//! The native part of what checks and watches other work: precision scopes, comparison of every op, statistics, segments that run again, recorded steps.
//! Python holds their classes.

mod check;
mod function;
mod graph;
pub mod lost;
mod monitor;
mod ops;
mod precision;
mod rerun;
mod stats;
mod summary;

use pyo3::prelude::*;

/// Puts functions and classes into the module `_trust`.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    precision::register(module)?;
    check::register(module)?;
    stats::register(module)?;
    monitor::register(module)?;
    summary::register(module)?;
    ops::register(module)?;
    function::register(module)?;
    rerun::register(module)?;
    graph::register(module)?;
    lost::register(module)?;
    crate::autograd::scales::register(module)
}
