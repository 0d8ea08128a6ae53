//! Powers of 2, angles, powers in float64 and lengths of pairs, without intermediate overflow.

use super::{binary, check_broadcast, check_floating, in_accumulator};
use crate::anomaly::in_function;
use crate::autograd::no_grad;
use crate::error::{Error, Result};
use crate::{DType, Tensor};
use std::f64::consts::{LN_2, PI};

impl Tensor {
    /// Returns `self * 2^exponent`, with broadcasting. It is finite wherever the product is.
    /// Exponents are integers, or have the dtype of this tensor.
    ///
    /// The gradient is `dy * 2^exponent`; that of the exponent is `dy * y * ln(2)`.
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> their broadcast shape
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point, if the exponents are bool or of another
    /// floating-point dtype, or if the shapes do not broadcast.
    pub fn ldexp(&self, exponent: &Tensor) -> Result<Tensor> {
        let name = "ldexp";
        check_floating(name, self)?;
        if exponent.dtype() != self.dtype() && !exponent.dtype().is_int() {
            let expected = "an integer dtype, or that of the input";
            return Err(Error::dtype(name, "exponent", exponent.dtype(), expected));
        }
        check_broadcast(name, self, exponent)?;
        let product = |[x, exponent]: &[Tensor; 2]| mul_power_of_2(x, &exponent.to_dtype(x.dtype())?);
        in_function(name, &[self, exponent], || in_accumulator([self, exponent], product))
    }

    /// Splits each element into `mantissa * 2^exponent`. Mantissas have the sign of the element and
    /// a magnitude from 0.5 to below 1; exponents are i32. The exponent of zeros, infinities and
    /// NaN is 0.
    ///
    /// The gradient of the mantissa is `dy * 2^-exponent`; the exponent has none.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point.
    pub fn frexp(&self) -> Result<(Tensor, Tensor)> {
        check_floating("frexp", self)?;
        let exponent = no_grad(|| exponents(&self.to_dtype(self.dtype().accumulator())?))?;
        let exponent = exponent.to_dtype(DType::I32)?;
        Ok((self.ldexp(&exponent.neg()?)?, exponent))
    }

    /// Converts degrees to radians.
    ///
    /// The gradient is `pi / 180`.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point.
    pub fn deg2rad(&self) -> Result<Tensor> {
        check_floating("deg2rad", self)?;
        self.mul_scalar(PI / 180.0)
    }

    /// Converts radians to degrees.
    ///
    /// The gradient is `180 / pi`.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating-point.
    pub fn rad2deg(&self) -> Result<Tensor> {
        check_floating("rad2deg", self)?;
        self.mul_scalar(180.0 / PI)
    }

    /// Raises each element to a power in f64, with broadcasting. The result is f64.
    ///
    /// The gradients are those of [`pow`](Tensor::pow).
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> their broadcast shape
    ///
    /// # Errors
    /// Returns an error if the shapes do not broadcast, or if the device does not support f64.
    pub fn float_power(&self, exponent: &Tensor) -> Result<Tensor> {
        check_broadcast("float_power", self, exponent)?;
        self.to_dtype(DType::F64)?.pow(&exponent.to_dtype(DType::F64)?)
    }

    /// Returns `sqrt(self^2 + other^2)`, with broadcasting and without overflow. It is infinite
    /// where either is, even if the other is NaN (C99, 7.12.7.3).
    ///
    /// The gradients are `self / y` and `other / y`, and 0 at the origin.
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> their broadcast shape
    ///
    /// # Errors
    /// Returns an error if the dtypes differ or are not floating-point, or if the shapes do not
    /// broadcast.
    pub fn hypot(&self, other: &Tensor) -> Result<Tensor> {
        let grads = [|x: &Tensor, y: &Tensor| hypot_grad(x, y), |x: &Tensor, y: &Tensor| hypot_grad(y, x)];
        binary("hypot", [self, other], hypot_value, grads)
    }
}

/// Returns the largest exponent such that the dtype can represent the power of 2 and its
/// reciprocal.
fn max_exponent(dtype: DType) -> f64 {
    if dtype == DType::F64 { 1022.0 } else { 126.0 }
}

/// Returns `x * 2^exponent` by multiplying with three powers, the first one as large as the dtype
/// allows, so that a subnormal result is rounded once.
fn mul_power_of_2(x: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let limit = max_exponent(x.dtype());
    let (mut y, mut rest) = (x.clone(), exponent.clone());
    for _ in 0..3 {
        let part = rest.clamp(-limit, limit)?;
        rest = rest.sub(&part)?;
        y = y.mul(&part.rpow_scalar(2)?)?;
    }
    Ok(y)
}

/// Returns the exponents for [`Tensor::frexp`]. The logarithm may be rounded to the next integer,
/// so the exponent is corrected by the mantissa.
fn exponents(x: &Tensor) -> Result<Tensor> {
    let size = x.abs()?;
    let is_positive_finite = size.gt_scalar(0)?.logical_and(&size.lt_scalar(f64::INFINITY)?)?;
    let size = is_positive_finite.where_(&size, &size.scalar_like(1)?)?;
    let exponent = size.log()?.div_scalar(LN_2)?.floor()?.add_scalar(1)?;
    let mantissa = mul_power_of_2(&size, &exponent.neg()?)?;
    let above = mantissa.ge_scalar(1)?.to_dtype(x.dtype())?;
    let below = mantissa.lt_scalar(0.5)?.to_dtype(x.dtype())?;
    exponent.add(&above)?.sub(&below)?.masked_fill(&is_positive_finite.logical_not()?, 0)
}

/// Returns the larger magnitude of each pair, by which both are divided before they are squared.
/// Where it is 0 or infinite, returns 1.
fn common_unit(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let size = x.detach().abs()?.maximum(&y.detach().abs()?)?;
    let is_zero_or_infinite = size.eq_scalar(0)?.logical_or(&size.eq_scalar(f64::INFINITY)?)?;
    size.masked_fill(&is_zero_or_infinite, 1)
}

fn hypot_value(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let unit = common_unit(x, y)?;
    let ratio = x.div(&unit)?.square()?.add(&y.div(&unit)?.square()?)?.sqrt()?;
    let is_infinite = is_infinite(x)?.logical_or(&is_infinite(y)?)?;
    unit.mul(&ratio)?.masked_fill(&is_infinite, f64::INFINITY)
}

/// Returns `x / length(x, y)`, and 0 at the origin.
fn hypot_grad(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let unit = common_unit(x, y)?;
    let ratio = x.div(&unit)?;
    let square = ratio.square()?.add(&y.div(&unit)?.square()?)?;
    let is_origin = square.eq_scalar(0)?;
    ratio.div(&square.masked_fill(&is_origin, 1)?.sqrt()?)
}

fn is_infinite(x: &Tensor) -> Result<Tensor> {
    x.detach().abs()?.eq_scalar(f64::INFINITY)
}
