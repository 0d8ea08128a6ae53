//! `ternion.device`, and the default device of new tensors.

use crate::arguments::{Count, Seed};
use crate::error::{Outcome, RaisedError};
use crate::extract::of;
use crate::gil::wait;
use parking_lot::RwLock;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::LazyLock;
use ternion::Device;

/// The device on which tensors are stored and ops run: "cpu", "cuda", "cuda:1", "wgpu", "wgpu:0",
/// or "auto" for the fastest available one.
///
/// Args:
///     name: one of these names, or a device.
///     index: the index among the devices of a kind, for a name without one; ignored for the CPU.
///
/// Raises:
///     RuntimeError: the name is unknown, or the device is not available.
///     ValueError: a negative index.
#[pyclass(name = "device", module = "ternion", frozen, from_py_object)]
#[derive(Clone)]
pub struct PyDevice(pub Device);

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (name, index=None))]
    fn new(
        py: Python<'_>,
        name: DeviceArgument,
        #[pyo3(from_py_with = of::device)] index: Option<Count>,
    ) -> Outcome<PyDevice> {
        let name = match (name, index.map(|index| index.0)) {
            (DeviceArgument::Named(kind), Some(_)) if kind == "cpu" => DeviceArgument::Named(kind),
            (DeviceArgument::Named(kind), Some(index)) => DeviceArgument::Named(format!("{kind}:{index}")),
            (name, _) => name,
        };
        name.open(py).map(PyDevice)
    }

    fn __repr__(&self) -> String {
        format!("device('{}')", self.0.name())
    }

    fn __str__(&self) -> &str {
        self.0.name()
    }

    /// The kind of the device: "cpu", "cuda" or "wgpu".
    #[getter]
    fn r#type(&self) -> &str {
        self.0.name().split(':').next().unwrap_or_default()
    }

    /// The index among the devices of its kind; None for the CPU.
    #[getter]
    fn index(&self) -> Option<usize> {
        self.0.name().split_once(':').and_then(|(_, index)| index.parse().ok())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        match (other.cast::<PyDevice>(), other.extract::<String>()) {
            (Ok(other), _) => self.0.is(&other.get().0),
            (_, Ok(name)) => {
                self.0.name() == name
                    || self.0.name().split_once(':').is_some_and(|(kind, index)| kind == name && index == "0")
            }
            _ => false,
        }
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.0.name().hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (String,)) {
        (slf.get_type().into_any(), (slf.get().0.name().to_owned(),))
    }

    /// Waits until everything that was submitted to the device is complete.
    ///
    /// Raises:
    ///     RuntimeError: an earlier op failed on the device.
    fn synchronize(&self, py: Python<'_>) -> Outcome<()> {
        wait(py, || self.0.synchronize())
    }

    /// Resets the peak of the memory in use to the current value.
    fn reset_peak_memory(&self) {
        self.0.reset_peak_memory();
    }

    /// Releases cached memory to the system.
    ///
    /// Raises:
    ///     RuntimeError: an earlier op failed on the device.
    fn release_cached(&self, py: Python<'_>) -> Outcome<()> {
        wait(py, || self.0.release_cached())
    }

    /// Returns a dict with the numbers of bytes in use (in_use), cached for reuse (cached), and the
    /// peak of those in use (peak).
    fn memory<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyDict>> {
        let memory = self.0.memory();
        let usage = PyDict::new(py);
        for (name, bytes) in [("in_use", memory.in_use), ("cached", memory.cached), ("peak", memory.peak)] {
            usage.set_item(name, bytes)?;
        }
        Ok(usage)
    }
}

/// A device as an argument: an open device, or a name.
pub enum DeviceArgument {
    Open(Device),
    Named(String),
}

