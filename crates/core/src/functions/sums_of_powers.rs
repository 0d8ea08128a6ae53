//! Logarithms of sums of powers. Their gradients of every order are those of the formula, even
//! where numbers are equal.

use super::indexing::scan_steps;
use super::{binary, check_floating, in_accumulator};
use crate::{Axis, Result, Tensor};
use std::f64::consts::LN_2;

impl Tensor {
    /// Returns `log(e^self + e^other)`, with broadcasting and without overflow.
    ///
    /// # Errors
    /// Returns an error if the shapes do not broadcast, or if the dtypes differ or are not
    /// floating-point.
    pub fn logaddexp(&self, other: &Tensor) -> Result<Tensor> {
        let grads = [
            |x: &Tensor, y: &Tensor| difference(x, y)?.sigmoid(),
            |x: &Tensor, y: &Tensor| difference(y, x)?.sigmoid(),
        ];
        binary(
            "logaddexp",
            [self, other],
            |x, y| x.maximum(y)?.add(&difference(x, y)?.abs()?.neg()?.exp()?.log1p()?),
            grads,
        )
    }

    /// Returns `log2(2^self + 2^other)`, with broadcasting and without overflow.
    ///
    /// # Errors
    /// Returns an error if the shapes do not broadcast, or if the dtypes differ or are not
    /// floating-point.
    pub fn logaddexp2(&self, other: &Tensor) -> Result<Tensor> {
        let grads = [
            |x: &Tensor, y: &Tensor| difference(x, y)?.mul_scalar(LN_2)?.sigmoid(),
            |x: &Tensor, y: &Tensor| difference(y, x)?.mul_scalar(LN_2)?.sigmoid(),
        ];
        binary("logaddexp2", [self, other], logaddexp2_value, grads)
    }

    /// Returns the logarithm of the cumulative sum of `e^x` along an axis, without overflow.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist, or if the dtype is not floating-point.
    pub fn logcumsumexp(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        let name = "logcumsumexp";
        check_floating(name, self)?;
        let axis = axis.into().resolve(self.shape(), name)?;
        in_accumulator([self], |[x]| {
            let size = x.shape().dim(axis);
            let mut sums = x.clone();
            // Each step adds the sum that ends `distance` elements before.
            for distance in scan_steps(size) {
                let rest = size - distance;
                let grown = sums.narrow(axis, distance, rest)?.logaddexp(&sums.narrow(axis, 0, rest)?)?;
                sums = Tensor::concat(&[&sums.narrow(axis, 0, distance)?, &grown], axis)?;
            }
            // With a single element no sum was computed, and `sums` aliases the input.
            if sums.buffer().is(self.buffer()) { sums.copy() } else { Ok(sums) }
        })
    }
}

/// Returns `x - y`, and 0 for equal infinities.
fn difference(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    x.sub(y)?.masked_fill(&x.eq(y)?.logical_and(&x.abs()?.eq_scalar(f64::INFINITY)?)?, 0)
}

fn logaddexp2_value(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let smaller = difference(x, y)?.abs()?.neg()?.rpow_scalar(2)?;
    x.maximum(y)?.add(&smaller.log1p()?.div_scalar(LN_2)?)
}
