//! Scatter reductions, searchsorted and unique elements, from the core's `functions/indexing.rs`
//! and `functions/unique.rs`. The functions of `ternion/_functions` call them and define the
//! default values.

use super::index::apply_scatter;
use crate::error::{Outcome, RaisedError};
use crate::gil::{run, wait};
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::{DType, ScatterReduction, Tensor};

/// Returns the reduction of this name if the function supports it.
fn parse_reduction(name: &str, reduce: &str, has_sum: bool) -> Outcome<ScatterReduction> {
    Ok(match reduce {
        "sum" if has_sum => ScatterReduction::Sum,
        "prod" => ScatterReduction::Prod,
        "mean" => ScatterReduction::Mean,
        "amax" => ScatterReduction::Amax,
        "amin" => ScatterReduction::Amin,
        other => {
            let sum = if has_sum { "\"sum\", " } else { "" };
            let message =
                format!("{name}: reduce {other:?}, expected {sum}\"prod\", \"mean\", \"amax\" or \"amin\"");
            return Err(RaisedError::value_error(message));
        }
    })
}

#[pymethods]
impl PyTensor {
    fn _scatter_reduce(
        &self,
        py: Python<'_>,
        dim: isize,
        index: Bound<'_, PyTensor>,
        src: Bound<'_, PyTensor>,
        reduce: &str,
        include_self: bool,
    ) -> Outcome<PyTensor> {
        let (index, source) = (index.get().tensor(), src.get().tensor());
        let reduction = parse_reduction("scatter_reduce", reduce, true)?;
        self.map(py, |x| {
            apply_scatter(x, dim, &index, &source, |x, dim, index, source| {
                x.scatter_reduce(dim, index, source, reduction, include_self)
            })
        })
    }

    fn _index_reduce(
        &self,
        py: Python<'_>,
        dim: isize,
        index: Bound<'_, PyTensor>,
        source: Bound<'_, PyTensor>,
        reduce: &str,
        include_self: bool,
    ) -> Outcome<PyTensor> {
        let (index, source) = (index.get().tensor(), source.get().tensor());
        let reduction = parse_reduction("index_reduce", reduce, false)?;
        self.map(py, |x| {
            apply_scatter(x, dim, &index, &source, |x, dim, index, source| {
                x.index_reduce(dim, index, source, reduction, include_self)
            })
        })
    }

    fn _searchsorted(
        &self,
        py: Python<'_>,
        values: Bound<'_, PyTensor>,
        right: bool,
        sorter: Option<Bound<'_, PyTensor>>,
    ) -> Outcome<PyTensor> {
        let (sequence, values) = (self.tensor(), values.get().tensor());
        let sorter = sorter.map(|sorter| sorter.get().tensor());
        let elements = sequence.elements().max(values.elements());
        let result = run(py, elements, || {
            sequence.searchsorted(&values, right, sorter.as_ref())?.to_dtype(DType::I64)
        });
        result.map(PyTensor::new)
    }

    /// Returns the unique values, the index among them of each element or slice, and the number of
    /// occurrences of each.
    fn _unique(
        &self,
        py: Python<'_>,
        dim: Option<isize>,
        consecutive: bool,
    ) -> Outcome<(PyTensor, PyTensor, PyTensor)> {
        let x: Tensor = self.tensor();
        let result = wait(py, || {
            let (values, inverse, counts) =
                if consecutive { x.unique_consecutive(dim)? } else { x.unique(dim)? };
            Ok((values, inverse.to_dtype(DType::I64)?, counts.to_dtype(DType::I64)?))
        });
        result.map(|(values, inverse, counts)| {
            (PyTensor::new(values), PyTensor::new(inverse), PyTensor::new(counts))
        })
    }
}
