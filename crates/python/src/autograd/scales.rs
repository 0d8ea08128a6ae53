//! Tracks which gradients belong to a loss that a `GradScaler` has scaled. This is recorded when
//! gradients are accumulated, and valid until the gradient is written to.

use super::GradSlot;
use crate::tensor::PyTensor;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Weak};
use ternion::autograd::{Function, Node, TensorId};
use ternion::backend::WeakBuffer;
use ternion::ops::binary::{BinaryOp, BinaryScalar, Side};
use ternion::ops::reduce::ReduceOp;
use ternion::{Op, Tensor};

/// Whether the program has created a scaler; otherwise nothing is recorded.
static IN_USE: AtomicBool = AtomicBool::new(false);
/// Scaled losses by the ids of their nodes, with their scales.
type Losses = HashMap<u64, (Weak<Node>, f64)>;
/// The losses that were scaled and still exist.
static LOSSES: LazyLock<Mutex<Losses>> = LazyLock::new(Mutex::default);
/// If there are at least this many losses, the dropped ones are removed; a backward pass removes
/// them in any case.
const CLEANUP_SIZE: usize = 1024;
/// The maximum number of terms of a loss, and of nodes in the graph of a term. If there are more,
/// nothing is known about the loss.
const MAX_TERMS: usize = 100_000;

/// The known losses of a gradient.
pub(super) struct Origin {
    memory: WeakBuffer,
    version: u64,
    factors: LossFactors,
}

/// The factors of the losses whose gradients a backward pass adds, as far as they are known.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) struct LossFactors {
    /// The factor of the gradient of a scaled loss.
    scaled: Option<f64>,
    /// The factor of the gradient of a loss that no scaler has scaled.
    unscaled: Option<f64>,
}

impl LossFactors {
    fn merge(self, other: LossFactors) -> LossFactors {
        LossFactors { scaled: other.scaled.or(self.scaled), unscaled: other.unscaled.or(self.unscaled) }
    }
}

/// The factors of the losses whose gradients a backward pass adds to the gradients of leaves.
#[derive(Default)]
pub(super) struct BackwardPass {
    all: LossFactors,
    /// The factors of each leaf, if they differ between leaves.
    leaves: HashMap<TensorId, LossFactors>,
}

/// A term of a loss, which is the sum of its terms: the node that computed it, and the factor by
/// which it was multiplied since, if that is known.
struct Term {
    node: Arc<Node>,
    factor: Option<f64>,
}

/// Returns the factor with which the gradient reaches the input nodes of a term's node; `None` if
/// the node does not compute a sum.
fn sum_factor(term: &Term) -> Option<Option<f64>> {
    let Function::Op(op) = term.node.function() else {
        return matches!(term.node.function(), Function::View(_) | Function::Transfer(_))
            .then_some(term.factor);
    };
    let times = |by: f64| Some(term.factor.map(|factor| factor * by));
    match op {
        Op::Copy(_) | Op::Concat(_) => Some(term.factor),
        Op::Reduce(reduce) if reduce.op == ReduceOp::Sum => Some(term.factor),
        // The number of elements does not matter: division by it is not a loss scale.
        Op::Reduce(reduce) if reduce.op == ReduceOp::Mean => Some(term.factor),
        Op::Binary(binary) if matches!(binary.op, BinaryOp::Add | BinaryOp::Sub) => Some(term.factor),
        Op::Binary(binary) if matches!(binary.op, BinaryOp::Mul | BinaryOp::Div) => {
            // A product with a constant, whose value is on a device.
            let is_constant = term.node.input_nodes().filter(Option::is_some).count() == 1;
            is_constant.then_some(None)
        }
        Op::BinaryScalar(BinaryScalar { op, scalar, side }) => match (op, side) {
            (BinaryOp::Add | BinaryOp::Sub, _) => Some(term.factor),
            (BinaryOp::Mul, _) => times(scalar.as_f64()),
            (BinaryOp::Div, Side::Right) => times(1.0 / scalar.as_f64()),
            _ => None,
        },
        _ => None,
    }
}

fn is_close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * other.abs()
}

