//! Gradients as in PyTorch: accumulated in `grad` of the tensors that require them.

mod hooks;
mod leaves;
pub mod scales;

pub use hooks::PyHook;
pub use leaves::{accumulated_in, register_leaf, register_param};

use crate::diagnostics::lost;
use crate::error::{Outcome, RaisedError};
use crate::extract::of;
use crate::gil::{interruptible, wait};
use crate::tensor::{PyTensor, detached_handle};
use hooks::call_hook;
use once_cell::race::OnceBox;
use parking_lot::Mutex;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use scales::BackwardPass;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use ternion::autograd::TensorId;
use ternion::nn::Param;
use ternion::{GradOptions, Gradients, Tensor, grad};

/// The state of a tensor's `grad`: the accumulated gradient, its origin and its hooks.
#[derive(Default)]
pub struct GradSlot {
    /// The index of the last backward pass that accumulated into it; 0 before the first.
    pub(crate) pass_index: AtomicU64,
    /// One more than the version of the gradient's buffer when an optimizer used it; 0 if no
    /// optimizer has used it, or if the gradient has been replaced since.
    pub(crate) used: AtomicU64,
    /// Whether a gradient was added to one that an optimizer had already used.
    pub(crate) is_stale: AtomicBool,
    grad: Mutex<Option<Py<PyTensor>>>,
    /// The losses that contributed to the gradient, if they are known.
    origin: Mutex<Option<Box<scales::Origin>>>,
    /// Set only for parameters: most tensors do not need it.
    param: OnceLock<Box<ParamData>>,
    /// The hooks of a tensor that is not a parameter.
    hooks: OnceLock<Box<Mutex<Vec<SharedHook>>>>,
    /// For the output of a checkpoint: its function, which the graph runs again.
    segment: OnceLock<SharedHook>,
}

/// A hook that the graph calls, whether or not the object on which it was registered still exists.
/// This object shows the hook to Python's garbage collector, because a hook often refers to the
/// object.
pub type SharedHook = Arc<Mutex<Option<Py<PyAny>>>>;

/// The data of a parameter's Python object.
struct ParamData {
    param: Param,
    /// The class that has the parameter, and the parameter's name there; used when the parameter no
    /// longer exists.
    name: Mutex<String>,
    /// Stored here rather than in the graph, so that Python's garbage collector sees the objects
    /// that they refer to: often the module that has the parameter.
    hooks: Mutex<Vec<(u64, Py<PyAny>)>>,
}

impl Drop for ParamData {
    fn drop(&mut self) {
        lost::record_dropped(self.param.tensor().id(), std::mem::take(self.name.get_mut()));
    }
}

impl ParamData {
    fn hook(&self, py: Python<'_>, hook_id: u64) -> Option<Py<PyAny>> {
        let hooks = self.hooks.lock();
        hooks.iter().find(|(id, _)| *id == hook_id).map(|(_, hook)| hook.clone_ref(py))
    }
}

/// The slot of an object, created when it is first needed: most tensors do not need one, and an
/// allocation takes a twentieth of the time of a small op. An empty slot is all zeros, which is
/// safe for the collector: CPython 3.11 and 3.12 may run it while they create an object's dict,
/// before the object's own memory is initialized.
#[derive(Default)]
pub struct LazyGradSlot(OnceBox<Arc<GradSlot>>);

impl LazyGradSlot {
    /// Returns the slot if it exists. Readers do not need to create it.
    #[inline]
    pub fn initialized(&self) -> Option<&GradSlot> {
        self.0.get().map(Arc::as_ref)
    }

    /// Returns the accumulated gradient.
    pub fn grad(&self, py: Python<'_>) -> Option<Py<PyTensor>> {
        self.initialized().and_then(|slot| slot.get(py))
    }

    /// Sets the gradient to `None`.
    pub fn clear_grad(&self) {
        self.initialized().into_iter().for_each(|slot| slot.set(None));
    }

