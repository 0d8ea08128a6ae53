//! Ops of the framework that have no separate name in PyTorch, for the tests that compare every op
//! with another framework.

use crate::arguments::{AxesArgument, Real, axes};
use crate::error::{Outcome, RaisedError};
use crate::extract::of;
use crate::methods::attention::ACTIVATIONS;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::{UnaryOp, Window};

/// Computes `scale * x + summand`.
#[pyfunction]
fn scale_add(py: Python<'_>, x: &PyTensor, scale: Real, summand: &PyTensor) -> Outcome<PyTensor> {
    let summand = summand.tensor();
    x.map(py, |x| x.scale_add(scale.0, &summand))
}

/// Computes `x * factor + summand`.
#[pyfunction]
fn multiply_add(py: Python<'_>, x: &PyTensor, factor: &PyTensor, summand: &PyTensor) -> Outcome<PyTensor> {
    let (factor, summand) = (factor.tensor(), summand.tensor());
    x.map(py, |x| x.multiply_add(&factor, &summand))
}

/// Computes `relu(x + other)`.
#[pyfunction]
fn add_relu(py: Python<'_>, x: &PyTensor, other: &PyTensor) -> Outcome<PyTensor> {
    let other = other.tensor();
    x.map(py, |x| x.add_relu(&other))
}

/// Computes `activation(x + bias)`.
#[pyfunction]
fn bias_activation(py: Python<'_>, x: &PyTensor, bias: &PyTensor, activation: &str) -> Outcome<PyTensor> {
    // `square`, which has no name in the package, represents the functions that are not
    // activations.
    let known = ACTIVATIONS.into_iter().chain([("square", UnaryOp::Square)]);
    let Some((_, activation)) = known.into_iter().find(|(name, _)| *name == activation) else {
        return Err(RaisedError::value_error(format!("bias_activation: activation {activation:?}")));
    };
    let bias = bias.tensor();
    x.map(py, |x| x.bias_activation(&bias, activation))
}

/// Computes the sum of the squares over axes.
#[pyfunction]
fn sum_squares(
    py: Python<'_>,
    x: &PyTensor,
    #[pyo3(from_py_with = of::sum_squares)] dim: Option<AxesArgument>,
) -> Outcome<PyTensor> {
    x.map(py, |x| x.sum_squares(axes(dim)))
}

/// Computes the largest absolute value over axes.
#[pyfunction]
fn max_abs(
    py: Python<'_>,
    x: &PyTensor,
    #[pyo3(from_py_with = of::max_abs)] dim: Option<AxesArgument>,
) -> Outcome<PyTensor> {
    x.map(py, |x| x.max_abs(axes(dim)))
}

/// Computes the maximum of each element and a number.
#[pyfunction]
fn maximum_scalar(py: Python<'_>, x: &PyTensor, number: Real) -> Outcome<PyTensor> {
    x.map(py, |x| x.maximum_scalar(number.0))
}

/// Computes the minimum of each element and a number.
#[pyfunction]
fn minimum_scalar(py: Python<'_>, x: &PyTensor, number: Real) -> Outcome<PyTensor> {
    x.map(py, |x| x.minimum_scalar(number.0))
}

fn window(kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2], dilation: [usize; 2]) -> Window {
    Window { kernel, stride, padding, dilation }
}

/// Returns the windows of images as columns.
#[pyfunction]
fn im2col(
    py: Python<'_>,
    x: &PyTensor,
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
) -> Outcome<PyTensor> {
    x.map(py, |x| x.im2col(window(kernel, stride, padding, dilation)))
}

/// Sums columns into images of `size`.
#[pyfunction]
fn col2im(
    py: Python<'_>,
    x: &PyTensor,
    size: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
) -> Outcome<PyTensor> {
    x.map(py, |x| x.col2im(window(kernel, stride, padding, dilation), size))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let ops = PyModule::new(module.py(), "ops")?;
    ops.add_function(wrap_pyfunction!(scale_add, &ops)?)?;
    ops.add_function(wrap_pyfunction!(multiply_add, &ops)?)?;
    ops.add_function(wrap_pyfunction!(add_relu, &ops)?)?;
    ops.add_function(wrap_pyfunction!(bias_activation, &ops)?)?;
    ops.add_function(wrap_pyfunction!(sum_squares, &ops)?)?;
    ops.add_function(wrap_pyfunction!(max_abs, &ops)?)?;
    ops.add_function(wrap_pyfunction!(maximum_scalar, &ops)?)?;
    ops.add_function(wrap_pyfunction!(minimum_scalar, &ops)?)?;
    ops.add_function(wrap_pyfunction!(im2col, &ops)?)?;
    ops.add_function(wrap_pyfunction!(col2im, &ops)?)?;
    module.add_submodule(&ops)
}
