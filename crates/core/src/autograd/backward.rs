//! The backward pass: iterative, in topological order. Each node is visited once, even if it is
//! used several times.

use super::context::PRE_ACTIVATION;
use super::fusion::{Extra, Fusion, Partial};
use super::gradients::{GradientSink, Gradients, TensorId};
use super::mode;
use super::node::{Edge, Grads, Node};
use super::observe::{is_observed, notify};
use crate::DType;
use crate::anomaly;
use crate::error::{Error, Result, Term};
use crate::precision::without_precision;
use crate::tensor::Tensor;
use crate::text;
use crate::trace::{self, SpanKind};
use smallvec::SmallVec;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// A hasher for node ids, which are consecutive.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
    fn write_u64(&mut self, id: u64) {
        // Distributes the low bits over the high ones, from which the hash table takes its control
        // bytes.
        self.0 = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type Visits = HashMap<u64, Visit, BuildHasherDefault<IdHasher>>;

/// A max-heap of `(is_leaf, node id)` for the nodes whose gradient is final. Leaves come first, so
/// that code that waits for their gradients can start. Then the node that was recorded last comes
/// first, so that memory of the forward pass is freed in the reverse order of its allocation.
type ReadyQueue = BinaryHeap<(bool, u64)>;

/// The state of a node in the backward pass.
struct Visit {
    node: Arc<Node>,
    /// Number of edges to this node whose gradient has not arrived yet.
    pending: u32,
    /// Whether a requested gradient depends on the gradient of this node.
    needed: bool,
    /// The sums of the gradients that have arrived, one for each output of the node.
    grads: SmallVec<[Option<Tensor>; 1]>,
    /// Extra data that a rule provided with the gradient, as long as only one gradient has arrived.
    extra: Option<(Extra, Tensor)>,
}

impl Visit {
    /// Returns whether no gradient is stored: none has arrived, or a fused rule took the partial
    /// sum.
    fn has_no_grad(&self) -> bool {
        self.grads.iter().all(Option::is_none)
    }
}

/// Options of [`grad`] and [`Tensor::backward_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct GradOptions {
    /// Whether to record the backward pass, for double backward.
    pub create_graph: bool,
    /// Whether to keep the saved tensors, so that another backward pass through the graph is
    /// possible. Implied by `create_graph`.
    pub retain_graph: bool,
    /// Whether to return `None` instead of an error for an input on which the outputs do not
    /// depend.
    pub allow_unused: bool,
}

impl Tensor {
    /// Computes the gradients of this scalar with respect to every leaf on which it depends. The
    /// saved tensors of the graph are freed during the pass.
    ///
    /// # Errors
    /// Returns an error if this is not a single element, if nothing was recorded, if a saved tensor
    /// was changed in place, or if an earlier backward pass freed the saved tensors.
    pub fn backward(&self) -> Result<Gradients> {
        self.backward_with(GradOptions::default())
    }

    /// Same as [`backward`](Tensor::backward), with options.
    ///
    /// # Errors
    /// Same as [`backward`](Tensor::backward).
    pub fn backward_with(&self, options: GradOptions) -> Result<Gradients> {
        let mut gradients = Gradients::default();
        run_backward(
            &Boundary::NONE,
            std::slice::from_ref(self),
            &[self.unit_cotangent()?],
            options,
            &mut Targets::Leaves(&mut gradients),
        )?;
        Ok(gradients)
    }

    /// Same as [`backward`](Tensor::backward), but delivers each leaf's gradient as soon as it is
    /// final.
    ///
    /// # Errors
    /// Same as [`backward`](Tensor::backward), and the errors of the sink.
    pub fn backward_into(&self, sink: &mut dyn GradientSink) -> Result<()> {
        run_backward(
            &Boundary::NONE,
            std::slice::from_ref(self),
            &[self.unit_cotangent()?],
            GradOptions::default(),
            &mut Targets::Leaves(sink),
        )
    }