    /// Returns the index of the last backward pass that accumulated a gradient; 0 if there was
    /// none.
    pub fn pass_index(&self) -> u64 {
        self.initialized().map_or(0, |slot| slot.pass_index.load(Relaxed))
    }
}

impl std::ops::Deref for LazyGradSlot {
    type Target = Arc<GradSlot>;

    fn deref(&self) -> &Arc<GradSlot> {
        self.0.get_or_init(Box::default)
    }
}

static NEXT_HOOK_ID: AtomicU64 = AtomicU64::new(0);
/// The index of the next backward pass.
static NEXT_PASS_INDEX: AtomicU64 = AtomicU64::new(1);

impl GradSlot {
    pub fn get(&self, py: Python<'_>) -> Option<Py<PyTensor>> {
        self.grad.lock().as_ref().map(|grad| grad.clone_ref(py))
    }

    pub fn set(&self, grad: Option<Py<PyTensor>>) {
        self.used.store(0, Relaxed);
        self.is_stale.store(false, Relaxed);
        *self.origin.lock() = None;
        // The old gradient is dropped after the lock is released.
        let old = std::mem::replace(&mut *self.grad.lock(), grad);
        drop(old);
    }

    /// Returns the existing gradient, or stores `grad` if there is none.
    fn get_or_set(&self, py: Python<'_>, grad: &Tensor) -> Outcome<Option<Py<PyTensor>>> {
        if let Some(existing) = self.get(py) {
            return Ok(Some(existing));
        }
        let first = Py::new(py, PyTensor::new(copy_if_shared(py, grad)?))?;
        let mut stored = self.grad.lock();
        if let Some(existing) = stored.as_ref() {
            return Ok(Some(existing.clone_ref(py)));
        }
        *stored = Some(first);
        Ok(None)
    }

