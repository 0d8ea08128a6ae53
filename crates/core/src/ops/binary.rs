//! Binary elementwise functions and their methods. Their derivatives are in `gradients`, and the
//! fused ops built on them in [`fused`].

pub mod fused;
mod gradients;

pub use fused::{AddRelu, BiasActivation, MultiplyAdd, ScaleAdd};

use crate::DType;
use crate::autograd::{Context, Grads, sum_to};
use crate::backend::Meta;
use crate::dispatch::{apply_into, apply_one};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::ops::create::exact_scalar;
use crate::tensor::Tensor;

op_enum! {
    /// An elementwise function of two operands of the same dtype.
    pub enum BinaryOp: name, scalar_name {
        /// `a + b`. Integers wrap.
        Add: "add", "add_scalar";
        /// `a - b`.
        Sub: "sub", "sub_scalar";
        /// `a * b`.
        Mul: "mul", "mul_scalar";
        /// `a / b`. Integers: rounded toward zero; division by zero gives 0.
        Div: "div", "div_scalar";
        /// `a^b`. Integers: computed by repeated multiplication, with wrapping. A negative exponent
        /// gives 0, except for bases 1 and -1.
        Pow: "pow", "pow_scalar";
        /// The larger of a and b; NaN if either is NaN. Where both are equal, each gets half of the
        /// gradient.
        Max: "maximum", "maximum_scalar";
        /// The smaller of a and b; NaN if either is NaN. Where both are equal, each gets half of
        /// the gradient.
        Min: "minimum", "minimum_scalar";
        /// The angle of the point `(b, a)`, in radians. Floating dtypes only.
        Atan2: "atan2", "atan2_scalar";
        /// `a - b * floor(a / b)`, which has the sign of b. Integers: division by zero gives 0.
        Remainder: "remainder", "remainder_scalar";
        /// Logical AND. Bool only.
        And: "logical_and", "and_scalar";
        /// Logical OR. Bool only.
        Or: "logical_or", "or_scalar";
        /// Logical XOR. Bool only.
        Xor: "logical_xor", "xor_scalar";
    }
}

impl BinaryOp {
    /// Returns whether the operands are bool.
    pub fn is_logical(self) -> bool {
        matches!(self, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor)
    }

    /// Returns whether the operands may have this dtype.
    pub fn takes(self, dtype: DType) -> bool {
        match self {
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => dtype == DType::Bool,
            BinaryOp::Atan2 => dtype.is_float(),
            BinaryOp::Max | BinaryOp::Min => true,
            _ => dtype != DType::Bool,
        }
    }

    fn check(self, name: &'static str, meta: &Meta<'_>) -> Result<()> {
        if self.takes(meta.dtype) {
            return Ok(());
        }
        let expected = match self {
            op if op.is_logical() => "bool",
            BinaryOp::Atan2 => "a floating dtype",
            _ => "a number",
        };
        Err(Error::dtype(name, "operand", meta.dtype, expected))
    }
}

/// `y = f(a, b)`, broadcast. Inputs: a, b of one dtype. Output: y, may reuse a's buffer. Primitive.
/// Half precision is computed in f32.
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
        self.op.check(name, &inputs[0])?;
        let shape = inputs[0].shape().broadcast(inputs[1].shape(), name)?;
        Ok(Outputs::from_buf([Output::reuses(shape, inputs[0].dtype, 0)]))
    }
    fn elementwise(&self, inputs: &[Meta<'_>]) -> Option<DType> {
        match inputs {
            [a, b] if a.dtype == b.dtype && self.op.takes(a.dtype) => Some(a.dtype),
            _ => None,
        }
    }
    fn is_primitive(&self) -> bool {
        true
    }
    fn broadcasts(&self) -> bool {
        true
    }
    fn differentiability(&self) -> Differentiability {
        match self.op {
            BinaryOp::Add | BinaryOp::Sub => Differentiability::Stated(Saves::NOTHING),
            op if op.is_logical() => Differentiability::NonDifferentiable,
            _ => Differentiability::Stated(Saves::INPUTS),
        }
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let Some(dy) = &grad_outputs[0] else { return Ok(Grads::new()) };
        let mut grads = Grads::from_elem(None, 2);
        for side in [Side::Left, Side::Right] {
            let index = side as usize;
            if context.needs(index) {
                let grad = self.side_gradient(side, context, dy)?;
                grads[index] = Some(sum_to(&grad, context.shape(index))?.to_dtype(context.dtype(index))?);
            }
        }
        Ok(grads)
    }
}

