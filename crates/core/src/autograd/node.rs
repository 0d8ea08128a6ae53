//! Nodes of the graph: the function that was run, its inputs, and the saved tensors for its
//! gradient.

use super::context::{ACTIVATED, Context, PRE_ACTIVATION};
use super::fusion::{Extra, Fusion};
use super::gradients::TensorId;
use super::view_op::ViewOp;
use crate::backend::{Buffer, WeakBuffer};
use crate::error::{Error, Result};
use crate::op::{Differentiability, Op};
use crate::ops::matmul::Epilogue;
use crate::ops::view;
use crate::precision::HalfCopyOfLeaf;
use crate::shape::{AxisSet, MAX_RANK};
use crate::tensor::Tensor;
use crate::{DType, Device, Layout, Shape, UnaryOp, text};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The gradients of an op's inputs: `None` for inputs that need no gradient or do not affect the
/// output.
pub type Grads = SmallVec<[Option<Tensor>; 3]>;

/// Output `index` of a node.
#[derive(Clone)]
pub struct Edge {
    pub(crate) node: Arc<Node>,
    pub(crate) index: u32,
}

/// A gradient rule that does not belong to an op: of checkpointed segments, and of functions with a
/// custom gradient.
pub(crate) trait External: Send + Sync {
    fn name(&self) -> &'static str;
    fn backward(
        &self,
        context: &Context<'_>,
        grad_outputs: &[Option<Tensor>],
        create_graph: bool,
    ) -> Result<Grads>;
}

/// The function that a node represents.
#[derive(Clone)]
pub enum Function {
    /// No function: the tensor is a leaf, which requires a gradient.
    Leaf,
    /// An op.
    Op(Op),
    /// A view.
    View(ViewOp),
    /// A transfer from this device to another.
    Transfer(Device),
    /// A segment that is recomputed for its gradient, or a function with a custom gradient.
    #[doc(hidden)]
    Segment(Segment),
}

/// An opaque gradient rule.
#[derive(Clone)]
#[doc(hidden)]
pub struct Segment(pub(crate) Arc<dyn External>);

impl Function {
    /// Returns the name of the op or view.
    pub fn name(&self) -> &'static str {
        match self {
            Function::Leaf => "leaf",
            Function::Op(op) => op.name(),
            Function::View(view) => view.name(),
            Function::Transfer(_) => "to_device",
            Function::Segment(segment) => segment.0.name(),
        }
    }
}

/// A saved tensor, with the version of its buffer at that time.
pub(super) struct SavedTensor {
    pub(super) tensor: Tensor,
    pub(super) version: u64,
}

/// A saved output, as separate fields: a tensor would own the node that saves it, a reference
/// cycle.
pub(super) struct SavedOutput {
    pub(super) buffer: Buffer,
    pub(super) layout: Arc<Layout>,
    pub(super) dtype: DType,
    pub(super) device: Device,
    pub(super) version: u64,
}

/// The data of a leaf that its node needs for display and for its half-precision copy. It does not
/// keep the buffer alive.
pub(super) struct Leaf {
    buffer: WeakBuffer,
    layout: Arc<Layout>,
    dtype: DType,
    device: Device,
    half_copy: HalfCopyOfLeaf,
}

impl Leaf {
    pub(super) fn of(tensor: &Tensor) -> Box<Leaf> {
        let (buffer, device) = (tensor.buffer().downgrade(), tensor.device().clone());
        let (layout, dtype) = (tensor.0.layout.clone(), tensor.dtype());
        Box::new(Leaf { buffer, layout, dtype, device, half_copy: HalfCopyOfLeaf::default() })
    }

    fn tensor(&self) -> Option<Tensor> {
        let buffer = self.buffer.upgrade()?;
        Some(Tensor::from_parts(buffer, self.layout.clone(), self.dtype, self.device.clone()))
    }
}

#[derive(Default)]
pub(super) struct SavedTensors {
    pub(super) inputs: SmallVec<[Option<SavedTensor>; 2]>,
    pub(super) outputs: Vec<Option<SavedOutput>>,
    pub(super) leaf: Option<Box<Leaf>>,
    pub(super) freed: bool,
}

pub(super) type Hook = Arc<dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync>;

/// The hooks of a node's outputs.
pub(super) type HookList = Mutex<Vec<(u32, Hook)>>;