    /// Returns the gradient of this single element with respect to itself: one.
    fn unit_cotangent(&self) -> Result<Tensor> {
        if self.elements() != 1 {
            return Err(Error::autograd(text![
                "of shape ",
                self.shape(),
                ": only a single element has a gradient by itself; reduce it, or ",
                Term::WeighOutputs
            ]));
        }
        Tensor::ones(*self.shape(), self.dtype(), self.device())
    }
}

/// Computes the gradients of `outputs` with respect to `inputs`, weighted by `cotangents` (one for
/// each output, of its shape and dtype).
///
/// `inputs` may be leaves or any recorded intermediate tensors.
///
/// # Errors
/// Returns an error if a cotangent is incompatible, if no gradient flows to an input, if the
/// outputs do not depend on an input (unless `allow_unused`), if a saved tensor was changed in
/// place, or if an earlier backward pass freed the saved tensors.
pub fn grad(
    outputs: &[Tensor],
    inputs: &[Tensor],
    cotangents: &[Tensor],
    options: GradOptions,
) -> Result<Vec<Option<Tensor>>> {
    grad_within(&Boundary::NONE, outputs, inputs, cotangents, options)
}

/// The nodes at which a backward pass ends before it reaches the leaves. The pass delivers
/// the gradients of these nodes but runs neither their hooks nor their backward functions.
pub(super) struct Boundary {
    /// All nodes with smaller ids belong to the boundary.
    before: u64,
    /// The ids of further nodes of the boundary, in ascending order.
    nodes: Vec<u64>,
}

impl Boundary {
    /// No boundary: the backward pass continues to the leaves.
    const NONE: Boundary = Boundary { before: 0, nodes: Vec::new() };

    /// Creates a boundary of the nodes with ids below `before`, and the nodes of `tensors`.
    pub(super) fn new(before: u64, tensors: &[Tensor]) -> Boundary {
        let mut nodes: Vec<u64> = tensors.iter().filter_map(|tensor| Some(tensor.node()?.id())).collect();
        nodes.sort_unstable();
        Boundary { before, nodes }
    }

    fn contains(&self, node: &Node) -> bool {
        node.id() < self.before || self.nodes.binary_search(&node.id()).is_ok()
    }
}

/// Same as [`grad`], but the backward pass ends at `boundary`.
pub(super) fn grad_within(
    boundary: &Boundary,
    outputs: &[Tensor],
    inputs: &[Tensor],
    cotangents: &[Tensor],
    options: GradOptions,
) -> Result<Vec<Option<Tensor>>> {
    if outputs.len() != cotangents.len() {
        let (outputs_term, cotangents_term) = (Term::OutputsAgainst, Term::Cotangents);
        let counts = text![outputs.len(), " ", outputs_term, " ", cotangents.len(), " ", cotangents_term];
        return Err(Error::autograd(counts));
    }
    let mut chosen = HashMap::new();
    for (position, input) in inputs.iter().enumerate() {
        let id = input.id().ok_or_else(|| {
            let method = Term::RequiresGrad;
            let input = format!("no gradient flows to input {position}: call ");
            Error::autograd(text![input, method, " on it before it is used"])
        })?;
        chosen.insert(id, None);
    }
    run_backward(boundary, outputs, cotangents, options, &mut Targets::Chosen(&mut chosen))?;
    let mut result = Vec::with_capacity(inputs.len());
    for (position, input) in inputs.iter().enumerate() {
        let input_grad = input.id().and_then(|id| chosen.get(&id).cloned().flatten());
        if input_grad.is_none() && !options.allow_unused {
            let unused =
                format!("the outputs do not depend on input {position} of shape {:?}; ", input.shape());
            return Err(Error::autograd(text![unused, Term::AllowUnused, " gives None for it"]));
        }
        result.push(input_grad.map(|grad| grad.to_dtype(input.dtype())).transpose()?);
    }
    Ok(result)
}

