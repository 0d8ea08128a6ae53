//! The native part of `ternion.optim`: steps that use the accumulated gradients.

use crate::arguments::Real;
use crate::error::{Outcome, RaisedError};
use crate::gil::wait;
use crate::state::{dict_of, state_of};
use crate::tensor::PyTensor;
use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::CString;
use ternion::nn::Param;
use ternion::nn::optim::{
    Adagrad, AdagradConfig, Adam, AdamConfig, AdamW, AdamWConfig, Lion, LionConfig, Muon, MuonConfig,
    MuonLrAdjustment, Optimizer, ParamGroup, RMSprop, RMSpropConfig, SGD, SGDConfig,
};
use ternion::{Gradients, Tensor};

/// One group of parameters with common settings.
struct Group {
    parameters: Vec<Py<PyTensor>>,
    /// The cells that are updated: those of the parameters, or cells that share the memory of plain
    /// tensors.
    params: Vec<Param>,
    /// The names of the parameters in messages (`names`) and in the state (`labels`).
    names: Vec<String>,
    labels: Vec<String>,
    optimizer: Box<dyn Optimizer + Send>,
}

/// Steps of one group. The Python class `Optimizer` has one object for each group.
#[pyclass(name = "_Steps", module = "ternion.optim", frozen)]
pub struct PySteps(Mutex<Group>);

/// Returns a setting of a group.
fn setting<'py, T: FromPyObjectOwned<'py>>(settings: &Bound<'py, PyDict>, name: &str) -> Outcome<T> {
    match settings.get_item(name)? {
        Some(value) => value.extract::<T>().map_err(|error| {
            let error: PyErr = error.into();
            RaisedError::type_error(format!("{name}: {error}"))
        }),
        None => Err(RaisedError::type_error(format!("the setting {name} is missing"))),
    }
}

/// Creates the optimizer of each Python class. The listed fields of its configuration are settings
/// in Python, under the same names.
macro_rules! optimizers {
    ($($optimizer:ident, $config:ident: $($field:ident)* $(, $other:ident = $parsed:ident)?;)*) => {
        fn optimizer_of(
            class: &str,
            groups: Vec<ParamGroup>,
            settings: &Bound<'_, PyDict>,
        ) -> Outcome<Box<dyn Optimizer + Send>> {
            Ok(match class {
                $(stringify!($optimizer) => {
                    let config = $config {
                        $($field: setting(settings, stringify!($field))?,)*
                        $($other: $parsed(settings)?,)?
                        // Missing gradients are reported here, with names.
                        allow_missing_gradients: true,
                        ..Default::default()
                    };
                    Box::new($optimizer::with_groups(groups, config)?)
                })*
                _ => return Err(RaisedError::value_error(format!("no optimizer {class}"))),
            })
        }
    };
}

optimizers! {
    SGD, SGDConfig: lr momentum dampening weight_decay nesterov;
    Adam, AdamConfig: lr betas eps weight_decay amsgrad;
    AdamW, AdamWConfig: lr betas eps weight_decay amsgrad;
    RMSprop, RMSpropConfig: lr alpha eps weight_decay momentum centered;
    Adagrad, AdagradConfig: lr lr_decay weight_decay initial_accumulator_value eps;
    Lion, LionConfig: lr betas weight_decay;
    Muon, MuonConfig: lr weight_decay momentum nesterov ns_coefficients eps ns_steps, adjust_lr = adjustment;
}

/// Returns the dependence of Muon's steps on the shape from PyTorch's name.
fn adjustment(settings: &Bound<'_, PyDict>) -> Outcome<MuonLrAdjustment> {
    match setting::<Option<String>>(settings, "adjust_lr_fn")?.as_deref() {
        None | Some("original") => Ok(MuonLrAdjustment::Original),
        Some("match_rms_adamw") => Ok(MuonLrAdjustment::MatchRmsAdamW),
        Some(other) => Err(RaisedError::value_error(format!(
            "Muon: adjust_lr_fn {other:?}, expected None, \"original\" or \"match_rms_adamw\""
        ))),
    }
}

/// Returns the cell of a parameter, or for a plain tensor one that shares its memory.
fn param_of(object: &Py<PyTensor>) -> Outcome<Param> {
    match object.get().param() {
        Some(param) => Ok(param.clone()),
        None => Ok(Param::new(&object.get().tensor())?),
    }
}

/// Returns the tensor to update. Since the last step a plain tensor may have been given other
/// memory, or may no longer require a gradient.
fn current(object: &PyTensor, param: &Param) -> Outcome<Tensor> {
    let tensor = object.tensor();
    if object.param().is_some() {
        return Ok(tensor);
    }
    let stored = param.tensor();
    if !stored.buffer().is(tensor.buffer())
        || stored.layout() != tensor.layout()
        || stored.dtype() != tensor.dtype()
    {
        param.replace(tensor)?;
    }
    Ok(param.tensor())
}