impl Binary {
    /// Computes the gradient of one operand, before it is summed to the operand's shape and rounded
    /// to its dtype.
    fn side_gradient(&self, side: Side, context: &Context<'_>, dy: &Tensor) -> Result<Tensor> {
        match (self.op, side) {
            (BinaryOp::Add, _) | (BinaryOp::Sub, Side::Left) => Ok(dy.clone()),
            (BinaryOp::Sub, Side::Right) => dy.neg(),
            (BinaryOp::Mul, Side::Left) => dy.mul(context.input(1)?),
            (BinaryOp::Mul, Side::Right) => dy.mul(context.input(0)?),
            (op, side) => {
                let (a, b) = (context.input(0)?.to_accumulator()?, context.input(1)?.to_accumulator()?);
                gradients::gradient(op, side, &a, &b, &dy.to_accumulator()?)
            }
        }
    }
}

/// An operand of a binary function: the one that is the scalar, or whose gradient is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `f(scalar, x)`.
    Left,
    /// `f(x, scalar)`.
    Right,
}

/// `y = f(x, scalar)` or `f(scalar, x)`. Input: x. Output: y, of the same shape and dtype, may
/// reuse x's buffer. The scalar is first rounded to x's dtype (to f32 for half precision); an
/// integer dtype must represent it exactly. Composition: a filled tensor and [`Binary`].
#[derive(Clone, Debug)]
pub struct BinaryScalar {
    /// The function.
    pub op: BinaryOp,
    /// The scalar.
    pub scalar: Scalar,
    /// Which operand the scalar is.
    pub side: Side,
}

impl Rule for BinaryScalar {
    fn name(&self) -> &'static str {
        self.op.scalar_name()
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count(self.name(), inputs, 1)?;
        self.op.check(self.name(), &inputs[0])?;
        exact_scalar(self.name(), self.scalar, inputs[0].dtype)?;
        Ok(Outputs::from_buf([Output::reuses(*inputs[0].shape(), inputs[0].dtype, 0)]))
    }
    fn elementwise(&self, inputs: &[Meta<'_>]) -> Option<DType> {
        match inputs {
            [x] if x.dtype.is_float() && self.op.takes(x.dtype) => Some(x.dtype),
            _ => None,
        }
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let input = inputs[0].to_accumulator()?;
        let scalar_tensor = input.scalar_like(self.scalar)?;
        let operands = match self.side {
            Side::Left => [&scalar_tensor, &input],
            Side::Right => [&input, &scalar_tensor],
        };
        let output = apply_one(Binary { op: self.op }, &operands)?;
        Ok(vec![output.to_dtype(inputs[0].dtype())?])
    }
    fn differentiability(&self) -> Differentiability {
        match self.op {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul => Differentiability::Stated(Saves::NOTHING),
            BinaryOp::Div if self.side == Side::Right => Differentiability::Stated(Saves::NOTHING),
            op if op.is_logical() => Differentiability::NonDifferentiable,
            _ => Differentiability::Stated(Saves::INPUTS),
        }
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let Some(dy) = &grad_outputs[0] else { return Ok(Grads::new()) };
        let dx = match (self.op, self.side) {
            (BinaryOp::Add, _) | (BinaryOp::Sub, Side::Right) => dy.clone(),
            (BinaryOp::Sub, Side::Left) => dy.neg()?,
            (BinaryOp::Mul, _) => dy.mul_scalar(self.scalar)?,
            (BinaryOp::Div, Side::Right) => dy.div_scalar(self.scalar)?,
            (op, side) => {
                let (x, dy) = (context.input(0)?.to_accumulator()?, dy.to_accumulator()?);
                let grad = match (op, side) {
                    (BinaryOp::Pow, Side::Right) => gradients::fixed_power(&x, self.scalar.as_f64(), &dy)?,
                    (op, Side::Right) => {
                        gradients::gradient(op, Side::Left, &x, &x.scalar_like(self.scalar)?, &dy)?
                    }
                    (op, Side::Left) => {
                        gradients::gradient(op, Side::Right, &x.scalar_like(self.scalar)?, &x, &dy)?
                    }
                };
                grad.to_dtype(context.dtype(0))?
            }
        };
        Ok(Grads::from_elem(Some(dx), 1))
    }
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident $in_place:ident => $op:ident;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// Returns an error if shapes do not broadcast, if dtypes differ, or if the
                /// function does not support the dtype (see [`BinaryOp`]).
                #[inline]
                pub fn $name(&self, other: &Tensor) -> Result<Tensor> {
                    apply_one(Binary { op: BinaryOp::$op }, &[self, other])
                }

                #[doc = concat!("In place of this tensor: [`", stringify!($name), "`](Tensor::", stringify!($name), ").")]
                ///
                /// # Errors
                #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), ") and [`apply_into`].")]
                #[inline]
                pub fn $in_place(&self, other: &Tensor) -> Result<()> {
                    apply_into(Binary { op: BinaryOp::$op }, &[self, other], self)
                }
            )*
        }
    };
}

