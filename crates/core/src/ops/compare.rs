//! Comparisons, and the selection between two tensors.

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
    /// A comparison. If either operand is NaN, the result is true for `Ne` and false for all
    /// others.
    pub enum CompareOp: name, scalar_name {
        /// `a == b`
        Eq: "eq", "eq_scalar";
        /// `a != b`
        Ne: "ne", "ne_scalar";
        /// `a < b`
        Lt: "lt", "lt_scalar";
        /// `a <= b`
        Le: "le", "le_scalar";
        /// `a > b`
        Gt: "gt", "gt_scalar";
        /// `a >= b`
        Ge: "ge", "ge_scalar";
    }
}

/// `y = a ? b`, where `?` is the comparison, broadcast. Inputs: a, b of one dtype (any). Output:
/// bool (0 or 1). Primitive.
#[derive(Clone, Debug)]
pub struct Compare {
    /// The comparison.
    pub op: CompareOp,
}

impl Rule for Compare {
    fn name(&self) -> &'static str {
        self.op.name()
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = self.name();
        check::count(name, inputs, 2)?;
        check::same_dtype(name, &inputs[0], &inputs[1])?;
        let shape = inputs[0].shape().broadcast(inputs[1].shape(), name)?;
        Ok(Outputs::from_buf([Output::fresh(shape, DType::Bool)]))
    }
    fn is_primitive(&self) -> bool {
        true
    }
    fn broadcasts(&self) -> bool {
        true
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::NonDifferentiable
    }
}

/// `y = x ? scalar`, where `?` is the comparison. Input: x. Output: bool. The scalar is first
/// rounded to x's dtype; an integer dtype must represent it exactly.
#[derive(Clone, Debug)]
pub struct CompareScalar {
    /// The comparison.
    pub op: CompareOp,
    /// The right operand.
    pub scalar: Scalar,
}

impl Rule for CompareScalar {
    fn name(&self) -> &'static str {
        self.op.scalar_name()
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count(self.name(), inputs, 1)?;
        exact_scalar(self.name(), self.scalar, inputs[0].dtype)?;
        Ok(Outputs::from_buf([Output::fresh(*inputs[0].shape(), DType::Bool)]))
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let scalar_tensor = inputs[0].scalar_like(self.scalar)?;
        Ok(vec![apply_one(Compare { op: self.op }, &[&inputs[0], &scalar_tensor])?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::NonDifferentiable
    }
}

/// `y = condition ? a : b`, broadcast. Inputs: condition (bool), a, b of one dtype (any).
/// Primitive.
#[derive(Clone, Debug)]
pub struct Select;

impl Rule for Select {
    fn name(&self) -> &'static str {
        "where"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = self.name();
        check::count(name, inputs, 3)?;
        check::dtype(name, "condition", &inputs[0], DType::Bool)?;
        check::same_dtype(name, &inputs[1], &inputs[2])?;
        let shape =
            inputs[0].shape().broadcast(inputs[1].shape(), name)?.broadcast(inputs[2].shape(), name)?;
        Ok(Outputs::from_buf([Output::fresh(shape, inputs[1].dtype)]))
    }
    fn is_primitive(&self) -> bool {
        true
    }
    fn broadcasts(&self) -> bool {
        true
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves { inputs: 0b001, outputs: 0 })
    }
    /// `da = condition ? dy : 0`, `db = condition ? 0 : dy`, each summed to its operand's shape.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let Some(dy) = &grad_outputs[0] else { return Ok(Grads::new()) };
        let (condition, zero) = (context.input(0)?, dy.scalar_like(0i64)?);
        let mut grads = Grads::from_elem(None, 3);
        if context.needs(1) {
            grads[1] = Some(sum_to(&condition.where_(dy, &zero)?, context.shape(1))?);
        }
        if context.needs(2) {
            grads[2] = Some(sum_to(&condition.where_(&zero, dy)?, context.shape(2))?);
        }
        Ok(grads)
    }
}

macro_rules! compare_methods {
    ($($name:ident $scalar_name:ident $symbol:literal => $op:ident;)*) => {
        impl Tensor {
            $(
                #[doc = concat!("Where `self ", $symbol, " other`, broadcast: a tensor of bool.")]
                ///
                /// # Errors
                /// Returns an error if shapes do not broadcast, or if dtypes differ.
                #[inline]
                pub fn $name(&self, other: &Tensor) -> Result<Tensor> {
                    apply_one(Compare { op: CompareOp::$op }, &[self, other])
                }

                #[doc = concat!("Where `self ", $symbol, " scalar`, which is rounded to this dtype first: a tensor of bool.")]
                ///
                /// # Errors
                /// Returns an error if an integer dtype cannot represent the scalar.
                #[inline]
                pub fn $scalar_name(&self, scalar: impl Into<Scalar>) -> Result<Tensor> {
                    apply_one(CompareScalar { op: CompareOp::$op, scalar: scalar.into() }, &[self])
                }
            )*
        }
    };
}

compare_methods! {
    eq eq_scalar "==" => Eq;
    ne ne_scalar "!=" => Ne;
    lt lt_scalar "<" => Lt;
    le le_scalar "<=" => Le;
    gt gt_scalar ">" => Gt;
    ge ge_scalar ">=" => Ge;
}

impl Tensor {
    /// Selects elements of `a` where this tensor is true, and of `b` elsewhere, with broadcasting.
    ///
    /// # Errors
    /// Returns an error if this tensor is not bool, if the dtypes of a and b differ, or if shapes
    /// do not broadcast.
    pub fn where_(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        apply_one(Select, &[self, a, b])
    }

    /// Returns this tensor with `value` where `mask` is true.
    ///
    /// # Shapes
    /// The mask broadcasts to this tensor's shape.
    ///
    /// # Errors
    /// Returns an error if the mask is not bool or does not broadcast to this shape, or if an
    /// integer dtype cannot represent the value.
    pub fn masked_fill(&self, mask: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        let (mask, value) = self.mask_and_value(mask, value.into())?;
        mask.where_(&value, self)
    }

    /// In-place version of [`masked_fill`](Tensor::masked_fill).
    ///
    /// # Errors
    /// Same as [`masked_fill`](Tensor::masked_fill) and [`apply_into`].
    pub fn masked_fill_(&self, mask: &Tensor, value: impl Into<Scalar>) -> Result<()> {
        let (mask, value) = self.mask_and_value(mask, value.into())?;
        apply_into(Select, &[&mask, &value, self], self)
    }

    fn mask_and_value(&self, mask: &Tensor, value: Scalar) -> Result<(Tensor, Tensor)> {
        check::dtype("masked_fill", "mask", &mask.meta(), DType::Bool)?;
        if !mask.shape().broadcasts_to(self.shape()) {
            return Err(Error::Broadcast {
                op: "masked_fill",
                left: Box::new(*self.shape()),
                right: Box::new(*mask.shape()),
            });
        }
        exact_scalar("masked_fill", value, self.dtype())?;
        Ok((mask.expand(*self.shape())?, self.scalar_like(value)?))
    }
}
