//! Activation checkpointing (Chen et al. 2016): a segment saves only its inputs and is recomputed
//! for its gradient.
//!
//! Both runs are recorded and observed. The graph of the first run is dropped at once. The graph of
//! the second run is traversed from the segment's outputs to its inputs, and no further: nodes
//! before the segment, and their hooks, belong to the backward pass that requested the gradient.

use super::backward::{Boundary, grad_within};
use super::context::Context;
use super::gradients::TensorId;
use super::node::{External, Grads, next_node_id};
use super::record::record_external;
use super::{FusionMode, GradOptions, enable_grad, mode, no_grad};
use crate::backend::{Buffer, WeakBuffer};
use crate::error::{Error, Result, Text};
use crate::observe::{OpCall, observe_ops};
use crate::op::Saves;
use crate::precision::{self, Precision, is_elided_cast};
use crate::tensor::Tensor;
use crate::{DType, Shape, text};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::HashSet;
use std::collections::hash_map::{DefaultHasher, Entry, HashMap};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

type SegmentFn = dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync;

/// The node function of a segment: what its second run needs, and the trace of the first run.
struct Checkpoint {
    f: Box<SegmentFn>,
    /// The arguments, then the other tensors (parameters) that the segment used and that need a
    /// gradient.
    inputs: Vec<Tensor>,
    /// Number of arguments: the first entries of `inputs`.
    arguments: usize,
    /// The position of the random number generator before the first run.
    random_position: (u64, u64),
    precision: Option<Precision>,
    fusion_mode: FusionMode,
    first_trace: Trace,
}

/// Runs `f` without saving its intermediate tensors. The backward pass recomputes them, with the
/// same random numbers, in the same [precision scope](crate::with_precision), and with or [without
/// fusion](crate::without_fusion), as in the first run.
///
/// Tensors that `f` captures (parameters) get their gradients too.
///
/// The segment runs twice. Tensors from outside that it changes in place, such as the running
/// statistics of a batch norm in training, are restored after the second run, so that they change
/// once. All other side effects occur twice.
///
/// Both runs must compute the same. The backward pass fails
/// - if a tensor that the first run read has since been changed in place (by anything but the
///   segment itself)
/// - if the second run uses other tensors that need a gradient (because a parameter was replaced,
///   frozen or converted in between)
/// - if the second run runs other ops (because a model was switched between training and evaluation
///   mode), or the same ops with other settings or on other tensors
/// - if the number, shapes or dtypes of the outputs differ
///
/// It cannot detect that a captured tensor which needs no gradient was replaced by another one of
/// the same shape.
///
/// # Errors
/// Returns the errors of `f`.
pub fn checkpoint(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    inputs: &[&Tensor],
) -> Result<Vec<Tensor>> {
    let mut inputs: Vec<Tensor> = inputs.iter().map(|&tensor| tensor.clone()).collect();
    let Some(device) = inputs.first().map(|tensor| tensor.device().clone()) else {
        return Err(Error::invalid("checkpoint", "expected at least 1 input"));
    };
    if !super::is_recording() {
        return f(&inputs);
    }
    let random_position = device.random_position();
    let start = next_node_id();
    let precision = precision::current();
    let fusion_mode = FusionMode::current();
    let SegmentRun { outputs, mut trace, captured } =
        SegmentRun::of(start, &f, &separate(&inputs, false)?, precision)?;
    let arguments = inputs.len();
    inputs.extend(captured);
    if !inputs.iter().any(Tensor::needs_grad) {
        return Ok(outputs);
    }
    trace.reads.retain(Read::is_unchanged);
    let handles = inputs.clone();
    let handles: Vec<&Tensor> = handles.iter().collect();
    let segment = Checkpoint {
        f: Box::new(f),
        inputs,
        arguments,
        random_position,
        precision,
        fusion_mode,
        first_trace: trace,
    };
    let outputs = outputs.into_iter().map(|tensor| tensor.detach()).collect();
    Ok(record_external(std::sync::Arc::new(segment), &handles, outputs, Saves::NOTHING))
}

