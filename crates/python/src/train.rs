//! The native part of `ternion.train`: the whole state of a training run in one file, in the format
//! of the Rust crate.

use crate::device::{DeviceArgument, or_default};
use crate::error::{Outcome, RaisedError};
use crate::gil::{wait, wait_on_thread};
use crate::optim::PySteps;
use crate::state::{dict_of, state_of};
use crate::tensor::PyTensor;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value as Json;
use std::path::PathBuf;
use ternion::nn::optim::Optimizer;
use ternion::nn::{Module, Param, StateDict, StateTensor, Visitor};
use ternion::train::{Checkpoint, Checkpoints, Keep, Stateful, TrainingState};
use ternion::{Device, Error, Gradients, Result};

const OP: &str = "training state";

/// A Python module: its parameters and buffers by their keys.
struct Members(Vec<(String, Cell)>);

enum Cell {
    Param(Param),
    State(StateTensor),
}

impl Module for Members {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (key, cell) in &self.0 {
            match cell {
                Cell::Param(param) => visitor.field(key, param),
                Cell::State(state) => visitor.field(key, state),
            }
        }
    }
}

impl Members {
    fn of(members: &Bound<'_, PyDict>) -> Outcome<Members> {
        let cell = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let tensor = value.cast::<PyTensor>()?.get();
            let cell = match tensor.param() {
                Some(param) => Cell::Param(param.clone()),
                // The cell shares the memory of the buffer, so that the buffer sees loaded values.
                None => Cell::State(StateTensor::new(&tensor.tensor())),
            };
            Ok((key.extract::<String>()?, cell))
        };
        members.iter().map(cell).collect::<Outcome<_>>().map(Members)
    }
}

/// All groups of a Python optimizer as one optimizer of the Rust crate. Parameters are
/// distinguished by their labels.
struct Groups(Vec<Py<PySteps>>);

/// Returns the key of a further group's learning rate, if it differs from the first group's.
fn lr_key(group: usize) -> String {
    format!("lr.{group}")
}

impl Groups {
    fn map_groups<T>(&self, mut f: impl FnMut(usize, &mut dyn Optimizer) -> Result<T>) -> Result<Vec<T>> {
        let steps = self.0.iter().enumerate();
        steps.map(|(number, steps)| steps.get().with(|optimizer| f(number, optimizer))).collect()
    }

    fn rates(&self) -> Vec<f64> {
        self.0.iter().map(|steps| steps.get().with(|optimizer| optimizer.lr())).collect()
    }

    /// Splits the state into the states of the groups, each with its learning rate.
    fn split_state(&self, dict: &StateDict) -> Result<Vec<StateDict>> {
        let (mut left, rates) = (dict.clone(), self.rates());
        let lr = left.remove("lr");
        let mut parts = self.map_groups(|number, optimizer| {
            let mut part = StateDict::new();
            if let Some(lr) = &lr {
                // Without a separate rate, the current ratio to the first group's rate is kept.
                let in_proportion = || if rates[0] == 0.0 { 1.0 } else { rates[number] / rates[0] };
                let group_lr = match left.remove(&lr_key(number)) {
                    Some(group_lr) => group_lr,
                    None if number == 0 => lr.clone(),
                    None => lr.mul_scalar(in_proportion())?,
                };
                part.insert("lr".into(), group_lr);
            }
            let labels = labels_of(optimizer);
            let belongs_to_group =
                |key: &str| key.rsplit_once('.').is_some_and(|(label, _)| labels.contains(&label.into()));
            let keys: Vec<String> = left.keys().filter(|key| belongs_to_group(key)).cloned().collect();
            part.extend(keys.into_iter().filter_map(|key| Some((key.clone(), left.remove(&key)?))));
            Ok(part)
        })?;
        // The first group reports unknown entries.
        parts[0].extend(left);
        Ok(parts)
    }
}

fn labels_of(optimizer: &dyn Optimizer) -> Vec<String> {
    optimizer.parameters().iter().filter_map(|param| param.name().map(str::to_owned)).collect()
}

impl Optimizer for Groups {
    fn step(&mut self, gradients: &Gradients) -> Result<()> {
        self.map_groups(|_, optimizer| optimizer.step(gradients)).map(drop)
    }

    fn lr(&self) -> f64 {
        self.rates()[0]
    }

    fn set_lr(&mut self, lr: f64) -> Result<()> {
        self.map_groups(|_, optimizer| optimizer.set_lr(lr)).map(drop)
    }

