//! Selection of elements along an axis, from the core's `functions/statistics.rs`. The functions of
//! `ternion/_functions/reductions.py` call it and define the default values.

use super::argminmax::check_index_range;
use super::reduce::apply_along;
use crate::arguments::Real;
use crate::error::Outcome;
use crate::gil::run;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::{DType, Result, Tensor};

/// Returns the elements that `f` selects along an axis, and their indices (int64).
fn select_along(
    slf: &PyTensor,
    py: Python<'_>,
    name: &'static str,
    dim: isize,
    f: impl FnOnce(&Tensor) -> Result<(Tensor, Tensor)> + Send,
) -> Outcome<(PyTensor, PyTensor)> {
    let x = slf.tensor();
    let pair = run(py, x.elements(), || {
        apply_along(&x, dim, |x| {
            check_index_range(name, x, dim)?;
            let (values, indices) = f(x)?;
            Ok((values, indices.to_dtype(DType::I64)?))
        })
    });
    pair.map(|(values, indices)| (PyTensor::new(values), PyTensor::new(indices)))
}

#[pymethods]
impl PyTensor {
    fn _cummax(&self, py: Python<'_>, dim: isize) -> Outcome<(PyTensor, PyTensor)> {
        select_along(self, py, "cummax", dim, |x| x.cummax(dim))
    }

    fn _cummin(&self, py: Python<'_>, dim: isize) -> Outcome<(PyTensor, PyTensor)> {
        select_along(self, py, "cummin", dim, |x| x.cummin(dim))
    }

    fn _mode(&self, py: Python<'_>, dim: isize) -> Outcome<(PyTensor, PyTensor)> {
        select_along(self, py, "mode", dim, |x| x.mode(dim))
    }

    fn _kthvalue(&self, py: Python<'_>, k: usize, dim: isize) -> Outcome<(PyTensor, PyTensor)> {
        select_along(self, py, "kthvalue", dim, |x| x.kthvalue(k, dim))
    }

    fn _median(&self, py: Python<'_>, dim: isize) -> Outcome<(PyTensor, PyTensor)> {
        select_along(self, py, "median", dim, |x| x.median(dim))
    }

    fn _nanmedian(&self, py: Python<'_>, dim: isize) -> Outcome<(PyTensor, PyTensor)> {
        select_along(self, py, "nanmedian", dim, |x| x.nanmedian(dim))
    }

    fn _median_all(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, Tensor::median_all)
    }

    fn _nanmedian_all(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, Tensor::nanmedian_all)
    }

    fn _renorm(&self, py: Python<'_>, p: Real, dim: isize, maxnorm: Real) -> Outcome<PyTensor> {
        self.map(py, |x| x.renorm(p.0, dim, maxnorm.0))
    }
}
