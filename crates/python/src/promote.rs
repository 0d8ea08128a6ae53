//! Which dtype operands of different ones meet in: PyTorch's rules.
//!
//! A floating dtype wins over integers, integers win over bool; of two of a kind the wider wins, and float16 and
//! bfloat16 meet in float32, int8 and uint8 in int16.
//! Tensors without axes and numbers of Python only decide the kind, not the width.

use ternion::{DType, Scalar, Tensor};

/// What numbers of Python become where nothing else decides.
pub const DEFAULT: DType = DType::F32;

/// How much a dtype can say: truth values, whole numbers, numbers.
fn kind(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => 0,
        dtype if dtype.is_int() => 1,
        _ => 2,
    }
}

/// The dtype that holds the numbers of both.
pub fn common(left: DType, right: DType) -> DType {
    if left == right {
        return left;
    }
    match kind(left).cmp(&kind(right)) {
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
    }
}

/// The dtype that operands meet in.
pub fn of_tensors(left: &Tensor, right: &Tensor) -> DType {
    let (a, b) = (left.dtype(), right.dtype());
    match (left.rank() > 0, right.rank() > 0) {
        (true, false) if kind(b) <= kind(a) => a,
        (false, true) if kind(a) <= kind(b) => b,
        _ => common(a, b),
    }
}

/// The dtype that a tensor and a number meet in.
pub fn with_number(dtype: DType, number: Number) -> DType {
    match number {
        Number::Float(_) if !dtype.is_float() => DEFAULT,
        Number::Int(_) if dtype == DType::Bool => DType::I64,
        _ => dtype,
    }
}

/// A number of Python.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl Number {
    /// The dtype that the number has alone.
    pub fn dtype(self) -> DType {
        match self {
            Number::Bool(_) => DType::Bool,
            Number::Int(_) => DType::I64,
            Number::Float(_) => DEFAULT,
        }
    }

    pub fn scalar(self) -> Scalar {
        match self {
            Number::Bool(truth) => Scalar::Int(i64::from(truth)),
            Number::Int(value) => Scalar::Int(value),
            Number::Float(value) => Scalar::Float(value),
        }
    }
}

/// Both operands in the dtype that they meet in.
pub fn meet(left: &Tensor, right: &Tensor) -> ternion::Result<(Tensor, Tensor)> {
    let dtype = of_tensors(left, right);
    Ok((left.to_dtype(dtype)?, right.to_dtype(dtype)?))
}

/// The tensor as one of a floating dtype: integers and truth values become float32.
pub fn floating(tensor: &Tensor) -> ternion::Result<Tensor> {
    if tensor.dtype().is_float() { Ok(tensor.clone()) } else { tensor.to_dtype(DEFAULT) }
}

/// The number as a tensor without axes beside `tensor`, for the few functions that take no numbers.
pub fn beside(tensor: &Tensor, number: Number) -> ternion::Result<Tensor> {
    Tensor::full((), number.scalar(), with_number(tensor.dtype(), number), tensor.device())
}
