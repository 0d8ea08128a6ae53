//! The steps of the gradient rule of a matrix product.

use super::{Epilogue, Matmul};
use crate::autograd::{Context, PreActivation};
use crate::dispatch::{apply, apply_one};
use crate::error::Result;
use crate::ops::unary::UnaryGrad;
use crate::shape::AxisSet;
use crate::{DType, Layout, Tensor};

impl Matmul {
    /// Computes the gradient of the pre-activation: of the sum of product and bias.
    pub(super) fn grad_of_sum(
        &self,
        context: &Context<'_>,
        grad_outputs: &[Option<Tensor>],
    ) -> Result<Option<Tensor>> {
        let Some(op) = self.epilogue.activation else { return Ok(grad_outputs[0].clone()) };
        if !self.epilogue.pre_activation && context.is_past_relu() {
            return Ok(grad_outputs[0].clone());
        }
        let saved_index = usize::from(self.epilogue.pre_activation && !op.saves_output());
        let activated = grad_outputs[0].as_ref();
        let pre_activation_grad = activated
            .map(|grad| apply_one(UnaryGrad { op }, &[context.output(saved_index)?, grad]))
            .transpose()?;
        match (pre_activation_grad, grad_outputs.get(1).cloned().flatten()) {
            (Some(pre_activation_grad), Some(grad)) => pre_activation_grad.add(&grad).map(Some),
            (pre_activation_grad, grad) => Ok(pre_activation_grad.or(grad)),
        }
    }

    /// Computes `alpha * left right`, the gradient of operand `index`, with the permissions of this
    /// product and in the operand's storage order. It is multiplied by the gradient of the
    /// activation that produced the operand, or added to the partial gradient from other uses of
    /// the operand.
    pub(super) fn grad_of(
        &self,
        context: &Context<'_>,
        index: usize,
        left: &Tensor,
        right: &Tensor,
    ) -> Result<Tensor> {
        let out_dtype = context.pre_cast_dtype(index);
        let epilogue = Epilogue { alpha: self.epilogue.alpha, out_dtype, ..Epilogue::NONE };
        let product = |epilogue| Matmul { epilogue, ..*self };
        if let Some(PreActivation { op, z, takes_column_sums }) =
            context.pre_activation(index).filter(|_| out_dtype.is_none())
        {
            let column_sums = takes_column_sums && z.rank() == 2;
            let epilogue = Epilogue { activation_grad: Some(op), column_sums, ..epilogue };
            let mut outputs = apply(product(epilogue), &[left, right, &z])?;
            context.set_column_sums(index, if column_sums { outputs.pop() } else { None });
            let grad = outputs.swap_remove(0);
            context.skip_activation(index, &grad);
            return Ok(grad);
        }
        let is_transposed = is_column_major(context.layout(index));
        let partial = context.take_partial(index, out_dtype.unwrap_or(context.dtype(index)));
        let epilogue = Epilogue { residual: partial.is_some(), ..epilogue };
        let (left, right) =
            if is_transposed { (right.t()?, left.t()?) } else { (left.clone(), right.clone()) };
        let grad = match partial {
            Some(partial) if is_transposed => apply_one(product(epilogue), &[&left, &right, &partial.t()?])?,
            Some(partial) => apply_one(product(epilogue), &[&left, &right, &partial])?,
            None => apply_one(product(epilogue), &[&left, &right])?,
        };
        if is_transposed { grad.t() } else { Ok(grad) }
    }

    pub(super) fn needs_bias(&self, context: &Context<'_>) -> bool {
        self.epilogue.bias && context.needs(2)
    }

    /// Returns the gradient of the bias, if column sums were provided with the gradient of the sum.
    pub(super) fn received_bias_grad(&self, context: &Context<'_>) -> Result<Option<Tensor>> {
        let sums =
            context.column_sums().filter(|_| self.needs_bias(context) && self.epilogue.activation.is_some());
        sums.map(|sums| sums.to_dtype(bias_grad_dtype(context))).transpose()
    }

    /// Computes the gradient of operand 1 from that of the sum, as [`grad_of`](Matmul::grad_of)
    /// does, and the gradient of the bias if there is none yet. If the operand is column-major,
    /// such as the transposed weight of a linear layer, its gradient is the product of `gradT` and
    /// the input, and the sums of the rows of `gradT` are the gradient of the bias.
    pub(super) fn grad_of_weight(
        &self,
        context: &Context<'_>,
        grad: &Tensor,
        bias_grad: &mut Option<Tensor>,
    ) -> Result<Tensor> {
        let computes_bias = self.needs_bias(context) && bias_grad.is_none() && context.is_fusing();
        let is_column_major = grad.rank() == 2 && computes_row_sums(context.layout(1));
        let out_dtype = context.pre_cast_dtype(1);
        // A product that is added to a partial gradient, or multiplied by the gradient of an
        // activation, cannot output row sums.
        let is_separate = context.pre_activation(1).is_none()
            && !context.has_partial(1, out_dtype.unwrap_or(context.dtype(1)));
        if !computes_bias || !is_column_major || !is_separate {
            return self.grad_of(context, 1, &context.input(0)?.t()?, grad);
        }
        let Epilogue { alpha, .. } = self.epilogue;
        let epilogue = Epilogue { alpha, out_dtype, row_sums_of_a: true, ..Epilogue::NONE };
        let mut outputs = apply(Matmul { epilogue, ..*self }, &[&grad.t()?, context.input(0)?])?;
        *bias_grad = outputs.pop().map(|sums| sums.to_dtype(bias_grad_dtype(context))).transpose()?;
        outputs.swap_remove(0).t()
    }
}

/// Computes the gradient of the bias in a separate op, equal to the gradient that
/// [`grad_of_weight`](Matmul::grad_of_weight) computes. Sums of half precision are computed in f32,
/// and rounded if the bias is half precision and was not cast.
pub(super) fn sum_over_rows(context: &Context<'_>, grad: &Tensor) -> Result<Tensor> {
    let bias_dtype = bias_grad_dtype(context);
    let axes = AxisSet::first(grad.rank() - 1);
    match grad.dtype().is_half() && bias_dtype == DType::F32 {
        true => grad.to_dtype(bias_dtype)?.sum(axes),
        false => grad.sum(axes)?.to_dtype(bias_dtype),
    }
}

/// Returns the dtype of the bias, or f32 if it was cast from f32.
fn bias_grad_dtype(context: &Context<'_>) -> DType {
    context.pre_cast_dtype(2).unwrap_or(context.dtype(2))
}

/// Returns whether the product that computes the gradient of a right operand with this layout can
/// also output the gradient of the bias, as the row sums of its left operand. This is the case for
/// the weight of a linear layer.
pub(crate) fn computes_row_sums(right: &Layout) -> bool {
    is_column_major(right)
}

/// Returns whether the matrices of a layout are column-major, so that the transpose of a new
/// row-major tensor has their storage order.
fn is_column_major(layout: &Layout) -> bool {
    match (layout.shape().dims(), layout.strides()) {
        (&[.., rows, _], &[.., 1, step]) => step >= rows.max(1) as isize,
        _ => false,
    }
}
