//! `ternion.Tensor`: a handle on a tensor, with the place where its gradient is gathered.

use crate::autograd::{self, OwnSlot};
use crate::device::PyDevice;
use crate::dtype::PyDType;
use crate::error::{Failure, Outcome};
use crate::expected::of;
use crate::promote::default_dtype;
use crate::run::{run, wait};
use crate::shared::Value;
use parking_lot::RwLock;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use ternion::nn::{Param, StateTensor};
use ternion::{Axes, DType, Tensor};

/// An n-dimensional array on a device: ternion.tensor and its kin make them.
///
/// Methods have the names and meanings of PyTorch's. Views share memory; `requires_grad` asks for a gradient, which `backward` of what was computed
/// from it adds to `grad`.
#[pyclass(name = "Tensor", module = "ternion", frozen, subclass, weakref, dict)]
pub struct PyTensor {
    handle: Handle,
    /// Where the gradient is gathered, if the tensor asks for one itself.
    pub(crate) slot: OwnSlot,
}

/// What the object stands for: a tensor, or a cell of a layer, whose tensor may be replaced (another dtype or device).
pub(crate) enum Handle {
    Value(RwLock<Value>),
    Param(Param),
    State(StateTensor),
}

impl PyTensor {
    #[inline]
    pub fn new(tensor: Tensor) -> PyTensor {
        PyTensor { handle: Handle::Value(RwLock::new(Value::new(tensor))), slot: OwnSlot::default() }
    }

    pub fn of_param(param: Param) -> PyTensor {
        let slot = OwnSlot::default();
        autograd::register_param(&param, &slot);
        PyTensor { handle: Handle::Param(param), slot }
    }

    pub fn of_state(state: StateTensor) -> PyTensor {
        PyTensor { handle: Handle::State(state), slot: OwnSlot::default() }
    }

    /// The tensor as it is now.
    #[inline]
    pub fn tensor(&self) -> Tensor {
        match &self.handle {
            Handle::Value(place) => {
                let value = place.read();
                if value.is_alone() {
                    return value.tensor.clone();
                }
                drop(value);
                renewed(place)
            }
            Handle::Param(param) => param.tensor(),
            Handle::State(state) => state.tensor(),
        }
    }

    /// Whether the node that computed the tensor goes with this object. No while another thread replaces the tensor: nothing of it is to be collected then.
    fn is_sole_owner_of_node(&self) -> bool {
        let Handle::Value(place) = &self.handle else { return false };
        place.try_read().is_some_and(|value| value.tensor.is_sole_owner_of_node())
    }

    /// The parameter that this object stands for.
    pub fn param(&self) -> Option<&Param> {
        match &self.handle {
            Handle::Param(param) => Some(param),
            _ => None,
        }
    }

    /// Puts another tensor in the place of this one's.
    pub fn replace(&self, tensor: Tensor) -> Outcome<()> {
        match &self.handle {
            Handle::Value(place) => *place.write() = Value::new(tensor),
            Handle::Param(param) => param.replace(tensor)?,
            Handle::State(state) => state.replace(tensor),
        }
        Ok(())
    }

    /// As `replace`, if the tensor is still `before`, unchanged; whether it was. (A parameter or a buffer is replaced in any case.)
    pub fn replace_if(&self, before: &Tensor, tensor: Tensor) -> Outcome<bool> {
        let Handle::Value(place) = &self.handle else { return self.replace(tensor).map(|()| true) };
        let mut place = place.write();
        let is_same = place.tensor.buffer().is(before.buffer()) && place.tensor.layout() == before.layout();
        if is_same {
            *place = Value::new(tensor);
        }
        Ok(is_same)
    }

