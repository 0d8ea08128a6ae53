//! Logarithms of sums of powers, whose gradients of every order are those of the formula, also where numbers are equal.

use super::indexing::reaches;
use super::{binary, check_floating, in_accumulator};
use crate::{Axis, Result, Tensor};
use std::f64::consts::LN_2;

impl Tensor {
    /// `log(e^self + e^other)`, broadcast, without overflow.
    ///
    /// # Errors
    /// Shapes that do not broadcast, dtypes that differ or are not floating.
    pub fn logaddexp(&self, other: &Tensor) -> Result<Tensor> {
        let grads =
            [|x: &Tensor, y: &Tensor| gap(x, y)?.sigmoid(), |x: &Tensor, y: &Tensor| gap(y, x)?.sigmoid()];
        binary(
            "logaddexp",
            [self, other],
            |x, y| x.maximum(y)?.add(&gap(x, y)?.abs()?.neg()?.exp()?.log1p()?),
            grads,
        )
    }

    /// `log2(2^self + 2^other)`, broadcast, without overflow.
    ///
    /// # Errors
    /// Shapes that do not broadcast, dtypes that differ or are not floating.
    pub fn logaddexp2(&self, other: &Tensor) -> Result<Tensor> {
        let grads = [
            |x: &Tensor, y: &Tensor| gap(x, y)?.mul_scalar(LN_2)?.sigmoid(),
            |x: &Tensor, y: &Tensor| gap(y, x)?.mul_scalar(LN_2)?.sigmoid(),
        ];
        binary("logaddexp2", [self, other], of_powers_of_2, grads)
    }

    /// The logarithm of the sum of `e^x` of the elements up to each along an axis, without overflow.
    ///
    /// # Errors
    /// An axis that does not exist, a dtype that is not floating.
    pub fn logcumsumexp(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        let name = "logcumsumexp";
        check_floating(name, self)?;
        let axis = axis.into().resolve(self.shape(), name)?;
        in_accumulator([self], |[x]| {
            let size = x.shape().dim(axis);
            let mut sums = x.clone();
            // Each step adds what lies as far back as the sums reach already.
            for reach in reaches(size) {
                let rest = size - reach;
                let grown = sums.narrow(axis, reach, rest)?.logaddexp(&sums.narrow(axis, 0, rest)?)?;
                sums = Tensor::concat(&[&sums.narrow(axis, 0, reach)?, &grown], axis)?;
            }
            // One element is its own sum, in memory of its own.
            if sums.buffer().is(self.buffer()) { sums.copy() } else { Ok(sums) }
        })
    }
}

/// `x - y`, 0 of equal infinities.
fn gap(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    x.sub(y)?.masked_fill(&x.eq(y)?.logical_and(&x.abs()?.eq_scalar(f64::INFINITY)?)?, 0)
}

fn of_powers_of_2(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let smaller = gap(x, y)?.abs()?.neg()?.rpow_scalar(2)?;
    x.maximum(y)?.add(&smaller.log1p()?.div_scalar(LN_2)?)
}