/// The gradients that a backward pass delivers.
enum Targets<'a> {
    /// Those of all leaves, to a sink.
    Leaves(&'a mut dyn GradientSink),
    /// Those of these tensors, which are `None` until they have arrived.
    Chosen(&'a mut HashMap<TensorId, Option<Tensor>>),
}

/// Checks the cotangents and runs the backward pass from `outputs` to the targets.
fn run_backward(
    boundary: &Boundary,
    outputs: &[Tensor],
    cotangents: &[Tensor],
    options: GradOptions,
    targets: &mut Targets<'_>,
) -> Result<()> {
    let mut roots: SmallVec<[(Edge, Tensor); 1]> = SmallVec::new();
    for (position, (output, cotangent)) in outputs.iter().zip(cotangents).enumerate() {
        if cotangent.shape() != output.shape() || cotangent.dtype() != output.dtype() {
            let position = format!(" {position} is ");
            return Err(Error::autograd(text![
                Term::Cotangent,
                position,
                cotangent,
                ", its output ",
                output
            ]));
        }
        if !cotangent.device().is(output.device()) {
            return Err(Error::DeviceMismatch {
                op: "backward",
                left: output.device().name().into(),
                right: cotangent.device().name().into(),
            });
        }
        match &output.0.edge {
            Some(edge) => roots.push((edge.clone(), cotangent.clone())),
            None if matches!(targets, Targets::Leaves(_)) => {
                return Err(Error::autograd(
                    "nothing was recorded: no input of the loss requires a gradient, or it was computed in no_grad",
                ));
            }
            None => {}
        }
    }
    let mut visits = explore(&roots, boundary);
    if let Targets::Chosen(chosen) = targets {
        mark_needed(&mut visits, chosen, boundary);
    }
    let mut ready = BinaryHeap::new();
    for (edge, cotangent) in roots {
        deliver(&mut visits, &mut ready, &edge, Some(cotangent))?;
    }
    // The graph contains the casts of the forward pass, so the current precision scope does not
    // apply to the backward pass.
    let traverse = || without_precision(|| process(&mut visits, &mut ready, boundary, options, targets));
    let run = || trace::in_span(SpanKind::Backward, "backward", "", traverse);
    if options.create_graph { mode::enable_grad(run) } else { mode::no_grad(run) }
}

/// Returns every node that is reachable from the roots, with the number of edges that lead to it.
fn explore(roots: &[(Edge, Tensor)], boundary: &Boundary) -> Visits {
    let mut visits = Visits::default();
    let mut stack: Vec<Arc<Node>> = Vec::new();
    let mut enter = |edge: &Edge, stack: &mut Vec<Arc<Node>>| {
        let visit = visits.entry(edge.node.id()).or_insert_with(|| {
            stack.push(edge.node.clone());
            Visit { node: edge.node.clone(), pending: 0, needed: true, grads: SmallVec::new(), extra: None }
        });
        visit.pending += 1;
    };
    for (edge, _) in roots {
        enter(edge, &mut stack);
    }
    while let Some(node) = stack.pop() {
        if boundary.contains(&node) {
            continue;
        }
        for edge in node.edges().iter().flatten() {
            enter(edge, &mut stack);
        }
    }
    visits
}

/// Sets `needed` only for the chosen nodes and for nodes from which edges lead to a chosen node. A
/// node's inputs were recorded before it and have smaller ids, so the nodes are processed in
/// ascending order of ids.
fn mark_needed(visits: &mut Visits, chosen: &HashMap<TensorId, Option<Tensor>>, boundary: &Boundary) {
    let mut order: Vec<u64> = visits.keys().copied().collect();
    order.sort_unstable();
    let targets: HashSet<u64> = chosen.keys().map(|id| id.node).collect();
    for id in order {
        let node = &visits[&id].node;
        let leads_to_chosen = !boundary.contains(node)
            && node.edges().iter().flatten().any(|edge| visits[&edge.node.id()].needed);
        if let Some(visit) = visits.get_mut(&id) {
            visit.needed = leads_to_chosen || targets.contains(&id);
        }
    }
}

/// Delivers the gradient of an edge (`None` if there is none) to its node, and queues the node if
/// this was its last pending edge.
fn deliver(visits: &mut Visits, ready: &mut ReadyQueue, edge: &Edge, grad: Option<Tensor>) -> Result<()> {
    let Some(visit) = visits.get_mut(&edge.node.id()) else { return Ok(()) };
    if let Some(grad) = grad
        && visit.needed
    {
        if visit.grads.is_empty() {
            visit.grads.resize(visit.node.outputs(), None);
        }
        visit.extra = None;
        let slot = &mut visit.grads[edge.index as usize];
        *slot = Some(match slot.take() {
            // The gradients of a half-precision tensor that was cast from f32 may be f32 or half
            // precision.
            Some(sum) if sum.dtype() != grad.dtype() => {
                sum.to_dtype(DType::F32)?.add(&grad.to_dtype(DType::F32)?)?
            }
            Some(sum) => sum.add(&grad)?,
            None => grad,
        });
    }
    visit.pending -= 1;
    if visit.pending == 0 {
        ready.push((edge.node.is_leaf(), edge.node.id()));
    }
    Ok(())
}

/// Processes the nodes of the queue until it is empty: runs each node's hooks and gradient rule,
/// and delivers the gradients to the nodes of its inputs.
fn process(
    visits: &mut Visits,
    ready: &mut ReadyQueue,
    boundary: &Boundary,
    options: GradOptions,
    targets: &mut Targets<'_>,
) -> Result<()> {
    let retain = options.retain_graph || options.create_graph;
    while let Some((_, id)) = ready.pop() {
        let Some(Visit { node, needed, mut grads, extra, .. }) = visits.remove(&id) else { continue };
        let is_boundary = boundary.contains(&node);
        for (index, slot) in grads.iter_mut().enumerate() {
            if let Some(grad) = slot.take() {
                let grad = if is_boundary { grad } else { node.run_hooks(index, grad)? };
                collect(&node, index, &grad, targets)?;
                *slot = Some(grad);
            }
        }
        if is_boundary || node.is_leaf() {
            continue;
        }
        let needs: SmallVec<[bool; 4]> = node
            .edges()
            .iter()
            .map(|edge| {
                edge.as_ref()
                    .is_some_and(|edge| visits.get(&edge.node.id()).is_some_and(|visit| visit.needed))
            })
            .collect();
        let mut grad_inputs = Grads::new();
        let mut fusion = Fusion::default();
        if needed && grads.iter().any(Option::is_some) && needs.contains(&true) {
            let must_materialize_grads =
                options.create_graph || is_observed() || anomaly::is_anomaly_detected();
            if !must_materialize_grads && mode::is_fusing() {
                fusion = offer_fusion(&node, &needs, extra, visits, targets);
            }
            let compute = || {
                let backward = || node.backward(&needs, &grads, retain, options.create_graph, &fusion);
                anomaly::in_gradient(backward)
            };
            grad_inputs = trace::in_span(SpanKind::Node, node.function().name(), "", compute)?;
            node.reshape_rounded_grad(&fusion)?;
            notify(&node, &grads, &mut grad_inputs)?;
            anomaly::after_gradient(&node, &grads, &grad_inputs)?;
        }
        drop(grads);
        deliver_all(visits, ready, &node, grad_inputs, fusion)?;
    }
    Ok(())
}

/// Returns what the rule of `node` may fuse. The partial sums are moved out of `visits`, so that a
/// rule that is the only owner of a sum may overwrite it.
fn offer_fusion(
    node: &Node,
    needs: &[bool],
    extra: Option<(Extra, Tensor)>,
    visits: &mut Visits,
    targets: &Targets<'_>,
) -> Fusion {
    let partial = |edge: &Edge| {
        let mut edge = edge;
        // A reshape with a single use only passes its gradient on: continue with its input.
        while let Some(next) = edge.node.reshaped().filter(|_| is_single_use(visits, &edge.node)) {
            edge = next;
        }
        let sum = visits.get_mut(&edge.node.id())?.grads.get_mut(edge.index as usize)?.take()?;
        Some(Partial { sum, node: edge.node.id(), output: edge.index })
    };
    let is_requested_output = |node: &Node, index: u32| match targets {
        Targets::Leaves(_) => false,
        Targets::Chosen(chosen) => chosen.contains_key(&TensorId { node: node.id(), index }),
    };
    Fusion::of(node, needs, extra, partial, is_requested_output)
}

/// Returns whether exactly one gradient is pending for a node, and none has arrived.
fn is_single_use(visits: &Visits, node: &Node) -> bool {
    visits.get(&node.id()).is_some_and(|visit| visit.pending == 1 && visit.has_no_grad())
}

/// Delivers the gradients that the rule of `node` returned, and restores the partial sums that it
/// did not take.
fn deliver_all(
    visits: &mut Visits,
    ready: &mut ReadyQueue,
    node: &Node,
    mut grad_inputs: Grads,
    fusion: Fusion,
) -> Result<()> {
    let fused: SmallVec<[(bool, Option<(Extra, Tensor)>); 4]> =
        (0..node.edges().len()).map(|index| (fusion.has_skipped(index), fusion.of_input(index))).collect();
    for Partial { sum, node, output } in fusion.into_partials() {
        let visit = visits.get_mut(&node);
        if let Some(slot) = visit.and_then(|visit| visit.grads.get_mut(output as usize)) {
            *slot = Some(sum);
        }
    }
    for (index, edge) in node.edges().iter().enumerate() {
        if let Some(edge) = edge {
            let grad = grad_inputs.get_mut(index).and_then(Option::take);
            check_shape(node, index, grad.as_ref())?;
            let (skips_activation, extra) = &fused[index];
            let edge = match skips_activation {
                true => &Edge { index: PRE_ACTIVATION, ..edge.clone() },
                false => edge,
            };
            // The extra data belongs to this gradient and is invalid if another gradient is added
            // to it.
            let is_first = visits.get(&edge.node.id()).is_some_and(Visit::has_no_grad);
            deliver(visits, ready, edge, grad)?;
            if let Some(visit) = visits.get_mut(&edge.node.id()).filter(|_| is_first) {
                visit.extra = extra.clone();
            }
        }
    }
    Ok(())
}

/// Checks that a gradient rule returned the shape and dtype of its input, so that the error names
/// the rule instead of an op that uses the gradient.
fn check_shape(node: &Node, index: usize, grad: Option<&Tensor>) -> Result<()> {
    let Some(grad) = grad else { return Ok(()) };
    let (shape, dtype) = node.input_kind(index);
    let fits = || grad.dtype() == dtype || node.pre_cast_dtype(index) == Some(grad.dtype());
    if grad.shape() != shape || !fits() {
        let input = format!("{} gave its input {index} of shape {shape:?} ", node.function().name());
        return Err(Error::autograd(text![input, dtype, " a gradient of shape ", grad]));
    }
    Ok(())
}

/// Delivers the gradient of output `index` of `node` if it is one of the targets.
fn collect(node: &Node, index: usize, grad: &Tensor, targets: &mut Targets<'_>) -> Result<()> {
    let id = TensorId { node: node.id(), index: index as u32 };
    match targets {
        Targets::Leaves(sink) if node.is_leaf() => {
            let delivered = match sink.destination(id) {
                Some(destination) => {
                    super::no_grad(|| destination.copy_(grad))?;
                    destination
                }
                None => grad.clone(),
            };
            sink.ready(id, delivered)
        }
        Targets::Chosen(chosen) => {
            if let Some(slot) = chosen.get_mut(&id) {
                *slot = Some(grad.clone());
            }
            Ok(())
        }
        Targets::Leaves(_) => Ok(()),
    }
}
