//! Recording of ops in the graph, and the methods of tensors that concern their node.

use super::mode;
use super::node::{
    Edge, External, Function, Hook, HookList, Leaf, Node, SavedOutput, SavedTensor, SavedTensors, Segment,
};
use super::view_op::ViewOp;
use crate::backend::Buffer;
use crate::dispatch::Tensors;
use crate::error::{Error, Result};
use crate::op::{Differentiability, Op, Saves};
use crate::ops::copy::Copy;
use crate::tensor::Tensor;
use crate::{DType, Layout};
use smallvec::SmallVec;
use std::sync::{Arc, PoisonError, Weak};

/// A registered hook. Dropping this handle does not remove the hook.
pub struct HookHandle {
    hooks: Weak<HookList>,
    hook: Hook,
}

/// The hooks of a leaf. Code that replaces a parameter passes them to the new leaf with
/// [`Tensor::share_hooks`].
#[derive(Clone)]
pub struct Hooks(Arc<HookList>);

impl std::fmt::Debug for Hooks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Hooks")
    }
}

impl std::fmt::Debug for HookHandle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "HookHandle")
    }
}

impl HookHandle {
    /// Removes the hook. Does nothing if its tensor no longer exists.
    pub fn remove(self) {
        if let Some(hooks) = self.hooks.upgrade() {
            let mut hooks = hooks.lock().unwrap_or_else(PoisonError::into_inner);
            hooks.retain(|(_, other)| !Arc::ptr_eq(&self.hook, other));
        }
    }
}

/// Returns whether an op on `inputs` must be recorded.
#[inline]
pub(crate) fn wants_record(inputs: &[&Tensor]) -> bool {
    inputs.iter().any(|tensor| tensor.0.edge.is_some()) && mode::records(inputs)
}

/// Attaches a node to the outputs of an op.
pub(crate) fn record(
    op: Op,
    inputs: &[&Tensor],
    outputs: Tensors,
    differentiability: Differentiability,
) -> Tensors {
    let node = {
        let parts: SmallVec<[OutputParts<'_>; 1]> = outputs.iter().map(OutputParts::of).collect();
        node_of(op, inputs, &parts, differentiability)
    };
    outputs
        .into_iter()
        .enumerate()
        .map(|(index, tensor)| match tensor.dtype().is_float() {
            true => tensor.attach(Edge { node: node.clone(), index: index as u32 }),
            false => tensor,
        })
        .collect()
}

/// An output that a node may save.
#[derive(Clone, Copy)]
pub(crate) struct OutputParts<'a> {
    pub(crate) buffer: &'a Buffer,
    pub(crate) layout: &'a Arc<Layout>,
    pub(crate) dtype: DType,
}

impl OutputParts<'_> {
    fn of(tensor: &Tensor) -> OutputParts<'_> {
        OutputParts { buffer: &tensor.0.buffer, layout: &tensor.0.layout, dtype: tensor.0.dtype }
    }
}

