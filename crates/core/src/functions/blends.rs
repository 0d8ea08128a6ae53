//! Tensors between two others, and products and quotients added to a tensor. Half precision is computed in f32 and rounded once.

use super::{check_broadcast, check_floating, check_number, in_accumulator};
use crate::autograd::{Context, Grads, no_grad, sum_to, with_gradient};
use crate::op::{Saves, check};
use crate::ops::create::exact_scalar;
use crate::{Result, Scalar, Tensor};

impl Tensor {
    /// `other - alpha * self`, broadcast, as PyTorch's `rsub`.
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> the shape that they broadcast to
    ///
    /// # Errors
    /// Dtypes that differ or are bool, shapes that do not broadcast, an `alpha` that the dtype does not hold.
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

    /// From this tensor, where the weight is 0, to `end`, where it is 1: `self + weight * (end - self)`, broadcast; for weights from 1/2 on formed from `end`, as in
    /// PyTorch, so that the end is met exactly.
    ///
    /// The gradients are `dy * (1 - weight)` and `dy * weight`.
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> the shape that they broadcast to
    ///
    /// # Errors
    /// Dtypes that differ or are not floating, shapes that do not broadcast.
    pub fn lerp(&self, end: &Tensor, weight: f64) -> Result<Tensor> {
        check_floats("lerp", self, &[end])?;
        check_broadcast("lerp", self, end)?;
        in_accumulator([self, end], |[start, end]| {
            let way = end.sub(start)?;
            match weight.abs() < 0.5 {
                true => start.add(&way.mul_scalar(weight)?),
                false => end.sub(&way.mul_scalar(1.0 - weight)?),
            }
        })
    }

    /// [`lerp`](Tensor::lerp) with a weight for each element, broadcast with both.
    ///
    /// The gradient of the weight is `dy * (end - self)`.
    ///
    /// # Shapes
    /// `[..]`, `[..]` and `[..]` -> the shape that they broadcast to
    ///
    /// # Errors
    /// Dtypes that differ or are not floating, shapes that do not broadcast.
    pub fn lerp_tensor(&self, end: &Tensor, weight: &Tensor) -> Result<Tensor> {
        let name = "lerp_tensor";
        check_floats(name, self, &[end, weight])?;
        self.shape().broadcast(end.shape(), name)?.broadcast(weight.shape(), name)?;
        let dtype = self.dtype().accumulator();
        let y = no_grad(|| {
            let [start, end, weight] = [self.to_dtype(dtype)?, end.to_dtype(dtype)?, weight.to_dtype(dtype)?];
            between(&start, &end, &weight)?.to_dtype(self.dtype())
        })?;
        let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
            let mut found = Grads::from_elem(None, 3);
            let Some(dy) = &grads[0] else { return Ok(found) };
            let dy = dy.to_dtype(dtype)?;
            for (index, grad) in found.iter_mut().enumerate().filter(|(index, _)| context.needs(*index)) {
                let factor = match index {
                    0 => context.input(2)?.to_dtype(dtype)?.rsub_scalar(1)?,
                    1 => context.input(2)?.to_dtype(dtype)?,
                    _ => context.input(1)?.to_dtype(dtype)?.sub(&context.input(0)?.to_dtype(dtype)?)?,
                };
                let full = sum_to(&dy.mul(&factor)?, context.shape(index))?;
                *grad = Some(full.to_dtype(context.dtype(index))?);
            }
            Ok(found)
        };
        Ok(with_gradient(name, &[self, end, weight], vec![y], Saves::INPUTS, rule)?.swap_remove(0))
    }

    /// `self + value * left * right`, broadcast.
    ///
    /// The gradients are `dy`, `dy * value * right` and `dy * value * left`.
    ///
    /// # Shapes
    /// `[..]`, `[..]` and `[..]` -> the shape that they broadcast to
    ///
    /// # Errors
    /// Dtypes that differ, bool, shapes that do not broadcast, a `value` that an integer dtype does not hold.
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

    /// `self + value * (dividend / divisor)`, broadcast.
    ///
    /// The gradients are `dy`, `dy * value / divisor` and `-dy * value * (dividend / divisor) / divisor`.
    ///
    /// # Shapes
    /// `[..]`, `[..]` and `[..]` -> the shape that they broadcast to
    ///
    /// # Errors
    /// Dtypes that differ or are not floating, shapes that do not broadcast.
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

fn between(start: &Tensor, end: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let way = end.sub(start)?;
    let from_start = start.add(&weight.mul(&way)?)?;
    let from_end = end.sub(&way.mul(&weight.rsub_scalar(1)?)?)?;
    weight.abs()?.lt_scalar(0.5)?.where_(&from_start, &from_end)
}
