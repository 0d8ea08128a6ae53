//! The native part of the diagnostics: precision scopes, comparison of every op, statistics,
//! activation checkpointing, recorded steps. The classes are written in Python.

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

/// Adds functions and classes to the module `_trust`.
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
