//! Which dtype operands of different ones meet in: PyTorch's rules.
//!
//! A floating dtype wins over integers, integers win over bool; of two of a kind the wider wins, and float16 and
//! bfloat16 meet in float32, int8 and uint8 in int16. uint16, uint32 and uint64 meet no other integers and no truth values.
//! Tensors without axes and numbers of Python only decide the kind, not the width.

use crate::dtype::{DTypeArgument, PyDType};
use crate::error::{Failure, Outcome};
use parking_lot::RwLock;
use pyo3::prelude::*;
use ternion::{DType, Scalar, Tensor};

static DEFAULT: RwLock<DType> = RwLock::new(DType::F32);

/// What numbers of Python with a point become where nothing else decides.
pub fn default_dtype() -> DType {
    *DEFAULT.read()
}

/// Makes new floating tensors of this dtype if none is named; layers, too. float32 at first.
///
/// Raises:
///     TypeError: a dtype that is not a floating one.
#[pyfunction]
#[pyo3(signature = (d))]
fn set_default_dtype(d: DTypeArgument) -> Outcome<()> {
    if !d.0.is_float() {
        let name = crate::dialect::dtype_name(d.0);
        return Err(Failure::kind(format!("set_default_dtype: {name}, expected a floating dtype")));
    }
    *DEFAULT.write() = d.0;
    Ok(())
}

/// The dtype of new floating tensors if none is named.
#[pyfunction]
fn get_default_dtype(py: Python<'_>) -> PyResult<Py<PyDType>> {
    crate::dtype::object(py, default_dtype())
}

/// Puts the functions into the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(set_default_dtype, module)?)?;
    module.add_function(wrap_pyfunction!(get_default_dtype, module)?)
}

/// How much a dtype can say: truth values, whole numbers, numbers.
fn kind(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => 0,
        dtype if dtype.is_int() => 1,
        _ => 2,
    }
}

/// Whether numbers of one dtype may be written into a tensor of another: truth values into all, whole numbers into those and into floats.
pub fn is_held(numbers: DType, dtype: DType) -> bool {
    kind(numbers) <= kind(dtype)
}

/// The dtypes that meet floating ones alone.
fn is_wide_unsigned(dtype: DType) -> bool {
    dtype.is_unsigned() && dtype != DType::U8
}

/// The dtype that holds the numbers of both, if they have one.
pub fn common(left: DType, right: DType) -> Option<DType> {
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
        // Neither holds the numbers of the other: float16 beside bfloat16, int8 beside uint8.
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

/// The dtype that operands meet in, if there is one.
pub fn of_tensors(left: &Tensor, right: &Tensor) -> Option<DType> {
    let (a, b) = (left.dtype(), right.dtype());
    match (left.rank() > 0, right.rank() > 0) {
        (true, false) if kind(b) <= kind(a) => Some(a),
        (false, true) if kind(a) <= kind(b) => Some(b),
        _ => common(a, b),
    }
}

/// The dtype that a tensor and a number meet in.
pub fn with_number(dtype: DType, number: Number) -> DType {
    match number {
        Number::Float(_) if !dtype.is_float() => default_dtype(),
        Number::Int(_) if dtype == DType::Bool => DType::I64,
        _ => dtype,
    }
}

/// A number of Python.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Bool(bool),
    /// Of int64 or of uint64.
    Int(i128),
    Float(f64),
}

impl std::fmt::Display for Number {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Bool(truth) => write!(formatter, "{}", if *truth { "True" } else { "False" }),
            Number::Int(value) => write!(formatter, "{value}"),
            Number::Float(value) if value.is_nan() => write!(formatter, "nan"),
            Number::Float(value) => write!(formatter, "{value:?}"),
        }
    }
}

impl Number {
    /// The dtype that the number has alone.
    pub fn dtype(self) -> DType {
        match self {
            Number::Bool(_) => DType::Bool,
            Number::Int(_) => DType::I64,
            Number::Float(_) => default_dtype(),
        }
    }

