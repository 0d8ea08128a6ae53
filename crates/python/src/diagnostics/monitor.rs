//! The native part of `ternion.nn.utils.StatsMonitor`: the monitor of the Rust crate, to which
//! Python reports layers and parameters.

use super::lost::lost_gradients_in;
use super::stats::PyStats;
use crate::autograd::accumulated_in;
use crate::error::{Outcome, RaisedError, callback_error};
use crate::gil::wait;
use crate::tensor::PyTensor;
use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::LazyLock;
use ternion::autograd::TensorId;
use ternion::nn::{
    Mode, Module, ModuleField, Param, StatsConfig, StatsMonitor, StatsReport, Visitor, are_layers_observed,
    in_layer_at,
};
use ternion::{DType, Gradients, Shape, Tensor, unobserved};

/// Returns the name of a class with static lifetime. The number of names is limited by the number
/// of layer classes in the program.
fn intern_name(name: &str) -> &'static str {
    static NAMES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return known;
    }
    let interned: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(interned);
    interned
}

struct Layer {
    kind: &'static str,
    address: usize,
    /// Set for layers that behave differently in training and evaluation.
    mode: Option<Mode>,
}

impl ModuleField for Layer {
    fn visit_field(&self, visitor: &mut Visitor<'_>) {
        visitor.layer_at(self.kind, self.address);
        self.mode.iter().for_each(|mode| visitor.field("mode", mode));
    }
}

/// The parts of a Python model that a monitor needs: each layer and each parameter under its key.
pub(super) struct Model {
    layers: Vec<(String, Layer)>,
    parameters: Vec<(String, Param)>,
}

impl Module for Model {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (key, layer) in &self.layers {
            match key.as_str() {
                "" => layer.visit_field(visitor),
                key => visitor.field(key, layer),
            }
        }
        self.parameters.iter().for_each(|(key, parameter)| visitor.field(key, parameter));
    }
}

/// Returns the mode of a layer that behaves differently in training: dropout, batch norm, a random
/// negative slope, or layers with internal dropout.
fn mode_of(module: &Bound<'_, PyAny>) -> PyResult<Option<Mode>> {
    let classes = module.get_type().mro();
    let is_any = |class: Bound<'_, PyAny>| {
        let name = class.getattr("__name__").and_then(|name| name.extract::<String>());
        name.is_ok_and(|name| name.contains("Dropout") || name.contains("BatchNorm") || name == "RReLU")
    };
    if !classes.iter().any(is_any) && !has_inner_dropout(module) {
        return Ok(None);
    }
    let mode = Mode::default();
    mode.set_training(module.getattr("training")?.is_truthy()?);
    Ok(Some(mode))
}

/// Returns whether a layer has an internal dropout probability, as attention and recurrent layers
/// have. A recurrent layer with a single layer has no dropout between layers.
fn has_inner_dropout(module: &Bound<'_, PyAny>) -> bool {
    let number = |name: &str| module.getattr(name).and_then(|value| value.extract::<f64>()).ok();
    number("dropout").is_some_and(|chance| chance > 0.0)
        && number("num_layers").is_none_or(|count| count > 1.0)
}

/// Returns the kind and the address that identify a Python module.
fn identity(module: &Bound<'_, PyAny>) -> PyResult<(&'static str, usize)> {
    let kind = module.get_type().name()?.to_string();
    Ok((intern_name(&kind), module.as_ptr().addr()))
}

