//! Conversion of Python arguments to operands, sizes and axes.

use crate::error::{Outcome, RaisedError};
use crate::gil::wait;
use crate::promote::Number;
use crate::tensor::PyTensor;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyTuple, PyType};
use ternion::{Axes, Tensor};

/// The other operand of an operator.
pub enum Operand {
    Tensor(Tensor),
    Number(Number),
}

/// Returns the number in a Python or NumPy scalar, or `None` for anything else.
pub fn extract_number(object: &Bound<'_, PyAny>) -> Outcome<Option<Number>> {
    // The exact types first: nearly all numbers have one of them.
    if let Ok(value) = object.cast_exact::<PyFloat>() {
        return Ok(Some(Number::Float(value.value())));
    }
    if let Ok(value) = object.cast_exact::<PyBool>() {
        return Ok(Some(Number::Bool(value.is_true())));
    }
    if object.is_instance_of::<PyInt>() {
        return Ok(Some(Number::Int(extract_integer(object)?)));
    }
    if object.is_instance_of::<PyFloat>() {
        return Ok(Some(Number::Float(object.extract::<f64>()?)));
    }
    // NumPy's scalars have a dtype, which determines their kind. Arrays have a dtype too, but also
    // axes.
    let Ok(dtype) = object.getattr("dtype") else { return Ok(None) };
    if !object.getattr("shape")?.cast::<PyTuple>().is_ok_and(|shape| shape.is_empty()) {
        return Ok(None);
    }
    Ok(match dtype.getattr("kind").and_then(|kind| kind.extract::<char>()) {
        Ok('b') => Some(Number::Bool(object.extract::<bool>()?)),
        Ok('i' | 'u') => Some(Number::Int(extract_integer(object)?)),
        Ok('f') => Some(Number::Float(object.extract::<f64>()?)),
        _ => None,
    })
}

/// Converts an int of Python, which is unbounded, if it is in the range of int64 or uint64.
fn extract_integer(object: &Bound<'_, PyAny>) -> Outcome<i128> {
    if let Ok(value) = object.extract::<i64>() {
        return Ok(value.into());
    }
    match object.extract::<u64>() {
        Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
            Err(RaisedError::value_error(format!("the number {} does not fit int64", object.str()?)))
        }
        other => Ok(other?.into()),
    }
}

impl Operand {
    /// Returns the operand, or `None` for a type that arithmetic does not support: Python then
    /// tries the reflected method of the other operand.
    #[inline]
    pub fn of(object: &Bound<'_, PyAny>) -> Outcome<Option<Operand>> {
        if let Ok(tensor) = object.cast::<PyTensor>() {
            return Ok(Some(Operand::Tensor(tensor.get().tensor())));
        }
        Ok(extract_number(object)?.map(Operand::Number))
    }

    /// Same as `of`, but also accepts a NumPy array, whose current values are copied to the device
    /// of `tensor`.
    #[inline]
    pub fn with_arrays(object: &Bound<'_, PyAny>, tensor: &Tensor) -> Outcome<Option<Operand>> {
        match Operand::of(object)? {
            None => Ok(array_to_device(object, tensor)?.map(Operand::Tensor)),
            operand => Ok(operand),
        }
    }

    /// Same as `with_arrays` for the argument of the function `op`, which must be one of the
    /// supported types.
    pub fn for_function(op: &str, object: &Bound<'_, PyAny>, tensor: &Tensor) -> Outcome<Operand> {
        if let Some(operand) = Operand::with_arrays(object, tensor)? {
            return Ok(operand);
        }
        let kind = object.get_type().name()?.to_string();
        Err(RaisedError::type_error(format!("{op}: other is {kind}, expected a tensor or a number")))
    }
}

static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Returns whether an object is a NumPy array. NumPy need not be installed.
fn is_array(object: &Bound<'_, PyAny>) -> Outcome<bool> {
    // Nearly all objects that are not arrays lack this interface, and then NumPy is not imported.
    if !object.hasattr("__array_interface__")? {
        return Ok(false);
    }
    Ok(object.is_instance(ARRAY.import(object.py(), "numpy", "ndarray")?)?)
}

