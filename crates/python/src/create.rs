//! Functions that create tensors.

pub mod nested;

use crate::arguments::{Count, LOST_GRADIENT, ShapeArgument, args_or_kwargs, extract_number, extract_sizes};
use crate::autograd::register_leaf;
use crate::device::{DeviceArgument, or_default};
use crate::dtype::DTypeArgument;
use crate::error::{Outcome, RaisedError, WithOp};
use crate::extract::of;
use crate::gil::{run, wait};
use crate::promote::{Number, default_dtype};
use crate::tensor::PyTensor;
use nested::NestedList;
pub use nested::{can_represent, is_list};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyTuple};
use ternion::{DType, Device, Result, Scalar, Shape, Tensor};

/// Wraps the tensor in an object, which requires a gradient if `requires_grad` is set.
pub fn into_object(tensor: Tensor, requires_grad: bool) -> Outcome<PyTensor> {
    if !requires_grad {
        return Ok(PyTensor::new(tensor));
    }
    if !tensor.dtype().is_float() {
        let name = crate::dialect::dtype_name(tensor.dtype());
        return Err(RaisedError::type_error(format!(
            "requires_grad of a tensor of {name}, expected a floating dtype"
        )));
    }
    let leaf = tensor.requires_grad()?;
    let object = PyTensor::new(leaf.clone());
    register_leaf(&leaf, &object.slot);
    Ok(object)
}

/// Returns the requested dtype, or `other` if none is given.
pub fn dtype_or(dtype: Option<DTypeArgument>, other: DType) -> DType {
    dtype.map_or(other, |dtype| dtype.0)
}

/// Implements `ternion.Tensor(..)`.
pub fn legacy_constructor(
    py: Python<'_>,
    args: &Bound<'_, PyTuple>,
    device: Option<DeviceArgument>,
) -> Outcome<PyTensor> {
    let device = or_default(py, device)?;
    if args.is_empty() {
        return Ok(PyTensor::new(Tensor::zeros([0], default_dtype(), &device)?));
    }
    let first = args.get_item(0)?;
    let is_data = args.len() == 1 && !first.is_instance_of::<PyInt>();
    let is_size = first.get_type().name()? == "Size";
    if is_data && !is_size {
        let result = tensor(
            py,
            &first,
            Some(DTypeArgument(default_dtype())),
            Some(DeviceArgument::Open(device)),
            false,
        );
        return result;
    }
    let shape = Shape::new(&extract_sizes(args, "Tensor")?).with_op("Tensor")?;
    run(py, shape.elements(), || Tensor::zeros(shape, default_dtype(), &device)).map(PyTensor::new)
}

/// Creates a tensor from `data`: a number, nested lists of numbers, a NumPy array or a tensor. The
/// data is copied.
///
/// Shapes: a number -> []; m lists of n numbers -> [m, n]
///
/// Args:
///     data: the values.
///     dtype: by default the dtype of the values; float32 for Python floats, int64 for ints.
///     device: by default that of get_default_device().
///     requires_grad: whether the tensor requires a gradient.
///
/// Raises:
///     ValueError: lists of different lengths, or a number that does not fit the dtype.
///     TypeError: a value that is not a number.
#[pyfunction]
#[pyo3(signature = (data, dtype=None, device=None, requires_grad=false))]
fn tensor(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    dtype: Option<DTypeArgument>,
    device: Option<DeviceArgument>,
    #[pyo3(from_py_with = of::tensor)] requires_grad: bool,
) -> Outcome<PyTensor> {
    let dtype = dtype.map(|dtype| dtype.0);
    if let Ok(source) = data.cast::<PyTensor>() {
        let source = source.get().tensor().detach();
        let device = device.map_or_else(|| Ok(source.device().clone()), |device| device.open(py))?;
        let copy = wait(py, || {
            let cast = source.to_dtype(dtype.unwrap_or(source.dtype()))?;
            if cast.device().is(&device) && cast.buffer().is(source.buffer()) {
                cast.copy()
            } else {
                cast.to_device(&device)
            }
        })?;
        return into_object(copy, requires_grad);
    }
    let device = or_default(py, device)?;
    if let Some(array) = crate::numpy::array_view(data)? {
        let copy = wait(py, || array.copy()?.to_dtype(dtype.unwrap_or(array.dtype()))?.to_device(&device))?;
        return into_object(copy, requires_grad);
    }
    let mut nested = NestedList::default();
    nested.read(data, 0)?;
    let cpu = or_default(py, Some(DeviceArgument::Named("cpu".into())))?;
    into_object(wait(py, || nested.tensor(dtype, &cpu)?.to_device(&device))?, requires_grad)
}

