//! Activation checkpointing (Chen et al. 2016): a segment keeps its inputs only and is run again for its gradient.

use super::node::{External, Grads};
use super::record::record_external;
use super::{GradOptions, enable_grad, mode};
use crate::error::Result;
use crate::tensor::Tensor;

type SegmentFn = dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync;

struct Checkpoint {
    f: Box<SegmentFn>,
    /// Arguments, then whatever else the segment used that needs a gradient (parameters).
    inputs: Vec<Tensor>,
    versions: Vec<u64>,
    arguments: usize,
    random_position: (u64, u64),
}

/// Runs `f` without keeping what is computed inside; backward runs it again, with the same random numbers.
///
/// Tensors that `f` captures (parameters) get their gradients too. Backward fails if the second run gives another number of outputs.
///
/// # Errors
/// Those of `f`.
pub fn checkpoint(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    inputs: &[&Tensor],
) -> Result<Vec<Tensor>> {
    let arguments: Vec<Tensor> = inputs.iter().map(|&tensor| tensor.clone()).collect();
    let Some(device) = arguments.first().map(|tensor| tensor.device().clone()) else {
        return Err(crate::Error::invalid("checkpoint", "expected at least 1 input"));
    };
    if !super::is_recording() {
        return f(&arguments);
    }
    let random_position = device.random_position();
    let (outputs, captured) = mode::capture_inputs(|| f(&arguments));
    let outputs = outputs?;
    let mut inputs = arguments;
    let arguments = inputs.len();
    let mut seen: std::collections::HashSet<_> = inputs.iter().filter_map(Tensor::id).collect();
    inputs.extend(captured.into_iter().filter(|tensor| tensor.id().is_some_and(|id| seen.insert(id))));
    if !inputs.iter().any(Tensor::needs_grad) {
        return Ok(outputs);
    }
    let versions = inputs.iter().map(|tensor| tensor.buffer().version()).collect();
    let handles: Vec<Tensor> = inputs.clone();
    let handles: Vec<&Tensor> = handles.iter().collect();
    let segment = Checkpoint { f: Box::new(f), inputs, versions, arguments, random_position };
    let outputs = outputs.into_iter().map(|tensor| tensor.detach()).collect();
    Ok(record_external(std::sync::Arc::new(segment), &handles, outputs))
}

impl External for Checkpoint {
    fn name(&self) -> &'static str {
        "checkpoint"
    }

    fn backward(&self, needs: &[bool], grad_outputs: &[Option<Tensor>], create_graph: bool) -> Result<Grads> {
        for (index, (tensor, &saved)) in self.inputs.iter().zip(&self.versions).enumerate() {
            let now = tensor.buffer().version();
            if now != saved {
                return Err(crate::Error::ChangedInPlace {
                    op: "checkpoint",
                    what: format!("input {index}"),
                    shape: Box::new(*tensor.shape()),
                    saved,
                    now,
                });
            }
        }
        let device = self.inputs[0].device();
        let position = device.random_position();
        device.set_random_position(self.random_position);
        let rerun = enable_grad(|| self.rerun(needs, create_graph));
        device.set_random_position(position);
        let (outputs, targets) = rerun?;
        if outputs.len() != grad_outputs.len() {
            return Err(crate::Error::Autograd(format!(
                "checkpoint: the segment gave {} outputs at first and {} when it was run again",
                grad_outputs.len(),
                outputs.len()
            )));
        }
        let (roots, cotangents): (Vec<Tensor>, Vec<Tensor>) = outputs
            .into_iter()
            .zip(grad_outputs)
            .filter_map(|(output, grad)| Some((output, grad.clone()?)))
            .filter(|(output, _)| output.needs_grad())
            .unzip();
        let wanted: Vec<Tensor> = targets.iter().flatten().cloned().collect();
        let options = GradOptions { create_graph, allow_unused: true, ..Default::default() };
        let mut found = super::grad(&roots, &wanted, &cotangents, options)?.into_iter();
        Ok(targets.iter().map(|target| target.as_ref().and_then(|_| found.next().flatten())).collect())
    }
}

impl Checkpoint {
    /// Runs the segment recorded; also tells, for each input whose gradient is needed, the tensor to ask for.
    fn rerun(&self, needs: &[bool], create_graph: bool) -> Result<(Vec<Tensor>, Vec<Option<Tensor>>)> {
        let mut arguments = Vec::with_capacity(self.arguments);
        let mut targets = Vec::with_capacity(self.inputs.len());
        for (index, input) in self.inputs.iter().enumerate() {
            let needed = needs.get(index).copied().unwrap_or(false);
            if index >= self.arguments {
                targets.push(needed.then(|| input.clone()));
                continue;
            }
            let source = if create_graph { input.clone() } else { input.detach() };
            let argument = if needed { source.tracked_alias()? } else { source };
            targets.push(needed.then(|| argument.clone()));
            arguments.push(argument);
        }
        Ok(((self.f)(&arguments)?, targets))
    }
}
