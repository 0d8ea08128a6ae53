//! `ternion.Tensor`: a handle of a tensor, with the slot in which its gradient is accumulated.

use crate::autograd::{self, LazyGradSlot};
use crate::device::PyDevice;
use crate::dtype::PyDType;
use crate::error::{Outcome, RaisedError};
use crate::extract::of;
use crate::gil::{run, wait};
use crate::promote::default_dtype;
use crate::shared::Value;
use parking_lot::RwLock;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use ternion::nn::{Param, StateTensor};
use ternion::{Axes, DType, Tensor};

/// An n-dimensional array on a device, created by ternion.tensor and similar functions.
///
/// Methods have the names and semantics of PyTorch's. Views share memory. If `requires_grad` is
/// set, `backward` of a result accumulates the gradient in `grad`.
#[pyclass(name = "Tensor", module = "ternion", frozen, subclass, weakref, dict)]
pub struct PyTensor {
    handle: Handle,
    /// The slot in which the gradient is accumulated, if the tensor itself requires one.
    pub(crate) slot: LazyGradSlot,
}

/// The content of the object: a tensor, or a cell of a layer, whose tensor may be replaced (with
/// another dtype or device).
pub(crate) enum Handle {
    Value(RwLock<Value>),
    Param(Param),
    State(StateTensor),
}

impl PyTensor {
    #[inline]
    pub fn new(tensor: Tensor) -> PyTensor {
        PyTensor { handle: Handle::Value(RwLock::new(Value::new(tensor))), slot: LazyGradSlot::default() }
    }

    pub fn of_param(param: Param) -> PyTensor {
        let slot = LazyGradSlot::default();
        autograd::register_param(&param, &slot);
        PyTensor { handle: Handle::Param(param), slot }
    }

    pub fn of_state(state: StateTensor) -> PyTensor {
        PyTensor { handle: Handle::State(state), slot: LazyGradSlot::default() }
    }

    /// Returns the current tensor.
    #[inline]
    pub fn tensor(&self) -> Tensor {
        match &self.handle {
            Handle::Value(cell) => {
                let value = cell.read();
                if value.is_unshared() {
                    return value.tensor.clone();
                }
                drop(value);
                refreshed(cell)
            }
            Handle::Param(param) => param.tensor(),
            Handle::State(state) => state.tensor(),
        }
    }

    /// Returns whether this object is the only owner of the node that computed the tensor. False
    /// while another thread replaces the tensor, which must not be collected then.
    fn is_sole_owner_of_node(&self) -> bool {
        let Handle::Value(cell) = &self.handle else { return false };
        cell.try_read().is_some_and(|value| value.tensor.is_sole_owner_of_node())
    }

    /// Returns the parameter of this object, if it has one.
    pub fn param(&self) -> Option<&Param> {
        match &self.handle {
            Handle::Param(param) => Some(param),
            _ => None,
        }
    }

    /// Replaces the tensor of this object.
    pub fn replace(&self, tensor: Tensor) -> Outcome<()> {
        match &self.handle {
            Handle::Value(cell) => *cell.write() = Value::new(tensor),
            Handle::Param(param) => param.replace(tensor)?,
            Handle::State(state) => state.replace(tensor),
        }
        Ok(())
    }

    /// Same as `replace` if the tensor is still `before`. Returns whether it was. (A parameter or a
    /// buffer is replaced in any case.)
    pub fn replace_if(&self, before: &Tensor, tensor: Tensor) -> Outcome<bool> {
        let Handle::Value(cell) = &self.handle else { return self.replace(tensor).map(|()| true) };
        let mut value = cell.write();
        let is_same = value.tensor.buffer().is(before.buffer()) && value.tensor.layout() == before.layout();
        if is_same {
            *value = Value::new(tensor);
        }
        Ok(is_same)
    }