impl DeviceArgument {
    pub fn open(self, py: Python<'_>) -> Outcome<Device> {
        match self {
            DeviceArgument::Open(device) => Ok(device),
            DeviceArgument::Named(name) => open(py, &name),
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for DeviceArgument {
    type Error = RaisedError;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Outcome<Self> {
        if let Ok(device) = object.cast::<PyDevice>() {
            return Ok(DeviceArgument::Open(device.get().0.clone()));
        }
        match object.extract::<String>() {
            Ok(name) => Ok(DeviceArgument::Named(name)),
            Err(_) => {
                let kind = object.get_type().name()?.to_string();
                Err(RaisedError::type_error(format!(
                    "device: expected a ternion.device or its name, got {kind}"
                )))
            }
        }
    }
}

/// The devices that were opened, the seed for all of them, and the default device of new tensors.
struct DeviceRegistry {
    open: Vec<Device>,
    default: Option<Device>,
    seed: Option<u64>,
}

static REGISTRY: LazyLock<RwLock<DeviceRegistry>> =
    LazyLock::new(|| RwLock::new(DeviceRegistry { open: Vec::new(), default: None, seed: None }));

fn open(py: Python<'_>, name: &str) -> Outcome<Device> {
    let device = wait(py, || ternion::device(name))?;
    let mut registry = REGISTRY.write();
    if !registry.open.iter().any(|open| open.is(&device)) {
        // A seed applies to every device, including those that are opened later.
        if let Some(seed) = registry.seed {
            device.seed(seed);
        }
        registry.open.push(device.clone());
    }
    Ok(device)
}

/// Returns `device`, or the default device of new tensors: the CPU, unless `set_default_device` set
/// another.
pub fn or_default(py: Python<'_>, device: Option<DeviceArgument>) -> Outcome<Device> {
    if let Some(device) = device {
        return device.open(py);
    }
    if let Some(default) = &REGISTRY.read().default {
        return Ok(default.clone());
    }
    let cpu = open(py, "cpu")?;
    REGISTRY.write().default = Some(cpu.clone());
    Ok(cpu)
}

/// Sets the default device of new tensors.
///
/// Raises:
///     RuntimeError: the device is not available.
#[pyfunction]
fn set_default_device(py: Python<'_>, device: DeviceArgument) -> Outcome<()> {
    let device = device.open(py)?;
    REGISTRY.write().default = Some(device);
    Ok(())
}

/// Returns the default device of new tensors.
#[pyfunction]
fn get_default_device(py: Python<'_>) -> Outcome<PyDevice> {
    or_default(py, None).map(PyDevice)
}

/// Seeds the random number generators of every device, including those that are opened later.
///
/// Raises:
///     ValueError: a seed that is not from -2**63 to 2**64 - 1.
///     TypeError: a seed that is not an integer.
#[pyfunction]
fn manual_seed(py: Python<'_>, seed: Seed) -> Outcome<()> {
    let Seed(seed) = seed;
    or_default(py, None)?;
    wait(py, || {
        let mut registry = REGISTRY.write();
        registry.seed = Some(seed);
        registry.open.iter().for_each(|device| device.seed(seed));
        Ok(())
    })
}

/// Returns the available devices: a list of dicts with name, hardware and memory (bytes, or None).
/// No device is opened.
#[pyfunction]
fn devices(py: Python<'_>) -> Outcome<Vec<Bound<'_, PyDict>>> {
    let available = wait(py, || Ok(ternion::devices()))?;
    let entries = available.into_iter().map(|device| {
        let entry = PyDict::new(py);
        entry.set_item("name", device.name)?;
        entry.set_item("hardware", device.hardware)?;
        entry.set_item("memory", device.memory)?;
        Ok(entry)
    });
    Ok(entries.collect::<PyResult<Vec<_>>>()?)
}

/// Adds the class and the functions of devices to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyDevice>()?;
    module.add_function(wrap_pyfunction!(set_default_device, module)?)?;
    module.add_function(wrap_pyfunction!(get_default_device, module)?)?;
    module.add_function(wrap_pyfunction!(manual_seed, module)?)?;
    module.add_function(wrap_pyfunction!(devices, module)?)
}