/// Converts `data` to a tensor, without a copy if possible: a tensor is returned itself, and a
/// NumPy array shares its memory.
///
/// Arguments and errors are those of `tensor`.
#[pyfunction]
#[pyo3(signature = (data, dtype=None, device=None))]
fn as_tensor<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    dtype: Option<DTypeArgument>,
    device: Option<DeviceArgument>,
) -> Outcome<Bound<'py, PyAny>> {
    let dtype = dtype.map(|dtype| dtype.0);
    let view = match data.cast::<PyTensor>() {
        Ok(tensor) => Some(tensor.get().tensor()),
        Err(_) => crate::numpy::array_view(data)?,
    };
    let device = match (&view, device) {
        (_, Some(device)) => device.open(py)?,
        (Some(tensor), None) if data.cast::<PyTensor>().is_ok() || tensor.device().name() != "cpu" => {
            tensor.device().clone()
        }
        _ => or_default(py, None)?,
    };
    let Some(view) = view else {
        let mut nested = NestedList::default();
        nested.read(data, 0)?;
        let cpu = or_default(py, Some(DeviceArgument::Named("cpu".into())))?;
        let result = wait(py, || nested.tensor(dtype, &cpu)?.to_device(&device))?;
        return Ok(Bound::new(py, PyTensor::new(result))?.into_any());
    };
    let dtype = dtype.unwrap_or(view.dtype());
    if data.cast::<PyTensor>().is_ok() && dtype == view.dtype() && device.is(view.device()) {
        return Ok(data.clone());
    }
    let result = wait(py, || view.to_dtype(dtype)?.to_device(&device))?;
    Ok(Bound::new(py, PyTensor::new(result))?.into_any())
}

/// The properties of a tensor to be created.
pub struct TensorOptions {
    shape: Shape,
    dtype: DType,
    pub device: Device,
    requires_grad: bool,
}

impl TensorOptions {
    pub fn new(
        py: Python<'_>,
        size: &Bound<'_, PyTuple>,
        dtype: Option<DTypeArgument>,
        device: Option<DeviceArgument>,
        requires_grad: bool,
        function: &'static str,
    ) -> Outcome<TensorOptions> {
        let shape = Shape::new(&extract_sizes(size, function)?).with_op(function)?;
        Ok(TensorOptions {
            shape,
            dtype: dtype_or(dtype, default_dtype()),
            device: or_default(py, device)?,
            requires_grad,
        })
    }

    pub fn create(
        &self,
        py: Python<'_>,
        f: impl FnOnce(Shape, DType, &Device) -> Result<Tensor> + Send,
    ) -> Outcome<PyTensor> {
        let result = run(py, self.shape.elements(), || f(self.shape, self.dtype, &self.device))?;
        into_object(result, self.requires_grad)
    }
}

macro_rules! creation_functions {
    ($($(#[$doc:meta])* $name:ident => $make:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// Shapes: -> [*size]
            ///
            /// Args:
            ///     size: the sizes, one by one or as a tuple.
            ///     dtype: float32 by default.
            ///     device: by default that of get_default_device().
            ///     requires_grad: whether the tensor requires a gradient.
            ///
            /// Raises:
            ///     ValueError: a negative size.
            ///     TypeError: a size that is not an integer, or a gradient for a dtype that is not
            ///         floating.
            #[pyfunction]
            #[pyo3(
                signature = (*size, dtype=None, device=None, requires_grad=false, **named),
                text_signature = "(*size, dtype=None, device=None, requires_grad=False)"
            )]
            fn $name(
                py: Python<'_>,
                size: &Bound<'_, PyTuple>,
                dtype: Option<DTypeArgument>,
                device: Option<DeviceArgument>,
                #[pyo3(from_py_with = of::$name)] requires_grad: bool,
                named: Option<&Bound<'_, PyDict>>,
            ) -> Outcome<PyTensor> {
                let size = &args_or_kwargs(size, named, "size", stringify!($name))?;
                TensorOptions::new(py, size, dtype, device, requires_grad, stringify!($name))?.create(py, $make)
            }
        )*

        fn register_shapes(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add_function(wrap_pyfunction!($name, module)?)?;)*
            Ok(())
        }
    };
}

creation_functions! {
    /// Returns a tensor filled with zeros.
    zeros => Tensor::zeros;
    /// Returns a tensor filled with ones.
    ones => Tensor::ones;
    /// Returns a tensor with unspecified contents, which are zeros in this implementation.
    empty => Tensor::zeros;
}

