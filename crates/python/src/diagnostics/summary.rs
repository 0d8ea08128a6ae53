//! `nn.summary`: a table of a model, from the summary of the Rust crate; and `nn.trace`: a timeline
//! of a step.

use super::monitor::{Model, first_tensor};
use crate::device::DeviceArgument;
use crate::error::{Outcome, RaisedError, callback_error};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::rc::Rc;
use ternion::Error;
use ternion::nn::{LayerSummary, SpanTotal, Summary, SummaryPass, Timeline, summary_with};

/// A layer of a summary: its key, its class, the number of calls, the shape of its last output, and
/// the parameters, FLOPs and memory of the layer without its inner layers.
#[pyclass(name = "LayerSummary", module = "ternion.nn", frozen, get_all)]
struct PyLayerSummary {
    key: String,
    kind: &'static str,
    calls: usize,
    output: Option<Vec<usize>>,
    parameters: usize,
    flops: u64,
    activation_bytes: usize,
}

impl PyLayerSummary {
    fn of(layer: &LayerSummary) -> PyLayerSummary {
        PyLayerSummary {
            key: layer.key.clone(),
            kind: layer.kind,
            calls: layer.calls,
            output: layer.output.as_ref().map(|shape| shape.dims().to_vec()),
            parameters: layer.parameters,
            flops: layer.flops,
            activation_bytes: layer.activation_bytes,
        }
    }
}

#[pymethods]
impl PyLayerSummary {
    fn __repr__(&self) -> String {
        let output = self.output.as_ref().map_or("None".into(), |shape| format!("{shape:?}"));
        format!(
            "LayerSummary({:?}, {}, output {output}, {} parameters)",
            self.key, self.kind, self.parameters
        )
    }
}

/// The layers, parameters, FLOPs and memory of a model. It prints as a table.
#[pyclass(name = "Summary", module = "ternion.nn", frozen)]
struct PySummary(Summary);

#[pymethods]
impl PySummary {
    /// The layers in the order in which they start to compute, followed by layers that only provide
    /// parameters or are not called.
    #[getter]
    fn layers(&self) -> Vec<PyLayerSummary> {
        self.0.layers.iter().map(PyLayerSummary::of).collect()
    }

    /// The number of elements of all parameters; shared ones are counted once.
    #[getter]
    fn parameters(&self) -> usize {
        self.0.parameters
    }

    /// The number of elements of all trained parameters.
    #[getter]
    fn trained_parameters(&self) -> usize {
        self.0.trained_parameters
    }

    /// The size of all parameters in bytes.
    #[getter]
    fn parameter_bytes(&self) -> usize {
        self.0.parameter_bytes
    }

    /// The size of the buffers in bytes.
    #[getter]
    fn state_bytes(&self) -> usize {
        self.0.state_bytes
    }

    /// The number of floating-point operations of the forward pass.
    #[getter]
    fn flops(&self) -> u64 {
        self.0.flops
    }

    /// The number of floating-point operations of the backward pass, if it was measured.
    #[getter]
    fn backward_flops(&self) -> Option<u64> {
        self.0.backward_flops
    }

    /// The size of the outputs of all ops of the forward pass in bytes.
    #[getter]
    fn activation_bytes(&self) -> usize {
        self.0.activation_bytes
    }