/// Returns a NumPy array as a tensor on the device of another tensor. The array is copied, because
/// gradients need its values later.
#[cold]
fn array_to_device(object: &Bound<'_, PyAny>, tensor: &Tensor) -> Outcome<Option<Tensor>> {
    if !is_array(object)? {
        return Ok(None);
    }
    let copy = object.call_method0("copy")?;
    let Some(array) = crate::numpy::array_view(&copy)? else { return Ok(None) };
    Ok(Some(wait(object.py(), || array.to_device(tensor.device()))?))
}

/// Returns an argument of `op` that must be a tensor.
pub fn extract_tensor(op: &str, argument: &str, object: &Bound<'_, PyAny>) -> Outcome<Tensor> {
    if let Ok(tensor) = object.cast::<PyTensor>() {
        return Ok(tensor.get().tensor());
    }
    let kind = object.get_type();
    let name = kind.fully_qualified_name()?;
    let message = format!(
        "{op}: {argument} of type {name}, expected a tensor: ternion.tensor() makes one of numbers and arrays"
    );
    Err(RaisedError::type_error(message))
}

/// Returns arguments that are given one by one or as one keyword argument: `zeros(2, 3)`,
/// `zeros(size=(2, 3))`.
pub fn args_or_kwargs<'py>(
    arguments: &Bound<'py, PyTuple>,
    named: Option<&Bound<'py, PyDict>>,
    name: &str,
    function: &str,
) -> Outcome<Bound<'py, PyTuple>> {
    let Some(named) = named else { return Ok(arguments.clone()) };
    for key in named.keys() {
        let key: String = key.extract()?;
        if key != name {
            return Err(RaisedError::type_error(format!(
                "{function}: got an unexpected keyword argument '{key}'"
            )));
        }
    }
    match named.get_item(name)? {
        None => Ok(arguments.clone()),
        Some(value) if arguments.is_empty() => Ok(PyTuple::new(arguments.py(), [value])?),
        Some(_) => Err(RaisedError::type_error(format!("{function}: {name} given by position and by name"))),
    }
}

/// Extracts integers that were given one by one, or as one tuple or list: `x.reshape(2, 3)`,
/// `x.reshape((2, 3))`.
pub fn extract_int_args(arguments: &Bound<'_, PyTuple>, function: &str) -> Outcome<Vec<isize>> {
    if arguments.len() == 1 {
        let only = arguments.get_item(0)?;
        // NumPy's scalars, and all objects with `__index__`, are not lists.
        if !only.is_instance_of::<PyInt>() && only.cast::<PyTensor>().is_err() && only.try_iter().is_ok() {
            return extract_ints(&only, function);
        }
    }
    extract_ints(arguments, function)
}

/// Returns numbers that are given one by one, or as one list by PyTorch's keyword.
pub fn args_or_keyword<'py>(
    function: &str,
    arguments: &Bound<'py, PyTuple>,
    (name, named): (&str, Option<&Bound<'py, PyAny>>),
) -> Outcome<Bound<'py, PyTuple>> {
    match (named, arguments.is_empty()) {
        (None, _) => Ok(arguments.clone()),
        (Some(named), true) => Ok(PyTuple::new(arguments.py(), [named])?),
        (Some(_), false) => Err(RaisedError::type_error(format!("{function}: {name} twice, expected once"))),
    }
}

pub fn extract_ints(object: &Bound<'_, PyAny>, function: &str) -> Outcome<Vec<isize>> {
    let expected = |object: &Bound<'_, PyAny>| -> Outcome<RaisedError> {
        let kind = object.get_type().name()?.to_string();
        Ok(RaisedError::type_error(format!("{function}: expected integers, got {kind}")))
    };
    let Ok(items) = object.try_iter() else { return Err(expected(object)?) };
    let mut values = Vec::new();
    for item in items {
        let item = item?;
        if item.is_exact_instance_of::<PyBool>() {
            return Err(expected(&item)?);
        }
        values.push(match item.extract::<isize>() {
            Ok(number) => number,
            Err(error) if error.is_instance_of::<PyOverflowError>(item.py()) => {
                return Err(RaisedError::value_error(format!("{function}: {} is out of range", item.str()?)));
            }
            Err(error) if error.is_instance_of::<PyTypeError>(item.py()) => return Err(expected(&item)?),
            Err(error) => return Err(error.into()),
        });
    }
    Ok(values)
}