    /// What `f` makes of the tensor.
    #[inline]
    pub fn map(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&Tensor) -> ternion::Result<Tensor> + Send,
    ) -> Outcome<PyTensor> {
        let tensor = self.tensor();
        let result = run(py, tensor.elements(), || f(&tensor))?;
        Ok(self.shown(&tensor, result))
    }

    /// As `map`, of what has memory of its own, though the values may be those of the tensor in another order: what is done to it in place is seen nowhere else.
    pub fn map_apart(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&Tensor) -> ternion::Result<Tensor> + Send,
    ) -> Outcome<PyTensor> {
        self.map(py, |x| match f(x)? {
            shared if shared.buffer().is(x.buffer()) => shared.copy(),
            own => Ok(own),
        })
    }

    /// As `map`, of what runs along axes: a tensor without axes stands for one of size 1, which 0 and -1 name, as in PyTorch.
    pub fn along(
        &self,
        py: Python<'_>,
        axes: impl Into<Axes>,
        f: impl FnOnce(&Tensor) -> ternion::Result<Tensor> + Send,
    ) -> Outcome<PyTensor> {
        let axes = axes.into();
        self.map(py, |x| match stands_for_one(x, &axes) {
            true => f(&x.reshape([1_usize])?)?.reshape(()),
            false => f(x),
        })
    }

    /// What was made of `tensor`, this object's: if it is a recorded view, the two objects see each other's changes.
    #[inline]
    pub fn shown(&self, tensor: &Tensor, result: Tensor) -> PyTensor {
        if result.buffer().is(tensor.buffer()) {
            let value = self.view_value(tensor, result);
            return PyTensor { handle: Handle::Value(RwLock::new(value)), slot: OwnSlot::default() };
        }
        PyTensor::new(result)
    }

    #[cold]
    fn view_value(&self, tensor: &Tensor, result: Tensor) -> Value {
        match &self.handle {
            _ if !result.needs_grad() => Value::new(apart(result)),
            Handle::Value(place) => place.write().view(tensor, result),
            _ => Value::new(result),
        }
    }

    /// Puts what was recorded into the place of this object's tensor: what is done in place to a tensor that a gradient flows to, or is to flow to.
    pub fn put_recorded(&self, py: Python<'_>, result: Tensor) -> Outcome<()> {
        match &self.handle {
            Handle::Value(place) => wait(py, || Ok(place.write().put(result)))?,
            _ => self.replace(result),
        }
    }

    /// Makes this object the one that `view` is, which was made of it: what changes the form of a tensor in place. Others on its memory keep their forms.
    pub fn take_form(&self, view: &PyTensor) -> Outcome<()> {
        may_change(&self.tensor())?;
        match (&self.handle, &view.handle) {
            (Handle::Value(own), Handle::Value(other)) if !std::ptr::eq(own, other) => {
                std::mem::swap(&mut *own.write(), &mut *other.write());
                Ok(())
            }
            (Handle::Value(_), Handle::Value(_)) => Ok(()),
            _ => self.replace(view.tensor()),
        }
    }

    /// Changes the tensor in place: by `in_place`, or, where a gradient flows to it or to one of the other operands, by taking over what `recorded` makes.
    pub fn change<'py>(
        slf: &Bound<'py, PyTensor>,
        others: &[&Tensor],
        recorded: impl FnOnce(&Tensor) -> ternion::Result<Tensor> + Send,
        in_place: impl FnOnce(&Tensor) -> ternion::Result<()> + Send,
    ) -> Outcome<Bound<'py, PyTensor>> {
        let (py, tensor) = (slf.py(), slf.get().tensor());
        may_change(&tensor)?;
        if is_recorded(&[&tensor]) || is_recorded(others) {
            let result = run(py, tensor.elements(), || recorded(&tensor))?;
            slf.get().put_recorded(py, result)?;
        } else {
            run(py, tensor.elements(), || in_place(&tensor))?;
        }
        Ok(slf.clone())
    }
}

/// Whether a tensor has no axes, and the one is named that it stands for.
pub fn stands_for_one(x: &Tensor, axes: &Axes) -> bool {
    x.rank() == 0 && matches!(axes, Axes::List(named) if matches!(named[..], [0 | -1]))
}

/// A plain tensor with a handle of its own on its memory, so that it is known whether another object has one.
pub fn apart(tensor: Tensor) -> Tensor {
    let again =
        Tensor::from_buffer(tensor.buffer().clone(), *tensor.layout(), tensor.dtype(), tensor.device());
    // It fits: the layout is that of this very buffer.
    again.unwrap_or(tensor)
}

/// The tensor of an object that shares memory with others, after what was done to them.
#[cold]
fn renewed(place: &RwLock<Value>) -> Tensor {
    let value = place.read();
    if value.is_current() {
        return value.tensor.clone();
    }
    drop(value);
    place.write().renewed()
}

