//! What a gradient rule may fuse with its own work: sums of gradients, and the gradient of an activation before it.
//!
//! A gradient of f32 that a product takes in half precision may come rounded, too, from the rule that forms it: then nothing reads it once more for that.
//!
//! ```text
//!     x ---------------------.            backward: the residual's gradient arrives at x first; the rule of the norm takes it (a partial sum) and returns
//!     |                      |            the whole gradient of x in the pass that forms its own
//!     norm -> .. products -> +
//!
//!     x -- product -- activation -- product --> y        backward: the rule of the second product returns the gradient of the pre-activation; of relu, whose
//!                                                        gradient is computed from its output, one that is 0 already where that output is
//! ```
//!
//! Nothing is offered where somebody looks at single gradients: hooks, observers, the search for NaN, gradients of gradients; nor inside [`without_fusion`](super::without_fusion).

use super::context::{ACTIVATED, PRE_ACTIVATION};
use super::node::{Edge, Node};
use crate::tensor::Tensor;
use crate::{DType, Shape};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};

/// What the rule of one node may take, and what it took.
#[derive(Default)]
pub(super) struct Fusion {
    /// Of each input, the sum of the gradients that came from elsewhere.
    partials: RefCell<SmallVec<[Option<Partial>; 3]>>,
    /// Bit `i`: the activation that gave input `i` may be skipped.
    may_skip: u64,
    /// Bit `i`: it was.
    skipped: Cell<u64>,
    /// Whether anything is offered: gradients may be given rounded, too, and with others.
    is_offered: bool,
    /// What came with the gradient of an output.
    came: Option<(Extra, Tensor)>,
    /// What the rule gave with the gradients of inputs.
    given: RefCell<SmallVec<[(usize, (Extra, Tensor)); 1]>>,
}

/// What may come with a gradient, formed in the same pass.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extra {
    /// The gradient rounded to half precision.
    Rounded,
    /// The sums of its columns, of the gradient of a sum.
    ColumnSums,
    /// That it is 0 already where relu was: the gradient itself, which relu's own rule would not change. What other uses of relu's result add to it ends this, and all of the sum goes through
    /// that rule.
    OfRelu,
}

/// A sum of gradients that have come to an output of a node so far.
pub(super) struct Partial {
    pub(super) sum: Tensor,
    /// The node and its output. Between them and the input there may be reshapes.
    pub(super) node: u64,
    pub(super) output: u32,
}

fn bit(index: usize) -> u64 {
    1u64.checked_shl(index as u32).unwrap_or(0)
}

impl Fusion {
    /// What is offered for `node`: `partial` gives up the sum that has come to an edge so far, `is_watched` says whether somebody looks at the gradient of
    /// an output of a node.
    pub(super) fn of(
        node: &Node,
        needs: &[bool],
        came: Option<(Extra, Tensor)>,
        mut partial: impl FnMut(&Edge) -> Option<Partial>,
        is_watched: impl Fn(&Node, u32) -> bool,
    ) -> Fusion {
        let mut fusion = Fusion { is_offered: true, came, ..Fusion::default() };
        let partials = fusion.partials.get_mut();
        for (index, edge) in node.edges().iter().enumerate() {
            let edge = edge.as_ref().filter(|_| needs[index]);
            partials.push(edge.and_then(&mut partial));
            let is_unwatched =
                |node: &Node| ![ACTIVATED, PRE_ACTIVATION].iter().any(|&at| is_watched(node, at));
            let skips = |node: &Node| node.activation().is_some() && is_unwatched(node);
            if edge.is_some_and(|edge| edge.index == ACTIVATED && skips(&edge.node)) {
                fusion.may_skip |= bit(index);
            }
        }
        fusion
    }

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

    pub(super) fn may_skip(&self, index: usize) -> bool {
        self.may_skip & bit(index) != 0
    }

    pub(super) fn skip(&self, index: usize) {
        self.skipped.set(self.skipped.get() | self.may_skip & bit(index));
    }

    pub(super) fn has_skipped(&self, index: usize) -> bool {
        self.skipped.get() & bit(index) != 0
    }

    pub(super) fn is_offered(&self) -> bool {
        self.is_offered
    }

    /// What came with the gradient of an output, if it is of this kind.
    pub(super) fn of_output(&self, extra: Extra) -> Option<Tensor> {
        self.came.as_ref().filter(|(kind, _)| *kind == extra).map(|(_, tensor)| tensor.clone())
    }

    pub(super) fn give(&self, extra: Extra, index: usize, tensor: Tensor) {
        self.given.borrow_mut().push((index, (extra, tensor)));
    }

    /// What the rule gave with the gradient of input `index`.
    pub(super) fn of_input(&self, index: usize) -> Option<(Extra, Tensor)> {
        let given = self.given.borrow();
        given.iter().find(|(at, _)| *at == index).map(|(_, extra)| extra.clone())
    }

    /// The partial sums that were not taken.
    pub(super) fn into_partials(self) -> impl Iterator<Item = Partial> {
        self.partials.into_inner().into_iter().flatten()
    }
}