impl Model {
    pub(super) fn of(module: &Bound<'_, PyAny>) -> Outcome<Model> {
        let mut model = Model { layers: Vec::new(), parameters: Vec::new() };
        for entry in module.call_method0("named_modules")?.try_iter()? {
            let (key, layer) = entry?.extract::<(String, Bound<'_, PyAny>)>()?;
            let (kind, address) = identity(&layer)?;
            model.layers.push((key, Layer { kind, address, mode: mode_of(&layer)? }));
        }
        for entry in module.call_method0("named_parameters")?.try_iter()? {
            let (key, parameter) = entry?.extract::<(String, Bound<'_, PyTensor>)>()?;
            let param = parameter.get().param().cloned();
            if param.is_none() && !parameter.get().tensor().needs_grad() {
                // An integer parameter has no gradient to monitor.
                continue;
            }
            let param =
                param.ok_or_else(|| RaisedError::type_error(format!("{key} is not an nn.Parameter")))?;
            model.parameters.push((key, param));
        }
        Ok(model)
    }
}

/// Returns the first tensor in the result of a layer, also in tuples, lists and dicts.
pub(super) fn first_tensor(object: &Bound<'_, PyAny>) -> Option<Tensor> {
    if let Ok(tensor) = object.cast::<PyTensor>() {
        return Some(tensor.get().tensor());
    }
    let items = match object.cast::<PyDict>() {
        Ok(dict) => dict.values().into_any(),
        Err(_) => object.clone(),
    };
    if items.is_instance_of::<pyo3::types::PyString>() {
        return None;
    }
    items.try_iter().ok()?.flatten().find_map(|item| first_tensor(&item))
}

/// Returns whether the layers of this thread are observed.
#[pyfunction]
fn layers_are_observed() -> bool {
    are_layers_observed()
}

/// Calls `forward` of `module` and notifies the observers of layers.
#[pyfunction]
fn in_layer<'py>(
    module: &Bound<'py, PyAny>,
    forward: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> Outcome<Bound<'py, PyAny>> {
    let (kind, address) = identity(module)?;
    record_inputs(args.iter().chain(kwargs.values()));
    // The output of a layer that returns no tensor is an empty tensor.
    let device = crate::device::or_default(module.py(), None)?;
    // This op is not part of the program: a checkpoint or a capture would miss it when it runs
    // again.
    let empty_tensor = unobserved(|| Tensor::zeros([0], DType::F32, &device))?;
    let compute = || forward.call(args, Some(kwargs)).map_err(|error| callback_error("forward", error));
    Ok(in_layer_at(kind, address, compute, |result| first_tensor(result).unwrap_or(empty_tensor))?)
}

/// The native part of a Python StatsMonitor.
#[pyclass(module = "ternion.nn.utils", frozen)]
struct Monitor {
    monitor: Mutex<StatsMonitor>,
}

impl Monitor {
    /// Does not wait: the thread that holds the lock may wait for the GIL, which this thread holds.
    fn lock(&self) -> Outcome<MutexGuard<'_, StatsMonitor>> {
        let guard = self.monitor.try_lock();
        guard.ok_or_else(|| {
            RaisedError::runtime_error("the StatsMonitor is at work already: each thread takes its own")
        })
    }
}

fn wrap_report(report: Option<StatsReport>) -> Option<PyReport> {
    report.map(PyReport)
}

/// Returns the accumulated gradients of these parameters.
fn gradients_of(py: Python<'_>, parameters: &[Py<PyTensor>]) -> Outcome<Gradients> {
    let mut gradients = Gradients::default();
    for parameter in parameters {
        let tensor = parameter.get().tensor();
        if let Some(grad) = parameter.get().slot.grad(py).filter(|_| tensor.needs_grad()) {
            gradients.insert(&tensor, grad.get().tensor())?;
        }
    }
    Ok(gradients)
}

/// Returns the gradients of the last backward pass that belong to dropped parameters, or to tensors
/// that are in no optimizer. Tensors that were passed to layers are excluded.
fn unclaimed_gradients(
    py: Python<'_>,
    parameters: &[Py<PyTensor>],
    optimized: &[Py<PyTensor>],
) -> Vec<(TensorId, Shape)> {
    let pass_indices = parameters.iter().map(|parameter| parameter.get().slot.pass_index());
    let Some(pass_index) = pass_indices.max().filter(|pass_index| *pass_index > 0) else { return Vec::new() };
    let claimed: HashSet<TensorId> =
        parameters.iter().chain(optimized).filter_map(|tensor| tensor.get().tensor().id()).collect();
    let inputs = LAYER_INPUTS.take();
    let others = accumulated_in(py, pass_index).into_iter();
    let mut unmatched: Vec<_> =
        others.filter(|(id, _)| !claimed.contains(id) && !inputs.contains(id)).collect();
    unmatched.extend(lost_gradients_in(pass_index));
    unmatched.sort_by_key(|(id, _)| *id);
    unmatched
}