    /// Adds a gradient to the existing one. If another thread does the same while the sum is
    /// computed, the sum is recomputed.
    fn accumulate(&self, py: Python<'_>, grad: &Tensor) -> Outcome<()> {
        let used = self.used.swap(0, Relaxed);
        while let Some(existing) = self.get_or_set(py, grad)? {
            let before = existing.get().tensor();
            if used > 0 && before.buffer().version() + 1 == used {
                self.is_stale.store(true, Relaxed);
            }
            let sum = wait(py, || before.add(grad))?;
            if existing.get().replace_if(&before, sum)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether hooks receive the gradient before it is accumulated.
    fn has_hooks(&self) -> bool {
        self.param.get().is_some_and(|param_data| !param_data.hooks.lock().is_empty())
            || self.hooks.get().is_some_and(|hooks| !hooks.lock().is_empty())
    }

    /// Stores the name of a parameter.
    pub(crate) fn record_name(&self, name: String) {
        self.param.get().into_iter().for_each(|param_data| param_data.name.lock().clone_from(&name));
    }

    /// Shows the collector the objects that the hooks refer to.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // While another thread adds a hook, the tensor is in use, and nothing that it refers to can
        // be collected.
        if let Some(hooks) = self.param.get().and_then(|param_data| param_data.hooks.try_lock()) {
            hooks.iter().try_for_each(|(_, hook)| visit.call(hook))?;
        }
        let Some(hooks) = self.hooks.get().and_then(|hooks| hooks.try_lock()) else { return Ok(()) };
        for hook in hooks.iter().filter_map(|hook| hook.try_lock()) {
            hook.iter().try_for_each(|hook| visit.call(hook))?;
        }
        Ok(())
    }

    /// Shows the collector the function of a checkpoint. Call this only if the tensor's object is
    /// the only owner of the node that runs the function again.
    pub fn traverse_segment(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(segment) = self.segment.get().and_then(|segment| segment.try_lock()) else { return Ok(()) };
        segment.as_ref().map_or(Ok(()), |function| visit.call(function))
    }

    /// Stores the function of a checkpoint where the collector sees it.
    pub fn expose_segment(&self, segment: &SharedHook) {
        self.segment.get_or_init(|| segment.clone());
    }

    /// Releases the function of a checkpoint.
    pub fn clear_segment(&self) {
        let function = self.segment.get().and_then(|segment| segment.lock().take());
        drop(function);
    }

    /// Releases the hooks.
    pub fn clear_hooks(&self) {
        let hooks = self.param.get().map(|param_data| std::mem::take(&mut *param_data.hooks.lock()));
        drop(hooks);
        let hooks = self.hooks.get().map(|hooks| std::mem::take(&mut *hooks.lock()));
        hooks.into_iter().flatten().for_each(|hook| {
            let hook = hook.lock().take();
            drop(hook);
        });
    }

    /// Stores a hook where the collector sees it.
    fn expose_hook(&self, hook: Py<PyAny>) -> SharedHook {
        let shared_hook = Arc::new(Mutex::new(Some(hook)));
        let mut hooks = self.hooks.get_or_init(Box::default).lock();
        hooks.retain(|hook| hook.try_lock().is_none_or(|hook| hook.is_some()));
        hooks.push(shared_hook.clone());
        shared_hook
    }
}

fn accumulate_gradients(py: Python<'_>, gradients: &Gradients, pass: &BackwardPass) -> Outcome<()> {
    let by_id: HashMap<TensorId, &Tensor> = gradients.iter().collect();
    let pass_index = NEXT_PASS_INDEX.fetch_add(1, Relaxed);
    lost::record_backward(pass_index, gradients);
    for (id, slot) in leaves::slots_of(gradients) {
        slot.accumulate_from(py, by_id[&id], pass, Some(id))?;
        slot.pass_index.store(pass_index, Relaxed);
    }
    Ok(())
}

/// Returns the gradient in a separate buffer: an in-place change of `grad` must not change another
/// gradient, nor the weights that were passed to `backward`.
fn copy_if_shared(py: Python<'_>, grad: &Tensor) -> Outcome<Tensor> {
    if grad.is_sole_owner() { Ok(grad.clone()) } else { wait(py, || grad.copy()) }
}

#[pymethods]
impl PyTensor {
    /// Computes the gradient of this tensor and accumulates it in `grad` of every tensor that it
    /// was computed from and that requires a gradient.
    ///
    /// Args:
    ///     gradient: weights of the elements, of this tensor's shape; required unless the tensor
    ///         has exactly one element.
    ///     retain_graph: keep the saved tensors, so that backward can be called again on the graph.
    ///     create_graph: record the backward pass itself, to allow higher-order gradients.
    ///     inputs: the tensors whose gradients are accumulated; all others are left unchanged.
    ///
    /// Raises:
    ///     RuntimeError: nothing was recorded, a saved tensor was changed in place, or the graph
    ///         was already freed by an earlier backward pass.
    ///     ValueError: `gradient` has another shape.
    #[pyo3(signature = (gradient=None, retain_graph=None, create_graph=false, inputs=None))]
    fn backward(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::backward)] gradient: Option<Bound<'_, PyTensor>>,
        #[pyo3(from_py_with = of::backward)] retain_graph: Option<bool>,
        #[pyo3(from_py_with = of::backward)] create_graph: bool,
        #[pyo3(from_py_with = of::backward)] inputs: Option<Vec<Bound<'_, PyTensor>>>,
    ) -> Outcome<()> {
        let tensor = self.tensor();
        let pass = BackwardPass::of(&tensor, gradient.is_some());
        if let Some(inputs) = inputs {
            let weights = grad_output_or_ones(&tensor, gradient.as_ref())?;
            let options = options(retain_graph, create_graph, true);
            let input_tensors: Vec<Tensor> = inputs.iter().map(|input| input.get().tensor()).collect();
            let grads = wait(py, || interruptible(|| grad(&[tensor], &input_tensors, &[weights], options)))?;
            for (input, grad) in inputs.iter().zip(grads) {
                let leaf = input.get().tensor().id();
                grad.map_or(Ok(()), |grad| input.get().slot.accumulate_from(py, &grad, &pass, leaf))?;
            }
            return Ok(());
        }
        let weights = gradient.map(|gradient| gradient.get().tensor());
        let options = options(retain_graph, create_graph, false);
        let gradients = wait(py, || {
            interruptible(|| match weights {
                None => tensor.backward_with(options),
                Some(weights) => weighted_sum(&tensor, &weights)?.backward_with(options),
            })
        })?;
        accumulate_gradients(py, &gradients, &pass)
    }

    /// The accumulated gradient, or None.
    #[getter]
    fn grad(&self, py: Python<'_>) -> Option<Py<PyTensor>> {
        self.slot.grad(py)
    }

    #[setter]
    fn set_grad(&self, #[pyo3(from_py_with = of::grad)] grad: Option<Bound<'_, PyTensor>>) -> Outcome<()> {
        if let Some(grad) = &grad {
            let (current, new) = (self.tensor(), grad.get().tensor());
            if current.shape() != new.shape() {
                let message = format!("grad: of shape {:?}, expected {:?}", new.dims(), current.dims());
                return Err(RaisedError::value_error(message));
            }
            if current.dtype() != new.dtype() {
                let (current, new) =
                    (crate::dialect::dtype_name(current.dtype()), crate::dialect::dtype_name(new.dtype()));
                return Err(RaisedError::type_error(format!(
                    "grad: of {new}, expected {current}, as the tensor"
                )));
            }
        }
        match grad {
            None => self.slot.clear_grad(),
            Some(grad) => self.slot.set(Some(grad.unbind())),
        }
        Ok(())
    }

    /// `del x.grad`: sets the gradient to None.
    #[deleter]
    fn delete_grad(&self) {
        self.slot.clear_grad();
    }

    /// Whether this tensor requires a gradient. Set it to True to make the tensor a leaf that
    /// requires one.
    #[getter]
    fn requires_grad(&self) -> bool {
        self.tensor().needs_grad()
    }

    #[setter]
    fn set_requires_grad(&self, #[pyo3(from_py_with = of::requires_grad)] wanted: bool) -> Outcome<()> {
        if let Some(param) = self.param() {
            if wanted {
                param.unfreeze()
            } else {
                param.freeze()
            }
            return Ok(());
        }
        let tensor = self.tensor();
        if wanted == tensor.needs_grad() {
            return Ok(());
        }
        if !wanted && !tensor.is_leaf() {
            return Err(RaisedError::runtime_error(
                "requires_grad of a computed tensor cannot be taken back: detach() it",
            ));
        }
        if wanted {
            let leaf = tensor.requires_grad()?;
            register_leaf(&leaf, &self.slot);
            return self.replace(leaf);
        }
        self.replace(tensor.detach())
    }

    /// Sets whether this tensor requires a gradient, in place. Returns the tensor.
    ///
    /// Raises:
    ///     TypeError: the dtype is not floating.
    ///     RuntimeError: `requires_grad` is False for a computed tensor.
    #[pyo3(signature = (requires_grad=true))]
    fn requires_grad_<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = of::requires_grad_)] requires_grad: bool,
    ) -> Outcome<Bound<'py, Self>> {
        slf.get().set_requires_grad(requires_grad)?;
        Ok(slf.clone())
    }

    /// Whether the tensor was created by the user rather than computed from a tensor that requires
    /// a gradient.
    #[getter]
    fn is_leaf(&self) -> bool {
        let tensor = self.tensor();
        tensor.is_leaf() || !tensor.needs_grad()
    }

    /// The name of the op that computed the tensor, if it was recorded.
    #[getter]
    fn grad_fn(&self) -> Option<&'static str> {
        let tensor = self.tensor();
        tensor.node().filter(|_| !tensor.is_leaf()).map(|node| node.function().name())
    }

    /// Returns a tensor with the same memory, detached from the graph: no gradient flows through
    /// it.
    fn detach(&self) -> PyTensor {
        PyTensor::new(detached_handle(self.tensor().detach()))
    }

    /// Detaches the tensor from the graph, in place: no gradient flows through it any more. Returns
    /// the tensor.
    fn detach_<'py>(slf: &Bound<'py, Self>) -> Outcome<Bound<'py, Self>> {
        let tensor = slf.get().tensor();
        if tensor.needs_grad() {
            slf.get().replace(tensor.detach())?;
        }
        Ok(slf.clone())
    }

    /// The same memory, detached from the graph.
    #[getter]
    fn data(&self) -> PyTensor {
        PyTensor::new(detached_handle(self.tensor().detach()))
    }

    #[setter]
    fn set_data(&self, #[pyo3(from_py_with = of::data)] data: Bound<'_, PyTensor>) -> Outcome<()> {
        let data = data.get().tensor().detach();
        if self.param().is_some() || !self.tensor().needs_grad() {
            return self.replace(data);
        }
        let leaf = data.requires_grad()?;
        register_leaf(&leaf, &self.slot);
        self.replace(leaf)
    }

    /// Accumulates the gradient in `grad` of this tensor too, although it is not a leaf.
    ///
    /// Raises:
    ///     RuntimeError: the tensor does not require a gradient.
    fn retain_grad(&self) -> Outcome<()> {
        let (tensor, slot) = (self.tensor(), Arc::downgrade(&self.slot));
        if tensor.is_leaf() {
            return Ok(());
        } else if !tensor.needs_grad() {
            return Err(RaisedError::runtime_error("retain_grad: no gradient flows to this tensor"));
        }
        let hook = tensor.register_hook(move |grad| {
            if let Some(slot) = slot.upgrade() {
                let result = Python::attach(|py| slot.accumulate(py, grad).map_err(PyErr::from));
                result.map_err(|error| ternion::Error::autograd(error.to_string()))?;
            }
            Ok(None)
        });
        Ok(hook.map(drop)?)
    }

    /// Registers a function that is called with the gradient of this tensor when it is final. If
    /// the function returns a tensor, it replaces the gradient.
    ///
    /// Returns:
    ///     a handle that removes the hook by `handle.remove()`.
    ///
    /// Raises:
    ///     RuntimeError: the tensor does not require a gradient.
    fn register_hook(&self, hook: Py<PyAny>) -> Outcome<PyHook> {
        let tensor = self.tensor();
        if !tensor.needs_grad() {
            return Err(RaisedError::runtime_error("register_hook: no gradient flows to this tensor"));
        }
        let Some(param_data) = self.slot.initialized().and_then(|slot| slot.param.get()) else {
            let shared_hook = self.slot.expose_hook(hook);
            let registered = shared_hook.clone();
            let handle = tensor.register_hook(move |grad| {
                Python::attach(|py| {
                    let hook = registered.lock().as_ref().map(|hook| hook.clone_ref(py));
                    hook.map_or(Ok(None), |hook| call_hook(hook.bind(py), grad))
                })
            })?;
            return Ok(PyHook {
                handle: Mutex::new(Some(handle)),
                param_hook: None,
                shared_hook: Some(shared_hook),
            });
        };
        let (hook_id, slot) = (NEXT_HOOK_ID.fetch_add(1, Relaxed), Arc::downgrade(&self.slot));
        let hook_slot = slot.clone();
        let handle = tensor.register_hook(move |grad| {
            Python::attach(|py| {
                let slot = hook_slot.upgrade();
                let hook = slot
                    .and_then(|slot| slot.param.get().and_then(|param_data| param_data.hook(py, hook_id)));
                hook.map_or(Ok(None), |hook| call_hook(hook.bind(py), grad))
            })
        })?;
        param_data.hooks.lock().push((hook_id, hook));
        Ok(PyHook { handle: Mutex::new(Some(handle)), param_hook: Some((slot, hook_id)), shared_hook: None })
    }
}

