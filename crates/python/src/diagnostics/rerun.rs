//! Python functions that run again: checkpointed segments, whose memory is released until the
//! backward pass, and steps that a device records.

use crate::autograd::SharedHook;
use crate::device::{DeviceArgument, or_default};
use crate::error::{Outcome, RaisedError, callback_error};
use crate::gil::{interruptible_parts, wait};
use crate::tensor::PyTensor;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::Arc;
use ternion::{Error, GradOptions, RecordedStep, Tensor};

fn tensors_of(objects: &Bound<'_, PyAny>) -> PyResult<Vec<Tensor>> {
    objects.try_iter()?.map(|object| Ok(object?.cast::<PyTensor>()?.get().tensor())).collect()
}

/// Calls `function` with a list of tensors. Returns the tensors of its result.
fn call_function(py: Python<'_>, function: &Py<PyAny>, inputs: &[Tensor]) -> PyResult<Vec<Tensor>> {
    let inputs: Vec<PyTensor> = inputs.iter().cloned().map(PyTensor::new).collect();
    let inputs = PyList::new(py, inputs)?;
    tensors_of(&function.bind(py).call1((inputs,))?)
}

/// Runs `function`, which takes and returns a list of tensors, as a checkpointed segment: backward
/// runs it again.
#[pyfunction]
fn checkpoint(py: Python<'_>, function: Py<PyAny>, inputs: Vec<Py<PyTensor>>) -> Outcome<Vec<PyTensor>> {
    let inputs: Vec<Tensor> = inputs.iter().map(|input| input.get().tensor()).collect();
    // The collector sees the function through the output, because the function can often reach the
    // output.
    let shared_function: SharedHook = Arc::new(Mutex::new(Some(function)));
    let segment_function = shared_function.clone();
    let segment = move |inputs: &[Tensor]| {
        Python::attach(|py| {
            let function = segment_function.lock().as_ref().map(|function| function.clone_ref(py));
            let function = function.ok_or_else(|| Error::invalid("checkpoint", "the function is gone"))?;
            call_function(py, &function, inputs)
                .map_err(|error| callback_error("checkpoint: the function", error))
        })
    };
    let outputs = wait(py, || ternion::checkpoint(segment, &inputs.iter().collect::<Vec<_>>()))?;
    let with_segment = |output| {
        let output = PyTensor::new(output);
        output.slot.expose_segment(&shared_function);
        output
    };
    Ok(outputs.into_iter().map(with_segment).collect())
}

/// Returns the gradients of the weighted `outputs` with respect to `inputs`; None if the outputs do
/// not depend on an input.
#[pyfunction]
fn grad(
    py: Python<'_>,
    outputs: Vec<Py<PyTensor>>,
    inputs: Vec<Py<PyTensor>>,
    weights: Vec<Py<PyTensor>>,
    create_graph: bool,
    retain_graph: bool,
) -> Outcome<Vec<Option<PyTensor>>> {
    let tensors = |objects: &[Py<PyTensor>]| -> Vec<Tensor> {
        objects.iter().map(|object| object.get().tensor()).collect()
    };
    let (outputs, inputs, weights) = (tensors(&outputs), tensors(&inputs), tensors(&weights));
    let options = GradOptions { create_graph, retain_graph, allow_unused: true };
    let grads = wait(py, || ternion::grad(&outputs, &inputs, &weights, options))?;
    Ok(grads.into_iter().map(|grad| grad.map(PyTensor::new)).collect())
}

/// A step that a device has recorded, with the result of the function.
#[pyclass(module = "ternion", frozen)]
struct Recorded(Mutex<RecordedStep<Py<PyAny>>>);

#[pymethods]
impl Recorded {
    /// Replays the step. Returns the result of the function, whose memory contains the new values.
    fn replay(&self, py: Python<'_>) -> Outcome<Py<PyAny>> {
        let mut step = self.0.try_lock().ok_or_else(|| {
            RaisedError::runtime_error("the captured step is running: one thread replays it at a time")
        })?;
        let replayed: &mut RecordedStep<Py<PyAny>> = &mut step;
        wait(py, move || interruptible_parts(|| replayed.replay().map(drop)))?;
        Ok(step.output().clone_ref(py))
    }
}

/// Records `step` on a device. Returns the recorded step and the result of its first run; None if
/// the device does not support recording, in which case `step` has not run.
#[pyfunction]
fn record(
    py: Python<'_>,
    step: Py<PyAny>,
    device: Option<DeviceArgument>,
) -> Outcome<Option<(Recorded, Option<Py<PyAny>>)>> {
    let device = or_default(py, device)?;
    // The step is called twice, and runs the first time.
    let mut first_output = None;
    let run = || {
        Python::attach(|py| {
            let output = step.call0(py).map_err(|error| callback_error("capture: the step", error))?;
            first_output.get_or_insert_with(|| output.clone_ref(py));
            Ok(output)
        })
    };
    let recorded = wait(py, || device.record(run))?;
    Ok(recorded.map(|recorded| (Recorded(Mutex::new(recorded)), first_output)))
}

/// Returns whether this thread records a step.
#[pyfunction]
fn is_recording_step() -> bool {
    ternion::capture::is_recording_step()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Recorded>()?;
    module.add_function(wrap_pyfunction!(checkpoint, module)?)?;
    module.add_function(wrap_pyfunction!(grad, module)?)?;
    module.add_function(wrap_pyfunction!(record, module)?)?;
    module.add_function(wrap_pyfunction!(is_recording_step, module)?)
}
