//! Signs, also those of zero, the step at 0, and what is not finite.

use super::{binary, check_broadcast};
use crate::op::check;
use crate::{DType, Result, Tensor};

impl Tensor {
    /// The size of each element with the sign of `other`, broadcast; the sign of zero counts, that of NaN does not: it is positive.
    ///
    /// The gradient is the sign that the element was multiplied by, 0 of 0, and 0 of `other`, as in PyTorch.
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> the shape that they broadcast to
    ///
    /// # Errors
    /// Dtypes that differ or are not floating, shapes that do not broadcast.
    pub fn copysign(&self, other: &Tensor) -> Result<Tensor> {
        let grads = [
            |x: &Tensor, other: &Tensor| {
                let sign = x.detach().sign()?;
                is_negative(other)?.where_(&sign.neg()?, &sign)
            },
            |_: &Tensor, other: &Tensor| other.detach().zeros_like(),
        ];
        let value = |x: &Tensor, other: &Tensor| {
            let size = x.abs()?;
            is_negative(other)?.where_(&size.neg()?, &size)
        };
        binary("copysign", [self, other], value, grads)
    }

    /// Where the sign is negative, that of zero too: a tensor of bool. False of NaN and of truth values.
    ///
    /// # Errors
    /// No memory.
    pub fn signbit(&self) -> Result<Tensor> {
        match self.dtype() {
            DType::Bool => self.zeros_like(),
            dtype if dtype.is_int() => self.lt_scalar(0),
            _ => is_negative(&self.detach()),
        }
    }

    /// 0 below 0, 1 above, `values` at 0, broadcast; 0 of NaN, as in PyTorch.
    ///
    /// The gradient is 0, that of `values` goes to those that were taken.
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> the shape that they broadcast to
    ///
    /// # Errors
    /// Dtypes that differ, shapes that do not broadcast.
    pub fn heaviside(&self, values: &Tensor) -> Result<Tensor> {
        let name = "heaviside";
        check::same_dtype(name, &self.meta(), &values.meta())?;
        check_broadcast(name, self, values)?;
        let x = self.detach();
        if x.dtype() == DType::Bool {
            return x.logical_or(values);
        }
        x.eq_scalar(0)?.where_(values, &x.gt_scalar(0)?.to_dtype(x.dtype())?)
    }

    /// Where the elements are infinite and positive: a tensor of bool.
    ///
    /// # Errors
    /// No memory.
    pub fn isposinf(&self) -> Result<Tensor> {
        is_infinity(self, f64::INFINITY)
    }

    /// Where the elements are infinite and negative: a tensor of bool.
    ///
    /// # Errors
    /// No memory.
    pub fn isneginf(&self) -> Result<Tensor> {
        is_infinity(self, f64::NEG_INFINITY)
    }

    /// The elements, with `nan` in place of NaN, `posinf` in place of infinity and `neginf` in place of negative infinity; these are the largest and the smallest
    /// number of the dtype where they are `None`. Integers and truth values are copied.
    ///
    /// The gradient is that of the result, 0 of elements that were replaced.
    ///
    /// # Errors
    /// No memory.
    pub fn nan_to_num(&self, nan: f64, posinf: Option<f64>, neginf: Option<f64>) -> Result<Tensor> {
        if !self.dtype().is_float() {
            return self.copy();
        }
        let most = largest(self.dtype());
        let x = self.detach();
        self.masked_fill(&x.ne(&x)?, nan)?
            .masked_fill(&x.eq_scalar(f64::INFINITY)?, posinf.unwrap_or(most))?
            .masked_fill(&x.eq_scalar(f64::NEG_INFINITY)?, neginf.unwrap_or(-most))
    }
}

/// Below 0, or -0: of the two zeros only the reciprocals differ.
fn is_negative(x: &Tensor) -> Result<Tensor> {
    let is_negative_zero = x.eq_scalar(0)?.logical_and(&x.recip()?.lt_scalar(0)?)?;
    x.lt_scalar(0)?.logical_or(&is_negative_zero)
}

fn is_infinity(x: &Tensor, infinity: f64) -> Result<Tensor> {
    match x.dtype().is_float() {
        true => x.eq_scalar(infinity),
        false => Tensor::full(*x.shape(), false, DType::Bool, x.device()),
    }
}

/// The largest number of a floating dtype.
fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65504.0,
        // 8 bits of precision, and the exponents of f32.
        DType::BF16 => (2.0 - 2f64.powi(-7)) * 2f64.powi(127),
        DType::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    }
}