    /// Runs `f` on the tensor.
    #[inline]
    pub fn map(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&Tensor) -> ternion::Result<Tensor> + Send,
    ) -> Outcome<PyTensor> {
        let tensor = self.tensor();
        let result = run(py, tensor.elements(), || f(&tensor))?;
        Ok(self.wrap_view(&tensor, result))
    }

    /// Same as `map`, but the result always has its own memory, even if it only reorders the
    /// elements: in-place changes of it affect no other tensor.
    pub fn map_copied(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&Tensor) -> ternion::Result<Tensor> + Send,
    ) -> Outcome<PyTensor> {
        self.map(py, |x| match f(x)? {
            shared if shared.buffer().is(x.buffer()) => shared.copy(),
            own => Ok(own),
        })
    }

    /// Same as `map` for functions along axes: a tensor without axes is treated as one of size 1,
    /// whose axis is 0 or -1, as in PyTorch.
    pub fn map_along(
        &self,
        py: Python<'_>,
        axes: impl Into<Axes>,
        f: impl FnOnce(&Tensor) -> ternion::Result<Tensor> + Send,
    ) -> Outcome<PyTensor> {
        let axes = axes.into();
        self.map(py, |x| match is_scalar_axis(x, &axes) {
            true => f(&x.reshape([1_usize])?)?.reshape(()),
            false => f(x),
        })
    }

    /// Wraps the result of a function of `tensor`, the tensor of this object. If it is a recorded
    /// view, each of the two objects sees in-place changes of the other.
    #[inline]
    pub fn wrap_view(&self, tensor: &Tensor, result: Tensor) -> PyTensor {
        if result.buffer().is(tensor.buffer()) {
            let value = self.view_value(tensor, result);
            return PyTensor { handle: Handle::Value(RwLock::new(value)), slot: LazyGradSlot::default() };
        }
        PyTensor::new(result)
    }

    #[cold]
    fn view_value(&self, tensor: &Tensor, result: Tensor) -> Value {
        match &self.handle {
            _ if !result.needs_grad() => Value::new(detached_handle(result)),
            Handle::Value(cell) => cell.write().view(tensor, result),
            _ => Value::new(result),
        }
    }

    /// Replaces the tensor of this object by a recorded result: an in-place change of a tensor that
    /// requires a gradient, or comes to require one.
    pub fn store_recorded(&self, py: Python<'_>, result: Tensor) -> Outcome<()> {
        match &self.handle {
            Handle::Value(cell) => wait(py, || Ok(cell.write().store(result)))?,
            _ => self.replace(result),
        }
    }

    /// Makes this object equal to `view`, a view of it: an in-place change of the layout. Other
    /// objects that share its memory keep their layouts.
    pub fn take_layout_of(&self, view: &PyTensor) -> Outcome<()> {
        check_in_place(&self.tensor())?;
        match (&self.handle, &view.handle) {
            (Handle::Value(own), Handle::Value(other)) if !std::ptr::eq(own, other) => {
                std::mem::swap(&mut *own.write(), &mut *other.write());
                Ok(())
            }
            (Handle::Value(_), Handle::Value(_)) => Ok(()),
            _ => self.replace(view.tensor()),
        }
    }

    /// Changes the tensor in place: by `in_place`, or, if it or one of the other operands requires
    /// a gradient, by storing the result of `recorded`.
    pub fn change<'py>(
        slf: &Bound<'py, PyTensor>,
        others: &[&Tensor],
        recorded: impl FnOnce(&Tensor) -> ternion::Result<Tensor> + Send,
        in_place: impl FnOnce(&Tensor) -> ternion::Result<()> + Send,
    ) -> Outcome<Bound<'py, PyTensor>> {
        let (py, tensor) = (slf.py(), slf.get().tensor());
        check_in_place(&tensor)?;
        if is_recorded(&[&tensor]) || is_recorded(others) {
            let result = run(py, tensor.elements(), || recorded(&tensor))?;
            slf.get().store_recorded(py, result)?;
        } else {
            run(py, tensor.elements(), || in_place(&tensor))?;
        }
        Ok(slf.clone())
    }
}

