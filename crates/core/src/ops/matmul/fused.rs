//! Linear layers with what follows them.

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
    /// `[out, in]`.
    pub weight: &'a Tensor,
    /// `[out]`.
    pub bias: Option<&'a Tensor>,
}

impl Tensor {
    /// `residual + linear(self)`. Where the residual is f32 it is added to the sums of the product before these are rounded, also where a scope of [precision](crate::Precision) computes
    /// the product in half precision: the result is f32, as the residual is.
    ///
    /// # Shapes
    /// self `[.., in]`, weight `[out, in]`, bias `[out]`, residual `[.., out]` -> as residual
    ///
    /// # Errors
    /// Shapes that do not fit, dtypes that differ.
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
            None => self.linear_and(weight, bias, Some(residual)),
            Some(scope) => {
                let weight = scope.operand(weight)?;
                scope.operand(self)?.linear_and(&weight, bias, Some(residual))
            }
        }
    }

    /// `activation(linear(self))` by one product. Where gradients are recorded and are those of what the activation is taken of, the product gives that as well: nothing is
    /// multiplied again for the gradient.
    ///
    /// # Shapes
    /// self `[.., in]`, weight `[out, in]`, bias `[out]` -> `[.., out]`
    ///
    /// # Errors
    /// Shapes that do not fit, dtypes that differ, an activation that the dtype does not have.
    pub fn linear_activation(&self, parameters: LinearParameters<'_>, activation: UnaryOp) -> Result<Tensor> {
        let (rows, shape) = self.rows_of_linear("linear_activation", parameters.weight)?;
        rows.linear_activated(parameters, activation)?.reshape(shape)
    }

    /// `[.., in]` as rows, and the shape `[.., out]` of what a linear layer makes of it.
    fn rows_of_linear(&self, op: &'static str, weight: &Tensor) -> Result<(Tensor, Shape)> {
        let Some((&width, leading)) = self.dims().split_last() else {
            return Err(Error::Rank { op, expected: "at least 1".into(), shape: Box::new(*self.shape()) });
        };
        let [outputs, _] = weight.shape().to_array(op)?;
        let shape = self.shape().resized(leading.len(), outputs, op)?;
        Ok((self.reshape([leading.iter().product(), width])?, shape))
    }

    /// `linear2(activation(linear1(self)))`, plus a residual: what looks at each token by itself in a transformer. Where gradients are recorded, the first product gives what the
    /// activation is taken of as well, and the gradient of the activation is formed with that of the second product.
    ///
    /// # Shapes
    /// self `[.., in]`, first `[hidden, in]`, second `[out, hidden]`, residual `[.., out]` -> `[.., out]`
    ///
    /// # Errors
    /// Shapes that do not fit, dtypes that differ.
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
        let hidden = rows.linear_activated(first, activation)?;
        let of_rows = [rows.dims()[0], second.weight.dims()[0]];
        let residual = residual.map(|residual| residual.reshape(of_rows)).transpose()?;
        let y = match residual {
            Some(residual) => hidden.linear_add(second, &residual)?,
            None => hidden.linear(second.weight, second.bias)?,
        };
        y.reshape(shape)
    }

    /// `activation(linear(self))` of rows, by one product unless nothing is fused.
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

/// Whether a residual is added to sums of f32, rather than to a rounded product.
fn takes_residual(residual: &Tensor) -> bool {
    matches!(residual.dtype(), DType::F32 | DType::F64)
}