impl BackwardPass {
    /// Returns the factors of the backward pass of `root`. They are unknown if its gradient is
    /// given explicitly, or if `root` was multiplied by a tensor that may be a scale.
    pub(super) fn of(root: &Tensor, is_weighted: bool) -> BackwardPass {
        let Some(node) = root.node().filter(|_| IN_USE.load(Relaxed) && !is_weighted) else {
            return BackwardPass::default();
        };
        let losses = live_losses();
        let first = Term { node: node.clone(), factor: Some(1.0) };
        BackwardPass::of_terms(first, &losses).unwrap_or_default()
    }

    fn of_terms(first: Term, losses: &HashMap<u64, f64>) -> Option<BackwardPass> {
        let (mut stack, mut terms, mut steps) = (vec![first], Vec::new(), 0);
        while let Some(term) = stack.pop() {
            steps += 1;
            if steps > MAX_TERMS {
                return None;
            }
            if let Some(scale) = losses.get(&term.node.id()) {
                let scale = term.factor.map(|factor| factor * scale);
                // A loss that is divided by its scale again is unscaled.
                let scaled = scale.filter(|scale| !is_close(scale.abs(), 1.0));
                terms.push((LossFactors { scaled, unscaled: None }, term.node));
            } else if let Some(factor) = sum_factor(&term) {
                let nodes = term.node.input_nodes().flatten();
                stack.extend(nodes.map(|node| Term { node: node.clone(), factor }));
            } else {
                terms.push((unscaled_factors(&term, losses), term.node));
            }
        }
        let (all, _) = *terms.first().map(|(factors, node)| (*factors, node)).as_ref()?;
        if terms.iter().all(|(factors, _)| *factors == all) {
            return Some(BackwardPass { all, leaves: HashMap::new() });
        }
        let mut leaves: HashMap<TensorId, LossFactors> = HashMap::new();
        for (factors, node) in terms {
            for leaf in leaves_of(&node)? {
                let known = leaves.entry(leaf).or_default();
                *known = known.merge(factors);
            }
        }
        Some(BackwardPass { all: LossFactors::default(), leaves })
    }

    fn factors_of(&self, leaf: TensorId) -> LossFactors {
        self.leaves.get(&leaf).copied().unwrap_or(self.all)
    }
}

/// Returns the factors of a term that no scaler has scaled.
fn unscaled_factors(term: &Term, losses: &HashMap<u64, f64>) -> LossFactors {
    // A term that was computed from a scaled loss in another way may have any scale.
    let min_id = losses.keys().min();
    let is_unrelated = min_id.is_none_or(|min_id| !depends_on_scaled_loss(&term.node, losses, *min_id));
    LossFactors { scaled: None, unscaled: term.factor.filter(|_| is_unrelated) }
}

/// Returns whether a node was computed from a scaled loss; `min_id` is the smallest id of their
/// nodes.
fn depends_on_scaled_loss(node: &Arc<Node>, losses: &HashMap<u64, f64>, min_id: u64) -> bool {
    let (mut stack, mut visited) = (vec![node.clone()], HashSet::from([node.id()]));
    while let Some(node) = stack.pop() {
        if losses.contains_key(&node.id()) || visited.len() > MAX_TERMS {
            return true;
        }
        // The nodes of the inputs of a node have smaller ids.
        let input = node.input_nodes().flatten().filter(|input| input.id() >= min_id);
        stack.extend(input.filter(|input| visited.insert(input.id())).cloned());
    }
    false
}

/// Returns the leaves that a node was computed from; `None` if there are too many nodes in between.
fn leaves_of(node: &Arc<Node>) -> Option<HashSet<TensorId>> {
    let (mut stack, mut visited) = (vec![node.clone()], HashSet::from([node.id()]));
    let mut leaves = HashSet::new();
    while let Some(node) = stack.pop() {
        if visited.len() > MAX_TERMS {
            return None;
        }
        for (index, input) in node.input_nodes().enumerate() {
            let Some(input) = input else { continue };
            if matches!(input.function(), Function::Leaf) {
                leaves.extend(node.input_id(index));
            } else if visited.insert(input.id()) {
                stack.push(input.clone());
            }
        }
    }
    Some(leaves)
}

/// Returns the scaled losses that still exist.
fn live_losses() -> HashMap<u64, f64> {
    let mut losses = LOSSES.lock();
    losses.retain(|_, (node, _)| node.strong_count() > 0);
    losses.iter().map(|(id, (_, scale))| (*id, *scale)).collect()
}

