//! Images of another size, and their patches: a native part of `ternion.nn.functional`.

use crate::error::{Failure, Outcome};
use crate::expected::of;
use crate::methods::functional::Pair;
use crate::run::run;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::nn::{Forward, Upsample, UpsampleMode, UpsampleSize};
use ternion::{DType, Window};

/// A factor for both axes of images, or one for each.
struct Factors([f64; 2]);

impl<'a, 'py> FromPyObject<'a, 'py> for Factors {
    type Error = Failure;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Outcome<Self> {
        if let Ok(both) = object.extract::<f64>() {
            return Ok(Factors([both; 2]));
        }
        match object.extract::<Vec<f64>>().as_deref() {
            Ok(&[both]) => Ok(Factors([both; 2])),
            Ok(&[rows, columns]) => Ok(Factors([rows, columns])),
            Ok(list) => {
                Err(Failure::value(format!("scale_factor: expected one number or two, got {}", list.len())))
            }
            Err(_) => Err(Failure::kind("scale_factor: expected a number, or two of them")),
        }
    }
}

fn mode_of(mode: &str, align_corners: Option<bool>) -> Outcome<UpsampleMode> {
    match (mode, align_corners) {
        ("nearest", None) => Ok(UpsampleMode::Nearest),
        ("nearest", Some(_)) => Err(Failure::value(
            "interpolate: align_corners is of \"bilinear\" alone, the mode is \"nearest\"",
        )),
        ("bilinear", corners) => Ok(UpsampleMode::Bilinear { align_corners: corners.unwrap_or(false) }),
        _ => Err(Failure::value(format!("interpolate: mode {mode:?}, expected \"nearest\" or \"bilinear\""))),
    }
}

/// Images of another size.
///
/// Shapes: [batch, channels, height, width] -> [batch, channels, rows, columns]
///
/// Args:
///     size: rows and columns, or one number for both.
///     scale_factor: instead of a size, what rows and columns are multiplied by, rounded down.
///     mode: "nearest" or "bilinear".
///     align_corners: of "bilinear": whether the elements in the corners stay where they are, rather than the corners of the images.
///     recompute_scale_factor: whether factors only tell the size, and places follow from that.
///
/// Raises:
///     ValueError: both a size and a factor or neither, another mode, another number of axes.
#[pyfunction]
#[pyo3(
    signature = (input, size=None, scale_factor=None, mode="nearest".to_owned(), align_corners=None, recompute_scale_factor=None),
    text_signature = "(input, size=None, scale_factor=None, mode=\"nearest\", align_corners=None, recompute_scale_factor=None)"
)]
fn interpolate(
    py: Python<'_>,
    #[pyo3(from_py_with = of::interpolate)] input: Bound<'_, PyTensor>,
    size: Option<Pair>,
    scale_factor: Option<Factors>,
    #[pyo3(from_py_with = of::interpolate)] mode: String,
    #[pyo3(from_py_with = of::interpolate)] align_corners: Option<bool>,
    #[pyo3(from_py_with = of::interpolate)] recompute_scale_factor: Option<bool>,
) -> Outcome<PyTensor> {
    let x = input.get().tensor();
    let recompute = recompute_scale_factor.unwrap_or(false);
    let size = match (size, scale_factor) {
        (Some(_), None) if recompute => {
            return Err(Failure::value(
                "interpolate: recompute_scale_factor is for a scale_factor, not a size",
            ));
        }
        (Some(size), None) => UpsampleSize::To(size.0),
        (None, Some(Factors(factors))) if recompute => {
            let [_, _, height, width] = x.sizes()?;
            // As integers of Python are cut; what is no number becomes no image.
            let times = |size: usize, factor: f64| (size as f64 * factor) as usize;
            UpsampleSize::To([times(height, factors[0]), times(width, factors[1])])
        }
        (None, Some(factors)) => UpsampleSize::Times(factors.0),
        _ => return Err(Failure::value("interpolate: expected either a size or a scale_factor")),
    };
    let upsample = Upsample { size, mode: mode_of(&mode, align_corners)? };
    input.get().map_apart(py, |x| upsample.forward(x))
}

fn window(kernel: Pair, dilation: Option<Pair>, padding: Option<Pair>, stride: Option<Pair>) -> Window {
    let or = |pair: Option<Pair>, other: usize| pair.map_or([other; 2], |pair| pair.0);
    Window { kernel: kernel.0, stride: or(stride, 1), padding: or(padding, 0), dilation: or(dilation, 1) }
}

/// The patches that a window shows, as the columns of a matrix for each image.
///
/// Shapes: [batch, channels, height, width] -> [batch, channels * kernel height * kernel width, windows]
#[pyfunction]
#[pyo3(signature = (input, kernel_size, dilation=None, padding=None, stride=None))]
fn unfold(
    py: Python<'_>,
    #[pyo3(from_py_with = of::unfold)] input: Bound<'_, PyTensor>,
    kernel_size: Pair,
    dilation: Option<Pair>,
    padding: Option<Pair>,
    stride: Option<Pair>,
) -> Outcome<PyTensor> {
    let x = input.get().tensor();
    let window = window(kernel_size, dilation, padding, stride);
    let columns = || match x.dtype() {
        // Truth values are moved as 0 and 1, which every dtype holds.
        DType::Bool => x.to_dtype(DType::F32)?.im2col(window)?.to_dtype(DType::Bool),
        _ => x.im2col(window),
    };
    run(py, x.elements(), columns).map(PyTensor::new)
}

/// Patches added up to images: what `unfold` makes of its gradient.
///
/// Shapes: [batch, channels * kernel height * kernel width, windows] -> [batch, channels, output height, output width]
#[pyfunction]
#[pyo3(signature = (input, output_size, kernel_size, dilation=None, padding=None, stride=None))]
#[allow(clippy::too_many_arguments, reason = "PyTorch's")]
fn fold(
    py: Python<'_>,
    #[pyo3(from_py_with = of::fold)] input: Bound<'_, PyTensor>,
    output_size: Pair,
    kernel_size: Pair,
    dilation: Option<Pair>,
    padding: Option<Pair>,
    stride: Option<Pair>,
) -> Outcome<PyTensor> {
    let x = input.get().tensor();
    let window = window(kernel_size, dilation, padding, stride);
    run(py, x.elements(), || x.col2im(window, output_size.0)).map(PyTensor::new)
}

/// Puts the functions into a module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(interpolate, module)?)?;
    module.add_function(wrap_pyfunction!(unfold, module)?)?;
    module.add_function(wrap_pyfunction!(fold, module)?)
}
