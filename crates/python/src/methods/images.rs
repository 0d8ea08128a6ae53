//! Patches of images, and interpolation modes: a native part of `ternion.nn.functional`.

use crate::error::{Outcome, RaisedError};
use crate::extract::of;
use crate::gil::run;
use crate::methods::functional::IntPair;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::{DType, InterpolateMode, Window};

/// Returns the mode of `interpolate` from PyTorch's name.
pub fn parse_mode(mode: &str, align_corners: bool) -> Outcome<InterpolateMode> {
    match mode {
        "nearest" => Ok(InterpolateMode::Nearest),
        "nearest-exact" => Ok(InterpolateMode::NearestExact),
        "linear" | "bilinear" | "trilinear" => Ok(InterpolateMode::Linear { align_corners }),
        "bicubic" => Ok(InterpolateMode::Cubic { align_corners }),
        "area" => Ok(InterpolateMode::Area),
        _ => Err(RaisedError::value_error(format!("interpolate: mode {mode:?}"))),
    }
}

fn window(
    kernel: IntPair,
    dilation: Option<IntPair>,
    padding: Option<IntPair>,
    stride: Option<IntPair>,
) -> Window {
    let or = |pair: Option<IntPair>, other: usize| pair.map_or([other; 2], |pair| pair.0);
    Window { kernel: kernel.0, stride: or(stride, 1), padding: or(padding, 0), dilation: or(dilation, 1) }
}

/// Extracts the patches of a sliding window, as the columns of a matrix for each image.
///
/// Shapes: [batch, channels, height, width] -> [batch, channels * kernel height * kernel width,
/// windows]
#[pyfunction]
#[pyo3(signature = (input, kernel_size, dilation=None, padding=None, stride=None))]
fn unfold(
    py: Python<'_>,
    #[pyo3(from_py_with = of::unfold)] input: Bound<'_, PyTensor>,
    kernel_size: IntPair,
    dilation: Option<IntPair>,
    padding: Option<IntPair>,
    stride: Option<IntPair>,
) -> Outcome<PyTensor> {
    let x = input.get().tensor();
    let window = window(kernel_size, dilation, padding, stride);
    let columns = || match x.dtype() {
        // Bool elements are copied as 0 and 1, which every dtype represents.
        DType::Bool => x.to_dtype(DType::F32)?.im2col(window)?.to_dtype(DType::Bool),
        _ => x.im2col(window),
    };
    run(py, x.elements(), columns).map(PyTensor::new)
}

/// Sums overlapping patches into images: the gradient of `unfold`.
///
/// Shapes: [batch, channels * kernel height * kernel width, windows] -> [batch, channels, output
/// height, output width]
#[pyfunction]
#[pyo3(signature = (input, output_size, kernel_size, dilation=None, padding=None, stride=None))]
#[allow(clippy::too_many_arguments, reason = "PyTorch's")]
fn fold(
    py: Python<'_>,
    #[pyo3(from_py_with = of::fold)] input: Bound<'_, PyTensor>,
    output_size: IntPair,
    kernel_size: IntPair,
    dilation: Option<IntPair>,
    padding: Option<IntPair>,
    stride: Option<IntPair>,
) -> Outcome<PyTensor> {
    let x = input.get().tensor();
    let window = window(kernel_size, dilation, padding, stride);
    run(py, x.elements(), || x.col2im(window, output_size.0)).map(PyTensor::new)
}

/// Adds the functions to a module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(unfold, module)?)?;
    module.add_function(wrap_pyfunction!(fold, module)?)
}