impl GradSlot {
    /// Returns the known factors of the current gradient.
    fn loss_factors(&self, py: Python<'_>) -> LossFactors {
        let Some(grad) = self.get(py) else { return LossFactors::default() };
        let grad = grad.get().tensor();
        let known = self.origin.lock();
        let is_unchanged = |origin: &&Origin| {
            let memory = origin.memory.upgrade();
            memory.is_some_and(|memory| memory.is(grad.buffer())) && grad.buffer().version() == origin.version
        };
        known.as_deref().filter(is_unchanged).map_or(LossFactors::default(), |origin| origin.factors)
    }

    /// Records `factors` as the known factors of the current gradient.
    fn record_factors(&self, py: Python<'_>, factors: LossFactors) {
        let grad = self.get(py).filter(|_| factors != LossFactors::default()).map(|grad| grad.get().tensor());
        let origin = grad.map(|grad| {
            let (memory, version) = (grad.buffer().downgrade(), grad.buffer().version());
            Box::new(Origin { memory, version, factors })
        });
        *self.origin.lock() = origin;
    }

    /// Accumulates a gradient of a pass, and records its origin, which is unknown if a hook may
    /// have changed it.
    pub(super) fn accumulate_from(
        &self,
        py: Python<'_>,
        grad: &Tensor,
        pass: &BackwardPass,
        leaf: Option<TensorId>,
    ) -> crate::error::Outcome<()> {
        if !IN_USE.load(Relaxed) {
            return self.accumulate(py, grad);
        }
        let new =
            leaf.filter(|_| !self.has_hooks()).map_or(LossFactors::default(), |leaf| pass.factors_of(leaf));
        let factors = self.loss_factors(py).merge(new);
        self.accumulate(py, grad)?;
        self.record_factors(py, factors);
        Ok(())
    }
}

/// Starts recording the origin of gradients, because a scaler was created.
#[pyfunction]
fn record_scaler() {
    IN_USE.store(true, Relaxed);
}

/// Records that a loss, with its current node, was multiplied by a scale.
#[pyfunction]
fn record_scaled(loss: &Bound<'_, PyTensor>, scale: f64) {
    let tensor = loss.get().tensor();
    if let Some(node) = tensor.node().filter(|_| scale != 1.0) {
        let mut losses = LOSSES.lock();
        if losses.len() >= CLEANUP_SIZE {
            losses.retain(|_, (node, _)| node.strong_count() > 0);
        }
        losses.insert(node.id(), (Arc::downgrade(node), scale));
    }
}

/// Returns for each tensor the scale of the scaled loss whose gradient its `grad` contains, and the
/// factor of an unscaled loss; 0 if there is none, or none is known.
#[pyfunction]
fn scales_of(py: Python<'_>, tensors: Vec<Py<PyTensor>>) -> Vec<(f64, f64)> {
    let factors = |tensor: &Py<PyTensor>| {
        let slot = tensor.get().slot.initialized();
        slot.filter(|_| IN_USE.load(Relaxed)).map_or(LossFactors::default(), |slot| slot.loss_factors(py))
    };
    tensors
        .iter()
        .map(factors)
        .map(|factors| (factors.scaled.unwrap_or(0.0), factors.unscaled.unwrap_or(0.0)))
        .collect()
}

/// Records that the gradients of these tensors were clipped: they still belong to the same losses.
#[pyfunction]
fn keep_scales(py: Python<'_>, tensors: Vec<Py<PyTensor>>, scales: Vec<(f64, f64)>) {
    for (tensor, (scale, unscaled)) in tensors.iter().zip(scales) {
        let known = |number: f64| (number != 0.0).then_some(number);
        let factors = LossFactors { scaled: known(scale), unscaled: known(unscaled) };
        if let Some(slot) = tensor.get().slot.initialized().filter(|_| factors != LossFactors::default()) {
            slot.record_factors(py, factors);
        }
    }
}

/// Adds the functions to the module `_trust`.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(record_scaler, module)?)?;
    module.add_function(wrap_pyfunction!(record_scaled, module)?)?;
    module.add_function(wrap_pyfunction!(scales_of, module)?)?;
    module.add_function(wrap_pyfunction!(keep_scales, module)?)
}