    fn parameters(&self) -> Vec<Param> {
        self.0.iter().flat_map(|steps| steps.get().with(|optimizer| optimizer.parameters())).collect()
    }

    fn state_dict(&self) -> Result<StateDict> {
        let (mut all, rates) = (StateDict::new(), self.rates());
        self.map_groups(|number, optimizer| {
            let mut part = optimizer.state_dict()?;
            if let Some(lr) = part.remove("lr") {
                match number {
                    0 => drop(all.insert("lr".into(), lr)),
                    _ if rates[number] != rates[0] => drop(all.insert(lr_key(number), lr)),
                    _ => {}
                }
            }
            all.extend(part);
            Ok(())
        })?;
        Ok(all)
    }

    fn load_state_dict(&mut self, dict: &StateDict) -> Result<()> {
        let parts = self.split_state(dict)?;
        let before = self.map_groups(|_, optimizer| optimizer.state_dict())?;
        let loaded = self.map_groups(|number, optimizer| optimizer.load_state_dict(&parts[number]));
        if loaded.is_err() {
            self.map_groups(|number, optimizer| optimizer.load_state_dict(&before[number]))?;
        }
        loaded.map(drop)
    }
}

/// A Python object with `state_dict()` and `load_state_dict()` of tensors.
struct PyStateful(Py<PyAny>);

fn invalid_state(error: impl Into<PyErr>) -> Error {
    Error::invalid(OP, error.into().to_string())
}

impl Stateful for PyStateful {
    fn state(&self, _: &Device) -> Result<StateDict> {
        Python::attach(|py| {
            let dict = self.0.bind(py).call_method0("state_dict").map_err(invalid_state)?;
            let dict = dict.cast::<PyDict>().map_err(invalid_state)?;
            state_of(dict, OP).map_err(invalid_state)
        })
    }

    fn restore(&mut self, state: &StateDict) -> Result<()> {
        Python::attach(|py| {
            let dict = dict_of(py, state.clone()).map_err(invalid_state)?;
            self.0.bind(py).call_method1("load_state_dict", (dict,)).map(drop).map_err(invalid_state)
        })
    }
}

/// A part while a file is written or read.
enum ExtractedPart {
    Model(Members),
    Optimizer(Groups),
    State(PyStateful),
    Random(Device),
    Value(Json),
    Setting(Json),
}

/// A list of (name, part), from the (kind, name, object) entries of `ternion.train.TrainingState`.
struct Parts(Vec<(String, ExtractedPart)>);

type PartList<'py> = Vec<(String, String, Bound<'py, PyAny>)>;

impl Parts {
    fn of(py: Python<'_>, entries: PartList<'_>) -> Outcome<Parts> {
        let json = |object: &Bound<'_, PyAny>| {
            let text = object.extract::<String>()?;
            serde_json::from_str::<Json>(&text)
                .map_err(|error| RaisedError::value_error(format!("{OP}: {error}")))
        };
        let part = |(kind, name, object): (String, String, Bound<'_, PyAny>)| {
            let part = match kind.as_str() {
                "model" => ExtractedPart::Model(Members::of(object.cast::<PyDict>()?)?),
                "optimizer" => ExtractedPart::Optimizer(Groups(object.extract::<Vec<Py<PySteps>>>()?)),
                "state" => ExtractedPart::State(PyStateful(object.unbind())),
                "random" => ExtractedPart::Random(object.extract::<DeviceArgument>()?.open(py)?),
                "value" => ExtractedPart::Value(json(&object)?),
                "setting" => ExtractedPart::Setting(json(&object)?),
                _ => return Err(RaisedError::value_error(format!("{OP}: a part of kind {kind}"))),
            };
            Ok((name, part))
        };
        entries.into_iter().map(part).collect::<Outcome<_>>().map(Parts)
    }

    fn state<'a>(&'a mut self, device: &'a Device) -> TrainingState<'a> {
        let with = |state: TrainingState<'a>, (name, part): &'a mut (String, ExtractedPart)| match part {
            ExtractedPart::Model(model) => state.model(name, model),
            ExtractedPart::Optimizer(optimizer) => state.optimizer(name, optimizer),
            ExtractedPart::State(object) => state.part(name, object),
            ExtractedPart::Random(device) => state.random(name, device),
            ExtractedPart::Value(json) => state.value(name, json),
            ExtractedPart::Setting(json) => state.setting(name, &*json),
        };
        self.0.iter_mut().fold(TrainingState::new(device), with)
    }

    /// Returns the current values by name, as JSON.
    fn values(&self) -> Vec<(String, String)> {
        let value = |(name, part): &(String, ExtractedPart)| match part {
            ExtractedPart::Value(json) => Some((name.clone(), json.to_string())),
            _ => None,
        };
        self.0.iter().filter_map(value).collect()
    }
}

