//! Functions with custom gradients: the ops inside are not recorded, and the graph contains one
//! node for the function.

use super::context::Context;
use super::node::{External, Function, Grads, Node};
use super::record::{record_external, wants_record};
use crate::error::{Error, Result};
use crate::op::{Op, Saves};
use crate::tensor::Tensor;
use crate::text;
use std::collections::HashSet;
use std::sync::Arc;

/// The node function of [`with_gradient`].
struct Custom<F> {
    name: &'static str,
    backward: F,
}

/// Returns `outputs`, which were computed from `inputs`, with `backward` as their gradient rule.
/// They are returned unchanged if no input needs a gradient, or if recording is off.
///
/// Compute the outputs in [`no_grad`](super::no_grad): their recorded history is discarded.
/// `backward` receives the gradients of the outputs (`None` for an output on which nothing depends)
/// and returns one gradient for each input, of its shape and dtype (or f32, for half precision that
/// was cast from f32). Gradients that are not [needed](Context::needs) may be `None`. The context
/// provides the tensors that `saves` selects, and returns an error if one was changed in place
/// since. For double backward, `backward` itself is recorded.
///
/// Outputs that are not floating get no history.
///
/// # Errors
/// Returns an error if `saves` is not empty and there are more inputs or outputs than [`Saves`] can
/// represent. The backward pass returns the errors of `backward`, and an error if the number,
/// shapes or dtypes of the gradients differ from those of the inputs.
pub fn with_gradient(
    name: &'static str,
    inputs: &[&Tensor],
    outputs: Vec<Tensor>,
    saves: Saves,
    backward: impl Fn(&Context<'_>, &[Option<Tensor>]) -> Result<Grads> + Send + Sync + 'static,
) -> Result<Vec<Tensor>> {
    let bits = u16::BITS as usize;
    if (saves.inputs != 0 && inputs.len() > bits) || (saves.outputs != 0 && outputs.len() > bits) {
        let detail =
            format!("{} inputs and {} outputs, expected at most {bits}", inputs.len(), outputs.len());
        return Err(Error::invalid(name, detail));
    }
    if !wants_record(inputs) {
        return Ok(outputs);
    }
    let outputs = outputs.into_iter().map(|output| output.detach()).collect();
    Ok(record_external(Arc::new(Custom { name, backward }), inputs, outputs, saves))
}

/// Returns the names, without duplicates, of the functions in the graph of `outputs` that have a
/// custom gradient: from [`with_gradient`], from the rule of a custom op, or from a checkpoint.
/// Messages about a wrong gradient list them, because they are the most likely cause.
pub fn custom_gradient_names(outputs: &[Tensor]) -> Vec<&'static str> {
    let mut stack: Vec<Arc<Node>> =
        outputs.iter().filter_map(|output| Some(output.0.edge.as_ref()?.node.clone())).collect();
    let mut visited: HashSet<u64> = stack.iter().map(|node| node.id()).collect();
    let mut names = Vec::new();
    while let Some(node) = stack.pop() {
        let has_custom_gradient =
            matches!(node.function(), Function::Segment(_) | Function::Op(Op::Custom(_)));
        if has_custom_gradient && !names.contains(&node.function().name()) {
            names.push(node.function().name());
        }
        for edge in node.edges().iter().flatten().filter(|edge| visited.insert(edge.node.id())) {
            stack.push(edge.node.clone());
        }
    }
    names
}

impl<F> External for Custom<F>
where
    F: Fn(&Context<'_>, &[Option<Tensor>]) -> Result<Grads> + Send + Sync,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>], _: bool) -> Result<Grads> {
        let grads = (self.backward)(context, grad_outputs)?;
        for (index, grad) in grads.iter().enumerate().take(context.inputs()) {
            let Some(grad) = grad else { continue };
            let fits =
                [Some(context.dtype(index)), context.pre_cast_dtype(index)].contains(&Some(grad.dtype()));
            if grad.shape() != context.shape(index) || !fits {
                let returned = format!("{} returned a gradient of shape ", self.name);
                let input = format!(" for input {index}, which has shape ");
                let (shape, dtype) = (context.shape(index), context.dtype(index));
                return Err(Error::autograd(text![returned, grad, input, shape, " ", dtype]));
            }
        }
        Ok(grads)
    }
}