fn ids_of(tensors: &[Py<PyTensor>]) -> HashSet<TensorId> {
    tensors.iter().filter_map(|tensor| tensor.get().tensor().id()).collect()
}

thread_local! {
    /// Leaves that were passed to observed layers.
    static LAYER_INPUTS: RefCell<HashSet<TensorId>> = RefCell::default();
}

/// Records the leaves that are passed to a layer, also in lists and tuples.
fn record_inputs<'py>(items: impl Iterator<Item = Bound<'py, PyAny>>) {
    for item in items {
        if let Ok(tensor) = item.cast::<PyTensor>() {
            let id = Some(tensor.get().tensor()).filter(Tensor::is_leaf).and_then(|tensor| tensor.id());
            LAYER_INPUTS.with_borrow_mut(|known| known.extend(id));
        } else if let Ok(list) = item.cast::<PyList>() {
            record_inputs(list.iter());
        } else if let Ok(tuple) = item.cast::<PyTuple>() {
            record_inputs(tuple.iter());
        }
    }
}

#[pymethods]
impl Monitor {
    #[new]
    fn new(
        every: u64,
        patience: usize,
        growth: f64,
        dead_fraction: f64,
        largest_update: f64,
        smallest_update: f64,
        inputs: [f64; 2],
    ) -> Outcome<Monitor> {
        let updates = StatsConfig { largest_update, smallest_update, ..StatsConfig::default() };
        let [largest_input, smallest_input] = inputs;
        let inputs = StatsConfig { largest_input, smallest_input, ..updates };
        let config = StatsConfig { every, patience, growth, dead_fraction, ..inputs };
        Ok(Monitor { monitor: Mutex::new(StatsMonitor::new(config)?) })
    }

    /// Starts observing this thread if step `step` is to be monitored.
    fn open(&self, module: &Bound<'_, PyAny>, step: u64) -> Outcome<bool> {
        let model = Model::of(module)?;
        LAYER_INPUTS.take();
        Ok(self.lock()?.open(&model, step))
    }

    /// Ends the observation that `open` started.
    #[staticmethod]
    fn close() {
        StatsMonitor::close();
    }

    /// Returns the report, with the accumulated gradients of the parameters. `optimized` are the
    /// parameters in optimizers.
    fn report(
        &self,
        py: Python<'_>,
        parameters: Vec<Py<PyTensor>>,
        optimized: Vec<Py<PyTensor>>,
    ) -> Outcome<Option<PyReport>> {
        let gradients = gradients_of(py, &parameters)?;
        let mut guard = self.lock()?;
        let monitor: &mut StatsMonitor = &mut guard;
        monitor.record_unmatched(unclaimed_gradients(py, &parameters, &optimized));
        monitor.set_optimized(ids_of(&optimized));
        wait(py, move || monitor.report(&gradients)).map(wrap_report)
    }

    /// Runs `step`, which changes the parameters, and returns the report with the changes. `lr` is
    /// the learning rate, if it is known.
    fn step(
        &self,
        py: Python<'_>,
        parameters: Vec<Py<PyTensor>>,
        optimized: Vec<Py<PyTensor>>,
        step: Py<PyAny>,
        rate: Option<f64>,
    ) -> Outcome<Option<PyReport>> {
        let gradients = gradients_of(py, &parameters)?;
        let run_step = || {
            Python::attach(|py| match step.call0(py) {
                Ok(_) => Ok(()),
                Err(error) => Err(callback_error("the step", error)),
            })
        };
        let mut guard = self.lock()?;
        let monitor: &mut StatsMonitor = &mut guard;
        monitor.record_unmatched(unclaimed_gradients(py, &parameters, &optimized));
        monitor.set_optimized(ids_of(&optimized));
        rate.into_iter().for_each(|rate| monitor.set_lr(rate));
        wait(py, move || monitor.step_by(&gradients, run_step)).map(wrap_report)
    }
}