/// Returns a tensor filled with `fill_value`.
///
/// Shapes: -> [*size]
///
/// Args:
///     size: the sizes, a tuple.
///     fill_value: the value.
///     dtype: by default the dtype of the value: float32, int64 or bool.
///     device: by default that of get_default_device().
///
/// Raises:
///     TypeError: a value that is not a number.
///     ValueError: a negative size.
#[pyfunction]
#[pyo3(signature = (size, fill_value, dtype=None, device=None, requires_grad=false))]
fn full(
    py: Python<'_>,
    #[pyo3(from_py_with = of::full)] size: ShapeArgument,
    fill_value: &Bound<'_, PyAny>,
    dtype: Option<DTypeArgument>,
    device: Option<DeviceArgument>,
    #[pyo3(from_py_with = of::full)] requires_grad: bool,
) -> Outcome<PyTensor> {
    let value = number_argument(fill_value, "full")?;
    let (shape, device) = (Shape::new(&size.0).with_op("full")?, or_default(py, device)?);
    let dtype = dtype_or(dtype, value.dtype());
    let result = run(py, shape.elements(), || Tensor::full(shape, value.scalar(), dtype, &device))?;
    into_object(result, requires_grad)
}

/// Returns a Python number, or an error that says that one is expected.
pub fn number_argument(object: &Bound<'_, PyAny>, function: &str) -> Outcome<Number> {
    match object.cast::<PyTensor>() {
        Ok(tensor) if tensor.get().tensor().needs_grad() => {
            Err(RaisedError::type_error(format!("{function}: {LOST_GRADIENT}")))
        }
        _ => number_value(object, function),
    }
}

/// Returns the error for a tensor that is given for a number but does not have exactly one element.
pub fn single_element_error(function: &str, tensor: &Tensor) -> RaisedError {
    RaisedError::type_error(format!(
        "{function}: expected a number, got a tensor of shape {:?}",
        tensor.dims()
    ))
}

/// Same as `number_argument`, but also reads the value of a tensor that requires a gradient; for
/// calls that record none.
pub fn number_value(object: &Bound<'_, PyAny>, function: &str) -> Outcome<Number> {
    if let Ok(tensor) = object.cast::<PyTensor>() {
        let tensor = tensor.get().tensor();
        if tensor.elements() != 1 {
            return Err(single_element_error(function, &tensor));
        }
        return Ok(match tensor.dtype() {
            dtype if dtype.is_float() => Number::Float(tensor.item_f64()?),
            DType::Bool => Number::Bool(tensor.item_f64()? != 0.0),
            _ => Number::Int(nested::int_item(&tensor)?),
        });
    }
    match extract_number(object)? {
        Some(number) => Ok(number),
        None => {
            let kind = object.get_type().name()?.to_string();
            Err(RaisedError::type_error(format!("{function}: expected a number, got {kind}")))
        }
    }
}

/// Returns the numbers from `start` up to, but not including, `end` with distance `step`:
/// `arange(end)`, `arange(start, end)`, `arange(start, end, step)`.
///
/// The dtype is int64 if all arguments are ints, otherwise float32.
///
/// Shapes: -> [n]
///
/// Raises:
///     ValueError: a step of 0, or a step that leads away from `end`.
///     TypeError: an argument that is not a number.
#[pyfunction]
#[pyo3(signature = (start, end=None, step=None, dtype=None, device=None, requires_grad=false))]
fn arange(
    py: Python<'_>,
    start: &Bound<'_, PyAny>,
    end: Option<&Bound<'_, PyAny>>,
    step: Option<&Bound<'_, PyAny>>,
    dtype: Option<DTypeArgument>,
    device: Option<DeviceArgument>,
    #[pyo3(from_py_with = of::arange)] requires_grad: bool,
) -> Outcome<PyTensor> {
    let first = number_argument(start, "arange")?;
    let (start, end) = match end {
        Some(end) => (first, number_argument(end, "arange")?),
        None => (Number::Int(0), first),
    };
    let step = step.map_or(Ok(Number::Int(1)), |step| number_argument(step, "arange"))?;
    let is_integer = [start, end, step].iter().all(|number| !matches!(number, Number::Float(_)));
    let dtype = dtype_or(dtype, if is_integer { DType::I64 } else { default_dtype() });
    let device = or_default(py, device)?;
    let result = wait(py, || Tensor::arange(start.scalar(), end.scalar(), step.scalar(), dtype, &device))?;
    into_object(result, requires_grad)
}