/// Extracts sizes that were given one by one or as one tuple.
pub fn extract_sizes(arguments: &Bound<'_, PyTuple>, function: &str) -> Outcome<Vec<usize>> {
    extract_int_args(arguments, function)?.into_iter().map(|number| checked_size(number, function)).collect()
}

pub fn checked_size(number: isize, function: &str) -> Outcome<usize> {
    usize::try_from(number)
        .map_err(|_| RaisedError::value_error(format!("{function}: a size of {number}, expected 0 or more")))
}

/// A number that is a setting and not an operand. No gradient flows through it, so a tensor that
/// requires a gradient is rejected.
///
/// Arguments of functions have this type instead of `f64`, because `f64` accepts every tensor with
/// one element.
#[derive(Clone, Copy)]
pub struct Real(pub f64);

/// The error text for a tensor where a number is expected, if the tensor requires a gradient, which
/// would be lost.
pub const LOST_GRADIENT: &str =
    "expected a number, got a tensor with a gradient, which does not flow through a number: detach() it";

impl From<Real> for f64 {
    fn from(Real(value): Real) -> f64 {
        value
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Real {
    type Error = RaisedError;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Outcome<Self> {
        if let Ok(number) = object.cast_exact::<PyFloat>() {
            return Ok(Real(number.value()));
        }
        if object.cast::<PyTensor>().is_ok_and(|tensor| tensor.get().tensor().needs_grad()) {
            return Err(RaisedError::type_error(LOST_GRADIENT));
        }
        Ok(Real(object.extract::<f64>()?))
    }
}

/// Returns an argument as `float` converts it, but rejects a tensor that requires a gradient, which
/// would be lost.
#[pyfunction]
#[pyo3(signature = (value, /))]
fn _number(value: Real) -> f64 {
    value.0
}

/// Adds the function to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_number, module)?)
}

/// An integer of at least 0.
#[derive(Clone, Copy)]
pub struct Count(pub usize);

/// Converts an integer to the narrower type of the core; outside its range, returns an error with
/// the text `message`.
pub fn checked_int<T: TryFrom<i64>>(number: i64, message: impl FnOnce() -> String) -> Outcome<T> {
    T::try_from(number).map_err(|_| RaisedError::value_error(message()))
}

/// Returns the value of an argument with two names: `dim`, PyTorch's, and `axis`, NumPy's.
pub fn dim_or_axis<T>(function: &str, dim: Option<T>, axis: Option<T>) -> Outcome<Option<T>> {
    match (dim, axis) {
        (Some(_), Some(_)) => {
            Err(RaisedError::type_error(format!("{function}: both dim and axis, which are one")))
        }
        (dim, axis) => Ok(dim.or(axis)),
    }
}

/// Same as `dim_or_axis` for a required argument.
pub fn required_dim<T>(function: &str, dim: Option<T>, axis: Option<T>) -> Outcome<T> {
    dim_or_axis(function, dim, axis)?
        .ok_or_else(|| RaisedError::type_error(format!("{function}: expected dim")))
}

/// A shape that is one argument: one size or several.
pub struct ShapeArgument(pub Vec<usize>);

/// One axis or several.
pub struct AxesArgument(pub Vec<isize>);

/// Returns the given axes, or all axes if none is given.
pub fn axes(named: Option<AxesArgument>) -> Axes {
    match named {
        // As in PyTorch: an empty list means all axes.
        Some(AxesArgument(list)) if !list.is_empty() => Axes::from(&list[..]),
        _ => Axes::All,
    }
}

/// A Python seed, which may be negative, converted to an unsigned one by PyTorch's rule.
pub struct Seed(pub u64);

impl<'a, 'py> FromPyObject<'a, 'py> for Seed {
    type Error = RaisedError;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Outcome<Self> {
        if let Ok(seed) = object.extract::<u64>() {
            return Ok(Seed(seed));
        }
        match object.extract::<i64>() {
            Ok(negative) => Ok(Seed(u64::MAX.wrapping_add_signed(negative))),
            Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
                let message = format!("a seed of {}, expected -2**63 to 2**64 - 1", object.str()?);
                Err(RaisedError::value_error(message))
            }
            Err(_) => {
                let kind = object.get_type().name()?.to_string();
                Err(RaisedError::type_error(format!("a seed of type {kind}, expected an integer")))
            }
        }
    }
}
