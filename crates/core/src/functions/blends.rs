//! Interpolation between tensors, and products and quotients that are added to a tensor.
//! Half-precision inputs are computed in f32, and the result is rounded once.

use super::{check_broadcast, check_floating, check_number, in_accumulator};
use crate::autograd::{Context, Grads, no_grad, sum_to, with_gradient};
use crate::op::{Saves, check};
use crate::ops::create::exact_scalar;
use crate::{Result, Scalar, Tensor};

impl Tensor {
    /// Returns `other - alpha * self` with broadcasting, like PyTorch's `rsub`.
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> their broadcast shape
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are bool, if the shapes do not broadcast, or if the
    /// dtype cannot represent `alpha`.
    pub fn rsub_with(&self, other: &Tensor, alpha: impl Into<Scalar>) -> Result<Tensor> {
        let (name, alpha) = ("rsub", alpha.into());
        check_number(name, self, other)?;
        check_broadcast(name, self, other)?;
        exact_scalar(name, alpha, self.dtype())?;
        match self.dtype().is_float() {
            _ if alpha.as_f64() == 1.0 => other.sub(self),
            true => self.scale_add(-alpha.as_f64(), other),
            false => other.sub(&self.mul_scalar(alpha)?),
        }
    }

    /// Interpolates linearly from this tensor (weight 0) to `end` (weight 1):
    /// `self + weight * (end - self)`, with broadcasting. If the magnitude of the weight is at
    /// least 1/2, the result is computed from `end`, as in PyTorch, so that weight 1 returns `end`
    /// exactly.
    ///
    /// The gradients are `dy * (1 - weight)` and `dy * weight`.
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> their broadcast shape
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are not floating-point, or if the shapes do not
    /// broadcast.
    pub fn lerp(&self, end: &Tensor, weight: f64) -> Result<Tensor> {
        check_floats("lerp", self, &[end])?;
        check_broadcast("lerp", self, end)?;
        in_accumulator([self, end], |[start, end]| {
            let difference = end.sub(start)?;
            match weight.abs() < 0.5 {
                true => start.add(&difference.mul_scalar(weight)?),
                false => end.sub(&difference.mul_scalar(1.0 - weight)?),
            }
        })
    }

    /// Same as [`lerp`](Tensor::lerp), with a tensor of weights that is broadcast with both.
    ///
    /// The gradient of the weight is `dy * (end - self)`.
    ///
    /// # Shapes
    /// `[..]`, `[..]` and `[..]` -> their broadcast shape
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are not floating-point, or if the shapes do not
    /// broadcast.
    pub fn lerp_tensor(&self, end: &Tensor, weight: &Tensor) -> Result<Tensor> {
        let name = "lerp_tensor";
        check_floats(name, self, &[end, weight])?;
        self.shape().broadcast(end.shape(), name)?.broadcast(weight.shape(), name)?;
        let dtype = self.dtype().accumulator();
        let y = no_grad(|| {
            let [start, end, weight] = [self.to_dtype(dtype)?, end.to_dtype(dtype)?, weight.to_dtype(dtype)?];
            lerp_from_nearer(&start, &end, &weight)?.to_dtype(self.dtype())
        })?;
        let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
            let mut input_grads = Grads::from_elem(None, 3);
            let Some(dy) = &grads[0] else { return Ok(input_grads) };
            let dy = dy.to_dtype(dtype)?;
            for (index, grad) in input_grads.iter_mut().enumerate().filter(|(index, _)| context.needs(*index))
            {
                let factor = match index {
                    0 => context.input(2)?.to_dtype(dtype)?.rsub_scalar(1)?,
                    1 => context.input(2)?.to_dtype(dtype)?,
                    _ => context.input(1)?.to_dtype(dtype)?.sub(&context.input(0)?.to_dtype(dtype)?)?,
                };
                let full = sum_to(&dy.mul(&factor)?, context.shape(index))?;
                *grad = Some(full.to_dtype(context.dtype(index))?);
            }
            Ok(input_grads)
        };
        Ok(with_gradient(name, &[self, end, weight], vec![y], Saves::INPUTS, rule)?.swap_remove(0))
    }

    /// Returns `self + value * left * right`, with broadcasting.
    ///
    /// The gradients are `dy`, `dy * value * right` and `dy * value * left`.
    ///
    /// # Shapes
    /// `[..]`, `[..]` and `[..]` -> their broadcast shape
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are bool, if the shapes do not broadcast, or if an
    /// integer dtype cannot represent `value`.
    pub fn addcmul(&self, left: &Tensor, right: &Tensor, value: f64) -> Result<Tensor> {
        let name = "addcmul";
        check_number(name, self, left)?;
        check::same_dtype(name, &self.meta(), &right.meta())?;
        left.shape().broadcast(right.shape(), name)?.broadcast(self.shape(), name)?;
        match value == 1.0 {
            true => left.multiply_add(right, self),
            false => in_accumulator([self, left, right], |[x, left, right]| {
                left.mul_scalar(value)?.multiply_add(right, x)
            }),
        }
    }

    /// Returns `self + value * (dividend / divisor)`, with broadcasting.
    ///
    /// The gradients are `dy`, `dy * value / divisor` and
    /// `-dy * value * (dividend / divisor) / divisor`.
    ///
    /// # Shapes
    /// `[..]`, `[..]` and `[..]` -> their broadcast shape
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are not floating-point, or if the shapes do not
    /// broadcast.
    pub fn addcdiv(&self, dividend: &Tensor, divisor: &Tensor, value: f64) -> Result<Tensor> {
        let name = "addcdiv";
        check_floats(name, self, &[dividend, divisor])?;
        dividend.shape().broadcast(divisor.shape(), name)?.broadcast(self.shape(), name)?;
        in_accumulator([self, dividend, divisor], |[x, dividend, divisor]| {
            dividend.div(divisor)?.scale_add(value, x)
        })
    }
}

fn check_floats(name: &'static str, x: &Tensor, others: &[&Tensor]) -> Result<()> {
    check_floating(name, x)?;
    others.iter().try_for_each(|other| check::same_dtype(name, &x.meta(), &other.meta()))
}

fn lerp_from_nearer(start: &Tensor, end: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let difference = end.sub(start)?;
    let from_start = start.add(&weight.mul(&difference)?)?;
    let from_end = end.sub(&difference.mul(&weight.rsub_scalar(1)?)?)?;
    weight.abs()?.lt_scalar(0.5)?.where_(&from_start, &from_end)
}