fn options(retain_graph: Option<bool>, create_graph: bool, allow_unused: bool) -> GradOptions {
    GradOptions { create_graph, retain_graph: retain_graph.unwrap_or(create_graph), allow_unused }
}

/// Returns the weights of the elements of `output`. The default, for a single element, is 1.
fn grad_output_or_ones(output: &Tensor, grad_output: Option<&Bound<'_, PyTensor>>) -> Outcome<Tensor> {
    if !output.needs_grad() {
        return Err(RaisedError::runtime_error(
            "grad: an output does not require grad: nothing that requires a gradient was used, or it was computed in no_grad",
        ));
    }
    match grad_output {
        Some(weights) => {
            let weights = weights.get().tensor();
            if weights.shape() != output.shape() {
                return Err(RaisedError::value_error(format!(
                    "grad: a gradient of shape {:?} for an output of shape {:?}",
                    weights.dims(),
                    output.dims()
                )));
            }
            Ok(weights.to_dtype(output.dtype())?)
        }
        None if output.elements() == 1 => Ok(output.detach().ones_like()?),
        None => Err(RaisedError::runtime_error(format!(
            "grad: an output of shape {:?}: only a single element has a gradient by itself; reduce it, or give grad_outputs",
            output.dims()
        ))),
    }
}

