//! The dtype promotion of operands: PyTorch's rules.
//!
//! A floating dtype takes precedence over integers, and integers over bool. Of two dtypes of one
//! kind the wider one is used; float16 and bfloat16 are promoted to float32, int8 and uint8 to
//! int16. uint16, uint32 and uint64 have no common dtype with other integers and bool. Tensors
//! without axes and Python numbers determine only the kind, not the width.

use crate::dtype::{DTypeArgument, PyDType};
use crate::error::{Outcome, RaisedError};
use parking_lot::RwLock;
use pyo3::prelude::*;
use ternion::{DType, Scalar, Tensor};

static DEFAULT: RwLock<DType> = RwLock::new(DType::F32);

/// Returns the default dtype of Python floats.
pub fn default_dtype() -> DType {
    *DEFAULT.read()
}

/// Sets the default dtype of new floating tensors, including those of layers. It is initially
/// float32.
///
/// Raises:
///     TypeError: a dtype that is not floating.
#[pyfunction]
#[pyo3(signature = (d))]
fn set_default_dtype(d: DTypeArgument) -> Outcome<()> {
    if !d.0.is_float() {
        let name = crate::dialect::dtype_name(d.0);
        return Err(RaisedError::type_error(format!("set_default_dtype: {name}, expected a floating dtype")));
    }
    *DEFAULT.write() = d.0;
    Ok(())
}

/// Returns the default dtype of new floating tensors.
#[pyfunction]
fn get_default_dtype(py: Python<'_>) -> PyResult<Py<PyDType>> {
    crate::dtype::object(py, default_dtype())
}

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(set_default_dtype, module)?)?;
    module.add_function(wrap_pyfunction!(get_default_dtype, module)?)
}

/// Returns the kind of a dtype: 0 for bool, 1 for integers, 2 for floats.
fn kind(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => 0,
        dtype if dtype.is_int() => 1,
        _ => 2,
    }
}

/// Returns whether numbers of one dtype may be written to a tensor of another: bool to all,
/// integers to integers and floats.
pub fn can_store(numbers: DType, dtype: DType) -> bool {
    kind(numbers) <= kind(dtype)
}

/// Returns whether a dtype has a common dtype only with floating ones.
fn is_wide_unsigned(dtype: DType) -> bool {
    dtype.is_unsigned() && dtype != DType::U8
}

/// Returns the dtype that represents the numbers of both, if there is one.
pub fn promote_types(left: DType, right: DType) -> Option<DType> {
    if left == right {
        return Some(left);
    }
    let has_float = left.is_float() || right.is_float();
    if !has_float && (is_wide_unsigned(left) || is_wide_unsigned(right)) {
        return None;
    }
    Some(match kind(left).cmp(&kind(right)) {
        std::cmp::Ordering::Less => right,
        std::cmp::Ordering::Greater => left,
        // Neither dtype represents all values of the other one: float16 and bfloat16, or int8 and
        // uint8.
        std::cmp::Ordering::Equal if left.size() == right.size() => {
            if left.is_float() {
                DType::F32
            } else {
                DType::I16
            }
        }
        std::cmp::Ordering::Equal if left.size() > right.size() => left,
        std::cmp::Ordering::Equal => right,
    })
}

/// Returns the common dtype of two operands, if there is one.
pub fn result_type(left: &Tensor, right: &Tensor) -> Option<DType> {
    let (a, b) = (left.dtype(), right.dtype());
    match (left.rank() > 0, right.rank() > 0) {
        (true, false) if kind(b) <= kind(a) => Some(a),
        (false, true) if kind(a) <= kind(b) => Some(b),
        _ => promote_types(a, b),
    }
}

/// Returns the common dtype of a tensor and a number.
pub fn result_type_with_number(dtype: DType, number: Number) -> DType {
    match number {
        Number::Float(_) if !dtype.is_float() => default_dtype(),
        Number::Int(_) if dtype == DType::Bool => DType::I64,
        _ => dtype,
    }
}

/// A Python number.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Bool(bool),
    /// In the range of int64 or uint64.
    Int(i128),
    Float(f64),
}

impl std::fmt::Display for Number {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Bool(value) => write!(formatter, "{}", if *value { "True" } else { "False" }),
            Number::Int(value) => write!(formatter, "{value}"),
            Number::Float(value) if value.is_nan() => write!(formatter, "nan"),
            Number::Float(value) => write!(formatter, "{value:?}"),
        }
    }
}

impl Number {
    /// Returns the dtype of the number by itself.
    pub fn dtype(self) -> DType {
        match self {
            Number::Bool(_) => DType::Bool,
            Number::Int(_) => DType::I64,
            Number::Float(_) => default_dtype(),
        }
    }

