//! Linear layers with an epilogue.

use super::{Epilogue, Matmul, MatmulOptions};
use crate::autograd::{is_fusing, is_recording};
use crate::dispatch::{apply, apply_one};
use crate::error::{Error, Result};
use crate::op::check;
use crate::ops::unary::{Unary, UnaryOp};
use crate::precision;
use crate::{DType, Shape, Tensor};
use smallvec::SmallVec;

/// The weight `[out, in]` of a linear layer and its bias `[out]`.
#[derive(Clone, Copy)]
pub struct LinearParameters<'a> {
    /// The weight, `[out, in]`.
    pub weight: &'a Tensor,
    /// The bias, `[out]`.
    pub bias: Option<&'a Tensor>,
}

impl Tensor {
    /// Computes `residual + linear(self)`. An f32 residual is added to the accumulators of the
    /// product before they are rounded, even if a [precision scope](crate::Precision) computes the
    /// product in half precision: the result is f32, like the residual.
    ///
    /// # Shapes
    /// self `[.., in]`, weight `[out, in]`, bias `[out]`, residual `[.., out]` -> the residual's
    /// shape
    ///
    /// # Errors
    /// Returns an error if shapes are incompatible, or if dtypes differ.
    pub fn linear_add(&self, parameters: LinearParameters<'_>, residual: &Tensor) -> Result<Tensor> {
        let LinearParameters { weight, bias } = parameters;
        if !takes_residual(residual) || !is_fusing() {
            return residual.add(&self.linear(weight, bias)?);
        }
        if let ([leading @ .., _], [outputs, _]) = (self.dims(), weight.dims()) {
            let shape = self.shape().resized(leading.len(), *outputs, "linear")?;
            check::shape("linear", "residual", &residual.meta(), shape)?;
        }
        match precision::current() {
            None => self.linear_with_residual(weight, bias, Some(residual)),
            Some(scope) => {
                let weight = scope.operand(weight)?;
                scope.operand(self)?.linear_with_residual(&weight, bias, Some(residual))
            }
        }
    }

    /// Computes `activation(linear(self))` with one product. If gradients are recorded and the
    /// activation's gradient is computed from its input, the product also outputs this
    /// pre-activation, so that the gradient does not recompute the product.
    ///
    /// # Shapes
    /// self `[.., in]`, weight `[out, in]`, bias `[out]` -> `[.., out]`
    ///
    /// # Errors
    /// Returns an error if shapes are incompatible, if dtypes differ, or if the activation does not
    /// support the dtype.
    pub fn linear_activation(&self, parameters: LinearParameters<'_>, activation: UnaryOp) -> Result<Tensor> {
        let (rows, shape) = self.rows_of_linear("linear_activation", parameters.weight)?;
        rows.linear_activated(parameters, activation)?.reshape(shape)
    }

    /// Reshapes `[.., in]` to rows, and returns them with the shape `[.., out]` of the linear
    /// layer's output.
    fn rows_of_linear(&self, op: &'static str, weight: &Tensor) -> Result<(Tensor, Shape)> {
        let Some((&width, leading)) = self.dims().split_last() else {
            return Err(Error::Rank { op, expected: "at least 1".into(), shape: Box::new(*self.shape()) });
        };
        let [outputs, _] = weight.shape().to_array(op)?;
        let shape = self.shape().resized(leading.len(), outputs, op)?;
        Ok((self.reshape([leading.iter().product(), width])?, shape))
    }

    /// Computes `linear2(activation(linear1(self)))`, plus a residual: the feed-forward block of a
    /// transformer. If gradients are recorded, the first product also outputs the pre-activation,
    /// and the gradient of the activation is computed in the epilogue of the second product's
    /// gradient.
    ///
    /// # Shapes
    /// self `[.., in]`, first `[hidden, in]`, second `[out, hidden]`, residual `[.., out]`
    /// -> `[.., out]`
    ///
    /// # Errors
    /// Returns an error if shapes are incompatible, or if dtypes differ.
    pub fn feed_forward(
        &self,
        first: LinearParameters<'_>,
        activation: UnaryOp,
        second: LinearParameters<'_>,
        residual: Option<&Tensor>,
    ) -> Result<Tensor> {
        let (rows, shape) = self.rows_of_linear("feed_forward", second.weight)?;
        if let Some(residual) = residual {
            check::shape("feed_forward", "residual", &residual.meta(), shape)?;
        }
        let activated = rows.linear_activated(first, activation)?;
        let row_shape = [rows.dims()[0], second.weight.dims()[0]];
        let residual = residual.map(|residual| residual.reshape(row_shape)).transpose()?;
        let y = match residual {
            Some(residual) => activated.linear_add(second, &residual)?,
            None => activated.linear(second.weight, second.bias)?,
        };
        y.reshape(shape)
    }

    /// Computes `activation(linear(self))` of rows, with one product unless fusion is off.
    fn linear_activated(&self, parameters: LinearParameters<'_>, activation: UnaryOp) -> Result<Tensor> {
        let [_, _] = parameters.weight.shape().to_array::<2>("linear")?;
        if !is_fusing() {
            return apply_one(Unary { op: activation }, &[&self.linear(parameters.weight, parameters.bias)?]);
        }
        let (x, weight, bias) = match precision::current() {
            None => (self.clone(), parameters.weight.clone(), parameters.bias.cloned()),
            Some(scope) => {
                (scope.operand(self)?, scope.operand(parameters.weight)?, scope.optional(parameters.bias)?)
            }
        };
        let columns = weight.t()?;
        let is_recorded = is_recording() && [&x, &weight].into_iter().chain(&bias).any(Tensor::needs_grad);
        if !is_recorded || activation.saves_output() || !activation.has_grad_op() {
            let options =
                MatmulOptions { bias: bias.as_ref(), activation: Some(activation), ..Default::default() };
            return x.matmul_with(&columns, options);
        }
        let epilogue = Epilogue {
            bias: bias.is_some(),
            activation: Some(activation),
            pre_activation: true,
            ..Epilogue::NONE
        };
        let inputs: SmallVec<[&Tensor; 3]> = [&x, &columns].into_iter().chain(&bias).collect();
        Ok(apply(Matmul { epilogue, ..Matmul::PLAIN }, &inputs)?.swap_remove(0))
    }
}

/// Returns whether a residual is added to the f32 accumulators instead of the rounded product.
fn takes_residual(residual: &Tensor) -> bool {
    matches!(residual.dtype(), DType::F32 | DType::F64)
}
