//! Numbers of Python and NumPy in nested lists.

use crate::arguments::extract_number;
use crate::dtype::DTypeArgument;
use crate::error::{Outcome, RaisedError};
use crate::promote::{Number, default_dtype, promote_types};
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyList, PyRange, PyTuple};
use ternion::{DType, Device, Error, MAX_RANK, Result, Shape, Tensor, text};

/// Numbers from nested lists: their shape, and the values in row-major order.
#[derive(Default)]
pub struct NestedList {
    shape: Vec<usize>,
    numbers: Vec<Number>,
    dtype: Option<DType>,
}

/// Returns whether an object is a sequence whose items are read as numbers, or as lists of numbers.
pub fn is_list(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyList>()
        || object.is_instance_of::<PyTuple>()
        || object.is_instance_of::<PyRange>()
}

impl NestedList {
    pub fn read(&mut self, object: &Bound<'_, PyAny>, depth: usize) -> Outcome<()> {
        if let Ok(tensor) = object.cast::<PyTensor>() {
            let tensor = tensor.get().tensor();
            let number = match tensor.dtype() {
                dtype if dtype.is_int() => Number::Int(int_item(&tensor)?),
                _ => Number::Float(tensor.item_f64()?),
            };
            return self.push(number, tensor.dtype(), depth);
        }
        if let Some(number) = extract_number(object)? {
            return self.push(number, scalar_dtype(object).unwrap_or(number.dtype()), depth);
        }
        if object.hasattr("__array_interface__")? {
            return self.read_array(object, depth);
        }
        if !is_list(object) {
            let kind = object.get_type().name()?.to_string();
            return Err(RaisedError::type_error(format!(
                "tensor: expected numbers, lists of them or an array, got {kind}"
            )));
        }
        // A list that contains itself is infinitely deep.
        if depth == MAX_RANK {
            return Err(RaisedError::value_error(format!(
                "tensor: lists within lists, expected at most {MAX_RANK} deep"
            )));
        }
        let count = object.len()?;
        match self.shape.get(depth) {
            None if self.numbers.is_empty() => self.shape.push(count),
            Some(&expected) if expected == count => {}
            _ => {
                let expected =
                    self.shape.get(depth).map_or("a number".into(), |size| format!("{size} items"));
                return Err(RaisedError::value_error(format!(
                    "tensor: a list of {count} items at depth {depth}, expected {expected}"
                )));
            }
        }
        object.try_iter()?.try_for_each(|item| self.read(&item?, depth + 1))
    }

    /// Reads the numbers of an array in a list, with the array's dtype.
    fn read_array(&mut self, array: &Bound<'_, PyAny>, depth: usize) -> Outcome<()> {
        let Some(view) = crate::numpy::array_view(array)? else { return Ok(()) };
        let (before, dtype) = (self.dtype, view.dtype());
        self.read(&array.call_method0("tolist")?, depth)?;
        self.dtype = Some(before.map_or(dtype, |before| promote_or_int64(before, dtype)));
        Ok(())
    }

    fn push(&mut self, number: Number, value_dtype: DType, depth: usize) -> Outcome<()> {
        if depth != self.shape.len() {
            let expected = self.shape.get(depth).map_or(String::new(), |size| format!("{size} items"));
            return Err(RaisedError::value_error(format!(
                "tensor: a number at depth {depth}, expected a list of {expected}"
            )));
        }
        self.dtype = Some(self.dtype.map_or(value_dtype, |dtype| promote_or_int64(dtype, value_dtype)));
        self.numbers.push(number);
        Ok(())
    }

    /// Returns the tensor, on the CPU: not every device supports the dtypes of Python's numbers.
    pub fn tensor(self, dtype: Option<DType>, cpu: &Device) -> Result<Tensor> {
        let shape = Shape::new(&self.shape)?;
        let exact = |number: &Number| match *number {
            Number::Bool(value) => i128::from(value),
            Number::Int(value) => value,
            Number::Float(value) => value as i128,
        };
        let real = |number: &Number| match *number {
            Number::Float(value) => value,
            ref other => exact(other) as f64,
        };
        let inferred_dtype = self.dtype.unwrap_or_else(default_dtype);
        let dtype = dtype.unwrap_or(inferred_dtype);
        if let Some(number) = self.numbers.iter().find(|number| !can_represent(dtype, **number)) {
            return Err(Error::invalid("tensor", text![format!("the number {number} does not fit "), dtype]));
        }
        let is_large = |number: &Number| exact(number) > i64::MAX.into();
        let all = if inferred_dtype.is_float() || (dtype.is_float() && self.numbers.iter().any(is_large)) {
            Tensor::from_vec(self.numbers.iter().map(real).collect(), shape, cpu)
        } else if dtype == DType::U64 {
            Tensor::from_vec(self.numbers.iter().map(|number| exact(number) as u64).collect(), shape, cpu)
        } else {
            Tensor::from_vec(self.numbers.iter().map(|number| exact(number) as i64).collect(), shape, cpu)
        };
        all?.to_dtype(dtype)
    }
}

/// Returns the dtype of a NumPy scalar, which is kept.
fn scalar_dtype(object: &Bound<'_, PyAny>) -> Option<DType> {
    if object.cast_exact::<PyFloat>().is_ok() || object.cast_exact::<PyInt>().is_ok() {
        return None;
    }
    Some(object.getattr("dtype").ok()?.extract::<DTypeArgument>().ok()?.0)
}

/// Returns the smallest value of an integer dtype, and one more than the largest.
pub fn int_range(dtype: DType) -> Option<(i128, i128)> {
    let bits = 8 * dtype.size() as u32;
    match dtype {
        dtype if !dtype.is_int() => None,
        dtype if dtype.is_unsigned() => Some((0, 1 << bits)),
        _ => Some((-(1 << (bits - 1)), 1 << (bits - 1))),
    }
}

/// Returns the only element of an integer tensor.
pub fn int_item(tensor: &Tensor) -> Result<i128> {
    match tensor.dtype() {
        DType::U64 => tensor.item::<u64>().map(i128::from),
        _ => tensor.to_dtype(DType::I64)?.item::<i64>().map(i128::from),
    }
}

/// Returns the common dtype of two numbers in one list: int64 for integer dtypes without a common
/// one; the values are checked later.
fn promote_or_int64(left: DType, right: DType) -> DType {
    promote_types(left, right).unwrap_or(DType::I64)
}

/// Returns whether a number, without its fraction, fits a dtype.
pub fn can_represent(dtype: DType, number: Number) -> bool {
    let Some((low, high)) = int_range(dtype) else { return true };
    match number {
        Number::Bool(_) => true,
        Number::Int(value) => (low..high).contains(&value),
        Number::Float(value) => value.is_finite() && (low..high).contains(&(value.trunc() as i128)),
    }
}