/// Whether what is computed of these tensors is recorded.
pub fn is_recorded(tensors: &[&Tensor]) -> bool {
    ternion::autograd::is_recording() && tensors.iter().any(|tensor| tensor.needs_grad())
}

/// `ternion.Size`, a tuple.
static SIZE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Sizes as Python has them.
fn size_object<'py>(py: Python<'py>, dims: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    let class =
        SIZE.get_or_try_init(py, || Ok::<_, PyErr>(py.import("ternion._size")?.getattr("Size")?.unbind()))?;
    class.bind(py).call1((PyTuple::new(py, dims)?,))
}

/// Whether a tensor may be changed in place: one that asks for its gradient only where nothing is recorded.
pub fn may_change(tensor: &Tensor) -> Outcome<()> {
    if ternion::autograd::is_recording() && tensor.shows_leaf() {
        return Err(Failure::state(
            "a tensor that asks for its gradient, or a view of one, is changed in place: do it within no_grad(), or take the form that returns a new tensor",
        ));
    }
    Ok(())
}

#[pymethods]
impl PyTensor {
    /// A tensor of the default dtype: of these sizes, filled with zeros, or with the values of a list, an array or a tensor. `ternion.tensor` and
    /// `ternion.zeros` say which is meant.
    #[new]
    #[pyo3(signature = (*args, device=None))]
    fn new_of(
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        device: Option<crate::device::DeviceArgument>,
    ) -> Outcome<PyTensor> {
        crate::create::legacy(py, args, device)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(slot) = self.slot.made() else { return Ok(()) };
        slot.traverse(&visit)?;
        if self.is_sole_owner_of_node() { slot.traverse_segment(&visit) } else { Ok(()) }
    }

    fn __clear__(&self) {
        let Some(slot) = self.slot.made() else { return };
        slot.forget_hooks();
        if self.is_sole_owner_of_node() {
            slot.forget_segment();
        }
    }

    /// Whether it is on a CUDA device.
    #[getter]
    fn is_cuda(&self) -> bool {
        self.tensor().device().name().starts_with("cuda")
    }

    /// Whether it is on the processor.
    #[getter]
    fn is_cpu(&self) -> bool {
        self.tensor().device().name() == "cpu"
    }