    pub fn scalar(self) -> Scalar {
        match self {
            Number::Bool(truth) => Scalar::Int(i64::from(truth)),
            Number::Int(value) => u64::try_from(value).map_or(Scalar::Int(value as i64), Scalar::from),
            Number::Float(value) => Scalar::Float(value),
        }
    }
}

/// Both operands in the dtype that they meet in, if there is one, and on one device if one of them is a tensor without axes on the CPU.
pub fn meet(left: &Tensor, right: &Tensor) -> ternion::Result<(Tensor, Tensor)> {
    let Some(dtype) = of_tensors(left, right) else {
        // The op that follows reports the dtypes.
        return Ok((left.clone(), right.clone()));
    };
    let (left, right) = (left.to_dtype(dtype)?, right.to_dtype(dtype)?);
    if left.device().is(right.device()) { Ok((left, right)) } else { on_one_device(left, right) }
}

/// As `meet`, of three.
pub fn meet_three(a: &Tensor, b: &Tensor, c: &Tensor) -> ternion::Result<[Tensor; 3]> {
    let (a, b) = meet(a, b)?;
    let (a, c) = meet(&a, c)?;
    let (b, c) = meet(&b, &c)?;
    Ok([a, b, c])
}

/// The dtype that a function of floats has for two operands: that which they meet in, and of whole numbers the default one. Truth values have none beside
/// whole numbers or their like.
pub fn floats_of(left: &Tensor, right: &Tensor) -> Option<DType> {
    let together = of_tensors(left, right)?;
    let has_truth = left.dtype() == DType::Bool || right.dtype() == DType::Bool;
    match (together.is_float(), has_truth) {
        (true, _) => Some(together),
        (false, true) => None,
        (false, false) => Some(default_dtype()),
    }
}

/// As `meet`, of a function of floats; what has no such dtype is left to the op, which reports it.
pub fn meet_as_floats(left: &Tensor, right: &Tensor) -> ternion::Result<(Tensor, Tensor)> {
    match floats_of(left, right) {
        Some(dtype) => meet(&left.to_dtype(dtype)?, &right.to_dtype(dtype)?),
        None => meet(left, right),
    }
}

/// A tensor and the weights of its elements: floats meet, other weights take the tensor's dtype.
pub fn meet_weight(x: &Tensor, weight: &Tensor) -> ternion::Result<(Tensor, Tensor)> {
    match weight.dtype().is_float() || !x.dtype().is_float() {
        true => meet(x, weight),
        false => meet(x, &weight.to_dtype(x.dtype())?),
    }
}

/// The input in the dtype that it is normed in: float32 beside parameters of float32 where it is of half precision, as in PyTorch.
pub fn beside_parameters(x: &Tensor, parameters: [&Option<Tensor>; 2]) -> ternion::Result<Tensor> {
    let is_mixed = x.dtype().is_half() && ternion::precision::current().is_none();
    match is_mixed && parameters.into_iter().flatten().any(|parameter| parameter.dtype() == DType::F32) {
        true => x.to_dtype(DType::F32),
        false => Ok(x.clone()),
    }
}

/// Whether a tensor follows those of other devices: as a number would.
fn follows(tensor: &Tensor) -> bool {
    tensor.rank() == 0 && tensor.device().name() == "cpu"
}

fn on_one_device(left: Tensor, right: Tensor) -> ternion::Result<(Tensor, Tensor)> {
    if follows(&right) {
        let moved = right.to_device(left.device())?;
        return Ok((left, moved));
    }
    if follows(&left) {
        let moved = left.to_device(right.device())?;
        return Ok((moved, right));
    }
    // The op that comes tells of the devices.
    Ok((left, right))
}

/// The tensor as one of a floating dtype: integers and truth values become float32.
pub fn floating(tensor: &Tensor) -> ternion::Result<Tensor> {
    if tensor.dtype().is_float() { Ok(tensor.clone()) } else { tensor.to_dtype(default_dtype()) }
}

/// The number as a tensor without axes beside `tensor`, for the few functions that take no numbers.
pub fn beside(tensor: &Tensor, number: Number) -> ternion::Result<Tensor> {
    Tensor::full((), number.scalar(), with_number(tensor.dtype(), number), tensor.device())
}