/// The number of completed steps, and the values.
type Resumed = (u64, Vec<(String, String)>);

#[pyfunction]
fn _save(
    py: Python<'_>,
    path: PathBuf,
    step: u64,
    device: DeviceArgument,
    parts: PartList<'_>,
) -> Outcome<()> {
    let (device, mut parts) = (device.open(py)?, Parts::of(py, parts)?);
    wait(py, || parts.state(&device).save(step, &path))
}

#[pyfunction]
fn _resume(py: Python<'_>, path: PathBuf, device: DeviceArgument, parts: PartList<'_>) -> Outcome<Resumed> {
    let (device, mut parts) = (device.open(py)?, Parts::of(py, parts)?);
    // Only the reading may take long.
    let checkpoint = wait_on_thread(py, move || Checkpoint::read(&path))?;
    let step = wait(py, || checkpoint.resume(&mut parts.state(&device)))?;
    Ok((step, parts.values()))
}

/// The state of a training run after some step, as written by `TrainingState.save`.
#[pyclass(name = "Checkpoint", module = "ternion.train", frozen)]
struct PyCheckpoint(Checkpoint);

#[pymethods]
impl PyCheckpoint {
    /// Reads a file.
    ///
    /// Raises:
    ///     OSError: the file cannot be read, is corrupt, or is not a checkpoint.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> Outcome<PyCheckpoint> {
        wait_on_thread(py, move || Checkpoint::read(&path)).map(PyCheckpoint)
    }

    /// The number of completed steps.
    #[getter]
    fn step(&self) -> u64 {
        self.0.step()
    }

    /// Returns a value or a setting by name.
    ///
    /// Raises:
    ///     OSError: there is no value of this name.
    fn value<'py>(&self, py: Python<'py>, name: &str) -> Outcome<Bound<'py, PyAny>> {
        let json: Json = self.0.value(name)?;
        Ok(py.import("json")?.call_method1("loads", (json.to_string(),))?)
    }

    /// Returns the tensors of one part.
    ///
    /// Raises:
    ///     OSError: there is no such part.
    #[pyo3(signature = (part, device=None))]
    fn state_dict<'py>(
        &self,
        py: Python<'py>,
        part: &str,
        device: Option<DeviceArgument>,
    ) -> Outcome<Bound<'py, PyDict>> {
        let device = or_default(py, device)?;
        dict_of(py, wait(py, || self.0.state_dict(part, &device))?)
    }
}

/// A folder with the checkpoints of one training run.
#[pyclass(name = "_Folder", module = "ternion.train", frozen)]
struct PyFolder(Mutex<Checkpoints>);

#[pymethods]
impl PyFolder {
    #[new]
    fn new(py: Python<'_>, folder: PathBuf, keep: Option<usize>) -> Outcome<PyFolder> {
        let keep = keep.map_or(Keep::All, Keep::Last);
        wait(py, || Checkpoints::new(&folder, keep)).map(|folder| PyFolder(Mutex::new(folder)))
    }

    fn list(&self, py: Python<'_>) -> Outcome<Vec<(u64, PathBuf)>> {
        wait(py, || self.0.lock().list())
    }

    fn save(
        &self,
        py: Python<'_>,
        step: u64,
        device: DeviceArgument,
        parts: PartList<'_>,
    ) -> Outcome<PathBuf> {
        let (device, mut parts) = (device.open(py)?, Parts::of(py, parts)?);
        wait(py, || self.0.lock().save(step, &parts.state(&device)))
    }

    /// Returns the step and the values, the file, and the faults of newer files; None for an empty
    /// folder.
    fn resume(
        &self,
        py: Python<'_>,
        device: DeviceArgument,
        parts: PartList<'_>,
    ) -> Outcome<Option<(Resumed, PathBuf, Vec<String>)>> {
        let (device, mut parts) = (device.open(py)?, Parts::of(py, parts)?);
        let resumed = wait(py, || self.0.lock().resume(&mut parts.state(&device)))?;
        Ok(resumed.map(|resumed| ((resumed.step, parts.values()), resumed.path, resumed.corrupt)))
    }
}

/// Adds classes and functions to a module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyCheckpoint>()?;
    module.add_class::<PyFolder>()?;
    module.add_function(wrap_pyfunction!(_save, module)?)?;
    module.add_function(wrap_pyfunction!(_resume, module)?)
}
