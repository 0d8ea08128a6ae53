//! How results are recorded with their gradient rules.

use ternion_core::autograd::{self, Context, Grads};
use ternion_core::op::Saves;
use ternion_core::{Result, Tensor, without_precision};

/// Calls [`with_gradient`](autograd::with_gradient) with a rule that runs outside of any autocast
/// scope: half-precision products would lose the accuracy of decompositions.
pub(crate) fn with_gradient(
    op: &'static str,
    inputs: &[&Tensor],
    outputs: Vec<Tensor>,
    saves: Saves,
    rule: impl Fn(&Context<'_>, &[Option<Tensor>]) -> Result<Grads> + Send + Sync + 'static,
) -> Result<Vec<Tensor>> {
    let backward =
        move |context: &Context<'_>, grads: &[Option<Tensor>]| without_precision(|| rule(context, grads));
    autograd::with_gradient(op, inputs, outputs, saves, backward)
}

/// Records `output` as independent of all inputs: their gradients are zeros.
pub(crate) fn constant(op: &'static str, inputs: &[&Tensor], output: Tensor) -> Result<Tensor> {
    let like: Vec<Tensor> = inputs.iter().map(|input| input.detach()).collect();
    let rule = move |_: &Context<'_>, _: &[Option<Tensor>]| {
        like.iter().map(|input| input.zeros_like().map(Some)).collect::<Result<Grads>>()
    };
    Ok(with_gradient(op, inputs, vec![output], Saves { inputs: 0, outputs: 0 }, rule)?.swap_remove(0))
}
