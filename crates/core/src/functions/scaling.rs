//! Powers of 2, angles, powers in float64 and lengths of pairs, without overflow on the way.

use super::{binary, check_broadcast, check_floating, in_accumulator};
use crate::anomaly::in_function;
use crate::autograd::no_grad;
use crate::error::{Error, Result};
use crate::{DType, Tensor};
use std::f64::consts::{LN_2, PI};

impl Tensor {
    /// `self * 2^exponent`, broadcast; finite wherever the product is. Exponents are integers, or numbers of this tensor's dtype.
    ///
    /// The gradient is `dy * 2^exponent`, that of the exponent `dy * y * ln(2)`.
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> the shape that they broadcast to
    ///
    /// # Errors
    /// A dtype that is not floating, exponents of another floating dtype or bool, shapes that do not broadcast.
    pub fn ldexp(&self, exponent: &Tensor) -> Result<Tensor> {
        let name = "ldexp";
        check_floating(name, self)?;
        if exponent.dtype() != self.dtype() && !exponent.dtype().is_int() {
            let expected = "an integer dtype, or that of the input";
            return Err(Error::dtype(name, "exponent", exponent.dtype(), expected));
        }
        check_broadcast(name, self, exponent)?;
        let product = |[x, exponent]: &[Tensor; 2]| times_power(x, &exponent.to_dtype(x.dtype())?);
        in_function(name, &[self, exponent], || in_accumulator([self, exponent], product))
    }

    /// The parts of each element as `mantissa * 2^exponent`: mantissas from 0.5 to below 1, with the sign, and exponents in i32. Zeros, infinities and NaN have the
    /// exponent 0.
    ///
    /// The gradient of the mantissa is `dy * 2^-exponent`; the exponent has none.
    ///
    /// # Errors
    /// A dtype that is not floating.
    pub fn frexp(&self) -> Result<(Tensor, Tensor)> {
        check_floating("frexp", self)?;
        let exponent = no_grad(|| exponents(&self.to_dtype(self.dtype().accumulator())?))?;
        let exponent = exponent.to_dtype(DType::I32)?;
        Ok((self.ldexp(&exponent.neg()?)?, exponent))
    }

    /// Degrees as radians.
    ///
    /// The gradient is `pi / 180`.
    ///
    /// # Errors
    /// A dtype that is not floating.
    pub fn deg2rad(&self) -> Result<Tensor> {
        check_floating("deg2rad", self)?;
        self.mul_scalar(PI / 180.0)
    }

    /// Radians as degrees.
    ///
    /// The gradient is `180 / pi`.
    ///
    /// # Errors
    /// A dtype that is not floating.
    pub fn rad2deg(&self) -> Result<Tensor> {
        check_floating("rad2deg", self)?;
        self.mul_scalar(180.0 / PI)
    }

    /// Each element to a power, computed in f64, which the result has; broadcast.
    ///
    /// The gradients are those of [`pow`](Tensor::pow).
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> the shape that they broadcast to
    ///
    /// # Errors
    /// Shapes that do not broadcast, a device without f64.
    pub fn float_power(&self, exponent: &Tensor) -> Result<Tensor> {
        check_broadcast("float_power", self, exponent)?;
        self.to_dtype(DType::F64)?.pow(&exponent.to_dtype(DType::F64)?)
    }

    /// `sqrt(self^2 + other^2)`, broadcast, without overflow; infinite where either is, also beside NaN (C99, 7.12.7.3).
    ///
    /// The gradients are `self / y` and `other / y`, and 0 at the origin.
    ///
    /// # Shapes
    /// `[..]` and `[..]` -> the shape that they broadcast to
    ///
    /// # Errors
    /// Dtypes that differ or are not floating, shapes that do not broadcast.
    pub fn hypot(&self, other: &Tensor) -> Result<Tensor> {
        let grads = [|x: &Tensor, y: &Tensor| share(x, y), |x: &Tensor, y: &Tensor| share(y, x)];
        binary("hypot", [self, other], length, grads)
    }
}

/// The largest exponent of a power of 2 that a dtype holds with its reciprocal.
fn largest_exponent(dtype: DType) -> f64 {
    if dtype == DType::F64 { 1022.0 } else { 126.0 }
}

/// `x * 2^exponent` by three powers, the first as large as the dtype holds: a result among subnormal numbers is rounded once.
fn times_power(x: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let most = largest_exponent(x.dtype());
    let (mut y, mut rest) = (x.clone(), exponent.clone());
    for _ in 0..3 {
        let part = rest.clamp(-most, most)?;
        rest = rest.sub(&part)?;
        y = y.mul(&part.rpow_scalar(2)?)?;
    }
    Ok(y)
}

/// The exponents of the parts: the logarithm may be rounded to the next whole number, and the mantissa tells.
fn exponents(x: &Tensor) -> Result<Tensor> {
    let size = x.abs()?;
    let is_plain = size.gt_scalar(0)?.logical_and(&size.lt_scalar(f64::INFINITY)?)?;
    let size = is_plain.where_(&size, &size.scalar_like(1)?)?;
    let exponent = size.log()?.div_scalar(LN_2)?.floor()?.add_scalar(1)?;
    let mantissa = times_power(&size, &exponent.neg()?)?;
    let above = mantissa.ge_scalar(1)?.to_dtype(x.dtype())?;
    let below = mantissa.lt_scalar(0.5)?.to_dtype(x.dtype())?;
    exponent.add(&above)?.sub(&below)?.masked_fill(&is_plain.logical_not()?, 0)
}

/// The larger size of each pair, by which both are divided before they are squared; 1 of 0 and of infinity.
fn unit(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let size = x.detach().abs()?.maximum(&y.detach().abs()?)?;
    let is_useless = size.eq_scalar(0)?.logical_or(&size.eq_scalar(f64::INFINITY)?)?;
    size.masked_fill(&is_useless, 1)
}

fn length(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let unit = unit(x, y)?;
    let ratio = x.div(&unit)?.square()?.add(&y.div(&unit)?.square()?)?.sqrt()?;
    let is_infinite = is_infinite(x)?.logical_or(&is_infinite(y)?)?;
    unit.mul(&ratio)?.masked_fill(&is_infinite, f64::INFINITY)
}

/// `x / length(x, y)`, 0 at the origin.
fn share(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let unit = unit(x, y)?;
    let ratio = x.div(&unit)?;
    let square = ratio.square()?.add(&y.div(&unit)?.square()?)?;
    let is_origin = square.eq_scalar(0)?;
    ratio.div(&square.masked_fill(&is_origin, 1)?.sqrt()?)
}

fn is_infinite(x: &Tensor) -> Result<Tensor> {
    x.detach().abs()?.eq_scalar(f64::INFINITY)
}