/// Returns the arguments as separate tensors for this run, so that gradients with respect to them
/// are distinguished from those with respect to captured tensors. If `is_linked`, they are
/// connected to the arguments in the graph, for double backward.
fn separate(arguments: &[Tensor], is_linked: bool) -> Result<Vec<Tensor>> {
    arguments
        .iter()
        .map(|argument| match argument.needs_grad() {
            true if is_linked => argument.tracked_alias(),
            true => argument.detach().requires_grad(),
            false => Ok(argument.clone()),
        })
        .collect()
}

/// The outputs and the trace of a segment's run, and the tensors from outside that it used and that
/// need a gradient.
struct SegmentRun {
    outputs: Vec<Tensor>,
    trace: Trace,
    captured: Vec<Tensor>,
}

/// The trace of a segment's run. The second run must produce the same trace.
#[derive(Default)]
struct Trace {
    outputs: Vec<(Shape, DType)>,
    steps: Vec<Step>,
    /// Buffers from outside that the segment reads. After the first run, those that the segment
    /// itself changed (running statistics) are removed, and therefore not checked.
    reads: Vec<Read>,
    /// The index of each buffer in `reads` and `allocated`, by its address. Indices are assigned in
    /// the order in which the buffers first occur.
    buffer_indices: HashMap<usize, usize>,
    /// Buffers that the segment allocated or wrote first. The weak handles keep their addresses
    /// from being reused.
    allocated: Vec<WeakBuffer>,
    /// Tensors from outside that the segment changed in place.
    changed: Vec<Tensor>,
}

/// An op that a segment ran, with the shapes and dtypes of its outputs.
#[derive(PartialEq)]
struct Step {
    op: &'static str,
    /// A digest of the op's settings and of its inputs.
    call: u64,
    outputs: SmallVec<[(Shape, DType); 1]>,
}

/// A buffer, with its version when it was first read. The weak handle does not keep it alive.
struct Read {
    memory: WeakBuffer,
    version: u64,
    /// The shape of the tensor through which it was read.
    shape: Shape,
}

impl Read {
    /// Returns the buffer, if it still exists and was changed.
    fn changed(&self) -> Option<Buffer> {
        self.memory.upgrade().filter(|buffer| buffer.version() != self.version)
    }

    fn is_unchanged(&self) -> bool {
        self.memory.upgrade().is_some_and(|buffer| buffer.version() == self.version)
    }
}

fn shape_and_dtype(tensor: &Tensor) -> (Shape, DType) {
    (*tensor.shape(), tensor.dtype())
}

impl Trace {
    /// Returns the index of the tensor's buffer. If the buffer is new, records that it is read from
    /// outside.
    fn read(&mut self, tensor: &Tensor) -> usize {
        let next = self.buffer_indices.len();
        match self.buffer_indices.entry(tensor.buffer().address()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let (memory, version) = (tensor.buffer().downgrade(), tensor.buffer().version());
                self.reads.push(Read { memory, version, shape: *tensor.shape() });
                *new.insert(next)
            }
        }
    }

    /// Adds the step of an op, and records the buffers that it reads, allocates and changes.
    fn record_call(&mut self, call: &OpCall<'_>) {
        let mut digest = DefaultHasher::new();
        format!("{:?}", call.op).hash(&mut digest);
        // The observer is called after the op has run. The buffer that an in-place op changed does
        // not count as read from outside.
        let is_changed =
            |input: &Tensor| call.outputs.iter().any(|output| output.buffer().is(input.buffer()));
        for input in call.inputs.iter().filter(|input| !is_changed(input)) {
            let buffer_index = self.read(input);
            (buffer_index, format!("{:?}", input.layout())).hash(&mut digest);
        }
        let outputs = call.outputs.iter().map(shape_and_dtype).collect();
        self.steps.push(Step { op: call.op.name(), call: digest.finish(), outputs });
        for output in call.outputs {
            if !is_elided_cast(call) {
                self.record_change(output);
            }
            let next = self.buffer_indices.len();
            if let Entry::Vacant(new) = self.buffer_indices.entry(output.buffer().address()) {
                new.insert(next);
                self.allocated.push(output.buffer().downgrade());
            }
        }
    }

    /// Records `output` if it is a tensor from outside that an op changed in place. A buffer that
    /// an op allocates has version 0.
    fn record_change(&mut self, output: &Tensor) {
        let buffer = output.buffer();
        if buffer.version() == 0 {
            return;
        }
        let is_allocated = self
            .allocated
            .iter()
            .any(|allocated| allocated.upgrade().is_some_and(|allocated| allocated.is(buffer)));
        let is_known = |known: &Tensor| known.buffer().is(buffer) && known.layout() == output.layout();
        if !is_allocated && !self.changed.iter().any(is_known) {
            self.changed.push(output.detach());
        }
    }
}

