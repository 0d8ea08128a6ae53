//! Activation checkpointing (Chen et al. 2016): a segment keeps its inputs only and is run again for its gradient.
//!
//! Both runs are recorded and watched. The first record is dropped at once; the second is walked from the segment's outputs to its edge,
//! and no further: what lies beyond (and hooks there) belongs to the walk that asked for the gradient.

use super::mode::{self, Read, Reading};
use super::node::{External, Grads, Node};
use super::record::record_external;
use super::walk::{Boundary, grad_within};
use super::{GradOptions, enable_grad};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::{DType, Shape};

type SegmentFn = dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync;

struct Checkpoint {
    f: Box<SegmentFn>,
    /// Arguments, then whatever else the segment used that needs a gradient (parameters).
    inputs: Vec<Tensor>,
    arguments: usize,
    /// Memory that the segment read but did not change itself.
    memory: Vec<Read>,
    ops: Vec<&'static str>,
    outputs: Vec<(Shape, DType)>,
    random_position: (u64, u64),
}

/// Runs `f` without keeping what is computed inside; backward runs it again, with the same random numbers.
///
/// Tensors that `f` captures (parameters) get their gradients too. Whatever `f` does beside its result it does twice: running statistics of
/// batch normalisation are moved by both runs.
///
/// # Errors
/// Those of `f`. Backward fails if the second run would not repeat the first: a tensor that `f` read was changed in place or replaced by
/// another, other ops ran (dropout that was switched off), or the outputs are others.
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
    let (outputs, reading) = watched(&f, &separate(&inputs, false)?)?;
    let arguments = inputs.len();
    inputs.extend(reading.captured);
    if !inputs.iter().any(Tensor::needs_grad) {
        return Ok(outputs);
    }
    let segment = Checkpoint {
        f: Box::new(f),
        inputs: inputs.clone(),
        arguments,
        memory: reading.memory.into_iter().filter(is_unchanged).collect(),
        ops: reading.ops,
        outputs: kinds(&outputs),
        random_position,
    };
    let handles: Vec<&Tensor> = inputs.iter().collect();
    let outputs = outputs.into_iter().map(|tensor| tensor.detach()).collect();
    Ok(record_external(std::sync::Arc::new(segment), &handles, outputs))
}

/// Whether the memory is still there, as it was read: what a segment changes itself (running statistics) is its own affair.
fn is_unchanged(read: &Read) -> bool {
    read.buffer().is_some_and(|buffer| buffer.version() == read.version)
}

fn kinds(outputs: &[Tensor]) -> Vec<(Shape, DType)> {
    outputs.iter().map(|output| (*output.shape(), output.dtype())).collect()
}

/// The arguments as tensors of this run alone, so that what the segment does with them is told from what is captured. With `linked`, they
/// lead on to the arguments themselves: gradients of gradients go there.
fn separate(arguments: &[Tensor], linked: bool) -> Result<Vec<Tensor>> {
    arguments
        .iter()
        .map(|argument| match argument.needs_grad() {
            true if linked => argument.tracked_alias(),
            true => argument.detach().requires_grad(),
            false => Ok(argument.clone()),
        })
        .collect()
}

/// Runs the segment, recorded, and tells what it read from outside.
fn watched(f: &SegmentFn, arguments: &[Tensor]) -> Result<(Vec<Tensor>, Reading)> {
    // The arguments' own nodes were just made: they lie inside.
    let start = arguments.iter().filter_map(|argument| Some(argument.node()?.id())).min();
    let start = start.unwrap_or_else(Node::next_id);
    let (outputs, mut reading) = mode::reading(start, || enable_grad(|| f(arguments)));
    let outputs = outputs?;
    outputs.iter().for_each(|output| reading.capture(output));
    Ok((outputs, reading))
}

impl External for Checkpoint {
    fn name(&self) -> &'static str {
        "checkpoint"
    }

    fn backward(&self, needs: &[bool], grad_outputs: &[Option<Tensor>], create_graph: bool) -> Result<Grads> {
        self.check_memory()?;
        let device = self.inputs[0].device();
        let position = device.random_position();
        device.set_random_position(self.random_position);
        let start = Node::next_id();
        let rerun = separate(&self.inputs[..self.arguments], create_graph)
            .and_then(|arguments| Ok((watched(&*self.f, &arguments)?, arguments)));
        device.set_random_position(position);
        let ((outputs, reading), arguments) = rerun?;
        self.check_repeated(&outputs, &reading)?;
        let edge = arguments.iter().chain(&self.inputs[self.arguments..]);
        let targets: Vec<Option<Tensor>> = edge
            .zip(needs)
            .map(|(tensor, &needed)| (needed && tensor.needs_grad()).then(|| tensor.clone()))
            .collect();
        let (roots, cotangents): (Vec<Tensor>, Vec<Tensor>) = outputs
            .into_iter()
            .zip(grad_outputs)
            .filter_map(|(output, grad)| Some((output, grad.clone()?)))
            .filter(|(output, _)| output.needs_grad())
            .unzip();
        let wanted: Vec<Tensor> = targets.iter().flatten().cloned().collect();
        let options = GradOptions { create_graph, allow_unused: true, ..Default::default() };
        let boundary = Boundary::new(start, &arguments);
        let mut found = grad_within(&boundary, &roots, &wanted, &cotangents, options)?.into_iter();
        Ok(targets.iter().map(|target| target.as_ref().and_then(|_| found.next().flatten())).collect())
    }
}

impl Checkpoint {
    /// Nothing that the segment reads was changed in place.
    fn check_memory(&self) -> Result<()> {
        for read in &self.memory {
            let Some(buffer) = read.buffer().filter(|buffer| buffer.version() != read.version) else {
                continue;
            };
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

    /// The second run did what the first one did.
    fn check_repeated(&self, outputs: &[Tensor], reading: &Reading) -> Result<()> {
        let failed = |text: String| {
            Err(Error::Autograd(format!(
                "checkpoint: the segment was run again for its gradient, and {text}"
            )))
        };
        if let Some(text) = self.other_outputs(outputs).or_else(|| self.other_ops(&reading.ops)) {
            return failed(text);
        }
        let captured = &self.inputs[self.arguments..];
        let same = |other: &Tensor| captured.iter().any(|tensor| tensor.id() == other.id());
        match reading.captured.iter().find(|tensor| !same(tensor)) {
            Some(other) => failed(format!(
                "used another tensor of shape {:?} that needs a gradient: one was replaced in between",
                other.shape()
            )),
            None if reading.captured.len() != captured.len() => failed(
                "did not use all tensors that need a gradient again: one was replaced in between".into(),
            ),
            None => Ok(()),
        }
    }

    fn other_outputs(&self, outputs: &[Tensor]) -> Option<String> {
        let (count, expected) = (outputs.len(), self.outputs.len());
        if count != expected {
            return Some(format!("gave {count} outputs instead of {expected}"));
        }
        let kinds = kinds(outputs);
        let index = (0..count).find(|&index| kinds[index] != self.outputs[index])?;
        let ((got, now), (shape, dtype)) = (&kinds[index], &self.outputs[index]);
        Some(format!("its output {index} was {got:?} {now} instead of {shape:?} {dtype}"))
    }

    fn other_ops(&self, ops: &[&'static str]) -> Option<String> {
        let same = self.ops.iter().zip(ops).take_while(|(first, second)| first == second).count();
        if same == self.ops.len() && same == ops.len() {
            return None;
        }
        let name = |ops: &[&'static str]| ops.get(same).copied().unwrap_or("the end");
        Some(format!("its op number {same} was {} instead of {}", name(ops), name(&self.ops)))
    }
}
