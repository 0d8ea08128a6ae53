//! Parts of the gradient of a matrix product.

use super::{Epilogue, Matmul};
use crate::autograd::{Context, PreActivation};
use crate::dispatch::{apply, apply_one};
use crate::error::Result;
use crate::ops::unary::UnaryGrad;
use crate::{Layout, Tensor};

impl Matmul {
    /// The gradient of what the activation is taken of: of product and bias.
    pub(super) fn grad_of_sum(
        &self,
        context: &Context<'_>,
        grad_outputs: &[Option<Tensor>],
    ) -> Result<Option<Tensor>> {
        let Some(op) = self.epilogue.activation else { return Ok(grad_outputs[0].clone()) };
        let saved = usize::from(self.epilogue.pre_activation && !op.saves_output());
        let activated = grad_outputs[0].as_ref();
        let through =
            activated.map(|grad| apply_one(UnaryGrad { op }, &[context.output(saved)?, grad])).transpose()?;
        match (through, grad_outputs.get(1).cloned().flatten()) {
            (Some(through), Some(grad)) => through.add(&grad).map(Some),
            (through, grad) => Ok(through.or(grad)),
        }
    }

    /// `alpha * left right`, the gradient of operand `index`, as accurate as this product and stored in the order of that operand: with the gradient of an activation that gave
    /// the operand, or added to what other uses of the operand have given.
    pub(super) fn grad_of(
        &self,
        context: &Context<'_>,
        index: usize,
        left: &Tensor,
        right: &Tensor,
    ) -> Result<Tensor> {
        let out_dtype = context.uncast(index);
        let epilogue = Epilogue { alpha: self.epilogue.alpha, out_dtype, ..Epilogue::NONE };
        let product = |epilogue| Matmul { epilogue, ..*self };
        if let Some(PreActivation { op, z, has_bias }) =
            context.pre_activation(index).filter(|_| out_dtype.is_none())
        {
            context.skip_activation(index);
            let column_sums = has_bias && z.rank() == 2;
            let epilogue = Epilogue { activation_grad: Some(op), column_sums, ..epilogue };
            let mut outputs = apply(product(epilogue), &[left, right, &z])?;
            context.give_column_sums(index, if column_sums { outputs.pop() } else { None });
            return Ok(outputs.swap_remove(0));
        }
        let is_turned = is_column_major(context.layout(index));
        let partial = context.take_partial(index, out_dtype.unwrap_or(context.dtype(index)));
        let epilogue = Epilogue { residual: partial.is_some(), ..epilogue };
        let (left, right) = if is_turned { (right.t()?, left.t()?) } else { (left.clone(), right.clone()) };
        let grad = match partial {
            Some(partial) if is_turned => apply_one(product(epilogue), &[&left, &right, &partial.t()?])?,
            Some(partial) => apply_one(product(epilogue), &[&left, &right, &partial])?,
            None => apply_one(product(epilogue), &[&left, &right])?,
        };
        if is_turned { grad.t() } else { Ok(grad) }
    }
}

/// Whether the matrices of a layout are stored column by column, so that the transposed of a new row-major tensor is stored in their order.
fn is_column_major(layout: &Layout) -> bool {
    match (layout.shape().dims(), layout.strides()) {
        (&[.., rows, _], &[.., 1, step]) => step >= rows.max(1) as isize,
        _ => false,
    }
}
