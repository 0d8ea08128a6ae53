//! `ternion.dtype`: the types of elements, under PyTorch's names.

use crate::dialect::{DTYPES, dtype_name};
use crate::error::{Outcome, RaisedError};
use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyType};
use ternion::DType;

/// The data type of a tensor's elements: ternion.float32, ternion.int64 and so on.
#[pyclass(name = "dtype", module = "ternion", frozen, eq, hash, from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PyDType(pub DType);

fn dtype_of_name(name: &str) -> Option<DType> {
    DTYPES.iter().find(|(_, names)| names.contains(&name)).map(|(dtype, _)| *dtype)
}

#[pymethods]
impl PyDType {
    fn __repr__(&self) -> String {
        format!("ternion.{}", dtype_name(self.0))
    }

    /// The size of an element in bytes.
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.size()
    }

    /// Whether the dtype is floating.
    #[getter]
    fn is_floating_point(&self) -> bool {
        self.0.is_float()
    }

    /// Returns the name in the module, which is sufficient for `pickle`.
    fn __reduce__(&self) -> &'static str {
        dtype_name(self.0)
    }
}

/// One object for each dtype, so that `x.dtype is ternion.float32` works.
static OBJECTS: PyOnceLock<Vec<Py<PyDType>>> = PyOnceLock::new();

/// Returns the object of a dtype.
pub fn object(py: Python<'_>, dtype: DType) -> PyResult<Py<PyDType>> {
    let objects = OBJECTS.get_or_try_init(py, || {
        DTYPES.iter().map(|&(dtype, _)| Py::new(py, PyDType(dtype))).collect::<PyResult<Vec<_>>>()
    })?;
    let object = DTYPES.iter().zip(objects).find(|((known, _), _)| *known == dtype);
    object.map_or_else(|| Py::new(py, PyDType(dtype)), |(_, object)| Ok(object.clone_ref(py)))
}

/// Adds the dtypes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyDType>()?;
    for (dtype, names) in DTYPES {
        let object = object(module.py(), dtype)?;
        for name in names {
            module.add(*name, object.clone_ref(module.py()))?;
        }
    }
    Ok(())
}

/// A dtype as an argument: a `ternion.dtype`, its name, a dtype of NumPy or PyTorch, or Python's
/// `float`, `int`, `bool`, which mean float64, int64 and bool.
pub struct DTypeArgument(pub DType);

impl<'a, 'py> FromPyObject<'a, 'py> for DTypeArgument {
    type Error = RaisedError;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Outcome<Self> {
        if let Ok(dtype) = object.cast::<PyDType>() {
            return Ok(DTypeArgument(dtype.get().0));
        }
        let text = match object.cast::<PyType>() {
            Ok(class) => class_dtype_name(&class),
            Err(_) => object.str()?.to_string(),
        };
        // NumPy's dtypes print as float32 or <f4, PyTorch's as torch.float32.
        let last = text.rsplit('.').next().unwrap_or_default();
        dtype_of_name(last).map(DTypeArgument).ok_or_else(|| {
            let known: Vec<&str> = DTYPES.iter().map(|(_, names)| names[0]).collect();
            RaisedError::type_error(format!(
                "dtype {text} is not known, expected one of {}",
                known.join(", ")
            ))
        })
    }
}

fn class_dtype_name(class: &Bound<'_, PyType>) -> String {
    let py = class.py();
    let known = [
        (PyFloat::type_object(py), "float64"),
        (PyInt::type_object(py), "int64"),
        (PyBool::type_object(py), "bool"),
    ];
    let name = known.iter().find(|(known, _)| class.is(known)).map(|(_, name)| (*name).to_owned());
    name.unwrap_or_else(|| class.name().map_or_else(|_| "?".into(), |name| name.to_string()))
}