/// One function call in the recorded graph.
pub struct Node {
    id: u64,
    function: Function,
    /// One edge for each input, along which its gradient is passed.
    edges: SmallVec<[Option<Edge>; 2]>,
    /// The layouts (shared with the inputs) and dtypes of the inputs.
    inputs: SmallVec<[(Arc<Layout>, DType); 2]>,
    outputs: u32,
    saved: Mutex<SavedTensors>,
    hooks: OnceLock<Arc<HookList>>,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Returns the id that the next node will get. Nodes that are recorded later have this id or a
/// larger one.
pub fn next_node_id() -> u64 {
    NEXT_ID.load(Ordering::Relaxed)
}

impl Node {
    /// Creates a node of `function` with edges to `inputs`, and saves what `save` adds.
    ///
    /// The node is initialized in place: creating it first and moving it to the heap would cost as
    /// much as a small op.
    #[inline(always)]
    pub(super) fn new(
        function: Function,
        inputs: &[&Tensor],
        outputs: usize,
        save: impl FnOnce(&mut SavedTensors),
    ) -> Arc<Node> {
        let mut node = Arc::new(Node {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            function: Function::Leaf,
            edges: SmallVec::new(),
            inputs: SmallVec::new(),
            outputs: outputs as u32,
            saved: Mutex::new(SavedTensors {
                inputs: SmallVec::new(),
                outputs: Vec::new(),
                leaf: None,
                freed: false,
            }),
            hooks: OnceLock::new(),
        });
        let new = Arc::get_mut(&mut node).expect("it is not shared yet");
        new.function = function;
        for tensor in inputs {
            new.edges.push(tensor.0.edge.clone());
            new.inputs.push((tensor.0.layout.clone(), tensor.dtype()));
        }
        save(new.saved.get_mut().unwrap_or_else(PoisonError::into_inner));
        node
    }

    /// Returns the id, which increases in the order of recording.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the function.
    pub fn function(&self) -> &Function {
        &self.function
    }

    pub(super) fn edges(&self) -> &[Option<Edge>] {
        &self.edges
    }

    /// Returns the nodes that computed the inputs; `None` for inputs without a gradient.
    pub fn input_nodes(&self) -> impl Iterator<Item = Option<&Arc<Node>>> {
        self.edges.iter().map(|edge| edge.as_ref().map(|edge| &edge.node))
    }

    /// Returns shape and dtype of input `index`.
    pub(super) fn input_kind(&self, index: usize) -> (&Shape, DType) {
        (self.inputs[index].0.shape(), self.inputs[index].1)
    }

    /// Returns the layout of input `index`.
    pub(super) fn input_layout(&self, index: usize) -> &Layout {
        &self.inputs[index].0
    }

    /// Returns f32 if input `index` is half precision that was cast from f32: its gradient may then
    /// be f32, and is not rounded in between. A limited number of views between cast and input is
    /// allowed. If there are hooks, the result is `None`, because hooks receive gradients of their
    /// tensor's dtype.
    pub(super) fn pre_cast_dtype(&self, index: usize) -> Option<DType> {
        let mut node = self.inputs.get(index).filter(|(_, dtype)| dtype.is_half()).map(|_| self)?;
        let mut input = index;
        for _ in 0..MAX_RANK {
            node = &*node.edges[input].as_ref()?.node;
            input = 0;
            match &node.function {
                _ if node.hooks.get().is_some() => return None,
                Function::View(_) => {}
                Function::Op(Op::Copy(_)) => {
                    return Some(node.inputs[0].1).filter(|&dtype| dtype == DType::F32);
                }
                _ => return None,
            }
        }
        None
    }

    /// Returns the id of the tensor that was input `index`, if it needs a gradient.
    pub fn input_id(&self, index: usize) -> Option<TensorId> {
        self.edges.get(index)?.as_ref().map(|edge| TensorId { node: edge.node.id(), index: edge.index })
    }

    pub(super) fn outputs(&self) -> usize {
        self.outputs as usize
    }

    /// Returns the activation of this matrix product and the index of the output from which its
    /// gradient is computed, if another rule may compute the gradient of the pre-activation; `None`
    /// if there are hooks.
    pub(super) fn activation(&self) -> Option<(UnaryOp, u32)> {
        let Function::Op(Op::Matmul(matmul)) = &self.function else { return None };
        let Epilogue { activation, residual, accumulate, pre_activation, .. } = matmul.epilogue;
        let op = activation.filter(|_| self.hooks.get().is_none())?;
        match (pre_activation, op) {
            (true, _) => Some((op, PRE_ACTIVATION)),
            (false, UnaryOp::Relu) if !residual && !accumulate => Some((op, ACTIVATED)),
            _ => None,
        }
    }

