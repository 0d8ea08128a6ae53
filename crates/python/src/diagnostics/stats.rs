//! `ternion.stats`: summary statistics of a tensor.

use crate::error::Outcome;
use crate::gil::wait;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use pyo3::types::PyFloat;
use ternion::{DeviceStats, Stats};

/// Mean, standard deviation, minimum, maximum and counts of special values of a tensor. Mean,
/// standard deviation, minimum and maximum are those of the finite elements.
#[pyclass(name = "Stats", module = "ternion", frozen, eq)]
#[derive(Clone, PartialEq)]
pub struct PyStats(pub Stats);

impl PyStats {
    /// Returns mean, standard deviation, minimum and maximum in Python's format, with five digits.
    fn format_moments(&self, py: Python<'_>) -> PyResult<[String; 4]> {
        let of =
            |value| Ok::<_, PyErr>(PyFloat::new(py, value).call_method1("__format__", (".5g",))?.to_string());
        Ok([of(self.0.mean)?, of(self.0.std)?, of(self.0.min)?, of(self.0.max)?])
    }
}

#[pymethods]
impl PyStats {
    /// The number of elements.
    #[getter]
    fn elements(&self) -> usize {
        self.0.elements
    }

    /// The mean of the finite elements; NaN if there are none.
    #[getter]
    fn mean(&self) -> f64 {
        self.0.mean
    }

    /// The population standard deviation of the finite elements.
    #[getter]
    fn std(&self) -> f64 {
        self.0.std
    }

    /// The smallest finite element.
    #[getter]
    fn min(&self) -> f64 {
        self.0.min
    }

    /// The largest finite element.
    #[getter]
    fn max(&self) -> f64 {
        self.0.max
    }

    /// The number of NaN elements.
    #[getter]
    fn nan(&self) -> usize {
        self.0.nan
    }

    /// The number of infinite elements.
    #[getter]
    fn infinite(&self) -> usize {
        self.0.infinite
    }

    /// The number of elements that are 0.
    #[getter]
    fn zeros(&self) -> usize {
        self.0.zeros
    }

    /// The fraction of NaN elements.
    #[getter]
    fn nan_fraction(&self) -> f64 {
        self.0.nan as f64 / self.0.elements.max(1) as f64
    }

    /// The fraction of infinite elements.
    #[getter]
    fn infinite_fraction(&self) -> f64 {
        self.0.infinite as f64 / self.0.elements.max(1) as f64
    }

    /// The fraction of elements that are 0.
    #[getter]
    fn zero_fraction(&self) -> f64 {
        self.0.zero_fraction()
    }

    /// The root mean square of the finite elements.
    #[getter]
    fn rms(&self) -> f64 {
        self.0.rms()
    }

    /// The Euclidean norm of the finite elements.
    #[getter]
    fn norm(&self) -> f64 {
        self.0.norm()
    }

    /// Whether an element is NaN or infinite.
    #[getter]
    fn has_non_finite(&self) -> bool {
        self.0.has_non_finite()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        if self.0.elements == 0 {
            return Ok("Stats(elements=0)".to_owned());
        }
        let [mean, std, min, max] = self.format_moments(py)?;
        let Stats { elements, nan, infinite, zeros, .. } = self.0;
        let counts = format!("nan={nan}, infinite={infinite}, zeros={zeros}");
        Ok(format!("Stats(elements={elements}, mean={mean}, std={std}, min={min}, max={max}, {counts})"))
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        let Stats { elements, nan, infinite, zeros, .. } = self.0;
        if elements == 0 {
            return Ok("no elements".to_owned());
        }
        let [mean, std, min, max] = self.format_moments(py)?;
        let counts = format!("nan {nan}, inf {infinite}, zero {zeros} of {elements}");
        Ok(format!("mean {mean}, std {std}, min {min}, max {max}, {counts}"))
    }
}

/// Returns mean, standard deviation, minimum, maximum, and counts of NaN, infinity and 0.
///
/// On the CPU all elements are summed in float64. On other devices the device computes the
/// statistics, and one row of numbers is copied to the host.
///
/// Raises:
///     RuntimeError: an earlier op failed on the device.
#[pyfunction]
fn stats(py: Python<'_>, input: &Bound<'_, PyTensor>) -> Outcome<PyStats> {
    let tensor = input.get().tensor();
    wait(py, || match tensor.device().name() {
        "cpu" => tensor.stats(),
        _ => Ok(DeviceStats::read(&[tensor.device_stats()?])?.remove(0)),
    })
    .map(PyStats)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyStats>()?;
    module.add_function(wrap_pyfunction!(stats, module)?)
}
