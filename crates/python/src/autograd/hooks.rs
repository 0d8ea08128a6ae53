//! Hooks of tensors: the call of a hook, and the handle that removes it.

use super::{GradSlot, SharedHook};
use crate::error::callback_error;
use crate::tensor::PyTensor;
use parking_lot::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::sync::Weak;
use ternion::Tensor;

/// A handle of a registered hook.
#[pyclass(name = "HookHandle", module = "ternion", frozen)]
pub struct PyHook {
    pub(super) handle: Mutex<Option<ternion::autograd::HookHandle>>,
    /// For a hook of a parameter: the slot that stores it, and its key there.
    pub(super) param_hook: Option<(Weak<GradSlot>, u64)>,
    /// The hook of another tensor.
    pub(super) shared_hook: Option<SharedHook>,
}

#[pymethods]
impl PyHook {
    /// Removes the hook.
    fn remove(&self) {
        let Some(handle) = self.handle.lock().take() else { return };
        handle.remove();
        let hook = self.shared_hook.as_ref().and_then(|shared_hook| shared_hook.lock().take());
        drop(hook);
        let Some((slot, hook_id)) = &self.param_hook else { return };
        if let Some(slot) = slot.upgrade()
            && let Some(param_data) = slot.param.get()
        {
            let mut hooks = param_data.hooks.lock();
            let at = hooks.iter().position(|(other, _)| other == hook_id);
            let hook = at.map(|at| hooks.remove(at));
            // The objects that the hook refers to are released after the lock: they may include
            // this parameter.
            drop(hooks);
            drop(hook);
        }
    }
}

/// Returns the gradient that a hook returns, or `None` if the hook leaves it unchanged.
pub(super) fn call_hook(hook: &Bound<'_, PyAny>, grad: &Tensor) -> ternion::Result<Option<Tensor>> {
    let call = || -> PyResult<Option<Tensor>> {
        let returned = hook.call1((PyTensor::new(grad.clone()),))?;
        if returned.is_none() {
            return Ok(None);
        }
        match returned.cast::<PyTensor>() {
            Ok(returned) => Ok(Some(returned.get().tensor())),
            Err(_) => {
                let kind = returned.get_type().name()?;
                let message = format!("register_hook: the hook returned {kind}, expected a tensor or None");
                Err(PyTypeError::new_err(message))
            }
        }
    };
    call().map_err(|error| callback_error("a hook", error))
}
