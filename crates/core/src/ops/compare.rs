//! Comparisons and the choice between two tensors.

use crate::DType;
use crate::backend::Meta;
use crate::dtype::Scalar;
use crate::error::Result;
use crate::op::{Differentiability, Output, Outputs, Rule, check};

/// A comparison. All are false if either side is NaN, but `Ne`, which is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOp {
    /// `a == b`
    Eq,
    /// `a != b`
    Ne,
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,
}

impl CompareOp {
    /// The stem.
    pub fn name(self) -> &'static str {
        match self {
            CompareOp::Eq => "eq",
            CompareOp::Ne => "ne",
            CompareOp::Lt => "lt",
            CompareOp::Le => "le",
            CompareOp::Gt => "gt",
            CompareOp::Ge => "ge",
        }
    }
}

/// `y = a ? b`, broadcast. Inputs: a, b of one dtype (any). Output: bool (0 or 1). Primitive.
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

/// `y = x ? scalar`. Input: x. Output: bool. The number is rounded to x's dtype first.
#[derive(Clone, Debug)]
pub struct CompareScalar {
    /// The comparison.
    pub op: CompareOp,
    /// The right side.
    pub scalar: Scalar,
}

impl Rule for CompareScalar {
    fn name(&self) -> &'static str {
        match self.op {
            CompareOp::Eq => "eq_scalar",
            CompareOp::Ne => "ne_scalar",
            CompareOp::Lt => "lt_scalar",
            CompareOp::Le => "le_scalar",
            CompareOp::Gt => "gt_scalar",
            CompareOp::Ge => "ge_scalar",
        }
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count(self.name(), inputs, 1)?;
        Ok(Outputs::from_buf([Output::fresh(*inputs[0].shape(), DType::Bool)]))
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::NonDifferentiable
    }
}

/// `y = condition ? a : b`, broadcast. Inputs: condition (bool), a, b of one dtype (any). Primitive.
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
}
