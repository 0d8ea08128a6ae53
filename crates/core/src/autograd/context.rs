//! What a gradient rule may look at, take and give.

use super::fusion::{Extra, Fusion};
use super::node::{Edge, Function, Node, Unpacked};
use crate::error::{Error, Result};
use crate::op::Op;
use crate::ops::matmul::gives_row_sums;
use crate::tensor::Tensor;
use crate::{DType, Layout, Shape, UnaryOp};

/// What a gradient rule may look at.
pub struct Context<'a> {
    pub(super) node: &'a Node,
    pub(super) saved: &'a Unpacked,
    pub(super) needs: &'a [bool],
    pub(super) fusion: &'a Fusion,
}

impl Context<'_> {
    /// Input `index` as it was.
    ///
    /// # Errors
    /// If it was changed in place since, or is not among the rule's [`Saves`](crate::op::Saves).
    pub fn input(&self, index: usize) -> Result<&Tensor> {
        self.checked("input", index, self.saved.inputs.get(index))
    }

    /// Output `index` as it was.
    ///
    /// # Errors
    /// If it was changed in place since, or is not among the rule's [`Saves`](crate::op::Saves).
    pub fn output(&self, index: usize) -> Result<&Tensor> {
        self.checked("output", index, self.saved.outputs.get(index))
    }

    fn checked<'t>(
        &self,
        what: &str,
        index: usize,
        kept: Option<&'t Option<(Tensor, u64)>>,
    ) -> Result<&'t Tensor> {
        let op = self.node.function().name();
        let Some(Some((tensor, saved))) = kept else {
            return Err(Error::autograd(format!("{op} did not save its {what} {index}")));
        };
        let now = tensor.buffer().version();
        if now != *saved {
            return Err(Error::ChangedInPlace {
                op,
                what: format!("{what} {index}"),
                shape: Box::new(*tensor.shape()),
                saved: *saved,
                now,
            });
        }
        Ok(tensor)
    }

    /// The shape of input `index`.
    pub fn shape(&self, index: usize) -> &Shape {
        self.node.input_kind(index).0
    }

    /// The layout of input `index`.
    pub fn layout(&self, index: usize) -> &Layout {
        self.node.input_layout(index)
    }

    /// The dtype of input `index`.
    pub fn dtype(&self, index: usize) -> DType {
        self.node.input_kind(index).1
    }

    /// f32, if input `index` is a half that was cast from f32: a rule that forms its gradient in f32 anyway may return it so, and spare the rounding and the cast.
    pub fn uncast(&self, index: usize) -> Option<DType> {
        self.node.uncast(index)
    }

    /// The number of inputs.
    pub fn inputs(&self) -> usize {
        self.node.edges().len()
    }

    /// Whether the gradient of input `index` is asked for.
    pub fn needs(&self, index: usize) -> bool {
        self.needs.get(index).copied().unwrap_or(false)
    }

    /// Takes the gradient that other uses of input `index` have given so far, if there is one and it is of `dtype`. A rule that takes it returns the sum
    /// of it and its own: in one pass, where that of the walk would be another.
    pub fn take_partial(&self, index: usize, dtype: DType) -> Option<Tensor> {
        self.fusion.take_partial(index, dtype, self.shape(index))
    }

    /// Whether a rule may form with its own work what the walk would do apart, beside what it is offered.
    pub(crate) fn is_fusing(&self) -> bool {
        self.fusion.is_offered()
    }

    /// Whether there is a gradient to [take](Context::take_partial).
    pub(crate) fn has_partial(&self, index: usize, dtype: DType) -> bool {
        self.fusion.has_partial(index, dtype)
    }

    /// Whether the gradient of input `index`, of f32, is taken in the half precision `dtype` by the op behind it: a rule that forms it may [give](Context::give_rounded) it so, too.
    pub fn takes_rounded(&self, index: usize, dtype: DType) -> bool {
        let edge = self.node.edges().get(index).and_then(Option::as_ref);
        self.fusion.is_offered()
            && self.needs(index)
            && edge.is_some_and(|edge| edge.node.rounds_grad_to(edge.index) == Some(dtype))
    }

    /// The gradient that the rule returns for input `index`, rounded.
    pub fn give_rounded(&self, index: usize, rounded: Option<Tensor>) {
        if let Some(rounded) = rounded {
            self.fusion.give(Extra::Rounded, index, rounded);
        }
    }

    /// The gradient of the first output in the half precision `dtype`, if it came so, too.
    pub fn rounded_grad(&self, dtype: DType) -> Option<Tensor> {
        self.fusion.of_output(Extra::Rounded).filter(|rounded| rounded.dtype() == dtype)
    }

    /// The pre-activation of which input `index` is the activation, or that input itself for relu: a product gave it, and nobody but rules looks at the gradient of the activation.
    /// A rule that forms the gradient of the pre-activation instead says so by [`skip_activation`](Context::skip_activation).
    pub fn pre_activation(&self, index: usize) -> Option<PreActivation> {
        let (edge, op, output) = self.activated(index)?;
        let takes_column_sums = takes_column_sums(&edge.node);
        edge.node.kept_output(output as usize).map(|z| PreActivation { op, z, takes_column_sums })
    }

    /// The activation that gave input `index`, and the output of its node that the gradient is computed from.
    fn activated(&self, index: usize) -> Option<(&Edge, UnaryOp, u32)> {
        let edge = self.node.edges().get(index)?.as_ref().filter(|_| self.fusion.may_skip(index))?;
        let (op, output) = edge.node.activation().filter(|_| edge.index == ACTIVATED)?;
        Some((edge, op, output))
    }

    /// The sums of the columns of the gradient that the rule returns for input `index`, in its accumulator dtype.
    pub fn give_column_sums(&self, index: usize, sums: Option<Tensor>) {
        if let Some(sums) = sums {
            self.fusion.give(Extra::ColumnSums, index, sums);
        }
    }

    /// The sums of the columns of the gradient of a sum, the only one that came, if they came with it.
    pub fn column_sums(&self) -> Option<Tensor> {
        self.fusion.of_output(Extra::ColumnSums)
    }

    /// `grad`, which the rule returns for input `index`, is the gradient of its [pre-activation](Context::pre_activation). Behind the sums of its columns, where those are given, too.
    pub fn skip_activation(&self, index: usize, grad: &Tensor) {
        match self.activated(index) {
            Some((.., PRE_ACTIVATION)) => self.fusion.skip(index),
            Some(_) if self.fusion.of_input(index).is_none() => {
                self.fusion.give(Extra::OfRelu, index, grad.clone());
            }
            _ => {}
        }
    }

    /// Whether the gradient of the first output, which relu gave, is all 0 already where that output is.
    pub(crate) fn is_past_relu(&self) -> bool {
        [Extra::OfRelu, Extra::ColumnSums].iter().any(|&extra| self.fusion.of_output(extra).is_some())
    }
}

/// What the gradient of an activation is computed from.
pub struct PreActivation {
    /// The function.
    pub op: UnaryOp,
    /// The values that the function was applied to; for relu its results, which are above 0 where those are.
    pub z: Tensor,
    /// Whether a bias is part of them whose gradient does not come with that of the weight: it takes sums of columns.
    pub takes_column_sums: bool,
}

/// Whether a product of `node` has a bias that asks for a gradient, which does not come with that of the right operand.
fn takes_column_sums(node: &Node) -> bool {
    let Function::Op(Op::Matmul(matmul)) = node.function() else { return false };
    let needs = |input: usize| node.edges().get(input).is_some_and(Option::is_some);
    matmul.epilogue.bias && needs(2) && !(needs(1) && gives_row_sums(node.input_layout(1)))
}

/// The outputs of a product with an activation and the pre-activation.
pub(super) const ACTIVATED: u32 = 0;
pub(super) const PRE_ACTIVATION: u32 = 1;