    /// The peak memory in use, less the memory in use on the device before, in bytes.
    #[getter]
    fn peak_bytes(&self) -> usize {
        self.0.peak_bytes
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}

/// Runs `forward`, which calls `module` on `device`, and returns the summary. The Python caller
/// restores modes, buffers and the random number generator.
#[pyfunction]
fn summary(
    py: Python<'_>,
    module: &Bound<'_, PyAny>,
    forward: &Bound<'_, PyAny>,
    device: DeviceArgument,
    backward: bool,
    state_bytes: usize,
) -> Outcome<PySummary> {
    let model = Model::of(module)?;
    let device = device.open(py)?;
    let pass = if backward { SummaryPass::ForwardBackward } else { SummaryPass::Forward };
    let run_forward = || {
        let result = forward.call0().map_err(|error| callback_error("forward", error))?;
        first_tensor(&result).ok_or_else(|| Error::autograd("summary: the model gave no tensor"))
    };
    let summary = summary_with(&model, &device, pass, run_forward).map_err(RaisedError::from)?;
    Ok(PySummary(Summary { state_bytes, ..summary }))
}

/// Layers, ops, backward passes and optimizer steps as time spans. It prints as a table of the
/// longest ones.
#[pyclass(name = "Timeline", module = "ternion.nn", frozen)]
struct PyTimeline(Mutex<Timeline>);

fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

#[pymethods]
impl PyTimeline {
    /// Returns for each span name its label, the count, and two times in seconds: the total, and
    /// the total without inner spans. The longest is first.
    fn totals(&self) -> Vec<(String, usize, f64, f64)> {
        let one = |total: SpanTotal| {
            let [total_s, own_s] = [total.total_ns, total.own_ns].map(|time_ns| time_ns as f64 / 1e9);
            (total.label, total.count, total_s, own_s)
        };
        self.0.lock().totals().into_iter().map(one).collect()
    }

    /// Writes a file for ui.perfetto.dev and chrome://tracing.
    ///
    /// Raises:
    ///     OSError: the file cannot be written.
    fn write_chrome(&self, path: PathBuf) -> Outcome<()> {
        Ok(self.0.lock().write_chrome(path)?)
    }

    fn __str__(&self) -> String {
        let totals = self.0.lock().totals();
        let width = totals.iter().map(|total| total.label.chars().count()).max().unwrap_or(0).max(4);
        let mut text = format!("{:width$}  {:>7}  {:>10}  {:>10}", "span", "count", "ms", "ms own");
        for SpanTotal { label, count, total_ns, own_ns, .. } in totals {
            let [all, own] = [total_ns, own_ns].map(milliseconds);
            text += &format!("\n{label:width$}  {count:>7}  {all:>10.3}  {own:>10.3}");
        }
        text
    }

    fn __repr__(&self) -> String {
        format!("Timeline({} names of spans)", self.0.lock().totals().len())
    }

    fn __len__(&self) -> usize {
        self.0.lock().len()
    }
}

/// Runs `step` and records when layers of `module`, ops, backward passes and optimizer steps ran on
/// this thread; also as ranges for NVIDIA's profilers if `nvtx`.
#[pyfunction]
fn trace(module: &Bound<'_, PyAny>, step: &Bound<'_, PyAny>, nvtx: bool) -> Outcome<PyTimeline> {
    let model = Model::of(module)?;
    let timeline = Rc::new(Timeline::new());
    let timed = || ternion::nn::trace(&model, timeline.clone(), || step.call0());
    let traced = if nvtx { with_profiler_spans(timed) } else { timed() };
    traced?;
    let timeline =
        Rc::try_unwrap(timeline).map_err(|_| RaisedError::runtime_error("trace: a span has not ended"))?;
    Ok(PyTimeline(Mutex::new(timeline)))
}

/// Runs `f` with its spans shown in NVIDIA's profilers. Without the library NVTX, or without CUDA,
/// this has no effect.
#[cfg(feature = "cuda")]
fn with_profiler_spans<T>(f: impl FnOnce() -> T) -> T {
    ternion::trace::with_sink(Rc::new(ternion::Nvtx::open()), f)
}

#[cfg(not(feature = "cuda"))]
fn with_profiler_spans<T>(f: impl FnOnce() -> T) -> T {
    f()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PySummary>()?;
    module.add_class::<PyLayerSummary>()?;
    module.add_class::<PyTimeline>()?;
    module.add_function(wrap_pyfunction!(trace, module)?)?;
    module.add_function(wrap_pyfunction!(summary, module)?)
}