/// The native part of `ternion.autograd.grad`.
#[pyfunction]
fn _grad(
    py: Python<'_>,
    outputs: Vec<Bound<'_, PyTensor>>,
    inputs: Vec<Bound<'_, PyTensor>>,
    #[pyo3(from_py_with = of::grad)] grad_outputs: Vec<Option<Bound<'_, PyTensor>>>,
    #[pyo3(from_py_with = of::grad)] retain_graph: Option<bool>,
    #[pyo3(from_py_with = of::grad)] create_graph: bool,
    allow_unused: bool,
) -> Outcome<Vec<Option<PyTensor>>> {
    let tensors = |objects: &[Bound<'_, PyTensor>]| -> Vec<Tensor> {
        objects.iter().map(|object| object.get().tensor()).collect()
    };
    let (outputs, inputs) = (tensors(&outputs), tensors(&inputs));
    let weights: Vec<Tensor> = outputs
        .iter()
        .zip(&grad_outputs)
        .map(|(output, weights)| grad_output_or_ones(output, weights.as_ref()))
        .collect::<Outcome<_>>()?;
    let options = options(retain_graph, create_graph, allow_unused);
    let grads = wait(py, || interruptible(|| grad(&outputs, &inputs, &weights, options)))?;
    drop(weights);
    let object = |grad: Option<Tensor>| -> Outcome<Option<PyTensor>> {
        let Some(grad) = grad else { return Ok(None) };
        // A gradient with a history is a tensor of the graph, where in-place changes are detected.
        Ok(Some(PyTensor::new(if grad.needs_grad() { grad } else { copy_if_shared(py, &grad)? })))
    };
    grads.into_iter().map(object).collect()
}

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_grad, module)?)
}

/// Returns the sum of the elements, each multiplied by its weight.
fn weighted_sum(tensor: &Tensor, weights: &Tensor) -> ternion::Result<Tensor> {
    if tensor.shape() != weights.shape() {
        return Err(ternion::Error::Shape {
            op: "backward",
            what: "gradient",
            got: Box::new(*weights.shape()),
            expected: Box::new(*tensor.shape()),
        });
    }
    tensor.mul(&weights.detach().to_dtype(tensor.dtype())?)?.sum_all()
}
