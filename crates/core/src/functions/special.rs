//! Functions of one element over the whole range of a dtype, each with a formula of its own for the gradient.
//!
//! A gradient through the formulas for the values would meet `inf / inf` where these have limits, and lose digits where they cancel.

use super::unary;
use crate::{DType, Result, Tensor};
use std::f64::consts::{LN_2, PI};

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $value:ident, $grad:expr;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// A dtype that is not floating.
                pub fn $name(&self) -> Result<Tensor> {
                    unary(stringify!($name), self, $value, $grad)
                }
            )*
        }
    };
}

functions! {
    /// The tangent of each element, in radians.
    tan: tangent, |x| x.tan()?.square()?.add_scalar(1);
    /// The angle of each element's sine, from -pi/2 to pi/2.
    asin: angle_of_sine, arc_grad;
    /// The angle of each element's cosine, from 0 to pi.
    acos: angle_of_cosine, |x| arc_grad(x)?.neg();
    /// The hyperbolic sine of each element.
    sinh: hyperbolic_sine, Tensor::cosh;
    /// The hyperbolic cosine of each element.
    cosh: hyperbolic_cosine, Tensor::sinh;
    /// The number whose hyperbolic sine each element is.
    asinh: area_of_sine, asinh_grad;
    /// The number of at least 0 whose hyperbolic cosine each element is; NaN below 1.
    acosh: area_of_cosine, |x| x.sub_scalar(1)?.rsqrt()?.mul(&x.add_scalar(1)?.rsqrt()?);
    /// The number whose hyperbolic tangent each element is; NaN outside -1 to 1.
    atanh: area_of_tangent, |x| x.rsub_scalar(1)?.mul(&x.add_scalar(1)?)?.recip();
    /// `1 - erf(x)` of each element, to the last digits where `erf(x)` is near 1.
    erfc: complement, |x| bell(x)?.mul_scalar(-2.0 / PI.sqrt());
}

/// `e^(-x^2)`.
fn bell(x: &Tensor) -> Result<Tensor> {
    unary("bell", x, bell_value, |x| bell(x)?.mul(&x.mul_scalar(-2)?))
}

fn tangent(x: &Tensor) -> Result<Tensor> {
    x.sin()?.div(&x.cos()?)
}

/// `sqrt(1 - x^2)`, by factors that are exact where it is small.
fn other_side(x: &Tensor) -> Result<Tensor> {
    x.rsub_scalar(1)?.mul(&x.add_scalar(1)?)?.sqrt()
}

fn angle_of_sine(x: &Tensor) -> Result<Tensor> {
    x.atan2(&other_side(x)?)
}

fn angle_of_cosine(x: &Tensor) -> Result<Tensor> {
    other_side(x)?.atan2(x)
}

/// `1 / sqrt(1 - x^2)`.
fn arc_grad(x: &Tensor) -> Result<Tensor> {
    x.rsub_scalar(1)?.mul(&x.add_scalar(1)?)?.rsqrt()
}

/// An odd function by what it is of `|x|`. Zeros keep their sign, NaN stays.
fn odd(x: &Tensor, of_size: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let found = of_size(&x.abs()?)?;
    let below = x.lt_scalar(0)?.where_(&found.neg()?, x)?;
    x.gt_scalar(0)?.where_(&found, &below)
}

/// `within`, but `e^size / 2` where `e^size` overflows and its half need not.
fn beyond(size: &Tensor, within: &Tensor) -> Result<Tensor> {
    let last = if size.dtype() == DType::F64 { 709 } else { 88 };
    let root = size.mul_scalar(0.5)?.exp()?;
    size.gt_scalar(last)?.where_(&root.mul_scalar(0.5)?.mul(&root)?, within)
}

/// `(e^x - e^-x) / 2` by `e^x - 1`, which is exact where the difference is small.
fn hyperbolic_sine(x: &Tensor) -> Result<Tensor> {
    odd(x, |size| {
        let grown = size.expm1()?;
        beyond(size, &grown.add(&grown.div(&grown.add_scalar(1)?)?)?.mul_scalar(0.5)?)
    })
}

fn hyperbolic_cosine(x: &Tensor) -> Result<Tensor> {
    let size = x.abs()?;
    let grown = size.exp()?;
    beyond(&size, &grown.add(&grown.recip()?)?.mul_scalar(0.5)?)
}

/// From here on `sqrt(x^2 + 1)` is x, in f64 too, and `x^2` has not yet overflowed in f32.
const LARGE: f64 = 1e8;

/// `near`, but `log(2 x)`, without overflow, where x is large.
fn logarithm_beyond(x: &Tensor, near: &Tensor) -> Result<Tensor> {
    x.gt_scalar(LARGE)?.where_(&x.log()?.add_scalar(LN_2)?, near)
}