/// Returns `steps` evenly spaced numbers from `start` to `end`, both included. For integer dtypes
/// `start` and `end` are truncated first, and then the results.
///
/// Shapes: -> [steps]
///
/// Raises:
///     ValueError: a negative number of steps.
#[pyfunction]
#[pyo3(signature = (start, end, steps, dtype=None, device=None, requires_grad=false))]
fn linspace(
    py: Python<'_>,
    #[pyo3(from_py_with = of::linspace)] start: f64,
    #[pyo3(from_py_with = of::linspace)] end: f64,
    #[pyo3(from_py_with = of::linspace)] steps: Count,
    dtype: Option<DTypeArgument>,
    device: Option<DeviceArgument>,
    #[pyo3(from_py_with = of::linspace)] requires_grad: bool,
) -> Outcome<PyTensor> {
    let (dtype, device, Count(steps)) = (dtype_or(dtype, default_dtype()), or_default(py, device)?, steps);
    into_object(run(py, steps, || Tensor::linspace(start, end, steps, dtype, &device))?, requires_grad)
}

/// Returns a matrix of `n` rows and `m` columns (`n` by default) with ones on the diagonal and
/// zeros elsewhere.
///
/// Shapes: -> [n, m]
///
/// Raises:
///     ValueError: a negative size.
#[pyfunction]
#[pyo3(signature = (n, m=None, *, dtype=None, device=None, requires_grad=false))]
fn eye(
    py: Python<'_>,
    #[pyo3(from_py_with = of::eye)] n: Count,
    #[pyo3(from_py_with = of::eye)] m: Option<Count>,
    dtype: Option<DTypeArgument>,
    device: Option<DeviceArgument>,
    #[pyo3(from_py_with = of::eye)] requires_grad: bool,
) -> Outcome<PyTensor> {
    let (dtype, device) = (dtype_or(dtype, default_dtype()), or_default(py, device)?);
    let (rows, columns) = (n.0, m.map_or(n.0, |m| m.0));
    let elements = rows.saturating_mul(columns);
    let result = run(py, elements, || {
        if rows == columns {
            return Tensor::eye(rows, dtype, &device);
        }
        let matrix = Tensor::zeros([rows, columns], dtype, &device)?;
        let end = (rows.min(columns) * (columns + 1)).min(elements);
        let diagonal = matrix.reshape([elements])?.slice_axis(0, 0, end as isize, columns as isize + 1)?;
        diagonal.fill_(1)?;
        Ok(matrix)
    })?;
    into_object(result, requires_grad)
}

/// Returns uniform random numbers in [0, 1): with 24 random bits, as in the core, but with all 53
/// bits of float64, from three draws.
pub fn uniform(shape: Shape, dtype: DType, device: &Device) -> Result<Tensor> {
    let high = Tensor::rand(shape, dtype, device)?;
    if dtype != DType::F64 {
        return Ok(high);
    }
    let bits = |before: i32, count: i32| {
        let samples = Tensor::rand(shape, dtype, device)?.mul_scalar(2_f64.powi(count))?.floor()?;
        samples.mul_scalar(2_f64.powi(-before - count))
    };
    high.add(&bits(24, 24)?)?.add(&bits(48, 5)?)
}

macro_rules! like {
    ($($(#[$doc:meta])* $name:ident => $make:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// Shapes: [..] -> the same
            ///
            /// Raises:
            ///     TypeError: an input that is not a tensor, or an unsuitable dtype.
            #[pyfunction]
            #[pyo3(signature = (input, *, dtype=None, device=None, requires_grad=false, memory_format=None))]
            fn $name(
                py: Python<'_>,
                #[pyo3(from_py_with = of::$name)] input: Bound<'_, PyTensor>,
                dtype: Option<DTypeArgument>,
                device: Option<DeviceArgument>,
                #[pyo3(from_py_with = of::$name)] requires_grad: bool,
                memory_format: Option<&Bound<'_, PyAny>>,
            ) -> Outcome<PyTensor> {
                let _ = memory_format;
                let input = input.get().tensor();
                let device = device.map_or_else(|| Ok(input.device().clone()), |device| device.open(py))?;
                let dtype = dtype_or(dtype, input.dtype());
                let make: fn(Shape, DType, &Device) -> Result<Tensor> = $make;
                let create = || make(*input.shape(), dtype, &device).with_op(stringify!($name));
                into_object(run(py, input.elements(), create)?, requires_grad)
            }
        )*

        fn register_likes(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add_function(wrap_pyfunction!($name, module)?)?;)*
            Ok(())
        }
    };
}