/// The report of a StatsMonitor about a step. It prints as a table followed by all warnings.
#[pyclass(name = "StatsReport", module = "ternion.nn.utils", frozen)]
struct PyReport(StatsReport);

/// A warning of a StatsMonitor: the fault, the layer, the message, and the step since which it
/// persists.
#[pyclass(name = "StatsWarning", module = "ternion.nn.utils", frozen, get_all)]
#[derive(Clone)]
struct PyWarning {
    fault: String,
    layer: String,
    message: String,
    since: u64,
}

#[pymethods]
impl PyWarning {
    fn __str__(&self) -> &str {
        &self.message
    }

    fn __repr__(&self) -> String {
        format!("StatsWarning({}: {:?})", self.fault, self.message)
    }
}

/// The outputs of a layer and their gradients.
#[pyclass(name = "LayerStats", module = "ternion.nn.utils", frozen, get_all)]
struct PyLayer {
    key: String,
    kind: &'static str,
    name: String,
    output: PyStats,
    gradient: Option<PyStats>,
    dead_fraction: Option<f64>,
    saturated: Option<f64>,
}

/// A parameter, its gradient, and the size of the step's change relative to that of the parameter.
#[pyclass(name = "WeightStats", module = "ternion.nn.utils", frozen, get_all)]
struct PyWeight {
    name: String,
    values: PyStats,
    gradient: Option<PyStats>,
    update: Option<f64>,
    is_frozen: bool,
}

fn warnings(of: &[ternion::nn::StatsWarning]) -> Vec<PyWarning> {
    let one = |warning: &ternion::nn::StatsWarning| PyWarning {
        fault: format!("{:?}", warning.fault),
        layer: warning.layer.clone(),
        message: warning.message.clone(),
        since: warning.since,
    };
    of.iter().map(one).collect()
}

#[pymethods]
impl PyReport {
    /// The step.
    #[getter]
    fn step(&self) -> u64 {
        self.0.step
    }

    /// The input, then the layers in the order in which they finished.
    #[getter]
    fn layers(&self) -> Vec<PyLayer> {
        let one = |layer: &ternion::nn::LayerStats| PyLayer {
            key: layer.key.clone(),
            kind: layer.kind,
            name: layer.name(),
            output: PyStats(layer.output),
            gradient: layer.gradient.map(PyStats),
            dead_fraction: layer.dead_fraction,
            saturated: layer.saturated,
        };
        self.0.layers.iter().map(one).collect()
    }

    /// The parameters.
    #[getter]
    fn weights(&self) -> Vec<PyWeight> {
        let one = |weight: &ternion::nn::WeightStats| PyWeight {
            name: weight.name.clone(),
            values: PyStats(weight.values),
            gradient: weight.gradient.map(PyStats),
            update: weight.update,
            is_frozen: weight.is_frozen,
        };
        self.0.weights.iter().map(one).collect()
    }

    /// The warnings to report now: new ones, and persistent ones with exponential back-off.
    #[getter]
    fn warnings(&self) -> Vec<PyWarning> {
        warnings(&self.0.warnings)
    }

    /// All warnings.
    #[getter]
    fn all_warnings(&self) -> Vec<PyWarning> {
        warnings(&self.0.all_warnings)
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("StatsReport(step {}, {} warnings)", self.0.step, self.0.all_warnings.len())
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Monitor>()?;
    module.add_class::<PyReport>()?;
    module.add_class::<PyWarning>()?;
    module.add_class::<PyLayer>()?;
    module.add_class::<PyWeight>()?;
    module.add_function(wrap_pyfunction!(layers_are_observed, module)?)?;
    module.add_function(wrap_pyfunction!(in_layer, module)?)
}