impl SegmentRun {
    /// Runs the segment with recording. Nodes with ids from `start` on belong to the segment. The
    /// casts of a precision scope belong to it too, and each run creates its own.
    fn of(
        start: u64,
        f: &SegmentFn,
        arguments: &[Tensor],
        precision: Option<Precision>,
    ) -> Result<SegmentRun> {
        let trace: Rc<RefCell<Trace>> = Rc::default();
        // Arguments are recorded as read even if no op reads them, and have the first indices, so
        // that these are the same in both runs.
        arguments.iter().for_each(|argument| {
            trace.borrow_mut().read(argument);
        });
        let log = trace.clone();
        let observer = move |call: &OpCall<'_>| {
            log.borrow_mut().record_call(call);
            Ok(())
        };
        let observed_run =
            || precision::with_separate_casts(precision, || observe_ops(observer, || f(arguments)));
        let (outputs, mut captured) = mode::capture_inputs(start, || enable_grad(observed_run));
        let outputs = outputs?;
        // An output may be a tensor from outside, unchanged.
        let is_from_outside = |tensor: &&Tensor| tensor.node().is_some_and(|node| node.id() < start);
        captured.extend(outputs.iter().filter(is_from_outside).cloned());
        let mut known_ids: HashSet<TensorId> = HashSet::new();
        captured.retain(|tensor| tensor.id().is_some_and(|id| known_ids.insert(id)));
        let mut trace = trace.take();
        trace.outputs = outputs.iter().map(shape_and_dtype).collect();
        // Indices and handles are needed only while the segment runs, and a checkpoint saves only
        // the segment's inputs.
        (trace.buffer_indices, trace.allocated) = Default::default();
        Ok(SegmentRun { outputs, trace, captured })
    }
}

impl External for Checkpoint {
    fn name(&self) -> &'static str {
        "checkpoint"
    }

    fn backward(
        &self,
        context: &Context<'_>,
        grad_outputs: &[Option<Tensor>],
        create_graph: bool,
    ) -> Result<Grads> {
        self.check_unchanged()?;
        let device = self.inputs[0].device();
        let position = device.random_position();
        device.set_random_position(self.random_position);
        let start = next_node_id();
        let before = self
            .first_trace
            .changed
            .iter()
            .map(|tensor| no_grad(|| tensor.copy()))
            .collect::<Result<Vec<_>>>()?;
        let run = |arguments: &[Tensor]| {
            self.fusion_mode.apply(|| SegmentRun::of(start, &*self.f, arguments, self.precision))
        };
        let rerun = separate(&self.inputs[..self.arguments], create_graph)
            .and_then(|arguments| Ok((run(&arguments)?, arguments)));
        device.set_random_position(position);
        let changed = self.first_trace.changed.iter().zip(&before);
        no_grad(|| changed.into_iter().try_for_each(|(tensor, before)| tensor.copy_(before)))?;
        let (second, arguments) = rerun?;
        self.check_repeats(&second)?;
        let segment_inputs = arguments.iter().chain(&self.inputs[self.arguments..]);
        let targets: Vec<Option<Tensor>> = segment_inputs
            .enumerate()
            .map(|(index, tensor)| (context.needs(index) && tensor.needs_grad()).then(|| tensor.clone()))
            .collect();
        let (roots, cotangents): (Vec<Tensor>, Vec<Tensor>) = second
            .outputs
            .into_iter()
            .zip(grad_outputs)
            .filter_map(|(output, grad)| Some((output, grad.clone()?)))
            .filter(|(output, _)| output.needs_grad())
            .unzip();
        let needed_tensors: Vec<Tensor> = targets.iter().flatten().cloned().collect();
        let options = GradOptions { create_graph, allow_unused: true, ..Default::default() };
        let boundary = Boundary::new(start, &arguments);
        let mut input_grads =
            grad_within(&boundary, &roots, &needed_tensors, &cotangents, options)?.into_iter();
        Ok(targets.iter().map(|target| target.as_ref().and_then(|_| input_grads.next().flatten())).collect())
    }
}

