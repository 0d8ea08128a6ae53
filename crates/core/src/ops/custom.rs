//! Ops that other crates bring.

use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::error::Result;
use crate::op::{Differentiability, Op, Outputs, Rule};
use crate::tensor::Tensor;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// An op of another crate: a shape rule, a composition (so that it runs on every backend), perhaps a gradient, and kernels for the backends that
/// know it (they find it by [`as_any`](CustomOp::as_any)).
pub trait CustomOp: Send + Sync + Debug {
    /// The stem.
    fn name(&self) -> &'static str;

    /// See [`Rule::infer`].
    ///
    /// # Errors
    /// Inputs that the op does not take.
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs>;

    /// See [`Rule::compose`]. Required: it is the fallback and the oracle of the kernels.
    ///
    /// # Errors
    /// Those of the ops it is made of.
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>>;

    /// (optional) See [`Rule::differentiability`]. Default: the gradient of the composition.
    fn differentiability(&self) -> Differentiability {
        Differentiability::Composition
    }

    /// (optional) See [`Rule::backward`]. Default: an error, reached only if `differentiability` says `Stated`.
    ///
    /// # Errors
    /// Those of the ops it is made of.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let _ = (context, grad_outputs);
        Err(crate::Error::autograd(format!("{} states no gradient", self.name())))
    }

    /// For a backend to find the op that it has a kernel for.
    fn as_any(&self) -> &dyn Any;
}

/// A [`CustomOp`] as an item of the op list.
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
/// Those of the op.
pub fn apply_custom(op: impl CustomOp + 'static, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    crate::dispatch::apply(Op::Custom(Custom(Arc::new(op))), inputs)
        .map(|outputs| outputs.into_iter().collect())
}