    /// Returns the half precision in which the gradient rule of the op that computed output `index`
    /// reads its f32 gradient: that of a product with a residual. Reshapes in between are allowed.
    pub(super) fn rounds_grad_to(&self, index: u32) -> Option<DType> {
        let (mut node, mut index) = (self, index);
        for _ in 0..MAX_RANK {
            match &node.function {
                _ if node.hooks.get().is_some() || index != 0 => return None,
                Function::View(ViewOp::Reshape) => {
                    let edge = node.edges[0].as_ref()?;
                    (node, index) = (&*edge.node, edge.index);
                }
                Function::Op(Op::Matmul(matmul)) if matmul.epilogue.residual => {
                    return Some(node.inputs[0].1).filter(|dtype| dtype.is_half());
                }
                _ => return None,
            }
        }
        None
    }

    /// Returns the input edge if this is a reshape without hooks.
    pub(super) fn reshaped(&self) -> Option<&Edge> {
        match self.function {
            Function::View(ViewOp::Reshape) if self.hooks.get().is_none() => self.edges[0].as_ref(),
            _ => None,
        }
    }

    /// Returns output `index`, without history, if it was saved and is unchanged.
    pub(super) fn saved_output(&self, index: usize) -> Option<Tensor> {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let entry =
            saved.outputs.get(index)?.as_ref().filter(|entry| entry.buffer.version() == entry.version)?;
        Some(Tensor::from_parts(
            entry.buffer.clone(),
            entry.layout.clone(),
            entry.dtype,
            entry.device.clone(),
        ))
    }

    pub(super) fn is_leaf(&self) -> bool {
        matches!(self.function, Function::Leaf)
    }

    /// Calls `f` with the state of a leaf's half-precision copy; `None` if this is not the node of
    /// a leaf.
    pub(crate) fn with_half_copy<T>(&self, f: impl FnOnce(&mut HalfCopyOfLeaf) -> T) -> Option<T> {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        saved.leaf.as_mut().map(|leaf| f(&mut leaf.half_copy))
    }

    /// Returns whether an earlier backward pass freed the saved tensors of this node.
    pub(super) fn is_freed(&self) -> bool {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).freed
    }

    /// Returns the saved tensors, inputs then outputs, and for a leaf its own values, for display.
    pub(super) fn saved_tensors(&self) -> Vec<(String, Tensor)> {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let inputs =
            saved.inputs.iter().enumerate().filter_map(|(index, entry)| {
                Some((format!("input {index}"), entry.as_ref()?.tensor.detach()))
            });
        let outputs = saved.outputs.iter().enumerate().filter_map(|(index, entry)| {
            let entry = entry.as_ref()?;
            Some((
                format!("output {index}"),
                Tensor::from_parts(
                    entry.buffer.clone(),
                    entry.layout.clone(),
                    entry.dtype,
                    entry.device.clone(),
                ),
            ))
        });
        let leaf = saved.leaf.as_ref().and_then(|leaf| Some(("values".to_string(), leaf.tensor()?)));
        inputs.chain(outputs).chain(leaf).collect()
    }

    /// Returns the list of hooks, which may be shared with a leaf that replaces this one.
    pub(super) fn hooks(&self) -> &Arc<HookList> {
        self.hooks.get_or_init(Arc::default)
    }

    /// Sets `hooks` as the list of this node, if it has none yet.
    pub(super) fn share_hooks(&self, hooks: &Arc<HookList>) -> bool {
        Arc::ptr_eq(self.hooks.get_or_init(|| hooks.clone()), hooks)
    }

    /// Passes a final gradient through the hooks of output `index`.
    pub(super) fn run_hooks(&self, index: usize, mut grad: Tensor) -> Result<Tensor> {
        let Some(hooks) = self.hooks.get() else { return Ok(grad) };
        let hooks: Vec<(u32, Hook)> = hooks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (_, hook) in hooks.iter().filter(|(at, _)| *at as usize == index) {
            if let Some(changed) = hook(&grad)? {
                if !changed.device().is(grad.device()) {
                    return Err(Error::autograd(format!(
                        "a hook moved a gradient from {} to {}",
                        grad.device().name(),
                        changed.device().name()
                    )));
                }
                if changed.shape() != grad.shape() || changed.dtype() != grad.dtype() {
                    let from = text!["a hook turned a gradient of shape ", &grad];
                    return Err(Error::autograd(text![from, " into ", &changed]));
                }
                grad = changed;
            }
        }
        Ok(grad)
    }