/// Returns whether a tensor has no axes, and `axes` names the axis of size 1 that it is treated as
/// having.
pub fn is_scalar_axis(x: &Tensor, axes: &Axes) -> bool {
    x.rank() == 0 && matches!(axes, Axes::List(named) if matches!(named[..], [0 | -1]))
}

/// Returns a plain tensor with a separate handle of its memory, so that it is known whether another
/// object has one.
pub fn detached_handle(tensor: Tensor) -> Tensor {
    let handle =
        Tensor::from_buffer(tensor.buffer().clone(), *tensor.layout(), tensor.dtype(), tensor.device());
    // It fits: layout and buffer come from the same tensor.
    handle.unwrap_or(tensor)
}

/// Returns the tensor of an object that shares memory with others, updated with their changes.
#[cold]
fn refreshed(cell: &RwLock<Value>) -> Tensor {
    let value = cell.read();
    if value.is_current() {
        return value.tensor.clone();
    }
    drop(value);
    cell.write().refreshed()
}

/// Returns whether a result of these tensors is recorded.
pub fn is_recorded(tensors: &[&Tensor]) -> bool {
    ternion::autograd::is_recording() && tensors.iter().any(|tensor| tensor.needs_grad())
}

/// `ternion.Size`, a tuple.
static SIZE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Returns sizes as a Python object.
fn size_object<'py>(py: Python<'py>, dims: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    let class =
        SIZE.get_or_try_init(py, || Ok::<_, PyErr>(py.import("ternion._size")?.getattr("Size")?.unbind()))?;
    class.bind(py).call1((PyTuple::new(py, dims)?,))
}

/// Returns an error unless a tensor may be changed in place: a leaf that requires a gradient may be
/// changed only in no-grad mode.
pub fn check_in_place(tensor: &Tensor) -> Outcome<()> {
    if ternion::autograd::is_recording() && tensor.shows_leaf() {
        return Err(RaisedError::runtime_error(
            "a tensor that requires a gradient, or a view of one, is changed in place: do it within no_grad(), or take the form that returns a new tensor",
        ));
    }
    Ok(())
}

#[pymethods]
impl PyTensor {
    /// Creates a tensor of the default dtype: with these sizes, filled with zeros, or with the
    /// values of a list, an array or a tensor. `ternion.tensor` and `ternion.zeros` are less
    /// ambiguous.
    #[new]
    #[pyo3(signature = (*args, device=None))]
    fn new_of(
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        device: Option<crate::device::DeviceArgument>,
    ) -> Outcome<PyTensor> {
        crate::create::legacy_constructor(py, args, device)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(slot) = self.slot.initialized() else { return Ok(()) };
        slot.traverse(&visit)?;
        if self.is_sole_owner_of_node() { slot.traverse_segment(&visit) } else { Ok(()) }
    }

    fn __clear__(&self) {
        let Some(slot) = self.slot.initialized() else { return };
        slot.clear_hooks();
        if self.is_sole_owner_of_node() {
            slot.clear_segment();
        }
    }

    /// Whether the tensor is on a CUDA device.
    #[getter]
    fn is_cuda(&self) -> bool {
        self.tensor().device().name().starts_with("cuda")
    }

    /// Whether the tensor is on the CPU.
    #[getter]
    fn is_cpu(&self) -> bool {
        self.tensor().device().name() == "cpu"
    }

