//! Work that a gradient rule can fuse with its own: sums of gradients, and the gradient of the
//! activation before it.
//!
//! If a matrix product reads an f32 gradient in half precision, the rule that computes the gradient
//! can provide it in rounded form too, which saves a separate pass over it.
//!
//! ```text
//!     x ---------------------.
//!     |                      |
//!     norm -> .. products -> +
//!
//!     x -- product -- activation -- product --> y
//! ```
//!
//! - Residual: the gradient of the residual connection arrives at x first. The rule of the norm
//!   takes it (a partial sum), adds its own gradient in the same pass, and returns the total
//!   gradient of x.
//! - Activation: the rule of the second product returns the gradient of the pre-activation. For
//!   relu, whose gradient is computed from its output, it returns a gradient that is already 0
//!   wherever that output is 0.
//!
//! No fusion is offered if each gradient must be visible: with hooks, observers, anomaly detection
//! or double backward; nor in [`without_fusion`](super::without_fusion).

use super::context::{ACTIVATED, PRE_ACTIVATION};
use super::node::{Edge, Node};
use crate::tensor::Tensor;
use crate::{DType, Shape};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};

/// The work that the gradient rule of one node may fuse, and the work that it fused.
#[derive(Default)]
pub(super) struct Fusion {
    /// For each input, the sum of the gradients from other uses.
    partials: RefCell<SmallVec<[Option<Partial>; 3]>>,
    /// Bit `i`: the activation that computed input `i` may be skipped.
    may_skip: u64,
    /// Bit `i`: the activation that computed input `i` was skipped.
    skipped: Cell<u64>,
    /// Whether anything is offered. If so, rules may also provide gradients in rounded form or with
    /// column sums.
    is_offered: bool,
    /// Extra data that another rule provided with the gradient of an output.
    received: Option<(Extra, Tensor)>,
    /// Extra data that this rule provided with the gradients of its inputs, by input index.
    provided: RefCell<SmallVec<[(usize, (Extra, Tensor)); 1]>>,
}

/// Data that can be provided with a gradient, computed in the same pass.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extra {
    /// The gradient rounded to half precision.
    Rounded,
    /// The column sums of the gradient of a pre-activation.
    ColumnSums,
    /// The gradient itself, as a sign that it is already 0 where relu's output is 0, so that relu's
    /// rule would not change it. If other uses of relu's output add to the gradient, this is no
    /// longer true, and relu's rule is applied to the sum.
    OfRelu,
}

/// The sum of gradients that have arrived so far for an output of a node.
pub(super) struct Partial {
    pub(super) sum: Tensor,
    /// The node, and the index of its output. There may be reshapes between this output and the
    /// rule's input.
    pub(super) node: u64,
    pub(super) output: u32,
}

/// Returns the bit of input `index` in `may_skip` and `skipped`. It is 0 for `index` 64 and above:
/// the activations of these inputs are never skipped.
fn bit(index: usize) -> u64 {
    1u64.checked_shl(index as u32).unwrap_or(0)
}

impl Fusion {
    /// Returns what the rule of `node` may fuse. `partial` takes the sum that has arrived for an
    /// edge so far, and `is_requested_output` returns whether the caller of the backward pass
    /// requested the gradient of an output of a node.
    pub(super) fn of(
        node: &Node,
        needs: &[bool],
        received: Option<(Extra, Tensor)>,
        mut partial: impl FnMut(&Edge) -> Option<Partial>,
        is_requested_output: impl Fn(&Node, u32) -> bool,
    ) -> Fusion {
        let mut fusion = Fusion { is_offered: true, received, ..Fusion::default() };
        let partials = fusion.partials.get_mut();
        for (index, edge) in node.edges().iter().enumerate() {
            let edge = edge.as_ref().filter(|_| needs[index]);
            partials.push(edge.and_then(&mut partial));
            let is_unrequested = |node: &Node| {
                ![ACTIVATED, PRE_ACTIVATION].iter().any(|&output| is_requested_output(node, output))
            };
            let can_skip = |node: &Node| node.activation().is_some() && is_unrequested(node);
            if edge.is_some_and(|edge| edge.index == ACTIVATED && can_skip(&edge.node)) {
                fusion.may_skip |= bit(index);
            }
        }
        fusion
    }

    /// See [`Context::take_partial`](super::Context::take_partial).
    pub(super) fn take_partial(&self, index: usize, dtype: DType, shape: &Shape) -> Option<Tensor> {
        let mut partials = self.partials.borrow_mut();
        let Partial { sum, .. } = partials.get_mut(index)?.take_if(|partial| partial.sum.dtype() == dtype)?;
        if sum.shape() == shape { Some(sum) } else { sum.reshape(*shape).ok() }
    }

    pub(super) fn has_partial(&self, index: usize, dtype: DType) -> bool {
        let partials = self.partials.borrow();
        let partial = partials.get(index).and_then(Option::as_ref);
        partial.is_some_and(|partial| partial.sum.dtype() == dtype)
    }

    /// Returns whether the rule may return the gradient of the pre-activation of input `index`.
    pub(super) fn may_skip(&self, index: usize) -> bool {
        self.may_skip & bit(index) != 0
    }

    /// Records that the rule returns the gradient of the pre-activation of input `index`.
    pub(super) fn skip(&self, index: usize) {
        self.skipped.set(self.skipped.get() | self.may_skip & bit(index));
    }

    pub(super) fn has_skipped(&self, index: usize) -> bool {
        self.skipped.get() & bit(index) != 0
    }

    pub(super) fn is_offered(&self) -> bool {
        self.is_offered
    }

    /// Returns the data that was provided with the gradient of an output, if it is this `extra`.
    pub(super) fn of_output(&self, extra: Extra) -> Option<Tensor> {
        self.received.as_ref().filter(|(kind, _)| *kind == extra).map(|(_, tensor)| tensor.clone())
    }

    /// Stores data that the rule computed along with the gradient of input `index`.
    pub(super) fn provide(&self, extra: Extra, index: usize, tensor: Tensor) {
        self.provided.borrow_mut().push((index, (extra, tensor)));
    }

    /// Returns the data that the rule provided with the gradient of input `index`.
    pub(super) fn of_input(&self, index: usize) -> Option<(Extra, Tensor)> {
        let provided = self.provided.borrow();
        provided.iter().find(|(at, _)| *at == index).map(|(_, extra)| extra.clone())
    }

    /// Returns the partial sums that were not taken.
    pub(super) fn into_partials(self) -> impl Iterator<Item = Partial> {
        self.partials.into_inner().into_iter().flatten()
    }
}