like! {
    /// Returns zeros with the shape, dtype and device of `input`.
    zeros_like => |shape, dtype, device| Tensor::zeros(shape, dtype, device);
    /// Returns ones with the shape, dtype and device of `input`.
    ones_like => |shape, dtype, device| Tensor::ones(shape, dtype, device);
    /// Returns a tensor with unspecified contents (zeros in this implementation), with the shape,
    /// dtype and device of `input`.
    empty_like => |shape, dtype, device| Tensor::zeros(shape, dtype, device);
    /// Returns uniform random numbers in [0, 1), with the shape, dtype and device of `input`.
    rand_like => uniform;
    /// Returns random numbers from the standard normal distribution, with the shape, dtype and
    /// device of `input`.
    randn_like => |shape, dtype, device| Tensor::randn(shape, dtype, device);
}

/// Returns a tensor filled with `fill_value`, with the shape, dtype and device of `input`.
///
/// Shapes: [..] -> the same
///
/// Raises:
///     TypeError: a value that is not a number.
#[pyfunction]
#[pyo3(signature = (input, fill_value, *, dtype=None, device=None, requires_grad=false, memory_format=None))]
fn full_like(
    py: Python<'_>,
    #[pyo3(from_py_with = of::full_like)] input: Bound<'_, PyTensor>,
    fill_value: &Bound<'_, PyAny>,
    dtype: Option<DTypeArgument>,
    device: Option<DeviceArgument>,
    #[pyo3(from_py_with = of::full_like)] requires_grad: bool,
    memory_format: Option<&Bound<'_, PyAny>>,
) -> Outcome<PyTensor> {
    let _ = memory_format;
    let value: Scalar = number_argument(fill_value, "full_like")?.scalar();
    let input = input.get().tensor();
    let device = device.map_or_else(|| Ok(input.device().clone()), |device| device.open(py))?;
    let dtype = dtype_or(dtype, input.dtype());
    into_object(
        run(py, input.elements(), || Tensor::full(*input.shape(), value, dtype, &device))?,
        requires_grad,
    )
}

/// Creates a tensor from the bytes of its elements, which `pickle` has stored.
#[pyfunction]
fn _rebuild(
    py: Python<'_>,
    bytes: &[u8],
    #[pyo3(from_py_with = of::size)] shape: ShapeArgument,
    dtype: DTypeArgument,
    requires_grad: bool,
) -> Outcome<PyTensor> {
    let (shape, device) = (Shape::new(&shape.0)?, or_default(py, Some(DeviceArgument::Named("cpu".into())))?);
    if dtype.0.bytes_for(shape.elements()) != Some(bytes.len()) {
        return Err(RaisedError::value_error(format!(
            "{} bytes for a tensor of shape {:?}",
            bytes.len(),
            shape.dims()
        )));
    }
    let result = Tensor::zeros(shape, dtype.0, &device)?;
    device.backend().upload(bytes, result.buffer(), 0)?;
    into_object(result, requires_grad)
}

#[pymethods]
impl PyTensor {
    /// Returns the values for `pickle` and `copy`. A tensor of another device is restored on the
    /// CPU.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Outcome<Reduced<'py>> {
        let (py, tensor) = (slf.py(), slf.get().tensor());
        let bytes = wait(py, || tensor.to_bytes())?;
        let rebuild = py.import("ternion._ternion")?.getattr("_rebuild")?;
        let shape = tensor.dims().to_vec();
        Ok((
            rebuild,
            (PyBytes::new(py, &bytes), shape, crate::dialect::dtype_name(tensor.dtype()), tensor.is_leaf()),
        ))
    }
}

/// A function and the arguments with which it recreates the object.
type Reduced<'py> = (Bound<'py, PyAny>, (Bound<'py, PyBytes>, Vec<usize>, &'static str, bool));

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_shapes(module)?;
    register_likes(module)?;
    module.add_function(wrap_pyfunction!(tensor, module)?)?;
    module.add_function(wrap_pyfunction!(as_tensor, module)?)?;
    module.add_function(wrap_pyfunction!(full, module)?)?;
    module.add_function(wrap_pyfunction!(full_like, module)?)?;
    module.add_function(wrap_pyfunction!(arange, module)?)?;
    module.add_function(wrap_pyfunction!(linspace, module)?)?;
    module.add_function(wrap_pyfunction!(eye, module)?)?;
    module.add_function(wrap_pyfunction!(_rebuild, module)?)
}
