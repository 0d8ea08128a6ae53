//! Activations and layers without state that are composed in the core. The functions of
//! `ternion/nn` call them and define the default values.

use super::TensorArgument;
use crate::arguments::Real;
use crate::error::Outcome;
use crate::gil::run;
use crate::promote::{promote_pair, to_floating};
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::linalg;

macro_rules! of_floats {
    ($($name:ident($($argument:ident: $kind:ty),*) => $method:ident;)*) => {
        $(
            #[pyfunction]
            fn $name(py: Python<'_>, input: TensorArgument<'_, '_>, $($argument: $kind),*) -> Outcome<PyTensor> {
                input.get().map(py, |x| to_floating(x)?.$method($($argument.into()),*))
            }
        )*

        fn register_floats(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add_function(wrap_pyfunction!($name, module)?)?;)*
            Ok(())
        }
    };
}

of_floats! {
    _celu(alpha: Real) => celu;
    _selu() => selu;
    _mish() => mish;
    _softsign() => softsign;
    _tanhshrink() => tanhshrink;
    _hardsigmoid() => hardsigmoid;
    _hardswish() => hardswish;
    _softshrink(lambd: Real) => softshrink;
    _rrelu(lower: Real, upper: Real, training: bool) => rrelu;
    _dropout1d(p: Real) => dropout1d;
    _dropout2d(p: Real) => dropout2d;
}

#[pyfunction]
fn _glu(py: Python<'_>, input: TensorArgument<'_, '_>, dim: isize) -> Outcome<PyTensor> {
    input.get().map(py, |x| to_floating(x)?.glu(dim))
}

/// Integers are converted to floats.
#[pyfunction]
fn _hardshrink(py: Python<'_>, input: TensorArgument<'_, '_>, lambd: Real) -> Outcome<PyTensor> {
    input.get().map(py, |x| to_floating(x)?.hardshrink(lambd.0))
}

/// Also supports integers.
#[pyfunction]
fn _threshold(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    threshold: Real,
    value: Real,
) -> Outcome<PyTensor> {
    input.get().map(py, |x| x.threshold(threshold.0, value.0))
}

#[pyfunction]
fn _softmin(py: Python<'_>, input: TensorArgument<'_, '_>, dim: isize) -> Outcome<PyTensor> {
    input.get().map_along(py, dim, |x| to_floating(x)?.softmin(dim))
}

#[pyfunction]
fn _gumbel_softmax(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    tau: Real,
    hard: bool,
    dim: isize,
) -> Outcome<PyTensor> {
    input.get().map_along(py, dim, |x| to_floating(x)?.gumbel_softmax(tau.0, hard, dim))
}

#[pyfunction]
fn _normalize(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    p: Real,
    dim: isize,
    eps: Real,
) -> Outcome<PyTensor> {
    input.get().map_along(py, dim, |x| linalg::normalize(&to_floating(x)?, p.0, dim, eps.0))
}

#[pyfunction]
fn _bilinear(
    py: Python<'_>,
    input1: TensorArgument<'_, '_>,
    input2: TensorArgument<'_, '_>,
    weight: TensorArgument<'_, '_>,
    bias: Option<TensorArgument<'_, '_>>,
) -> Outcome<PyTensor> {
    let [x, other, weight] = [input1, input2, weight].map(|input| input.get().tensor());
    let bias = bias.map(|bias| bias.get().tensor());
    run(py, x.elements(), || {
        let (x, other) = promote_pair(&x, &other)?;
        x.bilinear(&other, &weight, bias.as_ref())
    })
    .map(PyTensor::new)
}

/// The functions that are also methods of tensors.
#[pymethods]
impl PyTensor {
    /// Computes `log(sigmoid(x))` of each element without cancellation.
    ///
    /// Shapes: [..] -> the same; integers become float32
    fn logsigmoid(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, |x| to_floating(x)?.logsigmoid())
    }
}

/// Adds the functions to a module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_floats(module)?;
    module.add_function(wrap_pyfunction!(_glu, module)?)?;
    module.add_function(wrap_pyfunction!(_hardshrink, module)?)?;
    module.add_function(wrap_pyfunction!(_threshold, module)?)?;
    module.add_function(wrap_pyfunction!(_softmin, module)?)?;
    module.add_function(wrap_pyfunction!(_gumbel_softmax, module)?)?;
    module.add_function(wrap_pyfunction!(_normalize, module)?)?;
    module.add_function(wrap_pyfunction!(_bilinear, module)?)
}
