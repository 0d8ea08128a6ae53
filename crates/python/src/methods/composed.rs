//! Quantiles, histograms, writes into copies of views, numerical gradients and windows, from the
//! core's `functions`. The functions of `ternion/_functions` call them and define the default
//! values.

use super::TensorArgument;
use crate::arguments::{Real, checked_int};
use crate::device::{DeviceArgument, or_default};
use crate::dtype::DTypeArgument;
use crate::error::{Outcome, RaisedError};
use crate::gil::{interruptible_parts, run, wait};
use crate::promote::{promote_pair, to_floating};
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::{Axis, CdistMode, HistogramBins, Interpolation, Result, SignalWindow, Spacing, Tensor};

/// Runs a function of this tensor and another one.
fn map_with(
    slf: &PyTensor,
    py: Python<'_>,
    other: TensorArgument<'_, '_>,
    f: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor> + Send,
) -> Outcome<PyTensor> {
    let other = other.get().tensor();
    slf.map(py, |x| f(x, &other))
}

fn parse_interpolation(name: &str, interpolation: &str) -> Outcome<Interpolation> {
    Ok(match interpolation {
        "linear" => Interpolation::Linear,
        "lower" => Interpolation::Lower,
        "higher" => Interpolation::Higher,
        "midpoint" => Interpolation::Midpoint,
        "nearest" => Interpolation::Nearest,
        other => {
            let known = "\"linear\", \"lower\", \"higher\", \"midpoint\" or \"nearest\"";
            return Err(RaisedError::value_error(format!(
                "{name}: interpolation {other:?}, expected {known}"
            )));
        }
    })
}

#[pymethods]
impl PyTensor {
    fn _quantile(
        &self,
        py: Python<'_>,
        q: TensorArgument<'_, '_>,
        settings: (Option<isize>, bool),
        interpolation: &str,
        is_nan_left_out: bool,
    ) -> Outcome<PyTensor> {
        let (dim, keepdim) = settings;
        let name = if is_nan_left_out { "nanquantile" } else { "quantile" };
        let (interpolation, axis) = (self::parse_interpolation(name, interpolation)?, dim.map(Axis));
        map_with(self, py, q, |x, q| match is_nan_left_out {
            true => x.nanquantile(q, axis, keepdim, interpolation),
            false => x.quantile(q, axis, keepdim, interpolation),
        })
    }

    fn _histogram(
        &self,
        py: Python<'_>,
        settings: (i64, Option<(Real, Real)>),
        edges: Option<TensorArgument<'_, '_>>,
        weight: Option<TensorArgument<'_, '_>>,
        density: bool,
    ) -> Outcome<(PyTensor, PyTensor)> {
        let (count, range) = settings;
        let count = checked_int(count, || format!("histogram: {count} intervals, expected at least 1"))?;
        let range = range.map(|(low, high)| (low.0, high.0));
        let [edges, weight] = [edges, weight].map(|tensor| tensor.map(|tensor| tensor.get().tensor()));
        let x = self.tensor();
        let bins = edges.as_ref().map_or(HistogramBins::Even { count, range }, HistogramBins::Edges);
        let result = wait(py, || x.histogram_with_edges(bins, weight.as_ref(), density));
        result.map(|(counts, edges)| (PyTensor::new(counts), PyTensor::new(edges)))
    }

    fn _as_strided(
        &self,
        py: Python<'_>,
        size: Vec<usize>,
        stride: Vec<usize>,
        offset: usize,
    ) -> Outcome<PyTensor> {
        self.map(py, |x| x.as_strided(&size, &stride, offset))
    }

    fn _as_strided_scatter(
        &self,
        py: Python<'_>,
        src: TensorArgument<'_, '_>,
        size: Vec<usize>,
        stride: Vec<usize>,
        offset: usize,
    ) -> Outcome<PyTensor> {
        map_with(self, py, src, |x, source| x.as_strided_scatter(source, &size, &stride, offset))
    }

    fn _select_scatter(
        &self,
        py: Python<'_>,
        src: TensorArgument<'_, '_>,
        dim: isize,
        index: isize,
    ) -> Outcome<PyTensor> {
        map_with(self, py, src, |x, source| x.select_scatter(source, dim, index))
    }

    fn _slice_scatter(
        &self,
        py: Python<'_>,
        src: TensorArgument<'_, '_>,
        dim: isize,
        bounds: [Option<isize>; 2],
        step: usize,
    ) -> Outcome<PyTensor> {
        map_with(self, py, src, |x, source| x.slice_scatter(source, dim, bounds, step))
    }

    fn _diagonal_scatter(
        &self,
        py: Python<'_>,
        src: TensorArgument<'_, '_>,
        offset: isize,
        settings: (isize, isize),
    ) -> Outcome<PyTensor> {
        let (first, second) = settings;
        map_with(self, py, src, |x, source| x.diagonal_scatter(source, offset, first, second))
    }

