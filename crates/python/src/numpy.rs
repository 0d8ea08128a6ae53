//! NumPy arrays that share the memory of a tensor, and tensors that share the memory of an array.

use crate::device::or_default;
use crate::error::{Outcome, RaisedError};
use crate::external_memory::{ExternalArray, address};
use crate::gil::wait;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use ternion::{DType, Tensor};

/// Returns NumPy's code of a dtype; `None` for bfloat16, which NumPy does not have.
fn typestr(dtype: DType) -> Option<&'static str> {
    let is_little = cfg!(target_endian = "little");
    Some(match (dtype, is_little) {
        (DType::F64, true) => "<f8",
        (DType::F32, true) => "<f4",
        (DType::F16, true) => "<f2",
        (DType::I64, true) => "<i8",
        (DType::I32, true) => "<i4",
        (DType::I16, true) => "<i2",
        (DType::U64, true) => "<u8",
        (DType::U32, true) => "<u4",
        (DType::U16, true) => "<u2",
        (DType::F64, false) => ">f8",
        (DType::F32, false) => ">f4",
        (DType::F16, false) => ">f2",
        (DType::I64, false) => ">i8",
        (DType::I32, false) => ">i4",
        (DType::I16, false) => ">i2",
        (DType::U64, false) => ">u8",
        (DType::U32, false) => ">u4",
        (DType::U16, false) => ">u2",
        (DType::I8, _) => "|i1",
        (DType::U8, _) => "|u1",
        (DType::Bool, _) => "|b1",
        (DType::BF16, _) => return None,
    })
}

fn dtype_of(array: &Bound<'_, PyAny>, array_typestr: &str) -> Outcome<DType> {
    DType::ALL.into_iter().find(|&dtype| typestr(dtype) == Some(array_typestr)).ok_or_else(|| {
        let numpy = DType::ALL.into_iter().filter(|&dtype| typestr(dtype).is_some());
        let known: Vec<&str> = numpy.map(crate::dialect::dtype_name).collect();
        // NumPy's name of the dtype, if the array is a NumPy array.
        let name = array.getattr("dtype").and_then(|dtype| Ok(dtype.str()?.to_string()));
        RaisedError::type_error(format!(
            "an array of dtype {}, expected one of {}: array.astype(..) makes it one",
            name.unwrap_or_else(|_| array_typestr.to_owned()),
            known.join(", ")
        ))
    })
}

/// Returns a tensor that shares the memory of an array, or of any other object that exports the
/// address of its elements; `None` for other objects. Read-only memory is copied.
pub fn array_view(object: &Bound<'_, PyAny>) -> Outcome<Option<Tensor>> {
    if let Ok(interface) = object.getattr("__array_interface__") {
        return from_interface(object, &interface.cast_into::<PyDict>().map_err(PyErr::from)?).map(Some);
    }
    if object.hasattr("__dlpack__")? {
        return crate::dlpack::import_tensor(object).map(Some);
    }
    // Pandas and other libraries create an array on request.
    if object.hasattr("__array__")? {
        let array = object.call_method0("__array__")?;
        if !array.is(object) && array.hasattr("__array_interface__")? {
            return array_view(&array);
        }
    }
    Ok(None)
}

fn from_interface(array: &Bound<'_, PyAny>, interface: &Bound<'_, PyDict>) -> Outcome<Tensor> {
    let field = |name: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        Ok(interface.get_item(name)?.filter(|value| !value.is_none()))
    };
    let missing = |name: &str| RaisedError::type_error(format!("an array interface without {name}"));
    let dtype = dtype_of(array, &field("typestr")?.ok_or_else(|| missing("typestr"))?.extract::<String>()?)?;
    let shape: Vec<usize> = field("shape")?.ok_or_else(|| missing("shape"))?.extract()?;
    // If the data field is not a tuple of an address and a read-only flag, the memory belongs to a
    // buffer object, and NumPy copies the elements.
    let Some(data) = field("data")?.filter(|data| data.is_instance_of::<PyTuple>()) else {
        return from_copy(array);
    };
    let (address, is_read_only): (usize, bool) = data.extract()?;
    let size = dtype.size() as isize;
    let strides: Vec<isize> = match field("strides")? {
        Some(bytes) => bytes.extract()?,
        None => row_major(&shape).into_iter().map(|stride| stride * size).collect(),
    };
    let fits = strides.iter().all(|stride| stride % size == 0) && address.is_multiple_of(dtype.size());
    if is_read_only || !fits {
        // A copy by NumPy is writable, contiguous and aligned.
        return from_copy(array);
    }
    let strides = strides.into_iter().map(|stride| stride / size).collect();
    let device = or_default_cpu(array.py())?;
    // The interface is an owner too: the interface of a scalar belongs to a temporary array that
    // has no other owner.
    let owner = Box::new((array.clone().unbind(), interface.clone().unbind()));
    // SAFETY: guaranteed by NumPy for its interface; the array and the interface, which are the
    // owner, keep its memory alive.
    unsafe { ExternalArray { address, dtype, shape, strides }.tensor(&device, owner) }
}

fn from_copy(array: &Bound<'_, PyAny>) -> Outcome<Tensor> {
    // The `copy` method of a scalar returns a scalar again, which some versions of NumPy export as
    // read-only.
    let copy = array.py().import("numpy")?.call_method1("array", (array,))?;
    let interface = copy.getattr("__array_interface__")?.cast_into::<PyDict>().map_err(PyErr::from)?;
    let is_read_only = match interface.get_item("data")? {
        Some(data) => data.extract::<(usize, bool)>()?.1,
        None => true,
    };
    if is_read_only {
        return Err(RaisedError::value_error("an array whose copy is read-only, too"));
    }
    from_interface(&copy, &interface)
}

