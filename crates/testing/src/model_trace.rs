//! The trace of a model, op by op: the outputs of its ops and layers in the forward pass, the
//! gradients of its nodes in the backward pass, and the location of each in the model.

use crate::agreement::Computed;
use crate::memory_layout::tensor_with_layout;
use crate::read::values_of;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use ternion_core::autograd::{BackwardCall, TensorId, next_node_id, observe_backward_calls};
use ternion_core::{Device, OpCall, Result, Tensor, observe_ops};
use ternion_nn::{LayerEvent, Module, observe_layer_events};

/// A compared tensor and the op that computed it.
pub(crate) struct Step {
    /// The op; `None` for the output of a layer.
    pub(crate) op: Option<&'static str>,
    /// The name, such as `output of op relu`.
    pub(crate) name: String,
    /// `op relu (between 0 (Linear) and 2 (Linear))`: the part at fault if this tensor is the first
    /// to differ.
    pub(crate) part: String,
    pub(crate) tensor: Tensor,
}

/// The start, end or output of a layer, and when it occurred: the number of ops before it, and the
/// id of the next node.
struct Mark {
    ops: usize,
    node: u64,
    event: Event,
    label: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Entered,
    Left,
    Output,
}

/// The record of a forward pass.
#[derive(Default)]
struct Log {
    marks: Vec<Mark>,
    /// The outputs of ops and layers in the order of computation.
    outputs: Vec<RecordedOutput>,
    ops: usize,
    /// The names of tensors, by the ids of their gradients.
    names: HashMap<TensorId, String>,
}

struct RecordedOutput {
    /// The op and its index among all ops; `None` for a layer's output.
    op: Option<(&'static str, usize)>,
    name: String,
    tensor: Tensor,
}

/// Returns a copy on the host, which later in-place ops do not change.
fn copied(tensor: &Tensor, host: &Device) -> Result<Tensor> {
    let (dtype, values) = values_of(tensor)?;
    tensor_with_layout(&values, dtype, None, host)
}

impl Log {
    fn mark(&mut self, event: Event, label: String) {
        self.marks.push(Mark { ops: self.ops, node: next_node_id(), event, label });
    }

    fn layer(&mut self, event: LayerEvent<'_>, host: &Device) -> Result<()> {
        let (call, output, event) = match event {
            LayerEvent::Entered(call) => (call, None, Event::Entered),
            LayerEvent::Left(call, output) => (call, Some(output), Event::Left),
            LayerEvent::Output(call, output) => (call, Some(output), Event::Output),
        };
        let label =
            if call.key.is_empty() { call.kind.into() } else { format!("{} ({})", call.key, call.kind) };
        if let Some(output) = output {
            let name = format!("output of layer {label}");
            if let Some(id) = output.id() {
                self.names.entry(id).or_insert_with(|| format!("the {name}"));
            }
            self.outputs.push(RecordedOutput { op: None, name, tensor: copied(output, host)? });
        }
        self.mark(event, label);
        Ok(())
    }

    fn op(&mut self, call: &OpCall<'_>, host: &Device) -> Result<()> {
        for (index, output) in call.outputs.iter().enumerate() {
            let name = match call.outputs.len() {
                1 => "output".to_string(),
                _ => format!("output {index}"),
            };
            self.outputs.push(RecordedOutput {
                op: Some((call.op.name(), self.ops)),
                name,
                tensor: copied(output, host)?,
            });
        }
        self.ops += 1;
        Ok(())
    }

    /// Returns the location of an event after the marks for which `before` holds.
    fn location(&self, before: impl Fn(&Mark) -> bool) -> String {
        let (mut open_layers, mut last): (Vec<&str>, Option<&str>) = (Vec::new(), None);
        let passed = self.marks.iter().take_while(|mark| before(mark)).count();
        for mark in &self.marks[..passed] {
            match mark.event {
                Event::Entered => open_layers.push(&mark.label),
                Event::Left => {
                    open_layers.pop();
                    last = Some(&mark.label);
                }
                Event::Output => last = Some(&mark.label),
            }
        }
        if let Some(layer) = open_layers.last() {
            return format!("in {layer}");
        }
        let next = self.marks.get(passed).map(|mark| match mark.event {
            Event::Output => format!("the output of {}", mark.label),
            _ => mark.label.clone(),
        });
        match (last, next) {
            (Some(last), Some(next)) => format!("between {last} and {next}"),
            (None, Some(next)) => format!("before {next}"),
            (Some(last), None) => format!("after {last}"),
            (None, None) => "in no layer".into(),
        }
    }
}

/// The trace of a model in a forward pass.
pub(crate) struct ModelTrace {
    log: Log,
    host: Device,
    /// The id of the first node that the forward pass did not record.
    end: u64,
}

impl ModelTrace {
    /// Runs `compute` and traces it.
    pub(crate) fn record<M: Module + ?Sized, T>(
        model: &M,
        compute: impl FnOnce() -> Result<T>,
    ) -> Result<(ModelTrace, T)> {
        let (log, host) = (Rc::new(RefCell::new(Log::default())), ternion_cpu::device());
        let layer_observer = {
            let (log, host) = (log.clone(), host.clone());
            move |event: LayerEvent<'_>| log.borrow_mut().layer(event, &host)
        };
        let op_observer = {
            let (log, host) = (log.clone(), host.clone());
            move |call: &OpCall<'_>| log.borrow_mut().op(call, &host)
        };
        let computed = observe_layer_events(model, layer_observer, || observe_ops(op_observer, compute))?;
        Ok((ModelTrace { log: log.take(), host, end: next_node_id() }, computed))
    }

