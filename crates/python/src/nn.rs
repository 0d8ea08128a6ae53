//! The native part of `ternion.nn`: parameters and their initialization.

use crate::arguments::{Real, ShapeArgument, extract_tensor};
use crate::device::{DeviceArgument, or_default};
use crate::dtype::DTypeArgument;
use crate::error::{Outcome, RaisedError};
use crate::extract::of;
use crate::gil::{run, wait};
use crate::promote::default_dtype;
use crate::random::{PyGenerator, RandomSource};
use crate::tensor::{PyTensor, detached_handle};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use ternion::nn::Param;
use ternion::nn::init::{Fan, Init, Nonlinearity};
use ternion::{Shape, Tensor};

/// A trainable tensor. As an attribute of a Module it is one of its parameters.
///
/// Args:
///     data: the values; the parameter shares their memory.
///     requires_grad: whether the parameter is trained.
///
/// Raises:
///     TypeError: the dtype is not floating, and `requires_grad` is not False.
#[pyclass(name = "Parameter", module = "ternion.nn", extends = PyTensor, frozen, subclass)]
pub struct PyParameter {}

impl PyParameter {
    fn of(tensor: PyTensor) -> PyClassInitializer<PyParameter> {
        PyClassInitializer::from(tensor).add_subclass(PyParameter {})
    }
}

/// Returns a parameter of integer or bool dtype: a tensor without a gradient. The `Param` of the
/// core supports only floats.
fn without_grad(data: &Tensor, requires_grad: bool) -> Outcome<PyTensor> {
    if requires_grad {
        let name = crate::dialect::dtype_name(data.dtype());
        return Err(RaisedError::type_error(format!(
            "Parameter: data is {name}, expected a floating dtype, or requires_grad=False: only floating tensors have gradients"
        )));
    }
    Ok(PyTensor::new(detached_handle(data.detach())))
}

#[pymethods]
impl PyParameter {
    #[new]
    #[pyo3(signature = (data, requires_grad=true))]
    fn new(
        data: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = of::Parameter)] requires_grad: bool,
    ) -> Outcome<PyClassInitializer<PyParameter>> {
        let data = extract_tensor("Parameter", "data", data)?;
        if !data.dtype().is_float() {
            return without_grad(&data, requires_grad).map(PyParameter::of);
        }
        let param = Param::new(&data)?;
        if !requires_grad {
            param.freeze();
        }
        Ok(PyParameter::of(PyTensor::of_param(param)))
    }

    /// PyO3 also calls `__traverse__` of the base class, which visits the hooks. This method exists
    /// because PyO3 untracks an object from the collector before dropping it only if the class
    /// itself defines `__traverse__`.
    fn __traverse__(&self, _visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        Ok(())
    }

    fn __clear__(&self) {}

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let tensor = slf.as_super().call_method0("detach")?.repr()?.to_string();
        Ok(format!("Parameter containing:\n{tensor}"))
    }

    fn __deepcopy__<'py>(slf: &Bound<'py, Self>, _memo: &Bound<'py, PyDict>) -> Outcome<Bound<'py, PyAny>> {
        let tensor = slf.as_super().get().tensor();
        let copy = wait(slf.py(), || tensor.detach().copy())?;
        Ok(slf.get_type().call1((PyTensor::new(copy), tensor.needs_grad()))?)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let data = slf.as_super().call_method0("detach")?;
        let arguments = (data, slf.as_super().get().tensor().needs_grad()).into_pyobject(slf.py())?;
        Ok((slf.get_type().into_any(), arguments))
    }
}

