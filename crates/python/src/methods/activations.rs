//! Activations, and layers without state, that are composed in the core: what functions of `ternion/nn` call, which say what is the default.

use super::TensorArgument;
use crate::error::Outcome;
use crate::promote::{floating, meet};
use crate::run::run;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::linalg;

macro_rules! of_floats {
    ($($name:ident($($argument:ident: $kind:ty),*) => $method:ident;)*) => {
        $(
            #[pyfunction]
            fn $name(py: Python<'_>, input: TensorArgument<'_, '_>, $($argument: $kind),*) -> Outcome<PyTensor> {
                input.get().map(py, |x| floating(x)?.$method($($argument),*))
            }
        )*

        fn register_floats(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add_function(wrap_pyfunction!($name, module)?)?;)*
            Ok(())
        }
    };
}

of_floats! {
    _celu(alpha: f64) => celu;
    _selu() => selu;
    _mish() => mish;
    _softsign() => softsign;
    _tanhshrink() => tanhshrink;
    _hardsigmoid() => hardsigmoid;
    _hardswish() => hardswish;
    _softshrink(lambd: f64) => softshrink;
    _rrelu(lower: f64, upper: f64, training: bool) => rrelu;
    _glu(dim: isize) => glu;
    _dropout1d(p: f64) => dropout1d;
    _dropout2d(p: f64) => dropout2d;
}

/// Also of integers.
#[pyfunction]
fn _hardshrink(py: Python<'_>, input: TensorArgument<'_, '_>, lambd: f64) -> Outcome<PyTensor> {
    input.get().map(py, |x| x.hardshrink(lambd))
}

/// Also of integers.
#[pyfunction]
fn _threshold(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    threshold: f64,
    value: f64,
) -> Outcome<PyTensor> {
    input.get().map(py, |x| x.threshold(threshold, value))
}

#[pyfunction]
fn _softmin(py: Python<'_>, input: TensorArgument<'_, '_>, dim: isize) -> Outcome<PyTensor> {
    input.get().along(py, dim, |x| floating(x)?.softmin(dim))
}

#[pyfunction]
fn _gumbel_softmax(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    tau: f64,
    hard: bool,
    dim: isize,
) -> Outcome<PyTensor> {
    input.get().along(py, dim, |x| floating(x)?.gumbel_softmax(tau, hard, dim))
}

#[pyfunction]
fn _normalize(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    p: f64,
    dim: isize,
    eps: f64,
) -> Outcome<PyTensor> {
    input.get().along(py, dim, |x| linalg::normalize(&floating(x)?, p, dim, eps))
}

#[pyfunction]
fn _instance_norm(
    py: Python<'_>,
    input: TensorArgument<'_, '_>,
    weight: Option<TensorArgument<'_, '_>>,
    bias: Option<TensorArgument<'_, '_>>,
    eps: f64,
) -> Outcome<PyTensor> {
    let [weight, bias] = [weight, bias].map(|given| given.map(|tensor| tensor.get().tensor()));
    input.get().map(py, |x| x.instance_norm(weight.as_ref(), bias.as_ref(), eps))
}

#[pyfunction]
fn _bilinear(
    py: Python<'_>,
    input1: TensorArgument<'_, '_>,
    input2: TensorArgument<'_, '_>,
    weight: TensorArgument<'_, '_>,
    bias: Option<TensorArgument<'_, '_>>,
) -> Outcome<PyTensor> {
    let [x, other, weight] = [input1, input2, weight].map(|given| given.get().tensor());
    let bias = bias.map(|bias| bias.get().tensor());
    run(py, x.elements(), || {
        let (x, other) = meet(&x, &other)?;
        x.bilinear(&other, &weight, bias.as_ref())
    })
    .map(PyTensor::new)
}

/// The functions that are methods of tensors, too.
#[pymethods]
impl PyTensor {
    /// `log(sigmoid(x))` of each element, without loss.
    ///
    /// Shapes: [..] -> the same; integers become float32
    fn logsigmoid(&self, py: Python<'_>) -> Outcome<PyTensor> {
        self.map(py, |x| floating(x)?.logsigmoid())
    }
}

/// Puts the functions into a module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_floats(module)?;
    module.add_function(wrap_pyfunction!(_hardshrink, module)?)?;
    module.add_function(wrap_pyfunction!(_threshold, module)?)?;
    module.add_function(wrap_pyfunction!(_softmin, module)?)?;
    module.add_function(wrap_pyfunction!(_gumbel_softmax, module)?)?;
    module.add_function(wrap_pyfunction!(_normalize, module)?)?;
    module.add_function(wrap_pyfunction!(_instance_norm, module)?)?;
    module.add_function(wrap_pyfunction!(_bilinear, module)?)
}