/// `log(x + sqrt(x^2 + 1))`, with `sqrt(x^2 + 1) - 1 = x^2 / (sqrt(x^2 + 1) + 1)` where x is small.
fn area_of_sine(x: &Tensor) -> Result<Tensor> {
    odd(x, |size| {
        let square = size.square()?;
        let above_one = square.div(&square.add_scalar(1)?.sqrt()?.add_scalar(1)?)?;
        logarithm_beyond(size, &size.add(&above_one)?.log1p()?)
    })
}

/// `1 / sqrt(x^2 + 1)`, of parts that have finite gradients themselves wherever they are not taken.
fn asinh_grad(x: &Tensor) -> Result<Tensor> {
    let size = x.abs()?;
    let near = size.clamp(0.0, LARGE)?.square()?.add_scalar(1)?.rsqrt()?;
    size.gt_scalar(LARGE)?.where_(&size.maximum_scalar(1)?.recip()?, &near)
}

/// `log(x + sqrt(x^2 - 1))`, with `x - 1`, which is exact where x is near 1.
fn area_of_cosine(x: &Tensor) -> Result<Tensor> {
    let above_one = x.sub_scalar(1)?;
    let root = above_one.sqrt()?.mul(&x.add_scalar(1)?.sqrt()?)?;
    logarithm_beyond(x, &above_one.add(&root)?.log1p()?)
}

fn area_of_tangent(x: &Tensor) -> Result<Tensor> {
    x.log1p()?.sub(&x.neg()?.log1p()?)?.mul_scalar(0.5)
}

/// `e^(-x^2) = e^(-h^2) e^(-(x-h)(x+h))` with so few digits in h that its square is exact: rounded, it would be wrong by more than x^2 has digits.
fn bell_value(x: &Tensor) -> Result<Tensor> {
    let (largest, parts) = if x.dtype() == DType::F64 { (30.0, 1_048_576.0) } else { (16.0, 256.0) };
    let size = x.abs()?.clamp(0.0, largest)?;
    let high = size.mul_scalar(parts)?.floor()?.div_scalar(parts)?;
    let rest = size.sub(&high)?.mul(&size.add(&high)?)?;
    high.square()?.neg()?.exp()?.mul(&rest.neg()?.exp()?)
}

/// `(1 + 2x) e^(x^2) erfc(x)` for `0 <= x` as powers of `t = (x - 3.75) / (x + 3.75)`, from `t^0` on: the expansion of Shepherd and Laframboise
/// ("Chebyshev Approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity", Mathematics of Computation 36, 1981), its coefficients computed with 50 digits.
/// Relative error below 1e-16.
const SCALED: [f64; 26] = [
    1.2375126308378275,
    -0.14024059858554702,
    0.0035854154854644293,
    0.08227673849015102,
    -0.10880393014174886,
    0.09230432116019834,
    -0.05869339858963677,
    0.0283622774215156,
    -0.009746579558029276,
    0.0017556258324217529,
    0.0002937136655913448,
    -0.0002901539792898677,
    5.164909889268242e-05,
    2.2383912036550736e-05,
    -1.1444146237700573e-05,
    -9.728495822112503e-07,
    1.751637648849144e-06,
    -5.82628107878092e-08,
    -2.58668507161649e-07,
    2.4289762925284e-08,
    3.867533424228509e-08,
    -4.389284159851587e-09,
    -5.1739902140363326e-09,
    5.457157304192589e-10,
    4.251471444839978e-10,
    -3.75315827710474e-11,
];

/// The same with an error of 5e-9, for f32.
const SCALED_SHORT: [f64; 13] = [
    1.2375126300326993,
    -0.1402406583213864,
    0.00358549531406309,
    0.08227841998347046,
    -0.10880522754949953,
    0.09229076959130378,
    -0.05868544049363111,
    0.02840925236412726,
    -0.009770087183368234,
    0.001675912217981131,
    0.00033016745627228067,
    -0.00022411674674416022,
    2.2046718905694024e-05,
];

/// `1 - erf(x)` below 0.5, where it has all digits; else by [`SCALED`].
fn complement(x: &Tensor) -> Result<Tensor> {
    let coefficients: &[f64] = if x.dtype() == DType::F64 { &SCALED } else { &SCALED_SHORT };
    // Beyond, all is 0.
    let size = x.clamp(0.0, 30.0)?;
    let t = size.sub_scalar(3.75)?.div(&size.add_scalar(3.75)?)?;
    let mut sum = t.zeros_like()?;
    for &coefficient in coefficients.iter().rev() {
        sum = sum.mul(&t)?.add_scalar(coefficient)?;
    }
    let far = bell_value(&size)?.mul(&sum.div(&size.mul_scalar(2)?.add_scalar(1)?)?)?;
    x.lt_scalar(0.5)?.where_(&x.erf()?.rsub_scalar(1)?, &far)
}