    fn _gradient(
        &self,
        py: Python<'_>,
        dim: isize,
        settings: (Real, Option<Bound<'_, PyTensor>>),
        edge_order: i64,
    ) -> Outcome<PyTensor> {
        let edge_order =
            checked_int(edge_order, || format!("gradient: edge_order of {edge_order}, expected 1 or 2"))?;
        let (Real(step), coordinates) = settings;
        let coordinates = coordinates.map(|coordinates| coordinates.get().tensor());
        self.map(py, |x| {
            let (x, coordinates) = promote_coordinates(x, coordinates.as_ref())?;
            x.gradient(dim, spacing(step, coordinates.as_ref()), edge_order)
        })
    }

    fn _trapezoid(
        &self,
        py: Python<'_>,
        dim: isize,
        settings: (Real, Option<Bound<'_, PyTensor>>),
        is_cumulative: bool,
    ) -> Outcome<PyTensor> {
        let (Real(step), coordinates) = settings;
        let coordinates = coordinates.map(|coordinates| coordinates.get().tensor());
        self.map(py, |y| {
            let (y, coordinates) = promote_coordinates(y, coordinates.as_ref())?;
            let (y, coordinates) =
                (to_floating(&y)?, coordinates.map(|coordinates| to_floating(&coordinates)).transpose()?);
            let spacing = spacing(step, coordinates.as_ref());
            if is_cumulative { y.cumulative_trapezoid(dim, spacing) } else { y.trapezoid(dim, spacing) }
        })
    }

    fn _isin(&self, py: Python<'_>, others: TensorArgument<'_, '_>, invert: bool) -> Outcome<PyTensor> {
        map_with(self, py, others, |x, others| x.isin(others, invert))
    }

    fn _combinations(&self, py: Python<'_>, r: usize, with_replacement: bool) -> Outcome<PyTensor> {
        self.map(py, |x| x.combinations(r, with_replacement))
    }

    fn _logaddexp(&self, py: Python<'_>, other: TensorArgument<'_, '_>) -> Outcome<PyTensor> {
        map_with(self, py, other, Tensor::logaddexp)
    }

    fn _logaddexp2(&self, py: Python<'_>, other: TensorArgument<'_, '_>) -> Outcome<PyTensor> {
        map_with(self, py, other, Tensor::logaddexp2)
    }

    fn _logcumsumexp(&self, py: Python<'_>, dim: isize) -> Outcome<PyTensor> {
        self.map_along(py, dim, |x| x.logcumsumexp(dim))
    }

    fn _cdist(
        &self,
        py: Python<'_>,
        other: TensorArgument<'_, '_>,
        p: Real,
        mode: &str,
    ) -> Outcome<PyTensor> {
        let mode = match mode {
            "use_mm_for_euclid_dist_if_necessary" => CdistMode::MatmulIfLarge,
            "use_mm_for_euclid_dist" => CdistMode::Matmul,
            "donot_use_mm_for_euclid_dist" => CdistMode::Differences,
            _ => {
                return Err(RaisedError::value_error(format!(
                    "cdist: compute_mode {mode:?}, which is none of PyTorch's"
                )));
            }
        };
        let (x, other) = (self.tensor(), other.get().tensor());
        wait(py, || interruptible_parts(|| x.cdist(&other, p.0, mode))).map(PyTensor::new)
    }
}

/// Converts values and their sample positions to their common dtype.
fn promote_coordinates(x: &Tensor, coordinates: Option<&Tensor>) -> Result<(Tensor, Option<Tensor>)> {
    let Some(coordinates) = coordinates else { return Ok((x.clone(), None)) };
    let (x, coordinates) = promote_pair(x, coordinates)?;
    Ok((x, Some(coordinates)))
}

fn spacing(step: f64, coordinates: Option<&Tensor>) -> Spacing<'_> {
    coordinates.map_or(Spacing::Even(step), Spacing::Positions)
}

#[pyfunction]
fn _logspace(
    py: Python<'_>,
    settings: (Real, Real, Real),
    steps: usize,
    dtype: DTypeArgument,
    device: Option<DeviceArgument>,
) -> Outcome<PyTensor> {
    let (Real(start), Real(end), Real(base)) = settings;
    let device = or_default(py, device)?;
    run(py, steps, || Tensor::logspace(start, end, steps, base, dtype.0, &device)).map(PyTensor::new)
}

/// Returns the window of this name with these parameters.
fn parse_window(name: &str, parameters: Vec<Real>) -> Outcome<SignalWindow> {
    let parameters: Vec<f64> = parameters.into_iter().map(f64::from).collect();
    Ok(match (name, &parameters[..]) {
        ("bartlett", []) => SignalWindow::Bartlett,
        ("blackman", []) => SignalWindow::Blackman,
        ("cosine", []) => SignalWindow::Cosine,
        ("exponential", &[tau]) => SignalWindow::Exponential { center: None, tau },
        ("exponential", &[tau, center]) => SignalWindow::Exponential { center: Some(center), tau },
        ("gaussian", &[std]) => SignalWindow::Gaussian { std },
        ("general_cosine", all) => SignalWindow::GeneralCosine(all.to_vec()),
        ("general_hamming", &[alpha]) => SignalWindow::GeneralHamming { alpha },
        ("hamming", []) => SignalWindow::Hamming,
        ("hann", []) => SignalWindow::Hann,
        ("kaiser", &[beta]) => SignalWindow::Kaiser { beta },
        ("nuttall", []) => SignalWindow::Nuttall,
        _ => {
            return Err(RaisedError::value_error(format!(
                "no window {name:?} with {} parameters",
                parameters.len()
            )));
        }
    })
}

#[pyfunction]
fn _window(
    py: Python<'_>,
    name: &str,
    parameters: Vec<Real>,
    settings: (usize, bool),
    dtype: DTypeArgument,
    device: Option<DeviceArgument>,
) -> Outcome<PyTensor> {
    let (length, is_symmetric) = settings;
    let (device, window) = (or_default(py, device)?, parse_window(name, parameters)?);
    run(py, length, || window.make(length, is_symmetric, dtype.0, &device)).map(PyTensor::new)
}

/// Adds the functions that are not methods to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_logspace, module)?)?;
    module.add_function(wrap_pyfunction!(_window, module)?)
}