    /// The sizes, a tuple.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        size_object(py, self.tensor().dims())
    }

    /// The sizes, or that of one axis.
    ///
    /// Raises:
    ///     IndexError: there is no such axis.
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

    /// How many elements lie between neighbours along each axis, or along one.
    ///
    /// Raises:
    ///     IndexError: there is no such axis.
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

    /// Where in its memory the first element is, counted in elements.
    fn storage_offset(&self) -> usize {
        self.tensor().layout().offset()
    }

    /// How often the memory was changed in place.
    #[getter]
    fn _version(&self) -> u64 {
        self.tensor().buffer().version()
    }

    /// The number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.tensor().rank()
    }

    /// The number of axes.
    fn dim(&self) -> usize {
        self.tensor().rank()
    }

    /// The number of elements.
    fn numel(&self) -> usize {
        self.tensor().elements()
    }

    /// Bytes of an element.
    fn element_size(&self) -> usize {
        self.tensor().dtype().size()
    }

    /// Bytes of an element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.tensor().dtype().size()
    }

    /// Bytes of all elements.
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

    /// Where the elements are.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice(self.tensor().device().clone())
    }

    /// Whether the elements are stored one after the other in row-major order, or in that of `memory_format`: channels last, behind height and width.
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

    /// Whether the dtype is a floating one.
    fn is_floating_point(&self) -> bool {
        self.tensor().dtype().is_float()
    }

    fn __len__(&self) -> Outcome<usize> {
        let tensor = self.tensor();
        tensor.dims().first().copied().ok_or_else(|| Failure::kind("len() of a tensor without axes"))
    }

    fn __repr__(&self, py: Python<'_>) -> Outcome<String> {
        let tensor = self.tensor();
        wait(py, || Ok(described(&tensor)))
    }

    /// `f"{loss:.4f}"`: that of the number, for a tensor of no axes.
    fn __format__<'py>(slf: &Bound<'py, Self>, format: &str) -> Outcome<Bound<'py, PyAny>> {
        let (py, tensor) = (slf.py(), slf.get());
        if tensor.tensor().rank() == 0 {
            return Ok(tensor.item(py)?.call_method1("__format__", (format,))?);
        }
        slf.as_any().str()?.call_method1("__format__", (format,)).map_err(|_| {
            let advice = if tensor.tensor().elements() == 1 { ": item() gives its number" } else { "" };
            Failure::kind(format!(
                "format {format:?} of a tensor of shape {:?}, expected one without axes{advice}",
                tensor.tensor().dims()
            ))
        })
    }

    /// Operators with an array or a number of NumPy on the left are this class's, too.
    #[classattr]
    fn __array_priority__() -> f64 {
        1000.0
    }

    fn __bool__(&self, py: Python<'_>) -> Outcome<bool> {
        Ok(self.only(py, "bool()")? != 0.0)
    }

    fn __float__(&self, py: Python<'_>) -> Outcome<f64> {
        self.only(py, "float()")
    }

    fn __int__<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        Ok(py.get_type::<pyo3::types::PyInt>().call1((self.item(py)?,))?)
    }

    fn __index__<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let tensor = self.tensor();
        // As NumPy's arrays: NumPy asks for this number before it takes an index as an array, and would lose the axis, or count with a truth value.
        if !tensor.dtype().is_int() || tensor.rank() > 0 {
            return Err(Failure::kind(format!(
                "only a tensor of whole numbers without axes is an index, got one of {} and shape {:?}: item() gives the number of one element",
                crate::dialect::dtype_name(tensor.dtype()),
                tensor.dims()
            )));
        }
        self.__int__(py)
    }

    /// The only element, as a number of Python.
    ///
    /// Raises:
    ///     ValueError: there are several elements, or none.
    fn item<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let tensor = self.tensor();
        let number = |error: PyErr| Failure::from(error);
        Ok(match tensor.dtype() {
            DType::Bool => {
                let truth = wait(py, || tensor.item_f64())? != 0.0;
                pyo3::types::PyBool::new(py, truth).to_owned().into_any()
            }
            dtype if dtype.is_float() => wait(py, || tensor.item_f64())?
                .into_pyobject(py)
                .map_err(PyErr::from)
                .map_err(number)?
                .into_any(),
            _ => {
                let value = wait(py, || crate::create::nested::whole_item(&tensor))?;
                value.into_pyobject(py).map_err(PyErr::from).map_err(number)?.into_any()
            }
        })
    }
}

impl PyTensor {
    /// The only element.
    fn only(&self, py: Python<'_>, asked: &str) -> Outcome<f64> {
        let tensor = self.tensor();
        match tensor.elements() {
            1 => wait(py, || tensor.item_f64()),
            count => Err(Failure::value(format!(
                "{asked} of a tensor with {count} elements is ambiguous: reduce it, or ask for any() or all()"
            ))),
        }
    }
}

/// The numbers with commas and brackets, and what else there is to know.
fn described(tensor: &Tensor) -> String {
    let text = tensor.to_string();
    // The last line tells shape, dtype and device.
    let numbers = text.rsplit_once('\n').map_or(&*text, |(numbers, _)| numbers);
    // Truth values are the only words: Python writes them with a capital.
    let numbers = match tensor.dtype() {
        DType::Bool => numbers.replace("true", "True").replace("false", "False"),
        _ => numbers.to_owned(),
    };
    let mut told = format!("tensor({}", numbers.replace('\n', "\n       "));
    let usual = matches!(tensor.dtype(), DType::I64 | DType::Bool) || tensor.dtype() == default_dtype();
    if tensor.elements() == 0 {
        told += &format!(", size={:?}", tensor.dims());
    }
    if !usual {
        told += &format!(", dtype=ternion.{}", crate::dialect::dtype_name(tensor.dtype()));
    }
    if tensor.device().name() != "cpu" {
        told += &format!(", device='{}'", tensor.device().name());
    }
    match tensor.node() {
        Some(_) if tensor.is_leaf() => told += ", requires_grad=True",
        Some(node) => told += &format!(", grad_fn=<{}>", node.function().name()),
        None => {}
    }
    told + ")"
}