/// Records an op with one output that is not yet a tensor, and returns the output's edge.
pub(crate) fn edge(
    op: Op,
    inputs: &[&Tensor],
    output: &[OutputParts<'_>; 1],
    differentiability: Differentiability,
) -> Edge {
    Edge { node: node_of(op, inputs, output, differentiability), index: 0 }
}

/// Creates the node of an op, with the saved tensors for its gradient. The caller has checked that
/// the op must be recorded.
#[inline(always)]
fn node_of(
    op: Op,
    inputs: &[&Tensor],
    outputs: &[OutputParts<'_>],
    differentiability: Differentiability,
) -> Arc<Node> {
    let saves = match differentiability {
        Differentiability::Stated(saves) => saves,
        _ => Saves::INPUTS,
    };
    Node::new(Function::Op(op), inputs, outputs.len(), saving(saves, inputs, outputs))
}

/// Returns a function that saves in a node what its gradient needs.
#[inline(always)]
fn saving(saves: Saves, inputs: &[&Tensor], outputs: &[OutputParts<'_>]) -> impl FnOnce(&mut SavedTensors) {
    move |saved| {
        if saves.inputs != 0 {
            for (index, &tensor) in inputs.iter().enumerate() {
                saved.inputs.push(
                    saves
                        .has_input(index)
                        .then(|| SavedTensor { version: tensor.buffer().version(), tensor: tensor.clone() }),
                );
            }
        }
        if saves.outputs != 0 {
            let keep = |(index, output): (usize, &OutputParts<'_>)| {
                saves.has_output(index).then(|| SavedOutput {
                    buffer: output.buffer.clone(),
                    layout: output.layout.clone(),
                    dtype: output.dtype,
                    device: inputs[0].device().clone(),
                    version: output.buffer.version(),
                })
            };
            saved.outputs = outputs.iter().enumerate().map(keep).collect();
        }
    }
}

/// Returns a view of `source` with `layout`, recorded as `view`.
#[inline]
pub(crate) fn record_view(source: &Tensor, layout: Layout, view: impl FnOnce() -> ViewOp) -> Tensor {
    let edge = wants_record(&[source])
        .then(|| Edge { node: Node::new(Function::View(view()), &[source], 1, |_| {}), index: 0 });
    Tensor::with_edge(source.buffer().clone(), layout, source.dtype(), source.device().clone(), edge)
}

/// Returns views of `source` with `layouts`, recorded as the outputs of one `view`.
pub(crate) fn record_views(
    source: &Tensor,
    layouts: impl ExactSizeIterator<Item = Result<Layout>>,
    view: impl FnOnce() -> ViewOp,
) -> Result<Vec<Tensor>> {
    let mut tensors = Vec::new();
    if tensors.try_reserve_exact(layouts.len()).is_err() {
        return Err(Error::host_memory(layouts.len().saturating_mul(size_of::<Tensor>())));
    }
    let node =
        wants_record(&[source]).then(|| Node::new(Function::View(view()), &[source], layouts.len(), |_| {}));
    for (index, layout) in layouts.enumerate() {
        let edge = node.as_ref().map(|node| Edge { node: node.clone(), index: index as u32 });
        let (buffer, device) = (source.buffer().clone(), source.device().clone());
        tensors.push(Tensor::with_edge(buffer, layout?, source.dtype(), device, edge));
    }
    Ok(tensors)
}

/// Records `values`, which exist already, as a cast of `source`.
pub(crate) fn record_copy(source: &Tensor, values: Tensor) -> Tensor {
    let op = Op::Copy(Copy { dtype: values.dtype() });
    let outputs = Tensors::from_buf([values]);
    record(op, &[source], outputs, Differentiability::Stated(Saves::NOTHING)).swap_remove(0)
}

/// Records `moved` as a copy of `source` from its device.
pub(crate) fn record_transfer(source: &Tensor, moved: Tensor) -> Result<Tensor> {
    if !wants_record(&[source]) {
        return Ok(moved);
    }
    let node = Node::new(Function::Transfer(source.device().clone()), &[source], 1, |_| {});
    Ok(moved.attach(Edge { node, index: 0 }))
}

/// Attaches one node to `outputs`, with edges to `inputs` and the saved tensors that `saves`
/// selects.
pub(super) fn record_external(
    external: Arc<dyn External>,
    inputs: &[&Tensor],
    outputs: Vec<Tensor>,
    saves: Saves,
) -> Vec<Tensor> {
    let node = {
        let parts: SmallVec<[OutputParts<'_>; 1]> = outputs.iter().map(OutputParts::of).collect();
        Node::new(Function::Segment(Segment(external)), inputs, outputs.len(), saving(saves, inputs, &parts))
    };
    let attach = |(index, tensor): (usize, Tensor)| match tensor.dtype().is_float() {
        true => tensor.attach(Edge { node: node.clone(), index: index as u32 }),
        false => tensor,
    };
    outputs.into_iter().enumerate().map(attach).collect()
}

impl Tensor {
    /// Returns this tensor with its history replaced by `edge`.
    #[inline]
    fn attach(self, edge: Edge) -> Tensor {
        match Arc::try_unwrap(self.0) {
            Ok(mut inner) => {
                inner.edge = Some(edge);
                Tensor(Arc::new(inner))
            }
            Err(shared) => Tensor::with_edge(
                shared.buffer.clone(),
                shared.layout.clone(),
                shared.dtype,
                shared.device.clone(),
                Some(edge),
            ),
        }
    }

    /// Returns the same values without history, in the same buffer: gradients do not flow through
    /// the result.
    pub fn detach(&self) -> Tensor {
        match self.0.edge {
            None => self.clone(),
            Some(_) => Tensor::from_parts(
                self.buffer().clone(),
                self.0.layout.clone(),
                self.dtype(),
                self.device().clone(),
            ),
        }
    }

    /// Returns a leaf in the same buffer that requires a gradient, such as a parameter.
    ///
    /// A tensor that already needs a gradient, because it is a leaf or computed from one, is
    /// returned unchanged, with its history. Call `detach` first to get a new leaf.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating.
    pub fn requires_grad(&self) -> Result<Tensor> {
        if self.needs_grad() {
            return Ok(self.clone());
        }
        if !self.dtype().is_float() {
            return Err(Error::dtype("requires_grad", "tensor", self.dtype(), "a floating dtype"));
        }
        let node = Node::new(Function::Leaf, &[], 1, |saved| saved.leaf = Some(Leaf::of(self)));
        Ok(Tensor::with_edge(
            self.buffer().clone(),
            self.0.layout.clone(),
            self.dtype(),
            self.device().clone(),
            Some(Edge { node, index: 0 }),
        ))
    }

    /// Returns the view of `other`, a tensor of the base's shape, that this tensor is of `base`:
    /// applies the views that were recorded between `base` and this tensor. Returns `None` if this
    /// tensor is not a recorded view of `base`.
    ///
    /// # Errors
    /// Returns an error if the shape differs from the base's.
    pub fn same_view_of(&self, base: &Tensor, other: &Tensor) -> Result<Option<Tensor>> {
        let (Some(mut edge), Some(root)) = (self.0.edge.as_ref(), base.0.edge.as_ref()) else {
            return Ok(None);
        };
        let mut chain = Vec::new();
        let mut shape = self.shape();
        while !(Arc::ptr_eq(&edge.node, &root.node) && edge.index == root.index) {
            let (Function::View(view), Some(next)) = (edge.node.function(), edge.node.edges().first()) else {
                return Ok(None);
            };
            chain.push((view, edge.index as usize, *shape));
            shape = edge.node.input_kind(0).0;
            match next {
                Some(next) => edge = next,
                None => return Ok(None),
            }
        }
        let mut view = other.clone();
        for (op, index, shape) in chain.into_iter().rev() {
            view = op.replay(&view, index, shape)?;
        }
        Ok(Some(view))
    }

    /// Returns whether this tensor is a leaf, or a recorded view of a leaf, so that its buffer is
    /// that of a leaf.
    pub fn shows_leaf(&self) -> bool {
        let mut node = self.node();
        while let Some(view_node) = node.filter(|node| matches!(node.function(), Function::View(_))) {
            node = view_node.edges().first().and_then(Option::as_ref).map(|edge| &edge.node);
        }
        node.is_some_and(|node| node.is_leaf())
    }

    /// Returns whether a gradient flows to this tensor.
    #[inline]
    pub fn needs_grad(&self) -> bool {
        self.0.edge.is_some()
    }

    /// Returns whether this tensor is a leaf, and not computed from one.
    pub fn is_leaf(&self) -> bool {
        self.0.edge.as_ref().is_some_and(|edge| edge.node.is_leaf())
    }

    /// Returns the node that computed this tensor, if it was recorded.
    pub fn node(&self) -> Option<&Arc<Node>> {
        self.0.edge.as_ref().map(|edge| &edge.node)
    }

    /// Returns whether this handle is the only one of the tensor, and the tensor the only owner of
    /// its node, so that dropping the handle frees both.
    pub fn is_sole_owner_of_node(&self) -> bool {
        let is_sole = |edge: &Edge| Arc::strong_count(&edge.node) == 1;
        Arc::strong_count(&self.0) == 1 && self.0.edge.as_ref().is_some_and(is_sole)
    }

    /// Returns the same tensor with a separate node, with respect to which a gradient can be
    /// computed.
    pub(crate) fn tracked_alias(&self) -> Result<Tensor> {
        if self.needs_grad() {
            Ok(record_view(self, *self.layout(), || ViewOp::Reshape))
        } else {
            self.requires_grad()
        }
    }

    /// Calls `hook` with this tensor's gradient when it is final. If the hook returns a tensor,
    /// this replaces the gradient. The hook belongs to the tensor's node in the graph. It exists as
    /// long as the node, or until it is removed with the returned handle. (The parameters of
    /// `ternion-nn` transfer their hooks when their tensor is replaced.)
    ///
    /// # Errors
    /// Returns an error if no gradient flows to this tensor.
    pub fn register_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        match &self.0.edge {
            Some(edge) => {
                let hook: Hook = Arc::new(hook);
                let hooks = edge.node.hooks();
                hooks.lock().unwrap_or_else(PoisonError::into_inner).push((edge.index, hook.clone()));
                Ok(HookHandle { hooks: Arc::downgrade(hooks), hook })
            }
            None => Err(Error::autograd("register_hook: no gradient flows to this tensor")),
        }
    }

    /// Returns the hooks of this leaf, including those that are registered later; `None` if this is
    /// not a leaf.
    pub fn hooks(&self) -> Option<Hooks> {
        self.node().filter(|node| node.is_leaf()).map(|node| Hooks(node.hooks().clone()))
    }

    /// Makes this leaf share the hooks of another one.
    ///
    /// # Errors
    /// Returns an error if this is not a leaf, or if it already has hooks.
    pub fn share_hooks(&self, hooks: &Hooks) -> Result<()> {
        match self.node().filter(|node| node.is_leaf()) {
            Some(node) if node.share_hooks(&hooks.0) => Ok(()),
            Some(_) => Err(Error::autograd("share_hooks: the leaf has its own hooks")),
            None => Err(Error::autograd("share_hooks: the tensor is not a leaf")),
        }
    }
}
