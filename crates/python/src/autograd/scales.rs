//! Tracks which gradients belong to a loss that a `GradScaler` has scaled. This is recorded when
//! gradients are accumulated, and valid until the gradient is written to.

use super::Slot;
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
/// The number of losses from which on dropped losses are removed; a backward pass removes them in
/// any case.
const FULL: usize = 1024;
/// The limit on the number of terms of a loss, and of nodes behind them. Beyond it nothing is known
/// about the loss.
const MOST: usize = 100_000;

/// What is known about a gradient.
pub(super) struct Origin {
    memory: WeakBuffer,
    version: u64,
    adds: Adds,
}

/// What a backward pass adds to a gradient, as far as is known.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) struct Adds {
    /// The factor of the gradient of a scaled loss.
    scaled: Option<f64>,
    /// The factor of the gradient of a loss that no scaler has scaled.
    plain: Option<f64>,
}

impl Adds {
    fn and(self, other: Adds) -> Adds {
        Adds { scaled: other.scaled.or(self.scaled), plain: other.plain.or(self.plain) }
    }
}

/// What a backward pass adds to the gradients of leaves.
#[derive(Default)]
pub(super) struct Pass {
    all: Adds,
    /// Only if leaves differ.
    leaves: HashMap<TensorId, Adds>,
}

/// A term of a loss, which is the sum of its terms: the node that computed it, and the factor by
/// which it was multiplied since, if that is known.
struct Term {
    node: Arc<Node>,
    factor: Option<f64>,
}