    /// The sizes, a tuple.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        size_object(py, self.tensor().dims())
    }

    /// Returns the sizes, or the size of one axis.
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    #[pyo3(signature = (dim=None))]
    fn size<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = of::size)] dim: Option<isize>,
    ) -> Outcome<Bound<'py, PyAny>> {
        let tensor = self.tensor();
        match dim {
            None => Ok(size_object(py, tensor.dims())?),
            Some(dim) => {
                let axis = ternion::Axis(dim).resolve(tensor.shape(), "size")?;
                Ok(tensor.dims()[axis].into_pyobject(py).map_err(PyErr::from)?.into_any())
            }
        }
    }

    /// Returns the distance in elements between neighbors along each axis, or along one.
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    #[pyo3(signature = (dim=None))]
    fn stride<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = of::stride)] dim: Option<isize>,
    ) -> Outcome<Bound<'py, PyAny>> {
        let tensor = self.tensor();
        match dim {
            None => Ok(PyTuple::new(py, tensor.layout().strides())?.into_any()),
            Some(dim) => {
                let axis = ternion::Axis(dim).resolve(tensor.shape(), "stride")?;
                Ok(tensor.layout().strides()[axis].into_pyobject(py).map_err(PyErr::from)?.into_any())
            }
        }
    }

    /// Returns the offset of the first element in its memory, in elements.
    fn storage_offset(&self) -> usize {
        self.tensor().layout().offset()
    }

    /// The number of in-place changes of the memory.
    #[getter]
    fn _version(&self) -> u64 {
        self.tensor().buffer().version()
    }

    /// The number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.tensor().rank()
    }

    /// Returns the number of axes.
    fn dim(&self) -> usize {
        self.tensor().rank()
    }

    /// Returns the number of elements.
    fn numel(&self) -> usize {
        self.tensor().elements()
    }

    /// Returns the size of an element in bytes.
    fn element_size(&self) -> usize {
        self.tensor().dtype().size()
    }

    /// The size of an element in bytes.
    #[getter]
    fn itemsize(&self) -> usize {
        self.tensor().dtype().size()
    }

    /// The size of all elements in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        let tensor = self.tensor();
        tensor.elements() * tensor.dtype().size()
    }

    /// The type of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDType>> {
        crate::dtype::object(py, self.tensor().dtype())
    }

    /// The device of the tensor.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice(self.tensor().device().clone())
    }

    /// Returns whether the elements are contiguous in row-major order, or in the order of
    /// `memory_format`: for channels last, channels after height and width.
    #[pyo3(signature = (*, memory_format=None))]
    fn is_contiguous(&self, memory_format: Option<&Bound<'_, PyAny>>) -> Outcome<bool> {
        let tensor = self.tensor();
        let format = memory_format.map(|format| Ok::<_, PyErr>(format.str()?.to_string())).transpose()?;
        match format.as_deref() {
            Some("ternion.channels_last") if tensor.rank() == 4 => {
                Ok(tensor.permute([0, 2, 3, 1])?.is_contiguous())
            }
            Some("ternion.channels_last") => Ok(false),
            _ => Ok(tensor.is_contiguous()),
        }
    }

    /// Returns whether the dtype is floating.
    fn is_floating_point(&self) -> bool {
        self.tensor().dtype().is_float()
    }

    fn __len__(&self) -> Outcome<usize> {
        let tensor = self.tensor();
        tensor
            .dims()
            .first()
            .copied()
            .ok_or_else(|| RaisedError::type_error("len() of a tensor without axes"))
    }

    fn __repr__(&self, py: Python<'_>) -> Outcome<String> {
        let tensor = self.tensor();
        wait(py, || Ok(format_repr(&tensor)))
    }

    /// `f"{loss:.4f}"`: formats a tensor without axes as a number.
    fn __format__<'py>(slf: &Bound<'py, Self>, format: &str) -> Outcome<Bound<'py, PyAny>> {
        let (py, tensor) = (slf.py(), slf.get());
        if tensor.tensor().rank() == 0 {
            return Ok(tensor.item(py)?.call_method1("__format__", (format,))?);
        }
        slf.as_any().str()?.call_method1("__format__", (format,)).map_err(|_| {
            let advice = if tensor.tensor().elements() == 1 { ": item() gives its number" } else { "" };
            RaisedError::type_error(format!(
                "format {format:?} of a tensor of shape {:?}, expected one without axes{advice}",
                tensor.tensor().dims()
            ))
        })
    }

    /// Makes operators with a NumPy array or scalar on the left call this class, too.
    #[classattr]
    fn __array_priority__() -> f64 {
        1000.0
    }

    fn __bool__(&self, py: Python<'_>) -> Outcome<bool> {
        Ok(self.single_element(py, "bool()")? != 0.0)
    }

    fn __float__(&self, py: Python<'_>) -> Outcome<f64> {
        self.single_element(py, "float()")
    }

    fn __int__<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        Ok(py.get_type::<pyo3::types::PyInt>().call1((self.item(py)?,))?)
    }

    fn __index__<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let tensor = self.tensor();
        // As for NumPy arrays: NumPy calls this method before it interprets an index as an array,
        // and would drop the axis, or count with a bool.
        if !tensor.dtype().is_int() || tensor.rank() > 0 {
            return Err(RaisedError::type_error(format!(
                "only a tensor of integers without axes is an index, got one of {} and shape {:?}: item() gives the number of one element",
                crate::dialect::dtype_name(tensor.dtype()),
                tensor.dims()
            )));
        }
        self.__int__(py)
    }

    /// Returns the only element as a Python number.
    ///
    /// Raises:
    ///     ValueError: there are several elements, or none.
    fn item<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let tensor = self.tensor();
        let number = |error: PyErr| RaisedError::from(error);
        Ok(match tensor.dtype() {
            DType::Bool => {
                let is_true = wait(py, || tensor.item_f64())? != 0.0;
                pyo3::types::PyBool::new(py, is_true).to_owned().into_any()
            }
            dtype if dtype.is_float() => wait(py, || tensor.item_f64())?
                .into_pyobject(py)
                .map_err(PyErr::from)
                .map_err(number)?
                .into_any(),
            _ => {
                let value = wait(py, || crate::create::nested::int_item(&tensor))?;
                value.into_pyobject(py).map_err(PyErr::from).map_err(number)?.into_any()
            }
        })
    }
}

