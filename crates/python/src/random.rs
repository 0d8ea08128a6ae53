//! Random numbers: where a device's stand, and draws that change a tensor.

use crate::device::{DeviceArgument, or_default};
use crate::error::{Failure, Outcome};
use crate::run::run;
use crate::tensor::{PyTensor, may_change};
use pyo3::prelude::*;
use ternion::{Result, Tensor};

/// Seed of the device's random numbers, and how many were drawn.
#[pyfunction]
#[pyo3(signature = (device=None))]
fn _random_position(py: Python<'_>, device: Option<DeviceArgument>) -> Outcome<(u64, u64)> {
    Ok(or_default(py, device)?.random_position())
}

/// Goes on where `_random_position` was told.
#[pyfunction]
#[pyo3(signature = (position, device=None))]
fn _set_random_position(py: Python<'_>, position: (u64, u64), device: Option<DeviceArgument>) -> Outcome<()> {
    or_default(py, device)?.set_random_position(position);
    Ok(())
}

/// Overwrites the elements with what `draw` makes.
fn drawn<'py>(
    slf: &Bound<'py, PyTensor>,
    draw: impl FnOnce(&Tensor) -> Result<Tensor> + Send,
) -> Outcome<Bound<'py, PyTensor>> {
    let tensor = slf.get().tensor();
    may_change(&tensor)?;
    run(slf.py(), tensor.elements(), || tensor.copy_(&draw(&tensor)?.to_dtype(tensor.dtype())?))?;
    Ok(slf.clone())
}

#[pymethods]
impl PyTensor {
    /// 1 with the probability that each element is, else 0; of the same dtype. No gradient flows.
    fn bernoulli(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, Tensor::bernoulli)
    }

    /// 1 with probability `p`, else 0, in place: the tensor itself is changed and returned.
    ///
    /// Raises:
    ///     ValueError: a probability outside 0 to 1.
    #[pyo3(signature = (p=0.5))]
    fn bernoulli_<'py>(slf: &Bound<'py, Self>, p: f64) -> Outcome<Bound<'py, Self>> {
        drawn(slf, |x| Tensor::bernoulli_scalar(p, *x.shape(), x.dtype(), x.device()))
    }

    /// Even from `low` up to, not including, `high`, in place: the tensor itself is changed and returned.
    #[pyo3(signature = (low=0.0, high=1.0))]
    fn uniform_<'py>(slf: &Bound<'py, Self>, low: f64, high: f64) -> Outcome<Bound<'py, Self>> {
        if !(low.is_finite() && high.is_finite() && low <= high) {
            return Err(Failure::value(format!(
                "uniform_: from {low} to {high}, expected finite numbers in order"
            )));
        }
        drawn(slf, |x| {
            Tensor::rand(*x.shape(), x.dtype(), x.device())?.mul_scalar(high - low)?.add_scalar(low)
        })
    }

    /// Of the normal distribution, in place: the tensor itself is changed and returned.
    #[pyo3(signature = (mean=0.0, std=1.0))]
    fn normal_<'py>(slf: &Bound<'py, Self>, mean: f64, std: f64) -> Outcome<Bound<'py, Self>> {
        if !(mean.is_finite() && std.is_finite() && std >= 0.0) {
            return Err(Failure::value(format!(
                "normal_: mean {mean} and deviation {std}, expected finite numbers, the second of at least 0"
            )));
        }
        drawn(slf, |x| Tensor::randn(*x.shape(), x.dtype(), x.device())?.mul_scalar(std)?.add_scalar(mean))
    }
}

/// Puts the functions into the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_random_position, module)?)?;
    module.add_function(wrap_pyfunction!(_set_random_position, module)?)
}