/// Returns the factor with which the gradient reaches the input nodes of a term's node; `None` if
/// the node does not compute a sum.
fn summands(term: &Term) -> Option<Option<f64>> {
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
            // By a constant, whose value is on a device.
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

impl Pass {
    /// Returns what the backward pass of `root` adds. Nothing is known if its gradient is given
    /// explicitly, or if it multiplies by what may be a scale.
    pub(super) fn of(root: &Tensor, is_weighted: bool) -> Pass {
        let Some(node) = root.node().filter(|_| IN_USE.load(Relaxed) && !is_weighted) else {
            return Pass::default();
        };
        let losses = living();
        let first = Term { node: node.clone(), factor: Some(1.0) };
        Pass::of_terms(first, &losses).unwrap_or_default()
    }

    fn of_terms(first: Term, losses: &HashMap<u64, f64>) -> Option<Pass> {
        let (mut stack, mut found, mut steps) = (vec![first], Vec::new(), 0);
        while let Some(term) = stack.pop() {
            steps += 1;
            if steps > MOST {
                return None;
            }
            if let Some(scale) = losses.get(&term.node.id()) {
                let scale = term.factor.map(|factor| factor * scale);
                // Divided by the scale again, it is unscaled.
                let scaled = scale.filter(|scale| !is_close(scale.abs(), 1.0));
                found.push((Adds { scaled, plain: None }, term.node));
            } else if let Some(factor) = summands(&term) {
                let nodes = term.node.input_nodes().flatten();
                stack.extend(nodes.map(|node| Term { node: node.clone(), factor }));
            } else {
                found.push((plain(&term, losses), term.node));
            }
        }
        let (all, _) = *found.first().map(|(adds, node)| (*adds, node)).as_ref()?;
        if found.iter().all(|(adds, _)| *adds == all) {
            return Some(Pass { all, leaves: HashMap::new() });
        }
        let mut leaves: HashMap<TensorId, Adds> = HashMap::new();
        for (adds, node) in found {
            for leaf in leaves_of(&node)? {
                let known = leaves.entry(leaf).or_default();
                *known = known.and(adds);
            }
        }
        Some(Pass { all: Adds::default(), leaves })
    }

    fn adds_to(&self, leaf: TensorId) -> Adds {
        self.leaves.get(&leaf).copied().unwrap_or(self.all)
    }
}

/// Returns what a term adds that no scaler has scaled.
fn plain(term: &Term, losses: &HashMap<u64, f64>) -> Adds {
    // A term that was computed from a scaled loss in another way may have any scale.
    let oldest = losses.keys().min();
    let is_apart = oldest.is_none_or(|oldest| !leads_to(&term.node, losses, *oldest));
    Adds { scaled: None, plain: term.factor.filter(|_| is_apart) }
}

/// Returns whether a node was computed from a scaled loss; `oldest` is the smallest id of their
/// nodes.
fn leads_to(node: &Arc<Node>, losses: &HashMap<u64, f64>, oldest: u64) -> bool {
    let (mut stack, mut seen) = (vec![node.clone()], HashSet::from([node.id()]));
    while let Some(node) = stack.pop() {
        if losses.contains_key(&node.id()) || seen.len() > MOST {
            return true;
        }
        // The nodes of the inputs of a node have smaller ids.
        let before = node.input_nodes().flatten().filter(|before| before.id() >= oldest);
        stack.extend(before.filter(|before| seen.insert(before.id())).cloned());
    }
    false
}

/// Returns the leaves that a node was computed from; `None` if there are too many nodes in between.
fn leaves_of(node: &Arc<Node>) -> Option<HashSet<TensorId>> {
    let (mut stack, mut seen) = (vec![node.clone()], HashSet::from([node.id()]));
    let mut leaves = HashSet::new();
    while let Some(node) = stack.pop() {
        if seen.len() > MOST {
            return None;
        }
        for (index, before) in node.input_nodes().enumerate() {
            let Some(before) = before else { continue };
            if matches!(before.function(), Function::Leaf) {
                leaves.extend(node.input_id(index));
            } else if seen.insert(before.id()) {
                stack.push(before.clone());
            }
        }
    }
    Some(leaves)
}

/// Returns the scaled losses that still exist.
fn living() -> HashMap<u64, f64> {
    let mut losses = LOSSES.lock();
    losses.retain(|_, (node, _)| node.strong_count() > 0);
    losses.iter().map(|(id, (_, scale))| (*id, *scale)).collect()
}

impl Slot {
    /// Returns what is known about the current gradient.
    fn adds(&self, py: Python<'_>) -> Adds {
        let Some(grad) = self.get(py) else { return Adds::default() };
        let grad = grad.get().tensor();
        let known = self.origin.lock();
        let is_as_it_was = |origin: &&Origin| {
            let memory = origin.memory.upgrade();
            memory.is_some_and(|memory| memory.is(grad.buffer())) && grad.buffer().version() == origin.version
        };
        known.as_deref().filter(is_as_it_was).map_or(Adds::default(), |origin| origin.adds)
    }

    /// Records `adds` as what is known about the current gradient.
    fn note_adds(&self, py: Python<'_>, adds: Adds) {
        let grad = self.get(py).filter(|_| adds != Adds::default()).map(|grad| grad.get().tensor());
        let origin = grad.map(|grad| {
            let (memory, version) = (grad.buffer().downgrade(), grad.buffer().version());
            Box::new(Origin { memory, version, adds })
        });
        *self.origin.lock() = origin;
    }

    /// Accumulates a gradient of a pass, and records its origin, which is unknown if a hook may
    /// have changed it.
    pub(super) fn gather_of(
        &self,
        py: Python<'_>,
        grad: &Tensor,
        pass: &Pass,
        leaf: Option<TensorId>,
    ) -> crate::error::Outcome<()> {
        if !IN_USE.load(Relaxed) {
            return self.gather(py, grad);
        }
        let new = leaf.filter(|_| !self.has_hooks()).map_or(Adds::default(), |leaf| pass.adds_to(leaf));
        let adds = self.adds(py).and(new);
        self.gather(py, grad)?;
        self.note_adds(py, adds);
        Ok(())
    }
}

/// Starts recording the origin of gradients, because a scaler was created.
#[pyfunction]
fn note_scaler() {
    IN_USE.store(true, Relaxed);
}

/// Records that a loss, with its current node, was multiplied by a scale.
#[pyfunction]
fn note_scaled(loss: &Bound<'_, PyTensor>, scale: f64) {
    let tensor = loss.get().tensor();
    if let Some(node) = tensor.node().filter(|_| scale != 1.0) {
        let mut losses = LOSSES.lock();
        if losses.len() >= FULL {
            losses.retain(|_, (node, _)| node.strong_count() > 0);
        }
        losses.insert(node.id(), (Arc::downgrade(node), scale));
    }
}

/// Returns for each tensor the scale of the scaled loss whose gradient its `grad` contains, and the
/// factor of an unscaled loss; 0 if there is none, or none is known.
#[pyfunction]
fn scales_of(py: Python<'_>, tensors: Vec<Py<PyTensor>>) -> Vec<(f64, f64)> {
    let adds = |tensor: &Py<PyTensor>| {
        let slot = tensor.get().slot.made();
        slot.filter(|_| IN_USE.load(Relaxed)).map_or(Adds::default(), |slot| slot.adds(py))
    };
    tensors.iter().map(adds).map(|adds| (adds.scaled.unwrap_or(0.0), adds.plain.unwrap_or(0.0))).collect()
}

/// Records that the gradients of these tensors were clipped: they still belong to the same losses.
#[pyfunction]
fn keep_scales(py: Python<'_>, tensors: Vec<Py<PyTensor>>, scales: Vec<(f64, f64)>) {
    for (tensor, (scale, plain)) in tensors.iter().zip(scales) {
        let known = |number: f64| (number != 0.0).then_some(number);
        let adds = Adds { scaled: known(scale), plain: known(plain) };
        if let Some(slot) = tensor.get().slot.made().filter(|_| adds != Adds::default()) {
            slot.note_adds(py, adds);
        }
    }
}

/// Adds the functions to the module `_trust`.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(note_scaler, module)?)?;
    module.add_function(wrap_pyfunction!(note_scaled, module)?)?;
    module.add_function(wrap_pyfunction!(scales_of, module)?)?;
    module.add_function(wrap_pyfunction!(keep_scales, module)?)
}