binary_methods! {
    /// Computes `self + other` with broadcasting.
    add add_ => Add;
    /// Computes `self - other` with broadcasting.
    sub sub_ => Sub;
    /// Computes `self * other` with broadcasting.
    mul mul_ => Mul;
    /// Computes `self / other` with broadcasting. Integers: rounded toward zero; division by zero
    /// gives 0.
    div div_ => Div;
    /// Computes `self ^ other` with broadcasting.
    pow pow_ => Pow;
    /// Returns the larger of each pair of elements, with broadcasting; NaN if either is NaN.
    maximum maximum_ => Max;
    /// Returns the smaller of each pair of elements, with broadcasting; NaN if either is NaN.
    minimum minimum_ => Min;
    /// Returns the angle of the point `(other, self)` in radians, with broadcasting.
    atan2 atan2_ => Atan2;
    /// Computes `self - other * floor(self / other)` with broadcasting. The result has the sign of
    /// `other`.
    remainder remainder_ => Remainder;
    /// Computes the logical AND of two bool tensors, with broadcasting.
    logical_and logical_and_ => And;
    /// Computes the logical OR of two bool tensors, with broadcasting.
    logical_or logical_or_ => Or;
    /// Computes the logical XOR of two bool tensors, with broadcasting.
    logical_xor logical_xor_ => Xor;
}

macro_rules! scalar_methods {
    ($($(#[$doc:meta])* $name:ident $in_place:ident => $op:ident $side:ident;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// Returns an error if the function does not support the dtype (see [`BinaryOp`]),
                /// or if an integer dtype cannot represent the scalar.
                #[inline]
                pub fn $name(&self, scalar: impl Into<Scalar>) -> Result<Tensor> {
                    let op = BinaryScalar { op: BinaryOp::$op, scalar: scalar.into(), side: Side::$side };
                    apply_one(op, &[self])
                }

                #[doc = concat!("In place of this tensor: [`", stringify!($name), "`](Tensor::", stringify!($name), ").")]
                ///
                /// # Errors
                #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), ") and [`apply_into`].")]
                #[inline]
                pub fn $in_place(&self, scalar: impl Into<Scalar>) -> Result<()> {
                    let op = BinaryScalar { op: BinaryOp::$op, scalar: scalar.into(), side: Side::$side };
                    apply_into(op, &[self], self)
                }
            )*
        }
    };
}

scalar_methods! {
    /// Computes `self + scalar`.
    add_scalar add_scalar_ => Add Right;
    /// Computes `self - scalar`.
    sub_scalar sub_scalar_ => Sub Right;
    /// Computes `scalar - self`.
    rsub_scalar rsub_scalar_ => Sub Left;
    /// Computes `self * scalar`.
    mul_scalar mul_scalar_ => Mul Right;
    /// Computes `self / scalar`. Integers: rounded toward zero; division by zero gives 0.
    div_scalar div_scalar_ => Div Right;
    /// Computes `scalar / self`. Integers: rounded toward zero; division by zero gives 0.
    rdiv_scalar rdiv_scalar_ => Div Left;
    /// Computes `self ^ scalar`. Integers: computed by repeated multiplication, with wrapping; a
    /// negative exponent gives 0, except for bases 1 and -1. If the exponent is 0, the gradient is
    /// 0.
    pow_scalar pow_scalar_ => Pow Right;
    /// Computes `scalar ^ self`. Integers as in [`pow_scalar`](Tensor::pow_scalar).
    rpow_scalar rpow_scalar_ => Pow Left;
    /// Returns the larger of each element and `scalar`; NaN if either is NaN.
    maximum_scalar maximum_scalar_ => Max Right;
    /// Returns the smaller of each element and `scalar`; NaN if either is NaN.
    minimum_scalar minimum_scalar_ => Min Right;
    /// Returns the angle of the point `(scalar, self)` in radians.
    atan2_scalar atan2_scalar_ => Atan2 Right;
    /// Returns the angle of the point `(self, scalar)` in radians.
    ratan2_scalar ratan2_scalar_ => Atan2 Left;
    /// Computes `self - scalar * floor(self / scalar)`. The result has the sign of `scalar`.
    remainder_scalar remainder_scalar_ => Remainder Right;
}

impl Tensor {
    /// Computes `self ^ exponent`: [`pow_scalar`](Tensor::pow_scalar) with a float exponent. If the
    /// exponent is 0, the gradient is 0.
    ///
    /// # Errors
    /// Returns an error for bool, or if an integer dtype cannot represent the exponent.
    #[inline]
    pub fn powf(&self, exponent: f64) -> Result<Tensor> {
        let op = BinaryScalar { op: BinaryOp::Pow, scalar: Scalar::Float(exponent), side: Side::Right };
        apply_one(op, &[self])
    }

    /// In-place version of [`powf`](Tensor::powf).
    ///
    /// # Errors
    /// Same as [`powf`](Tensor::powf) and [`apply_into`].
    #[inline]
    pub fn powf_(&self, exponent: f64) -> Result<()> {
        let op = BinaryScalar { op: BinaryOp::Pow, scalar: Scalar::Float(exponent), side: Side::Right };
        apply_into(op, &[self], self)
    }
}
