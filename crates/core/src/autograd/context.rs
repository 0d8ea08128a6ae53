//! The interface of gradient rules: what they can read, take and return.

use super::fusion::{Extra, Fusion};
use super::node::{Edge, Function, Node, Unpacked};
use crate::error::{Error, Result};
use crate::op::Op;
use crate::ops::matmul::computes_row_sums;
use crate::tensor::Tensor;
use crate::{DType, Layout, Shape, UnaryOp};

/// The information that a gradient rule can access.
pub struct Context<'a> {
    pub(super) node: &'a Node,
    pub(super) saved: &'a Unpacked,
    pub(super) needs: &'a [bool],
    pub(super) fusion: &'a Fusion,
}

impl Context<'_> {
    /// Returns the saved input `index`.
    ///
    /// # Errors
    /// Returns an error if it was changed in place since, or if it is not among the rule's
    /// [`Saves`](crate::op::Saves).
    pub fn input(&self, index: usize) -> Result<&Tensor> {
        self.checked("input", index, self.saved.inputs.get(index))
    }

    /// Returns the saved output `index`.
    ///
    /// # Errors
    /// Returns an error if it was changed in place since, or if it is not among the rule's
    /// [`Saves`](crate::op::Saves).
    pub fn output(&self, index: usize) -> Result<&Tensor> {
        self.checked("output", index, self.saved.outputs.get(index))
    }

    /// Returns a saved tensor, and an error if it was not saved or was changed in place since.
    fn checked<'t>(
        &self,
        what: &str,
        index: usize,
        saved_entry: Option<&'t Option<(Tensor, u64)>>,
    ) -> Result<&'t Tensor> {
        let op = self.node.function().name();
        let Some(Some((tensor, saved))) = saved_entry else {
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

    /// Returns the shape of input `index`.
    pub fn shape(&self, index: usize) -> &Shape {
        self.node.input_kind(index).0
    }

    /// Returns the layout of input `index`.
    pub fn layout(&self, index: usize) -> &Layout {
        self.node.input_layout(index)
    }

    /// Returns the dtype of input `index`.
    pub fn dtype(&self, index: usize) -> DType {
        self.node.input_kind(index).1
    }

    /// Returns f32 if input `index` is half precision that was cast from f32. A rule that computes
    /// its gradient in f32 may then return it in f32, which saves the rounding and the cast.
    pub fn pre_cast_dtype(&self, index: usize) -> Option<DType> {
        self.node.pre_cast_dtype(index)
    }

    /// Returns the number of inputs.
    pub fn inputs(&self) -> usize {
        self.node.edges().len()
    }

    /// Returns whether the gradient of input `index` is needed.
    pub fn needs(&self, index: usize) -> bool {
        self.needs.get(index).copied().unwrap_or(false)
    }

    /// Takes the partial gradient of input `index` from its other uses, if there is one and its
    /// dtype is `dtype`. A rule that takes it returns the sum of it and its own gradient, which
    /// saves the separate addition of the backward pass.
    pub fn take_partial(&self, index: usize, dtype: DType) -> Option<Tensor> {
        self.fusion.take_partial(index, dtype, self.shape(index))
    }

    /// Returns whether the rule may fuse other work, too, that the backward pass would otherwise do
    /// in separate ops.
    pub(crate) fn is_fusing(&self) -> bool {
        self.fusion.is_offered()
    }

    /// Returns whether there is a partial gradient to [take](Context::take_partial).
    pub(crate) fn has_partial(&self, index: usize, dtype: DType) -> bool {
        self.fusion.has_partial(index, dtype)
    }

    /// Returns whether input `index` is f32 and the op that computed it reads its gradient in
    /// `dtype`, a half precision. The rule, which computes this gradient, may then also
    /// [provide](Context::set_half_grad) it in `dtype`.
    pub fn wants_half_grad(&self, index: usize, dtype: DType) -> bool {
        let edge = self.node.edges().get(index).and_then(Option::as_ref);
        self.fusion.is_offered()
            && self.needs(index)
            && edge.is_some_and(|edge| edge.node.rounds_grad_to(edge.index) == Some(dtype))
    }

    /// Provides a copy, rounded to half precision, of the gradient that the rule returns for input
    /// `index`.
    pub fn set_half_grad(&self, index: usize, rounded: Option<Tensor>) {
        if let Some(rounded) = rounded {
            self.fusion.provide(Extra::Rounded, index, rounded);
        }
    }

    /// Returns the gradient of the first output in the half precision `dtype`, if it was provided.
    pub fn half_grad(&self, dtype: DType) -> Option<Tensor> {
        self.fusion.of_output(Extra::Rounded).filter(|rounded| rounded.dtype() == dtype)
    }

    /// Returns the pre-activation of input `index` (for relu, the input itself) if a matrix product
    /// with this activation computed the input, and no hook or caller needs the gradient of the
    /// activation. The rule may then return the gradient of the pre-activation instead, and must
    /// declare this with [`skip_activation`](Context::skip_activation).
    pub fn pre_activation(&self, index: usize) -> Option<PreActivation> {
        let (edge, op, output) = self.activated(index)?;
        let takes_column_sums = takes_column_sums(&edge.node);
        edge.node.saved_output(output as usize).map(|z| PreActivation { op, z, takes_column_sums })
    }

    /// Returns the edge of input `index`, the activation that computed it, and the index of the
    /// node's output from which the gradient of the activation is computed.
    fn activated(&self, index: usize) -> Option<(&Edge, UnaryOp, u32)> {
        let edge = self.node.edges().get(index)?.as_ref().filter(|_| self.fusion.may_skip(index))?;
        let (op, output) = edge.node.activation().filter(|_| edge.index == ACTIVATED)?;
        Some((edge, op, output))
    }

    /// Provides the column sums of the gradient that the rule returns for input `index`, in its
    /// accumulator dtype.
    pub fn set_column_sums(&self, index: usize, sums: Option<Tensor>) {
        if let Some(sums) = sums {
            self.fusion.provide(Extra::ColumnSums, index, sums);
        }
    }

    /// Returns the column sums of the gradient of the pre-activation, if a rule provided them and
    /// no other gradient was added.
    pub fn column_sums(&self) -> Option<Tensor> {
        self.fusion.of_output(Extra::ColumnSums)
    }

    /// Declares that `grad`, which the rule returns for input `index`, is the gradient of its
    /// [pre-activation](Context::pre_activation). A rule that also [provides column
    /// sums](Context::set_column_sums) must do so first.
    pub fn skip_activation(&self, index: usize, grad: &Tensor) {
        match self.activated(index) {
            Some((.., PRE_ACTIVATION)) => self.fusion.skip(index),
            Some(_) if self.fusion.of_input(index).is_none() => {
                self.fusion.provide(Extra::OfRelu, index, grad.clone());
            }
            _ => {}
        }
    }

    /// Returns whether the gradient of the first output, which relu computed, is already 0 wherever
    /// that output is 0.
    pub(crate) fn is_past_relu(&self) -> bool {
        [Extra::OfRelu, Extra::ColumnSums].iter().any(|&extra| self.fusion.of_output(extra).is_some())
    }
}

/// The values from which the gradient of an activation is computed.
pub struct PreActivation {
    /// The activation function.
    pub op: UnaryOp,
    /// The input of the function; for relu its output, which is positive where the input is.
    pub z: Tensor,
    /// Whether the product has a bias whose gradient must be computed from column sums, because it
    /// is not computed together with the gradient of the weight.
    pub takes_column_sums: bool,
}

/// Returns whether `node` is a matrix product with a bias that needs a gradient, and this gradient
/// is not computed together with the gradient of the right operand.
fn takes_column_sums(node: &Node) -> bool {
    let Function::Op(Op::Matmul(matmul)) = node.function() else { return false };
    let needs = |input: usize| node.edges().get(input).is_some_and(Option::is_some);
    matmul.epilogue.bias && needs(2) && !(needs(1) && computes_row_sums(node.input_layout(1)))
}

/// The output of a matrix product with an activation that holds the activation's result.
pub(super) const ACTIVATED: u32 = 0;
/// The output of such a product that holds the input of the activation.
pub(super) const PRE_ACTIVATION: u32 = 1;