/// Returns the `stacklevel` of a warning that is to be attributed to the line that called into the
/// package, through any number of its functions.
pub(crate) fn caller_stacklevel(py: Python<'_>) -> PyResult<i32> {
    let mut frame = py.import("sys")?.call_method0("_getframe")?;
    let mut level = 1;
    loop {
        let module = frame.getattr("f_globals")?.call_method1("get", ("__name__", ""))?.to_string();
        let around = frame.getattr("f_back")?;
        let is_within = module == "ternion" || module.starts_with("ternion.");
        if !is_within || around.is_none() {
            return Ok(level);
        }
        (frame, level) = (around, level + 1);
    }
}

impl PySteps {
    /// Locks the group when no other thread uses it. That thread may need the GIL to finish, so the
    /// GIL is released during the wait.
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Group> {
        loop {
            if let Some(group) = self.0.try_lock() {
                return group;
            }
            py.detach(|| drop(self.0.lock()));
        }
    }

    /// Runs `f` on the optimizer. Call it with the GIL released.
    pub fn with<T>(&self, f: impl FnOnce(&mut dyn Optimizer) -> T) -> T {
        f(&mut *self.0.lock().optimizer)
    }
}

/// Replaces the label of a parameter in the error of a step by its name.
fn use_param_names(py: Python<'_>, raised: RaisedError, labels: &[String], names: &[String]) -> RaisedError {
    let error = PyErr::from(raised);
    let text = error.value(py).to_string();
    let message = labels.iter().zip(names).find_map(|(label, name)| {
        let (begin, end) = text.split_once(&format!(": {label} is ["))?;
        // The message contains the shape itself.
        let name = name.split(" of shape ").next().unwrap_or_default();
        (label != name).then(|| format!("{begin}: {name} is [{end}"))
    });
    message.map_or(RaisedError::from(error), RaisedError::value_error)
}

#[pymethods]
impl PySteps {
    /// Parameters are identified by `names` in messages, and by `labels` in the state.
    #[new]
    fn new(
        kind: &str,
        parameters: Vec<Py<PyTensor>>,
        names: Vec<String>,
        labels: Vec<String>,
        settings: &Bound<'_, PyDict>,
    ) -> Outcome<PySteps> {
        let params: Vec<Param> = parameters.iter().map(param_of).collect::<Outcome<_>>()?;
        let group =
            ParamGroup::new(params.iter().zip(&labels).map(|(param, label)| param.named(label)).collect());
        let optimizer = optimizer_of(kind, vec![group], settings)?;
        Ok(PySteps(Mutex::new(Group { parameters, params, names, labels, optimizer })))
    }

    /// Performs one step, in the direction of the gradient if `maximize`. Reports a parameter
    /// without a gradient: in a warning that names it, or in an error if `strict`. Returns whether
    /// a gradient was missing.
    fn step(&self, py: Python<'_>, lr: Real, maximize: bool, strict: bool, warned: bool) -> Outcome<bool> {
        let mut group = self.lock(py);
        let Group { parameters, params, names, labels, optimizer } = &mut *group;
        let mut gradients = Gradients::default();
        let mut missing = Vec::new();
        for ((parameter, param), name) in parameters.iter().zip(params.iter()).zip(names.iter()) {
            let tensor = current(parameter.get(), param)?;
            if !tensor.needs_grad() {
                continue;
            }
            match parameter.get().slot.grad(py) {
                Some(grad) => {
                    let grad = grad.get().tensor();
                    let grad = if maximize { wait(py, || grad.detach().neg())? } else { grad };
                    gradients.insert(&tensor, grad)?;
                }
                None => missing.push(name.as_str()),
            }
        }
        if !missing.is_empty() && (strict || !warned) {
            let (names, it) = (missing.join(", "), if missing.len() == 1 { "it" } else { "them" });
            let message = format!(
                "no gradient for {names}: the loss does not depend on {it}, or backward() was not called, or zero_grad() was called after it"
            );
            if strict {
                return Err(RaisedError::runtime_error(format!(
                    "{message} (an error, as the optimizer is strict)"
                )));
            }
            let left = if missing.len() == 1 { "it is unchanged" } else { "they are unchanged" };
            let text = CString::new(format!("{message}; {left}"))
                .map_err(|_| RaisedError::value_error("a name with a NUL character"))?;
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, caller_stacklevel(py)?)?;
        }
        let has_missing = !missing.is_empty();
        wait(py, || {
            if optimizer.lr() != lr.0 {
                optimizer.set_lr(lr.0)?;
            }
            if gradients.is_empty() { Ok(()) } else { optimizer.step(&gradients) }
        })
        .map_err(|raised| use_param_names(py, raised, labels, names))?;
        Ok(has_missing)
    }

    /// Sets the learning rate of the next step, also if the step is replayed.
    fn set_lr(&self, py: Python<'_>, lr: Real) -> Outcome<()> {
        let mut group = self.lock(py);
        if group.optimizer.lr() != lr.0 {
            group.optimizer.set_lr(lr.0)?;
        }
        Ok(())
    }

    /// Sets the momentum of the next step, or the first beta. Returns whether the optimizer can
    /// change it without being recreated.
    fn set_momentum(&self, py: Python<'_>, momentum: Real) -> bool {
        self.lock(py).optimizer.set_momentum(momentum.0).is_ok()
    }

    /// Returns the state dict.
    fn state<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyDict>> {
        let state = {
            let mut group = self.lock(py);
            let optimizer = &mut group.optimizer;
            wait(py, move || optimizer.state_dict())?
        };
        dict_of(py, state)
    }

    /// The learning rate of the next step.
    #[getter]
    fn lr(&self, py: Python<'_>) -> f64 {
        self.lock(py).optimizer.lr()
    }

    /// Restores a state dict.
    fn load(&self, py: Python<'_>, state: &Bound<'_, PyDict>) -> Outcome<()> {
        let dict = state_of(state, "load_state_dict")?;
        let mut group = self.lock(py);
        let optimizer = &mut group.optimizer;
        wait(py, move || optimizer.load_state_dict(&dict))
    }
}