    /// Computes the gradients of the inputs. Frees the saved tensors unless `retain`.
    pub(super) fn backward(
        self: &Arc<Node>,
        needs: &[bool],
        grads: &[Option<Tensor>],
        retain: bool,
        create_graph: bool,
        fusion: &Fusion,
    ) -> Result<Grads> {
        let saved = self.unpack(retain)?;
        let context = Context { node: self, saved: &saved, needs, fusion };
        match &self.function {
            Function::Leaf => Ok(Grads::new()),
            Function::Op(op) => match op.rule().differentiability() {
                Differentiability::Stated(_) => self.complete(op.rule().backward(&context, grads)?),
                Differentiability::Composition => composition_backward(op, &context, grads, create_graph),
                Differentiability::NonDifferentiable => Ok(Grads::from_elem(None, self.edges.len())),
            },
            Function::View(view) => view_backward(view, self.inputs[0].0.shape(), grads),
            Function::Transfer(from) => single_grad(&grads[0], |grad| grad.to_device(from)),
            Function::Segment(segment) => self.complete(segment.0.backward(&context, grads, create_graph)?),
        }
    }

    /// If this is a reshape, passes the rounded gradient through it, as it passes the gradient
    /// itself.
    pub(super) fn reshape_rounded_grad(&self, fusion: &Fusion) -> Result<()> {
        let (Function::View(view @ ViewOp::Reshape), Some(rounded)) =
            (&self.function, fusion.of_output(Extra::Rounded))
        else {
            return Ok(());
        };
        let rounded_grads = view_backward(view, self.inputs[0].0.shape(), &[Some(rounded)])?;
        rounded_grads.into_iter().flatten().for_each(|rounded| fusion.provide(Extra::Rounded, 0, rounded));
        Ok(())
    }

    /// Checks that a rule returned one gradient for each input.
    fn complete(&self, grads: Grads) -> Result<Grads> {
        let (returned, inputs) = (grads.len(), self.edges.len());
        if returned == inputs {
            return Ok(grads);
        }
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        Err(Error::autograd(format!(
            "{} returned {returned} gradient{} for {inputs} input{}",
            self.function.name(),
            plural(returned),
            plural(inputs)
        )))
    }

    /// Returns the saved tensors, connected to the graph, with their saved versions.
    fn unpack(self: &Arc<Node>, retain: bool) -> Result<Unpacked> {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        if saved.freed {
            return Err(Error::autograd(format!(
                "the tensors saved by {} were freed by an earlier backward; ask that one for retain_graph, or detach what is carried from one step to the next",
                self.function.name()
            )));
        }
        let inputs = saved
            .inputs
            .iter()
            .map(|entry| entry.as_ref().map(|entry| (entry.tensor.clone(), entry.version)))
            .collect();
        let outputs = saved
            .outputs
            .iter()
            .enumerate()
            .map(|(index, entry)| {
                entry.as_ref().map(|entry| {
                    // Outputs that are not floating, such as indices, have no edge in the graph.
                    let edge =
                        entry.dtype.is_float().then(|| Edge { node: self.clone(), index: index as u32 });
                    (
                        Tensor::with_edge(
                            entry.buffer.clone(),
                            entry.layout.clone(),
                            entry.dtype,
                            entry.device.clone(),
                            edge,
                        ),
                        entry.version,
                    )
                })
            })
            .collect();
        if !retain && !self.is_leaf() {
            *saved = SavedTensors { freed: true, ..SavedTensors::default() };
        }
        Ok(Unpacked { inputs, outputs })
    }
}

/// The saved tensors of a node, each with the version of its buffer when it was saved.
pub(super) struct Unpacked {
    pub(super) inputs: SmallVec<[Option<(Tensor, u64)>; 3]>,
    pub(super) outputs: SmallVec<[Option<(Tensor, u64)>; 1]>,
}

