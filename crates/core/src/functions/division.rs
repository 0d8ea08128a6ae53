//! Division that is rounded to an integer, and its remainder with the sign of the dividend (C99,
//! 7.12.10.1). Quotients are piecewise constant: their gradients are 0 everywhere, including where
//! the quotient is infinite or NaN.

use super::{binary, check_broadcast, check_number, with_zero_gradient};
use crate::anomaly::in_function;
use crate::autograd::no_grad;
use crate::{Result, Tensor};

impl Tensor {
    /// Returns `floor(self / other)` of the exact, not of the rounded quotient, with broadcasting,
    /// like PyTorch's `floor_divide`. Floats divided by 0 are infinite or NaN, integers divided by
    /// 0 are 0.
    ///
    /// The gradients are 0.
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> their broadcast shape
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are bool, or if the shapes do not broadcast.
    pub fn floor_divide(&self, other: &Tensor) -> Result<Tensor> {
        quotient("floor_divide", self, other, floor_of_integers, floor_of_floats)
    }

    /// Returns `self / other` rounded toward zero, with broadcasting, like PyTorch's `div` with
    /// `rounding_mode="trunc"`. For floats the rounded quotient is truncated. Floats divided by 0
    /// are infinite or NaN, integers divided by 0 are 0.
    ///
    /// The gradients are 0.
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> their broadcast shape
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are bool, or if the shapes do not broadcast.
    pub fn trunc_divide(&self, other: &Tensor) -> Result<Tensor> {
        quotient("trunc_divide", self, other, Tensor::div, |a, b| a.div(b)?.trunc())
    }

    /// Returns `self - other * trunc(self / other)`, with broadcasting and without rounding error.
    /// The result has the sign of `self`. Floats modulo 0 are NaN, integers modulo 0 are 0.
    ///
    /// The gradient of `self` is 1. The gradient of `other` is the negative quotient rounded toward
    /// zero, which is infinite or NaN where `other` is 0, as in PyTorch.
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> their broadcast shape
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are bool, or if the shapes do not broadcast.
    pub fn fmod(&self, other: &Tensor) -> Result<Tensor> {
        if self.dtype().is_float() {
            let grads =
                [|a: &Tensor, _: &Tensor| a.detach().ones_like(), |a: &Tensor, b: &Tensor| b_grad(a, b)];
            return binary("fmod", [self, other], remainder_of_floats, grads);
        }
        check_number("fmod", self, other)?;
        check_broadcast("fmod", self, other)?;
        // The remainder of the floored quotient has the sign of the divisor. Subtracting the
        // divisor gives the remainder with the other sign, which is still smaller than the divisor
        // in magnitude, so nothing overflows.
        let remainder = self.remainder(other)?;
        let is_floor_lower = is_floor_lower(self, other, &remainder)?;
        is_floor_lower.where_(&remainder.sub(other)?, &remainder)
    }
}

/// A function of two tensors.
type BinaryFn = fn(&Tensor, &Tensor) -> Result<Tensor>;

/// Returns a quotient of integers, or of floats in their accumulation dtype. Its gradients are 0.
fn quotient(
    name: &'static str,
    a: &Tensor,
    b: &Tensor,
    of_integers: BinaryFn,
    of_floats: BinaryFn,
) -> Result<Tensor> {
    check_number(name, a, b)?;
    check_broadcast(name, a, b)?;
    if !a.dtype().is_float() {
        return of_integers(a, b);
    }
    let dtype = a.dtype().accumulator();
    let compute = || no_grad(|| of_floats(&a.to_dtype(dtype)?, &b.to_dtype(dtype)?)?.to_dtype(a.dtype()));
    let y = in_function(name, &[a, b], compute)?;
    with_zero_gradient(name, &[a, b], y)
}

/// Returns a mask of the elements whose remainder is not 0 and whose dividend and divisor have
/// different signs. For these, the floored quotient is one less than the quotient rounded toward
/// zero.
fn is_floor_lower(a: &Tensor, b: &Tensor, remainder: &Tensor) -> Result<Tensor> {
    let differ = a.lt_scalar(0)?.ne(&b.lt_scalar(0)?)?;
    remainder.ne_scalar(0)?.logical_and(&differ)
}

/// Integer division rounds toward zero. (`a - remainder` may overflow the dtype.)
fn floor_of_integers(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let is_floor_lower = is_floor_lower(a, b, &a.remainder(b)?)?;
    a.div(b)?.sub(&is_floor_lower.to_dtype(a.dtype())?)
}

/// The dividend minus its truncated remainder is a multiple of the divisor, so the quotient is
/// exact up to rounding. This also holds for an infinite divisor.
fn floor_of_floats(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let remainder = remainder_of_floats(a, b)?;
    let truncated = a.sub(&remainder)?.div(b)?.round()?;
    let is_floor_lower = is_floor_lower(a, b, &remainder)?;
    let floored = truncated.sub(&is_floor_lower.to_dtype(a.dtype())?)?;
    // A zero takes the sign of the quotient, which is finite there.
    let rounded = a.div(b)?;
    let floored = floored.eq_scalar(0)?.where_(&rounded.mul_scalar(0)?, &floored)?;
    b.eq_scalar(0)?.where_(&rounded, &floored)
}

/// Returns the remainder of the magnitudes, with the sign of the dividend.
fn remainder_of_floats(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let is_negative = a.lt_scalar(0)?;
    let remainder = is_negative.where_(&a.neg()?, a)?.remainder(&b.abs()?)?;
    let signed = is_negative.where_(&remainder.neg()?, &remainder)?;
    // Preserves the sign of -0. For 0 modulo 0 the remainder is NaN, so this does not apply.
    a.eq_scalar(0)?.logical_and(&remainder.eq_scalar(0)?)?.where_(a, &signed)
}

/// Returns the negative quotient rounded toward zero, detached from the graph.
fn b_grad(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (a, b) = (a.detach(), b.detach());
    let truncated = a.sub(&remainder_of_floats(&a, &b)?)?.div(&b)?.round()?;
    b.eq_scalar(0)?.where_(&a.div(&b)?, &truncated)?.neg()
}
