//! Signs (including those of zeros), the Heaviside step, and non-finite elements.

use super::{binary, check_broadcast};
use crate::op::check;
use crate::{DType, Result, Tensor};

impl Tensor {
    /// Returns the magnitude of each element with the sign of `other`, with broadcasting. The sign
    /// of zero counts; NaN counts as positive.
    ///
    /// The gradient is the sign by which the element was multiplied, and 0 for 0. The gradient of
    /// `other` is 0, as in PyTorch.
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> their broadcast shape
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are not floating-point, or if the shapes do not
    /// broadcast.
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

    /// Returns a bool tensor that is true where the sign is negative, including -0. It is false for
    /// NaN and bool.
    ///
    /// # Errors
    /// Returns an error if the allocation fails.
    pub fn signbit(&self) -> Result<Tensor> {
        match self.dtype() {
            DType::Bool => self.zeros_like(),
            dtype if dtype.is_int() => self.lt_scalar(0),
            _ => is_negative(&self.detach()),
        }
    }

    /// Returns 0 where an element is below 0, 1 where it is above, and `values` where it is 0, with
    /// broadcasting. For NaN it returns 0, as in PyTorch.
    ///
    /// The gradient is 0; that of `values` goes to the elements that were used.
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> their broadcast shape
    ///
    /// # Errors
    /// Returns an error if the dtypes differ, or if the shapes do not broadcast.
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

    /// Returns a bool tensor that is true where elements are positive infinity.
    ///
    /// # Errors
    /// Returns an error if the allocation fails.
    pub fn isposinf(&self) -> Result<Tensor> {
        is_infinity(self, f64::INFINITY)
    }

    /// Returns a bool tensor that is true where elements are negative infinity.
    ///
    /// # Errors
    /// Returns an error if the allocation fails.
    pub fn isneginf(&self) -> Result<Tensor> {
        is_infinity(self, f64::NEG_INFINITY)
    }

    /// Replaces NaN by `nan`, infinity by `posinf` and negative infinity by `neginf`. `None` stands
    /// for the largest or the smallest finite number of the dtype. Integer and bool tensors are
    /// copied.
    ///
    /// The gradient is that of the result, and 0 for elements that were replaced.
    ///
    /// # Errors
    /// Returns an error if the allocation fails.
    pub fn nan_to_num(&self, nan: f64, posinf: Option<f64>, neginf: Option<f64>) -> Result<Tensor> {
        if !self.dtype().is_float() {
            return self.copy();
        }
        let max = max_finite(self.dtype());
        let x = self.detach();
        self.masked_fill(&x.ne(&x)?, nan)?
            .masked_fill(&x.eq_scalar(f64::INFINITY)?, posinf.unwrap_or(max))?
            .masked_fill(&x.eq_scalar(f64::NEG_INFINITY)?, neginf.unwrap_or(-max))
    }
}

/// Returns a mask of the elements that are below 0 or are -0. The two zeros differ only in their
/// reciprocals.
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

/// Returns the largest finite number of a floating-point dtype.
fn max_finite(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65504.0,
        // 8 bits of precision, and the exponent range of f32.
        DType::BF16 => (2.0 - 2f64.powi(-7)) * 2f64.powi(127),
        DType::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    }
}