    pub fn scalar(self) -> Scalar {
        match self {
            Number::Bool(value) => Scalar::Int(i64::from(value)),
            Number::Int(value) => u64::try_from(value).map_or(Scalar::Int(value as i64), Scalar::from),
            Number::Float(value) => Scalar::Float(value),
        }
    }
}

/// Converts both operands to their common dtype, if there is one, and to one device if one of them
/// is a tensor without axes on the CPU.
pub fn promote_pair(left: &Tensor, right: &Tensor) -> ternion::Result<(Tensor, Tensor)> {
    let Some(dtype) = result_type(left, right) else {
        // The next op reports the incompatible dtypes.
        return Ok((left.clone(), right.clone()));
    };
    let (left, right) = (left.to_dtype(dtype)?, right.to_dtype(dtype)?);
    if left.device().is(right.device()) { Ok((left, right)) } else { on_one_device(left, right) }
}

/// Same as `promote_pair` for three tensors.
pub fn promote_three(a: &Tensor, b: &Tensor, c: &Tensor) -> ternion::Result<[Tensor; 3]> {
    let (a, b) = promote_pair(a, b)?;
    let (a, c) = promote_pair(&a, c)?;
    let (b, c) = promote_pair(&b, &c)?;
    Ok([a, b, c])
}

/// Returns the dtype in which a floating function of two operands is computed: their common dtype
/// if it is floating, and the default dtype for integers. There is none for bool with an integer or
/// bool.
pub fn common_float_dtype(left: &Tensor, right: &Tensor) -> Option<DType> {
    let common = result_type(left, right)?;
    let has_bool = left.dtype() == DType::Bool || right.dtype() == DType::Bool;
    match (common.is_float(), has_bool) {
        (true, _) => Some(common),
        (false, true) => None,
        (false, false) => Some(default_dtype()),
    }
}

/// Same as `promote_pair` for a floating function. If there is no such dtype, the op reports it.
pub fn promote_to_floats(left: &Tensor, right: &Tensor) -> ternion::Result<(Tensor, Tensor)> {
    match common_float_dtype(left, right) {
        Some(dtype) => promote_pair(&left.to_dtype(dtype)?, &right.to_dtype(dtype)?),
        None => promote_pair(left, right),
    }
}

/// Converts a tensor and the weights of its elements: floats to their common dtype, other weights
/// to the dtype of the tensor.
pub fn promote_weight(x: &Tensor, weight: &Tensor) -> ternion::Result<(Tensor, Tensor)> {
    match weight.dtype().is_float() || !x.dtype().is_float() {
        true => promote_pair(x, weight),
        false => promote_pair(x, &weight.to_dtype(x.dtype())?),
    }
}

/// Returns the input in the dtype in which it is normalized: float32 for half precision with
/// float32 parameters, as in PyTorch.
pub fn promote_to_parameters(x: &Tensor, parameters: [&Option<Tensor>; 2]) -> ternion::Result<Tensor> {
    let is_mixed = x.dtype().is_half() && ternion::precision::current().is_none();
    match is_mixed && parameters.into_iter().flatten().any(|parameter| parameter.dtype() == DType::F32) {
        true => x.to_dtype(DType::F32),
        false => Ok(x.clone()),
    }
}

/// Returns whether a tensor may be moved to the device of the other operand, like a number.
fn is_movable_scalar(tensor: &Tensor) -> bool {
    tensor.rank() == 0 && tensor.device().name() == "cpu"
}

fn on_one_device(left: Tensor, right: Tensor) -> ternion::Result<(Tensor, Tensor)> {
    if is_movable_scalar(&right) {
        let moved = right.to_device(left.device())?;
        return Ok((left, moved));
    }
    if is_movable_scalar(&left) {
        let moved = left.to_device(right.device())?;
        return Ok((moved, right));
    }
    // The next op reports the different devices.
    Ok((left, right))
}

/// Returns the tensor with a floating dtype: integers and bool are converted to the default dtype.
pub fn to_floating(tensor: &Tensor) -> ternion::Result<Tensor> {
    if tensor.dtype().is_float() { Ok(tensor.clone()) } else { tensor.to_dtype(default_dtype()) }
}

/// Returns the number as a tensor without axes, promoted with `tensor`, for the few functions that
/// do not accept numbers.
pub fn scalar_tensor_like(tensor: &Tensor, number: Number) -> ternion::Result<Tensor> {
    Tensor::full((), number.scalar(), result_type_with_number(tensor.dtype(), number), tensor.device())
}
