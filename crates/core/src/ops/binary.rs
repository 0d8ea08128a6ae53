//! Functions of two elements and their methods. Derivatives are in `gradients`, the fused forms built on them in [`fused`].

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
    /// A function of two elements of the same dtype.
    pub enum BinaryOp: name, scalar_name {
        /// `a + b`. Integers wrap.
        Add: "add", "add_scalar";
        /// `a - b`.
        Sub: "sub", "sub_scalar";
        /// `a * b`.
        Mul: "mul", "mul_scalar";
        /// `a / b`. Integers: rounded towards zero; by zero gives 0.
        Div: "div", "div_scalar";
        /// `a^b`. Integers: by repeated multiplication, wrapping; a negative exponent gives 0 (1
        /// and -1 excepted).
        Pow: "pow", "pow_scalar";
        /// The larger; NaN if either is. Gradient shared equally where both are equal.
        Max: "maximum", "maximum_scalar";
        /// The smaller; NaN if either is. Gradient shared equally where both are equal.
        Min: "minimum", "minimum_scalar";
        /// The angle of the point `(b, a)`, in radians. Floats only.
        Atan2: "atan2", "atan2_scalar";
        /// `a - b * floor(a / b)`: the sign of b. Integers: by zero gives 0.
        Remainder: "remainder", "remainder_scalar";
        /// Logical and. Bool only.
        And: "logical_and", "and_scalar";
        /// Logical or. Bool only.
        Or: "logical_or", "or_scalar";
        /// Logical exclusive or. Bool only.
        Xor: "logical_xor", "xor_scalar";
    }
}

impl BinaryOp {
    /// Whether operands are truth values.
    pub fn is_logical(self) -> bool {
        matches!(self, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor)
    }

    /// Whether operands may be of this dtype.
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
    /// The gradient of one operand, not yet summed to its shape nor rounded to its dtype.
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

/// Which operand of a binary function is meant: the one that is a number, or whose gradient is formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `f(number, x)`.
    Left,
    /// `f(x, number)`.
    Right,
}

/// `y = f(x, scalar)` or `f(scalar, x)`. Input: x. Output: y, same shape and dtype, may take x's place. The number is rounded to x's
/// dtype first (f32 for halves); integers take none that they do not hold. Composition: a filled tensor and [`Binary`].
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
        let number = input.scalar_like(self.scalar)?;
        let operands = match self.side {
            Side::Left => [&number, &input],
            Side::Right => [&input, &number],
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
                /// Shapes that do not broadcast, dtypes that differ or that the function does not take (see [`BinaryOp`]).
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
    /// `self + other`, broadcast.
    add add_ => Add;
    /// `self - other`, broadcast.
    sub sub_ => Sub;
    /// `self * other`, broadcast.
    mul mul_ => Mul;
    /// `self / other`, broadcast. Integers: rounded towards zero, by zero gives 0.
    div div_ => Div;
    /// `self ^ other`, broadcast.
    pow pow_ => Pow;
    /// The larger of each pair, broadcast; NaN if either is.
    maximum maximum_ => Max;
    /// The smaller of each pair, broadcast; NaN if either is.
    minimum minimum_ => Min;
    /// The angle of the point `(other, self)` in radians, broadcast.
    atan2 atan2_ => Atan2;
    /// `self - other * floor(self / other)`, broadcast: the sign of `other`.
    remainder remainder_ => Remainder;
    /// Logical and of two bools, broadcast.
    logical_and logical_and_ => And;
    /// Logical or of two bools, broadcast.
    logical_or logical_or_ => Or;
    /// Logical exclusive or of two bools, broadcast.
    logical_xor logical_xor_ => Xor;
}

macro_rules! scalar_methods {
    ($($(#[$doc:meta])* $name:ident $in_place:ident => $op:ident $side:ident;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// A dtype that the function does not take (see [`BinaryOp`]), a number that an integer dtype does not hold.
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
    /// `self + scalar`.
    add_scalar add_scalar_ => Add Right;
    /// `self - scalar`.
    sub_scalar sub_scalar_ => Sub Right;
    /// `scalar - self`.
    rsub_scalar rsub_scalar_ => Sub Left;
    /// `self * scalar`.
    mul_scalar mul_scalar_ => Mul Right;
    /// `self / scalar`. Integers: rounded towards zero, by zero gives 0.
    div_scalar div_scalar_ => Div Right;
    /// `scalar / self`. Integers: rounded towards zero, by zero gives 0.
    rdiv_scalar rdiv_scalar_ => Div Left;
    /// `self ^ scalar`. Integers: by repeated multiplication, wrapping; a negative exponent gives 0 (1 and -1 excepted). Its gradient where
    /// the exponent is 0 is 0.
    pow_scalar pow_scalar_ => Pow Right;
    /// `scalar ^ self`. Integers as for [`pow_scalar`](Tensor::pow_scalar).
    rpow_scalar rpow_scalar_ => Pow Left;
    /// The larger of each element and `scalar`; NaN if either is.
    maximum_scalar maximum_scalar_ => Max Right;
    /// The smaller of each element and `scalar`; NaN if either is.
    minimum_scalar minimum_scalar_ => Min Right;
    /// The angle of the point `(scalar, self)` in radians.
    atan2_scalar atan2_scalar_ => Atan2 Right;
    /// The angle of the point `(self, scalar)` in radians.
    ratan2_scalar ratan2_scalar_ => Atan2 Left;
    /// `self - scalar * floor(self / scalar)`: the sign of `scalar`.
    remainder_scalar remainder_scalar_ => Remainder Right;
}

impl Tensor {
    /// [`pow_scalar`](Tensor::pow_scalar) with an exponent that is a float: `self ^ exponent`. Its gradient where the exponent is 0 is 0.
    ///
    /// # Errors
    /// bool; an exponent that an integer dtype does not hold.
    #[inline]
    pub fn powf(&self, exponent: f64) -> Result<Tensor> {
        let op = BinaryScalar { op: BinaryOp::Pow, scalar: Scalar::Float(exponent), side: Side::Right };
        apply_one(op, &[self])
    }

    /// In place of this tensor: [`powf`](Tensor::powf).
    ///
    /// # Errors
    /// As [`powf`](Tensor::powf) and [`apply_into`].
    #[inline]
    pub fn powf_(&self, exponent: f64) -> Result<()> {
        let op = BinaryScalar { op: BinaryOp::Pow, scalar: Scalar::Float(exponent), side: Side::Right };
        apply_into(op, &[self], self)
    }
}