impl Checkpoint {
    /// Checks that no tensor that the segment read was changed in place.
    fn check_unchanged(&self) -> Result<()> {
        for read in &self.first_trace.reads {
            let Some(buffer) = read.changed() else { continue };
            let input = self.inputs.iter().position(|input| input.buffer().is(&buffer));
            let what = match input {
                Some(index) => format!("input {index}"),
                None => "a tensor that the segment reads".to_string(),
            };
            let (shape, saved, now) = (Box::new(read.shape), read.version, buffer.version());
            return Err(Error::ChangedInPlace { op: "checkpoint", what, shape, saved, now });
        }
        Ok(())
    }

    /// Returns an error if the trace of the second run differs from that of the first.
    fn check_repeats(&self, second: &SegmentRun) -> Result<()> {
        let differs = self
            .captured_difference(&second.captured)
            .or_else(|| self.first_trace.output_difference(&second.trace))
            .or_else(|| self.first_trace.step_difference(&second.trace));
        match differs {
            Some(detail) => Err(Error::autograd(text!["checkpoint: the segment ", detail])),
            None => Ok(()),
        }
    }

    /// Describes how the tensors that the second run used differ from those of the first.
    fn captured_difference(&self, second: &[Tensor]) -> Option<Text> {
        let first = &self.inputs[self.arguments..];
        let among = |tensor: &Tensor, others: &[Tensor]| others.iter().any(|other| other.id() == tensor.id());
        let missing = first.iter().find(|tensor| !among(tensor, second));
        let new = second.iter().find(|tensor| !among(tensor, first));
        let kind = |tensor: &Tensor| text!["of shape ", tensor];
        let difference = match (missing, new) {
            (None, None) => return None,
            (Some(old), Some(new)) => text![kind(old), " at first and another, ", kind(new), ", when"],
            (Some(old), None) => text![kind(old), " at first and not when"],
            (None, Some(new)) => text![kind(new), " not at first but when"],
        };
        Some(text![
            "used a tensor ",
            difference,
            " it was run again: was a parameter replaced, frozen or converted between forward and backward?"
        ])
    }
}

impl Trace {
    /// Describes the first op that differs from the second run.
    fn step_difference(&self, second: &Trace) -> Option<Text> {
        let mut steps = self.steps.iter().zip(&second.steps).enumerate();
        if let Some((index, (one, two))) = steps.find(|(_, (one, two))| one != two) {
            return Some(match one.op == two.op && one.outputs == two.outputs {
                true => text![
                    "ran ",
                    one.describe(),
                    format!(
                        " as its op {index} with other settings or on other tensors when it was run again"
                    )
                ],
                false => {
                    let (position, two) = (format!(" as its op {index} at first and "), two.describe());
                    text!["ran ", one.describe(), position, two, " when it was run again"]
                }
            });
        }
        let (one, two) = (self.steps.len(), second.steps.len());
        (one != two).then(|| format!("ran {one} ops at first and {two} when it was run again").into())
    }

    /// Describes the first output whose shape or dtype differs from the second run.
    fn output_difference(&self, second: &Trace) -> Option<Text> {
        let (one, two) = (self.outputs.len(), second.outputs.len());
        if one != two {
            return Some(format!("gave {one} outputs at first and {two} when it was run again").into());
        }
        let index = (0..one).find(|&index| self.outputs[index] != second.outputs[index])?;
        let ((shape, dtype), (other_shape, other_dtype)) = (&self.outputs[index], &second.outputs[index]);
        let (first, second) = (text![shape, " ", *dtype], text![other_shape, " ", *other_dtype]);
        let start = format!("gave an output {index} of shape ");
        Some(text![start, first, " at first and of ", second, " when it was run again"])
    }
}

impl Step {
    /// Describes the op and its first output, for messages.
    fn describe(&self) -> Text {
        match self.outputs.first() {
            Some((shape, dtype)) => text![self.op, " (to ", shape, " ", *dtype, ")"],
            None => self.op.into(),
        }
    }
}
