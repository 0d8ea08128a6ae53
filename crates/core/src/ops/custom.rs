//! Ops defined by other crates.

use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::error::Result;
use crate::op::{Differentiability, Op, Outputs, Rule};
use crate::tensor::Tensor;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// An op defined by another crate: a shape rule, a composition (so that it runs on every backend),
/// optionally a gradient, and kernels in the backends that support it (which downcast the op with
/// [`as_any`](CustomOp::as_any)).
pub trait CustomOp: Send + Sync + Debug {
    /// Returns the name of the op.
    fn name(&self) -> &'static str;

    /// See [`Rule::infer`].
    ///
    /// # Errors
    /// Returns an error if the op does not accept the inputs.
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs>;

    /// See [`Rule::compose`]. Required: it is the fallback and the oracle of the kernels.
    ///
    /// # Errors
    /// Returns the errors of the ops in the composition.
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>>;

    /// (optional) See [`Rule::differentiability`]. Default: the gradient of the composition.
    fn differentiability(&self) -> Differentiability {
        Differentiability::Composition
    }

    /// (optional) See [`Rule::backward`]. Default: an error, which occurs only if
    /// `differentiability` is `Stated`.
    ///
    /// # Errors
    /// Returns the errors of the ops in the gradient rule.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let _ = (context, grad_outputs);
        Err(crate::Error::autograd(format!("{} states no gradient", self.name())))
    }

    /// Returns the op as `Any`, so that a backend can find the op for which it has a kernel.
    fn as_any(&self) -> &dyn Any;
}

/// A [`CustomOp`] as a variant of [`Op`].
#[derive(Clone, Debug)]
pub struct Custom(pub Arc<dyn CustomOp>);

impl Rule for Custom {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        self.0.infer(inputs)
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        self.0.compose(inputs)
    }
    fn differentiability(&self) -> Differentiability {
        self.0.differentiability()
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        self.0.backward(context, grad_outputs)
    }
}

/// Runs `op` on `inputs`.
///
/// # Errors
/// Returns the errors of the op.
pub fn apply_custom(op: impl CustomOp + 'static, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    crate::dispatch::apply(Op::Custom(Custom(Arc::new(op))), inputs)
        .map(|outputs| outputs.into_iter().collect())
}