fn or_default_cpu(py: Python<'_>) -> Outcome<ternion::Device> {
    or_default(py, Some(crate::device::DeviceArgument::Named("cpu".into())))
}

fn row_major(shape: &[usize]) -> Vec<isize> {
    let mut step = 1_isize;
    let mut strides: Vec<isize> = shape
        .iter()
        .rev()
        .map(|&size| {
            let stride = step;
            step = step.saturating_mul(size.max(1) as isize);
            stride
        })
        .collect();
    strides.reverse();
    strides
}

/// Creates a tensor that shares the memory of a NumPy array: a change of one is visible in the
/// other. A read-only array is copied.
///
/// Raises:
///     TypeError: the argument is not an array, or has a dtype that Ternion does not support.
#[pyfunction]
fn from_numpy(array: &Bound<'_, PyAny>) -> Outcome<PyTensor> {
    match array.getattr("__array_interface__") {
        Ok(interface) => {
            let interface = interface.cast_into::<PyDict>().map_err(PyErr::from)?;
            from_interface(array, &interface).map(PyTensor::new)
        }
        Err(_) => {
            let kind = array.get_type().name()?.to_string();
            Err(RaisedError::type_error(format!("from_numpy: expected an array of NumPy, got {kind}")))
        }
    }
}

/// Exports the address of the elements to NumPy, and keeps their memory alive.
#[pyclass(module = "ternion", frozen)]
struct Elements {
    interface: Py<PyDict>,
    _tensor: Tensor,
}

#[pymethods]
impl Elements {
    #[getter]
    fn __array_interface__(&self, py: Python<'_>) -> Py<PyDict> {
        self.interface.clone_ref(py)
    }
}

fn array_interface<'py>(py: Python<'py>, tensor: &Tensor) -> Outcome<Bound<'py, PyDict>> {
    let typestr = typestr(tensor.dtype()).ok_or_else(|| {
        RaisedError::type_error("NumPy has no bfloat16: convert the tensor with float() first")
    })?;
    let size = tensor.dtype().size() as isize;
    let strides: Vec<isize> = tensor.layout().strides().iter().map(|stride| stride * size).collect();
    let interface = PyDict::new(py);
    interface.set_item("shape", PyTuple::new(py, tensor.dims())?)?;
    interface.set_item("typestr", typestr)?;
    interface.set_item("data", (address(tensor)?, false))?;
    interface.set_item("strides", PyTuple::new(py, strides)?)?;
    interface.set_item("version", 3)?;
    Ok(interface)
}

#[pymethods]
impl PyTensor {
    /// Returns the tensor's memory as a NumPy array: a change of one is visible in the other.
    ///
    /// Args:
    ///     force: accept also a tensor that requires a gradient or is on another device, which is
    ///         then copied.
    ///
    /// Raises:
    ///     TypeError: the tensor is not on the CPU, or has a dtype that NumPy lacks.
    ///     RuntimeError: the tensor requires a gradient.
    #[pyo3(signature = (*, force=false))]
    fn numpy<'py>(&self, py: Python<'py>, force: bool) -> Outcome<Bound<'py, PyAny>> {
        let mut tensor = self.tensor();
        if force {
            let cpu = or_default_cpu(py)?;
            tensor = wait(py, || tensor.detach().to_device(&cpu))?;
        }
        if tensor.needs_grad() {
            return Err(RaisedError::runtime_error(
                "numpy() of a tensor that a gradient flows to: call detach().numpy()",
            ));
        }
        if tensor.device().name() != "cpu" {
            let interface =
                format!("numpy() of a tensor on {}: copy it with cpu() first", tensor.device().name());
            return Err(RaisedError::type_error(interface));
        }
        let elements = Elements { interface: array_interface(py, &tensor)?.unbind(), _tensor: tensor };
        Ok(py.import("numpy")?.call_method1("asarray", (Bound::new(py, elements)?,))?)
    }

    /// NumPy's protocol for conversion to an array.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> Outcome<Bound<'py, PyAny>> {
        let array = self.numpy(py, false)?;
        let array = match dtype {
            Some(dtype) => array.call_method1("astype", (dtype,))?,
            None => array,
        };
        Ok(if copy == Some(true) { array.call_method0("copy")? } else { array })
    }

    /// Returns the elements as nested lists of Python numbers, or as a number for a tensor without
    /// axes.
    fn tolist<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let tensor = self.tensor();
        let wide = match tensor.dtype() {
            DType::F16 | DType::BF16 => DType::F64,
            dtype => dtype,
        };
        let cpu = or_default_cpu(py)?;
        let host = wait(py, || tensor.detach().to_device(&cpu)?.to_dtype(wide))?;
        Ok(PyTensor::new(host).numpy(py, false)?.call_method0("tolist")?)
    }

    /// `bytes(x)`: the bytes of the elements in row-major order.
    fn __bytes__<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let cpu = or_default_cpu(py)?;
        let tensor = self.tensor();
        let host = wait(py, || tensor.detach().to_device(&cpu)?.contiguous())?;
        Ok(py
            .import("builtins")?
            .call_method1("memoryview", (PyTensor::new(host),))?
            .call_method0("tobytes")?)
    }

    /// Returns the address of the first element.
    fn data_ptr(&self) -> Outcome<usize> {
        address(&self.tensor())
    }
}

/// Adds the function to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(from_numpy, module)?)
}
