//! Fused reductions over a list of tensors: the norm of all gradients.

use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::dispatch::apply_one;
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::{DType, Shape, Tensor};
use smallvec::SmallVec;

/// `y = sqrt(sum of x^2)` over all elements of all inputs, also if that sum would overflow or
/// underflow (Blue 1978).
///
/// Inputs: any number of tensors of one floating dtype, of any shapes. Output: `[]` in their
/// accumulator dtype, in which squares are computed and added, in an order that depends only on the
/// layouts. Without elements: 0. Composite.
#[derive(Clone, Debug)]
pub struct MultiTensorNorm;

impl Rule for MultiTensorNorm {
    fn name(&self) -> &'static str {
        "multi_tensor_norm"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let Some(first) = inputs.first() else {
            return Err(Error::invalid(self.name(), "expected at least 1 tensor, got 0"));
        };
        for meta in inputs {
            check::float(self.name(), "input", meta)?;
            check::same_dtype(self.name(), first, meta)?;
        }
        Ok(Outputs::from_buf([Output::fresh(Shape::unchecked(&[]), first.dtype.accumulator())]))
    }
    /// Computes the norm of the norms, because the squares of one norm may overflow where the norm
    /// does not.
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let norms =
            inputs.iter().map(|input| input.to_accumulator()?.norm(..)).collect::<Result<Vec<_>>>()?;
        Ok(vec![norm_of_norms(norms)?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::ALL)
    }
    /// `dx = dy x / y`; 0 where y is 0, as for the norm of one tensor.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let Some(dy) = &grad_outputs[0] else { return Ok(Grads::new()) };
        let y = context.output(0)?;
        let is_zero = y.eq_scalar(0i64)?;
        let divisor = is_zero.where_(&y.scalar_like(1i64)?, y)?;
        let dy = is_zero.where_(&dy.scalar_like(0i64)?, dy)?;
        let gradient = |index: usize| {
            let dx = context.input(index)?.to_accumulator()?.div(&divisor)?.mul(&dy)?;
            dx.to_dtype(context.dtype(index))
        };
        (0..context.inputs()).map(|index| context.needs(index).then(|| gradient(index)).transpose()).collect()
    }
}

/// Computes the norm of all elements of tensors from the tensors' norms.
fn norm_of_norms(mut norms: Vec<Tensor>) -> Result<Tensor> {
    match norms.len() {
        1 => Ok(norms.swap_remove(0)),
        _ => Tensor::stack(&norms.iter().collect::<Vec<_>>(), 0)?.norm(..),
    }
}

/// Computes the Euclidean norm of all elements of `tensors` as one vector (f64 if one of them is,
/// otherwise f32), also if their squares would overflow or underflow.
///
/// # Shapes
/// Any; the result is `[]`.
///
/// # Errors
/// Returns an error if there are no tensors, if a dtype is not floating, or if tensors are on
/// several devices.
pub fn total_norm(tensors: &[&Tensor]) -> Result<Tensor> {
    if tensors.is_empty() {
        return Err(Error::invalid("total_norm", "expected at least 1 tensor, got 0"));
    }
    let double = tensors.iter().any(|tensor| tensor.dtype() == DType::F64);
    let dtype = if double { DType::F64 } else { DType::F32 };
    let norms = group_by_device_and_dtype(tensors)
        .into_iter()
        .map(|group| apply_one(MultiTensorNorm, &group)?.to_dtype(dtype));
    norm_of_norms(norms.collect::<Result<_>>()?)
}

/// Groups `tensors` by device and dtype.
fn group_by_device_and_dtype<'a>(tensors: &[&'a Tensor]) -> SmallVec<[Vec<&'a Tensor>; 1]> {
    let mut groups: SmallVec<[Vec<&Tensor>; 1]> = SmallVec::new();
    for &tensor in tensors {
        let is_same_group = |group: &&mut Vec<&Tensor>| {
            group[0].dtype() == tensor.dtype() && group[0].device().is(tensor.device())
        };
        match groups.iter_mut().find(is_same_group) {
            Some(group) => group.push(tensor),
            None => groups.push(vec![tensor]),
        }
    }
    groups
}