fn single_grad(grad: &Option<Tensor>, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Grads> {
    Ok(Grads::from_elem(grad.as_ref().map(f).transpose()?, 1))
}

/// Computes the gradient of an op by recomputing its composition from the saved inputs.
fn composition_backward(
    op: &Op,
    context: &Context<'_>,
    grads: &[Option<Tensor>],
    create_graph: bool,
) -> Result<Grads> {
    super::enable_grad(|| {
        let mut aliases = Vec::new();
        for index in 0..context.inputs() {
            let input = context.input(index)?;
            // Connected to the graph for double backward, otherwise detached.
            let source = if create_graph { input.clone() } else { input.detach() };
            aliases.push(if context.needs(index) { source.tracked_alias()? } else { source });
        }
        let outputs = op.rule().compose(&aliases)?;
        let (mut roots, mut cotangents) = (Vec::new(), Vec::new());
        for (output, grad) in outputs.iter().zip(grads) {
            if let Some(grad) = grad
                && output.needs_grad()
            {
                roots.push(output.clone());
                cotangents.push(grad.clone());
            }
        }
        let needed: Vec<usize> = (0..aliases.len()).filter(|&index| context.needs(index)).collect();
        let targets: Vec<Tensor> = needed.iter().map(|&index| aliases[index].clone()).collect();
        let options = super::GradOptions { create_graph, allow_unused: true, ..Default::default() };
        let input_grads = super::grad(&roots, &targets, &cotangents, options)?;
        let mut result = Grads::from_elem(None, aliases.len());
        for (index, grad) in needed.into_iter().zip(input_grads) {
            result[index] = grad;
        }
        Ok(result)
    })
}

fn view_backward(view: &ViewOp, shape: &Shape, grads: &[Option<Tensor>]) -> Result<Grads> {
    match view {
        ViewOp::Reshape => single_grad(&grads[0], |grad| grad.reshape(*shape)),
        ViewOp::Permute(order) => {
            let mut inverse: SmallVec<[usize; MAX_RANK]> = SmallVec::from_elem(0, order.len());
            for (to, &from) in order.iter().enumerate() {
                inverse[from as usize] = to;
            }
            single_grad(&grads[0], |grad| grad.permute_axes(&inverse))
        }
        ViewOp::Slice { axis, start, end, step } => {
            single_grad(&grads[0], |grad| view::slice_adjoint(grad, shape, *axis, *start, *end, *step))
        }
        ViewOp::Split { axis, sizes } => {
            Ok(Grads::from_elem(view::split_adjoint(grads, shape, *axis, sizes)?, 1))
        }
        ViewOp::Expand => single_grad(&grads[0], |grad| sum_to(grad, shape)),
        ViewOp::Unfold { axis, size, step } => {
            single_grad(&grads[0], |grad| view::unfold_adjoint(grad, shape, *axis, *size, *step))
        }
        ViewOp::Diagonal { offset, row_axis, column_axis } => {
            let axes = [*row_axis, *column_axis];
            single_grad(&grads[0], |grad| view::diagonal_adjoint(grad, shape, *offset, axes))
        }
        ViewOp::Strided { strides, offset } => {
            single_grad(&grads[0], |grad| view::strided_adjoint(grad, shape, strides, *offset))
        }
    }
}

/// Sums `grad` to `shape`, over the axes along which `shape` was broadcast.
pub(crate) fn sum_to(grad: &Tensor, shape: &Shape) -> Result<Tensor> {
    if grad.shape() == shape {
        return Ok(grad.clone());
    }
    let lead = grad.rank() - shape.rank();
    let mut axes = AxisSet::first(lead);
    for axis in 0..shape.rank() {
        if shape.dim(axis) == 1 && grad.shape().dim(lead + axis) != 1 {
            axes = axes.with(lead + axis);
        }
    }
    let sum = if axes.is_empty() { grad.clone() } else { grad.sum_keep(axes)? };
    sum.reshape(*shape)
}

// ---- Dropping a graph

type DroppedParts = (SmallVec<[Option<Edge>; 2]>, SavedTensors);

thread_local! {
    static DROPPING: Cell<bool> = const { Cell::new(false) };
    static DROPPED_PARTS: RefCell<Vec<DroppedParts>> = const { RefCell::new(Vec::new()) };
}

/// Drops a chain of nodes in a loop: nested drops leave their contents to the outermost one.
impl Drop for Node {
    fn drop(&mut self) {
        if self.edges.is_empty() {
            return;
        }
        let saved = self.saved.get_mut().unwrap_or_else(PoisonError::into_inner);
        // When a thread ends, its list may already be destroyed. In this case the rest of this
        // graph is dropped recursively.
        match DROPPING.try_with(|dropping| dropping.replace(true)) {
            Ok(true) => {
                let dropped_parts = (std::mem::take(&mut self.edges), std::mem::take(saved));
                let _ = DROPPED_PARTS.try_with(|list| list.borrow_mut().push(dropped_parts));
            }
            Ok(false) => {
                self.edges.clear();
                saved.inputs.clear();
                saved.outputs.clear();
                while let Ok(Some(next)) = DROPPED_PARTS.try_with(|list| list.borrow_mut().pop()) {
                    drop(next);
                }
                let _ = DROPPING.try_with(|dropping| dropping.set(false));
            }
            Err(_) => {}
        }
    }
}