    /// Returns the outputs of ops and layers in the order of computation.
    pub(crate) fn forward(&self) -> Vec<Step> {
        let step = |recorded: &RecordedOutput| {
            let part = match recorded.op {
                Some((op, index)) => format!("op {op} ({})", self.log.location(|mark| mark.ops <= index)),
                None => String::new(),
            };
            let op = recorded.op.map(|(op, _)| op);
            Step { op, name: recorded.name.clone(), part, tensor: recorded.tensor.clone() }
        };
        self.log.outputs.iter().map(step).collect()
    }

    /// Sets the name under which the gradient of a tensor is reported.
    pub(crate) fn name(&mut self, tensor: &Tensor, name: String) {
        if let Some(id) = tensor.id() {
            self.log.names.insert(id, name);
        }
    }

    /// Runs and traces the backward pass `backward`: the output gradients of each node, then the
    /// input gradients that it computed.
    pub(crate) fn backward<T>(&self, backward: impl FnOnce() -> Result<T>) -> Result<(Vec<Step>, T)> {
        let steps: Rc<RefCell<Vec<(u64, Step)>>> = Rc::default();
        let (log, host, names) = (steps.clone(), self.host.clone(), self.log.names.clone());
        let observer = move |call: &mut BackwardCall<'_>| {
            log.borrow_mut().extend(steps_of(call, &host, &names)?);
            Ok(())
        };
        let result = observe_backward_calls(observer, backward)?;
        Ok((self.with_locations(steps.take()), result))
    }

    /// Assigns locations. Steps inside the gradient of a node (in its composition, or in a
    /// recomputed segment) get the location of that node, whose own steps are reported last.
    fn with_locations(&self, steps: Vec<(u64, Step)>) -> Vec<Step> {
        let mut location = String::new();
        let locate = |(node, step): (u64, Step)| {
            if node < self.end {
                location = self.log.location(|mark| mark.node <= node);
            }
            Step { part: format!("{} ({location})", step.part), ..step }
        };
        let mut steps: Vec<Step> = steps.into_iter().rev().map(locate).collect();
        steps.reverse();
        steps
    }
}

fn steps_of(
    call: &BackwardCall<'_>,
    host: &Device,
    names: &HashMap<TensorId, String>,
) -> Result<Vec<(u64, Step)>> {
    let (node, op) = (call.node.id(), call.node.function().name());
    let mut steps = Vec::new();
    for (index, grad) in call.grad_outputs.iter().enumerate() {
        let Some(grad) = grad else { continue };
        let (name, part) =
            (format!("gradient of output {index}"), format!("sum of the gradients that come to op {op}"));
        steps.push((node, Step { op: Some(op), name, part, tensor: copied(grad, host)? }));
    }
    for (index, grad) in call.grad_inputs.iter().enumerate() {
        let Some(grad) = grad else { continue };
        let known = call.node.input_id(index).and_then(|id| names.get(&id));
        let name = match known {
            Some(known) => format!("gradient of {known}"),
            None => format!("gradient of input {index}"),
        };
        steps.push((
            node,
            Step { op: Some(op), name, part: format!("backward of op {op}"), tensor: copied(grad, host)? },
        ));
    }
    Ok(steps)
}

/// Returns the pairs of steps to compare: the same ops in the same order, except for copies, which
/// depend on the layouts that a device prefers. If the ops differ, the error says where.
pub(crate) fn pair_steps(
    first: &[Step],
    second: &[Step],
) -> std::result::Result<Vec<(usize, usize)>, String> {
    let (mut pairs, mut index_a, mut index_b) = (Vec::new(), 0, 0);
    let is_copy = |step: Option<&Step>| step.is_some_and(|step| step.op == Some("copy"));
    while index_a < first.len() || index_b < second.len() {
        let (step_a, step_b) = (first.get(index_a), second.get(index_b));
        let same = |(step_a, step_b): (&Step, &Step)| step_a.op == step_b.op && step_a.name == step_b.name;
        if step_a.zip(step_b).is_some_and(same) {
            pairs.push((index_a, index_b));
            (index_a, index_b) = (index_a + 1, index_b + 1);
        } else if is_copy(step_a) {
            index_a += 1;
        } else if is_copy(step_b) {
            index_b += 1;
        } else {
            let text = |step: Option<&Step>| match step {
                None => "nothing more".to_string(),
                Some(step) if step.part.is_empty() => format!("the {}", step.name),
                Some(step) => format!("{}: {}", step.part, step.name),
            };
            return Err(format!("{} in one model, {} in the other", text(step_a), text(step_b)));
        }
    }
    Ok(pairs)
}

/// Returns the name and tensor of each step with one of these indices.
pub(crate) fn select_steps(steps: &[Step], indices: impl Iterator<Item = usize>) -> Computed {
    let one = |step: &Step| (step.name.clone(), Some(step.tensor.clone()));
    indices.filter_map(|at| steps.get(at)).map(one).collect()
}
