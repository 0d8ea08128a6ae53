//! Comparisons with tensors and numbers.

use super::{OperatorResult, wrap_result};
use crate::arguments::Operand;
use crate::error::Outcome;
use crate::gil::run;
use crate::promote::{Number, promote_pair, result_type_with_number};
use crate::tensor::PyTensor;
use pyo3::class::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::PyInt;
use ternion::{DType, Result, Scalar, Tensor};

/// Compares two tensors in their common dtype: bool as 0 and 1 if the other tensor is numeric.
fn compare_tensors(op: CompareOp, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (a, b) = promote_pair(a, b)?;
    match op {
        CompareOp::Eq => a.eq(&b),
        CompareOp::Ne => a.ne(&b),
        CompareOp::Lt => a.lt(&b),
        CompareOp::Le => a.le(&b),
        CompareOp::Gt => a.gt(&b),
        CompareOp::Ge => a.ge(&b),
    }
}

/// For a number outside the range of an integer dtype, returns whether it is greater than all
/// elements.
fn is_above_range(dtype: DType, number: Number) -> Option<bool> {
    let Number::Int(value) = number else { return None };
    let (low, end) = crate::create::nested::int_range(dtype)?;
    if (low..end).contains(&value) { None } else { Some(value >= end) }
}

fn compare_with_number(op: CompareOp, a: &Tensor, number: Number) -> Result<Tensor> {
    let dtype = result_type_with_number(a.dtype(), number);
    if let Some(is_above) = is_above_range(dtype, number) {
        let result = match op {
            CompareOp::Eq => false,
            CompareOp::Ne => true,
            CompareOp::Lt | CompareOp::Le => is_above,
            CompareOp::Gt | CompareOp::Ge => !is_above,
        };
        return Tensor::full(a.dims(), Scalar::Bool(result), DType::Bool, a.device());
    }
    let a = if dtype == a.dtype() { a.clone() } else { a.to_dtype(dtype)? };
    let number = number.scalar();
    match op {
        CompareOp::Eq => a.eq_scalar(number),
        CompareOp::Ne => a.ne_scalar(number),
        CompareOp::Lt => a.lt_scalar(number),
        CompareOp::Le => a.le_scalar(number),
        CompareOp::Gt => a.gt_scalar(number),
        CompareOp::Ge => a.ge_scalar(number),
    }
}

/// Compares elements with those of a tensor or with a number, which need not fit their dtype.
pub fn equal_to(a: &Tensor, other: &Operand) -> Result<Tensor> {
    match other {
        Operand::Tensor(b) => compare_tensors(CompareOp::Eq, a, b),
        &Operand::Number(number) => compare_with_number(CompareOp::Eq, a, number),
    }
}

/// Returns the other operand of a comparison. A number outside all integer dtypes is replaced by
/// one that compares equally.
pub fn comparison_operand(object: &Bound<'_, PyAny>, a: &Tensor) -> Outcome<Option<Operand>> {
    Operand::with_arrays(object, a).or_else(|raised| match out_of_range_number(object, a)? {
        Some(number) => Ok(Some(Operand::Number(number))),
        None => Err(raised),
    })
}

/// Converts a Python int beyond int64 and uint64 to a number that compares with the elements of `a`
/// in the same way.
fn out_of_range_number(object: &Bound<'_, PyAny>, a: &Tensor) -> Outcome<Option<Number>> {
    let fits_64_bits = || object.extract::<i64>().is_ok() || object.extract::<u64>().is_ok();
    if !object.is_instance_of::<PyInt>() || fits_64_bits() {
        return Ok(None);
    }
    let is_above = object.gt(0)?;
    if a.dtype().is_float() {
        let infinite = if is_above { f64::INFINITY } else { f64::NEG_INFINITY };
        return Ok(Some(Number::Float(object.extract::<f64>().unwrap_or(infinite))));
    }
    Ok(Some(Number::Int(if is_above { i128::MAX } else { i128::MIN })))
}

pub fn compare(py: Python<'_>, op: CompareOp, a: &Tensor, other: Operand) -> OperatorResult {
    let result = match other {
        Operand::Tensor(b) => run(py, a.elements().max(b.elements()), || compare_tensors(op, a, &b))?,
        Operand::Number(number) => run(py, a.elements(), || compare_with_number(op, a, number))?,
    };
    wrap_result(py, result)
}

impl PyTensor {
    /// Applies a comparison as a named method, where Python does not try the other operand.
    pub fn compare_named(&self, name: &str, other: &Bound<'_, PyAny>, op: CompareOp) -> OperatorResult {
        let a = self.tensor();
        let operand = match out_of_range_number(other, &a)? {
            Some(number) => Operand::Number(number),
            None => Operand::for_function(name, other, &a)?,
        };
        compare(other.py(), op, &a, operand)
    }
}
