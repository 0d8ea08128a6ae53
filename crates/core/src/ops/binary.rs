//! Functions of two elements, and the fused forms built on them.

use crate::DType;
use crate::backend::Meta;
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::op::{Output, Outputs, Rule, check};
use crate::ops::unary::UnaryOp;

/// A function of two elements of the same dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `a + b`. Integers wrap.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`. Integers: rounded towards zero; by zero gives 0.
    Div,
    /// `a^b`. Integers: by repeated multiplication, wrapping; a negative exponent gives 0 (1 and -1 excepted).
    Pow,
    /// The larger; NaN if either is. Gradient shared equally where both are equal.
    Max,
    /// The smaller; NaN if either is. Gradient shared equally where both are equal.
    Min,
    /// The angle of the point `(b, a)`, in radians. Floats only.
    Atan2,
    /// `a - b * floor(a / b)`: the sign of b. Integers: by zero gives 0.
    Remainder,
    /// Logical and. Bool only.
    And,
    /// Logical or. Bool only.
    Or,
    /// Logical exclusive or. Bool only.
    Xor,
}

impl BinaryOp {
    /// The stem.
    pub fn name(self) -> &'static str {
        match self {
            BinaryOp::Add => "add",
            BinaryOp::Sub => "sub",
            BinaryOp::Mul => "mul",
            BinaryOp::Div => "div",
            BinaryOp::Pow => "pow",
            BinaryOp::Max => "maximum",
            BinaryOp::Min => "minimum",
            BinaryOp::Atan2 => "atan2",
            BinaryOp::Remainder => "remainder",
            BinaryOp::And => "and",
            BinaryOp::Or => "or",
            BinaryOp::Xor => "xor",
        }
    }

    /// Whether operands are truth values.
    pub fn is_logical(self) -> bool {
        matches!(self, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor)
    }

    fn check(self, meta: &Meta<'_>) -> Result<()> {
        let (fits, expected) = match self {
            op if op.is_logical() => (meta.dtype == DType::Bool, "bool"),
            BinaryOp::Atan2 => (meta.dtype.is_float(), "a floating dtype"),
            BinaryOp::Max | BinaryOp::Min => (true, "any"),
            _ => (meta.dtype != DType::Bool, "a number"),
        };
        if fits {
            Ok(())
        } else {
            Err(Error::DType { op: self.name(), what: "operand", got: meta.dtype, expected })
        }
    }
}

/// `y = f(a, b)`, broadcast. Inputs: a, b of one dtype. Output: y, may take a's place. Primitive. Halves are computed in f32.
#[derive(Clone, Debug)]
pub struct Binary {
    /// The function.
    pub op: BinaryOp,
}

impl Rule for Binary {
    fn name(&self) -> &'static str {
        self.op.name()
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = self.name();
        check::count(name, inputs, 2)?;
        check::same_dtype(name, &inputs[0], &inputs[1])?;
        self.op.check(&inputs[0])?;
        let shape = inputs[0].shape().broadcast(inputs[1].shape(), name)?;
        Ok(Outputs::from_buf([Output::reuses(shape, inputs[0].dtype, 0)]))
    }
    fn is_primitive(&self) -> bool {
        true
    }
    fn broadcasts(&self) -> bool {
        true
    }
}

/// Which operand of a binary function a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `f(number, x)`.
    Left,
    /// `f(x, number)`.
    Right,
}

/// `y = f(x, scalar)` or `f(scalar, x)`. Input: x. Output: y, same shape and dtype, may take x's place. The number is rounded to x's
/// dtype first (f32 for halves). Composition: a filled tensor and [`Binary`].
#[derive(Clone, Debug)]
pub struct BinaryScalar {
    /// The function.
    pub op: BinaryOp,
    /// The number.
    pub scalar: Scalar,
    /// Its place.
    pub side: Side,
}