/// Returns the initialization with the given distribution.
fn distribution(name: &str, numbers: &[f64], fan: &str, nonlinearity: &str) -> Outcome<Init> {
    let fan = match fan {
        "fan_in" => Fan::In,
        "fan_out" => Fan::Out,
        other => {
            return Err(RaisedError::value_error(format!(
                "init: mode {other:?}, expected \"fan_in\" or \"fan_out\""
            )));
        }
    };
    let nonlinearity = match nonlinearity {
        "linear" | "sigmoid" | "conv1d" | "conv2d" => Nonlinearity::Linear,
        "tanh" => Nonlinearity::Tanh,
        "relu" => Nonlinearity::ReLU,
        "leaky_relu" => Nonlinearity::LeakyReLU(numbers.first().copied().unwrap_or(0.01)),
        "selu" => Nonlinearity::SELU,
        other => {
            let known = "linear, sigmoid, conv1d, conv2d, tanh, relu, leaky_relu, selu";
            return Err(RaisedError::value_error(format!(
                "init: nonlinearity {other:?}, expected one of {known}"
            )));
        }
    };
    Ok(match (name, numbers) {
        ("constant", &[value]) => Init::Constant(value),
        ("uniform", &[low, high]) => Init::Uniform { low, high },
        ("normal", &[mean, std]) => Init::Normal { mean, std },
        ("trunc_normal", &[mean, std, low, high]) => Init::TruncatedNormal { mean, std, low, high },
        ("kaiming_uniform", _) => Init::KaimingUniform { fan, nonlinearity },
        ("kaiming_normal", _) => Init::KaimingNormal { fan, nonlinearity },
        ("xavier_uniform", &[gain]) => Init::XavierUniform { gain },
        ("xavier_normal", &[gain]) => Init::XavierNormal { gain },
        _ => return Err(RaisedError::value_error(format!("init: {name} of {} numbers", numbers.len()))),
    })
}

/// Checks that the parameters of a distribution are valid.
fn check_distribution(name: &str, init: &Init) -> Outcome<()> {
    let are_finite = |numbers: [f64; 2]| numbers.iter().all(|number| number.is_finite());
    let (fits, message) = match *init {
        Init::Uniform { low, high } => (
            are_finite([low, high]) && low <= high,
            format!("from {low} to {high}, expected finite numbers in this order"),
        ),
        Init::Normal { mean, std } => (
            are_finite([mean, std]) && std >= 0.0,
            format!("mean {mean} and std {std}, expected finite numbers, the second of at least 0"),
        ),
        Init::TruncatedNormal { mean, std, low, high } => (
            are_finite([mean, std]) && std > 0.0 && low < high,
            format!(
                "mean {mean} and std {std} from {low} to {high}, expected finite numbers, the second above 0, and ends in this order"
            ),
        ),
        _ => (true, String::new()),
    };
    if fits { Ok(()) } else { Err(RaisedError::value_error(format!("{name}_: {message}"))) }
}

/// Creates an initialized tensor, for `ternion.nn.init` and layers.
#[pyfunction]
#[pyo3(signature = (shape, name, numbers, fan="fan_in", nonlinearity="leaky_relu", dtype=None, device=None, generator=None))]
#[allow(clippy::too_many_arguments, reason = "called only by the Python part")]
fn _initial(
    py: Python<'_>,
    #[pyo3(from_py_with = of::size)] shape: ShapeArgument,
    name: &str,
    numbers: Vec<Real>,
    fan: &str,
    nonlinearity: &str,
    dtype: Option<DTypeArgument>,
    device: Option<DeviceArgument>,
    generator: Option<&Bound<'_, PyGenerator>>,
) -> Outcome<PyTensor> {
    let numbers: Vec<f64> = numbers.into_iter().map(f64::from).collect();
    let (init, device) = (distribution(name, &numbers, fan, nonlinearity)?, or_default(py, device)?);
    check_distribution(name, &init)?;
    let (shape, dtype) = (Shape::new(&shape.0)?, dtype.map_or_else(default_dtype, |dtype| dtype.0));
    let source = RandomSource::of(generator, &device)?;
    run(py, shape.elements(), || source.draw(&device, || init.tensor(shape, dtype, &device)))
        .map(PyTensor::new)
}

/// Adds the class and the function to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyParameter>()?;
    module.add_function(wrap_pyfunction!(_initial, module)?)
}