/// Scales the gradients of tensors so that their total norm is at most `max_norm`. Returns the
/// previous norm.
#[pyfunction]
#[pyo3(signature = (parameters, max_norm))]
fn _clip_grad_norm(py: Python<'_>, parameters: Vec<Py<PyTensor>>, max_norm: Real) -> Outcome<PyTensor> {
    clipped(py, &parameters, |gradients, tensors| ternion::clip_grad_norm(gradients, tensors, max_norm.0))
        .map(PyTensor::new)
}

/// Computes the Euclidean norm of all elements of tensors on one device.
#[pyfunction]
#[pyo3(signature = (tensors))]
fn _total_norm(py: Python<'_>, tensors: Vec<Py<PyTensor>>) -> Outcome<PyTensor> {
    let tensors: Vec<Tensor> = tensors.iter().map(|tensor| tensor.get().tensor()).collect();
    wait(py, || ternion::total_norm(&tensors.iter().collect::<Vec<_>>())).map(PyTensor::new)
}

/// Clamps every element of the gradients of tensors to `-clip_value..clip_value`.
#[pyfunction]
#[pyo3(signature = (parameters, clip_value))]
fn _clip_grad_value(py: Python<'_>, parameters: Vec<Py<PyTensor>>, clip_value: Real) -> Outcome<()> {
    clipped(py, &parameters, |gradients, tensors| ternion::clip_grad_value(gradients, tensors, clip_value.0))
}

/// Applies `clip` to the gradients of the tensors that require one.
fn clipped<T: Send>(
    py: Python<'_>,
    parameters: &[Py<PyTensor>],
    clip: impl FnOnce(&mut Gradients, &[&Tensor]) -> ternion::Result<T> + Send,
) -> Outcome<T> {
    let mut gradients = Gradients::default();
    let mut changed: Vec<(Tensor, Py<PyTensor>)> = Vec::new();
    for parameter in parameters {
        let (tensor, grad) = (parameter.get().tensor(), parameter.get().slot.grad(py));
        if let Some(grad) = grad.filter(|_| tensor.needs_grad()) {
            gradients.insert(&tensor, grad.get().tensor())?;
            changed.push((tensor, grad));
        }
    }
    let (gradients, result) = wait(py, || {
        let tensors: Vec<&Tensor> = changed.iter().map(|(tensor, _)| tensor).collect();
        let result = clip(&mut gradients, &tensors)?;
        Ok((gradients, result))
    })?;
    for (tensor, grad) in &changed {
        if let Some(clipped) = gradients.get(tensor) {
            grad.get().replace(clipped.clone())?;
        }
    }
    Ok(result)
}

/// Adds the class and the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PySteps>()?;
    module.add_function(wrap_pyfunction!(_clip_grad_norm, module)?)?;
    module.add_function(wrap_pyfunction!(_total_norm, module)?)?;
    module.add_function(wrap_pyfunction!(_clip_grad_value, module)?)
}