impl PyTensor {
    /// Returns the only element.
    fn single_element(&self, py: Python<'_>, function: &str) -> Outcome<f64> {
        let tensor = self.tensor();
        match tensor.elements() {
            1 => wait(py, || tensor.item_f64()),
            count => Err(RaisedError::value_error(format!(
                "{function} of a tensor with {count} elements is ambiguous: reduce it, or ask for any() or all()"
            ))),
        }
    }
}

/// Returns the elements with commas and brackets, followed by all other properties.
fn format_repr(tensor: &Tensor) -> String {
    let text = tensor.to_string();
    // The last line contains shape, dtype and device.
    let numbers = text.rsplit_once('\n').map_or(&*text, |(numbers, _)| numbers);
    // Bool elements are the only words: Python capitalizes them.
    let numbers = match tensor.dtype() {
        DType::Bool => numbers.replace("true", "True").replace("false", "False"),
        _ => numbers.to_owned(),
    };
    let mut repr = format!("tensor({}", numbers.replace('\n', "\n       "));
    let is_default = matches!(tensor.dtype(), DType::I64 | DType::Bool) || tensor.dtype() == default_dtype();
    if tensor.elements() == 0 {
        repr += &format!(", size={:?}", tensor.dims());
    }
    if !is_default {
        repr += &format!(", dtype=ternion.{}", crate::dialect::dtype_name(tensor.dtype()));
    }
    if tensor.device().name() != "cpu" {
        repr += &format!(", device='{}'", tensor.device().name());
    }
    match tensor.node() {
        Some(_) if tensor.is_leaf() => repr += ", requires_grad=True",
        Some(node) => repr += &format!(", grad_fn=<{}>", node.function().name()),
        None => {}
    }
    repr + ")"
}