impl Rule for BinaryScalar {
    fn name(&self) -> &'static str {
        match self.op {
            BinaryOp::Add => "add_scalar",
            BinaryOp::Sub => "sub_scalar",
            BinaryOp::Mul => "mul_scalar",
            BinaryOp::Div => "div_scalar",
            BinaryOp::Pow => "pow_scalar",
            BinaryOp::Max => "maximum_scalar",
            BinaryOp::Min => "minimum_scalar",
            BinaryOp::Atan2 => "atan2_scalar",
            BinaryOp::Remainder => "remainder_scalar",
            BinaryOp::And => "and_scalar",
            BinaryOp::Or => "or_scalar",
            BinaryOp::Xor => "xor_scalar",
        }
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count(self.name(), inputs, 1)?;
        self.op.check(&inputs[0])?;
        Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), inputs[0].dtype, 0)]))
    }
}

/// `y = a * b + c`, broadcast, rounded once or twice. Inputs: a, b, c of one numeric dtype.
#[derive(Clone, Debug)]
pub struct MultiplyAdd;

impl Rule for MultiplyAdd {
    fn name(&self) -> &'static str {
        "multiply_add"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = self.name();
        check::count(name, inputs, 3)?;
        check::same_dtype(name, &inputs[0], &inputs[1])?;
        check::same_dtype(name, &inputs[0], &inputs[2])?;
        numeric(name, &inputs[0])?;
        let shape =
            inputs[0].shape().broadcast(inputs[1].shape(), name)?.broadcast(inputs[2].shape(), name)?;
        Ok(Outputs::from_buf([Output::reuses(shape, inputs[0].dtype, 0)]))
    }
    fn broadcasts(&self) -> bool {
        true
    }
}

/// `y = scale * a + b`, broadcast. Inputs: a, b of one floating dtype. Output may take a's place.
#[derive(Clone, Debug)]
pub struct ScaleAdd {
    /// The factor.
    pub scale: f64,
}

impl Rule for ScaleAdd {
    fn name(&self) -> &'static str {
        "scale_add"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        float_pair("scale_add", inputs)
    }
    fn broadcasts(&self) -> bool {
        true
    }
}

/// `y = relu(a + b)`, broadcast. Inputs: a, b of one floating dtype. Output may take a's place.
#[derive(Clone, Debug)]
pub struct AddRelu;

impl Rule for AddRelu {
    fn name(&self) -> &'static str {
        "add_relu"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        float_pair("add_relu", inputs)
    }
    fn broadcasts(&self) -> bool {
        true
    }
}

/// `y = activation(x + bias)`. Inputs: x `[.., features]`, bias `[features]`, one floating dtype. Output: as x.
#[derive(Clone, Debug)]
pub struct BiasActivation {
    /// The function applied to the sum.
    pub activation: UnaryOp,
}

impl Rule for BiasActivation {
    fn name(&self) -> &'static str {
        "bias_activation"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = self.name();
        check::count(name, inputs, 2)?;
        check::float(name, "input", &inputs[0])?;
        check::same_dtype(name, &inputs[0], &inputs[1])?;
        let shape = *inputs[0].shape();
        let Some(&features) = shape.dims().last() else {
            return Err(Error::Rank { op: name, expected: "at least 1".into(), shape });
        };
        check::shape(name, "bias", &inputs[1], crate::Shape::unchecked(&[features]))?;
        Ok(Outputs::from_buf([Output::reuses(shape, inputs[0].dtype, 0)]))
    }
    fn broadcasts(&self) -> bool {
        true
    }
}

fn numeric(op: &'static str, meta: &Meta<'_>) -> Result<()> {
    if meta.dtype == DType::Bool {
        return Err(Error::DType { op, what: "operand", got: meta.dtype, expected: "a number" });
    }
    Ok(())
}

fn float_pair(op: &'static str, inputs: &[Meta<'_>]) -> Result<Outputs> {
    check::count(op, inputs, 2)?;
    check::same_dtype(op, &inputs[0], &inputs[1])?;
    check::float(op, "operand", &inputs[0])?;
    let shape = inputs[0].shape().broadcast(inputs[1].shape(), op)?;
    Ok(Outputs::from_buf([Output::reuses(shape, inputs[0].dtype, 0)]))
}

impl crate::Tensor {
    /// `self + other`, broadcast.
    ///
    /// # Errors
    /// Shapes that do not broadcast, dtypes that differ, bool.
    pub fn add(&self, other: &crate::Tensor) -> Result<crate::Tensor> {
        crate::dispatch::apply_one(Binary { op: BinaryOp::Add }, &[self, other])
    }
}
